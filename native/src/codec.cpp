#include "samovar/codec.h"

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

namespace samovar {

namespace {

// Both libraries number 1.5.7 as 10507. Their APIs and formats are stable within major version 1.
constexpr unsigned OLDEST_ZSTD = 10400, OLDEST_LZ4 = 10800, NEXT_MAJOR = 20000;

// The known vector: this text, and one encoding of it per format.
constexpr char TEXT[] = "samovar, samovar, samovar, samovar, samovar!";
constexpr size_t TEXT_BYTES = sizeof TEXT - 1;
constexpr uint8_t ZSTD_VECTOR[] = {0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x2c, 0x85, 0x00, 0x00, 0x50, 0x73, 0x61, 0x6d,
                                   0x6f, 0x76, 0x61, 0x72, 0x2c, 0x20, 0x21, 0x01, 0x00, 0x74, 0xca, 0x11};
constexpr uint8_t LZ4_VECTOR[] = {0x9f, 0x73, 0x61, 0x6d, 0x6f, 0x76, 0x61, 0x72, 0x2c, 0x20,
                                  0x09, 0x00, 0x0b, 0x50, 0x6f, 0x76, 0x61, 0x72, 0x21};

std::mutex loading;
ZstdFunctions zstd_functions;
Lz4Functions lz4_functions;
std::atomic<bool> zstd_is_loaded{false};
std::atomic<bool> lz4_is_loaded{false};

template <typename Function>
void find(void* library, const char* name, Function& function) {
    void* symbol = dlsym(library, name);
    if (symbol == nullptr) throw std::runtime_error(std::string("has no function ") + name);
    std::memcpy(&function, &symbol, sizeof symbol);
}

ZstdFunctions find_zstd(void* library) {
    ZstdFunctions zstd;
    find(library, "ZSTD_versionNumber", zstd.version);
    find(library, "ZSTD_createDCtx", zstd.create_dctx);
    find(library, "ZSTD_freeDCtx", zstd.free_dctx);
    find(library, "ZSTD_decompressDCtx", zstd.decompress);
    find(library, "ZSTD_createCCtx", zstd.create_cctx);
    find(library, "ZSTD_freeCCtx", zstd.free_cctx);
    find(library, "ZSTD_compressCCtx", zstd.compress);
    find(library, "ZSTD_compressBound", zstd.bound);
    find(library, "ZSTD_isError", zstd.is_error);
    find(library, "ZSTD_getErrorName", zstd.error_name);
    return zstd;
}

Lz4Functions find_lz4(void* library) {
    Lz4Functions lz4;
    find(library, "LZ4_versionNumber", lz4.version);
    find(library, "LZ4_decompress_safe", lz4.decompress);
    find(library, "LZ4_compress_default", lz4.compress);
    find(library, "LZ4_compressBound", lz4.bound);
    return lz4;
}

std::string show_version(unsigned number) {
    return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
           std::to_string(number % 100);
}

void check_version(unsigned found, unsigned oldest) {
    if (found < oldest || found >= NEXT_MAJOR) {
        throw std::runtime_error("version " + show_version(found) + " is not supported, only " + show_version(oldest) +
                                 " to 1.x");
    }
}

// `decode(in, size, out, capacity)` returns the decoded size, or more than the capacity on failure; `encode` likewise.
template <typename Decode, typename Encode>
void check_round_trips(const uint8_t* vector, size_t vector_bytes, size_t bound, Decode decode, Encode encode) {
    char decoded[TEXT_BYTES];
    const auto gives_text = [&](const uint8_t* in, size_t size) {
        std::memset(decoded, 0, sizeof decoded);
        return decode(in, size, decoded, sizeof decoded) == TEXT_BYTES && std::memcmp(decoded, TEXT, TEXT_BYTES) == 0;
    };
    if (!gives_text(vector, vector_bytes)) throw std::runtime_error("self-check failed: it misreads a known vector");
    if (gives_text(vector, vector_bytes - 1)) throw std::runtime_error("self-check failed: it accepts a cut vector");
    if (bound < TEXT_BYTES || bound > 1000) throw std::runtime_error("self-check failed: it gives a wrong bound");
    std::vector<uint8_t> encoded(bound);
    const size_t size = encode(TEXT, TEXT_BYTES, encoded.data(), bound);
    if (size > bound || !gives_text(encoded.data(), size)) {
        throw std::runtime_error("self-check failed: it cannot read what it writes");
    }
}

const ZstdFunctions& zstd() {
    if (!zstd_is_loaded.load(std::memory_order_acquire)) throw std::runtime_error("the zstd library is not loaded");
    return zstd_functions;
}

const Lz4Functions& lz4() {
    if (!lz4_is_loaded.load(std::memory_order_acquire)) throw std::runtime_error("the lz4 library is not loaded");
    return lz4_functions;
}

size_t checked(size_t result) {
    if (zstd().is_error(result)) throw std::runtime_error(std::string("zstd: ") + zstd().error_name(result));
    return result;
}

struct DctxDeleter {
    void operator()(void* context) const { zstd().free_dctx(context); }
};
struct CctxDeleter {
    void operator()(void* context) const { zstd().free_cctx(context); }
};

int as_int(size_t size) {
    if (size > static_cast<size_t>(std::numeric_limits<int>::max())) throw std::runtime_error("lz4: over 2 GiB");
    return static_cast<int>(size);
}

}  // namespace

void check_functions(const ZstdFunctions& zstd) {
    check_version(zstd.version(), OLDEST_ZSTD);
    const auto decode = [&](const void* in, size_t size, void* out, size_t capacity) {
        const std::unique_ptr<void, size_t (*)(void*)> context(zstd.create_dctx(), zstd.free_dctx);
        const size_t done = zstd.decompress(context.get(), out, capacity, in, size);
        return zstd.is_error(done) ? SIZE_MAX : done;
    };
    const auto encode = [&](const void* in, size_t size, void* out, size_t capacity) {
        const std::unique_ptr<void, size_t (*)(void*)> context(zstd.create_cctx(), zstd.free_cctx);
        const size_t done = zstd.compress(context.get(), out, capacity, in, size, 5);
        return zstd.is_error(done) ? SIZE_MAX : done;
    };
    check_round_trips(ZSTD_VECTOR, sizeof ZSTD_VECTOR, zstd.bound(TEXT_BYTES), decode, encode);
}

void check_functions(const Lz4Functions& lz4) {
    check_version(static_cast<unsigned>(lz4.version()), OLDEST_LZ4);
    const auto decode = [&](const void* in, size_t size, void* out, size_t capacity) {
        const int done = lz4.decompress(static_cast<const char*>(in), static_cast<char*>(out), as_int(size),
                                        as_int(capacity));
        return done < 0 ? SIZE_MAX : static_cast<size_t>(done);
    };
    const auto encode = [&](const void* in, size_t size, void* out, size_t capacity) {
        const int done = lz4.compress(static_cast<const char*>(in), static_cast<char*>(out), as_int(size),
                                      as_int(capacity));
        return done <= 0 ? SIZE_MAX : static_cast<size_t>(done);
    };
    const int bound = lz4.bound(static_cast<int>(TEXT_BYTES));
    check_round_trips(LZ4_VECTOR, sizeof LZ4_VECTOR, bound < 0 ? 0 : static_cast<size_t>(bound), decode, encode);
}

std::string load_codec(Codec codec, const std::string& path) {
    if (codec == Codec::none) return "";
    std::lock_guard<std::mutex> lock(loading);
    std::atomic<bool>& is_loaded = codec == Codec::zstd ? zstd_is_loaded : lz4_is_loaded;
    if (!is_loaded.load()) {
        // Not closed on failure: a library may not survive being unloaded, and a failed one costs only its mapping.
        void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
        if (library == nullptr) throw std::runtime_error(dlerror());
        if (codec == Codec::zstd) {
            const ZstdFunctions found = find_zstd(library);
            check_functions(found);
            zstd_functions = found;
        } else {
            const Lz4Functions found = find_lz4(library);
            check_functions(found);
            lz4_functions = found;
        }
        is_loaded.store(true, std::memory_order_release);
    }
    return show_version(codec == Codec::zstd ? zstd_functions.version()
                                             : static_cast<unsigned>(lz4_functions.version()));
}

size_t compress_bound(Codec codec, size_t size) {
    if (codec == Codec::zstd) return zstd().bound(size);
    if (codec == Codec::lz4) return static_cast<size_t>(lz4().bound(as_int(size)));
    return size;
}

size_t compress(Codec codec, int level, const void* in, size_t size, void* out, size_t capacity) {
    if (codec == Codec::zstd) {
        thread_local std::unique_ptr<void, CctxDeleter> context(zstd().create_cctx());
        return checked(zstd().compress(context.get(), out, capacity, in, size, level));
    }
    if (codec == Codec::lz4) {
        const int done = lz4().compress(static_cast<const char*>(in), static_cast<char*>(out), as_int(size),
                                        as_int(capacity));
        if (done <= 0) throw std::runtime_error("lz4: compression failed");
        return static_cast<size_t>(done);
    }
    if (capacity < size) throw std::runtime_error("the output is too small");
    std::memcpy(out, in, size);
    return size;
}

void decompress(Codec codec, const void* in, size_t size, void* out, size_t expected) {
    size_t found = size;
    if (codec == Codec::zstd) {
        thread_local std::unique_ptr<void, DctxDeleter> context(zstd().create_dctx());
        found = checked(zstd().decompress(context.get(), out, expected, in, size));
    } else if (codec == Codec::lz4) {
        const int done = lz4().decompress(static_cast<const char*>(in), static_cast<char*>(out), as_int(size),
                                          as_int(expected));
        if (done < 0) throw std::runtime_error("lz4: malformed input");
        found = static_cast<size_t>(done);
    } else if (size == expected) {
        std::memcpy(out, in, size);
    }
    if (found != expected) {
        throw std::runtime_error("holds " + std::to_string(found) + " bytes, not " + std::to_string(expected));
    }
}

}  // namespace samovar
