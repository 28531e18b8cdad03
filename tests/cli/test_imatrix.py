"""Goal: `model imatrix` measures what matrices read and writes it whole or not at all; `model quantize --imatrix` makes the same of both forms of such a file, says
what it has used, and spends its bits where they count.
Method: the demonstration models over a text of the repository; the older form is written here from the newer one; every refusal with its sentence."""
import json
import os
import signal
import struct
import tempfile
import unittest
from pathlib import Path

from cli import DRAFT, ROOT, TARGET, Background, outrider

TEXT, OTHER = ROOT / "ARCHITECTURE.md", ROOT / "docs/gpus.md"
TYPES = ("Q8_0", "Q4_1", "Q2_K", "IQ4_XS", "MXFP4")  # of all there are quant_encode_test tells
ALIGNMENT = 32


class Gguf:
    """The metadata and tensors of a small file; the latter as bytes."""

    def __init__(self, path):
        self.bytes, self.at = path.read_bytes(), 8
        tensors, entries = self.take("<QQ")
        self.metadata = dict((self.string(), self.value(self.take("<I")[0])) for _ in range(entries))
        table = [(self.string(), self.take(f"<{self.take('<I')[0]}Q"), self.take("<IQ")) for _ in range(tensors)]
        data = self.at + -self.at % ALIGNMENT
        places = [offset for _, _, (_, offset) in table] + [len(self.bytes) - data]
        self.tensors = {name: (dims, self.bytes[data + places[i]:data + places[i + 1]]) for i, (name, dims, _) in enumerate(table)}

    def take(self, form):
        values = struct.unpack_from(form, self.bytes, self.at)
        self.at += struct.calcsize(form)
        return values

    def string(self):
        length, = self.take("<Q")
        self.at += length
        return self.bytes[self.at - length:self.at].decode(errors="replace")

    def value(self, kind):
        if kind == 9:
            kind, count = self.take("<IQ")
            return [self.value(kind) for _ in range(count)]
        return self.string() if kind == 8 else self.take("<" + "BbHhIif?" [kind] if kind < 8 else {10: "<Q", 11: "<q", 12: "<d"}[kind])[0]

    def floats(self, name):
        dims, data = self.tensors[name]
        count = dims[0] * dims[1]
        return struct.unpack_from(f"<{count}f", data)


def legacy(gguf, calls):
    """Return the older form of an importance matrix: means times calls. Where calls are a power of two nothing is rounded."""
    names = [name.removesuffix(".in_sum2") for name in gguf.tensors if name.endswith(".in_sum2")]
    out = struct.pack("<i", len(names))
    for name in names:
        sums, (count,) = gguf.floats(name + ".in_sum2"), gguf.floats(name + ".counts")
        means = [struct.unpack("<f", struct.pack("<f", value / count))[0] * calls for value in sums]
        out += struct.pack("<i", len(name)) + name.encode() + struct.pack(f"<ii{len(means)}f", calls, len(means), *means)
    dataset = gguf.metadata["imatrix.datasets"][0].encode()
    return out + struct.pack("<ii", gguf.metadata["imatrix.chunk_count"], len(dataset)) + dataset


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.file, self.out = self.folder / "imatrix.gguf", self.folder / "out.gguf"

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def measure(self, *words, model=TARGET, **settings):
        return outrider("model", "imatrix", "-m", model, "-o", self.file, *words, **settings)

    def quantize(self, kind, *words, model=TARGET):
        return json.loads(outrider("model", "quantize", model, self.out, kind, "--force", "--json", *words)[0])


class Measure(Files):
    def test_what_is_written(self):
        out, error = self.measure("--texts", TEXT, OTHER, "-c", 128)
        self.assertEqual(error, "")
        gguf = Gguf(self.file)
        chunks = gguf.metadata["imatrix.chunk_count"]
        self.assertGreater(chunks, 20)
        self.assertIn(f"imatrix.gguf: 43 tensors, {chunks} chunks of 128 tokens, in ", out.decode())
        self.assertRegex(out.decode(), r"\d+ tokens at the ends of texts fill no chunk")
        self.assertEqual(gguf.metadata, {"general.type": "imatrix", "imatrix.datasets": [str(TEXT), str(OTHER)], "imatrix.chunk_count": chunks,
                                         "imatrix.chunk_size": 128})
        parts = ("attn_k", "attn_output", "attn_q", "attn_v", "ffn_down", "ffn_gate", "ffn_up")
        matrices = [f"blk.{layer}.{part}.weight" for layer in range(6) for part in parts] + ["token_embd.weight"]  # the head
        names = [f"{name}.{what}" for name in matrices for what in ("in_sum2", "counts")]
        self.assertEqual(list(gguf.tensors), names)
        for name in names[::2]:
            inputs = 768 if "ffn_down" in name else 256
            self.assertEqual((gguf.tensors[name][0], gguf.tensors[name.replace("in_sum2", "counts")][0]), ((inputs, 1), (1, 1)))
            self.assertEqual(gguf.floats(name.replace("in_sum2", "counts")), (128.0 * chunks,))
        self.assertEqual(gguf.floats("blk.3.attn_q.weight.in_sum2"), gguf.floats("blk.3.attn_v.weight.in_sum2"))
        self.assertEqual(self.names(), ["imatrix.gguf"])

    def test_without_the_head(self):
        self.measure(TEXT, "-c", 256, "--no-process-output")
        self.assertEqual([name for name in Gguf(self.file).tensors if not name.startswith("blk.")], [])
        self.quantize("Q4_0")
        plain = Gguf(self.out).tensors
        self.assertEqual(self.quantize("Q4_0", "--imatrix", self.file)["imatrix"], {"file": str(self.file), "named": 42, "unnamed": 1})
        self.assertEqual(Gguf(self.out).tensors["token_embd.weight"], plain["token_embd.weight"])

    def test_threads_do_not_show(self):
        files = []
        for threads in (1, 2, 3):
            self.measure("-f", TEXT, "-c", 100, "-t", threads, "--force", model=DRAFT)
            files.append(self.file.read_bytes())
        self.assertEqual((files[0], files[0]), (files[1], files[2]))

    def test_refusals(self):
        short = self.folder / "short.txt"
        short.write_text("Once upon a time")
        self.assertIn("give texts", self.measure(code=2)[1])
        self.assertIn("-t/--threads: 1000", self.measure(TEXT, "-t", 1000, code=2)[1])
        self.assertRegex(self.measure(TEXT, short, code=1)[1], r"short.txt has \d tokens, which are no chunk of 512")
        self.assertIn("513 tokens are more than the model's context of 512", self.measure(TEXT, "-c", 513, code=1)[1])
        self.assertIn("/absent", self.measure("/absent", code=1)[1])
        self.assertIn("/absent", self.measure(TEXT, model="/absent", code=1)[1])
        self.assertIn("is the file that is read", outrider("model", "imatrix", "-m", TARGET, TEXT, "-o", TARGET, "--force", code=1)[1])
        self.assertEqual(self.names(), ["short.txt"])
        self.file.write_text("mine")
        self.assertIn("--force", self.measure(TEXT, code=1)[1])
        self.assertEqual(self.file.read_text(), "mine")

    def test_a_place_that_cannot_be_written_is_found_at_once(self):
        """Before texts are read: /absent is not yet missed."""
        (self.folder / "file").touch()
        for place in (self.folder / "absent/imatrix.gguf", self.folder / "file/imatrix.gguf", Path("/proc/imatrix.gguf")):
            _, error = outrider("model", "imatrix", "-m", TARGET, "/absent", "-o", place, code=1)
            self.assertIn(f"cannot write {place}: ", error)
            self.assertIn("name a place in a folder that is there and may be written to", error)
        self.assertIn("/absent", outrider("model", "imatrix", "-m", TARGET, "/absent", "-o", self.file, code=1)[1])
        self.assertEqual(self.names(), ["file"])

    def test_an_interruption_leaves_the_old_file(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        self.file.write_text("mine")
        with Background("model", "imatrix", "-m", TARGET, pipe, "-o", self.file, "--force") as command:
            with open(pipe, "wb"):  # waits until the command reads: it counts signals by then
                command.process.send_signal(signal.SIGINT)
            code, _, error = command.end()
        self.assertEqual(code, 130, error)
        self.assertIn("interrupted; nothing was written", error)
        self.assertEqual((self.names(), self.file.read_text()), (["imatrix.gguf", "pipe"], "mine"))


class Weigh(Files):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.measured = Path(folder.name) / "measured.gguf"
        outrider("model", "imatrix", "-m", TARGET, "-o", cls.measured, TEXT, "-c", 128)

    def setUp(self):
        super().setUp()
        self.file = self.measured

    def test_types_change_and_the_report_says_so(self):
        for kind in TYPES:
            with self.subTest(type=kind):
                plain = self.quantize(kind)
                before = Gguf(self.out)
                report = self.quantize(kind, "--imatrix", self.file)
                after = Gguf(self.out)
                self.assertEqual(report["imatrix"], {"file": str(self.file), "named": 43, "unnamed": 0})
                self.assertNotIn("imatrix", plain)
                self.assertNotEqual(before.tensors["blk.2.ffn_down.weight"], after.tensors["blk.2.ffn_down.weight"])
                self.assertGreaterEqual(report["relative_rms_error"], 0.999 * plain["relative_rms_error"])

    def test_what_the_file_says_of_itself(self):
        chunks = Gguf(self.file).metadata["imatrix.chunk_count"]
        out, _ = outrider("model", "quantize", TARGET, self.out, "Q4_K", "--imatrix", self.file)
        self.assertIn(f"errors of 43 matrices count by the importance in {self.file}; 0 are not in it", out.decode())
        metadata = dict(json.loads(outrider("model", "inspect", self.out, "--json")[0])["metadata"])
        self.assertEqual({key: value for key, value in metadata.items() if key.startswith("quantize.")},
                         {"quantize.imatrix.file": str(self.file), "quantize.imatrix.dataset": str(TEXT), "quantize.imatrix.entries_count": "43",
                          "quantize.imatrix.chunks_count": str(chunks)})
        self.assertIn("quantize.imatrix.entries_count", outrider("model", "inspect", self.out)[0].decode())

    def test_what_an_earlier_file_said_is_not_said_again(self):
        """The older form may end behind its entries: then neither chunks nor data set are known."""
        old, again = self.folder / "imatrix.dat", self.folder / "again.gguf"
        whole, dataset = legacy(Gguf(self.file), 4), Gguf(self.file).metadata["imatrix.datasets"][0].encode()
        old.write_bytes(whole[:-8 - len(dataset)])
        self.quantize("Q8_0", "--imatrix", self.file)
        for words, said in (((), {}), (("--imatrix", old), {"quantize.imatrix.file": str(old), "quantize.imatrix.entries_count": 43})):
            outrider("model", "quantize", self.out, again, "Q4_0", "--allow-requantize", "--force", *words)
            metadata = Gguf(again).metadata
            self.assertEqual({key: value for key, value in metadata.items() if key.startswith("quantize.")}, said)

    def test_both_forms_are_the_same(self):
        old = self.folder / "imatrix.dat"
        old.write_bytes(legacy(Gguf(self.file), 4))
        for kind in ("Q2_K", "Q4_0"):
            self.quantize(kind, "--imatrix", self.file)
            new = Gguf(self.out)
            self.quantize(kind, "--imatrix", old)
            self.assertEqual(Gguf(self.out).tensors, new.tensors)
            self.assertEqual(Gguf(self.out).metadata["quantize.imatrix.dataset"], new.metadata["quantize.imatrix.dataset"])

    def test_threads_do_not_show(self):
        files = []
        for threads in (1, 3):
            self.quantize("Q3_K", "--imatrix", self.file, "-t", threads)
            files.append(self.out.read_bytes())
        self.assertEqual(files[0], files[1])

    def test_refusals(self):
        quantize = ("model", "quantize", TARGET, self.out, "Q4_K", "--imatrix")
        other = self.folder / "other.gguf"
        outrider("model", "imatrix", "-m", DRAFT, TEXT, "-c", 128, "-o", other, "-t", 1)
        self.assertRegex(outrider(*quantize, other, code=1)[1], "128 values for tensor token_embd.weight, which has 256 inputs: .* another model")
        self.assertIn("general.type is not imatrix", outrider(*quantize, DRAFT, code=1)[1])
        self.assertIn("is no importance matrix", outrider(*quantize, TEXT, code=1)[1])
        self.assertIn("/absent", outrider(*quantize, "/absent", code=1)[1])
        self.assertIn("nothing is quantised here", outrider("model", "quantize", TARGET, self.out, "F16", "--imatrix", self.file, code=1)[1])
        cut = self.folder / "cut.dat"
        whole = legacy(Gguf(self.file), 1)
        cut.write_bytes(whole[:len(whole) // 2])
        self.assertRegex(outrider(*quantize, cut, code=1)[1], r"cut.dat ends within entry \d+")
        self.assertFalse(self.out.exists())


if __name__ == "__main__":
    unittest.main()
