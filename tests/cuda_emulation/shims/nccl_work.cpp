#include "cuda_emulation/shims/nccl_work.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

namespace escalier::cuda_emulation {
namespace {

using Bytes = std::vector<char>;

// Call f(T{}) with the element type.
template <class F>
void with_type(ncclDataType_t type, F&& f) {
    switch (type) {
        case ncclInt8:
            return f(std::int8_t{});
        case ncclUint8:
            return f(std::uint8_t{});
        case ncclInt32:
            return f(std::int32_t{});
        case ncclInt64:
            return f(std::int64_t{});
        case ncclUint64:
            return f(std::uint64_t{});
        case ncclFloat32:
            return f(float{});
        case ncclFloat64:
            return f(double{});
        default:
            return f(__nv_bfloat16{});
    }
}

template <class Sum>
Sum join(ncclRedOp_t operation, Sum a, Sum b) {
    switch (operation) {
        case ncclProd:
            return a * b;
        case ncclMax:
            return std::max(a, b);
        case ncclMin:
            return std::min(a, b);
        default:
            return a + b;
    }
}

// to[i] = parts of all ranks joined. The order of ranks differs from one block of elements to the next, as in
// a ring, so that nobody can rest on rank order.
void reduce(const Bytes& parts, int ranks, std::size_t count, ncclDataType_t type, ncclRedOp_t operation,
            void* to) {
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        using Sum = std::conditional_t<std::is_same_v<T, __nv_bfloat16>, float, T>;
        const auto* all = reinterpret_cast<const T*>(parts.data());
        const auto at = [&](int rank, std::size_t i) {
            return static_cast<Sum>(all[static_cast<std::size_t>(rank % ranks) * count + i]);
        };
        for (std::size_t i = 0; i < count; ++i) {
            const int first = static_cast<int>((i / 64 + 1) % static_cast<std::size_t>(ranks));
            Sum sum = at(first, i);
            for (int rank = 1; rank < ranks; ++rank) sum = join(operation, sum, at(first + rank, i));
            if (operation == ncclAvg) sum = static_cast<Sum>(sum / static_cast<Sum>(ranks));
            static_cast<T*>(to)[i] = static_cast<T>(sum);
        }
    });
}

class Launch {
 public:
    Launch(std::shared_ptr<ncclComm> comm, std::vector<NcclCall> calls, bool captured)
        : comm_(std::move(comm)),
          calls_(std::move(calls)),
          ticket_(captured ? 0 : comm_->issued++),
          captured_(captured) {}

    Progress step() {
        if (comm_->aborted) {
            if (started_) abandon();
            return Progress::done;
        }
        if (!started_) {
            if (comm_->busy || (!captured_ && comm_->finished != ticket_)) return Progress::waiting;
            start();
            return Progress::some;
        }
        if (comm_->error != ncclSuccess) return Progress::waiting;
        int all_done = 1;
        if (!requests_.empty() && !check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(),
                                                     &all_done, statuses_.data())))
            return Progress::waiting;
        if (!all_done) return Progress::waiting;
        finish();
        return Progress::done;
    }

 private:
    bool check(int code) {
        if (code != MPI_SUCCESS) comm_->error = ncclRemoteError;
        return code == MPI_SUCCESS;
    }
    std::size_t bytes(const NcclCall& call) const { return call.count * size_of(call.type); }

    void start() {
        started_ = comm_->busy = true;
        requests_.clear();
        received_.assign(calls_.size(), Bytes());
        sent_.assign(calls_.size(), Bytes());
        if (comm_->mpi == MPI_COMM_NULL) return;
        requests_.assign(calls_.size(), MPI_REQUEST_NULL);
        statuses_.resize(calls_.size());
        for (std::size_t i = 0; i < calls_.size(); ++i) check(start(calls_[i], i));
    }

    // Contributions are copied as the work starts, results written as it ends, so that in-place calls are
    // simple.
    int start(const NcclCall& call, std::size_t i) {
        const auto ranks = static_cast<std::size_t>(comm_->size);
        const int part = static_cast<int>(bytes(call));
        const auto* from = static_cast<const char*>(call.from);
        MPI_Request* request = &requests_[i];
        switch (call.kind) {
            case NcclKind::all_reduce:
            case NcclKind::all_gather:
                sent_[i].assign(from, from + part);
                received_[i].resize(ranks * bytes(call));
                return MPI_Iallgather(sent_[i].data(), part, MPI_BYTE, received_[i].data(), part, MPI_BYTE,
                                      comm_->mpi, request);
            case NcclKind::reduce_scatter:
                sent_[i].assign(from, from + ranks * bytes(call));
                received_[i].resize(ranks * bytes(call));
                return MPI_Ialltoall(sent_[i].data(), part, MPI_BYTE, received_[i].data(), part, MPI_BYTE,
                                     comm_->mpi, request);
            case NcclKind::broadcast:
                received_[i].resize(bytes(call));
                if (comm_->rank == call.peer) received_[i].assign(from, from + part);
                return MPI_Ibcast(received_[i].data(), part, MPI_BYTE, call.peer, comm_->mpi, request);
            case NcclKind::send:  // complete only when the receiver is there
                return MPI_Issend(call.from, part, MPI_BYTE, call.peer, 0, comm_->mpi, request);
            case NcclKind::receive:
                return MPI_Irecv(call.to, part, MPI_BYTE, call.peer, 0, comm_->mpi, request);
        }
        return MPI_ERR_OTHER;
    }

    // MPI may still write to buffers of collectives, which cannot be cancelled: they are kept for good.
    void abandon() {
        static auto* kept = new std::vector<std::vector<Bytes>>;
        for (std::size_t i = 0; i < requests_.size(); ++i) {
            if (calls_[i].kind != NcclKind::send && calls_[i].kind != NcclKind::receive) continue;
            if (requests_[i] == MPI_REQUEST_NULL) continue;
            MPI_Cancel(&requests_[i]);
            MPI_Request_free(&requests_[i]);
        }
        kept->push_back(std::move(sent_));
        kept->push_back(std::move(received_));
        started_ = false;
    }

    void finish() {
        for (std::size_t i = 0; i < calls_.size(); ++i) finish(calls_[i], i);
        started_ = comm_->busy = false;
        if (!captured_) ++comm_->finished;
    }

    void finish(const NcclCall& call, std::size_t i) {
        if (comm_->mpi == MPI_COMM_NULL) {
            if (call.to && call.from && call.to != call.from) std::memmove(call.to, call.from, bytes(call));
            return;
        }
        const Bytes& got = received_[i];
        if (call.kind == NcclKind::all_reduce || call.kind == NcclKind::reduce_scatter)
            reduce(got, comm_->size, call.count, call.type, call.operation, call.to);
        else if (call.kind == NcclKind::all_gather || call.kind == NcclKind::broadcast)
            std::memcpy(call.to, got.data(), got.size());
        else if (call.kind == NcclKind::receive)
            require_whole(call, statuses_[i]);
    }

    void require_whole(const NcclCall& call, const MPI_Status& status) const {
        int came = 0;
        MPI_Get_count(&status, MPI_BYTE, &came);
        if (came == static_cast<int>(bytes(call))) return;
        std::fprintf(stderr, "emulated NCCL: rank %d expects %zu bytes from rank %d, which sends %d\n",
                     comm_->rank, bytes(call), call.peer, came);
        std::_Exit(70);
    }

    std::shared_ptr<ncclComm> comm_;
    std::vector<NcclCall> calls_;
    std::uint64_t ticket_;
    bool captured_;
    bool started_ = false;
    std::vector<MPI_Request> requests_;
    std::vector<MPI_Status> statuses_;
    std::vector<Bytes> sent_, received_;
};

}  // namespace

std::size_t size_of(ncclDataType_t type) {
    switch (type) {
        case ncclInt8:
        case ncclUint8:
            return 1;
        case ncclBfloat16:
            return 2;
        case ncclInt32:
        case ncclFloat32:
            return 4;
        case ncclInt64:
        case ncclUint64:
        case ncclFloat64:
            return 8;
        default:
            return 0;
    }
}

Work nccl_work(std::shared_ptr<ncclComm> comm, std::vector<NcclCall> calls, bool captured) {
    auto launch = std::make_shared<Launch>(std::move(comm), std::move(calls), captured);
    return [launch] { return launch->step(); };
}

}  // namespace escalier::cuda_emulation
