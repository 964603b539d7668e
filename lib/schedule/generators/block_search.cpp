#include "schedule/generators/block_search.h"

#include <algorithm>

#include "schedule/generators/search_random.h"

namespace escalier::schedule::generators {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

std::size_t at(int i) {
    return static_cast<std::size_t>(i);
}

// A stage's hop takes `down` times its F (on the first half of the stages), `up` times on the second; its I
// likewise; between the last F and the first I `pause` periods.
BlockGuide block_of(const PlacedModel& model, double down, double up, double pause) {
    BlockGuide block;
    block.period = model.longest_work();
    block.input_gradient.resize(at(model.stages));
    const auto stretch = [&](bool first_half) { return first_half ? down : up; };
    double time = 0;
    for (int stage = 0; stage < model.stages; ++stage) {
        block.forward.push_back(time);
        time += model.duration(ActionKind::F, stage) * stretch(2 * stage < model.stages);
        if (stage + 1 < model.stages) time += model.transfer(stage, stage + 1);
    }
    time += pause * block.period;
    for (int stage = model.stages; stage-- > 0;) {
        block.input_gradient[at(stage)] = time;
        time += model.duration(ActionKind::I, stage) * stretch(2 * stage >= model.stages);
        if (stage > 0) time += model.transfer(stage, stage - 1);
    }
    return block;
}

class BlockSearch {
 public:
    BlockSearch(const PlacedModel& model, std::int64_t passes, std::size_t keep)
        : model_(model),
          scheduler_(model),
          passes_(passes),
          keep_(keep),
          enough_(lower_bound(model) * (1 + rounding)) {}

    std::vector<BlockGuide> run() {
        try_seeds();
        improve();
        std::vector<BlockGuide> blocks;
        for (Found& found : best_) blocks.push_back(std::move(found.block));
        return blocks;
    }

 private:
    struct Found {
        double makespan;
        BlockGuide block;
    };

    bool done() const { return passes_ <= 0 || (!best_.empty() && best_.front().makespan <= enough_); }

    double attempt(const BlockGuide& block, double give_up) {
        --passes_;
        fill_guide(block, model_.shape.micro_batches, guide_);
        const double makespan = scheduler_.run(guide_, give_up);
        const auto place =
            std::upper_bound(best_.begin(), best_.end(), makespan,
                             [](double time, const Found& found) { return time < found.makespan; });
        if (place != best_.end() || best_.size() < keep_) best_.insert(place, {makespan, block});
        if (best_.size() > keep_) best_.pop_back();
        return makespan;
    }

    // Where memory is short, keeping the order of chunks matters most.
    void try_seeds() {
        const bool chunked = model_.stages > model_.shape.pp;
        for (const bool strict : {true, false}) {
            if (strict && !chunked) continue;
            for (const double pause : {0.0, 0.5})
                for (const double down : {1.0, 1.5, 2.0, 3.0})
                    for (const double up : {1.0, 1.5, 2.0, 3.0}) seed(down, up, pause, strict);
            // All that can run forward first, or all that can run backward.
            for (const double pause : {1000.0, -1000.0})
                for (const double down : {1.0, 2.0})
                    for (const double up : {1.0, 2.0}) seed(down, up, pause, strict);
        }
    }

    void seed(double down, double up, double pause, bool strict) {
        for (const double share : {0.0, 0.6}) {
            if (done()) return;
            BlockGuide block = block_of(model_, down, up, pause);
            block.fill.assign(at(model_.shape.pp), share);
            block.patience = block.fill;
            block.strict = strict;
            attempt(block, best_.empty() ? never : best_.front().makespan);
        }
    }

    void change(BlockGuide& block) {
        const double shift = (2 * random_.next() - 1) * block.period;
        auto& offsets = random_.below(2) == 0 ? block.forward : block.input_gradient;
        const int stage = random_.below(model_.stages);
        switch (random_.below(9)) {
            case 0:
                change_share(block.fill, random_);
                break;
            case 1:
                change_share(block.patience, random_);
                break;
            case 2:
                block.free_memory_first = !block.free_memory_first;
                break;
            case 3:
                block.strict = !block.strict;
                break;
            case 4:
                for (double& offset : block.input_gradient) offset += shift;
                break;
            case 5:
            case 6:
                for (int s = stage; s < model_.stages; ++s) offsets[at(s)] += shift;
                break;
            default:
                offsets[at(stage)] += shift;
        }
    }

    void improve() {
        if (best_.empty()) return;
        Found current = best_.front();
        while (!done()) {
            BlockGuide next = current.block;
            for (int changes = 1 + random_.below(3); changes > 0; --changes) change(next);
            const double makespan = attempt(next, current.makespan);
            if (makespan <= current.makespan) current = {makespan, std::move(next)};
        }
    }

    const PlacedModel& model_;
    ListScheduler scheduler_;
    Guide guide_;
    std::int64_t passes_;
    std::size_t keep_;
    double enough_;
    std::vector<Found> best_;  // ascending
    Random random_{0};
};

}  // namespace

void fill_guide(const BlockGuide& block, int micro_batches, Guide& guide) {
    guide.fill = block.fill;
    guide.patience = block.patience;
    guide.free_memory_first = block.free_memory_first;
    guide.strict = block.strict;
    guide.weight_gradient.clear();
    guide.foresees = false;
    const auto fill = [&](const std::vector<double>& offsets, std::vector<double>& keys) {
        keys.clear();
        keys.reserve(offsets.size() * at(micro_batches));
        for (const double offset : offsets)
            for (int mb = 0; mb < micro_batches; ++mb) keys.push_back(offset + block.period * mb);
    };
    fill(block.forward, guide.forward);
    fill(block.input_gradient, guide.input_gradient);
}

std::vector<BlockGuide> search_blocks(const PlacedModel& model, std::int64_t passes, std::size_t keep) {
    return BlockSearch(model, passes, keep).run();
}

}  // namespace escalier::schedule::generators
