// A team of threads that share the tasks of one call: OpenMP's threads if torch has loaded OpenMP, else its own. Which
// thread runs a task must never change its result.
#pragma once

#include <cstddef>
#include <functional>

namespace samovar {

// Runs task(0) ... task(count - 1) on up to `threads` threads, including the caller's, and returns when all are done.
// Task i goes to thread i % threads while that one keeps up: the same thread then finds a table's rows in its own cache
// in the forward and in the backward pass. The first exception is rethrown here.
void run_tasks(size_t count, unsigned threads, const std::function<void(size_t)>& task);

}  // namespace samovar
