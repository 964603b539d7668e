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
        for word in ("roofline of cpu", "step ", "bubble ", "exposed communication", "tokens/s", "MFU", "even, and balanced"):
            self.assertIn(word, page)
        time = self.time_of("--gpu", "h100", "--svg", "plan.svg")
        with open(os.path.join(self.folder, "plan.svg"), encoding="utf-8") as file:
            self.assertIn("roofline of h100", file.read())
        parts = sum(time[part] for part in ("data_s", "pipeline_s", "reduction_s", "norm_s", "optimizer_s"))
        self.assertAlmostEqual(parts, time["step_s"], places=12)
        self.assertEqual(len(time["pipeline_ranks"]), 2)
        self.assertLess(self.time_of("--gpu", "b200")["step_s"], self.time_of("--gpu", "a100")["step_s"])

    def test_layouts_are_held_against_even_ones(self):
        head = ("--set", "model.vocab_size=4096")  # one that outweighs the layers
        gain = self.time_of(*head)["layout"]
        self.assertEqual(gain["own"], gain["balanced"])
        self.assertEqual(gain["even"]["layers"], [2, 2])
        self.assertGreater(gain["own"]["layers"][0], 2)
        self.assertLess(gain["own"]["slowest_stage_s"], gain["even"]["slowest_stage_s"])
        self.assertLess(gain["own"]["step_s"], gain["even"]["step_s"])
        page = self.escalier("plan", "job.yaml", *head)
        self.assertRegex(page, r"layout     \[3, 1\], balanced by these times: slowest stage \S+ ms against \S+ ms even, "
                               r"step \S+ % shorter")
        page = self.escalier("plan", "job.yaml", *head, "--set", "pipeline.layout=even")
        self.assertRegex(page, r"layout     \[2, 2\], even\n +\[3, 1\] would be balanced by these times: .* % shorter")
        page = self.escalier("plan", "job.yaml", *head, "--set", "pipeline.layout=[1, 3]")
        self.assertRegex(page, r"layout     \[1, 3\]: slowest stage .* % longer\n +\[3, 1\] would be")
        # One stage has nothing to be laid out.
        self.assertNotIn("layout ", self.escalier("plan", "job.yaml", "--set", "parallel.pp=1"))

    def test_a_sleeping_clock_is_predicted_by_its_set_times(self):
        sleeping = ("--set", "run.clock=sleep", "--set", "run.layer_ms=2", "--set", "pipeline.layout=even")
        time = self.time_of(*sleeping)
        self.assertAlmostEqual(time["step_s"], (4 + 2 - 1) * 3 * 2 * 2e-3)  # (M + P - 1) passes of two layers
        self.assertIsNone(time["mfu"])
        page = self.escalier("plan", "job.yaml", *sleeping)
        self.assertIn("set by run.layer_ms, 2 ms, for run.clock sleep", page)
        self.assertIn("left out   messages, sums between ranks and the optimizer", page)
        self.assertIn("roofline", self.time_of(*sleeping, "--gpu", "h100")["source"])
        self.assertIn("--search: found run.clock sleep", self.escalier("plan", "job.yaml", *sleeping, "--search", code=2))

    def test_what_is_not_predicted_is_said(self):
        page = self.escalier("plan", "job.yaml", "--set", "eval.every=50", "--set", "checkpoint.every=1")
        self.assertIn("left out   validation every 50 steps; checkpoints every 1 step\n", page)
        self.assertEqual(self.time_of()["left_out"], [])
        time = self.time_of("--gpu", "h100", "--set", "run.device=cuda", "--set", "run.share_gpu=true")
        self.assertEqual(time["left_out"], ["waiting for a GPU that ranks share", "the way of messages through host memory"])
        for key in ("optimizer.zero=1", "parallel.cp=2", "parallel.sequence_parallel=true"):
            self.assertIn("unknown key", self.escalier("plan", "job.yaml", "--set", key, code=2))

    def test_flags_that_do_not_go_together(self):
        for flags in (("--measure", "--json"), ("--measure", "--search"), ("--measure", "--gpu", "h100"),
                      ("--measure", "--profile", "p.yaml"), ("--measure", "--svg", "p.svg"), ("--measure", "--memory", 1),
                      ("--search", "--svg", "p.svg"), ("--search", "--all-ranks"),
                      ("--gpu", "h100", "--hardware", "h100.yaml")):
            self.assertRegex(self.escalier("plan", "job.yaml", *flags, code=2), "excludes")
        for flags in (("--out", "p.yaml"), ("--repeats", 3)):
            self.assertIn("requires --measure", self.escalier("plan", "job.yaml", *flags, code=2))
        self.assertIn("--repeats", self.escalier("plan", "job.yaml", "--measure", "--repeats", 0, code=2))
        self.assertIn("--svg nowhere/p.svg: cannot be written", self.escalier("plan", "job.yaml", "--svg", "nowhere/p.svg", code=74))
        said = self.escalier("plan", "job.yaml", "--measure", "--repeats", 1, "--out", "nowhere/p.yaml", code=74)
        self.assertIn("--out nowhere/p.yaml: cannot be written", said)
        for flags in (("--memory", "1e10"), ("--memory", "inf"), ("--memory", -1)):
            self.assertRegex(self.escalier("plan", "job.yaml", *flags, code=2), r"--memory: found .*, wanted a number from 0 to 1048576")

    def test_sizes_that_do_not_divide(self):
        for keys, said in ((("--ranks", 3), "needs 2 processes, got 3"),
                           (("--set", "parallel.tp=3"), "not divisible by tp 3"),
                           (("--set", "parallel.pp=8"), "layers"),
                           (("--set", "train.global_batch=7"), "global_batch 7")):
            self.assertIn(said, self.escalier("plan", "job.yaml", *keys, code=2))
        for keys, said in ((("--set", "parallel.tp=65536", "--set", "parallel.pp=65536"), "4294967296 processes, and a job may have"),
                           (("--set", "model.num_layers=1025", "--search"), "--search: found model.num_layers 1025")):
            self.assertIn(said, self.escalier("plan", "job.yaml", *keys, code=2))
        said = self.escalier("plan", "job.yaml", "--measure", "--set", "parallel.tp=2", code=2)
        self.assertIn("plan --measure runs whole tensor groups: parallel.tp is 2, found 1 process; start it with mpirun -n 2", said)

    def test_tensor_and_pipeline_ranks_together(self):
        both = ("--set", "parallel.tp=2", "--set", "parallel.dp=2", "--set", "model.tie_embeddings=true")
        self.escalier("plan", "job.yaml", "--measure", "--repeats", 1, *both, ranks=4)
        time = self.time_of("--profile", "profile.yaml", *both)
        rank = time["pipeline_ranks"][0]
        self.assertGreater(rank["tensor_sums_s"], 0)
        self.assertGreater(time["stages"]["message_s"], 0)
        self.assertGreater(time["reduction_s"], 0)
        said = self.escalier("plan", "job.yaml", "--profile", "profile.yaml", *both, "--set", "parallel.tp=1", code=2)
        self.assertIn("tp 2, but the job has 1", said)
        alone = self.escalier("plan", "job.yaml", "--profile", "profile.yaml", *both)
        self.assertNotIn("count as nothing", alone)
        # One tensor group knows nothing of messages, and its profile says so.
        self.escalier("plan", "job.yaml", "--measure", "--repeats", 1, *both, ranks=2)
        self.assertIn("measure with mpirun -n 4 or more", self.escalier("plan", "job.yaml", "--profile", "profile.yaml", *both))
        roofline = self.time_of("--gpu", "h100", *both)
        self.assertGreater(roofline["exposed_communication"], 0)

    def test_ranks_of_a_node_are_those_of_its_links(self):
        def message(*flags):
            return self.time_of("--set", "parallel.pp=4", "--set", "pipeline.layout=even", *flags)["stages"]["message_s"]

        def node(*flags):
            return json.loads(self.escalier("plan", "job.yaml", "--json", "--set", "parallel.pp=4", *flags))["ranks_per_node"]

        self.assertLess(message(), message("--ranks-per-node", 2))  # this machine holds all four
        self.assertEqual(message("--gpu", "cpu"), message("--ranks-per-node", 2))  # that one two
        self.assertEqual(message("--gpu", "cpu", "--ranks-per-node", 4), message())
        self.assertEqual((node(), node("--gpu", "cpu"), node("--gpu", "h100"), node("--ranks-per-node", 3)), (4, 2, 4, 3))

    def test_a_job_laid_out_by_a_profile_can_be_measured(self):
        by_profile = ("--set", "pipeline.layout=profile.yaml", "--set", "train.recompute=auto", "--set", "train.memory_gib=1")
        self.assertIn("profile.yaml", self.escalier("plan", "job.yaml", *by_profile, code=66))
        self.escalier("plan", "job.yaml", "--measure", "--repeats", 1, *by_profile)
        self.assertIn("layout     [", self.escalier("plan", "job.yaml", *by_profile))
        # A profile of other work is no hindrance either.
        self.escalier("plan", "job.yaml", "--measure", "--repeats", 1, *by_profile, "--set", "train.micro_batch=1")

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
        self.assertEqual(len({(entry["tp"], entry["pp"], entry["schedule"]) for entry in found["best"]}), 10)
        self.assertLess(found["too_large"], found["candidates"])
        steps = [entry["step_s"] for entry in found["best"]]
        self.assertEqual(steps, sorted(steps))
        for entry in found["best"]:
            self.assertEqual(entry["tp"] * entry["pp"] * entry["dp"], 16384)
            self.assertEqual(entry["micro_batch"] * entry["micro_batches"] * entry["dp"], 2048)
            self.assertEqual(sum(entry["layers"]), 126)
            self.assertLessEqual(entry["bytes"], found["limit_bytes"])
        page = self.escalier("plan", "job.yaml", "--ranks", 8192, "--gpu", "h100", "--search")
        self.assertRegex(page, r"The job's own grid does not fit: \d+\.\d GiB a rank, and there are 77\.0")
        said = self.escalier("plan", "job.yaml", "--ranks", 8192, "--search", "--profile", "profile.yaml", code=66)
        self.assertIn("profile.yaml", said)
        page = self.escalier("plan", "job.yaml", "--ranks", 8192, "--gpu", "h100", "--memory", 1, "--search")
        self.assertIn("Nothing fits.", page)

    def test_search_of_a_small_job(self):
        found = json.loads(self.escalier("plan", "job.yaml", "--search", "--json"))["search"]
        for entry in found["best"]:
            self.assertEqual(entry["tp"] * entry["pp"] * entry["dp"], 2)
        page = self.escalier("plan", "job.yaml", "--search", "--set", "train.micro_batch=1")
        self.assertRegex(page, r"The job's own grid takes \S+ % longer, \S+ ms: [+-]\S+ ms idle in the bubble")
        # What a search found is what a plan of it says, to the byte.
        best = found["best"][0]
        keys = {"parallel.tp": best["tp"], "parallel.pp": best["pp"], "parallel.dp": best["dp"],
                "pipeline.schedule": best["schedule"], "pipeline.chunks": best["chunks"],
                "pipeline.layout": best["layers"], "train.micro_batch": best["micro_batch"],
                "train.recompute": best["recompute"]}
        plan = json.loads(self.escalier("plan", "job.yaml", "--json",
                                        *(part for key, value in keys.items() for part in ("--set", f"{key}={value}"))))
        self.assertEqual(best["bytes"], max(rank["total_bytes"] for rank in plan["memory"]["ranks"]))
        self.assertAlmostEqual(best["step_s"], plan["time"]["step_s"], delta=0.02 * best["step_s"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    arguments, rest = parser.parse_known_args()
    BINARY = os.path.abspath(arguments.binary)
    unittest.main(argv=[sys.argv[0], *rest])
