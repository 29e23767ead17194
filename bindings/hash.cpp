// hash.h for Python. Every dtype, rank, length and offset is checked here, so that no call reads out of bounds.
#include "samovar/hash.h"

#include <mutex>

#include "borders.h"

namespace {

void check_length(size_t found, size_t expected) {
    if (found != expected) {
        throw std::invalid_argument("out: has room for " + std::to_string(found) + " hashes, the input has " +
                                    std::to_string(expected));
    }
}

uint64_t hash_bytes(nb::handle data, uint64_t seed) {
    ByteBuffer bytes(data);
    nb::gil_scoped_release release;
    return samovar::hash_bytes(bytes.data(), bytes.size(), seed);
}

void hash_integers(Vector<const uint64_t> values, uint64_t seed, Vector<uint64_t> out) {
    check_aligned(values, "values");
    check_aligned(out, "out");
    check_length(out.size(), values.size());
    nb::gil_scoped_release release;
    samovar::hash_integers(values.data(), values.size(), seed, out.data());
}

template <typename Offset>
void hash_strings(Vector<const Offset> offsets, nb::handle data, uint64_t seed, Vector<uint64_t> out) {
    ByteBuffer bytes(data);
    check_aligned(offsets, "offsets");
    check_aligned(out, "out");
    if (offsets.size() == 0) throw std::invalid_argument("offsets: empty, but n strings have n + 1 offsets");
    const size_t n = offsets.size() - 1;
    check_length(out.size(), n);
    nb::gil_scoped_release release;
    samovar::check_offsets(offsets.data(), n, bytes.size());
    samovar::hash_strings(offsets.data(), bytes.data(), n, seed, out.data());
}

// The lock is taken only without the GIL; otherwise two threads could deadlock.
class LockedHasher {
public:
    explicit LockedHasher(uint64_t seed) : hasher_(seed) {}

    void update(nb::handle data) {
        ByteBuffer bytes(data);
        nb::gil_scoped_release release;
        std::lock_guard<std::mutex> guard(mutex_);
        hasher_.update(bytes.data(), bytes.size());
    }

    uint64_t digest() {
        nb::gil_scoped_release release;
        std::lock_guard<std::mutex> guard(mutex_);
        return hasher_.digest();
    }

private:
    samovar::Hasher hasher_;
    std::mutex mutex_;
};

}  // namespace

void bind_hash(nb::module_& m) {
    // none(): the buffer protocol rejects None like any other object, with a shorter message than nanobind's.
    m.def("hash_bytes", &hash_bytes, "data"_a.none(), "seed"_a, "XXH64 of one contiguous bytes-like object.");
    m.def("hash_integers", &hash_integers, "values"_a.noconvert(), "seed"_a, "out"_a.noconvert(),
          "XXH64 of the eight little-endian bytes of each value.");
    m.def("hash_strings", &hash_strings<int32_t>, "offsets"_a.noconvert(), "data"_a.none(), "seed"_a,
          "out"_a.noconvert(), "XXH64 of each string of an Arrow array.");
    m.def("hash_strings", &hash_strings<int64_t>, "offsets"_a.noconvert(), "data"_a.none(), "seed"_a,
          "out"_a.noconvert(), "XXH64 of each string of an Arrow array with large offsets.");
    nb::class_<LockedHasher>(m, "Hasher", "XXH64 of all bytes passed to update; any thread may call it.")
        .def(nb::init<uint64_t>(), "seed"_a)
        .def("update", &LockedHasher::update, "data"_a.none())
        .def("digest", &LockedHasher::digest);
}
