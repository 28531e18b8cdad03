"""Goal: a checkpoint of each family becomes the GGUF file that its recipe describes, to the last byte of every tensor.
Method: the models of tests/families are written as checkpoints, with the config.json that transformers saves for them (configs.json) in today's form and in
the older one, in one file and in several; converted, and compared with the recipe's own file."""
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
        for key in ("tokens", "scores", "token_type", "model", "bos_token_id", "eos_token_id"):
            self.assertEqual(metadata[f"tokenizer.ggml.{key}"], ours[f"tokenizer.ggml.{key}"], key)

    def test_each_family_becomes_its_recipe(self):
        for name, config in CONFIGS.items():
            if config["architectures"][0] not in self.known:
                continue
            variant = int(name[-1])
            with self.subTest(model=name):
                self.compare(name, config if variant == 0 else older_form(config), 1 + 2 * variant)

    def test_both_forms_of_rotations_are_the_same(self):
        for name in ("llama/0", "llama/1", "yarn/0", "phi3/1", "gemma3/0", "glm4/0"):
            with self.subTest(model=name):
                self.compare(name, older_form(CONFIGS[name]) if name.endswith("0") else CONFIGS[name], 1)


if __name__ == "__main__":
    unittest.main()
