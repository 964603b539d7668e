// planted_races             names of the kernels, one a line
// planted_races NAME 0|1    runs one, planted or right; "right" alone runs the kernels of proof_kernels.h
// Built with the thread sanitizer, which reports races and makes the exit code 66.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "cuda_emulation/planted_kernels.h"
#include "cuda_emulation/proof_kernels.h"

namespace {

using namespace escalier::test;

void* device_memory(std::size_t bytes) {
    void* memory = nullptr;
    cudaMalloc(&memory, bytes);
    cudaMemset(memory, 0, bytes);
    return memory;
}

void run_right_kernels() {
    const int m = 32, n = 16, k = 48;
    auto* x = static_cast<float*>(device_memory(sizeof(float) * m * k));
    auto* a = static_cast<__nv_bfloat16*>(device_memory(sizeof(__nv_bfloat16) * m * k));
    auto* b = static_cast<__nv_bfloat16*>(device_memory(sizeof(__nv_bfloat16) * k * n));
    auto* out = static_cast<float*>(device_memory(sizeof(float) * m * n));
    row_sums(x, out, 4, 200, nullptr);
    multiply_bf16(a, b, out, m, n, k, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        for (const Plant& plant : planted_races()) std::printf("%s\n", plant.name);
        return 0;
    }
    auto* in = static_cast<float*>(device_memory(sizeof(float) * 3 * planted_threads));
    auto* out = static_cast<float*>(device_memory(sizeof(float) * planted_threads));
    if (std::strcmp(argv[1], "right") == 0) run_right_kernels();
    for (const Plant& plant : planted_races())
        if (std::strcmp(plant.name, argv[1]) == 0)
            plant.launch(argc > 2 && argv[2][0] == '1', out, in, nullptr);
    return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
