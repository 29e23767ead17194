// Embedding rows to pooled outputs, and gradients of outputs back to gradients of rows. Sums in the order of the bag.
#pragma once

#include <cstddef>
#include <cstdint>

namespace samovar {

// One feature of a step: bag b has lens[b] ids (all one if lens is null); its k-th id is rows[positions[...]].
struct Bags {
    const uint32_t* lens;
    const uint32_t* positions;
    size_t num_bags;
    bool is_mean;
};

// out[b] = sum or mean of the bag's rows, for bags [first, last); `start` is the place of the first bag's positions.
void pool_bags(const Bags& bags, size_t first, size_t last, size_t start, float* const* rows, size_t dim, float* out,
               size_t out_stride);

// gradients[u] += the gradient of each occurrence of u, for u in [low, high); gradients[low] is at `gradients`.
// Unless `remap` is null, position p means row remap[p]. `touched` may be null.
void reduce_bags(const Bags& bags, const float* grad, size_t grad_stride, const uint32_t* remap, size_t dim,
                 size_t low, size_t high, float* gradients, uint8_t* touched);

}  // namespace samovar
