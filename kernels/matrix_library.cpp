#include "kernels/matrix_library.h"

#include <dnnl.h>

namespace escalier::kernels {

namespace {

const char* instructions() {
    switch (dnnl_get_effective_cpu_isa()) {
        case dnnl_cpu_isa_sse41:
            return "sse41";
        case dnnl_cpu_isa_avx:
            return "avx";
        case dnnl_cpu_isa_avx2:
            return "avx2";
        case dnnl_cpu_isa_avx512_mic:
        case dnnl_cpu_isa_avx512_mic_4ops:
            return "avx512_mic";
        case dnnl_cpu_isa_avx512_core:
            return "avx512_core";
        case dnnl_cpu_isa_avx512_core_vnni:
            return "avx512_core_vnni";
        case dnnl_cpu_isa_avx512_core_bf16:
            return "avx512_core_bf16";
        case dnnl_cpu_isa_avx512_core_amx:
            return "avx512_core_amx";
        case dnnl_cpu_isa_avx2_vnni:
            return "avx2_vnni";
        default:
            return "unknown instructions";
    }
}

}  // namespace

std::string cpu_matrix_library() {
    const dnnl_version_t* version = dnnl_version();
    return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
           std::to_string(version->patch) + ", " + instructions();
}

}  // namespace escalier::kernels
