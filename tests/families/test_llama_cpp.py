"""Goal: every family computes what llama.cpp computes, in F32, F16 and Q8_0; and llama.cpp agrees with the stored logits of transformers.
Method: the models of families_test as files. In F32 llama.cpp's logits lie within 1e-3 of transformers'. Outrider's greedy ids equal llama.cpp's at every
position whose two best logits are further apart than a tolerance, and that is most of them."""
import json
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import llama_cpp

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
from cli import BIN, ENVIRONMENT, PATIENCE, ROOT, outrider  # noqa: E402

if llama_cpp.library_path() is None:
    raise unittest.SkipTest("no xllamacpp: pip install it from PyPI, for this Python or into build/venv")

DATA = Path(__file__).parent / "data"
POSITIONS, VOCAB, CONTEXT = 200, 64, 256
SEEDS = 2
# Largest difference from transformers in F32. ggml's GELU goes through a table of halves. Layers with inputs of their own have two.
CLOSE, CLOSE_WITH_GELU, CLOSE_WITH_TWO = 1e-3, 1e-2, 2e-2
WITH_GELU = ("gemma", "gemma2", "gemma3", "gemma4", "gemma4-shared", "gemma4-experts", "falcon", "starcoder2", "gpt2")
WITH_TWO = ("gemma4-shared",)
# llama.cpp leaves Phi's window out, knows by the number of layers whether an EXAONE 4 has windows, and takes YaRN's usual numbers of turns and rounds the ends of
# its ramp, which gpt-oss does not. It ranks groups of experts by the two largest weights, and DeepSeek V2 by the largest. Of
# Phi with experts it takes RMS norms, and the softmax's weights.
LEFT_OUT = ("phi3/0", "exaone4/1", "gpt-oss/0", "deepseek-v2/1", "phimoe/0", "phimoe/1")
# What llama.cpp does not load, and what it says: it has no OPT, and knows by the number of layers whether a DeepSeek makes queries of a vector of their own.
UNKNOWN = {"opt/0": "unknown model architecture", "opt/1": "unknown model architecture", "deepseek-v3/1": "attention.q_lora_rank",
           "deepseek-heads/1": "attention.q_lora_rank"}
# Positions at which a router's choice is nearly a tie, so that the two engines' own rounding of activations to 8 bits takes another expert. In F32 and F16 they agree.
NEAR_TIES = {("deepseek-heads/0", "Q8_0"): (38,)}
# Type -> the gap between the two best logits beyond which ids must be equal, and the least share of positions beyond it. Measured at llama/0 and llama/1
# with xllamacpp 2026.10.11549: Outrider's and llama.cpp's logits are at most 4.8e-6, 0.0041 and 0.13 apart. Of families with GELU it is CLOSE_WITH_GELU at
# least.
TYPES = {"F32": (4 * 5e-6, 0.9), "F16": (4 * 0.0042, 0.6), "Q8_0": (4 * 0.135, 0.6)}


def transformers_logits(name):
    flat = struct.unpack(f"<{POSITIONS * VOCAB}f", (DATA / f"{name}.f32").read_bytes())
    return [flat[i:i + VOCAB] for i in range(0, len(flat), VOCAB)]


def largest_difference(a, b):
    return max(abs(x - y) for row, other in zip(a, b, strict=True) for x, y in zip(row, other, strict=True))


def gap_of(row):
    best, second = sorted(row)[-1:-3:-1]
    return best - second


def id_of(row):
    return row.index(max(row))


def tokens_of(name):
    """Return the text of a recipe: the array of its metadata's last-but-one kind, found by its key."""
    head = (DATA / f"{name}.gguf-head").read_bytes()
    begin = head.index(b"recipe.tokens") + len(b"recipe.tokens") + 4 + 4  # types of the value and of its elements
    count, = struct.unpack_from("<Q", head, begin)
    return list(struct.unpack_from(f"<{count}i", head, begin + 8))


def our_logits(path, tokens):
    out, _ = outrider("model", "eval", "-m", path, "--ids", ",".join(map(str, tokens)), "--top", 0, "-dev", "none", "--json")
    return [[logit for _, logit in sorted(row["logits"])] for row in json.loads(out)["rows"]]


def refusal(path):
    """Return Outrider's sentence if it does not run the model, else None."""
    done = subprocess.run([BIN / "outrider", "model", "eval", "-m", path, "--ids", "1", "--json"], capture_output=True, text=True, env=ENVIRONMENT,
                          timeout=PATIENCE)
    return done.stderr.strip() if done.returncode != 0 and "this version" in done.stderr else None


def close_of(name):
    family = name.split("/")[0]
    return CLOSE_WITH_TWO if family in WITH_TWO else CLOSE_WITH_GELU if family in WITH_GELU else CLOSE


def tolerance_of(name, kind):
    tolerance, share_min = TYPES[kind]
    return (max(tolerance, close_of(name)) if name.split("/")[0] in WITH_GELU else tolerance), share_min


class Peers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.peer = llama_cpp.LlamaCpp()
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)

    def file_of(self, name, kind):
        path = Path(self.folder.name) / f"{name.replace('/', '-')}-{kind}.gguf"
        if kind == "F32":
            subprocess.run([BIN / "family-model", name, path], check=True, cwd=ROOT, timeout=PATIENCE)
        else:
            outrider("model", "quantize", self.file_of(name, "F32"), path, kind, "--force")
        return path

    def compare_with_transformers(self, name, theirs):
        apart = largest_difference(theirs, transformers_logits(name))
        print(f"{name}: llama.cpp is {apart:.2g} from transformers")
        limit = close_of(name)
        if name in LEFT_OUT:
            self.assertGreater(apart, limit, "llama.cpp has learnt what it left out")
        else:
            self.assertLess(apart, limit)

    def compare_ids(self, name, kind, ours, theirs, counted):
        print(f"{name} {kind}: {largest_difference(ours, theirs):.2g} apart at most")
        self.assertEqual([], [row for row in counted if id_of(ours[row]) != id_of(theirs[row])])

    def compare(self, name, kind):
        path, tokens = self.file_of(name, kind), tokens_of(name)
        if name in UNKNOWN:
            with self.assertRaisesRegex(RuntimeError, UNKNOWN[name]):
                self.peer.logits(path, tokens, VOCAB, CONTEXT)
            return
        theirs = self.peer.logits(path, tokens, VOCAB, CONTEXT)
        if kind == "F32":
            self.compare_with_transformers(name, theirs)
        tolerance, share_min = tolerance_of(name, kind)
        counted = [row for row in range(POSITIONS) if gap_of(theirs[row]) > tolerance and row not in NEAR_TIES.get((name, kind), ())]
        print(f"{name} {kind}: {len(counted) / POSITIONS:.0%} of the positions count")
        self.assertGreaterEqual(len(counted) / POSITIONS, share_min)
        why = refusal(path)
        if why is not None:
            self.skipTest(why)
        if name not in LEFT_OUT:
            self.compare_ids(name, kind, our_logits(path, tokens), theirs, counted)

    def test_families(self):
        for family in sorted(folder.name for folder in DATA.iterdir()):
            for seed in range(SEEDS):
                for kind in TYPES:
                    with self.subTest(model=f"{family}/{seed}", kind=kind):
                        self.compare(f"{family}/{seed}", kind)
