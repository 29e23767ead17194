// Reads the bags of a minibatch from Python in one call: the interpreter would need a fifth of a step for it.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "samovar/embedding.h"
#include "tensors.h"

// The bags of a minibatch, by feature. Keeps their tensors alive.
struct Inputs {
    std::vector<samovar::FeatureInput> features;
    std::vector<nb::str> names;
    std::vector<nb::object> lens, held;

    // The common shape of all lens; None if they differ or there are none.
    nb::object shape() const {
        if (lens.empty()) return nb::none();
        nb::object first = lens[0].attr("shape");
        for (size_t i = 1; i < lens.size(); ++i) {
            if (!first.equal(lens[i].attr("shape"))) return nb::none();
        }
        return first;
    }
};

// Knows the features by name, and the type of a bag: an object with data, unique, inverse and data_len.
class BagReader {
public:
    explicit BagReader(nb::type_object bag) : bag_(std::move(bag)) {}

    void add(nb::str name, size_t table, bool is_mean) {
        PyObject* interned = name.release().ptr();
        PyUnicode_InternInPlace(&interned);
        features_.push_back({nb::steal<nb::str>(interned), table, is_mean});
    }

    // The features present in `inputs`, in the order in which they were added. Throws ValueError(name) for a value that
    // is not a bag, or whose tensors have the wrong type.
    Inputs read(nb::typed<nb::dict, nb::str, nb::object> inputs) const {
        Inputs found;
        for (const Feature& feature : features_) {
            PyObject* bag = PyDict_GetItemWithError(inputs.ptr(), feature.name.ptr());
            if (bag == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
            if (bag == nullptr) continue;
            if (!read_bag(bag, feature, found)) {
                PyErr_SetObject(PyExc_ValueError, feature.name.ptr());
                throw nb::python_error();
            }
            found.names.push_back(feature.name);
        }
        return found;
    }

private:
    struct Feature {
        nb::str name;
        size_t table;
        bool is_mean;
    };

    bool read_bag(nb::handle bag, const Feature& feature, Inputs& found) const {
        if (bag.type().ptr() != bag_.ptr() && !nb::isinstance(bag, bag_)) return false;
        nb::object lens = get(bag, data_len_), ids = get(bag, unique_);
        const bool is_plain = ids.is_none();
        if (is_plain) ids = get(bag, data_);
        const auto found_ids = tensors_.ids(ids), found_lens = tensors_.lens(lens);
        if (!found_ids || !found_lens) return false;
        samovar::FeatureInput input;
        input.table = feature.table, input.is_mean = feature.is_mean;
        input.lens = static_cast<const int32_t*>(found_lens->address), input.num_bags = found_lens->size;
        input.ids = static_cast<const uint64_t*>(found_ids->address), input.num_ids = found_ids->size;
        if (!is_plain) {
            nb::object positions = get(bag, inverse_);
            const auto found_positions = tensors_.positions(positions);
            if (!found_positions) return false;
            static const int32_t nowhere = 0;  // an empty tensor may have no address, which would mean "no positions"
            input.positions = found_positions->size == 0 ? &nowhere
                                                         : static_cast<const int32_t*>(found_positions->address);
            input.num_positions = found_positions->size;
            found.held.push_back(std::move(positions));
        }
        found.features.push_back(input);
        found.lens.push_back(std::move(lens));
        found.held.push_back(std::move(ids));
        return true;
    }

    static nb::object intern(const char* text) { return nb::steal(PyUnicode_InternFromString(text)); }
    static nb::object get(nb::handle of, const nb::object& name) {
        PyObject* found = PyObject_GetAttr(of.ptr(), name.ptr());
        if (found == nullptr) throw nb::python_error();
        return nb::steal(found);
    }

    nb::type_object bag_;
    std::vector<Feature> features_;
    TensorReader tensors_;
    nb::object data_ = intern("data"), unique_ = intern("unique");
    nb::object inverse_ = intern("inverse"), data_len_ = intern("data_len");
};
