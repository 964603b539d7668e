// The tensor x pipeline x data grid: places of world ranks, tp fastest, then dp, pp slowest.
#pragma once

#include <string>

namespace escalier::parallel {

struct GridPlace {
    int tp_rank = 0;
    int dp_rank = 0;
    int pp_rank = 0;
    bool operator==(const GridPlace&) const = default;
};

struct Grid {
    int tp = 1;
    int pp = 1;
    int dp = 1;

    int ranks() const { return tp * pp * dp; }
    GridPlace place_of(int rank) const { return {rank % tp, rank / tp % dp, rank / (tp * dp)}; }
    int rank_of(GridPlace place) const { return (place.pp_rank * dp + place.dp_rank) * tp + place.tp_rank; }
    std::string text() const;  // "2x2x1": tensor x pipeline x data
};

}  // namespace escalier::parallel
