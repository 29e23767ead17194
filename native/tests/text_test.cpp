// text.h: golden hashes made with the public xxhash package, and bytes that are not text at all.
#include "samovar/text.h"

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "samovar/hash.h"
#include "check.h"

using namespace samovar;

namespace {

using Hashes = std::vector<uint64_t>;

constexpr TextFeatures WORDS = {1, 0, true};

// The text is in an exact allocation, so that the address sanitizer sees a read past its end.
Hashes tokens(const std::string& text, const TextFeatures& features) {
    const std::vector<uint8_t> bytes(text.begin(), text.end());
    HashList hashes;
    Tokenizer(features).append(bytes.data(), bytes.size(), hashes);
    return Hashes(hashes.data(), hashes.data() + hashes.size());
}

Hashes hashes_of(const std::vector<std::string>& runs, uint64_t seed) {
    Hashes hashes;
    for (const std::string& run : runs) hashes.push_back(hash_bytes(run.data(), run.size(), seed));
    return hashes;
}

void a_text_has_its_golden_hashes() {
    const Hashes golden = {0x6164f77d3bec09b4, 0xd24ec4f1a98c6e5b};
    check(tokens("Самовар, A!", WORDS) == golden, "golden words");
    check(tokens("Самовар, A!", {2, 0, true}).back() == 0xdfb098ce5af072d5, "golden pair");
    check(tokens("Самовар, A!", {0, 3, true}).back() == 0xece5475ca5e02249, "golden trigram");
}

void words_are_runs_of_letters_digits_and_marks() {
    const struct {
        const char* text;
        std::vector<std::string> words;
    } rows[] = {
        {"", {}},
        {" \t.,_-", {}},
        {"one,two  THREE", {"one", "two", "three"}},
        {"don't x_y 3D №5", {"don", "t", "x", "y", "3d", "5"}},
        {"ПРИВЕТ Ёж", {"привет", "ёж"}},
        {"STRASSE straße STRAẞE", {"strasse", "straße", "straße"}},
        {"ΟΔΟΣ οδος", {"οδοσ", "οδος"}},
        {"İI ıi", {"ii", "ıi"}},
        {"Ⱥ K Ǆ ǅ", {"ⱥ", "k", "ǆ", "ǆ"}},
        {"E\u0301te\u0301 \u0301e", {"e\u0301te\u0301", "e"}},
        {"❤\uFE0F a😀b 👩\u200D💻", {"a", "b"}},
        {"北京 𠀀𐐀", {"北京", "𠀀𐐨"}},
        {"שלום עולם مرحبا ٣", {"שלום", "עולם", "مرحبا", "٣"}},
    };
    for (const auto& row : rows) check(tokens(row.text, WORDS) == hashes_of(row.words, 0), row.text);
    check(tokens("Ёж ΟΣ A", {1, 0, false}) == hashes_of({"Ёж", "ΟΣ", "A"}, 0), "as it stands");
}

void runs_come_by_length_and_then_by_place() {
    Hashes expected = hashes_of({"a", "б", "c"}, 0);
    for (uint64_t hash : hashes_of({"a б", "б c"}, 1)) expected.push_back(hash);
    for (uint64_t hash : hashes_of({"a б c"}, 2)) expected.push_back(hash);
    for (uint64_t hash : hashes_of({"a б", " б ", "б c"}, 66)) expected.push_back(hash);
    check(tokens("A,  Б! C", {3, 3, true}) == expected, "three words and trigrams");
    check(tokens("A,  Б! C", {16, 3, true}) == expected, "fewer words than requested");
    check(tokens("?дa!", {0, 3, true}) == hashes_of({"дa"}, 66), "fewer characters than requested");
    check(tokens("дa𠀀", {0, 3, true}) == hashes_of({"дa𠀀"}, 66), "as many characters as requested");
    check(tokens("дa𠀀", {0, 1, true}) == hashes_of({"д", "a", "𠀀"}, 64), "single characters");
    check(tokens("!?", {2, 3, true}).empty(), "no words, no n-grams");
}

void bytes_that_are_no_text_separate() {
    const char* bad[] = {"\x80",         "\xBF\xBF",     "\xC0\x80",         "\xC1\xBF",         "\xD0",
                         "\xE0\x80\x80", "\xE0\xA0",     "\xED\xA0\x80",     "\xED\xBF\xBF",     "\xE4\xBA",
                         "\xF0\x80\x80\x80", "\xF0\xA0\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"};
    for (const char* bytes : bad) {
        const std::string text(bytes);
        check(tokens(text, {1, 1, true}).empty(), "alone: " + text);
        check(tokens("a" + text, WORDS) == hashes_of({"a"}, 0), "at the end: " + text);
        check(tokens("a" + text + "b", WORDS) == hashes_of({"a", "b"}, 0), "in the middle: " + text);
        check(tokens(text + "ж", WORDS) == hashes_of({"ж"}, 0), "before a letter: " + text);
    }
}

void any_bytes_are_read_within_their_bounds() {
    const std::string sample = "Ⱥ𐐀Ж a\u0301北\xFF❤\uFE0FⱾ";
    for (size_t start = 0; start <= sample.size(); ++start) {
        for (size_t size = 0; size <= sample.size() - start; ++size) {
            tokens(sample.substr(start, size), {3, 2, true});
        }
    }
    uint64_t state = 1;
    for (int i = 0; i < 20000; ++i) {
        std::string text(i % 40, ' ');
        for (char& byte : text) {
            state = hash_integer(state, 0);
            byte = static_cast<char>(state % 3 ? state >> 8 | 0x80 : state >> 8);
        }
        tokens(text, {2, 3, true});
    }
}

void lower_casing_fits_where_every_character_grows() {
    std::string text, lower;
    for (int i = 0; i < 1000; ++i) text += "Ⱥ", lower += "ⱥ";
    check(tokens(text, WORDS) == hashes_of({lower}, 0), "1000 characters that grow");
}

template <typename Offset>
void arrow_texts_become_lists() {
    const std::string bytes = "skipOne twoнетtwo";
    const std::vector<uint8_t> data(bytes.begin(), bytes.end());
    const Offset ends[] = {4, 11, 17, 17, static_cast<Offset>(bytes.size())};
    const std::vector<Offset> offsets(ends, ends + 5);
    const std::vector<uint8_t> is_null = {0, 1, 0, 0};
    std::vector<int64_t> list_offsets(5);
    HashList hashes;
    tokenize(offsets.data(), data.data(), is_null.data(), 4, WORDS, list_offsets.data(), hashes);
    check(list_offsets == std::vector<int64_t>{0, 2, 2, 2, 3}, "offsets of the lists");
    check(Hashes(hashes.data(), hashes.data() + hashes.size()) == hashes_of({"one", "two", "two"}, 0), "lists");
    tokenize(offsets.data(), data.data(), is_null.data(), 0, WORDS, list_offsets.data(), hashes);
    check(list_offsets[0] == 3 && hashes.size() == 3, "no texts");
}

void a_list_keeps_its_hashes_while_it_grows() {
    HashList list;
    for (uint64_t i = 0; i < 3000; ++i) {
        uint64_t* out = list.extend(i % 3);
        for (uint64_t k = 0; k < i % 3; ++k) out[k] = i;
    }
    check(list.size() == 3000, "size");
    for (size_t i = 0; i < list.size(); ++i) check(list.data()[i] == i / 3 * 3 + 1 + (i % 3 > 0), "kept");
}

bool rejects(const TextFeatures& features) {
    try {
        Tokenizer tokenizer(features);
    } catch (const std::invalid_argument&) {
        return true;
    }
    return false;
}

void features_out_of_range_are_rejected() {
    check(!rejects({MAX_RUN, MAX_RUN, true}), "the longest runs");
    check(rejects({0, 0, true}), "nothing");
    check(rejects({MAX_RUN + 1, 0, true}), "too many words");
    check(rejects({1, MAX_RUN + 1, true}), "too many characters");
}

}  // namespace

int main() {
    a_text_has_its_golden_hashes();
    words_are_runs_of_letters_digits_and_marks();
    runs_come_by_length_and_then_by_place();
    bytes_that_are_no_text_separate();
    any_bytes_are_read_within_their_bounds();
    lower_casing_fits_where_every_character_grows();
    arrow_texts_become_lists<int32_t>();
    arrow_texts_become_lists<int64_t>();
    a_list_keeps_its_hashes_while_it_grows();
    features_out_of_range_are_rejected();
    std::puts("text_test: all checks hold");
}
