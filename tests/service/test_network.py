"""Goal: a long line costs time and no text, whichever way the text is written over it, and so does a line that is cut. How close real time comes to the virtual
clock's is a figure that this program prints.
Method: real processes; client and drafter reach the coordinator through a relay with delay. Three round-trip times, three ways to
write the same text, each beside network-table's figure; nothing is asserted of times. Then ten cuts of client's, drafter's and verifier's lines while texts are
written, whose and for how long from a seed, which is printed; OR_TEST_SEED replays it. OUTRIDER_NETWORK_TABLE is the program's path."""
import json
import os
import random
import re
import subprocess
import time
import unittest

from relay import Relay
from service import number
from cli import DRAFT, PATIENCE, ROOT, TARGET, Background, generate, wait_until

STEP_MS = 40
NODES = 16
TOKENS = 64
CUTS = number("OUTRIDER_CUTS", 10)
SEED = number("OR_TEST_SEED", 20260611)
WAYS = {"plain": ["--plain"],
        "synchronous": ["--draft-policy", "fixed", "--draft-ahead", 0],
        "drafting ahead": ["--draft-policy", "fixed", "--draft-ahead", 1]}
TEXT = ["-p", "Once upon a time there was a little girl who", "--temp", 0, "--seed", 0, "--ignore-eos", "--draft-nodes", NODES]


def on_the_virtual_clock(way, rtt_ms):
    words = [os.environ["OUTRIDER_NETWORK_TABLE"], way, STEP_MS, rtt_ms, NODES, TOKENS]
    done = subprocess.run(list(map(str, words)), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE,
                          check=True)
    return float(re.search(r"^[\d.]+$", done.stdout.decode(), re.MULTILINE)[0])


class Laboratory(unittest.TestCase):
    """A coordinator, a slow verifier and a drafter, each line through a relay of its own."""

    def setUp(self):
        coordinator = self.start("outrider-coordinator", "--listen", "tcp://127.0.0.1:*", "--ready-fd", 1)
        endpoint = coordinator.process.stdout.readline().decode().strip()
        self.client, self.drafter, self.verifier = (self.enterContext(Relay(endpoint)) for _ in range(3))
        self.start("outrider-verifier", "--connect", self.verifier.endpoint, "--step-delay-ms", STEP_MS, "--no-prefix-sharing",
                   "--threads", 1)
        self.start("outrider-drafter", model=DRAFT, *["--connect", self.drafter.endpoint, "--step-delay-us", 1000, "--threads", 1])
        wait_until(lambda: self.generate(4, "--draft-policy", "fixed")["drafted"] > 0, "a drafter at work")

    def start(self, program, *words, model=TARGET):
        return self.enterContext(Background("-m", model, *words, "--log-level", "error", program=program))

    def words(self, tokens, *words):
        return ["--connect", self.client.endpoint, *TEXT, "-n", tokens, *words]

    def generate(self, tokens, *words):
        return generate(*self.words(tokens, *words))


class RealTime(Laboratory):
    def test_three_cells(self):
        plain = self.generate(TOKENS, "--plain")["tokens"]
        for rtt_ms in (15, 50, 100):
            self.client.delay_s = self.drafter.delay_s = rtt_ms / 2000
            for way in WAYS:
                with self.subTest(way=way, rtt_ms=rtt_ms):
                    virtual = on_the_virtual_clock(way, rtt_ms)
                    text = self.generate(TOKENS, *WAYS[way])
                    real = text["tokens_per_second"]
                    self.assertEqual(text["tokens"], plain)
                    print(f"\n  RTT {rtt_ms} ms, {way}: {real:.2f} tokens/s, {virtual:.2f} on the virtual clock ({real / virtual - 1:+.1%})", end="")


class Cut(Laboratory):
    def test_texts_survive(self):
        print(f"\n  OR_TEST_SEED={SEED}")
        chance = random.Random(SEED)
        tokens = 200
        plain = self.generate(tokens, "--plain")["tokens"]
        self.client.delay_s = self.drafter.delay_s = 0.025
        left = CUTS
        while left > 0:
            with Background("generate", "--json", *self.words(tokens, *WAYS["drafting ahead"])) as text:
                time.sleep(1)
                while left > 0 and text.process.poll() is None:
                    name = chance.choice(["client", "drafter", "verifier"])
                    seconds = 10 ** chance.uniform(-1, 0.3)
                    print(f"  {name}'s line cut for {seconds:.1f} s", flush=True)
                    getattr(self, name).cut(seconds)
                    left -= 1
                    time.sleep(seconds + chance.uniform(0.2, 1))
                code, out, error = text.end()
                self.assertEqual(code, 0, error)
                self.assertEqual(json.loads(out)["tokens"], plain)


if __name__ == "__main__":
    unittest.main()
