// A team of threads that share the tasks of one call: those of OpenMP where torch has brought it, else its own. Which
// thread does a task must never change what it does.
#pragma once

#include <cstddef>
#include <functional>

namespace samovar {

// Runs task(0) ... task(count - 1) on up to `threads` threads, the caller's among them, and returns when all are
// done. Task i goes to thread i % threads while that one keeps up: the same thread then finds a table's rows in its
// own cache in the forward and in the backward pass. The first exception is thrown again here.
void run_tasks(size_t count, unsigned threads, const std::function<void(size_t)>& task);

}  // namespace samovar
