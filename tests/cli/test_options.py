"""Goal: who knows llama.cpp, vLLM or SGLang is at home at our command line, or is told what to do instead.
Method: llama.cpp's own list of its options, and those of the others that a server is started with: each is taken, or refused with a sentence
whose options exist in our programs. What other names mean is seen in texts and in their errors. And names that are of no file or folder."""
import json
import re
import shutil
import tempfile
import unittest
from pathlib import Path

from cli import DRAFT, call, generate, outrider

LIST = Path(__file__).with_name("llama_cpp_options.txt").read_text()
OTHERS = """--host --port --served-model-name --max-model-len --tensor-parallel-size -tp --pipeline-parallel-size -pp --data-parallel-size
--gpu-memory-utilization --dtype --quantization -q --speculative-config --max-num-seqs --max-num-batched-tokens --enable-prefix-caching --kv-cache-dtype
--enforce-eager --trust-remote-code --download-dir --tokenizer --api-key --ssl-certfile --ssl-keyfile --model-path --tp-size --dp-size
--mem-fraction-static --context-length --speculative-algorithm --speculative-draft-model-path --speculative-num-draft-tokens --attention-backend
--max-running-requests --chunked-prefill-size --disable-radix-cache --random-seed --tool-call-parser --reasoning-parser"""
PROGRAMS = ["generate", "chat", "up", "bench", "bench load", "tokenize", "doctor"]


def described(*words, program="outrider"):
    """Return the options that a program has by its own account."""
    page = json.loads(call(program, *words, "--help-json")[0])
    return {name for row in page["options"] if "name" in row for name in (f"--{row['name']}", f"-{row['short']}")}


def refusal(program, word):
    """Return the sentence at which a program refuses a word; "" if it takes it."""
    out, error = outrider(*program.split(), word, "1", "--help", code=None)
    return "" if out else error.strip().removeprefix(f"outrider {program}: ")


class OtherPrograms(unittest.TestCase):
    def test_each_option_is_taken_or_answered(self):
        ours = set().union(*(described(*program.split()) for program in PROGRAMS), described(program="outrider-verifier"))
        for word in sorted(set(re.findall(r"(?<!\S)--?[a-zA-Z]\S*", LIST.split("\n\n")[1] + "\n" + OTHERS))):
            sentence = refusal("generate", word)
            with self.subTest(word, sentence=sentence):
                if sentence:
                    self.assertTrue(sentence.startswith(f"there is no {word} here: "))
                    told = sentence.removeprefix(f"there is no {word} here: ")
                    self.assertEqual(set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", told)) - ours, set())

    def test_what_a_server_is_started_with(self):
        for word, told in {"--host": "--http HOST:PORT", "--port": "--http HOST:PORT", "-np": "--sessions-max N", "--mlock": "model pack",
                           "--tensor-parallel-size": "--np N", "--speculative-config": "--model-draft FILE", "-hf": "nothing is downloaded",
                           "--max-model-len": "--ctx-size N", "--jinja": "--chat-template NAME", "--flash-attn": "attention"}.items():
            with self.subTest(word):
                self.assertIn(told, refusal("up", word))
        _, error = outrider("up", "--port=8080", code=2)
        self.assertIn("there is no --port here: outrider up --http", error)

    def test_other_names_mean_ours(self):
        ours = generate("-n", 6, "--temp", 0, "-t", 1, "--draft-nodes", 4, "-p", "It was")
        other = generate("--n-predict", 6, "--temperature=0", "--threads", 1, "--draft-max", 4, "-p", "It was")
        for key in ("text", "tokens"):
            self.assertEqual(ours[key], other[key], key)
        for word, name in {"--n-gpu-layers": "--gpu-layers", "--n-gpu-layers-draft": "--gpu-layers-draft", "--spec-draft-n-max": "--draft-nodes",
                           "--draft": "--draft-nodes", "--n-predict": "-n/--predict"}.items():
            with self.subTest(word):
                self.assertIn(name, outrider("generate", "-p", "x", word, "x", code=2)[1])

    def test_other_names_are_no_options_of_their_own(self):
        text = outrider("generate", "--help")[0].decode()
        for word in ("--n-predict", "--temperature", "--draft-max"):
            self.assertNotIn(word, text)
            self.assertNotIn(word, described("generate"))


class Files(unittest.TestCase):
    """Names that are no name of a file or a folder, and folders and files that are taken for each other."""

    def test_an_empty_name(self):
        for words in (["generate", "-p", "x", "-m", ""], ["bench", "--prompts="], ["up", "--journal", ""], ["generate", "-f", ""],
                      ["generate", "-p", "x", "--multi-model", ""], ["model", "inspect", ""], ["model", "convert", "", "out.gguf"], ["keys", "trust", "", ""]):
            with self.subTest(words):
                self.assertRegex(outrider(*words, code=2)[1], "(the name of a (file|folder) is|an) empty")

    def test_a_folder_for_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(DRAFT, folder)
            for words in (["generate", "-f", folder], ["bench", "--prompts", folder], ["bench", "load", "--prompts", folder]):
                self.assertIn(f"cannot read {folder}: Is a directory", outrider(*words, code=1)[1])
            for words in (["generate", "-p", "x", "-m", folder], ["up", "-md", folder], ["tokenize", "-m", folder], ["model", "inspect", folder]):
                self.assertIn(f"of its GGUF files name one, as {folder}/{DRAFT.name}", outrider(*words, code=1)[1])
            self.assertIn(f"name one, as {folder}/{DRAFT.name}", outrider("doctor", "-m", folder, code=1)[0].decode())

    def test_a_file_for_a_folder(self):
        for words, told in ((["up", "--listen", "tcp://127.0.0.1:*", "--journal", DRAFT], "is not a folder"), (["bench", "--plots", DRAFT], "Not a directory"),
                            (["keys", "list", "--keys", DRAFT], "is not a folder"),
                            (["model", "convert", DRAFT, "out.gguf"], "a GGUF file needs no conversion: give it to -m")):
            with self.subTest(words):
                self.assertIn(told, outrider(*words, code=1)[1])


if __name__ == "__main__":
    unittest.main()
