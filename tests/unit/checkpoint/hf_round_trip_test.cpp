// Import of a Hugging Face folder and export of the checkpoint that it became.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpoint/hf_config.h"
#include "checkpoint/hf_export.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/hf_import.h"
#include "checkpoint/model_tensors.h"
#include "checkpoint/reader.h"
#include "checkpoint/run_folder.h"
#include "config/load.h"
#include "tests/harness/stopping_files.h"
#include "tests/harness/temp_folder.h"

namespace escalier::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string golden = GOLDEN_DIR "/hf/";

std::string read(const std::string& path) {
    return test::TempFolder::bytes_of(path);
}

// The bytes of every tensor of a folder's files, under the names that stand there.
std::map<std::string, std::string> raw_tensors(const std::string& folder) {
    std::map<std::string, std::string> tensors;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
        if (entry.path().extension() != ".safetensors") continue;
        const std::string bytes = read(entry.path().string());
        const SafetensorsHeader header = parse_header(bytes, entry.path().string());
        EXPECT_EQ(header.metadata.at("format"), "pt");
        for (const auto& [name, tensor] : header.tensors)
            tensors[name] = tensor.info.text() + " " +
                            bytes.substr(header.data_begin + tensor.begin, tensor.end - tensor.begin);
    }
    return tensors;
}

std::set<std::string> names_in(const std::string& folder) {
    std::set<std::string> names;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
        names.insert(entry.path().filename().string());
    return names;
}

class HfRoundTripTest : public ::testing::Test {
 protected:
    // Imports into RUN = folder_/name.
    HfImportResult import(const std::string& from, const std::string& name) {
        return import_hf(from, folder_ + "/" + name, {{}, "byte", "test"}, files_);
    }
    HfExportResult export_run(const HfImportResult& run, const std::string& name, const std::string& dtype,
                              std::uint64_t max_shard_bytes = 5'000'000'000) {
        const CheckpointReader reader(run.step_directory);
        return export_hf(reader.tensors(StateKind::weight), run.model, run.seq_len, reader.assets_directory(),
                         folder_ + "/" + name, {dtype, max_shard_bytes}, files_);
    }

    PosixFiles files_;
    const test::TempFolder temporary_;
    const std::string folder_ = temporary_.path();
};

TEST_F(HfRoundTripTest, ExportsTheVeryTensorsOfTheImport) {
    for (const auto& [name, dtype] : {std::pair("gpt2", "fp32"),
                                      {"llama", "fp32"},
                                      {"llama3", "bf16"},
                                      {"qwen2", "fp32"},
                                      {"qwen3", "fp16"}}) {
        SCOPED_TRACE(name);
        const HfImportResult run = import(golden + name, name);
        const std::string out = std::string(name) + "_out";
        const HfExportResult result = export_run(run, out, dtype);
        EXPECT_EQ(result.files, 1u);
        EXPECT_EQ(raw_tensors(folder_ + "/" + out), raw_tensors(golden + name));
        EXPECT_EQ(names_in(folder_ + "/" + out),
                  (std::set<std::string>{"config.json", "generation_config.json", "model.safetensors"}));
        EXPECT_EQ(read(folder_ + "/" + out + "/generation_config.json"),
                  read(golden + name + "/generation_config.json"));

        const HfConfig before = parse_hf_config(read(golden + name + "/config.json"), name);
        const HfConfig after = parse_hf_config(read(folder_ + "/" + out + "/config.json"), name);
        EXPECT_EQ(after.model, before.model);
        EXPECT_EQ(after.max_positions, before.max_positions);
        const json written = json::parse(read(folder_ + "/" + out + "/config.json"));
        EXPECT_EQ(written["eos_token_id"], json::parse(read(golden + name + "/config.json"))["eos_token_id"]);
    }
}

TEST_F(HfRoundTripTest, OldNamesBecomeThoseOfTheWholeModel) {
    const HfImportResult run = import(golden + "gpt2_wide", "run");
    export_run(run, "out", "fp32");
    std::map<std::string, std::string> expected;
    for (const auto& [name, bytes] : raw_tensors(golden + "gpt2_wide"))
        if (!name.ends_with(".attn.bias") && !name.ends_with("masked_bias"))
            expected["transformer." + name] = bytes;
    EXPECT_EQ(raw_tensors(folder_ + "/out"), expected);
}

TEST_F(HfRoundTripTest, ShardsAndTheirIndex) {
    const HfImportResult run = import(golden + "llama", "run");
    for (const std::uint64_t most : {std::uint64_t{1}, std::uint64_t{9000}, std::uint64_t{40000}}) {
        const std::string out = folder_ + "/out" + std::to_string(most);
        const HfExportResult result = export_run(run, "out" + std::to_string(most), "fp32", most);
        EXPECT_EQ(raw_tensors(out), raw_tensors(golden + "llama"));
        EXPECT_GT(result.files, 1u);
        const json index = json::parse(read(out + "/model.safetensors.index.json"));
        EXPECT_EQ(index["metadata"]["total_size"], 22368 * 4);
        std::set<std::string> shards;
        for (const auto& [name, file] : index["weight_map"].items()) shards.insert(file.get<std::string>());
        EXPECT_EQ(shards.size(), result.files);
        for (const std::string& shard : shards) {
            std::uint64_t bytes = 0;
            const SafetensorsReader reader(out + "/" + shard);
            for (const auto& [name, info] : reader.tensors()) {
                EXPECT_EQ(index["weight_map"][name], shard);
                std::uint64_t size = 4;
                for (const std::int64_t extent : info.shape) size *= static_cast<std::uint64_t>(extent);
                bytes += size;
            }
            EXPECT_TRUE(bytes <= most || reader.tensors().size() == 1) << shard << " has " << bytes;
        }
        EXPECT_EQ(most == 1 ? result.files : result.tensors, result.tensors);
        const HfFolder again(out, run.model);  // index and shards fit
        EXPECT_EQ(again.tensors().size(), result.tensors);
    }
}

// B68: the table is there once, and an import of it gives the same bits.
TEST_F(HfRoundTripTest, TiedWeightsOnce) {
    const HfImportResult run = import(golden + "gpt2", "run");
    export_run(run, "out", "fp32");
    EXPECT_FALSE(raw_tensors(folder_ + "/out").contains("lm_head.weight"));
    EXPECT_TRUE(json::parse(read(folder_ + "/out/config.json"))["tie_word_embeddings"].get<bool>());
    export_run(import(folder_ + "/out", "again"), "out_again", "fp32");
    EXPECT_EQ(raw_tensors(folder_ + "/out_again"), raw_tensors(folder_ + "/out"));
    EXPECT_EQ(read(folder_ + "/out_again/config.json"), read(folder_ + "/out/config.json"));
}

TEST_F(HfRoundTripTest, TheImportIsACheckpointOfWeightsAlone) {
    fs::copy(golden + "llama3", folder_ + "/hf");
    test::TempFolder::put(folder_ + "/hf/tokenizer.json", "{}");
    test::TempFolder::put(folder_ + "/hf/notes.txt", "not a file of the model");
    const HfImportResult run = import(folder_ + "/hf", "run");
    EXPECT_EQ(run.step_directory, folder_ + "/run/step_00000000");
    EXPECT_EQ(newest_checkpoint(folder_ + "/run").directory, run.step_directory);
    const CheckpointReader reader(run.step_directory);
    EXPECT_EQ(reader.manifest().run.optimizer, "none");
    EXPECT_EQ(reader.manifest().run.step, 0);
    EXPECT_EQ(reader.manifest().run.tool_version, "test");
    EXPECT_EQ(names_in(reader.assets_directory()),
              (std::set<std::string>{"config.json", "generation_config.json", "tokenizer.json"}));

    const config::JobSpec spec = config::load({"config.yaml", reader.config_text()}).spec;
    EXPECT_EQ(spec.model, run.model);
    EXPECT_EQ(spec.train.seq_len, 512);  // the model's own length
    const config::JobSpec job = config::load({"job.yaml", read(folder_ + "/run/model.yaml")}).spec;
    EXPECT_EQ(job.model, run.model);

    export_run(run, "out", "bf16");
    EXPECT_EQ(read(folder_ + "/out/tokenizer.json"), "{}");
}

TEST_F(HfRoundTripTest, WhatIsCarriedAlongIsHashed) {
    fs::copy(golden + "llama3", folder_ + "/hf");
    test::TempFolder::put(folder_ + "/hf/tokenizer.json", "{}");
    const std::string step = import(folder_ + "/hf", "run").step_directory;
    const CheckpointReader reader(step);
    const std::vector<ManifestFile>& files = reader.manifest().files;
    const auto tokenizer = std::find_if(files.begin(), files.end(), [](const ManifestFile& file) {
        return file.name == "hf/tokenizer.json";
    });
    ASSERT_NE(tokenizer, files.end());
    EXPECT_EQ(tokenizer->bytes, 2u);
    const auto index = static_cast<std::size_t>(tokenizer - files.begin());
    EXPECT_NO_THROW(reader.verify_file(index));
    test::TempFolder::put(step + "/hf/tokenizer.json", "[]");
    EXPECT_THROW(reader.verify_file(index), DataError);
    test::TempFolder::put(step + "/hf/tokenizer.json", "{ }");
    EXPECT_THROW(CheckpointReader{step}, DataError) << "another size";
    fs::remove(step + "/hf/tokenizer.json");
    EXPECT_THROW(CheckpointReader{step}, DataError) << "absent";
}

TEST_F(HfRoundTripTest, WhatIsThereIsNotWrittenOver) {
    const HfImportResult run = import(golden + "qwen2", "run");
    EXPECT_THROW(import(golden + "qwen2", "run"), ConfigError);
    fs::create_directories(folder_ + "/taken");
    export_run(run, "taken", "fp32");  // an empty folder is as good as none
    const auto before = names_in(folder_ + "/taken");
    EXPECT_THROW(export_run(run, "taken", "fp32"), ConfigError);
    EXPECT_EQ(names_in(folder_ + "/taken"), before);
    EXPECT_THROW(export_run(run, "run/model.yaml", "fp32"), ConfigError);
}

TEST_F(HfRoundTripTest, PathsAsPeopleWriteThem) {
    const fs::path before = fs::current_path();
    fs::current_path(folder_);
    const HfImportResult run = import_hf(golden + "qwen2/", "run/", {}, files_);
    const CheckpointReader reader(run.step_directory);
    for (const char* out : {"out", "slash/", "deep/er/out", "./here"}) {
        export_hf(reader.tensors(StateKind::weight), run.model, 16, "", out, {}, files_);
        EXPECT_EQ(names_in(out), (std::set<std::string>{"config.json", "model.safetensors"})) << out;
    }
    const config::JobSpec spec = config::load({"config.yaml", reader.config_text()}).spec;
    EXPECT_EQ(spec.run.name, "run");
    EXPECT_EQ(spec.run.dir, ".");
    EXPECT_EQ(names_in("."), (std::set<std::string>{"deep", "here", "out", "run", "slash"}));
    fs::current_path(before);
}

TEST_F(HfRoundTripTest, AFailureLeavesNothing) {
    const HfImportResult run = import(golden + "qwen2", "run");
    const auto before = names_in(folder_);
    // A value that fp16 has no place for.
    class Large : public TensorSource {
     public:
        explicit Large(const TensorSource& source) : source_(source) {}
        const std::string& path() const override { return source_.path(); }
        const std::map<std::string, TensorInfo>& tensors() const override { return source_.tensors(); }
        void read_box(const std::string& name, const model::Box& box, bool transposed,
                      float* out) const override {
            source_.read_box(name, box, transposed, out);
            if (name == "model.norm.weight") out[3] = 70000.0f;
        }

     private:
        const TensorSource& source_;
    };
    const CheckpointReader reader(run.step_directory);
    const Large large(reader.tensors(StateKind::weight));
    try {
        export_hf(large, run.model, 16, "", folder_ + "/out", {"fp16", 1}, files_);
        ADD_FAILURE() << "accepted";
    } catch (const DataError& error) {
        const std::string message = error.what();
        EXPECT_NE(message.find("'model.norm.weight' holds 70000"), std::string::npos) << message;
    }
    EXPECT_EQ(names_in(folder_), before);
    export_hf(large, run.model, 16, "", folder_ + "/out", {"bf16", 1}, files_);

    // Weights of another model.
    config::ModelConfig other = run.model;
    other.num_layers = 3;
    EXPECT_THROW(export_hf(large, other, 16, "", folder_ + "/out2", {}, files_), DataError);
    EXPECT_FALSE(fs::exists(folder_ + "/out2"));
}

// After a failure, or a power cut, at every single operation: the export is there whole, or not at all.
TEST_F(HfRoundTripTest, AnExportIsWholeOrNotThere) {
    const HfImportResult run = import(golden + "llama", "run");
    const CheckpointReader reader(run.step_directory);
    const std::string root = folder_ + "/root", limbo = folder_ + "/limbo", out = root + "/out";
    const auto expect_whole = [&] {
        EXPECT_EQ(raw_tensors(out), raw_tensors(golden + "llama"));
        EXPECT_EQ(HfFolder(out, run.model).tensors().size(), 21u);
        EXPECT_EQ(parse_hf_config(read(out + "/config.json"), out).model, run.model);
        EXPECT_EQ(read(out + "/generation_config.json"), read(golden + "llama/generation_config.json"));
    };
    for (const bool power_cut : {false, true}) {
        int failures = 0, whole = 0;
        for (bool done = false; !done;) {
            for (const std::string& path : {root, limbo}) {
                fs::remove_all(path);
                fs::create_directory(path);
            }
            test::StoppingFiles files(limbo);
            power_cut ? files.stop_after(failures) : files.fail_after(failures);
            try {
                export_hf(reader.tensors(StateKind::weight), run.model, 16, reader.assets_directory(), out,
                          {"fp32", 40000}, files);
                done = true;
            } catch (const IoError& error) {
                EXPECT_EQ(error.code(), ExitCode::write_failed);
                ++failures;
                if (!power_cut) {
                    EXPECT_TRUE(fs::exists(out) || fs::is_empty(root)) << failures;
                }
            }
            if (power_cut) files.lose(test::Loss::both, root);
            if (!fs::exists(out)) continue;
            ++whole;
            expect_whole();
        }
        EXPECT_GT(failures, 30);
        EXPECT_GE(whole, 1);
        EXPECT_LE(whole, 2);  // the last operation makes the name durable
    }
}

TEST_F(HfRoundTripTest, RefusedImportsLeaveNothing) {
    fs::copy(golden + "qwen2", folder_ + "/hf");
    fs::resize_file(folder_ + "/hf/model.safetensors", 4096);
    EXPECT_THROW(import(folder_ + "/hf", "run"), DataError);
    EXPECT_FALSE(fs::exists(folder_ + "/run"));
    EXPECT_THROW(import(folder_ + "/nowhere", "run"), IoError);
    fs::remove(folder_ + "/hf/config.json");
    EXPECT_THROW(import(folder_ + "/hf", "run"), IoError);
}

}  // namespace
}  // namespace escalier::checkpoint
