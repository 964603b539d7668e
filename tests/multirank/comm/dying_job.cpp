// A job that ends badly on purpose, in the way its argument says; dying_job_test.py watches how it ends.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "comm/mpi_env.h"
#include "core/tensor_view.h"

using namespace escalier;

namespace {

constexpr double timeout_s = 3;

void wait_for_all(comm::MpiEnv& env, const char* label) {
    double x = 1;
    env.world().all_reduce_sum(TensorView(&x, DType::f64, Shape{1}), label);
}

// All but the last rank work in turns, each a tenth of the timeout, for four times as long as it; the last
// one goes on to wait for all.
void hand_over(comm::MpiEnv& env) {
    const int rank = env.world().rank(), workers = env.world().size() - 1, turns = 40;
    env.start_watchdog(timeout_s * (1 + 0.07 * rank));  // the ranks report at times of their own
    std::vector<std::unique_ptr<comm::Channel>> to_next;
    for (int from = 0; from < workers; ++from)
        to_next.push_back(env.make_channel(env.world(), from, (from + 1) % workers, 1));
    double x = 0;
    const TensorView token(&x, DType::f64, Shape{1});
    for (int turn = 0; turn < turns; ++turn) {
        comm::Channel* const channel = to_next[static_cast<std::size_t>(turn % workers)].get();
        if (rank == turn % workers) {
            usleep(static_cast<useconds_t>(timeout_s * 1e5));
            channel->wait(channel->start_send(token), "room for the token");
        } else if (rank == (turn + 1) % workers) {
            channel->wait(channel->start_receive(token), "the token");
        }
    }
}

void run(comm::MpiEnv& env, const std::string& way) {
    const int rank = env.world().rank();
    env.start_watchdog(timeout_s);
    wait_for_all(env, "the loss of step 1");
    usleep(1500 * 1000);  // the ranks have told one another what they waited for
    if (way == "stopped" && rank == 1) raise(SIGSTOP);
    if (way == "busy" && rank == 1) sleep(60);
    if (way == "handing over") hand_over(env);
    if (way == "slow" && rank == 1) {
        std::fprintf(stderr, "working\n");
        sleep(2);
    }
    if (way == "killed" && rank == 1) raise(SIGKILL);
    if (way == "aborted" && rank != 0) env.abort(66, "no file on some ranks");
    if (way == "agreed")
        env.agree([&] {
            if (rank >= 1) throw IoError::read("no file on rank " + std::to_string(rank));
        });
    wait_for_all(env, "the gradient norm");
    if (way == "stopped at the end") {
        env.ends_with(75);
        if (rank == 1) raise(SIGSTOP);
    }
}

}  // namespace

int main(int argc, char** argv) {
    comm::MpiEnv env(&argc, &argv);
    try {
        run(env, argc > 1 ? argv[1] : "");
    } catch (const comm::AgreedError& error) {
        if (env.world().rank() == 0) std::fprintf(stderr, "escalier: %s\n", error.what());
        return static_cast<int>(error.code());
    }
    return 0;
}
