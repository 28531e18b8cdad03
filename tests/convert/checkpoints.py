"""Checkpoints in Hugging Face's form, made of GGUF files with nothing but Python: config.json, tokenizer.json and safetensors.

The names here are written down once more, apart from the product's: oracle_checkpoints.py compares both with what transformers saves."""
import json
import re
import struct
from array import array

from pre_tokenizers import BYTES, CUT, GPT_2, IGNORING, OTHER_PRE_TOKENIZERS, PRE_TOKENIZERS  # noqa: F401, some for the tests

NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_qkv": "self_attn.qkv_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "attn_output": "self_attn.o_proj",
         "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
         "ffn_gate_inp": "mlp.gate", "ffn_gate_exps": "mlp.experts.{}.gate_proj", "ffn_up_exps": "mlp.experts.{}.up_proj",
         "ffn_down_exps": "mlp.experts.{}.down_proj", "ffn_gate_inp_shexp": "mlp.shared_expert_gate", "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
         "ffn_up_shexp": "mlp.shared_expert.up_proj", "ffn_down_shexp": "mlp.shared_expert.down_proj"}
GEMMA_2 = {"post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}
SHARED = {f"ffn_{part}_shexp": f"mlp.shared_experts.{part}_proj" for part in ("gate", "up", "down")} | {"exp_probs_b": "mlp.gate.e_score_correction_bias"}
OWN_NAMES = {
    "deepseek2": SHARED | {"attn_q_a": "self_attn.q_a_proj", "attn_q_a_norm": "self_attn.q_a_layernorm", "attn_q_b": "self_attn.q_b_proj",
                           "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa", "attn_kv_a_norm": "self_attn.kv_a_layernorm"},
    "glm4moe": SHARED | {"post_attention_norm": "post_attention_layernorm"},
    "gemma4-experts": {f"{ours}_{n}": f"{theirs}_{n}" for ours, theirs, n in (
        ("pre_ffw_norm", "pre_feedforward_layernorm", 2), ("post_ffw_norm", "post_feedforward_layernorm", 1), ("post_ffw_norm", "post_feedforward_layernorm", 2))},
    "phi3": {"ffn_up": "mlp.gate_up_proj"},
    "gemma2": GEMMA_2, "gemma3": GEMMA_2, "gemma4": GEMMA_2 | {"layer_output_scale": "layer_scalar", "inp_gate": "per_layer_input_gate", "proj": "per_layer_projection",
                         "post_norm": "post_per_layer_input_norm"},
    "exaone4": {"post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"},
    "falcon": {"attn_norm": "input_layernorm", "attn_norm_2": "ln_attn", "attn_qkv": "self_attention.query_key_value",
               "attn_output": "self_attention.dense", "ffn_up": "mlp.dense_h_to_4h", "ffn_down": "mlp.dense_4h_to_h"},
    "opt": {"attn_norm": "self_attn_layer_norm", "attn_output": "self_attn.out_proj", "ffn_norm": "final_layer_norm", "ffn_up": "fc1", "ffn_down": "fc2"},
    "mixtral": {"ffn_gate_inp": "block_sparse_moe.gate", "ffn_gate_exps": "block_sparse_moe.experts.{}.w1",
                "ffn_up_exps": "block_sparse_moe.experts.{}.w3", "ffn_down_exps": "block_sparse_moe.experts.{}.w2"},
    "phimoe": {"ffn_gate_inp": "block_sparse_moe.gate", "ffn_gate_exps": "block_sparse_moe.experts.{}.w1",
               "ffn_up_exps": "block_sparse_moe.experts.{}.w3", "ffn_down_exps": "block_sparse_moe.experts.{}.w2"},
    "olmo2": {"post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"},
    "glm4": {"ffn_up": "mlp.gate_up_proj", "post_attention_norm": "post_self_attn_layernorm", "post_ffw_norm": "post_mlp_layernorm"},
    "starcoder2": {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"},
    "gpt-oss": {"post_attention_norm": "post_attention_layernorm", "ffn_gate_inp": "mlp.router"},
    "gpt2": {"attn_norm": "ln_1", "attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_norm": "ln_2", "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"},
}
OWN_NAMES["gemma4-experts"] |= OWN_NAMES["gemma4"]
OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head", "per_layer_token_embd": "model.embed_tokens_per_layer",
         "per_layer_model_proj": "model.per_layer_model_projection", "per_layer_proj_norm": "model.per_layer_projection_norm"}
OWN_OUTER = {
    "gpt2": {"token_embd": "transformer.wte", "position_embd": "transformer.wpe", "output_norm": "transformer.ln_f", "output": "lm_head"},
    "falcon": {"token_embd": "transformer.word_embeddings", "output_norm": "transformer.ln_f"},
    "opt": {"token_embd": "model.decoder.embed_tokens", "position_embd": "model.decoder.embed_positions", "output_norm": "model.decoder.final_layer_norm"},
}
LAYERS = {"gpt2": "transformer.h", "falcon": "transformer.h", "opt": "model.decoder.layers"}
PAIRS_HALVES = ("llama", "mixtral", "mistral3", "granite", "smollm3")
LESS_ONE = ("gemma", "gemma2", "gemma3")
ROPES = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
BLOCKS = {0: (1, 4), 1: (1, 2), 8: (32, 34), 30: (1, 2), 39: (32, 17)}  # type: elements and bytes
FLOATS = {"F32": 4, "F16": 2, "BF16": 2}
MARK = "\u2581"


# ---- GGUF ----

class Reader:
    def __init__(self, path):
        self.bytes, self.at = path.read_bytes(), 0

    def take(self, form):
        value, = struct.unpack_from("<" + form, self.bytes, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def string(self):
        length = self.take("Q")
        self.at += length
        return self.bytes[self.at - length:self.at]

    def value(self, kind):
        if kind == 8:
            return self.string()
        if kind == 9:
            kind, count = self.take("I"), self.take("Q")
            return [self.value(kind) for _ in range(count)]
        return self.take(FORMATS[kind])


def read_gguf(path):
    """Return the metadata, strings as bytes, and the tensors: name -> (shape as numpy has it, type, bytes)."""
    reader = Reader(path)
    reader.at = 8
    tensor_count, entries = reader.take("Q"), reader.take("Q")
    metadata = {}
    for _ in range(entries):
        key = reader.string().decode()
        metadata[key] = reader.value(reader.take("I"))
    table = []
    for _ in range(tensor_count):
        name = reader.string().decode()
        shape = [reader.take("Q") for _ in range(reader.take("I"))]
        table.append((name, shape[::-1], reader.take("I"), reader.take("Q")))
    data = reader.at + -reader.at % 32
    tensors = {}
    for name, shape, kind, offset in table:
        count = 1
        for size in shape:
            count *= size
        elements, size = BLOCKS[kind]
        tensors[name] = shape, kind, reader.bytes[data + offset:data + offset + count // elements * size]
    return metadata, tensors


# ---- tensors ----

def family_of(metadata, tensors):
    """Return the architecture, but Mixtral for a Llama with experts, and "gemma4-experts"."""
    architecture = metadata["general.architecture"].decode()
    return {"llama": "mixtral", "gemma4": "gemma4-experts"}.get(architecture, architecture) if "blk.0.ffn_gate_inp.weight" in tensors else architecture


def their_name(family, ours):
    layer = re.fullmatch(r"blk\.(\d+)\.(.*)\.(weight|bias)", ours)
    if layer is None:
        module, _, kind = ours.rpartition(".")
        return f"{OWN_OUTER.get(family, OUTER)[module]}.{kind}"
    number, module, kind = layer.groups()
    theirs = f"{LAYERS.get(family, 'model.layers')}.{number}.{(NAMES | OWN_NAMES.get(family, {}))[module]}"
    return theirs if module in ("exp_probs_b", "layer_output_scale") else f"{theirs}.{kind}"


def halves_apart(data, heads, rows):
    """Move the pairs of each head's rows from neighbours to half a head apart."""
    size, bytes_of = rows // heads, len(data) // rows
    row = lambda i: data[i * bytes_of:(i + 1) * bytes_of]
    return b"".join(row(head * size + 2 * pair + half) for head in range(heads) for half in range(2) for pair in range(size // 2))


def by_groups(data, heads, kv_heads, rows):
    """Move all heads of Q, of K and of V to those of each head of K and V, one group after the other."""
    size = len(data) // (heads + 2 * kv_heads)
    head = lambda i: data[i * size:(i + 1) * size]
    each = heads // kv_heads
    groups = ([*range(group * each, (group + 1) * each), heads + group, heads + kv_heads + group] for group in range(kv_heads))
    return b"".join(head(i) for group in groups for i in group)


def floats(data):
    values = array("f")
    values.frombytes(data)
    return values


def stacked(parts, outer, outputs, inputs):
    """Return matrices [outer][outputs][inputs] as [outer][inputs][outputs * parts], in which the parts' outputs take turns."""
    parts = [floats(part) for part in parts]
    return array("f", (part[(o * outputs + row) * inputs + column] for o in range(outer) for column in range(inputs) for row in range(outputs)
                       for part in parts)).tobytes()


def stack_experts(layer, theirs, tensors):
    """Return gpt-oss's tensors of a layer's experts. Its biases are matrices of one input."""
    of = lambda part, kind: tensors[f"blk.{layer}.ffn_{part}_exps.{kind}"]
    stacks = {}
    for name, parts in (("gate_up_proj", ("gate", "up")), ("down_proj", ("down",))):
        (experts, outputs, inputs), _, _ = of(parts[0], "weight")
        weights, biases = [of(part, "weight")[2] for part in parts], [of(part, "bias")[2] for part in parts]
        stacks[f"{theirs}.{name}"] = "F32", [experts, inputs, outputs * len(parts)], stacked(weights, experts, outputs, inputs)
        stacks[f"{theirs}.{name}_bias"] = "F32", [experts, outputs * len(parts)], stacked(biases, experts, outputs, 1)
    return stacks


GEMMA_4_EXPERTS = {"ffn_gate_inp.weight": "router.proj.weight", "ffn_gate_inp.scale": "router.scale", "ffn_down_exps.scale": "router.per_expert_scale",
                   "ffn_gate_up_exps.weight": "experts.gate_up_proj", "ffn_down_exps.weight": "experts.down_proj"}


def fuse_experts(tensors):
    """Return the tensors, with gates and ups of all experts in one."""
    fused = dict(tensors)
    for name in [name for name in tensors if name.endswith(".ffn_gate_exps.weight")]:
        (experts, outputs, inputs), kind, gates = fused.pop(name)
        _, _, ups = fused.pop(name.replace("gate", "up"))
        size = len(gates) // experts
        data = b"".join(part[e * size:(e + 1) * size] for e in range(experts) for part in (gates, ups))
        fused[name.replace("gate", "gate_up")] = [experts, 2 * outputs, inputs], kind, data
    return fused


def both_of_heads(layer, tensors):
    """Return DeepSeek's matrix of a layer that makes K and V of all heads: of each those of K, which GGUF has transposed, and behind them those of V."""
    (heads, latent, plain), _, keys = tensors[f"blk.{layer}.attn_k_b.weight"]
    (_, size, _), _, values = tensors[f"blk.{layer}.attn_v_b.weight"]
    keys, values = floats(keys), floats(values)
    rows = array("f")
    for head in range(heads):
        rows.extend(keys[(head * latent + column) * plain + row] for row in range(plain) for column in range(latent))
        rows.extend(values[head * size * latent:(head + 1) * size * latent])
    return "F32", [heads * (plain + size), latent], rows.tobytes()


def their_tensors(metadata, tensors):
    """Return name -> (dtype, shape, bytes) of transformers' model, of F32 tensors."""
    architecture, family = metadata["general.architecture"].decode(), family_of(metadata, tensors)
    count = lambda key: metadata[f"{architecture}.{key}"]
    theirs = {}
    tensors = fuse_experts(tensors) if family == "gemma4-experts" else tensors
    for name, (shape, kind, data) in tensors.items():
        if name in ROPES:
            continue
        assert kind == 0
        expert = re.fullmatch(r"blk\.(\d+)\.ffn_(gate|up|down)_exps\.(weight|bias)", name)
        if expert and family == "gpt-oss":
            if expert[2] == "down":
                theirs |= stack_experts(expert[1], f"model.layers.{expert[1]}.mlp.experts", tensors)
            continue
        own = re.fullmatch(r"blk\.(\d+)\.(.*)", name)
        if family == "gemma4-experts" and own and own[2] in GEMMA_4_EXPERTS:
            theirs[f"model.layers.{own[1]}.{GEMMA_4_EXPERTS[own[2]]}"] = "F32", shape, data
            continue
        sinks = re.fullmatch(r"blk\.(\d+)\.attn_sinks\.weight", name)
        if sinks:
            theirs[f"model.layers.{sinks[1]}.self_attn.sinks"] = "F32", shape, data
            continue
        heads = re.fullmatch(r"blk\.(\d+)\.attn_([kv])_b\.weight", name)
        if heads:
            theirs[f"model.layers.{heads[1]}.self_attn.kv_b_proj.weight"] = both_of_heads(heads[1], tensors)
            continue
        rotated = re.search(r"\.attn_([qk])\.", name)
        if rotated and family in PAIRS_HALVES:
            data = halves_apart(data, count(f"attention.head_count{'_kv' if rotated[1] == 'k' else ''}"), shape[0])
        if family == "falcon" and ".attn_qkv." in name:
            data = by_groups(data, count("attention.head_count"), count("attention.head_count_kv"), shape[0])
        if family == "opt" and name == "position_embd.weight":
            data, shape = bytes(2 * 4 * shape[1]) + data, [shape[0] + 2, shape[1]]
        if architecture in LESS_ONE and name.endswith("_norm.weight"):
            data = array("f", (value - 1 for value in floats(data))).tobytes()
        if architecture == "gpt2" and name.startswith("blk.") and len(shape) == 2:
            values = floats(data)
            data = array("f", (values[row * shape[1] + column] for column in range(shape[1]) for row in range(shape[0]))).tobytes()
            shape = shape[::-1]
        their = their_name(family, name)
        if family == "falcon" and name.replace("attn_norm.", "attn_norm_2.") in tensors:
            their = their.replace("input_layernorm", "ln_mlp")
        if "shexp" in name and len(shape) == 1:
            shape = [1, *shape]
        if len(shape) == 3:
            size = len(data) // shape[0]
            theirs |= {their.format(e): ("F32", shape[1:], data[e * size:(e + 1) * size]) for e in range(shape[0])}
        else:
            theirs[their] = "F32", shape, data
    return theirs


def expected_tensors(metadata, tensors):
    """Return the tensors that conversion of their_tensors gives: the same, but for what adding 1 to a rounded number rounds."""
    tensors = fuse_experts(tensors) if family_of(metadata, tensors) == "gemma4-experts" else tensors
    if metadata["general.architecture"].decode() not in LESS_ONE:
        return tensors
    again = lambda data: array("f", (value + 1 for value in array("f", (value - 1 for value in floats(data))))).tobytes()
    return {name: (shape, kind, again(data)) if name.endswith("_norm.weight") else (shape, kind, data) for name, (shape, kind, data) in tensors.items()}


def safetensors(tensors, **header):
    """Return a file's bytes. `header` replaces entries of its header."""
    entries, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, values) in tensors.items():
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(entries | header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def to_bf16(data):
    """Return F32 numbers cut to BF16."""
    return b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))


# ---- tokenizers ----

def added(tokens, kinds):
    return [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": kind == 4, "special": kind != 4}
            for i, (token, kind) in enumerate(zip(tokens, kinds)) if kind in (2, 3, 4)]


def merges_of(tokens, kinds, scores, newer=True):
    """Return all merges of a SentencePiece vocabulary, in the order of transformers' converter: today's, or the one before it."""
    texts = {token: i for i, (token, kind) in enumerate(zip(tokens, kinds)) if kind == 1}
    merges = []
    for token, i in texts.items():
        cuts = [(token[:at], token[at:]) for at in range(1, len(token)) if token[:at] in texts and token[at:] in texts]
        if newer:
            merges += [(-scores[i], -len(left), -len(right), left, right) for left, right in cuts]
        else:
            merges += [(-scores[i], i, texts[left], texts[right], left, right) for left, right in cuts]
    return [list(merge[-2:]) for merge in sorted(merges, key=lambda merge: merge[:-2])]


def characters_tokenizer(metadata, newer=True):
    """Return tokenizer.json of a vocabulary of kind "llama". Older files have a merge as a text."""
    tokens = [token.decode() for token in metadata["tokenizer.ggml.tokens"]]
    kinds, scores = metadata["tokenizer.ggml.token_type"], metadata["tokenizer.ggml.scores"]
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
    prepend = metadata.get("tokenizer.ggml.add_space_prefix", True)
    normalizer = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": MARK}, replace]} if prepend else replace
    unknown = tokens[kinds.index(2)] if 2 in kinds else None
    merges = merges_of(tokens, kinds, scores, newer)
    return {"version": "1.0", "added_tokens": added(tokens, kinds), "normalizer": normalizer, "pre_tokenizer": None,
            "post_processor": None,
            "model": {"type": "BPE", "unk_token": unknown, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                      "vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges if newer else [" ".join(merge) for merge in merges]}}


def varint(value):
    value &= 2**64 - 1
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    return bytes(data + bytes([value]))


def message(*fields):
    """Return a protocol buffer of fields (number, value): a text, bytes of a message, a number, or a float of 32 bits."""
    data = b""
    for number, value in fields:
        value = value.encode() if isinstance(value, str) else value
        if isinstance(value, bytes):
            data += varint(number << 3 | 2) + varint(len(value)) + value
        elif isinstance(value, float):
            data += varint(number << 3 | 5) + struct.pack("<f", value)
        else:
            data += varint(number << 3) + varint(value)
    return data


MODEL_TYPES = {"unigram": 1, "bpe": 2, "word": 3, "char": 4}


def sentencepiece_model(tokens, kinds, scores, kind="bpe", trainer=(), normalizer=(), rules=b""):
    """Return tokenizer.model of such pieces, as Llama has it: no normal form, spaces stay, and one is put before a text."""
    pieces = [(1, message((1, token), (2, float(score)), (3, kind))) for token, kind, score in zip(tokens, kinds, scores)]
    trained = {3: MODEL_TYPES[kind], 24: 0, 35: 1, 40: 0, 41: 1, 42: 2, 43: -1} | dict(trainer)
    normal = {1: "identity", 2: rules, 3: 1, 4: 0, 5: 1} | dict(normalizer)
    return message(*pieces, (2, message(*trained.items())), (3, message(*normal.items())))


def bytes_tokenizer(metadata, rule=None):
    """Return tokenizer.json of a vocabulary of kind "gpt2", cut by another rule than its own if one is named."""
    tokens = [token.decode() for token in metadata["tokenizer.ggml.tokens"]]
    kinds, own = metadata["tokenizer.ggml.token_type"], metadata["tokenizer.ggml.pre"].decode()
    present = {token: i for i, (token, kind) in enumerate(zip(tokens, kinds)) if kind == 1}
    return {"version": "1.0", "added_tokens": added(tokens, kinds), "normalizer": {"type": "NFC"} if own == "qwen2" else None,
            "pre_tokenizer": OTHER_PRE_TOKENIZERS[rule] if rule else PRE_TOKENIZERS[own], "post_processor": GPT_2, "decoder": GPT_2,
            "model": {"type": "BPE", "unk_token": None, "byte_fallback": False, "ignore_merges": (rule or own) in IGNORING, "vocab": present,
                      "merges": [merge.decode() for merge in metadata["tokenizer.ggml.merges"]]}}


# ---- folders ----

def write_json(path, value):
    path.write_text(json.dumps(value))


def write_weights(folder, tensors, files=1):
    """Write tensors in one file, or spread over several with an index."""
    if files == 1:
        (folder / "model.safetensors").write_bytes(safetensors(tensors))
        return
    places = {}
    for i in range(files):
        name = f"model-{i + 1:05}-of-{files:05}.safetensors"
        part = dict(list(tensors.items())[i::files])
        (folder / name).write_bytes(safetensors(part))
        places |= {tensor: name for tensor in part}
    write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": places})


def write_checkpoint(folder, config, metadata, tensors, files=1):
    """Write all of a checkpoint, of a small model's GGUF."""
    folder.mkdir(exist_ok=True)
    write_json(folder / "config.json", config)
    write_json(folder / "tokenizer.json", characters_tokenizer(metadata))
    write_weights(folder, their_tensors(metadata, tensors), files)
    return folder
