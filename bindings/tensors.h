// Reads torch tensors without linking torch: one call of DLPack's C functions, which torch exports, describes a tensor.
// Asking through the interpreter would take a tenth of an embedding step.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <optional>
#include <stdexcept>

namespace nb = nanobind;

struct TensorPlace {
    const void* address;
    size_t size;
};

class TensorReader {
public:
    TensorReader() : type_(nb::module_::import_("torch").attr("Tensor")) {
        const nb::object capsule = type_.attr("__dlpack_c_exchange_api__");
        const auto* api = static_cast<const Api*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
        if (api == nullptr) throw nb::python_error();
        while (api != nullptr && api->major != 1) api = api->older;
        if (api == nullptr || api->look == nullptr) {
            throw std::runtime_error("torch: no DLPack C functions of version 1, install torch 2.13 or later");
        }
        look_ = api->look;
    }

    // The address and size of a contiguous tensor on the CPU; nothing if its dtype or rank is wrong.
    std::optional<TensorPlace> ids(nb::handle tensor) const { return read(tensor, 64, true); }
    std::optional<TensorPlace> positions(nb::handle tensor) const { return read(tensor, 32, true); }
    std::optional<TensorPlace> lens(nb::handle tensor) const { return read(tensor, 32, false); }

private:
    using Look = int (*)(void* tensor, nb::dlpack::dltensor* found);

    // DLPack's DLPackExchangeAPI
    struct Api {
        uint32_t major, minor;
        const Api* older;
        void *allocate, *share, *adopt;
        Look look;
        void* stream;
    };

    std::optional<TensorPlace> read(nb::handle tensor, uint8_t bits, bool is_flat) const {
        if (!PyObject_TypeCheck(tensor.ptr(), reinterpret_cast<PyTypeObject*>(type_.ptr()))) return {};
        nb::dlpack::dltensor found;
        if (look_(tensor.ptr(), &found) != 0) {  // sparse, or of a type that DLPack does not know
            PyErr_Clear();
            return {};
        }
        constexpr auto integer = static_cast<uint8_t>(nb::dlpack::dtype_code::Int);
        if (found.dtype.code != integer || found.dtype.bits != bits || found.dtype.lanes != 1) return {};
        if (found.device.device_type != nb::device::cpu::value || (is_flat && found.ndim != 1)) return {};
        const std::optional<size_t> size = contiguous_size(found);
        if (!size) return {};
        return TensorPlace{static_cast<const char*>(found.data) + found.byte_offset, *size};
    }

    static std::optional<size_t> contiguous_size(const nb::dlpack::dltensor& found) {
        int64_t size = 1;
        bool is_contiguous = true;
        for (int32_t i = found.ndim - 1; i >= 0; --i) {
            is_contiguous &= found.shape[i] == 1 || found.strides[i] == size;
            size *= found.shape[i];
        }
        if (!is_contiguous && size != 0) return {};
        return static_cast<size_t>(size);
    }

    nb::object type_;
    Look look_;
};
