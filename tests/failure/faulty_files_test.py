#!/usr/bin/python3
"""The library that makes file operations fail does what its environment says.

  faulty_files_test.py LIBRARY
"""
import os
import signal
import subprocess
import sys
import tempfile
import unittest

LIBRARY = os.path.abspath(sys.argv[1])
SAVE = """
import fcntl, os, struct, sys
folder = sys.argv[1]
os.mkdir(folder + "/step.tmp")
file = os.open(folder + "/step.tmp/weights", os.O_WRONLY | os.O_CREAT)
data = b"x" * 1000
while data:
    data = data[os.write(file, data):]
os.fsync(file)
os.close(file)
os.rename(folder + "/step.tmp", folder + "/step")
os.remove(folder + "/old")
os.rename(folder + "/other/a", folder + "/other/b")
with open(folder + "/other/b") as file:
    fcntl.flock(file, fcntl.LOCK_SH)
    fcntl.fcntl(file, 37, struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 0, 0))  # F_OFD_SETLK
"""


class FaultyFiles(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = self.temporary.name
        os.mkdir(self.path("other"))
        for name in ("old", "other/a"):
            with open(self.path(name), "w", encoding="utf-8"):
                pass

    def start_anew(self):
        self.doCleanups()
        self.setUp()

    def path(self, name):
        return os.path.join(self.folder, name)

    def save(self, rule, rank="0"):
        """Runs a small save; rule: without `under`."""
        variables = {"LD_PRELOAD": LIBRARY, "FAULTY_FILES": f"under={self.folder};{rule}", "OMPI_COMM_WORLD_RANK": rank}
        return subprocess.run(["/usr/bin/python3", "-c", SAVE, self.folder], env={**os.environ, **variables}, text=True,
                              capture_output=True, check=False, timeout=60)

    def fails(self, rule, text, code=1, **keys):
        result = self.save(rule, **keys)
        self.assertEqual(result.returncode, code, result)
        self.assertIn(text, result.stderr)

    def size(self):
        return os.path.getsize(self.path("step.tmp/weights"))

    def test_nothing_is_at_fault_unless_told(self):
        for rule in ("do=nothing", "op=rename;do=EIO;rank=1", "match=nowhere;do=EIO", "op=sync;at=2;do=EIO"):
            result = self.save(rule)
            self.assertEqual(result.returncode, 0, result)
            self.start_anew()

    def test_each_operation_fails(self):
        for op, error, text in (("mkdir", "EACCES", "Permission denied"), ("open", "EROFS", "Read-only file system"),
                                ("write", "ENOSPC", "No space left"), ("sync", "EIO", "Input/output error"),
                                ("rename", "EDQUOT", "quota exceeded"), ("remove", "EIO", "Input/output error"),
                                ("flock", "ENOLCK", "No locks available"), ("lock;at=2", "ENOLCK", "No locks available")):
            self.fails(f"op={op};do={error}", text)
            self.start_anew()

    def test_a_write_is_cut_and_the_next_one_fails(self):
        self.fails("op=write;after_bytes=123;do=ENOSPC", "No space left")
        self.assertEqual(self.size(), 123)

    def test_the_process_dies_with_a_part_written(self):
        self.fails("op=write;after_bytes=123;do=kill", "", -signal.SIGKILL)
        self.assertEqual(self.size(), 123)

    def test_the_process_dies_before_and_after_an_operation(self):
        self.fails("op=rename;do=kill", "", -signal.SIGKILL)
        self.assertTrue(os.path.exists(self.path("step.tmp")))
        self.start_anew()
        self.fails("op=rename;do=kill_after", "", -signal.SIGKILL)
        self.assertTrue(os.path.exists(self.path("step")))
        self.assertTrue(os.path.exists(self.path("old")))

    def test_operations_are_counted_in_order(self):
        log = self.path("log")
        self.assertEqual(self.save(f"do=nothing;log={log}", rank="3").returncode, 0)
        with open(log, encoding="utf-8") as file:
            lines = [line.split() for line in file]
        self.assertEqual([line[:2] for line in lines],
                         [["3", kind] for kind in ("mkdir", "open", "write", "sync", "rename", "remove", "rename")])
        self.assertEqual(lines[4][2], self.path("step"))

    def test_the_n_th_operation(self):
        self.fails("at=6;do=EIO", "Input/output error")
        self.assertTrue(os.path.exists(self.path("step")))
        self.assertTrue(os.path.exists(self.path("old")))

    def test_a_rule_that_is_not_understood_ends_the_process(self):
        self.fails("do=EWHAT", "FAULTY_FILES: not understood: EWHAT", 99)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
