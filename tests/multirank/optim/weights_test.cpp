// Saving and loading weights on every grid of the ranks at hand.
#include "checkpoint/weights.h"
#include <gtest/gtest.h>
#include "tests/harness/multirank_env.h"
#include "tests/harness/shared_folder.h"
#include "tests/multirank/optim/grid_model.h"

namespace escalier::multirank {
namespace {

class WeightsOnGrids : public ::testing::TestWithParam<std::string> {
 protected:
    std::string file(const std::string& name) const { return folder_ / (name + ".safetensors"); }
    void save(GridModel& model, const std::string& path) {
        checkpoint::save_weights(path, model.parameters, model.groups, *model.device,
                                 {{checkpoint::model_metadata_key, "a model"}});
        world_.barrier("weights saved");
    }
    // Rank 0 saves the model that `config` describes, whole.
    void save_whole(const config::ModelConfig& config, const std::string& path) {
        const auto alone = world_.split(world_.rank(), 0);
        GridModel whole(config, {1, 1, 1}, *alone);
        if (world_.rank() == 0)
            checkpoint::save_weights(path, whole.parameters, whole.groups, *whole.device,
                                     {{checkpoint::model_metadata_key, "a model"}});
        world_.barrier("whole model saved");
    }
    // A save whose rank 0 fails with no error of the disk: metadata that JSON cannot hold. Whether it threw.
    bool fails_to_save(GridModel& model, const std::string& path) {
        bool failed = false;
        try {
            checkpoint::save_weights(path, model.parameters, model.groups, *model.device, {{"key", "\xff"}});
        } catch (const std::exception&) {
            failed = true;
        }
        world_.barrier("weights not saved");
        return failed;
    }
    // The message of the refusal to load `path`, the same on every rank.
    std::string refusal(const std::string& path, const parallel::Grid& grid) {
        GridModel model(small_model(GetParam()), grid, world_);
        try {
            checkpoint::load_weights(checkpoint::SafetensorsReader(path), model.parameters, model.groups,
                                     *model.device);
        } catch (const DataError& error) {
            return error.what();
        }
        return "accepted";
    }

    comm::Communicator& world_ = test::env().world();
    test::SharedFolder folder_;
};

TEST_P(WeightsOnGrids, TheFileDoesNotDependOnTheGrid) {
    save_whole(small_model(GetParam()), file("whole"));
    const std::string expected = test::TempFolder::bytes_of(file("whole"));
    EXPECT_GT(expected.size(), 100'000u);
    for (const parallel::Grid& grid : grids_of(world_.size())) {
        GridModel model(small_model(GetParam()), grid, world_);
        save(model, file(grid.text()));
        EXPECT_TRUE(test::TempFolder::bytes_of(file(grid.text())) == expected) << grid.text();
    }
}

TEST_P(WeightsOnGrids, ASaveThatFailsLeavesNoRankWaiting) {
    for (const parallel::Grid& grid : grids_of(world_.size())) {
        GridModel model(small_model(GetParam()), grid, world_);
        EXPECT_EQ(fails_to_save(model, file("none")), world_.rank() == 0) << grid.text();
    }
}

TEST_P(WeightsOnGrids, EveryGridLoadsWhatAnySaved) {
    save_whole(small_model(GetParam()), file("whole"));
    for (const parallel::Grid& grid : grids_of(world_.size())) {
        const GridModel expected(small_model(GetParam()), grid, world_);
        GridModel model(small_model(GetParam()), grid, world_, 99);
        checkpoint::load_weights(checkpoint::SafetensorsReader(file("whole")), model.parameters, model.groups,
                                 *model.device);
        for (std::size_t entry = 0; entry < model.parameters.size(); ++entry) {
            const TensorView loaded = model.parameters[entry].weight;
            const float* wanted = expected.parameters[entry].weight.as<float>();
            std::int64_t unlike = 0;
            for (std::int64_t i = 0; i < loaded.elements(); ++i) unlike += loaded.as<float>()[i] != wanted[i];
            EXPECT_EQ(unlike, 0) << grid.text() << " " << model.parameters[entry].name;
        }
    }
}

TEST_P(WeightsOnGrids, HoldsHuggingFaceShapesAndATiedWeightOnce) {
    save_whole(small_model(GetParam()), file("whole"));
    const checkpoint::SafetensorsReader reader(file("whole"));
    EXPECT_EQ(reader.metadata().at(checkpoint::model_metadata_key), "a model");
    if (small_model(GetParam()).arch == config::Arch::gpt2) {
        EXPECT_EQ(reader.tensors().at("transformer.wte.weight").text(), "F32 [161, 32]");
        EXPECT_EQ(reader.tensors().at("transformer.h.3.attn.c_attn.weight").text(), "F32 [32, 96]");
        EXPECT_EQ(reader.tensors().at("transformer.h.0.mlp.c_proj.weight").text(), "F32 [128, 32]");
        EXPECT_EQ(reader.tensors().size(), 4u + 4u * 12u);
    } else {
        const std::string kv_rows = std::to_string(12 * small_model(GetParam()).num_kv_heads);
        EXPECT_EQ(reader.tensors().at("model.embed_tokens.weight").text(), "F32 [161, 32]");
        EXPECT_EQ(reader.tensors().at("lm_head.weight").text(), "F32 [161, 32]");
        EXPECT_EQ(reader.tensors().at("model.layers.3.self_attn.k_proj.weight").text(),
                  "F32 [" + kv_rows + ", 32]");
        EXPECT_EQ(reader.tensors().at("model.layers.0.mlp.down_proj.weight").text(), "F32 [32, 88]");
        EXPECT_EQ(reader.tensors().size(), 3u + 4u * 14u);
    }
}

TEST_P(WeightsOnGrids, RefusesTheWeightsOfAnotherModelOnEveryRank) {
    config::ModelConfig other = small_model(GetParam());
    other.ffn_size *= 2;
    save_whole(other, file("wider"));
    other = small_model(GetParam());
    other.num_layers = 8;
    save_whole(other, file("deeper"));
    other.num_layers = 3;
    save_whole(other, file("shallower"));
    const bool gpt2 = small_model(GetParam()).arch == config::Arch::gpt2;
    for (const parallel::Grid& grid : grids_of(world_.size())) {
        const std::string wider = refusal(file("wider"), grid);
        EXPECT_NE(wider.find(gpt2 ? "'transformer.h.0.mlp.c_fc.bias' is F32 [256] in the file, but [128]"
                                  : "'model.layers.0.mlp.down_proj.weight' is F32 [32, 176] in the file, but "
                                    "[32, 88]"),
                  std::string::npos)
            << wider;
        const std::string deeper = refusal(file("deeper"), grid);
        EXPECT_NE(deeper.find(gpt2 ? "tensor 'transformer.h.4.attn.c_attn.bias'"
                                   : "tensor 'model.layers.4.input_layernorm.weight'"),
                  std::string::npos)
            << deeper;
        EXPECT_NE(deeper.find("has no place in the model"), std::string::npos);
        const std::string shallower = refusal(file("shallower"), grid);
        EXPECT_NE(
            shallower.find(gpt2 ? "'transformer.h.3.attn.c_attn.bias' [96] of the model is missing"
                                : "'model.layers.3.input_layernorm.weight' [32] of the model is missing"),
            std::string::npos)
            << shallower;
    }
}

TEST_P(WeightsOnGrids, AWriteFailureIsThrownOnRankZeroAndHangsNobody) {
    for (const parallel::Grid& grid : grids_of(world_.size())) {
        GridModel model(small_model(GetParam()), grid, world_);
        bool failed = false;
        try {
            save(model, folder_ / "absent/w.safetensors");
        } catch (const IoError& error) {
            failed = error.code() == ExitCode::write_failed;
            world_.barrier("weights saved");
        }
        EXPECT_EQ(failed, world_.rank() == 0) << grid.text();
    }
}

INSTANTIATE_TEST_SUITE_P(Models, WeightsOnGrids,
                         ::testing::Values("gpt2", "llama 1 kv head", "llama 2 kv heads"));

}  // namespace
}  // namespace escalier::multirank
