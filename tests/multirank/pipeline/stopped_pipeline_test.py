#!/usr/bin/python3
"""A rank that stops in the middle of a step is named, with its stage and micro-batch, and so is what each other rank waits for.

  stopped_pipeline_test.py MPIRUN STOPPED_PIPELINE
"""
import subprocess
import sys
import unittest

MPIRUN, JOB = sys.argv[1:3]
RANKS = 4
MOST_LINES = 8
SILENT = r"has (been silent for \d+ s|never reported)"


class StoppedPipeline(unittest.TestCase):
    def message(self, kind, stage, action, micro_batch, elements=64):
        job = subprocess.run([MPIRUN, "-n", str(RANKS), JOB, kind, str(stage), action, str(micro_batch), str(elements)],
                             capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(job.returncode, 1, job.stderr)
        self.assertEqual(job.stderr.count("escalier:"), 1, job.stderr)
        message = job.stderr[job.stderr.index("escalier:"):].split("run.comm_timeout_s.\n")[0].split("\n")
        self.assertLessEqual(len(message), MOST_LINES, job.stderr)
        self.assertRegex(message[0], rf"^escalier: rank {stage} (\(.*\) )?has been in {action}\({stage},{micro_batch}\) for "
                                     rf"\d+ s and {SILENT}; rank \d has waited \d+ s, "
                                     r"longer than run.comm_timeout_s = 3 s\.$")
        return message

    def waits(self, message, rank, pattern):
        self.assertEqual(len([line for line in message if line.startswith(f"  rank {rank} ")]), 1, message)
        self.assertRegex("\n".join(message), rf"\n  rank {rank} waits for {pattern}")

    def test_forward(self):
        message = self.message("gpipe", 1, "F", 3)
        stopped = r", which has been in F\(1,3\) for \d+ s and " + SILENT
        self.waits(message, 2, rf"F of stage 2, micro-batch 3, from rank 1{stopped}\n")
        self.waits(message, 3, r"F of stage 3, micro-batch 3, from rank 2\n")
        self.waits(message, 0, rf".*, from rank 1{stopped}\n")

    def test_backward(self):
        message = self.message("1f1b", 2, "B", 1)
        stopped = r", which has been in B\(2,1\) for \d+ s and " + SILENT
        self.waits(message, 1, rf"B of stage 1, micro-batch 1, from rank 2{stopped}\n")
        self.waits(message, 0, r"B of stage 0, micro-batch \d, from rank 1\n")
        self.waits(message, 3, rf"F of stage 3, micro-batch \d, from rank 2{stopped}\n")

    def test_first_and_last_stage(self):
        self.waits(self.message("1f1b", 0, "F", 0), 1, r"F of stage 1, micro-batch 0, from rank 0, which has been in F\(0,0\)")
        self.waits(self.message("1f1b", 3, "F", 2), 2, r"B of stage 2, micro-batch 2, from rank 3, which has been in F\(3,2\)")

    def test_a_send_that_waits_at_the_end_of_the_step(self):
        """Of messages that MPI does not buffer: what is sent is named, not the first micro-batch."""
        message = self.message("gpipe", 0, "B", 4, elements=16384)
        self.waits(message, 1, r"room to send B of stage 1, micro-batch 5, from rank 0, which has been in B\(0,4\)")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
