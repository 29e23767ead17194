// file_list.h for Python: bytes in, bytes and fresh arrays out.
#include "samovar/file_list.h"

#include <cstring>

#include "borders.h"

namespace {

nb::object to_array(const std::vector<int64_t>& values) {
    auto* copy = new int64_t[values.size() + 1];  // never an empty allocation
    std::memcpy(copy, values.data(), values.size() * sizeof(int64_t));
    nb::capsule owner(copy, [](void* memory) noexcept { delete[] static_cast<int64_t*>(memory); });
    return nb::cast(nb::ndarray<int64_t, nb::numpy, nb::ndim<1>>(copy, {values.size()}, owner));
}

nb::tuple list_files(nb::bytes root) {
    const std::string path(root.c_str(), root.size());
    samovar::FileList list;
    try {
        nb::gil_scoped_release release;
        list = samovar::list_files(path);
    } catch (const std::system_error& error) {
        raise_os_error(error);
    }
    nb::list odd;
    for (const std::string& name : list.odd) odd.append(nb::bytes(name.data(), name.size()));
    return nb::make_tuple(nb::bytes(list.names.data(), list.names.size()), to_array(list.ends), to_array(list.stamps),
                          odd);
}

}  // namespace

void bind_file_list(nb::module_& m) {
    m.def("list_files", &list_files, "root"_a,
          nb::sig("def list_files(root: bytes) -> tuple[bytes, object, object, list[bytes]]"),
          "Names end to end, their ends, four stamps per file, and the names of what is neither file nor folder.");
}
