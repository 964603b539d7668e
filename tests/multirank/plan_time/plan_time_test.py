#!/usr/bin/python3
"""The time half of `escalier plan` through the command line: prediction, profiles, layouts by a profile, search.

  plan_time_test.py --binary build/release/bin/escalier
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "harness"))
from escalier_job import N0, ROOT, environment, with_keys, yaml  # noqa: E402

BINARY = None
JOB = with_keys(N0, parallel__pp=2, train__micro_batch=2, train__dtype="fp32")
LARGEST = {"model": {"preset": "llama3.1-405b"}, "parallel": {"tp": 8, "pp": 16},
           "pipeline": {"schedule": "interleaved", "chunks": 4, "layout": [1] + [2] * 62 + [1]},
           "train": {"seq_len": 8192, "global_batch": 2048, "dtype": "bf16", "recompute": "full"}}


class PlanTime(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="escalier_test_")
        self.folder = self.temporary.name
        self.write("job.yaml", yaml(JOB))

    def tearDown(self):
        self.temporary.cleanup()

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def escalier(self, *arguments, ranks=0, code=0):
        launcher = [os.path.join(ROOT, "scripts/mpirun"), "-n", str(ranks)] if ranks else []
        done = subprocess.run([*launcher, BINARY, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True,
                              env=environment(OMP_NUM_THREADS="1"), timeout=250, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def time_of(self, *arguments):
        return json.loads(self.escalier("plan", "job.yaml", "--json", *arguments))["time"]

    def test_prediction(self):
        page = self.escalier("plan", "job.yaml")
        for word in ("roofline of cpu", "step ", "bubble ", "exposed communication", "tokens/s", "MFU", "even layers"):
            self.assertIn(word, page)
        time = self.time_of("--gpu", "h100", "--svg", "plan.svg")
        with open(os.path.join(self.folder, "plan.svg"), encoding="utf-8") as file:
            self.assertIn("roofline of h100", file.read())
        parts = sum(time[part] for part in ("data_s", "pipeline_s", "reduction_s", "norm_s", "optimizer_s"))
        self.assertAlmostEqual(parts, time["step_s"], places=12)
        self.assertEqual(len(time["pipeline_ranks"]), 2)
        self.assertLess(self.time_of("--gpu", "b200")["step_s"], self.time_of("--gpu", "a100")["step_s"])

    def test_hardware_files(self):
        with open(os.path.join(ROOT, "configs/hardware/h100.yaml"), encoding="utf-8") as file:
            text = file.read()
        self.write("mine.yaml", text.replace("gb_per_s: 3350.0", "gb_per_s: 6700.0"))
        self.assertLess(self.time_of("--hardware", "mine.yaml")["step_s"], self.time_of("--gpu", "h100")["step_s"])
        self.write("wrong.yaml", text.replace("matmul: 0.72", "matmul: 72"))
        said = self.escalier("plan", "job.yaml", "--hardware", "wrong.yaml", code=2)
        self.assertRegex(said, r"wrong\.yaml:\d+:\d+: efficiency\.matmul: found 72")
        self.assertIn("hardware file absent.yaml", self.escalier("plan", "job.yaml", "--hardware", "absent.yaml", code=66))
        self.assertIn("wanted one of a100, b200, cpu, h100, h200", self.escalier("plan", "job.yaml", "--gpu", "h10", code=2))

    def test_profile(self):
        self.escalier("plan", "job.yaml", "--measure", "--out", "profile.yaml", "--repeats", 2, ranks=2)
        time = self.time_of("--profile", "profile.yaml")
        self.assertIn("measured (profile.yaml)", time["source"])
        self.assertGreater(time["step_s"], 0)
        # Twice the micro-batches take longer; another schedule takes the same parts.
        more = self.time_of("--profile", "profile.yaml", "--set", "train.global_batch=16")
        self.assertGreater(more["pipeline_s"], 1.4 * time["pipeline_s"])
        said = self.escalier("plan", "job.yaml", "--profile", "profile.yaml", "--set", "train.micro_batch=4", code=2)
        self.assertIn("micro_batch 2, but the job has 4", said)
        said = self.escalier("plan", "job.yaml", "--profile", "profile.yaml", "--set", "model.ffn_size=64", code=2)
        self.assertIn("model.ffn_size 128, but the job has 64", said)
        # The layout that a profile leads to is recorded as a list, and trains.
        self.assertIn("layers 0-", self.escalier("check", "job.yaml", "--ranks", 2, "--set", "pipeline.layout=profile.yaml"))
        self.write("d0.bin", "")
        with open(os.path.join(self.folder, "d0.bin"), "wb") as file:
            file.write(bytes(2 * 2048))
        self.escalier("train", "job.yaml", "--set", "pipeline.layout=profile.yaml", "--set", "train.steps=1", ranks=2)
        with open(os.path.join(self.folder, "runs/case/config.yaml"), encoding="utf-8") as file:
            self.assertRegex(file.read(), r"layout: \[\d, \d\]")

    def test_search(self):
        self.write("job.yaml", yaml(LARGEST))
        found = json.loads(self.escalier("plan", "job.yaml", "--ranks", 16384, "--gpu", "h100", "--search", "--json"))["search"]
        self.assertEqual(len(found["best"]), 10)
        steps = [entry["step_s"] for entry in found["best"]]
        self.assertEqual(steps, sorted(steps))
        for entry in found["best"]:
            self.assertEqual(entry["tp"] * entry["pp"] * entry["dp"], 16384)
            self.assertEqual(entry["micro_batch"] * entry["micro_batches"] * entry["dp"], 2048)
            self.assertEqual(sum(entry["layers"]), 126)
            self.assertLessEqual(entry["bytes"], found["limit_bytes"])
        page = self.escalier("plan", "job.yaml", "--ranks", 8192, "--gpu", "h100", "--search")
        self.assertIn("The job's own grid", page)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    arguments, rest = parser.parse_known_args()
    BINARY = os.path.abspath(arguments.binary)
    unittest.main(argv=[sys.argv[0], *rest])
