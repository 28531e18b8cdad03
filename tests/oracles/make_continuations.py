#!/usr/bin/env python3
"""Make data/reference.json: greedy texts, logits and a tree of the demonstration models, computed without the engine.

A GGUF reader and a float32 forward pass of the Llama architecture, written from the format's and the architecture's
descriptions; needs numpy (2.4.6 made what is stored) and nothing of ours but the model files. Models of launch/models are
computed from the F16 weights that the file has, widened exactly. Entries of files elsewhere (F32 models, stories260K) stay as
they are unless a folder with these files is given:

    python3 -m venv /tmp/reference && /tmp/reference/bin/pip install numpy
    /tmp/reference/bin/python tests/oracles/make_continuations.py [FOLDER]

A generation does not stop at end tokens. gaps[k] is the difference of the two best logits at step k; top8[k] are the eight best
from which greedy[k] was chosen. Prompts and their ids are those that the file already has.
"""

import json
import pathlib
import struct
import sys

import numpy as np

HERE = pathlib.Path(__file__).parent
MODELS = HERE.parents[1] / "launch/models"
FILE = HERE / "data/reference.json"
OURS = ("tales-6m", "tales-1m", "tales-bpe-1m")
STEPS = 64
TOP_AT = (0, 32)

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
TYPES = {0: "<f4", 1: "<f2"}


class Gguf:
    def __init__(self, path):
        self.bytes, self.at = path.read_bytes(), 4
        assert self.bytes[:4] == b"GGUF" and self.read("I") == 3
        tensors, keys = self.read("Q"), self.read("Q")
        self.keys = {}
        for _ in range(keys):
            name = self.string()
            self.keys[name] = self.value(self.read("I"))
        infos = []
        for _ in range(tensors):
            name = self.string()
            shape = [self.read("Q") for _ in range(self.read("I"))][::-1]
            infos.append((name, shape, TYPES[self.read("I")], self.read("Q")))
        alignment = self.keys.get("general.alignment", 32)
        start = -(-self.at // alignment) * alignment
        self.tensors = {name: np.frombuffer(self.bytes, kind, int(np.prod(shape)), start + offset).reshape(shape).astype(np.float32)
                        for name, shape, kind, offset in infos}

    def read(self, kind):
        (value,) = struct.unpack_from("<" + kind, self.bytes, self.at)
        self.at += struct.calcsize("<" + kind)
        return value

    def string(self):
        length = self.read("Q")
        self.at += length
        return self.bytes[self.at - length:self.at].decode()

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            kind, count = self.read("I"), self.read("Q")
            return [self.value(kind) for _ in range(count)]
        return self.read(SCALARS[kind])


class Model:
    def __init__(self, path):
        gguf = Gguf(path)
        self.weights, keys = gguf.tensors, gguf.keys
        self.end = keys["tokenizer.ggml.eos_token_id"]
        self.layers = keys["llama.block_count"]
        self.heads, self.kv_heads = keys["llama.attention.head_count"], keys["llama.attention.head_count_kv"]
        self.epsilon = np.float32(keys["llama.attention.layer_norm_rms_epsilon"])
        self.base, self.dim = keys["llama.rope.freq_base"], keys["llama.rope.dimension_count"]

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True, dtype=np.float32) + self.epsilon) * self.weights[name]

    def rotate(self, x):  # [position][head][dim], neighbours are a pair
        frequencies = self.base ** (-np.arange(self.dim // 2, dtype=np.float64) * 2 / self.dim)
        angles = np.arange(len(x))[:, None, None] * frequencies
        cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        even, odd = x[..., 0::2], x[..., 1::2]
        return np.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)

    def layer(self, x, name):
        count = len(x)
        y = self.norm(x, name + "attn_norm.weight")
        q = self.rotate((y @ self.weights[name + "attn_q.weight"].T).reshape(count, self.heads, self.dim))
        k = self.rotate((y @ self.weights[name + "attn_k.weight"].T).reshape(count, self.kv_heads, self.dim))
        v = (y @ self.weights[name + "attn_v.weight"].T).reshape(count, self.kv_heads, self.dim)
        shared = self.heads // self.kv_heads
        future = np.triu(np.full((count, count), -np.inf, np.float32), 1)
        out = np.empty_like(q)
        for head in range(self.heads):
            scores = q[:, head] @ k[:, head // shared].T / np.float32(np.sqrt(self.dim)) + future
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            out[:, head] = scores / scores.sum(-1, keepdims=True) @ v[:, head // shared]
        x = x + out.reshape(count, -1) @ self.weights[name + "attn_output.weight"].T
        y = self.norm(x, name + "ffn_norm.weight")
        gate, up = (y @ self.weights[name + f"ffn_{part}.weight"].T for part in ("gate", "up"))
        return x + (gate / (1 + np.exp(-gate)) * up) @ self.weights[name + "ffn_down.weight"].T

    def logits(self, ids):
        """Return the logits after the last of the ids."""
        x = self.weights["token_embd.weight"][np.asarray(ids)]
        for layer in range(self.layers):
            x = self.layer(x, f"blk.{layer}.")
        return self.norm(x[-1:], "output_norm.weight")[0] @ self.weights.get("output.weight", self.weights["token_embd.weight"]).T


def top8(logits):
    return [[int(i), round(float(logits[i]), 6)] for i in np.argsort(-logits, kind="stable")[:8]]


def continuation(model, prompt):
    ids, gaps, top = list(prompt["ids"]), [], {}
    for step in range(STEPS):
        logits = model.logits(ids)
        best, second = np.sort(logits)[:-3:-1]
        gaps.append(round(float(best - second), 4))
        if step in TOP_AT:
            top[str(step)] = top8(logits)
        ids.append(int(np.argmax(logits)))
    greedy = ids[len(prompt["ids"]):]
    return {"text": prompt["text"], "ids": prompt["ids"], "greedy": greedy, "top8": top, "gaps": gaps,
            "eos_index": greedy.index(model.end) if model.end in greedy else None}


def tree_of(model, name, old):
    """Return the nodes of the old tree with this model's logits."""
    nodes = []
    for token, parent in zip(old["tokens"], old["parents"]):
        path = [token]
        while parent >= 0:
            path.insert(0, old["tokens"][parent])
            parent = old["parents"][parent]
        nodes.append({"token": token, "parent": old["parents"][len(nodes)], "position": len(old["prefix"]) + len(path) - 1,
                      "top8": top8(model.logits(old["prefix"] + path))})
    return {"model": name, "prefix": old["prefix"], "prefix_top8": top8(model.logits(old["prefix"])), "tokens": old["tokens"],
            "parents": old["parents"], "nodes": nodes}


def main():
    reference = json.loads(FILE.read_text())
    models, trees = reference["models"], reference["trees"]
    paths = [MODELS / f"{name}-f16.gguf" for name in OURS]
    if len(sys.argv) > 1:
        paths += [pathlib.Path(sys.argv[1], f"{name}.gguf") for name in (*(f"{ours}-f32" for ours in OURS), "stories260K-f32")]
    for path in paths:
        model, old = Model(path), models[path.stem.replace("-f16", "-f32")]
        models[path.stem] = {"file": path.name, "prompts": [continuation(model, prompt) for prompt in old["prompts"]]}
        if path.stem.startswith("tales-6m"):
            trees[path.stem] = tree_of(model, path.stem, next(iter(trees.values())))
    reference["about"] = " ".join(__doc__.split("\n\n")[0].split()) + " See make_continuations.py."
    FILE.write_text(json.dumps(reference, indent=None, separators=(",", ":")).replace('{"text"', '\n{"text"') + "\n")


if __name__ == "__main__":
    main()
