#!/usr/bin/python3
"""The CUDA backend, emulated, on many grids: it trains what the CPU backend trains.

  cuda_matrix.py --binary build/release/bin/escalier --library libescalier_cuda_emulated.so
                                          every schedule, and every pair of other settings
  cuda_matrix.py … --full --model NAME    every combination of one model

Each setting runs with a seed of its own, so queues and threads take another legal order every time. Losses and norms
agree with the CPU's single process within the rounding of the storage type. With tensor and data sizes and storage type
fixed, loss, norm and weights are equal to the bit whatever the stages, schedule, transport, recompute setting and seed,
and whether actions are replayed as graphs. Every rank's arenas are those that escalier plan names, to the byte.
"""
import argparse
import hashlib
import itertools
import os
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "harness"), os.path.join(HERE, "..", "multirank", "grid_matrix")]
from escalier_job import N0, Case, with_keys  # noqa: E402
from grid_matrix import ALL_SCHEDULES, TO_ROUNDING, covering_subset, first_difference  # noqa: E402

STEPS = 2
# Heads of 64 channels go through the tensor cores, others do not.
MODELS = {
    "gpt2-tied-dropout": {**N0["model"], "num_layers": 8, "hidden_size": 128, "num_heads": 2, "ffn_size": 64,
                          "tie_embeddings": True, "dropout": 0.1},
    "llama-grouped": {"arch": "llama", "num_layers": 8, "hidden_size": 48, "num_heads": 4, "num_kv_heads": 2,
                      "ffn_size": 40, "vocab_size": 61, "tie_embeddings": False, "qk_norm": True, "qkv_bias": True},
}
GRIDS = [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2, 2), (1, 4, 1)]
STORAGE = ["fp32", "bf16"]
TRANSPORTS = ["nccl", "staged"]
FACTORS = [list(MODELS), GRIDS, ALL_SCHEDULES, STORAGE, TRANSPORTS, [True, False], ["none", "attention", "full"]]


def subset():
    """All pairs of settings but those with schedules, which take their turn over the grids with stages."""
    chosen, schedules = [], list(ALL_SCHEDULES)
    others = covering_subset(FACTORS[:2] + FACTORS[3:])
    for index, (model, grid, *rest) in enumerate(others):
        schedule = schedules.pop() if grid[1] > 1 and schedules else ALL_SCHEDULES[index % len(ALL_SCHEDULES)]
        chosen.append((model, grid, schedule, *rest))
    model, _, *rest = others[0]
    return chosen + [(model, (1, 2, 1), schedule, *rest) for schedule in schedules]
# Relative, of loss and norm. fp32 as across tensor sizes on the CPU; bf16 has 8 bits.
TOLERANCES = {"fp32": (1e-5, 1e-4), "bf16": (4e-3, 4e-2)}
REFERENCE = ("1f1b", "nccl", False, "none")


def job(setting, device):
    model, (tp, pp, dp), schedule, storage, transport, graphs, recompute = setting
    spec = with_keys(
        {**N0, "model": MODELS[model]}, parallel__tp=tp, parallel__pp=pp, parallel__dp=dp,
        pipeline__schedule=schedule.removesuffix(" lifo"),
        pipeline__backward="lifo" if schedule.endswith(" lifo") else "fifo", train__steps=STEPS, train__global_batch=4,
        train__recompute=recompute, optimizer__weight_decay=0.1, optimizer__clip_grad=1.0)
    if device == "cpu":
        return spec
    return with_keys(spec, run__device="cuda", run__comm=transport, run__share_gpu=transport == "staged",
                     run__cuda_graphs=graphs, train__dtype=storage)


class Matrix:
    def __init__(self, binary, library):
        self.binary = binary
        os.environ["ESCALIER_CUDA_LIBRARY"] = os.path.abspath(library)
        self.outcomes = {}
        self.faults = []

    def outcome(self, setting, device="cuda"):
        """([(loss, norm)] of the steps, digest of the weights file), or None if the run failed."""
        key = (setting, device)
        if key not in self.outcomes:
            self.outcomes[key] = self.run(setting, device)
        return self.outcomes[key]

    def run(self, setting, device):
        tp, pp, dp = setting[1]
        os.environ["ESCALIER_CUDA_SEED"] = str(len(self.outcomes) + 1)
        # Ranks that share a GPU in turn, all of them, or two.
        os.environ["ESCALIER_CUDA_DEVICES"] = "8" if setting[4] == "nccl" else str(1 + len(self.outcomes) % 2)
        with Case(self.binary) as case:
            result = case.run(job(setting, device), tp * pp * dp, ["--save-weights", "weights.safetensors"])
            steps = [(step["loss"], step["grad_norm"]) for step in result.steps]
            if result.code != 0 or len(steps) != STEPS or result.leftover:
                self.faults.append(f"{text(setting)} on {device}: {len(steps)} steps, {result}")
                return None
            planned = [{"arena_bytes": rank["arena_bytes"], "arenas": rank["arenas"]}
                       for rank in case.plan(tp * pp * dp, "--all-ranks")["memory"]["ranks"]]
            if planned != case.events("start")[0]["memory"]:
                self.faults.append(f"{text(setting)} on {device} takes other memory than planned: {planned}")
            with open(case.path("weights.safetensors"), "rb") as file:
                return steps, hashlib.sha256(file.read()).hexdigest()

    def check(self, setting):
        model, (tp, _, dp), schedule, storage = setting[:4]
        same = (model, (tp, 1, dp), REFERENCE[0], storage, *REFERENCE[1:])
        ours, theirs = self.outcome(setting), self.outcome(same)
        alone = self.outcome((model, (1, 1, 1), REFERENCE[0], storage, *REFERENCE[1:]), "cpu")
        if ours is None or theirs is None or alone is None:
            return
        if ours != theirs and schedule not in TO_ROUNDING:
            what = "weights" if ours[0] == theirs[0] else first_difference(ours[0], theirs[0], 0, 0)
            self.faults.append(f"{text(setting)} is not bit-identical to {text(same)}: {what}")
        apart = first_difference(ours[0], alone[0], *TOLERANCES[storage])
        if apart:
            self.faults.append(f"{text(setting)} is too far from the CPU's single process: {apart}")


def text(setting):
    model, grid, schedule, storage, transport, graphs, recompute = setting
    return (f"{model} {'x'.join(map(str, grid))} (tp x pp x dp) {schedule}, {storage}, {transport}, "
            f"{'graphs' if graphs else 'no graphs'}, recompute {recompute}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--library", required=True, help="the emulated CUDA backend")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--model", choices=list(MODELS), help="this one only")
    arguments = parser.parse_args()
    settings = list(itertools.product(*FACTORS)) if arguments.full else subset()
    settings = [each for each in settings if arguments.model in (None, each[0])]
    start = time.monotonic()
    matrix = Matrix(arguments.binary, arguments.library)
    for setting in settings:
        matrix.check(setting)
    for fault in matrix.faults:
        print(fault)
    print(f"{len(settings)} settings of {len(list(itertools.product(*FACTORS)))}, {len(matrix.outcomes)} runs, "
          f"{len(matrix.faults)} faults, {time.monotonic() - start:.0f} s")
    return 1 if matrix.faults else 0


if __name__ == "__main__":
    sys.exit(main())
