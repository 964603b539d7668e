#!/usr/bin/python3
"""Going on from a checkpoint, as a user asks for it on the command line.

  resume_test.py --binary build/release/bin/escalier [unittest arguments]
"""
import json
import os
import re
import shutil
import struct
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from resumed_job import ACROSS_TENSOR_AND_DATA_SIZES, Outcome, ranks_of, run_resumed, run_straight, step_folder  # noqa: E402
from escalier_job import N0, Case, d0_tokens, with_keys, write_tokens  # noqa: E402

BINARY = ""
SHORT = with_keys(N0, train__steps=4)


class ResumeTest(unittest.TestCase):
    def setUp(self):
        self.case = Case(BINARY)
        self.addCleanup(self.case.__exit__)

    def run_job(self, spec, *arguments, code=0):
        # Alone, a process needs no mpirun, and starts faster without it.
        result = self.case.run(spec, ranks_of(spec) if ranks_of(spec) > 1 else 0, list(arguments))
        self.assertEqual(result.code, code, result)
        self.assertEqual(result.leftover, [], result)
        return result

    def straight(self, spec=SHORT):
        outcome = run_straight(self.case, spec)
        self.assertEqual(outcome.fault, "")
        return outcome

    def assert_end_of(self, straight, resumed, first_step):
        self.assertEqual(resumed.fault or resumed.differs(straight, first_step), "")

    def exists(self, path):
        return os.path.exists(self.case.path(path))


class Splits(ResumeTest):
    def test_ten_runs_of_one_step_each(self):
        spec = with_keys(N0, lr__schedule="cosine", lr__warmup_steps=4, lr__decay_steps=6, lr__min=1e-4, eval__every=2,
                         eval__batches=1, data__split="9,1,0")
        straight = self.straight(spec)
        for steps in range(1, 11):
            result = self.run_job(with_keys(spec, train__steps=steps), "--resume", "auto", "--save-weights", "case.safetensors")
            self.assertEqual(len(result.steps), steps)
        parts = Outcome(self.case, "case", result, range(1, 11))
        # A run validates after its last step, the straight one after every other.
        parts.evals = [each for each in parts.evals if each[0] % 2 == 0]
        self.assert_end_of(straight, parts, 1)
        self.assertFalse(self.exists("runs/case-2"))

    def test_from_the_state_before_the_first_step(self):
        straight = self.straight()
        result = self.run_job(with_keys(SHORT, run__max_minutes=1e-6), code=75)
        self.assertEqual(result.steps, [])
        self.assertTrue(self.exists("runs/case/step_00000000/manifest.json"), result)
        result = self.run_job(SHORT, "--resume", "auto", "--save-weights", "case.safetensors")
        self.assert_end_of(straight, Outcome(self.case, "case", result, range(1, 5)), 1)

    def test_the_last_step_is_saved_whatever_the_interval(self):
        for every, steps in ((4, [4, 8, 10]), (0, [10])):
            name = f"every{every}"
            self.run_job(with_keys(N0, run__name=name, checkpoint__every=every), "--save-weights", f"{name}.safetensors")
            found = sorted(each for each in os.listdir(self.case.path(f"runs/{name}")) if each.startswith("step_"))
            self.assertEqual(found, [f"step_{step:08}" for step in steps])
            # Nothing is left to do but to write the weights, and they are those of the run.
            result = self.run_job(with_keys(N0, run__name=name), "--resume", "auto", "--save-weights", "again.safetensors")
            self.assertIn("all 10 steps", result.output)
            with open(self.case.path(f"{name}.safetensors"), "rb") as ours, open(self.case.path("again.safetensors"), "rb") as again:
                self.assertEqual(ours.read(), again.read())

    def test_a_new_rate_is_in_force_and_said(self):
        spec = with_keys(SHORT, lr__schedule="cosine", lr__warmup_steps=1, lr__min=1e-4)
        straight = self.straight(spec)
        lower = with_keys(spec, lr__peak=5e-4)
        resumed = run_resumed(self.case, lower, 2)
        self.assertEqual(resumed.fault, "")
        self.assertIn("lr.peak was 0.001 and is 5.0e-04", resumed.output)
        rates = [step[3] for step in run_straight(self.case, lower, "lower").steps]
        self.assertEqual([step[3] for step in resumed.steps], rates[2:])
        self.assertNotEqual([step[3] for step in resumed.steps], [step[3] for step in straight.steps[2:]])

    def test_stages_of_any_placement_take_the_right_layers(self):
        spec = with_keys(N0, model__num_layers=8, train__steps=3, parallel__pp=2)
        straight = self.straight(with_keys(spec, lr__peak=0.0))
        for name, change in (("interleaved", {"pipeline__schedule": "interleaved", "pipeline__chunks": 2}),
                             ("dualpipev", {"pipeline__schedule": "dualpipev"}), ("uneven", {"pipeline__layout": [3, 5]})):
            resumed = run_resumed(self.case, with_keys(spec, lr__peak=0.0, **change), 2, name)
            self.assert_end_of(straight, resumed, 3)

    def test_a_checkpoint_holds_weights_and_both_moments_in_fp32(self):
        self.run_job(with_keys(SHORT, train__steps=1, model__tie_embeddings=True))
        folder = self.case.path(step_folder("case", 1))
        with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        names = set(manifest["tensors"])
        self.assertIn("transformer.wte.weight", names)
        self.assertNotIn("lm_head.weight", names)
        for name, tensor in manifest["tensors"].items():
            for kind in ("weight", "exp_avg", "exp_avg_sq"):
                self.assertTrue(tensor[kind], f"{kind} of {name}")
        for name in ("weights-00000.safetensors", "optim-00000.safetensors"):
            with open(os.path.join(folder, name), "rb") as file:
                header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
            self.assertEqual({entry["dtype"] for key, entry in header.items() if key != "__metadata__"}, {"F32"})


class Spikes(ResumeTest):
    """Two samples that nothing prepared the model for, in steps 16 and 17: loss and norm lie far above those before them."""

    SPEC = with_keys(N0, train__steps=18, train__global_batch=2, lr__peak=1e-2, train__spike_z=2.5, train__spike_window=8)

    def setUp(self):
        super().setUp()
        tokens = [3 * i % 16 for i in range(40 * 16 + 1)]
        for sample in (33, 36):
            for place in range(1, 16):
                tokens[16 * sample + place] = 32 + (place * place * 7 + sample) % 32
        write_tokens(self.case.path("d0.bin"), tokens)

    def test_all_grids_skip_the_same_steps(self):
        straight = self.straight(self.SPEC)
        self.assertEqual([step[0] for step in straight.steps if step[-1]], [16, 17], straight.output)
        self.assertEqual(len(re.findall(r"warning: step 1[67]: .* standard deviations above .*; nothing was updated", straight.output)), 2)
        times = [event["ranks"][0]["optimizer_ms"] for event in self.case.events("step", "straight")]
        self.assertEqual([step for step, time in enumerate(times, 1) if time == 0], [16, 17])
        for name, grid, tolerances in (("pp", {"parallel__pp": 2}, None), ("dp", {"parallel__dp": 2}, ACROSS_TENSOR_AND_DATA_SIZES)):
            other = run_straight(self.case, with_keys(self.SPEC, **grid), name)
            self.assertEqual(other.fault or other.differs(straight, 1, tolerances), "")

    def test_the_windows_go_on_in_a_resumed_run(self):
        straight = self.straight(self.SPEC)
        for cut, grid in ((12, {}), (16, {}), (14, {"parallel__pp": 2})):
            self.assert_end_of(straight, run_resumed(self.case, with_keys(self.SPEC, **grid), cut, f"from{cut}"), cut + 1)

    def test_the_skipped_steps_before_a_resume_count(self):
        self.straight(self.SPEC)
        result = self.run_job(with_keys(self.SPEC, train__skip_limit=2), "--resume", step_folder("straight", 16), code=1)
        self.assertIn("step 17: ", result.output)
        self.assertIn("it is the last of 2 steps in a row that updated nothing (train.skip_limit)", result.output)


class Choice(ResumeTest):
    def setUp(self):
        super().setUp()
        self.run_job(with_keys(SHORT, checkpoint__every=1, checkpoint__keep_last=0))

    def resumed_at(self, *arguments):
        """(first step of the run that follows, what it printed)"""
        before = len(self.case.steps())
        result = self.run_job(with_keys(SHORT, train__steps=6, checkpoint__last=False), *(arguments or ("--resume", "auto")))
        new = result.steps[before:]
        self.assertTrue(new, result)
        return new[0]["step"], result.output

    def write(self, path, data):
        with open(self.case.path(path), "wb") as file:
            file.write(data)

    def test_the_newest(self):
        step, output = self.resumed_at()
        self.assertEqual(step, 5)
        self.assertIn("step_00000004, named by runs/case/latest", output)

    def test_what_latest_names_goes_before_higher_steps(self):
        self.write("runs/case/latest", b"step_00000002\n")
        step, output = self.resumed_at()
        self.assertEqual(step, 3, output)

    def test_an_unfinished_folder_counts_for_nothing(self):
        shutil.copytree(self.case.path(step_folder("case", 4)), self.case.path("runs/case/step_00000005.tmp"))
        step, output = self.resumed_at()
        self.assertEqual(step, 5, output)
        self.assertFalse(self.exists("runs/case/step_00000005.tmp"))

    def test_without_latest_the_highest_is_taken(self):
        os.remove(self.case.path("runs/case/latest"))
        step, output = self.resumed_at()
        self.assertEqual(step, 5)
        self.assertIn("there is no runs/case/latest", output)

    def test_a_latest_that_says_nothing_is_warned_of(self):
        for garbage in (b"", b"\x00\xff garbage", b"../case/step_00000001\n", b"step_00000077\n"):
            self.write("runs/case/latest", garbage)
            step, output = self.resumed_at()
            self.assertEqual(step, 5, output)
            self.assertIn("warning: runs/case/latest", output)

    def test_a_damaged_newest_is_passed_over_and_named(self):
        self.write("runs/case/step_00000004/manifest.json", b"{")
        os.truncate(self.case.path("runs/case/step_00000003/weights-00000.safetensors"), 1000)
        step, output = self.resumed_at()
        self.assertEqual(step, 3, output)
        self.assertIn("step_00000004/manifest.json", output)
        self.assertIn("step_00000003/weights-00000.safetensors", output)
        self.assertIn("resume    from runs/case/step_00000002", output)

    def test_a_folder_of_a_run(self):
        step, output = self.resumed_at("--resume", "runs/case/")
        self.assertEqual(step, 5, output)

    def test_a_fresh_start_beside_a_run_takes_another_name(self):
        result = self.run_job(SHORT)
        self.assertIn("runs/case-2", result.output)
        self.assertEqual([step["step"] for step in self.case.events("step", "case-2")], [1, 2, 3, 4])
        self.assertEqual(len(self.case.steps()), 4)


class Nothing(ResumeTest):
    def test_auto_starts_a_run_and_says_so(self):
        result = self.run_job(SHORT, "--resume", "auto")
        self.assertIn("there is no run in runs/case yet", result.output)
        self.assertEqual([step["step"] for step in result.steps], [1, 2, 3, 4])


class Refused(ResumeTest):
    def setUp(self):
        super().setUp()
        self.spec = with_keys(SHORT, parallel__pp=2)
        self.run_job(with_keys(self.spec, checkpoint__every=2))

    def refused(self, spec, path, code, *parts):
        result = self.case.run(with_keys(spec, run__name="refused"), ranks_of(spec), ["--resume", path])
        self.assertEqual(result.code, code, result)
        self.assertLess(result.seconds, 10)
        self.assertEqual(result.leftover, [], result)
        self.assertEqual(result.output.count("escalier: "), 1, result)
        for part in parts:
            self.assertIn(part, result.output)
        self.assertFalse(self.exists("runs/refused"), "a run was begun")

    def test_a_path_with_a_slip(self):
        self.refused(self.spec, "runs/csae", 66, "runs/csae")

    def test_a_step_that_is_not_there(self):
        self.refused(self.spec, step_folder("case", 3), 66, "step_00000003", "steps 2, 4")

    def test_an_empty_folder(self):
        os.mkdir(self.case.path("runs/empty"))
        self.refused(self.spec, "runs/empty", 66, "there is no checkpoint in runs/empty")

    def test_another_model_size(self):
        self.refused(with_keys(self.spec, model__hidden_size=64), "runs/case", 65, "transformer.wte.weight", "[64, 32]", "[64, 64]")

    def test_another_number_of_layers(self):
        for layers in (2, 6):
            self.refused(with_keys(self.spec, model__num_layers=layers), "runs/case", 65, f"model.num_layers was 4 and is {layers}")

    def test_another_data_set(self):
        write_tokens(self.case.path("other.bin"), d0_tokens()[::-1])
        other = with_keys(self.spec, data__train=[{"path": "other.bin"}])
        self.refused(other, "runs/case", 65, "data.train", "data.allow_change")
        result = self.case.run(with_keys(other, run__name="changed", data__allow_change=True, train__steps=5), 2,
                               ["--resume", "runs/case"])
        self.assertEqual(result.code, 0, result)
        self.assertIn("warning: ", result.output)

    def test_tokens_are_counted_at_the_length_they_were_read_with(self):
        spec = with_keys(self.spec, run__name="longer", data__allow_change=True, model__max_positions=16, train__seq_len=8,
                         train__steps=6)
        result = self.case.run(spec, 2, ["--resume", "runs/case"])
        self.assertEqual(result.code, 0, result)
        before = self.case.events("step")[-1]
        tokens = [event["consumed_tokens"] - before["consumed_tokens"] for event in self.case.events("step", "longer")]
        batch = self.spec["train"]["global_batch"] * 8
        self.assertEqual(tokens, [batch, 2 * batch])
        with open(self.case.path("runs/longer/step_00000006/manifest.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["consumed_tokens"], before["consumed_tokens"] + 2 * batch)

    def test_another_seed(self):
        self.refused(with_keys(self.spec, run__seed=7), "runs/case", 65, "run.seed was 1234 and is 7")

    def test_another_optimizer(self):
        self.refused(with_keys(self.spec, optimizer__name="sgd"), "runs/case", 65, "adamw", "optimizer.name is sgd")

    def test_contents_that_are_not_those_saved(self):
        with open(self.case.path("runs/case/step_00000004/weights-00001.safetensors"), "r+b") as file:
            file.seek(-2, os.SEEK_END)
            byte = file.read(1)
            file.seek(-2, os.SEEK_END)
            file.write(bytes([byte[0] ^ 1]))
        self.refused(self.spec, "runs/case/step_00000004", 65, "weights-00001.safetensors", "hash")
        result = self.case.run(self.spec, 2, ["--resume", "auto"])  # the one before is sound
        self.assertEqual(result.code, 0, result)
        self.assertIn("weights-00001.safetensors: its hash", result.output)
        self.assertIn("going on with step 3", result.output)

    def test_damage_everywhere(self):
        for step in (2, 4):
            os.remove(self.case.path(step_folder("case", step) + "/manifest.json"))
        result = self.case.run(self.spec, 2, ["--resume", "auto"])
        self.assertEqual(result.code, 65, result)
        self.assertIn("step_00000004", result.output)


def main():
    global BINARY
    arguments = sys.argv[1:]
    if len(arguments) < 2 or arguments[0] != "--binary":
        sys.exit(__doc__)
    BINARY = os.path.abspath(arguments[1])
    unittest.main(argv=[sys.argv[0], *arguments[2:]])


if __name__ == "__main__":
    main()
