#include "checkpoint/saver.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "checkpoint/gather_text.h"
#include "checkpoint/leftovers.h"
#include "checkpoint/piece_file.h"
#include "checkpoint/retention.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/share_values.h"
#include "checkpoint/stall.h"
#include "checkpoint/trash.h"
#include "checkpoint/watched_files.h"
#include "checkpoint/write_share.h"
#include "checkpoint/writer_thread.h"
#include "core/clock.h"

namespace escalier::checkpoint {

namespace {

// How long a rank waits for its writer before it looks after the others again.
constexpr double patience_s = 0.2;

std::string whole(double seconds) {
    return std::to_string(static_cast<std::int64_t>(seconds));
}

std::string files_text(const std::vector<ManifestFile>& files) {
    nlohmann::json list = nlohmann::json::array();
    for (const ManifestFile& file : files) list.push_back({file.name, file.bytes, file.xxh3_128});
    return list.dump();
}

std::vector<ManifestFile> parse_files(const std::string& text) {
    std::vector<ManifestFile> files;
    for (const nlohmann::json& entry : nlohmann::json::parse(text))
        files.push_back({entry[0], entry[1], entry[2]});
    return files;
}

// Adds what passes in a scope.
class Stopwatch {
 public:
    explicit Stopwatch(double& sum) : sum_(sum), start_(now_seconds()) {}
    ~Stopwatch() { sum_ += now_seconds() - start_; }

 private:
    double& sum_;
    double start_;
};

}  // namespace

struct Saver::State {
    enum class Phase { idle, writing, committing };  // the same on all ranks

    config::CheckpointConfig config;
    StateList state;
    device::Device& device;
    ShareValues values;

    // Since open():
    std::string run_directory;
    comm::MpiEnv* env = nullptr;
    std::optional<WatchedFiles> files;
    std::function<void(const std::string&)> on_stall;
    std::vector<std::vector<SharePiece>> shares;  // by rank; on rank 0

    // Of the save under way:
    Phase phase = Phase::idle;
    SaveFacts facts;
    double begun = 0;
    double stalled = 0;
    std::uint64_t bytes = 0;
    std::atomic<bool> cancel = false;
    std::vector<ManifestFile> written;  // by the writer
    std::vector<std::string> warnings;  // by the writer
    Stall stall;
    int stall_level = 0;  // as said of this save; the same on all ranks: see look_at_writers()
    WriterThread writer;  // last: what it uses outlives it

    State(const config::CheckpointConfig& config, StateList list, int dp_rank, int dp, device::Device& device,
          device::Arenas& arenas)
        : config(config),
          state(std::move(list)),
          device(device),
          values(state, share_of(state, dp_rank, dp), config.async && config.every > 0, device, arenas) {}

    bool first_rank() const { return env->world().rank() == 0; }
    std::string label() const { return "the checkpoint of step " + std::to_string(facts.run.step); }
    std::string unfinished() const { return unfinished_directory(run_directory, facts.run.step); }

    void try_to_write(const std::string& probe);
    struct Writers {
        bool busy = false, failed = false;  // any of them
    };
    Writers look_at_writers(double patience);
    void tell_stall(int level, bool own, double seconds);
    void start(std::function<void()> task);
    void start_writing();
    void start_commit();
    void give_up();
    void wait_for_writers();
    std::optional<SavedCheckpoint> poll();
    std::optional<SavedCheckpoint> finish();
    void remove_unfinished();
};

// In a folder that rank 0 made, by every rank: it is there only where all nodes share the run folder.
void Saver::State::try_to_write(const std::string& probe) {
    const std::string rank = std::to_string(env->world().rank());
    try {
        const std::string path = probe + "/rank-" + rank;
        files->create(path);
        files->remove_file(path);
    } catch (const IoError& error) {
        throw IoError::write("rank " + rank + " on " + env->place().host + " cannot write into " +
                             run_directory + ", where each rank writes its part of a checkpoint: " +
                             error.what() + " Set run.dir to a folder that all nodes share and may write.");
    }
}

void Saver::State::start(std::function<void()> task) {
    stall.begin(files->moves(), now_seconds());
    writer.start(std::move(task));
}

void Saver::State::start_writing() {
    cancel = false;
    stall_level = 0;
    warnings.clear();
    phase = Phase::writing;
    values.capture();
    start([this] {
        const auto piece = [this](std::size_t i) {
            return PieceValues{values.values(i), values.transposed(i)};
        };
        written = write_share(*files, unfinished(), env->world().rank(), values.share(), piece, cancel);
    });
}

// What all ranks wrote is durable.
void Saver::State::start_commit() {
    const std::vector<std::string> texts =
        all_gather_text(files_text(written), env->world(), label().c_str());
    phase = Phase::committing;
    std::vector<std::vector<ManifestFile>> by_rank;
    bytes = 0;
    for (const std::string& text : texts) {
        by_rank.push_back(parse_files(text));
        for (const ManifestFile& file : by_rank.back()) bytes += file.bytes;
    }
    if (!first_rank()) return;
    start([this, by_rank] {
        Manifest manifest;
        manifest.run = facts.run;
        fill_manifest(manifest, shares, by_rank);
        const std::optional<std::string> replaced = commit(*files, run_directory, facts, manifest);
        // It is saved. What goes wrong from here on is no failure of the save.
        try {
            if (replaced) warnings = empty_trash(*files, {*replaced});
            for (const std::string& warning : remove_expired(*files, run_directory, facts.run.step, config))
                warnings.push_back(warning);
        } catch (const std::exception& error) {
            warnings.push_back(std::string("older checkpoints were left as they are: ") + error.what());
        }
    });
}

// Collective. Waits up to `patience` for this rank's.
Saver::State::Writers Saver::State::look_at_writers(double patience) {
    const bool idle = writer.idle(patience);
    const double seconds = idle ? 0 : stall.look(files->moves(), now_seconds(), env->timeout_s());
    const int level = seconds >= env->working_timeout_s() ? 2 : seconds >= env->timeout_s() ? 1 : 0;
    int found[3] = {!idle, idle && writer.failure(), level};
    env->world().all_reduce_max(TensorView(found, DType::i32, {3}), label().c_str());
    if (found[2] > stall_level) tell_stall(found[2], level == found[2], seconds);
    return {found[0] != 0, found[1] != 0};
}

// Collective. own: this rank's writer is one of those that hang. A thread in a system call cannot be told to
// stop, so at the second level all ranks end.
void Saver::State::tell_stall(int level, bool own, double seconds) {
    stall_level = level;
    const std::string rank = std::to_string(env->world().rank()) + " (" + env->place().host + ")";
    const std::string mine = "rank " + rank + " has been at " + files->place() + " for " + whole(seconds) +
                             " s without getting on";
    std::string what;
    for (const std::string& text : all_gather_text(own ? mine : "", env->world(), label().c_str()))
        if (what.empty()) what = text.substr(0, text.find_last_not_of(' ') + 1);
    what = label() + ": " + what;
    const std::string limit = whole(env->working_timeout_s()) + " s (ten times run.comm_timeout_s)";
    if (level == 1) {
        if (on_stall) on_stall(what + "; does its disk or file server hang? The run ends after " + limit);
        return;
    }
    if (!first_rank()) std::this_thread::sleep_for(std::chrono::seconds(5));  // rank 0 speaks for all
    env->abort(
        static_cast<int>(ExitCode::write_failed),
        what + ", longer than " + limit +
            ": its disk or file server hangs. Mend that or choose another folder; earlier checkpoints are "
            "untouched.");
}

void Saver::State::wait_for_writers() {
    while (look_at_writers(patience_s).busy) {
    }
}

void Saver::State::remove_unfinished() {
    if (std::filesystem::exists(unfinished())) remove_tree(*files, unfinished());
}

// After a failure on any rank.
void Saver::State::give_up() {
    cancel = true;
    values.stop_waiting();
    wait_for_writers();
    phase = Phase::idle;
    env->agree([&] {
        try {
            if (first_rank()) remove_unfinished();
        } catch (const IoError&) {
            // The failure of the save is the one to tell; the next start removes what is left.
        }
        const std::exception_ptr failure = writer.failure();
        if (!failure) return;
        try {
            std::rethrow_exception(failure);
        } catch (const WriteCancelled&) {
        } catch (const NumericError& error) {
            throw NumericError(label() + ": " + error.what());
        }
    });
    throw InternalError("a save was given up without a failure");
}

std::optional<SavedCheckpoint> Saver::State::poll() {
    if (phase == Phase::idle) return std::nullopt;
    const Writers writers = look_at_writers(0);
    if (writers.failed) give_up();
    if (writers.busy) return std::nullopt;
    if (phase == Phase::writing) {
        start_commit();
        return std::nullopt;
    }
    phase = Phase::idle;
    return SavedCheckpoint{run_directory + "/" + step_directory_name(facts.run.step),
                           facts.run.step,
                           bytes,
                           now_seconds() - begun,
                           stalled,
                           warnings};
}

std::optional<SavedCheckpoint> Saver::State::finish() {
    std::optional<SavedCheckpoint> saved;
    while (phase != Phase::idle) {
        const double until = now_seconds() + patience_s;
        while (!values.copied() && !writer.idle(0.001) && now_seconds() < until) values.serve();
        writer.idle(until - now_seconds());
        saved = poll();
    }
    return saved;
}

Saver::Saver(const config::CheckpointConfig& config, StateList state, int dp_rank, int dp,
             device::Device& device, device::Arenas& arenas)
    : state_(std::make_unique<State>(config, std::move(state), dp_rank, dp, device, arenas)) {}

Saver::~Saver() {
    state_->cancel = true;
    state_->values.stop_waiting();
}

void Saver::open(const std::string& run_directory, comm::MpiEnv& env, FileLayer& files) {
    State& s = *state_;
    s.env = &env;
    s.files.emplace(files);
    comm::Communicator& world = env.world();
    const std::string folder =
        all_gather_text(world.rank() == 0 ? run_directory : "", world, "the name of the run folder")[0];
    s.run_directory = folder.substr(0, folder.find_last_not_of(' ') + 1);
    for (const std::string& text :
         all_gather_text(share_text(s.values.share()), world, "what each rank saves"))
        if (world.rank() == 0) s.shares.push_back(parse_share(text));
    const std::string probe = s.run_directory + "/" + probe_name;
    env.agree([&] {
        if (world.rank() != 0) return;
        remove_leftovers(files, s.run_directory);
        files.make_directory(probe);
    });
    const auto remove_probe = [&] {
        try {
            if (world.rank() == 0) remove_tree(files, probe);
        } catch (const IoError&) {
            // The next start removes it.
        }
    };
    try {
        env.agree([&] { s.try_to_write(probe); });
    } catch (const comm::AgreedError&) {
        remove_probe();
        throw;
    }
    remove_probe();
}

void Saver::on_stall(std::function<void(const std::string&)> tell) {
    state_->on_stall = std::move(tell);
}

std::optional<SavedCheckpoint> Saver::begin(const SaveFacts& facts) {
    State& s = *state_;
    ESCALIER_CHECK(s.env, "a save before open()");
    std::optional<SavedCheckpoint> saved = finish();
    s.begun = now_seconds();
    s.stalled = 0;
    {
        const Stopwatch watch(s.stalled);
        s.facts = facts;
        s.env->agree([&] {
            if (!s.first_rank()) return;
            s.remove_unfinished();
            s.files->make_directory(s.unfinished());
        });
        s.start_writing();
    }
    return s.values.copied() ? saved : finish();
}

bool Saver::under_way() const {
    return state_->phase != State::Phase::idle;
}

std::vector<TaskTime> Saver::writer_times() const {
    return state_->writer.recent();
}

std::optional<SavedCheckpoint> Saver::at_step_end() {
    const Stopwatch watch(state_->stalled);
    return state_->poll();
}

std::optional<SavedCheckpoint> Saver::finish() {
    const double start = now_seconds();
    std::optional<SavedCheckpoint> saved = state_->finish();
    if (saved) saved->stalled_seconds += now_seconds() - start;
    return saved;
}

}  // namespace escalier::checkpoint
