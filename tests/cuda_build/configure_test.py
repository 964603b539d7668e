#!/usr/bin/python3
"""ESCALIER_CUDA: OFF builds nothing of CUDA, ON names what is missing, AUTO goes on without it."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NO_TOOLKIT = "-DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON"


class Configure(unittest.TestCase):
    def configure(self, *options):
        """(exit code, output, what the build says of CUDA, files that are compiled)"""
        with tempfile.TemporaryDirectory(prefix="escalier_configure_") as folder:
            result = subprocess.run(["cmake", "-G", "Ninja", "-S", ROOT, "-B", folder, "-DESCALIER_TESTS=OFF", *options],
                                    capture_output=True, text=True)
            said, files = "", []
            if result.returncode == 0:
                with open(os.path.join(folder, "cuda.txt"), encoding="utf-8") as file:
                    said = file.read()
                with open(os.path.join(folder, "compile_commands.json"), encoding="utf-8") as file:
                    files = [os.path.relpath(entry["file"], ROOT) for entry in json.load(file)]
            return result.returncode, result.stdout + result.stderr, said, files

    def without_cuda(self, files):
        self.assertIn("lib/train/backend.cpp", files)
        for name in files:
            self.assertFalse(name.endswith(".cu") or os.path.basename(name).startswith(("nccl_", "staged_", "cuda_device")), name)

    def test_off(self):
        code, output, said, files = self.configure("-DESCALIER_CUDA=OFF")
        self.assertEqual(code, 0, output)
        self.assertIn("not built (ESCALIER_CUDA=OFF)", said)
        self.without_cuda(files)

    def test_auto_where_there_is_no_toolkit(self):
        code, output, said, files = self.configure("-DESCALIER_CUDA=AUTO", NO_TOOLKIT)
        self.assertEqual(code, 0, output)
        self.assertIn("not built, for want of", said)
        self.assertIn("libcublasLt.so", said)
        self.without_cuda(files)

    def test_on_where_there_is_no_toolkit(self):
        code, output, _, _ = self.configure("-DESCALIER_CUDA=ON", NO_TOOLKIT)
        self.assertNotEqual(code, 0, output)
        self.assertRegex(output, r"(?s)lacks here:.*libcudart\.so,\s+libcublasLt\.so")
        self.assertRegex(output, r"-DESCALIER_CUDA=OFF")

    def test_another_word(self):
        code, output, _, _ = self.configure("-DESCALIER_CUDA=maybe")
        self.assertNotEqual(code, 0, output)
        self.assertIn("ESCALIER_CUDA is maybe; it takes AUTO, ON or OFF", output)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
