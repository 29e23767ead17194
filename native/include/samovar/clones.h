// SAMOVAR_CLONED marks a hot loop that is compiled for several x86-64 levels; the loader picks the best one.
// All clones give the same bits: no contraction, and no sum whose order depends on the vector width.
#pragma once

#if defined(SAMOVAR_CLONES) && defined(__x86_64__)
#define SAMOVAR_CLONED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SAMOVAR_CLONED
#endif

// Forces inlining into a clone, so that the function is compiled for each level too.
#define SAMOVAR_INLINE inline __attribute__((always_inline))

// Before a loop over an embedding row: rows do not overlap, and a short loop of known length must become vectors, not
// sixteen scalar copies of its body.
#define SAMOVAR_VECTOR _Pragma("GCC ivdep") _Pragma("GCC unroll 1")
