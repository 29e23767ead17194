// XXH64 of bytes, integers and strings. Knows neither what the values mean nor Python.
//
// These values never change: ids, splits, shards and checksums in every file format depend on them.
// The algorithm is the public XXH64; all sums and products are modulo 2^64, words little-endian.
//
//   size >= 32   lanes = [seed + P1 + P2, seed + P2, seed, seed - P1]
//                each stripe of four words: lane[i] = round(lane[i], word[i])
//                h = sum of rotl(lane[i], {1, 7, 12, 18}[i])
//                then for each lane: h = (h ^ round(0, lane)) * P1 + P4
//   size < 32    h = seed + P5
//   h += size
//   the tail     8 bytes: h = rotl(h ^ round(0, word), 27) * P1 + P4
//                4 bytes: h = rotl(h ^ word * P1, 23) * P2 + P3
//                1 byte:  h = rotl(h ^ byte * P5, 11) * P1
//   the end      h ^= h >> 33; h *= P2; h ^= h >> 29; h *= P3; h ^= h >> 32
//
//   round(lane, word) = rotl(lane + word * P2, 31) * P1
#pragma once

#include <cstddef>
#include <cstdint>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "samovar: words are read in the machine's byte order, which must be little-endian"
#endif

namespace samovar {

namespace xxh64 {

constexpr uint64_t P1 = 0x9E3779B185EBCA87;
constexpr uint64_t P2 = 0xC2B2AE3D27D4EB4F;
constexpr uint64_t P3 = 0x165667B19E3779F9;
constexpr uint64_t P4 = 0x85EBCA77C2B2AE63;
constexpr uint64_t P5 = 0x27D4EB2F165667C5;
constexpr size_t STRIPE = 32;

inline uint64_t rotl(uint64_t word, int bits) noexcept { return (word << bits) | (word >> (64 - bits)); }

inline uint64_t round(uint64_t lane, uint64_t word) noexcept { return rotl(lane + word * P2, 31) * P1; }

inline uint64_t add_word(uint64_t h, uint64_t word) noexcept {
    return rotl(h ^ round(0, word), 27) * P1 + P4;
}

inline uint64_t avalanche(uint64_t h) noexcept {
    h = (h ^ (h >> 33)) * P2;
    h = (h ^ (h >> 29)) * P3;
    return h ^ (h >> 32);
}

}  // namespace xxh64

uint64_t hash_bytes(const void* data, size_t size, uint64_t seed) noexcept;

// The hash of an integer is the hash of its eight little-endian bytes.
inline uint64_t hash_integer(uint64_t value, uint64_t seed) noexcept {
    return xxh64::avalanche(xxh64::add_word(seed + xxh64::P5 + sizeof value, value));
}

void hash_integers(const uint64_t* in, size_t n, uint64_t seed, uint64_t* out) noexcept;

// Arrow's layout: string i is the bytes of `data` from offsets[i] to offsets[i + 1]; there are n + 1 offsets.
void hash_strings(const int32_t* offsets, const uint8_t* data, size_t n, uint64_t seed,
                  uint64_t* out) noexcept;
void hash_strings(const int64_t* offsets, const uint8_t* data, size_t n, uint64_t seed,
                  uint64_t* out) noexcept;

// Throws std::invalid_argument unless the n + 1 offsets start at 0 or later, never decrease, and end within the data.
void check_offsets(const int32_t* offsets, size_t n, size_t size_bytes);
void check_offsets(const int64_t* offsets, size_t n, size_t size_bytes);

// hash_bytes of everything passed to update, for data that is never in memory as a whole.
class Hasher {
public:
    explicit Hasher(uint64_t seed) noexcept;
    void update(const void* data, size_t size) noexcept;
    uint64_t digest() const noexcept;

private:
    uint64_t seed_;
    uint64_t lanes_[4];
    uint64_t size_ = 0;
    size_t buffered_ = 0;  // always less than a stripe between calls
    uint8_t buffer_[xxh64::STRIPE];
};

}  // namespace samovar
