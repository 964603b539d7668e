#!/usr/bin/python3
"""Plants one violation after another in a small tree and demands that scripts/lint names it."""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLEAN = {
    "lib/core/error.h": "#pragma once\n",
    "lib/core/CMakeLists.txt": "escalier_module(core SOURCES error.cpp)\n",
    "lib/comm/mpi_env.cpp": '#include <mpi.h>\n#include "core/error.h"\n',
    "lib/comm/CMakeLists.txt": "escalier_module(comm SOURCES mpi_env.cpp MODULES core LIBRARIES MPI::MPI_C)\n",
    "kernels/add.h": "#pragma once\n",
    "kernels/add.cpp": '#include "kernels/add.h"\n',
    "kernels/add.cu": "#include <cuda_runtime.h>\n",
    "kernels/add_backward.cu": '#include "kernels/add.h"\n',
    "kernels/common/cuda_mma.h": "#ifdef __CUDACC__\nvoid f() {\n    asm volatile(\"\");\n}\n#endif\n",
    "lib/train/backend.cpp": "void* f() {\n    return dlopen(\"libescalier_cuda.so\", 0);\n}\n",
    "lib/train/cuda_backend.cpp": "#include <cuda_runtime.h>\n",
    "lib/train/CMakeLists.txt": "escalier_module(train SOURCES backend.cpp MODULES core comm)\n",
    "scripts/good": "#!/usr/bin/env bash\necho fine\n",
}


class Lint(unittest.TestCase):
    def lint(self, check, changes):
        """Runs one check over the clean tree plus changes; returns (exit code, output)."""
        with tempfile.TemporaryDirectory() as root:
            for name, text in {**CLEAN, **changes}.items():
                path = os.path.join(root, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                if name.startswith("scripts/") and "not_executable" not in name:
                    os.chmod(path, 0o755)
            with open(os.path.join(ROOT, ".clang-format"), encoding="utf-8") as style:
                with open(os.path.join(root, ".clang-format"), "w", encoding="utf-8") as copy:
                    copy.write(style.read())
            result = subprocess.run([os.path.join(ROOT, "scripts/lint"), "--root", root, "--only", check],
                                    capture_output=True, text=True)
            return result.returncode, result.stdout + result.stderr

    def finds(self, check, name, text, message):
        code, output = self.lint(check, {name: text})
        self.assertEqual(code, 1, output)
        self.assertIn(name, output)
        self.assertIn(message, output)
        self.assertIn("1 finding", output)

    def test_clean_tree_passes_every_check(self):
        for check in ("ladder", "mpi", "cuda", "flags", "size", "folders", "format", "scripts"):
            code, output = self.lint(check, {})
            self.assertEqual(code, 0, output)

    def test_include_of_a_higher_level(self):
        self.finds("ladder", "lib/core/check.cpp", '#include "comm/mpi_env.h"\n', "comm (level 3)")

    def test_include_of_a_sibling(self):
        self.finds("ladder", "lib/data/sampler.cpp", '#include "optim/adamw.h"\n', "optim (level 6)")

    def test_kernels_may_not_include_devices(self):
        self.finds("ladder", "kernels/ops.cpp", '#include "device/device.h"\n', "device (level 2)")

    def test_link_of_a_higher_level(self):
        self.finds("ladder", "lib/comm/CMakeLists.txt",
                   "escalier_module(comm SOURCES mpi_env.cpp MODULES core train LIBRARIES MPI::MPI_C)\n",
                   "links train (level 8)")

    def test_include_without_link(self):
        code, output = self.lint("ladder", {"lib/comm/CMakeLists.txt": "escalier_module(comm SOURCES mpi_env.cpp)\n"})
        self.assertEqual(code, 1, output)
        self.assertIn("MODULES of escalier_comm lacks core", output)

    def test_unknown_module(self):
        self.finds("ladder", "lib/misc/tools.cpp", "\n", "no module of the ladder")

    def test_mpi_outside_comm(self):
        self.finds("mpi", "lib/pipeline/channel.cpp", "#include <mpi.h>\n", "belongs in lib/comm")

    def test_mpi_in_the_benchmark_that_measures_it(self):
        code, output = self.lint("mpi", {"apps/bench_comm/main.cpp": "#include <mpi.h>\n"})
        self.assertEqual(code, 0, output)

    def test_cuda_outside_its_files(self):
        self.finds("cuda", "lib/device/device.cpp", "#include <cuda_runtime.h>\n", "belongs in kernels/")

    def test_cuda_backend_known_outside_backend(self):
        for line in ("#ifdef ESCALIER_CUDA\n#endif\n", 'const char* name = "libescalier_cuda.so";\n',
                     'void* f() { return dlopen("x.so", 0); }\n'):
            self.finds("cuda", "lib/train/trainer.cpp", line, "backend.cpp and cuda_plugin alone")

    def test_what_only_nvcc_understands(self):
        self.finds("cuda", "kernels/add.cu", "void f() { k<<<1, 32>>>(); }\n", "kernels::cuda::launch")
        self.finds("cuda", "kernels/add.cu", 'void f() { asm volatile("nop;"); }\n', "a wrapper of kernels/common")
        self.finds("cuda", "lib/device/cuda_device.cpp", "bool nvcc = __CUDACC__;\n", "asked in kernels/common alone")
        self.finds("cuda", "kernels/add.cu", "extern __shared__ float memory[];\n", "ESCALIER_DYNAMIC_SHARED")
        self.finds("cuda", "kernels/add.cu", "#include <cub/cub.cuh>\n", "build time")
        self.finds("cuda", "kernels/add.cu", "#ifdef EMULATED\n", "no conditional lines")

    def test_cuda_kernel_without_contract_and_cpu_twin(self):
        self.finds("cuda", "kernels/lonely.cu", "\n", "kernels/lonely.cu has no such .h and .cpp")

    def test_fast_math(self):
        self.finds("flags", "kernels/CMakeLists.txt", "add_compile_options(-ffast-math)\n", "-ffast-math")

    def test_native_architecture(self):
        self.finds("flags", "lib/module.cmake", "add_compile_options(-march=native)\n", "-march=native")

    def test_long_file(self):
        self.finds("size", "lib/core/long.cpp", "\n" * 500, "500 lines")

    def test_long_function(self):
        body = "    x();\n" * 100
        self.finds("size", "lib/core/long.cpp", "namespace a {\nvoid f(int a,\n       int b) {\n" + body + "}\n}\n",
                   "lib/core/long.cpp:2: a function of 103 lines")
        methods = "class C {\n    void f() {\n" + body.replace("    ", "        ") + "    }\n};\n"
        self.finds("size", "lib/core/long.cpp", methods, "lib/core/long.cpp:2: a function of 102 lines")
        table = "const T& f() {\n    static const T table = {\n" + '        {"a", 1},\n' * 200 + "    };\n}\n"
        short = ("void f() {\n" + "    x();\n" * 60 + "}\n") * 5
        code, output = self.lint("size", {"lib/core/short.cpp": short, "lib/core/table.cpp": table})
        self.assertEqual(code, 0, output)

    def test_folder_that_two_tests_may_share(self):
        self.finds("folders", "tests/unit/data/read_test.cpp",
                   'const std::string path = ::testing::TempDir() + "run";\n', "test::TempFolder")

    def test_unformatted_file(self):
        self.finds("format", "lib/core/bad.cpp", "int   f( ){return 1 ;}\n", "clang-format -i")

    def test_broken_shell_script(self):
        self.finds("scripts", "scripts/bad", "#!/bin/sh\nif true; then\n", "syntax error")

    def test_broken_python(self):
        self.finds("scripts", "scripts/bad.py", "def f(:\n", "Python:")

    def test_script_that_cannot_be_executed(self):
        self.finds("scripts", "scripts/not_executable", "#!/usr/bin/env bash\n", "chmod +x")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
