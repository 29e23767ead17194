// Text to hashes; the header defines them. Every run of words or characters is one range of the joined text.
#include "samovar/text.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <stdexcept>
#include <string>

#include "samovar/hash.h"
#include "unicode_tables.h"

namespace samovar {

namespace {

enum Kind : uint32_t { SEPARATOR, MARK, LETTER, CAPITAL };  // a digit is a LETTER

constexpr uint64_t CHARACTER_SEED = 64;
constexpr uint32_t NO_CHARACTER = UINT32_MAX;

inline Kind kind_of(uint32_t code) noexcept {
    const size_t page = code / 256;
    if (page >= std::size(unicode::PAGE_OF)) return SEPARATOR;
    const uint64_t word = unicode::PAGES[unicode::PAGE_OF[page]][code % 256 / 32];
    return static_cast<Kind>(word >> code % 32 * 2 & 3);
}

inline uint32_t lower_capital(uint32_t code) noexcept {
    if (code >= 0x410 && code <= 0x42F) return code + 32;  // the Russian capitals, without a search
    const auto* after = std::upper_bound(
        std::begin(unicode::CAPITALS), std::end(unicode::CAPITALS), code,
        [](uint32_t code, const unicode::CapitalRun& run) { return code < run.first; });
    return code + static_cast<uint32_t>((after - 1)->shift);
}

struct Character {
    uint32_t code;
    uint32_t num_bytes;
};

// Strict UTF-8: nothing overlong, no surrogates, nothing past U+10FFFF. A byte that starts no character is
// skipped on its own.
inline Character decode(const uint8_t* at, const uint8_t* end) noexcept {
    constexpr Character BAD = {NO_CHARACTER, 1};
    const auto left = static_cast<size_t>(end - at);
    const auto tail = [at](size_t i) -> uint32_t { return at[i] & 0x3Fu; };
    const auto is_tail = [at](size_t i) { return (at[i] & 0xC0) == 0x80; };
    const uint32_t head = at[0];
    if (head < 0xE0) {
        if (head < 0xC2 || left < 2 || !is_tail(1)) return BAD;
        return {(head & 0x1F) << 6 | tail(1), 2};
    }
    if (head < 0xF0) {
        if (left < 3 || !is_tail(1) || !is_tail(2)) return BAD;
        const uint32_t code = (head & 0x0F) << 12 | tail(1) << 6 | tail(2);
        return code < 0x800 || (code >= 0xD800 && code <= 0xDFFF) ? BAD : Character{code, 3};
    }
    if (head > 0xF4 || left < 4 || !is_tail(1) || !is_tail(2) || !is_tail(3)) return BAD;
    const uint32_t code = (head & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3);
    return code < 0x10000 || code > 0x10FFFF ? BAD : Character{code, 4};
}

inline uint32_t encode(uint32_t code, uint8_t* to) noexcept {
    const auto tail = [code](int shift) { return static_cast<uint8_t>(0x80 | (code >> shift & 0x3F)); };
    if (code < 0x80) {
        to[0] = static_cast<uint8_t>(code);
        return 1;
    }
    if (code < 0x800) {
        to[0] = static_cast<uint8_t>(0xC0 | code >> 6), to[1] = tail(0);
        return 2;
    }
    if (code < 0x10000) {
        to[0] = static_cast<uint8_t>(0xE0 | code >> 12), to[1] = tail(6), to[2] = tail(0);
        return 3;
    }
    to[0] = static_cast<uint8_t>(0xF0 | code >> 18), to[1] = tail(12), to[2] = tail(6), to[3] = tail(0);
    return 4;
}

inline const uint8_t* next_character(const uint8_t* at) noexcept {
    const uint8_t head = *at;
    return at + (head < 0x80 ? 1 : head < 0xE0 ? 2 : head < 0xF0 ? 3 : 4);
}

void check_run(const char* name, uint32_t length) {
    if (length <= MAX_RUN) return;
    throw std::invalid_argument(std::string(name) + ": found " + std::to_string(length) +
                                "; a run has at most " + std::to_string(MAX_RUN));
}

template <typename Offset>
void tokenize_each(const Offset* offsets, const uint8_t* data, const uint8_t* is_null, size_t n,
                   const TextFeatures& features, int64_t* list_offsets, HashList& hashes) {
    Tokenizer tokenizer(features);
    list_offsets[0] = static_cast<int64_t>(hashes.size());
    for (size_t i = 0; i < n; ++i) {
        if (!is_null[i]) {
            tokenizer.append(data + offsets[i], static_cast<size_t>(offsets[i + 1] - offsets[i]), hashes);
        }
        list_offsets[i + 1] = static_cast<int64_t>(hashes.size());
    }
}

}  // namespace

uint64_t* HashList::extend(size_t count) {
    if (count > capacity_ - size_) {
        const size_t capacity = std::max({size_t{1024}, size_ + count, 2 * capacity_});
        void* grown = std::realloc(data_.get(), capacity * sizeof(uint64_t));
        if (grown == nullptr) throw std::bad_alloc();
        (void)data_.release();
        data_.reset(static_cast<uint64_t*>(grown));
        capacity_ = capacity;
    }
    size_ += count;
    return data_.get() + size_ - count;
}

Tokenizer::Tokenizer(const TextFeatures& features) : features_(features) {
    check_run("words", features.words);
    check_run("ngrams", features.ngrams);
    if (features.words == 0 && features.ngrams == 0) {
        throw std::invalid_argument("features: neither words nor ngrams are asked for");
    }
    for (uint32_t code = 0; code < 128; ++code) {
        const Kind kind = kind_of(code);
        const uint32_t written = features.lower && kind == CAPITAL ? lower_capital(code) : code;
        ascii_[code] = kind == SEPARATOR ? 0 : static_cast<uint8_t>(written);
    }
}

void Tokenizer::append(const uint8_t* text, size_t size, HashList& hashes) {
    join_words(text, size);
    if (num_bytes_ == 0) return;
    uint64_t* out = hash_words(hashes.extend(num_hashes()));
    if (features_.ngrams > 0) hash_characters(out);
}

void Tokenizer::join_words(const uint8_t* text, size_t size) {
    // At worst, lower-casing turns two bytes into three, and a space replaces a separator.
    if (joined_.size() < size + size / 2) joined_.resize(size + size / 2);
    starts_.clear();
    uint8_t* const joined = joined_.data();
    uint8_t* to = joined;
    size_t num_tails = 0;  // bytes of a character after its first
    bool in_word = false;
    const auto enter_word = [&] {
        if (in_word) return;
        if (!starts_.empty()) *to++ = ' ';
        starts_.push_back(static_cast<size_t>(to - joined));
        in_word = true;
    };
    const uint8_t* const end = text + size;
    for (const uint8_t* at = text; at != end;) {
        if (*at < 0x80) {
            const uint8_t letter = ascii_[*at++];
            in_word = in_word && letter != 0;
            if (letter == 0) continue;
            enter_word();
            *to++ = letter;
            continue;
        }
        const Character found = decode(at, end);
        const Kind kind = kind_of(found.code);
        if (kind == SEPARATOR || (kind == MARK && !in_word)) {
            in_word = false;
        } else {
            enter_word();
            const uint32_t code = features_.lower && kind == CAPITAL ? lower_capital(found.code) : found.code;
            const uint32_t written = encode(code, to);
            to += written;
            num_tails += written - 1;
        }
        at += found.num_bytes;
    }
    num_bytes_ = static_cast<size_t>(to - joined);
    num_characters_ = num_bytes_ - num_tails;
    starts_.push_back(num_bytes_ + 1);
}

size_t Tokenizer::num_hashes() const noexcept {
    const size_t num_words = starts_.size() - 1;
    size_t count = 0;
    for (size_t n = 1; n <= std::min<size_t>(features_.words, num_words); ++n) count += num_words - n + 1;
    if (features_.ngrams == 0) return count;
    return count + std::max<size_t>(num_characters_, features_.ngrams) - features_.ngrams + 1;
}

uint64_t* Tokenizer::hash_words(uint64_t* out) const noexcept {
    const size_t num_words = starts_.size() - 1;
    for (size_t n = 1; n <= std::min<size_t>(features_.words, num_words); ++n) {
        for (size_t i = 0; i + n <= num_words; ++i) {
            *out++ = hash_bytes(joined_.data() + starts_[i], starts_[i + n] - 1 - starts_[i], n - 1);
        }
    }
    return out;
}

void Tokenizer::hash_characters(uint64_t* out) const noexcept {
    const uint64_t seed = CHARACTER_SEED + features_.ngrams - 1;
    const uint8_t* first = joined_.data();
    const uint8_t* const end = first + num_bytes_;
    const uint8_t* last = first;
    for (uint32_t i = 0; i < features_.ngrams && last != end; ++i) last = next_character(last);
    *out++ = hash_bytes(first, static_cast<size_t>(last - first), seed);
    while (last != end) {
        first = next_character(first);
        last = next_character(last);
        *out++ = hash_bytes(first, static_cast<size_t>(last - first), seed);
    }
}

void tokenize(const int32_t* offsets, const uint8_t* data, const uint8_t* is_null, size_t n,
              const TextFeatures& features, int64_t* list_offsets, HashList& hashes) {
    tokenize_each(offsets, data, is_null, n, features, list_offsets, hashes);
}

void tokenize(const int64_t* offsets, const uint8_t* data, const uint8_t* is_null, size_t n,
              const TextFeatures& features, int64_t* list_offsets, HashList& hashes) {
    tokenize_each(offsets, data, is_null, n, features, list_offsets, hashes);
}

}  // namespace samovar
