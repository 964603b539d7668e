"""Starts Escalier as a user does, with scripts/mpirun and a job file, and reports what a user would see: exit code,
output, seconds, metrics, and whether any process is left. Standard library only."""
import concurrent.futures
import contextlib
import copy
import json
import os
import signal
import struct
import subprocess
import tempfile
import time
import uuid

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MARKER = "ESCALIER_TEST_CASE"  # in the environment of every process of a case, so that the left-over ones are found

# N0 of the tests: small enough that ten steps take a fraction of a second.
N0 = {
    "version": 1,
    "run": {"name": "case", "seed": 1234, "threads": 1, "device": "cpu"},
    "model": {"arch": "gpt2", "num_layers": 4, "hidden_size": 32, "num_heads": 4, "ffn_size": 128, "vocab_size": 64,
              "tie_embeddings": False, "dropout": 0.0},
    "parallel": {"tp": 1, "pp": 1, "dp": 1},
    "pipeline": {"schedule": "1f1b"},
    "train": {"seq_len": 16, "micro_batch": 1, "global_batch": 8, "steps": 10},
    "optimizer": {"name": "adamw", "weight_decay": 0.0, "clip_grad": 0.0},
    "lr": {"peak": 1e-3, "schedule": "constant"},
    "data": {"train": [{"path": "d0.bin"}], "format": "raw16", "split": "1,0,0"},
}


def d0_tokens():
    """8193 tokens below 61: 512 samples of 16."""
    return [(i * i + 7 * i) % 61 for i in range(8193)]


def with_keys(spec, **changes):
    """A copy with section__key=value changes; a section may be new, None removes a key."""
    spec = copy.deepcopy(spec)
    for path, value in changes.items():
        section, key = path.split("__")
        if value is None:
            spec[section].pop(key, None)
        else:
            spec.setdefault(section, {})[key] = value
    return spec


def write_tokens(path, tokens):
    with open(path, "wb") as file:
        file.write(struct.pack(f"<{len(tokens)}H", *tokens))


def flow(value):
    """A value in YAML's flow style."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    plain = isinstance(value, str) and value.replace("_", "").isalnum() and not value.isdigit()
    return value if plain else json.dumps(value)


def yaml(spec):
    return "".join(f"{section}: {flow(value)}\n" for section, value in spec.items())


def side_by_side(check, settings):
    """(setting, what check(setting) returned) in order; two at a time, for a job's start is mostly waiting."""
    with concurrent.futures.ThreadPoolExecutor(2) as workers:
        yield from zip(settings, workers.map(check, settings))


def environment(**variables):
    """For Escalier's processes. Without leak checks, as scripts/mpirun starts them: Open MPI's plugins are unloaded by
    the time a leak check asks where they lie, so no suppression names them."""
    leaks = os.environ.get("LSAN_OPTIONS", "") + ":detect_leaks=0"
    return {**os.environ, "LSAN_OPTIONS": leaks, **variables}


class Result:
    def __init__(self, code, output, seconds, steps, leftover, timed_out):
        self.code = code  # of mpirun; None after a time-out
        self.output = output  # stdout and stderr
        self.seconds = seconds
        self.steps = steps  # step events of metrics.jsonl
        self.leftover = leftover  # "pid command" of processes still alive
        self.timed_out = timed_out

    def __str__(self):
        left = f", left over: {self.leftover}" if self.leftover else ""
        ended = "timed out" if self.timed_out else f"exit code {self.code}"
        return f"{ended} after {self.seconds:.1f} s{left}\n--- output\n{self.output}\n---"


class Case:
    """One folder with a job file, its data and its run directory; `with Case(binary) as case: case.run(…)`."""

    def __init__(self, binary):
        self.binary = os.path.abspath(binary)
        self.temporary = tempfile.TemporaryDirectory(prefix="escalier_test_")
        self.folder = self.temporary.name
        self.marker = uuid.uuid4().hex
        self.launcher = None  # of the job under way: mpirun, or Escalier itself

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid, _ in self.processes():
            with contextlib.suppress(ProcessLookupError):  # it may end by itself just now
                os.kill(pid, signal.SIGKILL)
        self.temporary.cleanup()

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, spec, ranks, arguments=(), timeout=120, watch=None, job="job.yaml", variables=None, preexec=None):
        """spec: a dictionary, or the text of the job file. ranks 0: started without mpirun. watch(case) is called every 20 ms until it returns True;
        result.seconds counts from then on (from the start without a watch). job: the file named on the command line.
        variables: more of the environment. preexec: called in the new process, for limits."""
        self.write_job(spec)
        launcher = [os.path.join(ROOT, "scripts/mpirun"), "-n", str(ranks)] if ranks else []
        return self.start([*launcher, self.binary, "train", job, *arguments], timeout, watch, variables, preexec)

    def write_job(self, spec):
        """The job file, and its data."""
        with open(self.path("job.yaml"), "w", encoding="utf-8") as file:
            file.write(spec if isinstance(spec, str) else yaml(spec))
        if not os.path.exists(self.path("d0.bin")):
            write_tokens(self.path("d0.bin"), d0_tokens())

    def start(self, line, timeout=120, watch=None, variables=None, preexec=None):
        """Any command line, in the folder of the case; see run()."""
        with open(self.path("output.txt"), "w+b") as output:
            start = time.monotonic()
            deadline = start + timeout
            process = subprocess.Popen(line, cwd=self.folder, stdin=subprocess.DEVNULL,
                                       stdout=output, stderr=output, start_new_session=True, preexec_fn=preexec,
                                       env=environment(**{MARKER: self.marker, "OMP_NUM_THREADS": "1"}, **(variables or {})))
            self.launcher = process
            while process.poll() is None and time.monotonic() < deadline:
                if watch and watch(self):
                    watch, start = None, time.monotonic()
                time.sleep(0.02)
            code = process.poll()
            seconds = time.monotonic() - start
            if code is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            leftover = self.leftover()
            output.seek(0)
            text = output.read().decode("utf-8", "replace")
        return Result(code, text, seconds, self.steps(), leftover, code is None)

    def plan(self, ranks, *arguments):
        """The JSON that escalier plan says of the job that ran last."""
        line = [self.binary, "plan", "job.yaml", "--ranks", str(ranks), "--json", *arguments]
        done = subprocess.run(line, cwd=self.folder, capture_output=True, text=True, env=environment(), check=False)
        if done.returncode != 0 or done.stderr:
            raise AssertionError(f"{' '.join(line)} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def events(self, kind=None, run="case"):
        """What metrics.jsonl of a run holds at this moment, without a line that is still being written; kind: of one kind."""
        try:
            with open(self.path(f"runs/{run}/metrics.jsonl"), encoding="utf-8") as file:
                lines = [line for line in file.read().split("\n")[:-1] if line]
        except OSError:
            return []
        return [event for event in map(json.loads, lines) if kind in (None, event.get("event"))]

    def steps(self):
        return self.events("step")

    def processes(self):
        """(pid, environment) of this case's processes; zombies have no environment and do not count."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    variables = dict(entry.split(b"=", 1) for entry in file.read().split(b"\0") if b"=" in entry)
            except OSError:
                continue
            if variables.get(MARKER.encode()) == self.marker.encode():
                found.append((int(pid), variables))
        return found

    def ranks(self):
        """{world rank: pid} of the ranks alive."""
        key = b"OMPI_COMM_WORLD_RANK"
        return {int(variables[key]): pid for pid, variables in self.processes() if key in variables}

    def leftover(self):
        """Names of processes still alive; those on their way out get three seconds."""
        for _ in range(30):
            alive = [pid for pid, _ in self.processes()]
            if not alive:
                return []
            time.sleep(0.1)
        return [f"{pid} {command_name(pid)}" for pid in alive]


def command_name(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return "(gone)"
