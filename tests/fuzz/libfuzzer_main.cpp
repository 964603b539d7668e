// One target (ESCALIER_FUZZ_TARGET) as libFuzzer calls it.
#include <cstddef>
#include <cstdint>

#include "targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace escalier::fuzz;
    accepts({"", ESCALIER_FUZZ_TARGET}, {reinterpret_cast<const char*>(data), size});
    return 0;
}
