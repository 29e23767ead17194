// mapped_file.h for Python: a mapped file as an array of bytes, unmapped when the last view of it is gone.
#include "samovar/mapped_file.h"

#include "borders.h"

namespace {

using Bytes = nb::ndarray<uint8_t, nb::numpy, nb::ndim<1>>;

nb::object map_file(int descriptor, size_t size, nb::bytes name) {
    const std::string path(name.c_str(), name.size());
    samovar::MappedFile* file = nullptr;
    try {
        nb::gil_scoped_release release;
        file = new samovar::MappedFile(descriptor, size, path);
    } catch (const std::system_error& error) {
        raise_os_error(error);
    }
    nb::capsule owner(file, [](void* mapped) noexcept { delete static_cast<samovar::MappedFile*>(mapped); });
    return nb::cast(Bytes(file->data(), {file->size()}, owner));
}

}  // namespace

void bind_mapped_file(nb::module_& m) {
    m.def("map_file", &map_file, "descriptor"_a, "size"_a, "name"_a,
          nb::sig("def map_file(descriptor: int, size: int, name: bytes) -> NDArray[numpy.uint8]"),
          "The bytes of a file, private and writable. If another process cuts it, this one says so before it ends.");
}
