// torch tensors at the border, without linking torch: their methods are called as Python would call them, but a call
// costs a third of what the interpreter takes for it, and an embedding step asks for three hundred of them.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>

namespace nb = nanobind;

struct TensorPlace {
    uintptr_t address;
    size_t size;
};

class TensorReader {
public:
    TensorReader() : int64_(torch("int64")), int32_(torch("int32")) {}

    // Where a contiguous tensor on the CPU lies; nothing if it is another dtype, or of another rank than asked for.
    std::optional<TensorPlace> ids(nb::handle tensor) const { return read(tensor, int64_, true); }
    std::optional<TensorPlace> positions(nb::handle tensor) const { return read(tensor, int32_, true); }
    std::optional<TensorPlace> lens(nb::handle tensor) const { return read(tensor, int32_, false); }

    static nb::object name(const char* text) { return nb::steal(PyUnicode_InternFromString(text)); }
    static nb::object get(nb::handle of, const nb::object& name) {
        return check(PyObject_GetAttr(of.ptr(), name.ptr()));
    }

private:
    static nb::object torch(const char* name) { return nb::module_::import_("torch").attr(name); }
    static nb::object check(PyObject* found) {
        if (found == nullptr) throw nb::python_error();
        return nb::steal(found);
    }
    static nb::object call(nb::handle tensor, const nb::object& name) {
        return check(PyObject_CallMethodNoArgs(tensor.ptr(), name.ptr()));
    }

    std::optional<TensorPlace> read(nb::handle tensor, const nb::object& dtype, bool is_flat) const {
        if (!get(tensor, dtype_).is(dtype) || get(tensor, is_cpu_).ptr() != Py_True) return {};
        if (call(tensor, is_contiguous_).ptr() != Py_True) return {};
        if (is_flat && nb::cast<size_t>(call(tensor, dim_)) != 1) return {};
        return TensorPlace{nb::cast<uintptr_t>(call(tensor, data_ptr_)), nb::cast<size_t>(call(tensor, numel_))};
    }

    nb::object int64_, int32_;
    nb::object dtype_ = name("dtype"), is_cpu_ = name("is_cpu"), is_contiguous_ = name("is_contiguous");
    nb::object dim_ = name("dim"), numel_ = name("numel"), data_ptr_ = name("data_ptr");
};
