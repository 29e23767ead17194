// XXH64, as the header defines it.
#include "samovar/hash.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "samovar/clones.h"

namespace samovar {

using namespace xxh64;

namespace {

template <typename Word>
inline Word load(const uint8_t* at) noexcept {
    Word word;
    std::memcpy(&word, at, sizeof word);
    return word;
}

inline void start_lanes(uint64_t* lanes, uint64_t seed) noexcept {
    lanes[0] = seed + P1 + P2;
    lanes[1] = seed + P2;
    lanes[2] = seed;
    lanes[3] = seed - P1;
}

// The lanes stay in four scalar registers: each waits for its last product, and a 64-bit product of vectors
// takes 15 cycles where a scalar one takes 3.
inline const uint8_t* eat_stripes(uint64_t* lanes, const uint8_t* at, size_t stripes) noexcept {
    uint64_t a = lanes[0], b = lanes[1], c = lanes[2], d = lanes[3];
    for (const uint8_t* end = at + stripes * STRIPE; at != end; at += STRIPE) {
        __builtin_prefetch(at + 1024);  // a third faster from memory; harmless past the end
        a = round(a, load<uint64_t>(at));
        b = round(b, load<uint64_t>(at + 8));
        c = round(c, load<uint64_t>(at + 16));
        d = round(d, load<uint64_t>(at + 24));
    }
    lanes[0] = a, lanes[1] = b, lanes[2] = c, lanes[3] = d;
    return at;
}

inline uint64_t merge_lanes(const uint64_t* lanes) noexcept {
    uint64_t h = rotl(lanes[0], 1) + rotl(lanes[1], 7) + rotl(lanes[2], 12) + rotl(lanes[3], 18);
    for (int i = 0; i < 4; ++i) h = (h ^ round(0, lanes[i])) * P1 + P4;
    return h;
}

inline uint64_t finish(uint64_t h, const uint8_t* tail, size_t size) noexcept {
    for (; size >= 8; tail += 8, size -= 8) h = add_word(h, load<uint64_t>(tail));
    if (size >= 4) {
        h = rotl(h ^ load<uint32_t>(tail) * P1, 23) * P2 + P3;
        tail += 4, size -= 4;
    }
    for (; size > 0; ++tail, --size) h = rotl(h ^ *tail * P5, 11) * P1;
    return avalanche(h);
}

inline uint64_t hash_one(const uint8_t* at, size_t size, uint64_t seed) noexcept {
    if (size < STRIPE) return finish(seed + P5 + size, at, size);
    uint64_t lanes[4];
    start_lanes(lanes, seed);
    at = eat_stripes(lanes, at, size / STRIPE);
    return finish(merge_lanes(lanes) + size, at, size % STRIPE);
}

template <typename Offset>
inline void hash_each(const Offset* offsets, const uint8_t* data, size_t n, uint64_t seed,
                      uint64_t* out) noexcept {
    for (size_t i = 0; i < n; ++i) {
        out[i] = hash_one(data + offsets[i], static_cast<size_t>(offsets[i + 1] - offsets[i]), seed);
    }
}

template <typename Offset>
void check_each(const Offset* offsets, size_t n, size_t size_bytes) {
    bool falls = false;
    for (size_t i = 0; i < n; ++i) falls |= offsets[i] > offsets[i + 1];
    if (falls) {
        size_t i = 0;
        while (offsets[i] <= offsets[i + 1]) ++i;
        throw std::invalid_argument("offsets: string " + std::to_string(i) + " starts at " +
                                    std::to_string(offsets[i]) + " and ends at " +
                                    std::to_string(offsets[i + 1]) + ", but offsets must not decrease");
    }
    if (offsets[0] < 0 || static_cast<uint64_t>(offsets[n]) > size_bytes) {
        throw std::invalid_argument("offsets: strings span bytes " + std::to_string(offsets[0]) + " to " +
                                    std::to_string(offsets[n]) + " of data that has only " +
                                    std::to_string(size_bytes));
    }
}

}  // namespace

uint64_t hash_bytes(const void* data, size_t size, uint64_t seed) noexcept {
    return hash_one(static_cast<const uint8_t*>(data), size, seed);
}

SAMOVAR_CLONED
void hash_integers(const uint64_t* in, size_t n, uint64_t seed, uint64_t* out) noexcept {
    for (size_t i = 0; i < n; ++i) out[i] = hash_integer(in[i], seed);
}

void hash_strings(const int32_t* offsets, const uint8_t* data, size_t n, uint64_t seed,
                  uint64_t* out) noexcept {
    hash_each(offsets, data, n, seed, out);
}

void hash_strings(const int64_t* offsets, const uint8_t* data, size_t n, uint64_t seed,
                  uint64_t* out) noexcept {
    hash_each(offsets, data, n, seed, out);
}

void check_offsets(const int32_t* offsets, size_t n, size_t size_bytes) {
    check_each(offsets, n, size_bytes);
}

void check_offsets(const int64_t* offsets, size_t n, size_t size_bytes) {
    check_each(offsets, n, size_bytes);
}

Hasher::Hasher(uint64_t seed) noexcept : seed_(seed) { start_lanes(lanes_, seed); }

void Hasher::update(const void* data, size_t size) noexcept {
    if (size == 0) return;  // data may be null then
    const uint8_t* at = static_cast<const uint8_t*>(data);
    size_ += size;
    if (buffered_ > 0) {
        const size_t taken = std::min(size, STRIPE - buffered_);
        std::memcpy(buffer_ + buffered_, at, taken);
        buffered_ += taken;
        if (buffered_ < STRIPE) return;
        eat_stripes(lanes_, buffer_, 1);
        at += taken, size -= taken;
    }
    at = eat_stripes(lanes_, at, size / STRIPE);
    buffered_ = size % STRIPE;
    std::memcpy(buffer_, at, buffered_);
}

uint64_t Hasher::digest() const noexcept {
    const uint64_t h = size_ < STRIPE ? seed_ + P5 : merge_lanes(lanes_);
    return finish(h + size_, buffer_, buffered_);
}

}  // namespace samovar
