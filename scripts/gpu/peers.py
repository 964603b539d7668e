"""Tokens per second and model FLOP utilisation beside PyTorch's, same batches, in turn within one run."""
import json
import os

from gpu.session import SCRIPTS

PEAK = 989.4e12  # dense bf16 FLOP/s of an H100 or H200 by the datasheet
VOCABULARY = 50304
# name, model, sequence, samples of a micro-batch, micro-batches of a step, what PyTorch compiles
MODELS = [
    ("gpt2-124m", {"arch": "gpt2", "num_layers": 12, "hidden_size": 768, "num_heads": 12}, 1024, 32, 16, "model"),
    ("gpt2-1558m", {"arch": "gpt2", "num_layers": 48, "hidden_size": 1600, "num_heads": 25}, 1024, 16, 8, "block"),
    ("llama-1b", {"arch": "llama", "num_layers": 16, "hidden_size": 2048, "num_heads": 32, "num_kv_heads": 8, "ffn_size": 8192},
     1024, 16, 8, "block"),
    ("llama-1b", {"arch": "llama", "num_layers": 16, "hidden_size": 2048, "num_heads": 32, "num_kv_heads": 8, "ffn_size": 8192},
     4096, 4, 8, "block"),
]
TINY = [
    ("gpt2-tiny", {"arch": "gpt2", "num_layers": 2, "hidden_size": 128, "num_heads": 2}, 32, 2, 2, "none"),
    ("llama-tiny", {"arch": "llama", "num_layers": 2, "hidden_size": 128, "num_heads": 2, "num_kv_heads": 1, "ffn_size": 256},
     32, 2, 2, "none"),
]
STEPS, WARM_UP = 3, 2


def parameters(model, vocabulary, seq_len):
    c, layers = model["hidden_size"], model["num_layers"]
    if model["arch"] == "gpt2":
        return layers * (12 * c * c + 13 * c) + 2 * c + (vocabulary + seq_len) * c
    kv = c * model["num_kv_heads"] // model["num_heads"]
    return layers * (2 * c * c + 2 * c * kv + 3 * c * model["ffn_size"] + 2 * c) + c + vocabulary * c


def flops_per_token(model, vocabulary, seq_len):
    """6 N + 6 L C T: every parameter once with the tied head, the causal half of attention."""
    return 6 * (parameters(model, vocabulary, seq_len) + model["num_layers"] * model["hidden_size"] * seq_len)


def ours(session, name, model, seq_len, batch, micro_batches, vocabulary):
    spec = {"version": 1, "run": {"seed": 7, "threads": 1, "device": "cuda"},
            "model": {**model, "vocab_size": vocabulary, "tie_embeddings": True, "dropout": 0.0},
            "train": {"seq_len": seq_len, "micro_batch": batch, "global_batch": batch * micro_batches,
                      "steps": STEPS + WARM_UP, "dtype": "bf16"},
            "optimizer": {"name": "adamw", "clip_grad": 1.0}, "lr": {"peak": 3e-4, "schedule": "constant"},
            "data": {"train": [{"path": session.tokens(1000000, 50257 if not session.emulated else vocabulary)}], "format": "raw16",
                     "split": "1,0,0"}}
    output, steps = session.train(f"{name} T={seq_len}, escalier", spec, 1, 60)
    if output.code != 0 or len(steps) <= WARM_UP:
        return output, None
    times = sorted(step["step_ms"] for step in steps[WARM_UP:])
    return output, 1e3 * seq_len * batch * micro_batches / times[len(times) // 2]


def torch(session, name, model, seq_len, batch, micro_batches, vocabulary, compiled):
    command = ["python3", os.path.join(SCRIPTS, "gpu/torch_peer.py"), "--arch", model["arch"], "--layers", model["num_layers"],
               "--hidden", model["hidden_size"], "--heads", model["num_heads"], "--kv-heads", model.get("num_kv_heads", 0),
               "--ffn", model.get("ffn_size", 0), "--vocabulary", vocabulary, "--seq-len", seq_len, "--micro-batch", batch,
               "--micro-batches", micro_batches, "--steps", STEPS, "--warmup", WARM_UP, "--compile", compiled,
               "--device", "cpu" if session.emulated else "cuda"]
    # PyTorch finds the CUDA libraries that it was built with by itself; those of a package must not come before them.
    own_libraries = {"LD_LIBRARY_PATH": os.environ["OUTER_LIBRARY_PATH"]} if "OUTER_LIBRARY_PATH" in os.environ else {}
    output = session.run(f"{name} T={seq_len}, PyTorch", command, 90, environment=own_libraries)
    for line in output.text.splitlines():
        if output.code == 0 and line.startswith("{"):
            return output, json.loads(line)
    return output, None


def run(session):
    session.headings = ["model", "T", "B x M", "ours tok/s", "MFU", "PyTorch tok/s", "MFU", "ours / PyTorch", "verdict"]
    for name, model, seq_len, batch, micro_batches, compiled in TINY if session.emulated else MODELS:
        vocabulary = 512 if session.emulated else VOCABULARY
        flops = flops_per_token(model, vocabulary, seq_len)
        output, rate = ours(session, name, model, seq_len, batch, micro_batches, vocabulary)
        peer_output, peer = torch(session, name, model, seq_len, batch, micro_batches, vocabulary, compiled)
        if peer and peer["parameters"] != parameters(model, vocabulary, seq_len):
            session.note(f"{name}: PyTorch's model has {peer['parameters']} parameters, not {parameters(model, vocabulary, seq_len)}")
        verdict = "ok" if rate else output.verdict() if output.code != 0 else "FAIL (too few steps)"
        if not peer:
            session.note(f"{name}: no peer, {peer_output.verdict()}")
        session.row(name, seq_len, f"{batch} x {micro_batches}", f"{rate:,.0f}" if rate else "-",
                    f"{100 * flops * rate / PEAK:.1f} %" if rate else "-", f"{peer['tokens_per_s']:,.0f}" if peer else "-",
                    f"{100 * flops * peer['tokens_per_s'] / PEAK:.1f} %" if peer else "-",
                    f"{rate / peer['tokens_per_s']:.2f}" if rate and peer else "-", verdict)
    session.note("MFU: (6 N + 6 L C T) FLOPs a token of 989.4 TFLOP/s, N with the tied head; PyTorch compiles whole models"
                 " or, the deep ones, block by block")
