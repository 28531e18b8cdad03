"""Goal: no fault of a disk, a clock or a memory ends a text or a process, and a text goes on behind it as if there had been none.
Method: the real programs with preload.c under them, faults that come and go while a text is written, kill -9 of the coordinator, and every text
compared with one that was written in peace. OUTRIDER_FAULT_RUNS fails so many allocations (label long)."""
import json
import os
import signal
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "service"))

from service import number  # noqa: E402  (the path comes first)
from test_resume import Service, status  # noqa: E402
from cli import BIN, TARGET, Background, generate, outrider, wait_until  # noqa: E402

PRELOAD = os.environ.get("OUTRIDER_PRELOAD", str(BIN.parent / "tests/faults.so"))
RUNS = number("OUTRIDER_FAULT_RUNS", 4)
TEN_YEARS_S = 315_576_000
TEXT = ["-p", "Once upon a time", "-n", 80, "--ignore-eos", "--temp", 0]
SHORT = ["-p", "Once upon a time", "-n", 12, "--ignore-eos", "--temp", 0]


class FaultyService(Service):
    """Its coordinator has the faults of the disk below its folder, and the clock."""

    def __enter__(self):
        self.faults = Path(self.folder.name) / "faults"
        return super().__enter__()

    def wrong(self, *words):
        """From now on, until the next call."""
        fresh = self.faults.with_suffix(".new")
        fresh.write_text(" ".join((f"under={self.journal}", *words)))
        fresh.replace(self.faults)

    def start(self):
        self.coordinator = Background("-m", TARGET, "--listen", self.endpoint, "--journal", self.journal, "--ready-fd", 1,
                                      "--log-level", "error", *self.words, program="outrider-coordinator",
                                      LD_PRELOAD=PRELOAD, OUTRIDER_FAULTS=str(self.faults))
        if self.coordinator.process.stdout.readline().decode().strip() != self.endpoint:
            raise AssertionError("outrider-coordinator: " + self.coordinator.end()[2])


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plain = generate("--plain", *TEXT)["tokens"]

    def writer(self, service):
        writer = Background("generate", "--json", "--plain", "--connect", service.endpoint, *TEXT)
        wait_until(lambda: status(service.endpoint)["sessions"] == 1, "a text in progress")
        return writer

    def assert_right(self, writer):
        code, out, error = writer.end()
        self.assertEqual(code, 0, error)
        self.assertEqual(json.loads(out)["tokens"], self.plain)

    def go_on_after_kill(self, *faults, then):
        """A text that begins under `faults` is resumed by the next coordinator once there is no fault but `then`."""
        with FaultyService() as service:
            service.wrong(*faults)
            with self.writer(service) as writer:
                service.wrong(*then)
                time.sleep(0.7)
                service.kill()
                service.start()
                self.assert_right(writer)

    def test_space_that_returns(self):
        self.go_on_after_kill("fail=ENOSPC", then=[])

    def test_short_writes(self):
        self.go_on_after_kill("short=7", then=["short=7"])

    def test_an_fsync_that_takes_300_ms(self):
        self.go_on_after_kill("sync_ms=300", then=["sync_ms=300"])

    def test_a_disk_that_is_broken(self):
        with FaultyService() as service:
            service.wrong("fail=EIO")
            with self.writer(service) as writer:
                self.assert_right(writer)

    def step_clock(self, seconds):
        """While the client of a text is away: nothing that it may come back for is deleted."""
        with FaultyService() as service, self.writer(service) as writer:
            writer.process.send_signal(signal.SIGSTOP)
            service.kill()
            service.start()
            service.wrong(f"clock_s={seconds}")
            time.sleep(3)  # the journal looks for what is over every two seconds
            writer.process.send_signal(signal.SIGCONT)
            self.assert_right(writer)

    def test_a_clock_that_is_set_forwards(self):
        self.step_clock(TEN_YEARS_S)

    def test_a_clock_that_is_set_back(self):
        self.step_clock(-TEN_YEARS_S)

    def test_an_allocation_that_fails_in_every_process(self):
        """Of each program's own code, one: the text is right or there is a sentence, and nobody dies of it."""
        expected = generate("--plain", *SHORT)["tokens"]
        for run in range(RUNS):
            nth = 1 + run * 7 if RUNS > 4 else (4, 60, 400, 2000)[run]
            with tempfile.TemporaryDirectory() as state:
                out, error = outrider("generate", "--json", *SHORT, code=None, LD_PRELOAD=PRELOAD, OUTRIDER_FAIL_MALLOC=str(nth),
                                      XDG_STATE_HOME=state)
            with self.subTest(nth=nth):
                self.assertNotRegex(error, "signal|Segmentation|Aborted|assert")
                if out:
                    self.assertEqual(json.loads(out)["tokens"], expected)
                else:
                    self.assertTrue(error.strip())


if __name__ == "__main__":
    unittest.main()
