// Readers take paths, fuzzers make bytes. A folder in memory where there is one, gone with the object.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace escalier::fuzz {

class ScratchFolder {
 public:
    ScratchFolder();
    ~ScratchFolder();
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;

    // The path of a file with these bytes.
    std::string write(const std::string& name, std::string_view bytes) const;
    const std::filesystem::path& path() const { return path_; }

 private:
    std::filesystem::path path_;
};

}  // namespace escalier::fuzz
