// Sums of arrays over the slices of a step, by one fixed binary tree over their positions:
//
//   ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7))
//
// An absent position counts as nothing: of 0, 1 and 2 the sum is (0 + 1) + 2. So whoever adds up a subtree, alone or in
// another process, gets the same bits.
#pragma once

#include <cstddef>
#include <vector>

namespace samovar {

class TreeSum {
public:
    explicit TreeSum(std::vector<std::vector<float>>& buffers) : buffers_(buffers) {}  // reused, one per level

    // Zeros, to be filled before the next call. Positions grow.
    float* leaf(size_t position, size_t size) {
        while (positions_.size() > 1 && is_complete_before(position)) merge();
        positions_.push_back(position);
        if (buffers_.size() < positions_.size()) buffers_.emplace_back();
        buffers_[positions_.size() - 1].assign(size, 0.0f);
        return buffers_[positions_.size() - 1].data();
    }

    // The sum of all leaves; there is at least one.
    float* finish() {
        while (positions_.size() > 1) merge();
        return buffers_[0].data();
    }

private:
    // Whether the last subtree gets no more leaves before it is added to the one before it.
    bool is_complete_before(size_t position) const {
        const size_t last = positions_.back();
        const int level = 63 - __builtin_clzll(last ^ positions_[positions_.size() - 2]);
        return position >> level != last >> level;
    }

    void merge() {
        const std::vector<float>& from = buffers_[positions_.size() - 1];
        positions_.pop_back();
        std::vector<float>& to = buffers_[positions_.size() - 1];
        for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
    }

    std::vector<std::vector<float>>& buffers_;
    std::vector<size_t> positions_;  // of each pending subtree: its first leaf
};

}  // namespace samovar
