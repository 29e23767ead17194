#include "samovar/distinct.h"

#include <algorithm>

namespace samovar {

namespace {

// Slots for a load of at most a quarter.
unsigned slots_for(size_t n) {
    unsigned log2 = 6;
    while ((size_t{1} << log2) < 4 * n) ++log2;
    return log2;
}

}  // namespace

uint32_t* Distinct::clear(unsigned log2) {
    const size_t size = size_t{1} << log2;
    if (slots_.size() < size) slots_.resize(size);
    std::fill_n(slots_.begin(), size, 0u);
    return slots_.data();
}

size_t Distinct::find(const uint64_t* words, size_t n, uint64_t* distinct, uint32_t* positions) {
    const unsigned log2 = slots_for(n);
    const size_t size = size_t{1} << log2;
    uint32_t* slots = clear(log2);
    const SeededHash hash = hash_;
    uint32_t count = 0;
    for (size_t i = 0; i < n; ++i) {
        const uint64_t word = words[i];
        size_t slot = hash(word) >> (64 - log2);
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

bool Distinct::are_distinct(const uint64_t* words, size_t n) {
    const unsigned log2 = slots_for(n);
    const size_t size = size_t{1} << log2;
    uint32_t* slots = clear(log2);
    const SeededHash hash = hash_;
    for (size_t i = 0; i < n; ++i) {
        size_t slot = hash(words[i]) >> (64 - log2);
        while (__builtin_expect(slots[slot] != 0, 0)) {
            if (words[slots[slot] - 1] == words[i]) return false;
            slot = (slot + 1) & (size - 1);
        }
        slots[slot] = static_cast<uint32_t>(i + 1);
    }
    return true;
}

}  // namespace samovar
