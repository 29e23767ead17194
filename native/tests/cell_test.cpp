// Cells: round trips, and damaged cells with a right checksum. Run under sanitizers.
#include "samovar/cell.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "samovar/hash.h"
#include "samovar/pool.h"

using namespace samovar;

namespace {

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);      \
            std::abort();                                                             \
        }                                                                             \
    } while (false)

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

// Decodes from an allocation of exactly the cell's size, so that a sanitizer sees a read past its end.
void decode(const std::vector<uint8_t>& cell, const Bag* expected) {
    auto* source = static_cast<uint8_t*>(std::malloc(cell.size()));
    std::memcpy(source, cell.data(), cell.size());
    struct Freed {
        uint8_t* data;
        ~Freed() { std::free(data); }
    } freed{source};
    const CellPlace place{0, cell.size()};
    const CellDecoder decoder(source, cell.size(), &place, 1, SIZE_MAX);
    std::vector<uint64_t> arena(decoder.arena().size_bytes / 8 + 1);
    auto* bytes = reinterpret_cast<uint8_t*>(arena.data());
    decoder.run(bytes);
    const DecodedCell& found = decoder.cells()[0];
    if (found.layout != Layout::ids && found.layout != Layout::distinct) return;
    const auto at = [&](const Part& part, size_t section, size_t item) {
        return (part.is_mapped ? source : bytes + section) + part.at * item;
    };
    const auto* ids = reinterpret_cast<const uint64_t*>(at(found.ids, 0, 8));
    std::vector<uint64_t> data(ids, ids + found.ids.size);
    if (found.layout == Layout::distinct) {
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

void fix_checksum(std::vector<uint8_t>& cell) {
    CellHeader header;
    std::memcpy(&header, cell.data(), sizeof header);
    const uint8_t padding = header.padding;
    header.padding = 0;
    const uint64_t seed = hash_bytes(&header, offsetof(CellHeader, checksum), 0);
    const size_t start = std::min(cell.size(), sizeof header + padding);
    header.checksum = hash_bytes(cell.data() + start, cell.size() - start, seed);
    header.padding = padding;
    std::memcpy(cell.data(), &header, sizeof header);
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
