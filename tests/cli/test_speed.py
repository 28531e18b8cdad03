"""Goal: `bench step`, `bench kernels` and `model inspect --kernels` say what they measured in the form they promise, and refuse nonsense.
Method: short runs on the demonstration models; figures are checked against each other, never against a clock."""
import json
import subprocess
import tempfile
import unittest
from pathlib import Path

from cli import BIN, DRAFT, PATIENCE, TARGET, of_rest, outrider

STEP = ["--context", 16, "--repeat", 3, "-t", 2, "-m", DRAFT]
LINE = {"kernel", "type", "rows", "inputs", "outputs", "from", "threads", "us", "bytes_per_s", "read_share", "flops_per_s", "peak", "peak_share",
        "roof_flops_per_s", "roof_share"}


class Step(unittest.TestCase):
    def step(self, *words):
        out, error = outrider("bench", "step", "--json", *STEP, *words)
        self.assertEqual((out.count(b"\n"), error), (1, ""))
        return json.loads(out)

    def test_the_array(self):
        lines = self.step("--rows", "1,3,16")
        self.assertEqual([(line["pass"], line["rows"]) for line in lines], [("tree", 1), ("tree", 3), ("tree", 16)])
        weights = [line["bytes_per_s"] * line["ms"] / 1e3 for line in lines]
        for line, weight in zip(lines, weights):
            self.assertTrue(0 < line["best_ms"] <= line["ms"])
            self.assertAlmostEqual(line["plain_steps"], line["ms"] / lines[0]["ms"], places=5)
            self.assertAlmostEqual(weight / weights[0], 1, places=5)
            self.assertIsNone(line["read_share"])  # these weights stay in the last cache
        self.assertTrue(1e6 < weights[0] < 4e6, weights)  # a million weights, two bytes each, the embedding and its padding

    def test_batches_and_prefill(self):
        lines = self.step("--rows", "2", "--sessions", "1,5", "--prefill", "40,500")
        self.assertEqual([(line["pass"], line["rows"]) for line in lines],
                         [("tree", 2), ("sessions", 1), ("sessions", 5), ("prefill", 40), ("prefill", 500)])
        self.assertTrue(all(line["plain_steps"] is None for line in lines))  # nobody asked for rows 1

    def test_the_table(self):
        lines = outrider("bench", "step", *STEP, "--rows", "1,64", "--cpu-range", "0", "--poll", 0)[0].decode().splitlines()
        self.assertRegex(lines[0], r"M parameters, .* MB of weights, kernels \w+, 2 threads, medians of 3$")
        self.assertEqual([line.split()[:2] for line in lines[2:]], [["pass", "rows"], ["tree", "1"], ["tree", "64"]])
        self.assertTrue(lines[3].endswith(" 1.00"))

    @of_rest
    def test_the_memory_is_read_where_the_weights_are_in_no_cache(self):
        said = subprocess.run(["getconf", "LEVEL3_CACHE_SIZE"], stdout=subprocess.PIPE, check=True).stdout
        cache = max(int(said or 0), 32 << 20)
        layers = 2 + cache // 1_900_000  # as many bytes has each
        with tempfile.TemporaryDirectory() as folder:
            big = Path(folder) / "big.gguf"
            shape = ("--type", "Q8_0", "--width", "512", "--heads", "8", "--kv-heads", "8", "--ffn", "512", "--layers", str(layers))
            subprocess.run([BIN / "random-model", "--like", TARGET, *shape, big], check=True, timeout=PATIENCE)
            words = ("bench", "step", "-m", big, "--rows", "1,2", "--repeat", 3, "--context", 2)
            for line in json.loads(outrider(*words, "--json")[0]):
                self.assertTrue(0 < line["read_share"] < 50, line)
            lines = outrider(*words)[0].decode().splitlines()
        self.assertRegex(lines[0], r"medians of 3; read [0-9.]+ GB/s in all$")
        self.assertRegex(lines[3], r"^tree +1 .*[0-9]% +1\.00$")

    def test_all_kernels_are_timed(self):
        for table in json.loads(outrider("model", "inspect", "--kernels", "--json")[0])["tables"]:
            if table["runs_here"]:
                head = outrider("bench", "step", *STEP, "--rows", 1, OUTRIDER_KERNELS=table["name"])[0].splitlines()[0]
                self.assertIn(f"kernels {table['name']},".encode(), head)

    def test_what_is_refused(self):
        for words, name in ((["--rows", "0"], "--rows"), (["--rows", "1,x"], "--rows"), (["--rows", "1025"], "1 to 1024"), (["--rows", ""], "--rows"),
                            (["--sessions", "257"], "--sessions"), (["--prefill", "-1"], "--prefill"), (["--context", 0], "--context"),
                            (["--repeat", 0], "--repeat"), (["--cpu-range", "0-9999"], "--cpu-range"), (["--row", "1"], "--rows"),
                            (["-t", 1000], "-t/--threads: 1000"), (["-ctk", "f8"], "-ctk/--cache-type-k"), (["-ctv", "q4_0"], "--cache-type-v")):
            self.assertIn(name, outrider("bench", "step", "-m", DRAFT, *words, code=2)[1])
        outrider("bench", "step", *STEP, "--rows", 1, "--cpu-range", "")  # as none
        outrider("bench", "step", *STEP, "--rows", 1, "-ctk", "q8_0", "-ctv", "auto")
        self.assertIn("context", outrider("bench", "step", "-m", DRAFT, "--prefill", 5000, code=1)[1])
        self.assertIn("/absent", outrider("bench", "step", "-m", "/absent", code=1)[1])
        error = outrider("bench", "step", "-m", DRAFT, OUTRIDER_KERNELS="abacus", code=1)[1]
        self.assertIn("OUTRIDER_KERNELS names 'abacus'", error)
        self.assertIn("one of: ref", error)


class Kernels(unittest.TestCase):
    def bench(self, *words, **variables):
        return json.loads(outrider("bench", "kernels", "--json", "--seconds", 0.002, *words, **variables)[0])

    def check(self, found):
        ceilings = found["ceilings"]
        for line in found["lines"]:
            self.assertEqual(set(line), LINE)
            self.assertTrue(line["us"] > 0 and line["threads"] == (found["threads"] if line["from"] == "memory" else 1))
            if line["from"] == "memory":
                self.assertAlmostEqual(line["read_share"], line["bytes_per_s"] / ceilings["read_bytes_per_s"], places=5)
            else:  # a cache's traffic has nothing to do with the memory's
                self.assertIsNone(line["read_share"])
            if line["peak"] is not None:
                peak = ceilings[f"{line['peak']}_flops_per_s"] * line["threads"]
                self.assertAlmostEqual(line["peak_share"], line["flops_per_s"] / peak, places=5)
            if line["peak"] == "dot":
                self.assertAlmostEqual(line["roof_share"], line["flops_per_s"] / (line["roof_flops_per_s"] * line["threads"]), places=5)
                if line["type"] == "Q8_0":
                    self.assertEqual(line["roof_flops_per_s"], ceilings["canonical_roof_flops_per_s"])
            else:
                self.assertIsNone(line["roof_flops_per_s"])
                self.assertIsNone(line["roof_share"])

    def test_a_type(self):
        found = self.bench("--filter", "Q4_K", "-t", 2)
        self.check(found)
        shapes = {(line["inputs"], line["outputs"], line["from"]) for line in found["lines"]}
        self.assertEqual(shapes, {(256, 768, "cache"), (2048, 128, "cache"), (2048, 5632, "memory"), (5632, 2048, "memory")})
        self.assertEqual({line["rows"] for line in found["lines"]}, {1, 4, 16, 64, 512})
        self.assertEqual({(line["kernel"], line["type"], line["peak"]) for line in found["lines"]}, {("matmul_quants", "Q4_K", "dot")})

    def test_vectors(self):
        found = self.bench("--filter", "attention", OUTRIDER_KERNELS="ref")
        self.check(found)
        self.assertEqual(found["kernels"], "ref")
        self.assertEqual({line["kernel"] for line in found["lines"]}, {"attention_scores", "attention_values"})

    def test_the_table(self):
        lines = outrider("bench", "kernels", "--seconds", 0.002, "--filter", "widen")[0].decode().splitlines()
        self.assertRegex(lines[0], r"kernels \w+, \d+ threads?; read [\d.]+ GB/s in all, multiply-add [\d.]+ GFLOP/s, dot [\d.]+ GFLOP/s and "
                         r"canonical roof of Q8_0 [\d.]+ GFLOP/s a thread")
        self.assertEqual({line.split()[0] for line in lines[3:]}, {"widen_f16", "widen_q8_0", "widen_q8_0_keys"})
        self.assertTrue(all(line.split()[7] == "-" for line in lines[3:]), lines)

    def test_what_is_refused(self):
        self.assertIn("Q8_0", outrider("bench", "kernels", "--filter", "Q9_9", code=2)[1])
        self.assertIn("--seconds", outrider("bench", "kernels", "--seconds", 0, code=2)[1])
        self.assertIn("--threads", outrider("bench", "kernels", "-t", 9999, code=2)[1])
        self.assertIn("one of: ref", outrider("bench", "kernels", OUTRIDER_KERNELS="abacus", code=1)[1])


class Inspect(unittest.TestCase):
    def test_both_faces(self):
        facts = json.loads(outrider("model", "inspect", "--kernels", "--json")[0])
        names = [table["name"] for table in facts["tables"]]
        self.assertEqual((names[0], facts["forced"]), ("ref", None))
        self.assertEqual(facts["kernels"], [table["name"] for table in facts["tables"] if table["runs_here"]][-1])
        for name in ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4", "IQ3_S", "IQ3_XXS",
                     "IQ2_S", "IQ2_XS", "IQ2_XXS"):
            self.assertIn(name, facts["weight_types"])
        text = outrider("model", "inspect", "--kernels")[0].decode()
        for word in (*names, *facts["weight_types"], facts["arith_id"], f"in use      {facts['kernels']}"):
            self.assertIn(word, text)

    def test_forced(self):
        self.assertIn(b"ref, as OUTRIDER_KERNELS says", outrider("model", "inspect", "--kernels", OUTRIDER_KERNELS="ref")[0])
        out, error = outrider("model", "inspect", "--kernels", OUTRIDER_KERNELS="abacus", code=1)
        self.assertIn(b"in use      none", out)
        self.assertIn("one of: ref", error)
        self.assertIn("without a file", outrider("model", "inspect", "--kernels", TARGET, code=2)[1])


class Help(unittest.TestCase):
    def test_help(self):
        for words in (["bench", "step"], ["bench", "kernels"]):
            self.assertIn(b"usage: outrider " + " ".join(words).encode(), outrider(*words, "--help")[0])
        self.assertIn(b"kernels (of each kernel)", outrider("bench", "--help")[0])

    def test_what_cannot_be_written_is_an_error(self):
        with open("/dev/full", "wb") as full:
            for words in (["bench", "step", *STEP], ["bench", "kernels", "--filter", "widen", "--seconds", 0.001], ["model", "inspect", "--kernels"]):
                self.assertIn("cannot write to standard output", outrider(*words, stdout=full, code=1)[1])


if __name__ == "__main__":
    unittest.main()
