// text.h for Python. The layout of the Arrow array is checked here, so that no call reads out of bounds.
#include "samovar/text.h"

#include <memory>
#include <utility>

#include "borders.h"
#include "samovar/hash.h"

namespace {

using Hashes = Vector<const uint64_t>;

void check_length(const char* name, size_t found, size_t expected) {
    if (found == expected) return;
    throw std::invalid_argument(std::string(name) + ": has " + std::to_string(found) + " elements; expected " +
                                std::to_string(expected));
}

Hashes own(std::unique_ptr<samovar::HashList> hashes) {
    samovar::HashList* list = hashes.get();
    nb::capsule owner(list, [](void* kept) noexcept { delete static_cast<samovar::HashList*>(kept); });
    (void)hashes.release();  // now owned by the capsule
    return Hashes(list->data(), {list->size()}, owner);
}

template <typename Offset>
Hashes tokenize(Vector<const Offset> offsets, nb::handle data, Vector<const bool> is_null, uint32_t words,
                uint32_t ngrams, bool lower, Vector<int64_t> list_offsets) {
    ByteBuffer bytes(data);
    check_aligned(offsets, "offsets");
    check_aligned(list_offsets, "list_offsets");
    if (offsets.size() == 0) throw std::invalid_argument("offsets: empty; n texts have n + 1 offsets");
    const size_t n = offsets.size() - 1;
    check_length("is_null", is_null.size(), n);
    check_length("list_offsets", list_offsets.size(), n + 1);
    auto hashes = std::make_unique<samovar::HashList>();
    {
        nb::gil_scoped_release release;
        samovar::check_offsets(offsets.data(), n, bytes.size());
        // As bytes: a numpy bool may hold any byte, a C++ one may not.
        const auto* nulls = reinterpret_cast<const uint8_t*>(is_null.data());
        samovar::tokenize(offsets.data(), bytes.data(), nulls, n, {words, ngrams, lower}, list_offsets.data(),
                          *hashes);
    }
    return own(std::move(hashes));
}

template <typename Offset>
void bind_tokenize(nb::module_& m, const char* text) {
    m.def("tokenize", &tokenize<Offset>, "offsets"_a.noconvert(), "data"_a.none(), "is_null"_a.noconvert(),
          "words"_a, "ngrams"_a, "lower"_a, "list_offsets"_a.noconvert(), text);
}

}  // namespace

void bind_text(nb::module_& m) {
    bind_tokenize<int32_t>(m, "Hashes of the words and n-grams of each text of an Arrow array, end to end.");
    bind_tokenize<int64_t>(m, "Hashes of the words and n-grams of each text, with large offsets.");
}
