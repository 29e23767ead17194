// samovar._native: one bind function per noun, each in a file of that name. Nothing else is done here.
#include <nanobind/nanobind.h>

void bind_hash(nanobind::module_& m);

NB_MODULE(_native, m) {
    m.doc() = "The C++ core. Only samovar.native imports it.";
    bind_hash(m);
}
