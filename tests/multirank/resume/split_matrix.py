#!/usr/bin/python3
"""A run in two parts is the run in one part, bit for bit: losses, norms, rates, validation, counters, weights.

  split_matrix.py --binary build/release/bin/escalier          every pair of settings, schedules in turn
  split_matrix.py --binary build/release/bin/escalier --full   every schedule with every pair of other settings, and every
                                                               step at which a run can be cut
The straight run saves after every step; the second part starts from one of its checkpoints.
"""
import argparse
import os
import struct
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from resumed_job import run_resumed, run_straight  # noqa: E402
from escalier_job import N0, Case, d0_tokens, side_by_side, with_keys, write_tokens  # noqa: E402
from grid_matrix import ALL_SCHEDULES, LLAMA, covering_subset  # noqa: E402

STEPS = 6
SHAPE = {"num_layers": 8, "hidden_size": 32, "ffn_size": 64, "vocab_size": 61}
MODELS = {
    "gpt2-tied-dropout": {**N0["model"], **SHAPE, "tie_embeddings": True, "dropout": 0.1},
    "llama-grouped": {**LLAMA, **SHAPE, "num_kv_heads": 2, "qk_norm": True},
}
OPTIMIZERS = {
    "adamw": {"name": "adamw", "weight_decay": 0.1, "clip_grad": 0.5, "beta2": 0.999},
    "sgd": {"name": "sgd", "weight_decay": 0.1, "clip_grad": 0.5},
}
# Where the rate is in its rise, at its top and in its fall, depending on the cut.
RATES = {
    "cosine": {"peak": 1e-2, "min": 1e-3, "schedule": "cosine", "warmup_steps": 2},
    "wsd": {"peak": 1e-2, "schedule": "wsd", "warmup_steps": 1, "decay_steps": 2},
    "inverse_sqrt": {"peak": 1e-2, "schedule": "inverse_sqrt", "warmup_steps": 3},
}
SHORT = [{"path": "short.bin"}]
# Six steps of eight samples: 48 of 512, 2.8 epochs of 17, whose ends lie within steps, and 3 of 16 at whose ends steps end.
DATA = {
    "long": {"train": [{"path": "d0.bin"}], "split": "9,1,0"},
    "short": {"train": SHORT, "split": "17,3,0"},
    "whole epochs": {"train": SHORT, "split": "16,4,0"},
    "blend": {"train": [{"path": "short.bin", "weight": 0.7}, {"path": "d0.bin", "weight": 0.3}], "split": "8,2,0"},
    "megatron": {"train": [{"path": "documents"}], "format": "megatron", "split": "8,2,0", "order": "megatron"},
}
GRIDS = [(1, 2, 1), (2, 2, 1), (1, 2, 2), (1, 4, 1)]
RECOMPUTE = ["none", "full", "attention"]
CUTS = [1, 3, 5]
FACTORS = [list(MODELS), list(OPTIMIZERS), list(RATES), list(DATA), GRIDS, RECOMPUTE, [True, False], CUTS]


def job(setting):
    schedule, model, optimizer, rate, data, (tp, pp, dp), recompute, asynchronous, _ = setting
    spec = with_keys(N0, train__steps=STEPS, train__recompute=recompute, parallel__tp=tp, parallel__pp=pp, parallel__dp=dp,
                     pipeline__schedule=schedule.removesuffix(" lifo"),
                     pipeline__backward="lifo" if schedule.endswith(" lifo") else "fifo",
                     checkpoint__async=asynchronous, eval__every=2, eval__batches=1)
    return {**spec, "model": MODELS[model], "optimizer": OPTIMIZERS[optimizer], "lr": RATES[rate],
            "data": {"format": "raw16", **DATA[data]}}


def settings(full):
    others = covering_subset(FACTORS)
    if full:
        return [(schedule, *other) for schedule in ALL_SCHEDULES for other in others]
    return [(ALL_SCHEDULES[index % len(ALL_SCHEDULES)], *other) for index, other in enumerate(others)]


def text(setting):
    schedule, model, optimizer, rate, data, grid, recompute, asynchronous, cut = setting
    return (f"{model} {'x'.join(map(str, grid))} (tp x pp x dp) {schedule}, {optimizer}, rate {rate}, data {data}, recompute "
            f"{recompute}, {'asynchronous' if asynchronous else 'synchronous'} saves, cut after step {cut}")


def write_documents(prefix, tokens):
    """A Megatron data set of ten documents of equal length."""
    count, each = 10, len(tokens) // 10
    write_tokens(prefix + ".bin", tokens)
    with open(prefix + ".idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, count, count + 1))
        file.write(struct.pack(f"<{count}i", *[each] * count))
        file.write(struct.pack(f"<{count}q", *[2 * each * document for document in range(count)]))
        file.write(struct.pack(f"<{count + 1}q", *range(count + 1)))


def faults_of(binary, setting, cuts):
    with Case(binary) as case:
        write_tokens(case.path("short.bin"), d0_tokens()[:20 * 16 + 1])
        write_documents(case.path("documents"), d0_tokens()[:20 * 16])
        spec = job(setting)
        straight = run_straight(case, spec)
        if straight.fault:
            return [f"straight: {straight.fault}"]
        faults = []
        for cut in cuts:
            resumed = run_resumed(case, spec, cut, name=f"from{cut}")
            fault = resumed.fault or resumed.differs(straight, cut + 1)
            if fault:
                faults.append(f"resumed after step {cut}: {fault}")
        if len(straight.evals) != STEPS // 2:
            faults.append(f"{len(straight.evals)} validations")
        return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--schedule", choices=ALL_SCHEDULES, help="this one only")
    parser.add_argument("--list", action="store_true", help="print the settings, run nothing")
    arguments = parser.parse_args()
    chosen = [each for each in settings(arguments.full) if arguments.schedule in (None, each[0])]
    if arguments.list:
        print("\n".join(map(text, chosen)))
        return 0
    start, count = time.monotonic(), 0
    for setting, faults in side_by_side(
            lambda each: faults_of(arguments.binary, each, range(1, STEPS) if arguments.full else each[-1:]), chosen):
        for fault in faults:
            print(f"{text(setting)}: {fault}", flush=True)
            count += 1
    print(f"{len(chosen)} settings, {count} faults, {time.monotonic() - start:.0f} s")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
