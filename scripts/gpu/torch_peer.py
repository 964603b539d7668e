#!/usr/bin/env python3
"""The PyTorch peer on a GPU: one training step of a GPT-2 or Llama, compiled, with its own fused attention, fused AdamW and
bf16 autocast over fp32 weights. Prints one JSON object."""
import argparse
import contextlib
import json
import time

import torch
from torch import nn
from torch.nn import functional as F


class Gpt2Block(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.heads, c = a.heads, a.hidden
        self.ln_1, self.ln_2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.qkv, self.projection = nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.up, self.down = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)

    def forward(self, x, rotation):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.ln_1(x)).split(c, 2))
        attention = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(attention.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


def rotate(x, rotation):
    cosine, sine = rotation
    first, second = x.chunk(2, -1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1).to(x.dtype)


class LlamaBlock(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.heads, self.kv_heads, self.size = a.heads, a.kv_heads, a.hidden // a.heads
        self.norm_1, self.norm_2 = nn.RMSNorm(a.hidden), nn.RMSNorm(a.hidden)
        self.qkv = nn.Linear(a.hidden, (a.heads + 2 * a.kv_heads) * self.size, bias=False)
        self.projection = nn.Linear(a.hidden, a.hidden, bias=False)
        self.gate_up, self.down = nn.Linear(a.hidden, 2 * a.ffn, bias=False), nn.Linear(a.ffn, a.hidden, bias=False)

    def forward(self, x, rotation):
        b, t, c = x.shape
        sizes = [self.heads * self.size, self.kv_heads * self.size, self.kv_heads * self.size]
        q, k, v = (z.view(b, t, -1, self.size).transpose(1, 2) for z in self.qkv(self.norm_1(x)).split(sizes, 2))
        attention = F.scaled_dot_product_attention(rotate(q, rotation), rotate(k, rotation), v, is_causal=True,
                                                   enable_gqa=self.heads != self.kv_heads)
        x = x + self.projection(attention.transpose(1, 2).reshape(b, t, c))
        gate, up = self.gate_up(self.norm_2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    """The head is tied to the embedding, as in our jobs."""

    def __init__(self, a):
        super().__init__()
        gpt2 = a.arch == "gpt2"
        self.wte = nn.Embedding(a.vocabulary, a.hidden)
        self.wpe = nn.Embedding(a.seq_len, a.hidden) if gpt2 else None
        self.blocks = nn.ModuleList((Gpt2Block if gpt2 else LlamaBlock)(a) for _ in range(a.layers))
        self.norm = nn.LayerNorm(a.hidden) if gpt2 else nn.RMSNorm(a.hidden)
        nn.init.normal_(self.wte.weight, std=0.02)
        if not gpt2:
            size = a.hidden // a.heads
            angle = torch.outer(torch.arange(a.seq_len).float(), 500000.0 ** (-torch.arange(0, size, 2) / size))
            self.register_buffer("cosine", angle.cos())
            self.register_buffer("sine", angle.sin())

    def forward(self, tokens, targets):
        x = self.wte(tokens)
        if self.wpe is not None:
            x, rotation = x + self.wpe.weight, None
        else:
            rotation = self.cosine, self.sine
        for block in self.blocks:
            x = block(x, rotation)
        logits = self.norm(x) @ self.wte.weight.t()
        return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), targets.reshape(-1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", choices=("gpt2", "llama"), required=True)
    for name in ("layers", "hidden", "heads", "seq-len", "micro-batch", "micro-batches"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--kv-heads", type=int, default=0)
    parser.add_argument("--ffn", type=int, default=0)
    parser.add_argument("--vocabulary", type=int, default=50304)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--compile", choices=("model", "block", "none"), default="model",
                        help="block: compiled once and used by every block, which deep models compile much sooner")
    parser.add_argument("--device", default="cuda")
    a = parser.parse_args()
    torch.manual_seed(1)
    on_gpu = a.device == "cuda"
    torch.set_float32_matmul_precision("high")
    model = Model(a).to(a.device)
    if a.compile == "block":
        for block in model.blocks:
            block.compile()
    loss_of = torch.compile(model) if a.compile == "model" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, **({"fused": True} if on_gpu else {}))
    tokens = torch.randint(50257, (a.micro_batches, a.micro_batch, a.seq_len + 1), device=a.device) % a.vocabulary
    wait = torch.cuda.synchronize if on_gpu else (lambda: None)
    cast = torch.autocast("cuda", torch.bfloat16) if on_gpu else contextlib.nullcontext()
    times = []
    for step in range(a.warmup + a.steps):
        wait()
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        for batch in tokens:
            with cast:
                loss = loss_of(batch[:, :-1], batch[:, 1:]) / a.micro_batches
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        wait()
        if step >= a.warmup:
            times.append(time.perf_counter() - start)
    median = sorted(times)[len(times) // 2]
    print(json.dumps({"torch": torch.__version__, "step_ms": 1e3 * median,
                      "tokens_per_s": a.micro_batches * a.micro_batch * a.seq_len / median,
                      "parameters": sum(p.numel() for p in model.parameters()), "loss": loss.item() * a.micro_batches,
                      "peak_mib": torch.cuda.max_memory_allocated() / 2**20 if on_gpu else 0}))


if __name__ == "__main__":
    main()
