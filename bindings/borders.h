// The checks that all bindings share: strict dtype, rank, contiguity and alignment, before C++ reads a byte.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <system_error>

namespace nb = nanobind;
using namespace nb::literals;

// Any Python object that exposes one contiguous buffer of bytes, kept alive while it is read.
class ByteBuffer {
public:
    explicit ByteBuffer(nb::handle object) {
        if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
    }
    ByteBuffer(const ByteBuffer&) = delete;
    ByteBuffer& operator=(const ByteBuffer&) = delete;
    ~ByteBuffer() { PyBuffer_Release(&view_); }

    const uint8_t* data() const { return static_cast<const uint8_t*>(view_.buf); }
    size_t size() const { return static_cast<size_t>(view_.len); }

private:
    Py_buffer view_;
};

[[noreturn]] inline void raise_os_error(const std::system_error& error) {
    PyErr_SetObject(PyExc_OSError, nb::make_tuple(error.code().value(), error.what()).ptr());
    throw nb::python_error();
}

template <typename T>
using Vector = nb::ndarray<T, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <typename T>
void check_aligned(const Vector<T>& vector, const char* name) {
    if (reinterpret_cast<uintptr_t>(vector.data()) % alignof(T) != 0) {
        throw std::invalid_argument(std::string(name) + ": not aligned to its item size");
    }
}
