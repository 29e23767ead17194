#include "samovar/pooling.h"

#include "samovar/clones.h"

namespace samovar {

namespace {

// Outputs and gradients may be columns of a wide matrix, whose next row no hardware prefetcher predicts.
constexpr size_t AHEAD = 12;
constexpr size_t AHEAD_OF_SINGLES = 96;  // a bag of one id takes a few nanoseconds

template <size_t DIM>
SAMOVAR_INLINE void pool(const Bags& bags, size_t first, size_t last, size_t start, float* const* rows,
                         size_t any_dim, float* out, size_t out_stride) {
    const size_t dim = DIM != 0 ? DIM : any_dim;
    const uint32_t* position = bags.positions + start;
    if (bags.lens == nullptr) {  // one id per bag: its mean is its sum
        for (size_t b = first; b < last; ++b) {
            const float* row = rows[*position++];
            float* __restrict to = out + b * out_stride;
            __builtin_prefetch(to + AHEAD_OF_SINGLES * out_stride, 1);  // harmless past the end
            SAMOVAR_VECTOR
            for (size_t j = 0; j < dim; ++j) to[j] = row[j] + 0.0f;
        }
        return;
    }
    for (size_t b = first; b < last; ++b) {
        float* __restrict to = out + b * out_stride;
        __builtin_prefetch(to + AHEAD * out_stride, 1);
        const uint32_t len = bags.lens[b];
        if constexpr (DIM != 0) {
            float acc[DIM] = {};
            for (uint32_t k = 0; k < len; ++k) {
                const float* row = rows[*position++];
                SAMOVAR_VECTOR
                for (size_t j = 0; j < DIM; ++j) acc[j] += row[j];
            }
            SAMOVAR_VECTOR
            for (size_t j = 0; j < DIM; ++j) to[j] = acc[j];
        } else {
            SAMOVAR_VECTOR
            for (size_t j = 0; j < dim; ++j) to[j] = 0.0f;
            for (uint32_t k = 0; k < len; ++k) {
                const float* row = rows[*position++];
                SAMOVAR_VECTOR
                for (size_t j = 0; j < dim; ++j) to[j] += row[j];
            }
        }
        if (bags.is_mean && len > 1) {
            SAMOVAR_VECTOR
            for (size_t j = 0; j < dim; ++j) to[j] /= static_cast<float>(len);
        }
    }
}

template <size_t DIM>
SAMOVAR_INLINE void add_to(float* __restrict sum, const float* __restrict g, size_t any_dim, uint32_t divisor) {
    const size_t dim = DIM != 0 ? DIM : any_dim;
    if (divisor > 1) {
        SAMOVAR_VECTOR
        for (size_t j = 0; j < dim; ++j) sum[j] += g[j] / static_cast<float>(divisor);
    } else {
        SAMOVAR_VECTOR
        for (size_t j = 0; j < dim; ++j) sum[j] += g[j];
    }
}

template <size_t DIM, bool ALL>
SAMOVAR_INLINE void reduce(const Bags& bags, const float* grad, size_t grad_stride, const uint32_t* remap,
                           size_t any_dim, size_t low, size_t high, float* gradients, uint8_t* touched) {
    const size_t dim = DIM != 0 ? DIM : any_dim;
    const uint32_t* position = bags.positions;
    for (size_t b = 0; b < bags.num_bags; ++b) {
        const float* g = grad + b * grad_stride;
        __builtin_prefetch(g + AHEAD * grad_stride);
        const uint32_t len = bags.lens != nullptr ? bags.lens[b] : 1;
        for (uint32_t k = 0; k < len; ++k) {
            size_t u = *position++;
            if (!ALL) {
                if (remap != nullptr) u = remap[u];
                if (u < low || u >= high) continue;
                u -= low;
                if (touched != nullptr) touched[u] = 1;
            }
            add_to<DIM>(gradients + u * dim, g, dim, bags.is_mean ? len : 1);
        }
    }
}

template <size_t DIM>
SAMOVAR_INLINE void reduce_dim(const Bags& bags, const float* grad, size_t grad_stride, const uint32_t* remap,
                               size_t dim, size_t low, size_t high, float* gradients, uint8_t* touched) {
    if (low == 0 && high == SIZE_MAX && remap == nullptr && touched == nullptr) {
        reduce<DIM, true>(bags, grad, grad_stride, remap, dim, low, high, gradients, touched);
    } else {
        reduce<DIM, false>(bags, grad, grad_stride, remap, dim, low, high, gradients, touched);
    }
}

}  // namespace

SAMOVAR_CLONED
void pool_bags(const Bags& bags, size_t first, size_t last, size_t start, float* const* rows, size_t dim, float* out,
               size_t out_stride) {
    switch (dim) {
        case 8: return pool<8>(bags, first, last, start, rows, dim, out, out_stride);
        case 16: return pool<16>(bags, first, last, start, rows, dim, out, out_stride);
        case 32: return pool<32>(bags, first, last, start, rows, dim, out, out_stride);
        case 64: return pool<64>(bags, first, last, start, rows, dim, out, out_stride);
        default: return pool<0>(bags, first, last, start, rows, dim, out, out_stride);
    }
}

SAMOVAR_CLONED
void reduce_bags(const Bags& bags, const float* grad, size_t grad_stride, const uint32_t* remap, size_t dim,
                 size_t low, size_t high, float* gradients, uint8_t* touched) {
    switch (dim) {
        case 8: return reduce_dim<8>(bags, grad, grad_stride, remap, dim, low, high, gradients, touched);
        case 16: return reduce_dim<16>(bags, grad, grad_stride, remap, dim, low, high, gradients, touched);
        case 32: return reduce_dim<32>(bags, grad, grad_stride, remap, dim, low, high, gradients, touched);
        case 64: return reduce_dim<64>(bags, grad, grad_stride, remap, dim, low, high, gradients, touched);
        default: return reduce_dim<0>(bags, grad, grad_stride, remap, dim, low, high, gradients, touched);
    }
}

}  // namespace samovar
