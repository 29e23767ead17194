// embedding.h for Python. Bags are tensors and are checked here; outputs and gradients are addresses: the only caller,
// samovar.native.embedding, has made or checked them and keeps them alive.
#include "samovar/embedding.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "bags.h"
#include "borders.h"

namespace {

using samovar::Embedding;
using samovar::HashTable;
using samovar::Lookup;
using samovar::OptimizerKind;

template <typename T>
T* at(uintptr_t address) {
    return reinterpret_cast<T*>(address);
}

// address and stride in floats of a feature's output
using Place = std::tuple<uintptr_t, size_t>;
// address and stride in floats of a feature's gradient, or nothing
using Gradient = std::optional<std::tuple<uintptr_t, size_t>>;
// kind, lr, eps, initial accumulator, beta1, beta2, weight decay, clip by value, clip by norm, scale of the gradients
using Step = std::tuple<int, double, double, double, double, double, double, double, double, double>;

std::unique_ptr<Lookup> lookup(Embedding& self, const Inputs& given, const std::vector<Place>& places, uint32_t clock,
                               bool is_training, unsigned threads) {
    auto inputs = given.features;
    if (places.size() != inputs.size()) throw std::invalid_argument("expected one place per feature");
    for (size_t i = 0; i < inputs.size(); ++i) {
        inputs[i].out = at<float>(std::get<0>(places[i]));
        inputs[i].out_stride = std::get<1>(places[i]);
    }
    nb::gil_scoped_release release;
    return self.lookup(inputs, clock, is_training, threads);
}

// All features side by side in one output.
std::unique_ptr<Lookup> lookup_columns(Embedding& self, const Inputs& given, const Place& place, uint32_t clock,
                                       bool is_training, unsigned threads) {
    auto inputs = given.features;
    auto* column = at<float>(std::get<0>(place));
    for (samovar::FeatureInput& input : inputs) {
        input.out = column;
        input.out_stride = std::get<1>(place);
        column += self.table(input.table).settings().dim;
    }
    nb::gil_scoped_release release;
    return self.lookup(inputs, clock, is_training, threads);
}

samovar::Pending to_pending(const Lookup& lookup, const std::vector<Gradient>& gradients, size_t slice) {
    samovar::Pending pending{&lookup, {}, {}, slice};
    if (gradients.size() == 1 && gradients[0] && lookup.num_features() != 1) {  // of all features, side by side
        const auto& [address, stride] = *gradients[0];
        const auto* column = at<float>(address);
        for (size_t feature = 0; feature < lookup.num_features(); ++feature) {
            pending.gradients.push_back(column);
            column += lookup.dim(feature);
        }
        pending.strides.assign(lookup.num_features(), stride);
        return pending;
    }
    if (gradients.size() != lookup.num_features()) throw std::invalid_argument("expected one gradient per feature, or None");
    for (const Gradient& gradient : gradients) {
        pending.gradients.push_back(gradient ? at<float>(std::get<0>(*gradient)) : nullptr);
        pending.strides.push_back(gradient ? std::get<1>(*gradient) : 0);
    }
    return pending;
}

void update(Embedding& self, const std::vector<std::tuple<const Lookup*, std::vector<Gradient>, size_t>>& tuples,
            const Step& values, unsigned threads) {
    const auto& [kind, lr, eps, initial, beta1, beta2, decay, clip_value, clip_norm, scale] = values;
    samovar::RowStep step;
    step.kind = static_cast<OptimizerKind>(kind);
    step.lr = static_cast<float>(lr), step.eps = static_cast<float>(eps);
    step.initial = static_cast<float>(initial);
    step.beta1 = beta1, step.beta2 = beta2;
    step.weight_decay = static_cast<float>(decay);
    step.clip_value = static_cast<float>(clip_value), step.clip_norm = static_cast<float>(clip_norm);
    step.scale = static_cast<float>(scale);
    std::vector<samovar::Pending> pending;
    for (const auto& [found, gradients, slice] : tuples) {
        if (!pending.empty() && slice < pending.back().slice) throw std::invalid_argument("slices: not in order");
        pending.push_back(to_pending(*found, gradients, slice));
    }
    nb::gil_scoped_release release;
    self.update(pending, step, threads);
}

void prefetch(const Embedding& self, const Inputs& given) {
    nb::gil_scoped_release release;
    self.prefetch(given.features);
}

size_t sweep(Embedding& self, uint32_t clock, unsigned first_shard, unsigned last_shard, unsigned threads) {
    if (first_shard > last_shard || last_shard > HashTable::SHARDS) throw std::invalid_argument("shards: out of range");
    nb::gil_scoped_release release;
    return self.sweep(clock, first_shard, last_shard, threads);
}

std::map<std::string, uint64_t> counters(const Embedding& self, size_t table) {
    nb::gil_scoped_release release;
    std::lock_guard<std::mutex> guard(self.mutex());
    const samovar::HashCounters found = self.table(table).counters();
    return {{"rows", found.rows},           {"inserted", found.inserted},
            {"reset", found.reset},         {"freed", found.freed},
            {"missed", found.missed},       {"skipped", self.skipped(table)},
            {"index_bytes", found.index_bytes}, {"row_bytes", found.row_bytes}};
}

void count_ages(const Embedding& self, size_t table, uint32_t clock, Vector<uint64_t> counts) {
    check_aligned(counts, "counts");
    if (counts.size() == 0) throw std::invalid_argument("counts: must not be empty");
    nb::gil_scoped_release release;
    std::lock_guard<std::mutex> guard(self.mutex());
    self.table(table).count_ages(clock, counts.data(), counts.size());
}

size_t count_shard(const Embedding& self, size_t table, unsigned shard, uint32_t clock) {
    if (shard >= HashTable::SHARDS) throw std::invalid_argument("shard: out of range");
    nb::gil_scoped_release release;
    std::lock_guard<std::mutex> guard(self.mutex());
    return self.table(table).count(shard, clock, self.ttl(table));
}

void check_rows(size_t found, size_t rows, size_t width) {
    if (found != rows * width) {
        throw std::invalid_argument("rows: " + std::to_string(found) + " floats, not " +
                                    std::to_string(rows * width));
    }
}

void get(const Embedding& self, size_t table, Vector<const uint64_t> ids, Vector<float> rows, Vector<uint32_t> stamps,
         Vector<uint8_t> found) {
    check_aligned(ids, "ids");
    const size_t width = self.table(table).width();
    check_rows(rows.size(), ids.size(), width);
    if (stamps.size() != ids.size() || found.size() != ids.size()) throw std::invalid_argument("expected one stamp and one flag per id");
    nb::gil_scoped_release release;
    std::lock_guard<std::mutex> guard(self.mutex());
    const HashTable& from = self.table(table);
    std::vector<float*> places(ids.size());
    from.find(ids.data(), ids.size(), 0, HashTable::NEVER, nullptr, places.data());
    from.stamps(ids.data(), ids.size(), stamps.data());
    for (size_t i = 0; i < ids.size(); ++i) {
        found.data()[i] = places[i] != nullptr;
        if (places[i] != nullptr) std::memcpy(rows.data() + i * width, places[i], width * sizeof(float));
    }
}

void set_weights(Embedding& self, size_t table, Vector<const uint64_t> ids, Vector<const float> weights,
                 uint32_t clock) {
    check_aligned(ids, "ids");
    check_aligned(weights, "weights");
    check_rows(weights.size(), ids.size(), self.table(table).settings().dim);
    nb::gil_scoped_release release;
    self.set_weights(table, ids.data(), ids.size(), weights.data(), clock);
}

// The rows of a shard, copied out piece by piece; the table must not change meanwhile.
class Listing {
public:
    Listing(const Embedding& embedding, size_t table, unsigned shard, uint32_t clock, bool sorted)
        : embedding_(embedding), table_(table) {
        if (shard >= HashTable::SHARDS) throw std::invalid_argument("shard: out of range");
        nb::gil_scoped_release release;
        std::lock_guard<std::mutex> guard(embedding.mutex());
        version_ = embedding.version();
        entries_ = embedding.table(table).list(shard, clock, embedding.ttl(table), sorted);
    }

    size_t size() const { return entries_.size(); }

    void ids(size_t start, Vector<uint64_t> out) const {
        const HashTable::Entry* entry = range(start, out.size());
        for (size_t i = 0; i < out.size(); ++i) out.data()[i] = entry[i].id;
    }

    void stamps(size_t start, Vector<uint32_t> out) const {
        const HashTable::Entry* entry = range(start, out.size());
        for (size_t i = 0; i < out.size(); ++i) out.data()[i] = entry[i].stamp;
    }

    void rows(size_t start, Vector<float> out) const {
        constexpr size_t ahead = 16;
        const size_t width = embedding_.table(table_).width();
        const size_t n = out.size() / width;
        check_rows(out.size(), n, width);
        const HashTable::Entry* entry = range(start, n);
        nb::gil_scoped_release release;
        std::lock_guard<std::mutex> guard(embedding_.mutex());
        if (embedding_.version() != version_) {
            throw std::logic_error("the table changed while it was read");
        }
        const HashTable& table = embedding_.table(table_);
        for (size_t i = 0; i < n; ++i) {
            if (i + ahead < n) {
                const char* next = reinterpret_cast<const char*>(table.row(entry[i + ahead]));
                for (size_t k = 0; k < std::min<size_t>(width * sizeof(float), 512); k += 64) {
                    __builtin_prefetch(next + k);
                }
            }
            std::memcpy(out.data() + i * width, table.row(entry[i]), width * sizeof(float));
        }
    }

private:
    const HashTable::Entry* range(size_t start, size_t n) const {
        if (start > entries_.size() || n > entries_.size() - start) throw std::invalid_argument("start: past the end");
        return entries_.data() + start;
    }

    const Embedding& embedding_;
    size_t table_;
    uint64_t version_;
    std::vector<HashTable::Entry> entries_;
};

// A table that is filled from a saved state beside the one in use.
class Loading {
public:
    Loading(const Embedding& embedding, size_t table, int kind, size_t num_rows)
        : kind_(static_cast<OptimizerKind>(kind)), rows_(embedding.make_table(table, kind_)) {
        nb::gil_scoped_release release;
        rows_->reserve(num_rows);
    }

    // Throws ValueError that names the bad id.
    void insert(unsigned shard, Vector<const uint64_t> ids, Vector<const uint32_t> stamps, Vector<const float> rows) {
        check_aligned(ids, "ids");
        check_aligned(stamps, "stamps");
        check_aligned(rows, "rows");
        if (stamps.size() != ids.size()) throw std::invalid_argument("expected one stamp per id");
        check_rows(rows.size(), ids.size(), rows_->width());
        nb::gil_scoped_release release;
        constexpr size_t ahead = 16;
        for (size_t i = 0; i < ids.size(); ++i) {
            const uint64_t id = ids.data()[i];
            // Prefetch only ids of this shard: another thread may be growing the parts of another.
            if (i + ahead < ids.size() && HashTable::shard_of(ids.data()[i + ahead]) == shard) {
                rows_->prefetch_bucket(ids.data()[i + ahead]);
            }
            if (HashTable::shard_of(id) != shard) {
                throw std::invalid_argument("id " + std::to_string(id) + " does not belong to this shard");
            }
            if (!rows_->insert(id, stamps.data()[i], rows.data() + i * rows_->width())) {
                throw std::invalid_argument("id " + std::to_string(id) + " occurs twice");
            }
        }
    }

    void finish(Embedding& embedding, size_t table, const std::vector<uint64_t>& counters) {
        if (counters.size() != 5 || rows_ == nullptr) throw std::invalid_argument("expected five counters, once");
        rows_->restore(counters[0], counters[1], counters[2], counters[3]);
        nb::gil_scoped_release release;
        embedding.replace(table, std::move(rows_), kind_, counters[4]);
    }

private:
    OptimizerKind kind_;
    std::unique_ptr<HashTable> rows_;
};

}  // namespace

void bind_embedding(nb::module_& m) {
    nb::register_exception_translator([](const std::exception_ptr& error, void*) {
        try {
            std::rethrow_exception(error);
        } catch (const samovar::BadBag& bad) {
            nb::object value = nb::make_tuple(bad.what(), bad.feature);
            PyErr_SetObject(PyExc_ValueError, value.ptr());
        }
    });
    nb::class_<Inputs>(m, "Inputs")
        .def_ro("names", &Inputs::names)
        .def_ro("lens", &Inputs::lens, nb::sig("def lens(self) -> list[typing.Any]"))
        .def_prop_ro("shape", &Inputs::shape, nb::sig("def shape(self) -> tuple[int, ...] | None"));
    nb::class_<BagReader>(m, "BagReader")
        .def(nb::init<nb::type_object>(), "bag"_a)
        .def("add", &BagReader::add, "name"_a, "table"_a, "is_mean"_a)
        .def("read", &BagReader::read, "inputs"_a);
    nb::class_<Lookup>(m, "Lookup");
    nb::class_<Embedding>(m, "Embedding")
        .def(nb::init<>())
        .def("add_table", &Embedding::add_table, "dim"_a, "seed"_a, "init_scale"_a)
        .def("set_optimizer", [](Embedding& self, size_t table, int kind,
                                 uint32_t ttl) { self.set_optimizer(table, static_cast<OptimizerKind>(kind), ttl); },
             "table"_a, "kind"_a, "ttl"_a)
        .def("freeze", &Embedding::freeze, "table"_a)
        .def("set_weights", &set_weights, "table"_a, "ids"_a, "weights"_a, "clock"_a)
        .def("kind", [](const Embedding& self, size_t table) { return static_cast<int>(self.kind(table)); }, "table"_a)
        .def("ttl", &Embedding::ttl, "table"_a)
        .def("dim", [](const Embedding& self, size_t table) { return self.table(table).settings().dim; }, "table"_a)
        .def("width", [](const Embedding& self, size_t table) { return self.table(table).width(); }, "table"_a)
        .def_prop_ro("version", &Embedding::version)
        .def("lookup", &lookup, "inputs"_a, "places"_a, "clock"_a, "is_training"_a, "threads"_a)
        .def("lookup_columns", &lookup_columns, "inputs"_a, "place"_a, "clock"_a, "is_training"_a, "threads"_a)
        .def("update", &update, "pending"_a, "step"_a, "threads"_a)
        .def("prefetch", &prefetch, "inputs"_a)
        .def("sweep", &sweep, "clock"_a, "first_shard"_a, "last_shard"_a, "threads"_a)
        .def("counters", &counters, "table"_a)
        .def("count_ages", &count_ages, "table"_a, "clock"_a, "counts"_a)
        .def("count_live", &Embedding::count_live, "clock"_a, "threads"_a, nb::call_guard<nb::gil_scoped_release>())
        .def("count_shard", &count_shard, "table"_a, "shard"_a, "clock"_a)
        .def("get", &get, "table"_a, "ids"_a, "rows"_a, "stamps"_a, "found"_a);
    nb::class_<Listing>(m, "Listing")
        .def(nb::init<const Embedding&, size_t, unsigned, uint32_t, bool>(), "embedding"_a, "table"_a, "shard"_a,
             "clock"_a, "sorted"_a, nb::keep_alive<1, 2>())
        .def("__len__", &Listing::size)
        .def("ids", &Listing::ids, "start"_a, "out"_a)
        .def("stamps", &Listing::stamps, "start"_a, "out"_a)
        .def("rows", &Listing::rows, "start"_a, "out"_a);
    nb::class_<Loading>(m, "Loading")
        .def(nb::init<const Embedding&, size_t, int, size_t>(), "embedding"_a, "table"_a, "kind"_a, "num_rows"_a)
        .def("insert", &Loading::insert, "shard"_a, "ids"_a, "stamps"_a, "rows"_a)
        .def("finish", &Loading::finish, "embedding"_a, "table"_a, "counters"_a);
    m.attr("HASH_SHARDS") = HashTable::SHARDS;
    m.attr("HASH_NEVER") = HashTable::NEVER;
}
