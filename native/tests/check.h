// The check of the C++ tests: the first one that fails ends its test.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

inline void check(bool holds, const std::string& what) {
    if (holds) return;
    std::fprintf(stderr, "%s\n", what.c_str());
    std::exit(1);
}
