// XXH3_128, as the command xxh128sum prints it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace escalier::checkpoint {

class FileHash {
 public:
    FileHash();
    ~FileHash();

    void add(const void* data, std::size_t bytes);
    std::string hex() const;  // 32 digits

 private:
    struct State;
    std::unique_ptr<State> state_;
};

// Of a file as it is on the disk now. Throws IoError (read).
std::string hash_of_file(const std::string& path);

}  // namespace escalier::checkpoint
