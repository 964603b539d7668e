// Saving on every grid of the ranks at hand, and loading on every other.
#include "checkpoint/saver.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <stdexcept>

#include "checkpoint/reader.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/verify.h"
#include "tests/harness/multirank_env.h"
#include "tests/harness/shared_folder.h"
#include "tests/multirank/checkpoint/saved_model.h"

namespace escalier::multirank {
namespace {

using checkpoint::CheckpointReader;
using checkpoint::SavedCheckpoint;

config::CheckpointConfig saving(bool async) {
    config::CheckpointConfig config;
    config.every = 1;
    config.keep_last = 2;
    config.async = async;
    return config;
}

class SaverOnGrids : public ::testing::TestWithParam<std::string> {
 protected:
    comm::Communicator& world_ = test::env().world();
    test::SharedFolder folder_;
    checkpoint::PosixFiles files_;
    const std::string& run() const { return folder_.path(); }
    std::string step(std::int64_t number) const {
        return run() + "/" + checkpoint::step_directory_name(number);
    }
    bool exists(const std::string& path) {
        world_.barrier("before a look");
        const bool there = std::filesystem::exists(path);
        world_.barrier("after a look");
        return there;
    }
    SavedCheckpoint save(SavedModel& model, std::int64_t step) {
        std::optional<SavedCheckpoint> saved = model.saver->begin(model.facts(step));
        if (model.saver->under_way()) saved = model.saver->finish();
        EXPECT_TRUE(saved && saved->step == step);
        return *saved;
    }
};

TEST_P(SaverOnGrids, EveryGridLoadsWhatAnySaved) {
    for (const parallel::Grid& saved_on : grids_of(world_.size())) {
        {
            SavedModel model(GetParam(), saved_on, 7, saving(true));
            model.saver->open(run(), test::env(), files_);
            const SavedCheckpoint saved = save(model, 5);
            EXPECT_EQ(saved.directory, step(5));
            EXPECT_EQ(checkpoint::newest_checkpoint(run()).directory, step(5));
        }
        const CheckpointReader reader(step(5));
        EXPECT_EQ(reader.config_text(), "version: 1\n");
        checkpoint::verify_files(reader, test::env());
        for (const parallel::Grid& grid : grids_of(world_.size())) {
            const SavedModel expected(GetParam(), grid, 7, saving(false));
            SavedModel model(GetParam(), grid, 99, saving(false));
            checkpoint::load_state(reader, model.state, *model.model.device);
            EXPECT_EQ(reader.manifest().run.consumed_samples, 40);
            const auto wanted = expected.values(), loaded = model.values();
            for (std::size_t i = 0; i < wanted.size(); ++i)
                EXPECT_TRUE(loaded[i] == wanted[i])
                    << saved_on.text() << " to " << grid.text() << ": " << model.state[i].name << " "
                    << checkpoint::state_kind_name(model.state[i].kind);
        }
    }
}

TEST_P(SaverOnGrids, TheStateMayChangeAsSoonAsTheSaveHasBegun) {
    for (const bool async : {true, false})
        for (const parallel::Grid& grid : grids_of(world_.size())) {
            SavedModel model(GetParam(), grid, 7, saving(async));
            EXPECT_EQ(model.arenas->staging.used() > 0, async);
            model.saver->open(run(), test::env(), files_);
            const auto at_save = model.values();
            const auto saved = model.saver->begin(model.facts(3));
            EXPECT_EQ(saved.has_value(), !async);
            EXPECT_EQ(model.saver->under_way(), async);
            model.change(1.0f);
            model.saver->finish();
            const CheckpointReader reader(step(3));
            checkpoint::load_state(reader, model.state, *model.model.device);
            EXPECT_TRUE(model.values() == at_save) << grid.text();
            world_.barrier("checkpoint read");
        }
}

TEST_P(SaverOnGrids, ASaveThatIsDueWaitsForTheOneUnderWayAndOldOnesGo) {
    const parallel::Grid grid = grids_of(world_.size()).back();
    SavedModel model(GetParam(), grid, 7, saving(true));
    model.saver->open(run(), test::env(), files_);
    EXPECT_FALSE(model.saver->begin(model.facts(1)));
    for (std::int64_t number = 2; number <= 5; ++number) {
        const auto saved = model.saver->begin(model.facts(number));
        ASSERT_TRUE(saved);
        EXPECT_EQ(saved->step, number - 1);
        EXPECT_TRUE(saved->warnings.empty());
    }
    EXPECT_EQ(model.saver->finish()->step, 5);
    EXPECT_FALSE(model.saver->under_way());
    EXPECT_FALSE(model.saver->at_step_end());
    EXPECT_FALSE(exists(step(3)));
    EXPECT_TRUE(exists(step(4)));
    EXPECT_EQ(checkpoint::newest_checkpoint(run()).directory, step(5));
}

TEST_P(SaverOnGrids, NothingWithNanOrInfinityIsSaved) {
    for (const bool async : {true, false})
        for (const parallel::Grid& grid : grids_of(world_.size())) {
            SavedModel model(GetParam(), grid, 7, saving(async));
            model.saver->open(run(), test::env(), files_);
            save(model, 1);
            // On every rank one of the values that this rank may or may not write.
            for (checkpoint::StateTensor& tensor : model.state)
                if (tensor.kind == checkpoint::StateKind::exp_avg_sq)
                    tensor.view.as<float>()[tensor.view.elements() - 1] = INFINITY;
            try {
                model.saver->begin(model.facts(2));
                model.saver->finish();
                ADD_FAILURE() << "accepted on " << grid.text();
            } catch (const comm::AgreedError& error) {
                EXPECT_EQ(error.code(), ExitCode::failed);
                const std::string message = error.what();
                EXPECT_EQ(message.find("the checkpoint of step 2: "), 0u) << message;
                EXPECT_NE(message.find(".exp_avg_sq"), std::string::npos) << message;
            }
            EXPECT_FALSE(model.saver->under_way());
            EXPECT_FALSE(exists(step(2)));
            EXPECT_FALSE(exists(step(2) + ".tmp"));
            EXPECT_EQ(checkpoint::newest_checkpoint(run()).directory, step(1));
            world_.barrier("folder looked at");
        }
}

// The disk of a node that does not share the run folder: its own folder of that name.
class UnsharedFiles : public checkpoint::PosixFiles {
 public:
    UnsharedFiles(const std::string& shared, const std::string& own) : shared_(shared), own_(own) {
        std::filesystem::create_directories(own);
    }
    std::unique_ptr<checkpoint::OutputFile> create(const std::string& path) override {
        return PosixFiles::create(here(path));
    }
    void remove_file(const std::string& path) override { PosixFiles::remove_file(here(path)); }

 private:
    std::string here(const std::string& path) const { return own_ + path.substr(shared_.size()); }

    std::string shared_, own_;
};

TEST_P(SaverOnGrids, AFolderThatIsNotSharedIsRefusedBeforeTheFirstSave) {
    SavedModel model(GetParam(), grids_of(world_.size()).front(), 7, saving(true));
    const int alone = world_.size() - 1;
    UnsharedFiles unshared(run(), folder_ / ("of_rank_" + std::to_string(world_.rank())));
    checkpoint::FileLayer& files =
        world_.rank() == alone ? unshared : static_cast<checkpoint::FileLayer&>(files_);
    try {
        model.saver->open(run(), test::env(), files);
        ADD_FAILURE() << "accepted";
    } catch (const comm::AgreedError& error) {
        EXPECT_EQ(error.code(), ExitCode::write_failed);
        const std::string message = error.what();
        EXPECT_EQ(message.find("rank " + std::to_string(alone) + " on " + test::env().place().host +
                               " cannot write into " + run()),
                  0u)
            << message;
        EXPECT_NE(message.find("Set run.dir to a folder that all nodes share"), std::string::npos) << message;
    }
    EXPECT_FALSE(exists(run() + "/.probe.tmp"));
    model.saver->open(run(), test::env(), files_);
    EXPECT_FALSE(exists(run() + "/.probe.tmp"));
}

class FilesWithoutTrash : public checkpoint::PosixFiles {
 public:
    void rename(const std::string& from, const std::string& to) override {
        if (to.find("/.trash-") != std::string::npos) throw std::runtime_error("no trash today");
        PosixFiles::rename(from, to);
    }
};

TEST_P(SaverOnGrids, WhatGoesWrongBehindTheCommitIsAWarning) {
    SavedModel model(GetParam(), grids_of(world_.size()).front(), 7, saving(true));
    FilesWithoutTrash files;
    model.saver->open(run(), test::env(), files);
    for (std::int64_t number = 1; number <= 3; ++number) {
        const SavedCheckpoint saved = save(model, number);
        const bool warned = number == 3 && world_.rank() == 0;  // two are kept
        ASSERT_EQ(saved.warnings.size(), warned ? 1u : 0u);
        if (warned) EXPECT_NE(saved.warnings[0].find("no trash today"), std::string::npos);
    }
    EXPECT_TRUE(exists(step(1)));
}

INSTANTIATE_TEST_SUITE_P(Models, SaverOnGrids,
                         ::testing::Values("gpt2", "llama 1 kv head", "llama 2 kv heads"));

}  // namespace
}  // namespace escalier::multirank
