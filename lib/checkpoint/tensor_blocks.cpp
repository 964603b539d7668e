#include "checkpoint/tensor_blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"

namespace escalier::checkpoint {

namespace {

constexpr std::int64_t block_elements = std::int64_t{1} << 18;  // 1 MiB

struct Part {
    model::Box box;
    std::int64_t first;  // place of its first element in the tensor
};

// Cuts a tensor into boxes whose elements follow one another.
std::vector<Part> parts_of(const TensorInfo& info, const std::string& path, const std::string& name) {
    const std::vector<std::int64_t>& shape = info.shape;
    if (shape.empty() || shape.size() > 2)
        throw DataError(path + ": tensor '" + name_text(name) + "' is " + info.text() +
                        "; only vectors and matrices can be read");
    const bool matrix = shape.size() == 2;
    const std::int64_t rows = matrix ? shape[0] : 1, columns = matrix ? shape[1] : shape[0];
    std::vector<Part> parts;
    if (rows == 0 || columns == 0) return parts;
    const std::int64_t width = std::min(columns, block_elements);
    const std::int64_t height = columns > width ? 1 : std::max<std::int64_t>(1, block_elements / columns);
    for (std::int64_t row = 0; row < rows; row += height)
        for (std::int64_t column = 0; column < columns; column += width) {
            const std::int64_t high = std::min(height, rows - row), wide = std::min(width, columns - column);
            parts.push_back({matrix ? model::Box{{row, column}, {high, wide}} : model::Box{{column}, {wide}},
                             row * columns + column});
        }
    return parts;
}

double difference(float a, float b) {
    if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
    const double d = std::abs(static_cast<double>(a) - static_cast<double>(b));
    return std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
}

void note(TensorDifference& found, std::int64_t place, float a, float b) {
    ++found.elements;
    const double d = difference(a, b);
    if (d == 0) return;
    ++found.differing;
    const double scale = std::max(std::abs(static_cast<double>(a)), std::abs(static_cast<double>(b)));
    const double relative = std::isinf(d) ? d : d / scale;
    found.largest_relative = std::max(found.largest_relative, relative);
    if (d <= found.largest) return;
    found.largest = d;
    found.place = place;
    found.a = a;
    found.b = b;
}

}  // namespace

void scan_tensor(const TensorSource& source, const std::string& name,
                 const std::function<void(std::int64_t first, std::span<const float> values)>& look) {
    std::vector<float> values;
    for (const Part& part : parts_of(source.tensors().at(name), source.path(), name)) {
        values.resize(static_cast<std::size_t>(part.box.extent.elements()));
        source.read_box(name, part.box, false, values.data());
        look(part.first, values);
    }
}

std::string index_text(const std::vector<std::int64_t>& shape, std::int64_t place) {
    if (shape.size() != 2) return "[" + std::to_string(place) + "]";
    return "[" + std::to_string(place / shape[1]) + ", " + std::to_string(place % shape[1]) + "]";
}

void require_finite(const TensorSource& source, const std::string& name, const std::string& what) {
    scan_tensor(source, name, [&](std::int64_t first, std::span<const float> values) {
        const auto bad =
            std::find_if_not(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
        if (bad == values.end()) return;
        throw DataError(source.path() + ": " + what + " '" + name_text(name) + "' has " +
                        std::to_string(*bad) + " at " +
                        index_text(source.tensors().at(name).shape, first + (bad - values.begin())));
    });
}

TensorDifference compare_tensor(const TensorSource& a, const TensorSource& b, const std::string& name) {
    TensorDifference found;
    std::vector<float> of_b;
    const std::vector<Part> parts = parts_of(b.tensors().at(name), b.path(), name);
    std::size_t at = 0;
    scan_tensor(a, name, [&](std::int64_t first, std::span<const float> of_a) {
        of_b.resize(of_a.size());
        b.read_box(name, parts[at++].box, false, of_b.data());
        for (std::size_t i = 0; i < of_a.size(); ++i)
            note(found, first + static_cast<std::int64_t>(i), of_a[i], of_b[i]);
    });
    return found;
}

}  // namespace escalier::checkpoint
