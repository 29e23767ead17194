#include "samovar/embedding.h"

#include <algorithm>
#include <numeric>

#include "samovar/distinct.h"
#include "samovar/pooling.h"
#include "samovar/team.h"
#include "samovar/tree_sum.h"

namespace samovar {

namespace {

// Below this, more tasks cost more than they save.
constexpr size_t MIN_SPLIT_IDS = 4096;
constexpr size_t MIN_SPLIT_IDS_OF_TABLE = 12288;
constexpr size_t MIN_SPLIT_CHECKS = 65536;
constexpr size_t MIN_SPLIT_ROWS = 262144;  // walking fewer takes less time than waking threads on busy cores
alignas(64) float missing_row[HashTable::MAX_WIDTH] = {};

Distinct& distinct_words() {
    thread_local Distinct words;
    return words;
}

// One task per table is enough if there are at least as many tables as threads: each split of a table reads all its ids
// again to find its own.
size_t splits_for(size_t num_tables, size_t num_ids, unsigned threads) {
    if (num_tables == 0 || num_tables >= threads || num_ids < MIN_SPLIT_IDS_OF_TABLE * num_tables) return 1;
    return (threads + num_tables - 1) / num_tables;
}

// The range [k/n, (k+1)/n) of a size.
std::pair<size_t, size_t> share(size_t size, size_t k, size_t n) { return {size * k / n, size * (k + 1) / n}; }

size_t check_lens(const FeatureInput& input, size_t feature, std::vector<uint32_t>& lens) {
    uint64_t sum = 0;
    int32_t all = 0;
    int32_t not_one = 0;
    for (size_t b = 0; b < input.num_bags; ++b) {
        sum += static_cast<uint32_t>(input.lens[b]);
        all |= input.lens[b];
        not_one |= input.lens[b] ^ 1;
    }
    if (all < 0) throw BadBag(feature, "data_len has a negative length");
    const size_t occurrences = input.positions != nullptr ? input.num_positions : input.num_ids;
    if (sum != occurrences) {
        throw BadBag(feature, "data_len adds up to " + std::to_string(sum) + ", but there are " +
                                  std::to_string(occurrences) + " ids");
    }
    if (occurrences > INT32_MAX) throw BadBag(feature, "data has 2^31 ids or more");
    if (not_one != 0) {
        // Lengths may be in a mapped file that another process changes: what is used later is what was added up.
        lens.resize(input.num_bags);
        uint64_t copied = 0;
        for (size_t b = 0; b < input.num_bags; ++b) copied += lens[b] = static_cast<uint32_t>(input.lens[b]);
        if (copied != occurrences) throw BadBag(feature, "data_len changed while it was read");
    }
    return occurrences;
}

void check_positions(const FeatureInput& input, size_t feature, std::vector<uint32_t>& positions) {
    thread_local std::vector<uint8_t> marks;
    marks.assign(input.num_ids, 0);
    uint8_t* const seen = marks.data();  // each use of a thread_local vector costs a lookup
    positions.resize(input.num_positions);
    for (size_t i = 0; i < input.num_positions; ++i) {
        const auto position = static_cast<uint32_t>(input.positions[i]);
        if (position >= input.num_ids) {
            throw BadBag(feature, "inverse has position " + std::to_string(input.positions[i]) + ", but there are " +
                                      std::to_string(input.num_ids) + " distinct ids");
        }
        seen[position] = 1;
        positions[i] = position;
    }
    const size_t used = std::accumulate(seen, seen + input.num_ids, size_t{0});
    if (used != input.num_ids) {
        throw BadBag(feature, "unique has " + std::to_string(input.num_ids - used) + " ids that no position in inverse uses");
    }
}

}  // namespace

size_t Embedding::add_table(size_t dim, uint64_t seed, float init_scale) {
    auto table = std::make_unique<Table>();
    table->rows = std::make_unique<HashTable>(HashTable::Settings{dim, 0, seed, init_scale});
    tables_.push_back(std::move(table));
    return tables_.size() - 1;
}

std::unique_ptr<HashTable> Embedding::make_table(size_t number, OptimizerKind kind) const {
    HashTable::Settings settings = table(number).settings();
    settings.state = state_width(kind, settings.dim);
    return std::make_unique<HashTable>(settings);
}

void Embedding::replace(size_t number, std::unique_ptr<HashTable> rows, OptimizerKind kind, uint64_t skipped) {
    std::lock_guard<std::mutex> guard(mutex_);
    Table& table = *tables_.at(number);
    table.rows = std::move(rows);
    table.kind = kind;
    table.skipped = skipped;
    ++table.generation;
    ++version_;
}

void Embedding::set_optimizer(size_t number, OptimizerKind kind, uint32_t ttl) {
    Table& table = *tables_.at(number);
    const HashCounters counters = table.rows->counters();
    if (table.kind != kind) {
        std::unique_ptr<HashTable> rows = make_table(number, kind);
        rows->reserve(counters.rows);
        std::vector<float> row(rows->width(), 0.0f);
        for (unsigned shard = 0; shard < HashTable::SHARDS; ++shard) {
            for (const HashTable::Entry& entry : table.rows->list(shard, 0, HashTable::NEVER, false)) {
                std::copy_n(table.rows->row(entry), rows->settings().dim, row.data());
                rows->insert(entry.id, entry.stamp, row.data());
            }
        }
        rows->restore(counters.inserted, counters.reset, counters.freed, counters.missed);
        replace(number, std::move(rows), kind, table.skipped);
    }
    table.ttl = ttl;
}

void Embedding::freeze(size_t number) {
    std::lock_guard<std::mutex> guard(mutex_);
    tables_.at(number)->is_frozen = true;
    ++version_;  // rows that had expired are back
}

void Embedding::set_weights(size_t number, const uint64_t* ids, size_t n, const float* weights, uint32_t clock) {
    std::lock_guard<std::mutex> guard(mutex_);
    Table& table = *tables_.at(number);
    const size_t dim = table.rows->settings().dim, width = table.rows->width();
    std::vector<float*> rows(n);
    table.rows->find_or_insert(ids, n, clock, table.lifetime(), {}, rows.data());
    for (size_t i = 0; i < n; ++i) {
        std::copy_n(weights + i * dim, dim, rows[i]);
        std::fill(rows[i] + dim, rows[i] + width, 0.0f);
    }
    ++version_;
}

struct Embedding::Call {
    const std::vector<FeatureInput>& inputs;
    Lookup& lookup;
    uint32_t clock;
    bool is_training;

    // Checks a feature; notes its occurrences and, for distinct ids, their positions.
    void check(size_t feature) {
        Lookup::Feature& to = lookup.features_[feature];
        to.num_occurrences = check_lens(inputs[feature], feature, to.lens);
        if (inputs[feature].positions != nullptr) check_positions(inputs[feature], feature, to.positions);
    }

    // The distinct ids of a table, over all its features.
    void identify(Lookup::TableUse& use) {
        const FeatureInput& first = inputs[use.features[0]];
        if (use.features.size() == 1 && first.positions != nullptr) {
            use.num_ids = first.num_ids;
        } else if (use.features.size() == 1) {
            std::vector<uint32_t>& positions = lookup.features_[use.features[0]].positions;
            positions.resize(first.num_ids);
            use.ids.resize(first.num_ids);
            use.num_ids = distinct_words().find(first.ids, first.num_ids, use.ids.data(), positions.data());
        } else {
            identify_shared(use);
        }
        use.rows.resize(use.num_ids);
    }

    void identify_shared(Lookup::TableUse& use) {
        std::vector<uint64_t> words;
        for (size_t feature : use.features) {
            words.insert(words.end(), inputs[feature].ids, inputs[feature].ids + inputs[feature].num_ids);
        }
        std::vector<uint32_t> places(words.size());
        use.ids.resize(words.size());
        use.num_ids = distinct_words().find(words.data(), words.size(), use.ids.data(), places.data());
        const uint32_t* place = places.data();
        for (size_t feature : use.features) {
            std::vector<uint32_t>& positions = lookup.features_[feature].positions;
            if (inputs[feature].positions == nullptr) {
                positions.assign(place, place + inputs[feature].num_ids);
            } else {
                for (uint32_t& position : positions) position = place[position];
            }
            place += inputs[feature].num_ids;
        }
    }

    const uint64_t* ids(const Lookup::TableUse& use) const {
        return use.ids.empty() ? inputs[use.features[0]].ids : use.ids.data();
    }

    void pool(size_t feature, size_t k, size_t n) {
        const Lookup::Feature& from = lookup.features_[feature];
        const Bags bags{from.lens.empty() ? nullptr : from.lens.data(), from.positions.data(), from.num_bags,
                        from.is_mean};
        const auto [first, last] = share(from.num_bags, k, n);
        size_t start = first;
        if (bags.lens != nullptr) start = std::accumulate(bags.lens, bags.lens + first, size_t{0});
        pool_bags(bags, first, last, start, lookup.tables_[from.table_use].rows.data(), from.dim, inputs[feature].out,
                  inputs[feature].out_stride);
    }
};

void Embedding::probe(Call& call, size_t number, HashTable::PartRange range) {
    Lookup::TableUse& use = call.lookup.tables_[number];
    Table& table = *tables_[use.table];
    const uint64_t* ids = call.ids(use);
    if (call.is_training && !table.is_frozen) {
        table.rows->find_or_insert(ids, use.num_ids, call.clock, table.ttl, range, use.rows.data());
    } else {  // nothing changes: any split of the ids works
        const auto [first, unused] = share(use.num_ids, range.first, HashTable::PARTS);
        const auto [unused_too, last] = share(use.num_ids, range.last - 1, HashTable::PARTS);
        table.rows->count_missed(table.rows->find(ids + first, last - first, call.clock, table.lifetime(), missing_row,
                                                  use.rows.data() + first));
    }
}

std::unique_ptr<Lookup> Embedding::lookup(const std::vector<FeatureInput>& inputs, uint32_t clock, bool is_training,
                                          unsigned threads) {
    auto lookup = std::make_unique<Lookup>();
    std::vector<size_t> use_of_table(tables_.size(), SIZE_MAX);
    size_t num_ids = 0, num_checked = 0;
    lookup->features_.resize(inputs.size());
    for (size_t feature = 0; feature < inputs.size(); ++feature) {
        const FeatureInput& input = inputs[feature];
        size_t& use = use_of_table.at(input.table);
        if (use == SIZE_MAX) {
            use = lookup->tables_.size();
            lookup->tables_.emplace_back();
            lookup->tables_.back().table = input.table;
        }
        lookup->tables_[use].features.push_back(feature);
        lookup->features_[feature].table_use = use;
        lookup->features_[feature].dim = table(input.table).settings().dim;
        lookup->features_[feature].is_mean = input.is_mean;
        lookup->features_[feature].num_bags = input.num_bags;
        num_ids += input.positions != nullptr ? input.num_positions : input.num_ids;
        num_checked += input.num_bags + 4 * input.num_positions;  // a position costs more than a length
    }
    Call call{inputs, *lookup, clock, is_training};
    const size_t num_tables = lookup->tables_.size();
    const size_t splits = splits_for(num_tables, num_ids, threads);
    run_tasks(inputs.size(), num_checked >= MIN_SPLIT_CHECKS ? threads : 1,
              [&](size_t feature) { call.check(feature); });

    std::lock_guard<std::mutex> guard(mutex_);
    if (is_training) ++version_;
    for (Lookup::TableUse& use : lookup->tables_) use.generation = tables_[use.table]->generation;
    if (splits == 1) {
        run_tasks(num_tables, num_ids < MIN_SPLIT_IDS ? 1 : threads, [&](size_t use) {
            call.identify(lookup->tables_[use]);
            probe(call, use, {});
            for (size_t feature : lookup->tables_[use].features) call.pool(feature, 0, 1);
        });
    } else {
        run_tasks(num_tables, threads, [&](size_t use) { call.identify(lookup->tables_[use]); });
        run_tasks(num_tables * splits, threads, [&](size_t task) {
            const auto [first, last] = share(HashTable::PARTS, task % splits, splits);
            probe(call, task / splits, {static_cast<unsigned>(first), static_cast<unsigned>(last)});
        });
        run_tasks(inputs.size() * splits, threads, [&](size_t task) {
            call.pool(task / splits, task % splits, splits);
        });
    }
    return lookup;
}

void Embedding::prefetch(const std::vector<FeatureInput>& inputs) const {
    for (const FeatureInput& input : inputs) {
        std::lock_guard<std::mutex> guard(mutex_);  // per feature, so that a step need not wait for all of them
        table(input.table).prefetch(input.ids, input.num_ids);
    }
}

std::vector<Embedding::TableUpdate> Embedding::plan_update(const std::vector<Pending>& pending) const {
    std::vector<TableUpdate> updates;
    std::vector<size_t> update_of_table(tables_.size(), SIZE_MAX);
    for (const Pending& one : pending) {
        const Lookup& lookup = *one.lookup;
        for (size_t u = 0; u < lookup.tables_.size(); ++u) {
            const Lookup::TableUse& use = lookup.tables_[u];
            if (tables_[use.table]->is_frozen) continue;
            size_t num_given = 0, occurrences = 0;
            for (size_t feature : use.features) {
                if (one.gradients[feature] == nullptr) continue;
                ++num_given;
                occurrences += lookup.features_[feature].num_occurrences;
            }
            if (num_given == 0) continue;
            if (use.generation != tables_[use.table]->generation) {
                throw std::logic_error("a sweep or a load happened between the lookup and its update");
            }
            size_t& number = update_of_table[use.table];
            if (number == SIZE_MAX) {
                number = updates.size();
                updates.emplace_back();
                updates.back().table = use.table;
            }
            TableUpdate& update = updates[number];
            update.uses.push_back({&one, u, {}});
            update.is_partial |= num_given != use.features.size();
            update.num_occurrences += occurrences;
        }
    }
    return updates;
}

namespace {

// Several lookups of one table: their rows as one list, each row once.
template <typename Update, typename RowsOf>
void merge_uses(Update& update, const RowsOf& rows_of) {
    if (update.uses.size() == 1) {
        update.rows = rows_of(update.uses[0]).data();
        update.num_rows = rows_of(update.uses[0]).size();
        return;
    }
    std::vector<uint64_t> words;
    for (const auto& use : update.uses) {
        for (float* row : rows_of(use)) words.push_back(reinterpret_cast<uintptr_t>(row));
    }
    std::vector<uint64_t> rows(words.size());
    std::vector<uint32_t> places(words.size());
    update.num_rows = distinct_words().find(words.data(), words.size(), rows.data(), places.data());
    const uint32_t* place = places.data();
    for (auto& use : update.uses) {
        use.remap.assign(place, place + rows_of(use).size());
        place += rows_of(use).size();
    }
    update.merged.resize(update.num_rows);
    for (size_t i = 0; i < update.num_rows; ++i) update.merged[i] = reinterpret_cast<float*>(rows[i]);
    update.rows = update.merged.data();
}

}  // namespace

void Embedding::update_range(TableUpdate& update, const RowStep& step, size_t low, size_t high) {
    thread_local std::vector<std::vector<float>> buffers;
    thread_local std::vector<uint8_t> touched;
    Table& table = *tables_[update.table];
    const size_t dim = table.rows->settings().dim;
    if (update.is_partial) touched.assign(high - low, 0);
    uint8_t* marks = update.is_partial ? touched.data() : nullptr;
    const bool is_whole = low == 0 && high == update.num_rows;
    TreeSum sum(buffers);
    float* gradients = nullptr;
    for (size_t u = 0; u < update.uses.size(); ++u) {
        const TableUpdate::Use& use = update.uses[u];
        const size_t slice = use.pending->slice;
        if (u == 0 || slice != update.uses[u - 1].pending->slice) gradients = sum.leaf(slice, (high - low) * dim);
        const Lookup& lookup = *use.pending->lookup;
        for (size_t feature : lookup.tables_[use.table_use].features) {
            if (use.pending->gradients[feature] == nullptr) continue;
            const Lookup::Feature& from = lookup.features_[feature];
            const Bags bags{from.lens.empty() ? nullptr : from.lens.data(), from.positions.data(), from.num_bags,
                            from.is_mean};
            reduce_bags(bags, use.pending->gradients[feature], use.pending->strides[feature],
                        use.remap.empty() ? nullptr : use.remap.data(), dim, low, is_whole ? SIZE_MAX : high,
                        gradients, marks);
        }
    }
    table.skipped += update_rows(step, dim, update.rows + low, sum.finish(), marks, high - low);
}

void Embedding::update(const std::vector<Pending>& pending, const RowStep& step, unsigned threads) {
    std::lock_guard<std::mutex> guard(mutex_);
    std::vector<TableUpdate> updates = plan_update(pending);
    size_t occurrences = 0;
    for (TableUpdate& update : updates) {
        if (tables_[update.table]->kind != step.kind) {
            throw std::logic_error("the rows of this table were made for another optimizer");
        }
        merge_uses(update, [](const TableUpdate::Use& use) -> const std::vector<float*>& {
            return use.pending->lookup->tables_[use.table_use].rows;
        });
        occurrences += update.num_occurrences;
    }
    ++version_;
    const size_t splits = splits_for(updates.size(), occurrences, threads);
    run_tasks(updates.size() * splits, occurrences < MIN_SPLIT_IDS ? 1 : threads, [&](size_t task) {
        TableUpdate& update = updates[task / splits];
        const auto [low, high] = share(update.num_rows, task % splits, splits);
        update_range(update, step, low, high);
    });
}

unsigned Embedding::threads_to_walk(unsigned threads) const {
    size_t rows = 0;
    for (const auto& table : tables_) rows += table->rows->counters().rows;
    return rows < MIN_SPLIT_ROWS ? 1 : threads;
}

std::vector<size_t> Embedding::count_live(uint32_t clock, unsigned threads) const {
    std::lock_guard<std::mutex> guard(mutex_);
    std::vector<std::atomic<size_t>> counts(tables_.size());
    run_tasks(tables_.size() * HashTable::SHARDS, threads_to_walk(threads), [&](size_t task) {
        const Table& table = *tables_[task / HashTable::SHARDS];
        const auto shard = static_cast<unsigned>(task % HashTable::SHARDS);
        counts[task / HashTable::SHARDS] += table.rows->count(shard, clock, table.lifetime());
    });
    return {counts.begin(), counts.end()};
}

size_t Embedding::sweep(uint32_t clock, unsigned first_shard, unsigned last_shard, unsigned threads) {
    std::lock_guard<std::mutex> guard(mutex_);
    ++version_;
    const unsigned parts = HashTable::PARTS / HashTable::SHARDS;
    const size_t shards = last_shard - first_shard;
    std::vector<std::atomic<size_t>> freed(tables_.size());
    run_tasks(tables_.size() * shards, threads_to_walk(threads), [&](size_t task) {
        Table& table = *tables_[task / shards];
        if (table.lifetime() == HashTable::NEVER) return;
        const auto shard = static_cast<unsigned>(first_shard + task % shards);
        freed[task / shards] += table.rows->sweep(clock, table.ttl, {shard * parts, (shard + 1) * parts});
    });
    size_t sum = 0;
    for (size_t i = 0; i < freed.size(); ++i) {
        if (freed[i] != 0) ++tables_[i]->generation;
        sum += freed[i];
    }
    return sum;
}

}  // namespace samovar
