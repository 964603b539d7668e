// A folder of one test, of its own even where tests run side by side; gone with the object.
#pragma once

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace escalier::test {

class TempFolder {
 public:
    explicit TempFolder(const std::filesystem::path& parent = std::filesystem::temp_directory_path())
        : path_((parent / "escalier_test_XXXXXX").string()) {
        if (!::mkdtemp(path_.data())) throw std::system_error(errno, std::generic_category(), path_);
    }
    ~TempFolder() {
        std::error_code left;  // a destructor throws nothing
        std::filesystem::remove_all(path_, left);
    }
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;

    const std::string& path() const { return path_; }
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }

    // Its path; folders in the name are made.
    std::string write(const std::string& name, const std::string& bytes) const {
        const std::string path = *this / name;
        std::filesystem::create_directories(std::filesystem::path(path).parent_path());
        put(path, bytes);
        return path;
    }

    static std::string bytes_of(const std::string& path) {
        std::ifstream file(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    static void put(const std::string& path, const std::string& bytes) {
        std::ofstream(path, std::ios::binary) << bytes;
    }

 private:
    std::string path_;
};

}  // namespace escalier::test
