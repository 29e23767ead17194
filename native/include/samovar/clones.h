// SAMOVAR_CLONED marks a hot loop that is compiled for several x86-64 levels; the loader picks the best one.
// Every clone gives the same bits: no contraction, and no sum whose order depends on the vector width.
#pragma once

#if defined(SAMOVAR_CLONES) && defined(__x86_64__)
#define SAMOVAR_CLONED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SAMOVAR_CLONED
#endif
