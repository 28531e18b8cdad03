"""Goal: a text that another family's model has guessed for is the target's own, for every family, through three processes.
Method: the small random models of families_test, which have one vocabulary. Each is the target of a coordinator, a verifier and a drafter whose model is of
another family. Texts are longer than the windows. At temperatures 0 and 1 a drafted text is what plain decoding wrote, with trees in turn with the target and
ahead of it; a penalty keeps the random models from repeating one token, which no wrong pass would change. Without it each token at 0 has the largest logit of
one pass over the whole text, which no process comes between. OUTRIDER_FAMILIES is how many
families are targets; the random models agree seldom, so what their drafters' trees were good for is asserted of all together."""
import json
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "service"))
from service import number  # noqa: E402
from cli import BIN, DRAFT, PATIENCE, ROOT, TARGET, Cluster, generate, outrider, wait_until  # noqa: E402

DATA = Path(__file__).parent / "data"
ALL = sorted(folder.name for folder in DATA.iterdir())
COUNT = number("OUTRIDER_FAMILIES", len(ALL))
PROMPT = "HELLO;FAMILY:0123456789<THIS=IS?A@GUESS>"
TOKENS = 110  # with the prompt they are more than any window
ALIGNMENT = 32
WAYS = {"trees": ["--draft-ahead", 0], "small trees, ahead": ["--draft-method", "topk", "--draft-nodes", 5, "--draft-ahead", 1]}


UNKNOWN = b"tokenizer.ggml.unknown_token_id", struct.pack("<II", 4, 0)
SUPPRESSED = b"tokenizer.ggml.suppress_tokens"
U8, ARRAY = 0, 9


def with_keys(head, *keys):
    """Return the head of a GGUF file with more keys, as (name, type and value). One more makes them all a whole number of alignments, so that data stay aligned."""
    fields, = struct.unpack_from("<Q", head, 16)
    at = head.index(b"tokenizer.ggml.bos_token_id") - 8  # a field begins with the length of its key
    more = b"".join(struct.pack("<Q", len(name)) + name + value for name, value in keys)
    name = b"f" * (1 + -(len(more) + 8 + 1 + 5) % ALIGNMENT)
    more += struct.pack("<Q", len(name)) + name + struct.pack("<IB", U8, 0)
    assert len(more) % ALIGNMENT == 0
    return head[:16] + struct.pack("<Q", fields + len(keys) + 1) + head[24:at] + more + head[at:]


class Processes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.accepted = 0

    def file_of(self, family, *keys):
        """Return the path of the family's model, whose head is as long as in its recipe and a whole number of alignments. Without an unknown token text that the 64
        tokens cannot say would be refused."""
        path = self.folder / f"{family}-{len(keys)}.gguf"
        if not path.exists():
            subprocess.run([BIN / "family-model", f"{family}/0", path], check=True, cwd=ROOT, timeout=PATIENCE)
            file, head = path.read_bytes(), len((DATA / family / "0.gguf-head").read_bytes())
            path.write_bytes(with_keys(file[:head], UNKNOWN, *keys) + file[head:])
        return path

    def write(self, cluster, *words, tokens=TOKENS):
        return generate("--connect", cluster.endpoint, "-p", PROMPT, "-n", tokens, "--ignore-eos", *words)

    def has_the_largest_logits(self, target, tokens):
        """Compare a text at temperature 0 with one pass over all of it."""
        prompt = outrider("tokenize", "-m", target, "--bos", stdin=PROMPT.encode())[0].split()
        ids = [int(word) for word in prompt] + tokens
        out, _ = outrider("model", "eval", "-m", target, "--ids", ",".join(map(str, ids)), "--top", 1, "-dev", "none", "--json")
        best = [row["logits"][0][0] for row in json.loads(out)["rows"]]
        self.assertEqual(tokens, best[len(prompt) - 1:-1])

    def same_as_plain(self, cluster, *words):
        """Return the text."""
        plain = self.write(cluster, "--plain", *words)["tokens"]
        self.assertEqual(len(plain), TOKENS)
        for way, how in WAYS.items():
            with self.subTest(way=way, words=words):
                text = self.write(cluster, "--draft-policy", "fixed", *how, *words)
                self.assertEqual(text["tokens"], plain)
                self.assertGreater(text["drafted"], 0)
                type(self).accepted += text["accepted"]
        return plain

    def check(self, target, draft):
        with Cluster("-m", target, "-md", draft, "--log-level", "error") as cluster:
            wait_until(lambda: self.write(cluster, "--draft-policy", "fixed", tokens=4)["drafted"] > 0, "a drafter at work")
            self.has_the_largest_logits(target, self.same_as_plain(cluster, "--temp", 0))
            for words in (["--temp", 0], ["--temp", 1, "--seed", 7]):
                tokens = self.same_as_plain(cluster, "--repeat-penalty", 4, *words)
                self.assertGreater(len(set(tokens)), 3)

    def test_another_familys_drafter(self):
        for i in range(COUNT):
            at = i * len(ALL) // COUNT
            target, draft = ALL[at], ALL[(at + 1) % len(ALL)]
            with self.subTest(target=target, draft=draft):
                self.check(self.file_of(target), self.file_of(draft))
        self.assertGreater(self.accepted, COUNT)


class Suppressed(Processes):
    """Tokens that a file suppresses are never drawn: texts are those of the same file without them, with a bias of minus infinity for each."""
    test_another_familys_drafter = None

    def test_tokens_that_a_file_suppresses(self):
        usual, draft = self.file_of("gemma4-experts"), self.file_of("glm4")
        ways = (["--temp", 0], ["--temp", 1, "--seed", 7], ["--temp", 1, "--seed", 3, "--top-k", 4])
        with Cluster("-m", usual, "--plain", "--log-level", "error") as cluster:
            plain = [self.write(cluster, "--plain", *words)["tokens"] for words in ways]
            suppressed = sorted({token for text in plain for token in text[:3]})
            biases = [word for token in suppressed for word in ("--logit-bias", f"{token}-inf")]
            expected = [self.write(cluster, "--plain", *words, *biases)["tokens"] for words in ways]
        ids = struct.pack(f"<IIQ{len(suppressed) + 1}i", ARRAY, 5, len(suppressed) + 1, *suppressed, 1000)  # an id beyond the last is left out
        target = self.file_of("gemma4-experts", (SUPPRESSED, ids))
        with Cluster("-m", target, "-md", draft, "--log-level", "error") as cluster:
            wait_until(lambda: self.write(cluster, "--draft-policy", "fixed", tokens=4)["drafted"] > 0, "a drafter at work")
            self.assertEqual(expected, [self.same_as_plain(cluster, *words) for words in ways])
            self.assertEqual(expected[0], self.write(cluster, "--plain", "--temp", 0, "--logit-bias", f"{suppressed[0]}+9")["tokens"])
        for before, text in zip(plain, expected):
            self.assertNotEqual(before, text)
            self.assertFalse(set(suppressed) & set(text))


class Windows(unittest.TestCase):
    """Texts many times as long as the window of a target that gives up what is behind it. One that keeps everything says what they are."""

    SHAPE = ["--family", "gemma3", "--type", "F16", "--width", 64, "--layers", 6, "--heads", 4, "--kv-heads", 2, "--head-dim", 32, "--ffn", 96, "--window", 48,
             "--context", 4096]
    STORY = "Once upon a time there was a little girl who had {} cats, and a king with {} horses. "

    def write(self, *words):
        """Write the texts in turn. The second begins as the first one does, and the third is the first one again."""
        first = "".join(self.STORY.format(i, 7 * i) for i in range(40))
        prompts = [first, first[:len(first) // 2] + "Then it was dark.", first]
        with Cluster("-m", self.model, "-md", DRAFT, "--log-level", "error", *words) as cluster:
            texts = []
            for how in (["--plain", "--temp", 0], ["--draft-policy", "fixed", "--temp", 0], ["--draft-policy", "fixed", "--temp", 1, "-s", 3]):
                for prompt in prompts:
                    text = generate("--connect", cluster.endpoint, "-p", prompt, "-n", 40, "--ignore-eos", *how)
                    texts.append(text["tokens"])
            self.assertEqual(texts[:3], texts[3:6])
            return texts

    def test_what_is_behind_a_window_is_not_missed(self):
        with tempfile.TemporaryDirectory() as folder:
            self.model = Path(folder) / "windows.gguf"
            subprocess.run([BIN / "random-model", *map(str, self.SHAPE), "--like", TARGET, self.model], check=True, timeout=PATIENCE)
            whole = self.write("--window-slack", 4096)
            self.assertEqual(self.write(), whole)
            self.assertEqual(self.write("--window-slack", 1), whole)


if __name__ == "__main__":
    unittest.main()
