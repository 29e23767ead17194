// A gate around work that must not continue after a close: `close` waits for the visits inside and admits no more.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <stdexcept>

namespace samovar {

class Gate {
public:
    // Inside the gate while it exists. Throws std::runtime_error when the gate is closed.
    class Visit {
    public:
        explicit Visit(Gate& gate) : gate_(gate) {
            std::lock_guard<std::mutex> guard(gate_.mutex_);
            if (gate_.is_closed_) throw std::runtime_error("closed");
            ++gate_.num_inside_;
        }
        ~Visit() {
            std::lock_guard<std::mutex> guard(gate_.mutex_);
            if (--gate_.num_inside_ == 0) gate_.left_.notify_all();
        }
        Visit(const Visit&) = delete;
        Visit& operator=(const Visit&) = delete;

    private:
        Gate& gate_;
    };

    void close() {
        std::unique_lock<std::mutex> lock(mutex_);
        is_closed_ = true;
        left_.wait(lock, [this] { return num_inside_ == 0; });
    }

private:
    std::mutex mutex_;
    std::condition_variable left_;
    size_t num_inside_ = 0;
    bool is_closed_ = false;
};

}  // namespace samovar
