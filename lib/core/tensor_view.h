// A dense, row-major view of memory that somebody else owns (usually an arena). Extents are 64-bit.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "core/check.h"
#include "core/dtype.h"

namespace escalier {

class Shape {
 public:
    Shape() = default;
    Shape(std::initializer_list<std::int64_t> extents) {
        ESCALIER_CHECK(extents.size() <= max_rank, "too many extents");
        for (std::int64_t extent : extents) extents_[static_cast<std::size_t>(rank_++)] = extent;
    }
    int rank() const { return rank_; }
    std::int64_t operator[](int axis) const { return extents_[static_cast<std::size_t>(axis)]; }
    std::int64_t elements() const {
        std::int64_t product = 1;
        for (int axis = 0; axis < rank_; ++axis) product *= (*this)[axis];
        return product;
    }
    bool operator==(const Shape& other) const {
        if (rank_ != other.rank_) return false;
        for (int axis = 0; axis < rank_; ++axis)
            if ((*this)[axis] != other[axis]) return false;
        return true;
    }
    std::string text() const {  // "[3, 4]"
        std::string out = "[";
        for (int axis = 0; axis < rank_; ++axis) out += (axis ? ", " : "") + std::to_string((*this)[axis]);
        return out + "]";
    }

 private:
    static constexpr std::size_t max_rank = 4;
    std::array<std::int64_t, max_rank> extents_{};
    int rank_ = 0;
};

class TensorView {
 public:
    TensorView() = default;
    TensorView(void* data, DType dtype, Shape shape) : data_(data), dtype_(dtype), shape_(shape) {}

    // False for a view that stands for "not there" (an absent bias) and for every view of a measuring arena.
    bool has_data() const { return data_ != nullptr; }
    void* data() const { return data_; }
    DType dtype() const { return dtype_; }
    const Shape& shape() const { return shape_; }
    std::int64_t extent(int axis) const { return shape_[axis]; }
    std::int64_t elements() const { return shape_.rank() ? shape_.elements() : 0; }
    std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype_); }

    template <class T>
    T* as() const {
        ESCALIER_CHECK(dtype_of<T>() == dtype_, "view holds another element type");
        return static_cast<T*>(data_);
    }
    // Rows [begin, begin + count) of the first axis.
    TensorView rows(std::int64_t begin, std::int64_t count) const {
        ESCALIER_CHECK(begin >= 0 && count >= 0 && begin + count <= shape_[0], "rows outside the view");
        Shape part = shape_;
        std::int64_t row = shape_[0] ? elements() / shape_[0] : 0;
        TensorView out(*this);
        out.shape_ = part.rank() == 1   ? Shape{count}
                     : part.rank() == 2 ? Shape{count, part[1]}
                     : part.rank() == 3 ? Shape{count, part[1], part[2]}
                                        : Shape{count, part[1], part[2], part[3]};
        if (data_)
            out.data_ = static_cast<char*>(data_) + static_cast<std::size_t>(begin * row) * size_of(dtype_);
        return out;
    }
    // The same memory under another shape of equally many elements.
    TensorView reshaped(Shape shape) const {
        ESCALIER_CHECK(shape.elements() == elements(), "reshape changes the number of elements");
        return TensorView(data_, dtype_, shape);
    }

 private:
    void* data_ = nullptr;
    DType dtype_ = DType::f32;
    Shape shape_;
};

}  // namespace escalier
