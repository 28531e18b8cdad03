"""Goal: a tokenizer.json of Gemma 4 becomes GGUF's kind "gemma4", with the same merges and the same tokens of any text, or is refused by name.
Method: a small one of that form (line_tokenizer.py) is converted. Its ids of random texts are those of a plain encoder; test_transformers compares them with the
package `tokenizers`. Merges that the kind would not do are added."""
import copy
import json
import random
import sys
import tempfile
import unittest
from pathlib import Path

import checkpoints
import line_tokenizer

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
from cli import outrider  # noqa: E402

CONFIG = json.loads((Path(__file__).parent / "configs.json").read_text())["gemma4/0"]
PIECES = ["the", "License", "work", "a", "S", " ", "  ", " " * 5, "\n", "\n\n", "\n" * 7, "\n" * 19, "\t", "0", "12", ".", ",", "(c)", "<table>", "</table>", "<tab", "<eos>",
          "<|channel>", "é", "ß", "中", "ひ", "😀", "\u200d", "\u00a0", "\r\n", "qu", "Zz", "<0x41>", "\0"]


def texts(seed, count):
    draw = random.Random(seed)
    return ["".join(draw.choices(PIECES, k=draw.randrange(1, 24))) for _ in range(count)]


class Lines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.out = cls.folder / "out.gguf"
        cls.tokenizer = line_tokenizer.make()

    def convert(self, tokenizer, code=0, outer=None):
        """Convert a vocabulary; `outer`: of a config whose part is that of the model of text, and which has these settings."""
        config = CONFIG | {"vocab_size": len(tokenizer["model"]["vocab"])}
        whole = config if outer is None else {"architectures": ["Gemma4ForConditionalGeneration"], "text_config": config, **outer}
        checkpoints.write_json(self.folder / "config.json", whole)
        checkpoints.write_json(self.folder / "tokenizer.json", tokenizer)
        _, error = outrider("model", "convert", self.folder, self.out, "--vocab-only", "--force", code=code)
        return checkpoints.read_gguf(self.out)[0] if code == 0 else error

    def ids_of(self, text):
        return list(map(int, outrider("tokenize", "--special", "-m", self.out, stdin=text.encode())[0].split()))

    def test_merges_are_kept(self):
        read = self.convert(self.tokenizer)
        tokens = [token.decode() for token in read["tokenizer.ggml.tokens"]]
        self.assertEqual((b"gemma4", False), (read["tokenizer.ggml.model"], read["tokenizer.ggml.add_space_prefix"]))
        self.assertEqual([" ".join(merge).encode() for merge in self.tokenizer["model"]["merges"]], read["tokenizer.ggml.merges"])
        self.assertEqual(list(self.tokenizer["model"]["vocab"]), tokens)
        kinds = {token: kind for token, kind in zip(tokens, read["tokenizer.ggml.token_type"])}
        self.assertEqual({"<unk>": 2, "<eos>": 3, "<|turn>": 3, "<|channel>": 4, "<table>": 4, "<0x0A>": 6, "\n": 1}, {
            token: kinds[token] for token in ("<unk>", "<eos>", "<|turn>", "<|channel>", "<table>", "<0x0A>", "\n")})

    def test_ends_of_a_config_with_a_part_of_text(self):
        """A setting of the config itself counts before that of its part, which is 2 and 1, unless it is null."""
        keys = "bos", "eos", "eot", "eom"
        for outer, expected in (({}, [1, 2, None, None]), ({"eos_token_id": None}, [1, 2, None, None]), ({"eos_token_id": 6}, [1, 6, None, None]),
                                ({"eos_token_id": [1, 6, 8], "bos_token_id": 5}, [5, 1, 6, 8])):
            with self.subTest(outer=outer):
                read = self.convert(self.tokenizer, outer=outer)
                self.assertEqual(expected, [read.get(f"tokenizer.ggml.{key}_token_id") for key in keys])

    def test_ids_are_those_of_the_merges(self):
        self.convert(self.tokenizer)
        whole = "\n".join(texts(7, 200))
        self.assertEqual(line_tokenizer.encode(self.tokenizer, whole), self.ids_of(whole))

    def test_merges_that_never_happen_are_left_out(self):
        """Those of tokens that are cut out of a text before."""
        tokenizer = copy.deepcopy(self.tokenizer)
        tokenizer["model"]["merges"][40:40] = [["<", "table>"], ["<table>", "s"]]
        vocab = tokenizer["model"]["vocab"]
        vocab |= {piece: len(vocab) + i for i, piece in enumerate(["<", "table>", "<table>s"])}
        merges = [merge.decode() for merge in self.convert(tokenizer)["tokenizer.ggml.merges"]]
        self.assertEqual([" ".join(merge) for merge in self.tokenizer["model"]["merges"]], merges)

    def test_what_the_kind_cannot_do_is_refused(self):
        def changed(**model):
            tokenizer = copy.deepcopy(self.tokenizer)
            vocab = tokenizer["model"]["vocab"]
            for piece in model.pop("pieces", []):
                vocab[piece] = len(vocab)
            tokenizer["model"] |= model
            return tokenizer

        merges = self.tokenizer["model"]["merges"]
        for why, tokenizer in (("merges join ends of lines and other characters", changed(pieces=["\na"], merges=[*merges, ["\n", "a"]])),
                               ("do not make all rows of ends of lines", changed(merges=merges[1:])),
                               ("do not make all rows of ends of lines", changed(pieces=["\n" * 300])),
                               ("ignore_merges", changed(ignore_merges=True)),
                               ("is not two tokens that make a third", changed(merges=[*merges, ["\n\n", "\n" * LONG]])),
                               ("is not two pieces", changed(merges=[*merges, "ab"]))):
            with self.subTest(why=why):
                self.assertIn(why, self.convert(tokenizer, code=1))


LONG = line_tokenizer.LINES

if __name__ == "__main__":
    unittest.main()
