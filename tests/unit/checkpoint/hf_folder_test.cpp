// Folders that transformers wrote (tests/golden/hf), whole and damaged.
#include "checkpoint/hf_folder.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "checkpoint/hf_config.h"
#include "tests/harness/temp_folder.h"

namespace escalier::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string golden = GOLDEN_DIR "/hf/";

std::string read(const std::string& path) {
    return test::TempFolder::bytes_of(path);
}
void write(const std::string& path, const std::string& bytes) {
    test::TempFolder::put(path, bytes);
}
std::string file_of(const json& header, const std::string& data) {
    const std::string text = header.dump();
    const std::uint64_t length = text.size();
    return std::string(reinterpret_cast<const char*>(&length), 8) + text + data;
}

class HfFolderTest : public ::testing::Test {
 protected:
    // A copy of a fixture, to damage it.
    void use(const std::string& name) {
        fs::remove_all(folder_);
        fs::copy(golden + name, folder_);
    }
    config::ModelConfig model() const {
        return parse_hf_config(read(folder_ + "/config.json"), folder_ + "/config.json").model;
    }
    // Changes the header of the single file; `data` goes behind its data.
    void edit_header(const std::function<void(json&)>& edit, const std::string& data = "") {
        const std::string path = folder_ + "/model.safetensors", bytes = read(path);
        std::uint64_t length = 0;
        std::memcpy(&length, bytes.data(), 8);
        json header = json::parse(bytes.substr(8, length));
        edit(header);
        write(path, file_of(header, bytes.substr(8 + length) + data));
    }
    // Adds a tensor that begins where the data ends.
    void add_tensor(const std::string& name, const json& shape, const std::string& data) {
        edit_header(
            [&](json& header) {
                std::uint64_t end = 0;
                for (const auto& [key, entry] : header.items())
                    if (key != "__metadata__")
                        end = std::max(end, entry["data_offsets"][1].get<std::uint64_t>());
                header[name] = {
                    {"dtype", "F32"}, {"shape", shape}, {"data_offsets", {end, end + data.size()}}};
            },
            data);
    }
    std::string table_bytes() const {
        const HfFolder folder(folder_, model());
        std::vector<float> values(97 * 32);
        folder.read_box("transformer.wte.weight", {{0, 0}, {97, 32}}, false, values.data());
        return {reinterpret_cast<const char*>(values.data()), values.size() * 4};
    }
    void expect_refused(std::initializer_list<const char*> words, ExitCode code = ExitCode::data_corrupt) {
        try {
            const HfFolder folder(folder_, model());
            ADD_FAILURE() << "accepted; wanted a message with " << *words.begin();
        } catch (const Error& error) {
            const std::string message = error.what();
            EXPECT_EQ(error.code(), code) << message;
            EXPECT_EQ(message.find(folder_), 0u) << message;
            for (const char* word : words) EXPECT_NE(message.find(word), std::string::npos) << message;
        }
    }

    const test::TempFolder temporary_;
    const std::string folder_ = temporary_ / "model";
};

TEST_F(HfFolderTest, EveryFixtureHasTheTensorsOfItsModel) {
    for (const char* name : {"gpt2", "gpt2_wide", "llama", "llama3", "qwen2", "qwen3"}) {
        use(name);
        const HfFolder folder(folder_, model());
        std::int64_t elements = 0;
        for (const auto& [key, info] : folder.tensors()) {
            std::int64_t count = 1;
            for (std::int64_t extent : info.shape) count *= extent;
            elements += count;
        }
        EXPECT_EQ(elements, json::parse(read(folder_ + "/expected.json"))["parameters"]) << name;
    }
}

TEST_F(HfFolderTest, NamesWithoutPrefixAreThoseOfTheWholeModel) {
    use("gpt2_wide");
    const SafetensorsReader file(folder_ + "/model.safetensors");
    ASSERT_TRUE(file.tensors().contains("h.0.attn.bias"));
    ASSERT_TRUE(file.tensors().contains("h.1.attn.masked_bias"));
    const HfFolder folder(folder_, model());
    EXPECT_FALSE(folder.tensors().contains("transformer.h.0.attn.bias"));
    std::vector<float> ours(32), theirs(32);
    folder.read_box("transformer.h.1.ln_1.weight", {{0}, {32}}, false, ours.data());
    file.read_box("h.1.ln_1.weight", {{0}, {32}}, false, theirs.data());
    EXPECT_EQ(ours, theirs);
    add_tensor("transformer.ln_f.bias", {32}, std::string(128, '\0'));
    expect_refused({"ln_f.bias", "twice"});
}

TEST_F(HfFolderTest, ReadsTheTypesOfWeights) {
    for (const auto& [name, dtype] : {std::pair("llama3", "BF16"), {"qwen3", "F16"}, {"qwen2", "F32"}}) {
        use(name);
        const HfFolder folder(folder_, model());
        for (const auto& [key, info] : folder.tensors()) EXPECT_EQ(info.dtype, dtype) << name << " " << key;
    }
}

TEST_F(HfFolderTest, TiedHead) {
    use("gpt2");
    const std::string table = table_bytes();
    add_tensor("lm_head.weight", {97, 32}, table);
    EXPECT_EQ(table_bytes(), table);  // both, equal
    EXPECT_FALSE(HfFolder(folder_, model()).tensors().contains("lm_head.weight"));

    std::string other = table;
    other[5 * 32 * 4] ^= 1;
    use("gpt2");
    add_tensor("lm_head.weight", {97, 32}, other);
    expect_refused({"transformer.wte.weight", "lm_head.weight", "row 5", "tie_word_embeddings"});

    use("gpt2");
    add_tensor("lm_head.weight", {96, 32}, table.substr(128));
    expect_refused({"transformer.wte.weight", "lm_head.weight", "[96, 32]"});

    // Rows that no model has, in a header of a few hundred bytes: none is ever held.
    use("gpt2");
    edit_header([](json& header) {
        header["other"] = header["transformer.wte.weight"];
        const std::uint64_t begin = header["other"]["data_offsets"][0];
        header["transformer.wte.weight"] = {
            {"dtype", "F32"}, {"shape", {0, std::int64_t{1} << 60}}, {"data_offsets", {begin, begin}}};
        header["lm_head.weight"] = header["transformer.wte.weight"];
    });
    expect_refused({"transformer.wte.weight", "[0, 1152921504606846976]"});

    // The head's name alone.
    use("gpt2");
    edit_header([](json& header) {
        header["lm_head.weight"] = header["transformer.wte.weight"];
        header.erase("transformer.wte.weight");
    });
    EXPECT_EQ(table_bytes(), table);
    json config = json::parse(read(folder_ + "/config.json"));
    config["tie_word_embeddings"] = false;
    write(folder_ + "/config.json", config.dump());
    expect_refused({"transformer.wte.weight", "tie_word_embeddings false"});

    // The table's name alone, for an untied model.
    use("gpt2");
    write(folder_ + "/config.json", config.dump());
    expect_refused({"lm_head.weight", "tie_word_embeddings false"});
    add_tensor("lm_head.weight", {97, 32}, other);
    EXPECT_TRUE(HfFolder(folder_, model()).tensors().contains("lm_head.weight"));
}

TEST_F(HfFolderTest, DamagedFiles) {
    use("gpt2");
    const std::string path = folder_ + "/model.safetensors", whole = read(path);
    write(path, whole.substr(0, whole.size() / 2));
    expect_refused({"model.safetensors", "59988"});  // the size that is there
    write(path, whole.substr(0, 100));
    expect_refused({"model.safetensors", "100 bytes"});
    write(path, std::string(8, '\0'));
    expect_refused({"model.safetensors", "not a JSON object"});
    std::string length = whole;
    length[7] = 0x10;  // 2^60
    write(path, length);
    expect_refused({"model.safetensors", "1152921504606"});
    write(path, "");
    expect_refused({"model.safetensors", "0 bytes"});
    write(path, "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab\nsize 548105171\n");
    expect_refused({"model.safetensors", "Git LFS pointer", "git lfs pull"});

    use("gpt2");
    edit_header([](json& header) {  // the last tensor
        header["transformer.wte.weight"]["data_offsets"] = {1 << 20, (1 << 20) + 12416};
    });
    expect_refused({"model.safetensors", "transformer.wte.weight", "bytes of data"});
    use("gpt2");
    edit_header([](json& header) {
        header["transformer.ln_f.weight"]["data_offsets"] = header["transformer.ln_f.bias"]["data_offsets"];
    });
    expect_refused({"model.safetensors", "transformer.ln_f.", "overlap"});
    use("gpt2");
    edit_header([](json& header) { header["transformer.ln_f.bias"]["dtype"] = "I32"; });
    expect_refused({"transformer.ln_f.bias", "I32 [32]"});
    use("gpt2");
    edit_header([](json& header) { header["transformer.ln_f.bias"]["shape"] = {4, 8}; });
    expect_refused({"transformer.ln_f.bias", "[4, 8]", "[32]"});
    use("gpt2");
    edit_header([](json& header) {
        header["transformer.h.2.ln_1.bias"] = header["transformer.ln_f.bias"];
        header.erase("transformer.ln_f.bias");
    });
    expect_refused({"transformer.ln_f.bias", "missing"});
    use("gpt2");
    add_tensor("transformer.h.2.ln_1.bias", {32}, std::string(128, '\0'));
    expect_refused({"transformer.h.2.ln_1.bias", "no place"});
}

TEST_F(HfFolderTest, IndexAndShards) {
    const auto edit_index = [&](const std::function<void(json&)>& edit) {
        const std::string path = folder_ + "/model.safetensors.index.json";
        json index = json::parse(read(path));
        edit(index);
        write(path, index.dump());
    };
    const std::string second = "model-00002-of-00003.safetensors", norm = "model.norm.weight";
    use("llama");
    fs::remove(folder_ + "/" + second);
    expect_refused({second.c_str(), "missing"}, ExitCode::input_missing);
    use("llama");
    const std::string shard = read(folder_ + "/" + second);
    write(folder_ + "/" + second, shard.substr(0, shard.size() - 4));
    expect_refused({second.c_str(), std::to_string(shard.size() - 4).c_str()});
    use("llama");
    edit_index([&](json& index) { index["weight_map"].erase(norm); });
    expect_refused({norm.c_str(), "not named"});
    use("llama");
    edit_index([&](json& index) { index["weight_map"]["model.extra"] = second; });
    expect_refused({second.c_str(), "model.extra", "missing"});
    use("llama");
    edit_index([&](json& index) { index["weight_map"][norm] = "model-00001-of-00003.safetensors"; });
    expect_refused({"model-00001-of-00003.safetensors", norm.c_str(), "missing"});
    for (const json& name :
         {json("../x.safetensors"), json("/etc/passwd"), json(7), json("x.bin"), json("")}) {
        use("llama");
        edit_index([&](json& index) { index["weight_map"][norm] = name; });
        expect_refused({"model.safetensors.index.json", norm.c_str()});
    }
    use("llama");
    edit_index([](json& index) { index.erase("weight_map"); });
    expect_refused({"index.json", "weight_map"});
    write(folder_ + "/model.safetensors.index.json", R"({"weight_map": {"a": "b", "a": "c"}})");
    expect_refused({"index.json", "names 'a' twice"});
}

TEST_F(HfFolderTest, OtherFilesThanSafetensors) {
    use("gpt2");
    fs::rename(folder_ + "/model.safetensors", folder_ + "/pytorch_model.bin");
    expect_refused({"pytorch_model.bin", "save_pretrained"});
    fs::rename(folder_ + "/pytorch_model.bin", folder_ + "/model.fp16.safetensors");
    expect_refused({"model.fp16.safetensors"}, ExitCode::input_missing);
    fs::remove(folder_ + "/model.fp16.safetensors");
    expect_refused({"model.safetensors"}, ExitCode::input_missing);
}

}  // namespace
}  // namespace escalier::checkpoint
