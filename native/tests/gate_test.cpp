// A gate: close waits for the visits inside, and admits none afterwards.
#include "samovar/gate.h"

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

using samovar::Gate;

namespace {

void no_visit_is_inside_after_a_close() {
    for (int round = 0; round < 300; ++round) {
        Gate gate;
        int used = 1;  // not atomic: a sanitizer sees an access after the close
        std::atomic<int> num_visits{0};
        std::vector<std::thread> threads;
        for (int t = 0; t < 3; ++t) {
            threads.emplace_back([&] {
                try {
                    for (;;) {
                        const Gate::Visit visit(gate);
                        check(used == 1, "a visit was inside a closed gate");
                        ++num_visits;
                    }
                } catch (const std::runtime_error&) {
                    // closed
                }
            });
        }
        while (num_visits.load() < 3) std::this_thread::yield();
        gate.close();
        used = 0;
        for (std::thread& thread : threads) thread.join();
    }
}

void it_may_be_closed_twice() {
    Gate gate;
    gate.close();
    gate.close();
}

}  // namespace

int main() {
    no_visit_is_inside_after_a_close();
    it_may_be_closed_twice();
    std::puts("2 tests passed");
}
