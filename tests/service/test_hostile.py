"""Goal: a drafter that means harm wastes its own time: it is limited or cut off, and everybody's texts stay right. How much slower honest sessions are
beside it is a figure that this program prints.
Method: hostile.c is a second drafter over a real socket. Four honest sessions are measured in turns with it and without it, and their medians are
printed; nothing is asserted of times, which other work on the machine changes. OUTRIDER_HOSTILE_TURNS makes it longer (label long)."""
import json
import os
import statistics
import time
import unittest
from pathlib import Path

from service import load, number
from cli import BIN, TARGET, Background, Cluster

TURNS = number("OUTRIDER_HOSTILE_TURNS", 1)
SECONDS = 3  # of each measurement
# Frames a second. A flood of 2,000 is 2 Mbit/s: more than an honest drafter ever sends, and what a thin line still carries.
RATE = 2000
HOSTILE = Path(os.environ.get("OUTRIDER_HOSTILE", BIN.parent / "tests/hostile"))


class Hostile(Background):
    def __init__(self, endpoint, kind):
        super().__init__(endpoint, TARGET, kind, RATE, program=HOSTILE)

    def finish(self):
        self.process.terminate()
        code, out, error = self.end()
        if code != 0:
            raise AssertionError(f"hostile: exit {code}\n{error}")
        return json.loads(out)


class HostileDrafter(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("--log-level", "error")
        load(cls.cluster.endpoint, 4, 2)  # warm

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__()

    def measure(self):
        """Return the median between tokens, and the median first token, in milliseconds."""
        figures = load(self.cluster.endpoint, 4, SECONDS)
        self.assertEqual((figures["wrong"], figures["errors"]), (0, 0), figures)
        return figures["inter_token_ms"]["p50"], figures["first_token_ms"]["p50"]

    def compare(self, kind):
        """Print how much slower sessions are beside it, and return what it sent."""
        before, during, sent = [], [], []
        for _ in range(TURNS):
            before.append(self.measure())
            with Hostile(self.cluster.endpoint, kind) as hostile:
                time.sleep(0.5)
                during.append(self.measure())
                sent.append(hostile.finish())
        medians = [[statistics.median(column) for column in zip(*rows)] for rows in (before, during)]
        print(f"\n  {kind}: between tokens {medians[0][0]:.2f} ms, then {medians[1][0]:.2f}; first token {medians[0][1]:.1f} ms, then "
              f"{medians[1][1]:.1f}; {sent}")
        self.assertTrue(all(turn["frames"] > 0 for turn in sent), sent)
        return sent

    def test_wrong_hashes(self):
        self.compare("wrong-hash")

    def test_giant_trees(self):
        self.compare("giant")

    def test_repeated_rounds(self):
        self.compare("repeat")

    def test_flood(self):
        sent = self.compare("flood")
        self.assertGreater(sum(turn["turned_away"] for turn in sent), 0)


if __name__ == "__main__":
    unittest.main()
