#include "samovar/pages.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace samovar {

namespace {

constexpr size_t ALIGNMENT = 64;

}  // namespace

Pages::Pages(size_t bytes, bool lazy) : size_(bytes), is_mapped_(lazy || bytes >= HUGE_PAGE_BYTES) {
    if (bytes == 0) return;
    if (!is_mapped_) {
        data_ = static_cast<uint8_t*>(std::aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT));
        if (data_ == nullptr) throw std::bad_alloc();
        std::memset(data_, 0, bytes);
        return;
    }
    if (!lazy) size_ = (bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    const size_t slack = lazy ? 0 : HUGE_PAGE_BYTES;
    void* found = mmap(nullptr, size_ + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<uint8_t*>(found);
    if (lazy) return;
    const size_t before = -reinterpret_cast<uintptr_t>(data_) % HUGE_PAGE_BYTES;
    if (before > 0) munmap(data_, before);
    if (slack > before) munmap(data_ + before + size_, slack - before);
    data_ += before;
#ifdef MADV_HUGEPAGE
    madvise(data_, size_, MADV_HUGEPAGE);  // only advice: everything works without huge pages, but slower
#endif
}

Pages::~Pages() {
    if (is_mapped_) {
        munmap(data_, size_);
    } else {
        std::free(data_);
    }
}

void Pages::commit([[maybe_unused]] size_t offset, [[maybe_unused]] size_t bytes) noexcept {
#ifdef MADV_POPULATE_WRITE
    if (offset < size_) madvise(data_ + offset, bytes < size_ - offset ? bytes : size_ - offset, MADV_POPULATE_WRITE);
#endif
}

void Pages::release(size_t offset, size_t bytes) noexcept { madvise(data_ + offset, bytes, MADV_DONTNEED); }

Pages::Pages(Pages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      is_mapped_(std::exchange(other.is_mapped_, false)) {}

Pages& Pages::operator=(Pages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(is_mapped_, other.is_mapped_);
    return *this;
}

}  // namespace samovar
