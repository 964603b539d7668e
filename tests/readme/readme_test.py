#!/usr/bin/python3
"""Every command line of README.md: runs as it stands on a small job, or is named here with what runs it instead. A command
that README gains must be entered here, and one that it loses taken out.

  readme_test.py --binary build/release/bin/escalier [unittest arguments]
"""
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
from escalier_job import N0, ROOT, Case, with_keys, yaml  # noqa: E402

BINARY = ""
BEGINNINGS = ("escalier ", "mpirun ", "build/release/bin/escalier ", "scripts/", "escalier-gpu/", "tar ")
# A run of this takes a fraction of a second; its sweep has the point that README names.
JOB = with_keys(N0, run__name="job", parallel__dp=None, log__every=1, checkpoint__every=5,
                sweep__axes={"parallel.pp": [1, 2], "train.global_batch": [4, 8]})
SHORT = " --set train.steps=4 --set checkpoint.every=2 --set eval.every=2 --set log.every=1"

# (README's command, what is run for it). JOB is job.yaml; the order is that of a user's day.
RUN = [
    ("escalier env", None),
    ("build/release/bin/escalier check configs/quickstart.yaml --ranks 4", None),
    ("escalier schema --text", None),
    ("escalier data pack my.txt data/mine", None),
    ("escalier data info data/mine", None),
    ("escalier schedule gpipe --stages 4 --micro-batches 6", None),
    ("escalier schedule --compare all --stages 4 --micro-batches 16", None),
    ("mpirun -n 4 build/release/bin/escalier train configs/quickstart.yaml",
     "mpirun -n 4 build/release/bin/escalier train configs/quickstart.yaml" + SHORT),
    ("escalier ckpt ls RUN", "escalier ckpt ls runs/quickstart"),
    ("escalier ckpt info PATH", "escalier ckpt info runs/quickstart --tensors"),
    ("escalier ckpt check PATH", "escalier ckpt check runs/quickstart"),
    ("escalier ckpt diff A B", "escalier ckpt diff runs/quickstart runs/quickstart/step_00000004 --limit 3"),
    ('escalier generate --ckpt runs/quickstart --prompt "In the beginning" --tokens 300 --top-p 0.9',
     'escalier generate --ckpt runs/quickstart --prompt "In the beginning" --tokens 30 --top-p 0.9'),
    ('mpirun -n 4 escalier generate --ckpt runs/quickstart --tp 2 --pp 2 --prompt "In the beginning" --seed 7',
     'mpirun -n 4 escalier generate --ckpt runs/quickstart --tp 2 --pp 2 --prompt "In the beginning" --seed 7 --tokens 10'),
    ("escalier ckpt import-hf DIR OUT", "escalier ckpt import-hf hf imported"),
    ("escalier train JOB --resume OUT", "escalier train imported.yaml --resume imported"),
    ("escalier generate --ckpt OUT --prompt-ids 1,2,3", "escalier generate --ckpt imported --prompt-ids 1,2,3 --tokens 5"),
    ("escalier ckpt export-hf RUN|STEP|WEIGHTS DIR [--dtype fp32|bf16|fp16] [--max-shard-size BYTES]",
     "escalier ckpt export-hf imported exported --dtype bf16 --max-shard-size 4000"),
    ("escalier plan JOB --ranks N", "escalier plan job.yaml --ranks 4 --all-ranks --memory 80"),
    ("escalier plan JOB --ranks N --gpu h100", "escalier plan job.yaml --ranks 4 --gpu h100"),
    ("mpirun -n 2 escalier plan JOB --measure --out profile.yaml", None),
    ("escalier plan JOB --profile profile.yaml --svg step.svg", None),
    ("escalier plan configs/plans/llama3.1-405b.yaml --ranks 16384 --gpu h100 --search", None),
    ("mpirun -n 4 escalier train job.yaml --set log.trace='{start: 20, steps: 2}' --set log.tensorboard=true",
     "mpirun -n 4 escalier train job.yaml --set log.trace='{start: 2, steps: 2}' --set log.tensorboard=true"),
    ("escalier watch runs/job", None),
    ("escalier report runs/job", None),
    ("escalier watch RUN", "escalier watch runs/job"),
    ("escalier report RUN", "escalier report runs/job"),
    ("mpirun -n 4 escalier verify job.yaml --grid tp=1 --grid tp=2,pp=2", None),
    ("escalier launch JOB", None),
    ("escalier launch JOB -n 8 --set train.steps=100 -- --resume auto", "escalier launch job.yaml -n 8 --set train.steps=12 -- --resume auto"),
    ("escalier launch JOB --print", None),
    ("escalier launch JOB --hosts node1:4,node2:4", "escalier launch job.yaml --hosts node1:4,node2:4 --print"),
    ("escalier launch JOB --slurm job.sbatch --nodes 2 --gpus-per-node 8 --cpus-per-task 12 --time 24:00:00 --partition gpu",
     "escalier launch job.yaml -n 8 --slurm job.sbatch --nodes 2 --gpus-per-node 8 --cpus-per-task 12 --time 24:00:00 --partition gpu"),
    ("escalier launch JOB --slurm array.sbatch --at-most 2 --point 'pipeline.schedule=gpipe' --point 'parallel.pp=4; train.steps=50'", None),
    ("escalier launch JOB --sweep --slurm FILE", "escalier launch job.yaml --sweep --slurm sweep.sbatch"),
    ("escalier sweep list JOB", None),
    ("escalier sweep count JOB", None),
    ("escalier sweep run JOB [--only pp-2_global_batch-4] [--jobs N]", "escalier sweep run job.yaml --only pp-2_global_batch-4 --jobs 2"),
    ("escalier sweep run JOB --index $SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_ID=1; escalier sweep run job.yaml --index $SLURM_ARRAY_TASK_ID"),
    ("escalier sweep table JOB", None),
    ("escalier sweep run configs/bubble_curve.yaml && escalier sweep table configs/bubble_curve.yaml",
     "escalier sweep run configs/bubble_curve.yaml --only pp-2_global_batch-1 --only pp-2_global_batch-2 && "
     "escalier sweep table configs/bubble_curve.yaml"),
]  # fmt: skip
# What takes too long or wants what is not here: who runs it. A CTest name is one that exists.
ELSEWHERE = {
    "scripts/quickstart": "by hand before a change lands",
    "scripts/test": ".ci/run",
    "scripts/build": ".ci/run",
    "scripts/test_long": "by hand",
    "scripts/mpirun": "the commands above",
    "scripts/slurm/": "test: slurm",
    "scripts/hf_check": "by hand: it installs 5.6 GB; test: hugging_face_parity_2_ranks",
    "scripts/bench_train": "by hand: the tables of Measured",
    "scripts/bench_pipeline": "by hand: the tables of Measured",
    "scripts/bench_plan --rounds 2 --sleep": "by hand: the tables of Measured",
    "scripts/bench_checkpoint": "by hand: the tables of Measured",
    "scripts/fault_campaign --runs 400 --seed 8 --minutes 8 --jobs 3": "test: fault_campaign_once",
    "scripts/fuzz": "by hand: it wants clang; its corpora are replayed by the tests labelled fuzz",
    "scripts/gpu_package": "test: gpu_package",
    "tar xf escalier-gpu.tar.gz": "test: gpu_package",
    "escalier-gpu/run gpu_check --part kernels": "test: gpu_package",
    "escalier-gpu/run gpu_check --part train": "test: gpu_package",
    "escalier-gpu/run gpu_check --part peers": "nobody yet: it takes a GPU",
}


def readme():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        return file.read()


def commands(text):
    """Lines of code blocks without their comments, and code spans, that begin as a command does."""
    found, prose, inside = [], [], False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = not inside
        elif inside:
            found.append(re.split(r"\s{2,}#", line)[0].strip())
        else:
            prose.append(line)
    found += [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", "\n".join(prose))]
    return [each for each in dict.fromkeys(found) if each.startswith(BEGINNINGS) and not each.startswith("escalier  ") and each != "scripts/"]


def block_after(text, command):
    """The code block that README shows after a command."""
    behind = text.split(f"`{command}`", 1)[1]
    return behind.split("```\n", 2)[1]


class Readme(unittest.TestCase):
    def test_every_command_is_known(self):
        self.assertEqual(sorted(commands(readme())), sorted([command for command, _ in RUN] + list(ELSEWHERE)))

    def test_scripts_are_there(self):
        for command in commands(readme()):
            if command.startswith("scripts/"):
                self.assertTrue(os.access(os.path.join(ROOT, command.split()[0]), os.X_OK), command)

    def test_tests_are_there(self):
        """Also those that a build without CUDA or with sanitizers leaves out."""
        known = []
        for folder, _, files in os.walk(os.path.join(ROOT, "tests")):
            if "CMakeLists.txt" in files:
                with open(os.path.join(folder, "CMakeLists.txt"), encoding="utf-8") as file:
                    known += re.findall(r"(?:add_test\(NAME|escalier_test\() ?([\w${}]+)", file.read())
        patterns = [re.sub(r"\$\{\w+\}", r"\\w+", name) for name in known]
        for who in ELSEWHERE.values():
            for test in re.findall(r"test: (\w+)", who):
                self.assertTrue(any(re.fullmatch(pattern, test) for pattern in patterns), test)

    def test_commands_run(self):
        text = readme()
        with Case(BINARY) as case:
            self.lay_out(case)
            for command, line in RUN:
                with self.subTest(command):
                    line = line or re.sub(r"\bJOB\b", "job.yaml", command)
                    result = case.start(["bash", "-c", line], variables={"PATH": f"{case.path('build/release/bin')}:{ROOT}/scripts:{os.environ['PATH']}"})
                    self.assertEqual((result.code, result.leftover), (0, []), f"{line}\n{result}")
                    if command.startswith("escalier schedule"):
                        self.assertEqual(result.output, block_after(text, command), line)

    def lay_out(self, case):
        """A folder like the project's: binary, configs, text packed for data/kjv, a job, a Hugging Face model and a job for it."""
        os.makedirs(case.path("build/release/bin"))
        os.symlink(case.binary, case.path("build/release/bin/escalier"))
        os.symlink(os.path.join(ROOT, "configs"), case.path("configs"))
        os.makedirs(case.path("data"))
        with open(case.path("my.txt"), "w", encoding="utf-8") as file:
            file.write("\n\n".join("In the beginning was the word, and word %d came after it." % number for number in range(4000)))
        subprocess.run([case.binary, "data", "pack", case.path("my.txt"), case.path("data/kjv"), "--tokenizer", "byte", "--split-blank-lines"],
                       check=True, capture_output=True)
        case.write_job(JOB)
        hf = os.path.join(ROOT, "tests/golden/hf/llama")
        shutil.copytree(hf, case.path("hf"))
        subprocess.run([case.binary, "ckpt", "import-hf", case.path("hf"), case.path("model_only")], check=True, capture_output=True)
        with open(case.path("model_only/model.yaml"), encoding="utf-8") as file:
            model = file.read()
        data = {"train": [{"path": "hf/tokens.bin"}], "format": "raw16", "split": "1,0,0"}
        job = with_keys(N0, run__name="imported_run", train__global_batch=4, train__steps=1)
        job = {key: value for key, value in {**job, "data": data}.items() if key != "model"}
        with open(case.path("imported.yaml"), "w", encoding="utf-8") as file:
            file.write(yaml(job) + model)


if __name__ == "__main__":
    BINARY = sys.argv[sys.argv.index("--binary") + 1]
    del sys.argv[sys.argv.index("--binary"):sys.argv.index("--binary") + 2]
    unittest.main()
