// Compression of cells: none, zstd, lz4. The libraries are loaded at run time from a path that the caller gives, so
// building needs no headers of theirs; only functions of their stable C APIs are used. Thread-safe after loading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace samovar {

enum class Codec : uint8_t { none = 0, zstd = 1, lz4 = 2 };

// The functions that are used of each library, as its manual declares them.
struct ZstdFunctions {
    unsigned (*version)();
    void* (*create_dctx)();
    size_t (*free_dctx)(void*);
    size_t (*decompress)(void*, void*, size_t, const void*, size_t);
    void* (*create_cctx)();
    size_t (*free_cctx)(void*);
    size_t (*compress)(void*, void*, size_t, const void*, size_t, int);
    size_t (*bound)(size_t);
    unsigned (*is_error)(size_t);
    const char* (*error_name)(size_t);
};

struct Lz4Functions {
    int (*version)();
    int (*decompress)(const char*, char*, int, int);
    int (*compress)(const char*, char*, int, int);
    int (*bound)(int);
};

// The self-check of a library before its first use: its version is one we know, it decodes a known vector, rejects a
// damaged one, and decodes what it encodes. Throws std::runtime_error that says what failed.
void check_functions(const ZstdFunctions& zstd);
void check_functions(const Lz4Functions& lz4);

// Loads a shared library and checks it; a library that fails is not used, and another may be tried. Returns its
// version, for example "1.5.7". Throws std::runtime_error. Once a codec is loaded, further calls change nothing.
std::string load_codec(Codec codec, const std::string& path);

size_t compress_bound(Codec codec, size_t size);

// The compressed size. Throws std::runtime_error on failure.
size_t compress(Codec codec, int level, const void* in, size_t size, void* out, size_t capacity);

// Fills exactly `expected` bytes, or throws std::runtime_error.
void decompress(Codec codec, const void* in, size_t size, void* out, size_t expected);

}  // namespace samovar
