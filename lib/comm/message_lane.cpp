// A tensor is cut into chunks; two of them are under way at once, each in a pipe of its own. Between two
// ranks, or for few elements, a chunk is exchanged whole and combined by everybody. Otherwise every rank gets
// one piece of it from all others, combines it in rank order, and sends the result to all.
#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "comm/mpi_check.h"
#include "comm/reduce_lane.h"
#include "comm/sum_scratch.h"

namespace escalier::comm {

namespace {

struct Piece {  // of a tensor, in elements
    std::int64_t begin = 0;
    std::int64_t count = 0;
};

struct Job {
    MPI_Comm comm;
    int rank;
    int size;
    char* x;
    DType dtype;
    Combine combine;
    bool whole;  // chunks are exchanged whole

    std::int64_t element() const { return static_cast<std::int64_t>(size_of(dtype)); }
    char* at(std::int64_t index) const { return x + index * element(); }
    Piece piece(const Piece& chunk, int r) const {
        if (whole) return chunk;
        const std::int64_t begin = chunk.count * r / size, end = chunk.count * (r + 1) / size;
        return {chunk.begin + begin, end - begin};
    }
};

MPI_Datatype mpi_type(DType dtype) {
    switch (dtype) {
        case DType::f32:
            return MPI_FLOAT;
        case DType::f64:
            return MPI_DOUBLE;
        case DType::bf16:
            return MPI_UINT16_T;
        default:
            return MPI_INT;
    }
}

// One chunk at a time, in up to two phases.
class Pipe {
 public:
    Pipe(int size, int first_tag)
        : first_tag_(first_tag),
          requests_(static_cast<std::size_t>(2 * size), MPI_REQUEST_NULL),
          sources_(static_cast<std::size_t>(size)) {}

    bool busy() const { return phase_ != Phase::idle; }

    // scratch: one piece of every other rank.
    void begin(const Job& job, const Piece& chunk, char* scratch) {
        chunk_ = chunk;
        used_ = 0;
        const Piece own = job.piece(chunk, job.rank);
        for (int r = 0; r < job.size; ++r) {
            const auto i = static_cast<std::size_t>(r);
            if (r == job.rank) {
                sources_[i] = job.at(own.begin);
                continue;
            }
            sources_[i] = scratch;
            receive(job, scratch, own.count, r, first_tag_);
            scratch += own.count * job.element();
        }
        for (int r = 0; r < job.size; ++r) {
            if (r == job.rank) continue;
            const Piece theirs = job.piece(chunk, r);
            send(job, job.at(theirs.begin), theirs.count, r, first_tag_);
        }
        phase_ = Phase::collect;
    }

    bool advance(const Job& job) {  // true: it moved
        int complete = 0;
        check_mpi(MPI_Testall(used_, requests_.data(), &complete, MPI_STATUSES_IGNORE), "MPI_Testall", -1,
                  "all-reduce");
        if (!complete) return false;
        if (phase_ == Phase::collect) {
            const Piece own = job.piece(chunk_, job.rank);
            combine_in_order(job.combine, job.dtype, job.at(own.begin), sources_.data(), job.size, own.count);
            if (!job.whole) {
                distribute(job);
                return true;
            }
        }
        phase_ = Phase::idle;
        return true;
    }

 private:
    enum class Phase { idle, collect, distribute };

    void distribute(const Job& job) {
        used_ = 0;
        const Piece own = job.piece(chunk_, job.rank);
        for (int r = 0; r < job.size; ++r) {
            if (r == job.rank) continue;
            const Piece theirs = job.piece(chunk_, r);
            receive(job, job.at(theirs.begin), theirs.count, r, first_tag_ + 1);
            send(job, job.at(own.begin), own.count, r, first_tag_ + 1);
        }
        phase_ = Phase::distribute;
    }
    void receive(const Job& job, char* to, std::int64_t count, int peer, int tag) {
        check_mpi(MPI_Irecv(to, checked_count(count, "MPI_Irecv"), mpi_type(job.dtype), peer, tag, job.comm,
                            &requests_[static_cast<std::size_t>(used_++)]),
                  "MPI_Irecv", peer, "all-reduce");
    }
    void send(const Job& job, const char* from, std::int64_t count, int peer, int tag) {
        check_mpi(MPI_Isend(from, checked_count(count, "MPI_Isend"), mpi_type(job.dtype), peer, tag, job.comm,
                            &requests_[static_cast<std::size_t>(used_++)]),
                  "MPI_Isend", peer, "all-reduce");
    }

    int first_tag_;
    std::vector<MPI_Request> requests_;
    int used_ = 0;
    std::vector<const void*> sources_;
    Piece chunk_;
    Phase phase_ = Phase::idle;
};

class MessageLane final : public ReduceLane {
 public:
    MessageLane(MPI_Comm comm, int rank, int size, int first_tag, std::int64_t chunk_elements)
        : chunk_elements_(chunk_elements),
          pipes_{Pipe(size, first_tag), Pipe(size, first_tag + 2)},
          job_{comm, rank, size, nullptr, DType::f32, Combine::sum, false} {}

    void begin(TensorView x, Combine combine, TensorView scratch) override {
        elements_ = x.elements();
        job_.x = static_cast<char*>(x.data());
        job_.dtype = x.dtype();
        job_.combine = combine;
        job_.whole = exchanged_whole(elements_, job_.size);
        scratch_ = static_cast<char*>(scratch.data());
        begun_ = 0;
        next_pipe_ = 0;
    }

    // Chunk k uses pipe k mod 2, so that both ends pair the same chunks.
    Polled advance() override {
        bool moved = false;
        for (Pipe& pipe : pipes_)
            if (pipe.busy()) moved = pipe.advance(job_) || moved;
        while (begun_ < elements_ && !pipes_[next_pipe_].busy()) {
            const Piece chunk = {begun_, std::min(chunk_elements_, elements_ - begun_)};
            char* scratch = scratch_ + static_cast<std::int64_t>(next_pipe_) *
                                           message_piece_scratch(elements_, job_.size, chunk_elements_) *
                                           job_.element();
            pipes_[next_pipe_].begin(job_, chunk, scratch);
            begun_ += chunk.count;
            next_pipe_ = 1 - next_pipe_;
            moved = true;
        }
        const bool busy = pipes_[0].busy() || pipes_[1].busy();
        return begun_ == elements_ && !busy ? Polled::done : moved ? Polled::moved : Polled::waiting;
    }

    std::int64_t scratch_elements(std::int64_t elements) const override {
        return message_scratch(elements, job_.size, chunk_elements_);
    }
    std::int64_t largest_scratch() const override {
        return largest_message_scratch(job_.size, chunk_elements_);
    }

 private:
    std::int64_t chunk_elements_;
    std::array<Pipe, 2> pipes_;
    std::size_t next_pipe_ = 0;
    Job job_;
    char* scratch_ = nullptr;
    std::int64_t elements_ = 0;
    std::int64_t begun_ = 0;
};

}  // namespace

std::unique_ptr<ReduceLane> make_message_lane(MPI_Comm comm, int first_tag, std::int64_t chunk_elements) {
    ESCALIER_CHECK(chunk_elements >= 1 && chunk_elements <= std::numeric_limits<int>::max(),
                   "chunk size out of range");
    int rank = 0, size = 1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    return std::make_unique<MessageLane>(comm, rank, size, first_tag, chunk_elements);
}

}  // namespace escalier::comm
