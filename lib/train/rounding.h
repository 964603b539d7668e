// How far two right results may lie apart when only the order of their sums differs.
//
// A sum of n terms t_i in arithmetic of unit roundoff u errs by at most lambda sqrt(n) u sum|t_i| but for
// odds that fall exponentially with lambda^2 (Higham and Mary, "A new approach to probabilistic rounding
// error analysis", SIAM J. Sci. Comput. 41, 2019; the worst case is gamma_n sum|t_i|, Higham, "Accuracy and
// Stability of Numerical Algorithms", 2nd edition, section 3.1). Here:
//
//   - a value has gone through D sums one after the other, one per op of the model that it depends on; sums
//     inside an op are blocked, so their own chains add a constant factor only;
//   - the magnitudes of a weight gradient's terms, one per token of the batch, are not kept. N terms of
//     random sign add up to about sqrt(N) times one of them, so sum|t_i| is about sqrt(N) times the gradient;
//   - where terms cancel, the size of the other elements of the tensor stands for their magnitude;
//   - gradients of queries and keys have gone through the softmax's differences, which cancel: their terms
//     count four times (compare_sides.cpp).
//
// So an element g of a tensor whose elements have root mean square r may differ by rho (|g| + r). In bf16
// that is more than a gradient itself, for the errors of its terms average out as the terms do; so a gradient
// as a whole may differ by no more than a quarter, which no factor of 2 stays below.
#pragma once

#include <cstdint>

#include "config/job_spec.h"
#include "train/side_tensors.h"

namespace escalier::train {

class Rounding {
 public:
    explicit Rounding(const config::JobSpec& spec);

    double rho(Quantity quantity) const;  // of elements; see above
    double whole() const;                 // of a gradient's norm: |a - b| / |a|
    double loss() const;                  // relative
    double norm() const;                  // relative

 private:
    double value_ = 0;  // of activations
    double sum_ = 0;    // of sums over all tokens
    double whole_ = 0;  // of a gradient as a whole
    double loss_ = 0, norm_ = 0;
};

}  // namespace escalier::train
