// MPI from start to end, owned by main(): init with threads, the world, one way to die.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/communicator.h"

namespace escalier::comm {

struct RankPlace {
    std::string host;
    int local_rank = 0;  // from a shared-memory split
    int local_size = 1;
    int allowed_cores = 1;
};

class MpiEnv {
 public:
    // Installs signal handling and calls MPI_Init_thread(MULTIPLE); errors return from then on.
    // A launch that made singletons under srun is refused (ConfigError).
    MpiEnv(int* argc, char*** argv);
    ~MpiEnv();  // finalizes; after an Error escaped, call fail() instead
    MpiEnv(const MpiEnv&) = delete;
    MpiEnv& operator=(const MpiEnv&) = delete;

    Communicator& world();
    const RankPlace& place() const;
    std::string version() const;  // "Open MPI 4.1.4"

    // Starts progress thread and watchdog (timeout in seconds). Before this, waits have a timeout of 600 s.
    void start_watchdog(double timeout_s);

    // Runs `check` on every rank and agrees: if any rank's check threw, all ranks throw an Error with the
    // code and the message of the lowest failing rank, so that all fail alike and one message is printed.
    void agree(const std::function<void()>& check);

    // A channel between two ranks of `group`, created by both of them together; other ranks of the group call
    // it too (creation is collective over the group) and get null. depth: messages under way at once.
    std::unique_ptr<Channel> make_channel(Communicator& group, int from, int to, int depth);

    // Prints `message` if no other rank did and ends all ranks with `code`. For errors that only some ranks
    // see.
    [[noreturn]] void abort(int code, const std::string& message);

 private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace escalier::comm
