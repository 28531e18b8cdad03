#!/usr/bin/env python3
"""Make the models and the logits of model_transformers_test: tests/model/data/*.gguf and logits.json.

Small models with random weights, their logits computed by Hugging Face transformers in float32. A model's matrices are
rounded to the type it is stored in, and transformers is given what that type says they are, so that only the arithmetic
of the forward pass is compared. Of models with quantised matrices there are logits "rounded" too: their inputs are
rounded to 8 bits by blocks, as the engine does it; "logits" are without. Tests need the files only; run this again to
change what is compared:

    python3 -m venv /tmp/reference && /tmp/reference/bin/pip install torch transformers gguf
    /tmp/reference/bin/python tests/model/make_reference.py
"""

import json
import math
import pathlib
import zlib

import gguf
import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

FOLDER = pathlib.Path(__file__).parent / "data"
BYTES_MAX = 300_000
VOCAB = 32
PREFIX, BRANCH = 64, 16  # rows: a prefix, then two continuations of it
CONTEXT = 256
EPSILON = 1e-5
Type = gguf.GGMLQuantizationType

# Llama 3's rule with a small original context: of the 8 frequencies one stays, two lie between, five are divided by 8.
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}

SHAPE = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2,
         "num_hidden_layers": 2}
# Heads as in Qwen2-0.5B, seven to a key-value head; two fill a block of 32.
SHAPE_14 = {"hidden_size": 224, "intermediate_size": 96, "num_attention_heads": 14, "num_key_value_heads": 2,
            "num_hidden_layers": 1}
MIXED = [Type.Q4_0, Type.BF16, Type.F32, Type.Q8_0, Type.F16]  # one matrix after the other

MODELS = [  # name, architecture, shape, rope, types of the matrices in turn, type of vectors
    ("llama3-bf16", "llama", SHAPE, LLAMA3, [Type.BF16], Type.F32),
    ("llama3-q8_0", "llama", SHAPE, LLAMA3, [Type.Q8_0], Type.F32),
    ("llama3-q4_0", "llama", SHAPE, LLAMA3, [Type.Q4_0], Type.F32),
    ("llama3-mixed", "llama", SHAPE, LLAMA3, MIXED, Type.BF16),
    ("llama-linear-bf16", "llama", SHAPE | {"num_hidden_layers": 1}, LINEAR, [Type.BF16], Type.F16),
    ("qwen2-bf16", "qwen2", SHAPE, PLAIN, [Type.BF16], Type.BF16),
    ("qwen2-q8_0", "qwen2", SHAPE, PLAIN, [Type.Q8_0], Type.F32),
    ("qwen2-q4_0", "qwen2", SHAPE, PLAIN, [Type.Q4_0], Type.F32),
    ("qwen2-14-heads-q8_0", "qwen2", SHAPE_14, PLAIN, [Type.Q8_0], Type.F32),
]

# transformers' names of a layer's parameters and GGUF's.
LAYER_NAMES = {
    "input_layernorm.weight": "attn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.q_proj.bias": "attn_q.bias",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.k_proj.bias": "attn_k.bias",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.v_proj.bias": "attn_v.bias",
    "self_attn.o_proj.weight": "attn_output.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}
NAMES = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
         "lm_head.weight": "output.weight"}


def gguf_name(name):
    if name in NAMES:
        return NAMES[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{LAYER_NAMES[rest]}"


def make_model(architecture, shape, rope):
    config, model = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM)}[architecture]
    tied = architecture == "qwen2"
    return model(config(**shape, vocab_size=VOCAB, max_position_embeddings=CONTEXT, rms_norm_eps=EPSILON,
                        rope_parameters=rope, tie_word_embeddings=tied, attn_implementation="eager")).eval()


def random_weights(model, rng):
    """Yield weights larger than a fresh model's, so that attention is peaked and logits are apart. Norms lie around 1."""
    for name, parameter in sorted(model.named_parameters()):
        shape = tuple(parameter.shape)
        if len(shape) == 2:
            scale = 0.3 if "embed" in name else 1.5 / math.sqrt(shape[1])
            values = scale * rng.standard_normal(shape)
        else:
            values = 0.5 * rng.standard_normal(shape) + (1.0 if "norm" in name else 0.0)
        yield name, parameter, values.astype(np.float32)


def interleave(rows, heads):
    """Put the rows of Q and K into llama.cpp's order: the pairs of a rotation, half a head apart, become neighbours."""
    return rows.reshape(heads, 2, -1, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def rope_factors(rope, head_dim):
    """Return the number by which Llama 3's rule divides each frequency."""
    factors = []
    for i in range(head_dim // 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (2 * i / head_dim)
        turns = rope["original_max_position_embeddings"] / wavelength
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        smooth = min(max((turns - low) / (high - low), 0.0), 1.0)
        factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(factors, dtype=np.float32)


def write_metadata(writer, architecture, shape, rope):
    head_dim = shape["hidden_size"] // shape["num_attention_heads"]
    writer.add_context_length(CONTEXT)
    writer.add_block_count(shape["num_hidden_layers"])
    writer.add_embedding_length(shape["hidden_size"])
    writer.add_feed_forward_length(shape["intermediate_size"])
    writer.add_head_count(shape["num_attention_heads"])
    writer.add_head_count_kv(shape["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_freq_base(rope["rope_theta"])
    if architecture == "llama":
        writer.add_rope_dimension_count(head_dim)
        writer.add_vocab_size(VOCAB)
    if rope is LINEAR:
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if rope is LLAMA3:
        writer.add_tensor("rope_freqs.weight", rope_factors(rope, head_dim))
    tokens = ["<unk>", "<s>", "</s>"] + [chr(ord("A") + i) for i in range(VOCAB - 3)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * VOCAB)
    writer.add_token_types([2, 3, 3] + [1] * (VOCAB - 3))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def write_model(name, architecture, shape, rope, types, vector_type):
    """Write the file, and return a model that has the weights that are in it."""
    path = FOLDER / f"{name}.gguf"
    kinds = {}
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    model = make_model(architecture, shape, rope)
    writer = gguf.GGUFWriter(path, architecture)
    write_metadata(writer, architecture, shape, rope)
    matrices = 0
    for hf_name, parameter, values in random_weights(model, rng):
        kind = vector_type
        if values.ndim == 2:
            kind = types[matrices % len(types)]
            matrices += 1
        kinds[hf_name.removesuffix(".weight")] = kind
        stored = gguf.quants.quantize(values, kind)
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(gguf.quants.dequantize(stored, kind).astype(np.float32)))
        if architecture == "llama" and ("q_proj" in hf_name or "k_proj" in hf_name):
            stored = interleave(stored, shape["num_attention_heads" if "q_proj" in hf_name else "num_key_value_heads"])
        writer.add_tensor(gguf_name(hf_name), stored, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    size = path.stat().st_size
    assert size < BYTES_MAX, f"{path} has {size} bytes"
    return model, kinds


def round_inputs(_, arguments):
    """Round as the engine's quantize_row does: 8 bits, blocks of 32 with a scale of their own."""
    blocks = arguments[0].unflatten(-1, (-1, 32))
    largest = blocks.abs().amax(-1, keepdim=True)
    quants = torch.round(blocks * torch.nan_to_num(127 / largest, posinf=0.0)).clamp(-127, 127)
    return ((quants * (largest / 127)).flatten(-2),)


def round_activations(model, kinds):
    """Round what quantised matrices read from now on. Return whether there are any."""
    hooks = [module.register_forward_pre_hook(round_inputs) for name, module in model.named_modules()
             if isinstance(module, torch.nn.Linear) and
             kinds.get(name, kinds["model.embed_tokens"]) in (Type.Q8_0, Type.Q4_0)]  # a tied head has no name
    return bool(hooks)


@torch.no_grad()
def logits_of(model, prefix, branches):
    """Return logits as [prefix rows, first branch's, second branch's][vocabulary]."""
    first, second = (model(torch.tensor([prefix + branch])).logits[0].numpy() for branch in branches)
    return np.concatenate([first, second[len(prefix):]])


def row_text(row):
    return "[" + ",".join(f"{x:.4f}" for x in row) + "]"


def main():
    FOLDER.mkdir(exist_ok=True)
    torch.manual_seed(0)
    rng = np.random.default_rng(3)
    prefix = rng.integers(0, VOCAB, PREFIX).tolist()
    branches = [rng.integers(0, VOCAB, BRANCH).tolist() for _ in range(2)]
    results = {"logits": {}, "rounded": {}}
    for name, *arguments in MODELS:
        model, kinds = write_model(name, *arguments)
        logits = logits_of(model, prefix, branches)
        results["logits"][name] = logits
        print(f"{name}: logits spread by {logits.std():.2f}")
        if round_activations(model, kinds):
            results["rounded"][name] = logits_of(model, prefix, branches)
            print(f"    rounding changes them by {np.abs(results['rounded'][name] - logits).max():.2f} at most")
    lines = [f'"prefix": {json.dumps(prefix)}, "branches": {json.dumps(branches)}']
    for kind, models in results.items():
        rows = [f'"{name}": [{",".join(map(row_text, logits))}]' for name, logits in models.items()]
        lines.append(f'"{kind}": {{\n' + ",\n".join(rows) + "}")
    (FOLDER / "logits.json").write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main()
