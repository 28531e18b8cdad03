"""Goal: what transformers saves becomes a file that computes what transformers computes, and what `tokenizers` makes of a text is what Outrider makes of it.
Method: the models of tests/families, saved by transformers in one file and in several, converted; tensors and metadata are the recipe's, and the logits lie
within 1e-3 of transformers' stored ones. tokenizer.json of each kind is read by both on the texts of the test data and on random ones."""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import checkpoints

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
from cli import BIN, ENVIRONMENT, PATIENCE, ROOT, data, outrider  # noqa: E402

try:
    import sentencepiece
    import tokenizers
    import torch
    import transformers
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    import oracle_checkpoints
except ImportError as error:
    raise unittest.SkipTest(f"no {error.name}: pip install torch transformers gguf tokenizers, for this Python") from error

import test_families  # noqa: E402
import test_lines  # noqa: E402
import test_tokenizers  # noqa: E402

CLOSE = 1e-3
POSITIONS, VOCAB = 200, 64
PROMPT = "HELLO123"
DRAWN = int(os.environ.get("OR_TEST_RUNS", 2000))  # random texts for each tokenizer
PIECES = ["a", "B", "the", "ing", " ", "  ", "\n", "\t", "0", "12", "345", "'s", "'LL", ".", ",", "!?", "-", "_", "é", "ß", "Ж", "中", "文", "ひ", "𝄞", "😀", "\u200d",
          "\u0301", "\u00a0", " " * 5, " " * 17, "\n" * 3, "<s>", "\r\n", "x" * 9, "٣", "½", "Ⅷ", "İ", "ǅ", "<0x41>", "`", "{", "}"]


class Saved(test_families.Families):
    """The tests of test_families, with the checkpoints that transformers saves."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        torch.set_num_threads(1)
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        cls.families = {family.name: family for family in oracle_checkpoints.FAMILIES}

    def test_both_forms_of_rotations_are_the_same(self):
        self.skipTest("transformers saves one form")

    def test_experts_in_mxfp4(self):
        """What test_families takes for the weights of blocks and scales is what transformers makes of them."""
        super().test_experts_in_mxfp4()
        stack = "model.layers.0.mlp.experts.gate_up_proj"
        changed, expected = test_families.mxfp4_experts({stack: ("F32", [3, 64, 10], None)}, random.Random(7))
        blocks, scales = (torch.frombuffer(bytearray(data), dtype=torch.uint8).reshape(shape) for _, shape, data in changed.values())
        weights = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32).swapaxes(1, 2).contiguous()  # [experts][outputs][inputs]
        for turn, part in enumerate(("gate", "up")):
            self.assertEqual(weights[:, turn::2].flatten().tolist(), checkpoints.floats(test_families.unpacked(expected[f"blk.0.ffn_{part}_exps.weight"])).tolist())

    def test_towers_of_transformers_are_left_out(self):
        """Gemma 4 as transformers saves it with a tower for images."""
        vision = transformers.Gemma4VisionConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
                                                 head_dim=16, position_embedding_size=16)
        for name in ("gemma4-experts/0", "gemma4-shared/0"):
            family = self.families[name.split("/")[0]](0)
            text = family.config_class(**family.config())
            model = transformers.Gemma4ForConditionalGeneration(transformers.Gemma4Config(text_config=text, vision_config=vision, audio_config=None))
            state = {key.replace("model.", "model.language_model."): torch.tensor(values) for key, values in family.parameters.items()}
            missing, unexpected = model.load_state_dict(state, strict=False)
            self.assertFalse(unexpected or [key for key in missing if "language_model" in key], name)
            with self.subTest(model=name), tempfile.TemporaryDirectory() as folder:
                converted = Path(folder) / "converted.gguf"
                recipe = self.folder / "recipe.gguf"
                subprocess.run([BIN / "family-model", name, recipe], check=True, cwd=ROOT, timeout=PATIENCE, env=ENVIRONMENT)
                metadata, _ = checkpoints.read_gguf(recipe)
                model.save_pretrained(folder)
                checkpoints.write_json(Path(folder) / "tokenizer.json", checkpoints.characters_tokenizer(metadata))
                _, told = outrider("model", "convert", folder, converted, "--force")
                self.assertIn("tensors for images and sounds are left out", told)
                self.compare_logits(name, converted, metadata["recipe.tokens"])

    def test_suppressed_tokens_are_not_drawn(self):
        """A text at temperature 0 is that of transformers' generate, which suppresses what generation_config.json says."""
        family = self.families["gemma4-experts"](0)
        model, converted = family.build(), self.folder / "converted.gguf"
        subprocess.run([BIN / "family-model", "gemma4-experts/0", self.folder / "recipe.gguf"], check=True, cwd=ROOT, timeout=PATIENCE, env=ENVIRONMENT)
        metadata, _ = checkpoints.read_gguf(self.folder / "recipe.gguf")
        prompt = torch.tensor([[metadata["tokenizer.ggml.tokens"].index(letter.encode()) for letter in PROMPT]])
        write = lambda: model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, min_new_tokens=40, max_new_tokens=40)[0, len(PROMPT):].tolist()
        usual = write()
        model.generation_config.suppress_tokens = sorted(set(usual[:3]))
        expected = write()
        self.assertNotEqual(usual, expected)
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            checkpoints.write_json(Path(folder) / "tokenizer.json", checkpoints.characters_tokenizer(metadata))
            outrider("model", "convert", folder, converted, "--force")
        out, _ = outrider("generate", "-m", converted, "-p", PROMPT, "-n", 40, "--temp", 0, "--ignore-eos", "--json", "-dev", "none")
        self.assertEqual(expected, json.loads(out)["tokens"])

    def test_weights_of_fp8(self):
        """What test_families takes for the numbers of codes and blocks is what torch and transformers make of them."""
        super().test_weights_of_fp8()
        codes = torch.arange(256, dtype=torch.uint8)
        numbers = codes.view(torch.float8_e4m3fn).float()
        self.assertEqual([0x7F, 0xFF], codes[numbers.isnan()].tolist())
        self.assertEqual(numbers[~numbers.isnan()].tolist(), [test_families.e4m3(code) for code in range(256) if code & 0x7F != 0x7F])
        for block in ((24, 16), None):
            changed, decoded = test_families.fp8_weights({"layers.0.x_proj.weight": ("F32", [48, 96], None)}, block, random.Random(7))
            weights, scales = changed["layers.0.x_proj.weight"][2], changed["layers.0.x_proj.weight_scale_inv"]
            theirs = Fp8Dequantize(None)._dequantize_one(torch.frombuffer(bytearray(weights), dtype=torch.float8_e4m3fn).reshape(48, 96),
                                                         torch.frombuffer(bytearray(scales[2]), dtype=torch.float32).reshape(scales[1] or [1, 1]))
            values = torch.frombuffer(bytearray(decoded["layers.0.x_proj.weight"][1]), dtype=torch.float32)
            self.assertTrue(torch.equal(theirs.flatten(), values))
            halves = torch.frombuffer(bytearray(test_families.nearest_bf16(values.numpy().tobytes())), dtype=torch.bfloat16)
            self.assertTrue(torch.equal(theirs.flatten().bfloat16(), halves))

    def compare(self, name, config, files):
        family, variant = name.split("/")
        recipe, converted = self.folder / "recipe.gguf", self.folder / "converted.gguf"
        subprocess.run([BIN / "family-model", name, recipe], check=True, cwd=ROOT, timeout=PATIENCE, env=ENVIRONMENT)
        metadata, tensors = checkpoints.read_gguf(recipe)
        for shard in (oracle_checkpoints.ONE_FILE, oracle_checkpoints.SEVERAL):
            with tempfile.TemporaryDirectory() as folder:
                oracle_checkpoints.save(self.families[family](int(variant)), folder, shard)
                self.assertEqual(shard == oracle_checkpoints.SEVERAL, len(list(Path(folder).glob("*.safetensors"))) > 1)
                checkpoints.write_json(Path(folder) / "tokenizer.json", checkpoints.characters_tokenizer(metadata))
                outrider("model", "convert", folder, converted, "--force")
            self.compare_files(checkpoints.read_gguf(converted), test_families.expected_metadata(metadata, config),
                               checkpoints.expected_tensors(metadata, tensors))
        self.compare_logits(name, converted, metadata["recipe.tokens"])

    def compare_logits(self, name, converted, tokens):
        flat = struct.unpack(f"<{POSITIONS * VOCAB}f", (ROOT / f"tests/families/data/{name}.f32").read_bytes())
        out, _ = outrider("model", "eval", "-m", converted, "--ids", ",".join(map(str, tokens)), "--top", 0, "-dev", "none", "--json")
        ours = [logit for row in json.loads(out)["rows"] for _, logit in sorted(row["logits"])]
        apart = max(abs(a - b) for a, b in zip(ours, flat, strict=True))
        print(f"{name}: {apart:.2g} from transformers")
        self.assertLess(apart, CLOSE)


class Ids(test_tokenizers.Tokenizers):
    """Tokenizers beside the package `tokenizers`, which reads the same tokenizer.json."""
    test_roles_and_templates = test_padding_and_user_tokens = test_what_gguf_cannot_say_is_refused_by_name = None

    def compare_sentencepiece(self, name, model):
        """Ids of each text alone. U+2581 is not in them, as below."""
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        draw = random.Random(f"{os.environ.get('OR_TEST_SEED', 1)} {name}")
        texts = data(f"vocab/{name}.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
        texts += ["".join(draw.choices(PIECES, k=draw.randrange(1, 24))) for _ in range(DRAWN)]
        whole = "\n".join(texts).replace(checkpoints.MARK, "").replace("\0", "")
        if name == "phi-3":  # whose added tokens SentencePiece does not know
            whole = whole.replace("<", "")
        out, _ = outrider("tokenize", "-m", self.out, stdin=whole.encode())
        self.assertEqual(processor.encode(whole), list(map(int, out.split())))
        print(f"{name}: {len(out.split())} ids are SentencePiece's")

    def compare_bpe_files(self):
        """Beside transformers' own reader of these files."""
        theirs = transformers.GPT2Tokenizer.from_pretrained(self.folder)
        draw = random.Random(f"{os.environ.get('OR_TEST_SEED', 1)} bpe")
        texts = data("vocab/gpt-2.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
        texts += ["".join(draw.choices(PIECES + ["</s>", "<pad>", "<mask>", "<user>", "<|endoftext|>"], k=draw.randrange(1, 24))) for _ in range(DRAWN)]
        whole = "\n".join(texts)
        out, _ = outrider("tokenize", "--special", "-m", self.out, stdin=whole.encode())
        self.assertEqual(theirs.encode(whole, add_special_tokens=False), list(map(int, out.split())))
        print(f"vocab.json and merges.txt: {len(out.split())} ids are transformers'")

    def compare_rule(self, rule):
        print(f"{rule}:", end=" ")
        self.compare_ids("gpt-2")

    def compare_ids(self, name):
        theirs = tokenizers.Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        texts = data(f"vocab/{name}.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
        draw = random.Random(f"{os.environ.get('OR_TEST_SEED', 1)} {name}")
        texts += ["".join(draw.choices(PIECES, k=draw.randrange(1, 24))) for _ in range(DRAWN)]
        if theirs.normalizer is not None and name == "qwen2":
            texts = [theirs.normalizer.normalize_str(text) for text in texts]  # GGUF cannot ask for a normal form
        # One text after the other, so that the vocabulary is read once. U+2581 itself is not in them: Outrider takes it as it is, and not for a space.
        whole = "\n".join(texts).replace(checkpoints.MARK, "")
        out, _ = outrider("tokenize", "--special", "-m", self.out, stdin=whole.encode())
        ours = list(map(int, out.split()))
        expected = theirs.encode(whole, add_special_tokens=False).ids
        if ours != expected:
            at = next(i for i, (a, b) in enumerate(zip(ours + [-1], expected + [-1])) if a != b)
            self.fail(f"{name}: from {at}: {ours[at - 3:at + 5]}, not {expected[at - 3:at + 5]}: {theirs.decode(expected[at - 3:at + 5])!r}")
        print(f"{name}: {len(ours)} ids are equal")


class LineIds(test_lines.Lines):
    """The same of Gemma 4's kind."""

    def test_ids_are_those_of_the_merges(self):
        self.convert(self.tokenizer)
        whole = "\n".join(test_lines.texts(os.environ.get("OR_TEST_SEED", 1), 5 * DRAWN))
        expected = tokenizers.Tokenizer.from_file(str(self.folder / "tokenizer.json")).encode(whole, add_special_tokens=False).ids
        self.assertEqual(expected, self.ids_of(whole))
        print(f"gemma4: {len(expected)} ids are equal")


del test_families.Families, test_lines.Lines, test_tokenizers.Tokenizers  # their own tests run elsewhere

if __name__ == "__main__":
    unittest.main()
