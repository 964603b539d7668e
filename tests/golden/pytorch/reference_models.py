"""The two model families in plain PyTorch, as functions of a dictionary of tensors under Hugging Face names.

Written from the published definitions (GPT-2: Radford et al. 2019; Llama: Touvron et al. 2023; Qwen2 and Qwen3
model cards for the bias and the query/key norm), with none of Escalier's own code or layout, so that an
agreement means something.
"""
import math

import torch
import torch.nn.functional as F


def causal_attention(query, key, value):
    """softmax(Q K^T / sqrt(d)) V over [batch, heads, time, d]; position t sees 0 .. t."""
    time, size = query.shape[-2:]
    scores = query @ key.transpose(-1, -2) / math.sqrt(size)
    hidden = torch.ones(time, time, dtype=torch.bool).triu(1)
    return scores.masked_fill(hidden, float("-inf")).softmax(-1) @ value


def split_heads(x, heads):
    batch, time, _ = x.shape
    return x.view(batch, time, heads, -1).transpose(1, 2)


def join_heads(x):
    batch, heads, time, size = x.shape
    return x.transpose(1, 2).reshape(batch, time, heads * size)


def gpt2_logits(w, model, tokens):
    """Conv1D weights are [in, out]; the head is the embedding."""

    def conv1d(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], model["norm_eps"])

    heads = model["num_heads"]
    x = w["transformer.wte.weight"][tokens] + w["transformer.wpe.weight"][: tokens.shape[1]]
    for i in range(model["num_layers"]):
        block = f"transformer.h.{i}."
        qkv = conv1d(norm(x, block + "ln_1"), block + "attn.c_attn")
        query, key, value = (split_heads(part, heads) for part in qkv.chunk(3, -1))
        x = x + conv1d(join_heads(causal_attention(query, key, value)), block + "attn.c_proj")
        y = conv1d(norm(x, block + "ln_2"), block + "mlp.c_fc")
        y = 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))  # gelu_new
        x = x + conv1d(y, block + "mlp.c_proj")
    return norm(x, "transformer.ln_f") @ w["transformer.wte.weight"].T


def rms_norm(x, gain, eps):
    return gain * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))


def rope_angles(model, time):
    """[time, d/2] angles, with the frequencies of Llama 3.1 where rope.scaling is given."""
    size = model["head_dim"]
    frequency = model["rope"]["theta"] ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    scaling = model["rope"]["scaling"]
    if scaling:
        length = scaling["original_max_positions"]
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        turns = length * frequency / (2 * math.pi)
        smooth = ((turns - low) / (high - low)).clamp(0, 1)
        frequency = (1 - smooth) * frequency / scaling["factor"] + smooth * frequency
    return torch.arange(time, dtype=torch.float64)[:, None] * frequency


def rotate(x, angles):
    first, second = x.chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def llama_logits(w, model, tokens):
    eps, heads, kv_heads = model["norm_eps"], model["num_heads"], model["num_kv_heads"]
    angles = rope_angles(model, tokens.shape[1])
    x = w["model.embed_tokens.weight"][tokens]
    for i in range(model["num_layers"]):
        block = f"model.layers.{i}."
        attention = block + "self_attn."
        y = rms_norm(x, w[block + "input_layernorm.weight"], eps)
        query, key, value = (
            split_heads(F.linear(y, w[f"{attention}{part}_proj.weight"], w.get(f"{attention}{part}_proj.bias")), count)
            for part, count in (("q", heads), ("k", kv_heads), ("v", kv_heads))
        )
        if model["qk_norm"]:
            query = rms_norm(query, w[attention + "q_norm.weight"], eps)
            key = rms_norm(key, w[attention + "k_norm.weight"], eps)
        query, key = rotate(query, angles), rotate(key, angles)
        key, value = (part.repeat_interleave(heads // kv_heads, 1) for part in (key, value))
        x = x + join_heads(causal_attention(query, key, value)) @ w[attention + "o_proj.weight"].T
        y = rms_norm(x, w[block + "post_attention_layernorm.weight"], eps)
        gate, up = y @ w[block + "mlp.gate_proj.weight"].T, y @ w[block + "mlp.up_proj.weight"].T
        x = x + (F.silu(gate) * up) @ w[block + "mlp.down_proj.weight"].T
    x = rms_norm(x, w["model.norm.weight"], eps)
    return x @ w["model.embed_tokens.weight" if model["tie_embeddings"] else "lm_head.weight"].T


def gpt2_shapes(model, time):
    hidden, vocab = model["hidden_size"], model["vocab_size"]
    shapes = {"transformer.wte.weight": (vocab, hidden), "transformer.wpe.weight": (time, hidden)}
    for i in range(model["num_layers"]):
        block = f"transformer.h.{i}."
        for name, inputs, outputs in (("attn.c_attn", hidden, 3 * hidden), ("attn.c_proj", hidden, hidden),
                                      ("mlp.c_fc", hidden, 4 * hidden), ("mlp.c_proj", 4 * hidden, hidden)):
            shapes[f"{block}{name}.weight"] = (inputs, outputs)
            shapes[f"{block}{name}.bias"] = (outputs,)
        for name in ("ln_1", "ln_2"):
            shapes[f"{block}{name}.weight"] = shapes[f"{block}{name}.bias"] = (hidden,)
    shapes["transformer.ln_f.weight"] = shapes["transformer.ln_f.bias"] = (hidden,)
    return shapes


def llama_shapes(model, _):
    hidden, ffn, size = model["hidden_size"], model["ffn_size"], model["head_dim"]
    shapes = {"model.embed_tokens.weight": (model["vocab_size"], hidden)}
    for i in range(model["num_layers"]):
        block = f"model.layers.{i}."
        for part, count in (("q", "num_heads"), ("k", "num_kv_heads"), ("v", "num_kv_heads")):
            shapes[f"{block}self_attn.{part}_proj.weight"] = (model[count] * size, hidden)
            if model["qkv_bias"]:
                shapes[f"{block}self_attn.{part}_proj.bias"] = (model[count] * size,)
            if model["qk_norm"] and part != "v":
                shapes[f"{block}self_attn.{part}_norm.weight"] = (size,)
        shapes[block + "self_attn.o_proj.weight"] = (hidden, model["num_heads"] * size)
        shapes[block + "mlp.gate_proj.weight"] = shapes[block + "mlp.up_proj.weight"] = (ffn, hidden)
        shapes[block + "mlp.down_proj.weight"] = (hidden, ffn)
        for name in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{block}{name}.weight"] = (hidden,)
    shapes["model.norm.weight"] = (hidden,)
    if not model["tie_embeddings"]:
        shapes["lm_head.weight"] = (model["vocab_size"], hidden)
    return shapes


LOGITS = {"gpt2": gpt2_logits, "llama": llama_logits}
SHAPES = {"gpt2": gpt2_shapes, "llama": llama_shapes}
