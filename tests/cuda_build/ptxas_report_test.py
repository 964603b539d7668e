#!/usr/bin/python3
"""scripts/ptxas_report on made-up compiler output: what it reads, and that it finds each fault it is there for."""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "scripts/ptxas_report")
OBJECTS = "kernels/CMakeFiles/escalier_kernels_cuda.dir"
SCALE = "_ZN41_GLOBAL__N__dc4b731a_9_zz_try_cu_bdd6a1075scaleI13__nv_bfloat16EEvPT_fi"
ROW = "add.cu,scale<bf16>,sm_80,40,512,0,0"


def report(name=SCALE, arch="sm_80", registers=40, shared=512, stack=0, stores=0, loads=0):
    smem = f", {shared} bytes smem" if shared else ""
    return (f"ptxas info    : 0 bytes gmem\n"
            f"ptxas info    : Compiling entry function '{name}' for '{arch}'\n"
            f"ptxas info    : Function properties for {name}\n"
            f"    {stack} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads\n"
            f"ptxas info    : Used {registers} registers, used 1 barriers{smem}, 400 bytes cmem[0]\n")


class PtxasReport(unittest.TestCase):
    def run_script(self, text, rows, *arguments, version="13.0.88"):
        """(exit code, output, table after the run) over one object's report and a table of the given rows."""
        with tempfile.TemporaryDirectory() as build:
            os.makedirs(os.path.join(build, OBJECTS))
            os.makedirs(os.path.join(build, "CMakeFiles/3.25.1"))
            with open(os.path.join(build, "CMakeFiles/3.25.1/CMakeCUDACompiler.cmake"), "w", encoding="utf-8") as file:
                file.write('set(CMAKE_CUDA_COMPILER_VERSION "13.0.88")\n')
            if text:
                with open(os.path.join(build, OBJECTS, "add.cu.o.ptxas"), "w", encoding="utf-8") as file:
                    file.write(text)
            table = os.path.join(build, "ptxas.csv")
            with open(table, "w", encoding="utf-8") as file:
                file.write("\n".join([f"# CUDA {version}; made", "file,kernel,arch,registers,shared,stack,spilled", *rows, ""]))
            result = subprocess.run([SCRIPT, "--build", build, "--table", table, *arguments], capture_output=True, text=True)
            with open(table, encoding="utf-8") as file:
                return result.returncode, result.stdout + result.stderr, file.read()

    def finds(self, text, rows, message, **version):
        code, output, _ = self.run_script(text, rows, "--check", **version)
        self.assertEqual(code, 1, output)
        self.assertIn(message, output)
        self.assertIn(" 1 findings", output)

    def passes(self, text, rows, **version):
        code, output, _ = self.run_script(text, rows, "--check", **version)
        self.assertEqual(code, 0, output)

    def test_the_table_as_it_is(self):
        self.passes(report(), [ROW])
        self.passes(report(registers=44), [ROW])
        self.passes(report(registers=24, shared=0), [ROW])

    def test_spills(self):
        self.finds(report(stores=8), [ROW], "scale<bf16> for sm_80 spills 8 bytes")
        self.finds(report(loads=16), [ROW], "spills 16 bytes")

    def test_more_registers(self):
        self.finds(report(registers=45), [ROW], "takes 45 registers, kernels/ptxas.csv says 40")
        self.passes(report(registers=45), [ROW], version="12.8.1")  # another ptxas allocates otherwise

    def test_more_memory(self):
        self.finds(report(shared=516), [ROW], "516 bytes of shared memory")
        self.finds(report(stack=32), [ROW], "32 bytes of stack")

    def test_kernel_without_a_row(self):
        self.finds(report() + report(name="_Z5otherPf"), [ROW], "other for sm_80 has no row")

    def test_row_without_a_kernel(self):
        self.finds(report(), [ROW, "add.cu,gone,sm_80,10,0,0,0"], "row for gone of add.cu")
        self.passes(report(), [ROW, "add.cu,scale<bf16>,sm_90a,10,0,0,0"])  # not built for that GPU here

    def test_overloads_have_rows_of_their_own(self):
        _, _, table = self.run_script(report(name="_Z3addPf") + report(name="_Z3addPi"), [], "--write")
        self.assertIn('add(float*)', table)
        self.assertIn('add(int*)', table)

    def test_write_makes_the_table_that_check_takes(self):
        code, output, table = self.run_script(report(), [], "--write", version="1.0")
        self.assertEqual(code, 0, output)
        self.assertEqual(table.splitlines()[2:], [ROW])
        self.assertIn("CUDA 13.0.88", table)
        code, _, _ = self.run_script(report(stores=4), [], "--write")
        self.assertEqual(code, 1)

    def test_nothing_compiled(self):
        code, output, _ = self.run_script("", [ROW], "--check")
        self.assertEqual(code, 2, output)
        self.assertIn("no kernel was compiled", output)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
