// Zeroed memory straight from the system, on huge pages when it is large: a table of 26 million rows is read at
// random, and with small pages each read would also wait for the page tables.
#pragma once

#include <cstddef>
#include <cstdint>

namespace samovar {

constexpr size_t HUGE_PAGE_BYTES = size_t{2} << 20;

class Pages {
public:
    Pages() = default;
    // Throws std::bad_alloc. With `huge` false the memory is committed a small page at a time, on first touch.
    explicit Pages(size_t bytes, bool huge = true);
    ~Pages();
    Pages(Pages&& other) noexcept;
    Pages& operator=(Pages&& other) noexcept;

    // Gives memory back; it reads as zeros again.
    void release(size_t offset, size_t bytes) noexcept;

    uint8_t* data() const noexcept { return data_; }
    size_t size() const noexcept { return size_; }

private:
    uint8_t* data_ = nullptr;
    size_t size_ = 0;
};

}  // namespace samovar
