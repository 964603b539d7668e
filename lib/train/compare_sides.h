// Holds the tensors of two sides against each other, a few rows at a time, and keeps of each pair what a
// diagnosis can be read from. Given tensors alone: what made them it does not know.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/job_spec.h"
#include "train/rounding.h"
#include "train/side_tensors.h"

namespace escalier::train {

// Sums over pairs of elements a (side 0) and b (side 1).
struct PairSums {
    double aa = 0, bb = 0, ab = 0, dd = 0;  // d = b - a
    void add(double a, double b) {
        aa += a * a;
        bb += b * b;
        ab += a * b;
        dd += (b - a) * (b - a);
    }
    PairSums& operator+=(const PairSums& more);
    // b is about scale() * a, but for misfit() of its norm.
    double scale() const { return aa > 0 ? ab / aa : 0; }
    double misfit() const;
    double relative_difference() const;  // |d| / |a|
};

// Of the holders that differ from their box's owner.
struct CopyFindings {
    double deviation = 0;  // the largest of any copy; 0: all copies are equal to the bit
    // Where they differ. over_stages: stage copies, SidePiece.
    bool over_tp = false, over_dp = false, over_copies = false, over_stages = false;
    // How far the sum of such copies lies from the other side's tensor, relative; none: not asked. Of points
    // of the residual stream it is what each copy adds to the point before that is summed.
    std::optional<double> tp_sum, dp_sum, copies_sum, tied_sum;
};

struct BoxSums {  // of one side's boxes
    Rect box;
    int tp_rank = 0;
    PairSums sums;
    double worst = 0;
};

struct TensorComparison {
    Quantity quantity;
    std::int64_t order;
    std::string name;
    Rect hull;
    bool whole = true;     // both sides hold all of it
    bool differs = false;  // by more than was promised
    std::int64_t unequal_bits = 0;
    double difference = 0;             // |a - b| where it is worst
    double allowed = 0;                // there: the rounding expected
    double worst = 0;                  // the largest |a - b| over the rounding expected
    bool as_whole = false;             // worst, difference and allowed are those of the whole gradient's norm
    std::int64_t row = 0, column = 0;  // there
    PairSums sums;
    PairSums change;  // of points of the residual stream: from the point before; weights: a the optimizer's
                      // change on side 0, b what side 1's weight has more
    std::vector<PairSums> rows;                 // of the hull; not of vectors
    std::array<std::vector<BoxSums>, 2> boxes;  // of gradients alone
    std::array<CopyFindings, 2> copies;
    // Of activations, [samples * positions]: sums over channels.
    std::vector<PairSums> tokens;
    double alike_over_samples = 0;  // share of |d|^2 that is the same for every sample
    double alike_over_tokens = 0;   // that is the same for every sample and position
    // Of activations whose stage copies differ, by sample: a what was sent, b what was received.
    std::array<std::vector<PairSums>, 2> received;
};

struct UpdateRule {  // what turns moments or gradients into a weight's change
    bool adamw = true;
    double lr = 0, beta1 = 0, beta2 = 0, eps = 0;
    std::array<double, 2> gradient_scale = {1, 1};  // by clipping, of each side
    std::int64_t step = 0;                          // 0: no update yet
};

class SideComparison {
 public:
    // bits: equality to the bit was promised. seq_len: of activations, [samples, seq_len * channels]. Both
    // sides' weights were the same at the start of the step.
    SideComparison(SideTensors& tensors, const Rounding& rounding, bool bits, std::int64_t seq_len,
                   const UpdateRule& rule);

    // By quantity and order. Collective over the world; the same on all ranks.
    std::vector<TensorComparison> run();

 private:
    TensorComparison compare(std::size_t entry);
    void measure_scales();
    void judge_as_whole(const TensorEntry& tensor, TensorComparison& out) const;
    std::vector<PairSums> received_rows(std::size_t entry, int side);
    void look_at_copies(std::size_t entry, const SideTensors::Deviations& deviations,
                        TensorComparison& result);
    double distance_of_sum(std::size_t entry, int side, SideTensors::Terms terms);
    struct Allowance {
        std::vector<double> explained;  // of weights, by the updates
        std::vector<double> rounding;   // of what is left
    };
    // Of each element of a block. change: of a weight, see TensorComparison.
    void allowances(std::size_t entry, std::int64_t first, std::int64_t rows, const std::vector<float>& a,
                    const std::vector<float>& b, Allowance& out, PairSums& change);
    void updates(std::size_t entry, int side, std::int64_t first, std::int64_t rows,
                 std::vector<double>& out);
    std::size_t entry_of(Quantity quantity, std::size_t like) const;
    double scale_of(std::size_t entry) const;

    SideTensors& tensors_;
    const Rounding& rounding_;
    bool bits_;
    std::int64_t seq_len_;
    UpdateRule rule_;
    std::vector<double> scales_;  // by entry
};

// Whether a tensor is the bias of keys, whose gradient is zero in exact arithmetic.
bool is_key_bias(const std::string& name);

}  // namespace escalier::train
