// Zeroed memory. A large piece comes straight from the system, on huge pages: a table of 26 million rows is read at
// random, and with small pages each read would also wait for the page tables. A small piece comes from the heap:
// mapping and unmapping stops all threads for a moment, and young tables grow often.
#pragma once

#include <cstddef>
#include <cstdint>

namespace samovar {

constexpr size_t HUGE_PAGE_BYTES = size_t{2} << 20;

class Pages {
public:
    Pages() = default;
    // Throws std::bad_alloc. With `lazy` the memory is committed one small page at a time, on first touch.
    explicit Pages(size_t bytes, bool lazy = false);
    ~Pages();
    Pages(Pages&& other) noexcept;
    Pages& operator=(Pages&& other) noexcept;

    // Commits a part of a lazy piece at once, which is cheaper than a page fault for each of its pages.
    void commit(size_t offset, size_t bytes) noexcept;
    // Returns a part of a large piece to the system; it reads as zeros again.
    void release(size_t offset, size_t bytes) noexcept;

    uint8_t* data() const noexcept { return data_; }
    size_t size() const noexcept { return size_; }

private:
    uint8_t* data_ = nullptr;
    size_t size_ = 0;
    bool is_mapped_ = false;
};

}  // namespace samovar
