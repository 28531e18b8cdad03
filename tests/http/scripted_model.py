"""A model that writes a script, whatever it is asked: tests of answers that no small model writes. Its layer adds nothing, each token of the script has a
direction of its own, and the head of the next token is that direction; all other tokens share one, from which the script begins."""
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "text"))

from byte_vocabulary import ARRAY, BOOL, BYTE, CONTROL, FLOAT, INT32, NORMAL, SPECIAL, STRING, UINT32, UNKNOWN, USER, array, entry, string  # noqa: E402

WIDTH, HIDDEN, HEADS, CONTEXT, F32, ALIGNMENT, CERTAIN = 64, 64, 2, 4096, 0, 32, 20.0
SHOWN = ("<tool_call>", "</tool_call>", "<think>", "</think>")  # tokens that print themselves


def kind_of(token):
    return UNKNOWN if token == "<unk>" else USER if token in SHOWN else CONTROL


def write(path, template, script):
    """Write a model of this chat template. The pieces of the script differ, as from each the next one follows, and none ends the prompt."""
    words = [piece.replace(" ", "\u2581") for piece in script]
    new = [word for word in words if word not in SPECIAL]
    tokens = SPECIAL + [f"<0x{byte:02X}>" for byte in range(256)] + new
    kinds = [kind_of(token) for token in SPECIAL] + [BYTE] * 256 + [NORMAL] * len(new)
    end = SPECIAL.index("</s>")
    chain = [*(tokens.index(word) for word in words), end]
    if len(set(chain)) != len(chain) or len(chain) > WIDTH:
        raise ValueError("a piece comes twice, or there are too many")
    direction = dict.fromkeys(range(len(tokens)), 0) | {token: place + 1 for place, token in enumerate(chain[:-1])}
    head = {token: place for place, token in enumerate(chain)}

    def rows(places):
        return b"".join(struct.pack(f"<{WIDTH}f", *(CERTAIN * (place == column) for column in range(WIDTH))) for place in places)
    tensors = {"token_embd.weight": ((WIDTH, len(tokens)), rows(direction[i] for i in range(len(tokens)))),
               "output.weight": ((WIDTH, len(tokens)), rows(head.get(i, -1) for i in range(len(tokens))))}
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        tensors[f"{name}.weight"] = ((WIDTH,), struct.pack(f"<{WIDTH}f", *[1.0] * WIDTH))
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        tensors[f"blk.0.{name}.weight"] = ((WIDTH, WIDTH), bytes(4 * WIDTH * WIDTH))
    numbers = {"context_length": CONTEXT, "embedding_length": WIDTH, "block_count": 1, "feed_forward_length": HIDDEN, "attention.head_count": HEADS,
               "attention.head_count_kv": HEADS, "rope.dimension_count": WIDTH // HEADS, "vocab_size": len(tokens)}
    entries = [entry("general.architecture", STRING, string("llama")),
               *(entry(f"llama.{name}", UINT32, struct.pack("<I", number)) for name, number in numbers.items()),
               entry("llama.attention.layer_norm_rms_epsilon", FLOAT, struct.pack("<f", 1e-5)),
               entry("tokenizer.ggml.model", STRING, string("llama")),
               entry("tokenizer.ggml.tokens", ARRAY, array(STRING, [string(token) for token in tokens])),
               entry("tokenizer.ggml.token_type", ARRAY, array(INT32, [struct.pack("<i", kind) for kind in kinds])),
               entry("tokenizer.ggml.scores", ARRAY, array(FLOAT, [struct.pack("<f", -i) for i in range(len(tokens))])),
               entry("tokenizer.ggml.bos_token_id", UINT32, struct.pack("<I", SPECIAL.index("<s>"))),
               entry("tokenizer.ggml.eos_token_id", UINT32, struct.pack("<I", end)),
               entry("tokenizer.ggml.add_bos_token", BOOL, b"\0"),
               entry("tokenizer.ggml.add_space_prefix", BOOL, b"\0"),
               entry("tokenizer.chat_template", STRING, string(template))]
    infos, data = b"", b""
    for name, (shape, values) in tensors.items():
        infos += string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, F32, len(data))
        data += values + bytes(-len(values) % ALIGNMENT)
    start = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entries) + infos
    path.write_bytes(start + bytes(-len(start) % ALIGNMENT) + data)
