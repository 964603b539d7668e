#!/usr/bin/python3
"""Where a run begins when it is started again: in its own folder, from what it began from, beside other runs of the same job.

  begin_test.py --binary build/release/bin/escalier [unittest arguments]
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from resumed_job import ranks_of, step_folder  # noqa: E402
from escalier_job import MARKER, N0, ROOT, Case, environment, with_keys, yaml  # noqa: E402

BINARY = ""
STOPPED, NO_OUTPUT, DAMAGED, MISSING = 75, 74, 65, 66
SHORT = with_keys(N0, train__steps=4)
LONG = with_keys(N0, train__steps=1000000)
AT_ONCE = 1e-6  # run.max_minutes: stopped before the first step


class BeginTest(unittest.TestCase):
    def setUp(self):
        self.case = Case(BINARY)
        self.addCleanup(self.case.__exit__)

    def run_job(self, spec, *arguments, code=0, **more):
        # Alone, a process needs no mpirun, and starts faster without it.
        result = self.case.run(spec, ranks_of(spec) if ranks_of(spec) > 1 else 0, list(arguments), **more)
        self.assertEqual(result.code, code, result)
        self.assertEqual(result.leftover, [], result)
        return result

    def killed(self, spec, *arguments):
        """Some steps into the run, before it saves."""
        before = len(self.case.steps())

        def strike(case):
            if len(case.steps()) < before + 2:
                return False
            case.launcher.kill()
            return True

        return self.run_job(spec, *arguments, code=-signal.SIGKILL, watch=strike)

    def goes_on(self, spec, checkpoint, *arguments):
        """It begins there, and the first step that it writes is the one behind it."""
        before = len(self.case.steps())
        result = self.run_job(spec, *(arguments or ("--resume", "auto")))
        self.assertIn(checkpoint, result.output)
        self.assertEqual(result.steps[before]["step"], int(checkpoint[-8:]) + 1, result)
        self.assertEqual(self.runs(), self.known, result)
        return result

    def runs(self):
        return sorted(os.listdir(self.case.path("runs")))


class FromAnotherRun(BeginTest):
    """checkpoint.resume names a checkpoint of another run."""
    known = ["case", "first"]

    def setUp(self):
        super().setUp()
        self.run_job(with_keys(SHORT, run__name="first"))
        self.spec = with_keys(SHORT, train__steps=6, checkpoint__resume="runs/first")

    def test_auto_is_for_the_own_run(self):
        self.goes_on(self.spec, step_folder("first", 4))
        result = self.goes_on(with_keys(self.spec, train__steps=8), step_folder("case", 6))
        self.assertIn("checkpoint.resume, runs/first, is what the run began from", result.output)
        result = self.run_job(with_keys(self.spec, train__steps=5))  # as the job says
        self.assertIn("run directory runs/case-2", result.output)
        self.assertIn(f"resume    from {step_folder('first', 4)}", result.output)

    def test_a_batch_file_begins_there_once(self):
        """By the job and behind --; the job comes out of the queue three times, the first two it is stopped."""
        os.makedirs(self.case.path("bin"))
        with open(self.case.path("bin/scontrol"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho queued again: $*\n")
        os.chmod(self.case.path("bin/scontrol"), 0o755)
        variables = {"PATH": f"{self.case.path('bin')}:{os.environ['PATH']}", "SLURM_JOB_ID": "7", MARKER: self.case.marker,
                     "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        for spec, words in ((self.spec, ()), (with_keys(self.spec, checkpoint__resume="none"), ("--", "--resume", "runs/first"))):
            shutil.rmtree(self.case.path("runs/case"), ignore_errors=True)
            self.case.write_job(spec)
            subprocess.run([self.case.binary, "launch", "job.yaml", "--starter", "mpirun", "--slurm", "job.sbatch", *words],
                           cwd=self.case.folder, check=True, capture_output=True)
            for limit, code, first in ((AT_ONCE, STOPPED, "first"), (AT_ONCE, STOPPED, "case"), (0, 0, "case")):
                self.case.write_job(with_keys(spec, run__max_minutes=limit))
                result = subprocess.run(["bash", "job.sbatch"], cwd=self.case.folder, env=environment(**variables), text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
                self.assertEqual(result.returncode, code, result.stdout)
                self.assertIn(f"resume    from {step_folder(first, 4)}", result.stdout)
                self.assertEqual("queued again: requeue 7" in result.stdout, code == STOPPED, result.stdout)
            self.assertEqual([step["step"] for step in self.case.steps()], [5, 6])
            self.assertEqual(self.runs(), self.known)

    def test_killed_before_its_first_checkpoint(self):
        """auto begins once more from where the run began, and never from initial weights."""
        self.killed(with_keys(LONG, checkpoint__every=0), "--resume", "runs/first")
        self.assertEqual([name for name in os.listdir(self.case.path("runs/case")) if name.startswith("step_")], [])
        result = self.goes_on(SHORT_TO_SIX, step_folder("first", 4))
        self.assertIn(f"runs/case has no checkpoint yet; this run starts from {step_folder('first', 4)} again", result.output)

    def test_what_it_began_from_is_gone(self):
        self.killed(with_keys(LONG, checkpoint__every=0), "--resume", "runs/first")
        shutil.rmtree(self.case.path("runs/first"))
        result = self.run_job(SHORT_TO_SIX, "--resume", "auto", code=MISSING)
        self.assertIn(f"{step_folder('first', 4)}, which the run began from", result.output)


SHORT_TO_SIX = with_keys(SHORT, train__steps=6)


class GoingBack(BeginTest):
    """From step 2 of a run that has 1 to 4."""
    known = ["case"]

    def setUp(self):
        super().setUp()
        self.run_job(with_keys(SHORT, checkpoint__every=1, checkpoint__keep_last=0))

    def test_killed_before_the_first_save(self):
        self.killed(LONG, "--resume", step_folder("case", 2))
        self.goes_on(SHORT_TO_SIX, f"resume    from {step_folder('case', 2)}")

    def test_stopped_before_the_first_step(self):
        result = self.run_job(with_keys(LONG, run__max_minutes=AT_ONCE), "--resume", step_folder("case", 2), code=STOPPED)
        self.assertIn("go on with --resume auto", result.output)
        self.goes_on(SHORT_TO_SIX, f"resume    from {step_folder('case', 2)}")

    def test_that_nothing_was_left_to_do_from_it(self):
        self.run_job(with_keys(SHORT, train__steps=2), "--resume", step_folder("case", 2))
        self.goes_on(SHORT_TO_SIX, f"resume    from {step_folder('case', 4)}")


class Away(BeginTest):
    """The run's folder is a link, and what it leads to is away: auto, as a batch file says it each time, begins nothing anew."""
    known = ["case"]

    def test_until_it_is_back(self):
        self.run_job(with_keys(SHORT, train__steps=2))
        place, away = self.case.path("scratch"), self.case.path("away")
        os.rename(self.case.path("runs/case"), place)
        os.symlink(place, self.case.path("runs/case"))
        os.rename(place, away)
        for _ in range(2):
            result = self.run_job(SHORT, "--resume", "auto", code=NO_OUTPUT)
            self.assertIn("runs/case is no folder, but a file or a link that leads nowhere", result.output)
            self.assertEqual(self.runs(), self.known)
        os.rename(away, place)
        self.goes_on(SHORT, step_folder("case", 2))


class Beside(BeginTest):
    """More than one run of a job, and more than one job."""

    def test_a_later_run_is_gone_on_in_by_its_name(self):
        self.run_job(SHORT)
        stopped = self.run_job(with_keys(SHORT, run__max_minutes=AT_ONCE), code=STOPPED)
        self.assertRegex(stopped.output, r"stopped by run\.max_minutes after step 0 of 4; go on with --resume runs/case-2\b")
        first = self.run_job(SHORT, "--resume", "auto")
        self.assertIn("all 4 steps of train.steps are done already", first.output)
        self.assertIn(f"note: {step_folder('case-2', 0)}, of a later start of this job, is newer; --resume runs/case-2", first.output)
        self.run_job(SHORT, "--resume", "runs/case-2")
        self.assertEqual([step["step"] for step in self.case.events("step", "case-2")], [1, 2, 3, 4])

    def test_whose_a_folder_is(self):
        self.run_job(with_keys(SHORT, run__name="case-124"))
        before = self.case.events(run="case-124")
        self.run_job(SHORT_TO_SIX, "--resume", "runs/case-124")
        self.assertEqual(self.case.events(run="case-124"), before, "it went on in the folder of another job")
        self.assertEqual([step["step"] for step in self.case.steps()], [5, 6])

        self.run_job(SHORT)  # runs/case-2
        result = self.run_job(with_keys(SHORT, run__name="case-2"), "--resume", "auto", code=DAMAGED)
        self.assertIn("runs/case-2 is the folder of another job, whose run.name is case (", result.output)

    def test_a_job_that_waits_for_another_takes_what_that_one_saved(self):
        """The first one saves when it is told to end, while the second one waits for the folder."""
        second = []

        def watch(case):
            if len(case.steps()) < 3:
                return False
            with open(case.path("second.yaml"), "w", encoding="utf-8") as file:
                file.write(yaml(with_keys(LONG, run__max_minutes=AT_ONCE)))
            second.append(subprocess.Popen([case.binary, "train", "second.yaml", "--set", "run.name=case", "--resume", "auto"],
                                           cwd=case.folder, text=True, env=environment(**{MARKER: case.marker}),
                                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
            time.sleep(2)  # it has come to the lock by then
            case.launcher.send_signal(signal.SIGUSR1)
            return True

        self.case.run(LONG, 0, ["--resume", "auto"], watch=watch)
        output = second[0].communicate(timeout=60)[0]
        self.assertEqual(second[0].returncode, STOPPED, output)
        last = self.case.steps()[-1]["step"]
        self.assertIn(f"resume    from {step_folder('case', last)}", output)

    def test_a_folder_that_one_host_does_not_see_is_no_damage(self):
        spec = with_keys(SHORT, parallel__dp=2, data__train=[{"path": self.case.path("d0.bin")}])
        self.run_job(with_keys(spec, checkpoint__every=2))
        os.makedirs(self.case.path("elsewhere"))
        words = [self.case.binary, "train", "job.yaml", "--resume", "auto"]
        result = self.case.start([os.path.join(ROOT, "scripts/mpirun"), "-n", "1", *words, ":", "-n", "1", "--wdir",
                                  self.case.path("elsewhere"), *words])
        self.assertEqual(result.code, MISSING, result)
        self.assertIn(f"{step_folder('case', 4)}: there is no such checkpoint folder", result.output)
        self.assertEqual(len(re.findall(r"step_0000000\d", result.output)), 1, result)


def main():
    global BINARY
    arguments = sys.argv[1:]
    if len(arguments) < 2 or arguments[0] != "--binary":
        sys.exit(__doc__)
    BINARY = os.path.abspath(arguments[1])
    unittest.main(argv=[sys.argv[0], *arguments[2:]])


if __name__ == "__main__":
    main()
