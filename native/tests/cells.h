// What tests and fuzzers of cells share: claims that agree with a header, checksums of changed cells, exact memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"
#include "samovar/cell.h"
#include "samovar/hash.h"

#define CHECK(condition)                                                                                    \
    do {                                                                                                    \
        if (!(condition)) check(false, __FILE__ ":" + std::to_string(__LINE__) + ": " #condition);          \
    } while (false)

constexpr size_t MOST_BYTES = size_t{1} << 28;  // a table's reader refuses minibatches of 10^9 bytes

// Memory of an exact size, aligned to 64, so that a sanitizer sees an access past its end.
class Memory {
public:
    explicit Memory(size_t size) : size_(size) {
        void* found = nullptr;
        CHECK(posix_memalign(&found, 64, size) == 0);  // aligned_alloc would round the size up
        data_ = static_cast<uint8_t*>(found);
    }
    ~Memory() { std::free(data_); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    uint8_t* data() const { return data_; }
    size_t size() const { return size_; }

private:
    uint8_t* data_;
    size_t size_;
};

// The place and column that a stranger's table would give for a cell, so that only the decoder's own checks are left.
struct Claim {
    samovar::CellPlace place;
    samovar::ColumnSpec column;
    uint64_t num_examples;
};

inline Claim claim_of(const std::vector<uint8_t>& cell) {
    Claim claim{{0, cell.size(), 0}, {0, 0, 0, 0}, 0};
    samovar::CellHeader header;
    if (cell.size() < sizeof header) return claim;
    std::memcpy(&header, cell.data(), sizeof header);
    const uint64_t lengths = uint64_t{header.dims[0]} * (header.rank > 1 ? header.dims[1] : 1) *
                             (header.rank > 2 ? header.dims[2] : 1);
    claim.num_examples = header.dims[0];
    claim.column.rank = header.rank;
    claim.place.decoded = header.raw_bytes;
    if (header.layout == 0) claim.column.kind = samovar::ColumnSpec::real;
    if (header.layout == 3) {
        claim.column.kind = samovar::ColumnSpec::key;
        claim.column.values = header.item;
        claim.column.width = header.item == 2 ? header.num_distinct : header.length_bytes;
    }
    if (header.layout == 1 || header.layout == 2) {
        const uint64_t words = header.layout == 1 ? header.num_ids : header.num_distinct;
        claim.place.decoded = 8 * words + (header.layout == 2 ? 4 * header.num_ids : 0) +
                              (header.length_bytes == 0 ? 0 : 4 * lengths);
    }
    return claim;
}

inline void fix_checksum(std::vector<uint8_t>& cell) {
    samovar::CellHeader header;
    if (cell.size() < sizeof header) return;
    std::memcpy(&header, cell.data(), sizeof header);
    const uint8_t padding = header.padding;
    header.padding = 0;
    const uint64_t seed = samovar::hash_bytes(&header, offsetof(samovar::CellHeader, checksum), 0);
    const size_t start = std::min(cell.size(), sizeof header + padding);
    header.checksum = samovar::hash_bytes(cell.data() + start, cell.size() - start, seed);
    header.padding = padding;
    std::memcpy(cell.data(), &header, sizeof header);
}

inline std::vector<uint8_t> encode_texts(const std::vector<std::string>& texts, samovar::Codec codec) {
    std::vector<int32_t> offsets{0};
    std::string data;
    for (const std::string& text : texts) {
        data += text;
        offsets.push_back(static_cast<int32_t>(data.size()));
    }
    Memory raw(offsets.size() * 4 + data.size());
    std::memcpy(raw.data(), offsets.data(), offsets.size() * 4);
    std::memcpy(raw.data() + offsets.size() * 4, data.data(), data.size());
    std::vector<uint8_t> cell;
    const samovar::KeyLayout layout{samovar::KeyValues::text, 4, false, texts.size(), data.size()};
    samovar::append_keys(cell, layout, raw.data(), raw.size(), {codec, 3});
    return cell;
}
