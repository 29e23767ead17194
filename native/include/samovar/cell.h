// A cell: one tensor, or one bag of ids, of one minibatch, as bytes. Knows no files and no tables.
//
//    0  4  "SMVC"
//    4  1  format, 2
//    5  1  layout: 0 dense, 1 ids, 2 distinct ids, 3 keys
//    6  1  codec of the payload: 0 none, 1 zstd, 2 lz4 block
//    7  1  dense: 1 = float32; distinct ids: bytes per position (1, 2, 4); keys: how values are stored (keys.h); else 0
//    8  1  ids and distinct ids: bytes per length (1, 2, 4), or 0: every length is one, and none is stored;
//          keys: bytes per offset (4, 8), else 0
//    9  1  rank of the shape, 1 to 3 (keys: 1)
//   10  1  number of zero bytes between the header and the payload, which align the payload in its file
//   11  1  keys: 1 if there are validity bits; else 0
//   12  12 the shape, three u32, 0 beyond the rank: of the tensor, of a bag's lengths, or the number of keys
//   24  8  number of ids; keys: bytes of all values that have offsets; else 0
//   32  4  number of distinct ids; keys: bytes per value of fixed size; else 0
//   36  4  0
//   40  8  size of the payload before compression
//   48  8  XXH64 of the stored payload, seeded with the XXH64 (seed 0) of bytes 0 to 48 with byte 10 as 0
//   56     padding, then the payload:
//            dense          the items, row-major
//            ids            u64 per id, then the lengths
//            distinct ids   u64 per distinct id in order of first occurrence, a position per id, then the lengths
//            keys           the values, as keys.h draws them
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "samovar/codec.h"
#include "samovar/keys.h"

namespace samovar {

constexpr size_t CELL_ALIGNMENT = 8;

struct CellHeader {
    char magic[4];
    uint8_t format, layout, codec, item, length_bytes, rank, padding, has_nulls;
    uint32_t dims[3];
    uint64_t num_ids;
    uint32_t num_distinct, zero;
    uint64_t raw_bytes, checksum;
};
static_assert(sizeof(CellHeader) == 56, "the header has no holes");

enum class Layout : uint8_t { dense = 0, ids = 1, distinct = 2, keys = 3 };

struct Shape {
    uint32_t rank;
    uint32_t dims[3];
    size_t size() const noexcept;
};

struct Packing {
    Codec codec;
    int level;
};

// Each appends one cell without padding. The caller, which knows the cell's place in a file, sets byte 10 and inserts
// the zeros.
void append_dense(std::vector<uint8_t>& out, const float* items, const Shape& shape, const Packing& packing);
void append_bag(std::vector<uint8_t>& out, const uint64_t* ids, size_t num_ids, const int32_t* lengths,
                const Shape& shape, const Packing& packing);
// Throws std::invalid_argument unless the bytes are what the layout says. `raw` is aligned to 8.
void append_keys(std::vector<uint8_t>& out, const KeyLayout& layout, const uint8_t* raw, size_t size,
                 const Packing& packing);

class CellError : public std::runtime_error {
public:
    CellError(size_t cell, const std::string& what) : std::runtime_error(what), cell(cell) {}
    size_t cell;
};

// The place of a part of a decoded cell: in its section of the arena or, not copied, in the source.
struct Part {
    size_t at = 0;  // items from the start of the section, or of the source
    size_t size = 0;
    bool is_mapped = false;
    size_t piece = 0;  // its number among the section's pieces, or among the section's mapped pieces
};

struct DecodedCell {
    Layout layout;
    Shape shape;
    Part ids;        // uint64: all ids, or the distinct ones
    Part positions;  // int32, distinct ids only
    Part lengths;    // int32; cells whose lengths are all one share one array
    Part items;      // dense: float32; keys: bytes
    bool has_nulls;  // keys only
};

struct CellPlace {
    uint64_t offset;
    uint64_t size;
    uint64_t decoded;  // the memory that the index of the file says its values take
};

// What the table says about a column, which every cell of it must match.
struct ColumnSpec {
    enum Kind : uint32_t { categorical = 0, real = 1, key = 2 };
    uint32_t kind;
    uint32_t rank;
    uint32_t values;  // of a key: KeyValues, and bytes per value or offset
    uint32_t width;
};

// The cells to decode, minibatch by minibatch: one of each column.
struct CellRequest {
    const CellPlace* places;
    size_t num_minibatches;
    const uint64_t* num_examples;  // of each minibatch
    const ColumnSpec* columns;
    size_t num_columns;
};

// Items of one type: the pieces in the arena, end to end, and the pieces that stay in the source.
struct Section {
    std::vector<size_t> sizes;  // items per piece
    size_t num_items = 0;
    size_t at = 0;  // bytes from the arena's start
    std::vector<std::pair<size_t, size_t>> mapped;  // first item and the one after the last, counted in the source
    Part take(size_t size);
    Part map(size_t first, size_t size);
};

struct Arena {
    Section words, ints, floats, bytes;
    size_t size_bytes = 0;
    void lay_out();  // places one section after the other
};

// Decodes the cells of one buffer: the constructor checks every header and plans the arena, `run` fills it. Both throw
// CellError. Neither a right checksum nor a header is trusted, nor that the source stays as it was: a header is read
// once, and compared with the request before anything is allocated. What could lead a reader astray (positions, keys and
// their offsets) is copied to the arena and checked there.
// `are_checked` says that the same bytes passed before: then a cell that stays in the source is only paged in, so that
// its user does not wait for the disk.
class CellDecoder {
public:
    // Unless `may_map`, no cell stays in the source: all are copied to the arena. The arena takes at most twice the sum
    // of what the places say is decoded, and a few bytes per cell for alignment.
    CellDecoder(const uint8_t* source, size_t source_bytes, const CellRequest& request, bool may_map = true);

    const Arena& arena() const noexcept { return arena_; }
    const std::vector<DecodedCell>& cells() const noexcept { return cells_; }
    void run(uint8_t* arena, bool are_checked = false) const;

private:
    struct Payload {
        const uint8_t* data;
        size_t size;
    };

    void plan(size_t index, const CellPlace& place, const ColumnSpec& column, uint64_t num_examples);
    void plan_mapped(size_t index);
    Part share_ones(size_t count);
    void decode(size_t index, uint8_t* arena, bool is_checked) const;
    void decode_bag(size_t index, uint8_t* arena, bool is_checked) const;

    const uint8_t* source_;
    bool may_map_;
    std::vector<CellHeader> headers_;
    std::vector<Payload> payloads_;
    std::vector<DecodedCell> cells_;
    std::vector<Part> ones_;
    Arena arena_;
};

// data[i] = distinct[positions[i]]. The decoder has checked the positions.
void gather_ids(const uint64_t* distinct, const int32_t* positions, size_t n, uint64_t* data) noexcept;

}  // namespace samovar
