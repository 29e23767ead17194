#include "samovar/distinct.h"

#include <algorithm>

namespace samovar {

size_t Distinct::find(const uint64_t* words, size_t n, uint64_t* distinct, uint32_t* positions) {
    unsigned log2 = 6;
    while ((size_t{1} << log2) < 4 * n) ++log2;
    const size_t size = size_t{1} << log2;
    if (slots_.size() < size) slots_.resize(size);
    std::fill_n(slots_.begin(), size, 0u);
    uint32_t* slots = slots_.data();
    uint32_t count = 0;
    for (size_t i = 0; i < n; ++i) {
        const uint64_t word = words[i];
        size_t slot = (word ^ word >> 32) * 0x9E3779B97F4A7C15 >> (64 - log2);
        uint32_t place = slots[slot];
        // Whether a word is new is unpredictable, so it is no branch; a collision is rare, so it is one.
        uint32_t found = place != 0 ? place - 1 : count;
        while (__builtin_expect((place != 0) & (distinct[found] != word), 0)) {
            slot = (slot + 1) & (size - 1);
            place = slots[slot];
            found = place != 0 ? place - 1 : count;
        }
        slots[slot] = found + 1;
        distinct[found] = word;
        positions[i] = found;
        count += place == 0;
    }
    return count;
}

}  // namespace samovar
