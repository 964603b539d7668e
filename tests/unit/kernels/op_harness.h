// What every op test needs: a context with guarded scratch, random inputs, comparison with a reference.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <vector>

#include "core/op_context.h"
#include "kernels/ops.h"
#include "tests/harness/guarded_buffer.h"
#include "tests/harness/tracked.h"

namespace escalier::kernels::test {

using harness::GuardedBuffer;
using harness::numbers;
using harness::Numbers;
using harness::Tracked;
using Floats = std::vector<float>;

// A pool, scratch of exactly the promised size, filled with NaN and guarded, and the context over both.
class Runner {
 public:
    explicit Runner(int threads = 2, std::int64_t max_columns = 512, std::int64_t max_sequence = 256,
                    std::int64_t max_head_size = 128)
        : pool_(threads),
          bytes_(cpu_scratch_bytes_per_thread({0, max_columns, 0, max_sequence, 0, max_head_size})),
          scratch_(Shape{static_cast<std::int64_t>(bytes_) / 4 * threads}),
          context_(pool_, scratch_.begin(), bytes_) {}
    operator const OpContext&() const { return context_; }  // NOLINT(google-explicit-constructor)

 private:
    ComputePool pool_;
    std::size_t bytes_;
    GuardedBuffer<float> scratch_;
    OpContext context_;
};

inline Floats random_floats(std::int64_t n, unsigned seed, float scale = 1.0f) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal(0.0f, scale);
    Floats out(static_cast<std::size_t>(n));
    for (float& value : out) value = normal(generator);
    return out;
}

// Every element within the reference's own tolerance.
inline void expect_near(const Floats& actual, const Numbers<Tracked>& expected, const char* what) {
    ASSERT_EQ(actual.size(), expected.size()) << what;
    for (std::size_t i = 0; i < actual.size(); ++i) {
        const double difference = std::abs(actual[i] - expected[i].value);
        ASSERT_TRUE(difference <= expected[i].tolerance())
            << what << "[" << i << "] is " << actual[i] << ", reference " << expected[i].value << " +- "
            << expected[i].tolerance();
    }
}

inline void expect_same_bits(const Floats& a, const Floats& b, const char* what) {
    ASSERT_EQ(a.size(), b.size()) << what;
    for (std::size_t i = 0; i < a.size(); ++i)
        ASSERT_EQ(std::bit_cast<std::uint32_t>(a[i]), std::bit_cast<std::uint32_t>(b[i]))
            << what << "[" << i << "]: " << a[i] << " and " << b[i];
}

// run(context) returns all outputs of an op, laid end to end; they must not depend on the number of threads.
inline void expect_thread_invariant(const std::function<Floats(const OpContext&)>& run) {
    const Floats one = run(Runner(1));
    expect_same_bits(one, run(Runner(2)), "two threads");
    expect_same_bits(one, run(Runner(3)), "three threads");
}

inline void append(Floats& all, const Floats& more) {
    all.insert(all.end(), more.begin(), more.end());
}

inline Numbers<double> values_of(const Numbers<Tracked>& in) {
    Numbers<double> out;
    for (const Tracked& number : in) out.push_back(number.value);
    return out;
}

// Compares the gradient of sum(weights * f(x)) with central differences at up to `samples` places of x.
inline void expect_gradient(const std::function<Numbers<double>(const Numbers<double>&)>& f,
                            const Numbers<double>& weights, Numbers<double> x,
                            const Numbers<double>& gradient, const char* what, std::size_t samples = 40) {
    ASSERT_EQ(x.size(), gradient.size()) << what;
    const auto total = [&] {
        const Numbers<double> y = f(x);
        double sum = 0;
        for (std::size_t i = 0; i < y.size(); ++i) sum += weights[i] * y[i];
        return sum;
    };
    double largest = 1e-3;
    for (double value : gradient) largest = std::max(largest, std::abs(value));
    const std::size_t stride = std::max<std::size_t>(1, x.size() / samples) | 1;
    for (std::size_t i = 0; i < x.size(); i += stride) {
        const double kept = x[i], h = 1e-5;
        x[i] = kept + h;
        const double above = total();
        x[i] = kept - h;
        const double below = total();
        x[i] = kept;
        ASSERT_NEAR((above - below) / (2 * h), gradient[i], 1e-6 * largest) << what << "[" << i << "]";
    }
}

}  // namespace escalier::kernels::test
