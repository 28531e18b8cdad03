"""Goal: a checkpoint of each family becomes the GGUF file that its recipe describes, to the last byte of every tensor.
Method: the models of tests/families are written as checkpoints, with the config.json that transformers saves for them (configs.json) in today's form and in
the older one, in one file and in several; converted, and compared with the recipe's own file."""
import json
import random
import re
import struct
import subprocess
import sys
import tempfile
import unittest
from array import array
from pathlib import Path

import checkpoints

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
from cli import BIN, ENVIRONMENT, PATIENCE, ROOT, outrider  # noqa: E402

CONFIGS = json.loads((Path(__file__).parent / "configs.json").read_text())
OWN_KEYS = ("recipe.", "general.", "tokenizer.")


def older_form(config):
    """Return the config as transformers 4 has written it."""
    config = dict(config)
    ropes = config.pop("rope_parameters", None)
    config["torch_dtype"] = config.pop("dtype", "float32")
    if ropes is None:
        return config
    whole = dict(ropes.get("full_attention", ropes))
    if "full_attention" in ropes:
        config["rope_local_base_freq"] = ropes["sliding_attention"]["rope_theta"]
    config["rope_theta"] = whole.pop("rope_theta")
    if "partial_rotary_factor" in whole:
        config["partial_rotary_factor"] = whole.pop("partial_rotary_factor")
    kind = whole.pop("rope_type")
    config["rope_scaling"] = None if kind == "default" else whole | {"type": kind}
    return config


def expected_metadata(metadata, config):
    """Return the recipe's metadata, with the size of the network without experts as the config has it: recipes have that of an expert."""
    architecture = metadata["general.architecture"].decode()
    dense = {f"{architecture}.feed_forward_length": config["intermediate_size"]} if f"{architecture}.expert_feed_forward_length" in metadata else {}
    return metadata | dense


E2M1 = (0, 1, 2, 3, 4, 6, 8, 12)  # twice the numbers


def packed(blocks):
    """Return blocks of MXFP4 as GGUF has them: a scale, then bytes with weight j and weight j + 16."""
    return b"".join(bytes([scale]) + bytes(codes[j] | codes[j + 16] << 4 for j in range(16)) for scale, codes in blocks)


def unpacked(blocks):
    return array("f", ((-E2M1[code & 7] if code & 8 else E2M1[code & 7]) * 2.0 ** (scale - 128) for scale, codes in blocks for code in codes)).tobytes()


def mxfp4_experts(theirs, draw):
    """Replace matrices of experts by random ones of MXFP4. Return that, and their blocks: name in GGUF -> [(scale, codes of 32 weights)]."""
    changed, expected = {}, {}
    for name, (dtype, shape, data) in theirs.items():
        stack = re.fullmatch(r"model\.layers\.(\d+)\.mlp\.experts\.(gate_up|down)_proj", name)
        if stack is None:
            changed[name] = dtype, shape, data
            continue
        experts, inputs, outputs = shape
        each = inputs // 32
        blocks = [(draw.randrange(100, 140), draw.choices(range(16), k=32)) for _ in range(experts * outputs * each)]
        changed[name + "_blocks"] = "U8", [experts, outputs, each, 16], bytes(codes[2 * j] | codes[2 * j + 1] << 4 for _, codes in blocks for j in range(16))
        changed[name + "_scales"] = "U8", [experts, outputs, each], bytes(scale for scale, _ in blocks)
        parts = ("gate", "up") if stack[2] == "gate_up" else ("down",)
        for turn, part in enumerate(parts):
            rows = range(turn, experts * outputs, len(parts))
            expected[f"blk.{stack[1]}.ffn_{part}_exps.weight"] = [block for row in rows for block in blocks[row * each:(row + 1) * each]]
    return changed, expected


def e4m3(code):
    """Return the number of a code of float8_e4m3fn; 0x7F and 0xFF are none."""
    exponent, fraction = code >> 3 & 15, code & 7
    return (-1 if code >> 7 else 1) * ((8 + fraction) * 2.0 ** (exponent - 10) if exponent else fraction * 2.0 ** -9)


def nearest_bf16(data):
    """Return F32 numbers rounded to BF16, to even ones where two are equally near."""
    words = struct.unpack(f"<{len(data) // 4}I", data)
    return struct.pack(f"<{len(words)}H", *((word + 0x7FFF + (word >> 16 & 1)) >> 16 for word in words))


def fp8_weights(theirs, block, draw):
    """Replace the matrices of layers, but routers, by random ones of FP8 with a scale for each block of (rows, columns), or for all (None).
    Return that, and the F32 numbers that they are: name -> (shape, bytes)."""
    changed, decoded = {}, {}
    for name, (dtype, shape, data) in theirs.items():
        if not re.search(r"layers\.\d+\..*proj\.weight$", name):
            changed[name] = dtype, shape, data
            continue
        rows, columns = shape
        codes = [draw.choice((draw.randrange(0, 0x7F), draw.randrange(0x80, 0xFF))) for _ in range(rows * columns)]
        high, wide = block or (rows, columns)
        grid = [-(-rows // high), -(-columns // wide)]
        scales = array("f", (draw.uniform(0.5, 2) * 2.0 ** draw.randrange(-12, -6) for _ in range(grid[0] * grid[1])))
        values = array("f", (e4m3(code) * scales[i // columns // high * grid[1] + i % columns // wide] for i, code in enumerate(codes)))
        changed[name] = "F8_E4M3", shape, bytes(codes)
        changed[name + "_scale_inv"] = "F32", grid if block else [], scales.tobytes()
        decoded[name] = shape, values.tobytes()
    return changed, decoded


def known_architectures():
    with tempfile.TemporaryDirectory() as folder:
        checkpoints.write_json(Path(folder) / "config.json", {"architectures": ["Nothing"]})
        _, error = outrider("model", "convert", folder, Path(folder) / "out.gguf", "--vocab-only", code=1)
    return error.split("of these they are:")[1].split()


class Families(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.known = known_architectures()

    def compare(self, name, config, files):
        recipe, converted = self.folder / "recipe.gguf", self.folder / "converted.gguf"
        subprocess.run([BIN / "family-model", name, recipe], check=True, cwd=ROOT, timeout=PATIENCE, env=ENVIRONMENT)
        metadata, tensors = checkpoints.read_gguf(recipe)
        with tempfile.TemporaryDirectory() as folder:
            checkpoints.write_checkpoint(Path(folder), config, metadata, tensors, files)
            outrider("model", "convert", folder, converted, "--force")
        self.compare_files(checkpoints.read_gguf(converted), expected_metadata(metadata, config), checkpoints.expected_tensors(metadata, tensors))

    def compare_files(self, converted, metadata, tensors):
        ours, our_tensors = converted
        self.assertEqual({key for key in tensors}, set(our_tensors))
        for name, expected in tensors.items():
            self.assertEqual(expected, our_tensors[name], name)
        for key, value in metadata.items():
            if not key.startswith(OWN_KEYS) or key == "general.architecture":
                self.assertEqual(value, ours.get(key), key)
        own = {}
        if metadata["general.architecture"] == b"gemma4":  # whose kind of vocabulary has merges instead of scores
            own = {"model": b"gemma4", "scores": [-1000.0] * len(metadata["tokenizer.ggml.tokens"]), "merges": []}
        for key in ("tokens", "scores", "token_type", "model", "bos_token_id", "eos_token_id", "merges"):
            self.assertEqual(own.get(key, metadata.get(f"tokenizer.ggml.{key}")), ours.get(f"tokenizer.ggml.{key}"), key)

    def test_each_family_becomes_its_recipe(self):
        for name, config in CONFIGS.items():
            if config["architectures"][0] not in self.known:
                continue
            variant = int(name[-1])
            with self.subTest(model=name):
                self.compare(name, config if variant == 0 else older_form(config), 1 + 2 * variant)

    def test_experts_of_another_type(self):
        """With --type all is as `model quantize` makes it: routers keep their own."""
        recipe, converted, direct, detour = (self.folder / name for name in ("recipe.gguf", "converted.gguf", "direct.gguf", "detour.gguf"))
        subprocess.run([BIN / "family-model", "qwen3moe/0", recipe], check=True, cwd=ROOT, timeout=PATIENCE, env=ENVIRONMENT)
        metadata, tensors = checkpoints.read_gguf(recipe)
        with tempfile.TemporaryDirectory() as folder:
            checkpoints.write_checkpoint(Path(folder), CONFIGS["qwen3moe/0"], metadata, tensors)
            outrider("model", "convert", folder, converted, "--force")
            outrider("model", "convert", folder, direct, "--force", "--type", "Q8_0")
        outrider("model", "quantize", converted, detour, "Q8_0")
        types = {name: kind for name, (_, kind, _) in checkpoints.read_gguf(direct)[1].items()}
        self.assertEqual(0, types["blk.0.ffn_gate_inp.weight"])
        self.assertNotEqual(0, types["blk.0.ffn_up_exps.weight"])
        self.assertEqual(checkpoints.read_gguf(detour)[1], checkpoints.read_gguf(direct)[1])

    def test_experts_in_mxfp4(self):
        """Experts as gpt-oss was published: blocks and scales keep their bits, but for the order of weights in a block, or become another type."""
        recipe, converted = self.folder / "recipe.gguf", self.folder / "converted.gguf"
        subprocess.run([BIN / "family-model", "gpt-oss/0", recipe], check=True, cwd=ROOT, timeout=PATIENCE, env=ENVIRONMENT)
        metadata, tensors = checkpoints.read_gguf(recipe)
        theirs, expected = mxfp4_experts(checkpoints.their_tensors(metadata, tensors), random.Random(5))
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            config = CONFIGS["gpt-oss/0"] | {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}}
            checkpoints.write_checkpoint(folder, config, metadata, tensors)
            checkpoints.write_weights(folder, theirs)
            outrider("model", "convert", folder, converted, "--force")
            _, ours = checkpoints.read_gguf(converted)
            outrider("model", "convert", folder, converted, "--force", "--type", "F32")
            _, decoded = checkpoints.read_gguf(converted)
            outrider("model", "quantize", converted, folder / "quantised.gguf", "Q8_0")
            _, quantised = checkpoints.read_gguf(folder / "quantised.gguf")
        self.assertEqual(set(tensors), set(ours))
        self.assertEqual({0}, {kind for name, (_, kind, _) in quantised.items() if name.endswith(".bias")})
        self.assertEqual({8}, {kind for name, (_, kind, _) in quantised.items() if name.endswith("exps.weight")})
        for name, (shape, kind, data) in tensors.items():
            blocks = expected.get(name)
            self.assertEqual((shape, 39, packed(blocks)) if blocks else (shape, kind, data), ours[name], name)
            self.assertEqual((shape, 0, unpacked(blocks) if blocks else data), decoded[name], name)

    def test_weights_of_fp8(self):
        """They become the product of their number and their block's scale, rounded to BF16 where no type is asked for: the file is that of such a checkpoint."""
        recipe, ours, plain = self.folder / "recipe.gguf", self.folder / "fp8.gguf", self.folder / "plain.gguf"
        for name, block in (("qwen3/0", (24, 40)), ("deepseek-v3/0", (16, 24)), ("qwen3moe/0", None)):
            subprocess.run([BIN / "family-model", name, recipe], check=True, cwd=ROOT, timeout=PATIENCE, env=ENVIRONMENT)
            metadata, tensors = checkpoints.read_gguf(recipe)
            theirs, decoded = fp8_weights(checkpoints.their_tensors(metadata, tensors), block, random.Random(name))
            config = CONFIGS[name] | {"quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "static", "weight_block_size": block}}
            scale = "model.layers.0.self_attn.o_proj.activation_scale"
            whole = {name: ("F32", *decoded[name]) if name in decoded else tensor for name, tensor in theirs.items() if not name.endswith("_scale_inv")}
            rounded = whole | {name: ("BF16", shape, nearest_bf16(data)) for name, (shape, data) in decoded.items()}
            with self.subTest(model=name), tempfile.TemporaryDirectory() as folder:
                folder = Path(folder)
                for expected, words in ((whole, ("--type", "F32")), (rounded, ())):
                    checkpoints.write_checkpoint(folder, config, metadata, tensors)
                    checkpoints.write_weights(folder, theirs | {scale: ("F32", [], bytes(4))})
                    outrider("model", "convert", folder, ours, "--force", *words)
                    checkpoints.write_json(folder / "config.json", CONFIGS[name])
                    checkpoints.write_weights(folder, expected)
                    outrider("model", "convert", folder, plain, "--force", *words)
                    expected, found = checkpoints.read_gguf(plain)[1], checkpoints.read_gguf(ours)[1]
                    self.assertEqual(set(expected), set(found))
                    self.assertEqual([], [tensor for tensor in expected if expected[tensor] != found[tensor]], words)

    def test_layers_that_guess_are_left_out(self):
        """Those behind the last, as many as the config says; of one more the conversion says that it has no place."""
        recipe, converted = self.folder / "recipe.gguf", self.folder / "converted.gguf"
        subprocess.run([BIN / "family-model", "glm4moe/1", recipe], check=True, cwd=ROOT, timeout=PATIENCE, env=ENVIRONMENT)
        metadata, tensors = checkpoints.read_gguf(recipe)
        config = CONFIGS["glm4moe/1"] | {"num_nextn_predict_layers": 1}
        theirs = checkpoints.their_tensors(metadata, tensors)
        guesses = {name.replace("layers.3.", "layers.4."): tensor for name, tensor in theirs.items() if "layers.3." in name}
        with tempfile.TemporaryDirectory() as folder:
            checkpoints.write_checkpoint(Path(folder), config, metadata, tensors)
            checkpoints.write_weights(Path(folder), theirs | guesses)
            outrider("model", "convert", folder, converted, "--force")
            self.compare_files(checkpoints.read_gguf(converted), expected_metadata(metadata, config), tensors)
            checkpoints.write_weights(Path(folder), theirs | {"model.layers.5.mlp.gate.weight": ("F32", [1], bytes(4))})
            _, error = outrider("model", "convert", folder, converted, "--force", code=1)
        self.assertIn("model.layers.5.mlp.gate.weight has no place", error)

    def test_both_forms_of_heads_are_the_same(self):
        """Gemma 4 as it was published, without a table of what layers change."""
        for name, heads in (("gemma4/0", {"global_head_dim": 32, "num_global_key_value_heads": 1}), ("gemma4-shared/0", {"global_head_dim": 32})):
            config = {key: value for key, value in CONFIGS[name].items() if key != "per_layer_config"} | heads
            with self.subTest(model=name):
                self.compare(name, config, 1)

    def test_towers_are_left_out(self):
        """Gemma 4 as it was published, with towers for images and sounds: the file is that of the model of text."""
        vector = "F32", [4], bytes(16)
        towers = {f"model.{name}": vector for name in ("vision_tower.patch_embedder.input_proj.weight", "audio_tower.layers.0.norm.weight",
                                                       "embed_vision.embedding_projection.weight", "embed_audio.embedding_projection.weight")}
        towers["model.vision_tower.encoder.layers.0.self_attn.q_proj.input_max"] = "F32", [], bytes(4)
        recipe, converted = self.folder / "recipe.gguf", self.folder / "converted.gguf"
        for name in ("gemma4-experts/1", "gemma4-shared/0"):
            with self.subTest(model=name), tempfile.TemporaryDirectory() as folder:
                subprocess.run([BIN / "family-model", name, recipe], check=True, cwd=ROOT, timeout=PATIENCE, env=ENVIRONMENT)
                metadata, tensors = checkpoints.read_gguf(recipe)
                config = {"architectures": ["Gemma4ForConditionalGeneration"], "text_config": CONFIGS[name], "vision_config": {"hidden_size": 4},
                          "audio_config": None, "tie_word_embeddings": True}
                theirs = {key.replace("model.", "model.language_model."): tensor for key, tensor in checkpoints.their_tensors(metadata, tensors).items()}
                checkpoints.write_checkpoint(Path(folder), config, metadata, tensors)
                checkpoints.write_weights(Path(folder), theirs | towers)
                _, told = outrider("model", "convert", folder, converted, "--force")
                self.assertIn("5 tensors for images and sounds are left out", told)
                self.compare_files(checkpoints.read_gguf(converted), expected_metadata(metadata, CONFIGS[name]), checkpoints.expected_tensors(metadata, tensors))
                checkpoints.write_weights(Path(folder), theirs | {"model.video_tower.norm.weight": vector})
                _, error = outrider("model", "convert", folder, converted, "--force", code=1)
                self.assertIn("model.video_tower.norm.weight has no place", error)

    def test_unread_keys_and_values_are_left_out(self):
        recipe, converted = self.folder / "recipe.gguf", self.folder / "converted.gguf"
        subprocess.run([BIN / "family-model", "gemma4-shared/0", recipe], check=True, cwd=ROOT, timeout=PATIENCE, env=ENVIRONMENT)
        metadata, tensors = checkpoints.read_gguf(recipe)
        theirs = checkpoints.their_tensors(metadata, tensors)
        unread = {name.replace("layers.5.", "layers.7."): tensor for name, tensor in theirs.items() if re.search(r"layers\.5\.self_attn\.[kv]_", name)}
        self.assertEqual(3, len(unread))
        with tempfile.TemporaryDirectory() as folder:
            checkpoints.write_checkpoint(Path(folder), CONFIGS["gemma4-shared/0"], metadata, tensors)
            checkpoints.write_weights(Path(folder), theirs | unread)
            outrider("model", "convert", folder, converted, "--force")
        self.compare_files(checkpoints.read_gguf(converted), metadata, tensors)

    def test_both_forms_of_rotations_are_the_same(self):
        for name in ("llama/0", "llama/1", "yarn/0", "phi3/1", "gemma3/0", "glm4/0"):
            with self.subTest(model=name):
                self.compare(name, older_form(CONFIGS[name]) if name.endswith("0") else CONFIGS[name], 1)


if __name__ == "__main__":
    unittest.main()
