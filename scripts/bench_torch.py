#!/usr/bin/python3
"""The PyTorch peer of scripts/bench_train: a GPT-2 training step in eager mode, tuned as well as we know how (see
scripts/bench_train for its environment). Prints one JSON object like bench_train's."""
import argparse
import json
import math
import resource
import time

import torch
from torch import nn
from torch.nn import functional as F

SHAPES = {"small": (6, 384, 6), "gpt2-124m": (12, 768, 12)}  # layers, hidden, heads
VOCABULARY = 50304  # padded, as ours


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.projection = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x, mask):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, c // self.heads).transpose(1, 2) for z in self.qkv(self.ln_1(x)).split(c, 2))
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(c // self.heads)
        attention = torch.softmax(scores.masked_fill(mask, float("-inf")), -1) @ v
        x = x + self.projection(attention.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, layers, hidden, heads, seq_len):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, hidden), nn.Embedding(seq_len, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(hidden)
        self.register_buffer("mask", torch.ones(seq_len, seq_len).triu(1).bool())

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight
        for block in self.blocks:
            x = block(x, self.mask)
        logits = self.ln_f(x) @ self.wte.weight.t()
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="small", choices=SHAPES)
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--seq-len", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--warmup", type=int, default=3)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    layers, hidden, heads = SHAPES[a.model]
    model = Gpt2(layers, hidden, heads, a.seq_len)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, foreach=True)
    tokens = torch.randint(50257, (a.micro_batches, a.micro_batch, a.seq_len + 1))
    times = []
    for step in range(a.warmup + a.steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        for batch in tokens:
            loss = model(batch[:, :-1], batch[:, 1:].contiguous()) / a.micro_batches
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step >= a.warmup:
            times.append(time.perf_counter() - start)
    times.sort()
    median = times[len(times) // 2]
    step_tokens = a.micro_batches * a.micro_batch * a.seq_len
    flops = step_tokens * (6 * (12 * layers * hidden ** 2 + VOCABULARY * hidden) + 6 * layers * hidden * a.seq_len)
    print(json.dumps({"model": a.model, "micro_batch": a.micro_batch, "seq_len": a.seq_len,
                      "micro_batches": a.micro_batches, "threads": a.threads, "step_ms": 1e3 * median,
                      "fastest_ms": 1e3 * times[0], "tokens_per_s": step_tokens / median, "gflops": flops / median / 1e9,
                      "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "loss": loss.item()}))


main()
