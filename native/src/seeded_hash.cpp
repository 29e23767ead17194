#include "samovar/seeded_hash.h"

#include <random>

namespace samovar {

const SeededHash& SeededHash::of_process() {
    static const SeededHash drawn = [] {
        std::random_device chance;
        const auto odd = [&chance] { return (uint64_t{chance()} << 32 | chance()) | 1; };
        return SeededHash{odd(), odd()};
    }();
    return drawn;
}

}  // namespace samovar
