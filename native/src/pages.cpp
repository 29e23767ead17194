#include "samovar/pages.h"

#include <sys/mman.h>

#include <new>
#include <utility>

namespace samovar {

Pages::Pages(size_t bytes, bool huge) : size_(bytes) {
    if (bytes == 0) return;
    huge = huge && bytes >= HUGE_PAGE_BYTES;
    if (huge) size_ = (bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    const size_t slack = huge ? HUGE_PAGE_BYTES : 0;
    void* found = mmap(nullptr, size_ + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<uint8_t*>(found);
    if (!huge) return;
    const size_t before = -reinterpret_cast<uintptr_t>(data_) % HUGE_PAGE_BYTES;
    if (before > 0) munmap(data_, before);
    if (slack > before) munmap(data_ + before + size_, slack - before);
    data_ += before;
#ifdef MADV_HUGEPAGE
    madvise(data_, size_, MADV_HUGEPAGE);  // a wish: without huge pages all works, slower
#endif
}

Pages::~Pages() {
    if (data_ != nullptr) munmap(data_, size_);
}

void Pages::release(size_t offset, size_t bytes) noexcept { madvise(data_ + offset, bytes, MADV_DONTNEED); }

Pages::Pages(Pages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Pages& Pages::operator=(Pages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

}  // namespace samovar
