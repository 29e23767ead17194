// Blocks of memory that are reused, so that a minibatch's arena costs no page faults. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace samovar {

class BlockPool {
public:
    explicit BlockPool(size_t kept_bytes) : kept_bytes_(kept_bytes) {}
    ~BlockPool();
    BlockPool(const BlockPool&) = delete;
    BlockPool& operator=(const BlockPool&) = delete;

    struct Block {
        uint8_t* data;
        size_t capacity;
    };

    // At least `size` bytes, aligned to 64; not zeroed. Throws std::bad_alloc.
    Block take(size_t size);
    void give_back(Block block) noexcept;

private:
    std::mutex mutex_;
    std::vector<Block> free_;
    size_t free_bytes_ = 0;
    size_t kept_bytes_;
};

}  // namespace samovar
