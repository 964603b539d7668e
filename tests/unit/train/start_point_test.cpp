#include "train/start_point.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "tests/unit/train/checkpoint_of_ones.h"

namespace escalier::train {
namespace {

namespace fs = std::filesystem;

class StartPointTest : public test::RunOfOnesTest {
 protected:
    static void write(const std::string& path, const std::string& text) {
        fs::create_directories(fs::path(path).parent_path());
        std::ofstream(path) << text;
    }
    // The folder's config.yaml says whose it is.
    void belongs_to(const std::string& run_directory, const std::string& name) {
        config::JobSpec owner = spec_;
        owner.run.name = name;
        write(run_directory + "/config.yaml", config::dump(owner));
    }
    StartPoint choose(const std::string& resume, const std::vector<Damaged>& damaged = {}) {
        spec_.checkpoint.resume = resume;
        return choose_start(spec_, false, damaged);
    }
    // `--resume auto` beside a checkpoint.resume that names one.
    StartPoint choose_auto_before(const std::string& origin, const std::vector<Damaged>& damaged = {}) {
        spec_.checkpoint.resume = origin;
        return choose_start(spec_, true, damaged);
    }
    template <class Kind>
    std::string refusal(const std::string& resume, const std::vector<Damaged>& damaged = {}) {
        try {
            choose(resume, damaged);
        } catch (const Kind& error) {
            return error.what();
        }
        return "not refused";
    }
    static bool any_note(const StartPoint& start, const std::string& text) {
        return std::any_of(start.notes.begin(), start.notes.end(),
                           [&](const auto& note) { return note.find(text) != std::string::npos; });
    }
};

TEST_F(StartPointTest, NoneBeginsAnewWhateverIsThere) {
    save(run_, 5);
    const StartPoint start = choose("none");
    EXPECT_EQ(start.checkpoint, "");
    EXPECT_EQ(start.run_directory, "");
}

TEST_F(StartPointTest, AutoStartsARunThatIsNotThere) {
    const StartPoint start = choose("auto");
    EXPECT_EQ(start.checkpoint, "");
    EXPECT_EQ(start.run_directory, "");
    EXPECT_TRUE(any_note(start, "there is no run in " + run_));
}

TEST_F(StartPointTest, AutoGoesOnInAFolderThatHasNoCheckpointYet) {
    fs::create_directories(run_);
    const StartPoint start = choose("auto");
    EXPECT_EQ(start.checkpoint, "");
    EXPECT_EQ(start.run_directory, run_);
    EXPECT_TRUE(any_note(start, "has no checkpoint yet"));
}

TEST_F(StartPointTest, AutoTakesTheNewestAndSaysWhy) {
    save(run_, 5);
    save(run_, 10);
    const StartPoint start = choose("auto");
    EXPECT_EQ(start.checkpoint, run_ + "/step_00000010");
    EXPECT_EQ(start.run_directory, run_);
    EXPECT_TRUE(any_note(start, "latest"));
}

TEST_F(StartPointTest, AutoDoesNotBeginAnewWhereEveryCheckpointIsDamaged) {
    save(run_, 5);
    fs::remove(run_ + "/step_00000005/manifest.json");
    const std::string message = refusal<DataError>("auto");
    EXPECT_NE(message.find(run_ + "/step_00000005"), std::string::npos) << message;
}

TEST_F(StartPointTest, ANamedStepIsTakenThoughLaterOnesAreThere) {
    save(run_, 5);
    save(run_, 10);
    for (const std::string& path : {run_ + "/step_00000005", run_ + "/step_00000005/"}) {
        const StartPoint start = choose(path);
        EXPECT_EQ(start.checkpoint, run_ + "/step_00000005");
        EXPECT_EQ(start.run_directory, run_);
        EXPECT_TRUE(any_note(start, "step_00000010 and later ones stay"));
    }
}

TEST_F(StartPointTest, ARunFolderMeansItsNewest) {
    save(run_, 5);
    EXPECT_EQ(choose(run_).checkpoint, run_ + "/step_00000005");
    EXPECT_EQ(choose(run_ + "/").run_directory, run_);
}

TEST_F(StartPointTest, OnlyARunsOwnFolderIsGoneOnIn) {
    save(run_ + "-2", 5);
    EXPECT_EQ(choose(run_ + "-2").run_directory, run_ + "-2");
    belongs_to(run_ + "-2", "job");
    EXPECT_EQ(choose(run_ + "-2").run_directory, run_ + "-2");
    for (const std::string& other : {run_ + "-2b", run_ + "s", folder_ + "/elsewhere/job"}) {
        save(other, 5);
        const StartPoint start = choose(other);
        EXPECT_EQ(start.checkpoint, other + "/step_00000005");
        EXPECT_EQ(start.run_directory, "") << other;
    }
}

TEST_F(StartPointTest, WhoseAFolderIsItsConfigSays) {
    save(run_ + "-124", 5);
    belongs_to(run_ + "-124", "job-124");
    StartPoint start = choose(run_ + "-124");
    EXPECT_EQ(start.checkpoint, run_ + "-124/step_00000005");
    EXPECT_EQ(start.run_directory, "") << "a run of another job is no place to go on in";

    spec_.run.name = "job-2";
    save(run_ + "-2", 5);
    EXPECT_EQ(choose("auto").run_directory, run_ + "-2");
    belongs_to(run_ + "-2", "job");
    const std::string message = refusal<DataError>("auto");
    EXPECT_NE(message.find(run_ + "-2 is the folder of another job, whose run.name is job ("),
              std::string::npos)
        << message;
    write(run_ + "-2/config.yaml", "");  // as a loss of power may leave it
    EXPECT_EQ(choose("auto").run_directory, run_ + "-2");
}

TEST_F(StartPointTest, TheOwnRunGoesBeforeWhatItBeganFrom) {
    const std::string origin = folder_ + "/runs/imported";
    save(origin, 0);
    StartPoint start = choose_auto_before(origin);
    EXPECT_EQ(start.checkpoint, origin + "/step_00000000");
    EXPECT_EQ(start.run_directory, "");
    EXPECT_TRUE(start.own_name);
    EXPECT_TRUE(
        any_note(start, "there is no run in " + run_ + " yet; checkpoint.resume says what it begins"));

    fs::create_directories(run_);
    start = choose_auto_before(origin);
    EXPECT_EQ(start.checkpoint, origin + "/step_00000000");
    EXPECT_EQ(start.run_directory, run_);
    EXPECT_FALSE(start.from_own_folder());

    save(run_, 3);
    start = choose_auto_before(origin);
    EXPECT_EQ(start.checkpoint, run_ + "/step_00000003");
    EXPECT_EQ(start.run_directory, run_);
    EXPECT_TRUE(start.from_own_folder());
    EXPECT_TRUE(any_note(start, origin + ", is what the run began from"));
    EXPECT_EQ(choose(origin).checkpoint, origin + "/step_00000000") << "without --resume auto";

    EXPECT_THROW(choose_auto_before(origin, {{run_ + "/step_00000003", "its hash"}}), DataError)
        << "damage is no reason to begin anew";
}

TEST_F(StartPointTest, AutoWithoutACheckpointTakesWhatTheRunBeganFromAgain) {
    const std::string origin = folder_ + "/runs/imported/step_00000000";
    save(folder_ + "/runs/imported", 0);
    write(run_ + "/run.json", "{\"resumed_from\": \"" + origin + "\"}");
    const StartPoint start = choose("auto");
    EXPECT_EQ(start.checkpoint, origin);
    EXPECT_EQ(start.run_directory, run_);
    EXPECT_FALSE(start.from_own_folder());
    EXPECT_TRUE(any_note(start, "starts from " + origin + " again"));
    EXPECT_EQ(refusal<DataError>("auto", {{origin, "its hash is another"}}), "its hash is another");

    fs::remove_all(origin);
    const std::string gone = refusal<IoError>("auto");
    EXPECT_NE(gone.find(origin + ", which the run began from"), std::string::npos) << gone;
    write(run_ + "/run.json", "");
    EXPECT_NE(refusal<DataError>("auto").find("run.json is damaged"), std::string::npos);
    write(run_ + "/run.json", "{\"resumed_from\": null}");
    EXPECT_EQ(choose("auto").checkpoint, "");
}

TEST_F(StartPointTest, AutoSaysThatALaterStartHasANewerCheckpoint) {
    const auto written = [](const std::string& step, int hours) {
        fs::last_write_time(step + "/manifest.json",
                            fs::file_time_type::clock::now() + std::chrono::hours(hours));
    };
    save(run_, 20);
    save(run_ + "-2", 5);
    written(run_ + "-2/step_00000005", 1);
    EXPECT_TRUE(any_note(choose("auto"), run_ + "-2/step_00000005, of a later start of this job, is newer"));
    EXPECT_EQ(choose("auto").checkpoint, run_ + "/step_00000020");
    belongs_to(run_ + "-2", "job-2");
    EXPECT_FALSE(any_note(choose("auto"), "later start"));
    belongs_to(run_ + "-2", "job");
    written(run_ + "/step_00000020", 2);
    EXPECT_FALSE(any_note(choose("auto"), "later start"));
    fs::remove_all(run_);
    EXPECT_TRUE(any_note(choose("auto"), "later start"));
    fs::create_symlink("job-3", run_ + "-3");  // cannot be listed, and is nobody's business
    EXPECT_TRUE(any_note(choose("auto"), "later start"));
}

TEST_F(StartPointTest, HowToGoOnNamesAFolderThatAutoDoesNotTake) {
    EXPECT_EQ(resume_argument(spec_.run, run_), "--resume auto");
    EXPECT_EQ(resume_argument(spec_.run, run_ + "-2"), "--resume " + run_ + "-2");
}

TEST_F(StartPointTest, AStepOfTheRunItselfIsKnown) {
    save(run_, 5);
    save(folder_ + "/runs/other", 5);
    const auto own = [&](const std::string& resume) {
        spec_.checkpoint.resume = resume;
        return names_own_step(spec_);
    };
    EXPECT_TRUE(own(run_ + "/step_00000005"));
    for (const std::string& other : {run_, folder_ + "/runs/other/step_00000005", std::string("auto")})
        EXPECT_FALSE(own(other)) << other;
}

TEST_F(StartPointTest, ARefusalHoldsWhyEachOneCannotBeUsed) {
    for (std::int64_t step = 1; step <= 5; ++step) save(run_, step);
    fs::remove(run_ + "/step_00000004/manifest.json");
    std::vector<Damaged> damaged;
    for (const int step : {5, 3, 2, 1})
        damaged.push_back(
            {run_ + "/step_0000000" + std::to_string(step), "reason of " + std::to_string(step)});
    const std::string message = refusal<DataError>("auto", damaged);
    for (const std::string& fact : {std::string("reason of 5"), run_ + "/step_00000004/manifest.json",
                                    std::string("reason of 3"), std::string("and 2 older ones")})
        EXPECT_NE(message.find(fact), std::string::npos) << message;
    EXPECT_EQ(refusal<DataError>(run_ + "/step_00000005", damaged), "reason of 5");
}

TEST_F(StartPointTest, WhatIsNotThereIsRefusedWithWhatIs) {
    save(run_, 5);
    save(run_, 10);
    const std::string step = refusal<IoError>(run_ + "/step_00000007");
    EXPECT_NE(step.find("has steps 5, 10"), std::string::npos) << step;
    EXPECT_NE(refusal<IoError>(folder_ + "/rnus").find("there is no folder"), std::string::npos);
    fs::create_directories(folder_ + "/empty");
    const std::string empty = refusal<IoError>(folder_ + "/empty");
    EXPECT_NE(empty.find("there is no checkpoint in " + folder_ + "/empty"), std::string::npos) << empty;
}

}  // namespace
}  // namespace escalier::train
