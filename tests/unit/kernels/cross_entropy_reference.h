// Softmax cross-entropy over a vocabulary that is cut over ranks, and its gradient.
#pragma once

#include "tests/unit/kernels/op_harness.h"

namespace escalier::kernels::test {

struct VocabularyCut {
    std::int64_t rows, vocabulary, padded, ranks;  // padded: columns over all ranks
    std::int64_t columns() const { return padded / ranks; }
    // Columns of a rank that are no padding.
    std::int64_t valid(std::int64_t rank) const {
        return std::clamp<std::int64_t>(vocabulary - rank * columns(), 0, columns());
    }
};
inline void PrintTo(const VocabularyCut& s, std::ostream* out) {
    *out << s.rows << " x " << s.vocabulary << " of " << s.padded << " on " << s.ranks << " ranks";
}

template <class T>
Numbers<T> losses_reference(const VocabularyCut& s, const Numbers<T>& logits,
                            const std::vector<int>& targets) {
    using std::exp, std::log;
    Numbers<T> losses;
    for (std::int64_t row = 0; row < s.rows; ++row) {
        const T* own = &logits[static_cast<std::size_t>(row * s.padded)];
        T maximum = own[0], sum(0.0);
        for (std::int64_t i = 1; i < s.vocabulary; ++i)
            if (harness::value_of(own[i]) > harness::value_of(maximum)) maximum = own[i];
        for (std::int64_t i = 0; i < s.vocabulary; ++i) sum += exp(own[i] - maximum);
        const int target = targets[static_cast<std::size_t>(row)];
        losses.push_back(target < 0 ? T(0.0) : log(sum) + maximum - own[target]);
    }
    return losses;
}

// Of every kind, -1 among them.
inline std::vector<int> some_targets(const VocabularyCut& s) {
    std::vector<int> out(static_cast<std::size_t>(s.rows));
    for (std::int64_t row = 0; row < s.rows; ++row)
        out[static_cast<std::size_t>(row)] = row % 5 == 3 ? -1 : static_cast<int>(row * 7919 % s.vocabulary);
    return out;
}

inline Numbers<Tracked> losses_gradient(const VocabularyCut& s, const Floats& logits,
                                        const std::vector<int>& targets, float scale) {
    Numbers<Tracked> out(logits.size());
    for (std::int64_t row = 0; row < s.rows; ++row) {
        const int target = targets[static_cast<std::size_t>(row)];
        if (target < 0) continue;
        const float* own = &logits[static_cast<std::size_t>(row * s.padded)];
        Tracked* d = &out[static_cast<std::size_t>(row * s.padded)];
        const Tracked maximum(*std::max_element(own, own + s.vocabulary));
        Tracked sum;
        for (std::int64_t i = 0; i < s.vocabulary; ++i) sum += d[i] = exp(Tracked(own[i]) - maximum);
        for (std::int64_t i = 0; i < s.vocabulary; ++i)
            d[i] = d[i] / sum * Tracked(scale) - Tracked(i == target ? scale : 0.0);
    }
    return out;
}

}  // namespace escalier::kernels::test
