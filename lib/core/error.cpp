#include "core/error.h"

#include <filesystem>

namespace escalier {

Failure failure_of(const std::exception& error) {
    if (const auto* own = dynamic_cast<const Error*>(&error)) return {own->code(), own->what()};
    if (const auto* path = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
        return {ExitCode::input_missing, path->path1().string() + ": " + path->code().message()};
    return {ExitCode::failed, error.what()};
}

}  // namespace escalier
