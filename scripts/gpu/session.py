"""One part of scripts/gpu_check: runs commands within a budget of time, keeps all that they say, collects one table."""
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

SCRIPTS = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
ROOT = os.path.dirname(SCRIPTS)


class Output:
    """What a command said. exit code None: it was stopped; `late` where the budget of the part, not its own limit, ended it."""

    def __init__(self, code, text, late):
        self.code, self.text, self.late = code, text, late

    def verdict(self):
        """For the table: ok, skipped for want of time, or what went wrong."""
        if self.code == 0:
            return "ok"
        if self.code is None:
            return "skipped (no time left)" if self.late else "FAIL (does not end)"
        lines = [line for line in self.text.splitlines() if line.strip()]
        return f"FAIL (exit code {self.code}: {lines[-1][:90] if lines else 'silent'})"


class Session:
    def __init__(self, part, out, build, emulated, budget):
        self.part, self.emulated, self.failed = part, emulated, False
        self.start, self.budget = time.monotonic(), budget
        self.binaries = self.find_binaries(build)
        os.makedirs(out, exist_ok=True)
        self.table_path = os.path.join(out, f"{part}.txt")
        self.raw = open(os.path.join(out, f"{part}_raw.txt"), "w", encoding="utf-8")
        self.work = tempfile.mkdtemp(prefix="escalier_gpu_")
        self.headings, self.rows, self.notes = [], [], []
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        if emulated:
            self.environment["ESCALIER_CUDA_LIBRARY"] = os.path.join(os.path.dirname(self.binaries), "lib/libescalier_cuda_emulated.so")
        for command in (["uname", "-a"], ["nvidia-smi"], [self.binary("escalier"), "--version"]):
            if shutil.which(command[0]):
                self.run(" ".join(command), command, 20)

    def find_binaries(self, build):
        folders = [os.path.join(build, "bin")] if build else [os.path.join(ROOT, "bin"), os.path.join(ROOT, "build/release/bin")]
        for folder in folders:
            if os.path.exists(os.path.join(folder, "escalier")):
                return os.path.abspath(folder)
        sys.exit(f"gpu_check: no escalier in {' or '.join(folders)}; build it (scripts/build), or name the folder with --build")

    def binary(self, name):
        return os.path.join(self.binaries, name)

    def left(self):
        """Seconds of the budget that are left."""
        return self.budget - (time.monotonic() - self.start)

    def run(self, title, command, seconds, folder=None, environment=None):
        """Runs a command for at most `seconds` and what is left of the budget."""
        limit = min(seconds, self.left())
        print(f"[{time.monotonic() - self.start:5.1f} s] {title}", flush=True)
        self.raw.write(f"\n=== {title}\n$ {' '.join(map(str, command))}\n")
        begin = time.monotonic()
        code, text = None, "(no time left)\n"
        if limit > 1:
            process = subprocess.Popen([str(word) for word in command], cwd=folder or self.work, text=True,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       start_new_session=True, env={**self.environment, **(environment or {})})
            try:
                text, _ = process.communicate(timeout=limit)
                code = process.returncode
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                text, _ = process.communicate()
        elapsed = time.monotonic() - begin
        self.raw.write(f"{text}\n=== {'exit code ' + str(code) if code is not None else 'stopped'} after {elapsed:.1f} s\n")
        self.raw.flush()
        return Output(code, text, limit < seconds)

    def train(self, title, spec, ranks, seconds):
        """Trains a job spec (a dictionary); returns (Output, step events)."""
        folder = tempfile.mkdtemp(dir=self.work)
        with open(os.path.join(folder, "job.yaml"), "w", encoding="utf-8") as file:
            json.dump({**spec, "run": {**spec["run"], "name": "job"}}, file)  # JSON is YAML
        self.raw.write(f"\njob of {title}: {json.dumps(spec)}\n")
        output = self.run(title, [os.path.join(SCRIPTS, "mpirun"), "-n", ranks, self.binary("escalier"), "train", "job.yaml"],
                          seconds, folder)
        steps = []
        try:
            with open(os.path.join(folder, "runs/job/metrics.jsonl"), encoding="utf-8") as file:
                steps = [event for event in map(json.loads, file) if event.get("event") == "step"]
        except (OSError, ValueError):
            pass
        shutil.rmtree(folder)
        return output, steps

    def tokens(self, count, vocabulary):
        """A file of raw16 tokens that a model can learn from: a fixed sequence, each token set by the one before."""
        path = os.path.join(self.work, f"tokens_{vocabulary}_{count}.bin")
        if not os.path.exists(path):
            state, values = 1, []
            for _ in range(count):
                state = (state * 1103515245 + 12345) % 2**31
                values.append((state >> 8) % min(vocabulary, 61) if state % 3 else (values[-1] * 7 + 1) % vocabulary if values else 0)
            with open(path, "wb") as file:
                file.write(struct.pack(f"<{count}H", *values))
        return path

    def row(self, *cells):
        """One row of the table; a cell "FAIL…" makes the part fail."""
        self.rows.append([str(cell) for cell in cells])
        self.failed |= any(cell.startswith("FAIL") for cell in self.rows[-1])

    def note(self, sentence):
        self.notes.append(sentence)

    def finish(self):
        widths = [max(len(row[i]) for row in [self.headings, *self.rows]) for i in range(len(self.headings))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
                 for row in [self.headings, ["-" * width for width in widths], *self.rows]]
        skipped = sum(row[-1].startswith("skipped") for row in self.rows)
        verdict = "FAILED" if self.failed else f"passed, {skipped} rows skipped" if skipped else "passed"
        lines += [*self.notes, f"gpu_check {self.part}: {verdict} after {time.monotonic() - self.start:.0f} s"]
        text = "\n".join(lines) + "\n"
        with open(self.table_path, "w", encoding="utf-8") as file:
            file.write(text)
        print("\n" + text, end="", flush=True)
        self.raw.close()
        shutil.rmtree(self.work, ignore_errors=True)
        return 1 if self.failed else 0

