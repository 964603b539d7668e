// The stand-in for NCCL. Calls are queued on their stream; processes meet over MPI (MPI_THREAD_MULTIPLE,
// initialised by the program). While a communicator exists a thread runs queued work when the process is busy
// elsewhere, as a GPU would, since peers wait for it.
//
// As in NCCL: a send ends when its receive has begun; calls between ncclGroupStart and ncclGroupEnd run
// together; two ranks on one device are refused ("Duplicate GPU detected"). The rank that made the unique id
// must be a member.
#include <climits>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "cuda_emulation/shims/memory.h"
#include "cuda_emulation/shims/nccl_work.h"
#include "cuda_emulation/shims/properties.h"

namespace escalier::cuda_emulation {
namespace {

// Handles live until destroyed or aborted; queued work holds on to them longer.
std::map<ncclComm*, std::shared_ptr<ncclComm>>& communicators() {
    static auto* all = new std::map<ncclComm*, std::shared_ptr<ncclComm>>;
    return *all;
}

std::string& last_message() {
    static auto* message = new std::string;
    return *message;
}

ncclResult_t refuse(ncclResult_t result, const std::string& why) {
    last_message() = why;
    return result;
}

struct Id {
    int creator;  // rank in MPI_COMM_WORLD
    int number;   // of the ids that the creator has made
};
static_assert(sizeof(Id) <= sizeof(ncclUniqueId));

struct Member {
    int rank, world_rank, device;
    std::uint64_t host;
};

constexpr int tag_base = 0x2E5C0000;

bool mpi_is_there() {
    int initialized = 0, finalized = 0;
    MPI_Initialized(&initialized);
    if (initialized) MPI_Finalized(&finalized);
    return initialized && !finalized;
}

Member myself(int rank) {
    char host[MPI_MAX_PROCESSOR_NAME];
    int length = 0, world_rank = 0;
    MPI_Get_processor_name(host, &length);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    return {rank, world_rank, physical_device(current_device()), std::hash<std::string>{}(host)};
}

// Everybody tells the creator of the id, and the creator everybody.
std::vector<Member> meet(const Id& id, int ranks, const Member& me) {
    std::vector<Member> members(static_cast<std::size_t>(ranks));
    const int tag = tag_base + 2 * (id.number % 16384);
    const int bytes = static_cast<int>(sizeof(Member));
    if (me.world_rank != id.creator) {
        MPI_Send(&me, bytes, MPI_BYTE, id.creator, tag, MPI_COMM_WORLD);
        MPI_Recv(members.data(), bytes * ranks, MPI_BYTE, id.creator, tag + 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        return members;
    }
    members[static_cast<std::size_t>(me.rank)] = me;
    for (int other = 1; other < ranks; ++other) {
        Member member;
        MPI_Recv(&member, bytes, MPI_BYTE, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        members[static_cast<std::size_t>(member.rank)] = member;
    }
    for (const Member& member : members)
        if (member.rank != me.rank)
            MPI_Send(members.data(), bytes * ranks, MPI_BYTE, member.world_rank, tag + 1, MPI_COMM_WORLD);
    return members;
}

ncclResult_t refuse_shared_devices(const std::vector<Member>& members) {
    for (const Member& a : members)
        for (const Member& b : members)
            if (a.rank < b.rank && a.host == b.host && a.device == b.device)
                return refuse(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(a.rank) +
                                                    " and rank " + std::to_string(b.rank) +
                                                    " both on CUDA device " + std::to_string(a.device + 1) +
                                                    "000");
    return ncclSuccess;
}

ncclResult_t connect(ncclComm& comm, const Id& id) {
    if (!mpi_is_there())
        return comm.size == 1 ? ncclSuccess
                              : refuse(ncclSystemError, "MPI is not initialised in this process");
    const std::vector<Member> members = meet(id, comm.size, myself(comm.rank));
    if (const ncclResult_t result = refuse_shared_devices(members)) return result;
    std::vector<int> world_ranks;
    for (const Member& member : members) world_ranks.push_back(member.world_rank);
    MPI_Group world, group;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, comm.size, world_ranks.data(), &group);
    const int code = MPI_Comm_create_group(MPI_COMM_WORLD, group, tag_base + id.number % 16384, &comm.mpi);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    if (code != MPI_SUCCESS) return refuse(ncclSystemError, "MPI_Comm_create_group failed");
    MPI_Comm_set_errhandler(comm.mpi, MPI_ERRORS_RETURN);
    return ncclSuccess;
}

struct Issued {
    std::shared_ptr<ncclComm> comm;
    cudaStream_t stream;
    NcclCall call;
};
thread_local int group_depth = 0;
thread_local std::vector<Issued> group;

// One piece of work for each communicator, in the order in which they first appear.
ncclResult_t launch(std::vector<Issued> issued) {
    Queues& queues = Queues::get();
    Lock lock = queues.lock();
    queues.enter(lock);
    while (!issued.empty()) {
        const Issued first = issued.front();
        std::vector<NcclCall> calls;
        for (const Issued& other : issued) {
            if (other.comm != first.comm) continue;
            if (other.stream != first.stream)
                return refuse(ncclInvalidUsage, "calls of a group on one communicator use several streams");
            calls.push_back(other.call);
        }
        std::erase_if(issued, [&](const Issued& other) { return other.comm == first.comm; });
        CUstream_st* stream = queues.find(first.stream, first.comm->device);
        if (!stream || stream->device != first.comm->device)
            return refuse(ncclInvalidUsage, "the stream is not one of the communicator's device");
        queues.submit(*stream, nccl_work(first.comm, std::move(calls), stream->capture != nullptr));
    }
    return ncclSuccess;
}

ncclResult_t issue(ncclComm_t handle, cudaStream_t stream, NcclCall call) {
    std::shared_ptr<ncclComm> comm;
    {
        Lock lock = Queues::get().lock();
        const auto found = communicators().find(handle);
        if (found == communicators().end()) return refuse(ncclInvalidArgument, "no such communicator");
        comm = found->second;
        const std::size_t bytes = call.count * size_of(call.type);
        const auto ranks = static_cast<std::size_t>(comm->size);
        if (size_of(call.type) == 0) return refuse(ncclInvalidArgument, "this data type is not emulated");
        if (bytes * ranks > INT_MAX)
            return refuse(ncclInvalidArgument, "the emulation moves less than 2 GiB at once");
        if (call.peer < 0 || call.peer >= comm->size) return refuse(ncclInvalidArgument, "no such rank");
        const bool reads =
            call.kind != NcclKind::receive && (call.kind != NcclKind::broadcast || call.peer == comm->rank);
        const std::size_t read = call.kind == NcclKind::reduce_scatter ? bytes * ranks : bytes;
        const std::size_t written = call.kind == NcclKind::all_gather ? bytes * ranks : bytes;
        if (bytes > 0 && ((reads && !reachable_by_device(call.from, read)) ||
                          (call.kind != NcclKind::send && !reachable_by_device(call.to, written))))
            return refuse(ncclInvalidArgument, "a buffer is no device memory, or ends too early");
    }
    if (group_depth > 0) {
        group.push_back({comm, stream, call});
        return ncclSuccess;
    }
    return launch({{comm, stream, call}});
}

ncclResult_t create(ncclComm_t* handle, int ranks, const ncclUniqueId& unique, int rank) {
    *handle = nullptr;
    if (ranks < 1 || rank < 0 || rank >= ranks) return refuse(ncclInvalidArgument, "rank or number of ranks");
    Id id;
    std::memcpy(&id, &unique, sizeof id);
    auto comm = std::make_shared<ncclComm>();
    comm->rank = rank;
    comm->size = ranks;
    comm->device = current_device();
    if (const ncclResult_t result = connect(*comm, id)) return result;
    Queues& queues = Queues::get();
    Lock lock = queues.lock();
    communicators()[comm.get()] = comm;
    queues.start_background();
    *handle = comm.get();
    return ncclSuccess;
}

// With `wait`, what was issued is finished first.
ncclResult_t destroy(ncclComm_t handle, bool wait) {
    Queues& queues = Queues::get();
    std::shared_ptr<ncclComm> comm;
    {
        Lock lock = queues.lock();
        queues.enter(lock);
        const auto found = communicators().find(handle);
        if (found == communicators().end()) return ncclInvalidArgument;
        comm = found->second;
        if (wait && comm->error == ncclSuccess)
            queues.finish(lock, nullptr, [&] { return comm->finished == comm->issued && !comm->busy; });
        else
            comm->aborted = true;
        communicators().erase(handle);
    }
    queues.stop_background();
    if (wait && comm->mpi != MPI_COMM_NULL && mpi_is_there()) MPI_Comm_free(&comm->mpi);
    return ncclSuccess;
}

}  // namespace
}  // namespace escalier::cuda_emulation

using namespace escalier::cuda_emulation;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
    static const char* const texts[] = {"no error",
                                        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
                                        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
                                        "internal error - please report this issue to the NCCL developers",
                                        "invalid argument (run with NCCL_DEBUG=WARN for details)",
                                        "invalid usage (run with NCCL_DEBUG=WARN for details)",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return result >= 0 && result < ncclNumResults ? texts[result] : "unknown result code";
}
const char* ncclGetLastError(ncclComm_t) {
    return last_message().c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* unique) {
    static int made = 0;
    Id id{0, 0};
    {
        Lock lock = Queues::get().lock();
        id.number = made++;
    }
    if (mpi_is_there()) MPI_Comm_rank(MPI_COMM_WORLD, &id.creator);
    std::memset(unique, 0, sizeof *unique);
    std::memcpy(unique, &id, sizeof id);
    return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
    return create(comm, ranks, id, rank);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t*) {
    return create(comm, ranks, id, rank);
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    Queues& queues = Queues::get();
    Lock lock = queues.lock();
    queues.enter(lock);
    if (!communicators().contains(comm)) return ncclInvalidArgument;
    queues.finish(lock, nullptr, [&] { return comm->finished == comm->issued && !comm->busy; });
    return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    return destroy(comm, true);
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    return destroy(comm, false);
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
    Queues& queues = Queues::get();
    Lock lock = queues.lock();
    queues.enter(lock);
    if (!communicators().contains(comm)) return ncclInvalidArgument;
    queues.poke(lock, nullptr);
    *error = comm->error;
    return ncclSuccess;
}
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
    *count = comm->size;
    return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
    *rank = comm->rank;
    return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
    *device = comm->device;
    return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
    ++group_depth;
    return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
    if (group_depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    if (--group_depth > 0) return ncclSuccess;
    return launch(std::exchange(group, {}));
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
    return issue(comm, stream, {NcclKind::all_reduce, from, to, count, type, operation, 0});
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
    return issue(comm, stream, {NcclKind::all_gather, from, to, count, type, ncclSum, 0});
}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
    return issue(comm, stream, {NcclKind::reduce_scatter, from, to, count, type, operation, 0});
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
    return issue(comm, stream, {NcclKind::broadcast, from, to, count, type, ncclSum, root});
}
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    return issue(comm, stream, {NcclKind::send, from, nullptr, count, type, ncclSum, peer});
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    return issue(comm, stream, {NcclKind::receive, nullptr, to, count, type, ncclSum, peer});
}
}
