#!/usr/bin/python3
"""Jobs under a real Slurm, started here for the purpose: batch files of `escalier launch --slurm`, srun, signals, the time
limit, requeue and resume, arrays, scancel, and the launch that makes singletons.

  slurm_test.py --binary build/release/bin/escalier [unittest arguments]
"""
import os
import re
import signal
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import namespaces  # noqa: E402
import slurm as slurm_harness  # noqa: E402
from escalier_job import MARKER, N0, Case, environment, with_keys  # noqa: E402

BINARY = ""
USAGE = 2
SKIPPED = 77  # CTest's SKIP_RETURN_CODE
STEPS = 120
# Steps of some milliseconds, so that a signal comes in between.
TWO_STAGES = with_keys(N0, parallel__pp=2, train__steps=STEPS, model__hidden_size=64, model__ffn_size=256, train__seq_len=128,
                       train__micro_batch=2)
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # a batch file with mpirun leaves it to whoever it is
SLURM = None


def curve(steps):
    """{step: (loss, norm)}, and that no step came twice with other values."""
    values = {}
    for step in steps:
        pair = (step["loss"], step["grad_norm"])
        assert values.setdefault(step["step"], pair) == pair, step
    return values


class Job:
    """One case's job file, submitted as a batch file."""

    def __init__(self, case, spec, *arguments):
        self.case = case
        case.write_job(spec)
        self.launch = subprocess.run([case.binary, "launch", "job.yaml", "--slurm", "job.sbatch", *arguments],
                                     cwd=case.folder, capture_output=True, text=True)
        assert self.launch.returncode == 0, self.launch
        self.number = SLURM.submit("job.sbatch", folder=case.folder, variables=environment(
            **{MARKER: case.marker, "OMP_NUM_THREADS": "1"}, **AS_ROOT))

    def output(self):
        text = ""
        for name in sorted(os.listdir(self.case.folder)):
            if re.fullmatch(r"case-[0-9_]+\.out", name):
                with open(self.case.path(name), encoding="utf-8", errors="replace") as file:
                    text += f"--- {name}\n{file.read()}"
        return text

    def stepped(self, count):
        SLURM.wait_for(f"step {count} of job {self.number}", lambda: len(self.case.steps()) >= count)

    def ranks(self):
        """Processes that train."""
        found = []
        for pid, variables in self.case.processes():
            if b"SLURM_PROCID" in variables and os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(self.case.binary):
                found.append(pid)
        return found

    def freeze(self):
        """Ranks stand still, so that a short run lasts until the signal of its time limit; it wakes them itself."""
        self.stepped(3)
        for pid in self.ranks():
            os.kill(pid, signal.SIGSTOP)

    def restarts(self):
        """A signal by scancel may come twice: it tries again."""
        return sum(int(job["Restarts"]) for job in SLURM.job(self.number))


def setUpModule():
    """The undisturbed run, and a job that will come to its time limit: the signal may take half a minute, in which the
    other tests run."""
    SlurmTest.limited_case = unittest.enterModuleContext(Case(BINARY))
    SlurmTest.limited = Job(SlurmTest.limited_case, TWO_STAGES, "--time", "1", "--signal-seconds", "55")
    SlurmTest.limited.freeze()
    with Case(BINARY) as case:
        result = case.run(TWO_STAGES, 2)
    assert result.code == 0 and len(result.steps) == STEPS, result
    SlurmTest.undisturbed = curve(result.steps)


class SlurmTest(unittest.TestCase):
    def setUp(self):
        self.case = self.enterContext(Case(BINARY))

    def ended(self, job, *, state="COMPLETED", code="0:0"):
        states, codes = SLURM.ended(job.number)
        self.assertEqual((states, codes), ({state}, {code}), f"{job.output()}\n{SLURM.logs()}")
        self.assertEqual(job.case.leftover(), [], job.output())

    def run_in(self, *line):
        """A command of Slurm that starts processes; (exit code, output)."""
        result = subprocess.run(line, cwd=self.case.folder, env=environment(**{MARKER: self.case.marker, "OMP_NUM_THREADS": "1"}),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return result.returncode, result.stdout


class Batch(SlurmTest):
    """Batch files as launch writes them."""

    def test_a_job(self):
        job = Job(self.case, TWO_STAGES)
        self.ended(job)
        self.assertEqual(curve(self.case.steps()), self.undisturbed)
        self.assertRegex(job.output(), r"grid      1x2x1")

    def test_a_job_by_mpirun_saves_on_a_signal_and_goes_on(self):
        job = Job(self.case, TWO_STAGES, "--starter", "mpirun")
        job.stepped(5)
        subprocess.run(["scancel", "--batch", "--signal=USR1", job.number], check=True)  # as B:USR1 comes
        self.ended(job)
        self.assertIn(job.restarts(), (1, 2), job.output())
        self.assertEqual(curve(self.case.steps()), self.undisturbed)
        self.assertRegex(job.output(), r"(?s)stopped by SIGUSR1 after step \d+ of .*resume    from runs/case/step_\d+")

    def test_an_array(self):
        """One of its points is told to save, goes back into the queue and resumes; the others are not touched."""
        job = Job(self.case, TWO_STAGES, "--at-most", "2", "--point", "pipeline.schedule=gpipe", "--point",
                  "parallel.pp=1; train.steps=10", "--point", "train.steps=5; run.name=short")
        SLURM.wait_for("step 3 of point 0", lambda: len(self.case.events("step", run="case-0")) >= 3)
        subprocess.run(["scancel", "--signal=USR1", f"{job.number}_0"], check=True)
        self.ended(job)
        self.assertIn(job.restarts(), (1, 2), job.output())
        for name, steps in (("case-0", STEPS), ("case-1", 10), ("short", 5)):
            self.assertEqual(curve(self.case.events("step", run=name)),
                             {step: self.undisturbed[step] for step in range(1, steps + 1)}, name)
        self.assertEqual(sorted(name for name in os.listdir(self.case.folder) if name.endswith(".out")),
                         [f"case-{job.number}_{index}.out" for index in range(3)])

    def test_an_array_of_a_sweep(self):
        """Its points are those of `sweep list`; one is told to save, goes back into the queue and resumes."""
        spec = with_keys(TWO_STAGES, sweep__axes={"parallel.pp": [1, 2], "pipeline.schedule": ["gpipe", "1f1b"]},
                         sweep__exclude=[{"parallel.pp": 1, "pipeline.schedule": "gpipe"}])
        job = Job(self.case, spec, "--sweep", "--at-most", "2")
        SLURM.wait_for("step 3 of a point", lambda: len(self.case.events("step", run="case-sweep/pp-2_schedule-gpipe")) >= 3)
        subprocess.run(["scancel", "--batch", "--signal=USR1", f"{job.number}_1"], check=True)  # as B:USR1 comes
        self.ended(job)
        self.assertIn(job.restarts(), (1, 2), job.output())
        for name in ("pp-1_schedule-1f1b", "pp-2_schedule-gpipe", "pp-2_schedule-1f1b"):
            self.assertEqual(curve(self.case.events("step", run=f"case-sweep/{name}")), self.undisturbed, name)
        code, output = self.run_in(BINARY, "sweep", "table", "job.yaml")
        self.assertEqual(code, 0, output)
        self.assertEqual(output.count("| done |"), 3, output)

    def test_scancel_saves_and_ends_for_good(self):
        job = Job(self.case, with_keys(TWO_STAGES, train__steps=1000000))
        job.stepped(5)
        subprocess.run(["scancel", job.number], check=True)
        SLURM.wait_for(f"end of job {job.number}", lambda: SLURM.state(job.number) == "CANCELLED")
        self.assertEqual(self.case.leftover(), [], job.output())
        self.assertEqual(job.restarts(), 0)
        saved = re.findall(r"step_\d+", " ".join(os.listdir(self.case.path("runs/case"))))
        self.assertEqual(len(saved), 1, job.output())
        self.assertGreaterEqual(int(saved[0][5:]), 5)


class Steps(SlurmTest):
    """srun inside an allocation, by launch and by hand."""

    def test_launch_takes_srun(self):
        self.case.write_job(with_keys(TWO_STAGES, train__steps=20))
        code, output = self.run_in("salloc", "--ntasks=2", BINARY, "launch", "job.yaml")
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r"launch: srun --mpi=pmix --ntasks=2 .* train job\.yaml")
        self.assertEqual(curve(self.case.steps()), {step: self.undisturbed[step] for step in range(1, 21)})

    def test_launch_takes_mpirun_where_told(self):
        self.case.write_job(with_keys(TWO_STAGES, train__steps=3))
        code, output = self.run_in("salloc", "--ntasks=2", BINARY, "launch", "job.yaml", "--starter", "mpirun")
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r"launch: mpirun -n 2 ")
        self.assertEqual(len(self.case.steps()), 3, output)

    def test_more_ranks_than_cpus(self):
        self.case.write_job(with_keys(TWO_STAGES, train__steps=3))
        code, output = self.run_in("salloc", "--ntasks=1", BINARY, "launch", "job.yaml")
        self.assertEqual(code, 0, output)
        self.assertIn("--overcommit", output)
        self.assertEqual(len(self.case.steps()), 3, output)

    def test_launch_under_srun(self):
        self.case.write_job(TWO_STAGES)
        code, output = self.run_in("srun", "--ntasks=2", BINARY, "launch", "job.yaml")
        self.assertEqual(code, USAGE, output)
        self.assertEqual(output.count("srun started 2 copies of this launch"), 1, output)

    def test_singletons_are_caught(self):
        """srun without PMIx starts processes that know nothing of one another."""
        for mpi in ("none", "pmi2"):
            self.case.write_job(TWO_STAGES)
            code, output = self.run_in("srun", "--ntasks=2", f"--mpi={mpi}", BINARY, "train", "job.yaml")
            self.assertEqual(code, USAGE, output)
            self.assertEqual(len(re.findall(r"srun started 2 tasks .* an MPI job of its own.*`srun --mpi=pmix` or mpirun", output)), 1,
                             output)
            self.assertFalse(os.path.exists(self.case.path("runs")), output)


class TimeLimit(SlurmTest):
    """Runs last."""

    def test_signal_checkpoint_requeue_resume(self):
        job = self.limited
        self.ended(job)
        self.assertGreaterEqual(job.restarts(), 1, job.output())  # a slow machine reaches the limit again
        self.assertEqual(curve(job.case.steps()), self.undisturbed)
        self.assertRegex(job.output(), r"(?s)stopped by SIGUSR1 after step \d+ of .*resume    from runs/case/step_\d+")


if __name__ == "__main__":
    BINARY = os.path.abspath(sys.argv[sys.argv.index("--binary") + 1])
    problem = namespaces.enter({"node1": "10.77.0.1"})
    if problem:
        print(f"{problem}; Slurm is started in the open", file=sys.stderr)
    if slurm_harness.missing():
        print(f"slurm_test: not installed: {', '.join(slurm_harness.missing())}. Run scripts/setup --tests.")
        sys.exit(1 if os.environ.get("CI") else SKIPPED)
    del sys.argv[sys.argv.index("--binary"):sys.argv.index("--binary") + 2]
    with slurm_harness.Slurm() as SLURM:
        unittest.main()
