#include "check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "case_context.h"
#include "core/bfloat16.h"

namespace escalier::bench {
namespace {

// Rounding errors of fp32 sums of some thousand terms, and of operands and results that are kept in bf16.
constexpr double fp32_tolerance = 2e-5, bf16_tolerance = 5e-3;

std::vector<double> values_of(const TensorView& view, device::Device& device) {
    std::vector<char> raw(view.bytes());
    device.copy_to_host(raw.data(), view.data(), raw.size());
    std::vector<double> out(static_cast<std::size_t>(view.elements()));
    for (std::size_t i = 0; i < out.size(); ++i) {
        if (view.dtype() == DType::f32)
            out[i] = reinterpret_cast<const float*>(raw.data())[i];
        else if (view.dtype() == DType::f64)
            out[i] = reinterpret_cast<const double*>(raw.data())[i];
        else
            out[i] = to_float(reinterpret_cast<const BFloat16*>(raw.data())[i]);
    }
    return out;
}

// |a - b| / |b|; infinite where a holds anything that is not a finite number.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
    double apart = 0, length = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (!std::isfinite(a[i])) return INFINITY;
        apart += (a[i] - b[i]) * (a[i] - b[i]);
        length += b[i] * b[i];
    }
    return std::sqrt(length > 0 ? apart / length : apart);
}

}  // namespace

int check_kernels(const CaseSettings& settings, train::Backend& backend, ComputePool& pool,
                  const std::string& only) {
    CaseSettings twin_settings = settings;
    twin_settings.storage = DType::f32;
    const std::unique_ptr<device::Device> host = device::make_cpu_device();
    const CaseContext own(*backend.device, pool,
                          backend.scratch_bytes(work_extent(settings), pool.threads()));
    const CaseContext twins_own(*host, pool,
                                kernels::cpu_scratch_bytes_per_thread(work_extent(twin_settings)) *
                                    static_cast<std::size_t>(pool.threads()));
    const std::vector<KernelCase> cases = kernel_cases(settings, backend.ops, *backend.device);
    const std::vector<KernelCase> twins = kernel_cases(twin_settings, kernels::cpu_ops(), *host);
    const double tolerance = settings.storage == DType::bf16 ? bf16_tolerance : fp32_tolerance;
    int bad = 0;
    for (const KernelCase& item : cases) {
        item.run(own.context());
        const auto twin = std::find_if(twins.begin(), twins.end(),
                                       [&](const KernelCase& other) { return other.name == item.name; });
        if (twin == twins.end()) continue;  // the CPU needs no prepared weights: forward shows what they hold
        twin->run(twins_own.context());
        if (item.name.find(only) == std::string::npos) continue;
        double apart = 0;
        for (std::size_t i = 0; i < item.outputs.size() && i < twin->outputs.size(); ++i)
            apart = std::max(apart, distance(values_of(item.outputs[i], *backend.device),
                                             values_of(twin->outputs[i], *host)));
        const bool good = apart <= tolerance;
        std::printf("%-34s %9.2e  %s\n", item.name.c_str(), apart, good ? "ok" : "FAIL");
        bad += good ? 0 : 1;
    }
    return bad;
}

}  // namespace escalier::bench
