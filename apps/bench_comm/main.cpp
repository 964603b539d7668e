// Measures comm between the ranks of one launch: sums in rank order through shared memory and by messages,
// beside MPI_Allreduce, and pipeline channels. Run it with mpirun -n 2; every row is a median over rounds in
// which all ways take turns, so that a noisy machine hits them alike.
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/mpi_communicator.h"
#include "comm/mpi_env.h"
#include "core/clock.h"
#include "device/arena.h"
#include "device/device.h"

using namespace escalier;

namespace {

struct Contestant {
    std::string name;
    std::function<void(TensorView)> sum;
    std::vector<double> seconds;
};

double median(std::vector<double>& values) {
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                     values.end());
    return values[values.size() / 2];
}

// Seconds per call on the slowest rank.
double time_of(comm::Communicator& world, int calls, const std::function<void()>& work) {
    world.barrier("start");
    const double begin = now_seconds();
    for (int i = 0; i < calls; ++i) work();
    double seconds = (now_seconds() - begin) / calls;
    world.all_reduce_max(TensorView(&seconds, DType::f64, Shape{1}), "slowest rank");
    return seconds;
}

class Bench {
 public:
    explicit Bench(comm::MpiEnv& env, std::int64_t largest)
        : env_(env),
          world_(env.world()),
          arena_("bench", device_->allocator(),
                 2 * static_cast<std::size_t>(largest) * sizeof(float) + 4096) {
        buffer_ = arena_.take(DType::f32, Shape{largest});
        scratch_ = arena_.take(DType::f32, Shape{largest});
        comm::CommOptions messages;
        messages.shared_memory = false;
        messages_ = env.make_world(messages);
        for (const std::int64_t kib : {64, 128, 512, 1024}) {
            comm::CommOptions options;
            options.slot_bytes = options.background_slot_bytes = kib * 1024;
            slots_.push_back(env.make_world(options));
            add("shared memory, slots of " + std::to_string(kib) + " KiB", *slots_.back());
        }
        add("shared memory", world_);
        add("messages", *messages_);
        contestants_.push_back({"MPI_Allreduce",
                                [](TensorView x) {
                                    MPI_Allreduce(MPI_IN_PLACE, x.data(), static_cast<int>(x.elements()),
                                                  MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
                                },
                                {}});
        contestants_.push_back(
            {"shared memory, in the background", [this](TensorView x) { background(world_, x); }, {}});
        contestants_.push_back(
            {"messages, in the background", [this](TensorView x) { background(*messages_, x); }, {}});
    }

    void sums(std::int64_t elements, int calls, int rounds) {
        const TensorView x = buffer_.rows(0, elements);
        for (Contestant& way : contestants_) way.seconds.clear();
        for (int round = 0; round < rounds; ++round)
            for (Contestant& way : contestants_)
                way.seconds.push_back(time_of(world_, calls, [&] { way.sum(x); }));
        const double megabytes = static_cast<double>(x.bytes()) / 1e6;
        for (Contestant& way : contestants_) {
            const double seconds = median(way.seconds);
            print("sum of %9.3f MB  %-34s %10.3f ms  %7.2f GB/s", megabytes, way.name.c_str(), seconds * 1e3,
                  megabytes / 1e3 / seconds);
        }
    }

    void messages(std::int64_t elements, int calls, int rounds) {
        const auto there = env_.make_channel(world_, 0, 1, 1), back = env_.make_channel(world_, 1, 0, 1);
        const TensorView x = buffer_.rows(0, elements);
        std::vector<double> seconds;
        for (int round = 0; round < rounds; ++round)
            seconds.push_back(time_of(world_, calls, [&] {
                const int rank = world_.rank();
                if (rank == 0) there->wait(there->start_send(x), "ping");
                if (rank == 1) there->wait(there->start_receive(x), "ping");
                if (rank == 1) back->wait(back->start_send(x), "pong");
                if (rank == 0) back->wait(back->start_receive(x), "pong");
            }));
        const double one_way = median(seconds) / 2, megabytes = static_cast<double>(x.bytes()) / 1e6;
        print("message of %6.3f MB  one way %40.3f ms  %7.2f GB/s", megabytes, one_way * 1e3,
              megabytes / 1e3 / one_way);
    }

 private:
    void add(const std::string& name, comm::Communicator& group) {
        contestants_.push_back({name, [&group](TensorView x) { group.all_reduce_sum(x, "sum"); }, {}});
    }
    void background(comm::Communicator& group, TensorView x) {
        const auto sum =
            group.make_all_reduce(x, scratch_.rows(0, group.all_reduce_scratch_elements(x.elements())));
        sum->start();
        sum->wait("sum");
    }
    template <class... Values>
    void print(const char* format, Values... values) {
        if (world_.rank() != 0) return;
        std::printf(format, values...);
        std::printf("\n");
        std::fflush(stdout);
    }

    comm::MpiEnv& env_;
    comm::Communicator& world_;
    std::unique_ptr<device::Device> device_ = device::make_cpu_device();
    device::Arena arena_;
    TensorView buffer_, scratch_;
    std::unique_ptr<comm::Communicator> messages_;
    std::vector<std::unique_ptr<comm::Communicator>> slots_;
    std::vector<Contestant> contestants_;
};

}  // namespace

int main(int argc, char** argv) {
    comm::MpiEnv env(&argc, &argv);
    const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5;
    constexpr std::int64_t largest = 125 * 1000 * 1000;
    Bench bench(env, largest);
    bench.sums(2, 2000, rounds);
    bench.sums(200 * 1000, 100, rounds);
    bench.sums(1575 * 1000, 20, rounds);
    bench.sums(largest, 1, rounds);
    if (env.world().size() > 1) {
        bench.messages(2, 2000, rounds);
        bench.messages(200 * 1000, 100, rounds);
        bench.messages(2000 * 1000, 10, rounds);
    }
    return 0;
}
