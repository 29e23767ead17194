// What the C++ tests claim; the first claim that does not hold ends its test.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

inline void check(bool holds, const std::string& what) {
    if (holds) return;
    std::fprintf(stderr, "%s\n", what.c_str());
    std::exit(1);
}
