// id -> embedding row ("row" from here on), with a time to live. Knows no bags, gradients or optimizers.
//
//   hash      shard (3 bits of mix) | part of the shard (5 bits) | home bucket (as many bits as the part needs) | ...
//   part      buckets of one cache line each: 4 x (id, row + 2, stamp); a full bucket overflows into the next
//   shard     32 parts: the unit in which a table is stored. The function id -> shard is part of the format. All other
//             bits differ from process to process, so that nobody can choose ids that meet in one bucket
//   rows      separate, in chunks that never move: [weights | optimizer state]
//
// One cache miss finds an id, its row number and its stamp; a second one fetches the row. Each part grows on its own,
// at a load of its own, so that no step waits for a whole table to grow. Different threads may change different parts.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "samovar/pages.h"
#include "samovar/rows.h"
#include "samovar/seeded_hash.h"

namespace samovar {

// Bijective, so that no two ids share all 64 bits. Part of the format: it gives the shard and the weights of an id.
inline uint64_t mix(uint64_t h) noexcept {
    h = (h ^ (h >> 33)) * 0xff51afd7ed558ccd;
    h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53;
    return h ^ (h >> 33);
}

// The weights of a new row: uniform in [-scale, scale), from (seed, id) alone.
void init_weights(uint64_t seed, uint64_t id, float scale, float* weights, size_t dim) noexcept;

struct HashCounters {
    uint64_t rows = 0;      // in memory now, expired ones too
    uint64_t inserted = 0;  // this and the next three: since the table was created
    uint64_t reset = 0;
    uint64_t freed = 0;
    uint64_t missed = 0;
    uint64_t index_bytes = 0;
    uint64_t row_bytes = 0;
};

class HashTable {
public:
    static constexpr unsigned PART_BITS = 8;
    static constexpr unsigned PARTS = 1u << PART_BITS;
    static constexpr unsigned SHARD_BITS = 3;
    static constexpr unsigned SHARDS = 1u << SHARD_BITS;
    static constexpr uint32_t NEVER = UINT32_MAX;  // a ttl with which no row expires
    static constexpr size_t MAX_WIDTH = 512 * 3 + 1;

    struct Settings {
        size_t dim;
        size_t state;  // floats after the weights
        uint64_t seed;
        float init_scale;
    };
    struct PartRange {
        unsigned first = 0, last = PARTS;
    };

    explicit HashTable(const Settings& settings);

    const Settings& settings() const noexcept { return settings_; }
    size_t width() const noexcept { return rows_.width(); }
    static unsigned shard_of(uint64_t id) noexcept { return static_cast<unsigned>(mix(id) >> (64 - SHARD_BITS)); }

    // Training: the row of each id that belongs to the range; inserted if new, reset if expired, stamped.
    void find_or_insert(const uint64_t* ids, size_t n, uint32_t clock, uint32_t ttl, PartRange range, float** rows);
    // Frozen: the row of each id, or `missing`. Returns the number of ids that were missing or expired.
    size_t find(const uint64_t* ids, size_t n, uint32_t clock, uint32_t ttl, float* missing, float** rows) const;
    // The stamp of each id, 0 if it is missing; for inspection.
    void stamps(const uint64_t* ids, size_t n, uint32_t* stamps) const;
    void prefetch(const uint64_t* ids, size_t n) const;
    void count_missed(size_t n) noexcept { missed_.fetch_add(n, std::memory_order_relaxed); }

    // Frees the expired rows of a range of parts; returns their number.
    size_t sweep(uint32_t clock, uint32_t ttl, PartRange range);
    // The number of rows of each age (clock - stamp) up to `ages` - 1; the last count includes all older ones.
    void count_ages(uint32_t clock, uint64_t* counts, size_t ages) const;

    struct Entry {
        uint64_t id;
        uint32_t row;
        uint32_t stamp;
    };
    // The rows of a shard that are not expired: their number, and the rows in the order of the index or by id.
    size_t count(unsigned shard, uint32_t clock, uint32_t ttl) const;
    std::vector<Entry> list(unsigned shard, uint32_t clock, uint32_t ttl, bool sorted) const;
    float* row(const Entry& entry) const noexcept { return rows_.at(entry.row); }
    // Makes room for n more rows at once.
    void reserve(size_t n);
    // Adds a row with the given content; false if the id exists.
    bool insert(uint64_t id, uint32_t stamp, const float* row);
    // Brings the bucket into the cache that `insert` will read.
    void prefetch_bucket(uint64_t id) const noexcept { __builtin_prefetch(bucket_of(hash_of(id)), 1); }

    HashCounters counters() const;
    // The counters to continue from after a load.
    void restore(uint64_t inserted, uint64_t reset, uint64_t freed, uint64_t missed);

private:
    struct alignas(64) Bucket {
        static constexpr unsigned SLOTS = 4;
        static constexpr uint32_t EMPTY = 0, REMOVED = 1, FIRST = 2;
        uint64_t ids[SLOTS];
        uint32_t rows[SLOTS];  // EMPTY, REMOVED, or a row's number + FIRST
        uint32_t stamps[SLOTS];
    };
    struct Slot {
        Bucket* bucket;
        unsigned number;
    };
    // The fields of a part that a lookup or an insertion reads: half a cache line.
    struct alignas(32) Part {
        Bucket* buckets = nullptr;
        uint64_t inserted = 0;
        uint32_t used = 0;  // slots that are not empty
        uint32_t live = 0;
        uint32_t limit = 0;
        uint8_t log2 = 0;
        bool has_free_rows = false;
    };
    // Rows that were taken and not yet given to an id. New rows are in the order of their first use, so that popular
    // ones share pages; only threads that work on other parts at the same time take blocks of their own.
    struct Fresh {
        uint32_t next = 0, end = 0;
    };
    // The rarely used fields of a part.
    struct Rare {
        uint64_t reset = 0, freed = 0;
        std::vector<uint32_t> free_rows;
        Fresh fresh;  // for the range that starts with this part
    };
    // All parts of one size. Memory is returned one huge page at a time, when the last part has left it.
    struct Level {
        Pages pages;
        unsigned parts = 0;
        std::vector<uint32_t> parts_in_page;
    };

    static constexpr uint64_t IN_SHARD = UINT64_MAX >> SHARD_BITS;  // the bits below those of the shard

    uint64_t hash_of(uint64_t id) const noexcept { return (mix(id) & ~IN_SHARD) | seeded_(id) >> SHARD_BITS; }
    static unsigned part_of(uint64_t hash) noexcept { return static_cast<unsigned>(hash >> (64 - PART_BITS)); }
    static size_t num_buckets(const Part& part) noexcept { return size_t{1} << part.log2; }
    static size_t home(const Part& part, uint64_t hash) noexcept {
        return (hash << PART_BITS >> 1) >> (63 - part.log2);
    }
    Bucket* bucket_of(uint64_t hash) const noexcept {
        const Part& part = parts_[part_of(hash)];
        return part.buckets + home(part, hash);
    }
    bool find_slot(uint64_t id, uint64_t hash, Slot& slot) const noexcept;
    float* touch(uint64_t id, uint64_t hash, uint32_t clock, uint32_t ttl, Fresh& fresh);
    float* add(uint64_t id, uint64_t hash, uint32_t stamp, Fresh& fresh);
    static void put(const Part& part, const Entry& entry, uint64_t hash, bool& reused);
    void start(float* row, uint64_t id) const noexcept;
    uint32_t take_row(unsigned number, Fresh& fresh);
    void rebuild(unsigned number, unsigned log2);
    void enter_level(unsigned number, unsigned log2);
    void leave_level(unsigned number, unsigned log2);
    uint32_t limit_of(unsigned number, unsigned log2) const noexcept;
    void prefetch_row(const float* row) const noexcept;
    template <typename IsMine, typename Visit>
    void in_waves(const uint64_t* ids, size_t n, IsMine is_mine, Visit visit) const;

    Settings settings_;
    SeededHash seeded_ = SeededHash::of_process();
    Rows rows_;
    std::array<Part, PARTS> parts_;
    std::array<Rare, PARTS> rare_;
    mutable std::mutex levels_mutex_;
    std::vector<Level> levels_;
    std::atomic<uint64_t> missed_{0};
    std::array<uint64_t, 3> earlier_{};  // inserted, reset, freed before the last load
};

}  // namespace samovar
