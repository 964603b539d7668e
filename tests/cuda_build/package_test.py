#!/usr/bin/python3
"""The package of scripts/gpu_package runs where there is nothing but the C and C++ run time, a shell and Python: no Open MPI,
none of our libraries, another folder, an empty environment.

  package_test.py --build build/release [unittest arguments]
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/harness"))
from escalier_job import N0, d0_tokens, with_keys, write_tokens, yaml  # noqa: E402

BUILD = ""
TOOLS = ("bash", "env", "dirname", "cat", "python3")
HELD = ["/proc", "/sys", "/dev"]  # bound into the bare root as they are


def libraries(path):
    """The C and C++ run time as far as a program of this machine opens it."""
    return re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", path], capture_output=True, text=True).stdout)


def put(root, path):
    """The same path inside root, a copy."""
    target = root + path
    if not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(os.path.realpath(path), target)


def bare_root(root):
    """A system of a C library, a shell and Python in the folder root."""
    programs = {tool: os.path.realpath(shutil.which(tool, path="/usr/bin:/bin")) for tool in TOOLS}
    cpp = subprocess.run(["g++", "-print-file-name=libstdc++.so.6"], check=True, capture_output=True, text=True).stdout.strip()
    for path in programs.values():
        for needed in [path, *libraries(path)]:
            put(root, needed)
    runtime = "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"
    os.makedirs(root + os.path.dirname(runtime), exist_ok=True)
    shutil.copy(os.path.realpath(cpp), root + runtime)
    for needed in libraries(os.path.realpath(cpp)):
        put(root, needed)
    os.makedirs(root + "/usr/bin", exist_ok=True)
    for tool, path in programs.items():
        if not os.path.exists(f"{root}/usr/bin/{tool}"):
            os.symlink(path, f"{root}/usr/bin/{tool}")
    os.makedirs(root + "/etc")
    with open(root + "/etc/passwd", "w", encoding="utf-8") as file:
        file.write("root:x:0:0:root:/root:/bin/bash\n")
    version = f"python3.{sys.version_info.minor}"
    os.makedirs(f"{root}/usr/lib/{version}")
    for folder in [*HELD, "/tmp", "/work", "/root"]:
        os.makedirs(root + folder, exist_ok=True)
    return [*HELD, f"/usr/lib/{version}"]


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
            raise unittest.SkipTest("this user may not make a mount namespace")
        temporary = tempfile.TemporaryDirectory(prefix="escalier_package_")
        cls.addClassCleanup(temporary.cleanup)
        cls.root = os.path.join(temporary.name, "root")
        package = os.path.join(temporary.name, "escalier-gpu")
        result = subprocess.run([os.path.join(ROOT, "scripts/gpu_package"), "--build", BUILD, "--out", package],
                                capture_output=True, text=True)
        if result.returncode:
            raise AssertionError(result.stdout + result.stderr)
        cls.bound = bare_root(cls.root)
        shutil.move(package, cls.root + "/work/elsewhere")

    def inside(self, command):
        """Runs a shell command in the bare root, with an empty environment."""
        binds = "".join(f"mount --rbind {path} {self.root}{path}; " for path in self.bound)
        line = (f"{binds} exec chroot {self.root} /usr/bin/env -i PATH=/usr/bin HOME=/root "
                f"/usr/bin/bash -c 'cd /work; {command}'")
        result = subprocess.run(["unshare", "--mount", "--propagation", "private", "bash", "-ec", line],
                                capture_output=True, text=True, timeout=280)
        return result.returncode, result.stdout + result.stderr

    def test_two_ranks_train(self):
        write_tokens(self.root + "/work/d0.bin", d0_tokens())
        with open(self.root + "/work/job.yaml", "w", encoding="utf-8") as file:
            file.write(yaml(with_keys(N0, parallel__pp=2)))
        code, output = self.inside("elsewhere/run mpirun -n 2 escalier train job.yaml")
        self.assertEqual(code, 0, output)
        self.assertIn("step 10/10", output)

    def test_gpu_check(self):
        if not os.path.exists(self.root + "/work/elsewhere/lib/libescalier_cuda_emulated.so"):
            self.skipTest("built without CUDA")
        for part, rows in (("kernels", ("attention backward", "mlp up forward", "adamw_step")), ("train", ("PP2 1f1b", "TP2"))):
            code, output = self.inside(f"elsewhere/run gpu_check --part {part} --emulated --out results")
            self.assertEqual(code, 0, output)
            self.assertIn(f"gpu_check {part}: passed", output)
            with open(f"{self.root}/work/results/{part}.txt", encoding="utf-8") as file:
                table = file.read()
            for row in rows:
                self.assertRegex(table, rf"(?m)^{row} .* ok$")

    def test_gpu_check_fails_where_there_is_no_gpu(self):
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("this machine has a GPU")
        code, output = self.inside("elsewhere/run gpu_check --part peers --out results")
        self.assertEqual(code, 1, output)
        self.assertRegex(output, r"gpt2-124m +1024 .* FAIL \(exit code 69: ")
        self.assertRegex(output, r"gpt2-124m: no peer, FAIL \(exit code 1: .*No module named .torch")
        self.assertIn("gpu_check peers: FAILED", output)


def main():
    global BUILD
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    arguments, rest = parser.parse_known_args()
    BUILD = os.path.abspath(arguments.build)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=1)


if __name__ == "__main__":
    main()
