// The values of a key column of one minibatch, as bytes in Arrow's own order, so that a reader uses them in place. Knows
// no cells.
//
//   null      nothing
//   bits      a bit per value
//   fixed     `width` bytes per value
//   bytes     count + 1 offsets of `width` bytes (4 or 8): value i is the bytes from offset i to offset i + 1
//   text      the same, and each value is UTF-8
//
//   raw bytes = bits, values or offsets | validity: a bit per value, 0 is null | bytes and text: the bytes
//
// Bits are counted from the lowest of each byte. Validity is left out if no value is null.
#pragma once

#include <cstddef>
#include <cstdint>

namespace samovar {

enum class KeyValues : uint8_t { null = 0, bits = 1, fixed = 2, bytes = 3, text = 4 };

struct KeyLayout {
    KeyValues values;
    uint32_t width;
    bool has_nulls;
    uint64_t count;
    uint64_t num_bytes;  // of all values, bytes and text only
};

constexpr uint64_t MAX_KEYS = uint64_t{1} << 31;
constexpr uint64_t MAX_KEY_BYTES = uint64_t{1} << 40;

// Throws std::invalid_argument unless the numbers of a layout are possible; their sum then cannot overflow.
void check_layout(const KeyLayout& layout);

// The size of the raw bytes of a layout that was checked.
uint64_t raw_bytes_of(const KeyLayout& layout);

// Throws std::invalid_argument unless offsets start at 0, never decrease and end with the bytes, and texts are UTF-8.
// `raw` has the size that the layout says and is aligned to 8.
void check_keys(const KeyLayout& layout, const uint8_t* raw);

}  // namespace samovar
