// Which library multiplies matrices on the CPU, and which instructions it chose: speed stands and falls with
// it.
#pragma once

#include <string>

namespace escalier::kernels {

std::string cpu_matrix_library();  // "oneDNN 2.6.3, avx512_core"

}  // namespace escalier::kernels
