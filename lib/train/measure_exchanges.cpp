#include "train/measure_exchanges.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "core/clock.h"
#include "optim/grad_reducer.h"
#include "train/measure_parts.h"

namespace escalier::train {

namespace {

using Work = std::function<void()>;

// before: what is not timed.
double median_seconds(
    Assembly& assembly, comm::MpiEnv& env, comm::Communicator& host, int repeats, const Work& work,
    const Work& before = [] {}) {
    std::vector<double> seconds;
    for (int i = 0; i <= repeats; ++i) {
        before();
        host.barrier("the start of a measurement");
        const double start = now_seconds();
        work();
        assembly.backend().wait(env, "the device to finish a measurement");
        if (i > 0) seconds.push_back(now_seconds() - start);  // connections are made with the first messages
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
}

// Of the ranks that took part: those that only waited have seen nothing of it.
double slowest_rank(comm::Communicator& host, double seconds) {
    host.all_reduce_max(TensorView(&seconds, DType::f64, {1}), "a measured time");
    return seconds;
}

// From the first rank of the group to the second and back, several times.
double message_seconds(Assembly& assembly, comm::MpiEnv& env, comm::Communicator& host, int repeats) {
    constexpr int round_trips = 4;
    comm::Transport& transport = *assembly.backend().transport;
    const auto there = transport.make_channel(host, 0, 1, 1, false);
    const auto back = transport.make_channel(host, 1, 0, 1, false);
    const model::ModelContext& context = assembly.model().context();
    device::Arenas arenas = device::Arenas::measuring();
    const Shape boundary = {context.shape.rows, context.shape.hidden};
    arenas.communication.take(context.storage, boundary);
    device::Device& device = *assembly.backend().device;
    device::Arenas allocated = device::Arenas::allocated(arenas, device.allocator(), device.host_allocator());
    const TensorView x = allocated.communication.take(context.storage, boundary);
    const auto send = [&](comm::Channel& channel) {
        channel.wait(channel.start_send(x), "a measured message");
    };
    const auto receive = [&](comm::Channel& channel) {
        channel.wait(channel.start_receive(x), "a measured message");
    };
    const int rank = host.rank();
    const double seconds = median_seconds(assembly, env, host, repeats, [&] {
        for (int i = 0; i < round_trips && rank < 2; ++i) {
            if (rank == 0) send(*there);
            rank == 0 ? receive(*back) : receive(*there);
            if (rank == 1) send(*back);
        }
    });
    return slowest_rank(host, seconds) / (2 * round_trips);
}

// Sums follow passes over the whole model, which leave few of its gradients in the caches.
Work a_pass(Assembly& assembly, comm::MpiEnv& env) {
    return [&] { measure_parts(assembly, env); };
}

double reduction_seconds(Assembly& assembly, comm::MpiEnv& env, comm::Communicator& host,
                         comm::Communicator& peers, int repeats) {
    const model::ModelContext& context = assembly.model().context();
    const model::ParameterList& parameters = assembly.model().parameters();
    device::Arenas measured = device::Arenas::measuring();
    { optim::GradientReducer counting(parameters, {0}, peers, context.ops, measured.communication); }
    device::Device& device = *assembly.backend().device;
    device::Arenas arenas = device::Arenas::allocated(measured, device.allocator(), device.host_allocator());
    optim::GradientReducer reducer(parameters, {0}, peers, context.ops, arenas.communication);
    double elements = 0;
    for (const model::Parameter& parameter : parameters)
        elements += static_cast<double>(parameter.gradient.elements());
    const Work sum = [&] {
        reducer.start(context.op, 0);
        reducer.finish(context.op);
    };
    const double seconds = median_seconds(assembly, env, host, repeats, sum, a_pass(assembly, env));
    return seconds / elements;
}

}  // namespace

ExchangeTimes measure_exchanges(Assembly& assembly, comm::MpiEnv& env, comm::Communicator& host_peers,
                                comm::Communicator& peers, int repeats) {
    ExchangeTimes times;
    if (host_peers.size() == 1) return times;
    times.message = message_seconds(assembly, env, host_peers, repeats);
    times.reduction = reduction_seconds(assembly, env, host_peers, peers, repeats);
    std::unique_ptr<comm::Communicator> pair_host =
        host_peers.split(host_peers.rank() / 2, host_peers.rank());
    const bool paired = pair_host->size() == 2;
    const auto pair = assembly.backend().transport->on_device(std::move(pair_host));
    // A table of few words may lie on other tensor ranks altogether; any large tensor takes as long.
    const model::ParameterList& parameters = assembly.model().parameters();
    const TensorView largest = std::max_element(parameters.begin(), parameters.end(),
                                                [](const model::Parameter& a, const model::Parameter& b) {
                                                    return a.gradient.elements() < b.gradient.elements();
                                                })
                                   ->gradient;
    const Work sum = [&] {
        if (paired) pair->all_reduce_sum(largest, "a measured sum over two ranks");
    };
    const double seconds = median_seconds(assembly, env, host_peers, repeats, sum, a_pass(assembly, env));
    times.remote_tie = slowest_rank(host_peers, seconds) / static_cast<double>(largest.elements());
    return times;
}

}  // namespace escalier::train
