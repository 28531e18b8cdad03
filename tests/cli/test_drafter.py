"""Goal: a drafter remembers what it measured, several models draft together, and what cannot be is refused with a sentence.
Method: a cluster without a drafter, and outrider-drafter started by hand beside it."""
import signal
import tempfile
import unittest
from pathlib import Path

from cli import DRAFT, OTHER_VOCABULARY, TARGET
from cli import Background, Cluster, call, generate

NOWHERE = "tcp://127.0.0.1:9"  # refused options must be found before anybody is called


def drafter(*words):
    return Background("-m", DRAFT, "-t", 1, *words, program="outrider-drafter")


def write_with(cluster, *words):
    return generate("--connect", cluster.endpoint, "-p", "Once upon a time", "-n", 40, "-s", 3, "--temp", 0, "--draft-policy", "fixed", *words)


class Drafter(unittest.TestCase):
    def test_acceptance_is_remembered(self):
        with tempfile.TemporaryDirectory() as folder, Cluster("--plain") as cluster:
            path = Path(folder, "acceptance.txt")
            plain = write_with(cluster, "--plain")
            tried = []
            for _ in range(2):
                with drafter("--acceptance-file", path, "--connect", cluster.endpoint) as process:
                    process.hears("welcomed")
                    text = write_with(cluster, "--accept", "recursive", "--draft-method", "sequoia")
                    self.assertEqual(text["tokens"], plain["tokens"])
                    self.assertLess(text["target_calls"], 40)
                    process.process.send_signal(signal.SIGTERM)
                    self.assertEqual(process.end()[0], 0)
                first, *lines = path.read_text().splitlines()
                self.assertRegex(first, "^outrider acceptance 2( [0-9a-f]{16}){2}$")
                self.assertTrue(all(line.startswith("sequoia recursive greedy ") for line in lines))
                tried.append(sum(float(line.split()[5]) for line in lines))
            self.assertGreater(tried[0], 0)
            self.assertGreater(tried[1], tried[0])
            self.assertEqual([entry.name for entry in Path(folder).iterdir()], [path.name])

    def test_a_bad_acceptance_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "acceptance.txt")
            path.write_text("no acceptance\n")
            _, error = call("outrider-drafter", "-m", DRAFT, "--connect", NOWHERE, "--acceptance-file", path, code=2)
            self.assertRegex(error, r"acceptance\.txt is no acceptance file")
            # Nor is a drafter with wrong options started again and again.
            words = ["--listen", "tcp://127.0.0.1:*", "-m", TARGET, "-md", DRAFT, "--acceptance-file", path]
            _, error = call("outrider", "up", *words, code=2)
            self.assertEqual(error.count("acceptance.txt is no acceptance file"), 1)
            self.assertIn("outrider up: outrider-drafter: it cannot serve as it was started", error)

    def test_an_acceptance_file_of_other_models(self):
        with tempfile.TemporaryDirectory() as folder, Cluster("--plain") as cluster:
            path = Path(folder, "acceptance.txt")
            path.write_text(f"outrider acceptance 2 {0:016x} {1:016x}\nsequoia recursive greedy 0 0 77 7\n")
            with drafter("--acceptance-file", path, "--connect", cluster.endpoint) as process:
                process.hears("will be written anew")
                process.hears("welcomed")
                write_with(cluster, "--accept", "recursive", "--draft-method", "sequoia")
                process.process.send_signal(signal.SIGTERM)
                self.assertEqual(process.end()[0], 0)
            self.assertNotRegex(path.read_text(), f"{0:016x}")

    def test_several_models_draft_together(self):
        with Cluster("--plain") as cluster, drafter("-md", TARGET, "--connect", cluster.endpoint) as process:
            process.hears("welcomed")
            plain = write_with(cluster, "--plain")
            for rule in ("multi-round", "naive", "coupled"):
                both = write_with(cluster, "--accept", rule, "--draft-method", "multi", "--draft-shape", "4x4")
                alone = write_with(cluster, "--accept", rule, "--draft-method", "kseq", "--draft-shape", "4x4")
                self.assertEqual(both["tokens"], plain["tokens"])
                self.assertLess(both["target_calls"], alone["target_calls"])  # the second model is the target itself

    def test_models_that_cannot_draft_together(self):
        for words, pattern in ((["-md", OTHER_VOCABULARY], "another vocabulary than the first model"),
                               (["-md", "absent.gguf"], "absent.gguf")):
            _, error = call("outrider-drafter", "-m", DRAFT, "--connect", NOWHERE, *words, code=1)
            self.assertRegex(error, pattern)
        many = ["-md", DRAFT] * 8
        _, error = call("outrider-drafter", "-m", DRAFT, "--connect", NOWHERE, *many, code=2)
        self.assertIn("at most 8 models", error)


if __name__ == "__main__":
    unittest.main()
