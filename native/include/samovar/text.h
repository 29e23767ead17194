// Texts to bags of 64-bit hashes: words, runs of words, runs of characters. Knows no tables and no Python.
//
// These values never change: ids in tables and embedding rows depend on them. The definition:
//
//   word         a letter or digit (Unicode categories L*, N*) and all letters, digits and marks (M*) that
//                follow it. Everything else separates: spaces, punctuation, "_", symbols, emoji, U+200D, a mark
//                after a separator (the U+FE0F of an emoji is no word), a byte that is no UTF-8.
//   lower        every character by the simple, one-to-one mapping of UnicodeData.txt, whatever its
//                neighbours. This is not case folding: "ß" and final "ς" stay, "İ" is "i". Nothing is normalised:
//                "é" as one character and as two are two words.
//   joined       the words of the text, lower-cased if asked for, with one space between two of them.
//   n words      every n neighbouring words: XXH64 of their UTF-8 bytes in `joined`, spaces and all, seed n - 1.
//                So one word has the hash of a string of that text, hash_strings with seed 0.
//   n characters every n neighbouring code points of `joined`, spaces among them: XXH64 of their UTF-8 bytes,
//                seed 64 + n - 1. If `joined` has fewer than n but is not empty, it is the only one.
//
//   order        all words, all pairs of words, … , all runs of `words` words; then runs of `ngrams` characters.
//                Each in the order of the text; repeated runs are repeated.
//
// The Unicode version is 14.0.0 and stays so: a character added later separates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace samovar {

constexpr uint32_t MAX_RUN = 16;  // words or characters

struct TextFeatures {
    uint32_t words;   // runs of 1 to `words` words, at most MAX_RUN; 0 for none
    uint32_t ngrams;  // runs of exactly `ngrams` characters, at most MAX_RUN; 0 for none
    bool lower;
};

// A growing list of hashes. Not a std::vector, which copies when it grows: on 1 M texts the copies and their page
// faults took as long as the hashing. realloc moves pages instead.
class HashList {
public:
    // Room for `count` more hashes; valid until the next call.
    uint64_t* extend(size_t count);
    size_t size() const noexcept { return size_; }
    const uint64_t* data() const noexcept { return data_.get(); }

private:
    struct Free {
        void operator()(uint64_t* data) const noexcept { std::free(data); }
    };
    std::unique_ptr<uint64_t[], Free> data_;
    size_t size_ = 0;
    size_t capacity_ = 0;
};

class Tokenizer {
public:
    // Throws std::invalid_argument if both features are 0, or one is more than MAX_RUN.
    explicit Tokenizer(const TextFeatures& features);

    // Appends the hashes of one text. The bytes may be anything.
    void append(const uint8_t* text, size_t size, HashList& hashes);

private:
    void join_words(const uint8_t* text, size_t size);
    size_t num_hashes() const noexcept;
    uint64_t* hash_words(uint64_t* out) const noexcept;
    void hash_characters(uint64_t* out) const noexcept;

    TextFeatures features_;
    uint8_t ascii_[128];           // the byte to write, or 0 for a separator
    std::vector<uint8_t> joined_;  // this and the rest are scratch, from the last text
    std::vector<size_t> starts_;   // of each word in `joined`, and of the word that might follow the last
    size_t num_bytes_ = 0;
    size_t num_characters_ = 0;
};

// Arrow's layout: text i is the bytes of `data` from offsets[i] to offsets[i + 1]; there are n + 1 offsets,
// checked by check_offsets. Its hashes end up from list_offsets[i] to list_offsets[i + 1]; none where is_null[i].
void tokenize(const int32_t* offsets, const uint8_t* data, const uint8_t* is_null, size_t n,
              const TextFeatures& features, int64_t* list_offsets, HashList& hashes);
void tokenize(const int64_t* offsets, const uint8_t* data, const uint8_t* is_null, size_t n,
              const TextFeatures& features, int64_t* list_offsets, HashList& hashes);

}  // namespace samovar
