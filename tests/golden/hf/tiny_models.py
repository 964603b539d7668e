"""Tiny random models of every family, made by transformers: shared by make_fixtures.py and scripts/hf_check."""
import torch
import transformers
from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM,
                          Qwen3Config, Qwen3ForCausalLM)

LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 4.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
BASE = {"vocab_size": 83, "hidden_size": 32, "intermediate_size": 56, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
        "bos_token_id": 1, "eos_token_id": 2}
GPT2 = {"vocab_size": 97, "n_positions": 24, "n_embd": 32, "n_layer": 2, "n_head": 4, "resid_pdrop": 0.0,
        "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 96, "eos_token_id": 96}


def default_rope(theta):
    return {"rope_type": "default", "rope_theta": theta}


MODELS = {  # name: (model class, config class, fields)
    "gpt2": (GPT2LMHeadModel, GPT2Config, GPT2),
    "gpt2_wide": (GPT2LMHeadModel, GPT2Config, {**GPT2, "n_inner": 40, "layer_norm_epsilon": 1e-3,
                                                "activation_function": "gelu_pytorch_tanh"}),
    "gpt2_untied": (GPT2LMHeadModel, GPT2Config, {**GPT2, "tie_word_embeddings": False}),
    "llama": (LlamaForCausalLM, LlamaConfig, {**BASE, "rope_parameters": default_rope(500000.0)}),
    "llama3": (LlamaForCausalLM, LlamaConfig, {**BASE, "head_dim": 12, "tie_word_embeddings": True,
                                               "rms_norm_eps": 1e-3, "rope_parameters": LLAMA3}),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config, {**BASE, "num_key_value_heads": 1, "tie_word_embeddings": True,
                                              "rope_parameters": default_rope(1000000.0)}),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, {**BASE, "head_dim": 12, "tie_word_embeddings": True,
                                              "rope_parameters": default_rope(1000000.0)}),
    "qwen3_untied": (Qwen3ForCausalLM, Qwen3Config, {**BASE, "head_dim": 8, "rope_parameters": LLAMA3}),
    # Far positions, and layers whose numbers have two digits.
    "gpt2_long": (GPT2LMHeadModel, GPT2Config, {**GPT2, "n_positions": 1024, "n_layer": 12}),
    "llama3_long": (LlamaForCausalLM, LlamaConfig, {**BASE, "num_hidden_layers": 12, "max_position_embeddings": 2048,
                                                    "rope_parameters": {**LLAMA3, "rope_theta": 500000.0,
                                                                        "original_max_position_embeddings": 1024}}),
}


def length_of(name):
    """Tokens of a sample."""
    return 1024 if name.endswith("_long") else 16


def with_old_names(fields):
    """Rotary positions as version 4 spells them."""
    fields = dict(fields)
    rope = dict(fields.pop("rope_parameters", {}))
    if rope:
        fields["rope_theta"] = rope.pop("rope_theta")
        fields["rope_scaling"] = rope if rope["rope_type"] != "default" else None
    return fields


def make(name, seed):
    """A model in float32 with weights larger than fresh ones, no gain 1 and no bias 0, so that an error shows."""
    model_class, config_class, fields = MODELS[name]
    if transformers.__version__.startswith("4."):
        fields = with_old_names(fields)
    model = model_class(config_class(**fields)).eval()
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for key, weight in model.named_parameters():
            weight.copy_(torch.randn(weight.shape, generator=random) * (0.2 if weight.dim() == 2 else 0.1))
            if weight.dim() == 1 and key.endswith("weight"):
                weight += 1
    return model


def tokens_of(name, samples, length, seed):
    """[samples * length + 1] token ids."""
    vocabulary = MODELS[name][2]["vocab_size"]
    return torch.randint(0, vocabulary, (samples * length + 1,), generator=torch.Generator().manual_seed(seed))
