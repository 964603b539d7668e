#include "core/tensor_view.h"

#include <gtest/gtest.h>

namespace escalier {
namespace {

TEST(TensorView, RowsStepByTheRowSize) {
    float memory[12] = {};
    const TensorView view(memory, DType::f32, {3, 4});
    EXPECT_EQ(view.rows(1, 2).as<float>(), memory + 4);
    EXPECT_EQ(view.rows(1, 2).shape(), (Shape{2, 4}));
    EXPECT_THROW(view.rows(2, 2), InternalError);
    EXPECT_THROW(view.as<int>(), InternalError);
    EXPECT_THROW(view.reshaped({5, 2}), InternalError);
}

TEST(TensorView, CountsBeyond32Bits) {
    const TensorView view(nullptr, DType::f32, {1 << 20, 1 << 14});
    EXPECT_EQ(view.elements(), std::int64_t{1} << 34);
    EXPECT_EQ(view.bytes(), std::size_t{1} << 36);
    EXPECT_FALSE(view.has_data());
}

}  // namespace
}  // namespace escalier
