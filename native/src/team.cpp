#include "samovar/team.h"

#include <dlfcn.h>
#include <pthread.h>
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
constexpr int SPINS = 1500;  // about 50 microseconds, as long as waking a sleeping thread takes

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
    std::vector<Queue> queues;
    std::mutex mutex;
    std::exception_ptr error;

    Job(size_t count, unsigned threads, const std::function<void(size_t)>* task)
        : count(count), threads(threads), task(task), queues(threads) {}

    // The tasks of thread `self`, then those that other threads have not started.
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

// The threads of libgomp, if torch has loaded it: they are awake between two operations of torch, and a second team
// would compete with them for the cores. Not used in a forked child: the parent's threads do not exist there, and
// libgomp would wait for them indefinitely.
class OpenMp {
public:
    OpenMp() { pthread_atfork(nullptr, nullptr, [] { is_forked_ = true; }); }

    bool is_there() {
        if (is_forked_) return false;
        if (parallel_ == nullptr) {
            thread_number_ = reinterpret_cast<ThreadNumber>(dlsym(RTLD_DEFAULT, "omp_get_thread_num"));
            if (thread_number_ != nullptr) parallel_ = reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
        }
        return parallel_ != nullptr;
    }

    // There may be fewer than requested: those that exist do all tasks.
    void run(Job& job) {
        Share share{&job, thread_number_};
        parallel_(&work, &share, job.threads, 0);
    }

private:
    using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
    using ThreadNumber = int (*)();
    struct Share {
        Job* job;
        ThreadNumber thread_number;
    };

    static void work(void* data) {
        const Share& share = *static_cast<Share*>(data);
        share.job->work(static_cast<unsigned>(share.thread_number()));
    }

    static inline bool is_forked_ = false;
    Parallel parallel_ = nullptr;
    ThreadNumber thread_number_ = nullptr;
};

// Its own threads, if there is no OpenMP.
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

private:
    void serve(unsigned self, size_t seen) {
        for (;;) {
            const auto has_begun = [&] { return round_.load(std::memory_order_acquire) != seen; };
            for (int spin = 0; spin < SPINS && !has_begun(); ++spin) pause();
            if (!has_begun()) {
                std::unique_lock<std::mutex> lock(mutex_);
                woken_.wait(lock, has_begun);
            }
            ++seen;
            if (self < job_->threads) job_->work(self);
            unfinished_.fetch_sub(1, std::memory_order_release);
        }
    }

    std::mutex mutex_;
    std::condition_variable woken_;
    std::atomic<size_t> round_{0};
    std::atomic<unsigned> unfinished_{0};
    Job* job_ = nullptr;
    unsigned workers_ = 0;
};

// Never destroyed: its threads live until the process ends. A forked child has none of them and starts its own.
std::mutex team_mutex;
OpenMp openmp;
Team* team = nullptr;
pid_t team_process = 0;

}  // namespace

void run_tasks(size_t count, unsigned threads, const std::function<void(size_t)>& task) {
    threads = std::min(threads, MAX_THREADS);
    std::unique_lock<std::mutex> lock(team_mutex, std::defer_lock);
    if (threads <= 1 || count <= 1 || !lock.try_lock()) {  // the team is busy: do the tasks alone
        for (size_t i = 0; i < count; ++i) task(i);
        return;
    }
    Job job(count, threads, &task);
    if (openmp.is_there()) {
        openmp.run(job);
    } else {
        if (team_process != getpid()) {
            team = new Team;
            team_process = getpid();
        }
        team->run(job);
    }
    if (job.error) std::rethrow_exception(job.error);
}

}  // namespace samovar
