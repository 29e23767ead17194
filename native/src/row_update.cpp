#include "samovar/row_update.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "samovar/clones.h"

namespace samovar {

namespace {

constexpr size_t WAVE = 16;  // rows to prefetch at once, while the wave before is updated

SAMOVAR_INLINE bool is_finite(const float* g, float scale, size_t dim) {
    uint32_t bad = 0;
    for (size_t j = 0; j < dim; ++j) {
        const float scaled = g[j] * scale;
        uint32_t bits;
        std::memcpy(&bits, &scaled, sizeof bits);
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return bad == 0;
}

// Eight sums, then a tree: the order does not depend on the vector width.
SAMOVAR_INLINE float sum_of_squares(const float* g, float scale, size_t dim) {
    float acc[8] = {};
    size_t j = 0;
    for (; j + 8 <= dim; j += 8) {
        for (size_t k = 0; k < 8; ++k) acc[k] += (g[j + k] * scale) * (g[j + k] * scale);
    }
    for (size_t k = 0; j + k < dim; ++k) acc[k] += (g[j + k] * scale) * (g[j + k] * scale);
    return ((acc[0] + acc[4]) + (acc[2] + acc[6])) + ((acc[1] + acc[5]) + (acc[3] + acc[7]));
}

SAMOVAR_INLINE void clip(const RowStep& step, float* g, size_t dim) {
    if (step.clip_value > 0) {
        const float c = step.clip_value;
        for (size_t j = 0; j < dim; ++j) {
            const float low = g[j] > -c ? g[j] : -c;
            g[j] = low < c ? low : c;
        }
    }
    if (step.clip_norm > 0) {
        const float squares = sum_of_squares(g, 1, dim);
        if (squares > step.clip_norm * step.clip_norm) {
            const float scale = step.clip_norm / std::sqrt(squares);
            for (size_t j = 0; j < dim; ++j) g[j] *= scale;
        }
    }
}

double power(double base, uint32_t exponent) {
    double result = 1;
    for (; exponent != 0; exponent >>= 1, base *= base) {
        if (exponent & 1) result *= base;
    }
    return result;
}

// Adam's corrections, 1 - beta^t, of rows with few steps: most rows share their t with others.
class Corrections {
public:
    struct Both {
        float mean, square;
    };

    explicit Corrections(const RowStep& step) : step_(step) {}

    Both of(uint32_t t) {
        if (t >= KEPT) return compute(t);
        if (kept_[t].mean == 0) kept_[t] = compute(t);
        return kept_[t];
    }

private:
    static constexpr uint32_t KEPT = 256;

    Both compute(uint32_t t) const {
        return {static_cast<float>(1 - power(step_.beta1, t)), static_cast<float>(1 - power(step_.beta2, t))};
    }

    const RowStep& step_;
    Both kept_[KEPT] = {};
};

struct NoCorrections {
    explicit NoCorrections(const RowStep&) {}
};

template <OptimizerKind KIND>
using CorrectionsOf = std::conditional_t<KIND == OptimizerKind::ADAM, Corrections, NoCorrections>;

template <OptimizerKind KIND>
SAMOVAR_INLINE void update_row(const RowStep& step, [[maybe_unused]] CorrectionsOf<KIND>& corrections,
                               float* __restrict w, const float* __restrict g, float scale, size_t dim) {
    [[maybe_unused]] const float lr = step.lr, eps = step.eps, initial = step.initial;
    if constexpr (KIND == OptimizerKind::SGD) {
        SAMOVAR_VECTOR
        for (size_t j = 0; j < dim; ++j) w[j] -= lr * (g[j] * scale);
    } else if constexpr (KIND == OptimizerKind::ADAGRAD) {
        float* __restrict s = w + dim;
        SAMOVAR_VECTOR
        for (size_t j = 0; j < dim; ++j) {
            const float scaled = g[j] * scale;
            const float sum = s[j] + scaled * scaled;
            s[j] = sum;
            w[j] -= (lr * scaled) / (std::sqrt(sum + initial) + eps);
        }
    } else if constexpr (KIND == OptimizerKind::ROWWISE_ADAGRAD) {
        w[dim] += sum_of_squares(g, scale, dim) / static_cast<float>(dim);
        const float rate = lr / (std::sqrt(w[dim] + initial) + eps);
        SAMOVAR_VECTOR
        for (size_t j = 0; j < dim; ++j) w[j] -= rate * (g[j] * scale);
    } else {
        float* __restrict m = w + dim;
        float* __restrict v = w + 2 * dim;
        const float steps = w[3 * dim] + 1;
        w[3 * dim] = steps;
        const auto b1 = static_cast<float>(step.beta1), b2 = static_cast<float>(step.beta2);
        const auto r1 = static_cast<float>(1 - step.beta1), r2 = static_cast<float>(1 - step.beta2);
        const auto [c1, c2] = corrections.of(static_cast<uint32_t>(steps));
        SAMOVAR_VECTOR
        for (size_t j = 0; j < dim; ++j) {
            const float scaled = g[j] * scale;
            const float mean = b1 * m[j] + r1 * scaled;
            const float square = b2 * v[j] + r2 * (scaled * scaled);
            m[j] = mean;
            v[j] = square;
            w[j] -= (lr * (mean / c1)) / (std::sqrt(square / c2) + eps);
        }
    }
}

// A prefetch waits for the page tables: with nothing between them, many wait at once.
SAMOVAR_INLINE void prefetch(float* const* rows, size_t first, size_t last, size_t width) {
    const size_t bytes = width * sizeof(float) < 512 ? width * sizeof(float) : 512;
    for (size_t i = first; i < last; ++i) {
        for (size_t k = 0; k < bytes; k += 64) __builtin_prefetch(reinterpret_cast<const char*>(rows[i]) + k, 1);
    }
}

// DIM 0 means any dimension; a known one lets the compiler keep the row in registers.
template <OptimizerKind KIND, size_t DIM>
SAMOVAR_INLINE size_t update_all(const RowStep& step, size_t any_dim, float* const* rows, float* gradients,
                                 const uint8_t* touched, size_t n) {
    const size_t dim = DIM != 0 ? DIM : any_dim;
    const size_t width = dim + state_width(KIND, dim);
    const bool changes_gradients = step.clip_value > 0 || step.clip_norm > 0 || step.weight_decay != 0;
    CorrectionsOf<KIND> corrections(step);
    size_t num_skipped = 0;
    prefetch(rows, 0, std::min(n, WAVE), width);
    for (size_t i = 0; i < n; ++i) {
        if (i % WAVE == 0) prefetch(rows, std::min(n, i + WAVE), std::min(n, i + 2 * WAVE), width);
        if (touched != nullptr && touched[i] == 0) continue;
        float* g = gradients + i * dim;
        if (!is_finite(g, step.scale, dim)) {
            ++num_skipped;
            continue;
        }
        if (!changes_gradients) {
            update_row<KIND>(step, corrections, rows[i], g, step.scale, dim);
            continue;
        }
        for (size_t j = 0; j < dim; ++j) g[j] *= step.scale;
        clip(step, g, dim);
        if (step.weight_decay != 0) {
            for (size_t j = 0; j < dim; ++j) g[j] += step.weight_decay * rows[i][j];
        }
        update_row<KIND>(step, corrections, rows[i], g, 1, dim);
    }
    return num_skipped;
}

template <OptimizerKind KIND>
SAMOVAR_INLINE size_t update_dims(const RowStep& step, size_t dim, float* const* rows, float* gradients,
                                  const uint8_t* touched, size_t n) {
    switch (dim) {
        case 8: return update_all<KIND, 8>(step, dim, rows, gradients, touched, n);
        case 16: return update_all<KIND, 16>(step, dim, rows, gradients, touched, n);
        case 32: return update_all<KIND, 32>(step, dim, rows, gradients, touched, n);
        case 64: return update_all<KIND, 64>(step, dim, rows, gradients, touched, n);
        default: return update_all<KIND, 0>(step, dim, rows, gradients, touched, n);
    }
}

}  // namespace

SAMOVAR_CLONED
size_t update_rows(const RowStep& step, size_t dim, float* const* rows, float* gradients, const uint8_t* touched,
                   size_t n) {
    switch (step.kind) {
        case OptimizerKind::SGD: return update_dims<OptimizerKind::SGD>(step, dim, rows, gradients, touched, n);
        case OptimizerKind::ADAGRAD:
            return update_dims<OptimizerKind::ADAGRAD>(step, dim, rows, gradients, touched, n);
        case OptimizerKind::ROWWISE_ADAGRAD:
            return update_dims<OptimizerKind::ROWWISE_ADAGRAD>(step, dim, rows, gradients, touched, n);
        case OptimizerKind::ADAM: return update_dims<OptimizerKind::ADAM>(step, dim, rows, gradients, touched, n);
        default: return 0;
    }
}

}  // namespace samovar
