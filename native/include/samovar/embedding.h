// Hash tables of many features: one call looks up and pools all bags of a step, one call updates all their rows.
// Everywhere in native/, "row" means embedding row: [weights | optimizer state] of one id.
//
//   lookup   check every bag -> per table: distinct ids -> rows (probe, insert, reset, stamp) -> pool its features
//   update   per table: sum the gradients of each distinct id in order -> one optimizer step per row
//            (in order within a slice of the step; slices by a fixed tree)
//
// A table is the unit of work; a table with many ids is split by parts of its index and by ranges of its bags.
// No split changes the order of a sum, so any number of threads gives the same bits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "samovar/hash_table.h"
#include "samovar/row_update.h"

namespace samovar {

// A bag whose parts do not fit together; thrown before any table has changed.
struct BadBag : std::invalid_argument {
    BadBag(size_t feature, const std::string& what) : std::invalid_argument(what), feature(feature) {}
    size_t feature;
};

// One feature of a call. With positions, `ids` are distinct and each of them occurs.
struct FeatureInput {
    size_t table = 0;
    bool is_mean = false;
    const int32_t* lens = nullptr;
    size_t num_bags = 0;
    const uint64_t* ids = nullptr;
    size_t num_ids = 0;
    const int32_t* positions = nullptr;
    size_t num_positions = 0;
    float* out = nullptr;
    size_t out_stride = 0;
};

// What a lookup found, kept for the update. Its rows stay in place until a sweep frees some.
class Lookup {
public:
    size_t num_features() const noexcept { return features_.size(); }
    size_t dim(size_t feature) const { return features_.at(feature).dim; }

private:
    friend class Embedding;
    struct Feature {
        size_t table_use;
        size_t dim;
        bool is_mean;
        size_t num_bags;
        size_t num_occurrences;
        std::vector<uint32_t> lens;  // empty when every bag has one id
        std::vector<uint32_t> positions;
    };
    struct TableUse {
        size_t table;
        uint64_t generation;
        std::vector<size_t> features;
        std::vector<uint64_t> ids;  // distinct; empty when the input's own are
        size_t num_ids = 0;
        std::vector<float*> rows;
    };
    std::vector<Feature> features_;
    std::vector<TableUse> tables_;
};

// Gradients of a lookup's outputs, one per feature; null for a feature without a gradient.
struct Pending {
    const Lookup* lookup;
    std::vector<const float*> gradients;
    std::vector<size_t> strides;
    size_t slice = 0;  // of the step; slices come in order, and their sums follow a tree (tree_sum.h)
};

class Embedding {
public:
    size_t add_table(size_t dim, uint64_t seed, float init_scale);
    // Rows that exist keep their weights and get a fresh state.
    void set_optimizer(size_t table, OptimizerKind kind, uint32_t ttl);
    // From now on training reads this table as evaluation does: nothing is inserted, stamped, reset, updated or swept.
    void freeze(size_t table);
    // Gives ids these weights, n * dim, and a fresh state, stamped with the clock; inserts those that are new. The table
    // may be frozen.
    void set_weights(size_t table, const uint64_t* ids, size_t n, const float* weights, uint32_t clock);

    std::unique_ptr<Lookup> lookup(const std::vector<FeatureInput>& inputs, uint32_t clock, bool is_training,
                                   unsigned threads);
    void update(const std::vector<Pending>& pending, const RowStep& step, unsigned threads);
    // Brings what the next lookup of these ids reads into the cache. Changes nothing; any thread may call it.
    void prefetch(const std::vector<FeatureInput>& inputs) const;

    // Frees the expired rows of a range of shards of all tables; returns their number.
    size_t sweep(uint32_t clock, unsigned first_shard, unsigned last_shard, unsigned threads);

    // The number of rows of each table that are not expired.
    std::vector<size_t> count_live(uint32_t clock, unsigned threads) const;

    size_t num_tables() const noexcept { return tables_.size(); }
    const HashTable& table(size_t number) const { return *tables_.at(number)->rows; }
    OptimizerKind kind(size_t number) const { return tables_.at(number)->kind; }
    // How long its rows live; those of a frozen table never expire.
    uint32_t ttl(size_t number) const { return tables_.at(number)->lifetime(); }
    uint64_t skipped(size_t number) const { return tables_.at(number)->skipped.load(); }
    // Changes whenever a row may have changed: earlier listings are then out of date.
    uint64_t version() const noexcept { return version_.load(); }

    // An empty table with rows for this optimizer, to be filled and then passed to `replace`.
    std::unique_ptr<HashTable> make_table(size_t number, OptimizerKind kind) const;
    void replace(size_t number, std::unique_ptr<HashTable> rows, OptimizerKind kind, uint64_t skipped);

    std::mutex& mutex() const noexcept { return mutex_; }

private:
    struct Table {
        std::unique_ptr<HashTable> rows;
        OptimizerKind kind = OptimizerKind::NONE;
        uint32_t ttl = HashTable::NEVER;
        bool is_frozen = false;
        uint64_t generation = 0;
        std::atomic<uint64_t> skipped{0};

        uint32_t lifetime() const noexcept { return is_frozen ? HashTable::NEVER : ttl; }
    };
    struct Call;  // what the phases of one lookup share

    // One for few rows.
    unsigned threads_to_walk(unsigned threads) const;

    // All gradients of one table in one update.
    struct TableUpdate {
        struct Use {
            const Pending* pending;
            size_t table_use;
            std::vector<uint32_t> remap;  // from the lookup's rows to the update's; empty when they are the same
        };
        size_t table = 0;
        std::vector<Use> uses;
        std::vector<float*> merged;  // the rows of several uses
        bool is_partial = false;     // some feature got no gradient
        float* const* rows = nullptr;
        size_t num_rows = 0;
        size_t num_occurrences = 0;
    };

    void probe(Call& call, size_t use, HashTable::PartRange range);
    std::vector<TableUpdate> plan_update(const std::vector<Pending>& pending) const;
    void update_range(TableUpdate& update, const RowStep& step, size_t low, size_t high);

    std::vector<std::unique_ptr<Table>> tables_;
    mutable std::mutex mutex_;
    std::atomic<uint64_t> version_{0};
};

}  // namespace samovar
