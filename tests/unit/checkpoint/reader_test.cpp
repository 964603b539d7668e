#include "checkpoint/reader.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/run_folder.h"
#include "core/error.h"
#include "tests/harness/temp_folder.h"
#include "tests/unit/checkpoint/small_checkpoint.h"

namespace escalier::checkpoint {
namespace {

class ReaderTest : public ::testing::Test {
 protected:
    test::TempFolder folder_;
    PosixFiles files_;
    const std::string step_ = write_small_checkpoint(files_, folder_.path(), 7);

    // The message of the DataError.
    template <class Action>
    static std::string damage(Action&& action) {
        try {
            action();
        } catch (const DataError& error) {
            return error.what();
        }
        return "none";
    }
    void read_all() const {
        const CheckpointReader reader(step_);
        std::vector<float> out(24);
        for (const StateKind kind : all_state_kinds) {
            reader.tensors(kind).read_box("m.weight", {{0, 0}, {6, 4}}, false, out.data());
            reader.tensors(kind).read_box("v.bias", {{0}, {5}}, false, out.data());
        }
    }
    void change_manifest(const std::string& pointer, const nlohmann::json& value) const {
        const std::string path = step_ + "/" + manifest_name;
        nlohmann::json root = nlohmann::json::parse(test::TempFolder::bytes_of(path));
        root[nlohmann::json::json_pointer(pointer)] = value;
        root.erase("xxh3_128");  // or its hash of itself would be all that is said
        test::TempFolder::put(path, root.dump());
    }
};

TEST_F(ReaderTest, ReadsEveryBoxEitherWayRound) {
    const CheckpointReader reader(step_);
    EXPECT_EQ(reader.manifest().run.step, 7);
    EXPECT_EQ(reader.config_text(), "version: 1\n");
    EXPECT_EQ(reader.assets_directory(), "");
    int boxes = 0;
    for (const StateKind kind : all_state_kinds) {
        const TensorSource& source = reader.tensors(kind);
        EXPECT_EQ(source.tensors().at("m.weight").text(), "F32 [6, 4]");
        EXPECT_EQ(source.tensors().size(), 2u);
        for (std::int64_t r0 = 0; r0 < 6; ++r0)
            for (std::int64_t r1 = r0 + 1; r1 <= 6; ++r1)
                for (std::int64_t c0 = 0; c0 < 4; ++c0)
                    for (std::int64_t c1 = c0 + 1; c1 <= 4; ++c1, ++boxes) {
                        const std::int64_t rows = r1 - r0, columns = c1 - c0;
                        std::vector<float> straight(static_cast<std::size_t>(rows * columns)),
                            turned = straight;
                        source.read_box("m.weight", {{r0, c0}, {rows, columns}}, false, straight.data());
                        source.read_box("m.weight", {{c0, r0}, {columns, rows}}, true, turned.data());
                        for (std::int64_t i = 0; i < rows; ++i)
                            for (std::int64_t j = 0; j < columns; ++j) {
                                const float wanted = small_value(kind, r0 + i, c0 + j);
                                EXPECT_EQ(straight[static_cast<std::size_t>(i * columns + j)], wanted);
                                EXPECT_EQ(turned[static_cast<std::size_t>(j * rows + i)], wanted);
                            }
                    }
        std::vector<float> part(3);
        source.read_box("v.bias", {{2}, {3}}, false, part.data());
        EXPECT_EQ(part, (std::vector<float>{small_value(kind, 0, 2), small_value(kind, 0, 3),
                                            small_value(kind, 0, 4)}));
    }
    EXPECT_EQ(boxes, 3 * 21 * 10);
}

TEST_F(ReaderTest, AFlippedBitAnywhereShowsInTheHash) {
    const CheckpointReader whole(step_);
    ASSERT_EQ(whole.manifest().files.size(), 5u) << "four of tensors, and the config";
    for (std::size_t file = 0; file < 5; ++file) {
        whole.verify_file(file);
        const std::string path = step_ + "/" + whole.manifest().files[file].name;
        const std::string bytes = test::TempFolder::bytes_of(path);
        for (std::size_t at = 0; at < bytes.size(); ++at) {
            std::string flipped = bytes;
            flipped[at] = static_cast<char>(flipped[at] ^ 1 << at % 8);
            test::TempFolder::put(path, flipped);
            const std::string message = damage([&] { whole.verify_file(file); });
            EXPECT_EQ(message.find(path + ": its hash (XXH3_128) is "), 0u) << message;
        }
        test::TempFolder::put(path, bytes);
        whole.verify_file(file);
    }
}

TEST_F(ReaderTest, FilesThatAreMissingCutOrLongerAreNamed) {
    const Manifest manifest = read_manifest(step_);
    for (const ManifestFile& file : manifest.files) {
        const std::string path = step_ + "/" + file.name;
        const std::string bytes = test::TempFolder::bytes_of(path);
        for (const std::string& other :
             {bytes.substr(0, bytes.size() - 1), bytes.substr(0, 1), std::string(), bytes + "x"}) {
            test::TempFolder::put(path, other);
            const std::string message = damage([&] { CheckpointReader reader(step_); });
            EXPECT_EQ(message.find(path + ": has " + std::to_string(other.size()) + " bytes, but " +
                                   std::to_string(bytes.size()) + " by the manifest"),
                      0u)
                << message;
        }
        std::filesystem::remove(path);
        EXPECT_EQ(damage([&] { CheckpointReader reader(step_); }).find(path + ": is missing"), 0u);
        std::filesystem::create_directory(path);
        EXPECT_NE(damage([&] { CheckpointReader reader(step_); }), "none");
        std::filesystem::remove(path);
        test::TempFolder::put(path, bytes);
    }
    read_all();
}

TEST_F(ReaderTest, WhatIsNoCheckpointIsRefused) {
    EXPECT_THROW(CheckpointReader(folder_ / "absent"), IoError);
    std::filesystem::create_directory(folder_ / "empty");
    EXPECT_NE(
        damage([&] { CheckpointReader reader(folder_ / "empty"); }).find("empty/manifest.json: is not there"),
        std::string::npos);
    std::filesystem::remove(step_ + "/" + config_name);
    EXPECT_NE(damage([&] { CheckpointReader reader(step_); }).find("config.yaml: is missing"),
              std::string::npos);
}

TEST_F(ReaderTest, AFileThatHoldsOtherThanTheManifestSaysIsRefused) {
    change_manifest("/tensors/v.bias/exp_avg/0/key", "v.other");
    EXPECT_NE(damage([&] {
                  read_all();
              }).find("optim-00000.safetensors: 'v.other' is missing; by the manifest it is F32 [5]"),
              std::string::npos);
    change_manifest("/tensors/v.bias/exp_avg/0/key", "m.weight.exp_avg[0:6,0:1]");
    EXPECT_NE(damage([&] { read_all(); }).find("twice"), std::string::npos);
    change_manifest("/tensors/v.bias/exp_avg/0/key", "v.bias.exp_avg");
    read_all();
    // The same bytes, but the header says another type.
    const std::string path = step_ + "/weights-00000.safetensors";
    std::string bytes = test::TempFolder::bytes_of(path);
    bytes.replace(bytes.find("F32"), 3, "I32");
    test::TempFolder::put(path, bytes);
    EXPECT_NE(damage([&] { read_all(); }).find(" is I32 ["), std::string::npos);
    bytes.replace(bytes.find("I32"), 3, "F32");
    bytes[8] = 'x';
    test::TempFolder::put(path, bytes);
    EXPECT_NE(damage([&] { read_all(); }).find("the header is not a JSON object"), std::string::npos);
}

TEST_F(ReaderTest, LoadsIntoAnyBoxesAndRefusesAnotherModel) {
    const CheckpointReader reader(step_);
    const auto device = device::make_cpu_device();
    std::vector<float> matrix(6), vector(5);
    // As the model speaks of the matrix it is [4, 6].
    StateList state = {{"m.weight",
                        StateKind::exp_avg,
                        {4, 6},
                        true,
                        {{1, 2}, {3, 2}},
                        false,
                        TensorView(matrix.data(), DType::f32, {3, 2})},
                       {"v.bias",
                        StateKind::weight,
                        {5},
                        false,
                        {{0}, {5}},
                        true,
                        TensorView(vector.data(), DType::f32, {5})}};
    load_state(reader, state, *device);
    for (std::int64_t i = 0; i < 3; ++i)
        for (std::int64_t j = 0; j < 2; ++j)
            EXPECT_EQ(matrix[static_cast<std::size_t>(i * 2 + j)],
                      small_value(StateKind::exp_avg, 2 + j, 1 + i));
    EXPECT_EQ(vector[4], small_value(StateKind::weight, 0, 4));

    state[0].global_shape = {4, 8};
    EXPECT_NE(damage([&] {
                  load_state(reader, state, *device);
              }).find("tensor 'm.weight' is F32 [6, 4] in the checkpoint, but F32 [8, 4] in the model"),
              std::string::npos);
    state[0].name = "other.weight";
    EXPECT_NE(damage([&] {
                  load_state(reader, state, *device);
              }).find("tensor 'other.weight' F32 [8, 4] of the model is missing"),
              std::string::npos);
}

}  // namespace
}  // namespace escalier::checkpoint
