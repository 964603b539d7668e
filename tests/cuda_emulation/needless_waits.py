#!/usr/bin/python3
"""Every place of the CUDA backend that lets a stream wait for an event matters: without its waits, some run goes wrong.

  needless_waits.py --binary build/release/bin/escalier --library libescalier_cuda_emulated.so

Runs a few jobs as they should be and collects the places that wait (shims/dropped_waits.h). Then each place's waits are
left out, and the same jobs must show it under one of several seeds: by another loss, norm or weight, or by failing.
"""
import argparse
import hashlib
import os
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "harness")]
from escalier_job import N0, Case, with_keys  # noqa: E402

SEEDS = range(1, 121)  # the first that shows it ends the search
BASE = with_keys({**N0, "model": {**N0["model"], "num_layers": 4, "hidden_size": 48, "ffn_size": 40}}, run__device="cuda",
                 train__steps=2, train__global_batch=8, run__comm_timeout_s=20)
JOBS = [  # (changes, ranks): every kind of message, on both transports, and DualPipe's sums in the background
    ({"parallel__pp": 2, "parallel__dp": 2, "run__comm": "nccl"}, 4),
    ({"parallel__pp": 2, "parallel__dp": 2, "run__comm": "staged", "run__share_gpu": True}, 4),
    ({"parallel__tp": 2, "parallel__pp": 2, "pipeline__schedule": "dualpipe", "run__comm": "nccl"}, 4),
    ({"parallel__tp": 2, "parallel__pp": 2, "pipeline__schedule": "dualpipe", "run__comm": "staged",
      "run__share_gpu": True}, 4),
]


def run(binary, number, seed, **variables):
    """What a job's run comes to: its steps and the digest of its weights, or None if it fails."""
    changes, ranks = JOBS[number]
    os.environ["ESCALIER_CUDA_SEED"] = str(seed)
    for name in ("ESCALIER_CUDA_LIST_WAITS", "ESCALIER_CUDA_DROP_WAIT"):
        os.environ.pop(name, None)
    os.environ.update(variables)
    with Case(binary) as case:
        result = case.run(with_keys(BASE, **changes), ranks, ["--save-weights", "weights.safetensors"], timeout=60)
        if result.code != 0:
            return None, str(result)
        with open(case.path("weights.safetensors"), "rb") as file:
            return ([(step["loss"], step["grad_norm"]) for step in result.steps],
                    hashlib.sha256(file.read()).hexdigest()), ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--library", required=True, help="the emulated CUDA backend")
    arguments = parser.parse_args()
    os.environ["ESCALIER_CUDA_LIBRARY"] = os.path.abspath(arguments.library)
    start = time.monotonic()
    expected, jobs_of = {}, {}
    for number in range(len(JOBS)):
        with Case(arguments.binary) as folder:
            expected[number], problem = run(arguments.binary, number, 1,
                                            ESCALIER_CUDA_LIST_WAITS=folder.path("waits.txt"))
            if expected[number] is None:
                print(f"job {number} fails as it stands: {problem}")
                return 1
            with open(folder.path("waits.txt"), encoding="utf-8") as file:
                for place in set(file.read().split()):
                    jobs_of.setdefault(place, []).append(number)
    unnoticed = []
    for place, numbers in sorted(jobs_of.items()):
        tries = [(number, seed) for seed in SEEDS for number in numbers]
        if all(run(arguments.binary, number, seed, ESCALIER_CUDA_DROP_WAIT=place)[0] == expected[number]
               for number, seed in tries):
            unnoticed.append(place)
    for place in unnoticed:
        print(f"nobody noticed that the waits at {place} were left out (jobs {jobs_of[place]})")
    print(f"{len(jobs_of)} places that wait, {len(unnoticed)} unnoticed, {time.monotonic() - start:.0f} s")
    return 1 if unnoticed or len(jobs_of) < 4 else 0


if __name__ == "__main__":
    sys.exit(main())
