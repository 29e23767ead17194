#include "samovar/team.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace samovar {

namespace {

constexpr unsigned MAX_THREADS = 256;
// A sleeper takes 50 microseconds to wake and its waker 25, so who is needed soon stays awake: about 50 microseconds
// without a word, and 500 if more tasks are to come.
constexpr int SPINS = 1500;
constexpr int SPINS_FOR_MORE = 15000;

inline void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
}

struct alignas(64) Queue {
    std::atomic<size_t> taken{0};
};

struct Job {
    size_t count;
    unsigned threads;
    const std::function<void(size_t)>* task;
    Then then;
    std::vector<Queue> queues;
    std::mutex mutex;
    std::exception_ptr error;

    Job(size_t count, unsigned threads, const std::function<void(size_t)>* task, Then then)
        : count(count), threads(threads), task(task), then(then), queues(threads) {}

    // The tasks of thread `self`, then what the others have left.
    void work(unsigned self) noexcept {
        for (unsigned k = 0; k < threads; ++k) {
            const unsigned owner = (self + k) % threads;
            for (;;) {
                const size_t i = queues[owner].taken.fetch_add(1, std::memory_order_relaxed) * threads + owner;
                if (i >= count) break;
                try {
                    (*task)(i);
                } catch (...) {
                    std::lock_guard<std::mutex> guard(mutex);
                    if (!error) error = std::current_exception();
                }
            }
        }
    }
};

class Team {
public:
    void run(Job& job) {
        while (workers_ + 1 < job.threads) {
            std::thread(&Team::serve, this, workers_ + 1, round_.load()).detach();
            ++workers_;
        }
        job_ = &job;
        unfinished_.store(workers_, std::memory_order_relaxed);
        {
            std::lock_guard<std::mutex> guard(mutex_);
            round_.fetch_add(1, std::memory_order_release);
        }
        woken_.notify_all();
        job.work(0);
        for (int spin = 0; unfinished_.load(std::memory_order_acquire) != 0; ++spin) {
            if (spin < SPINS) {
                pause();
            } else {
                std::this_thread::yield();
            }
        }
    }

    void rouse() {
        {
            std::lock_guard<std::mutex> guard(mutex_);
            ++alarms_;
        }
        woken_.notify_all();
    }

private:
    void serve(unsigned self, size_t seen) {
        int spins = SPINS;
        for (;;) {
            size_t alarms = alarms_.load(std::memory_order_relaxed);
            while (!sees_more_than(seen, spins)) {
                std::unique_lock<std::mutex> lock(mutex_);
                woken_.wait(lock, [&] { return round_.load(std::memory_order_acquire) != seen || alarms_ != alarms; });
                alarms = alarms_;
                spins = SPINS_FOR_MORE;
            }
            ++seen;
            if (self < job_->threads) job_->work(self);
            spins = job_->then == Then::MORE ? SPINS_FOR_MORE : SPINS;
            unfinished_.fetch_sub(1, std::memory_order_release);
        }
    }

    // Whether a round began; waits for one awake.
    bool sees_more_than(size_t seen, int spins) const noexcept {
        for (int spin = 0; spin < spins && round_.load(std::memory_order_acquire) == seen; ++spin) pause();
        return round_.load(std::memory_order_acquire) != seen;
    }

    std::mutex mutex_;
    std::condition_variable woken_;
    std::atomic<size_t> round_{0};
    std::atomic<size_t> alarms_{0};
    std::atomic<unsigned> unfinished_{0};
    Job* job_ = nullptr;
    unsigned workers_ = 0;
};

// Never destroyed: its threads live until the process ends. A forked child has none of them and makes its own.
std::mutex team_mutex;
Team* team = nullptr;
pid_t team_process = 0;

}  // namespace

void run_tasks(size_t count, unsigned threads, const std::function<void(size_t)>& task, Then then) {
    threads = static_cast<unsigned>(std::min<size_t>({threads, count, MAX_THREADS}));
    std::unique_lock<std::mutex> lock(team_mutex, std::defer_lock);
    if (threads <= 1 || !lock.try_lock()) {  // another call has the team: this one does its tasks alone
        for (size_t i = 0; i < count; ++i) task(i);
        return;
    }
    if (team_process != getpid()) {
        team = new Team;
        team_process = getpid();
    }
    Job job(count, threads, &task, then);
    team->run(job);
    if (job.error) std::rethrow_exception(job.error);
}

void rouse_team() {
    std::unique_lock<std::mutex> lock(team_mutex, std::try_to_lock);
    if (lock && team != nullptr && team_process == getpid()) team->rouse();
}

}  // namespace samovar
