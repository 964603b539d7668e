// A checkpoint of one matrix of ones, for tests that look for checkpoints and at their configs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

#include "checkpoint/write_checkpoint.h"
#include "config/dump.h"
#include "config/job_spec.h"
#include "tests/harness/temp_folder.h"

namespace escalier::test {

class Ones : public checkpoint::TensorSource {
 public:
    const std::string& path() const override { return path_; }
    const std::map<std::string, checkpoint::TensorInfo>& tensors() const override { return tensors_; }
    void read_box(const std::string&, const model::Box& box, bool, float* out) const override {
        std::fill_n(out, box.extent.elements(), 1.0f);
    }

 private:
    std::string path_ = "ones";
    std::map<std::string, checkpoint::TensorInfo> tensors_ = {{"wte.weight", {"F32", {3, 2}}}};
};

// runs/job in `dir`
inline config::JobSpec job_of_ones(const std::string& dir) {
    config::JobSpec spec;
    spec.run.dir = dir;
    spec.run.name = "job";
    spec.model.num_layers = 1;
    spec.model.hidden_size = 2;
    spec.model.num_heads = 1;
    spec.model.vocab_size = 3;
    return spec;
}

// RUN/step_NNNNNNNN and `latest`, as a run of that job saves them.
inline void save_ones(const std::string& run_directory, std::int64_t step, const config::JobSpec& spec) {
    std::filesystem::create_directories(run_directory);
    checkpoint::SaveFacts facts;
    facts.run.step = step;
    facts.config_text = config::dump(spec);
    checkpoint::PosixFiles files;
    checkpoint::write_checkpoint(run_directory, Ones(), facts, files);
}

// A folder of its own for runs/job, which is not there yet.
class RunOfOnesTest : public ::testing::Test {
 protected:
    void SetUp() override {
        spec_ = job_of_ones(folder_ + "/runs");
        run_ = folder_ + "/runs/job";
    }
    void save(const std::string& run_directory, std::int64_t step) { save_ones(run_directory, step, spec_); }

    const TempFolder temporary_;
    const std::string folder_ = temporary_.path();
    std::string run_;
    config::JobSpec spec_;
};

}  // namespace escalier::test
