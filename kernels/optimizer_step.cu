// AdamW reads weight, gradient and both moments and writes all but the gradient, 28 B a parameter, and the
// shadow, 2 B in bf16; SGD reads two and writes one, 12 B. Floor: those at the speed of memory (124 M
// parameters with shadows: 3.73 GB, 868 us at 4.3 TB/s), of which 90 % is expected.
#include "kernels/optimizer_step.h"

#include "kernels/common/adamw_factors.h"
#include "kernels/common/cuda_tensor_list.h"
#include "kernels/common/cuda_twins.h"

namespace escalier::kernels::cuda {
namespace {

constexpr int width = Vector<float>::size;
constexpr int quads_together = 2;                                                    // of a thread
constexpr std::int64_t block_elements = sweep_threads * quads_together * 2 * width;  // two rounds

template <class Shadow>
struct OptimizerList {
    BlockList blocks;
    float *weight[tensors_per_launch], *m[tensors_per_launch], *v[tensors_per_launch];
    const float* gradient[tensors_per_launch];
    Shadow* shadow[tensors_per_launch];  // may be null
    std::int64_t elements[tensors_per_launch];
    bool decay[tensors_per_launch], aligned[tensors_per_launch];
};

template <class Shadow>
__device__ __forceinline__ void store_shadow(Shadow* to, const Vector<float>& values, std::int64_t count,
                                             bool aligned) {
    struct alignas(width * sizeof(Shadow)) Quad {
        Shadow lanes[width];
    };
    Quad quad;
#pragma unroll
    for (int i = 0; i < width; ++i) quad.lanes[i] = from_float<Shadow>(values[i]);
    if (aligned && count >= width) {
        *reinterpret_cast<Quad*>(to) = quad;
        return;
    }
#pragma unroll
    for (int i = 0; i < width; ++i)
        if (i < count) to[i] = quad.lanes[i];
}

// load(slot, at, left), then update(slot, at, left) for the quads of this block's piece of its tensor.
template <class Load, class Update>
__device__ __forceinline__ void for_own_quads(const BlockList& blocks, int tensor, std::int64_t n, Load load,
                                              Update update) {
    const std::int64_t begin = (blockIdx.x - blocks.first_block[tensor]) * block_elements;
    const std::int64_t end = begin + block_elements < n ? begin + block_elements : n;
    constexpr int step = sweep_threads * width;
    for (std::int64_t own = begin + threadIdx.x * width; own < end; own += quads_together * step) {
#pragma unroll
        for (int slot = 0; slot < quads_together; ++slot)
            if (own + slot * step < end) load(slot, own + slot * step, n - own - slot * step);
#pragma unroll
        for (int slot = 0; slot < quads_together; ++slot)
            if (own + slot * step < end) update(slot, own + slot * step, n - own - slot * step);
    }
}

template <class Shadow>
__global__ void __launch_bounds__(sweep_threads)
    adamw_kernel(OptimizerList<Shadow> list, AdamwFactors decayed, float undecayed) {
    const int tensor = list.blocks.tensor();
    const bool aligned = list.aligned[tensor];
    AdamwFactors f = decayed;
    if (!list.decay[tensor]) f.decay = undecayed;
    float *const weight = list.weight[tensor], *const m = list.m[tensor], *const v = list.v[tensor];
    Shadow* const shadow = list.shadow[tensor];
    Vector<float> weights[quads_together], gradients[quads_together], ms[quads_together], vs[quads_together];
    for_own_quads(
        list.blocks, tensor, list.elements[tensor],
        [&](int slot, std::int64_t at, std::int64_t left) {
            weights[slot] = load_up_to_four(weight + at, left, aligned);
            gradients[slot] = load_up_to_four(list.gradient[tensor] + at, left, aligned);
            ms[slot] = load_up_to_four(m + at, left, aligned);
            vs[slot] = load_up_to_four(v + at, left, aligned);
        },
        [&](int slot, std::int64_t at, std::int64_t left) {
#pragma unroll
            for (int i = 0; i < width; ++i) {
                const float g = gradients[slot][i] * f.gradient_scale;
                const float first = f.beta1 * ms[slot][i] + f.one_minus_beta1 * g;
                const float second = f.beta2 * vs[slot][i] + f.one_minus_beta2 * g * g;
                const float denominator = sqrtf(second) * f.rsqrt_correction2 + f.eps;
                weights[slot][i] = weights[slot][i] * f.decay - f.step_size * first / denominator;
                ms[slot][i] = first;
                vs[slot][i] = second;
            }
            store_up_to_four(weight + at, weights[slot], left, aligned);
            store_up_to_four(m + at, ms[slot], left, aligned);
            store_up_to_four(v + at, vs[slot], left, aligned);
            if (shadow) store_shadow(shadow + at, weights[slot], left, aligned);
        });
}

template <class Shadow>
__global__ void __launch_bounds__(sweep_threads) sgd_kernel(OptimizerList<Shadow> list, SgdParameters p) {
    const int tensor = list.blocks.tensor();
    const bool aligned = list.aligned[tensor];
    const float decay = list.decay[tensor] ? p.weight_decay : 0.0f;
    float* const weight = list.weight[tensor];
    Shadow* const shadow = list.shadow[tensor];
    Vector<float> weights[quads_together], gradients[quads_together];
    for_own_quads(
        list.blocks, tensor, list.elements[tensor],
        [&](int slot, std::int64_t at, std::int64_t left) {
            weights[slot] = load_up_to_four(weight + at, left, aligned);
            gradients[slot] = load_up_to_four(list.gradient[tensor] + at, left, aligned);
        },
        [&](int slot, std::int64_t at, std::int64_t left) {
#pragma unroll
            for (int i = 0; i < width; ++i)
                weights[slot][i] -= p.lr * (gradients[slot][i] * p.gradient_scale + decay * weights[slot][i]);
            store_up_to_four(weight + at, weights[slot], left, aligned);
            if (shadow) store_shadow(shadow + at, weights[slot], left, aligned);
        });
}

template <class Shadow>
void add_to(OptimizerList<Shadow>& list, const OptimizerTensor& tensor, bool moments) {
    const int i = list.blocks.count;
    const std::int64_t n = tensor.weight.elements();
    ESCALIER_CHECK(tensor.gradient.elements() == n, "shapes differ");
    ESCALIER_CHECK(!moments || (tensor.first_moment.elements() == n && tensor.second_moment.elements() == n),
                   "shapes differ");
    ESCALIER_CHECK(!tensor.shadow.has_data() || tensor.shadow.elements() == n, "shadow has another length");
    list.weight[i] = tensor.weight.as<float>();
    list.gradient[i] = tensor.gradient.as<float>();
    list.m[i] = moments ? tensor.first_moment.as<float>() : nullptr;
    list.v[i] = moments ? tensor.second_moment.as<float>() : nullptr;
    list.shadow[i] = tensor.shadow.has_data() ? data_as<Shadow>(tensor.shadow) : nullptr;
    list.elements[i] = n;
    list.decay[i] = tensor.decay;
    list.aligned[i] =
        aligned_to(sizeof(Vector<float>), {list.weight[i], list.gradient[i], list.m[i], list.v[i]}) &&
        aligned_to(width * sizeof(Shadow), {list.shadow[i]});
    list.blocks.add(ceil_div(n, block_elements));
}

// run(list) for all tensors, as many to a launch as its parameters hold.
template <class Run>
void for_lists(std::span<const OptimizerTensor> tensors, bool moments, Run run) {
    DType shadows = DType::bf16;
    for (const OptimizerTensor& tensor : tensors)
        if (tensor.shadow.has_data()) shadows = tensor.shadow.dtype();
    dispatch_storage(shadows, [&]<class Shadow>() {
        for (std::size_t first = 0; first < tensors.size(); first += tensors_per_launch) {
            OptimizerList<Shadow> list{};
            const std::size_t count = std::min<std::size_t>(tensors.size() - first, tensors_per_launch);
            for (const OptimizerTensor& tensor : tensors.subspan(first, count)) add_to(list, tensor, moments);
            if (list.blocks.blocks() > 0) run(list);
        }
    });
}

}  // namespace

void adamw_step(const OpContext& context, std::span<const OptimizerTensor> tensors,
                const AdamwParameters& parameters) {
    ESCALIER_CHECK(parameters.step >= 1, "steps count from 1");
    const AdamwFactors factors = adamw_factors(parameters);
    for_lists(tensors, true, [&]<class Shadow>(const OptimizerList<Shadow>& list) {
        static_assert(sizeof(list) + sizeof(factors) + sizeof(float) <= 4096);
        launch(adamw_kernel<Shadow>, list.blocks.blocks(), sweep_threads, 0, context.queue().stream, list,
               factors, 1.0f);
    });
}

void sgd_step(const OpContext& context, std::span<const OptimizerTensor> tensors,
              const SgdParameters& parameters) {
    for_lists(tensors, false, [&]<class Shadow>(const OptimizerList<Shadow>& list) {
        launch(sgd_kernel<Shadow>, list.blocks.blocks(), sweep_threads, 0, context.queue().stream, list,
               parameters);
    });
}

}  // namespace escalier::kernels::cuda
