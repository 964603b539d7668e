// A job that ends badly on purpose, in the way its argument says; dying_job_test.py watches how it ends.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "comm/mpi_env.h"
#include "core/tensor_view.h"

using namespace escalier;

namespace {

constexpr double timeout_s = 3;

void wait_for_all(comm::MpiEnv& env, const char* label) {
    double x = 1;
    env.world().all_reduce_sum(TensorView(&x, DType::f64, Shape{1}), label);
}

void run(comm::MpiEnv& env, const std::string& way) {
    const int rank = env.world().rank();
    env.start_watchdog(timeout_s);
    wait_for_all(env, "the loss of step 1");
    usleep(1500 * 1000);  // the ranks have told one another what they waited for
    if (way == "stopped" && rank == 1) raise(SIGSTOP);
    if (way == "busy" && rank == 1) sleep(60);
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
