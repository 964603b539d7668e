#!/usr/bin/python3
"""A checkpoint of one grid goes on on another.

  regrid_matrix.py --binary build/release/bin/escalier                      every pair of model, run before, grid, schedule
                                                                            and layout after
  regrid_matrix.py --binary build/release/bin/escalier --brief              each of them once, for the sanitizers
  regrid_matrix.py --binary build/release/bin/escalier --full --model NAME  one model: every grid, schedule and layout after each
                                                                            of the grids before

The run before saves after every step and goes on to the end; the run after starts from its second step. Where tensor and
data sizes are the same, the rest of both is equal to the bit (losses, norms, weights), but for two copies of the model
(dualpipe) and backward passes in reverse (lifo); else losses agree to 1e-5 and norms to 1e-4 (design, "Numerics contract").
"""
import argparse
import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from resumed_job import ACROSS_TENSOR_AND_DATA_SIZES, run_resumed, run_straight  # noqa: E402
from escalier_job import N0, Case, side_by_side, with_keys  # noqa: E402
from grid_matrix import ALL_SCHEDULES, CHUNKED, LLAMA, TO_ROUNDING, covering, uneven  # noqa: E402

STEPS, CUT = 4, 2
# 61 tokens pad to 128, 256 or 512, as tensor sizes are; one key/value head has replicas on 2 and 4 of their ranks, two on 4.
SHAPE = {"num_layers": 8, "hidden_size": 32, "ffn_size": 64, "vocab_size": 61}
MODELS = {
    "gpt2": {**N0["model"], **SHAPE},
    "gpt2-tied-dropout": {**N0["model"], **SHAPE, "tie_embeddings": True, "dropout": 0.1},
    "llama-grouped": {**LLAMA, **SHAPE, "num_kv_heads": 2, "qk_norm": True},
    "llama-tied-one-kv-head": {**LLAMA, **SHAPE, "num_kv_heads": 1, "tie_embeddings": True, "qkv_bias": True},
}
BEFORE = [((1, 1, 1), "1f1b", "even"), ((2, 2, 1), "zbv", "uneven"), ((1, 4, 1), "dualpipe", "even"), ((4, 1, 2), "1f1b", "even")]
# Three stages cut eight layers unevenly.
AFTER = [(1, 1, 1), (2, 1, 1), (4, 1, 1), (1, 2, 1), (1, 4, 1), (1, 3, 1), (1, 1, 2), (2, 2, 1), (1, 2, 2), (2, 1, 2)]
LARGER = [(1, 1, 4), (2, 2, 2), (4, 2, 1), (1, 8, 1)]


def fits(grid, schedule):
    _, pp, dp = grid
    if pp == 1:
        return schedule in ("1f1b", "gpipe", "gpipe lifo")
    if pp == 3:  # eight layers on six stages, eight micro-batches in threes: not all schedules take them
        return schedule in ("1f1b", "gpipe", "zb-h1", "zb-h2", "zbv", "auto")
    if pp == 8:  # eight stages of one layer, eight micro-batches
        return schedule in ("1f1b", "gpipe", "zb-h1", "zb-h2", "auto")
    return True


def stages(grid, schedule):
    return grid[1] * (2 if schedule in CHUNKED else 1)


def layouts(grid, schedule):
    count = stages(grid, schedule)
    return ["even"] if count in (1, SHAPE["num_layers"]) else ["uneven"] if SHAPE["num_layers"] % count else ["even", "uneven"]


def job(model, place):
    (tp, pp, dp), schedule, layout = place
    count = stages((tp, pp, dp), schedule)
    return with_keys(
        {**N0, "model": MODELS[model]}, train__steps=STEPS, parallel__tp=tp, parallel__pp=pp, parallel__dp=dp,
        pipeline__schedule=schedule.removesuffix(" lifo"), pipeline__backward="lifo" if schedule.endswith(" lifo") else "fifo",
        pipeline__layout=uneven(count, SHAPE["num_layers"]) if layout == "uneven" else "even",
        optimizer__weight_decay=0.1, optimizer__clip_grad=1.0, lr__schedule="cosine", lr__warmup_steps=1,
        data__split="9,1,0", eval__every=2, eval__batches=1)


def everything(model, befores, grids):
    return [(model, before, (grid, schedule, layout)) for before in befores for grid in grids for schedule in ALL_SCHEDULES
            if fits(grid, schedule) for layout in layouts(grid, schedule)]


def subset(strength):
    """Every pair of model, run before, grid, schedule and layout that can be (strength 1: each of them once)."""
    all_of_them = sum((everything(model, BEFORE[:3], AFTER) for model in MODELS), [])
    chosen = covering([(model, before, *after) for model, before, after in all_of_them], strength)
    return [(model, before, tuple(after)) for model, before, *after in chosen]


def text(place):
    grid, schedule, layout = place
    return f"{'x'.join(map(str, grid))} (tp x pp x dp) {schedule}, layout {layout}"


def faults_of(binary, model, before, places):
    """One case in which the run before and all that go on from it lie."""
    with Case(binary) as case:
        straight = run_straight(case, job(model, before))
        if straight.fault:
            return [straight.fault]
        faults = []
        for index, after in enumerate(places):
            resumed = run_resumed(case, job(model, after), CUT, name=f"after{index}")
            (tp, _, dp), was, _ = before
            same = (tp, dp) == (after[0][0], after[0][2]) and not {was, after[1]} & set(TO_ROUNDING)
            fault = resumed.fault or resumed.differs(straight, CUT + 1, None if same else ACROSS_TENSOR_AND_DATA_SIZES)
            if fault:
                faults.append(f"going on on {text(after)}: {fault}")
        return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--full", action="store_true")
    extent.add_argument("--brief", action="store_true")
    parser.add_argument("--model", choices=list(MODELS), help="this one only")
    parser.add_argument("--list", action="store_true", help="print the settings, run nothing")
    arguments = parser.parse_args()
    models = [arguments.model] if arguments.model else list(MODELS)
    if arguments.full:
        chosen = sum((everything(model, BEFORE, AFTER + LARGER) for model in models), [])
    else:
        chosen = [each for each in subset(1 if arguments.brief else 2) if each[0] in models]
    groups = {}
    for model, before, after in chosen:
        groups.setdefault((model, before), []).append(after)
    if arguments.list:
        for (model, before), places in groups.items():
            for after in places:
                print(f"{model} saved on {text(before)}, going on on {text(after)}")
        return 0
    start, count = time.monotonic(), 0
    for ((model, before), places), faults in side_by_side(
            lambda group: faults_of(arguments.binary, *group[0], group[1]), list(groups.items())):
        for fault in faults:
            print(f"{model} saved on {text(before)}: {fault}", flush=True)
            count += 1
    print(f"{len(chosen)} settings, {len(chosen) + len(groups)} runs, {count} faults, {time.monotonic() - start:.0f} s")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
