// Embedding rows as floats that never move: chunks of memory, rows addressed by number. Thread-safe where it says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "samovar/pages.h"

namespace samovar {

class Rows {
public:
    static constexpr uint32_t BLOCK = 16;  // rows that are taken at a time

    explicit Rows(size_t width);

    size_t width() const noexcept { return width_; }
    float* at(uint32_t number) const noexcept {
        return chunk(number >> shift_) + static_cast<size_t>(number & mask_) * stride_;
    }
    // The number of the first of BLOCK fresh rows; thread-safe. Throws std::bad_alloc or std::length_error.
    uint32_t take_block();
    size_t size_bytes() const noexcept { return bytes_; }

private:
    static constexpr size_t MAX_CHUNKS = size_t{1} << 16;

    float*& chunk(size_t number) const noexcept { return reinterpret_cast<float**>(directory_.data())[number]; }

    size_t width_;
    size_t stride_;  // floats from one row to the next
    unsigned shift_;
    uint32_t mask_;
    Pages directory_;  // the chunks' addresses; does not move while other threads read it
    std::mutex mutex_;
    std::vector<Pages> chunks_;
    uint64_t next_ = 0;
    size_t bytes_ = 0;
    size_t committed_ = 0;  // of the first chunk
};

}  // namespace samovar
