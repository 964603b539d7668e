// Random changes that searches try. The same on every machine and in every run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/rng.h"

namespace escalier::schedule::generators {

class Random {
 public:
    explicit Random(std::uint64_t stream) : stream_(stream) {}
    double next() { return uniform(philox(1, stream_, draws_++)[0]); }
    int below(int count) { return std::min(count - 1, static_cast<int>(next() * count)); }

 private:
    std::uint64_t stream_, draws_ = 0;
};

// Sets a share of time (Guide::fill, patience) of one rank or of all.
inline void change_share(std::vector<double>& shares, Random& random) {
    const double share = 0.25 * random.below(7);
    if (random.below(3) == 0)
        std::fill(shares.begin(), shares.end(), share);
    else
        shares[static_cast<std::size_t>(random.below(static_cast<int>(shares.size())))] = share;
}

}  // namespace escalier::schedule::generators
