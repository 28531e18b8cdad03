"""Goal: a text outlives everything that may die around it: a coordinator that is killed again and again, a client's line that is cut, and of a
client that died itself nothing stays in the way. No token is lost, none is there twice.
Method: a slow target, four writers at a time (plain and drafted, greedy and seeded, ids by --json and bytes as they are streamed), kill -9 of the
coordinator at random moments, and every text compared with one that was written in peace. Moments come from a seed, which is printed; OR_TEST_SEED
replays it. OUTRIDER_RESUME_KILLS and OUTRIDER_RESUME_CUT_S make it longer (label long: twenty kills, half a minute)."""
import contextlib
import json
import random
import signal
import socket
import tempfile
import threading
import time
import unittest
from pathlib import Path

from relay import Relay
from service import number
from cli import DRAFT, TARGET, Background, call, generate, wait_until

KILLS = number("OUTRIDER_RESUME_KILLS", 6)
CUT_S = number("OUTRIDER_RESUME_CUT_S", 13)  # a line is given up after ten seconds of silence
SEED = number("OR_TEST_SEED", 20260711)
STEP_MS = 25
PROMPT = "Once upon a time"
TEXT = ["-p", PROMPT, "-n", 160, "--ignore-eos"]
GREEDY, SEEDED = ["--temp", 0], ["--temp", 1, "-s", 4711]


def free_port():
    """Return a port that nobody has now: a coordinator that is started again needs the same."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def status(endpoint):
    """Return the figures of `outrider status`, also of a coordinator that waits for its verifier."""
    with Background("status", "--json", "--connect", endpoint) as command:
        line = json.loads(command.end()[1] or "{}")
        return line.get("figures") or dict.fromkeys(("sessions", "verifiers", "drafters", "parked", "resumed", "cancelled"))


class Service:
    """A coordinator with a journal, which can be killed and started again, and a slow target with a drafter."""

    def __init__(self, *words, **variables):
        self.folder = tempfile.TemporaryDirectory()
        self.journal = Path(self.folder.name) / "journal"
        self.endpoint = f"tcp://127.0.0.1:{free_port()}"
        self.words, self.variables = words, variables  # the coordinator's
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        with self.stack as stack:  # of what was started nothing stays if the rest cannot be
            stack.enter_context(self.folder)
            self.start()
            stack.callback(lambda: self.coordinator.__exit__())
            for program, model, extra in (("verifier", TARGET, ("--step-delay-ms", STEP_MS)), ("drafter", DRAFT, ())):
                stack.enter_context(Background("-m", model, "--connect", self.endpoint, "--log-level", "error", *extra,
                                               program=f"outrider-{program}"))
            wait_until(lambda: (now := status(self.endpoint))["verifiers"] == 1 and now["drafters"] == 1, "verifier and drafter")
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def start(self):
        self.coordinator = Background("-m", TARGET, "--listen", self.endpoint, "--journal", self.journal, "--ready-fd", 1,
                                      "--log-level", "error", *self.words, program="outrider-coordinator", **self.variables)
        if self.coordinator.process.stdout.readline().decode().strip() != self.endpoint:
            raise AssertionError("outrider-coordinator: " + self.coordinator.end()[2])

    def kill(self):
        self.coordinator.process.kill()
        error = self.coordinator.end()[2]
        if error:
            raise AssertionError("outrider-coordinator: " + error)

    def stop(self):
        self.coordinator.process.send_signal(signal.SIGTERM)
        code, _, error = self.coordinator.end()
        if code != 0:
            raise AssertionError(f"outrider-coordinator: exit {code}\n{error}")

    def journaled(self):
        """Return the number of texts in the journal."""
        return len(list(self.journal.iterdir()))

    def journal_bytes(self):
        """Return the bytes of all that the coordinator keeps on disk."""
        total = 0
        for file in Path(self.folder.name).rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # it was forgotten meanwhile
                total += file.stat().st_size if file.is_file() else 0
        return total


class Writer(threading.Thread):
    """A client that writes one text after the other until it is told to stop. It notes what came out wrong."""

    def __init__(self, endpoint, stop, expected, *words, ids):
        super().__init__(daemon=True)
        self.words = ["generate", "--connect", endpoint, *TEXT, *words, *(["--json"] if ids else [])]
        self.stop, self.expected, self.ids = stop, expected, ids
        self.texts, self.trouble = 0, []

    def run(self):
        while not self.stop.is_set():
            with Background(*self.words) as writer:
                code, out, error = writer.end()
            if code != 0:
                self.trouble.append(f"exit {code}: {error}")
            elif self.ids and json.loads(out)["tokens"] != self.expected["tokens"]:
                self.trouble.append(f"{json.loads(out)['tokens']}")
            elif not self.ids and out.decode() != PROMPT + self.expected["text"] + "\n":
                self.trouble.append(f"{out!r}")
            self.texts += 1


class Resume(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.greedy = generate("--plain", *TEXT, *GREEDY)
        cls.seeded = generate("--plain", *TEXT, *SEEDED)
        print(f"\n  OR_TEST_SEED={SEED}")

    def test_kill_9_of_the_coordinator(self):
        moments = random.Random(SEED)
        stop = threading.Event()
        with Service() as service:
            writers = [Writer(service.endpoint, stop, self.greedy, "--plain", *GREEDY, ids=True),
                       Writer(service.endpoint, stop, self.greedy, *GREEDY, ids=False),
                       Writer(service.endpoint, stop, self.seeded, "--plain", *SEEDED, ids=False),
                       Writer(service.endpoint, stop, self.seeded, *SEEDED, ids=True)]
            for writer in writers:
                writer.start()
            wait_until(lambda: status(service.endpoint)["sessions"] == 4, "four texts in progress")
            resumed = 0
            for _ in range(KILLS):
                time.sleep(moments.uniform(0, 1.5))
                service.kill()
                time.sleep(moments.choice((0, 0, moments.uniform(0, 2))))
                service.start()
                resumed += wait_until(lambda: status(service.endpoint)["resumed"], "a text that goes on")
            stop.set()
            for writer in writers:
                writer.join(60)
            print(f"  {KILLS} kills, {sum(writer.texts for writer in writers)} texts, at least {resumed} times one went on", flush=True)
            self.assertEqual([writer.trouble for writer in writers], [[]] * 4)
            service.stop()
            # All ends have arrived; but a kill may have come between an end and its acknowledgement, and then the text stays for the
            # resume window.
            self.assertLessEqual(service.journaled(), 1)

    def test_a_stop_in_order_ends_no_text(self):
        with Service() as service, Background("generate", "--json", "--connect", service.endpoint, *TEXT, *GREEDY) as writer:
            wait_until(lambda: service.journaled() == 1, "a text in progress")
            service.stop()
            self.assertEqual(service.journaled(), 1)
            service.start()
            code, out, error = writer.end()
            self.assertEqual(code, 0, error)
            self.assertEqual(json.loads(out)["tokens"], self.greedy["tokens"])

    def test_a_line_that_is_cut(self):
        with Service() as service, Relay(service.endpoint) as relay, \
                Background("generate", "--json", "--plain", "--connect", relay.endpoint, *TEXT, *SEEDED) as writer:
            wait_until(lambda: status(service.endpoint)["sessions"] == 1, "a text in progress")
            time.sleep(0.5)
            relay.cut(CUT_S)
            wait_until(lambda: status(service.endpoint)["parked"] == 1, "nobody writes for who is away")
            wait_until(lambda: status(service.endpoint)["sessions"] == 0, "its place is free")
            code, out, error = writer.end()
            self.assertEqual(code, 0, error)
            self.assertIn("trying to reach it for", error)
            self.assertEqual(json.loads(out)["tokens"], self.seeded["tokens"])
            self.assertEqual(status(service.endpoint)["parked"], 0)

    def test_a_client_that_dies_holds_no_place(self):
        with Service("--resume-window", 10) as service, \
                Background("generate", "--connect", service.endpoint, *TEXT, *GREEDY) as writer:
            wait_until(lambda: status(service.endpoint)["sessions"] == 1, "a text in progress")
            writer.process.kill()
            freed = wait_until(lambda: (now := status(service.endpoint))["sessions"] == 0 and now, "its place is free")
            self.assertEqual(freed["parked"], 1)  # and not because the client is waited for no longer
            wait_until(lambda: (now := status(service.endpoint))["parked"] == 0 and now["cancelled"] == 1, "the end of waiting for it")
            service.stop()
            self.assertEqual(service.journaled(), 0)

    def test_a_client_does_not_call_for_ever(self):
        with Service() as service, Background("generate", "--connect", service.endpoint, "--reconnect-wait", 6, *TEXT, *GREEDY) as writer:
            wait_until(lambda: status(service.endpoint)["sessions"] == 1, "a text in progress")
            service.kill()
            code, _, error = writer.end()
            self.assertEqual(code, 1)
            self.assertIn("has been silent for 6 s", error)
            service.start()

    def test_two_coordinators_do_not_share_a_journal(self):
        with Service() as service:
            _, error = call("outrider-coordinator", "-m", TARGET, "--listen", "tcp://127.0.0.1:*", "--journal", service.journal, code=1)
            self.assertIn("in use by another coordinator", error)


if __name__ == "__main__":
    unittest.main()
