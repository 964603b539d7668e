// Saves the state of all ranks as one checkpoint while training goes on.
//
// begin() copies this rank's share into the arena `staging`; a thread of its own writes and syncs the files.
// Once those of all ranks are durable, rank 0's thread writes the manifest and renames: at every instant a
// whole checkpoint is there, as soon as there was one. Without staging (checkpoint.async: false) begin()
// returns once the files are written, straight from the state.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/commit.h"
#include "checkpoint/file_layer.h"
#include "checkpoint/state.h"
#include "checkpoint/writer_thread.h"
#include "comm/mpi_env.h"
#include "config/job_spec.h"
#include "device/arena.h"
#include "device/device.h"

namespace escalier::checkpoint {

struct SavedCheckpoint {
    std::string directory;
    std::int64_t step = 0;
    std::uint64_t bytes = 0;            // of all files of tensors
    double seconds = 0;                 // from begin() until it was durable
    double stalled_seconds = 0;         // of those, that the step loop of this rank stood still
    std::vector<std::string> warnings;  // on rank 0: old ones that could not be removed
};

class Saver {
 public:
    // Takes staging memory for this rank's share if saves are to run beside the steps (config.async, and
    // config.every is not 0). No communication; on measuring arenas it only counts. dp_rank and dp: which
    // of `dp` ranks that hold the same state this is.
    Saver(const config::CheckpointConfig& config, StateList state, int dp_rank, int dp,
          device::Device& device, device::Arenas& arenas);
    ~Saver();  // a save under way is given up
    Saver(const Saver&) = delete;
    Saver& operator=(const Saver&) = delete;

    // Collective, before the first begin(). run_directory: rank 0's counts. Leftovers of saves that were
    // killed are removed. Throws AgreedError (74) on all ranks alike where any of them cannot write there: on
    // a disk that is full or may not be written, or on a node that does not share the folder, which is named.
    void open(const std::string& run_directory, comm::MpiEnv& env, FileLayer& files);

    // tell: called on all ranks alike, once a save, where a rank's files have not got on for
    // MpiEnv::timeout_s(), with its name, the file and the time. After MpiEnv::working_timeout_s() all ranks
    // end with 74 and such a message. Looked at whenever a save is asked about.
    void on_stall(std::function<void(const std::string& message)> tell);

    // Collective, at a step's end. First waits for a save under way. Returns the save that has become
    // durable: that one, or this one where there is no staging. Throws as at_step_end().
    std::optional<SavedCheckpoint> begin(const SaveFacts& facts);

    bool under_way() const;                      // the same on all ranks
    std::vector<TaskTime> writer_times() const;  // of this rank's writer thread, the last few

    // Collective, at every step's end; nothing to do unless a save is under way. Returns a save that has
    // become durable. Throws on all ranks alike, AgreedError with the code and message of the lowest failing
    // rank, after the unfinished folder was removed: 74 for what cannot be written, 1 (NumericError) for
    // tensors that hold NaN or infinity.
    std::optional<SavedCheckpoint> at_step_end();

    // Collective: waits for a save under way. No wait for other ranks lasts longer than a second or two.
    std::optional<SavedCheckpoint> finish();

 private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace escalier::checkpoint
