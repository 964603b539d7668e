"""Every kernel: against its CPU twin, its time and share of the floor, memory and race checks, counters of the slowest."""
import json
import re
import shutil

CHECKS = ("odd", "odd-gated", "odd-wide")
# Shapes of the models of the peers part: name, samples, tokens.
MODELS = (("124m", 32, 1024), ("1558m", 16, 1024), ("llama-1b", 4, 4096))
LIBRARY = re.compile(r"^(qkv|attention out|mlp up|mlp down|head) (forward|backward)")  # cuBLASLt's, not ours


def bench(session, *arguments):
    device = [session.binary("bench_kernels"), "--device", "cuda", "--threads", 1 if session.emulated else 8]
    return [*device, *arguments]


def check(session, kernels, model, dtype, size=()):
    """Adds the distances from the CPU twins; returns what to complain of."""
    output = session.run(f"check {model} {dtype}", bench(session, "--check", "--model", model, "--dtype", dtype, *size),
                         400 if session.emulated else 60)
    for name, apart, verdict in re.findall(r"^(.{34}) +(\S+)  (ok|FAIL)$", output.text, re.M):
        entry = kernels.setdefault(name.strip(), {})
        entry[dtype] = max(entry.get(dtype, 0.0), float(apart))
        entry["bad"] = entry.get("bad", False) or verdict == "FAIL"
    return output.verdict() if output.code != 0 else None


def measure(session, kernels, model, size):
    output = session.run(f"measure {model}", bench(session, "--model", model, "--json", *size), 60)
    for line in output.text.splitlines():
        if line.startswith("{"):
            figures = json.loads(line)
            kernels.setdefault(figures["kernel"], {})[model] = (figures["ms"], figures["share"])
    return output.verdict() if output.code != 0 else None


def sanitize(session, tool, model):
    """The verdict of a tool of compute-sanitizer over all kernels at one size."""
    if session.emulated:
        return "skipped (emulated)"
    if not shutil.which("compute-sanitizer"):
        return "skipped (no compute-sanitizer)"
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", 9,
               *bench(session, "--check", "--model", model, "--dtype", "bf16")]
    return session.run(f"{tool} {model}", command, 60).verdict()


def worst(kernels, model):
    """Our own kernel that loses most time against its floor."""
    lost = {name: ms * (1 - share) for name, entry in kernels.items() if model in entry and not LIBRARY.match(name)
            for ms, share in [entry[model]]}
    return max(lost, key=lost.get) if lost else None


def counters(session, name, model, size):
    """The main counters of one kernel, from a few launches under Nsight Compute."""
    if not shutil.which("ncu"):
        return "no ncu here"
    command = ["ncu", "--clock-control", "none", "--nvtx", "--nvtx-include", f"{name}/", "--launch-count", 3,
               "--section", "SpeedOfLight", "--section", "Occupancy", "--section", "WarpStateStats", "--section",
               "MemoryWorkloadAnalysis", *bench(session, "--model", model, "--only", name, "--rounds", 1, "--min-ms", 1, *size)]
    output = session.run(f"ncu {name}", command, 60)
    shown = [f"{what} {value} %" for what, value in re.findall(
        r"(Memory Throughput|Compute \(SM\) Throughput|Achieved Occupancy) +% +([\d.]+)", output.text)]
    return ", ".join(shown[:3]) if shown else output.verdict()


def run(session):
    kernels, problems = {}, {}
    models = (("odd", 1, 33),) if session.emulated else MODELS
    for model in CHECKS[:1] if session.emulated else CHECKS:
        for dtype in ("fp32", "bf16"):
            problems[f"check {model} {dtype}"] = check(session, kernels, model, dtype)
    if not session.emulated:
        problems["check 124m bf16"] = check(session, kernels, "124m", "bf16", ("--batch", 1, "--sequence", 1024))
    for model, batch, sequence in models:
        size = ["--batch", batch, "--sequence", sequence]
        size += ["--rounds", 1, "--min-ms", 0.001, "--ceiling-extent", 64] if session.emulated else ["--rounds", 3]
        problems[f"measure {model}"] = measure(session, kernels, model, size)
    table(session, kernels, models)
    blanks = [""] * (2 + 2 * len(models))
    for what, problem in problems.items():
        if problem:
            session.row(what, *blanks, problem)
    name = worst(kernels, models[0][0])
    if name and not session.emulated:
        session.note(f"most time lost: {name} ({counters(session, name, models[0][0], ('--batch', 4, '--sequence', 1024))})")
    for model in CHECKS[:2]:
        for tool in ("memcheck", "racecheck"):
            session.row(f"{tool} {model}", *blanks, sanitize(session, tool, model))
    session.note("off: largest |out - CPU twin| / |CPU twin| of the outputs; floor: FLOPs at a large product's rate or bytes at a"
                 " large copy's, both measured in the same run")


def table(session, kernels, models):
    session.headings = ["kernel", "fp32 off", "bf16 off"]
    for model, batch, sequence in models:
        session.headings += [f"{model} {batch}x{sequence} ms", "of floor"]
    session.headings.append("verdict")
    for name, entry in kernels.items():
        cells = [f"{entry[dtype]:.0e}" if dtype in entry else "-" for dtype in ("fp32", "bf16")]
        for model, _, _ in models:
            ms, share = entry.get(model, (None, None))
            cells += [f"{ms:.3f}", f"{100 * share:.0f} %"] if ms is not None else ["-", "-"]
        session.row(name, *cells, "FAIL" if entry.get("bad") else "ok")
