#include "train/cuda_plugin.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "core/error.h"

namespace escalier::train {

namespace {

constexpr const char* variable = "ESCALIER_CUDA_LIBRARY";
constexpr const char* file_name = "libescalier_cuda.so";
constexpr const char* mend =
    " Build it with scripts/build where the CUDA toolkit is (scripts/setup says what is missing), or set "
    "run.device: cpu.";

std::string find_library() {
    namespace fs = std::filesystem;
    std::error_code error;
    if (const char* named = std::getenv(variable)) {
        if (fs::exists(named, error)) return named;
        throw DeviceError(std::string(variable) + " names " + named + ", which is not there.");
    }
    const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
    for (const fs::path& candidate : {folder / file_name, folder.parent_path() / "lib" / file_name})
        if (fs::exists(candidate, error)) return candidate;
    throw DeviceError("this binary has no CUDA backend beside it: there is no " + std::string(file_name) +
                      " in " + folder.string() + " nor in ../lib beside it." + mend);
}

template <class Function>
Function* symbol(void* library, const char* name, const std::string& path) {
    void* found = dlsym(library, name);
    if (!found) throw DeviceError(path + " is no CUDA backend of Escalier: it lacks " + name + "." + mend);
    return reinterpret_cast<Function*>(found);
}

}  // namespace

CudaPlugin open_cuda_plugin() {
    const std::string path = find_library();
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char* reason = dlerror();
        throw DeviceError("the CUDA backend cannot be opened: " + std::string(reason ? reason : path) + "." +
                          mend);
    }
    const std::string interface = symbol<CudaInterface>(library, "escalier_cuda_interface", path)();
    if (interface != ESCALIER_CUDA_INTERFACE)
        throw DeviceError(path + " belongs to another build: it says \"" + interface +
                          "\", this binary is \"" ESCALIER_CUDA_INTERFACE "\". Build both together.");
    return {symbol<CudaProblem>(library, "escalier_cuda_problem", path),
            symbol<MakeCudaBackend>(library, "escalier_make_cuda_backend", path)};
}

std::string cuda_state() {
    try {
        std::string problem;
        open_cuda_plugin().problem(problem, false);
        return problem.empty() ? cuda_usable : problem;
    } catch (const DeviceError& error) {
        return error.what();
    }
}

bool worth_looking_for_cuda() {
    if (std::getenv(variable)) return true;
    void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver) dlclose(driver);
    return driver != nullptr;
}

}  // namespace escalier::train
