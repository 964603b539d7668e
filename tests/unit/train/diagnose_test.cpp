// Tensors of two grids in, statement out: the rules know nothing else.
#include "train/diagnose.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <stdexcept>

namespace escalier::train {
namespace {

constexpr std::int64_t samples = 4, positions = 2;

PairSums pair(double a, double b) {
    PairSums sums;
    sums.add(a, b);
    return sums;
}

// Of two elements: no factor makes the one side the other.
PairSums unlike() {
    PairSums sums = pair(1, 0.2);
    sums.add(1, 1.7);
    return sums;
}

TensorComparison tensor(Quantity quantity, std::int64_t order, const std::string& name, bool matrix = true) {
    TensorComparison out{};
    out.quantity = quantity;
    out.order = order;
    out.name = name;
    out.whole = true;
    out.hull = {0, 0, matrix ? 8 : 4, matrix ? 4 : 1};
    for (std::int64_t row = 0; matrix && row < out.hull.rows; ++row)
        out.rows.push_back(pair(1.0 + static_cast<double>(row), 1.0 + static_cast<double>(row)));
    for (const PairSums& row : out.rows) out.sums += row;
    if (!matrix) out.sums = pair(1, 1);
    out.boxes[0] = out.boxes[1] = {{out.hull, 0, out.sums, 0}};
    return out;
}

TensorComparison point(Quantity quantity, std::int64_t order) {
    TensorComparison out = tensor(quantity, order, "residual stream behind layer 0");
    out.rows.clear();
    for (std::int64_t i = 0; i < samples; ++i)
        out.rows.push_back(pair(1.0 + static_cast<double>(i), 1.0 + static_cast<double>(i)));
    out.tokens.assign(samples * positions, pair(1, 1));
    return out;
}

void make_wrong(TensorComparison& tensor, const PairSums& sums) {
    tensor.sums = sums;
    tensor.worst = 100;
    tensor.differs = true;
}

// Two layers, one per stage of side 1; every tensor agrees.
StepEvidence agreeing() {
    StepEvidence evidence;
    evidence.step = 1;
    evidence.grids[0] = {1, 1, 1, 4, 1, {2}};
    evidence.grids[1] = {1, 2, 1, 4, 1, {1, 1}};
    evidence.layers = 2;
    evidence.loss = {4, 4};
    evidence.loss_allowed = 1e-5;
    evidence.norm_allowed = 1e-4;
    evidence.clip_grad = 1;
    for (std::int64_t order = 0; order <= 4; ++order)
        evidence.tensors.push_back(point(Quantity::activation, order));
    for (std::int64_t order = 0; order <= 4; ++order)
        evidence.tensors.push_back(point(Quantity::activation_gradient, order));
    for (const Quantity quantity : {Quantity::gradient, Quantity::first_moment, Quantity::weight}) {
        evidence.tensors.push_back(tensor(quantity, 0, "model.embed_tokens.weight"));
        for (std::int64_t layer = 0; layer < 2; ++layer) {
            const std::string at = "model.layers." + std::to_string(layer);
            evidence.tensors.push_back(
                tensor(quantity, 2 + 2 * layer, at + ".input_layernorm.weight", false));
            evidence.tensors.push_back(tensor(quantity, 3 + 2 * layer, at + ".mlp.up_proj.weight"));
        }
        evidence.tensors.push_back(tensor(quantity, 6, "lm_head.weight"));
    }
    evidence.tokens = {0, 1, 1, 2, 3, 3, 4, 3};  // two per micro-batch
    evidence.norm[0] = evidence.norm[1] = *norm_of_gradients(evidence, 0);
    return evidence;
}

TensorComparison& find(StepEvidence& evidence, Quantity quantity, std::int64_t order) {
    for (TensorComparison& tensor : evidence.tensors)
        if (tensor.quantity == quantity && tensor.order == order) return tensor;
    throw std::logic_error("no such tensor");
}

void expect(const StepEvidence& evidence, const std::string& cause, const std::string& text) {
    EXPECT_TRUE(evidence.differs());
    const Diagnosis found = diagnose(evidence);
    EXPECT_EQ(found.cause, cause) << found.text;
    EXPECT_NE(found.text.find(text), std::string::npos) << found.text;
}

TEST(Diagnose, NothingDiffers) {
    EXPECT_FALSE(agreeing().differs());
    EXPECT_EQ(diagnose(agreeing()).cause, "none");
}

TEST(Diagnose, FirstInOrderOfComputation) {
    StepEvidence evidence = agreeing();
    find(evidence, Quantity::weight, 0).differs = true;
    EXPECT_EQ(first_difference(evidence).what, "weight of model.embed_tokens.weight");
    find(evidence, Quantity::gradient, 3).differs = true;
    EXPECT_EQ(first_difference(evidence).what, "gradient of model.layers.0.mlp.up_proj.weight");
    find(evidence, Quantity::gradient, 5).differs = true;  // backward starts at the top
    EXPECT_EQ(first_difference(evidence).what, "gradient of model.layers.1.mlp.up_proj.weight");
    evidence.loss[1] = 5;
    EXPECT_EQ(first_difference(evidence).what, "loss");
}

TEST(Diagnose, BiasBehindAnAttention) {
    StepEvidence evidence = agreeing();
    TensorComparison& wrong = find(evidence, Quantity::activation, 3);
    make_wrong(wrong, unlike());
    wrong.change = unlike();
    for (PairSums& token : wrong.tokens) token = pair(1, 1.5);
    wrong.alike_over_tokens = 1;
    expect(evidence, "bias in forward", "Behind the attention of layer 1 every position");
    wrong.alike_over_tokens = 0.9;
    expect(evidence, "forward pass", "attention of layer 1");
}

TEST(Diagnose, MessagesBetweenStages) {
    const auto received = [](Quantity quantity, const std::function<PairSums(double)>& of_sample) {
        StepEvidence evidence = agreeing();
        TensorComparison& wrong = find(evidence, quantity, 2);
        wrong.differs = true;
        wrong.copies[1] = {0.5, false, false, false, true, {}, {}, {}, {}};
        for (double i = 1; i <= samples; ++i) wrong.received[1].push_back(of_sample(i));
        return evidence;
    };
    const auto late = [](double i) { return pair(i, std::max(1.0, i - 1)); };
    expect(
        received(Quantity::activation, late), "message between stages",
        "What stage 1 of B received as the residual stream behind layer 0 is not what stage 0 sent: sample 1 "
        "has that of sample 0 (3 of 4");
    expect(received(Quantity::activation_gradient, late), "message between stages",
           "What stage 0 of B received");
    expect(received(Quantity::activation_gradient, [](double i) { return pair(i, i / 4); }),
           "message between stages", "it is 1/4 (= 1/micro-batches, or 1/(micro-batches x dp)) times that");
    // Half a place of bf16 at most, evenly spread.
    expect(received(Quantity::activation, [](double i) { return pair(i, i * (1 + 0.4 * std::exp2(-8))); }),
           "message between stages", "it is 1.002 times");
    StepEvidence rounded = received(Quantity::activation, [](double i) {
        return pair(i, i * (1 + (static_cast<int>(i) % 2 ? 0.4 : -0.4) * std::exp2(-8)));
    });
    expect(rounded, "message between stages", "rounding to bf16");
    rounded.tensors[2].copies[1].over_tp = true;  // the sender's ranks did not agree to begin with
    expect(rounded, "missing sum over tp in forward", "behind the mlp of layer 0");
}

TEST(Diagnose, RowsOfATableTellWhoseTheyAre) {
    StepEvidence evidence = agreeing();
    TensorComparison& table = find(evidence, Quantity::gradient, 0);
    make_wrong(table, unlike());
    table.rows[1] = pair(2, 1);
    table.rows[2] = pair(3, 1);
    expect(evidence, "missing samples", "the rows of the ids that stand in micro-batch 1 of 4");
    table.rows[5] = pair(6, 1);  // an id that nobody reads
    expect(evidence, "one tensor", "Only the gradient of model.embed_tokens.weight");
    evidence.tokens.clear();
    expect(evidence, "one tensor", "Only the gradient of model.embed_tokens.weight");
}

TEST(Diagnose, RowsOfTheHeadTellTargetsFromSoftmax) {
    StepEvidence evidence = agreeing();
    evidence.loss[1] = 4.3;
    TensorComparison& head = find(evidence, Quantity::gradient, 6);
    make_wrong(head, unlike());
    head.rows[3] = pair(4, 1);
    expect(evidence, "targets", "lm_head.weight");
    for (PairSums& row : head.rows) row = pair(1, 1.1);
    expect(evidence, "loss head", "softmax");
    evidence.loss[1] = 4.0002;  // a multiple of the other to four digits, but the first one
    expect(evidence, "loss head", "softmax");
    evidence.loss[1] = 8;
    expect(evidence, "scaled loss", "The loss is 2 (= pp) times");
    evidence.loss[1] = 2;
    expect(evidence, "scaled loss", "The loss is 1/2 (= 1/pp) times");
}

TEST(Diagnose, CopiesOfTheModelThatDiffer) {
    StepEvidence evidence = agreeing();
    TensorComparison& wrong = find(evidence, Quantity::gradient, 3);
    make_wrong(wrong, unlike());
    wrong.copies[1].deviation = 0.5;
    wrong.copies[1].over_copies = true;
    wrong.copies[1].copies_sum = 1e-6;
    expect(evidence, "missing sum over copies", "between the two copies of the model on B");
    wrong.copies[1].copies_sum = 0.5;
    expect(evidence, "model copies differ", "they do not add up to the other grid's");
}

TEST(Diagnose, WeightHalvesAlone) {
    StepEvidence evidence = agreeing();
    for (const std::int64_t order : {3, 5}) make_wrong(find(evidence, Quantity::gradient, order), unlike());
    expect(evidence, "weight gradient", "the inputs that are kept for it");
    evidence.missing_samples = "micro-batch 2 of 4";
    expect(evidence, "missing samples", "without micro-batch 2 of 4");
}

TEST(Diagnose, ANormThatIsNotThatOfItsOwnGradients) {
    StepEvidence evidence = agreeing();
    evidence.norm_allowed = 0.5;  // between the sides anything goes
    evidence.norm[1] *= 1.001;
    EXPECT_EQ(first_difference(evidence).what, "gradient norm");
    expect(evidence, "norm", "(factor 1.001)");
    evidence.norm[1] = std::nan("");
    evidence.norm[0] = std::nan("");
    EXPECT_FALSE(evidence.norm_differs());
}

// Stage 1 has layer 1 and the head.
void scale_moments(StepEvidence& evidence, double first, double second) {
    for (TensorComparison& tensor : evidence.tensors)
        if (tensor.quantity == Quantity::first_moment)
            make_wrong(tensor, pair(1, stage_of(evidence, tensor) ? second : first));
}

TEST(Diagnose, ClippingByStage) {
    StepEvidence evidence = agreeing();
    const double whole = evidence.norm[0];
    double squares[2] = {0, 0};
    for (const TensorComparison* gradient : of_quantity(evidence, Quantity::gradient))
        squares[stage_of(evidence, *gradient)] += gradient->sums.bb;
    scale_moments(evidence, whole / std::sqrt(squares[0]), whole / std::sqrt(squares[1]));
    expect(evidence, "clipping", "clipped by the norm of its own gradients");
    scale_moments(evidence, whole, whole);
    expect(evidence, "clipping", "as without clipping");
    scale_moments(evidence, 1.1, 1.3);
    expect(evidence, "scaled by stage", "1.1, 1.3 times");
    scale_moments(evidence, 1.1, 1.1);
    expect(evidence, "optimizer moment", "factor 1.1");
}

TEST(Diagnose, OnlyBitsDiffer) {
    StepEvidence evidence = agreeing();
    evidence.bits = true;
    find(evidence, Quantity::gradient, 3).differs = true;
    expect(evidence, "order of sums", "loss and activations to the bit");
}

TEST(Diagnose, FactorsInWords) {
    const GridFacts grid{2, 1, 4, 8, 1, {2}};
    EXPECT_EQ(factor_text(2, grid), "2 (= tp)");
    EXPECT_EQ(factor_text(0.25, grid), "1/4 (= 1/dp)");
    EXPECT_EQ(factor_text(1.0 / 32, grid), "1/32 (= 1/(micro-batches x dp))");
    EXPECT_EQ(factor_text(0.37, grid), "0.37");
}

}  // namespace
}  // namespace escalier::train
