#!/usr/bin/python3
"""What `escalier plan` says a rank takes is what it takes when it trains: every arena to the byte, counted by the calls
for memory that the process makes (harness/counted_memory.cpp), and resident memory within 5 % + 30 MiB.

  planned_memory_test.py --binary build/release/bin/escalier --library build/release/lib/libcounted_memory.so
"""
import argparse
import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "harness"))
from escalier_job import N0, Case, with_keys  # noqa: E402

BINARY = LIBRARY = None
SANITIZED = False
MIB = 1 << 20

LLAMA = {"arch": "llama", "num_layers": 4, "hidden_size": 32, "num_heads": 4, "num_kv_heads": 2, "ffn_size": 88,
         "vocab_size": 64, "tie_embeddings": False}
TIED = {**N0["model"], "tie_embeddings": True, "dropout": 0.1}
DEEP = {**N0["model"], "num_layers": 8}
WIDE = {**N0["model"], "hidden_size": 512, "ffn_size": 2048, "num_heads": 8, "vocab_size": 8192, "num_layers": 4}


def job(model, grid, schedule, recompute, **changes):
    tp, pp, dp = grid
    return with_keys({**N0, "model": model}, parallel__tp=tp, parallel__pp=pp, parallel__dp=dp,
                     pipeline__schedule=schedule, train__recompute=recompute, train__steps=3, **changes)


# Each setting of schedule, recompute, layout, model and checkpoints at least once, with the grids mixed.
JOBS = {
    "one rank, asynchronous saves": job(N0["model"], (1, 1, 1), "1f1b", "none", checkpoint__every=2),
    "uneven layers": job(N0["model"], (1, 2, 1), "1f1b", "full", pipeline__layout=[1, 3]),
    "tensor group, tied": job(TIED, (2, 1, 1), "gpipe", "attention", checkpoint__every=2),
    "shares of a checkpoint": job(N0["model"], (1, 1, 4), "1f1b", "none", checkpoint__every=2),
    "saves that training waits for": job(N0["model"], (1, 1, 2), "1f1b", "none", checkpoint__every=2,
                                         checkpoint__async=False, optimizer__name="sgd"),
    "t and p, one key/value head": job({**LLAMA, "num_kv_heads": 1, "qkv_bias": True, "tie_embeddings": True}, (2, 2, 1),
                                       "zb-h1", "none", checkpoint__every=2),
    "t and p and chunks": job({**LLAMA, "num_layers": 8, "qk_norm": True}, (2, 2, 1), "interleaved", {"every": 2},
                              pipeline__layout=[1, 3, 2, 2], checkpoint__every=2),
    "p and d, validation": job(DEEP, (1, 2, 2), "zbv", "attention", checkpoint__every=2, eval__every=2, eval__batches=1,
                               data__split="9,1,0"),
    "four stages, split backward": job(DEEP, (1, 4, 1), "zb-h2", ["full", "none", "attention", "none"], train__micro_batch=2,
                                       train__global_batch=32),
    "two copies of the model": job({**TIED, "num_layers": 8}, (1, 4, 1), "dualpipe", "none", pipeline__layout="even",
                                   checkpoint__every=2),
    "key/value heads shared": job({**LLAMA, "num_kv_heads": 2}, (4, 1, 1), "1f1b", "full", train__micro_batch=4,
                                  run__threads=2),
    "large": job(WIDE, (1, 2, 1), "1f1b", "none", train__seq_len=128, train__micro_batch=4, train__global_batch=16,
                 model__max_positions=128, checkpoint__every=1),
    "large tensor group": job(WIDE, (2, 1, 1), "gpipe", "none", train__seq_len=128, train__micro_batch=4,
                              train__global_batch=16, checkpoint__every=1),
    "large replicas": job(WIDE, (1, 1, 2), "1f1b", "full", train__seq_len=128, train__micro_batch=8,
                          train__global_batch=32, checkpoint__every=1),
}


def ranks_of(spec):
    grid = spec["parallel"]
    return grid["tp"] * grid["pp"] * grid["dp"]


def counted(folder, rank):
    """({kind: [bytes]}) of one rank."""
    found = {}
    with open(os.path.join(folder, f"{rank}.txt"), encoding="utf-8") as file:
        for line in file:
            kind, number = line.split()
            found.setdefault(kind, []).append(int(number))
    return found


class PlannedMemory(unittest.TestCase):
    def run_and_plan(self, spec):
        """Checks one job; returns the plan's ranks and their peaks."""
        with Case(BINARY) as case:
            variables = {"LD_PRELOAD": LIBRARY, "COUNTED_MEMORY": case.folder,
                         "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
            result = case.run(spec, ranks_of(spec), variables=variables)
            self.assertEqual(result.code, 0, result)
            ranks = case.plan(ranks_of(spec), "--all-ranks")["memory"]["ranks"]
            self.assertEqual([rank["rank"] for rank in ranks], list(range(ranks_of(spec))))
            start, end = case.events("start")[0], case.events("end")[0]
            for rank in ranks:
                with self.subTest(rank=rank["rank"]):
                    self.check_rank(rank, counted(case.folder, rank["rank"]), start["memory"][rank["rank"]],
                                    end["peak_resident_bytes"][rank["rank"]])
            self.check_fullest(ranks, case.plan(ranks_of(spec))["memory"]["ranks"])

    def check_rank(self, rank, found, recorded, resident):
        self.assertEqual(found["arena"], [size for size in rank["arenas"].values() if size], "the arenas as mapped")
        self.assertEqual(sum(found["arena"]), rank["arena_bytes"])
        self.assertEqual(recorded, {"arena_bytes": rank["arena_bytes"], "arenas": rank["arenas"]})
        # Beside the arenas the program maps nothing, but the ends of pages and what ranks share.
        self.assertEqual(found["private"][0], sum((size + 4095) // 4096 * 4096 for size in found["arena"]))
        if SANITIZED:  # heaps with guards and shadows say nothing of a run's own
            return
        self.assertLess(found["heap"][0] + found.get("shared", [0])[0], rank["outside_host_bytes"] + 30 * MIB)
        print(f"  rank {rank['rank']}: arenas {rank['arena_bytes'] / MIB:.1f}, planned {rank['total_bytes'] / MIB:.1f}, "
              f"resident {resident / MIB:.1f}, heap {found['heap'][0] / MIB:.1f}, shared "
              f"{found.get('shared', [0])[0] / MIB:.1f} MiB", flush=True)
        self.assertLess(abs(resident - rank["total_bytes"]), 0.05 * rank["total_bytes"] + 30 * MIB)

    def check_fullest(self, ranks, fullest):
        """Of each pipeline rank the plan names the rank that takes most."""
        for row in fullest:
            most = max(rank["arena_bytes"] for rank in ranks if rank["pp_rank"] == row["pp_rank"])
            self.assertEqual(row["arena_bytes"], most)
            self.assertEqual(row, ranks[row["rank"]])


def add_test(name, spec):
    def test(self):
        print(name, flush=True)
        self.run_and_plan(spec)

    setattr(PlannedMemory, "test_" + name.replace(" ", "_").replace(",", "").replace("/", "_"), test)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--sanitized", action="store_true")
    known, rest = parser.parse_known_args()
    BINARY, LIBRARY, SANITIZED = os.path.abspath(known.binary), os.path.abspath(known.library), known.sanitized
    for title, described in JOBS.items():
        add_test(title, described)
    unittest.main(argv=[sys.argv[0], *rest])
