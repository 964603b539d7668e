#include "checkpoint/tensor_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/error.h"

namespace escalier::checkpoint {
namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr float infinite = std::numeric_limits<float>::infinity();

// One tensor in memory; knows the largest box that was asked for.
class Memory final : public TensorSource {
 public:
    Memory(std::vector<std::int64_t> shape, std::vector<float> values)
        : tensors_{{"x", {"F32", std::move(shape)}}}, values_(std::move(values)) {}
    // element(place) at every place
    template <class Element>
    Memory(std::vector<std::int64_t> shape, const Element& element) : Memory(shape, std::vector<float>()) {
        std::int64_t elements = 1;
        for (const std::int64_t extent : shape) elements *= extent;
        for (std::int64_t place = 0; place < elements; ++place) values_.push_back(element(place));
    }

    const std::string& path() const override { return path_; }
    const std::map<std::string, TensorInfo>& tensors() const override { return tensors_; }
    void read_box(const std::string& name, const model::Box& box, bool transposed,
                  float* out) const override {
        EXPECT_FALSE(transposed);
        largest = std::max(largest, box.extent.elements());
        const bool matrix = box.extent.rank() == 2;
        const std::int64_t rows = matrix ? box.extent[0] : 1, columns = box.extent[matrix ? 1 : 0];
        const std::int64_t width = tensors_.at(name).shape.back();
        for (std::int64_t row = 0; row < rows; ++row)
            for (std::int64_t column = 0; column < columns; ++column)
                *out++ = values_.at(static_cast<std::size_t>(((matrix ? box.offset[0] : 0) + row) * width +
                                                             box.offset[matrix ? 1 : 0] + column));
    }
    std::vector<float>& values() { return values_; }
    mutable std::int64_t largest = 0;

 private:
    std::string path_ = "memory";
    std::map<std::string, TensorInfo> tensors_;
    std::vector<float> values_;
};

float counting(std::int64_t place) {
    return static_cast<float>(place);
}

TEST(ScanTensor, EveryElementComesOnceInOrderAndInBoundedBlocks) {
    for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{5},
                                                   {700001},
                                                   {1, 1},
                                                   {3, 7},
                                                   {1000, 701},
                                                   {2, 600001},
                                                   {600001, 1},
                                                   {0, 4},
                                                   {0}}) {
        const Memory source(shape, counting);
        std::int64_t next = 0;
        scan_tensor(source, "x", [&](std::int64_t first, std::span<const float> values) {
            EXPECT_EQ(first, next);
            for (const float value : values) ASSERT_EQ(value, counting(next++));
        });
        std::int64_t elements = 1;
        for (const std::int64_t extent : shape) elements *= extent;
        EXPECT_EQ(next, elements);
        EXPECT_LE(source.largest, 1 << 18);
    }
}

TEST(ScanTensor, OtherRanksAreRefusedByName) {
    for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{}, {1, 2, 3}}) {
        const Memory source(shape, counting);
        try {
            scan_tensor(source, "x", [](std::int64_t, std::span<const float>) {});
            ADD_FAILURE() << "accepted";
        } catch (const DataError& error) {
            EXPECT_NE(std::string(error.what()).find("tensor 'x' is F32 ["), std::string::npos)
                << error.what();
        }
    }
}

TEST(RequireFinite, TheFirstFaultIsNamedWithItsPlace) {
    Memory source({1000, 701}, counting);
    EXPECT_NO_THROW(require_finite(source, "x", "tensor"));
    for (const float bad : {not_a_number, infinite, -infinite}) {
        source.values()[701 * 999 + 3] = bad;
        source.values()[701 * 998 + 700] = bad;
        try {
            require_finite(source, "x", "exp_avg of tensor");
            ADD_FAILURE() << "accepted";
        } catch (const DataError& error) {
            const std::string message = error.what();
            EXPECT_NE(message.find("exp_avg of tensor 'x' has "), std::string::npos) << message;
            EXPECT_NE(message.find("at [998, 700]"), std::string::npos) << message;
        }
    }
}

TEST(CompareTensor, EqualTensorsDifferNowhere) {
    const Memory a({1000, 701}, counting), b({1000, 701}, counting);
    const TensorDifference found = compare_tensor(a, b, "x");
    EXPECT_EQ(found.elements, 701000);
    EXPECT_EQ(found.differing, 0);
    EXPECT_EQ(found.largest, 0);
}

TEST(CompareTensor, TheLargestDifferenceIsFoundInAnyBlock) {
    const Memory a({1000, 701}, counting);
    for (const std::int64_t place : {0L, 261999L, 262143L, 262144L, 700999L}) {
        Memory b({1000, 701}, counting);
        b.values()[static_cast<std::size_t>(place)] += 4096;
        b.values()[500] += 1;
        const TensorDifference found = compare_tensor(a, b, "x");
        EXPECT_EQ(found.differing, 2);
        EXPECT_EQ(found.largest, 4096);
        EXPECT_EQ(found.place, place);
        EXPECT_EQ(found.a, counting(place));
        EXPECT_EQ(found.b, counting(place) + 4096);
    }
}

TEST(CompareTensor, TheRelativeDifferenceIsThatOfTheWorstElement) {
    const Memory a({3}, std::vector<float>{100, 1, 0}), b({3}, std::vector<float>{150, 4, 0});
    const TensorDifference found = compare_tensor(a, b, "x");
    EXPECT_EQ(found.largest, 50);
    EXPECT_EQ(found.place, 0);
    EXPECT_DOUBLE_EQ(found.largest_relative, 0.75);
}

TEST(CompareTensor, NumbersThatAreNotFinite) {
    const Memory a({5}, std::vector<float>{not_a_number, infinite, 0.0f, 1, 1});
    const Memory b({5}, std::vector<float>{not_a_number, infinite, -0.0f, not_a_number, -infinite});
    const TensorDifference found = compare_tensor(a, b, "x");
    EXPECT_EQ(found.differing, 2);
    EXPECT_TRUE(std::isinf(found.largest));
    EXPECT_TRUE(std::isinf(found.largest_relative));
    EXPECT_EQ(found.place, 3);
}

TEST(IndexText, IsByRowAndColumn) {
    EXPECT_EQ(index_text({7}, 5), "[5]");
    EXPECT_EQ(index_text({3, 7}, 16), "[2, 2]");
}

}  // namespace
}  // namespace escalier::checkpoint
