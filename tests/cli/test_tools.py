"""Goal: the subcommands that need no cluster do what they say, and refuse nonsense with a sentence and exit code 1 or 2.
Method: run them on the demonstration models, the reference and files damaged on purpose."""
import json
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from cli import DRAFT, MODELS, OTHER_VOCABULARY, PATIENCE, REFERENCE, ROOT, TARGET, call, data, outrider, reference


class Command(unittest.TestCase):
    def test_help_and_version(self):
        out, _ = outrider("--help")
        for command in (b"generate", b"up", b"tokenize", b"model"):
            self.assertIn(command, out)
        for words in (["generate"], ["up"], ["bench", "load"], ["tokenize"], ["model", "inspect"], ["model", "compare"],
                      ["model", "eval"]):
            out, error = outrider(*words, "--help")
            self.assertIn(b"usage: outrider " + " ".join(words).encode(), out)
            self.assertEqual(error, "")
            self.assertEqual(outrider("help", *words)[0], out)
            self.assertNotIn(b"(default: )", out)
        self.assertEqual(outrider("help")[0], outrider("--help")[0])
        self.assertIn("'generate'", outrider("help", "genrate", code=2)[1])
        self.assertRegex(outrider("--version")[0].decode(), r"^outrider \d+\.\d+\.\d+ ")

    def test_usage_errors_name_what_is_near(self):
        self.assertIn("'generate'", outrider("genrate", code=2)[1])
        self.assertIn("--temp", outrider("generate", "--tmp", "1", code=2)[1])
        self.assertIn("-n/--predict", outrider("generate", "-p", "x", "-n", "0", code=2)[1])
        self.assertIn("-p TEXT", outrider("generate", code=2)[1])
        self.assertIn("--logit-bias", outrider("generate", "-p", "x", "--logit-bias", "one", code=2)[1])
        self.assertIn("-md", outrider("generate", "-p", "x", "-m", TARGET, "--accept", "sps", code=2)[1])
        self.assertIn("--draft-temp", outrider("generate", "-p", "x", "--draft-temp", "-0.5", code=2)[1])
        self.assertIn("--ctx-size", outrider("generate", "-p", "x", "-c", 1, code=2)[1])
        for command in (["generate", "-p", "x"], ["up"], ["bench"]):
            self.assertIn("--threads-draft: 257 is not between 0 and 256", outrider(*command, "-td", 257, code=2)[1])
        self.assertNotIn("nearest", outrider("generate", "--frobnicate", code=2)[1])
        self.assertNotIn("nearest", outrider("frobnicate", code=2)[1])
        self.assertIn("generate -p TEXT", outrider("generate", "Once upon a time", code=2)[1])
        outrider("generate", "-p", "x", "--accept", "greedy", "--temp", "1", code=2)
        outrider(code=2)

    def test_the_roles_name_the_range(self):
        for program in ("outrider-drafter", "outrider-verifier"):
            for words in (["--draft-nodes-max", 0], ["--draft-nodes-max", 1025], ["-c", 1], ["-t", 257]):
                self.assertIn(words[0], call(program, "-m", "x", "--connect", "tcp://127.0.0.1:1", *words, code=2)[1])

    def test_one_prompt(self):
        """One place may give the prompt in one way only, and a stronger place silences a weaker one."""
        self.assertIn("not both", outrider("generate", "-p", "x", "-f", "y", code=2)[1])
        self.assertIn("/nowhere", outrider("generate", OUTRIDER_FILE="/nowhere", code=1)[1])
        words = ["generate", "-p", "x", "-m", "/absent", "--plain"]
        self.assertIn("/absent", outrider(*words, OUTRIDER_FILE="/nowhere", code=1)[1])

    def test_config_file(self):
        self.assertNotIn("line", outrider("generate", "--config", "/nowhere/at/all", code=2)[1])
        self.assertIn("a folder", outrider("generate", "--config", "/", code=2)[1])
        with tempfile.NamedTemporaryFile("w") as file:
            file.write('{"n": 3}')
            file.flush()
            self.assertIn("'predict'", outrider("generate", "--config", file.name, code=2)[1])

    def test_what_cannot_be_written_is_an_error(self):
        with open("/dev/full", "wb") as full:
            for program, *words in (("outrider", "--help"), ("outrider", "--version"), ("outrider", "generate", "--help"),
                                    ("outrider", "model", "inspect"), ("outrider", "model", "inspect", "--json"),
                                    ("outrider", "model", "eval", "--ids", "1"), ("outrider", "model", "compare", TARGET, DRAFT),
                                    ("outrider", "model", "compare", TARGET, DRAFT, "--json"), ("outrider-coordinator", "--help"),
                                    ("outrider-verifier", "--version"), ("outrider-drafter", "--version")):
                _, error = call(program, *words, stdout=full, code=1)
                self.assertIn("cannot write to standard output", error, words)


    def test_a_bench_that_cannot_write_says_so_first(self):
        for words in (["--csv", "/nowhere/x.csv"], ["--plots", "/nowhere/plots"], ["--plots", TARGET]):
            out, error = outrider("bench", *words, code=1)
            self.assertEqual(out, b"")
            self.assertIn(f"{words[0]}: cannot ", error)


class Tokenize(unittest.TestCase):
    def ids(self, text, *words):
        out, _ = outrider("tokenize", *words, stdin=text)
        self.assertTrue(out.endswith(b"\n") and out.count(b"\n") == 1)
        return [int(word) for word in out.split()]

    def test_prompts_of_the_reference(self):
        for prompt in reference():
            self.assertEqual(self.ids(prompt["text"].encode(), "--bos"), prompt["ids"])

    def test_any_bytes_come_back(self):
        for text in (b"", b"a", b" two  spaces ", b"line\nline\n", "häßlich 深夜 🙂".encode(), bytes(range(256)), b"<s></s>"):
            ids = self.ids(text)
            out, _ = outrider("tokenize", "--decode", stdin=" ".join(map(str, ids)).encode())
            self.assertEqual(out, text)

    def test_special_tokens_are_text_unless_allowed(self):
        self.assertNotIn(2, self.ids(b"</s>"))
        self.assertIn(2, self.ids(b"</s>", "--special"))

    def test_vocabulary_of_another_project(self):
        path = data("vocab/llama-spm.gguf")
        self.assertEqual(self.ids(b"Hello world", "-m", path), [15043, 3186])

    def test_bad_ids_are_refused(self):
        for text in (b"1 x", b"4096", b"-1", b"99999999999", b"1.5"):
            self.assertIn("token id", outrider("tokenize", "--decode", stdin=text, code=1)[1])


class Inspect(unittest.TestCase):
    def test_both_faces(self):
        text = outrider("model", "inspect", TARGET)[0].decode()
        for word in ("llama.context_length", "token_embd.weight", "F16", "256 x 4096", "4096 tokens"):
            self.assertIn(word, text)
        facts = json.loads(outrider("model", "inspect", "--json", TARGET)[0])
        self.assertEqual(facts["vocabulary"]["size"], 4096)
        self.assertIn({"name": "token_embd.weight", "type": "F16", "shape": [256, 4096]}, facts["tensors"])
        self.assertIn(["llama.block_count", "6"], facts["metadata"])

    def test_a_pair_shares_its_content_hash(self):
        hashes = {json.loads(outrider("model", "inspect", "--json", path)[0])["vocabulary"]["hash"] for path in (TARGET, DRAFT)}
        self.assertEqual(len(hashes), 1)

    def test_paths_have_no_dots(self):
        self.assertNotIn(b"..", outrider("model", "inspect", OUTRIDER_MODELS=f"{MODELS}/../models")[0].splitlines()[0])

    def test_files_that_are_no_model(self):
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder, "text.gguf")
            text.write_text("Once upon a time\n" * 100)
            self.assertIn("GGUF", outrider("model", "inspect", text, code=1)[1])
            short = Path(folder, "short.gguf")
            whole = TARGET.read_bytes()
            for size in (0, 3, 20, 1000, 100000, len(whole) - 1):
                short.write_bytes(whole[:size])
                self.assertIn("short.gguf", outrider("model", "inspect", short, code=1)[1])
        self.assertIn("/nowhere", outrider("model", "inspect", "/nowhere/model.gguf", code=1)[1])


class Compare(unittest.TestCase):
    def facts(self, *words, **settings):
        out, _ = outrider("model", "compare", "--json", *words, **settings)
        self.assertEqual(out.count(b"\n"), 1)
        return json.loads(out)

    def test_another_vocabulary(self):
        facts = self.facts(TARGET, OTHER_VOCABULARY)
        self.assertEqual((facts["same"], facts["bijective"]), (False, False))
        self.assertEqual((facts["target"]["size"], facts["draft"]["size"]), (4096, 1024))
        self.assertEqual((facts["target"]["tokenizer"], facts["draft"]["tokenizer"]), ("llama", "gpt2"))
        self.assertTrue(facts["target"]["injective"] and facts["draft"]["injective"])
        self.assertAlmostEqual(facts["shared"]["of_target"], facts["shared"]["tokens"] / 4096, 4)
        self.assertEqual([choice["temp"] for choice in facts["choices"]], [0, 1])
        for choice in facts["choices"]:
            self.assertIn(choice["vocab_map"], ("tli", "slem"))
            self.assertIn(str(facts["shared"]["tokens"]), choice["why"])
        text = outrider("model", "compare", TARGET, OTHER_VOCABULARY)[0].decode()
        for word in ("4096 tokens", "1024 tokens", facts["target"]["hash"], facts["draft"]["hash"], "same    no",
                     f"{facts['shared']['tokens']} tokens", f"--vocab-map {facts['choices'][0]['vocab_map']}"):
            self.assertIn(word, text)

    def test_the_same_vocabulary(self):
        facts = self.facts(TARGET, DRAFT)
        self.assertEqual(facts["target"]["hash"], facts["draft"]["hash"])
        self.assertTrue(facts["same"] and facts["bijective"])
        self.assertEqual({choice["vocab_map"] for choice in facts["choices"]}, {"same"})
        self.assertEqual((facts["shared"]["of_target"], facts["shared"]["of_bytes"]), (1, 1))

    def test_padding_is_named(self):
        facts = self.facts(data("vocab/llama-bpe.gguf"), data("vocab/qwen2.gguf"))
        self.assertEqual((facts["draft"]["unpadded"], facts["draft"]["size"]), (151646, 151936))
        self.assertEqual((facts["target"]["unpadded"], facts["target"]["size"]), (128256, 128256))
        self.assertLess(facts["load_s"] + facts["compare_s"], 60)

    def test_a_text_of_ones_own(self):
        for words, stdin in ((["-f", "-"], b"Once upon a time"), (["-f", __file__], b"")):
            facts = self.facts(TARGET, OTHER_VOCABULARY, *words, stdin=stdin)
            self.assertEqual(facts["text_bytes"], len(stdin) or Path(__file__).stat().st_size)
            self.assertGreater(facts["draft"]["tokens"], 0)
        once = self.facts(TARGET, OTHER_VOCABULARY, "-f", "-", stdin=b"Once upon a time")
        self.assertLess(once["target"]["tokens"], 16)
        self.assertTrue(0 < once["shared"]["of_bytes"] <= 1)

    def test_nonsense_is_refused(self):
        for words in ([], [TARGET], [TARGET, DRAFT, DRAFT]):
            self.assertIn("two files", outrider("model", "compare", *words, code=2)[1])
        self.assertIn("/nowhere", outrider("model", "compare", TARGET, "/nowhere", code=1)[1])
        self.assertIn("not a GGUF file", outrider("model", "compare", __file__, DRAFT, code=1)[1])
        self.assertIn("/nowhere", outrider("model", "compare", TARGET, DRAFT, "-f", "/nowhere", code=1)[1])
        self.assertIn("is empty", outrider("model", "compare", TARGET, DRAFT, "-f", "-", code=1)[1])
        self.assertIn("compare", outrider("model", "compar", code=2)[1])


class Eval(unittest.TestCase):
    TOLERANCE = 1e-3

    def rows(self, *words):
        return json.loads(outrider("model", "eval", "--json", *words)[0])["rows"]

    def assert_logits(self, row, expected):
        logits = dict(row["logits"])
        for token, logit in expected:
            self.assertAlmostEqual(logits[token], logit, delta=self.TOLERANCE)

    def check_reference(self, name, path):
        prompt = reference(name)[0]
        ids = prompt["ids"] + prompt["greedy"][:32]
        rows = self.rows("-m", path, "--ids", ",".join(map(str, ids)), "--top", 0)
        for step, expected in prompt["top8"].items():
            self.assert_logits(rows[len(prompt["ids"]) - 1 + int(step)], expected)

    def test_logits_of_the_reference(self):
        for path in (TARGET, DRAFT):
            self.check_reference(path.stem, path)

    def test_logits_of_other_models_of_the_reference(self):
        for name in ("tales-6m-f32", "tales-1m-f32", "stories260K-f32"):
            self.check_reference(name, data(f"models/{name}.gguf"))

    def test_tree_of_the_reference_in_both_spellings(self):
        tree = json.loads(REFERENCE.read_text())["trees"][TARGET.stem]
        model = ["-m", TARGET, "--top", 0]
        first = len(tree["prefix"])
        split = self.rows(*model, "--ids", ",".join(map(str, tree["prefix"])), "--tree", ",".join(map(str, tree["tokens"])),
                          "--parents", ",".join(map(str, tree["parents"])))
        parents = [place - 1 for place in range(first)] + [first + parent for parent in tree["parents"]]
        joined = self.rows(*model, "--ids", ",".join(map(str, tree["prefix"] + tree["tokens"])),
                           "--parents", ",".join(map(str, parents)))
        self.assertEqual(split, joined)
        self.assert_logits(split[first - 1], tree["prefix_top8"])
        for row, node in zip(split[first:], tree["nodes"]):
            self.assertEqual((row["id"], row["position"]), (node["token"], node["position"]))
            self.assert_logits(row, node["top8"])

    def test_a_branch_is_the_same_as_a_row(self):
        """They are equal bit for bit, as the JSON numbers give floats back exactly."""
        linear = self.rows("--ids", "1,458,1112,731,261,631", "--top", 0)
        tree = self.rows("--ids", "1,458", "--tree", "5,1112,731,6,261,631", "--parents", "-1,-1,1,1,2,4", "--top", 0)
        for step, place in ((2, 3), (3, 4), (4, 6), (5, 7)):
            self.assertEqual(linear[step]["logits"], tree[place]["logits"])

    def test_nonsense_is_refused(self):
        outrider("model", "eval", code=2)
        outrider("model", "eval", "--ids", "", code=2)
        for ids in ("1,x", "1,,2", "1,2,", ",1", ","):
            outrider("model", "eval", "--ids", ids, code=2)
        self.assertIn("context holds 512", outrider("model", "eval", "--ids", "1," * 512 + "1", code=1)[1])
        outrider("model", "eval", "--ids", "1,2", "--parents", "-1", code=2)
        outrider("model", "eval", "--ids", "1,2,3", "--parents", "-1,0,2", code=2)
        outrider("model", "eval", "--ids", "1", "--tree", "2", "--parents", "0", code=2)
        outrider("model", "eval", "--ids", "4096", code=1)


class Packages(unittest.TestCase):
    """What launch/quickstart.sh says where packages are missing and nobody may install them."""

    def test_without_root_and_sudo(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("bash", "dpkg-query", "grep"):
                Path(folder, name).symlink_to(shutil.which(name))
            user = Path(folder, "id")
            user.write_text("#!/bin/bash\necho 1000\n")
            user.chmod(0o755)
            done = subprocess.run(["bash", "-c", ". launch/packages.sh; install_missing no-such-package"], cwd=ROOT, capture_output=True, text=True,
                                  timeout=PATIENCE, env={"PATH": folder, "TMPDIR": folder})
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1), done.stderr)
            self.assertIn("ask an administrator for: apt-get install no-such-package", done.stderr)
            self.assertEqual(len(list(Path(folder).iterdir())), 4)


if __name__ == "__main__":
    unittest.main()
