// embedding.h and its parts, against a std::map; run under sanitizers. Python tests check the exact arithmetic against
// the numpy reference.
#include "samovar/embedding.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "samovar/distinct.h"
#include "samovar/hash.h"
#include "samovar/team.h"
#include "samovar/tree_sum.h"
#include "check.h"

using namespace samovar;

namespace {

void every_task_is_done_once_whatever_the_threads() {
    for (unsigned threads : {1u, 2u, 3u, 8u}) {
        for (size_t count : {0, 1, 2, 7, 1000}) {
            std::vector<std::atomic<int>> done(count);
            if (count == 7) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // long enough for them to fall asleep
            run_tasks(count, threads, [&](size_t i) { ++done[i]; });
            for (const auto& times : done) check(times == 1, "a task did not run exactly once");
        }
    }
}

void an_error_in_a_task_reaches_the_caller() {
    for (unsigned threads : {1u, 4u}) {
        bool thrown = false;
        try {
            run_tasks(100, threads, [](size_t i) {
                if (i == 57) throw std::runtime_error("57");
            });
        } catch (const std::runtime_error& error) {
            thrown = std::string(error.what()) == "57";
        }
        check(thrown, "the error of a task was lost");
    }
}

void distinct_words_keep_the_order_of_first_occurrence() {
    std::mt19937_64 random(1);
    Distinct distinct;
    for (size_t n : {0, 1, 5, 1000, 70000}) {
        std::vector<uint64_t> words(n), found(n);
        std::vector<uint32_t> positions(n);
        for (uint64_t& word : words) word = random() % (n / 2 + 1) << (random() % 2 * 50);
        const size_t count = distinct.find(words.data(), n, found.data(), positions.data());
        uint32_t newest = 0;
        for (size_t i = 0; i < n; ++i) {
            check(found[positions[i]] == words[i], "a word has the wrong place");
            check(positions[i] <= newest, "not in the order of first occurrence");
            newest += positions[i] == newest;
        }
        check(std::set<uint64_t>(words.begin(), words.end()).size() == count, "a word was counted twice");
    }
}

// A table with one weight per row, beside a map from id to (stamp, weight); the test sets the weights.
void a_table_behaves_like_a_map() {
    std::mt19937_64 random(2);
    HashTable table({1, 1, 99, 0.5f});
    std::unordered_map<uint64_t, std::pair<uint32_t, float>> model;
    const uint32_t ttl = 3;
    uint64_t inserted = 0, reset = 0, freed = 0;
    for (uint32_t clock = 0; clock < 60; ++clock) {
        std::set<uint64_t> wanted;
        const size_t spread = clock < 30 ? 40000 : 3000;
        while (wanted.size() < 3000 && wanted.size() < spread / 2) wanted.insert(random() % spread);
        wanted.insert({0, UINT64_MAX});
        const std::vector<uint64_t> ids(wanted.begin(), wanted.end());
        std::vector<float*> rows(ids.size());
        table.find_or_insert(ids.data(), ids.size(), clock, ttl, {}, rows.data());
        for (size_t i = 0; i < ids.size(); ++i) {
            float fresh;
            init_weights(99, ids[i], 0.5f, &fresh, 1);
            auto [at, is_new] = model.try_emplace(ids[i], clock, fresh);
            const bool is_expired = !is_new && clock - at->second.first > ttl;
            inserted += is_new, reset += is_expired;
            if (is_expired) at->second.second = fresh;
            check(rows[i][0] == at->second.second, "a row has the weight of another");
            at->second = {clock, static_cast<float>(random() % 1000)};
            rows[i][0] = at->second.second;
        }
        if (clock % 7 == 6) {
            size_t expected = 0;
            for (auto at = model.begin(); at != model.end();) {
                const bool is_expired = clock - at->second.first > ttl;
                expected += is_expired;
                at = is_expired ? model.erase(at) : std::next(at);
            }
            const size_t found = table.sweep(clock, ttl, {0, 100}) + table.sweep(clock, ttl, {100, HashTable::PARTS});
            check(found == expected, "freed the wrong rows");
            freed += expected;
        }
        const HashCounters counters = table.counters();
        check(counters.rows == model.size(), "rows were lost");
        check(counters.inserted == inserted && counters.reset == reset && counters.freed == freed, "counted wrongly");
    }
    size_t listed = 0;
    for (unsigned shard = 0; shard < HashTable::SHARDS; ++shard) {
        uint64_t last = 0;
        for (const HashTable::Entry& entry : table.list(shard, 0, HashTable::NEVER, true)) {
            check(listed == 0 || entry.id >= last || entry.id == 0, "not sorted");
            last = entry.id;
            check(model.at(entry.id) == std::make_pair(entry.stamp, table.row(entry)[0]), "listed the wrong row");
            ++listed;
        }
    }
    check(listed == model.size(), "a listing left rows out");
}

void an_index_just_before_growth_takes_at_most_25_bytes_per_row() {
    HashTable table({1, 0, 5, 0.5f});
    uint64_t next = 0;
    double fewest = 1e9;
    uint64_t bytes = table.counters().index_bytes;
    for (int i = 0; i < 300000; ++i) {
        float row = 0;
        table.insert(next++ * 0x9E3779B97F4A7C15, 0, &row);
        if (i % 100 != 0 || i < 10000) continue;
        const HashCounters counters = table.counters();
        if (counters.index_bytes != bytes) {
            bytes = counters.index_bytes;
        } else {
            fewest = std::min(fewest, static_cast<double>(bytes) / counters.rows);
        }
    }
    check(fewest <= 25, "an index takes " + std::to_string(fewest) + " bytes per row");
}

struct Step {
    std::vector<std::vector<uint64_t>> ids;
    std::vector<std::vector<int32_t>> lens;
};

Step random_step(std::mt19937_64& random, size_t features, size_t bags) {
    Step step;
    for (size_t f = 0; f < features; ++f) {
        step.lens.emplace_back();
        step.ids.emplace_back();
        for (size_t b = 0; b < bags; ++b) {
            step.lens.back().push_back(static_cast<int32_t>(random() % 5));
            for (int32_t k = 0; k < step.lens.back().back(); ++k) step.ids.back().push_back(random() % 20000);
        }
    }
    return step;
}

std::vector<float> train(size_t features, size_t bags, unsigned threads, bool with_prefetch, size_t dim = 16,
                         OptimizerKind kind = OptimizerKind::ADAGRAD) {
    std::mt19937_64 random(3);
    Embedding embedding;
    for (size_t f = 0; f < features; ++f) {
        embedding.add_table(dim, f, 0.1f);
        embedding.set_optimizer(f, kind, 2);
    }
    RowStep rule;
    rule.kind = kind;
    rule.lr = 0.1f, rule.eps = 1e-10f, rule.beta1 = 0.9, rule.beta2 = 0.999, rule.clip_norm = 0.05f;
    std::vector<float> all;
    for (uint32_t clock = 0; clock < 12; ++clock) {
        const Step step = random_step(random, features, bags);
        std::vector<float> out(features * bags * dim);
        std::vector<FeatureInput> inputs(features);
        for (size_t f = 0; f < features; ++f) {
            inputs[f].table = f, inputs[f].is_mean = f % 2 == 1;
            inputs[f].lens = step.lens[f].data(), inputs[f].num_bags = bags;
            inputs[f].ids = step.ids[f].data(), inputs[f].num_ids = step.ids[f].size();
            inputs[f].out = out.data() + f * dim, inputs[f].out_stride = features * dim;
        }
        std::atomic<bool> done{false};
        std::thread ahead([&] {
            while (with_prefetch && !done) {
                embedding.prefetch(inputs);
            }
        });
        const auto lookup = embedding.lookup(inputs, clock, true, threads);
        Pending pending{lookup.get(), {}, {}};
        for (size_t f = 0; f < features; ++f) {
            pending.gradients.push_back(out.data() + f * dim);
            pending.strides.push_back(features * dim);
        }
        embedding.update({pending}, rule, threads);
        done = true;
        ahead.join();
        if (clock % 3 == 2) embedding.sweep(clock, 0, HashTable::SHARDS, threads);
        all.insert(all.end(), out.begin(), out.end());
    }
    return all;
}

void any_number_of_threads_gives_the_same_bits() {
    for (auto [features, bags] : {std::pair<size_t, size_t>{1, 6500}, {12, 400}}) {
        const std::vector<float> one = train(features, bags, 1, false);
        for (unsigned threads : {2u, 3u, 8u}) {
            const std::vector<float> many = train(features, bags, threads, threads == 3);
            check(std::memcmp(one.data(), many.data(), one.size() * sizeof(float)) == 0, "threads change the bits");
        }
    }
}

// The sanitizer builds have no vector clones, the plain build has them: all must give these bits.
void vector_clones_change_no_bit() {
    uint64_t found = 0;
    for (int kind = 1; kind <= 4; ++kind) {
        for (size_t dim : {1, 7, 8, 16, 24, 32, 64}) {
            const auto out = train(3, 100, 2, false, dim, static_cast<OptimizerKind>(kind));
            found = hash_bytes(out.data(), out.size() * sizeof(float), found);
        }
    }
    check(found == 12881972578014173596u, "the bits have changed: " + std::to_string(found));
}

void bad_bags_are_rejected_before_anything_changes() {
    Embedding embedding;
    embedding.add_table(4, 0, 0.1f);
    const std::vector<uint64_t> ids{1, 2, 3};
    std::vector<float> out(64);
    const auto look_up = [&](std::vector<int32_t> lens, std::vector<int32_t> positions) {
        FeatureInput input;
        input.lens = lens.data(), input.num_bags = lens.size();
        input.ids = ids.data(), input.num_ids = ids.size();
        if (!positions.empty()) input.positions = positions.data(), input.num_positions = positions.size();
        input.out = out.data(), input.out_stride = 4;
        try {
            embedding.lookup({input}, 0, true, 2);
        } catch (const BadBag&) {
            return false;
        }
        return true;
    };
    check(!look_up({1, 1}, {}), "too few lengths");
    check(!look_up({4, -1}, {}), "a negative length");
    check(!look_up({1, 3}, {0, 1, 2, 3}), "a position past the end");
    check(!look_up({1, 3}, {0, 1, -1, 2}), "a negative position");
    check(!look_up({1, 1}, {0, 2}), "an id that no position uses");
    check(embedding.table(0).counters().rows == 0, "a rejected bag changed the table");
    check(look_up({1, 3}, {0, 1, 1, 2}), "a good bag was rejected");
}

// Split between threads, as a table with many ids is: a frozen one must not be inserted into from any of them.
void training_changes_nothing_in_a_frozen_table() {
    constexpr size_t n = 40000, dim = 2;
    Embedding embedding;
    embedding.add_table(dim, 0, 0.1f);
    embedding.set_optimizer(0, OptimizerKind::ADAGRAD, 1);
    std::vector<uint64_t> ids(n);
    std::iota(ids.begin(), ids.end(), uint64_t{0});
    const std::vector<float> weights(n / 2 * dim, 3.0f);
    embedding.set_weights(0, ids.data(), n / 2, weights.data(), 1);
    embedding.freeze(0);
    const std::vector<int32_t> lens(n, 1);
    std::vector<float> out(n * dim);
    FeatureInput input;
    input.lens = lens.data(), input.num_bags = n;
    input.ids = ids.data(), input.num_ids = n;
    input.out = out.data(), input.out_stride = dim;
    RowStep rule{};
    rule.kind = OptimizerKind::ADAGRAD;
    rule.lr = 1;
    for (uint32_t clock = 2; clock < 6; ++clock) {  // past the ttl
        const auto lookup = embedding.lookup({input}, clock, true, 4);
        for (size_t i = 0; i < n * dim; ++i) check(out[i] == (i < n / 2 * dim ? 3.0f : 0.0f), "a frozen table gave another value");
        embedding.update({Pending{lookup.get(), {out.data()}, {dim}}}, rule, 4);
        check(embedding.sweep(clock, 0, HashTable::SHARDS, 4) == 0, "a frozen row expired");
    }
    check(embedding.table(0).counters().rows == n / 2, "a frozen table grew");
}

// Where 1e8 absorbs a 1, only one order of additions gives the expected sum.
float sum_of(const std::vector<std::pair<size_t, float>>& leaves) {
    std::vector<std::vector<float>> buffers;
    TreeSum sum(buffers);
    for (const auto& [position, value] : leaves) *sum.leaf(position, 1) = value;
    return *sum.finish();
}

void slices_are_added_up_by_the_tree_of_their_positions() {
    const float big = 1e8f;
    check(sum_of({{0, big}, {1, 1}, {2, -big}, {3, 1}}) == 0, "(0 + 1) + (2 + 3)");
    check(sum_of({{0, big}, {1, -big}, {2, 1}, {3, 1}}) == 2, "(0 + 1) + (2 + 3)");
    check(sum_of({{0, big}, {1, -big}, {2, 1}}) == 1, "(0 + 1) + 2");
    check(sum_of({{0, 1}, {2, big}, {3, -big}}) == 1, "0 + (2 + 3)");
    check(sum_of({{1, 1}, {4, big}, {6, -big}, {7, 0}}) == 1, "1 + (4 + (6 + 7))");
    check(sum_of({{5, 3}}) == 3, "one slice is itself");
}

}  // namespace

int main() {
    every_task_is_done_once_whatever_the_threads();
    an_error_in_a_task_reaches_the_caller();
    distinct_words_keep_the_order_of_first_occurrence();
    a_table_behaves_like_a_map();
    an_index_just_before_growth_takes_at_most_25_bytes_per_row();
    any_number_of_threads_gives_the_same_bits();
    vector_clones_change_no_bit();
    bad_bags_are_rejected_before_anything_changes();
    training_changes_nothing_in_a_frozen_table();
    slices_are_added_up_by_the_tree_of_their_positions();
    std::puts("embedding_test: ok");
}
