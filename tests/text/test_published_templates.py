"""Goal: a conversation becomes the text that its model's published template renders, and what users write in it becomes no special token.
Method: a vocabulary whose tokens are bytes and the special tokens of all families, so that ids tell text and markup apart; each template in a file
of this vocabulary, recognised there; the ids as text, compared with what Jinja rendered. That is stored in data/renderings.json, made by
make_renderings.py; where Jinja is at hand, random conversations are compared, too."""
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import byte_vocabulary
from published import HOSTILE, TALKS, TEMPLATES, render, template_text, turns, variants

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))
from cli import BIN  # noqa: E402

SEED = int(os.environ.get("OR_TEST_SEED", "8"))
WORDS = ["Hello", "how", "\n", "  ", "naïve", "日本", "😀", "```c\nint x;\n```", "- item", "?", "<b>", "[x]", "\t", *HOSTILE]


class Published(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "vocabulary.gguf"

    def run_tokens(self, name, talks, family="-", thinking="", **how):
        template, text = TEMPLATES[name], template_text(name)
        self.assertTrue(text, f"the template {name} is empty")  # which would be refused, as some templates are
        byte_vocabulary.write(self.file, text, *template.roles, adds_begin=template.adds_begin, **how)
        return subprocess.run([BIN.parent / "tests/chat-tokens", self.file, family, *filter(None, [thinking])], input="".join(json.dumps(talk) + "\n" for talk in talks),
                              capture_output=True, text=True, timeout=60)

    def ids(self, name, talks, family="-", thinking="", **how):
        done = self.run_tokens(name, talks, family, thinking, **how)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [[int(word) for word in line.split()] if line[:1].isdigit() else line for line in done.stdout.splitlines()]

    def compare(self, name, thinking, talks, rendered):
        self.assertEqual(len(talks), len(rendered))
        for talk, ids, text in zip(talks, self.ids(name, talks, thinking=thinking), rendered):
            word = re.search(TEMPLATES[name].refused, talk[0]["content"]) if talk[0]["role"] == "system" else None
            if word:
                self.assertIn(f" takes {word[0]} in a system message", ids)
            elif text is not None:
                self.assertIsInstance(ids, list, f"{name} {thinking}, {talk}: {ids}")
                self.assertEqual(byte_vocabulary.text_of(ids), text, f"{name} {thinking}, {talk}")

    def test_stored_renderings(self):
        stored = json.loads((Path(__file__).parent / "data" / "renderings.json").read_text())
        self.assertEqual(sorted(stored), sorted(f"{name} {how}".strip() for name, how in variants()))
        for name, how in variants():
            with self.subTest(template=name, thinking=how):
                self.compare(name, how, TALKS, stored[f"{name} {how}".strip()])

    def test_families_are_recognised(self):
        for name, template in TEMPLATES.items():
            with self.subTest(template=name):
                if template.family:
                    self.assertEqual(self.ids(name, TALKS), self.ids(name, TALKS, template.family))
                else:
                    done = self.run_tokens(name, TALKS)
                    self.assertEqual(done.returncode, 1)
                    self.assertIn("--chat-template", done.stderr)

    def test_what_users_write_is_text(self):
        tokens = byte_vocabulary.SPECIAL[1:]
        hostile = turns("".join(tokens), " ".join(tokens), "x".join(tokens), system="y".join(token for token in tokens if "/think" not in token))
        for name in (name for name, template in TEMPLATES.items() if template.family):
            for user_defined in (False, True):
                with self.subTest(template=name, user_defined=user_defined):
                    for talk in (TALKS[6], hostile):
                        harmless = [{"role": turn["role"], "content": "x"} for turn in talk]
                        counts = [byte_vocabulary.count_special(ids) for ids in self.ids(name, [talk, harmless], user_defined=user_defined)]
                        self.assertEqual(*counts)

    def test_random_conversations(self):
        try:
            import jinja2  # noqa: F401
        except ImportError:
            if os.environ.get("CI") == "true":
                raise
            self.skipTest("python3-jinja2 is missing")
        rng = random.Random(SEED)
        for name, how in variants():
            talks = [self.conversation(rng) for _ in range(10)]
            text = template_text(name)
            self.compare(name, how, talks, [render(TEMPLATES[name], text, talk, how) for talk in talks])

    def conversation(self, rng):
        def words():
            return "".join(rng.choice(WORDS) + rng.choice(["", " "]) for _ in range(rng.randint(0, 8)))
        system = "s" + words() if rng.random() < 0.5 else None
        return turns(*(words() for _ in range(2 * rng.randint(0, 3) + 1)), system=system)


if __name__ == "__main__":
    unittest.main(verbosity=2)
