// Gradient reduction, completion and norm between real ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "optim/completion.h"
#include "optim/grad_norm.h"
#include "optim/grad_reducer.h"
#include "tests/harness/multirank_env.h"
#include "tests/multirank/optim/grid_model.h"

namespace escalier::multirank {
namespace {

const kernels::Ops& ops = kernels::cpu_ops();

// Of very unlike magnitudes, so that another order of summation shows.
float part(int dp_rank, std::size_t entry, std::int64_t i) {
    const float x = static_cast<float>(i) + 100.0f * static_cast<float>(entry);
    return std::sin(x + 0.7f * static_cast<float>(dp_rank)) *
           std::ldexp(1.0f, (static_cast<int>(i % 7) * (dp_rank + 1)) % 11 - 5);
}

std::int64_t count_unlike_sequential_sums(const GridModel& model, int replicas) {
    std::int64_t unlike = 0;
    for (std::size_t entry = 0; entry < model.parameters.size(); ++entry) {
        const TensorView gradient = model.parameters[entry].gradient;
        for (std::int64_t i = 0; i < gradient.elements(); ++i) {
            float sum = part(0, entry, i);
            for (int rank = 1; rank < replicas; ++rank) sum += part(rank, entry, i);
            unlike += gradient.as<float>()[i] != sum;
        }
    }
    return unlike;
}

TEST(GradientReduction, IsTheSumInRankOrderBitForBitWhateverTheBucket) {
    comm::Communicator& world = test::env().world();
    GridModel model(small_model("gpt2"), {1, 1, world.size()}, world);
    for (std::int64_t bucket_elements : {13, 1000, 4097, 1 << 20}) {
        const optim::ReducerOptions options{bucket_elements, 3};
        device::Arena measured("communication");
        optim::GradientReducer(model.parameters, {0}, *model.groups.dp, ops, measured, options);
        device::Arena arena("communication", model.device->allocator(), measured.used());
        optim::GradientReducer reducer(model.parameters, {0}, *model.groups.dp, ops, arena, options);
        for (int step = 0; step < 2; ++step) {
            for (std::size_t entry = 0; entry < model.parameters.size(); ++entry) {
                const TensorView gradient = model.parameters[entry].gradient;
                for (std::int64_t i = 0; i < gradient.elements(); ++i)
                    gradient.as<float>()[i] = part(model.groups.place.dp_rank, entry, i);
            }
            reducer.start(model.context, 0);
            for (int i = 0; i < 5; ++i) reducer.poll(model.context);
            reducer.finish(model.context);
            EXPECT_EQ(count_unlike_sequential_sums(model, world.size()), 0)
                << "bucket " << bucket_elements << " step " << step;
        }
    }
}

// Reduces and completes this rank's gradient parts and returns the norm.
double reduce_and_measure(GridModel& model) {
    std::optional<optim::GradientReducer> reducer;
    std::optional<optim::GradientCompletion> completion;
    std::optional<optim::GradientNorm> norm;
    const auto create = [&](device::Arenas& arenas) {
        reducer.emplace(model.parameters, std::vector<int>{model.groups.place.pp_rank}, *model.groups.dp, ops,
                        arenas.communication);
        completion.emplace(model.parameters, model.groups, ops, arenas.communication);
        norm.emplace(model.parameters, model.global_entries, model.groups, ops, *model.device, arenas);
    };
    device::Arenas measured = device::Arenas::measuring();
    create(measured);
    device::Arenas arenas =
        device::Arenas::allocated(measured, model.device->allocator(), model.device->host_allocator());
    create(arenas);
    model.set_gradient_parts();
    reducer->start(model.context, 0);
    reducer->finish(model.context);
    completion->run(model.context);
    norm->queue(model.context);
    return norm->finish();
}

// Every gradient that the optimizer reads equals the weight, the tied one twice the weight.
std::int64_t count_wrong_gradients(const GridModel& model) {
    std::int64_t wrong = 0;
    const bool shared = model.groups.grid.pp == 1;
    bool tie_seen = false;
    for (const model::Parameter& parameter : model.parameters) {
        const bool tied = parameter.tie_group >= 0;
        if (tied && shared && std::exchange(tie_seen, true)) continue;
        for (std::int64_t i = 0; i < parameter.weight.elements(); ++i)
            wrong +=
                parameter.gradient.as<float>()[i] != parameter.weight.as<float>()[i] * (tied ? 2.0f : 1.0f);
    }
    return wrong;
}

class GradientNormOnGrids : public ::testing::TestWithParam<std::string> {};

TEST_P(GradientNormOnGrids, IsTheSameOnEveryRankAndGrid) {
    comm::Communicator& world = test::env().world();
    const auto alone = world.split(world.rank(), 0);
    GridModel whole(small_model(GetParam()), {1, 1, 1}, *alone);
    const double expected = reduce_and_measure(whole);
    EXPECT_EQ(count_wrong_gradients(whole), 0);

    for (const parallel::Grid& grid : grids_of(world.size())) {
        GridModel model(small_model(GetParam()), grid, world);
        double norm = reduce_and_measure(model);
        EXPECT_EQ(count_wrong_gradients(model), 0) << grid.text();
        if (grid.tp == 1)
            EXPECT_EQ(norm, expected) << grid.text();
        else
            EXPECT_NEAR(norm / expected, 1.0, 1e-12) << grid.text();
        std::vector<double> norms(static_cast<std::size_t>(world.size()));
        world.all_gather(TensorView(norms.data(), DType::f64, {world.size()}),
                         TensorView(&norm, DType::f64, {1}), "norms of all ranks");
        for (double other : norms) EXPECT_EQ(other, norm) << grid.text();
    }
}

TEST_P(GradientNormOnGrids, IsNonFiniteEverywhereIfOneRankHasANan) {
    comm::Communicator& world = test::env().world();
    for (const parallel::Grid& grid : grids_of(world.size())) {
        GridModel model(small_model(GetParam()), grid, world);
        if (world.rank() == world.size() - 1)
            for (const model::Parameter& parameter : model.parameters)
                if (parameter.replicas == model::Replicas::none && parameter.weight.elements() > 0) {
                    parameter.weight.as<float>()[0] = NAN;
                    break;
                }
        EXPECT_FALSE(std::isfinite(reduce_and_measure(model))) << grid.text();
    }
}

INSTANTIATE_TEST_SUITE_P(Models, GradientNormOnGrids,
                         ::testing::Values("gpt2", "llama 1 kv head", "llama 2 kv heads"));

}  // namespace
}  // namespace escalier::multirank
