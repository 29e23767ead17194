#include "samovar/keys.h"

#include <cstring>
#include <stdexcept>

namespace samovar {

namespace {

bool has_offsets(const KeyLayout& layout) {
    return layout.values == KeyValues::bytes || layout.values == KeyValues::text;
}

uint64_t bits_in_bytes(uint64_t count) { return (count + 7) / 8; }

// Bits, values or offsets.
uint64_t first_bytes(const KeyLayout& layout) {
    if (layout.values == KeyValues::bits) return bits_in_bytes(layout.count);
    if (layout.values == KeyValues::fixed) return layout.count * layout.width;
    return has_offsets(layout) ? (layout.count + 1) * layout.width : 0;
}

bool is_continuation(uint8_t byte) { return (byte & 0xC0) == 0x80; }

// The length of the character that starts here, 0 if none does.
size_t character_at(const uint8_t* at, size_t left) {
    const uint8_t lead = at[0];
    if (lead < 0x80) return 1;
    if (lead < 0xC2 || lead > 0xF4) return 0;
    const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (length > left || !is_continuation(at[1])) return 0;
    if (lead == 0xE0 && at[1] < 0xA0) return 0;  // longer than needed
    if (lead == 0xED && at[1] > 0x9F) return 0;  // a surrogate
    if (lead == 0xF0 && at[1] < 0x90) return 0;  // longer than needed
    if (lead == 0xF4 && at[1] > 0x8F) return 0;  // beyond U+10FFFF
    for (size_t i = 2; i < length; ++i) {
        if (!is_continuation(at[i])) return 0;
    }
    return length;
}

bool is_utf8(const uint8_t* data, size_t size) {
    constexpr uint64_t high_bits = 0x8080808080808080;
    size_t at = 0;
    while (at < size) {
        uint64_t word;
        if (size - at >= sizeof word) {
            std::memcpy(&word, data + at, sizeof word);
            if ((word & high_bits) == 0) {
                at += sizeof word;
                continue;
            }
        }
        const size_t length = character_at(data + at, size - at);
        if (length == 0) return false;
        at += length;
    }
    return true;
}

template <typename Offset>
void check_values(const KeyLayout& layout, const Offset* offsets, const uint8_t* data) {
    if (offsets[0] != 0 || static_cast<uint64_t>(offsets[layout.count]) != layout.num_bytes) {
        throw std::invalid_argument("has keys whose offsets do not span their bytes");
    }
    bool is_ordered = true;
    for (uint64_t i = 0; i < layout.count; ++i) is_ordered &= offsets[i] <= offsets[i + 1];
    if (!is_ordered) throw std::invalid_argument("has keys whose offsets decrease");
    if (layout.values != KeyValues::text) return;
    bool is_cut = false;  // all offsets are in bounds now, because they are in order
    for (uint64_t i = 0; i < layout.count; ++i) {
        if (offsets[i] < offsets[layout.count]) is_cut |= is_continuation(data[offsets[i]]);
    }
    if (is_cut || !is_utf8(data, layout.num_bytes)) throw std::invalid_argument("has texts that are not UTF-8");
}

}  // namespace

void check_layout(const KeyLayout& layout) {
    const auto require = [](bool is_possible) {
        if (!is_possible) throw std::invalid_argument("has an impossible header");
    };
    require(layout.values <= KeyValues::text && layout.count <= MAX_KEYS && layout.num_bytes <= MAX_KEY_BYTES);
    require(has_offsets(layout) || layout.num_bytes == 0);
    if (has_offsets(layout)) require(layout.width == 4 || layout.width == 8);
    if (layout.values == KeyValues::bits || layout.values == KeyValues::null) require(layout.width == 0);
    if (layout.values == KeyValues::null) require(!layout.has_nulls);
}

uint64_t raw_bytes_of(const KeyLayout& layout) {
    return first_bytes(layout) + (layout.has_nulls ? bits_in_bytes(layout.count) : 0) + layout.num_bytes;
}

void check_keys(const KeyLayout& layout, const uint8_t* raw) {
    if (!has_offsets(layout)) return;
    const uint8_t* data = raw + raw_bytes_of(layout) - layout.num_bytes;
    if (layout.width == 4) {
        check_values(layout, reinterpret_cast<const int32_t*>(raw), data);
    } else {
        check_values(layout, reinterpret_cast<const int64_t*>(raw), data);
    }
}

}  // namespace samovar
