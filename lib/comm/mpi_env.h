// MPI from start to end, owned by main(): init with threads, the world, one way to die.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "comm/activity.h"
#include "comm/communicator.h"
#include "core/error.h"

namespace escalier::comm {

struct CommOptions;
class Progress;

struct RankPlace {
    std::string host;
    int local_rank = 0;  // from a shared-memory split
    int local_size = 1;
    int allowed_cores = 1;  // to this rank
    int node_cores = 1;     // to all ranks of the node together
};

// An error that all ranks throw together: rank 0 prints it, all of them finalize and end with its code.
struct AgreedError : Error {
    using Error::Error;
};

// Runs `check` on every rank of a group and agrees: if any rank's check threw, all ranks throw an AgreedError
// with the code and the message of the lowest failing rank, so that all fail alike and one message is
// printed.
void agree(Communicator& group, const std::function<void()>& check);

class MpiEnv {
 public:
    // Calls MPI_Init_thread(MULTIPLE); errors return from then on. Starts the progress thread and the
    // watchdog (timeout 600 s). A launch that made singletons under srun is refused (ConfigError).
    MpiEnv(int* argc, char*** argv);
    // Finalizes, together with all ranks; after an Error that only some ranks saw, call abort(). Where a rank
    // does not come within timeout_s(), the job ends as start_watchdog() says, with the code of ends_with().
    ~MpiEnv();
    MpiEnv(const MpiEnv&) = delete;
    MpiEnv& operator=(const MpiEnv&) = delete;

    Communicator& world();
    const RankPlace& place() const;
    std::string version() const;  // "Open MPI 4.1.4"

    // The longest wait for other ranks, in seconds, from now on. The job ends when one lasts longer, with one
    // message that says who waited for what, and exit code 1. setting: what the user sets it with.
    void start_watchdog(double timeout_s, const std::string& setting = "run.comm_timeout_s");
    double timeout_s() const;          // as it is now
    double working_timeout_s() const;  // several times as long: for one that works instead of waiting

    // What the job is about to end with. It ends so too if a rank is then missing, but with 1 in place of 0.
    void ends_with(int exit_code);

    // agree() over the world.
    void agree(const std::function<void()>& check);

    // A channel between two ranks of `group`, created by both of them together, all in the same order; null
    // on other ranks. depth: messages under way at once. synchronous_sends: a send is done only once its
    // receive has begun, as MPI may do with any message.
    std::unique_ptr<Channel> make_channel(Communicator& group, int from, int to, int depth,
                                          bool synchronous_sends = false);

    // A copy of the world that exchanges in other ways; collective. For tests and measurements.
    std::unique_ptr<Communicator> make_world(const CommOptions& options);

    // Waits until `done` says true, which it is asked again and again; the watchdog's limit holds.
    void wait_until(const char* label, const std::function<bool()>& done);

    // What this rank does, for the watchdogs' messages; the main thread announces it.
    Activity& activity();

    // For transports: comm's thread polls what they have under way.
    Progress& progress();

    // Seconds to add to this rank's clock to read that of rank 0 of `group`; 0 on one host. Collective.
    double clock_offset(Communicator& group);

    // Collective over `group`: hands what every rank brings to take(rank, bytes) on the group's first rank,
    // one rank after the other in order, so that no more than one of them is held beside what `take` keeps.
    void gather_bytes(Communicator& group, const std::string& bytes, const char* label,
                      const std::function<void(int rank, std::string bytes)>& take);

    // Prints `message` unless another rank of this node did, and ends all ranks with `code`. For errors that
    // only some ranks see.
    [[noreturn]] void abort(int code, const std::string& message);
    // With what failure_of() makes of it.
    [[noreturn]] void abort(const std::exception& error);

 private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace escalier::comm
