// A hash of words that nobody outside this process can predict, for tables in memory: ids come from files, and whoever
// knew the hash could choose ids that all meet in one place. Nothing that is stored or computed may depend on it.
#pragma once

#include <cstdint>

namespace samovar {

struct SeededHash {
    uint64_t first, second;  // odd

    // The high bits are the good ones.
    uint64_t operator()(uint64_t word) const noexcept {
        word *= first;
        return (word ^ word >> 32) * second;
    }

    // Drawn when the process first asks; then always the same.
    static const SeededHash& of_process();
};

}  // namespace samovar
