#include "samovar/cell_header.h"

#include <cstring>

#include "samovar/hash.h"

namespace samovar {

namespace {

constexpr size_t MAX_ITEMS = size_t{1} << 31;  // 8 GiB of floats; the writer rejects a minibatch over 100 MB

bool is_width(uint8_t width) { return width == 1 || width == 2 || width == 4; }

}  // namespace

uint64_t checksum_of(CellHeader header, const void* payload, size_t size) {
    header.padding = 0;  // depends on the place of the cell, not on its content
    const uint64_t seed = hash_bytes(&header, offsetof(CellHeader, checksum), 0);
    return hash_bytes(payload, size, seed);
}

CellHeader read_header(const uint8_t* cell, size_t size) {
    if (size < sizeof(CellHeader)) {
        throw std::runtime_error("is cut: " + std::to_string(size) + " bytes, less than a header");
    }
    CellHeader header;
    std::memcpy(&header, cell, sizeof header);
    if (std::memcmp(header.magic, CELL_MAGIC, sizeof CELL_MAGIC) != 0) throw std::runtime_error("is not a cell");
    if (header.format != CELL_FORMAT) {
        const char* made_by = header.format < CELL_FORMAT ? "Samovar 0.1" : "a newer Samovar";
        throw std::runtime_error("was made by " + std::string(made_by) + " in cell format " +
                                 std::to_string(header.format) + ", this Samovar reads format " +
                                 std::to_string(CELL_FORMAT));
    }
    if (sizeof header + header.padding > size) throw std::runtime_error("is cut");
    return header;
}

Shape shape_of(const CellHeader& header) {
    Shape shape{header.rank, {header.dims[0], header.dims[1], header.dims[2]}};
    if (header.rank < 1 || header.rank > 3) throw std::runtime_error("has rank " + std::to_string(header.rank));
    uint64_t size = 1;
    for (uint32_t i = 0; i < shape.rank; ++i) {
        size *= shape.dims[i] == 0 ? 1 : shape.dims[i];  // an empty tensor has no huge sides either
        if (size > MAX_ITEMS) throw std::runtime_error("claims more items than a minibatch can have");
    }
    return shape;
}

KeyLayout key_layout_of(const CellHeader& header) {
    const auto values = static_cast<KeyValues>(header.item);
    const uint32_t width = values == KeyValues::fixed ? header.num_distinct : header.length_bytes;
    return {values, width, header.has_nulls != 0, header.dims[0], header.num_ids};
}

void check_counts(const CellHeader& header, const Shape& shape) {
    const auto layout = static_cast<Layout>(header.layout);
    if (header.codec > 2 || header.has_nulls > 1) throw std::runtime_error("has an impossible header");
    if (layout != Layout::keys && header.num_ids > MAX_ITEMS) throw std::runtime_error("has an impossible header");
    uint64_t expected = 0;
    if (layout == Layout::dense) {
        if (header.item != CELL_FLOAT32) throw std::runtime_error("has items of an unknown type");
        expected = shape.size() * sizeof(float);
    } else if (layout == Layout::keys) {
        const KeyLayout keys = key_layout_of(header);
        check_layout(keys);
        expected = raw_bytes_of(keys);
    } else if (layout == Layout::ids || layout == Layout::distinct) {
        const bool has_lengths = header.length_bytes != 0;
        if (has_lengths && !is_width(header.length_bytes)) throw std::runtime_error("has an impossible header");
        if (!has_lengths && header.num_ids != shape.size()) throw std::runtime_error("has an impossible header");
        expected = shape.size() * header.length_bytes;
        if (layout == Layout::ids) {
            expected += header.num_ids * sizeof(uint64_t);
        } else {
            if (!is_width(header.item) || header.num_distinct > header.num_ids) {
                throw std::runtime_error("has an impossible header");
            }
            expected += header.num_distinct * sizeof(uint64_t) + header.num_ids * header.item;
        }
    } else {
        throw std::runtime_error("has an unknown layout");
    }
    if (expected != header.raw_bytes) throw std::runtime_error("has counts that do not match its size");
}

uint64_t decoded_bytes(const CellHeader& header, const Shape& shape) {
    const auto layout = static_cast<Layout>(header.layout);
    if (layout == Layout::dense || layout == Layout::keys) return header.raw_bytes;
    const uint64_t lengths = header.length_bytes == 0 ? 0 : shape.size() * sizeof(int32_t);
    if (layout == Layout::ids) return lengths + header.num_ids * sizeof(uint64_t);
    return lengths + header.num_distinct * sizeof(uint64_t) + header.num_ids * sizeof(int32_t);
}

void check_expected(const CellHeader& header, const Shape& shape, const ColumnSpec& column, uint64_t num_examples) {
    const auto layout = static_cast<Layout>(header.layout);
    uint32_t kind = ColumnSpec::categorical;
    if (layout == Layout::dense) kind = ColumnSpec::real;
    if (layout == Layout::keys) kind = ColumnSpec::key;
    if (kind != column.kind) throw std::runtime_error("holds values of another kind than its column");
    if (shape.rank != column.rank) {
        throw std::runtime_error("has rank " + std::to_string(shape.rank) + ", its column has rank " +
                                 std::to_string(column.rank));
    }
    if (shape.dims[0] != num_examples) {
        throw std::runtime_error("has " + std::to_string(shape.dims[0]) + " examples, its minibatch has " +
                                 std::to_string(num_examples));
    }
    if (layout != Layout::keys) return;
    const KeyLayout keys = key_layout_of(header);
    if (static_cast<uint32_t>(keys.values) != column.values || keys.width != column.width) {
        throw std::runtime_error("holds keys of another type than its column");
    }
}

}  // namespace samovar
