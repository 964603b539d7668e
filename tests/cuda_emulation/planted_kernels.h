// Kernels that are right, or wrong in one way each: what the emulation must find.
#pragma once

#include <cuda_runtime_api.h>

#include <ostream>
#include <vector>

namespace escalier::test {

struct Plant {
    const char* name;
    // Runs with 64 threads or a few blocks of them; out[64] shows whether the result is right (value i at i).
    void (*launch)(bool planted, float* out, const float* in, cudaStream_t stream);
};

// Wrong numbers, which some order of threads or blocks shows.
const std::vector<Plant>& planted_orders();
// What the thread sanitizer finds, whatever the order.
const std::vector<Plant>& planted_races();
// What a GPU leaves undefined: `message` is part of the report.
struct Misuse {
    const char* name;
    const char* message;
    void (*launch)(float* out, const float* in, cudaStream_t stream);
};
const std::vector<Misuse>& planted_misuses();
// Accesses outside of memory: the address or undefined-behaviour sanitizer's words.
const std::vector<Misuse>& planted_overflows();

inline std::ostream& operator<<(std::ostream& out, const Plant& plant) {
    return out << plant.name;
}
inline std::ostream& operator<<(std::ostream& out, const Misuse& misuse) {
    return out << misuse.name;
}

inline constexpr int planted_threads = 64;

}  // namespace escalier::test
