// Chunk c of a tensor goes through three steps on every rank:
//   stage(c)   copy what other ranks will combine into the input of the own slot
//   reduce(c)  once all have staged: combine the own piece in rank order, into x and the result of the own
//   slot fetch(c)   once all have reduced: copy their results
// in the order stage(0) stage(1) reduce(0) fetch(0) stage(2) reduce(1) fetch(1) …, with two slots per rank.
// The input of chunk c - 2 may be overwritten by stage(c) once all ranks have reduced c - 2 (they read it
// there); its result is overwritten by reduce(c), when all have staged c and thus fetched c - 2. Short
// tensors skip the pieces: everybody stages all of it and combines all of it, one wait instead of two.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "comm/mpi_check.h"
#include "comm/reduce_lane.h"
#include "comm/shared_memory.h"
#include "comm/sum_scratch.h"

namespace escalier::comm {

namespace {

// Chunks so far, over all operations; each on a cache line of its own.
struct alignas(64) Counter {
    std::atomic<std::int64_t> value;
};
struct Counters {
    Counter staged;
    Counter reduced;
};

class SharedLane final : public ReduceLane {
 public:
    SharedLane(std::unique_ptr<SharedMemory> memory, int rank, int size, std::int64_t slot_bytes)
        : memory_(std::move(memory)),
          rank_(rank),
          size_(size),
          slot_bytes_(slot_bytes),
          stride_(shared_slot_stride(size, slot_bytes)),
          sources_(static_cast<std::size_t>(size)) {}

    static std::size_t bytes(int size, std::int64_t slot_bytes) {
        return static_cast<std::size_t>(size) *
               (sizeof(Counters) +
                static_cast<std::size_t>(shared_slots * shared_slot_stride(size, slot_bytes)));
    }

    void begin(TensorView x, Combine combine, TensorView) override {
        x_ = static_cast<char*>(x.data());
        dtype_ = x.dtype();
        element_ = static_cast<std::int64_t>(size_of(dtype_));
        elements_ = x.elements();
        combine_ = combine;
        whole_ = elements_ * element_ <= std::min(whole_bytes, slot_bytes_);
        chunk_elements_ = slot_bytes_ / element_;
        chunks_ = (elements_ + chunk_elements_ - 1) / chunk_elements_;
        staged_ = reduced_ = fetched_ = 0;
    }

    Polled advance() override {
        bool moved = false;
        while (fetched_ < chunks_) {
            const bool stage_next = staged_ < chunks_ && staged_ <= fetched_ + 1;
            if (stage_next && all_reached(&Counters::reduced, first_ + staged_ - 1)) {
                stage(staged_++);
            } else if (reduced_ == fetched_ && reduced_ < staged_ && !stage_next &&
                       all_reached(&Counters::staged, first_ + reduced_ + 1)) {
                reduce(reduced_++);
                if (whole_) ++fetched_;
            } else if (fetched_ < reduced_ && all_reached(&Counters::reduced, first_ + fetched_ + 1)) {
                fetch(fetched_++);
            } else {
                return moved ? Polled::moved : Polled::waiting;
            }
            moved = true;
        }
        first_ += chunks_;
        chunks_ = fetched_ = 0;
        return Polled::done;
    }

    std::int64_t scratch_elements(std::int64_t) const override { return 0; }
    std::int64_t largest_scratch() const override { return 0; }

 private:
    static constexpr std::int64_t whole_bytes = 64 * 1024;

    struct Piece {  // of a chunk, in elements from its start
        std::int64_t begin = 0;
        std::int64_t count = 0;
    };
    std::int64_t chunk_length(std::int64_t chunk) const {
        return std::min(chunk_elements_, elements_ - chunk * chunk_elements_);
    }
    Piece piece(std::int64_t chunk, int rank) const {
        const std::int64_t length = chunk_length(chunk);
        if (whole_) return {0, length};
        constexpr std::int64_t granule = 16;  // whole cache lines
        const std::int64_t granules = (length + granule - 1) / granule;
        const std::int64_t begin = std::min(length, granules * rank / size_ * granule);
        const std::int64_t end = std::min(length, granules * (rank + 1) / size_ * granule);
        return {begin, end - begin};
    }
    Counters& counters(int rank) const { return reinterpret_cast<Counters*>(memory_->data())[rank]; }
    char* input(std::int64_t chunk, int rank, std::int64_t at) const {
        char* slots_begin = memory_->data() + static_cast<std::size_t>(size_) * sizeof(Counters);
        return slots_begin + (rank * shared_slots + (first_ + chunk) % shared_slots) * stride_ +
               at * element_;
    }
    char* result(std::int64_t chunk, int rank) const { return input(chunk, rank, 0) + slot_bytes_; }
    char* tensor(std::int64_t chunk, std::int64_t at) const {
        return x_ + (chunk * chunk_elements_ + at) * element_;
    }
    bool all_reached(Counter Counters::*counter, std::int64_t value) const {
        for (int r = 0; r < size_; ++r)
            if ((counters(r).*counter).value.load(std::memory_order_acquire) < value) return false;
        return true;
    }
    void publish(Counter Counters::*counter) {
        std::atomic<std::int64_t>& value = (counters(rank_).*counter).value;
        value.store(value.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }

    void stage(std::int64_t chunk) {
        const std::int64_t length = chunk_length(chunk);
        if (whole_) {
            copy(input(chunk, rank_, 0), tensor(chunk, 0), length);
        } else {  // all but the own piece
            const Piece own = piece(chunk, rank_);
            const std::int64_t end = own.begin + own.count;
            copy(input(chunk, rank_, 0), tensor(chunk, 0), own.begin);
            copy(input(chunk, rank_, end), tensor(chunk, end), length - end);
        }
        publish(&Counters::staged);
    }
    void reduce(std::int64_t chunk) {
        const Piece own = piece(chunk, rank_);
        char* sum = tensor(chunk, own.begin);
        for (int r = 0; r < size_; ++r)
            sources_[static_cast<std::size_t>(r)] = r == rank_ ? sum : input(chunk, r, own.begin);
        combine_in_order(combine_, dtype_, sum, sources_.data(), size_, own.count);
        if (!whole_) copy(result(chunk, rank_), sum, own.count);
        publish(&Counters::reduced);
    }
    void fetch(std::int64_t chunk) {
        for (int r = 0; r < size_; ++r) {
            if (r == rank_) continue;
            const Piece theirs = piece(chunk, r);
            copy(tensor(chunk, theirs.begin), result(chunk, r), theirs.count);
        }
    }
    void copy(char* to, const char* from, std::int64_t elements) const {
        std::memcpy(to, from, static_cast<std::size_t>(elements * element_));
    }

    std::unique_ptr<SharedMemory> memory_;
    int rank_;
    int size_;
    std::int64_t slot_bytes_;
    std::int64_t stride_;
    std::vector<const void*> sources_;
    std::int64_t first_ = 0;  // number of this operation's chunk 0 among all chunks so far

    char* x_ = nullptr;
    DType dtype_ = DType::f32;
    std::int64_t element_ = 4;
    std::int64_t elements_ = 0;
    Combine combine_ = Combine::sum;
    bool whole_ = false;
    std::int64_t chunk_elements_ = 0;
    std::int64_t chunks_ = 0;
    std::int64_t staged_ = 0;
    std::int64_t reduced_ = 0;
    std::int64_t fetched_ = 0;
};

}  // namespace

std::unique_ptr<ReduceLane> make_shared_lane(MPI_Comm comm, std::int64_t slot_bytes) {
    int rank = 0, size = 1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    auto memory = SharedMemory::create(comm, SharedLane::bytes(size, slot_bytes));
    if (!memory) return nullptr;
    return std::make_unique<SharedLane>(std::move(memory), rank, size, slot_bytes);
}

}  // namespace escalier::comm
