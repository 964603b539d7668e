#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/error.h"
#include "every_order.h"
#include "schedule/generators.h"
#include "schedule/memory.h"
#include "schedule/prove.h"
#include "schedule/simulate.h"

namespace escalier::schedule {
namespace {

struct Model {
    int pp, chunks, micro_batches;
    StageCosts costs;

    GenerateOptions options(std::string kind = "auto") const {
        GenerateOptions options{
            .kind = std::move(kind), .pp = pp, .chunks = chunks, .micro_batches = micro_batches};
        if (options.kind == "auto") options.costs = std::make_shared<const StageCosts>(costs);
        return options;
    }
    std::string name() const {
        std::string text = "P " + std::to_string(pp) + ", chunks " + std::to_string(chunks) + ", M " +
                           std::to_string(micro_batches) + ", transfer " +
                           std::to_string(costs.durations.transfer) + ", limits";
        for (const double limit : costs.memory_limits) text += " " + std::to_string(limit);
        return text;
    }
    double time(const Schedule& schedule) const { return simulate(schedule, costs.durations).makespan; }
};

// Stages whose times and bytes lie up to `spread` beside 1.
Model uneven_model(int pp, int chunks, int micro_batches, double spread, unsigned seed) {
    Model model{pp, chunks, micro_batches, {}};
    const int stages = pp * chunks;
    std::mt19937 bits(seed);
    const auto near_one = [&] { return 1 + spread * (static_cast<double>(bits() % 2001) / 1000 - 1); };
    model.costs.durations = Durations::uniform(stages, 1, 1, 1, seed % 2 == 0 ? 0 : 0.1);
    model.costs.bytes = ActivationBytes::unit(stages);
    for (std::size_t stage = 0; stage < static_cast<std::size_t>(stages); ++stage) {
        const double layers = near_one();
        model.costs.durations.forward[stage] = layers * near_one();
        model.costs.durations.input_gradient[stage] = layers * near_one();
        model.costs.durations.weight_gradient[stage] = 0.7 * layers;
        model.costs.bytes.linear_inputs[stage] = layers;
        model.costs.bytes.forward[stage] = 0.5 * layers;
        model.costs.bytes.output_gradients[stage] = 0.25 * layers;
    }
    return model;
}

double most(const std::vector<double>& values) {
    return *std::max_element(values.begin(), values.end());
}

std::vector<Schedule> fixed_schedules(const Model& model) {
    std::vector<Schedule> schedules;
    for (const Kind& kind : kinds()) {
        if (kind.name == "auto") continue;
        const GenerateOptions options = model.options(std::string(kind.name));
        if (!size_problem(kind, options).empty()) continue;
        Schedule schedule = generate(options);
        if (schedule.copies() == 1) schedules.push_back(std::move(schedule));
    }
    return schedules;
}

// Infinite if no fixed kind fits.
double best_fixed_time(const Model& model) {
    double best = std::numeric_limits<double>::infinity();
    for (const Schedule& schedule : fixed_schedules(model)) {
        const std::vector<double> peaks = peak_bytes(schedule, model.costs.bytes);
        bool fits = true;
        for (std::size_t rank = 0; rank < peaks.size(); ++rank)
            fits =
                fits && (model.costs.memory_limits.empty() || peaks[rank] <= model.costs.memory_limits[rank]);
        if (fits) best = std::min(best, model.time(schedule));
    }
    return best;
}

// What any schedule of `auto` owes. Returns its time.
double checked_time(const Model& model) {
    const Schedule schedule = generate(model.options());
    EXPECT_EQ(schedule.kind, "auto");
    EXPECT_TRUE(prove(schedule).exact) << model.name();
    const std::vector<double> peaks = peak_bytes(schedule, model.costs.bytes);
    for (std::size_t rank = 0; rank < model.costs.memory_limits.size(); ++rank)
        EXPECT_LE(peaks[rank], model.costs.memory_limits[rank] * (1 + 1e-9))
            << model.name() << ", rank " << rank;
    return model.time(schedule);
}

// Limits half-way between the peaks of two fixed schedules of which the one that does not fit is faster than
// all that do.
std::vector<double> limits_between(const Model& model) {
    std::vector<std::pair<double, double>> fixed;  // peak, time
    for (const Schedule& schedule : fixed_schedules(model))
        fixed.emplace_back(most(peak_bytes(schedule, model.costs.bytes)), model.time(schedule));
    std::sort(fixed.begin(), fixed.end());
    std::vector<double> limits;
    auto [peak, time] = fixed.front();
    for (const auto& [next_peak, next_time] : fixed) {
        if (next_time >= time * (1 - 1e-6)) continue;
        if (next_peak > peak) limits.push_back((peak + next_peak) / 2);
        peak = next_peak;
        time = next_time;
    }
    return limits;
}

TEST(Auto, NeverSlowerThanTheBestFixedKindThatFitsAndMostlyFaster) {
    int cases = 0, faster = 0;
    std::vector<double> gains_between;
    unsigned seed = 1;
    for (const auto& [pp, chunks] : {std::pair{2, 1}, {4, 1}, {6, 1}, {2, 2}, {3, 2}, {4, 2}, {6, 2}}) {
        for (const double spread : {0.0, 0.1, 0.2, 0.3, 0.5}) {
            Model model = uneven_model(pp, chunks, (seed % 3 + 2) * pp, spread, seed);
            ++seed;
            std::vector<std::vector<double>> all_limits;
            if (spread > 0) all_limits.emplace_back();
            for (const double limit : limits_between(model))
                all_limits.emplace_back(static_cast<std::size_t>(pp), limit);
            for (const auto& limits : all_limits) {
                model.costs.memory_limits = limits;
                const double fixed = best_fixed_time(model), own = checked_time(model);
                ASSERT_LT(fixed, std::numeric_limits<double>::infinity());
                EXPECT_LE(own, fixed) << model.name();
                ++cases;
                if (own < fixed * (1 - 1e-6)) ++faster;
                if (!limits.empty()) gains_between.push_back(fixed / own - 1);
            }
        }
    }
    EXPECT_GE(cases, 60);
    EXPECT_GE(2 * faster, cases);
    std::sort(gains_between.begin(), gains_between.end());
    EXPECT_GE(gains_between[gains_between.size() / 2], 0.05);
}

TEST(Auto, IsNearEveryOrderThereIs) {
    struct Size {
        int pp, chunks, micro_batches;
        double limit;  // in stages' activations; 0: none
        OrderRule rule;
    };
    const std::vector<Size> sizes = {
        {2, 1, 2, 0, OrderRule::any},       {2, 1, 3, 0, OrderRule::any},
        {2, 1, 3, 2, OrderRule::any},       {3, 1, 2, 0, OrderRule::any},
        {3, 1, 2, 1, OrderRule::any},       {4, 1, 2, 0, OrderRule::any},
        {2, 2, 1, 0, OrderRule::any},       {3, 2, 1, 0, OrderRule::any},
        {2, 1, 4, 0, OrderRule::ascending}, {2, 1, 4, 2, OrderRule::ascending},
        {3, 1, 3, 0, OrderRule::ascending}, {3, 1, 3, 2, OrderRule::ascending},
        {2, 2, 2, 3, OrderRule::ascending}, {2, 2, 2, 2, OrderRule::ascending},
    };
    unsigned seed = 1;
    for (const Size& size : sizes) {
        for (const double spread : {0.0, 0.5, 0.8}) {
            Model model = uneven_model(size.pp, size.chunks, size.micro_batches, spread, seed++);
            model.costs.bytes = ActivationBytes::unit(size.pp * size.chunks);
            if (size.limit > 0)
                model.costs.memory_limits.assign(static_cast<std::size_t>(size.pp), size.limit);
            double least = std::numeric_limits<double>::infinity();
            for (const Placement placement : {Placement::loop, Placement::v}) {
                if (size.chunks == 1 && placement == Placement::v) continue;
                const Schedule best = best_of_every_order(model.options(), placement, size.rule);
                least = std::min(least, model.time(best));
            }
            const double own = checked_time(model);
            EXPECT_LE(own, 1.02 * least) << model.name();
            EXPECT_GE(own, least * (1 - 1e-9)) << model.name() << ": some orders were not tried";
        }
    }
}

TEST(Auto, IsTheSameEveryTime) {
    Model model = uneven_model(4, 2, 10, 0.4, 5);
    model.costs.memory_limits.assign(4, 9);
    EXPECT_EQ(generate(model.options()).ranks, generate(model.options()).ranks);
}

TEST(Auto, RunsWithoutCostsAndWithAnySize) {
    for (int pp = 1; pp <= 4; ++pp)
        for (int chunks = 1; chunks <= 3; ++chunks)
            for (const int micro_batches : {1, 2, 3, 7}) {
                const Model model{pp, chunks, micro_batches, {}};
                GenerateOptions options = model.options();
                options.costs = nullptr;
                const Schedule schedule = generate(options);
                EXPECT_TRUE(prove(schedule).exact);
                const Durations equal = Durations::uniform(pp * chunks, 1, 1, 1, 0);
                for (const Schedule& fixed : fixed_schedules(model))
                    EXPECT_LE(simulate(schedule, equal).makespan, simulate(fixed, equal).makespan)
                        << model.name() << " " << fixed.kind;
            }
}

TEST(Auto, OneMicroBatchAtATimeFitsTheLeastMemory) {
    for (const int chunks : {1, 2, 3}) {
        Model model = uneven_model(3, chunks, 5, 0.5, 11);
        const GenerateOptions alone{.kind = "auto", .pp = 3, .chunks = chunks, .micro_batches = 1};
        model.costs.memory_limits = peak_bytes(generate(alone), model.costs.bytes);
        checked_time(model);
    }
}

TEST(Auto, AMicroBatchThatDoesNotFitIsRefused) {
    Model model = uneven_model(4, 1, 8, 0, 2);
    model.costs.memory_limits = {2, 2, 1.5, 2};
    try {
        generate(model.options());
        FAIL() << "a schedule was made";
    } catch (const ConfigError& error) {
        const std::string message = error.what();
        for (const std::string part : {"rank 2 needs 1.75", "limit is 1.5", "raise the limit"})
            EXPECT_NE(message.find(part), std::string::npos) << message;
    }
}

}  // namespace
}  // namespace escalier::schedule
