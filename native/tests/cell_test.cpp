// Cells: round trips, and damaged cells with a right checksum. Run under sanitizers.
#include "samovar/cell.h"

#include <cstdio>
#include <random>
#include <set>
#include <thread>

#include "cells.h"
#include "samovar/pool.h"

using namespace samovar;

namespace {

struct Bag {
    std::vector<uint64_t> ids;
    std::vector<int32_t> lengths;
};

Bag make_bag(std::mt19937_64& chance, size_t examples, size_t longest, uint64_t distinct) {
    Bag bag;
    for (size_t i = 0; i < examples; ++i) {
        bag.lengths.push_back(longest == 1 ? 1 : static_cast<int32_t>(chance() % (longest + 1)));
        for (int32_t j = 0; j < bag.lengths.back(); ++j) bag.ids.push_back(chance() % distinct * 0x9E3779B97F4A7C15);
    }
    return bag;
}

std::vector<uint8_t> encode(const Bag& bag, Codec codec) {
    std::vector<uint8_t> cell;
    const Shape shape{1, {static_cast<uint32_t>(bag.lengths.size()), 0, 0}};
    append_bag(cell, bag.ids.data(), bag.ids.size(), bag.lengths.data(), shape, {codec, 3});
    return cell;
}

// Decodes from an allocation of exactly the cell's size, so that a sanitizer sees a read past its end. The request says
// what the header says, as a stranger's index would.
void decode(const std::vector<uint8_t>& cell, const Bag* expected) {
    auto* source = static_cast<uint8_t*>(std::malloc(cell.size()));
    std::memcpy(source, cell.data(), cell.size());
    struct Freed {
        uint8_t* data;
        ~Freed() { std::free(data); }
    } freed{source};
    Claim claim = claim_of(cell);
    const CellRequest request{&claim.place, 1, &claim.num_examples, &claim.column, 1};
    const CellDecoder decoder(source, cell.size(), request);
    CHECK(decoder.arena().size_bytes <= 2 * claim.place.decoded + 512);
    if (decoder.arena().size_bytes > MOST_BYTES) return;
    Memory arena(decoder.arena().size_bytes);
    uint8_t* bytes = arena.data();
    decoder.run(bytes);
    const DecodedCell& found = decoder.cells()[0];
    if (found.layout != Layout::ids && found.layout != Layout::distinct) return;
    const auto at = [&](const Part& part, size_t section, size_t item) {
        return (part.is_mapped ? source : bytes + section) + part.at * item;
    };
    const auto* ids = reinterpret_cast<const uint64_t*>(at(found.ids, 0, 8));
    std::vector<uint64_t> data(ids, ids + found.ids.size);
    if (found.layout == Layout::distinct) {
        CHECK(std::set<uint64_t>(data.begin(), data.end()).size() == data.size());
        data.resize(found.positions.size);
        gather_ids(ids, reinterpret_cast<const int32_t*>(at(found.positions, decoder.arena().ints.at, 4)), data.size(),
                   data.data());
    }
    const auto* lengths = reinterpret_cast<const int32_t*>(at(found.lengths, decoder.arena().ints.at, 4));
    uint64_t sum = 0;
    for (size_t i = 0; i < found.lengths.size; ++i) sum += static_cast<uint32_t>(lengths[i]);
    CHECK(sum == data.size());
    if (expected != nullptr) {
        CHECK(data == expected->ids);
        CHECK(std::vector<int32_t>(lengths, lengths + found.lengths.size) == expected->lengths);
    }
}

void test_round_trips(Codec codec) {
    std::mt19937_64 chance(1);
    for (const size_t examples : {0, 1, 7, 300}) {
        for (const size_t longest : {1, 3, 300}) {
            for (const uint64_t distinct : {1, 200, 300, 70000, 1 << 30}) {
                const Bag bag = make_bag(chance, examples, longest, distinct);
                decode(encode(bag, codec), &bag);
            }
        }
    }
}

// No change of a header or payload may cause a read or write outside; most are rejected, some give other valid cells.
void test_changes(Codec codec) {
    std::mt19937_64 chance(2);
    size_t num_rejected = 0;
    for (int round = 0; round < 30000; ++round) {
        std::vector<uint8_t> cell = encode(make_bag(chance, 1 + chance() % 20, 1 + chance() % 4, 1 + chance() % 30), codec);
        for (uint64_t i = 0; i <= chance() % 3; ++i) {
            const size_t place = chance() % 3 == 0 ? chance() % cell.size() : 4 + chance() % 44;
            cell[place] = chance() % 2 == 0 ? static_cast<uint8_t>(chance()) : static_cast<uint8_t>(chance() % 5);
        }
        if (chance() % 8 == 0) cell.resize(sizeof(CellHeader) + chance() % (cell.size() - sizeof(CellHeader) + 1));
        fix_checksum(cell);
        try {
            decode(cell, nullptr);
        } catch (const CellError&) {
            ++num_rejected;
        } catch (const std::bad_alloc&) {
            ++num_rejected;
        }
    }
    CHECK(num_rejected > 10000);
}

// What once wrapped the sum of an arena's pieces: 2^64 - 24 bytes of keys after another cell.
void test_sizes_that_wrap() {
    const std::vector<float> items(8, 1.0f);
    std::vector<uint8_t> source;
    append_dense(source, items.data(), {1, {8, 0, 0}}, {Codec::none, 0});
    const size_t first = source.size();
    std::vector<uint8_t> keys = encode_texts(std::vector<std::string>(8, std::string(1000, 'x')), Codec::none);
    CellHeader header;
    std::memcpy(&header, keys.data(), sizeof header);
    const uint64_t true_size = header.raw_bytes, text_bytes = header.num_ids;
    for (const uint64_t size : {uint64_t{0} - 24, uint64_t{0} - 1, uint64_t{1} << 63, true_size + 1, true_size - 1}) {
        for (const uint64_t told : {true_size, size}) {  // in the index
            header.raw_bytes = size;
            header.num_ids = told == size ? size - (true_size - text_bytes) : text_bytes;
            std::memcpy(keys.data(), &header, sizeof header);
            fix_checksum(keys);
            std::vector<uint8_t> both = source;
            both.insert(both.end(), keys.begin(), keys.end());
            const CellPlace places[] = {{0, first, 32}, {first, keys.size(), told}};
            const uint64_t num_examples = 8;
            const ColumnSpec columns[] = {{ColumnSpec::real, 1, 0, 0}, {ColumnSpec::key, 1, 4, 4}};
            bool is_refused = false;
            try {
                const CellDecoder decoder(both.data(), both.size(), {places, 1, &num_examples, columns, 2});
            } catch (const CellError& error) {
                is_refused = error.cell == 1;
            }
            CHECK(is_refused);
        }
    }
}

// A source that changes between planning and decoding, as a mapped file can: no header is read twice.
void test_a_source_that_changes() {
    std::vector<uint8_t> cell = encode_texts({"a", "b"}, Codec::none);
    const Claim claim = claim_of(cell);
    const CellDecoder decoder(cell.data(), cell.size(), {&claim.place, 1, &claim.num_examples, &claim.column, 1});
    Memory arena(decoder.arena().size_bytes);
    std::memset(cell.data() + 5, 0xFF, sizeof(CellHeader) - 5);
    decoder.run(arena.data());
    cell[sizeof(CellHeader)] ^= 1;
    bool is_refused = false;
    try {
        decoder.run(arena.data());
    } catch (const CellError&) {
        is_refused = true;
    }
    CHECK(is_refused);
}

void test_pool_in_threads() {
    BlockPool pool(1 << 20);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&pool, t] {
            for (size_t i = 0; i < 2000; ++i) {
                const BlockPool::Block block = pool.take(64 * (i % 100) + 1);
                std::memset(block.data, t, block.capacity);
                pool.give_back(block);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main() {
    test_sizes_that_wrap();
    test_a_source_that_changes();
    test_round_trips(Codec::none);
    test_changes(Codec::none);
    bool has_zstd = true;
    try {
        load_codec(Codec::zstd, "libzstd.so.1");
    } catch (const std::runtime_error& error) {
        has_zstd = false;
        std::printf("without zstd: %s\n", error.what());
    }
    if (has_zstd) {
        test_round_trips(Codec::zstd);
        test_changes(Codec::zstd);
    }
    test_pool_in_threads();
    std::puts("cells: ok");
}
