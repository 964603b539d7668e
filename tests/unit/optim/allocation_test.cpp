// The step loop allocates nothing: every operator new of this binary is counted.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "device/device.h"
#include "optim/completion.h"
#include "optim/grad_norm.h"
#include "optim/grad_reducer.h"
#include "optim/optimizer.h"
#include "tests/unit/optim/fake_group.h"
#include "tests/unit/optim/parameters.h"

namespace {
std::atomic<std::int64_t> allocations{0};
}

// Not inlined: GCC would take malloc and free for a mismatched pair.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
    ++allocations;
    if (void* memory = std::malloc(bytes ? bytes : 1)) return memory;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}

namespace escalier::optim {
namespace {

TEST(StepLoop, AllocatesNothing) {
    MadeParameters made;
    made.add({300, 70}).tie_group = 0;
    made.add({70});
    made.add({70}).replicas = model::Replicas::tp_sum;
    made.add({300, 80}).replicas = model::Replicas::kv_sum;
    model::Parameter& head = made.add({300, 70});
    head.tie_group = 0;
    head.counted = false;
    head.weight = made.list[0].weight;
    made.fill();

    OpRunner runner;
    FakeTraffic traffic;
    FakeGroup job, dp(2, &traffic);
    parallel::Groups groups(job, parallel::Grid{}, 1);
    groups.tp = std::make_unique<FakeGroup>(2);
    groups.kv = std::make_unique<FakeGroup>(2);
    const auto device = device::make_cpu_device();
    device::Arena arena("all", device->allocator(), 64 << 20);
    GradientReducer reducer(made.list, {0}, dp, runner.ops, arena, {1000, 2});
    GradientCompletion completion(made.list, groups, runner.ops, arena);
    device::Arenas measured = device::Arenas::measuring();
    GradientNorm(made.list, 5, groups, runner.ops, *device, measured);
    device::Arenas arenas =
        device::Arenas::allocated(measured, device->allocator(), device->host_allocator());
    GradientNorm norm(made.list, 5, groups, runner.ops, *device, arenas);
    const auto optimizer = make_optimizer(config::OptimizerConfig{}, made.list, runner.ops, arena);

    const auto step = [&](std::int64_t number) {
        reducer.start(runner.context, 0);
        reducer.poll(runner.context);
        reducer.finish(runner.context);
        completion.run(runner.context);
        norm.queue(runner.context);
        optimizer->step(runner.context, 1e-3, clip_coefficient(norm.finish(), 1.0), number);
    };
    step(1);
    const std::int64_t before = allocations;
    for (int number = 2; number <= 4; ++number) step(number);
    EXPECT_EQ(allocations - before, 0);
    std::vector<int> probe(3);
    EXPECT_GT(allocations - before, 0) << "the counter does not count";
    EXPECT_EQ(probe.size(), 3u);
}

}  // namespace
}  // namespace escalier::optim
