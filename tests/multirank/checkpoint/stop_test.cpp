// Saves that are stopped after every single disk operation, or whose disk fails there: what is found then.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <list>
#include <numeric>
#include <optional>

#include "checkpoint/reader.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/saver.h"
#include "tests/harness/multirank_env.h"
#include "tests/harness/shared_folder.h"
#include "tests/harness/stopping_files.h"
#include "tests/multirank/checkpoint/saved_model.h"

namespace escalier::multirank {
namespace {

namespace fs = std::filesystem;
using checkpoint::StateKind;
using test::Loss;
using test::StoppingFiles;

constexpr std::int64_t steps = 4;

config::CheckpointConfig keeping(std::int64_t last) {
    config::CheckpointConfig config;
    config.every = 1;
    config.keep_last = last;
    return config;
}

// A matrix, cut by rows over the ranks, and a vector of the first one, with one moment each.
class TinyState {
 public:
    explicit TinyState(const config::CheckpointConfig& config) {
        const std::int64_t ranks = world_.size(), rank = world_.rank();
        const std::int64_t first = 7 * rank / ranks, rows = 7 * (rank + 1) / ranks - first;
        for (const StateKind kind : checkpoint::all_state_kinds) {
            list_.push_back({"matrix", kind, {7, 3}, true, {{first, 0}, {rows, 3}}, true, view(rows * 3)});
            list_.push_back({"vector", kind, {4}, false, {{0}, {4}}, rank == 0, view(4)});
        }
        device::Arenas measured = device::Arenas::measuring();
        checkpoint::Saver(config, list_, 0, 1, *device_, measured);
        arenas_.emplace(device::Arenas::allocated(measured, device_->allocator(), device_->host_allocator()));
        saver.emplace(config, list_, 0, 1, *device_, *arenas_);
    }

    void set(std::int64_t step) {
        for (std::vector<float>& values : values_)
            std::iota(values.begin(), values.end(), static_cast<float>(100 * step));
    }
    bool holds(std::int64_t step) const {
        TinyState expected(keeping(1));
        expected.set(step);
        return values_ == expected.values_;
    }
    void load(const checkpoint::CheckpointReader& reader) { checkpoint::load_state(reader, list_, *device_); }
    static checkpoint::SaveFacts facts(std::int64_t step) {
        checkpoint::SaveFacts facts;
        facts.run.step = step;
        facts.run.optimizer = "adamw";
        facts.config_text = "version: 1\n";
        return facts;
    }

 private:
    TensorView view(std::int64_t elements) {
        values_.emplace_back(static_cast<std::size_t>(elements));
        return TensorView(values_.back().data(), DType::f32, {elements});
    }

    comm::Communicator& world_ = test::env().world();
    std::unique_ptr<device::Device> device_ = device::make_cpu_device();
    std::list<std::vector<float>> values_;
    checkpoint::StateList list_;
    std::optional<device::Arenas> arenas_;

 public:
    std::optional<checkpoint::Saver> saver;
};

class StoppedSaves : public ::testing::Test {
 protected:
    comm::Communicator& world_ = test::env().world();
    test::SharedFolder folder_;
    const std::string run_ = folder_.path() + "/run";
    const std::string limbo_ = folder_.path() + "/limbo." + std::to_string(world_.rank());

    // Each rank remembers by itself what is durable, so a loss of power takes one rank.
    std::vector<Loss> losses() const {
        if (world_.size() > 1) return {Loss::nothing};
        return {Loss::nothing, Loss::data, Loss::names, Loss::outer_names, Loss::both};
    }
    void start_anew() {
        world_.barrier("the last run looked at");
        if (world_.rank() == 0) fs::remove_all(run_), fs::create_directory(run_);
        fs::remove_all(limbo_);
        fs::create_directory(limbo_);
        world_.barrier("a new run");
    }

    // Saves step after step until the disk stops; the last that was said to be durable, 0 for none.
    std::int64_t save_steps(StoppingFiles& files, std::int64_t keep_last) {
        TinyState state(keeping(keep_last));
        std::int64_t durable = 0;
        try {
            state.saver->open(run_, test::env(), files);
            for (std::int64_t step = 1; step <= steps; ++step) {
                state.set(step);
                state.saver->begin(TinyState::facts(step));
                state.set(-step);
                const auto saved = state.saver->finish();
                EXPECT_TRUE(saved && saved->step == step);
                durable = step;
            }
        } catch (const comm::AgreedError& error) {
            EXPECT_EQ(error.code(), ExitCode::write_failed) << error.what();
        }
        return durable;
    }

    // The step that a resume would go on from, 0 for none; whatever is listed must be whole.
    std::int64_t found() {
        for (const checkpoint::CheckpointEntry& entry : checkpoint::list_checkpoints(run_))
            EXPECT_EQ(entry.fault, "");
        const checkpoint::Choice choice = checkpoint::newest_checkpoint(run_);
        if (choice.directory.empty()) return 0;
        const checkpoint::CheckpointReader reader(choice.directory);
        for (std::size_t file = 0; file < reader.manifest().files.size(); ++file) reader.verify_file(file);
        TinyState state(keeping(1));
        state.load(reader);
        EXPECT_TRUE(state.holds(reader.manifest().run.step));
        return reader.manifest().run.step;
    }

    // The next run's first save works and leaves nothing but whole checkpoints.
    void expect_that_saving_goes_on(std::int64_t keep_last) {
        world_.barrier("what was left looked at");
        StoppingFiles files(limbo_);
        TinyState state(keeping(keep_last));
        state.saver->open(run_, test::env(), files);
        state.set(steps + 1);
        state.saver->begin(TinyState::facts(steps + 1));
        EXPECT_TRUE(state.saver->finish()->warnings.empty());
        EXPECT_EQ(found(), steps + 1);
        std::int64_t checkpoints = 0;
        for (const auto& entry : fs::directory_iterator(run_)) {
            const std::string name = entry.path().filename().string();
            EXPECT_TRUE(name == "latest" || checkpoint::step_of_directory(name)) << name;
            checkpoints += name != "latest";
        }
        EXPECT_LE(checkpoints, keep_last);
    }
};

TEST_F(StoppedSaves, AWholeCheckpointIsThereAfterEveryOperation) {
    const std::int64_t most = world_.size() == 1 ? 3 : 1;  // rank 0 alone removes
    for (std::int64_t keep_last = 1; keep_last <= most; ++keep_last)
        for (const Loss loss : losses()) {
            std::int64_t found_late = 0;
            for (std::int64_t operations = 0;; ++operations) {
                start_anew();
                StoppingFiles files(limbo_);
                files.stop_after(operations);
                const std::int64_t durable = save_steps(files, keep_last);
                world_.barrier("the run stopped");
                files.lose(loss, run_);
                const std::int64_t newest = found();
                EXPECT_GE(newest, durable) << "after " << operations << " operations";
                EXPECT_LE(newest, durable + 1);
                found_late += newest > durable;
                int stopped = files.stopped();
                world_.all_reduce_max(TensorView(&stopped, DType::i32, {1}), "whether all is done");
                if (!stopped) break;
                expect_that_saving_goes_on(keep_last);
            }
            // The name was durable before the save was said to be.
            EXPECT_GT(found_late, 0);
        }
}

// A run that went back to step 1 of 3 saves step 2 once more. Whether that was said to be durable.
class StepSavedAgain : public StoppedSaves, public ::testing::WithParamInterface<bool> {
 protected:
    const bool exchanges_ = GetParam();
    const std::string again_ = run_ + "/" + checkpoint::step_directory_name(2);

    // at_fault: called before the second save of step 2.
    bool save(StoppingFiles& files, const std::function<void()>& at_fault) {
        if (!exchanges_) files.cannot_exchange();
        TinyState state(keeping(3));
        try {
            state.saver->open(run_, test::env(), files);
            for (std::int64_t step = 1; step <= 3; ++step) {
                state.set(step);
                state.saver->begin(TinyState::facts(step));
                state.saver->finish();
            }
            at_fault();
            state.set(20);
            state.saver->begin(TinyState::facts(2));
            return state.saver->finish().has_value();
        } catch (const comm::AgreedError& error) {
            EXPECT_EQ(error.code(), ExitCode::write_failed) << error.what();
            return false;
        }
    }
    void expect_whole(bool durable) {
        world_.barrier("the run stopped");
        const checkpoint::CheckpointReader reader(again_);
        for (std::size_t file = 0; file < reader.manifest().files.size(); ++file) reader.verify_file(file);
        TinyState state(keeping(1));
        state.load(reader);
        EXPECT_TRUE(state.holds(20) || (state.holds(2) && !durable));
        EXPECT_EQ(checkpoint::list_checkpoints(run_).size(), 3u);  // step 3 is of another branch and stays
        const checkpoint::Choice choice = checkpoint::newest_checkpoint(run_);
        EXPECT_TRUE(choice.warnings.empty());
        EXPECT_TRUE(choice.directory == again_ || !durable) << choice.directory;
        world_.barrier("the step looked at");
    }
    void open_the_next_run() {
        StoppingFiles files(limbo_);
        TinyState(keeping(3)).saver->open(run_, test::env(), files);
    }
    bool on_any_rank(bool here) {
        int value = here;
        world_.all_reduce_max(TensorView(&value, DType::i32, {1}), "whether all is done");
        return value != 0;
    }
};

TEST_P(StepSavedAgain, IsThereWheneverTheRunStops) {
    for (const Loss loss : losses())
        for (std::int64_t operations = 0;; ++operations) {
            SCOPED_TRACE("after " + std::to_string(operations) + " operations");
            start_anew();
            StoppingFiles files(limbo_);
            const bool durable = save(files, [&] { files.stop_after(operations); });
            world_.barrier("all have stopped");
            files.lose(loss, run_);
            if (exchanges_) expect_whole(durable);
            open_the_next_run();
            expect_whole(durable);
            if (!on_any_rank(files.stopped())) break;
        }
}

TEST_P(StepSavedAgain, IsThereWhereTheDiskFailsOnce) {
    for (int failing = 0; failing < world_.size(); ++failing)
        for (std::int64_t operations = 0;; ++operations) {
            SCOPED_TRACE("after " + std::to_string(operations) + " operations of rank " +
                         std::to_string(failing));
            start_anew();
            StoppingFiles files(limbo_);
            const bool durable = save(files, [&] {
                if (world_.rank() == failing) files.fail_after(operations);
            });
            expect_whole(durable);
            if (!on_any_rank(files.stopped())) break;
        }
}

INSTANTIATE_TEST_SUITE_P(FileSystems, StepSavedAgain, ::testing::Bool(), [](const auto& info) {
    return std::string(info.param ? "ThatExchangesFolders" : "ThatOnlyRenames");
});

TEST_F(StoppedSaves, ADiskThatFailsOnceCostsOneSave) {
    for (int failing = 0; failing < world_.size(); ++failing)
        for (std::int64_t operations = 0;; ++operations) {
            start_anew();
            StoppingFiles files(limbo_);
            TinyState state(keeping(1));
            state.saver->open(run_, test::env(), files);
            if (world_.rank() == failing) files.fail_after(operations);
            std::int64_t durable = 0, failed = 0;
            for (std::int64_t step = 1; step <= steps; ++step) {
                state.set(step);
                try {
                    state.saver->begin(TinyState::facts(step));
                    const auto saved = state.saver->finish();
                    EXPECT_TRUE(saved && saved->step == step);
                    durable = step;
                    if (!saved->warnings.empty()) ++failed;
                } catch (const comm::AgreedError& error) {
                    ++failed;
                    EXPECT_EQ(error.code(), ExitCode::write_failed);
                    EXPECT_NE(std::string(error.what()).find(run_), std::string::npos) << error.what();
                    EXPECT_FALSE(state.saver->under_way());
                    EXPECT_FALSE(fs::exists(checkpoint::unfinished_directory(run_, step)));
                }
                // Where the very last operation failed, it is there all the same.
                const std::int64_t newest = found();
                EXPECT_GE(newest, durable);
                EXPECT_LE(newest, step);
                world_.barrier("the step looked at");
            }
            EXPECT_EQ(durable, failed && durable < steps ? steps - 1 : steps);
            int stopped = files.stopped();
            world_.all_reduce_max(TensorView(&stopped, DType::i32, {1}), "whether all is done");
            if (!stopped) break;
            EXPECT_LE(failed, 1);
        }
}

}  // namespace
}  // namespace escalier::multirank
