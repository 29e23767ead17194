// hash.h: golden values made with the public xxhash package, and every way to feed the same bytes.
#include "samovar/hash.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.h"

using namespace samovar;

namespace {

constexpr uint64_t SEEDS[] = {0, UINT64_MAX, xxh64::P1};
constexpr size_t LONGEST = 200;

std::vector<uint8_t> sample(size_t size) {
    std::vector<uint8_t> bytes(size);
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 2654435761u >> 24);
    return bytes;
}

void known_texts_have_their_golden_hashes() {
    const struct {
        const char* text;
        uint64_t hashes[3];  // seeds 0, 1, 2^64 - 1
    } golden[] = {
        {"", {0xef46db3751d8e999, 0xd5afba1336a3be4b, 0x298f4c84b24f5380}},
        {"a", {0xd24ec4f1a98c6e5b, 0xdec2bc81c3cd46c6, 0x60c43759873ece62}},
        {"abc", {0x44bc2cf5ad770999, 0xbea9ca8199328908, 0x28306e589cc02176}},
        {"самовар", {0x6164f77d3bec09b4, 0x21445689860571ec, 0x8447593960405f6d}},
    };
    for (const auto& row : golden) {
        const size_t size = std::strlen(row.text);
        check(hash_bytes(row.text, size, 0) == row.hashes[0], std::string("seed 0: ") + row.text);
        check(hash_bytes(row.text, size, 1) == row.hashes[1], std::string("seed 1: ") + row.text);
        check(hash_bytes(row.text, size, UINT64_MAX) == row.hashes[2], std::string("last seed: ") + row.text);
    }
    check(hash_bytes(nullptr, 0, 0) == 0xef46db3751d8e999, "nothing at all");
}

void every_length_has_its_golden_hash() {
    const uint64_t golden[] = {0xcf046c6bb463f0ea, 0x556c73e6d675ec29, 0xbf739f8dfeccfba5};
    const std::vector<uint8_t> bytes = sample(LONGEST);
    for (int s = 0; s < 3; ++s) {
        Hasher all(0);
        for (size_t size = 0; size <= LONGEST; ++size) {
            const uint64_t hash = hash_bytes(bytes.data(), size, SEEDS[s]);
            all.update(&hash, sizeof hash);
        }
        check(all.digest() == golden[s], "hash of all hashes, seed number " + std::to_string(s));
    }
}

// An exact allocation for each length, so that the address sanitizer sees a read past its end.
void alignment_does_not_matter() {
    const std::vector<uint8_t> bytes = sample(LONGEST);
    for (size_t size = 0; size <= LONGEST; ++size) {
        const uint64_t expected = hash_bytes(bytes.data(), size, 7);
        for (size_t shift = 0; shift < 8; ++shift) {
            std::vector<uint8_t> moved(shift + size);
            if (size > 0) std::memcpy(moved.data() + shift, bytes.data(), size);
            check(hash_bytes(moved.data() + shift, size, 7) == expected,
                  std::to_string(size) + " bytes at alignment " + std::to_string(shift));
        }
    }
}

void streaming_equals_one_shot_for_every_split() {
    const std::vector<uint8_t> bytes = sample(LONGEST);
    for (uint64_t seed : SEEDS) {
        for (size_t size = 0; size <= LONGEST; ++size) {
            const uint64_t expected = hash_bytes(bytes.data(), size, seed);
            for (size_t split = 0; split <= size; ++split) {
                Hasher hasher(seed);
                hasher.update(bytes.data(), split);
                check(hasher.digest() == hash_bytes(bytes.data(), split, seed), "digest in the middle");
                hasher.update(bytes.data() + split, size - split);
                check(hasher.digest() == expected,
                      std::to_string(size) + " bytes split at " + std::to_string(split));
            }
        }
    }
}

void streaming_equals_one_shot_for_every_piece_size() {
    const std::vector<uint8_t> bytes = sample(1000);
    const uint64_t expected = hash_bytes(bytes.data(), bytes.size(), 3);
    for (size_t piece = 1; piece <= bytes.size(); ++piece) {
        Hasher hasher(3);
        hasher.update(nullptr, 0);
        for (size_t at = 0; at < bytes.size(); at += piece) {
            hasher.update(bytes.data() + at, std::min(piece, bytes.size() - at));
        }
        check(hasher.digest() == expected, "pieces of " + std::to_string(piece));
    }
}

void an_integer_hashes_as_its_bytes() {
    check(hash_integer(0, 0) == 0x34c96acdcadb1bbb, "0");
    check(hash_integer(1, 0) == 0x9f29cb17a2a49995, "1");
    check(hash_integer(uint64_t{1} << 63, UINT64_MAX) == 0xb0bdb479fe9b7026, "2^63");
    check(hash_integer(UINT64_MAX, UINT64_MAX) == 0x1a158c94abf6a8b1, "2^64 - 1");
    for (size_t n = 0; n <= 67; ++n) {  // every remainder of every vector width
        std::vector<uint64_t> in(n), out(n);
        for (size_t i = 0; i < n; ++i) in[i] = i * xxh64::P2;
        hash_integers(in.data(), n, 5, out.data());
        for (size_t i = 0; i < n; ++i) {
            check(out[i] == hash_bytes(&in[i], 8, 5),
                  std::to_string(i) + " of " + std::to_string(n) + " integers");
        }
    }
}

template <typename Offset>
void strings_hash_as_their_bytes() {
    const std::vector<uint8_t> data = sample(LONGEST * (LONGEST + 1) / 2);
    std::vector<Offset> offsets(1, 0);
    for (size_t size = 0; size <= LONGEST; ++size) {
        offsets.push_back(offsets.back() + static_cast<Offset>(size));
    }
    const size_t n = offsets.size() - 1;
    check_offsets(offsets.data(), n, data.size());
    std::vector<uint64_t> out(n);
    hash_strings(offsets.data(), data.data(), n, 11, out.data());
    for (size_t i = 0; i < n; ++i) {
        check(out[i] == hash_bytes(data.data() + offsets[i], i, 11), "string " + std::to_string(i));
    }
    hash_strings(offsets.data(), data.data(), 0, 11, out.data());
}

template <typename Offset>
bool rejects(std::vector<Offset> offsets, size_t size_bytes) {
    try {
        check_offsets(offsets.data(), offsets.size() - 1, size_bytes);
    } catch (const std::invalid_argument&) {
        return true;
    }
    return false;
}

template <typename Offset>
void wrong_offsets_are_rejected() {
    check(!rejects<Offset>({0}, 0), "no strings");
    check(!rejects<Offset>({3, 3, 5}, 5), "a slice");
    check(rejects<Offset>({0, 6}, 5), "past the end");
    check(rejects<Offset>({6}, 5), "no strings, past the end");
    check(rejects<Offset>({-1, 4}, 5), "before the start");
    check(rejects<Offset>({-2, -1}, 5), "all before the start");
    check(rejects<Offset>({0, 4, 3, 5}, 5), "falling");
    check(rejects<Offset>({0, 1000, 5}, 5), "a peak in the middle");
}

}  // namespace

int main() {
    known_texts_have_their_golden_hashes();
    every_length_has_its_golden_hash();
    alignment_does_not_matter();
    streaming_equals_one_shot_for_every_split();
    streaming_equals_one_shot_for_every_piece_size();
    an_integer_hashes_as_its_bytes();
    strings_hash_as_their_bytes<int32_t>();
    strings_hash_as_their_bytes<int64_t>();
    wrong_offsets_are_rejected<int32_t>();
    wrong_offsets_are_rejected<int64_t>();
    std::puts("hash_test: all checks hold");
}
