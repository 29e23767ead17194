#include "samovar/rows.h"

#include <stdexcept>

namespace samovar {

namespace {

constexpr size_t CHUNK_BYTES = size_t{4} << 20;  // at least; less than twice that

constexpr size_t COMMIT_BYTES = size_t{128} << 10;

// A row of up to four floats is packed; a longer one starts at a multiple of 16 bytes.
size_t stride_of(size_t width) { return width <= 4 ? width : (width + 3) / 4 * 4; }

}  // namespace

Rows::Rows(size_t width)
    : width_(width), stride_(stride_of(width)), directory_(MAX_CHUNKS * sizeof(float*), /*lazy=*/true) {
    shift_ = 4;
    while ((stride_ * sizeof(float) << shift_) < CHUNK_BYTES) ++shift_;
    mask_ = (uint32_t{1} << shift_) - 1;
}

uint32_t Rows::take_block() {
    std::lock_guard<std::mutex> guard(mutex_);
    const size_t number = next_ >> shift_;
    if (number >= MAX_CHUNKS || next_ + BLOCK > UINT32_MAX - 2) {
        throw std::length_error("hash table: full, with " + std::to_string(next_) + " embedding rows");
    }
    if (number == chunks_.size()) {
        // The first chunk is on small pages, so that a table of a few rows takes little memory.
        chunks_.emplace_back(stride_ * sizeof(float) << shift_, /*lazy=*/number == 0);
        chunk(number) = reinterpret_cast<float*>(chunks_.back().data());
        bytes_ += chunks_.back().size();
    }
    const size_t offset = (next_ & mask_) * stride_ * sizeof(float);
    if (number == 0 && offset + COMMIT_BYTES / 2 > committed_) {
        chunks_[0].commit(committed_, COMMIT_BYTES);
        committed_ += COMMIT_BYTES;
    }
    const auto first = static_cast<uint32_t>(next_);
    next_ += BLOCK;
    return first;
}

}  // namespace samovar
