#!/usr/bin/python3
"""escalier launch on this machine: what it prints, and that the job it starts is the job that mpirun starts.

  launch_command_test.py --binary build/release/bin/escalier [unittest arguments]
"""
import contextlib
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from escalier_job import N0, ROOT, Case, environment, with_keys  # noqa: E402

BINARY = ""
USAGE, INPUT_MISSING, STOPPED = 2, 66, 75
SCRIPT = os.path.join(ROOT, "scripts/mpirun")
CORES = len(os.sched_getaffinity(0))
LONG = with_keys(N0, train__steps=1000000, train__global_batch=4)


class LaunchTest(unittest.TestCase):
    def setUp(self):
        self.case = self.enterContext(Case(BINARY))

    def launch(self, *arguments, spec=N0, **more):
        self.case.write_job(spec)
        return self.case.start([self.case.binary, "launch", "job.yaml", *arguments], **more)

    def printed(self, *arguments, spec=N0, environment=None):
        """(the command, the notes) of --print."""
        self.case.write_job(spec)
        result = subprocess.run([self.case.binary, "launch", "job.yaml", "--print", *arguments], cwd=self.case.folder,
                                capture_output=True, text=True, env={**os.environ, **(environment or {})})
        self.assertEqual(result.returncode, 0, result)
        return result.stdout.strip(), result.stderr

    def refused(self, code, *facts, arguments=(), spec=N0, **more):
        result = self.launch(*arguments, spec=spec, **more)
        self.assertEqual(result.code, code, result)
        for fact in facts:
            self.assertEqual(len(re.findall(fact, result.output)), 1, f"{fact!r}: {result}")
        self.assertNotIn("launch: mpirun", result.output)
        self.assertEqual(result.steps, [], result)


class Printing(LaunchTest):
    def test_ranks_follow_from_the_grid(self):
        command, notes = self.printed(spec=with_keys(N0, parallel__tp=2, parallel__pp=2))
        self.assertRegex(command, r"^mpirun -n 4 --map-by slot\S* --bind-to \w+ .*--mca mpi_yield_when_idle 1 .*"
                                  r"/escalier train job\.yaml$")
        self.assertEqual(notes, "")
        self.assertEqual("--oversubscribe" in command, CORES < 4, command)
        self.assertEqual("--allow-run-as-root" in command, os.geteuid() == 0, command)

    def test_overrides_count_and_are_handed_on(self):
        command, _ = self.printed("--set", "parallel.pp=2", "--set", "train.recompute={every: 2}", "--", "--resume", "auto")
        self.assertIn("mpirun -n 2 ", command)
        self.assertTrue(command.endswith("train job.yaml --set parallel.pp=2 --set 'train.recompute={every: 2}' --resume auto"),
                        command)

    def test_open_dp_takes_the_cores(self):
        spec = with_keys(N0, parallel__dp="auto", train__global_batch=None)
        command, notes = self.printed(spec=spec)
        self.assertRegex(notes, rf"launch: parallel\.dp auto: {CORES} cores? of this machine / \(tp 1 x pp 1\) gives dp {CORES}")
        self.assertIn(f"mpirun -n {CORES} ", command)
        self.assertIn("mpirun -n 3 ", self.printed("-n", "3", spec=spec)[0])

    def test_hosts(self):
        command, _ = self.printed("--hosts", "a:2,b:2", spec=with_keys(N0, parallel__pp=4), environment={"NCCL_DEBUG": "WARN"})
        self.assertIn(" --host a:2,b:2 ", command)
        self.assertIn(" -x NCCL_DEBUG ", command)
        self.assertNotIn("--oversubscribe", command)
        with open(self.case.path("nodes.txt"), "w", encoding="utf-8") as file:
            file.write("a slots=1\nb slots=3\n")
        command, notes = self.printed("--hostfile", "nodes.txt", "--agent", "ssh -p 2222",
                                      spec=with_keys(N0, parallel__tp=2, parallel__pp=2))
        self.assertIn(" --hostfile nodes.txt --mca plm_rsh_agent 'ssh -p 2222' ", command)
        self.assertIn("a tensor group spans hosts", notes)

    def test_an_allocation_without_pmix_takes_mpirun(self):
        """srun of another site, in front of whatever is here."""
        with tempfile.TemporaryDirectory() as folder:
            fake = os.path.join(folder, "srun")
            for types, starter in (("none pmi2", "mpirun -n 1"), ("none pmi2 pmix", "srun --mpi=pmix --ntasks=1")):
                with open(fake, "w", encoding="utf-8") as file:
                    file.write(f"#!/bin/sh\necho 'MPI plugin types are...'\nfor t in {types}; do echo \"\t$t\"; done\n")
                os.chmod(fake, 0o755)
                command, notes = self.printed(environment={"PATH": f"{folder}:{os.environ['PATH']}", "SLURM_JOB_ID": "7",
                                                           "SLURM_NTASKS": "1"})
                self.assertTrue(command.startswith(starter), command)
                self.assertEqual("has no pmix" in notes, starter.startswith("mpirun"), notes)


class Running(LaunchTest):
    def test_is_the_same_job(self):
        spec = with_keys(N0, parallel__pp=2)
        launched = self.launch(spec=spec)
        self.assertEqual(launched.code, 0, launched)
        self.assertEqual(launched.leftover, [])
        self.assertRegex(launched.output, r"launch: mpirun -n 2 ")
        with Case(BINARY) as other:
            direct = other.run(spec, 2)
        self.assertEqual([(s["step"], s["loss"], s["grad_norm"]) for s in launched.steps],
                         [(s["step"], s["loss"], s["grad_norm"]) for s in direct.steps])
        self.assertEqual(len(launched.steps), 10, launched)

    def test_more_ranks_than_cores(self):
        result = self.launch("-n", "4", "--set", "train.steps=2", spec=with_keys(N0, parallel__pp=2, parallel__dp="auto"))
        self.assertEqual(result.code, 0, result)
        self.assertEqual(len(result.steps), 2, result)

    def test_signals_reach_the_job_and_its_exit_code_comes_back(self):
        def strike(running):
            if len(running.steps()) < 3:
                return False
            os.kill(running.launcher.pid, signal.SIGUSR1)
            return True

        result = self.launch(spec=with_keys(LONG, parallel__pp=2), watch=strike, timeout=60)
        self.assertEqual(result.code, STOPPED, result)
        self.assertEqual(result.leftover, [], result)

    def test_a_killed_rank_is_its_end(self):
        def strike(running):
            if len(running.steps()) < 3:
                return False
            os.kill(running.ranks()[1], signal.SIGKILL)
            return True

        result = self.launch(spec=with_keys(LONG, parallel__pp=2), watch=strike, timeout=60)
        self.assertEqual(result.code, 128 + signal.SIGKILL, result)
        self.assertEqual(result.leftover, [], result)


class Refusing(LaunchTest):
    """Before anything is started."""

    def test_ranks_that_do_not_fit(self):
        self.refused(USAGE, r"grid 1x2x1 \(tp x pp x dp\) needs 2 processes, got 3; start 2", arguments=("-n", "3"),
                     spec=with_keys(N0, parallel__pp=2))

    def test_every_fault_of_the_job(self):
        self.refused(USAGE, "train.steps: found", "model.num_head: unknown", spec=with_keys(N0, train__steps=-1, model__num_head=3))

    def test_no_job(self):
        result = self.case.start([self.case.binary, "launch", "nowhere.yaml"])
        self.assertEqual(result.code, INPUT_MISSING, result)

    def test_arguments_that_train_does_not_take(self):
        self.refused(USAGE, r"behind --: train: .*--resum\b", arguments=("--", "--resum", "auto"))
        self.refused(USAGE, r"--set stands behind --", arguments=("--", "--set", "parallel.pp=2"))

    def test_hosts_that_are_none(self):
        self.refused(USAGE, r"--hosts: found \"b:x\"", arguments=("--hosts", "a:1,b:x"))
        self.refused(INPUT_MISSING, r"--hostfile nowhere", arguments=("--hostfile", "nowhere"))

    def test_srun_outside_an_allocation(self):
        self.refused(USAGE, r"--starter srun: this is no Slurm allocation", arguments=("--starter", "srun"))

    def test_no_mpirun(self):
        with tempfile.TemporaryDirectory() as empty:
            result = self.launch(variables={"PATH": empty})
            self.assertEqual(result.code, 1, result)
            self.assertIn("mpirun cannot be started: No such file or directory; install Open MPI", result.output)


class Script(unittest.TestCase):
    """scripts/mpirun, whose folder a user may put into PATH."""

    def start(self, path):
        # Open MPI 4.1.4 dies now and then of processes that end at once.
        return subprocess.run([SCRIPT, "-n", "2", "sh", "-c", "sleep 0.5; echo rank"], env=environment(PATH=path),
                              capture_output=True, text=True, timeout=60)

    def test_finds_open_mpi_behind_itself_and_copies_of_it(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(SCRIPT, folder)
            result = self.start(f"{ROOT}/scripts:{folder}:{os.environ['PATH']}")
        self.assertEqual((result.returncode, result.stdout), (0, "rank\nrank\n"), result)

    def test_jobs_that_end_take_no_folder_from_those_that_start(self):
        """Somebody takes Open MPI's empty folder away, as Open MPI does at the end of a job."""
        with tempfile.TemporaryDirectory() as folder:
            over = threading.Event()

            def remove():
                while not over.is_set():
                    for each in glob.glob(os.path.join(folder, "ompi.*")):
                        with contextlib.suppress(OSError):
                            os.rmdir(each)

            remover = threading.Thread(target=remove)
            remover.start()
            try:
                jobs = [subprocess.run([SCRIPT, "-n", "1", "true"], env={**os.environ, "TMPDIR": folder}, text=True,
                                       capture_output=True, timeout=60, check=False) for _ in range(10)]
            finally:
                over.set()
                remover.join()
            self.assertEqual([job.stderr for job in jobs if "orte_session_dir failed" in job.stderr], [])

    def test_says_that_there_is_no_open_mpi(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("bash", "grep"):
                os.symlink(shutil.which(name), os.path.join(folder, name))
            result = self.start(f"{ROOT}/scripts:{folder}")
        self.assertEqual(result.returncode, 127, result)
        self.assertIn("no mpirun in PATH; install Open MPI", result.stderr)


class BatchFiles(LaunchTest):
    """--slurm; that Slurm takes them is shown by slurm_test.py."""

    def test_templates_are_what_the_command_writes(self):
        folder = os.path.join(ROOT, "scripts/slurm")
        names = sorted(os.listdir(folder))
        self.assertGreaterEqual(len(names), 3, names)
        os.symlink(os.path.join(ROOT, "configs"), self.case.path("configs"))
        os.makedirs(self.case.path("scripts/slurm"))
        for name in names:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                template = file.read()
            line = re.search(r"^# Written by: escalier (.*)$", template, re.M).group(1)
            subprocess.run(f"{self.case.binary} {line}", shell=True, check=True, cwd=self.case.folder, capture_output=True)
            with open(self.case.path(f"scripts/slurm/{name}"), encoding="utf-8") as file:
                self.assertEqual(file.read(), template, name)

    def test_a_shell_reads_them(self):
        for more in ((), ("--starter", "mpirun"), ("--point", "train.steps=1", "--point", "train.steps=2; run.seed=3")):
            self.case.write_job(N0)
            text = self.printed("--slurm", "F", "--time", "1:00:00", *more)[0]
            result = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True)
            self.assertEqual(result.returncode, 0, text + result.stderr)

    def test_where_a_run_begins_stands_behind_where_it_goes_on(self):
        """A job that comes back into the queue goes on from its own newest checkpoint, whatever it began from."""
        origin = with_keys(N0, checkpoint__resume="runs/imported")
        for spec, words, command in (
                (N0, (), "train job.yaml --resume auto"),
                (origin, (), "train job.yaml --resume auto"),
                (N0, ("--", "--resume", "auto"), "train job.yaml --resume auto"),
                (N0, ("--", "--resume", "runs/imported"), "train job.yaml --set checkpoint.resume=runs/imported --resume auto"),
                (origin, ("--", "--resume=runs/a: b", "--dry-run"),
                 "train job.yaml --set 'checkpoint.resume=\"runs/a: b\"' --resume auto --dry-run")):
            text = self.printed("--slurm", "F", *words, spec=spec)[0]
            self.assertRegex(text, f"{re.escape(command)}\\n", text)
        text = self.printed("--slurm", "F", "--point", "run.seed=1", "--point", "run.seed=2", "--", "--resume", "runs/imported")[0]
        self.assertEqual(text.count("--set run.name=case-1 --set checkpoint.resume=runs/imported --resume auto"), 1, text)

    def test_beginnings_that_a_requeue_would_repeat(self):
        self.refused(USAGE, r"--resume none would begin anew each time", arguments=("--slurm", "F", "--", "--resume", "none"))
        os.makedirs(self.case.path("runs/case/step_00000003"))
        for words in (("--", "--resume", "runs/case/step_00000003"), ("--set", "checkpoint.resume=runs/case/step_00000003/")):
            self.refused(USAGE, r"step_00000003/?, a step of this very run", arguments=("--slurm", "F", *words))
        self.printed("--slurm", "F", "--set", "run.name=new", "--", "--resume", "runs/case/step_00000003")

    def test_sizes_that_do_not_fit(self):
        spec = with_keys(N0, parallel__pp=4)
        self.refused(USAGE, r"--nodes: 4 ranks do not divide over 3 nodes", arguments=("--slurm", "F", "--nodes", "3"), spec=spec)
        self.refused(USAGE, r"a node has 1 GPUs for 2 ranks; raise --nodes to 4",
                     arguments=("--slurm", "F", "--nodes", "2", "--gpus-per-node", "1"), spec=spec)
        self.refused(USAGE, r"--time: found 1h", arguments=("--slurm", "F", "--time", "1h"))
        self.refused(USAGE, r"--nodes", arguments=("--nodes", "3"))
        self.refused(USAGE, r"--at-most is for a job array", arguments=("--slurm", "F", "--at-most", "2"))
        self.refused(USAGE, r"--sweep", arguments=("--sweep",))
        self.refused(USAGE, r"sweeps over nothing; give it axes", arguments=("--slurm", "F", "--sweep"))
        swept = with_keys(N0, sweep__axes={"parallel.pp": [1, 2]})
        self.refused(USAGE, r"--sweep: .* leave --starter out", arguments=("--slurm", "F", "--sweep", "--starter", "srun"), spec=swept)
        self.refused(USAGE, r"--sweep: .* behind --", arguments=("--slurm", "F", "--sweep", "--", "--dry-run"), spec=swept)
        self.refused(USAGE, r"no point of the sweep of job\.yaml can be", arguments=("--slurm", "F", "--sweep"),
                     spec=with_keys(N0, sweep__axes={"parallel.pp": [50, 60]}))
        self.refused(74, r"--slurm nowhere/F: it cannot be written", arguments=("--slurm", "nowhere/F"))
        self.refused(USAGE, r"--partition: found", arguments=("--slurm", "F", "--partition", "a\n#SBATCH --x"))


if __name__ == "__main__":
    BINARY = sys.argv[sys.argv.index("--binary") + 1]
    del sys.argv[sys.argv.index("--binary"):sys.argv.index("--binary") + 2]
    unittest.main()
