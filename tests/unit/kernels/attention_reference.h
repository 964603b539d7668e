// Attention and its gradient, written once over the number type, with the roundings that a backend may make.
#pragma once

#include "qkv_size.h"

namespace escalier::kernels::test {

// Element of a query, key or value head in a row of qkv, or of a head of out.
struct AttentionPlace {
    const QkvSize& s;
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

struct NoRounding {
    template <class T>
    T operator()(T x) const {
        return x;
    }
};

// Probabilities of one query row against keys 0 .. t, and the log-sum-exp of its scores.
template <class T>
Numbers<T> attention_probabilities(const QkvSize& s, const Numbers<T>& qkv, std::int64_t b, std::int64_t head,
                                   std::int64_t t, T* lse = nullptr) {
    using std::exp, std::log;
    const AttentionPlace where{s};
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

// round: what happens to probabilities before they meet the values, and to what is stored.
template <class T, class Round = NoRounding>
Numbers<T> attention_reference(const QkvSize& s, const Numbers<T>& qkv, Numbers<T>* lses = nullptr,
                               Round round = {}) {
    const AttentionPlace where{s};
    Numbers<T> out(static_cast<std::size_t>(s.rows() * s.heads * s.head_size));
    for (std::int64_t b = 0; b < s.batch; ++b)
        for (std::int64_t head = 0; head < s.heads; ++head)
            for (std::int64_t t = 0; t < s.sequence; ++t) {
                T lse(0.0);
                const Numbers<T> p = attention_probabilities(s, qkv, b, head, t, &lse);
                if (lses) lses->push_back(lse);
                for (std::int64_t key = 0; key <= t; ++key) {
                    const T weight = round(p[static_cast<std::size_t>(key)]);
                    for (std::int64_t i = 0; i < s.head_size; ++i)
                        out[where.out(b * s.sequence + t, head, i)] +=
                            weight * qkv[where.value(b * s.sequence + key, head, i)];
                }
            }
    for (T& element : out) element = round(element);
    return out;
}

// round as above, and of the gradient of scores before it meets queries and keys. delta = dout . out.
template <class Round = NoRounding>
Numbers<Tracked> attention_gradient(const QkvSize& s, const Numbers<Tracked>& qkv,
                                    const Numbers<Tracked>& dout, Round round = {}) {
    const AttentionPlace where{s};
    const Numbers<Tracked> out = attention_reference<Tracked>(s, qkv, nullptr, round);
    const Tracked scale(1.0 / std::sqrt(static_cast<double>(s.head_size)));
    Numbers<Tracked> dqkv(qkv.size());
    for (std::int64_t b = 0; b < s.batch; ++b)
        for (std::int64_t head = 0; head < s.heads; ++head)
            for (std::int64_t t = 0; t < s.sequence; ++t) {
                const std::int64_t row = b * s.sequence + t, first = b * s.sequence;
                const Numbers<Tracked> p = attention_probabilities(s, qkv, b, head, t);
                Tracked delta;
                for (std::int64_t i = 0; i < s.head_size; ++i)
                    delta += dout[where.out(row, head, i)] * out[where.out(row, head, i)];
                for (std::int64_t key = 0; key <= t; ++key) {
                    const Tracked probability = p[static_cast<std::size_t>(key)], weight = round(probability);
                    Tracked dprobability;
                    for (std::int64_t i = 0; i < s.head_size; ++i) {
                        const Tracked d = dout[where.out(row, head, i)];
                        dprobability += d * qkv[where.value(first + key, head, i)];
                        dqkv[where.value(first + key, head, i)] += weight * d;
                    }
                    const Tracked dscore = round(probability * (dprobability - delta)) * scale;
                    for (std::int64_t i = 0; i < s.head_size; ++i) {
                        const std::size_t q_at = where.query(row, head, i),
                                          k_at = where.key(first + key, head, i);
                        dqkv[q_at] += dscore * qkv[k_at];
                        dqkv[k_at] += dscore * qkv[q_at];
                    }
                }
            }
    for (Tracked& element : dqkv) element = round(element);
    return dqkv;
}

}  // namespace escalier::kernels::test
