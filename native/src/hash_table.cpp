#include "samovar/hash_table.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>

#include "samovar/clones.h"

namespace samovar {

namespace {

constexpr size_t WAVE = 64;         // lookups in flight
constexpr unsigned LINES = 4;       // cache lines of a row to prefetch; the hardware prefetcher does the rest
constexpr size_t CACHE_LINE = 64;

// One field of the four slots of a bucket.
typedef uint32_t Four __attribute__((vector_size(16)));

template <typename Mask>
inline bool any(const Mask& mask) noexcept {
    uint64_t halves[2];
    std::memcpy(halves, &mask, sizeof halves);
    return (halves[0] | halves[1]) != 0;
}

}  // namespace

SAMOVAR_CLONED
void init_weights(uint64_t seed, uint64_t id, float scale, float* weights, size_t dim) noexcept {
    const uint64_t base = mix(id ^ seed);
    SAMOVAR_VECTOR
    for (size_t j = 0; j < dim; ++j) {
        const auto bits = static_cast<int32_t>(mix(base + (j + 1) * 0x9E3779B97F4A7C15) >> 40);
        weights[j] = (static_cast<float>(bits) * 0x1p-23f - 1.0f) * scale;
    }
}

HashTable::HashTable(const Settings& settings) : settings_(settings), rows_(settings.dim + settings.state) {
    for (unsigned number = 0; number < PARTS; ++number) enter_level(number, 0);
}

// Parts grow at loads from 0.74 to 0.86, in an order that differs between tables.
uint32_t HashTable::limit_of(unsigned number, unsigned log2) const noexcept {
    const uint64_t order = (number * 37 + (settings_.seed >> 32)) % PARTS;
    const uint64_t slots = uint64_t{Bucket::SLOTS} << log2;
    return static_cast<uint32_t>(slots * (PARTS * 74 + 12 * order) / (PARTS * 100));
}

// Gives the part empty buckets of another size. The old ones stay until leave_level.
void HashTable::enter_level(unsigned number, unsigned log2) {
    if (log2 > 28) throw std::length_error("hash table: a part has more than a billion ids");
    std::lock_guard<std::mutex> guard(levels_mutex_);
    if (levels_.size() <= log2) levels_.resize(log2 + 1);
    Level& level = levels_[log2];
    const size_t part_bytes = sizeof(Bucket) << log2;
    if (level.parts == 0) {
        level.pages = Pages(part_bytes * PARTS);
        level.parts_in_page.assign((level.pages.size() + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES, 0);
    }
    ++level.parts;
    for (size_t page = part_bytes * number / HUGE_PAGE_BYTES; page * HUGE_PAGE_BYTES < part_bytes * (number + 1);
         ++page) {
        ++level.parts_in_page[page];
    }
    Part& part = parts_[number];
    part.buckets = reinterpret_cast<Bucket*>(level.pages.data() + part_bytes * number);
    part.log2 = static_cast<uint8_t>(log2);
    part.limit = limit_of(number, log2);
    part.used = 0;
}

void HashTable::leave_level(unsigned number, unsigned log2) {
    Pages left;  // unmapped after the lock is released
    std::lock_guard<std::mutex> guard(levels_mutex_);
    Level& level = levels_[log2];
    const size_t part_bytes = sizeof(Bucket) << log2;
    for (size_t page = part_bytes * number / HUGE_PAGE_BYTES; page * HUGE_PAGE_BYTES < part_bytes * (number + 1);
         ++page) {
        if (--level.parts_in_page[page] == 0 && level.pages.size() >= HUGE_PAGE_BYTES) {
            level.pages.release(page * HUGE_PAGE_BYTES, HUGE_PAGE_BYTES);
        }
    }
    if (--level.parts == 0) left = std::move(level.pages);
}

inline bool HashTable::find_slot(uint64_t id, uint64_t hash, Slot& slot) const noexcept {
    const Part& part = parts_[part_of(hash)];
    const size_t mask = num_buckets(part) - 1;
    for (size_t b = home(part, hash);; b = (b + 1) & mask) {
        Bucket& bucket = part.buckets[b];
        unsigned matches = 0, empties = 0;  // which slot matches is unpredictable, so it is no branch
        for (unsigned i = 0; i < Bucket::SLOTS; ++i) {
            matches |= static_cast<unsigned>((bucket.ids[i] == id) & (bucket.rows[i] >= Bucket::FIRST)) << i;
            empties |= static_cast<unsigned>(bucket.rows[i] == Bucket::EMPTY);
        }
        if (matches != 0) {
            slot = {&bucket, static_cast<unsigned>(__builtin_ctz(matches))};
            return true;
        }
        if (empties != 0) return false;
    }
}

// Writes an entry into the first free slot of its probe sequence; the id must not be in the table.
inline void HashTable::put(const Part& part, const Entry& entry, uint64_t hash, bool& reused) {
    const size_t mask = num_buckets(part) - 1;
    for (size_t b = home(part, hash);; b = (b + 1) & mask) {
        Bucket& bucket = part.buckets[b];
        unsigned vacant = 0;
        for (unsigned i = 0; i < Bucket::SLOTS; ++i) {
            vacant |= static_cast<unsigned>(bucket.rows[i] < Bucket::FIRST) << i;
        }
        if (vacant == 0) continue;
        const auto i = static_cast<unsigned>(__builtin_ctz(vacant));
        reused = bucket.rows[i] == Bucket::REMOVED;
        bucket.ids[i] = entry.id;
        bucket.rows[i] = entry.row + Bucket::FIRST;
        bucket.stamps[i] = entry.stamp;
        return;
    }
}

// Puts all entries of a part into fresh buckets of the given size. Twice as many buckets take one more bit of the hash,
// so both sides are read and written in order.
void HashTable::rebuild(unsigned number, unsigned log2) {
    const Part old = parts_[number];
    const bool is_moved = old.log2 != log2;
    std::vector<Bucket> copy;
    const Bucket* from = old.buckets;
    if (is_moved) {
        enter_level(number, log2);
    } else {
        copy.assign(from, from + num_buckets(old));
        std::memset(static_cast<void*>(old.buckets), 0, num_buckets(old) * sizeof(Bucket));
        from = copy.data();
    }
    bool reused = false;
    for (size_t b = 0; b < num_buckets(old); ++b) {
        for (unsigned i = 0; i < Bucket::SLOTS; ++i) {
            if (from[b].rows[i] < Bucket::FIRST) continue;
            const Entry entry{from[b].ids[i], from[b].rows[i] - Bucket::FIRST, from[b].stamps[i]};
            put(parts_[number], entry, hash_of(entry.id), reused);
        }
    }
    parts_[number].used = parts_[number].live;
    if (is_moved) leave_level(number, old.log2);
}

inline uint32_t HashTable::take_row(unsigned number, Fresh& fresh) {
    if (parts_[number].has_free_rows) {
        std::vector<uint32_t>& rows = rare_[number].free_rows;
        const uint32_t row = rows.back();
        rows.pop_back();
        parts_[number].has_free_rows = !rows.empty();
        return row;
    }
    if (fresh.next == fresh.end) {
        fresh.next = rows_.take_block();
        fresh.end = fresh.next + Rows::BLOCK;
    }
    return fresh.next++;
}

inline void HashTable::start(float* row, uint64_t id) const noexcept {
    init_weights(settings_.seed, id, settings_.init_scale, row, settings_.dim);
    std::fill_n(row + settings_.dim, settings_.state, 0.0f);
}

// An entry in the index and a row for a new id; the row still has the content of its last owner.
inline float* HashTable::add(uint64_t id, uint64_t hash, uint32_t stamp, Fresh& fresh) {
    const unsigned number = part_of(hash);
    Part& part = parts_[number];
    if (__builtin_expect(part.used >= part.limit, 0)) {
        const unsigned more = part.log2 == 0 ? 2 : 1;
        rebuild(number, part.live * 4 >= part.limit * 3 ? part.log2 + more : part.log2);
    }
    const Entry entry{id, take_row(number, fresh), stamp};
    bool reused = false;
    put(part, entry, hash, reused);
    part.used += !reused;
    ++part.live;
    return rows_.at(entry.row);
}

// The row of an id in training.
inline float* HashTable::touch(uint64_t id, uint64_t hash, uint32_t clock, uint32_t ttl, Fresh& fresh) {
    Slot slot;
    if (!find_slot(id, hash, slot)) {
        float* row = add(id, hash, clock, fresh);
        ++parts_[part_of(hash)].inserted;
        start(row, id);
        return row;
    }
    float* row = rows_.at(slot.bucket->rows[slot.number] - Bucket::FIRST);
    uint32_t& stamp = slot.bucket->stamps[slot.number];
    if (stamp != clock) {
        if (clock - stamp > ttl) {
            ++rare_[part_of(hash)].reset;
            start(row, id);
        }
        stamp = clock;
    }
    return row;
}

// Forced inline: GCC 12 considers a function that only prefetches to have no effect, and drops calls of it.
SAMOVAR_INLINE void HashTable::prefetch_row(const float* row) const noexcept {
    const auto begin = reinterpret_cast<uintptr_t>(row) / CACHE_LINE;
    const auto end = (reinterpret_cast<uintptr_t>(row) + settings_.dim * sizeof(float) - 1) / CACHE_LINE + 1;
    for (uintptr_t line = begin; line < std::min(end, begin + LINES); ++line) {
        __builtin_prefetch(reinterpret_cast<const void*>(line * CACHE_LINE));
    }
}

// Calls visit(i, hash) -> row for each id that is_mine(hash), in order, after prefetching its bucket, and prefetches the
// row. A wave of buckets, then a wave of rows: a prefetch waits for the page tables, and the processor overlaps as many
// of them as it can see ahead, so there must be little else between two of them.
template <typename IsMine, typename Visit>
SAMOVAR_INLINE void HashTable::in_waves(const uint64_t* ids, size_t n, IsMine is_mine, Visit visit) const {
    struct Wave {
        size_t count = 0;
        size_t places[WAVE];
        uint64_t hashes[WAVE];
    };
    Wave waves[2];
    const void* wanted[WAVE];
    size_t next = 0;
    const auto begin = [&](Wave& wave) {
        size_t count = 0;
        for (; next < n && count < WAVE; ++next) {
            const uint64_t hash = hash_of(ids[next]);
            if (!is_mine(hash)) continue;  // another thread's part may be growing right now
            wave.places[count] = next;
            wave.hashes[count] = hash;
            wanted[count] = bucket_of(hash);
            ++count;
        }
        wave.count = count;
        for (size_t k = 0; k < count; ++k) __builtin_prefetch(wanted[k]);
    };
    begin(waves[0]);
    for (unsigned turn = 0; waves[turn].count != 0; turn ^= 1) {
        begin(waves[turn ^ 1]);
        const Wave& wave = waves[turn];
        for (size_t k = 0; k < wave.count; ++k) wanted[k] = visit(wave.places[k], wave.hashes[k]);
        for (size_t k = 0; k < wave.count; ++k) prefetch_row(static_cast<const float*>(wanted[k]));
    }
}

void HashTable::find_or_insert(const uint64_t* ids, size_t n, uint32_t clock, uint32_t ttl, PartRange range,
                               float** rows) {
    Fresh& fresh = rare_[range.first].fresh;
    const auto visit = [&](size_t i, uint64_t hash) { return rows[i] = touch(ids[i], hash, clock, ttl, fresh); };
    if (range.first == 0 && range.last == PARTS) {
        in_waves(ids, n, [](uint64_t) { return true; }, visit);
    } else {
        in_waves(ids, n, [&](uint64_t hash) { return part_of(hash) - range.first < range.last - range.first; }, visit);
    }
}

size_t HashTable::find(const uint64_t* ids, size_t n, uint32_t clock, uint32_t ttl, float* missing,
                       float** rows) const {
    size_t num_missing = 0;
    in_waves(ids, n, [](uint64_t) { return true; }, [&](size_t i, uint64_t hash) {
        Slot slot;
        const bool is_found = find_slot(ids[i], hash, slot) && clock - slot.bucket->stamps[slot.number] <= ttl;
        num_missing += !is_found;
        return rows[i] = is_found ? rows_.at(slot.bucket->rows[slot.number] - Bucket::FIRST) : missing;
    });
    return num_missing;
}

void HashTable::stamps(const uint64_t* ids, size_t n, uint32_t* stamps) const {
    for (size_t i = 0; i < n; ++i) {
        Slot slot;
        stamps[i] = find_slot(ids[i], hash_of(ids[i]), slot) ? slot.bucket->stamps[slot.number] : 0;
    }
}

void HashTable::prefetch(const uint64_t* ids, size_t n) const {
    in_waves(ids, n, [](uint64_t) { return true; }, [&](size_t i, uint64_t hash) -> const float* {
        Slot slot;
        const bool is_found = find_slot(ids[i], hash, slot);
        return is_found ? rows_.at(slot.bucket->rows[slot.number] - Bucket::FIRST) : nullptr;
    });
}

size_t HashTable::sweep(uint32_t clock, uint32_t ttl, PartRange range) {
    size_t num_freed = 0;
    for (unsigned number = range.first; number < range.last; ++number) {
        Part& part = parts_[number];
        std::vector<uint32_t>& free_rows = rare_[number].free_rows;
        const size_t before = free_rows.size();
        for (Bucket* bucket = part.buckets; bucket != part.buckets + num_buckets(part); ++bucket) {
            Four rows, stamps;
            std::memcpy(&rows, bucket->rows, sizeof rows);
            std::memcpy(&stamps, bucket->stamps, sizeof stamps);
            const Four expired = (clock - stamps > ttl) & (rows >= Bucket::FIRST);
            if (!any(expired)) continue;
            // A bucket with an empty slot never overflowed: no probe goes past it.
            const uint32_t mark = any(rows == Bucket::EMPTY) ? Bucket::EMPTY : Bucket::REMOVED;
            for (unsigned i = 0; i < Bucket::SLOTS; ++i) {
                if (expired[i] == 0) continue;
                free_rows.push_back(rows[i] - Bucket::FIRST);
                bucket->rows[i] = mark;
                part.used -= mark == Bucket::EMPTY;
            }
        }
        const size_t freed = free_rows.size() - before;
        part.has_free_rows = !free_rows.empty();
        part.live -= static_cast<uint32_t>(freed);
        rare_[number].freed += freed;
        num_freed += freed;
        if (part.used - part.live > part.limit / 4) rebuild(number, part.log2);
    }
    return num_freed;
}

void HashTable::count_ages(uint32_t clock, uint64_t* counts, size_t ages) const {
    for (const Part& part : parts_) {
        for (const Bucket* bucket = part.buckets; bucket != part.buckets + num_buckets(part); ++bucket) {
            for (unsigned i = 0; i < Bucket::SLOTS; ++i) {
                if (bucket->rows[i] < Bucket::FIRST) continue;
                ++counts[std::min<size_t>(clock - bucket->stamps[i], ages - 1)];
            }
        }
    }
}

size_t HashTable::count(unsigned shard, uint32_t clock, uint32_t ttl) const {
    const unsigned first = shard * (PARTS / SHARDS), last = (shard + 1) * (PARTS / SHARDS);
    if (ttl == NEVER) {
        return std::accumulate(parts_.begin() + first, parts_.begin() + last, size_t{0},
                               [](size_t sum, const Part& part) { return sum + part.live; });
    }
    Four sums = {};
    for (unsigned number = first; number < last; ++number) {
        const Part& part = parts_[number];
        for (const Bucket* bucket = part.buckets; bucket != part.buckets + num_buckets(part); ++bucket) {
            Four rows, stamps;
            std::memcpy(&rows, bucket->rows, sizeof rows);
            std::memcpy(&stamps, bucket->stamps, sizeof stamps);
            sums += ((clock - stamps <= ttl) & (rows >= Bucket::FIRST)) & 1;
        }
    }
    return uint64_t{sums[0]} + sums[1] + sums[2] + sums[3];
}

std::vector<HashTable::Entry> HashTable::list(unsigned shard, uint32_t clock, uint32_t ttl, bool sorted) const {
    std::vector<Entry> entries(count(shard, clock, ttl) + 1);
    Entry* next = entries.data();
    for (unsigned number = shard * (PARTS / SHARDS); number < (shard + 1) * (PARTS / SHARDS); ++number) {
        const Part& part = parts_[number];
        for (const Bucket* bucket = part.buckets; bucket != part.buckets + num_buckets(part); ++bucket) {
            for (unsigned i = 0; i < Bucket::SLOTS; ++i) {  // unpredictable, so it is no branch
                *next = {bucket->ids[i], bucket->rows[i] - Bucket::FIRST, bucket->stamps[i]};
                next += (bucket->rows[i] >= Bucket::FIRST) & (clock - bucket->stamps[i] <= ttl);
            }
        }
    }
    entries.pop_back();
    if (sorted) {
        std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.id < b.id; });
    }
    return entries;
}

void HashTable::reserve(size_t n) {
    if (n > UINT32_MAX) throw std::length_error("hash table: no room for " + std::to_string(n) + " embedding rows");
    for (unsigned number = 0; number < PARTS; ++number) {
        const uint64_t expected = parts_[number].live + n / PARTS + n / PARTS / 16 + 16;
        unsigned log2 = parts_[number].log2;
        while (limit_of(number, log2) < expected) ++log2;
        if (log2 != parts_[number].log2) rebuild(number, log2);
    }
}

bool HashTable::insert(uint64_t id, uint32_t stamp, const float* row) {
    const uint64_t hash = hash_of(id);
    Slot slot;
    if (find_slot(id, hash, slot)) return false;
    std::memcpy(add(id, hash, stamp, rare_[shard_of(id) * (PARTS / SHARDS)].fresh), row, width() * sizeof(float));
    return true;
}

HashCounters HashTable::counters() const {
    HashCounters sum;
    sum.inserted = earlier_[0], sum.reset = earlier_[1], sum.freed = earlier_[2];
    for (unsigned number = 0; number < PARTS; ++number) {
        sum.rows += parts_[number].live;
        sum.inserted += parts_[number].inserted;
        sum.reset += rare_[number].reset;
        sum.freed += rare_[number].freed;
        sum.index_bytes += rare_[number].free_rows.capacity() * sizeof(uint32_t);
    }
    sum.missed = missed_.load(std::memory_order_relaxed);
    std::lock_guard<std::mutex> guard(levels_mutex_);
    for (const Level& level : levels_) {
        size_t pages = 0;
        for (uint32_t parts : level.parts_in_page) pages += parts != 0;
        sum.index_bytes += std::min(level.pages.size(), pages * HUGE_PAGE_BYTES);
    }
    sum.row_bytes = rows_.size_bytes();
    return sum;
}

void HashTable::restore(uint64_t inserted, uint64_t reset, uint64_t freed, uint64_t missed) {
    earlier_ = {inserted, reset, freed};
    missed_.store(missed, std::memory_order_relaxed);
}

}  // namespace samovar
