// The extents of a test of an op on query, key and value heads.
#pragma once

#include "op_harness.h"

namespace escalier::kernels::test {

struct QkvSize {
    std::int64_t batch, sequence, heads, kv_heads, head_size;
    std::int64_t rows() const { return batch * sequence; }
    std::int64_t columns() const { return (heads + 2 * kv_heads) * head_size; }
    Shape qkv() const { return {rows(), columns()}; }
    Shape out() const { return {rows(), heads * head_size}; }
    Shape lse() const { return {batch, heads, sequence}; }
};
inline void PrintTo(const QkvSize& s, std::ostream* out) {
    *out << s.batch << " x " << s.sequence << ", " << s.heads << "/" << s.kv_heads << " heads of "
         << s.head_size;
}

}  // namespace escalier::kernels::test
