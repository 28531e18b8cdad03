"""Goal: no text waits for a disk's fsync, which may take any time; what is journaled is all on disk before anybody hears of it, and gives its space back
when it is forgotten; and a full disk ends no text.
Method: the real coordinator on a disk whose fsync is late (a library of ours, preloaded), never returns, or has no room (a limit on the size of files).
OUTRIDER_JOURNAL_TEXTS makes it measure the gaps between tokens, too (label long)."""
import contextlib
import json
import os
import resource
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from service import number
from test_resume import GREEDY, PROMPT, STEP_MS, TEXT, Service, status
from cli import BIN, ENVIRONMENT, PATIENCE, Background, generate, wait_until

PRELOAD = os.environ.get("OUTRIDER_PRELOAD", BIN.parent / "tests/faults.so")  # tests/faults/preload.c
TEXTS = number("OUTRIDER_JOURNAL_TEXTS", 0)  # to measure gaps with, each way
NEVER_MS = 10**8
GAP_MS = 20  # more than without delay, of a hundred gaps the longest but one


@contextlib.contextmanager
def slow_disk(ms):
    """A service whose disk becomes slow once it runs."""
    with tempfile.TemporaryDirectory() as folder:
        faults = Path(folder) / "faults"
        with Service(LD_PRELOAD=str(PRELOAD), OUTRIDER_FAULTS=str(faults), ASAN_OPTIONS="verify_asan_link_order=0") as service:
            Path(f"{faults}.new").write_text(f"under=/\nsync_ms={ms}\n")
            os.rename(f"{faults}.new", faults)
            yield service
            service.kill()


def ask(service, tokens=40, *words):
    """Ask for a text in a process. Return its parsed answer."""
    with Background("generate", "--json", "--plain", "--connect", service.endpoint, "-p", PROMPT, "-n", tokens, "--ignore-eos", *GREEDY,
                    *words) as writer:
        code, out, error = writer.end()
        if code != 0:
            raise AssertionError(f"exit {code}\n{error}")
        return json.loads(out)


class SlowDisk(unittest.TestCase):
    def test_an_fsync_that_never_returns_holds_nobody_up(self):
        whole = generate("--plain", *TEXT, *GREEDY)["tokens"]
        with slow_disk(NEVER_MS) as service:
            for _ in range(4):  # ends are forgotten in between, and time passes: whoever cleans up behind texts has had its turns
                self.assertEqual(ask(service)["tokens"], whole[:40])
                time.sleep(1)
            self.assertEqual(ask(service)["tokens"], whole[:40])

    @unittest.skipIf(TEXTS == 0, "OUTRIDER_JOURNAL_TEXTS is not set")
    def test_gaps(self):
        worst = {ms: self.gap(ms) for ms in (0, 300, 6000)}
        print("\n  fsync late by ms: p99 gap in ms", {ms: round(gap, 1) for ms, gap in worst.items()}, flush=True)
        for ms in (300, 6000):
            self.assertLess(worst[ms], worst[0] + GAP_MS)

    def gap(self, ms):
        """Return the 99th percentile of the times between pieces of a text, while others end beside it."""
        gaps = []
        with slow_disk(ms) as service:
            for _ in range(TEXTS):
                words = ["generate", "--plain", "--connect", service.endpoint, *TEXT, *GREEDY]
                with Background(*words) as writer:
                    beside = subprocess.Popen([BIN / "outrider", *map(str, words[:4]), "-p", PROMPT, "-n", "30", "--ignore-eos"],
                                              env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    last = None
                    while writer.process.stdout.read(64):
                        now = time.monotonic()
                        gaps += [1000 * (now - last)] if last else []
                        last = now
                    beside.wait(PATIENCE)
        return sorted(gaps)[int(0.99 * len(gaps))]


class Disk(unittest.TestCase):
    def test_its_space_is_given_back(self):
        with Service() as service:
            before = service.journal_bytes()
            for _ in range(3):
                ask(service, 40, *(word for end in "abcd" for word in ("--stop", 250 * "x" + end)))
            wait_until(lambda: service.journal_bytes() <= before, "space that is free again")
            with Background("generate", "--connect", service.endpoint, *TEXT, *GREEDY) as writer:
                wait_until(lambda: service.journal_bytes() > 0, "a text in the journal")
                writer.process.kill()

    def test_a_text_begun_while_the_disk_was_full(self):
        whole = generate("--plain", *TEXT, *GREEDY)["tokens"]
        with Service("--log-level", "warn") as service:
            limit = (1, resource.RLIM_INFINITY)
            old = resource.prlimit(service.coordinator.process.pid, resource.RLIMIT_FSIZE, limit)
            with Background("generate", "--json", "--plain", "--connect", service.endpoint, *TEXT, *GREEDY) as writer:
                wait_until(lambda: status(service.endpoint)["sessions"] == 1, "a text in progress")
                time.sleep(0.5)
                wait_until(lambda: service.journaled() == 0, "a journal without the text")  # each try makes a file and deletes it
                resource.prlimit(service.coordinator.process.pid, resource.RLIMIT_FSIZE, old)
                wait_until(lambda: service.journaled() == 1, "the text in the journal")
                service.coordinator.process.kill()
                self.assertEqual(service.coordinator.end()[2].count("may not survive this coordinator"), 1)  # of some hundred refusals
                service.start()
                code, out, error = writer.end()
                self.assertEqual(code, 0, error)
                self.assertEqual(json.loads(out)["tokens"], whole)
                self.assertGreater(json.loads(out)["resumed_tokens"], 0)


if __name__ == "__main__":
    unittest.main()
