"""Goal: any drafter goes with any target: the text is plain decoding's, whatever way the vocabularies meet, and what cannot be says why.
Method: the demonstration target (SentencePiece, 4,096 tokens) with a byte-level drafter of 1,024 tokens and with stories260K."""
import os
import signal
import unittest

from cli import DRAFT, OTHER_VOCABULARY, TARGET
from cli import Background, Cluster, data, generate, outrider

ODD = "Zwölf  Boxkämpfer\tjagen 😀 \r\n\r\n«naïve» e\u0301   "


def write(cluster, *words):
    return generate("--connect", cluster.endpoint, "-n", 40, "--draft-policy", "fixed", *words)


class Vocabularies(unittest.TestCase):
    def same_as_plain(self, cluster, map_name, *words):
        plain = write(cluster, "--plain", *words)
        text = write(cluster, "--vocab-map", map_name, *words)
        self.assertEqual(text["text"], plain["text"], (map_name, words))
        self.assertEqual(text["tokens"], plain["tokens"])
        self.assertNotIn("note", text)
        return text

    def test_every_map_writes_the_targets_text(self):
        with Cluster("-m", TARGET, "-md", OTHER_VOCABULARY) as cluster:
            for map_name in ("tli", "slem", "union", "auto"):
                for temperature, seed in ((0, 1), (1, 7), (0.7, 8)):
                    text = self.same_as_plain(cluster, map_name, "-p", "It was a dark night", "--temp", temperature, "-s", seed)
                    self.assertLess(text["target_calls"], 36)
                    self.assertIn(text["vocab_map"], (map_name, "slem"))
                    self.assertIn("1015 tokens", text["vocab_map_why"])
                self.same_as_plain(cluster, map_name, "-p", ODD, "--temp", 0.8, "-s", 5, "--ignore-eos")

    def test_rules_that_believe_distributions(self):
        with Cluster("-m", TARGET, "-md", OTHER_VOCABULARY) as cluster:
            for words in (["--accept", "recursive"], ["--accept", "traversal", "--vocab-map", "tli"],
                          ["--accept", "sps", "--vocab-map", "union"], ["--vocab-map", "slrs"], ["--accept", "slrs"]):
                plain = write(cluster, "--plain", "-p", "Once upon a time", "--temp", 0)
                text = write(cluster, "-p", "Once upon a time", "--temp", 0, *words)
                self.assertEqual(text["tokens"], plain["tokens"], words)
                self.assertEqual(text["vocab_map"], "slrs" if "slrs" in words else "union" if "union" in words else "tli")
                self.assertLess(text["target_calls"], 40)
            warm = write(cluster, "--accept", "slrs", "-p", "Once upon a time", "--temp", 1, "-s", 3)
            self.assertEqual(warm["completion_tokens"], 40)

    def test_a_sentencepiece_drafter(self):
        with Cluster("-m", TARGET, "-md", data("models/stories260K-f32.gguf")) as cluster:
            for map_name in ("tli", "slem", "auto"):
                for temperature in (0, 1):
                    self.same_as_plain(cluster, map_name, "-p", "Once upon a time", "--temp", temperature, "-s", 4)

    def test_a_drafter_that_is_killed(self):
        with Cluster("-m", TARGET, "-md", OTHER_VOCABULARY, "--log-level", "warn") as cluster:
            words = ["-p", "Once upon a time", "-n", 400, "--temp", 1, "-s", 2, "--ignore-eos"]
            plain = write(cluster, "--plain", *words)
            drafter = cluster.roles("outrider-drafter")["outrider-drafter"]
            with Background("generate", "--connect", cluster.endpoint, "--no-display-prompt", *words) as run:
                first = os.read(run.process.stdout.fileno(), 1)
                os.kill(drafter, signal.SIGKILL)
                code, out, error = run.end()
            self.assertEqual(code, 0, error)
            self.assertEqual((first + out).decode(), plain["text"] + "\n")

    def test_drafters_of_two_vocabularies(self):
        """With multi each drafts in its own tokens, and they are merged in the target's."""
        with Cluster("-m", TARGET, "-md", OTHER_VOCABULARY) as cluster:
            with Background("-m", DRAFT, "--connect", cluster.endpoint, program="outrider-drafter") as second:
                second.hears("welcomed")
                words = ["-p", "Once upon a time", "--temp", 0, "-s", 2]
                plain = write(cluster, "--plain", *words)
                for rule in ("coupled", "multi-round"):
                    text = write(cluster, "--draft-method", "multi", "--accept", rule, *words)
                    self.assertEqual(text["tokens"], plain["tokens"])
                    self.assertLess(text["target_calls"], 36)

    def test_what_does_not_go_together(self):
        for words, pattern in ((["--accept", "sps", "--vocab-map", "slem"], "knows no distribution.*--vocab-map tli"),
                               (["--accept", "slrs", "--vocab-map", "tli"], "--vocab-map slrs"),
                               (["--accept", "sps", "--vocab-map", "slrs"], "--accept slrs"),
                               (["--vocab-map", "some"], "auto, same, union, tli, slem, slrs")):
            _, error = outrider("generate", "-p", "x", *words, code=2)
            self.assertRegex(error, pattern)
        _, error = outrider("generate", "-p", "x", "-md", OTHER_VOCABULARY, "--vocab-map", "same", code=1)
        self.assertRegex(error, "1015 tokens.*--vocab-map")
        _, error = outrider("generate", "-p", "x", "--vocab-map", "slrs", code=1)
        self.assertRegex(error, "own vocabulary.*--accept sps")


if __name__ == "__main__":
    unittest.main()
