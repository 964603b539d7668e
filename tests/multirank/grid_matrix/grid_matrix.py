#!/usr/bin/python3
"""One job on many grids: what must not depend on the grid does not.

  grid_matrix.py --binary build/release/bin/escalier          a subset that covers every pair of settings
  grid_matrix.py --binary build/release/bin/escalier --full   every combination
  grid_matrix.py --binary build/release/bin/escalier --brief  every setting once, which is enough under the sanitizers
  grid_matrix.py … --schedules                                the same for all pipeline schedules, on deeper models

With tensor and data sizes and batch fixed, loss, gradient norm and the weights after the last step are equal to the
bit whatever the stages, schedule, layout and recompute setting; but for two copies of the model (dualpipe) and backward
passes in reverse (lifo), which agree with the others as tensor and data sizes do. Across tensor and data sizes, loss agrees to 1e-5 and
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
from escalier_job import N0, Case, side_by_side, with_keys  # noqa: E402

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

# Eight layers, for two chunks on four ranks; sixteen, for two on eight. Sixteen tokens of width 96 fill a message above
# the eager limit of 4 KiB.
DEEP = {"num_layers": 8, "hidden_size": 96, "ffn_size": 64}
MODELS |= {
    "deep-gpt2": {**N0["model"], **DEEP},
    "deep-gpt2-tied-dropout": {**MODELS["gpt2-tied-dropout"], **DEEP},
    "deep-llama-tied": {**LLAMA, **DEEP, "num_kv_heads": 2, "tie_embeddings": True, "qk_norm": True},
    "deeper-gpt2-tied": {**MODELS["gpt2-tied-dropout"], **DEEP, "num_layers": 16},
}
CHUNKED = ["interleaved", "bfs", "bfs lifo", "interleaved-zb", "zbv", "v-half", "v-min", "dualpipev"]
ALL_SCHEDULES = ["gpipe", "gpipe lifo", "1f1b", "zb-h1", "zb-h2", "dualpipe", "auto"] + CHUNKED
TO_ROUNDING = ["gpipe lifo", "bfs lifo", "dualpipe"]
SCHEDULE_FACTORS = [["deep-gpt2", "deep-gpt2-tied-dropout", "deep-llama-tied"], [(1, 2, 1), (2, 2, 1), (1, 4, 1)],
                    ALL_SCHEDULES, ["none", "attention", "full", "first stage"], ["even", "uneven"], [8, 6]]
ON_EIGHT_RANKS = [("deeper-gpt2-tied", (1, 8, 1), schedule, "none", "even", 8)
                  for schedule in ("1f1b", "zbv", "dualpipe", "interleaved")]
LOSS_TOLERANCE, NORM_TOLERANCE = 1e-5, 1e-4


def stages_of(setting):
    _, (_, pp, _), schedule, _, _, _ = setting
    return 2 * pp if schedule in CHUNKED else pp


def layers_of(setting):
    return MODELS[setting[0]]["num_layers"]


def covering(combinations, strength=2):
    """Those of the combinations in which every pair of values of two factors occurs that there is in any (every value,
    with strength 1), found greedily: the next one is always the first that covers most pairs not yet covered."""
    def pairs(combination):
        return set(itertools.combinations(enumerate(combination), strength))

    candidates = [(combination, pairs(combination)) for combination in combinations]
    missing = set().union(*(covered for _, covered in candidates))
    chosen = []
    while missing:
        combination, covered = max(candidates, key=lambda candidate: len(candidate[1] & missing))
        chosen.append(combination)
        missing -= covered
    return chosen


def covering_subset(factors, strength=2):
    return covering(itertools.product(*factors), strength)


def uneven(stages, layers):
    """The first stage has one layer, the last what an even cut leaves over."""
    rest = [(layers - 1) // (stages - 1)] * (stages - 1) if stages > 1 else []
    return [layers] if stages == 1 else [1] + rest[:-1] + [rest[-1] + layers - 1 - sum(rest)]


def job(*setting):
    model, grid, schedule, recompute, layout, batch = setting
    tp, pp, dp = grid
    stages = stages_of(setting)
    return with_keys(
        {**N0, "model": MODELS[model]},
        parallel__tp=tp, parallel__pp=pp, parallel__dp=dp, pipeline__schedule=schedule.removesuffix(" lifo"),
        pipeline__backward="lifo" if schedule.endswith(" lifo") else "fifo",
        pipeline__layout=uneven(stages, layers_of(setting)) if layout == "uneven" else layout,
        train__global_batch=batch,
        train__recompute={"every 2": {"every": 2}, "first stage": ["full"] + ["none"] * (stages - 1)}.get(
            recompute, recompute),
        optimizer__weight_decay=0.1, optimizer__clip_grad=1.0)


def compared(setting):
    """The setting, the one that it must equal to the bit, and the single process that it must be close to."""
    model, (tp, _, dp), _, _, _, batch = setting
    return setting, (model, (tp, 1, dp), *REFERENCE, batch), (model, (1, 1, 1), *REFERENCE, batch)


class Matrix:
    def __init__(self, binary, settings):
        self.binary = binary
        self.faults = []
        runs = list(dict.fromkeys(each for setting in settings for each in compared(setting)))
        self.outcomes = dict(side_by_side(self.run, runs))
        for setting in settings:
            self.check(setting)

    def run(self, setting):
        """([(loss, norm)] of 10 steps, digest of the weights file), or None if the run failed."""
        tp, pp, dp = setting[1]
        with Case(self.binary) as case:
            result = case.run(job(*setting), tp * pp * dp, ["--save-weights", "weights.safetensors"])
            steps = [(step["loss"], step["grad_norm"]) for step in result.steps]
            if result.code != 0 or len(steps) != 10 or result.leftover:
                self.faults.append(f"{text(setting)}: {len(steps)} steps, {result}")
                return None
            with open(case.path("weights.safetensors"), "rb") as file:
                return steps, hashlib.sha256(file.read()).hexdigest()

    def check(self, setting):
        _, one_stage, single = compared(setting)
        ours, same, alone = (self.outcomes[each] for each in compared(setting))
        if ours is None or same is None or alone is None:
            return
        if ours != same and setting[2] not in TO_ROUNDING:
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
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--full", action="store_true")
    extent.add_argument("--brief", action="store_true")
    parser.add_argument("--schedules", action="store_true", help="all pipeline schedules")
    parser.add_argument("--model", choices=list(MODELS), help="this one only")
    parser.add_argument("--list", action="store_true", help="print the settings, run nothing")
    arguments = parser.parse_args()
    factors = SCHEDULE_FACTORS if arguments.schedules else FACTORS
    settings = list(itertools.product(*factors)) if arguments.full else covering_subset(factors, 1 if arguments.brief else 2)
    if arguments.schedules:
        settings += ON_EIGHT_RANKS
    settings = [each for each in settings if arguments.model in (None, each[0])]
    # An uneven layout of one stage, or of as many stages as layers, is the even one.
    settings = [each for each in settings
                if not (arguments.full and each[4] != "even" and stages_of(each) in (1, layers_of(each)))]
    if arguments.list:
        print(*map(text, settings), sep="\n")
        return 0
    start = time.monotonic()
    matrix = Matrix(arguments.binary, settings)
    for fault in matrix.faults:
        print(fault)
    print(f"{len(settings)} settings of {len(list(itertools.product(*factors)))}, {len(matrix.outcomes)} runs, "
          f"{len(matrix.faults)} faults, {time.monotonic() - start:.0f} s")
    return 1 if matrix.faults else 0


if __name__ == "__main__":
    sys.exit(main())
