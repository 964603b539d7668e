// One measured call of an op, with the work that it does.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/op_context.h"

namespace escalier::bench {

struct BenchCase {
    std::string name;
    double flops = 0;  // of one call; 0: the case is bound by memory and reported in bytes
    double bytes = 0;  // read and written by one call
    std::function<void(const OpContext&)> run;
};

struct BenchShape {
    std::int64_t batch, sequence, hidden, heads, vocabulary;
    std::int64_t rows() const { return batch * sequence; }
};

// The ops of a gpt2 block, head and step at the given shape. The cases share one set of buffers.
std::vector<BenchCase> gpt2_cases(const BenchShape& shape);
// A square product cut into one band of rows per thread: what the library reaches on these cores.
BenchCase sgemm_ceiling(int threads);

// Bytes of op scratch per thread that the cases need.
std::size_t scratch_bytes(const BenchShape& shape);

}  // namespace escalier::bench
