"""Goal: a checkpoint that is damaged, hostile, or says what this version does not compute, is refused by name, and nothing is left behind.
Method: one good checkpoint, changed in one place each time; what the refusal says; interruption; and files that are there already."""
import copy
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import checkpoints

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
from cli import BIN, ENVIRONMENT, PATIENCE, ROOT, outrider, share  # noqa: E402

CONFIGS = json.loads((Path(__file__).parent / "configs.json").read_text())


class Refusals(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.models = {}

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "model"
        self.out = Path(folder.name) / "out.gguf"

    def checkpoint(self, name="qwen2/0", config=None, files=1, change=lambda tensors: tensors):
        """Write a family's checkpoint with changes to its config and its tensors."""
        if name not in self.models:
            subprocess.run([BIN / "family-model", name, self.out], check=True, cwd=ROOT, timeout=PATIENCE, env=ENVIRONMENT)
            self.models[name] = checkpoints.read_gguf(self.out)
            self.out.unlink()
        metadata, tensors = self.models[name]
        checkpoints.write_checkpoint(self.folder, CONFIGS[name] | (config or {}), metadata, tensors, files)
        if files == 1:
            checkpoints.write_weights(self.folder, change(checkpoints.their_tensors(metadata, tensors)))
        return self.folder

    def refused(self, why, folder=None, *words):
        before = sorted(self.out.parent.iterdir())
        _, error = outrider("model", "convert", folder or self.folder, self.out, *words, code=1)
        self.assertIn(why, error)
        self.assertEqual(before, sorted(self.out.parent.iterdir()))

    def test_configs(self):
        scaled = lambda kind, **more: {"rope_parameters": {"rope_theta": 1e4, "rope_type": kind} | more}
        grown = lambda **more: {"rope_parameters": CONFIGS["mistral3/0"]["rope_parameters"] | more}
        for why, name, config in share((
                ("\"Nothing\" are not converted", "qwen2/0", {"architectures": ["Nothing"]}),
                ("one architecture", "qwen2/0", {"architectures": []}),
                ("quantised", "qwen2/0", {"quantization_config": {"bits": 4}}),
                ("quantised", "qwen2/0", {"quantization_config": {"quant_method": "mxfp4"}}),
                ("quantised by \"fp8\"", "gpt-oss/0", {"quantization_config": {"quant_method": "fp8"}}),
                ("quantised by \"awq\"", "qwen2/0", {"quantization_config": {"quant_method": "awq", "bits": 4}}),
                ("quantised by \"compressed-tensors\"", "qwen2/0", {"quantization_config": {"quant_method": "compressed-tensors"}}),
                ("weights of FP8 are \"e5m2\"", "qwen2/0", {"quantization_config": {"quant_method": "fp8", "fmt": "e5m2"}}),
                ("not two numbers from 1", "qwen2/0", {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128]}}),
                ("not two numbers from 1", "qwen2/0", {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 0]}}),
                ("\"truncate\" of yarn is true", "gpt-oss/0", {"rope_parameters": CONFIGS["gpt-oss/0"]["rope_parameters"] | {"truncate": True}}),
                ("\"truncate\" of yarn is false", "yarn/0", {"rope_parameters": CONFIGS["yarn/0"]["rope_parameters"] | {"truncate": False}}),
                ("how rotations are scaled", "gpt-oss/0", {"rope_parameters": None}),
                ("layers with a window are rotated by a base of 20000", "gpt-oss/0",
                 {"rope_parameters": CONFIGS["gpt-oss/0"]["rope_parameters"] | {"sliding_attention": {"rope_type": "default", "rope_theta": 20000.0}}}),
                ("\"swiglu_limit\" is 6", "gpt-oss/0", {"swiglu_limit": 6.0}),
                ("\"swiglu_alpha\" is 1", "gpt-oss/0", {"swiglu_alpha": 1.0}),
                ("\"attention_bias\" is false", "gpt-oss/0", {"attention_bias": False}),
                ("other layers have windows", "gpt-oss/0", {"layer_types": ["full_attention", "sliding_attention"] * 2}),
                ("the config makes it", "gpt-oss/0", {"num_local_experts": 17}),
                ("\"hidden_act\" is gelu", "qwen2/0", {"hidden_act": "gelu"}),
                ("no \"rms_norm_eps\"", "qwen2/0", {"rms_norm_eps": None}),
                ("\"hidden_size\" is not a whole number", "qwen2/0", {"hidden_size": -1}),
                ("\"hidden_size\" is not a whole number", "qwen2/0", {"hidden_size": 1 << 40}),
                ("\"num_hidden_layers\" is 0", "qwen2/0", {"num_hidden_layers": 0}),
                ("do not divide evenly", "qwen2/0", {"num_key_value_heads": 3}),
                ("scaled by \"dynamic\"", "llama/0", scaled("dynamic", factor=2.0)),
                ("scaled by \"llama3\"", "qwen2/0", scaled("llama3", factor=2.0)),
                ("scaled by \"longrope\"", "qwen2/0", scaled("longrope")),
                ("\"mscale\" of yarn", "qwen2/0", scaled("yarn", factor=2.0, mscale=1.0)),
                ("\"factor\" is not positive", "qwen2/0", scaled("linear", factor=0)),
                ("\"partial_rotary_factor\" is 0.5", "llama/0", scaled("default", partial_rotary_factor=0.5)),
                ("does not list 6 factors", "phi3/1", scaled("longrope", short_factor=[1], long_factor=[1], partial_rotary_factor=0.75)),
                ("other layers have windows", "gemma2/0", {"layer_types": ["sliding_attention"] * 4}),
                ("layer 1 is of a kind", "qwen2/0", {"layer_types": ["full_attention"] + ["linear_attention"] * 3}),
                ("does not list 4 layers", "qwen2/0", {"layer_types": []}),
                ("layer 0 is not rotated", "smollm3/0", {"no_rope_layers": [0, 1, 1, 1]}),
                ("\"final_logit_softcapping\" is 5", "gemma3/0", {"final_logit_softcapping": 5.0}),
                ("no \"attn_logit_softcapping\"", "gemma2/0", {"attn_logit_softcapping": None}),
                ("\"attention_factor\" is not positive", "llama/0", scaled("yarn", factor=2.0, attention_factor=0.0)),
                ("\"mscale\" of yarn is 2", "mistral3/0", grown(mscale=2.0)),
                ("no \"llama_4_scaling_beta\"", "mistral3/0", grown(llama_4_scaling_beta=None)),
                ("\"use_qk_norm\" is true", "command-r/0", {"use_qk_norm": True}),
                ("layer 0 is not rotated", "cohere2/0", {"layer_types": ["full_attention"] * 4}),
                ("layer 0 is not rotated", "exaone4/0", {"sliding_window": 64}),
                ("\"alibi\" is true", "falcon/0", {"alibi": True}),
                ("the config makes it", "falcon/1", {"new_decoder_architecture": False}),
                ("the config makes it", "opt/0", {"max_position_embeddings": 255}),
                ("\"do_layer_norm_before\" is false", "opt/0", {"do_layer_norm_before": False}),
                ("\"norm_topk_prob\" is not there", "qwen3moe/0", {"norm_topk_prob": None}),
                ("\"norm_topk_prob\" is true", "qwen2moe/0", {"norm_topk_prob": True}),
                ("\"mlp_only_layers\" is an array", "qwen2moe/0", {"mlp_only_layers": [1]}),
                ("\"decoder_sparse_step\" is 2", "qwen3moe/0", {"decoder_sparse_step": 2}),
                ("\"clip_qkv\" is 8", "olmoe/0", {"clip_qkv": 8.0}),
                ("\"router_jitter_noise\" is 0.1", "phimoe/0", {"router_jitter_noise": 0.1}),
                ("\"num_experts_per_tok\" is 3", "phimoe/0", {"num_experts_per_tok": 3}),
                ("\"lm_head_bias\" is not there", "phimoe/0", {"lm_head_bias": None}),
                ("\"n_group\" is 2", "glm4moe/0", {"n_group": 2}),
                ("\"norm_topk_prob\" is false", "glm4moe/0", {"norm_topk_prob": False}),
                ("\"first_k_dense_replace\" is 5, of 4 layers", "glm4moe/0", {"first_k_dense_replace": 5}),
                ("\"n_shared_experts\" is 0", "glm4moe/0", {"n_shared_experts": 0}),
                ("\"rope_interleave\" is false", "deepseek-v3/0", {"rope_interleave": False}),
                ("\"scoring_func\" is softmax", "deepseek-v3/0", {"scoring_func": "softmax"}),
                ("16 experts are not 5 groups", "deepseek-v3/0", {"n_group": 5}),
                ("\"num_key_value_heads\" is 2", "deepseek-v3/0", {"num_key_value_heads": 2}),
                ("are made of 32", "deepseek-v3/0", {"qk_nope_head_dim": 33}),
                ("\"mscale\" of yarn is 1 and \"mscale_all_dim\" 0.5", "deepseek-v3/0",
                 {"rope_parameters": CONFIGS["deepseek-v3/0"]["rope_parameters"] | {"mscale_all_dim": 0.5}}),
                ("with \"attention_factor\"", "deepseek-v3/0", {"rope_parameters": CONFIGS["deepseek-v3/0"]["rope_parameters"] | {"attention_factor": 1.5}}),
                ("\"first_k_dense_replace\" is 2", "glm4moelite/0", {"first_k_dense_replace": 2}),
                ("does not list 4 layers", "glm4moelite/0", {"mlp_layer_types": ["dense"]}),
                ("makes layer 2 another", "glm4moelite/0", {"mlp_layer_types": ["dense", "sparse", "dense", "sparse"]}),
                ("makes layer 0 another", "glm4moelite/0", {"mlp_layer_types": ["thick", "sparse", "sparse", "sparse"]}),
                ("no tensor", "glm4moelite/1", {"mlp_layer_types": None}),
                ("\"partial_rotary_factor\" is 0.5", "glm4moelite/0", {"rope_parameters": {"rope_theta": 1e6, "rope_type": "default", "partial_rotary_factor": 0.5}}),
                ("\"topk_method\" is noaux_tc", "deepseek-v2/0", {"topk_method": "noaux_tc"}),
                ("\"norm_topk_prob\" is true", "deepseek-v2/0", {"norm_topk_prob": True}),
                ("\"num_experts_per_tok\" is 9", "mixtral/0", {"num_experts_per_tok": 9}),
                ("\"num_local_experts\" is 1000000000", "mixtral/0", {"num_local_experts": 10**9}),
                ("the config makes it", "mixtral/0", {"num_local_experts": 9}),
                ("\"scale_attn_by_inverse_layer_idx\" is true", "gpt2/0", {"scale_attn_by_inverse_layer_idx": True})), 4):
            with self.subTest(why=why, config=config):
                self.checkpoint(name, config)
                self.refused(why)

    def test_tensors(self):
        bias = "model.layers.1.self_attn.q_proj.bias"

        def with_nan(tensors):
            dtype, shape, values = tensors["model.norm.weight"]
            return tensors | {"model.norm.weight": (dtype, shape, values[:4] + b"\0\0\xC0\x7F" + values[8:])}

        for why, change in (
                (f"no tensor {bias}", lambda tensors: {name: tensors[name] for name in tensors if name != bias}),
                ("tensor model.new has no place in qwen2", lambda tensors: tensors | {"model.new": ("F32", [1], bytes(4))}),
                ("the config makes it", lambda tensors: tensors | {bias: ("F32", [63], bytes(4 * 63))}),
                ("of dtype I32", lambda tensors: tensors | {bias: ("I32", [64], bytes(4 * 64))}),
                ("a weight that is no number", with_nan)):
            with self.subTest(why=why):
                self.checkpoint(change=change)
                self.refused(why)
        self.checkpoint(change=lambda tensors: tensors | {"model.layers.0.self_attn.rotary_emb.inv_freq": ("F32", [8], bytes(32))})
        outrider("model", "convert", self.folder, self.out)

    def test_weights_of_fp8(self):
        """Each has the scales of its blocks, and is a matrix; a code that is no number is found."""
        one = "model.layers.1.mlp.up_proj.weight"
        config = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [64, 64]}}
        fp8 = lambda tensors, shape=None, code=b"\x38": {one: ("F8_E4M3", shape or tensors[one][1], code * (len(tensors[one][2]) // 4))}
        scales = lambda shape, dtype="F32": {one + "_scale_inv": (dtype, shape, bytes({"F32": 4, "I32": 4, "F8_E4M3": 1}[dtype] * shape[0] * shape[-1]))}
        for why, change, more in (
                (f"no tensor {one}_scale_inv", lambda tensors: tensors | fp8(tensors), config),
                ("the blocks of its weights make it [2, 1]", lambda tensors: tensors | fp8(tensors) | scales([1, 2]), config),
                ("the blocks of its weights make it [1, 1]", lambda tensors: tensors | fp8(tensors) | scales([2, 1]),
                 {"quantization_config": {"quant_method": "fp8", "weight_block_size": None}}),
                ("of dtype I32; scales", lambda tensors: tensors | fp8(tensors) | scales([2, 1], "I32"), config),
                ("of dtype F8_E4M3; scales", lambda tensors: tensors | fp8(tensors) | scales([2, 1], "F8_E4M3"), config),
                ("a weight that is no number", lambda tensors: tensors | fp8(tensors, code=b"\x7f") | scales([2, 1]), config),
                ("is of FP8 and no matrix", lambda tensors: tensors | fp8(tensors, [96 * 64]) | scales([96, 1]), config),
                (f"{one}_scale_inv has no place", lambda tensors: tensors | scales([2, 1]), config),
                ("of dtype F8_E4M3; F32, F16 and BF16", lambda tensors: tensors | fp8(tensors) | scales([2, 1]), {})):
            with self.subTest(why=why):
                self.checkpoint("qwen3/0", more, change=change)
                self.refused(why)

    def test_experts(self):
        """Each of an expert's matrices is there, and all are of one type."""
        one = "model.layers.2.mlp.experts.3.up_proj.weight"
        halved = lambda tensors: tensors | {one: ("BF16", tensors[one][1], checkpoints.to_bf16(tensors[one][2]))}
        for why, change in ((f"no tensor {one}", lambda tensors: {name: tensors[name] for name in tensors if name != one}),
                            ("up_proj.weight is of dtype F32, and tensor", halved),
                            ("the config makes it", lambda tensors: tensors | {one: ("F32", [1], bytes(4))}),
                            ("experts.16.up_proj.weight has no place", lambda tensors: tensors | {one.replace(".3.", ".16."): tensors[one]})):
            with self.subTest(why=why):
                self.checkpoint("qwen3moe/0", change=change)
                self.refused(why)

    def test_experts_in_one_tensor(self):
        """Blocks have scales of the right shape, and none stands for no number."""
        one = "model.layers.2.mlp.experts.down_proj"
        blocks, scales = one + "_blocks", one + "_scales"

        def pack(tensors, scale=127, without="", shape=None, weights=0):
            dtype, (experts, inputs, outputs), _ = tensors[one]
            count = experts * outputs * inputs // 32
            shape = shape or [experts, outputs, inputs // 32]
            packed = {blocks: ("U8", [experts, outputs, inputs // 32, 16], bytes([weights] * (16 * count))), scales: ("U8", shape, bytes([127] * (count - 1) + [scale]))}
            return {name: tensor for name, tensor in (tensors | packed).items() if name not in (one, without)}

        for why, change in ((f"no tensor {one}", lambda tensors: pack(tensors, without=blocks)), (f"no tensor {scales}", lambda tensors: pack(tensors, without=scales)),
                            ("the config makes it", lambda tensors: pack(tensors, shape=[16, 3, 64])), ("a weight that is no number", lambda tensors: pack(tensors, 255)),
                            ("a weight that is no number", lambda tensors: pack(tensors, 254, weights=0x77)),
                            ("is of dtype I8", lambda tensors: pack(tensors) | {scales: ("I8", *pack(tensors)[scales][1:])}),
                            ("the config makes it", lambda tensors: tensors | {one: (tensors[one][0], [tensors[one][1][0], *tensors[one][1][:0:-1]], tensors[one][2])}),
                            ("down_proj_bias is [1]; the config makes it [16, 64]", lambda tensors: tensors | {one + "_bias": ("F32", [1], bytes(4))}),
                            ("down_proj has no place", lambda tensors: pack(tensors) | {one.replace("layers.2", "layers.9"): tensors[one]})):
            with self.subTest(why=why):
                self.checkpoint("gpt-oss/0", change=change)
                self.refused(why)
        self.checkpoint("gpt-oss/0", change=pack)
        outrider("model", "convert", self.folder, self.out)

    def test_a_head_that_is_the_embedding_is_not_written_twice(self):
        self.checkpoint("qwen2/1", change=lambda tensors: tensors | {"lm_head.weight": tensors["model.embed_tokens.weight"]})
        outrider("model", "convert", self.folder, self.out)
        self.assertNotIn("output.weight", checkpoints.read_gguf(self.out)[1])

    def test_gpt_2_as_it_was_published(self):
        """Names lack the prefix of today, and masks are stored with the weights."""
        published = lambda tensors: {name.removeprefix("transformer."): tensors[name] for name in tensors} | {"h.0.attn.bias": ("U8", [1, 1, 2, 2], bytes(4))}
        self.checkpoint("gpt2/0", change=published)
        outrider("model", "convert", self.folder, self.out)
        metadata, tensors = self.models["gpt2/0"]
        self.assertEqual(tensors, checkpoints.read_gguf(self.out)[1])
        self.checkpoint("gpt2/0", change=lambda tensors: published(tensors) | {"h.9.attn.c_attn.bias": ("F32", [1], bytes(4))})
        self.refused("h.9.attn.c_attn.bias has no place", None, "--force")

    def test_a_window_without_metadata_shortens_the_context(self):
        self.checkpoint("mistral/0", {"sliding_window": 64})
        _, error = outrider("model", "convert", self.folder, self.out)
        self.assertIn("the context becomes 64 instead of 256", error)
        self.assertEqual(64, checkpoints.read_gguf(self.out)[0]["llama.context_length"])
        self.checkpoint("gemma2/0", {"layer_types": ["full_attention"] * 4})
        outrider("model", "convert", self.folder, self.out, "--force")
        self.assertEqual(0, checkpoints.read_gguf(self.out)[0]["gemma2.attention.sliding_window"])
        self.checkpoint("mistral/0", {"sliding_window": 4096})
        self.assertEqual("", outrider("model", "convert", self.folder, self.out, "--force")[1])

    def test_files(self):
        index = "model.safetensors.index.json"
        self.refused("cannot open", "/nowhere")
        self.folder.mkdir()
        self.refused("no config.json: neither a GGUF file nor a checkpoint")
        self.refused("is a file, and a checkpoint is a folder; a GGUF file needs no conversion", checkpoints.__file__)
        for name in ("b.gguf", "a.gguf"):
            (self.folder / name).touch()
        self.refused(f"name one, as {self.folder}/a.gguf, which needs no conversion")
        self.checkpoint().joinpath("model.safetensors").unlink()
        self.refused("neither model.safetensors nor")
        (self.folder / "pytorch_model.bin").write_bytes(b"")
        self.refused("pickles")
        self.checkpoint()
        whole = (self.folder / "model.safetensors").read_bytes()
        (self.folder / "model.safetensors").write_bytes(whole[:-1])
        self.refused("cut off")
        self.checkpoint(files=2)
        listed = json.loads((self.folder / index).read_text())
        first = next(iter(listed["weight_map"]))
        for why, value in (("no plain name", "../x.safetensors"), ("no plain name", 7), ("cannot open", "x.safetensors"),
                           ("is not in", sorted(set(listed["weight_map"].values()))[1])):
            changed = copy.deepcopy(listed)
            changed["weight_map"][first] = value
            checkpoints.write_json(self.folder / index, changed)
            self.refused(why)
        checkpoints.write_json(self.folder / index, {"weight_map": {}})
        self.refused("weight_map")
        for name in ("config.json", "tokenizer.json"):
            self.checkpoint()
            (self.folder / index).unlink(missing_ok=True)
            (self.folder / name).write_text('{"a": 1, "a": 2}')
            self.refused("duplicate")
            (self.folder / name).write_text("[" * 100000)
            self.refused(name)

    def test_a_tensor_in_two_files(self):
        self.checkpoint(files=2)
        parts = sorted(self.folder.glob("*.safetensors"))
        parts[1].write_bytes(parts[0].read_bytes())
        self.refused("is both in")

    def test_links_out_of_the_folder(self):
        self.checkpoint()
        outside = self.out.parent / "outside"
        outside.mkdir()
        for name in ("config.json", "tokenizer.json", "model.safetensors"):
            (self.folder / name).rename(outside / name)
            (self.folder / name).symlink_to(outside / name)
            self.refused("leads out of its folder")
            (self.folder / name).unlink()
            (outside / name).rename(self.folder / name)

    def test_files_that_are_none(self):
        self.checkpoint()
        for name in ("config.json", "tokenizer.json", "model.safetensors", "generation_config.json"):
            (self.folder / name).unlink(missing_ok=True)
            os.mkfifo(self.folder / name)
            self.refused(f"{name} is no regular file")
            (self.folder / name).unlink()
            self.checkpoint()

    def test_the_cache_of_hugging_face(self):
        """Its snapshots are links to blobs beside them."""
        self.checkpoint()
        hub = self.out.parent / "hub"
        snapshot = hub / "snapshots/0123"
        snapshot.mkdir(parents=True)
        (hub / "blobs").mkdir()
        for path in self.folder.iterdir():
            (hub / "blobs" / path.name).write_bytes(path.read_bytes())
            (snapshot / path.name).symlink_to(f"../../blobs/{path.name}")
        outrider("model", "convert", snapshot, self.out)

    def test_the_output(self):
        self.checkpoint()
        self.out.write_bytes(b"old")
        self.refused("--force")
        self.assertEqual(b"old", self.out.read_bytes())
        outrider("model", "convert", self.folder, self.out, "--force")
        _, error = outrider("model", "convert", self.folder, code=2)
        self.assertIn("FOLDER and OUT", error)
        _, error = outrider("model", "convert", self.folder, self.out, "--type", "Q9", code=2)
        self.assertIn("--type", error)

    def test_types(self):
        """Without --type a matrix keeps its own and vectors become F32; with it they are as `model quantize` makes them."""
        halve = lambda tensors: {name: ("BF16", shape, checkpoints.to_bf16(data)) for name, (_, shape, data) in tensors.items()}
        self.checkpoint(change=halve)
        outrider("model", "convert", self.folder, self.out)
        _, tensors = checkpoints.read_gguf(self.out)
        self.assertEqual({0, 30}, {kind for _, kind, _ in tensors.values()})
        self.assertEqual((30, 0), (tensors["token_embd.weight"][1], tensors["output_norm.weight"][1]))
        direct, detour = self.out.parent / "direct.gguf", self.out.parent / "detour.gguf"
        outrider("model", "convert", self.folder, direct, "--type", "q8_0", "-t", 1)
        outrider("model", "quantize", self.out, detour, "Q8_0")
        self.assertEqual(checkpoints.read_gguf(direct), checkpoints.read_gguf(detour))

    def test_an_interrupted_run_leaves_nothing(self):
        # The embedding is a hole in a sparse file, which is large without taking time to write.
        tokens = 1 << 19
        self.checkpoint(config={"vocab_size": tokens, "tie_word_embeddings": True})
        tensors = checkpoints.their_tensors(*self.models["qwen2/0"])
        tensors.pop("lm_head.weight")
        dtype, shape, _ = tensors.pop("model.embed_tokens.weight")
        data_bytes = 4 * tokens * shape[1]
        offset = sum(len(data) for _, _, data in tensors.values())
        entry = {"model.embed_tokens.weight": {"dtype": dtype, "shape": [tokens, shape[1]], "data_offsets": [offset, offset + data_bytes]}}
        path = self.folder / "model.safetensors"
        path.write_bytes(checkpoints.safetensors(tensors, **entry))
        os.truncate(path, path.stat().st_size + data_bytes)
        process = subprocess.Popen([BIN / "outrider", "model", "convert", self.folder, self.out, "--type", "Q4_K", "-t", "1"], env=ENVIRONMENT,
                                   stderr=subprocess.PIPE, text=True)
        while not list(self.out.parent.glob("out.gguf.*.tmp")) and process.poll() is None:
            pass
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=PATIENCE)
        self.assertEqual(130, process.returncode, error)
        self.assertIn("interrupted", error)
        self.assertEqual([self.folder], list(self.out.parent.iterdir()))


if __name__ == "__main__":
    unittest.main()
