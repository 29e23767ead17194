// The self-check of codec.h: it passes good functions and rejects each kind of broken ones. The good ones are a fake
// codec that knows the vector, so the test needs no library.
#include "samovar/codec.h"

#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

#include "check.h"

using namespace samovar;

namespace {

const std::string TEXT = "samovar, samovar, samovar, samovar, samovar!";
constexpr size_t ERROR = SIZE_MAX;
int context;

// Knows one frame, the known vector's, and stores everything else after a '='.
size_t decompress(void*, void* out, size_t capacity, const void* in, size_t size) {
    const auto* bytes = static_cast<const char*>(in);
    if (size == 25 && bytes[0] == 0x28) return std::memcpy(out, TEXT.data(), TEXT.size()), TEXT.size();
    if (size == 0 || bytes[0] != '=' || size - 1 > capacity) return ERROR;
    return std::memcpy(out, bytes + 1, size - 1), size - 1;
}

size_t compress(void*, void* out, size_t capacity, const void* in, size_t size, int) {
    if (size + 1 > capacity) return ERROR;
    *static_cast<char*>(out) = '=';
    return std::memcpy(static_cast<char*>(out) + 1, in, size), size + 1;
}

ZstdFunctions good_zstd() {
    return {[] { return 10507u; },
            [] { return static_cast<void*>(&context); },
            [](void*) { return size_t{0}; },
            decompress,
            [] { return static_cast<void*>(&context); },
            [](void*) { return size_t{0}; },
            compress,
            [](size_t size) { return size + 1; },
            [](size_t result) { return static_cast<unsigned>(result == ERROR); },
            [](size_t) { return "error"; }};
}

Lz4Functions good_lz4() {
    return {[] { return 10904; },
            [](const char* in, char* out, int size, int capacity) {
                if (size == 19 && in[0] == '\x9f') return std::memcpy(out, TEXT.data(), TEXT.size()), 44;
                if (size == 0 || in[0] != '=' || size - 1 > capacity) return -1;
                return std::memcpy(out, in + 1, static_cast<size_t>(size) - 1), size - 1;
            },
            [](const char* in, char* out, int size, int capacity) {
                const auto room = static_cast<size_t>(capacity);
                const size_t done = compress(nullptr, out, room, in, static_cast<size_t>(size), 0);
                return done == ERROR ? 0 : static_cast<int>(done);
            },
            [](int size) { return size + 1; }};
}

template <typename Functions>
void check_rejected(const Functions& functions, const std::string& reason) {
    std::string what = "it was accepted";
    try {
        check_functions(functions);
    } catch (const std::runtime_error& error) {
        what = error.what();
    }
    check(what.find(reason) != std::string::npos, reason + ": " + what);
}

void test_good_functions_pass() {
    check_functions(good_zstd());
    check_functions(good_lz4());
}

void test_an_unknown_version_is_rejected() {
    ZstdFunctions zstd = good_zstd();
    zstd.version = [] { return 10300u; };
    check_rejected(zstd, "version 1.3.0 is not supported, only 1.4.0 to 1.x");
    zstd.version = [] { return 20000u; };
    check_rejected(zstd, "version 2.0.0 is not supported");
    Lz4Functions lz4 = good_lz4();
    lz4.version = [] { return 0; };
    check_rejected(lz4, "version 0.0.0 is not supported, only 1.8.0 to 1.x");
}

void test_broken_functions_are_rejected() {
    ZstdFunctions zstd = good_zstd();
    zstd.decompress = [](void*, void*, size_t capacity, const void*, size_t) { return capacity; };
    check_rejected(zstd, "misreads a known vector");
    zstd.decompress = [](void*, void*, size_t, const void*, size_t) { return ERROR; };
    check_rejected(zstd, "misreads a known vector");
    zstd.decompress = [](void*, void* out, size_t, const void*, size_t) {
        return std::memcpy(out, TEXT.data(), TEXT.size()), TEXT.size();
    };
    check_rejected(zstd, "accepts a cut vector");
    zstd = good_zstd();
    zstd.bound = [](size_t) { return size_t{3}; };
    check_rejected(zstd, "wrong bound");
    zstd = good_zstd();
    zstd.compress = [](void*, void*, size_t, const void*, size_t, int) { return ERROR; };
    check_rejected(zstd, "cannot read what it writes");
    zstd.compress = [](void* c, void* out, size_t capacity, const void* in, size_t size, int level) {
        return compress(c, out, capacity, in, size, level) - 1;  // a byte is lost
    };
    check_rejected(zstd, "cannot read what it writes");
    Lz4Functions lz4 = good_lz4();
    lz4.decompress = [](const char*, char*, int, int) { return -1; };
    check_rejected(lz4, "misreads a known vector");
    lz4 = good_lz4();
    lz4.bound = [](int) { return -1; };
    check_rejected(lz4, "wrong bound");
    lz4 = good_lz4();
    lz4.compress = [](const char*, char*, int, int) { return 0; };
    check_rejected(lz4, "cannot read what it writes");
}

void test_a_library_that_cannot_be_loaded_says_why() {
    for (const Codec codec : {Codec::zstd, Codec::lz4}) {
        bool is_thrown = false;
        try {
            load_codec(codec, "/none/libnone.so");
        } catch (const std::runtime_error& error) {
            is_thrown = std::string(error.what()).find("/none/libnone.so") != std::string::npos;
        }
        check(is_thrown, "no error for a missing library");
    }
}

}  // namespace

int main() {
    test_good_functions_pass();
    test_an_unknown_version_is_rejected();
    test_broken_functions_are_rejected();
    test_a_library_that_cannot_be_loaded_says_why();
    std::puts("codec_test: ok");
}
