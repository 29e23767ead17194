#include "samovar/cell.h"

#include <cstring>
#include <limits>

#include "samovar/clones.h"
#include "samovar/distinct.h"
#include "samovar/hash.h"

namespace samovar {

namespace {

constexpr char MAGIC[4] = {'S', 'M', 'V', 'C'};
constexpr uint8_t FORMAT = 1;
constexpr uint8_t FLOAT32 = 1;
constexpr size_t PAGE_BYTES = 4096;
constexpr size_t MAX_ITEMS = size_t{1} << 31;  // 8 GiB of floats; the writer rejects a minibatch over 100 MB

using Header = CellHeader;

uint64_t checksum_of(Header header, const void* payload, size_t size) {
    header.padding = 0;  // depends on the place of the cell, not on its content
    const uint64_t seed = hash_bytes(&header, offsetof(Header, checksum), 0);
    return hash_bytes(payload, size, seed);
}

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
    std::memcpy(header.magic, MAGIC, sizeof MAGIC);
    header.format = FORMAT;
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

SAMOVAR_CLONED uint64_t largest_of(const int32_t* values, size_t n) {
    uint32_t largest = 0;
    for (size_t i = 0; i < n; ++i) {
        const auto value = static_cast<uint32_t>(values[i]);
        largest = value > largest ? value : largest;
    }
    return largest;
}

SAMOVAR_CLONED uint64_t sum_of(const int32_t* values, size_t n) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; ++i) sum += static_cast<uint32_t>(values[i]);
    return sum;
}

Header read_header(const uint8_t* cell, size_t size) {
    if (size < sizeof(Header)) {
        throw std::runtime_error("is cut: " + std::to_string(size) + " bytes, less than a header");
    }
    Header header;
    std::memcpy(&header, cell, sizeof header);
    if (std::memcmp(header.magic, MAGIC, sizeof MAGIC) != 0) throw std::runtime_error("is not a cell");
    if (header.format != FORMAT) {
        throw std::runtime_error("has format " + std::to_string(header.format) + ", this Samovar reads " +
                                 std::to_string(FORMAT));
    }
    if (sizeof header + header.padding > size) throw std::runtime_error("is cut");
    return header;
}

bool is_width(uint8_t width) { return width == 1 || width == 2 || width == 4; }

Shape shape_of(const Header& header) {
    Shape shape{header.rank, {header.dims[0], header.dims[1], header.dims[2]}};
    if (header.rank > 3) throw std::runtime_error("has rank " + std::to_string(header.rank));
    uint64_t size = 1;
    for (uint32_t i = 0; i < shape.rank; ++i) {
        size *= shape.dims[i];
        if (size > MAX_ITEMS) throw std::runtime_error("claims more items than a minibatch can have");
    }
    return shape;
}

// Throws unless the header's counts give exactly its payload size.
void check_counts(const Header& header, const Shape& shape) {
    const auto layout = static_cast<Layout>(header.layout);
    if (header.num_ids > MAX_ITEMS || header.codec > 2) throw std::runtime_error("has an impossible header");
    uint64_t expected = 0;
    if (layout == Layout::dense) {
        if (header.item != FLOAT32) throw std::runtime_error("has items of an unknown type");
        expected = shape.size() * sizeof(float);
    } else if (layout == Layout::opaque) {
        expected = header.raw_bytes;
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

// An uncompressed cell with 32-bit integers can be used in place, if it is aligned in an aligned source.
bool can_be_mapped(const Header& header, const uint8_t* source, size_t payload_at) {
    const auto layout = static_cast<Layout>(header.layout);
    if (header.codec != 0 || payload_at % CELL_ALIGNMENT != 0) return false;
    if (reinterpret_cast<uintptr_t>(source) % CELL_ALIGNMENT != 0) return false;
    if (layout == Layout::dense || layout == Layout::opaque) return true;
    const bool are_lengths_wide = header.length_bytes == 0 || header.length_bytes == 4;
    return are_lengths_wide && (layout == Layout::ids || header.item == 4);
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
    ints.at = aligned(words.num_items * sizeof(uint64_t));
    floats.at = ints.at + aligned(ints.num_items * sizeof(int32_t));
    bytes.at = floats.at + aligned(floats.num_items * sizeof(float));
    size_bytes = bytes.at + bytes.num_items;
}

Part Section::take(size_t size) {
    const Part part{num_items, size, false, sizes.size()};
    sizes.push_back(size);
    num_items += size;
    return part;
}

Part Section::map(size_t first, size_t size) {
    mapped.emplace_back(first, first + size);
    return {first, size, true, mapped.size() - 1};
}

void append_dense(std::vector<uint8_t>& out, const float* items, const Shape& shape, const Packing& packing) {
    Header header = header_of(Layout::dense, shape);
    header.item = FLOAT32;
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
    thread_local Distinct finder;
    thread_local std::vector<uint64_t> distinct;
    thread_local std::vector<uint32_t> positions;
    thread_local std::vector<uint8_t> raw;
    size_t num_distinct = 0;
    if (!is_wide) {
        if (distinct.size() < num_ids) distinct.resize(num_ids), positions.resize(num_ids);
        num_distinct = finder.find(ids, num_ids, distinct.data(), positions.data());
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

void append_opaque(std::vector<uint8_t>& out, const void* data, size_t size, const Packing& packing) {
    const Header header = header_of(Layout::opaque, Shape{0, {0, 0, 0}});
    append_cell(out, header, static_cast<const uint8_t*>(data), size, packing);
}

CellDecoder::CellDecoder(const uint8_t* source, size_t source_bytes, const CellPlace* places, size_t num_cells,
                         size_t max_bytes, bool may_map)
    : source_(source), may_map_(may_map), places_(places), cells_(num_cells) {
    for (size_t index = 0; index < num_cells; ++index) {
        const CellPlace& place = places[index];
        try {
            if (place.offset > source_bytes || place.size > source_bytes - place.offset) {
                throw std::runtime_error("is beyond the end of its file");
            }
            plan(index);
            arena_.lay_out();
            if (arena_.size_bytes > max_bytes) {
                throw std::runtime_error("claims more memory than its table says");
            }
        } catch (const std::exception& error) {
            throw CellError(index, error.what());
        }
    }
}

void CellDecoder::plan(size_t index) {
    const Header header = read_header(source_ + places_[index].offset, places_[index].size);
    const size_t payload_at = places_[index].offset + sizeof header + header.padding;
    DecodedCell& cell = cells_[index];
    cell.layout = static_cast<Layout>(header.layout);
    cell.shape = shape_of(header);
    check_counts(header, cell.shape);
    if (may_map_ && can_be_mapped(header, source_, payload_at)) {
        plan_mapped(index, payload_at);
    } else if (cell.layout == Layout::dense) {
        cell.items = arena_.floats.take(cell.shape.size());
    } else if (cell.layout == Layout::opaque) {
        cell.items = arena_.bytes.take(header.raw_bytes);
    } else {
        const bool is_distinct = cell.layout == Layout::distinct;
        cell.ids = arena_.words.take(is_distinct ? header.num_distinct : header.num_ids);
        if (is_distinct) cell.positions = arena_.ints.take(header.num_ids);
        const size_t num_lengths = cell.shape.size();
        cell.lengths = header.length_bytes == 0 ? share_ones(num_lengths) : arena_.ints.take(num_lengths);
    }
}

void CellDecoder::plan_mapped(size_t index, size_t payload_at) {
    const Header header = read_header(source_ + places_[index].offset, places_[index].size);
    if (payload_at + header.raw_bytes != places_[index].offset + places_[index].size) throw std::runtime_error("is cut");
    size_t next = payload_at;
    const auto map = [&next](Section& section, size_t size, size_t item_bytes) {
        const size_t first = next / item_bytes;
        next += size * item_bytes;
        return section.map(first, size);
    };
    DecodedCell& cell = cells_[index];
    const size_t num_items = cell.shape.size();
    if (cell.layout == Layout::dense) {
        cell.items = map(arena_.floats, num_items, sizeof(float));
    } else if (cell.layout == Layout::opaque) {
        cell.items = map(arena_.bytes, header.raw_bytes, 1);
    } else {
        const bool is_distinct = cell.layout == Layout::distinct;
        cell.ids = map(arena_.words, is_distinct ? header.num_distinct : header.num_ids, sizeof(uint64_t));
        if (is_distinct) cell.positions = map(arena_.ints, header.num_ids, sizeof(int32_t));
        cell.lengths = header.length_bytes == 0 ? share_ones(num_items) : map(arena_.ints, num_items, sizeof(int32_t));
    }
}

Part CellDecoder::share_ones(size_t count) {
    for (const Part& part : ones_) {
        if (part.size == count) return part;
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
    const CellPlace& place = places_[index];
    Header header;
    std::memcpy(&header, source_ + place.offset, sizeof header);
    const uint8_t* payload = source_ + place.offset + sizeof header + header.padding;
    const size_t size = place.size - sizeof header - header.padding;
    if (is_checked && (cell.ids.is_mapped || cell.items.is_mapped)) return touch_pages(payload, size);
    if (checksum_of(header, payload, size) != header.checksum) {
        throw std::runtime_error("is damaged: its checksum does not match");
    }
    if (cell.layout == Layout::ids || cell.layout == Layout::distinct) {
        decode_bag(cell, header, payload, size, arena);
    } else if (!cell.items.is_mapped) {
        const bool is_dense = cell.layout == Layout::dense;
        uint8_t* section = arena + (is_dense ? arena_.floats.at : arena_.bytes.at);
        uint8_t* target = section + cell.items.at * (is_dense ? sizeof(float) : 1);
        decompress(static_cast<Codec>(header.codec), payload, size, target, header.raw_bytes);
    }
}

void CellDecoder::decode_bag(const DecodedCell& cell, const CellHeader& header, const uint8_t* payload, size_t size,
                             uint8_t* arena) const {
    auto* words = reinterpret_cast<uint64_t*>(arena) + cell.ids.at;
    auto* ints = reinterpret_cast<int32_t*>(arena + arena_.ints.at);
    const auto codec = static_cast<Codec>(header.codec);
    const size_t num_lengths = cell.shape.size();
    const int32_t* lengths = ints + cell.lengths.at;
    uint64_t largest = 0;
    if (cell.ids.is_mapped) {
        const auto* positions = reinterpret_cast<const int32_t*>(source_) + cell.positions.at;
        largest = largest_of(positions, cell.positions.size);
        if (cell.lengths.is_mapped) lengths = reinterpret_cast<const int32_t*>(source_) + cell.lengths.at;
    } else if (cell.layout == Layout::ids && header.length_bytes == 0) {
        decompress(codec, payload, size, words, header.raw_bytes);  // without a scratch copy
    } else {
        thread_local std::vector<uint8_t> scratch;
        if (scratch.size() < header.raw_bytes) scratch.resize(header.raw_bytes);
        decompress(codec, payload, size, scratch.data(), header.raw_bytes);
        const uint8_t* raw = scratch.data();
        std::memcpy(words, raw, cell.ids.size * sizeof *words);
        raw += cell.ids.size * sizeof *words;
        if (cell.layout == Layout::distinct) {
            largest = widen_ints(raw, cell.positions.size, header.item, ints + cell.positions.at);
            raw += cell.positions.size * header.item;
        }
        if (header.length_bytes != 0) widen_ints(raw, num_lengths, header.length_bytes, ints + cell.lengths.at);
    }
    if (cell.layout == Layout::distinct && header.num_ids > 0 && largest >= header.num_distinct) {
        throw std::runtime_error("has a position beyond its distinct ids");
    }
    if (header.length_bytes != 0 && sum_of(lengths, num_lengths) != header.num_ids) {
        throw std::runtime_error("has lengths that do not add up");
    }
}

SAMOVAR_CLONED void gather_ids(const uint64_t* distinct, const int32_t* positions, size_t n, uint64_t* data) noexcept {
    for (size_t i = 0; i < n; ++i) data[i] = distinct[positions[i]];
}

}  // namespace samovar
