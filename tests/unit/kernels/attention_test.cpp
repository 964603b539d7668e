#include "op_harness.h"

namespace escalier::kernels::test {
namespace {

struct Size {
    std::int64_t batch, sequence, heads, kv_heads, head_size;
    std::int64_t rows() const { return batch * sequence; }
    std::int64_t columns() const { return (heads + 2 * kv_heads) * head_size; }
};
void PrintTo(const Size& s, std::ostream* out) {
    *out << s.batch << " x " << s.sequence << ", " << s.heads << "/" << s.kv_heads << " heads of "
         << s.head_size;
}

// Element of a query, key or value head in a row of qkv.
struct Where {
    const Size& s;
    std::size_t at(std::int64_t row, std::int64_t place, std::int64_t i) const {
        return static_cast<std::size_t>(row * s.columns() + place * s.head_size + i);
    }
    std::size_t query(std::int64_t row, std::int64_t head, std::int64_t i) const { return at(row, head, i); }
    std::size_t key(std::int64_t row, std::int64_t head, std::int64_t i) const {
        return at(row, s.heads + head / (s.heads / s.kv_heads), i);
    }
    std::size_t value(std::int64_t row, std::int64_t head, std::int64_t i) const {
        return at(row, s.heads + s.kv_heads + head / (s.heads / s.kv_heads), i);
    }
    std::size_t out(std::int64_t row, std::int64_t head, std::int64_t i) const {
        return static_cast<std::size_t>((row * s.heads + head) * s.head_size + i);
    }
};

// Probabilities of one query row against keys 0 .. t, and the log-sum-exp of its scores.
template <class T>
Numbers<T> probabilities(const Size& s, const Numbers<T>& qkv, std::int64_t b, std::int64_t head,
                         std::int64_t t, T* lse = nullptr) {
    using std::exp, std::log;
    const Where where{s};
    const T scale(1.0 / std::sqrt(static_cast<double>(s.head_size)));
    Numbers<T> p;
    for (std::int64_t key = 0; key <= t; ++key) {
        T score(0.0);
        for (std::int64_t i = 0; i < s.head_size; ++i)
            score +=
                qkv[where.query(b * s.sequence + t, head, i)] * qkv[where.key(b * s.sequence + key, head, i)];
        p.push_back(score * scale);
    }
    T maximum = p[0], sum(0.0);
    for (const T& score : p)
        if (harness::value_of(score) > harness::value_of(maximum)) maximum = score;
    for (T& score : p) sum += score = exp(score - maximum);
    for (T& score : p) score = score / sum;
    if (lse) *lse = maximum + log(sum);
    return p;
}

template <class T>
Numbers<T> attention_reference(const Size& s, const Numbers<T>& qkv, Numbers<T>* lses = nullptr) {
    const Where where{s};
    Numbers<T> out(static_cast<std::size_t>(s.rows() * s.heads * s.head_size));
    for (std::int64_t b = 0; b < s.batch; ++b)
        for (std::int64_t head = 0; head < s.heads; ++head)
            for (std::int64_t t = 0; t < s.sequence; ++t) {
                T lse(0.0);
                const Numbers<T> p = probabilities(s, qkv, b, head, t, &lse);
                if (lses) lses->push_back(lse);
                for (std::int64_t key = 0; key <= t; ++key)
                    for (std::int64_t i = 0; i < s.head_size; ++i)
                        out[where.out(b * s.sequence + t, head, i)] +=
                            p[static_cast<std::size_t>(key)] *
                            qkv[where.value(b * s.sequence + key, head, i)];
            }
    return out;
}

Numbers<Tracked> attention_gradient(const Size& s, const Numbers<Tracked>& qkv,
                                    const Numbers<Tracked>& dout) {
    const Where where{s};
    const Tracked scale(1.0 / std::sqrt(static_cast<double>(s.head_size)));
    Numbers<Tracked> dqkv(qkv.size());
    for (std::int64_t b = 0; b < s.batch; ++b)
        for (std::int64_t head = 0; head < s.heads; ++head)
            for (std::int64_t t = 0; t < s.sequence; ++t) {
                const std::int64_t row = b * s.sequence + t, first = b * s.sequence;
                const Numbers<Tracked> p = probabilities(s, qkv, b, head, t);
                Numbers<Tracked> dp(p.size());
                Tracked delta;
                for (std::int64_t key = 0; key <= t; ++key) {
                    const auto k = static_cast<std::size_t>(key);
                    for (std::int64_t i = 0; i < s.head_size; ++i) {
                        const Tracked d = dout[where.out(row, head, i)];
                        dp[k] += d * qkv[where.value(first + key, head, i)];
                        dqkv[where.value(first + key, head, i)] += p[k] * d;
                    }
                    delta += p[k] * dp[k];
                }
                for (std::int64_t key = 0; key <= t; ++key) {
                    const auto k = static_cast<std::size_t>(key);
                    const Tracked ds = p[k] * (dp[k] - delta) * scale;
                    for (std::int64_t i = 0; i < s.head_size; ++i) {
                        const std::size_t q_at = where.query(row, head, i),
                                          k_at = where.key(first + key, head, i);
                        dqkv[q_at] += ds * qkv[k_at];
                        dqkv[k_at] += ds * qkv[q_at];
                    }
                }
            }
    return dqkv;
}

class AttentionTest : public testing::TestWithParam<Size> {
 protected:
    const Size s = GetParam();
    const Floats qkv = random_floats(s.rows() * s.columns(), 11);
    const Floats dout = random_floats(s.rows() * s.heads * s.head_size, 12);

    struct Outputs {
        Floats out, lse, dqkv;
    };
    Outputs run(const OpContext& context) const {
        GuardedBuffer<float> qkv_buffer(Shape{s.rows(), s.columns()}, qkv);
        GuardedBuffer<float> dqkv(Shape{s.rows(), s.columns()});
        GuardedBuffer<float> out(Shape{s.rows(), s.heads * s.head_size}),
            lse(Shape{s.batch, s.heads, s.sequence});
        GuardedBuffer<float> dout_buffer(Shape{s.rows(), s.heads * s.head_size}, dout);
        cpu_ops().attention_forward(context, out.view(), lse.view(), qkv_buffer.view(), s.batch, s.sequence,
                                    s.heads, s.kv_heads);
        cpu_ops().attention_backward(context, dqkv.view(), dout_buffer.view(), out.view(), lse.view(),
                                     qkv_buffer.view(), s.batch, s.sequence, s.heads, s.kv_heads);
        return {out.values(), lse.values(), dqkv.values()};
    }
};

TEST_P(AttentionTest, ForwardMatchesReference) {
    Numbers<Tracked> lse;
    const Numbers<Tracked> out = attention_reference(s, numbers<Tracked>(qkv), &lse);
    const Outputs actual = run(Runner());
    expect_near(actual.out, out, "out");
    expect_near(actual.lse, lse, "lse");
}

TEST_P(AttentionTest, BackwardMatchesReference) {
    expect_near(run(Runner()).dqkv, attention_gradient(s, numbers<Tracked>(qkv), numbers<Tracked>(dout)),
                "dqkv");
}

TEST_P(AttentionTest, ReferenceGradientIsTheDerivative) {
    const Numbers<Tracked> gradient = attention_gradient(s, numbers<Tracked>(qkv), numbers<Tracked>(dout));
    expect_gradient([&](const Numbers<double>& in) { return attention_reference(s, in); },
                    numbers<double>(dout), numbers<double>(qkv), values_of(gradient), "dqkv", 12);
}

TEST_P(AttentionTest, DoesNotDependOnThreads) {
    expect_thread_invariant([&](const OpContext& context) {
        const Outputs out = run(context);
        Floats all = out.out;
        append(all, out.lse);
        append(all, out.dqkv);
        return all;
    });
}

INSTANTIATE_TEST_SUITE_P(Sizes, AttentionTest,
                         testing::Values(Size{1, 1, 1, 1, 16}, Size{2, 3, 3, 1, 5}, Size{1, 17, 2, 2, 32},
                                         Size{2, 65, 4, 2, 16}, Size{1, 129, 3, 3, 7}, Size{1, 66, 2, 1, 64},
                                         Size{1, 70, 1, 1, 80}, Size{1, 33, 4, 2, 128}));

TEST(AttentionEdgeTest, LargeScoresStayFinite) {
    GuardedBuffer<float> qkv(Shape{40, 24}, random_floats(40 * 24, 1, 60.0f)), dqkv(Shape{40, 24});
    GuardedBuffer<float> out(Shape{40, 8}), lse(Shape{1, 1, 40}), dout(Shape{40, 8}, Floats(320, 1.0f));
    const Runner runner;
    cpu_ops().attention_forward(runner, out.view(), lse.view(), qkv.view(), 1, 40, 1, 1);
    cpu_ops().attention_backward(runner, dqkv.view(), dout.view(), out.view(), lse.view(), qkv.view(), 1, 40,
                                 1, 1);
    for (const float value : out.values()) EXPECT_TRUE(std::isfinite(value));
    for (const float value : dqkv.values()) EXPECT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace escalier::kernels::test
