"""Goal: each rule cuts texts where the pre-tokenizer of the published tokenizer.json cuts them.
Method: data/cuts.json has hard texts and where PyPI's `tokenizers` cuts them (make_cuts.py). Where that package is, random texts are cut by both, OR_TEST_RUNS
of them for each rule. Ill-formed bytes, which the package does not take, are pieces of their own between texts."""
import json
import os
import subprocess
import unittest
from pathlib import Path
import sys

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "cli"), str(HERE)]
from cli import BIN  # noqa: E402
import make_cuts  # noqa: E402

RUNS = int(os.environ.get("OR_TEST_RUNS", 2000))


def our_cuts(rule, texts):
    lines = "".join(text.hex() + "\n" for text in texts)
    done = subprocess.run([BIN.parent / "tests/pre-cuts", rule], input=lines.encode(), capture_output=True, check=True)
    return [list(map(int, line.split())) for line in done.stdout.decode().splitlines()]


class Cuts(unittest.TestCase):
    def compare(self, rule, texts, expected):
        for text, ours, theirs in zip(texts, our_cuts(rule, texts), expected, strict=True):
            self.assertEqual(theirs, ours, (rule, text))

    def test_stored_cuts(self):
        stored = json.loads(make_cuts.STORED.read_text())
        texts = [bytes.fromhex(text) for text in stored["texts"]]
        self.assertEqual(set(make_cuts.PUBLISHED), set(stored["cuts"]))
        for rule, cuts in stored["cuts"].items():
            with self.subTest(rule=rule):
                self.compare(rule, texts, cuts)

    @unittest.skipIf(make_cuts.tokenizers is None, "no package tokenizers for this Python")
    def test_random_texts(self):
        for rule, published in make_cuts.PUBLISHED.items():
            with self.subTest(rule=rule):
                texts = make_cuts.random_texts(f"{os.environ.get('OR_TEST_SEED', 1)} {rule}", RUNS)
                self.compare(rule, texts, make_cuts.their_cuts(published, texts))


if __name__ == "__main__":
    unittest.main()
