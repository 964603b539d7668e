#!/usr/bin/python3
"""One job on many grids: what must not depend on the grid does not.

  grid_matrix.py --binary build/release/bin/escalier          a subset that covers every pair of settings
  grid_matrix.py --binary build/release/bin/escalier --full   every combination

With tensor and data sizes and batch fixed, loss, gradient norm and the weights after the last step are equal to the
bit whatever the stages, schedule, layout and recompute setting. Across tensor and data sizes, loss agrees to 1e-5 and
norm to 1e-4 relative with the single process at each of 10 steps (design, "Numerics contract").
"""
import argparse
import hashlib
import itertools
import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "harness"))
from escalier_job import N0, Case, with_keys  # noqa: E402

LLAMA = {"arch": "llama", "num_layers": 4, "hidden_size": 32, "num_heads": 4, "num_kv_heads": 4, "ffn_size": 88,
         "vocab_size": 64, "tie_embeddings": False}
MODELS = {
    "gpt2": N0["model"],
    "gpt2-tied-dropout": {**N0["model"], "tie_embeddings": True, "dropout": 0.1},
    "llama-grouped": {**LLAMA, "num_kv_heads": 2, "qk_norm": True},
    "llama-tied-one-kv-head": {**LLAMA, "num_kv_heads": 1, "tie_embeddings": True, "qkv_bias": True},
}
GRIDS = [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2, 1), (1, 2, 2), (2, 1, 2), (2, 2, 2), (4, 1, 1), (1, 4, 1)]
SCHEDULES = ["1f1b", "gpipe"]
RECOMPUTE = ["none", "attention", "full", "every 2", "first stage"]
LAYOUTS = ["even", "balanced", "uneven"]
BATCHES = [8, 2]  # samples a step; 2 makes fewer micro-batches than stages
FACTORS = [list(MODELS), GRIDS, SCHEDULES, RECOMPUTE, LAYOUTS, BATCHES]
REFERENCE = ("1f1b", "none", "even")
UNEVEN = {1: [4], 2: [1, 3], 4: [1, 1, 1, 1]}
LOSS_TOLERANCE, NORM_TOLERANCE = 1e-5, 1e-4


def covering_subset(factors):
    """Combinations in which every pair of values of two factors occurs, found greedily: the next one is always the
    first that covers most pairs not yet covered."""
    def pairs(combination):
        return set(itertools.combinations(enumerate(combination), 2))

    candidates = [(combination, pairs(combination)) for combination in itertools.product(*factors)]
    missing = set().union(*(covered for _, covered in candidates))
    chosen = []
    while missing:
        combination, covered = max(candidates, key=lambda candidate: len(candidate[1] & missing))
        chosen.append(combination)
        missing -= covered
    return chosen


def job(model, grid, schedule, recompute, layout, batch):
    tp, pp, dp = grid
    return with_keys(
        {**N0, "model": MODELS[model]},
        parallel__tp=tp, parallel__pp=pp, parallel__dp=dp, pipeline__schedule=schedule,
        pipeline__layout=UNEVEN[pp] if layout == "uneven" else layout, train__global_batch=batch,
        train__recompute={"every 2": {"every": 2}, "first stage": ["full"] + ["none"] * (pp - 1)}.get(
            recompute, recompute),
        optimizer__weight_decay=0.1, optimizer__clip_grad=1.0)


class Matrix:
    def __init__(self, binary):
        self.binary = binary
        self.outcomes = {}
        self.faults = []

    def outcome(self, setting):
        """([(loss, norm)] of 10 steps, digest of the weights file), or None if the run failed."""
        if setting not in self.outcomes:
            tp, pp, dp = setting[1]
            with Case(self.binary) as case:
                result = case.run(job(*setting), tp * pp * dp, ["--save-weights", "weights.safetensors"])
                steps = [(step["loss"], step["grad_norm"]) for step in result.steps]
                if result.code != 0 or len(steps) != 10 or result.leftover:
                    self.faults.append(f"{text(setting)}: {len(steps)} steps, {result}")
                    self.outcomes[setting] = None
                else:
                    with open(case.path("weights.safetensors"), "rb") as file:
                        self.outcomes[setting] = (steps, hashlib.sha256(file.read()).hexdigest())
        return self.outcomes[setting]

    def check(self, setting):
        model, (tp, _, dp), _, _, _, batch = setting
        one_stage = (model, (tp, 1, dp), *REFERENCE, batch)
        single = (model, (1, 1, 1), *REFERENCE, batch)
        ours, same, alone = (self.outcome(each) for each in (setting, one_stage, single))
        if ours is None or same is None or alone is None:
            return
        if ours != same:
            what = "weights" if ours[0] == same[0] else first_difference(ours[0], same[0], 0, 0)
            self.faults.append(f"{text(setting)} is not bit-identical to {text(one_stage)}: {what}")
        apart = first_difference(ours[0], alone[0], LOSS_TOLERANCE, NORM_TOLERANCE)
        if apart:
            self.faults.append(f"{text(setting)} is too far from {text(single)}: {apart}")
        if not alone[0][-1][0] < alone[0][0][0] - 0.01:
            self.faults.append(f"{text(single)} does not learn: loss {alone[0][0][0]} to {alone[0][-1][0]}")


def text(setting):
    model, grid, schedule, recompute, layout, batch = setting
    return (f"{model} {'x'.join(map(str, grid))} (tp x pp x dp) {schedule}, layout {layout}, recompute {recompute}, "
            f"batch {batch}")


def first_difference(ours, theirs, loss_tolerance, norm_tolerance):
    for step, (a, b) in enumerate(zip(ours, theirs), 1):
        for name, x, y, tolerance in zip(("loss", "grad_norm"), a, b, (loss_tolerance, norm_tolerance)):
            if x is None or y is None or not abs(x - y) <= tolerance * abs(y):
                return f"step {step} {name} {x!r} against {y!r}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--model", choices=list(MODELS), help="this one only")
    parser.add_argument("--list", action="store_true", help="print the settings, run nothing")
    arguments = parser.parse_args()
    settings = list(itertools.product(*FACTORS)) if arguments.full else covering_subset(FACTORS)
    settings = [each for each in settings if arguments.model in (None, each[0])]
    # An uneven layout of one stage, or of four stages over four layers, is the even one.
    settings = [each for each in settings if not (arguments.full and each[4] != "even" and each[1][1] in (1, 4))]
    start = time.monotonic()
    matrix = Matrix(arguments.binary)
    for setting in settings:
        if arguments.list:
            print(text(setting))
        else:
            matrix.check(setting)
    for fault in matrix.faults:
        print(fault)
    print(f"{len(settings)} settings of {len(list(itertools.product(*FACTORS)))}, {len(matrix.outcomes)} runs, "
          f"{len(matrix.faults)} faults, {time.monotonic() - start:.0f} s")
    return 1 if matrix.faults else 0


if __name__ == "__main__":
    sys.exit(main())
