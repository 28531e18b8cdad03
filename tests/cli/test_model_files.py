"""Goal: `model quantize` and `model inflate` write files that work: as near to the original as their type allows, or the very same function; and
nothing where they fail.
Method: every type, looked into and made to write a text; inflated models against what they were made of; every refusal with its sentence."""
import json
import re
import resource
import signal
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

from cli import BIN, DRAFT, ROOT, TARGET, Background, generate, of_rest, outrider, share, wait_until

# Root mean square of the error, of the weights'; twice what gaussian weights cost is another encoder.
ERROR_MAX = {"F32": 0, "F16": 0, "BF16": 0.0018, "Q8_0": 0.0055, "Q4_0": 0.09, "IQ4_NL": 0.08, "Q5_0": 0.045, "Q4_1": 0.077, "Q5_1": 0.038,
             "Q4_K": 0.077, "Q5_K": 0.038, "Q2_K": 0.28, "Q3_K": 0.155, "Q6_K": 0.019, "IQ4_XS": 0.08, "MXFP4": 0.13}
EXACT = ("F32", "F16")
# The types that rows of 128, which are half a super-block, become.
INSTEAD = {"Q2_K": "IQ4_NL", "Q3_K": "IQ4_NL", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0", "IQ4_XS": "IQ4_NL"}
QWEN2 = ROOT / "tests/model/data/qwen2-bf16.gguf"
LLAMA3 = ROOT / "tests/model/data/llama3-bf16.gguf"  # its head is a tensor of its own, the others' is the embedding


def text_of(model, tokens=16):
    return generate("--plain", "-m", model, "-p", "Once upon a time", "-n", tokens, "--temp", "0")["tokens"]


def split(model, folder):
    """Split the model in two files: all metadata, all tensors. Return the first one's path."""
    bytes_of, at = model.read_bytes(), 24
    tensors, entries = struct.unpack_from("<QQ", bytes_of, 8)

    def skip_string(at):
        return at + 8 + struct.unpack_from("<Q", bytes_of, at)[0]

    def skip_value(kind, at):
        if kind == 8:
            return skip_string(at)
        if kind == 9:
            kind, count = struct.unpack_from("<IQ", bytes_of, at)
            at += 12
            for _ in range(count):
                at = skip_value(kind, at)
            return at
        return at + {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1}.get(kind, 8)

    for _ in range(entries):
        at = skip_string(at)
        at = skip_value(struct.unpack_from("<I", bytes_of, at)[0], at + 4)
    table = at
    for _ in range(tensors):
        at = skip_string(at)
        at += 4 + 8 * struct.unpack_from("<I", bytes_of, at)[0] + 4 + 8

    def part(number, tensor_count, metadata, table, data):
        marks = b"".join(struct.pack("<Q", len(key)) + key + struct.pack("<II", 4, value) for key, value in
                         ((b"split.no", number), (b"split.count", 2), (b"split.tensors.count", tensors)))
        head = b"GGUF" + struct.pack("<IQQ", 3, tensor_count, 3 + (entries if metadata else 0)) + metadata + marks + table
        path = folder / f"part-{number + 1:05}-of-00002.gguf"
        path.write_bytes(head + bytes(-len(head) % 32) + data)
        return path

    part(1, tensors, b"", bytes_of[table:at], bytes_of[at + -at % 32:])
    return part(0, 0, bytes_of[24:table], b"", b"")


def look(model):
    facts = json.loads(outrider("model", "inspect", model, "--json")[0])
    return facts, dict(facts["metadata"]), {tensor["name"]: tensor["type"] for tensor in facts["tensors"]}


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "out.gguf"

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())


class Quantize(Files):
    def quantize(self, source, *words):
        return json.loads(outrider("model", "quantize", source, self.out, *words, "--json")[0])

    def test_every_type_of_the_target(self):
        original = text_of(TARGET)
        for name, most in share(ERROR_MAX.items(), 4):
            with self.subTest(type=name):
                report = self.quantize(TARGET, name.lower(), "--force")
                self.assertLessEqual(report["relative_rms_error"], most)
                self.assertEqual(report["bytes_after"], self.out.stat().st_size)
                _, metadata, types = look(self.out)
                self.assertEqual(metadata["general.quantization_version"], "2")
                self.assertEqual({types["token_embd.weight"], types["blk.5.ffn_down.weight"]}, {name})
                self.assertEqual(types["blk.0.attn_norm.weight"], "F32")
                tokens = text_of(self.out)
                self.assertEqual(len(tokens), 16)
                if name in EXACT:
                    self.assertEqual(tokens, original)

    def test_rows_that_are_no_super_blocks(self):
        for name, instead in share(INSTEAD.items(), 3):
            self.quantize(DRAFT, name, "--force")
            _, _, types = look(self.out)
            self.assertEqual({types["token_embd.weight"], types["blk.1.ffn_down.weight"]}, {instead})
        self.assertEqual(len(text_of(self.out)), 16)

    def test_the_table(self):
        out, error = outrider("model", "quantize", DRAFT, self.out, "Q4_K", "-t", 1)
        self.assertIn("F16 -> Q5_0", out.decode())
        self.assertIn("rows of 128 are no whole blocks of Q4_K", out.decode())
        self.assertIn("all matrices: rms error 0.04", out.decode())
        self.assertEqual(error, "")

    def test_other_types_for_both_ends(self):
        self.quantize(TARGET, "Q4_0", "--token-embedding-type", "q8_0")
        _, metadata, types = look(self.out)
        self.assertEqual((types["token_embd.weight"], types["blk.0.attn_q.weight"]), ("Q8_0", "Q4_0"))
        self.assertEqual(metadata["general.file_type"], "2")
        for model, head in ((TARGET, "token_embd.weight"), (LLAMA3, "output.weight")):
            self.quantize(model, "Q8_0", "--output-tensor-type", "F32", "--force")
            types = look(self.out)[2]
            self.assertEqual((types[head], types["blk.0.attn_q.weight"]), ("F32", "Q8_0"))

    def test_quantised_weights_are_quantised_again_only_on_request(self):
        self.quantize(DRAFT, "Q4_0")
        again = self.folder / "again.gguf"
        self.assertIn("--allow-requantize", outrider("model", "quantize", self.out, again, "Q8_0", code=1)[1])
        outrider("model", "quantize", self.out, again, "Q8_0", "--allow-requantize")
        same = self.folder / "same.gguf"
        outrider("model", "quantize", self.out, same, "Q4_0")
        self.assertEqual(same.read_bytes(), self.out.read_bytes())

    def test_a_model_in_parts(self):
        outrider("model", "quantize", DRAFT, self.out, "Q8_0")
        whole = self.folder / "whole.gguf"
        outrider("model", "quantize", split(DRAFT, self.folder), whole, "Q8_0")
        self.assertEqual(whole.read_bytes(), self.out.read_bytes())

    def test_no_part_is_written_over(self):
        first = split(DRAFT, self.folder)
        before = {path: path.read_bytes() for path in self.folder.iterdir()}
        second = self.folder / "part-00002-of-00002.gguf"
        link = self.folder / "link.gguf"
        link.hardlink_to(second)
        force = ("Q8_0", "--force")
        for out, said in ((first, "one part of several"), (second, "one part of several"), (link, "is the file that is read"),
                          (self.folder / "x-00001-of-00003.gguf", "one part of several")):
            self.assertIn(said, outrider("model", "quantize", first, out, *force, code=1)[1])
            self.assertIn(said, outrider("model", "inflate", first, out, "5M", "--force", code=1)[1])
        self.assertEqual({path: path.read_bytes() for path in self.folder.iterdir() if path != link}, before)

    def test_a_limit_on_files_leaves_nothing(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
        for words in (("quantize", TARGET, self.out, "Q8_0"), ("inflate", DRAFT, self.out, "5M")):
            done = subprocess.run([BIN / "outrider", "model", *words], stderr=subprocess.PIPE, preexec_fn=limit, text=True)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("ulimit -f", done.stderr)
            self.assertEqual(self.names(), [])

    def test_weights_that_are_no_numbers(self):
        broken = bytearray(DRAFT.read_bytes())
        middle = len(broken) // 64 * 32
        broken[middle:middle + 2] = b"\x00\x7e"  # a NaN as a half, in the embedding
        source = self.folder / "broken.gguf"
        source.write_bytes(broken)
        self.assertRegex(outrider("model", "quantize", source, self.out, "Q8_0", code=1)[1], r"row \d+ of tensor token_embd.weight has a weight")
        self.assertEqual(self.names(), ["broken.gguf"])

    def test_refusals(self):
        quantize = ("model", "quantize")
        self.assertIn("IN, OUT and TYPE", outrider(*quantize, TARGET, code=2)[1])
        self.assertIn("threads are -t", outrider(*quantize, TARGET, self.out, "Q8_0", 8, code=2)[1])
        self.assertIn("-t/--threads: 1000", outrider(*quantize, TARGET, self.out, "Q8_0", "-t", 1000, code=2)[1])
        self.assertRegex(outrider(*quantize, TARGET, self.out, "Q4_K_M", code=2)[1], "IQ4_XS MXFP4; mixtures .* say Q4_K")
        self.assertIn("--token-embedding-type", outrider(*quantize, TARGET, self.out, "Q8_0", "--token-embedding-type", "Q9", code=2)[1])
        self.assertIn("is the file that is read", outrider(*quantize, TARGET, TARGET, "Q8_0", "--force", code=1)[1])
        self.assertIn("no regular file", outrider(*quantize, TARGET, "/dev/null", "Q8_0", "--force", code=1)[1])
        self.assertIn("cannot write /nowhere/x.gguf:", outrider(*quantize, TARGET, "/nowhere/x.gguf", "Q8_0", code=1)[1])
        self.assertIn("/absent", outrider(*quantize, "/absent", self.out, "Q8_0", code=1)[1])
        self.out.write_text("mine")
        self.assertIn("--force", outrider(*quantize, TARGET, self.out, "Q8_0", code=1)[1])
        self.assertEqual((self.names(), self.out.read_text()), (["out.gguf"], "mine"))

    def test_an_interruption_leaves_the_old_file(self):
        big = self.folder / "big.gguf"
        outrider("model", "inflate", TARGET, big, "100M")
        self.out.write_text("mine")
        for number in (signal.SIGINT, signal.SIGHUP):
            with Background("model", "quantize", big, self.out, "Q3_K", "--force", "-t", 1) as command:
                wait_until(lambda: any(name.endswith(".tmp") for name in self.names()), "the file grows")
                command.process.send_signal(number)
                code, _, error = command.end()
                self.assertEqual(code, 130, error)
            self.assertEqual((self.names(), self.out.read_text()), (["big.gguf", "out.gguf"], "mine"))


class Inflate(Files):
    def inflate(self, source, *words):
        return json.loads(outrider("model", "inflate", source, self.out, *words, "--json")[0])

    def test_the_same_function(self):
        report = self.inflate(TARGET, "25M", "--layers", 7)
        self.assertEqual((report["layers"], report["old_layers"], report["old_ffn"]), (7, 6, 768))
        self.assertEqual(report["identical_tokens"], 256)
        facts, metadata, _ = look(self.out)
        self.assertEqual(facts["parameters"], report["parameters"])
        self.assertAlmostEqual(report["parameters"], 25e6, delta=2.5e6)
        self.assertEqual(metadata["general.name"], "tales-6m inflated to 25M")
        self.assertEqual(metadata["llama.block_count"], "7")
        self.assertEqual(metadata["outrider.inflated.from"], "tales-6m")
        self.assertEqual(text_of(self.out, 32), text_of(TARGET, 32))
        self.assertEqual(self.names(), ["out.gguf"])

    @of_rest
    def test_the_same_function_in_other_types(self):
        for name in ("Q8_0", "Q4_K", "Q3_K"):
            self.assertEqual(self.inflate(DRAFT, "5M", "--layers", 3, "--type", name, "--force")["identical_tokens"], 256)
        self.assertEqual(self.inflate(TARGET, "21M", "--type", "Q2_K", "--force")["identical_tokens"], 256)
        self.assertEqual(self.names(), ["out.gguf"])

    def test_a_type_that_is_only_read(self):
        outrider("model", "quantize", TARGET, self.out, "Q3_K")
        source = self.folder / "iq3.gguf"
        q3_k, iq3_s = struct.pack("<I", 11), struct.pack("<I", 21)  # units of as many bytes
        data = re.sub(rb"(blk\.\d\.ffn_down\.weight\x02\0\0\0.{16})" + re.escape(q3_k), rb"\g<1>" + iq3_s, self.out.read_bytes(), flags=re.DOTALL)
        source.write_bytes(data)
        self.assertEqual(look(source)[2]["blk.0.ffn_down.weight"], "IQ3_S")
        words = ("model", "inflate", source, self.folder / "big.gguf", "25M")
        self.assertIn("ffn_down.weight of", outrider(*words, code=1)[1])
        self.assertRegex(outrider(*words, code=1)[1], "IQ3_S, which is read, not written; say --type")
        self.assertEqual(self.names(), ["iq3.gguf", "out.gguf"])

    def test_other_architectures(self):
        report = self.inflate(QWEN2, "2M")
        self.assertEqual((report["old_layers"], report["identical_tokens"]), (2, 256))
        self.assertGreater(report["layers"], 2)

    def test_a_seed_is_a_file(self):
        files = []
        for seed in (1, 1, 2):
            self.inflate(QWEN2, "2M", "--seed", seed, "--force")
            files.append(self.out.read_bytes())
        self.assertEqual(files[0], files[1])
        self.assertNotEqual(files[0], files[2])

    def test_refusals(self):
        inflate = ("model", "inflate")
        self.assertIn("IN, OUT and SIZE", outrider(*inflate, TARGET, self.out, code=2)[1])
        for size in ("300", "0M", "manyM", "-5M", "1e9B"):
            self.assertIn("300M or 1.2B", outrider(*inflate, "--", TARGET, self.out, size, code=2)[1])
        self.assertIn("the nearest has", outrider(*inflate, TARGET, self.out, "7M", code=1)[1])
        self.assertIn("--layers", outrider(*inflate, TARGET, self.out, "300M", "--layers", 2, code=1)[1])
        self.assertIn("--type", outrider(*inflate, TARGET, self.out, "300M", "--type", "Q9", code=2)[1])
        self.assertEqual(self.names(), [])

    def test_the_old_file_stays_until_the_new_one_is_verified(self):
        self.out.write_text("mine")
        with Background("model", "inflate", TARGET, self.out, "100M", "--type", "Q8_0", "--force") as command:
            wait_until(lambda: any(".original" in name for name in self.names()), "the new file is verified")
            command.process.send_signal(signal.SIGINT)
            code, _, error = command.end()
            self.assertEqual(code, 130, error)
        self.assertEqual((self.names(), self.out.read_text()), (["out.gguf"], "mine"))

    def test_an_interruption_leaves_nothing(self):
        with Background("model", "inflate", TARGET, self.out, "1B") as command:
            wait_until(lambda: any(path.stat().st_size for path in self.folder.iterdir()), "the file grows")
            command.process.send_signal(signal.SIGINT)
            code, _, error = command.end()
            self.assertEqual(code, 130, error)
        self.assertEqual(self.names(), [])


if __name__ == "__main__":
    unittest.main()
