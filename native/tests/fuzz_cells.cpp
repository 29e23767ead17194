// Fuzzes the decoder of cells: structured changes of cells of every layout, codec and type of keys, with a right checksum
// and an index that agrees, and of whole requests. Run under sanitizers: nothing may be read or written outside, nothing
// may hang, and no cell may take more memory than its index says.
//
//   SAMOVAR_FUZZ_SECONDS=60 SAMOVAR_FUZZ_SEED=7 fuzz_cells
//   clang++ -fsanitize=fuzzer,address -DSAMOVAR_LIBFUZZER … builds the same for libFuzzer
#include <chrono>
#include <cstdio>
#include <random>

#include "cells.h"

using namespace samovar;

namespace {

using Bytes = std::vector<uint8_t>;
using Chance = std::mt19937_64;

volatile uint64_t read_sum = 0;  // so that no read is optimized away

template <typename T>
void read_all(const uint8_t* data, size_t size) {
    uint64_t sum = 0;
    const auto* items = reinterpret_cast<const T*>(data);
    for (size_t i = 0; i < size; ++i) sum += static_cast<uint64_t>(items[i] != 0);
    read_sum = read_sum + sum;
}

// Reads everything that a user of the decoded cell would read.
void use(const CellDecoder& decoder, const DecodedCell& cell, const uint8_t* source, const uint8_t* arena) {
    const auto at = [&](const Part& part, size_t section, size_t item) {
        return (part.is_mapped ? source : arena + section) + part.at * item;
    };
    const Arena& sections = decoder.arena();
    if (cell.layout == Layout::dense) return read_all<float>(at(cell.items, sections.floats.at, 4), cell.items.size);
    if (cell.layout == Layout::keys) return read_all<uint8_t>(at(cell.items, sections.bytes.at, 1), cell.items.size);
    const uint8_t* ids = at(cell.ids, 0, 8);
    read_all<uint64_t>(ids, cell.ids.size);
    read_all<int32_t>(at(cell.lengths, sections.ints.at, 4), cell.lengths.size);
    if (cell.layout != Layout::distinct) return;
    std::vector<uint64_t> data(cell.positions.size);
    CHECK(!cell.ids.is_mapped && !cell.positions.is_mapped);
    const auto* positions = reinterpret_cast<const int32_t*>(at(cell.positions, sections.ints.at, 4));
    gather_ids(reinterpret_cast<const uint64_t*>(ids), positions, data.size(), data.data());
}

bool decode(const Bytes& bytes, const CellRequest& request, bool may_map) {
    const Memory source(bytes.size());
    if (!bytes.empty()) std::memcpy(source.data(), bytes.data(), bytes.size());
    const size_t num_cells = request.num_minibatches * request.num_columns;
    uint64_t told = 0;
    for (size_t i = 0; i < num_cells; ++i) told += request.places[i].decoded;
    try {
        const CellDecoder decoder(source.data(), source.size(), request, may_map);
        CHECK(decoder.arena().size_bytes <= 2 * told + 16 * num_cells + 256);
        if (decoder.arena().size_bytes > MOST_BYTES) return true;
        const Memory arena(decoder.arena().size_bytes);
        decoder.run(arena.data());
        decoder.run(arena.data(), true);
        for (const DecodedCell& cell : decoder.cells()) use(decoder, cell, source.data(), arena.data());
        return true;
    } catch (const CellError&) {
        return false;
    }
}

bool decode_cell(const Bytes& cell, bool may_map) {
    const Claim claim = claim_of(cell);
    return decode(cell, {&claim.place, 1, &claim.num_examples, &claim.column, 1}, may_map);
}

// A whole request from bytes: u8 columns, u8 minibatches, the columns, examples, places; then the source.
bool decode_request(const uint8_t* data, size_t size, bool may_map) {
    const size_t num_columns = size > 0 ? data[0] % 4 + 1 : 1, num_minibatches = size > 1 ? data[1] % 4 : 0;
    std::vector<ColumnSpec> columns(num_columns);
    std::vector<uint64_t> num_examples(num_minibatches);
    std::vector<CellPlace> places(num_columns * num_minibatches);
    size_t at = 2;
    const auto take = [&](void* to, size_t count) {
        const size_t here = at < size ? std::min(count, size - at) : 0;
        if (here > 0) std::memcpy(to, data + at, here);
        at += count;
    };
    take(columns.data(), columns.size() * sizeof(ColumnSpec));
    take(num_examples.data(), num_examples.size() * 8);
    take(places.data(), places.size() * sizeof(CellPlace));
    for (CellPlace& place : places) place.decoded &= 0xFFFFFFFF;  // as in the index of a file
    const Bytes source(data + std::min(at, size), data + size);
    return decode(source, {places.data(), num_minibatches, num_examples.data(), columns.data(), num_columns}, may_map);
}

[[maybe_unused]] void try_input(const uint8_t* data, size_t size) {
    if (size == 0) return;
    Bytes rest(data + 1, data + size);
    if (data[0] & 1) {
        decode_request(rest.data(), rest.size(), (data[0] & 2) != 0);
    } else {
        fix_checksum(rest);
        decode_cell(rest, (data[0] & 2) != 0);
    }
}

// Cells to start from: every layout and type of keys, with and without nulls, empty and not; without compression.
std::vector<Bytes> make_seeds() {
    std::vector<Bytes> seeds;
    const Packing plain{Codec::none, 0};
    for (const uint32_t count : {0u, 1u, 9u, 40u}) {
        std::vector<float> items(count * 2, 1.5f);
        std::vector<uint64_t> ids(count * 2);
        for (size_t i = 0; i < ids.size(); ++i) ids[i] = i % 5 * 0x9E3779B97F4A7C15;
        const std::vector<int32_t> twos(count, 2), ones(count * 2, 1);
        append_dense(seeds.emplace_back(), items.data(), {1, {count * 2, 0, 0}}, plain);
        append_dense(seeds.emplace_back(), items.data(), {3, {count, 1, 2}}, plain);
        append_bag(seeds.emplace_back(), ids.data(), ids.size(), twos.data(), {1, {count, 0, 0}}, plain);
        append_bag(seeds.emplace_back(), ids.data(), ids.size(), ones.data(), {2, {count, 2, 0}}, plain);
        // lz4 and zstd ask for distinct ids; with level 0 of a codec that is not loaded, nothing would be written
        for (const KeyValues values : {KeyValues::null, KeyValues::bits, KeyValues::fixed, KeyValues::bytes,
                                       KeyValues::text}) {
            for (const uint32_t width : {0u, 1u, 4u, 8u, 16u}) {
                for (const bool has_nulls : {false, true}) {
                    const bool has_offsets = values == KeyValues::bytes || values == KeyValues::text;
                    const KeyLayout layout{values, width, has_nulls, count, has_offsets ? count : 0};
                    Bytes cell;
                    try {
                        check_layout(layout);
                        const Memory raw(raw_bytes_of(layout));
                        std::memset(raw.data(), 'a', raw.size());
                        for (uint32_t i = 0; has_offsets && i <= count; ++i) {
                            const uint64_t offset = i;
                            std::memcpy(raw.data() + i * width, &offset, width);
                        }
                        append_keys(cell, layout, raw.data(), raw.size(), plain);
                    } catch (const std::invalid_argument&) {
                        continue;
                    }
                    seeds.push_back(cell);
                }
            }
        }
    }
    return seeds;
}

// The same ids as distinct ids and positions, which an uncompressed table never has.
Bytes make_distinct(uint32_t count, uint32_t num_distinct, uint8_t width) {
    CellHeader header{};
    header.layout = 2, header.item = width, header.length_bytes = 1, header.rank = 1;
    header.dims[0] = count, header.num_ids = count, header.num_distinct = num_distinct;
    header.raw_bytes = 8 * num_distinct + count * width + count;
    std::memcpy(header.magic, "SMVC", 4);
    header.format = 2;
    Bytes cell(sizeof header + header.raw_bytes, 0);
    std::memcpy(cell.data(), &header, sizeof header);
    uint8_t* at = cell.data() + sizeof header;
    for (uint64_t i = 0; i < num_distinct; ++i, at += 8) std::memcpy(at, &i, 8);
    for (uint64_t i = 0; i < count; ++i, at += width) {
        const uint64_t position = i % num_distinct;
        std::memcpy(at, &position, width);
    }
    std::memset(at, 1, count);
    fix_checksum(cell);
    return cell;
}

constexpr uint64_t ODD_NUMBERS[] = {0, 1, 2, 3, 4, 7, 8, 9, 255, 256, 65535, 65536, (1u << 31) - 1, 1u << 31,
                                    (uint64_t{1} << 32) - 1, uint64_t{1} << 32, uint64_t{1} << 40,
                                    (uint64_t{1} << 63) - 1, uint64_t{1} << 63, uint64_t{0} - 24, uint64_t{0} - 8,
                                    uint64_t{0} - 1};

uint64_t draw_number(Chance& chance) {
    const uint64_t number = ODD_NUMBERS[chance() % (sizeof ODD_NUMBERS / sizeof *ODD_NUMBERS)];
    return chance() % 4 == 0 ? number + chance() % 16 - 8 : number;
}

void change_header(Chance& chance, CellHeader& header) {
    switch (chance() % 12) {
        case 0: header.layout = static_cast<uint8_t>(chance() % 5); break;
        case 1: header.item = static_cast<uint8_t>(chance() % 9); break;
        case 2: header.length_bytes = static_cast<uint8_t>(chance() % 9); break;
        case 3: header.rank = static_cast<uint8_t>(chance() % 5); break;
        case 4: header.padding = static_cast<uint8_t>(chance() % 9); break;
        case 5: header.has_nulls = static_cast<uint8_t>(chance() % 3); break;
        case 6: case 7: header.dims[chance() % 3] = static_cast<uint32_t>(draw_number(chance)); break;
        case 8: header.num_ids = draw_number(chance); break;
        case 9: header.num_distinct = static_cast<uint32_t>(draw_number(chance)); break;
        case 10: header.raw_bytes = draw_number(chance); break;
        default: header.codec = static_cast<uint8_t>(chance() % 4); break;
    }
}

Bytes change_cell(Chance& chance, Bytes cell) {
    CellHeader header;
    for (uint64_t i = 0; i <= chance() % 3; ++i) {
        std::memcpy(&header, cell.data(), sizeof header);
        const size_t payload = cell.size() - sizeof header;
        const uint64_t what = chance() % 6;
        if (what <= 1) {
            change_header(chance, header);
        } else if (what <= 3 && payload > 0) {
            const uint64_t number = draw_number(chance);
            const size_t width = size_t{1} << chance() % 4, at = chance() % payload / width * width;
            std::memcpy(cell.data() + sizeof header + at, &number, std::min(width, payload - at));
        } else if (what == 4) {
            cell.resize(sizeof header + chance() % (payload + 17), static_cast<uint8_t>(chance()));
            header.raw_bytes = cell.size() - sizeof header;
        } else if (header.rank >= 1) {  // other counts for the same bytes, or nearly so
            header.dims[0] = static_cast<uint32_t>(header.dims[0] + chance() % 3 - 1);
            header.num_ids += chance() % 3 - 1;
        }
        std::memcpy(cell.data(), &header, sizeof header);
    }
    return cell;
}

// Compresses the payload of a cell that may be anything, so that changed bytes are behind a codec too.
Bytes pack(const Bytes& cell, Codec codec) {
    CellHeader header;
    std::memcpy(&header, cell.data(), sizeof header);
    const size_t size = cell.size() - sizeof header;
    Bytes packed(sizeof header + compress_bound(codec, size));
    const size_t done = compress(codec, 1, cell.data() + sizeof header, size, packed.data() + sizeof header,
                                 packed.size() - sizeof header);
    packed.resize(sizeof header + done);
    header.codec = static_cast<uint8_t>(codec);
    std::memcpy(packed.data(), &header, sizeof header);
    return packed;
}

Bytes make_request(Chance& chance, const std::vector<Bytes>& seeds) {
    const size_t num_columns = 1 + chance() % 3, num_minibatches = 1 + chance() % 3;
    Bytes source, bytes{static_cast<uint8_t>(num_columns - 1), static_cast<uint8_t>(num_minibatches)};
    std::vector<ColumnSpec> columns(num_columns);
    std::vector<uint64_t> num_examples(num_minibatches);
    std::vector<CellPlace> places;
    for (size_t i = 0; i < num_columns * num_minibatches; ++i) {
        const Bytes& cell = seeds[chance() % seeds.size()];
        Claim claim = claim_of(cell);
        claim.place.offset = source.size();
        if (chance() % 16 == 0) (chance() % 2 == 0 ? claim.place.offset : claim.place.size) = draw_number(chance);
        if (chance() % 16 == 0) claim.place.decoded = draw_number(chance);
        places.push_back(claim.place);
        columns[i % num_columns] = claim.column;
        num_examples[i / num_columns] = claim.num_examples;
        source.insert(source.end(), cell.begin(), cell.end());
    }
    const auto add = [&bytes](const void* data, size_t size) {
        const auto* from = static_cast<const uint8_t*>(data);
        bytes.insert(bytes.end(), from, from + size);
    };
    add(columns.data(), columns.size() * sizeof(ColumnSpec));
    add(num_examples.data(), num_examples.size() * 8);
    add(places.data(), places.size() * sizeof(CellPlace));
    add(source.data(), source.size());
    return bytes;
}

uint64_t number_of(const char* name, uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

[[maybe_unused]] bool can_load(Codec codec, const char* library) {
    try {
        load_codec(codec, library);
        return true;
    } catch (const std::runtime_error& error) {
        std::printf("without a codec: %s\n", error.what());
        return false;
    }
}

}  // namespace

#ifdef SAMOVAR_LIBFUZZER

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    try_input(data, size);
    return 0;
}

#else

int main() {
    std::vector<Codec> codecs{Codec::none};
    if (can_load(Codec::zstd, "libzstd.so.1")) codecs.push_back(Codec::zstd);
    if (can_load(Codec::lz4, "liblz4.so.1")) codecs.push_back(Codec::lz4);
    std::vector<Bytes> seeds = make_seeds();
    for (const uint8_t width : {1, 2, 4}) seeds.push_back(make_distinct(20, 5, width));
    for (const Bytes& seed : seeds) {
        for (const Codec codec : codecs) {
            Bytes packed = pack(seed, codec);
            fix_checksum(packed);
            CHECK(decode_cell(packed, true) && decode_cell(packed, false));
        }
    }
    const uint64_t seed = number_of("SAMOVAR_FUZZ_SEED", 1);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(number_of("SAMOVAR_FUZZ_SECONDS", 5));
    uint64_t round = 0, num_accepted = 0;
    for (; std::chrono::steady_clock::now() < end; ++round) {
        Chance chance(seed * 1'000'003 + round);  // a crash repeats with its seed, in the same round
        const bool may_map = chance() % 2 == 0;
        if (chance() % 4 == 0) {
            Bytes request = make_request(chance, seeds);
            for (uint64_t i = chance() % 4; i > 0; --i) request[chance() % request.size()] = static_cast<uint8_t>(chance());
            num_accepted += decode_request(request.data(), request.size(), may_map);
            continue;
        }
        Bytes cell = change_cell(chance, seeds[chance() % seeds.size()]);
        const Codec codec = codecs[chance() % codecs.size()];
        if (codec != Codec::none) cell = pack(cell, codec);
        if (chance() % 16 == 0) cell.resize(chance() % (cell.size() + 1));
        if (chance() % 16 != 0) fix_checksum(cell);
        num_accepted += decode_cell(cell, may_map);
    }
    std::printf("cells: %llu changed, %llu accepted\n", static_cast<unsigned long long>(round),
                static_cast<unsigned long long>(num_accepted));
    CHECK(round > 100 && num_accepted > round / 50 && num_accepted < round / 10 * 9);
}

#endif
