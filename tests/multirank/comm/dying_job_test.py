#!/usr/bin/python3
"""How a job ends when a rank stops, hangs, dies or fails: exit code, one message, no process left.

  dying_job_test.py MPIRUN DYING_JOB
"""
import os
import signal
import subprocess
import sys
import time
import unittest

MPIRUN, JOB = sys.argv[1:3]
RANKS = 4
TIMEOUT_S = 3  # of dying_job.cpp


def processes_left():
    """Running processes of the job binary; a dead rank may stay a zombie for a moment."""
    left = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
                state = stat.read().rpartition(")")[2].split()[0]
            if state != "Z" and os.readlink(f"/proc/{pid}/exe") == JOB:
                left.append(int(pid))
        except OSError:
            continue
    return left


class DyingJob(unittest.TestCase):
    def end(self, way, within_s):
        begin = time.monotonic()
        job = subprocess.run(
            [MPIRUN, "-n", str(RANKS), JOB, way], capture_output=True, text=True, timeout=120, check=False
        )
        self.assertLess(time.monotonic() - begin, within_s, job.stderr)
        deadline = time.monotonic() + 5
        while processes_left() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(processes_left(), [])
        return job

    def assert_once(self, text, job):
        self.assertEqual(job.stderr.count(text), 1, job.stderr)

    def test_a_good_end(self):
        job = self.end("well", 30)
        self.assertEqual(job.returncode, 0, job.stderr)
        self.assertNotIn("escalier:", job.stderr)

    def test_a_stopped_rank_is_named(self):
        job = self.end("stopped", TIMEOUT_S + 30)
        self.assertEqual(job.returncode, 1, job.stderr)
        self.assert_once("escalier: rank", job)
        self.assert_once("longer than run.comm_timeout_s = 3 s", job)
        self.assertRegex(job.stderr, r"^escalier: rank 1 \(.*\) has been in the start-up for \d+ s and has been silent for \d s; ")
        self.assertRegex(job.stderr, r"\n  rank 0 waits for the gradient norm, with rank 1, which has been in the start-up")

    def test_a_rank_that_stops_after_the_last_step_is_named(self):
        """The job ends with the code that it was about to end with."""
        job = self.end("stopped at the end", TIMEOUT_S + 30)
        self.assertEqual(job.returncode, 75, job.stderr)
        self.assert_once("escalier: rank", job)
        self.assertRegex(job.stderr, r"\n  rank 0 waits for all ranks to end, with rank 1, which has been in the start-up")

    def test_a_busy_rank_is_named(self):
        job = self.end("busy", 10 * TIMEOUT_S + 30)  # a rank that works may take longer than one that is silent
        self.assertEqual(job.returncode, 1, job.stderr)
        self.assert_once("escalier: rank", job)
        self.assertRegex(job.stderr, r"^escalier: rank 1 \(.*\) has been in the start-up for \d+ s; ")

    def test_a_slow_pipeline_is_no_hang(self):
        """Ranks hand over to one another, and one that waits for all of them waits longer than the timeout."""
        self.assertEqual(self.end("handing over", 60).returncode, 0)

    def test_a_job_that_was_suspended_goes_on(self):
        """As a whole, for longer than the timeout."""
        with subprocess.Popen([MPIRUN, "-n", str(RANKS), JOB, "slow"], stderr=subprocess.PIPE, text=True) as job:
            self.assertEqual(job.stderr.readline(), "working\n")
            time.sleep(0.5)
            for number, seconds in ((signal.SIGSTOP, 2 * TIMEOUT_S), (signal.SIGCONT, 0)):
                for pid in processes_left():
                    os.kill(pid, number)
                time.sleep(seconds)
            messages = job.stderr.read()
        self.assertEqual(job.returncode, 0, messages)

    def test_a_killed_rank_ends_the_job(self):
        self.assertEqual(self.end("killed", 30).returncode, 137)

    def test_an_abort_of_several_ranks_prints_once(self):
        job = self.end("aborted", 30)
        self.assertEqual(job.returncode, 66, job.stderr)
        self.assert_once("escalier: no file on some ranks", job)

    def test_an_agreed_error_is_that_of_the_lowest_rank(self):
        job = self.end("agreed", 30)
        self.assertEqual(job.returncode, 66, job.stderr)
        self.assert_once("escalier: no file on rank 1", job)
        self.assertEqual(job.stderr.count("escalier:"), 1, job.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
