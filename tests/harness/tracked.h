// A double that carries a bound of the error which the same computation may make in fp32: the running error
// analysis of Higham, "Accuracy and Stability of Numerical Algorithms", section 3.3, with the magnitudes of a
// sum's terms in place of the sum, so that the bound holds for any order of summation.
//
// A reference that is a template over its number type gives, with double, a function to differentiate
// numerically, and with Tracked a value together with its tolerance.
#pragma once

#include <cmath>
#include <vector>

namespace escalier::harness {

struct Tracked {
    double value = 0;
    double error = 0;  // in units of 2^-24, the relative error of one rounding

    Tracked() = default;
    Tracked(double exact) : value(exact) {}  // NOLINT(google-explicit-constructor): numbers mix in formulas
    Tracked(double v, double e) : value(v), error(e) {}

    // Twice the bound, for what first-order analysis leaves out, and a little for subnormal results.
    double tolerance() const { return 2 * 0x1p-24 * error + 1e-37; }
};

inline Tracked operator+(const Tracked& a, const Tracked& b) {
    return {a.value + b.value, a.error + b.error + std::abs(a.value) + std::abs(b.value)};
}
inline Tracked operator-(const Tracked& a) {
    return {-a.value, a.error};
}
inline Tracked operator-(const Tracked& a, const Tracked& b) {
    return a + (-b);
}
inline Tracked operator*(const Tracked& a, const Tracked& b) {
    const double product = a.value * b.value;
    return {product, std::abs(a.value) * b.error + std::abs(b.value) * a.error + std::abs(product)};
}
inline Tracked operator/(const Tracked& a, const Tracked& b) {
    const double quotient = a.value / b.value;
    return {quotient, (a.error + std::abs(quotient) * b.error) / std::abs(b.value) + std::abs(quotient)};
}
inline Tracked& operator+=(Tracked& a, const Tracked& b) {
    return a = a + b;
}
inline Tracked sqrt(const Tracked& a) {
    const double root = std::sqrt(a.value);
    return {root, (root > 0 ? a.error / (2 * root) : std::sqrt(a.error)) + root};
}
// The library functions of the kernels are good to about two units in the last place.
inline Tracked exp(const Tracked& a) {
    const double value = std::exp(a.value);
    return {value, value * (a.error + 4)};
}
inline Tracked log(const Tracked& a) {
    const double value = std::log(a.value);
    return {value, a.error / std::abs(a.value) + 4 * std::abs(value)};
}
inline Tracked tanh(const Tracked& a) {
    const double value = std::tanh(a.value);
    return {value, a.error * (1 - value * value) + 4 * std::abs(value)};
}

inline double value_of(double x) {
    return x;
}
inline double value_of(const Tracked& x) {
    return x.value;
}

template <class T>
using Numbers = std::vector<T>;

template <class T>
Numbers<T> numbers(const std::vector<float>& values) {
    return Numbers<T>(values.begin(), values.end());
}
template <class T>
Numbers<T> numbers(const std::vector<double>& values) {
    return Numbers<T>(values.begin(), values.end());
}

}  // namespace escalier::harness
