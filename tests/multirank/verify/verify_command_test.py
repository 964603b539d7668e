#!/usr/bin/python3
"""escalier verify as a user starts it: what it prints, its exit codes, and what it refuses.

  verify_command_test.py --binary build/release/bin/escalier [--library libescalier_cuda_emulated.so] [unittest arguments]
"""
import argparse
import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "harness"))
from escalier_job import N0, ROOT, Case, d0_tokens, environment, with_keys, write_tokens, yaml  # noqa: E402

BINARY = ""
EQUAL, USAGE, INPUT_MISSING = 0, 2, 66


class VerifyTest(unittest.TestCase):
    def verify(self, spec, ranks, *arguments):
        with Case(BINARY) as case:
            with open(case.path("job.yaml"), "w", encoding="utf-8") as file:
                file.write(yaml(spec))
            write_tokens(case.path("d0.bin"), d0_tokens())
            line = [os.path.join(ROOT, "scripts/mpirun"), "-n", str(ranks), os.path.abspath(BINARY), "verify", "job.yaml"]
            return subprocess.run([*line, *arguments], cwd=case.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, timeout=120, env=environment(OMP_NUM_THREADS="1"), check=False)

    def refused(self, words, ranks, *arguments, spec=N0, code=USAGE):
        result = self.verify(spec, ranks, *arguments)
        self.assertEqual(result.returncode, code, result.stdout)
        self.assertIn(words, result.stdout)
        self.assertEqual(result.stdout.count("escalier: "), 1, result.stdout)
        return result.stdout

    def test_pipelines_are_equal_to_the_bit(self):
        result = self.verify(N0, 3, "--grid", "tp=1", "--grid", "pp=2,schedule=zb-h1,layout=[3, 1]", "--steps", "2")
        self.assertEqual(result.returncode, EQUAL, result.stdout)
        self.assertIn("demanded  equal to the bit", result.stdout)
        self.assertIn("layers 3 1", result.stdout)
        self.assertIn("equal     2 steps", result.stdout)
        rows = [line.split() for line in result.stdout.splitlines() if line.startswith("2 ")]
        self.assertEqual([row[1] for row in rows], ["loss", "gradient", "gradients", "first", "second", "weights"])

    def test_tensor_grids_are_equal_up_to_rounding(self):
        result = self.verify(N0, 2, "--grid", "tp=1", "--grid", "tp=2", "--steps", "1", "--activations")
        self.assertEqual(result.returncode, EQUAL, result.stdout)
        self.assertIn("demanded  equal up to rounding", result.stdout)
        self.assertIn("activation gradients", result.stdout)

    def test_rounding_is_that_of_the_device_that_is_found(self):
        result = self.verify(with_keys(N0, run__device="auto"), 2, "--grid", "tp=1", "--grid", "tp=2", "--steps", "1")
        self.assertEqual(result.returncode, EQUAL, result.stdout)
        if "ESCALIER_CUDA_LIBRARY" in os.environ:  # bf16
            row = next(line.split() for line in result.stdout.splitlines() if line.startswith("1 ") and " gradients " in line)
            self.assertGreater(float(row[4]), 1e-6, result.stdout)

    def test_one_schedule_for_both(self):
        result = self.verify(N0, 2, "--grid", "pp=2", "--grid", "pp=2,chunks=2,schedule=interleaved", "--schedule", "gpipe",
                             "--steps", "1")
        self.assertEqual(result.returncode, EQUAL, result.stdout)
        self.assertIn("A         pp=2: gpipe", result.stdout)
        self.assertIn("B         pp=2,chunks=2,schedule=interleaved: interleaved", result.stdout)

    def test_what_does_not_fit_is_refused(self):
        self.refused("needs 4 ranks, but there are 2", 2, "--grid", "tp=1", "--grid", "tp=2,pp=2")
        self.refused("--grid tp=3: ", 1, "--grid", "tp=1", "--grid", "tp=3")
        self.refused('found "vp=2"', 1, "--grid", "tp=1", "--grid", "vp=2")
        self.refused("tp is there twice", 1, "--grid", "tp=1", "--grid", "tp=1,tp=1")
        self.refused("8 is not divisible by 3", 3, "--grid", "tp=1", "--grid", "dp=3")
        self.refused("train.global_batch is 1 on the first grid and 2 on the second", 2, "--grid", "tp=1", "--grid", "dp=2",
                     spec=with_keys(N0, train__global_batch=None))
        self.refused("train.steps is 10", 1, "--grid", "tp=1", "--grid", "tp=1", "--steps", "11")
        for value in ("optimizer.lrr=1", "optimizer.clip_grad=-1", "train.micro_batch=0"):
            output = self.refused(value.split("=", maxsplit=1)[0], 1, "--grid", "tp=1", "--grid", "tp=1", "--set", value)
            self.assertNotIn("--grid", output)
        self.refused("none.bin", 1, "--grid", "tp=1", "--grid", "tp=1", code=INPUT_MISSING,
                     spec=with_keys(N0, data__train=[{"path": "none.bin"}]))

    def test_two_grids_are_needed(self):
        result = self.verify(N0, 1, "--grid", "tp=1")
        self.assertEqual(result.returncode, USAGE, result.stdout)
        self.assertIn("found 1 grids, wanted two", result.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--library")
    arguments, others = parser.parse_known_args()
    BINARY = arguments.binary
    if arguments.library:
        os.environ.update(ESCALIER_CUDA_LIBRARY=os.path.abspath(arguments.library), ESCALIER_CUDA_DEVICES="8", ESCALIER_CUDA_SEED="1")
    unittest.main(argv=[sys.argv[0], *others], verbosity=2)
