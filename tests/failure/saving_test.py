#!/usr/bin/python3
"""Runs that are stopped, struck or out of disk while they save: exit code, one message, and a checkpoint to go on from.

  saving_test.py --binary build/release/bin/escalier --library build/release/lib/libfaulty_files.so [unittest arguments]
"""
import json
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import failure_test  # noqa: E402
from escalier_job import N0, Case, d0_tokens, environment, with_keys, write_tokens  # noqa: E402
from failure_test import FAILED, KILLED, WRITE_FAILED, FailureTest  # noqa: E402
from fault_campaign import TERMINATED, final_state, folders, newest_step, preload, save_under_way  # noqa: E402

LIBRARY = ""
STOPPED_EARLY = 75
LONG = with_keys(N0, train__steps=1000000, train__global_batch=4)
SAVING = with_keys(N0, checkpoint__every=1)
GRIDS = ({}, {"parallel__tp": 2}, {"parallel__pp": 2}, {"parallel__dp": 2}, {"parallel__tp": 2, "parallel__pp": 2},
         {"parallel__pp": 2, "parallel__dp": 2})
PAIRS = GRIDS[1:4]
# Saves take so long that signals find them under way.
SLOW = "op=any;match=step_;do=sleep;ms=30"


def ranks_of(grid):
    size = 1
    for count in grid.values():
        size *= count
    return size


def saved_steps(case):
    return [event["step"] for event in case.events("checkpoint")]


class SavingTest(FailureTest):
    def start(self, case, spec, ranks, faults=None, arguments=("--resume", "auto"), **keys):
        return case.run(spec, ranks, list(arguments), variables=preload(LIBRARY, case, faults), **keys)

    def ckpt(self, *arguments):
        run = subprocess.run([failure_test.BINARY, "ckpt", *arguments], text=True, capture_output=True, check=False, timeout=60,
                             env=environment())
        self.assertEqual(run.returncode, 0, run)
        return run

    def require_whole(self, case, step):
        """The newest checkpoint is that of `step`, and all of it is there."""
        self.assertEqual(newest_step(case), step, folders(case))
        self.ckpt("check", case.path(f"runs/case/step_{step:08d}"))

    def goes_on(self, case, spec, ranks, after):
        """Resumed, the run does the steps behind `after` and no other, and ends well."""
        lines = len(case.steps())
        result = self.start(case, spec, ranks)
        self.check(result, 0, rf"resume    from runs/case/step_{after:08d}, ")
        steps = [event["step"] for event in result.steps[lines:]]
        self.assertEqual(steps, list(range(after + 1, spec["train"]["steps"] + 1)), result)
        return result


class Stopping(SavingTest):
    """A signal or the time limit: all ranks save together and leave with 75."""

    def signalled(self, spec, ranks, act, faults=None):
        with Case(failure_test.BINARY) as case:
            result = self.start(case, spec, ranks, faults, watch=act, timeout=90)
            self.check(result, STOPPED_EARLY, r"stopped by SIG\w+ after step \d+ of \d+; go on with --resume auto")
            last = result.steps[-1]["step"]
            self.require_whole(case, last)
            self.assertEqual(saved_steps(case)[-1], last)
            self.goes_on(case, with_keys(spec, train__steps=last + 2), ranks, last)
            return result

    @staticmethod
    def after_three_steps(act):
        def watch(case):
            if len(case.steps()) < 3:
                return False
            act(case)
            return True
        return watch

    def test_usr1_to_the_launcher(self):
        for grid in GRIDS:
            self.signalled(with_keys(LONG, **grid), ranks_of(grid),
                           self.after_three_steps(lambda case: os.kill(case.launcher.pid, signal.SIGUSR1)))

    def test_term_to_the_launcher(self):
        """mpirun waits its kill delay before it hands the signal on, and once more before it kills; its code is its own."""
        with mock.patch.dict(os.environ, OMPI_MCA_odls_base_sigkill_timeout="8"), Case(failure_test.BINARY) as case:
            spec = with_keys(LONG, parallel__pp=2, log__every=1000000)  # nobody reads the ranks' output meanwhile
            result = self.start(case, spec, 2, timeout=90,
                                watch=self.after_three_steps(lambda case: os.kill(case.launcher.pid, signal.SIGTERM)))
            self.check(result, (STOPPED_EARLY, TERMINATED, FAILED), r"stopped by SIGTERM after step \d+ of \d+", seconds=30)
            last = result.steps[-1]["step"]
            self.require_whole(case, last)
            self.goes_on(case, with_keys(spec, train__steps=last + 2), 2, last)

    def test_without_a_launcher(self):
        for number in (signal.SIGUSR1, signal.SIGTERM):
            self.signalled(LONG, 0, self.after_three_steps(lambda case: os.kill(case.launcher.pid, number)))

    def test_term_to_a_single_rank(self):
        for rank in (0, 3):
            self.signalled(with_keys(LONG, parallel__pp=2, parallel__dp=2), 4,
                           self.after_three_steps(lambda case: os.kill(case.ranks()[rank], signal.SIGTERM)))

    def test_more_signals_during_the_save(self):
        def act(case):
            if len(case.steps()) < 3:
                return False
            os.kill(case.launcher.pid, signal.SIGUSR1)
            deadline = time.monotonic() + 20
            while not save_under_way(case) and time.monotonic() < deadline:
                time.sleep(0.01)
            for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGTERM):
                for pid in case.ranks().values():
                    os.kill(pid, number)
                time.sleep(0.05)
            return True

        for asynchronous in (True, False):
            self.signalled(with_keys(LONG, parallel__pp=2, checkpoint__async=asynchronous), 2, act, faults=SLOW)

    def test_time_limit(self):
        with Case(failure_test.BINARY) as case:
            spec = with_keys(LONG, parallel__pp=2)
            result = self.start(case, with_keys(spec, run__max_minutes=0.05), 2)
            self.check(result, STOPPED_EARLY, r"stopped by run\.max_minutes after step \d+ of 1000000", seconds=60)
            last = result.steps[-1]["step"]
            self.require_whole(case, last)
            self.goes_on(case, with_keys(spec, train__steps=last + 2), 2, last)

    def test_before_the_first_step(self):
        """A checkpoint of step 0, from which the run is the one that nobody stopped."""
        spec = with_keys(N0, parallel__pp=2, model__dropout=0.1)
        with Case(failure_test.BINARY) as case:
            straight = case.run(spec, 2)
            self.check(straight, 0)
        with Case(failure_test.BINARY) as case:
            result = self.start(case, with_keys(spec, run__max_minutes=1e-6), 2)
            self.check(result, STOPPED_EARLY, r"stopped by run\.max_minutes after step 0 of 10")
            self.assertEqual(result.steps, [], result)
            self.require_whole(case, 0)
            resumed = self.goes_on(case, spec, 2, 0)
            for step, expected in zip(resumed.steps, straight.steps):
                self.assertEqual((step["loss"], step["grad_norm"]), (expected["loss"], expected["grad_norm"]))

    def test_signal_during_the_start(self):
        """As soon as a rank is there: it is held back until the first step's end."""
        def act(case):
            if not folders(case):
                return False
            for pid in case.ranks().values():
                os.kill(pid, signal.SIGTERM)
            return True

        with Case(failure_test.BINARY) as case:
            spec = with_keys(LONG, parallel__pp=2)
            result = self.start(case, spec, 2, watch=act, timeout=90)
            self.check(result, STOPPED_EARLY, r"stopped by SIGTERM after step \d+")
            self.require_whole(case, len(result.steps))


class Disk(SavingTest):
    def test_full_at_a_later_save(self):
        """On one rank: all ranks end with 74, nobody calls it saved, and the older checkpoint is as good as before."""
        for grid in GRIDS:
            ranks = ranks_of(grid)
            for asynchronous in (True, False):
                spec = with_keys(SAVING, checkpoint__async=asynchronous, **grid)
                with Case(failure_test.BINARY) as case:
                    first = with_keys(spec, train__steps=4)
                    self.check(self.start(case, first, ranks), 0)
                    result = self.start(case, spec, ranks, f"op=write;match=step_00000006;do=ENOSPC;rank={ranks - 1}")
                    self.check(result, WRITE_FAILED, r"step_00000006.*: cannot be written: No space left on device")
                    self.assertEqual(saved_steps(case)[-1], 5, result)
                    self.assertNotIn("step_00000006", "".join(folders(case)), result)
                    self.require_whole(case, 5)
                    self.goes_on(case, spec, ranks, 5)

    def test_each_operation_that_fails(self):
        for op, error, match, fact in (("open", "EROFS", "step_00000003.tmp", r"step_00000003.*Read-only file system"),
                                       ("write", "EIO", "manifest.json", r"manifest\.json.*Input/output error"),
                                       ("sync", "EIO", "step_00000003.tmp", r"step_00000003.*Input/output error"),
                                       ("rename", "EDQUOT", "/latest", r"latest.*Disk quota exceeded"),
                                       ("mkdir", "ENOSPC", "step_00000003.tmp", r"step_00000003.*No space left")):
            with self.subTest(op=op), Case(failure_test.BINARY) as case:
                spec = with_keys(SAVING, parallel__pp=2)
                self.check(self.start(case, with_keys(spec, train__steps=2), 2), 0)
                result = self.start(case, spec, 2, f"op={op};match={match};do={error}")
                self.check(result, WRITE_FAILED, fact)
                newest = newest_step(case)
                self.assertGreaterEqual(newest, 2, result)
                self.require_whole(case, newest)
                self.goes_on(case, spec, 2, newest)

    def test_a_save_is_told_of_though_the_next_cannot_begin(self):
        with Case(failure_test.BINARY) as case:
            result = self.start(case, with_keys(SAVING, parallel__pp=2), 2, "op=mkdir;match=step_00000002.tmp;do=ENOSPC")
            self.check(result, WRITE_FAILED, r"step_00000002.*No space left")
            self.assertEqual([event["step"] for event in case.events("checkpoint")], [1], result)
            self.require_whole(case, 1)

    def test_weights_that_cannot_be_written_at_the_end(self):
        """The checkpoints stay, and what the run ended with stands in its metrics."""
        with Case(failure_test.BINARY) as case:
            spec = with_keys(SAVING, parallel__tp=2, train__steps=2)
            result = self.start(case, spec, 2, "op=write;match=w.safetensors;do=ENOSPC",
                                arguments=["--save-weights", "runs/w.safetensors"])
            self.check(result, WRITE_FAILED, r"runs/w\.safetensors: cannot be written: No space left on device")
            self.require_whole(case, 2)
            end = case.events("end")
            self.assertEqual([event["exit_code"] for event in end], [WRITE_FAILED], result)
            self.assertIn("runs/w.safetensors", end[0]["reason"])
            self.assertFalse([name for name in os.listdir(case.path("runs")) if "safetensors" in name], result)

    def test_size_limit_of_files(self):
        """ulimit -f below the size of the file with the moments, with SIGXFSZ ignored by the launcher and not."""
        spec = with_keys(SAVING, model__hidden_size=256, model__ffn_size=1024, train__steps=2)
        for ignored in (False, True):
            with Case(failure_test.BINARY) as case:
                self.check(self.start(case, with_keys(spec, train__steps=1), 0), 0, seconds=60)
                optim = os.path.getsize(case.path("runs/case/step_00000001/optim-00000.safetensors"))
                limit = optim - 1000

                def limited():
                    signal.signal(signal.SIGXFSZ, signal.SIG_IGN if ignored else signal.SIG_DFL)
                    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

                result = self.start(case, spec, 0, preexec=limited)
                self.check(result, WRITE_FAILED, r"optim-00000\.safetensors.*: cannot be written: File too large", seconds=60)
                self.require_whole(case, 1)
                self.goes_on(case, spec, 0, 1)

    def test_folder_that_cannot_be_written_is_refused_at_the_start(self):
        for faults in ("op=any;do=EROFS", "op=any;do=EACCES", "op=mkdir;do=EROFS", "op=open;match=case/;do=EACCES"):
            with Case(failure_test.BINARY) as case:
                result = self.start(case, with_keys(SAVING, parallel__pp=2), 2, faults)
                self.check(result, WRITE_FAILED, r"runs/case.*(Read-only file system|Permission denied)")
                self.assertEqual(result.steps, [], result)

    def test_what_a_run_begins_with_is_durable(self):
        """The names of its folders, in the order in which they are made, and config.yaml before it gets its name."""
        with Case(failure_test.BINARY) as case:
            runs, log = os.path.realpath(case.path("runs")), case.path("operations.txt")
            os.mkdir(runs)
            spec = with_keys(SAVING, run__dir="runs/new/inner", train__steps=1)
            self.check(self.start(case, spec, 0, f"op=any;do=nothing;log={log}"), 0)
            with open(log, encoding="utf-8") as file:
                done = [tuple(line.split()[1:]) for line in file]
            made = [runs + "/new", runs + "/new/inner", runs + "/new/inner/case"]
            self.assertEqual(done[:6], [step for path in made for step in (("mkdir", path), ("sync", os.path.dirname(path)))])
            config = made[-1] + "/config.yaml"
            self.assertLess(done.index(("sync", config + ".part")), done.index(("rename", config)))

    def test_folder_that_became_read_only_is_refused_at_the_resume(self):
        with Case(failure_test.BINARY) as case:
            spec = with_keys(SAVING, parallel__pp=2)
            self.check(self.start(case, with_keys(spec, train__steps=2), 2), 0)
            result = self.start(case, spec, 2, "op=any;do=EROFS")
            self.check(result, WRITE_FAILED, r"runs/case.*Read-only file system")
            self.assertEqual(len(result.steps), 2, result)
            self.goes_on(case, spec, 2, 2)

    def test_old_checkpoints_that_cannot_be_removed_end_nothing(self):
        with Case(failure_test.BINARY) as case:
            spec = with_keys(SAVING, parallel__pp=2, checkpoint__keep_last=1, train__steps=4)
            result = self.start(case, spec, 2, "op=remove;match=step_0000000;do=EIO")
            self.check(result, 0)
            self.assertRegex(result.output, r"warning: .*Input/output error")
            self.require_whole(case, 4)

    def test_slow_disk_is_no_silence(self):
        """Saves that last far longer than run.comm_timeout_s end nothing, and what they cost is said."""
        for asynchronous in (True, False):
            with Case(failure_test.BINARY) as case:
                spec = with_keys(SAVING, parallel__pp=2, train__steps=2, run__comm_timeout_s=2, checkpoint__async=asynchronous)
                result = self.start(case, spec, 2, "op=sync;match=step_0000000;do=sleep;ms=3000;rank=1", timeout=180)
                self.check(result, 0, seconds=120)
                self.assertEqual(saved_steps(case), [1, 2])
                stalls = re.findall(r"of which training stood still ([\d.]+) s", result.output)
                self.assertEqual(len(stalls), 2, result)
                self.assertGreater(max(map(float, stalls)), 2, result)


    def test_a_write_that_never_returns_ends_all_ranks(self):
        """Said once after run.comm_timeout_s, and after ten times that the end, whether training goes on beside it or waits."""
        for asynchronous in (True, False):
            with Case(failure_test.BINARY) as case:
                spec = with_keys(N0, parallel__pp=2, train__steps=1000000, checkpoint__every=2, checkpoint__async=asynchronous)
                self.check(self.start(case, with_keys(spec, train__steps=1), 2), 0)
                result = self.start(case, with_keys(spec, run__comm_timeout_s=2), 2,
                                    "op=sync;match=step_00000002;do=sleep;ms=600000;rank=1")
                place = r"the checkpoint of step 2: rank 1 \(.*\) has been at runs/case/step_00000002\.tmp/weights-00001\.safetensors for"
                self.check(result, WRITE_FAILED, place + r" 2 s without getting on; .* ends after 20 s",
                           place + r" 2\d s without getting on, longer than 20 s \(ten times run\.comm_timeout_s\)", seconds=60)
                self.require_whole(case, 1)
                self.goes_on(case, with_keys(spec, train__steps=4), 2, 1)


class Retention(SavingTest):
    def test_without_the_last_step_a_save_that_is_due_there_stays(self):
        for steps in (4, 5):
            with Case(failure_test.BINARY) as case:
                spec = with_keys(SAVING, checkpoint__every=2, checkpoint__last=False, checkpoint__keep_last=0, train__steps=steps)
                self.check(case.run(spec, 0), 0)
                self.assertEqual(sorted(name for name in folders(case) if name.startswith("step_")), ["step_00000002", "step_00000004"])

    def test_going_back_among_later_checkpoints(self):
        """Steps 6 to 10 of the abandoned branch count for nothing: the newest of the run's own stay, and it goes on from there."""
        with Case(failure_test.BINARY) as case:
            spec = with_keys(SAVING, checkpoint__keep_last=0, train__steps=10)
            self.check(case.run(spec, 0), 0)
            back = with_keys(spec, checkpoint__keep_last=2, train__steps=8)
            result = self.start(case, back, 0, arguments=("--resume", "runs/case/step_00000005"))
            self.check(result, 0)
            self.require_whole(case, 8)
            self.assertLessEqual({"step_00000007", "step_00000008"}, set(folders(case)))
            self.goes_on(case, with_keys(back, train__steps=12), 0, 8)
            self.assertEqual(sorted(name for name in folders(case) if name.startswith("step_")), ["step_00000011", "step_00000012"])

    def test_a_whole_checkpoint_at_every_instant(self):
        seen = []

        def latest(case):
            with open(case.path("runs/case/latest"), encoding="utf-8") as file:
                return file.read().strip()

        def watch(case):
            """The newest one, looked at while the run goes on: named by `latest`, with a manifest and all its files."""
            if not os.path.exists(case.path("runs/case/latest")):
                self.assertEqual(seen, [])
                return False
            name = latest(case)
            try:
                with open(case.path(f"runs/case/{name}/manifest.json"), encoding="utf-8") as file:
                    manifest = json.load(file)
                for entry in manifest["files"]:
                    self.assertEqual(os.path.getsize(case.path(f"runs/case/{name}/{entry['name']}")), entry["bytes"])
            except OSError:
                self.assertNotEqual(latest(case), name)  # it went between two looks, where a newer one is named by now
            seen.append(name)
            return False

        with Case(failure_test.BINARY) as case:
            spec = with_keys(SAVING, parallel__pp=2, checkpoint__keep_last=1, train__steps=8)
            result = self.start(case, spec, 2, "op=any;match=step_;do=sleep;ms=10", watch=watch)
            self.check(result, 0, seconds=120)
            self.assertGreater(len(set(seen)), 3, seen)
            self.assertEqual([name for name in folders(case) if name.startswith((".trash", "step_"))], ["step_00000008"])

    def test_looking_at_a_run_that_goes_on(self):
        """What a newer save lets go between two looks is no damage."""
        looks = []

        def watch(case):
            if not saved_steps(case):
                return False
            for command in ("ls", "check"):
                self.assertNotIn("DAMAGED", self.ckpt(command, case.path("runs/case")).stdout)
            looks.append(newest_step(case))
            if len(set(looks)) <= 5:
                return False
            os.kill(case.launcher.pid, signal.SIGUSR1)
            return True

        with Case(failure_test.BINARY) as case:
            spec = with_keys(SAVING, checkpoint__keep_last=1, train__steps=100000, train__global_batch=1)
            self.check(self.start(case, spec, 0, "op=any;match=step_;do=sleep;ms=10", watch=watch), STOPPED_EARLY)
            self.assertGreater(len(set(looks)), 5, looks)

    def test_going_on_from_an_earlier_step(self):
        """Of a run that has 6 to 10, from 5: those stay until this run comes to their steps, and the end is the same."""
        with Case(failure_test.BINARY) as case:
            spec = with_keys(SAVING, parallel__pp=2, checkpoint__keep_last=0)
            straight = self.start(case, spec, 2)
            self.check(straight, 0)
            state = final_state(case)
            result = self.start(case, spec, 2, arguments=("--resume", "runs/case/step_00000005"))
            self.check(result, 0)
            steps = result.steps[10:]
            self.assertEqual([event["step"] for event in steps], [6, 7, 8, 9, 10], result)
            self.assertEqual([event["loss"] for event in steps], [event["loss"] for event in straight.steps[5:]])
            self.assertEqual(final_state(case), state)
            self.require_whole(case, 10)


class NotFinite(SavingTest):
    """Every rank takes the same decision, and nothing poisoned is saved."""

    def test_stop(self):
        for grid in GRIDS:
            with Case(failure_test.BINARY) as case:
                result = self.start(case, with_keys(SAVING, lr__peak=1e30, **grid), ranks_of(grid))
                self.check(result, FAILED, r"step \d+: loss .* finite")
                self.assertEqual(newest_step(case), max(saved_steps(case), default=-1), result)

    def test_skip_with_its_limit(self):
        for grid in GRIDS:
            with Case(failure_test.BINARY) as case:
                spec = with_keys(N0, lr__peak=1e30, train__on_nonfinite="skip", train__skip_limit=3, **grid)
                result = self.start(case, spec, ranks_of(grid))
                self.check(result, FAILED, r"step \d+: loss .*it is the last of 3 steps in a row that updated nothing "
                                           r"\(train\.skip_limit\)")
                skipped = [event["step"] for event in result.steps if event["skipped"]]
                self.assertEqual(len(skipped), 3, result)
                self.assertEqual(skipped, list(range(skipped[0], skipped[0] + 3)), result)
                self.assertEqual(len(result.steps), skipped[-1], result)


    def test_a_sample_that_one_rank_alone_sees(self):
        """Token 60 has an embedding so large that its sample has no finite loss; it is in one sample of one replica."""
        tokens = [token % 59 for token in d0_tokens()[:64 * 16 + 1]]
        tokens[20 * 16 + 3] = 60
        spec = with_keys(N0, train__global_batch=2, train__steps=32, lr__peak=1e-4)
        steps = {}
        for grid in GRIDS:
            with Case(failure_test.BINARY) as case:
                write_tokens(case.path("d0.bin"), tokens)
                self.import_large_embedding(case, 60)
                for action, code in (("stop", FAILED), ("skip", 0)):
                    keys = {"run__name": "case", "train__on_nonfinite": action, **grid}
                    shutil.rmtree(case.path("runs/case"), ignore_errors=True)
                    result = self.start(case, with_keys(spec, **keys), ranks_of(grid), arguments=("--resume", "runs/imported"))
                    self.check(result, code, r"step \d+: loss .* finite", seconds=60)
                    steps[action, str(grid)] = [event["step"] for event in result.steps if event["skipped"]]
                    last = result.steps[-1]["step"]
                    self.assertEqual(last, 32 if action == "skip" else steps[action, str(grid)][0], result)
                    self.assertEqual(newest_step(case), 32 if action == "skip" else -1, result)  # `stop` saves nothing more
                self.assertTrue(all(event["loss"] for event in result.steps if not event["skipped"]), result)
                self.require_whole(case, 32)
        self.assertEqual(len({str(found) for found in steps.values()}), 1, steps)
        self.assertEqual(len(next(iter(steps.values()))), 1, steps)

    def test_a_validation_sample_without_a_finite_loss(self):
        """It updates nothing: `skip` goes on, `stop` ends the run with its last step saved; the weights are not to blame."""
        tokens = [token % 59 for token in d0_tokens()[:64 * 16 + 1]]
        tokens[62 * 16 + 3] = 60
        said = r"the validation loss after step 4 is -?(nan|inf), though all weights are finite: look at validation samples 4 to 6"
        spec = with_keys(N0, train__global_batch=4, lr__peak=1e-4, data__split="56,8,0", eval__every=4, eval__batches=2)
        with Case(failure_test.BINARY) as case:
            write_tokens(case.path("d0.bin"), tokens)
            self.import_large_embedding(case, 60)
            for every, grid in ((0, {"parallel__pp": 2}), (4, {"parallel__dp": 2})):  # no save is due then, or one is
                shutil.rmtree(case.path("runs/case"), ignore_errors=True)
                stops = with_keys(spec, run__name="case", checkpoint__every=every, **grid)
                result = self.start(case, stops, 2, arguments=("--resume", "runs/imported"))
                self.check(result, FAILED, said, seconds=60)
                self.assertNotRegex(result.output, r"lr\.peak|clip_grad")
                self.require_whole(case, 4)
                self.goes_on(case, with_keys(stops, train__on_nonfinite="skip"), 2, 4)
                self.assertEqual([(event["step"], event["loss"]) for event in case.events("eval")],
                                 [(4, None), (8, None), (10, None)])
                self.assertEqual([event["step"] for event in case.events("warning")], [8, 10])
                self.require_whole(case, 10)

    def import_large_embedding(self, case, token):
        """runs/imported: initial weights, of which the row of one token is 3e38."""
        self.check(case.run(with_keys(N0, train__steps=1, lr__peak=1e-9, run__name="first"), 0), 0)
        folder = case.path("model")
        self.ckpt("export-hf", case.path("runs/first"), folder)
        name = os.path.join(folder, "model.safetensors")
        with open(name, "r+b") as file:
            size = struct.unpack("<Q", file.read(8))[0]
            begin = json.loads(file.read(size))["transformer.wte.weight"]["data_offsets"][0]
            file.seek(8 + size + begin + token * 32 * 4)
            file.write(struct.pack("<32f", *[3e38] * 32))
        self.ckpt("import-hf", folder, case.path("runs/imported"))


class Killed(SavingTest):
    def test_the_newest_checkpoint_of_a_killed_run_loads(self):
        for rank in (0, 3):
            def strike(case):
                if len(saved_steps(case)) < 2:
                    return False
                os.kill(case.ranks()[rank], signal.SIGKILL)
                return True

            with Case(failure_test.BINARY) as case:
                spec = with_keys(LONG, parallel__pp=2, parallel__dp=2, checkpoint__every=2)
                result = self.start(case, spec, 4, watch=strike, timeout=90)
                self.check(result, KILLED)
                newest = newest_step(case)
                self.require_whole(case, newest)
                self.goes_on(case, with_keys(spec, train__steps=newest + 2), 4, newest)


class Locks(SavingTest):
    """Of a file system where flock() does not work."""

    def test_bytes_are_locked_instead(self):
        second, shown = [], []

        def watch(case):
            if len(case.steps()) < 3:
                return False
            variables = environment(**preload(LIBRARY, case, "op=flock;match=case/.lock;do=ENOLCK"))
            for results, words in ((shown, ("watch", "--once", "runs/case")), (second, ("train", "job.yaml", "--resume", "auto"))):
                results.append(subprocess.run([case.binary, *words], cwd=case.folder, text=True, env=variables, check=False,
                                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60))
            os.kill(case.launcher.pid, signal.SIGUSR1)
            return True

        with Case(failure_test.BINARY) as case:
            result = self.start(case, LONG, 0, "op=flock;match=case/.lock;do=ENOLCK", watch=watch)
            self.check(result, STOPPED_EARLY)
            self.assertNotIn("nothing keeps a second job out", result.output)
        self.assertEqual(second[0].returncode, WRITE_FAILED, second)
        self.assertIn("runs/case is in use by another job", second[0].stdout)
        self.assertRegex(shown[0].stdout, r"\brunning\b")

    def test_that_there_are_none_is_said(self):
        with Case(failure_test.BINARY) as case:
            result = self.start(case, SAVING, 0, "op=lock;match=case/.lock;do=ENOLCK")
            self.check(result, 0, r"warning: runs/case/\.lock cannot be locked \(No locks available\): nothing keeps a second job out")


def main():
    global LIBRARY
    arguments = sys.argv[1:]
    if len(arguments) < 4 or arguments[0] != "--binary" or arguments[2] != "--library":
        sys.exit(__doc__)
    failure_test.BINARY, LIBRARY = arguments[1], os.path.abspath(arguments[3])
    unittest.main(argv=[sys.argv[0], *arguments[4:]])


if __name__ == "__main__":
    main()
