#include "comm/mpi_env.h"

#include <mpi.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "comm/clock_offset.h"
#include "comm/deadline.h"
#include "comm/gather_bytes.h"
#include "comm/launch_guard.h"
#include "comm/mpi_channel.h"
#include "comm/mpi_check.h"
#include "comm/mpi_communicator.h"
#include "comm/shared_memory.h"
#include "comm/wait.h"

namespace escalier::comm {

namespace {

// Cores that this rank may run on; all of the machine where the kernel does not say.
cpu_set_t allowed_cores() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return set;
    CPU_ZERO(&set);
    const unsigned all = std::max(1u, std::thread::hardware_concurrency());
    for (unsigned core = 0; core < std::min<unsigned>(all, CPU_SETSIZE); ++core) CPU_SET(core, &set);
    return set;
}

// Settings of Open MPI that it reads at the start, unless the user has set them. Idle ranks give their core
// away, which counts for a factor of 100 where ranks share cores. Where ranks cannot read one another's
// memory, large messages go in pieces of 32 KiB; with 64 instead of 3 of them under way a rare poll moves a
// lot.
void set_defaults() {
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    setenv("OMPI_MCA_pml_ob1_send_pipeline_depth", "64", 0);
}

// How much longer than rank 0, which speaks for all, the others wait for MPI's start and end.
constexpr double patience_s = 5;

bool speaks_for_all() {  // before MPI has told the rank
    const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
    return rank == nullptr || std::string_view(rank) == "0";
}

void initialize(int* argc, char*** argv) {
    const Environment environment = [](const char* name) { return std::getenv(name); };
    std::string problem = launch_problem(environment, 0);
    if (!problem.empty()) throw ConfigError(problem);
    set_defaults();
    int provided = 0;
    {
        const Deadline deadline(
            Watchdog::start_up_timeout_s + (speaks_for_all() ? 0 : patience_s), "MPI has not started",
            "a process of this launch has stopped, or a host of it cannot be reached. Look "
            "for a stopped process, or try fewer hosts.",
            static_cast<int>(ExitCode::failed));
        check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int size = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    problem = launch_problem(environment, size);
    if (problem.empty() && provided < MPI_THREAD_MULTIPLE)
        problem =
            "this MPI library offers no MPI_THREAD_MULTIPLE. Use Debian's Open MPI, or build one with it.";
    if (problem.empty()) return;
    MPI_Finalize();
    throw ConfigError(problem);
}

RankPlace find_place(MPI_Comm node) {
    RankPlace place;
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    int length = 0;
    check_mpi(MPI_Get_processor_name(name, &length), "MPI_Get_processor_name");
    place.host = name;
    MPI_Comm_rank(node, &place.local_rank);
    MPI_Comm_size(node, &place.local_size);
    const cpu_set_t own = allowed_cores();
    cpu_set_t node_set;
    check_mpi(MPI_Allreduce(&own, &node_set, sizeof own, MPI_BYTE, MPI_BOR, node), "MPI_Allreduce");
    place.allowed_cores = std::max(1, CPU_COUNT(&own));
    place.node_cores = std::max(1, CPU_COUNT(&node_set));
    return place;
}

// Number of this node among the nodes of the job, in order of their lowest ranks.
int node_index(MPI_Comm node) {
    int is_first = 0, nodes_before = 0;
    MPI_Comm_rank(node, &is_first);
    is_first = is_first == 0;
    check_mpi(MPI_Exscan(&is_first, &nodes_before, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), "MPI_Exscan");
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int index = rank == 0 ? 0 : nodes_before;
    check_mpi(MPI_Bcast(&index, 1, MPI_INT, 0, node), "MPI_Bcast");
    return index;
}

// What the ranks of a node share; activities of all of them, by local rank, lie behind it.
struct alignas(64) NodeMemory {
    std::atomic<int> spoken;  // whether a rank has printed its last words

    Activity* activity(int local_rank) { return reinterpret_cast<Activity*>(this + 1) + local_rank; }
};

// By world rank: of those on this node; without memory that they share, the own one alone. own: this rank's,
// which moves into that memory. Collective over `node`.
std::vector<Activity*> share_activities(MPI_Comm node, NodeMemory* memory, Activity*& own) {
    int rank = 0, size = 1, local_rank = 0, local_size = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(node, &local_rank);
    MPI_Comm_size(node, &local_size);
    if (memory) own = new (memory->activity(local_rank)) Activity;
    std::vector<int> ranks(static_cast<std::size_t>(local_size));
    check_mpi(MPI_Allgather(&rank, 1, MPI_INT, ranks.data(), 1, MPI_INT, node), "MPI_Allgather");
    std::vector<Activity*> all(static_cast<std::size_t>(size));
    all[static_cast<std::size_t>(rank)] = own;
    for (int r = 0; memory && r < local_size; ++r)
        all[static_cast<std::size_t>(ranks[static_cast<std::size_t>(r)])] = memory->activity(r);
    return all;
}

}  // namespace

struct MpiEnv::State {
    RankPlace place;
    std::unique_ptr<SharedMemory> shared;  // of the node: see NodeMemory
    Activity unshared;                     // in place of it where there is none
    Activity* activity = &unshared;
    std::optional<Progress> progress;
    std::optional<Watchdog> watchdog;
    std::unique_ptr<MpiCommunicator> world;
    std::atomic<int> exit_code = static_cast<int>(ExitCode::failed);  // where a rank is missing

    NodeMemory* node_memory() { return shared ? reinterpret_cast<NodeMemory*>(shared->data()) : nullptr; }

    [[noreturn]] void die(int code, const std::string& message) {
        int first = 1;
        if (NodeMemory* memory = node_memory()) first = memory->spoken.exchange(1) == 0;
        if (first) {
            std::fputs(("escalier: " + message + "\n").c_str(), stderr);
            std::fflush(stderr);
        } else {
            sleep(5);  // the other one is ending the job
        }
        // mpirun ends a job whose rank leaves like this, and its exit code is the rank's. MPI_Abort has Open
        // MPI 4.1's mpirun send a help text about, which crashes or hangs it now and then; srun needs it.
        if (!std::getenv("OMPI_COMM_WORLD_SIZE")) MPI_Abort(MPI_COMM_WORLD, code);
        std::_Exit(code);
    }
};

MpiEnv::MpiEnv(int* argc, char*** argv) {
    initialize(argc, argv);
    prctl(PR_SET_TIMERSLACK, 1000UL);  // ns: short naps stay short; threads made later inherit it
    state_ = std::make_unique<State>();
    MPI_Comm node = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node),
              "MPI_Comm_split_type");
    state_->place = find_place(node);
    const auto node_bytes =
        sizeof(NodeMemory) + static_cast<std::size_t>(state_->place.local_size) * sizeof(Activity);
    state_->shared = SharedMemory::create(node, node_bytes);
    std::vector<Activity*> activities = share_activities(node, state_->node_memory(), state_->activity);
    const double delay_s = std::min(node_index(node), 10);
    MPI_Comm_free(&node);
    state_->progress.emplace();
    state_->watchdog.emplace(MPI_COMM_WORLD, state_->place.host, delay_s, std::move(activities),
                             [this](const std::string& message) { state_->die(state_->exit_code, message); });
    state_->world = std::make_unique<MpiCommunicator>(
        [] {
            MPI_Comm copy = MPI_COMM_NULL;
            check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &copy), "MPI_Comm_dup");
            return copy;
        }(),
        CommOptions{}, *state_->progress, *state_->watchdog);
}

MpiEnv::~MpiEnv() {
    try {
        world().barrier("all ranks to end");  // while there is a watchdog: MPI's own end waits without limit
    } catch (const Error&) {                  // what is broken here is broken in MPI_Finalize too
    }
    constexpr double least_s = 60;
    const Deadline deadline(std::max(working_timeout_s(), least_s) + (world().rank() > 0 ? patience_s : 0),
                            "MPI has not ended",
                            "another rank has stopped, or its host cannot be reached. What this job wrote is "
                            "whole.",
                            state_->exit_code);
    state_.reset();
    MPI_Finalize();
}

void MpiEnv::ends_with(int exit_code) {
    if (exit_code != 0) state_->exit_code = exit_code;
}

Communicator& MpiEnv::world() {
    return *state_->world;
}

const RankPlace& MpiEnv::place() const {
    return state_->place;
}

std::string MpiEnv::version() const {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    const std::string whole = text;  // "Open MPI v4.1.4, package: …"
    std::string name = whole.substr(0, whole.find(','));
    const std::size_t v = name.find(" v");
    if (v != std::string::npos) name.erase(v + 1, 1);
    return name;
}

void MpiEnv::start_watchdog(double timeout_s, const std::string& setting) {
    state_->watchdog->set_timeout(timeout_s, setting);
}

double MpiEnv::timeout_s() const {
    return state_->watchdog->timeout_s();
}

double MpiEnv::working_timeout_s() const {
    return Watchdog::working_factor * timeout_s();
}

void MpiEnv::agree(const std::function<void()>& check) {
    comm::agree(*state_->world, check);
}

void agree(Communicator& group, const std::function<void()>& check) {
    int code = 0;
    std::string message;
    try {
        check();
    } catch (const std::exception& error) {
        const Failure failure = failure_of(error);
        code = static_cast<int>(failure.code);
        message = failure.message;
    }
    const char* label = "all ranks to agree";
    int first_failed = code ? group.size() - group.rank() : 0;  // the largest is the lowest rank
    group.all_reduce_max(TensorView(&first_failed, DType::i32, Shape{1}), label);
    if (!first_failed) return;
    const int root = group.size() - first_failed;
    int head[2] = {code, static_cast<int>(message.size())};
    group.broadcast(TensorView(head, DType::i32, Shape{2}), root, label);
    message.resize(static_cast<std::size_t>(head[1]));
    group.broadcast(TensorView(message.data(), DType::u8, Shape{head[1]}), root, label);
    throw AgreedError(static_cast<ExitCode>(head[0]), message);
}

std::unique_ptr<Channel> MpiEnv::make_channel(Communicator& group, int from, int to, int depth,
                                              bool synchronous_sends) {
    ESCALIER_CHECK(from != to, "a channel joins two ranks");
    if (group.rank() != from && group.rank() != to) return nullptr;
    const MPI_Comm comm = dynamic_cast<MpiCommunicator&>(group).mpi_comm();
    MPI_Group all = MPI_GROUP_NULL, pair_group = MPI_GROUP_NULL, world_group = MPI_GROUP_NULL;
    check_mpi(MPI_Comm_group(comm, &all), "MPI_Comm_group");
    const int ranks[2] = {from, to};
    check_mpi(MPI_Group_incl(all, 2, ranks, &pair_group), "MPI_Group_incl");
    MPI_Comm pair = MPI_COMM_NULL;
    const WaitScope scope(*state_->watchdog, "the other rank to make a channel");
    // Between the two alone: a split of the group would take all its ranks for every channel.
    check_mpi(MPI_Comm_create_group(comm, pair_group, 0, &pair), "MPI_Comm_create_group");
    MPI_Comm_group(MPI_COMM_WORLD, &world_group);
    const int peer = group.rank() == to ? 0 : 1;
    int peer_world = -1;
    check_mpi(MPI_Group_translate_ranks(pair_group, 1, &peer, world_group, &peer_world),
              "MPI_Group_translate_ranks");
    for (MPI_Group* made : {&all, &pair_group, &world_group}) MPI_Group_free(made);
    return std::make_unique<MpiChannel>(pair, peer_world, depth, synchronous_sends, *state_->progress,
                                        *state_->watchdog);
}

std::unique_ptr<Communicator> MpiEnv::make_world(const CommOptions& options) {
    MPI_Comm copy = MPI_COMM_NULL;
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &copy), "MPI_Comm_dup");
    return std::make_unique<MpiCommunicator>(copy, options, *state_->progress, *state_->watchdog);
}

void MpiEnv::wait_until(const char* label, const std::function<bool()>& done) {
    comm::wait_until(*state_->watchdog, label, {}, done);
}

Activity& MpiEnv::activity() {
    return *state_->activity;
}

Progress& MpiEnv::progress() {
    return *state_->progress;
}

double MpiEnv::clock_offset(Communicator& group) {
    const auto& mpi = dynamic_cast<MpiCommunicator&>(group);
    if (mpi.size() == 1 || mpi.shares_memory()) return 0;
    const WaitScope scope(*state_->watchdog, "the other ranks to compare clocks");
    return measure_clock_offset(mpi.mpi_comm());
}

void MpiEnv::gather_bytes(Communicator& group, const std::string& bytes, const char* label,
                          const std::function<void(int rank, std::string bytes)>& take) {
    comm::gather_bytes(dynamic_cast<MpiCommunicator&>(group).mpi_comm(), *state_->watchdog, bytes, label,
                       take);
}

void MpiEnv::abort(int code, const std::string& message) {
    state_->die(code, message);
}

void MpiEnv::abort(const std::exception& error) {
    const Failure failure = failure_of(error);
    abort(static_cast<int>(failure.code), failure.message);
}

}  // namespace escalier::comm
