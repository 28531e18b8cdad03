"""Goal: a tokenizer.json becomes the vocabulary that it describes, and gives the same tokens.
Method: tokenizer.json is made of the real vocabularies of the test data, converted, and compared with them: tokens, kinds and merges; the ids of the test
texts, which tests of the tokenizer compare with llama.cpp's; and what a tokenizer has that GGUF cannot say is refused by name."""
import base64
import copy
import json
import tempfile
import sys
import unittest
from pathlib import Path

import checkpoints
import pre_tokenizers

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
from cli import data, outrider, share  # noqa: E402

OVER_BYTES, OVER_CHARACTERS = ("gpt-2", "starcoder", "llama-bpe", "qwen2"), ("llama-spm", "phi-3")
SMALL = {"tokens": ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] + [checkpoints.MARK, "a", "b", "ab", checkpoints.MARK + "a", "aab"],
         "kinds": [2, 3, 3] + [6] * 256 + [1] * 6}


def config_of(size):
    """Return a config.json of which only the number of tokens counts."""
    return {"architectures": ["LlamaForCausalLM"], "vocab_size": size, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1,
            "num_attention_heads": 4, "max_position_embeddings": 64, "rms_norm_eps": 1e-5}


def small_metadata():
    tokens = SMALL["tokens"]
    return {"tokenizer.ggml.tokens": [token.encode() for token in tokens], "tokenizer.ggml.token_type": SMALL["kinds"],
            "tokenizer.ggml.scores": [-float(i) for i in range(len(tokens))]}


class Tokenizers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "out.gguf"

    def convert(self, tokenizer, size, code=0, **files):
        checkpoints.write_json(self.folder / "config.json", config_of(size) | files.pop("config", {}))
        checkpoints.write_json(self.folder / "tokenizer.json", tokenizer)
        for name, value in files.items():
            checkpoints.write_json(self.folder / f"{name}.json", value)
        _, error = outrider("model", "convert", self.folder, self.out, "--vocab-only", "--force", code=code)
        return checkpoints.read_gguf(self.out)[0] if code == 0 else error

    def compare_ids(self, name):
        self.compare_with_original(name)

    def compare_with_original(self, name):
        text = data(f"vocab/{name}.inp").read_bytes()
        ids = [outrider("tokenize", "--special", "-m", model, stdin=text)[0] for model in (data(f"vocab/{name}.gguf"), self.out)]
        self.assertEqual(*ids)

    def compare(self, name, tokenizer, keys):
        original, _ = checkpoints.read_gguf(data(f"vocab/{name}.gguf"))
        converted = self.convert(tokenizer(original), len(original["tokenizer.ggml.tokens"]))
        for key in keys:
            self.assertEqual(original[f"tokenizer.ggml.{key}"], converted[f"tokenizer.ggml.{key}"], key)
        self.compare_ids(name)
        return original, converted

    def test_tokenizers_over_bytes(self):
        for name in share(OVER_BYTES, 2):
            with self.subTest(vocabulary=name):
                original, converted = self.compare(name, checkpoints.bytes_tokenizer, ("model", "pre", "merges"))
                padding = [i for i, kind in enumerate(converted["tokenizer.ggml.token_type"]) if kind == 5]
                for key in ("tokens", "token_type"):
                    pairs = zip(original[f"tokenizer.ggml.{key}"], converted[f"tokenizer.ggml.{key}"])
                    self.assertEqual([], [(i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1] and i not in padding][:5], key)

    def test_rules_that_no_vocabulary_of_the_data_has(self):
        original, _ = checkpoints.read_gguf(data("vocab/gpt-2.gguf"))
        for rule in share(checkpoints.OTHER_PRE_TOKENIZERS, 2):
            with self.subTest(rule=rule):
                converted = self.convert(checkpoints.bytes_tokenizer(original, rule), len(original["tokenizer.ggml.tokens"]))
                self.assertEqual(rule.encode(), converted["tokenizer.ggml.pre"])
                self.compare_rule(rule)

    def compare_rule(self, rule):
        """Beside the package `tokenizers`, in test_transformers."""

    def gpt_2(self, keeps=lambda left, right: True, **more):
        """Return tokenizer.json of GPT-2's vocabulary with the merges that `keeps` lets stand and that have both parts then, and how many tokens it has."""
        original, _ = checkpoints.read_gguf(data("vocab/gpt-2.gguf"))
        tokenizer = checkpoints.bytes_tokenizer(original)
        made, kept = set(), []
        for merge in tokenizer["model"]["merges"]:
            left, right = merge.split(" ")
            if keeps(left, right) and all(len(part) == 1 or part in made for part in (left, right)):
                made.add(left + right)
                kept.append(merge)
        tokenizer["model"] |= {"merges": kept} | more.pop("model", {})
        return tokenizer | more, len(original["tokenizer.ggml.tokens"])

    def test_steps_that_cut_byte_by_byte(self):
        """Falcon cuts at bytes that print as numbers, which no rule does. Its merges respect that; GPT-2's do not."""
        is_number = lambda piece: piece in "0123456789\u00b2\u00b3\u00b9\u00bc\u00bd\u00be"
        for steps, keeps in ((pre_tokenizers.FALCON, lambda left, right: is_number(left[-1]) == is_number(right[0])),
                             (pre_tokenizers.FALCON_3, lambda left, right: not is_number(left[-1]) and not is_number(right[0]))):
            with self.subTest(steps=len(steps["pretokenizers"])):
                converted = self.convert(*self.gpt_2(keeps, pre_tokenizer=steps))
                self.assertEqual(b"falcon", converted["tokenizer.ggml.pre"])
                self.compare_rule("falcon")
                self.assertIn("joins what the pre_tokenizer cuts byte by byte", self.convert(*self.gpt_2(pre_tokenizer=steps), code=1))

    def test_merges_that_are_ignored(self):
        """Where merges make every token of its bytes, "ignore_merges" changes nothing; where they do not, it does, and the rule must say the same."""
        ignores = {"model": {"ignore_merges": True}}
        self.assertEqual(b"gpt-2", self.convert(*self.gpt_2(**ignores))["tokenizer.ggml.pre"])
        self.compare_rule("gpt-2")
        error = self.convert(*self.gpt_2(lambda left, right: left + right != "\u0120the", **ignores), code=1)
        self.assertIn("do not make the token \"\u0120the\"", error)
        tekken = pre_tokenizers.OTHER_PRE_TOKENIZERS["tekken"]
        self.assertEqual(b"tekken", self.convert(*self.gpt_2(pre_tokenizer=tekken))["tokenizer.ggml.pre"])
        self.assertIn("do not make", self.convert(*self.gpt_2(lambda left, right: left != "s", pre_tokenizer=tekken), code=1))

    def convert_tiktoken(self, lines, size, code=0, **settings):
        """Convert a folder that has a tiktoken.model and no other tokenizer."""
        (self.folder / "tokenizer.json").unlink(missing_ok=True)
        (self.folder / "tiktoken.model").write_bytes(lines)
        checkpoints.write_json(self.folder / "config.json", config_of(size))
        checkpoints.write_json(self.folder / "tokenizer_config.json", {"tokenizer_class": "TikTokenTokenizer"} | settings)
        _, error = outrider("model", "convert", self.folder, self.out, "--vocab-only", "--force", code=code)
        return checkpoints.read_gguf(self.out)[0] if code == 0 else error

    def test_tiktoken(self):
        """Ids of GPT-2 are in the order of its merges, as ranks are: its vocabulary in this form has the same tokens as tokenizer.json."""
        original, _ = checkpoints.read_gguf(data("vocab/gpt-2.gguf"))
        pieces = [piece.decode() for piece in original["tokenizer.ggml.tokens"]][:-1]  # the last one is <|endoftext|>
        printing = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
        byte_of = {chr(byte): byte for byte in printing} | {chr(0x100 + i): byte for i, byte in enumerate(byte for byte in range(256) if byte not in printing)}
        lines = b"".join(base64.b64encode(bytes(byte_of[character] for character in piece)) + b" %d\n" % i for i, piece in enumerate(pieces))
        added = {str(len(pieces)): {"content": "[BOS]", "special": True}, str(len(pieces) + 1): {"content": "<user>", "special": False}}
        text = data("vocab/gpt-2.inp").read_bytes()
        ids = []
        for convert in (lambda: self.convert_tiktoken(lines, len(pieces) + 3, added_tokens_decoder=added, bos_token="[BOS]"),
                        lambda: self.convert(checkpoints.bytes_tokenizer(original, "kimi-k2"), len(pieces) + 3)):
            converted = convert()
            self.assertEqual(b"kimi-k2", converted["tokenizer.ggml.pre"])
            self.assertEqual(original["tokenizer.ggml.tokens"][:-1], converted["tokenizer.ggml.tokens"][:len(pieces)])
            ids.append((converted, outrider("tokenize", "-m", self.out, stdin=text)[0]))
        self.assertEqual(ids[0][1], ids[1][1])
        self.assertEqual(([b"[BOS]", b"<user>", b"[PAD%d]" % (len(pieces) + 2)], [3, 4, 5], len(pieces), False), (
            ids[0][0]["tokenizer.ggml.tokens"][len(pieces):], ids[0][0]["tokenizer.ggml.token_type"][len(pieces):],
            ids[0][0]["tokenizer.ggml.bos_token_id"], ids[0][0]["tokenizer.ggml.add_bos_token"]))

    def test_tiktoken_that_is_refused(self):
        for why, lines in (("line 2 is not base64", b"YQ== 0\nY 1\n"), ("line 1 is not base64", b"Y=Q= 0\n"), ("line 1 is not base64", b" 0\n"), ("line 1 is not base64", b"==== 0\n"),
                           ("line 1 has no rank", b"YQ==\n"), ("line 1 has no rank", b"YQ== x\n"), ("line 1 has no rank", b"YQ== 0 1\n"), ("too large a rank", b"YQ== 99999999999\n"),
                           ("line 2 has a token or a rank of another", b"YQ== 0\nYQ== 1\n"), ("line 2 has a token or a rank of another", b"YQ== 0\nYg== 0\n"),
                           ("more than 1024 bytes", base64.b64encode(b"a" * 1025) + b" 0\n"), ("the model has 2 tokens", b"YQ== 0\nYg== 2\n")):
            with self.subTest(lines=lines[:20]):
                self.assertIn(why, self.convert_tiktoken(lines, 2, code=1))
        powers = b"".join(base64.b64encode(b"a" * (i + 1)) + b" %d\n" % i for i in range(1000))
        self.assertIn("take over 256 MiB", self.convert_tiktoken(powers, 1000, code=1))
        self.assertIn("of the class \"QWenTokenizer\"", self.convert_tiktoken(b"YQ== 0\n", 2, code=1, tokenizer_class="QWenTokenizer"))

    # ---- vocab.json and merges.txt ----

    def convert_bpe_files(self, files, size, code=0, **settings):
        """Convert a folder that has these files and no other tokenizer."""
        for name in ("tokenizer.json", "vocab.json", "merges.txt", "added_tokens.json", "special_tokens_map.json"):
            (self.folder / name).unlink(missing_ok=True)
        for name, text in files.items():
            (self.folder / name).write_text(text, errors="surrogateescape", newline="")
        checkpoints.write_json(self.folder / "config.json", config_of(size))
        checkpoints.write_json(self.folder / "tokenizer_config.json", {"tokenizer_class": "GPT2Tokenizer"} | settings)
        _, error = outrider("model", "convert", self.folder, self.out, "--vocab-only", "--force", code=code)
        return checkpoints.read_gguf(self.out)[0] if code == 0 else error

    def bpe_files(self, roles):
        """Return GPT-2's vocabulary in this form with other tokens in place of its last ones, as OPT has its own, and the ids of these."""
        original, _ = checkpoints.read_gguf(data("vocab/gpt-2.gguf"))
        model = checkpoints.bytes_tokenizer(original)["model"]
        size = len(original["tokenizer.ggml.tokens"])
        merges = "\n".join(["#version: 0.2", *model["merges"], ""])
        ids = {role: size - 1 + i for i, role in enumerate(roles)}
        return {"vocab.json": json.dumps(model["vocab"] | ids), "merges.txt": merges}, ids, original

    def test_vocab_json_and_merges(self):
        """The form of OPT: its roles are tokens of the vocabulary, and what it adds has a file of its own."""
        files, ids, original = self.bpe_files(["<|endoftext|>", "</s>", "<pad>", "<mask>"])
        size = len(original["tokenizer.ggml.tokens"]) + 4
        files["added_tokens.json"] = json.dumps({"<user>": size - 1})
        settings = {"bos_token": {"content": "</s>", "__type": "AddedToken"}, "eos_token": "</s>", "unk_token": "</s>", "pad_token": "<pad>",
                    "additional_special_tokens": ["<mask>", "<none>"], "add_bos_token": True, "add_prefix_space": False}
        converted = self.convert_bpe_files(files, size + 1, **settings)
        first = size - 5
        self.assertEqual(([b"<|endoftext|>", b"</s>", b"<pad>", b"<mask>", b"<user>", b"[PAD%d]" % size], [1, 3, 3, 3, 4, 5]),
                         (converted["tokenizer.ggml.tokens"][first:], converted["tokenizer.ggml.token_type"][first:]))
        self.assertEqual((b"gpt2", b"gpt-2", original["tokenizer.ggml.merges"], True) + (ids["</s>"],) * 3 + (ids["<pad>"],), tuple(
            converted[f"tokenizer.ggml.{key}"] for key in ("model", "pre", "merges", "add_bos_token", "bos_token_id", "eos_token_id", "unknown_token_id", "padding_token_id")))
        self.compare_bpe_files()

    def test_vocab_json_and_merges_of_gpt_2(self):
        """Roles that nobody names are <|endoftext|>, and the ids are those of the vocabulary that it was made of."""
        files, _, original = self.bpe_files(["<|endoftext|>"])
        files["merges.txt"] = files["merges.txt"].replace("\n", "\r\n")
        converted = self.convert_bpe_files(files, len(original["tokenizer.ggml.tokens"]))
        for key in ("tokens", "token_type", "merges", "bos_token_id", "eos_token_id"):
            self.assertEqual(original[f"tokenizer.ggml.{key}"], converted[f"tokenizer.ggml.{key}"], key)
        self.compare_with_original("gpt-2")

    def test_roles_in_a_file_of_their_own(self):
        """special_tokens_map.json wins over older settings, and counts for nothing beside those that list the added tokens."""
        files, ids, original = self.bpe_files(["<s>", "</s>", "<pad>"])
        size = len(original["tokenizer.ggml.tokens"]) + 2
        files["special_tokens_map.json"] = json.dumps({"bos_token": "<pad>", "eos_token": {"content": "</s>"}, "pad_token": "<pad>"})
        for settings, roles, kinds in (({}, ["<pad>", "</s>", "<pad>"], [1, 3, 3]), ({"added_tokens_decoder": {}}, ["<s>", None, None], [3, 1, 1])):
            with self.subTest(settings=settings):
                converted = self.convert_bpe_files(files, size, bos_token="<s>", eos_token=None, **settings)
                self.assertEqual([ids.get(role) for role in roles], [converted.get(f"tokenizer.ggml.{key}_token_id") for key in ("bos", "eos", "padding")])
                self.assertEqual(kinds, converted["tokenizer.ggml.token_type"][-3:])

    def test_roles_of_added_tokens(self):
        """A token with a role is special wherever it is listed; the others of added_tokens.json a user may write."""
        files, ids, original = self.bpe_files([])
        first = len(original["tokenizer.ggml.tokens"])
        names = ["<user>", "<sep>", "<eos>", "<more>", "<most>"]
        files["added_tokens.json"] = json.dumps({name: first + i for i, name in enumerate(names)})
        files["special_tokens_map.json"] = json.dumps({"sep_token": "<sep>", "additional_special_tokens": ["<more>"]})
        converted = self.convert_bpe_files(files, first + len(names), eos_token="<eos>", additional_special_tokens=["<most>"])
        self.assertEqual([4, 3, 3, 3, 3], converted["tokenizer.ggml.token_type"][first:])
        self.assertEqual(first + 2, converted["tokenizer.ggml.eos_token_id"])

    def compare_bpe_files(self):
        """Beside transformers, in test_transformers."""

    def test_vocab_json_and_merges_that_are_refused(self):
        vocab = json.dumps({"a": 0, "b": 1, "ab": 2})
        for why, files, settings in (
                ("nor both vocab.json and merges.txt", {"vocab.json": vocab}, {}),
                ("nor both vocab.json and merges.txt", {"merges.txt": "a b\n"}, {}),
                ("of the class \"Qwen2Tokenizer\"", {"vocab.json": vocab, "merges.txt": "a b\n"}, {"tokenizer_class": "Qwen2Tokenizer"}),
                ("of the class \"\"", {"vocab.json": vocab, "merges.txt": "a b\n"}, {"tokenizer_class": None}),
                ("add_prefix_space", {"vocab.json": vocab, "merges.txt": "a b\n"}, {"add_prefix_space": True}),
                ("merge 1 is not two pieces", {"vocab.json": vocab, "merges.txt": "#version: 0.2\na b\n\nab\n"}, {}),
                ("merge 0 is not two pieces", {"vocab.json": vocab, "merges.txt": "a b a\n"}, {}),
                ("line 2 is not UTF-8", {"vocab.json": vocab, "merges.txt": "a b\n\udcff c\n"}, {}),
                ("has the id 2", {"vocab.json": vocab, "merges.txt": "a b\n"}, {})):
            with self.subTest(why=why):
                self.assertIn(why, self.convert_bpe_files(files, 2 if "has the id" in why else 3, code=1, **settings))

    def test_tokenizers_over_characters(self):
        for name, newer in zip(OVER_CHARACTERS, (True, False)):
            with self.subTest(vocabulary=name):
                self.compare(name, lambda metadata: checkpoints.characters_tokenizer(metadata, newer), ("model", "tokens"))

    # ---- tokenizer.model ----

    def convert_model(self, model, size, code=0, **files):
        """Convert a folder that has a tokenizer.model and no tokenizer.json."""
        (self.folder / "tokenizer.json").unlink(missing_ok=True)
        (self.folder / "tokenizer.model").write_bytes(model)
        checkpoints.write_json(self.folder / "config.json", config_of(size))
        for name in ("added_tokens", "tokenizer_config"):
            (self.folder / f"{name}.json").unlink(missing_ok=True)
            if name in files:
                checkpoints.write_json(self.folder / f"{name}.json", files[name])
        _, error = outrider("model", "convert", self.folder, self.out, "--vocab-only", "--force", code=code)
        return checkpoints.read_gguf(self.out)[0] if code == 0 else error

    def test_sentencepiece_models(self):
        """The pieces as they are; of the newer one tokens that tokenizer_config.json adds."""
        for name, own in zip(OVER_CHARACTERS, (32000, 32000)):
            with self.subTest(vocabulary=name):
                original, _ = checkpoints.read_gguf(data(f"vocab/{name}.gguf"))
                tokens, kinds, scores = ([value for value in original[f"tokenizer.ggml.{key}"]] for key in ("tokens", "token_type", "scores"))
                pieces = [token.decode() for token in tokens]
                begin = original.get("tokenizer.ggml.add_space_prefix", True)
                model = checkpoints.sentencepiece_model(pieces[:own], [kind if kind != 4 else 1 for kind in kinds[:own]], scores[:own], normalizer={3: begin})
                added = {str(i): {"content": pieces[i], "special": kinds[i] == 3} for i in range(len(pieces)) if i >= own or kinds[i] == 4}
                converted = self.convert_model(model, len(pieces), tokenizer_config={"added_tokens_decoder": added, "bos_token": "<s>"})
                self.assertEqual(tokens, converted["tokenizer.ggml.tokens"])
                self.assertEqual(kinds[:own], converted["tokenizer.ggml.token_type"][:own])
                self.assertEqual(scores[:own], converted["tokenizer.ggml.scores"][:own])
                self.assertEqual((b"llama", 1, 2, 0, begin), tuple(converted[f"tokenizer.ggml.{key}"] for key in (
                    "model", "bos_token_id", "eos_token_id", "unknown_token_id", "add_space_prefix")))
                self.compare_with_original(name)
                self.compare_sentencepiece(name, model)

    def compare_sentencepiece(self, name, model):
        """Beside the package `sentencepiece`, in test_transformers."""

    def test_what_a_sentencepiece_model_adds(self):
        tokens, kinds = SMALL["tokens"], SMALL["kinds"]
        scores = [-float(i) for i in range(len(tokens))]
        model, size = checkpoints.sentencepiece_model(tokens, kinds, scores), len(tokens)
        read = self.convert_model(model, size + 3, added_tokens={"<|x|>": size, checkpoints.MARK + "c": size + 1, "beyond": size + 9})
        self.assertEqual([b"<|x|>", b" c", b"[PAD%d]" % (size + 2)], read["tokenizer.ggml.tokens"][size:])
        self.assertEqual([3, 4, 5], read["tokenizer.ggml.token_type"][size:])
        self.assertTrue(read["tokenizer.ggml.add_bos_token"])
        self.assertFalse(self.convert_model(model, size, tokenizer_config={"add_bos_token": False})["tokenizer.ggml.add_bos_token"])

    def test_sentencepiece_models_that_are_refused(self):
        tokens, kinds = SMALL["tokens"], SMALL["kinds"]
        scores = [-float(i) for i in range(len(tokens))]
        make = lambda **more: checkpoints.sentencepiece_model(tokens, more.pop("kinds", kinds), more.pop("scores", scores), **more)
        for why, model in (
                ("its pieces are Unigram; only BPE", make(kind="unigram")),
                ("its pieces are words", make(kind="word")),
                ("another form (\"nmt_nfkc\")", make(normalizer={1: "nmt_nfkc"}, rules=b"rules")),
                ("no \"byte_fallback\"", make(trainer={35: 0})),
                ("it removes spaces", make(normalizer={4: 1})),
                ("otherwise than before a word", make(normalizer={5: 0})),
                ("otherwise than before a word", make(trainer={24: 1})),
                ("unused pieces", make(kinds=kinds[:-1] + [5])),
                ("no number", make(scores=scores[:-1] + [float("nan")])),
                ("255 pieces of bytes", make(kinds=[1 if i == 3 else kind for i, kind in enumerate(kinds)])),
                ("no model of SentencePiece", make()[:-1]),
                ("no model of SentencePiece", b"")):
            with self.subTest(why=why):
                self.assertIn(why, self.convert_model(model, len(tokens), code=1))
        self.assertIn("265 pieces, and the model 264 tokens", self.convert_model(make(), len(tokens) - 1, code=1))
        self.assertIn("has the id -1", self.convert_model(make(), len(tokens), code=1, added_tokens={"x": "y"}))

    def small(self, change=None, model=None, code=0, **files):
        tokenizer = copy.deepcopy(checkpoints.characters_tokenizer(small_metadata()))
        tokenizer |= change or {}
        tokenizer["model"] |= model or {}
        return self.convert(tokenizer, len(SMALL["tokens"]), code, **files)

    def test_roles_and_templates(self):
        template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]}
        read = self.small({"post_processor": template}, config={"eos_token_id": [2, 1]},
                          tokenizer_config={"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": "{{ x }}"},
                          generation_config={"eos_token_id": [2, 259, 260]})
        facts = {key.removeprefix("tokenizer."): value for key, value in read.items() if not isinstance(value, list)}
        self.assertEqual({"ggml.model": b"llama", "ggml.pre": b"default", "ggml.bos_token_id": 1, "ggml.eos_token_id": 2, "ggml.unknown_token_id": 0,
                          "ggml.eot_token_id": 259, "ggml.eom_token_id": 260, "ggml.add_bos_token": True, "ggml.add_space_prefix": True,
                          "chat_template": b"{{ x }}"}, {key: facts[key] for key in facts if key.startswith(("ggml", "chat"))})
        template["single"].insert(0, {"SpecialToken": {"id": "</s>", "type_id": 0}})
        self.assertFalse(self.small({"post_processor": template}, tokenizer_config={"bos_token": "<s>"})["tokenizer.ggml.add_bos_token"])
        (self.folder / "chat_template.jinja").write_text("{{ y }}")
        self.assertEqual(b"{{ y }}", self.small()["tokenizer.chat_template"])
        self.assertFalse(self.small()["tokenizer.ggml.add_bos_token"])
        self.assertTrue(self.small(tokenizer_config={"add_bos_token": True})["tokenizer.ggml.add_bos_token"])

    def test_suppressed_tokens(self):
        read = self.small(generation_config={"suppress_tokens": [5, 260, 9999, -1]})
        self.assertEqual([5, 260], read["tokenizer.ggml.suppress_tokens"])
        self.assertNotIn("tokenizer.ggml.suppress_tokens", self.small(generation_config={"suppress_tokens": None}))

    def test_padding_and_user_tokens(self):
        tokenizer = checkpoints.characters_tokenizer(small_metadata())
        size = len(SMALL["tokens"])
        tokenizer["added_tokens"] += [{"id": size, "content": checkpoints.MARK * 2, "special": False}, {"id": size + 1, "content": "<|x|>", "special": False},
                                      {"id": size + 9, "content": "<y>", "special": True}]
        read = self.convert(tokenizer, size + 3)
        self.assertEqual([b"  ", b"<|x|>", b"[PAD%d]" % (size + 2)], read["tokenizer.ggml.tokens"][size:])
        self.assertEqual([4, 3, 5], read["tokenizer.ggml.token_type"][size:])

    def test_what_gguf_cannot_say_is_refused_by_name(self):
        whole = {"id": 259, "content": checkpoints.MARK, "special": False, "single_word": True}
        metaspace = {"type": "Metaspace", "replacement": checkpoints.MARK, "prepend_scheme": "always", "split": True}
        merges = checkpoints.characters_tokenizer(small_metadata())["model"]["merges"]
        over_bytes = lambda pre: {"pre_tokenizer": pre, "normalizer": None}
        for why, change, model in (
                ("of type \"Unigram\"", {}, {"type": "Unigram"}),
                ("end_of_word_suffix", {}, {"end_of_word_suffix": "</w>"}),
                ("no \"byte_fallback\"", {}, {"byte_fallback": False}),
                ("single_word", {"added_tokens": [whole]}, {}),
                ("normalizer or pre_tokenizer", {"normalizer": {"type": "NFKC"}}, {}),
                ("its pre_tokenizer is another", {"normalizer": None, "pre_tokenizer": metaspace}, {}),
                ("a step Whitespace", over_bytes({"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}, checkpoints.BYTES]}), {}),
                ("add_prefix_space", over_bytes(checkpoints.GPT_2 | {"add_prefix_space": True}), {}),
                ("no known rule cuts text", over_bytes({"type": "Sequence", "pretokenizers": [checkpoints.CUT | {"pattern": {"Regex": "a|b"}},
                                                                                              checkpoints.BYTES]}), {}),
                ("\"ignore_merges\" matters", over_bytes(checkpoints.PRE_TOKENIZERS["gpt-2"]), {"ignore_merges": True}),
                ("Punctuation that is not Contiguous", over_bytes(
                    {"type": "Sequence", "pretokenizers": [pre_tokenizers.PUNCTUATION | {"behavior": "Isolated"}, checkpoints.BYTES]}), {}),
                ("not by a Regex and Isolated", over_bytes({"type": "Sequence", "pretokenizers": [
                    checkpoints.CUT | {"pattern": {"Regex": "a"}, "invert": True}, checkpoints.BYTES]}), {}),
                ("its normalizer \"Lowercase\"", {"pre_tokenizer": checkpoints.GPT_2, "normalizer": {"type": "Lowercase"}}, {}),
                ("lack some that its tokens allow", {}, {"merges": merges[:-1]}),
                ("at several places", {}, {"merges": [["a", "ab"], ["a", "b"], ["a", "ab"], [checkpoints.MARK, "a"]][1:] + [["a", "b"]]}),
                ("makes no token", {}, {"merges": [["b", "b"]]}),
                ("merge 0 is not two pieces", {}, {"merges": ["ab"]}),
                ("has the id 999", {}, {"vocab": {"a": 999}}),
                ("have the id 0", {}, {"vocab": {"a": 0, "b": 0}})):
            with self.subTest(why=why):
                self.assertIn(why, self.small(change, model, code=1))


if __name__ == "__main__":
    unittest.main()
