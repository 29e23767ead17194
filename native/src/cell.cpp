#include "samovar/cell.h"

#include <cstring>
#include <limits>

#include "samovar/cell_header.h"
#include "samovar/clones.h"
#include "samovar/distinct.h"
#include "samovar/hash.h"

namespace samovar {

namespace {

constexpr size_t PAGE_BYTES = 4096;
constexpr size_t ONES_SEARCHED = 16;

using Header = CellHeader;

// Finishes a header and appends the cell, compressed unless that makes it larger.
void append_cell(std::vector<uint8_t>& out, Header header, const uint8_t* raw, size_t raw_bytes,
                 const Packing& packing) {
    thread_local std::vector<uint8_t> packed;
    const uint8_t* payload = raw;
    size_t size = raw_bytes;
    if (packing.codec != Codec::none && size > 0) {
        packed.resize(compress_bound(packing.codec, size));
        const size_t done = compress(packing.codec, packing.level, raw, size, packed.data(), packed.size());
        if (done < size) {
            payload = packed.data();
            size = done;
            header.codec = static_cast<uint8_t>(packing.codec);
        }
    }
    std::memcpy(header.magic, CELL_MAGIC, sizeof CELL_MAGIC);
    header.format = CELL_FORMAT;
    header.raw_bytes = raw_bytes;
    header.checksum = checksum_of(header, payload, size);
    const auto* bytes = reinterpret_cast<const uint8_t*>(&header);
    out.insert(out.end(), bytes, bytes + sizeof header);
    out.insert(out.end(), payload, payload + size);
}

Header header_of(Layout layout, const Shape& shape) {
    Header header{};
    header.layout = static_cast<uint8_t>(layout);
    header.rank = static_cast<uint8_t>(shape.rank);
    for (uint32_t i = 0; i < shape.rank; ++i) header.dims[i] = shape.dims[i];
    return header;
}

uint8_t width_for(uint64_t largest, bool is_wide) {
    if (is_wide || largest > 0xFFFF) return 4;
    return largest > 0xFF ? 2 : 1;
}

template <typename Narrow, typename Value>
void append_narrow(std::vector<uint8_t>& raw, const Value* values, size_t n) {
    const size_t at = raw.size();
    raw.resize(at + n * sizeof(Narrow));
    for (size_t i = 0; i < n; ++i) {
        const auto value = static_cast<Narrow>(values[i]);
        std::memcpy(raw.data() + at + i * sizeof value, &value, sizeof value);
    }
}

template <typename Value>
void append_ints(std::vector<uint8_t>& raw, const Value* values, size_t n, uint8_t width) {
    if (width == 1) append_narrow<uint8_t>(raw, values, n);
    if (width == 2) append_narrow<uint16_t>(raw, values, n);
    if (width == 4) append_narrow<uint32_t>(raw, values, n);
}

void append_words(std::vector<uint8_t>& raw, const uint64_t* words, size_t n) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(words);
    raw.insert(raw.end(), bytes, bytes + n * sizeof *words);
}


template <typename Narrow>
uint64_t widen(const uint8_t* in, size_t n, int32_t* out) {
    Narrow largest = 0;
    for (size_t i = 0; i < n; ++i) {
        Narrow value;
        std::memcpy(&value, in + i * sizeof value, sizeof value);
        out[i] = static_cast<int32_t>(value);
        largest = value > largest ? value : largest;
    }
    return largest;
}

// Separate loops, so that each is compiled for wide vectors.
SAMOVAR_CLONED uint64_t widen1(const uint8_t* in, size_t n, int32_t* out) { return widen<uint8_t>(in, n, out); }
SAMOVAR_CLONED uint64_t widen2(const uint8_t* in, size_t n, int32_t* out) { return widen<uint16_t>(in, n, out); }
SAMOVAR_CLONED uint64_t widen4(const uint8_t* in, size_t n, int32_t* out) { return widen<uint32_t>(in, n, out); }

uint64_t widen_ints(const uint8_t* in, size_t n, uint8_t width, int32_t* out) {
    if (width == 1) return widen1(in, n, out);
    if (width == 2) return widen2(in, n, out);
    return widen4(in, n, out);
}

SAMOVAR_CLONED uint64_t sum_of(const int32_t* values, size_t n) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; ++i) sum += static_cast<uint32_t>(values[i]);
    return sum;
}

size_t add(size_t a, size_t b) {
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum)) throw std::length_error("claims more memory than there can be");
    return sum;
}

// An uncompressed cell can be used in place if it is aligned in an aligned source, and any bytes are valid in it: not
// keys and positions, because another process could change them after they were checked.
bool can_be_mapped(const Header& header, const uint8_t* source, const uint8_t* payload) {
    const auto layout = static_cast<Layout>(header.layout);
    if (header.codec != 0 || reinterpret_cast<uintptr_t>(payload) % CELL_ALIGNMENT != 0) return false;
    if (reinterpret_cast<uintptr_t>(source) % CELL_ALIGNMENT != 0) return false;
    return layout == Layout::dense ||
           (layout == Layout::ids && (header.length_bytes == 0 || header.length_bytes == 4));
}

void unpack(const Header& header, const uint8_t* payload, size_t size, void* out) {
    try {
        decompress(static_cast<Codec>(header.codec), payload, size, out, header.raw_bytes);
    } catch (const std::runtime_error& error) {
        throw std::runtime_error(std::string("cannot be decompressed (") + error.what() + ")");
    }
}

Distinct& distinct_words() {
    thread_local Distinct words;
    return words;
}

size_t aligned(size_t size) { return (size + 63) / 64 * 64; }

void touch_pages(const uint8_t* at, size_t size) {
    for (size_t i = 0; i < size; i += PAGE_BYTES) static_cast<void>(*const_cast<const volatile uint8_t*>(at + i));
    if (size > 0) static_cast<void>(*const_cast<const volatile uint8_t*>(at + size - 1));
}

}  // namespace

size_t Shape::size() const noexcept {
    size_t product = 1;
    for (uint32_t i = 0; i < rank; ++i) product *= dims[i];
    return product;
}

void Arena::lay_out() {
    // `take` bounds the items of a section, so no product overflows
    ints.at = aligned(words.num_items * sizeof(uint64_t));
    floats.at = add(ints.at, aligned(ints.num_items * sizeof(int32_t)));
    bytes.at = add(floats.at, aligned(floats.num_items * sizeof(float)));
    size_bytes = add(bytes.at, bytes.num_items);
}

Part Section::take(size_t size) {
    const Part part{num_items, size, false, sizes.size()};
    sizes.push_back(size);
    num_items = add(num_items, size);
    if (num_items > SIZE_MAX / 16) throw std::length_error("claims more memory than there can be");
    return part;
}

Part Section::map(size_t first, size_t size) {
    mapped.emplace_back(first, first + size);
    return {first, size, true, mapped.size() - 1};
}

void append_dense(std::vector<uint8_t>& out, const float* items, const Shape& shape, const Packing& packing) {
    Header header = header_of(Layout::dense, shape);
    header.item = CELL_FLOAT32;
    append_cell(out, header, reinterpret_cast<const uint8_t*>(items), shape.size() * sizeof *items, packing);
}

void append_bag(std::vector<uint8_t>& out, const uint64_t* ids, size_t num_ids, const int32_t* lengths,
                const Shape& shape, const Packing& packing) {
    const bool is_wide = packing.codec == Codec::none;  // a reader then uses everything in place
    const size_t num_lengths = shape.size();
    uint64_t longest = 0, sum = 0;
    bool all_one = true;
    for (size_t i = 0; i < num_lengths; ++i) {
        if (lengths[i] < 0) throw std::invalid_argument("a length is negative");
        const auto length = static_cast<uint64_t>(lengths[i]);
        sum += length;
        longest = length > longest ? length : longest;
        all_one = all_one && length == 1;
    }
    if (sum != num_ids) {
        throw std::invalid_argument("the lengths add up to " + std::to_string(sum) + ", but there are " +
                                    std::to_string(num_ids) + " ids");
    }
    thread_local std::vector<uint64_t> distinct;
    thread_local std::vector<uint32_t> positions;
    thread_local std::vector<uint8_t> raw;
    size_t num_distinct = 0;
    if (!is_wide) {
        if (distinct.size() < num_ids) distinct.resize(num_ids), positions.resize(num_ids);
        num_distinct = distinct_words().find(ids, num_ids, distinct.data(), positions.data());
    }
    const uint8_t width = width_for(num_distinct == 0 ? 0 : num_distinct - 1, is_wide);
    const bool is_distinct = !is_wide && num_distinct * sizeof *ids + num_ids * width < num_ids * sizeof *ids;
    Header header = header_of(is_distinct ? Layout::distinct : Layout::ids, shape);
    header.num_ids = num_ids;
    header.length_bytes = all_one ? 0 : width_for(longest, is_wide);
    raw.clear();
    if (is_distinct) {
        header.item = width;
        header.num_distinct = static_cast<uint32_t>(num_distinct);
        append_words(raw, distinct.data(), num_distinct);
        append_ints(raw, positions.data(), num_ids, width);
    } else {
        append_words(raw, ids, num_ids);
    }
    append_ints(raw, lengths, num_lengths, header.length_bytes);
    append_cell(out, header, raw.data(), raw.size(), packing);
}

void append_keys(std::vector<uint8_t>& out, const KeyLayout& layout, const uint8_t* raw, size_t size,
                 const Packing& packing) {
    check_layout(layout);
    if (size != raw_bytes_of(layout)) throw std::invalid_argument("has counts that do not match its size");
    check_keys(layout, raw);
    Header header = header_of(Layout::keys, Shape{1, {static_cast<uint32_t>(layout.count), 0, 0}});
    const bool is_fixed = layout.values == KeyValues::fixed;
    header.item = static_cast<uint8_t>(layout.values);
    header.length_bytes = is_fixed ? 0 : static_cast<uint8_t>(layout.width);
    header.num_distinct = is_fixed ? layout.width : 0;
    header.has_nulls = layout.has_nulls;
    header.num_ids = layout.num_bytes;
    append_cell(out, header, raw, size, packing);
}

CellDecoder::CellDecoder(const uint8_t* source, size_t source_bytes, const CellRequest& request, bool may_map)
    : source_(source), may_map_(may_map) {
    const size_t num_cells = request.num_minibatches * request.num_columns;
    headers_.resize(num_cells);
    payloads_.resize(num_cells);
    cells_.resize(num_cells);
    for (size_t index = 0; index < num_cells; ++index) {
        const CellPlace& place = request.places[index];
        try {
            if (place.offset > source_bytes || place.size > source_bytes - place.offset) {
                throw std::runtime_error("is beyond the end of its file");
            }
            plan(index, place, request.columns[index % request.num_columns],
                 request.num_examples[index / request.num_columns]);
        } catch (const std::exception& error) {
            throw CellError(index, error.what());
        }
    }
    arena_.lay_out();
}

void CellDecoder::plan(size_t index, const CellPlace& place, const ColumnSpec& column, uint64_t num_examples) {
    const uint8_t* start = source_ + place.offset;
    const Header header = headers_[index] = read_header(start, place.size);
    const size_t before = sizeof header + header.padding;
    const Payload payload = payloads_[index] = {start + before, place.size - before};
    DecodedCell& cell = cells_[index];
    cell.layout = static_cast<Layout>(header.layout);
    cell.shape = shape_of(header);
    cell.has_nulls = header.has_nulls != 0;
    check_counts(header, cell.shape);
    check_expected(header, cell.shape, column, num_examples);
    const uint64_t decoded = decoded_bytes(header, cell.shape);
    if (decoded != place.decoded) {
        throw std::runtime_error("takes " + std::to_string(decoded) + " bytes of memory, the index of its file says " +
                                 std::to_string(place.decoded));
    }
    if (header.codec == 0 && payload.size != header.raw_bytes) throw std::runtime_error("is cut");
    if (may_map_ && can_be_mapped(header, source_, payload.data)) {
        plan_mapped(index);
    } else if (cell.layout == Layout::dense) {
        cell.items = arena_.floats.take(cell.shape.size());
    } else if (cell.layout == Layout::keys) {
        cell.items = arena_.bytes.take(add(header.raw_bytes, CELL_ALIGNMENT - 1) / CELL_ALIGNMENT * CELL_ALIGNMENT);
    } else {
        const bool is_distinct = cell.layout == Layout::distinct;
        cell.ids = arena_.words.take(is_distinct ? header.num_distinct : header.num_ids);
        if (is_distinct) cell.positions = arena_.ints.take(header.num_ids);
        const size_t num_lengths = cell.shape.size();
        cell.lengths = header.length_bytes == 0 ? share_ones(num_lengths) : arena_.ints.take(num_lengths);
    }
}

void CellDecoder::plan_mapped(size_t index) {
    const Header& header = headers_[index];
    auto next = static_cast<size_t>(payloads_[index].data - source_);
    const auto map = [&next](Section& section, size_t size, size_t item_bytes) {
        const size_t first = next / item_bytes;
        next += size * item_bytes;
        return section.map(first, size);
    };
    DecodedCell& cell = cells_[index];
    const size_t num_items = cell.shape.size();
    if (cell.layout == Layout::dense) {
        cell.items = map(arena_.floats, num_items, sizeof(float));
    } else {
        cell.ids = map(arena_.words, header.num_ids, sizeof(uint64_t));
        cell.lengths = header.length_bytes == 0 ? share_ones(num_items) : map(arena_.ints, num_items, sizeof(int32_t));
    }
}

// Only the last few are searched: the cells of a minibatch usually share one, and a stranger's table may have many.
Part CellDecoder::share_ones(size_t count) {
    for (size_t i = ones_.size(); i-- > 0 && ones_.size() - i <= ONES_SEARCHED;) {
        if (ones_[i].size == count) return ones_[i];
    }
    ones_.push_back(arena_.ints.take(count));
    return ones_.back();
}

void CellDecoder::run(uint8_t* arena, bool are_checked) const {
    auto* ints = reinterpret_cast<int32_t*>(arena + arena_.ints.at);
    for (const Part& part : ones_) {
        for (size_t i = 0; i < part.size; ++i) ints[part.at + i] = 1;
    }
    for (size_t index = 0; index < cells_.size(); ++index) {
        try {
            decode(index, arena, are_checked);
        } catch (const std::exception& error) {
            throw CellError(index, error.what());
        }
    }
}

void CellDecoder::decode(size_t index, uint8_t* arena, bool is_checked) const {
    const DecodedCell& cell = cells_[index];
    const Header& header = headers_[index];
    const Payload& payload = payloads_[index];
    if (is_checked && (cell.ids.is_mapped || cell.items.is_mapped)) return touch_pages(payload.data, payload.size);
    if (checksum_of(header, payload.data, payload.size) != header.checksum) {
        throw std::runtime_error("is damaged: its checksum does not match");
    }
    if (cell.layout == Layout::ids || cell.layout == Layout::distinct) {
        decode_bag(index, arena, is_checked);
    } else if (!cell.items.is_mapped) {
        const bool is_dense = cell.layout == Layout::dense;
        uint8_t* section = arena + (is_dense ? arena_.floats.at : arena_.bytes.at);
        uint8_t* target = section + cell.items.at * (is_dense ? sizeof(float) : 1);
        unpack(header, payload.data, payload.size, target);
        if (!is_dense) check_keys(key_layout_of(header), target);
    }
}

void CellDecoder::decode_bag(size_t index, uint8_t* arena, bool is_checked) const {
    const DecodedCell& cell = cells_[index];
    const Header& header = headers_[index];
    const Payload& payload = payloads_[index];
    auto* words = reinterpret_cast<uint64_t*>(arena) + cell.ids.at;
    auto* ints = reinterpret_cast<int32_t*>(arena + arena_.ints.at);
    const size_t num_lengths = cell.shape.size();
    const int32_t* lengths = ints + cell.lengths.at;
    uint64_t largest = 0;
    if (cell.ids.is_mapped) {
        if (cell.lengths.is_mapped) lengths = reinterpret_cast<const int32_t*>(source_) + cell.lengths.at;
    } else if (cell.layout == Layout::ids && header.length_bytes == 0) {
        unpack(header, payload.data, payload.size, words);  // without a scratch copy
    } else {
        thread_local std::vector<uint8_t> scratch;
        if (scratch.size() < header.raw_bytes) scratch.resize(header.raw_bytes);
        unpack(header, payload.data, payload.size, scratch.data());
        const uint8_t* raw = scratch.data();
        std::memcpy(words, raw, cell.ids.size * sizeof *words);
        raw += cell.ids.size * sizeof *words;
        if (cell.layout == Layout::distinct) {
            largest = widen_ints(raw, cell.positions.size, header.item, ints + cell.positions.at);
            raw += cell.positions.size * header.item;
        }
        if (header.length_bytes != 0) widen_ints(raw, num_lengths, header.length_bytes, ints + cell.lengths.at);
    }
    if (cell.layout == Layout::distinct) {
        if (header.num_ids > 0 && largest >= header.num_distinct) {
            throw std::runtime_error("has a position beyond its distinct ids");
        }
        if (!is_checked && !distinct_words().are_distinct(words, cell.ids.size)) {
            throw std::runtime_error("has distinct ids that are not distinct");
        }
    }
    if (header.length_bytes != 0 && sum_of(lengths, num_lengths) != header.num_ids) {
        throw std::runtime_error("has lengths that do not add up");
    }
}

SAMOVAR_CLONED void gather_ids(const uint64_t* distinct, const int32_t* positions, size_t n, uint64_t* data) noexcept {
    for (size_t i = 0; i < n; ++i) data[i] = distinct[positions[i]];
}

}  // namespace samovar
