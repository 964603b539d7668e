#!/usr/bin/python3
"""Behaviour that a careful user expects of a training run, whatever the grid, through the command line.

  behaviour_test.py --binary build/release/bin/escalier [unittest arguments]
"""
import array
import json
import os
import re
import struct
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "harness"))
from escalier_job import N0, ROOT, Case, d0_tokens, with_keys, write_tokens  # noqa: E402

BINARY = ""
SGD = with_keys(N0, optimizer__name="sgd", lr__peak=1.0, train__steps=1)


def read_weights(path):
    """{name: array of float} of a safetensors file with F32 tensors only."""
    with open(path, "rb") as file:
        raw = file.read()
    length = struct.unpack_from("<Q", raw)[0]
    tensors = {}
    for name, entry in json.loads(raw[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            tensors[name] = array.array("f", raw[begin:end])
    return tensors


class Behaviour(unittest.TestCase):
    def train(self, spec, ranks=1, weights=False):
        """([(loss, norm)], weights or None, output) of a run that must succeed."""
        with Case(BINARY) as case:
            result = case.run(spec, ranks, ["--save-weights", "weights.safetensors"] if weights else [])
            self.assertEqual(result.code, 0, result)
            self.assertEqual(result.leftover, [], result)
            tensors = read_weights(case.path("weights.safetensors")) if weights else None
            return [(step["loss"], step["grad_norm"]) for step in result.steps], tensors, result.output

    def assert_close(self, ours, theirs, relative):
        self.assertEqual(len(ours), len(theirs))
        for a, b in zip(ours, theirs):
            for x, y in zip(a, b):
                self.assertLessEqual(abs(x - y), relative * abs(y), f"{ours} against {theirs}")

    def test_gradient_scale_does_not_depend_on_the_number_of_micro_batches(self):
        # With SGD at rate 1 the change of the weights is minus the gradient.
        runs = [self.train(with_keys(SGD, parallel__pp=2, train__micro_batch=size), 2, weights=True)
                for size in (8, 4, 2, 1)]
        runs.append(self.train(with_keys(SGD, parallel__dp=2), 2, weights=True))
        steps, tensors, _ = runs[0]
        for other_steps, other_tensors, _ in runs[1:]:
            self.assert_close(other_steps, steps, 1e-5)
            for name, values in tensors.items():
                worst = max(abs(a - b) for a, b in zip(values, other_tensors[name]))
                self.assertLess(worst, 1e-5, name)

    def test_initial_weights_do_not_depend_on_the_grid(self):
        spec = with_keys(N0, lr__peak=0.0, train__steps=1, model__tie_embeddings=True)
        _, reference, _ = self.train(spec, weights=True)
        for grid in ({"parallel__tp": 2}, {"parallel__pp": 2}, {"parallel__pp": 4}, {"parallel__tp": 4}):
            _, tensors, _ = self.train(with_keys(spec, **grid), next(iter(grid.values())), weights=True)
            self.assertEqual(tensors.keys(), reference.keys())
            for name, values in reference.items():
                self.assertEqual(tensors[name].tobytes(), values.tobytes(), f"{name} on {grid}")
        matrices = [values.tobytes() for name, values in reference.items() if re.search(r"\.\d+\..*weight$", name)
                    and len(set(values)) > 1]
        self.assertEqual(len(set(matrices)), len(matrices), "two layers start from equal matrices")

    def test_a_tied_model_has_one_matrix_less(self):
        for grid, ranks in (({}, 1), ({"parallel__pp": 2}, 2)):
            spec = with_keys(N0, train__steps=1, **grid)
            _, untied, _ = self.train(spec, ranks, weights=True)
            _, tied, _ = self.train(with_keys(spec, model__tie_embeddings=True), ranks, weights=True)
            count = {name: sum(map(len, tensors.values())) for name, tensors in (("u", untied), ("t", tied))}
            self.assertEqual(count["u"] - count["t"], 64 * 32)
            self.assertEqual(len(untied) - len(tied), 1)

    def test_weight_decay_touches_matrices_only(self):
        spec = with_keys(N0, train__steps=1, lr__peak=0.01)
        _, initial, _ = self.train(with_keys(spec, lr__peak=0.0), weights=True)
        for grid, ranks in (({}, 1), ({"parallel__tp": 2, "parallel__pp": 2}, 4)):
            _, plain, _ = self.train(with_keys(spec, **grid), ranks, weights=True)
            _, decayed, _ = self.train(with_keys(spec, optimizer__weight_decay=1.0, **grid), ranks, weights=True)
            for name, start in initial.items():
                matrix = re.search(r"(wte|wpe|c_attn|c_proj|c_fc|lm_head)\.weight$", name)
                for before, a, b in zip(start, plain[name], decayed[name]):
                    if matrix:
                        self.assertAlmostEqual(b - a, -0.01 * before, delta=1e-6, msg=name)
                    else:
                        self.assertEqual(a, b, name)

    def test_a_run_repeats_itself_with_any_number_of_threads(self):
        for grid, ranks in (({}, 1), ({"parallel__tp": 2}, 2), ({"parallel__dp": 2}, 2), ({"parallel__pp": 2}, 2)):
            first = self.train(with_keys(N0, **grid), ranks)[0]
            self.assertEqual(self.train(with_keys(N0, run__threads=2, **grid), ranks)[0], first, grid)

    def test_recompute_in_groups_of_any_size_changes_nothing(self):
        spec = with_keys(N0, model__num_layers=8, model__dropout=0.1, parallel__pp=2)
        reference = self.train(spec, 2)[0]
        for every in (1, 2, 3, 4):
            self.assertEqual(self.train(with_keys(spec, train__recompute={"every": every}), 2)[0], reference, every)

    def test_validation_gives_the_same_loss_on_any_grid(self):
        spec = with_keys(N0, data__split="7,3,0", eval__every=5, eval__batches=3, train__micro_batch=2)
        pattern = r"validation after step (\d+) \| loss ([0-9.]+)"
        reference = re.findall(pattern, self.train(spec)[2])
        self.assertEqual([step for step, _ in reference], ["5", "10"])
        for grid, ranks in (({"parallel__pp": 2}, 2), ({"parallel__pp": 4}, 4), ({"parallel__tp": 2}, 2),
                            ({"parallel__dp": 2}, 2), ({"parallel__pp": 2, "pipeline__schedule": "gpipe"}, 2)):
            found = re.findall(pattern, self.train(with_keys(spec, **grid), ranks)[2])
            self.assertEqual(len(found), 2, grid)
            for (_, ours), (_, theirs) in zip(found, reference):
                self.assertLessEqual(abs(float(ours) - float(theirs)), 1.5e-5 * float(theirs), grid)

    def test_a_second_run_of_the_same_name_goes_beside_the_first(self):
        with Case(BINARY) as case:
            spec = with_keys(N0, train__steps=1)
            self.assertEqual(case.run(spec, 1).code, 0)
            result = case.run(spec, 1)
            self.assertEqual(result.code, 0, result)
            self.assertIn("case-2", result.output)
            for run in ("case", "case-2"):
                self.assertTrue(os.path.exists(case.path(f"runs/{run}/metrics.jsonl")), run)

    def test_a_dry_run_leaves_nothing_behind(self):
        with Case(BINARY) as case:
            result = case.run(N0, 1, ["--dry-run"])
            self.assertEqual(result.code, 0, result)
            self.assertIn("dry run", result.output)
            self.assertFalse(os.path.exists(case.path("runs")), result)

    def test_the_parts_of_a_step_sum_to_it(self):
        with Case(BINARY) as case:
            result = case.run(with_keys(N0, parallel__tp=2, parallel__pp=2), 4)
            self.assertEqual(result.code, 0, result)
            for step in result.steps:
                self.assertEqual(len(step["ranks"]), 4)
                for rank in step["ranks"]:
                    whole = rank.pop("step_ms")
                    self.assertTrue(all(part >= 0 for part in rank.values()), rank)
                    self.assertAlmostEqual(sum(rank.values()), whole, delta=1e-5 * whole)

    def test_mfu_is_against_the_peak_that_is_given_and_unknown_without(self):
        with Case(BINARY) as case:
            result = case.run(with_keys(N0, parallel__dp=2, log__peak_tflops=1), 2)
            self.assertEqual(result.code, 0, result)
            self.assertIn("MFU is against 1 TFLOP/s a device (log.peak_tflops)", result.output)
            for step in result.steps:
                self.assertAlmostEqual(step["mfu"], step["model_flops_per_s"] / 2e12, delta=1e-9)
                self.assertTrue(0 < step["mfu"] < 1)
        with Case(BINARY) as case:
            result = case.run(with_keys(N0, run__device="cpu"), 1)
            self.assertTrue(result.steps and all(step["mfu"] is None for step in result.steps), result)
            self.assertNotIn("mfu", result.output.lower())

    def test_the_idle_shares_of_a_pipeline_add_up(self):
        with Case(BINARY) as case:
            result = case.run(with_keys(N0, parallel__pp=2, parallel__dp=2), 4)
            self.assertEqual(result.code, 0, result)
            with open(case.path("runs/case/metrics.jsonl"), encoding="utf-8") as file:
                shares, = [event for event in map(json.loads, file) if event["event"] == "bubble"]
            self.assertEqual(shares["steps"], 9)  # all but the first
            self.assertAlmostEqual(shares["theory"], 1 / 5)  # (P-1)/(M+P-1), four micro-batches per replica
            self.assertAlmostEqual(shares["theory"] + shares["imbalance"], shares["simulated"])
            self.assertAlmostEqual(shares["simulated"] + shares["stragglers"] + shares["communication"],
                                   shares["measured"])
            for line in ("in theory   20.0 %", "simulated", "measured", "9 steps"):
                self.assertIn(line, result.output)
            for step in result.steps:
                self.assertEqual([stage["pp_rank"] for stage in step["stages"]], [0, 1])
                for stage in step["stages"]:
                    work = 4 * (stage["forward_ms"] + stage["backward_ms"])
                    self.assertTrue(0 < work <= step["ranks"][2 * stage["pp_rank"]]["step_ms"] * (1 + 1e-6), step)
        self.assertNotIn("idle share", self.train(N0)[2])

    def test_the_start_page_says_which_schedules_agree_to_rounding_only(self):
        two_stages = with_keys(N0, parallel__pp=2, train__steps=1)
        said = "agree with 1f1b's to rounding"
        self.assertNotIn(said, self.train(two_stages, 2)[2])
        lifo = with_keys(two_stages, pipeline__schedule="gpipe", pipeline__backward="lifo")
        self.assertIn(said, self.train(lifo, 2)[2])

    def test_every_job_spec_in_configs_trains(self):
        folder = os.path.join(ROOT, "configs")
        names = sorted(name for name in os.listdir(folder) if name.endswith(".yaml"))
        self.assertIn("quickstart.yaml", names)
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text = file.read()
            said = re.search(r"mpirun -n (\d+) .*train", text)
            self.assertTrue(said, f"{name}: a comment says with how many processes it starts")
            with Case(BINARY) as case:
                write_tokens(case.path("d0.bin"), d0_tokens() * 40)
                result = case.run(text, int(said.group(1)), [
                    "--set", "train.steps=2", "--set", "data.train=[{path: d0.bin}]", "--set", "data.format=raw16",
                    "--set", "run.name=case", "--set", "run.dir=runs"])
                self.assertEqual(result.code, 0, f"{name}: {result}")
                self.assertEqual(len(result.steps), 2, f"{name}: {result}")

    def test_commands_that_need_no_mpirun(self):
        job = os.path.join(ROOT, "configs/quickstart.yaml")
        checked = subprocess.run([BINARY, "check", job, "--ranks", "4"], capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertRegex(checked.stdout, r"parameters +[0-9,]+")
        refused = subprocess.run([BINARY, "check", job, "--ranks", "3"], capture_output=True, text=True)
        self.assertEqual(refused.returncode, 2, refused.stdout)
        self.assertEqual(subprocess.run([BINARY, "no-such-command"], capture_output=True).returncode, 2)


def main():
    global BINARY
    arguments = sys.argv[1:]
    if len(arguments) < 2 or arguments[0] != "--binary":
        sys.exit(__doc__)
    BINARY = os.path.abspath(arguments[1])
    unittest.main(argv=[sys.argv[0], *arguments[2:]])


if __name__ == "__main__":
    main()
