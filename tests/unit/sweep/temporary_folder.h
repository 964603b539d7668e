// A folder that is gone at the end of a test.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace escalier::sweep::testing {

class TemporaryFolder {
 public:
    TemporaryFolder() : path_((std::filesystem::temp_directory_path() / "escalier_sweep_XXXXXX").string()) {
        if (!mkdtemp(path_.data())) path_.clear();
    }
    ~TemporaryFolder() { std::filesystem::remove_all(path_); }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    const std::string& path() const { return path_; }
    std::string write(const std::string& name, const std::string& text) const {
        const std::string file = path_ + "/" + name;
        std::filesystem::create_directories(std::filesystem::path(file).parent_path());
        std::ofstream(file) << text;
        return file;
    }

 private:
    std::string path_;
};

inline std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace escalier::sweep::testing
