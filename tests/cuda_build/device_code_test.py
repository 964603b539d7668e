#!/usr/bin/python3
"""The instructions that nvcc makes of the kernels: in attention tensor cores, fed by ldmatrix and asynchronous copies; in
sweeps over rows of whole vectors, stores of 16 bytes.

  device_code_test.py --build build/release [unittest arguments]
"""
import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

BUILD = ""
SIXTEEN_BYTES = r"\.v4\.[ubf]32$|\.v2\.[ubf]64$"
PRODUCT = r"mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.bf16\.bf16\.f32"
HEAD_SIZES = (64, 128)


def sources(folder, pattern):
    """{file: how nvcc compiles it} of the device sources whose path matches; the emulation compiles them too, with g++."""
    with open(os.path.join(folder, "compile_commands.json"), encoding="utf-8") as file:
        return {entry["file"]: entry["command"] for entry in json.load(file)
                if re.search(pattern, entry["file"]) and "--generate-code" in entry["command"]}


def kernels_of(command, architecture="compute_80"):
    """{demangled name: PTX} of what a compile command makes."""
    words = [word for word in shlex.split(command) if not word.startswith("--generate-code")]
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, "kernels.ptx")
        words[words.index("-o") + 1] = target
        words[words.index("-c")] = "-ptx"
        subprocess.run([*words, f"-arch={architecture}"], check=True, cwd=folder)
        with open(target, encoding="utf-8") as file:
            text = file.read()
    entries = re.findall(r"\.entry (\w+)\((.*?)\n}\n", text, re.S)
    if not entries:
        return {}
    names = subprocess.run(["c++filt", *[name for name, _ in entries]], check=True, capture_output=True, text=True)
    return dict(zip(names.stdout.splitlines(), [body for _, body in entries]))


class Attention(unittest.TestCase):
    def tensor_core_kernels(self, pattern):
        found = {}
        for file, command in sources(BUILD, pattern).items():
            found.update(kernels_of(command))
        self.assertTrue(found, f"no kernel is compiled from {pattern} in {BUILD}")
        return {name: ptx for name, ptx in found.items() if re.search(PRODUCT, ptx)}

    def check(self, pattern):
        kernels = self.tensor_core_kernels(pattern)
        for size in HEAD_SIZES:
            self.assertTrue(any(re.search(rf"<(\(int\))?{size}\b", name) for name in kernels),
                            f"no kernel for head size {size} multiplies on tensor cores: {sorted(kernels)}")
        for name, ptx in kernels.items():
            self.assertIn("ldmatrix.sync.aligned.m8n8.x4", ptx, name)
            self.assertRegex(ptx, r"cp\.async\.c[ag]\.shared\.global", name)
            self.assertIn("cp.async.wait_group", ptx, name)
            self.assertNotRegex(ptx, r"\.local\b", f"{name} keeps an array in local memory")

    def test_forward(self):
        self.check(r"kernels/attention_forward\.cu$")

    def test_backward(self):
        self.check(r"kernels/attention_backward\.cu$")


class Vectors(unittest.TestCase):
    """nvcc has taken a store of 16 bytes apart beside branches, which nothing but speed would show."""

    def test_no_store_is_taken_apart(self):
        seen = 0
        for file, command in sources(BUILD, r"kernels/(cross_entropy|elementwise|rmsnorm)\.cu$").items():
            for name, ptx in kernels_of(command).items():
                if "Vector<__nv_bfloat16>" in name:
                    seen += 1
                    self.assertNotRegex(ptx, r"st\.global(\.cs)?\.(v2\.)?[ub](16|32)", name)
                    self.assertRegex(ptx, r"st\.global(\.cs)?\.(v4\.[ubf]32|v2\.[ub]64)|statistics", name)
        self.assertGreater(seen, 8)


class Sweeps(unittest.TestCase):
    def test_vector_kernels_move_16_bytes_with_each_access(self):
        found = 0
        for file, command in sources(BUILD, r"kernels/(elementwise|swiglu)\.cu$").items():
            for name, ptx in kernels_of(command).items():
                if "Vector<" not in name:
                    continue
                accesses = re.findall(r"\b(?:ld|st)\.global[.\w]*", ptx)
                self.assertTrue(accesses, name)
                self.assertEqual([access for access in accesses if not re.search(SIXTEEN_BYTES, access)], [], name)
                found += 1
        self.assertGreater(found, 8)


def main():
    global BUILD
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    arguments, rest = parser.parse_known_args()
    BUILD = arguments.build
    unittest.main(argv=[sys.argv[0], *rest], verbosity=1)


if __name__ == "__main__":
    main()
