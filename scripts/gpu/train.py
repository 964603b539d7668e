"""Training on the GPU against the CPU, one rank and several that share the GPU through host memory."""
GPT2 = {"arch": "gpt2", "num_layers": 8, "hidden_size": 256, "num_heads": 4, "vocab_size": 512, "dropout": 0.0}
LLAMA = {"arch": "llama", "num_layers": 8, "hidden_size": 256, "num_heads": 4, "num_kv_heads": 2, "ffn_size": 640,
         "vocab_size": 512}
# name, ranks, parallel, pipeline, whether the losses must have the bits of one rank (sums over ranks round otherwise)
GRIDS = [
    ("PP2 1f1b", 2, {"pp": 2}, {"schedule": "1f1b"}, True),
    ("TP2", 2, {"tp": 2}, {"schedule": "1f1b"}, False),
    ("DP2", 2, {"dp": 2}, {"schedule": "1f1b"}, False),
    ("PP4 interleaved", 4, {"pp": 4}, {"schedule": "interleaved", "chunks": 2}, True),
    ("PP4 zb-h1", 4, {"pp": 4}, {"schedule": "zb-h1"}, True),
    ("PP4 zbv", 4, {"pp": 4}, {"schedule": "zbv"}, True),
    ("PP4 dualpipe", 4, {"pp": 4}, {"schedule": "dualpipe"}, False),
    ("TP2 PP2 1f1b", 4, {"tp": 2, "pp": 2}, {"schedule": "1f1b"}, False),
    ("TP2 PP2 DP2 1f1b", 8, {"tp": 2, "pp": 2, "dp": 2}, {"schedule": "1f1b"}, False),
    ("TP2 PP2 DP2 zb-h1", 8, {"tp": 2, "pp": 2, "dp": 2}, {"schedule": "zb-h1"}, False),
    ("PP8 gpipe", 8, {"pp": 8}, {"schedule": "gpipe"}, True),
]
EMULATED_GRIDS = ("PP2 1f1b", "TP2")
THREADS = {"cpu": 8, "cuda": 1}
TOLERANCE = {"fp32": 1e-4, "bf16": 2e-2}  # of a loss of about 6, over all steps


def job(session, model, device, dtype, parallel=None, pipeline=None):
    steps, seq_len, batch = (2, 32, 2) if session.emulated else (10, 128, 16)
    shared = {"comm": "staged", "share_gpu": True} if parallel else {}
    return {"version": 1, "run": {"seed": 7, "threads": THREADS[device], "device": device, **shared},
            "model": model, "parallel": parallel or {}, "pipeline": pipeline or {"schedule": "1f1b"},
            "train": {"seq_len": seq_len, "micro_batch": 1, "global_batch": batch, "steps": steps, "dtype": dtype},
            "optimizer": {"name": "adamw", "clip_grad": 1.0}, "lr": {"peak": 1e-3, "schedule": "constant"},
            "data": {"train": [{"path": session.tokens(40000, 512)}], "format": "raw16", "split": "1,0,0"}}


def losses(steps):
    return [step["loss"] for step in steps]


def row(session, title, ranks, dtype, spec, reference, one_rank):
    """Trains, compares with the CPU's losses and with the bits of one rank; returns the losses."""
    output, steps = session.train(f"{title}, {dtype}, {ranks} ranks", spec, ranks, 60)
    got = losses(steps)
    if output.code != 0 or len(got) != len(reference):
        session.row(title, ranks, dtype, "", "", "", output.verdict() if output.code != 0 else f"FAIL ({len(got)} steps)")
        return got
    apart = max(abs(a - b) for a, b in zip(got, reference))
    equal = got == one_rank if one_rank else None
    good = apart <= TOLERANCE[dtype] and equal is not False
    rate = sorted(step["tokens_per_s"] for step in steps)[len(steps) // 2]
    session.row(title, ranks, dtype, f"{apart:.1e}", {None: "-", True: "yes", False: "NO"}[equal], f"{rate:,.0f}",
                "ok" if good else "FAIL")
    return got


def run(session):
    session.headings = ["job", "ranks", "dtype", "loss - CPU's", "bits of 1 rank", "tokens/s", "verdict"]
    gpt2 = None
    for name, model in (("gpt2", GPT2), ("llama", LLAMA)):
        if session.emulated:
            model = {**model, "num_layers": 2, "hidden_size": 128, "num_heads": 2, "ffn_size": 256}
            model.update({"num_kv_heads": 1} if name == "llama" else {})
        output, steps = session.train(f"{name} on the CPU", job(session, model, "cpu", "fp32"), 1, 60)
        reference = losses(steps)
        if output.code != 0 or not reference:
            session.row(f"{name} on the CPU", 1, "fp32", "", "", "", output.verdict())
            continue
        for dtype in ("fp32", "bf16"):
            spec = job(session, model, "cuda", dtype)
            got = row(session, name, 1, dtype, spec, reference, None)
            row(session, f"{name} again", 1, dtype, spec, reference, got)
        if name == "gpt2":
            gpt2 = (model, reference, got)
    if gpt2 is None:
        return
    model, reference, one_rank = gpt2
    for name, ranks, parallel, pipeline, same_bits in GRIDS:
        if session.emulated and name not in EMULATED_GRIDS:
            continue
        spec = job(session, model, "cuda", "bf16", parallel, pipeline)
        row(session, name, ranks, "bf16", spec, reference, one_rank if same_bits else None)
