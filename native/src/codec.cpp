#include "samovar/codec.h"

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>

namespace samovar {

namespace {

// The functions of zstd's stable API, as its manual declares them.
struct Zstd {
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

struct Lz4 {
    int (*decompress)(const char*, char*, int, int);
    int (*compress)(const char*, char*, int, int);
    int (*bound)(int);
};

std::mutex loading;
Zstd zstd_functions;
Lz4 lz4_functions;
std::atomic<bool> zstd_is_loaded{false};
std::atomic<bool> lz4_is_loaded{false};

template <typename Function>
void find(void* library, const char* name, Function& function) {
    void* symbol = dlsym(library, name);
    if (symbol == nullptr) throw std::runtime_error(std::string("no function ") + name + " in it");
    std::memcpy(&function, &symbol, sizeof symbol);
}

const Zstd& zstd() {
    if (!zstd_is_loaded.load(std::memory_order_acquire)) throw std::runtime_error("the zstd library is not loaded");
    return zstd_functions;
}

const Lz4& lz4() {
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

void load_codec(Codec codec, const std::string& path) {
    std::lock_guard<std::mutex> lock(loading);
    if (codec == Codec::none || is_loaded(codec)) return;
    void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    if (codec == Codec::zstd) {
        find(library, "ZSTD_createDCtx", zstd_functions.create_dctx);
        find(library, "ZSTD_freeDCtx", zstd_functions.free_dctx);
        find(library, "ZSTD_decompressDCtx", zstd_functions.decompress);
        find(library, "ZSTD_createCCtx", zstd_functions.create_cctx);
        find(library, "ZSTD_freeCCtx", zstd_functions.free_cctx);
        find(library, "ZSTD_compressCCtx", zstd_functions.compress);
        find(library, "ZSTD_compressBound", zstd_functions.bound);
        find(library, "ZSTD_isError", zstd_functions.is_error);
        find(library, "ZSTD_getErrorName", zstd_functions.error_name);
        zstd_is_loaded.store(true, std::memory_order_release);
    } else {
        find(library, "LZ4_decompress_safe", lz4_functions.decompress);
        find(library, "LZ4_compress_default", lz4_functions.compress);
        find(library, "LZ4_compressBound", lz4_functions.bound);
        lz4_is_loaded.store(true, std::memory_order_release);
    }
}

bool is_loaded(Codec codec) noexcept {
    return codec == Codec::none || (codec == Codec::zstd ? zstd_is_loaded.load() : lz4_is_loaded.load());
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
        if (done <= 0) throw std::runtime_error("lz4: could not compress");
        return static_cast<size_t>(done);
    }
    if (capacity < size) throw std::runtime_error("no room for the bytes");
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
        if (done < 0) throw std::runtime_error("lz4: the bytes are not what lz4 wrote");
        found = static_cast<size_t>(done);
    } else if (size == expected) {
        std::memcpy(out, in, size);
    }
    if (found != expected) {
        throw std::runtime_error("holds " + std::to_string(found) + " bytes; expected " + std::to_string(expected));
    }
}

}  // namespace samovar
