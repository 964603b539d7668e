#!/usr/bin/python3
"""escalier sweep through the command line: points that train, fail, cannot be; sweeps that are interrupted and go on.

  sweep_command_test.py --binary build/release/bin/escalier [unittest arguments]
"""
import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "harness"))
from escalier_job import MARKER, N0, ROOT, Case, d0_tokens, environment, with_keys, write_tokens, yaml  # noqa: E402

BINARY = ""
FAILED, USAGE, WRITE_FAILED, STOPPED = 1, 2, 74, 75
NO_LAST = {"checkpoint__last": False, "train__steps": 3}


def swept(spec, axes, exclude=()):
    return {**spec, "sweep": {"axes": axes, "exclude": list(exclude)}}


class Sweep:
    """A folder with a job file that sweeps."""

    def __init__(self, spec):
        self.case = Case(BINARY)
        self.start_time = time.monotonic()
        self.write(spec)
        write_tokens(self.case.path("d0.bin"), d0_tokens())

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.case.__exit__(*error)

    def write(self, spec):
        with open(self.case.path("job.yaml"), "w", encoding="utf-8") as file:
            file.write(spec if isinstance(spec, str) else yaml(spec))

    def begin(self, command, *arguments):
        return subprocess.Popen([self.case.binary, "sweep", command, "job.yaml", *arguments], cwd=self.case.folder,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=environment(**{MARKER: self.case.marker, "OMP_NUM_THREADS": "1"}))

    def do(self, command, *arguments, code=0):
        process = self.begin(command, *arguments)
        output, _ = process.communicate(timeout=200)
        if process.returncode != code:
            raise AssertionError(f"sweep {command} {arguments} ended with {process.returncode}, not {code}:\n{output}")
        return output

    def events(self, point, kind):
        return self.case.events(kind, run=f"job-sweep/{point}")

    def until_step(self, point, step, process):
        """Waits until the point's run has done so many steps."""
        while process.poll() is None and len(self.events(point, "step")) < step:
            time.sleep(0.02)
        if process.poll() is not None:
            raise AssertionError(process.communicate()[0])

    def table(self):
        """The rows of table.csv, by name."""
        with open(self.case.path("runs/job-sweep/table.csv"), encoding="utf-8", newline="") as file:
            return {row["name"]: row for row in csv.DictReader(file)}

    def outcome(self, point):
        with open(self.case.path(f"runs/job-sweep/logs/{point}.json"), encoding="utf-8") as file:
            return json.load(file)


# The run's name is the file's, as a user has it.
BASE = with_keys(N0, run__name=None, **NO_LAST)
# Steps of two stages last 30 ms at least, so that there is time to strike.
SLOW = with_keys(BASE, run__clock="sleep", run__layer_ms=1, train__global_batch=4, train__steps=40)
LONG = with_keys(SLOW, train__steps=4000, checkpoint__every=5, checkpoint__last=True)


class Points(unittest.TestCase):
    def test_are_listed_with_those_that_cannot_be(self):
        with Sweep(swept(BASE, {"parallel.pp": [1, 2, 8], "train.micro_batch": [1, 2]},
                         [{"parallel.pp": 2, "train.micro_batch": 2}])) as sweep:
            output = sweep.do("list")
            self.assertEqual([line.split() for line in output.splitlines()[:4]],
                             [["index", "ranks", "name"], ["0", "1", "pp-1_micro_batch-1"],
                              ["1", "1", "pp-1_micro_batch-2"], ["2", "2", "pp-2_micro_batch-1"]])
            self.assertIn("2 points cannot be:\n  pp-8_micro_batch-1: ", output)
            self.assertRegex(output, r"pp-8_micro_batch-2: .*layers")
            self.assertNotIn("pp-2_micro_batch-2", output)
            self.assertEqual(sweep.do("count"), "3\n")
            self.assertEqual(sweep.do("count", "--set", "parallel.pp=1"), "2\n")
            self.assertIn("no point is done yet", sweep.do("table"))
            self.assertFalse(os.path.exists(sweep.case.path("runs")))

    def test_indices_are_those_of_points_that_can_be(self):
        with Sweep(swept(BASE, {"parallel.pp": [1, 64]})) as sweep:
            self.assertIn("--only: found -1, wanted a point's index", sweep.do("run", "--only=-1", code=USAGE))

    def test_that_are_none_are_refused(self):
        with Sweep(swept(BASE, {"parallel.pp": [1, 8]})) as sweep:
            self.assertIn("--only: found pp-3, wanted a point's index or name", sweep.do("run", "--only", "pp-3", code=USAGE))
            self.assertIn("--only: point pp-8 cannot be: ", sweep.do("run", "--only", "pp-8", code=USAGE))
            self.assertIn("--index: found 1, wanted an index from 0 to 0", sweep.do("run", "--index", "1", code=USAGE))
            sweep.write(BASE)
            self.assertIn("job.yaml sweeps over nothing; give it axes", sweep.do("list", code=USAGE))
            sweep.write(swept(with_keys(BASE, data__train=[]), {"parallel.pp": [1]}))
            self.assertIn("data.train is needed to train", sweep.do("run", code=USAGE))
            self.assertFalse(os.path.exists(sweep.case.path("runs")))


class Runs(unittest.TestCase):
    def test_a_point_that_fails_leaves_the_others(self):
        axes = {"lr.peak": [0.001, 1e30], "parallel.pp": [1, 2, 8], "ranks": [2]}
        with Sweep(swept(with_keys(BASE, parallel__dp="auto"), axes)) as sweep:
            output = sweep.do("run", code=FAILED)
            self.assertIn("sweep  4 of 6 points, into runs/job-sweep", output)
            self.assertRegex(output, r"\[  1\] peak-0.001_pp-2_ranks-2: done in .* s, .* tok/s, loss 3\.9")
            self.assertRegex(output, r"\[  3\] peak-1.0e\+30_pp-2_ranks-2: FAILED with exit code 1: step 2: .*not both finite")
            self.assertIn("2 done, 2 failed, 0 unfinished", output)
            outcome = sweep.outcome("peak-1.0e+30_pp-1_ranks-2")
            self.assertEqual(outcome["exit_code"], 1)
            self.assertIn("not both finite", outcome["message"])
            # The command in the log is one that a user may type.
            with open(sweep.case.path("runs/job-sweep/logs/peak-0.001_pp-1_ranks-2.log"), encoding="utf-8") as file:
                log = file.read()
            self.assertRegex(log, r"\A\$ mpirun .*escalier train job.yaml --set lr.peak=0.001 --set parallel.pp=1 --set run.dir")
            self.assertIn("step 3/3", log)

            output = sweep.do("run", "--only", "0", "--only", "peak-0.001_pp-2_ranks-2")
            self.assertEqual(output.count("done before"), 2)
            self.assertIn("2 done, 0 failed", output)
            output = sweep.do("run", "--only", "lr.peak=1.0e+30", code=FAILED)  # is tried again
            self.assertIn("0 done, 2 failed", output)

            page = sweep.do("table")
            self.assertIn("| lr.peak | parallel.pp | ranks |", page)
            self.assertIn("- peak-1.0e+30_pp-2_ranks-2: failed (1): step 2", page)
            self.assertRegex(page, r"- peak-0.001_pp-8_ranks-2: impossible: .*needs 8 processes, got 2")
            rows = sweep.table()
            self.assertEqual([row["status"] for row in rows.values()],
                             ["done", "done", "impossible", "failed", "failed", "impossible"])
            first, second = rows["peak-0.001_pp-1_ranks-2"], rows["peak-0.001_pp-2_ranks-2"]
            # dp 2 x pp 1 and dp 1 x pp 2 agree to rounding.
            self.assertEqual(first["losses"], "reference")
            self.assertRegex(second["losses"], r"^within \S+ of #0$")
            self.assertEqual((second["ranks"], second["micro_batches"], second["steps"]), ("2", "8", "3"))
            self.assertEqual(float(second["theory_bubble"]), 1 / 9)
            steps = sorted(sweep.events("peak-0.001_pp-2_ranks-2", "step")[1:], key=lambda event: event["step_ms"])
            self.assertAlmostEqual(float(second["step_ms"]), sum(event["step_ms"] for event in steps) / 2, places=6)
            self.assertEqual(float(second["final_loss"]), sweep.events("peak-0.001_pp-2_ranks-2", "step")[-1]["loss"])
            for picture in ("throughput.svg", "bubble.svg"):
                root = xml.etree.ElementTree.parse(sweep.case.path(f"runs/job-sweep/{picture}")).getroot()
                self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
            # A run is one job: it knows nothing of the sweep.
            with open(sweep.case.path("runs/job-sweep/peak-0.001_pp-2_ranks-2/config.yaml"), encoding="utf-8") as file:
                self.assertIn("  axes: {}\n", file.read())

    def test_steps_are_predicted_for_the_machine_that_is_named(self):
        with Sweep(swept(BASE, {"train.micro_batch": [1, 2]})) as sweep:
            def predicted(*arguments):
                sweep.do("table", *arguments)
                return [row["predicted_step_ms"] for row in sweep.table().values()]

            sweep.do("run", "--jobs", "2")
            cpu = [float(text) for text in predicted()]
            self.assertLess(max(float(text) for text in predicted("--gpu", "h100")), min(cpu))
            # A profile is of one micro-batch; nobody measured the other.
            subprocess.run([BINARY, "plan", "job.yaml", "--measure", "--repeats", "1", "--set", "train.micro_batch=2"],
                           cwd=sweep.case.folder, check=True, capture_output=True, env=environment())
            first, second = predicted("--profile", "profile.yaml")
            self.assertEqual(first, "")
            self.assertGreater(float(second), 0)
            self.assertIn("--gpu: found h10, wanted one of a100", sweep.do("table", "--gpu", "h10", code=USAGE))
            self.assertIn("excludes", sweep.do("table", "--gpu", "h100", "--profile", "profile.yaml", code=USAGE))

    def test_steps_of_a_sleeping_clock_are_its_set_times(self):
        sleeping = with_keys(BASE, run__clock="sleep", run__layer_ms=2, pipeline__layout="even")
        with Sweep(swept(sleeping, {"parallel.pp": [1, 2]})) as sweep:
            sweep.do("run", "--only", "1")
            subprocess.run([BINARY, "plan", "job.yaml", "--measure", "--repeats", "1"], cwd=sweep.case.folder, check=True,
                           capture_output=True, env=environment())
            for flags in ((), ("--profile", "profile.yaml")):
                sweep.do("table", *flags)
                row = sweep.table()["pp-2"]
                self.assertAlmostEqual(float(row["predicted_step_ms"]), (int(row["micro_batches"]) + 1) * 3 * 2 * 2)

    def test_losses_that_must_be_the_same_bits_are_and_else_it_says_so(self):
        with Sweep(swept(BASE, {"pipeline.schedule": ["1f1b", "gpipe", "zb-h1"], "parallel.pp": [2]})) as sweep:
            sweep.do("run", "--jobs", "3")
            page = sweep.do("table")
            self.assertEqual(page.count("same bits as #0"), 2, page)
            path = sweep.case.path("runs/job-sweep/schedule-zb-h1_pp-2/metrics.jsonl")
            with open(path, encoding="utf-8") as file:
                text = file.read()
            last = re.findall(r'"loss":([0-9.]+)', text)[-1]
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace(last, "3.5"))
            output = sweep.do("table", code=FAILED)
            self.assertIn(f"DIFFERS from #0 at step 3: loss 3.5 against {last} there", output)
            self.assertIn("the losses of a point differ from those that they must equal", output)


class Interruptions(unittest.TestCase):
    def test_a_stopped_sweep_saves_and_goes_on(self):
        axes = {"pipeline.schedule": ["1f1b", "gpipe"], "parallel.pp": [2]}
        first, second = "schedule-1f1b_pp-2", "schedule-gpipe_pp-2"
        with Sweep(swept(LONG, axes)) as sweep:
            process = sweep.begin("run")
            sweep.until_step(first, 8, process)
            # Another sweep over this folder, whole or of one point, is kept out.
            refused = sweep.do("run", code=WRITE_FAILED)
            self.assertIn("sweep folder runs/job-sweep is in use by another `escalier sweep run`", refused)
            sweep.do("run", "--index", "1", code=WRITE_FAILED)
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, STOPPED, output)
            self.assertIn("stopping: the run under way saves and ends", output)
            self.assertIn(f"{first}: unfinished (exit code 75): stopped by SIGUSR1 after step", output)
            self.assertIn("0 done, 0 failed, 2 unfinished", output)
            self.assertEqual(sweep.case.leftover(), [])
            done = sweep.events(first, "step")[-1]["step"]

            output = sweep.do("run", "--set", f"train.steps={done + 20}")
            self.assertIn(f"{first}: 2 ranks, anew: train.steps was 4000 and is", output)
            self.assertTrue(os.path.isdir(sweep.case.path(f"runs/job-sweep/{first}.before-1")))
            self.assertIn("2 done", output)
            self.assertIn("same bits as #0", sweep.do("table", "--set", f"train.steps={done + 20}"))
            self.assertIn(f"{second}: done in", output)

    def test_a_resumed_point_is_the_point(self):
        with Sweep(swept(with_keys(LONG, train__steps=40), {"pipeline.schedule": ["1f1b", "gpipe"], "parallel.pp": [2]})) as sweep:
            process = sweep.begin("run", "--index", "0")
            sweep.until_step("schedule-1f1b_pp-2", 6, process)
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, STOPPED, output)
            output = sweep.do("run")
            self.assertIn("schedule-1f1b_pp-2: 2 ranks, going on from its checkpoint", output)
            starts = sweep.events("schedule-1f1b_pp-2", "start")
            self.assertEqual(len(starts), 2)
            self.assertGreater(starts[1]["first_step"], 6)
            # Interrupted and resumed or not: the same bits, at every step.
            self.assertIn("same bits as #0", sweep.do("table"))

    def test_a_struck_run_without_a_checkpoint_starts_anew(self):
        with Sweep(swept(SLOW, {"parallel.pp": [2]})) as sweep:
            process = sweep.begin("run")
            sweep.until_step("pp-2", 5, process)
            for rank in sweep.case.ranks().values():
                os.kill(rank, signal.SIGKILL)
            output, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, FAILED, output)
            self.assertIn("pp-2: FAILED with exit code", output)
            output = sweep.do("run")
            self.assertIn("pp-2: 2 ranks, anew: it was interrupted before its first checkpoint", output)
            self.assertEqual([start["first_step"] for start in sweep.events("pp-2", "start")], [1, 1])
            self.assertIn("done before", sweep.do("run"))
            sweep.do("table")
            self.assertEqual(sweep.table()["pp-2"]["steps"], "40")

    def test_a_struck_run_that_began_elsewhere_begins_there_again(self):
        with Sweep(swept(with_keys(SLOW, checkpoint__resume="runs/first"), {"parallel.pp": [2]})) as sweep:
            first = with_keys(BASE, run__name="first", train__global_batch=4, checkpoint__last=True)
            self.assertEqual(sweep.case.run(first, 0).code, 0)
            sweep.write(swept(with_keys(SLOW, checkpoint__resume="runs/first"), {"parallel.pp": [2]}))
            process = sweep.begin("run")
            sweep.until_step("pp-2", 2, process)
            for rank in sweep.case.ranks().values():
                os.kill(rank, signal.SIGKILL)
            process.communicate(timeout=60)
            output = sweep.do("run")
            starts = sweep.events("pp-2", "start")
            self.assertEqual([start["first_step"] for start in starts], [4, 4], output)
            self.assertEqual([start["resumed_from"] for start in starts], ["runs/first/step_00000003"] * 2)
            self.assertFalse(os.path.exists(sweep.case.path("runs/job-sweep/pp-2.before-1")))
            self.assertIn("done before", sweep.do("run"))

    def test_two_interrupts_end_it_at_once(self):
        with Sweep(swept(with_keys(LONG, checkpoint__every=0), {"parallel.pp": [2]})) as sweep:
            process = sweep.begin("run")
            sweep.until_step("pp-2", 3, process)
            for rank in sweep.case.ranks().values():  # a run that cannot answer
                os.kill(rank, signal.SIGSTOP)
            process.send_signal(signal.SIGINT)
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, STOPPED, output)
            self.assertIn("pp-2: unfinished", output)
            self.assertEqual(sweep.case.leftover(), [])


class Sample(unittest.TestCase):
    def test_the_bubble_curve_in_small(self):
        with open(os.path.join(ROOT, "configs/bubble_curve.yaml"), encoding="utf-8") as file:
            text = file.read()
        data = ["--set", "data.train=[{path: d0.bin}]", "--set", "data.format=raw16"]
        small = [*data, "--set", "run.layer_ms=1", "--set", "sweep.axes={parallel.pp: [2, 4], train.global_batch: [2, 6]}"]
        with Sweep(text) as sweep:
            self.assertEqual(sweep.do("count"), "18\n")
            sweep.do("run", *small)
            self.assertEqual(sweep.do("table", *small).count("same bits as #"), 2)
            for row in sweep.table().values():
                stages, micro_batches = int(row["parallel.pp"]), int(row["micro_batches"])
                theory = (stages - 1) / (micro_batches + stages - 1)
                self.assertAlmostEqual(float(row["theory_bubble"]), theory)
                # Stages that are equal by the clock: the prediction is the theory.
                self.assertAlmostEqual(float(row["predicted_bubble"]), theory)
                self.assertAlmostEqual(float(row["predicted_step_ms"]), (micro_batches + stages - 1) * 24 / stages)
                # A step cannot be shorter than its sleeps: 8 layers x 3 passes over P ranks, M + P - 1 times.
                self.assertGreaterEqual(float(row["step_ms"]), (micro_batches + stages - 1) * 24 / stages)
            # The work is real: by the usual clock the losses are the same bits.
            sweep.do("run", *data, "--set", "run.clock=real", "--set", "run.layer_ms=0", "--set",
                     "sweep.axes={parallel.pp: [2], train.global_batch: [6], run.seed: [1234]}")
            curves = [[(event["loss"], event["grad_norm"]) for event in sweep.events(point, "step")]
                      for point in ("pp-2_global_batch-6", "pp-2_global_batch-6_seed-1234")]
            self.assertEqual(len(curves[0]), 4)
            self.assertEqual(curves[0], curves[1])


if __name__ == "__main__":
    at = sys.argv.index("--binary")
    BINARY = sys.argv[at + 1]
    del sys.argv[at:at + 2]
    unittest.main()
