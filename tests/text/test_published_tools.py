"""Goal: a conversation with tools becomes the text that its model's published template renders, and nothing that tools, calls and results say in it
becomes a special token.
Method: as in test_published_templates.py. Arguments are objects for Jinja, as transformers wants them, and text for us. Stored renderings are in
data/tool_renderings.json; where Jinja is at hand, random conversations are compared, too."""
import copy
import json
import os
import random
import subprocess
import tempfile
import unittest
from pathlib import Path

import byte_vocabulary
from published import HOSTILE, TEMPLATES, template_text, turns
from published_tools import FORMATS, ONE, TOOL_TALKS, asks, call, for_us, rendered, result, talks_of, tool
from test_published_templates import BIN, SEED, WORDS

VALUES = [0, -1, 1.5, 1e300, 1e-7, 123456789012, True, None, "", "\"", "\\", [], {}, [[1, "x"], {}], {"a": {"b": []}}]


class Tools(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "vocabulary.gguf"

    def lines(self, name, talks, **how):
        template = TEMPLATES[name]
        byte_vocabulary.write(self.file, template_text(name), *template.roles, adds_begin=template.adds_begin, **how)
        done = subprocess.run([BIN.parent / "tests/chat-tokens", self.file, "-"], input="".join(json.dumps(for_us(talk)) + "\n" for talk in talks),
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def ids(self, *arguments, **how):
        return [[int(word) for word in line.split()] if line[:1].isdigit() else line for line in self.lines(*arguments, **how)]

    def compare(self, name, talks, texts):
        self.assertEqual(len(talks), len(texts))
        for talk, ids, text in zip(talks, self.ids(name, talks), texts):
            if text is None:
                self.assertIsInstance(ids, str, f"{name}, {talk}")
            else:
                self.assertIsInstance(ids, list, f"{name}, {talk}: {ids}")
                self.assertEqual(byte_vocabulary.text_of(ids), text, f"{name}, {talk}")

    def test_stored_renderings(self):
        stored = json.loads((Path(__file__).parent / "data" / "tool_renderings.json").read_text())
        self.assertEqual(sorted(stored), sorted(FORMATS))
        for name in FORMATS:
            with self.subTest(template=name):
                self.compare(name, talks_of(name), stored[name])

    def test_templates_without_a_format_refuse_tools(self):
        for name in (name for name, template in TEMPLATES.items() if template.family and name not in FORMATS):
            with self.subTest(template=name):
                self.assertIn("no format of tools", self.lines(name, [(ONE, turns("u"))])[0])

    def test_what_tools_say_is_text(self):
        tokens = byte_vocabulary.SPECIAL[1:]
        for name in FORMATS:
            for user_defined in (False, True):
                with self.subTest(template=name, user_defined=user_defined):
                    talks = [([tool("f", words, {words: {}})], turns("u", system="s") + [asks(call("f", x=words)), result(words)]) for words in ("".join(tokens), "x".join(tokens), "x")]
                    self.assertEqual(len({byte_vocabulary.count_special(ids) for ids in self.ids(name, talks, user_defined=user_defined)}), 1)

    def test_what_a_format_has_no_words_for_is_refused(self):
        alien = copy.deepcopy(TOOL_TALKS[4])
        alien[1][-2]["tool_calls"][0]["id"] = alien[1][-1]["tool_call_id"] = "call_0123456789"
        for name in FORMATS:
            self.assertIn("answers a call before it", self.lines(name, [(ONE, turns("u") + [result("r")])])[0])
            line = self.lines(name, [alien])[0]
            self.assertEqual("have 9 characters" in line, FORMATS[name].startswith("mistral"), line)
        two = [TOOL_TALKS[5], (ONE, turns("", "a", "b", system="s")[:1] + turns("", "a", "b")[1:])]
        lines = self.lines("meta-llama-Llama-3.1-8B-Instruct", two)
        self.assertIn("a message has 1 call", lines[0])
        self.assertIn("the first must be the user's", lines[1])

    def test_random_conversations(self):
        try:
            import jinja2  # noqa: F401
        except ImportError:
            if os.environ.get("CI") == "true":
                raise
            self.skipTest("python3-jinja2 is missing")
        rng = random.Random(SEED)
        for name in FORMATS:
            talks = [self.conversation(rng) for _ in range(20)]
            self.compare(name, talks, [rendered(name, talk) for talk in talks])

    def conversation(self, rng):
        def words():
            return "".join(rng.choice(WORDS) + rng.choice(["", " "]) for _ in range(rng.randint(0, 6)))

        def value():
            return rng.choice([rng.choice(VALUES), words()])

        def step():
            calls = [call(rng.choice("fg"), i, **{words(): value() for _ in range(rng.randint(0, 3))}) for i in range(rng.randint(1, 2))]
            return [asks(*calls, content=words()), *(result(words(), i) for i in range(len(calls)))]
        tools = [tool(rng.choice("fg"), words(), {words(): {"default": value()}}, **rng.choice([{}, {"return": words()}])) for _ in range(rng.randint(1, 2))]
        talk = [{"role": "system", "content": "s" + words()}] if rng.random() < 0.5 else []
        for _ in range(rng.randint(0, 2)):
            talk += turns(words())
            for _ in range(rng.randint(0, 2)):
                talk += step()
            talk += turns("", words())[1:]
        talk += turns(words())
        for _ in range(rng.randint(0, 2)):
            talk += step()
        return rng.choice([tools, tools, None]), talk


if __name__ == "__main__":
    unittest.main(verbosity=2)
