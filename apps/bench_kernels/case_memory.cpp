#include "case_memory.h"

#include <algorithm>

#include "core/bfloat16.h"

namespace escalier::bench {
namespace {

constexpr std::int64_t period = 1000003;  // a prime: rows of large tensors differ all the same

std::uint32_t mixed(std::uint64_t tensor, std::int64_t element) {
    std::uint64_t z = (tensor << 40) + static_cast<std::uint64_t>(element) * 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return static_cast<std::uint32_t>(z >> 40);
}

float number(std::uint64_t tensor, std::int64_t element, Contents contents) {
    const int step = static_cast<int>(mixed(tensor, element) & 0xFF);
    if (contents == Contents::positive_numbers) return static_cast<float>(step + 1) / 256.0f;
    return static_cast<float>(step - 128) / 256.0f;
}

}  // namespace

CaseMemory::~CaseMemory() {
    for (const Block& block : blocks_) device_.allocator().free(block.data, block.bytes);
}

TensorView CaseMemory::allocate(DType dtype, Shape shape) {
    const std::size_t bytes = static_cast<std::size_t>(shape.elements()) * size_of(dtype);
    blocks_.push_back({device_.allocator().allocate(bytes, "bench_kernels"), bytes});
    return TensorView(blocks_.back().data, dtype, shape);
}

// Puts the values into the view again and again until it is full.
void CaseMemory::fill(const TensorView& view, const void* values, std::size_t bytes) {
    for (std::size_t begin = 0; begin < view.bytes(); begin += bytes)
        device_.copy_from_host(static_cast<char*>(view.data()) + begin, values,
                               std::min(bytes, view.bytes() - begin));
}

TensorView CaseMemory::take(DType dtype, Shape shape, Contents contents) {
    const TensorView view = allocate(dtype, shape);
    if (contents == Contents::zeros) return view;  // as allocated
    const std::uint64_t tensor = filled_++;
    const std::int64_t count = std::min(shape.elements(), period);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i)
        values[static_cast<std::size_t>(i)] = number(tensor, i, contents);
    if (dtype == DType::bf16) {
        std::vector<BFloat16> narrow;
        narrow.reserve(values.size());
        for (float value : values) narrow.push_back(to_bfloat16(value));
        fill(view, narrow.data(), narrow.size() * sizeof(BFloat16));
    } else {
        ESCALIER_CHECK(dtype == DType::f32, "numbers are bf16 or f32");
        fill(view, values.data(), values.size() * sizeof(float));
    }
    return view;
}

TensorView CaseMemory::take_ids(std::int64_t count, std::int64_t below) {
    const std::uint64_t tensor = filled_++;
    const TensorView view = allocate(DType::i32, {count});
    std::vector<int> ids;
    for (std::int64_t i = 0; i < count; ++i)
        ids.push_back(static_cast<int>(static_cast<std::int64_t>(mixed(tensor, i)) % below));
    fill(view, ids.data(), ids.size() * sizeof(int));
    return view;
}

TensorView CaseMemory::take_number(double value) {
    const TensorView view = allocate(DType::f32, {1});
    const auto narrow = static_cast<float>(value);
    fill(view, &narrow, sizeof narrow);
    return view;
}

TensorView CaseMemory::take_count(std::uint64_t value) {
    const TensorView view = allocate(DType::u64, {1});
    fill(view, &value, sizeof value);
    return view;
}

}  // namespace escalier::bench
