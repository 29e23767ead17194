// The distinct words of a list in order of first occurrence, and the place of each word among them. The hash table of a
// usual minibatch fits into the L2 cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "samovar/seeded_hash.h"

namespace samovar {

class Distinct {
public:
    // `distinct` has room for n words; positions[i] is the place of words[i] in it. Returns how many are distinct.
    size_t find(const uint64_t* words, size_t n, uint64_t* distinct, uint32_t* positions);
    // Whether no word occurs twice.
    bool are_distinct(const uint64_t* words, size_t n);

private:
    uint32_t* clear(unsigned log2);

    SeededHash hash_ = SeededHash::of_process();
    std::vector<uint32_t> slots_;  // place + 1, or 0
};

}  // namespace samovar
