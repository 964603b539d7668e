// How a tensor is cut among the ranks of a group, each of which adds up one piece.
#pragma once

#include <algorithm>
#include <cstdint>

namespace escalier::comm {

struct RankPiece {  // in elements
    std::int64_t begin = 0;
    std::int64_t count = 0;
};

// Whole granules, so that a piece starts where a vector access may start; the last ranks may get less.
constexpr std::int64_t piece_granule = 64;

constexpr RankPiece piece_of_rank(std::int64_t elements, int rank, int size) {
    const std::int64_t granules = (elements + piece_granule - 1) / piece_granule;
    const std::int64_t begin = std::min(elements, granules * rank / size * piece_granule);
    const std::int64_t end = std::min(elements, granules * (rank + 1) / size * piece_granule);
    return {begin, end - begin};
}

// Of all ranks' parts of one piece: what whoever adds up a piece needs as scratch.
constexpr std::int64_t parts_elements(std::int64_t elements, int size) {
    const std::int64_t granules = (elements + piece_granule - 1) / piece_granule;
    return (granules + size - 1) / size * piece_granule * size;
}

}  // namespace escalier::comm
