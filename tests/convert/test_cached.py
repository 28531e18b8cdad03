"""Goal: a checkpoint's folder works wherever a model file does, is converted once, and again when it has changed.
Method: commands on a folder, with a cache folder of the test's own; what they print beside what the converted file gives, and what the cache holds."""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import checkpoints

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
from cli import BIN, ENVIRONMENT, PATIENCE, ROOT, outrider  # noqa: E402

CONFIGS = json.loads((Path(__file__).parent / "configs.json").read_text())
NAME = "llama/0"
IDS = "3,1,4,1,5,9"


class Cached(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.model, self.cache, self.file = self.root / "model", self.root / "cache", self.root / "file.gguf"
        recipe = self.root / "recipe.gguf"
        subprocess.run([BIN / "family-model", NAME, recipe], check=True, cwd=ROOT, timeout=PATIENCE, env=ENVIRONMENT)
        checkpoints.write_checkpoint(self.model, CONFIGS[NAME], *checkpoints.read_gguf(recipe))
        outrider("model", "convert", self.model, self.file)

    def run_on(self, *words, **settings):
        return outrider(*words, XDG_CACHE_HOME=str(self.cache), **settings)

    def files(self):
        return sorted(self.cache.glob("outrider/*"))

    def test_it_is_made_once_and_again_after_a_change(self):
        words = ["model", "eval", "--ids", IDS, "--json", "-m"]
        expected = json.loads(outrider(*words, self.file)[0])["rows"]
        for made in (True, False):
            out, error = self.run_on(*words, self.model)
            self.assertEqual(expected, json.loads(out)["rows"])
            self.assertEqual(made, "making a GGUF file" in error)
        first, = self.files()
        left = first.with_name(f"{first.name}.{2**22 + 1}.tmp")  # of a process that there cannot be
        left.write_bytes(b"")
        config = CONFIGS[NAME] | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}
        checkpoints.write_json(self.model / "config.json", config)
        out, error = self.run_on(*words, self.model)
        self.assertIn("making a GGUF file", error)
        self.assertNotEqual(expected, json.loads(out)["rows"])
        second, = self.files()
        self.assertNotEqual(first, second)

    def test_commands(self):
        words = ["generate", "-p", "0123", "-n", "6", "--temp", "0", "--json"]
        expected = json.loads(outrider(*words, "--plain", "-m", self.file)[0])["tokens"]
        for more in (["--plain", "-m", self.model], ["-m", self.model, "-md", self.model], ["-m", self.model]):
            self.assertEqual(expected, json.loads(self.run_on(*words, *more)[0])["tokens"], more)
        facts = json.loads(self.run_on("model", "inspect", self.model, "--json")[0])
        self.assertIn(["general.architecture", "llama"], facts["metadata"])
        self.run_on("model", "compare", self.model, self.model)
        self.run_on("model", "quantize", self.model, self.root / "quantized.gguf", "Q8_0")
        self.assertEqual(outrider("tokenize", "-m", self.file, stdin=b"0 1")[0], self.run_on("tokenize", "-m", self.model, stdin=b"0 1")[0])
        self.assertEqual(1, len(self.files()))

    def test_what_cannot_be_converted_says_why(self):
        (self.model / "config.json").unlink()
        _, error = self.run_on("model", "eval", "--ids", IDS, "-m", self.model, code=1)
        self.assertIn("no config.json", error)
        self.assertEqual([], self.files())


if __name__ == "__main__":
    unittest.main()
