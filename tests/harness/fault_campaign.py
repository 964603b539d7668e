"""Runs a small job again and again, strikes it at a random moment, most often inside a save, and resumes it until it is done.
However often it was struck, its curve and its final state are those of the run that nobody disturbed, bit for bit; each end
has its documented exit code; no process stays; the newest checkpoint is whole at every end. A kind of strike that never
hits anything is a fault too."""
import collections
import json
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time

from escalier_job import N0, Case, environment, with_keys, write_tokens

STEPS = 10
TRIES = 6  # draws of a kind until one has to hit
TIMEOUT_S = 4  # run.comm_timeout_s of the runs with a stopped rank
END_S = 30  # a struck job is gone by then
OK, FAILED, WRITE_FAILED, STOPPED_EARLY = 0, 1, 74, 75
KILLED, TERMINATED = 128 + signal.SIGKILL, 128 + signal.SIGTERM

GRIDS = ((1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2, 1), (1, 2, 2))
SCHEDULES = ("1f1b", "gpipe", "interleaved", "zb-h1", "zbv", "dualpipe", "dualpipev")  # of grids with a pipeline

# Dropout, warm-up, validation, the windows of the spike guard and an end of the epoch in the middle: all that a resumed run
# has to find again.
SPEC = with_keys(N0, model__dropout=0.1, train__steps=STEPS, optimizer__clip_grad=1.0, lr__schedule="cosine", lr__warmup_steps=3,
                 data__split="90,10,0", eval__every=4, eval__batches=1, train__spike_z=1000.0, train__spike_window=8)
TOKENS = [(i * i + 7 * i) % 61 for i in range(70 * 16 + 1)]


class Job:
    """One grid and schedule, and how it saves."""

    def __init__(self, grid, schedule, every=1, asynchronous=True, keep_last=2):
        self.grid, self.schedule = grid, schedule
        self.every, self.asynchronous, self.keep_last = every, asynchronous, keep_last
        self.ranks = grid[0] * grid[1] * grid[2]

    def __str__(self):
        saves = f"every {self.every}, {'async' if self.asynchronous else 'sync'}, keep_last {self.keep_last}"
        return f"{'x'.join(map(str, self.grid))} {self.schedule}, {saves}"

    def spec(self, **keys):
        tp, pp, dp = self.grid
        return with_keys(SPEC, parallel__tp=tp, parallel__pp=pp, parallel__dp=dp, pipeline__schedule=self.schedule,
                         checkpoint__every=self.every, checkpoint__async=self.asynchronous, checkpoint__keep_last=self.keep_last,
                         **keys)


def random_job(rng):
    grid = rng.choice(GRIDS)
    schedule = rng.choice(SCHEDULES) if grid[1] > 1 else "1f1b"
    return Job(grid, schedule, every=rng.choice((1, 2)), asynchronous=rng.random() < 0.6, keep_last=rng.choice((1, 2, 3)))


class Strike:
    """What befalls one run. codes: exit codes of mpirun that are right if it hit; a run that it came too late for ends with 0.
    sign: what the output then says, for a strike that ends no run."""

    def __init__(self, codes, watch=None, keys=None, faults=None, sign=""):
        self.codes = codes
        self.sign = sign
        self.watch = watch
        self.keys = keys or {}
        self.faults = faults  # of FAULTY_FILES

    def hit(self, result):
        """It came in time, as far as can be told from outside."""
        if result.code == OK and self.sign:
            return bool(re.search(self.sign, result.output))
        return result.code in self.codes and (self.watch is None or self.watch.acted)

    def hit_a_save(self, result):
        """The signal found a save under way, or the operation that failed was one of a save."""
        if self.watch:
            return self.hit(result) and self.watch.in_save
        return self.hit(result) and "match=step_" in (self.faults or "")


class AtMoment:
    """A watch that acts at a random moment: at a step, inside a save or, with start, during the start-up."""

    def __init__(self, rng, act, start=True):
        self.act = act
        self.where = rng.choices(("start", "step", "save"), (1 if start else 0, 3, 8))[0]
        self.step = rng.randrange(0 if start else 1, STEPS)
        self.delay = rng.random() * (1.5 if self.where == "start" else 0.12)
        self.steps_before = None
        self.due = None
        self.acted = self.in_save = False

    def __call__(self, case):
        if self.steps_before is None:
            self.steps_before = len(case.steps())
        if self.due is None and self.reached(case):
            self.due = time.monotonic() + self.delay
        if self.due is None or time.monotonic() < self.due:
            return False
        # Before the first step there may be what an earlier strike left.
        self.in_save = len(case.steps()) > self.steps_before and save_under_way(case)
        self.act(case)
        self.acted = True
        return True

    def reached(self, case):
        if self.where == "start":
            return True
        if len(case.steps()) - self.steps_before < min(self.step, 2 if self.where == "save" else STEPS):
            return False
        return self.where == "step" or save_under_way(case)


def folders(case):
    try:
        return os.listdir(case.path("runs/case"))
    except OSError:
        return []


def save_under_way(case):
    return any(name.endswith(".tmp") for name in folders(case))


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # too late


def to_rank(rng, job, *numbers, start=True):
    rank, pause = rng.randrange(job.ranks), rng.random() * 0.2

    def act(case):
        for place, number in enumerate(numbers):
            time.sleep(pause if place else 0)
            if rank in case.ranks():
                send(case.ranks()[rank], number)
    return AtMoment(rng, act, start)


def to_launcher(rng, *numbers):
    pause = rng.random() * 0.2

    def act(case):
        for place, number in enumerate(numbers):
            time.sleep(pause if place else 0)
            send(case.launcher.pid, number)
    return AtMoment(rng, act)


# Saves are slowed down for signals from outside, so that these find them under way.
SLOW = "op=any;match=step_;do=sleep;ms=10"


def disk(rng, job, counts, op, error, match="step_"):
    """The n-th operation of a kind fails on one rank. counts: of the undisturbed run that saves after every step."""
    rank = rng.randrange(job.ranks)
    most = max(1, counts[rank, op] // job.every)
    if not counts[rank, op]:
        rank, most = 0, max(1, counts[0, op] // job.every)
    return Strike((WRITE_FAILED,), faults=f"op={op};match={match};at={rng.randint(1, most)};do={error};rank={rank}")


def remove_fails(rng, job, counts):
    """Old checkpoints that stay are no reason to end; only a start that cannot clear up what an earlier strike left ends."""
    strike = disk(rng, job, counts, "remove", "EIO")
    strike.sign = r"warning: .*cannot be removed: Input/output error"
    return strike


def cut_write(rng, job, counts, what):
    rank = rng.randrange(job.ranks)
    saved = max(1, counts["bytes"] // job.every // job.ranks)
    return f"op=write;match=step_;after_bytes={rng.randrange(saved)};do={what};rank={rank}"


def death_in_save(rng, job, counts):
    rank = rng.randrange(job.ranks)
    most = max(1, sum(count for key, count in counts.items() if key[0] == rank) // job.every)
    return f"op=any;match=step_;at={rng.randint(1, most)};do={rng.choice(('kill', 'kill_after'))};rank={rank}"


def stop_of_rank(rng, job, _):
    """The other ranks end the job; a single one goes on once it is let. Not during the start-up, which may take 600 s."""
    if job.ranks == 1:
        return Strike((OK,), to_rank(rng, job, signal.SIGSTOP, signal.SIGCONT), faults=SLOW)
    return Strike((FAILED,), to_rank(rng, job, signal.SIGSTOP, start=False), {"run__comm_timeout_s": TIMEOUT_S}, SLOW)


# SIGTERM to mpirun: it ends the ranks two seconds later, so that their 75 or its own code comes out.
KINDS = {
    "SIGKILL of a rank": lambda rng, job, counts: Strike((KILLED,), to_rank(rng, job, signal.SIGKILL), faults=SLOW),
    "SIGKILL of mpirun": lambda rng, job, counts: Strike((-signal.SIGKILL,), to_launcher(rng, signal.SIGKILL), faults=SLOW),
    "SIGTERM to mpirun": lambda rng, job, counts: Strike((STOPPED_EARLY, TERMINATED, KILLED, FAILED),
                                                         to_launcher(rng, signal.SIGTERM), faults=SLOW),
    "SIGTERM to a rank": lambda rng, job, counts: Strike((STOPPED_EARLY,), to_rank(rng, job, signal.SIGTERM), faults=SLOW),
    "SIGUSR1 to mpirun": lambda rng, job, counts: Strike((STOPPED_EARLY,), to_launcher(rng, signal.SIGUSR1), faults=SLOW),
    "SIGUSR1 to a rank, SIGTERM after it": lambda rng, job, counts: Strike(
        (STOPPED_EARLY,), to_rank(rng, job, signal.SIGUSR1, signal.SIGTERM), faults=SLOW),
    "SIGSTOP of a rank": stop_of_rank,
    "disk full in mid-write": lambda rng, job, counts: Strike((WRITE_FAILED,), faults=cut_write(rng, job, counts, "ENOSPC")),
    "write fails": lambda rng, job, counts: disk(rng, job, counts, "write", "EIO"),
    "fsync fails": lambda rng, job, counts: disk(rng, job, counts, "sync", "EIO"),
    "rename fails": lambda rng, job, counts: disk(rng, job, counts, "rename", "EIO"),
    "open fails": lambda rng, job, counts: disk(rng, job, counts, "open", "EROFS"),
    "mkdir fails": lambda rng, job, counts: disk(rng, job, counts, "mkdir", "EDQUOT"),
    "remove fails": remove_fails,
    "disk full for metrics": lambda rng, job, counts: Strike(
        (WRITE_FAILED,), faults=f"op=write;match=metrics.jsonl;after_bytes={rng.randrange(3000)};do=ENOSPC"),
    "death inside a write": lambda rng, job, counts: Strike((KILLED,), faults=cut_write(rng, job, counts, "kill")),
    "death at an operation of a save": lambda rng, job, counts: Strike((KILLED,), faults=death_in_save(rng, job, counts)),
    "run.max_minutes": lambda rng, job, counts: Strike((STOPPED_EARLY,), keys={"run__max_minutes": rng.uniform(0.001, 0.03)}),
}


class Undisturbed:
    """The curve and final state of each grid and schedule without any fault, and how many operations its saves take."""

    def __init__(self, binary, library):
        self.binary, self.library = binary, library
        self.known = {}
        self.lock = threading.Lock()

    def of(self, job):
        with self.lock:
            key = (job.grid, job.schedule)
            if key not in self.known:
                self.known[key] = self.run(Job(job.grid, job.schedule, asynchronous=False))
            return self.known[key]

    def run(self, job):
        with Case(self.binary) as case:
            write_tokens(case.path("d0.bin"), TOKENS)
            log = case.path("operations.txt")
            result = case.run(job.spec(), job.ranks, ["--resume", "auto"],
                              variables=preload(self.library, case, f"op=any;match=step_;do=nothing;log={log}"))
            if result.code != OK:
                raise RuntimeError(f"the undisturbed run of {job} failed: {result}")
            counts = collections.Counter()
            with open(log, encoding="utf-8") as file:
                for line in file:
                    rank, kind, _ = line.split(maxsplit=2)
                    counts[int(rank), kind] += 1
            counts["bytes"] = sum(event["bytes"] for event in case.events("checkpoint"))
            return curve(case), final_state(case), counts


def preload(library, case, faults):
    if not faults:
        return {}
    runs = os.path.realpath(case.folder) + "/runs"
    sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    return {"LD_PRELOAD": library, "FAULTY_FILES": f"under={runs};{faults}", "ASAN_OPTIONS": sanitizer}


def curve(case):
    """{step: (loss, gradient norm)}, of each step the last line; and the validation losses."""
    steps = {event["step"]: (event["loss"], event["grad_norm"]) for event in case.steps()}
    return steps, {event["step"]: event["loss"] for event in case.events("eval")}


def final_state(case):
    """After the last step: names, sizes and hashes of all tensor files, and what a resumed run goes on with beside them."""
    with open(case.path(f"runs/case/step_{STEPS:08d}/manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    tensors = sorted((entry["name"], entry["bytes"], entry["xxh3_128"]) for entry in manifest["files"]
                     if entry["name"].endswith(".safetensors"))
    return tensors, [manifest[key] for key in ("updates", "consumed_samples", "loss_window", "norm_window", "skipped")]


def newest_step(case):
    """The step that `latest` names, else the highest one; -1: none. A folder is renamed into its name only when whole."""
    steps = [int(name[5:]) for name in folders(case) if name.startswith("step_") and name[5:].isdigit()]
    try:
        with open(case.path("runs/case/latest"), encoding="utf-8") as file:
            return int(file.read().strip()[5:])
    except OSError:
        return max(steps, default=-1)


class Failed(Exception):
    pass


class Run:
    """One job, struck once or several times, then resumed to its end."""

    def __init__(self, campaign, number):
        self.campaign = campaign
        self.number = number
        self.rng = random.Random(f"{campaign.seed}/{number}")
        self.job = random_job(self.rng)
        first = campaign.kinds[number % len(campaign.kinds)]
        more = self.rng.choices((0, 1, 2), (5, 3, 2))[0] if campaign.several else 0
        self.kinds = [first] + [self.rng.choice(campaign.kinds) for _ in range(more)]
        self.history = []  # of the ends, for the message of a failure
        self.outcomes = []  # (kind, code, inside a save, hit)

    def require(self, condition, what, result=""):
        if not condition:
            raise Failed(f"{what}\n{result}")

    def start(self, case, strike):
        before = newest_step(case)
        lines = len(case.steps())
        result = case.run(self.job.spec(**strike.keys), self.job.ranks, ["--resume", "auto"], watch=strike.watch,
                          variables=preload(self.campaign.library, case, strike.faults), timeout=180)
        code = "time-out" if result.timed_out else result.code
        new = case.steps()[lines:]
        self.history.append(f"from step {max(before, 0)}, {len(new)} steps, exit code {code}, {strike.faults or ''} {strike.keys or ''}")
        self.require(not result.timed_out, "the job did not end", result)
        self.require(not result.leftover, "processes are left", result)
        if new:
            self.require(new[0]["step"] == max(before, 0) + 1, f"resumed at step {new[0]['step']}, not after {before}", result)
        return result

    def strike(self, case, kind):
        strike = KINDS[kind](self.rng, self.job, self.campaign.undisturbed.of(self.job)[2])
        before, lines = newest_step(case), len(case.steps())
        result = self.start(case, strike)
        self.outcomes.append((kind, result.code, strike.hit_a_save(result), strike.hit(result)))
        if result.code == OK:
            done = max((event["step"] for event in case.steps()), default=0)
            self.require(done == STEPS, f"exit code 0 after step {done}", result)
        else:
            # Before a rank holds signals back, which is the first thing that a run does, they end it; mpirun, too.
            early = tuple(code for number in (signal.SIGTERM, signal.SIGUSR1) for code in (128 + number, -number))
            right = strike.codes if "escalier  job" in result.output else strike.codes + early
            self.require(result.code in right, f"exit code {result.code}, not {strike.codes}", result)
        newest = newest_step(case)
        self.require(newest >= before, f"the newest checkpoint went back from {before} to {newest}", result)
        told = max((event["step"] for event in case.events("checkpoint")), default=-1)
        self.require(newest >= told, f"the log tells of a checkpoint of step {told}, but the newest is {newest}", result)
        if result.code == STOPPED_EARLY:
            last = max([max(before, 0)] + [event["step"] for event in case.steps()[lines:]])
            self.require(newest == last, f"exit code 75 after step {last}, but the newest checkpoint is {newest}", result)
        self.check_folders(case)

    def check_folders(self, case):
        """What bears the name of a checkpoint is one, whole."""
        for name in folders(case):
            if not name.startswith("step_") or name.endswith(".tmp"):
                continue
            line = [self.campaign.binary, "ckpt", "check", case.path(f"runs/case/{name}")]
            checked = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60, env=environment())
            self.require(checked.returncode == OK, f"{name} is not whole: {checked.stdout}{checked.stderr}")

    def finish(self, case):
        curves, state, _ = self.campaign.undisturbed.of(self.job)
        result = self.start(case, Strike((OK,)))
        self.require(result.code == OK, "the last run did not end well", result)
        for name, expected, found in zip(("step", "validation"), curves, curve(case)):
            wrong = [step for step in sorted(set(expected) | set(found)) if expected.get(step) != found.get(step)]
            if wrong:
                step = wrong[0]
                raise Failed(f"{name} {step}: {found.get(step)} instead of {expected.get(step)}\n{result}")
        self.require(final_state(case) == state, "the final state differs", result)

    def run(self):
        """None, or what went wrong."""
        with Case(self.campaign.binary) as case:
            write_tokens(case.path("d0.bin"), TOKENS)
            try:
                for kind in self.kinds:
                    self.strike(case, kind)
                self.finish(case)
            except (Failed, OSError, ValueError) as error:
                if self.campaign.keep:
                    shutil.copytree(case.folder, os.path.join(self.campaign.keep, f"run_{self.number}"), dirs_exist_ok=True)
                lines = "".join(f"\n    {line}" for line in self.history)
                return f"run {self.number} ({self.job}; {', '.join(self.kinds)}): {error}\n  its starts:{lines}"
        return None


class Campaign:
    """keep: a folder for what failed runs leave behind, or None. several: runs may be struck up to three times."""

    def __init__(self, binary, library, seed, several=True, kinds=None, keep=None):
        self.binary, self.library = os.path.abspath(binary), os.path.abspath(library)
        self.seed, self.several, self.keep = seed, several, keep
        self.kinds = list(kinds or KINDS)
        self.undisturbed = Undisturbed(self.binary, self.library)
        self.table = collections.defaultdict(collections.Counter)  # kind -> exit code -> runs
        self.in_save = collections.Counter()
        self.hits = collections.Counter()
        self.passed = 0
        self.failures = []

    def add(self, run, failure):
        for kind, code, in_save, hit in run.outcomes:
            self.table[kind][code] += 1
            self.in_save[kind] += in_save
            self.hits[kind] += hit
        if failure:
            self.failures.append(failure)
        else:
            self.passed += 1

    def until_hit(self, number):
        """Runs with other draws of one kind of strike until it hits or a run fails: each of them, and its failure or None."""
        for attempt in range(TRIES):
            run = Run(self, number + attempt * len(self.kinds))
            failure = run.run()
            yield run, failure
            if failure or any(hit for *_, hit in run.outcomes):
                return

    def never_hit(self):
        """Kinds that had their chances and show nothing for them."""
        return [kind for kind, row in self.table.items() if not self.hits[kind] and sum(row.values()) >= TRIES]

    def misses_saves(self):
        """Of strikes enough to tell, less than half met a save: not what the campaign is for."""
        hits = sum(self.hits.values())
        return len(self.kinds) == len(KINDS) and hits >= 50 and 2 * sum(self.in_save.values()) < hits

    def report(self):
        codes = sorted({code for row in self.table.values() for code in row})
        width = max(map(len, self.table), default=4)
        lines = ["strikes by kind and exit code of mpirun; 'hit': it came in time; 'in save': it met a save under way",
                 f"{'':{width}}" + "".join(f"{code:>7}" for code in codes) + "    hit  in save"]
        for kind in self.kinds:
            if kind in self.table:
                lines.append(f"{kind:{width}}" + "".join(f"{self.table[kind][code] or '-':>7}" for code in codes)
                             + f"{self.hits[kind] or '-':>7}{self.in_save[kind] or '-':>9}")
        lines.append(f"{sum(self.hits.values())} strikes hit, {sum(self.in_save.values())} of them inside a save")
        return "\n".join(lines)
