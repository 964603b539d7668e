"""Makes the folders beside this file: tiny models as `transformers` saves them, and what it computes.

  PYTHON tests/golden/hf/make_fixtures.py    with a Python that has torch, transformers and safetensors;
                                             scripts/hf_check --fixtures makes one. README.md has the format.
"""
import copy
import json
import os
import shutil
import sys

import torch
from safetensors.torch import load_file, save_file

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, FOLDER)
import tiny_models  # noqa: E402

SAMPLES, LENGTH = 4, 16
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
# Changes to config.json that leave every shape as it is: the same weights, another function.
VARIANTS = {
    "gpt2": [{"n_head": 8}, {"n_head": 2}, {"layer_norm_epsilon": 1e-2}],
    "llama": [{"rope_parameters": None, "rope_theta": 100.0},
              {"rope_parameters": {"rope_type": "default", "rope_theta": 100.0}},
              {"rope_parameters": None, "rope_theta": 100.0, "rope_scaling": LLAMA3},
              {"rope_parameters": None, "rope_theta": 100.0, "rope_scaling": {**LLAMA3, "factor": 2.0}},
              {"rope_parameters": None, "rope_theta": 100.0, "rope_scaling": {**LLAMA3, "low_freq_factor": 2.0}},
              {"rope_parameters": None, "rope_theta": 100.0, "rope_scaling": {**LLAMA3, "high_freq_factor": 2.0}},
              {"rope_parameters": None, "rope_theta": 100.0,
               "rope_scaling": {**LLAMA3, "original_max_position_embeddings": 16}},
              {"rms_norm_eps": 1e-2},
              {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 4},
              {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}],
    "qwen3": [{"rms_norm_eps": 1e-2}],
}
DTYPES = {"llama3": torch.bfloat16, "qwen3": torch.float16}
SHARDED = {"llama": "40KB", "llama3": "12KB"}


def computed(model, tokens):
    """The loss of each sample, the norm of the gradient of their mean, and the logits behind the first one; in double
    precision."""
    inputs, targets = tokens[:-1].view(SAMPLES, LENGTH), tokens[1:].view(SAMPLES, LENGTH)
    logits = model.double()(input_ids=inputs).logits
    values = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    model.zero_grad()
    values.mean().backward()
    norm = sum(float(weight.grad.square().sum()) for weight in model.parameters()) ** 0.5
    return {"losses": values.detach().view(SAMPLES, LENGTH).mean(1).tolist(), "grad_norm": norm,
            "logits": logits[0, -1].tolist()}


def variant(name, model, changes, tokens):
    """The same weights under a changed config."""
    model_class, config_class, _ = tiny_models.MODELS[name]
    with open(os.path.join(FOLDER, name, "config.json"), encoding="utf-8") as file:
        config = config_class.from_dict(copy.deepcopy({**json.load(file), **changes}))
    changed = model_class(config).eval()
    changed.load_state_dict(model.state_dict())
    found = computed(changed, tokens)
    return {"config": changes, "losses": found["losses"], "grad_norm": found["grad_norm"]}


def bare(folder):
    """As the hub's own gpt2: names without `transformer.`, masks among the tensors."""
    path = os.path.join(folder, "model.safetensors")
    tensors = {name.removeprefix("transformer."): value for name, value in load_file(path).items()}
    positions = tensors["wpe.weight"].shape[0]
    for layer in range(2):
        tensors[f"h.{layer}.attn.bias"] = torch.ones(positions, positions).tril()[None, None]
        tensors[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    save_file(tensors, path, metadata={"format": "pt"})


def main():
    for seed, name in enumerate(["gpt2", "gpt2_wide", "llama", "llama3", "qwen2", "qwen3"]):
        folder = os.path.join(FOLDER, name)
        shutil.rmtree(folder, ignore_errors=True)
        saved = tiny_models.make(name, seed).to(DTYPES.get(name, torch.float32))
        saved.save_pretrained(folder, max_shard_size=SHARDED.get(name, "5GB"))
        if name == "gpt2_wide":
            bare(folder)
        # Loaded, for only weights are rounded in a file: .to() rounds the frequencies of rotary positions too.
        model = type(saved).from_pretrained(folder, torch_dtype=torch.float32).eval()
        tokens = tiny_models.tokens_of(name, SAMPLES, LENGTH, seed)
        tokens.numpy().astype("<u2").tofile(os.path.join(folder, "tokens.bin"))
        expected = {"parameters": model.num_parameters(), **computed(model, tokens)}
        expected["variants"] = [variant(name, model.float(), changes, tokens) for changes in VARIANTS.get(name, [])]
        with open(os.path.join(folder, "expected.json"), "w", encoding="utf-8") as file:
            file.write(json.dumps(expected, indent=1) + "\n")
        print(name, expected['parameters'], expected['losses'])


if __name__ == "__main__":
    main()
