"""Goal: the importance of matrices is llama.cpp's: the sums of squares of what each is multiplied with, and over how many rows.
Method: llama.cpp runs each family's model over its stored text and shows its operations, as it shows them to llama-imatrix; what its products read is added up
here. Every sum of ours must be near, every count equal."""
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import llama_cpp
from test_llama_cpp import CONTEXT, DATA, LEFT_OUT, SEEDS, UNKNOWN, VOCAB, WITH_GELU, tokens_of

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
from cli import BIN, PATIENCE, ROOT  # noqa: E402

CLOSE, CLOSE_WITH_GELU = 1e-4, 2e-3  # measured with xllamacpp 2026.10.11549: 7e-6 and 7.2e-4
# 1.6e-4 (gpt-oss) and 1.3e-4 (GLM 4.7 Flash) of experts that two or three rows take: rows are at most 7e-6 apart, which their products and activation make
# 20 times as much.
CLOSE_OF_FEW_ROWS = 1e-3
CLOSE_GEMMA_4_EXPERTS = 1e-2  # 3e-3 likewise, behind two GELUs in each layer


def row_of(tensor, *place):
    """Return a row of floats of a tensor, at these places of its upper dimensions."""
    address = tensor.data + sum(i * stride for i, stride in zip(place, list(tensor.nb)[1:]))
    return struct.unpack(f"<{tensor.ne[0]}f", llama_cpp.ctypes.string_at(address, 4 * tensor.ne[0]))


def number_of(tensor, *place):
    address = tensor.data + sum(i * stride for i, stride in zip(place, tensor.nb))
    return llama_cpp.ctypes.c_int32.from_address(address).value


class Collector:
    """What the products of a pass read: name -> (inputs, {matrix: count}, {matrix: sums})."""

    def __init__(self, peer):
        self.peer, self.entries, self.observer = peer, {}, llama_cpp.OBSERVE(self.observe)

    def add(self, name, matrix, row):
        counts, sums = self.entries.setdefault(name, ({}, {}))
        counts[matrix] = counts.get(matrix, 0) + 1
        before = sums.get(matrix)
        sums[matrix] = [x * x for x in row] if before is None else [sum_ + x * x for sum_, x in zip(before, row)]

    def observe(self, operation, ask, _):
        it = operation.contents
        kind = self.peer.library.ggml_op_name(it.op)
        if ask or kind not in (b"MUL_MAT", b"MUL_MAT_ID"):
            return kind in (b"MUL_MAT", b"MUL_MAT_ID") and it.src[0].contents.name.endswith(b".weight")
        name, read = it.src[0].contents.name.decode().split("#")[-1], it.src[1].contents
        if kind == b"MUL_MAT":
            for matrix in range(read.ne[2]):
                for row in range(read.ne[1]):
                    self.add(name, matrix % it.src[0].contents.ne[2], row_of(read, row, matrix))
            return True
        chosen = it.src[2].contents
        for row in range(read.ne[2]):
            for i in range(chosen.ne[0]):
                self.add(name, number_of(chosen, i, row), row_of(read, i % read.ne[1], row))
        return True


def our_entries(name):
    out = subprocess.run([BIN / "family-sums", name], check=True, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE).stdout
    for line in out.splitlines():
        words = line.split()
        if not words or "weight" not in words[0]:
            continue
        inputs, numbers = int(words[1]), words[2:]
        matrices = len(numbers) // (inputs + 1)
        sums = list(map(float, numbers[matrices:]))
        yield words[0], list(map(int, numbers[:matrices])), [sums[m * inputs:(m + 1) * inputs] for m in range(matrices)]


class Importance(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.peer = llama_cpp.LlamaCpp()

    def compare(self, name, path):
        collector = Collector(self.peer)
        self.peer.logits(path, tokens_of(name), VOCAB, CONTEXT, collector.observer)
        family = name.split("/")[0]
        usual = CLOSE_WITH_GELU if family in WITH_GELU else CLOSE
        limit = {"gpt-oss": CLOSE_OF_FEW_ROWS, "glm4moelite": CLOSE_OF_FEW_ROWS, "gemma4-experts": CLOSE_GEMMA_4_EXPERTS}.get(family, usual)
        compared, apart = 0, 0.0
        for tensor, counts, sums in our_entries(name):
            self.assertIn(tensor, collector.entries)
            their_counts, their_sums = collector.entries[tensor]
            for matrix, count in enumerate(counts):
                self.assertEqual(count, their_counts.get(matrix, 0), f"{tensor} {matrix}")
                for ours, theirs in zip(sums[matrix], their_sums.get(matrix, [0] * len(sums[matrix])), strict=True):
                    apart = max(apart, abs(ours - theirs) / max(theirs, 1e-6))
                    compared += 1
        print(f"{name}: {compared} sums, at most {apart:.2g} apart")
        self.assertGreater(compared, 0)
        self.assertLessEqual(apart, limit)

    def test_families(self):
        names = [f"{folder.name}/{seed}" for folder in sorted(DATA.iterdir()) for seed in range(SEEDS)]
        with tempfile.TemporaryDirectory() as folder:
            for name in names:
                if name not in LEFT_OUT and name not in UNKNOWN:
                    with self.subTest(model=name):
                        path = Path(folder) / f"{name.replace('/', '-')}.gguf"
                        subprocess.run([BIN / "family-model", name, path], check=True, cwd=ROOT, timeout=PATIENCE)
                        self.compare(name, path)


if __name__ == "__main__":
    unittest.main()
