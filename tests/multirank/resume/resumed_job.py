"""A run with a checkpoint after every step, and runs that go on from one of them."""
import hashlib
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "harness"), os.path.join(HERE, "..", "grid_matrix")]
from escalier_job import with_keys  # noqa: E402

# What must come out the same. Counters show that no sample is repeated or left out.
STEP_KEYS = ("step", "loss", "grad_norm", "lr", "consumed_samples", "consumed_tokens", "skipped")
EVAL_KEYS = ("step", "loss", "targets")
ACROSS_TENSOR_AND_DATA_SIZES = {"loss": 1e-5, "grad_norm": 1e-4}  # design, "Numerics contract"


def ranks_of(spec):
    return spec["parallel"]["tp"] * spec["parallel"]["pp"] * spec["parallel"]["dp"]


def step_folder(run, step):
    return f"runs/{run}/step_{step:08}"


class Outcome:
    """What a run left behind; fault says what is wrong with it, with all of its output."""

    def __init__(self, case, run, result, expected_steps, code=0):
        self.steps = [tuple(event[key] for key in STEP_KEYS) for event in case.events("step", run)]
        self.evals = [tuple(event[key] for key in EVAL_KEYS) for event in case.events("eval", run)]
        self.warnings = [(event["step"], event["text"]) for event in case.events("warning", run)]
        self.output = result.output
        self.weights = None
        if os.path.exists(case.path(f"{run}.safetensors")):
            with open(case.path(f"{run}.safetensors"), "rb") as file:
                self.weights = hashlib.sha256(file.read()).hexdigest()
        self.fault = ""
        if result.code != code or result.leftover:
            self.fault = str(result)
        elif code == 0 and self.weights is None:
            self.fault = f"it left no weights: {result}"
        elif [step[0] for step in self.steps] != list(expected_steps):
            self.fault = f"its metrics hold steps {[step[0] for step in self.steps]}, not {list(expected_steps)}: {result}"

    def differs(self, straight, first_step, tolerances=None):
        """Where this run, which began at first_step, is not the end of the straight one; "" if nowhere. tolerances: relative,
        of what need not be equal to the bit; weights and warnings are then not compared."""
        steps = [step for step in straight.steps if step[0] >= first_step]
        evals = [event for event in straight.evals if event[0] >= first_step]
        for what, keys, ours, theirs in (("step", STEP_KEYS, self.steps, steps), ("validation", EVAL_KEYS, self.evals, evals)):
            if len(ours) != len(theirs):
                return f"{len(ours)} {what} lines, not {len(theirs)}"
            for mine, his in zip(ours, theirs):
                for key, a, b in zip(keys, mine, his):
                    if a != b and not close(a, b, (tolerances or {}).get(key, 0)):
                        return f"{what} {mine[0]}: {key} {a!r} against {b!r}"
        if tolerances:
            return ""
        if self.weights != straight.weights:
            return "the weights at the end differ"
        if self.warnings != [warning for warning in straight.warnings if warning[0] >= first_step]:
            return f"warnings {self.warnings} against {straight.warnings}"
        return ""


def close(a, b, tolerance):
    return a is not None and b is not None and abs(a - b) <= tolerance * abs(b)


def run_straight(case, spec, name="straight"):
    """All steps without a stop; runs/NAME then has a checkpoint of every step."""
    every = with_keys(spec, run__name=name, checkpoint__every=1, checkpoint__keep_last=0)
    result = case.run(every, ranks_of(spec), ["--save-weights", f"{name}.safetensors"])
    return Outcome(case, name, result, range(1, spec["train"]["steps"] + 1))


def run_resumed(case, spec, step, name="resumed", source="straight"):
    """The steps after a checkpoint of runs/SOURCE, as a new run."""
    spec = with_keys(spec, run__name=name, checkpoint__last=False)
    result = case.run(spec, ranks_of(spec), ["--save-weights", f"{name}.safetensors", "--resume", step_folder(source, step)])
    return Outcome(case, name, result, range(step + 1, spec["train"]["steps"] + 1))
