// A pipeline of one stage per rank whose rank STAGE stops itself (SIGSTOP) in the middle of its F or B of a
// micro-batch; stopped_pipeline_test.py reads what the other ranks say. The next stage waits before it goes
// on to the micro-batch after that, so that what it then sends finds the rank stopped.
//
//   stopped_pipeline KIND STAGE F|B MICRO_BATCH ELEMENTS_OF_A_MESSAGE
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "comm/mpi_env.h"
#include "device/device.h"
#include "pipeline/channels.h"
#include "pipeline/executor.h"
#include "schedule/generators.h"
#include "schedule/lower.h"
#include "tests/harness/fake_stage.h"

using namespace escalier;

namespace {

constexpr double timeout_s = 3;
constexpr int micro_batches = 6;

void run(comm::MpiEnv& env, const std::string& kind, int stopped, char action, int micro_batch,
         std::int64_t elements) {
    comm::Communicator& world = env.world();
    schedule::GenerateOptions options;
    options.kind = kind;
    options.pp = world.size();
    options.micro_batches = micro_batches;
    const schedule::Schedule schedule = schedule::generate(options);
    const std::vector<schedule::Program> programs = schedule::lower(schedule);
    const schedule::Program& program = programs[static_cast<std::size_t>(world.rank())];
    const auto transport = comm::make_mpi_transport(env);
    pipeline::Channels channels(*transport, world, schedule, programs, {}, false);
    pipeline::RealClock clock;
    const auto device = device::make_cpu_device();
    int forwards = 0, backwards = 0;  // segments run so far: three an action, micro-batches in order
    test::FakeStage stage(world.rank(), world.size(), elements, program.chunks[0],
                          [&](schedule::ActionKind done) {
                              int& count = done == schedule::ActionKind::F ? forwards : backwards;
                              const bool here = (done == schedule::ActionKind::F) == (action == 'F');
                              const int segment = count++ - 3 * micro_batch;
                              if (here && segment == 1 && world.rank() == stopped) raise(SIGSTOP);
                              if (here && segment == 3 && world.rank() == stopped + 1) sleep(1);
                          });
    const auto make = [&](device::Arena& arena) {
        return std::make_unique<pipeline::Executor>(program, std::vector<model::Stage*>{&stage}, DType::f32,
                                                    Shape{1, elements}, arena, channels, clock, nullptr,
                                                    nullptr, &env.activity());
    };
    device::Arena measured("communication");
    make(measured);
    device::Arena arena("communication", device->allocator(), measured.used());
    const auto executor = make(arena);
    env.start_watchdog(timeout_s);
    executor->run_step();
    world.barrier("the end of the step");
}

}  // namespace

int main(int argc, char** argv) {
    comm::MpiEnv env(&argc, &argv);
    if (argc != 6) return 2;
    run(env, argv[1], std::atoi(argv[2]), *argv[3], std::atoi(argv[4]), std::atoll(argv[5]));
    return 0;
}
