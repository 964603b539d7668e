// A folder of one test for all ranks; gone when all are done with it.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/harness/multirank_env.h"
#include "tests/harness/temp_folder.h"

namespace escalier::test {

class SharedFolder {
 public:
    // Collective over the world.
    SharedFolder() {
        if (world_.rank() == 0) path_ = own_.emplace(::testing::TempDir()).path();
        std::uint64_t size = path_.size();
        world_.broadcast(TensorView(&size, DType::u64, {1}), 0, "length of a folder's name");
        path_.resize(size);
        world_.broadcast(TensorView(path_.data(), DType::u8, {static_cast<std::int64_t>(size)}), 0,
                         "a folder's name");
    }
    ~SharedFolder() { world_.barrier("folder used"); }

    const std::string& path() const { return path_; }
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
    comm::Communicator& world_ = env().world();
    std::optional<TempFolder> own_;  // rank 0
    std::string path_;
};

}  // namespace escalier::test
