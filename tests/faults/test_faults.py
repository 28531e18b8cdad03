"""Goal: no fault of a disk, a clock or a memory ends a text or a process, and a text goes on behind it as if there had been none.
Method: the real programs with preload.c under them, faults that come and go while a text is written, kill -9 of the coordinator, and every text
compared with one that was written in peace, over HTTP, too. OUTRIDER_FAULT_RUNS fails so many allocations (label long)."""
import contextlib
import http.client
import json
import os
import signal
import sys
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "service"))

import wire  # noqa: E402  (the path comes first)
from service import number  # noqa: E402
from test_resume import Service, free_port, status  # noqa: E402
from cli import BIN, TARGET, Background, generate, outrider, wait_until  # noqa: E402

PRELOAD = os.environ.get("OUTRIDER_PRELOAD", str(BIN.parent / "tests/faults.so"))
RUNS = number("OUTRIDER_FAULT_RUNS", 4)
TEN_YEARS_S = 315_576_000
KEPT_S = 42  # an end for its client, and then what the journal has of it
TEXT = ["-p", "Once upon a time", "-n", 80, "--ignore-eos", "--temp", 0]
SHORT = ["-p", "Once upon a time", "-n", 12, "--ignore-eos", "--temp", 0]


class FaultyService(Service):
    """A service whose coordinator has the faults of the disk below its folder, and the clock."""

    def __enter__(self):
        self.faults = Path(self.folder.name) / "faults"
        return super().__enter__()

    def wrong(self, *words):
        """Make these faults from now on, until the next call."""
        fresh = self.faults.with_suffix(".new")
        fresh.write_text(" ".join((f"under={self.journal}", *words)))
        fresh.replace(self.faults)

    def start(self):
        self.coordinator = Background("-m", TARGET, "--listen", self.endpoint, "--journal", self.journal, "--ready-fd", 1,
                                      "--log-level", "error", *self.words, program="outrider-coordinator",
                                      LD_PRELOAD=PRELOAD, OUTRIDER_FAULTS=str(self.faults))
        if self.coordinator.process.stdout.readline().decode().strip() != self.endpoint:
            raise AssertionError("outrider-coordinator: " + self.coordinator.end()[2])


class Answer:
    """An HTTP client's view of one text: `text`, the last event's `id`, and how it ended: "done", "error" or "cut"."""

    def __init__(self, address, body, **headers):
        self.text, self.id, self.ended = "", "", "cut"
        connection = http.client.HTTPConnection(*address, timeout=60)
        try:
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json", **headers})
            answer = connection.getresponse()
            if answer.status != 200:
                self.ended = "error"
            elif body.get("stream"):
                self.hear(answer)
            else:
                self.take(json.loads(answer.read()))
                self.ended = "done"
        except (http.client.HTTPException, ConnectionError):
            pass
        finally:
            connection.close()

    def hear(self, answer):
        name = ""
        while line := answer.readline().decode():
            if not line.endswith("\n"):
                raise http.client.IncompleteRead(line)
            if line.startswith("id: "):
                name = line[4:].strip()
            elif line == "data: [DONE]\n":
                self.ended = "done"
            elif line.startswith("data: "):
                self.take(json.loads(line[6:]))
                self.id = name

    def take(self, said):
        if "error" in said:
            self.ended = "error"
            return
        for choice in said["choices"]:
            self.text += choice["text"]


class HttpService(FaultyService):
    """The same service with HTTP, at `address`."""

    def start(self):
        super().start()
        host, port = self.coordinator.process.stdout.readline().decode().split()[1].rsplit(":", 1)
        self.address = (host, int(port))


class HttpFaults(unittest.TestCase):
    BODY = {"prompt": "Once upon a time", "temperature": 0, "max_tokens": 40, "ignore_eos": True}
    SHAPES = ({"stream": True}, {"stream": True, "echo": True, "stream_options": {"include_usage": True}},
              {"stream": True, "logprobs": 2, "draft": {"details": True}}, {}, {"echo": True, "n": 2}, {"logprobs": 2})

    def ask(self, service, shape, fault, expected):
        """Ask for a text while allocations fail. If the answer is cut, the rest of it comes in peace."""
        service.wrong(fault)
        answer = Answer(service.address, {**self.BODY, **shape})
        service.wrong()
        self.assertIsNone(service.coordinator.process.poll())
        if answer.ended == "done":
            self.assertEqual(answer.text, expected)
            return
        self.assertEqual(answer.text, expected[:len(answer.text)])
        if answer.ended == "cut" and answer.id:
            rest = Answer(service.address, {**self.BODY, **shape}, **{"Last-Event-ID": answer.id})
            self.assertIn(rest.ended, ("done", "error"))
            if rest.ended == "done":
                self.assertEqual(answer.text + rest.text, expected)

    def test_answers_are_right_or_say_that_they_are_not(self):
        with HttpService("--http", "127.0.0.1:0") as service:
            expected = [Answer(service.address, {**self.BODY, **shape}) for shape in self.SHAPES]
            self.assertEqual({answer.ended for answer in expected}, {"done"})
            for run in range(2 * RUNS):
                for shape, right in zip(self.SHAPES, expected):
                    each = (97, 311, 1009, 2003, 499, 733, 1511, 3001)[run % 8] + run // 8
                    with self.subTest(run=run, shape=shape, each=each):
                        self.ask(service, shape, f"memory={each}", right.text)
            self.assertEqual(Answer(service.address, self.BODY).text, expected[3].text)


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
        """Check that a text that begins under `faults` is resumed by the next coordinator once there is no fault but `then`."""
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
        """Step the clock while the client of a text is away. Nothing that it may come back for is deleted."""
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

    def held(self, service, web):
        """Return what the journal holds of texts, in their owners' accounts: files, and requests that could not be written."""
        with urllib.request.urlopen(f"http://127.0.0.1:{web}/metrics", timeout=10) as page:
            lines = page.read().decode().splitlines()
        return [int(float(line.split()[-1])) for line in lines if 'held_bytes{' in line and ('kind="journal"' in line or 'kind="requests"' in line)]

    def test_texts_that_end_while_the_disk_is_broken(self):
        """No text is held once its end is forgotten, whether it was begun in peace or could not be begun."""
        web = free_port()
        with FaultyService("--http", f"127.0.0.1:{web}", "--resume-window", 5) as service:
            service.wrong()
            host, port = service.endpoint.removeprefix("tcp://").rsplit(":", 1)
            with contextlib.closing(wire.Raw((host, int(port)))) as client:
                client.send(wire.hello("eve"), *(wire.generate(1 + i, max_tokens=100) for i in range(5)))
                wait_until(lambda: status(service.endpoint)["sessions"] == 5, "texts in progress")
                service.wrong("fail=EIO")
                client.send(*(wire.generate(101 + i, max_tokens=12) for i in range(5)))
                wait_until(lambda: status(service.endpoint)["sessions"] == 0, "their ends")
                self.assertGreater(min(self.held(service, web)), 0)
                for _ in range(KEPT_S):
                    time.sleep(1)
                    client.send(wire.message(wire.HEARTBEAT, {}))
                self.assertEqual(self.held(service, web), [0, 0])

    def test_an_allocation_that_fails_in_every_process(self):
        """One allocation of each program's own code fails: the text is right or there is a sentence, and no process dies of it."""
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
