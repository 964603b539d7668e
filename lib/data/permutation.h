// A permutation of [0, size) that is computed, not stored: a Feistel network on the mixed-radix digits of an
// index with Philox as round function, walked along its cycle until it falls inside (Black and Rogaway,
// "Ciphers with arbitrary finite domains", CT-RSA 2002).
#pragma once

#include <cmath>
#include <cstdint>

#include "core/check.h"
#include "core/rng.h"

namespace escalier::data {

class Permutation {
 public:
    // A pure function of (size, key, epoch). size >= 1, below 2^62.
    Permutation(std::int64_t size, std::uint64_t key, std::uint64_t epoch)
        : size_(static_cast<std::uint64_t>(size)), key_(key), epoch_(epoch) {
        ESCALIER_CHECK(size >= 1 && size < (std::int64_t{1} << 62), "permutation of nothing or too much");
        // rows * columns >= size with less than a row to spare, so that a walk is short.
        rows_ = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(size_)));
        if (rows_ < 1) rows_ = 1;
        columns_ = (size_ + rows_ - 1) / rows_;
    }
    std::int64_t operator()(std::int64_t index) const {
        auto value = static_cast<std::uint64_t>(index);
        do value = shuffle(value);
        while (value >= size_);
        return static_cast<std::int64_t>(value);
    }

 private:
    static constexpr std::uint64_t rounds = 8;

    std::uint64_t shuffle(std::uint64_t value) const {
        std::uint64_t row = value / columns_, column = value % columns_;
        for (std::uint64_t round = 0; round < rounds; round += 2) {
            row = (row + draw(round, column)) % rows_;
            column = (column + draw(round + 1, row)) % columns_;
        }
        return row * columns_ + column;
    }
    // 63 bits, so that adding a digit cannot overflow.
    std::uint64_t draw(std::uint64_t round, std::uint64_t digit) const {
        const PhiloxBlock block = philox(key_, epoch_, round << 56 | digit);
        return (std::uint64_t{block[0]} << 32 | block[1]) >> 1;
    }

    std::uint64_t size_, key_, epoch_;
    std::uint64_t rows_ = 1, columns_ = 1;
};

}  // namespace escalier::data
