// Compression of cells: none, zstd, lz4. The libraries are loaded at run time from a path that the caller knows,
// so that building needs no headers of theirs; only their stable C functions are used. Thread-safe after loading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace samovar {

enum class Codec : uint8_t { none = 0, zstd = 1, lz4 = 2 };

// Throws std::runtime_error with the loader's message. Loading again is harmless.
void load_codec(Codec codec, const std::string& path);
bool is_loaded(Codec codec) noexcept;

size_t compress_bound(Codec codec, size_t size);

// The compressed size. Throws std::runtime_error on failure.
size_t compress(Codec codec, int level, const void* in, size_t size, void* out, size_t capacity);

// Fills exactly `expected` bytes, or throws std::runtime_error.
void decompress(Codec codec, const void* in, size_t size, void* out, size_t expected);

}  // namespace samovar
