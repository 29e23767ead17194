// samovar._native: one bind function per noun, each in a file of that name.
#include <nanobind/nanobind.h>

void bind_cell(nanobind::module_& m);
void bind_embedding(nanobind::module_& m);
void bind_file_list(nanobind::module_& m);
void bind_hash(nanobind::module_& m);
void bind_mapped_file(nanobind::module_& m);
void bind_text(nanobind::module_& m);

NB_MODULE(_native, m) {
    m.doc() = "The C++ core. Only samovar.native imports it.";
    // A model in a script's globals may outlive the interpreter's last collection, because torch keeps it alive.
    nanobind::set_leak_warnings(false);
    bind_cell(m);
    bind_embedding(m);
    bind_file_list(m);
    bind_hash(m);
    bind_mapped_file(m);
    bind_text(m);
}
