// cell.h and codec.h for Python. Decoded minibatches are one arena, and lists that say which piece is what.
#include "samovar/cell.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>

#include "borders.h"
#include "samovar/gate.h"
#include "samovar/pool.h"

namespace {

using samovar::Arena;
using samovar::BlockPool;
using samovar::CellDecoder;
using samovar::Codec;
using samovar::DecodedCell;
using samovar::Layout;
using samovar::Packing;
using samovar::Part;
using samovar::Section;
using samovar::Shape;

using Ranges = std::vector<std::pair<size_t, size_t>>;

template <typename T>
using Tensor = nb::ndarray<T, nb::numpy, nb::c_contig, nb::device::cpu>;

template <typename T>
Shape shape_of(const Tensor<T>& tensor) {
    if (tensor.ndim() < 1 || tensor.ndim() > 3) throw std::invalid_argument("expected 1 to 3 dimensions");
    Shape shape{static_cast<uint32_t>(tensor.ndim()), {0, 0, 0}};
    for (size_t i = 0; i < tensor.ndim(); ++i) {
        if (tensor.shape(i) > UINT32_MAX) throw std::invalid_argument("a dimension is 2**32 or more");
        shape.dims[i] = static_cast<uint32_t>(tensor.shape(i));
    }
    return shape;
}

Packing packing_of(int codec, int level) {
    if (codec < 0 || codec > 2) throw std::invalid_argument("codec must be 0, 1 or 2");
    return {static_cast<Codec>(codec), level};
}

nb::bytes to_bytes(const std::vector<uint8_t>& cell) { return nb::bytes(cell.data(), cell.size()); }

nb::bytes encode_dense(Tensor<const float> items, int codec, int level) {
    const Shape shape = shape_of(items);
    const Packing packing = packing_of(codec, level);
    std::vector<uint8_t> cell;
    {
        nb::gil_scoped_release release;
        samovar::append_dense(cell, items.data(), shape, packing);
    }
    return to_bytes(cell);
}

nb::bytes encode_bag(Vector<const uint64_t> ids, Tensor<const int32_t> lengths, int codec, int level) {
    const Shape shape = shape_of(lengths);
    const Packing packing = packing_of(codec, level);
    check_aligned(ids, "ids");
    std::vector<uint8_t> cell;
    {
        nb::gil_scoped_release release;
        samovar::append_bag(cell, ids.data(), ids.size(), lengths.data(), shape, packing);
    }
    return to_bytes(cell);
}

nb::bytes encode_keys(Vector<const uint8_t> raw, int values, uint32_t width, bool has_nulls, uint64_t count,
                      uint64_t num_bytes, int codec, int level) {
    if (values < 0 || values > 4) throw std::invalid_argument("values must be 0 to 4");
    if (reinterpret_cast<uintptr_t>(raw.data()) % samovar::CELL_ALIGNMENT != 0) {
        throw std::invalid_argument("raw: not aligned to 8 bytes");
    }
    const Packing packing = packing_of(codec, level);
    const samovar::KeyLayout layout{static_cast<samovar::KeyValues>(values), width, has_nulls, count, num_bytes};
    std::vector<uint8_t> cell;
    {
        nb::gil_scoped_release release;
        samovar::append_keys(cell, layout, raw.data(), raw.size(), packing);
    }
    return to_bytes(cell);
}

nb::object shape_tuple(const Shape& shape) {
    if (shape.rank == 1) return nb::none();  // the usual case: the piece already has this shape
    if (shape.rank == 2) return nb::make_tuple(shape.dims[0], shape.dims[1]);
    return nb::make_tuple(shape.dims[0], shape.dims[1], shape.dims[2]);
}

// The number of a piece in its section: first the pieces in the arena, then those in the source.
size_t number_of(const Part& part, const Section& section) {
    return part.is_mapped ? section.sizes.size() + part.piece : part.piece;
}

// First items and the ones after the last, as two lists of numbers: one tuple per piece would keep Python's garbage
// collector busy.
nb::tuple lists_of(const Ranges& ranges) {
    nb::list firsts, lasts;
    for (const auto& [first, last] : ranges) {
        firsts.append(first);
        lasts.append(last);
    }
    return nb::make_tuple(firsts, lasts);
}

// Memory from the pool, returned when the last array over it is gone.
struct Lent {
    Lent(std::shared_ptr<BlockPool> pool, size_t size) : pool(std::move(pool)), block(this->pool->take(size)) {}
    ~Lent() { pool->give_back(block); }
    std::shared_ptr<BlockPool> pool;
    BlockPool::Block block;
};

nb::capsule own(std::unique_ptr<Lent> lent) {
    return nb::capsule(lent.release(), [](void* lent) noexcept { delete static_cast<Lent*>(lent); });
}

template <typename T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> array(uint8_t* data, size_t size, nb::handle owner) {
    return nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {size}, owner);
}

// Decoded minibatches: sections of the arena, and what each piece is.
class DecodedMinibatches {
public:
    DecodedMinibatches(std::shared_ptr<const CellDecoder> decoder, std::unique_ptr<Lent> lent)
        : decoder_(std::move(decoder)), pool_(lent->pool), data_(lent->block.data), owner_(own(std::move(lent))) {}

    auto words() const { return array<int64_t>(data_, arena().words.num_items, owner_); }
    auto ints() const { return array<int32_t>(data_ + arena().ints.at, arena().ints.num_items, owner_); }
    auto floats() const { return array<float>(data_ + arena().floats.at, arena().floats.num_items, owner_); }
    auto bytes() const { return array<uint8_t>(data_ + arena().bytes.at, arena().bytes.num_items, owner_); }
    const std::vector<size_t>& word_sizes() const { return arena().words.sizes; }
    const std::vector<size_t>& int_sizes() const { return arena().ints.sizes; }
    const std::vector<size_t>& float_sizes() const { return arena().floats.sizes; }
    const std::vector<size_t>& byte_sizes() const { return arena().bytes.sizes; }
    nb::tuple mapped_words() const { return lists_of(arena().words.mapped); }
    nb::tuple mapped_ints() const { return lists_of(arena().ints.mapped); }
    nb::tuple mapped_floats() const { return lists_of(arena().floats.mapped); }

    nb::tuple cells() const {
        nb::list layouts, shapes, pieces, lengths, positions;
        for (const DecodedCell& cell : decoder_->cells()) {
            const bool is_distinct = cell.layout == Layout::distinct;
            const bool is_bag = is_distinct || cell.layout == Layout::ids;
            layouts.append(static_cast<int>(cell.layout));
            shapes.append(shape_tuple(cell.shape));
            const Section& items = cell.layout == Layout::dense ? arena().floats : arena().bytes;
            pieces.append(is_bag ? number_of(cell.ids, arena().words) : number_of(cell.items, items));
            lengths.append(is_bag ? number_of(cell.lengths, arena().ints) : 0);
            positions.append(is_distinct ? number_of(cell.positions, arena().ints) : size_t{cell.has_nulls});
        }
        return nb::make_tuple(layouts, shapes, pieces, lengths, positions);
    }

    // The plain ids of all cells of distinct ids, end to end, and the number of each.
    nb::tuple gather() const {
        std::vector<size_t> sizes;
        size_t total = 0;
        for (const DecodedCell& cell : decoder_->cells()) {
            if (cell.layout != Layout::distinct) continue;
            sizes.push_back(cell.positions.size);
            total += cell.positions.size;
        }
        std::unique_ptr<Lent> lent;
        {
            nb::gil_scoped_release release;
            lent = std::make_unique<Lent>(pool_, total * sizeof(uint64_t));
            auto* next = reinterpret_cast<uint64_t*>(lent->block.data);
            for (const DecodedCell& cell : decoder_->cells()) {
                if (cell.layout != Layout::distinct) continue;
                const auto* ids = reinterpret_cast<const uint64_t*>(data_) + cell.ids.at;  // never in the source
                const auto* positions = reinterpret_cast<const int32_t*>(data_ + arena().ints.at) + cell.positions.at;
                samovar::gather_ids(ids, positions, cell.positions.size, next);
                next += cell.positions.size;
            }
        }
        uint8_t* data = lent->block.data;
        return nb::make_tuple(array<int64_t>(data, total, own(std::move(lent))), sizes);
    }

    // A copy in its own memory, except for the pieces in the source.
    DecodedMinibatches* copy() const {
        std::unique_ptr<Lent> lent;
        {
            nb::gil_scoped_release release;
            lent = std::make_unique<Lent>(pool_, arena().size_bytes);
            std::memcpy(lent->block.data, data_, arena().size_bytes);
        }
        return new DecodedMinibatches(decoder_, std::move(lent));
    }

private:
    const Arena& arena() const { return decoder_->arena(); }

    std::shared_ptr<const CellDecoder> decoder_;
    std::shared_ptr<BlockPool> pool_;
    uint8_t* data_;
    nb::capsule owner_;
};

// Decodes block after block of minibatches; their memory returns to the pool when no array uses it.
class MinibatchDecoder {
public:
    explicit MinibatchDecoder(size_t kept_bytes) : pool_(std::make_shared<BlockPool>(kept_bytes)) {}

    template <typename T, nb::ssize_t N>
    using Table = nb::ndarray<const T, nb::numpy, nb::shape<-1, N>, nb::c_contig, nb::device::cpu>;

    DecodedMinibatches* decode(nb::handle source, Table<uint64_t, 3> places, Vector<const uint64_t> num_examples,
                               Table<uint32_t, 4> columns, bool are_checked, bool may_map) {
        ByteBuffer bytes(source);
        if (places.shape(0) != num_examples.size() * columns.shape(0)) {
            throw nb::type_error("places: expected one per minibatch and column");
        }
        const samovar::CellRequest request{
            reinterpret_cast<const samovar::CellPlace*>(places.data()), num_examples.size(), num_examples.data(),
            reinterpret_cast<const samovar::ColumnSpec*>(columns.data()), columns.shape(0)};
        std::unique_ptr<Lent> lent;
        std::unique_ptr<CellDecoder> decoder;
        {
            nb::gil_scoped_release release;
            const samovar::Gate::Visit visit(gate_);
            decoder = std::make_unique<CellDecoder>(bytes.data(), bytes.size(), request, may_map);
            lent = std::make_unique<Lent>(pool_, decoder->arena().size_bytes);
            decoder->run(lent->block.data, are_checked);
        }
        return new DecodedMinibatches(std::move(decoder), std::move(lent));
    }

    // Never waits for Python, because no visit inside the gate needs it. So the garbage collector may call this on any
    // thread.
    void close() {
        nb::gil_scoped_release release;
        gate_.close();
    }

private:
    std::shared_ptr<BlockPool> pool_;
    samovar::Gate gate_;
};

}  // namespace

void bind_cell(nb::module_& m) {
    nb::register_exception_translator([](const std::exception_ptr& caught, void*) {
        try {
            std::rethrow_exception(caught);
        } catch (const samovar::CellError& error) {
            // A ValueError whose second argument is the number of the cell.
            PyErr_SetObject(PyExc_ValueError, nb::make_tuple(error.what(), error.cell).ptr());
        }
    });
    m.def("load_codec",
          [](int codec, const std::string& path) { return samovar::load_codec(packing_of(codec, 0).codec, path); },
          "codec"_a, "path"_a,
          "Load zstd (1) or lz4 (2) from a shared library that passes its self-check; return its version.");
    m.def("encode_dense", &encode_dense, "items"_a.noconvert(), "codec"_a, "level"_a, "A dense float32 cell.");
    m.def("encode_bag", &encode_bag, "ids"_a.noconvert(), "lengths"_a.noconvert(), "codec"_a, "level"_a,
          "A cell of ids, stored as distinct ids and positions if that is smaller.");
    m.def("encode_keys", &encode_keys, "raw"_a.noconvert(), "values"_a, "width"_a, "has_nulls"_a, "count"_a,
          "num_bytes"_a, "codec"_a, "level"_a, "A cell of keys; keys.h draws the raw bytes.");
    nb::class_<DecodedMinibatches>(m, "DecodedMinibatches", "Cells as sections of memory, cut into pieces.")
        .def_prop_ro("words", &DecodedMinibatches::words, nb::rv_policy::automatic)
        .def_prop_ro("ints", &DecodedMinibatches::ints, nb::rv_policy::automatic)
        .def_prop_ro("floats", &DecodedMinibatches::floats, nb::rv_policy::automatic)
        .def_prop_ro("bytes", &DecodedMinibatches::bytes, nb::rv_policy::automatic)
        .def_prop_ro("word_sizes", &DecodedMinibatches::word_sizes)
        .def_prop_ro("int_sizes", &DecodedMinibatches::int_sizes)
        .def_prop_ro("float_sizes", &DecodedMinibatches::float_sizes)
        .def_prop_ro("byte_sizes", &DecodedMinibatches::byte_sizes)
        .def_prop_ro("mapped_words", &DecodedMinibatches::mapped_words,
                     nb::for_getter(nb::sig("def mapped_words(self) -> tuple[list[int], list[int]]")))
        .def_prop_ro("mapped_ints", &DecodedMinibatches::mapped_ints,
                     nb::for_getter(nb::sig("def mapped_ints(self) -> tuple[list[int], list[int]]")))
        .def_prop_ro("mapped_floats", &DecodedMinibatches::mapped_floats,
                     nb::for_getter(nb::sig("def mapped_floats(self) -> tuple[list[int], list[int]]")),
                     "Pieces that stay in the source: first items, and the ones after the last.")
        .def_prop_ro("cells", &DecodedMinibatches::cells,
                     nb::for_getter(nb::sig("def cells(self) -> "
                                            "tuple[list[int], list[typing.Any], list[int], list[int], list[int]]")),
                     "Layouts, shapes (None for rank 1), and piece numbers of ids or items, lengths, positions. Of "
                     "keys, the last number says whether there are validity bits.")
        .def("gather", &DecodedMinibatches::gather, nb::sig("def gather(self) -> tuple[typing.Any, list[int]]"),
             "Plain ids of all cells of distinct ids, end to end, and the number of each.")
        .def("copy", &DecodedMinibatches::copy, nb::rv_policy::take_ownership,
             "A copy in its own memory, except for the pieces in the source.");
    nb::class_<MinibatchDecoder>(m, "MinibatchDecoder", "Decodes the cells of a few minibatches in one call.")
        .def(nb::init<size_t>(), "kept_bytes"_a)
        .def("decode", &MinibatchDecoder::decode, "source"_a, "places"_a.noconvert(), "num_examples"_a.noconvert(),
             "columns"_a.noconvert(), "are_checked"_a, "may_map"_a, nb::rv_policy::take_ownership,
             "The cells at [offset, size, size in memory] of the source, minibatch by minibatch; ValueError(what, "
             "number of the cell) if one is damaged.")
        .def("close", &MinibatchDecoder::close,
             "When this returns, no source is being read; a later decode raises RuntimeError.");
}
