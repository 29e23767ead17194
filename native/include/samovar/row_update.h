// Optimizers as functions over an embedding row: [weights | state] and a gradient in, the updated row out.
// Knows no tables. Results have the same bits for any vector width.
#pragma once

#include <cstddef>
#include <cstdint>

namespace samovar {

enum class OptimizerKind : int { NONE = 0, SGD = 1, ADAGRAD = 2, ROWWISE_ADAGRAD = 3, ADAM = 4 };

// Floats of state after the weights of a row.
constexpr size_t state_width(OptimizerKind kind, size_t dim) {
    switch (kind) {
        case OptimizerKind::ADAGRAD: return dim;          // sums of squares
        case OptimizerKind::ROWWISE_ADAGRAD: return 1;    // sum of mean squares
        case OptimizerKind::ADAM: return 2 * dim + 1;     // m | v | number of the row's own steps
        default: return 0;
    }
}

struct RowStep {
    OptimizerKind kind = OptimizerKind::NONE;
    float lr = 0;
    float eps = 0;
    float initial = 0;  // both Adagrads: added to the sum of squares, which starts from 0
    double beta1 = 0, beta2 = 0;  // Adam only
    float weight_decay = 0;
    float clip_value = 0;  // both clips: 0 means no clipping
    float clip_norm = 0;
    float scale = 1;  // multiplies each gradient first
};

// Updates `n` rows from gradients that are end to end, dim floats each (they are overwritten). Unless `touched` is
// null, rows whose byte is 0 are left alone. So is a row whose gradient is not finite; returns the number of those.
size_t update_rows(const RowStep& step, size_t dim, float* const* rows, float* gradients, const uint8_t* touched,
                   size_t n);

}  // namespace samovar
