// Planted faults of sums over ranks: each is found, and named by what its tensors show.
#include <gtest/gtest.h>

#include "tests/multirank/verify/faulty_communicator.h"
#include "tests/multirank/verify/verified_job.h"

namespace escalier::train {
namespace {

using Overrides = std::vector<std::string>;
using Group = std::unique_ptr<comm::Communicator> parallel::Groups::*;

const Overrides one = {};
const Overrides tp2 = {"parallel.tp=2"}, tp4 = {"parallel.tp=4"};
const Overrides tp2pp2 = {"parallel.tp=2", "parallel.pp=2"};
const Overrides dp2pp2 = {"parallel.dp=2", "parallel.pp=2"}, dp4 = {"parallel.dp=4"};
const Overrides pp2 = {"parallel.pp=2"};

AssemblyHooks fault_of(Group group, const std::string& label, CommFault fault) {
    AssemblyHooks hooks;
    hooks.groups = [=](parallel::Groups& groups) {
        groups.*group = faulty(std::move(groups.*group), label, fault);
    };
    return hooks;
}

void expect_found(const VerifyResult& result, const std::string& cause, const std::string& first,
                  const std::string& text) {
    expect_found(result, cause, text);
    EXPECT_NE(result.first.find(first), std::string::npos) << result.first;
}

TEST(VerifyFaults, ForwardSumOverTpIsSkipped) {
    for (const std::string& model : {gpt2, llama}) {
        const auto mlp = fault_of(&parallel::Groups::tp, "sum of mlp of layer 1 over tp", CommFault::skip);
        expect_found(verify_grids(model, one, tp2pp2, mlp), "missing sum over tp in forward", "loss",
                     "behind the mlp of layer 1");
        const auto attention =
            fault_of(&parallel::Groups::tp, "sum of attention of layer 3 over tp", CommFault::skip);
        expect_found(verify_grids(model, one, tp4, attention), "missing sum over tp in forward", "loss",
                     "behind the attention of layer 3");
        const auto embedding = fault_of(&parallel::Groups::tp, "sum of embedding over tp", CommFault::skip);
        expect_found(verify_grids(model, one, tp2, embedding, 2, true), "missing sum over tp in forward",
                     "residual stream behind the embedding", "embedding");
    }
}

TEST(VerifyFaults, ForwardSumOverTpCountsTwice) {
    const auto attention =
        fault_of(&parallel::Groups::tp, "sum of attention of layer 2 over tp", CommFault::twice);
    expect_found(verify_grids(llama, one, tp2, attention), "counted twice in forward", "loss",
                 "attention of layer 2");
    const auto embedding = fault_of(&parallel::Groups::tp, "sum of embedding over tp", CommFault::twice);
    expect_found(verify_grids(gpt2, one, tp2, embedding), "counted twice in forward", "loss", "embedding");
    expect_found(verify_grids(llama, one, tp2, embedding), "counted twice in forward", "loss", "embedding");
}

TEST(VerifyFaults, BackwardSumOverTpIsSkipped) {
    for (const std::string& model : {gpt2, llama}) {
        const auto mlp =
            fault_of(&parallel::Groups::tp, "sum of mlp gradient of layer 2 over tp", CommFault::skip);
        expect_found(verify_grids(model, one, tp2, mlp), "missing sum over tp in backward", ".2.",
                     "the mlp of layer 2");
        const auto attention =
            fault_of(&parallel::Groups::tp, "sum of attention gradient of layer 1 over tp", CommFault::skip);
        expect_found(verify_grids(model, one, tp2pp2, attention), "missing sum over tp in backward", "1",
                     "the attention of layer 1");
        const auto head = fault_of(&parallel::Groups::tp, "sum of head gradient over tp", CommFault::skip);
        expect_found(verify_grids(model, one, tp2, head), "missing sum over tp in backward", "gradient of",
                     "the loss head");
    }
}

TEST(VerifyFaults, BackwardSumOverTpCountsTwice) {
    const auto mlp =
        fault_of(&parallel::Groups::tp, "sum of mlp gradient of layer 2 over tp", CommFault::twice);
    expect_found(verify_grids(llama, one, tp2, mlp), "counted twice in backward", "gradient of",
                 "mlp of layer 2");
}

TEST(VerifyFaults, KeyValueCopiesAreNotSummed) {
    const auto kv = fault_of(&parallel::Groups::kv, "sum over kv of gradients", CommFault::skip);
    expect_found(verify_grids(llama, one, tp4, kv), "missing sum over kv copies", "self_attn",
                 "key/value heads");
}

TEST(VerifyFaults, AHeadNormIsNotSummedOverTp) {
    const auto norms = fault_of(&parallel::Groups::tp, "sum over tp of gradients", CommFault::skip);
    expect_found(verify_grids(llama + ", qk_norm: true", one, tp2, norms), "gradient not summed over tp",
                 "k_norm", "sum over tp of that parameter's gradient is missing");
}

TEST(VerifyFaults, DataParallelSumIsSkipped) {
    const auto dp = fault_of(&parallel::Groups::dp, "", CommFault::skip);
    expect_found(verify_grids(gpt2, one, dp2pp2, dp), "missing sum over dp", "gradient of",
                 "of every tensor");
}

TEST(VerifyFaults, DataParallelSumLacksARank) {
    const auto dp = fault_of(&parallel::Groups::dp, "", CommFault::one_less);
    expect_found(verify_grids(gpt2, one, dp4, dp), "missing samples", "gradient of",
                 "the samples of dp rank 1");
    expect_found(verify_grids(llama, pp2, dp2pp2, dp), "missing samples", "gradient of",
                 "the samples of dp rank 1");
}

TEST(VerifyFaults, TheSumOverCopiesOfTheModelIsSkipped) {
    const auto copies = fault_of(&parallel::Groups::copies, "", CommFault::skip);
    expect_found(verify_grids(gpt2, one, {"parallel.pp=2", "pipeline.schedule=dualpipe"}, copies),
                 "missing sum over copies", "gradient of",
                 "add up to the other grid's: their sum is missing");
}

TEST(VerifyFaults, TiedSumIsSkipped) {
    const auto tied = fault_of(&parallel::Groups::tied, "", CommFault::skip);
    expect_found(verify_grids(tied_gpt2, one, pp2, tied), "missing tied sum", "wte.weight",
                 "first and the last stage");
    expect_found(verify_grids(tied_gpt2, one, tp2pp2, tied), "missing tied sum", "wte.weight",
                 "first and the last stage");
}

TEST(VerifyFaults, SoftmaxCountsEveryShardAsTheWhole) {
    const auto softmax = fault_of(&parallel::Groups::tp, "softmax statistics", CommFault::skip);
    const VerifyResult result = verify_grids(gpt2, one, tp2, softmax);
    EXPECT_FALSE(result.equal);
    EXPECT_TRUE(result.diagnosis.cause == "loss head" || result.diagnosis.cause == "softmax over shards")
        << result.diagnosis.cause << ". " << result.diagnosis.text;
}

TEST(VerifyFaults, NormLacksARank) {
    const auto norm = fault_of(&parallel::Groups::model, "gradient norm", CommFault::one_less);
    expect_found(verify_grids(gpt2, one, pp2, norm), "norm lacks a stage", "gradient norm", "stage 1");
}

}  // namespace
}  // namespace escalier::train
