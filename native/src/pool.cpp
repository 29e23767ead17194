#include "samovar/pool.h"

#include <cstdlib>
#include <new>

namespace samovar {

BlockPool::~BlockPool() {
    for (const Block& block : free_) std::free(block.data);
}

BlockPool::Block BlockPool::take(size_t size) {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        for (size_t i = free_.size(); i-- > 0;) {
            if (free_[i].capacity < size || free_[i].capacity / 4 > size + 4096) continue;
            const Block block = free_[i];
            free_[i] = free_.back();
            free_.pop_back();
            free_bytes_ -= block.capacity;
            return block;
        }
    }
    const size_t capacity = (size + size / 8 + 4096) / 64 * 64;  // some slack, so that the next minibatch fits too
    auto* data = static_cast<uint8_t*>(std::aligned_alloc(64, capacity));
    if (data == nullptr) throw std::bad_alloc();
    return {data, capacity};
}

void BlockPool::give_back(Block block) noexcept {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (free_bytes_ + block.capacity <= kept_bytes_ && free_.size() < free_.capacity()) {
            free_.push_back(block);
            free_bytes_ += block.capacity;
            return;
        }
        if (free_bytes_ + block.capacity <= kept_bytes_) {
            try {
                free_.reserve(free_.size() * 2 + 16);
                free_.push_back(block);
                free_bytes_ += block.capacity;
                return;
            } catch (const std::bad_alloc&) {
                // no memory for the list: free the block
            }
        }
    }
    std::free(block.data);
}

}  // namespace samovar
