"""Goal: whatever a coordinator says, its drafter, its verifier and its client go on: their memory and their logs stay small, and they serve the
next coordinator, which is honest, as if nothing had been.
Method: the real programs, and a coordinator on a bare socket. It floods them with sessions that are too large, too many or refused, with texts and
trees beyond all bounds, for sessions that never were, out of order, late and repeated, and with frames that are none. It waits until each attack
has been read: what libzmq holds of frames that come faster is not bounded (SECURITY.md). Then an honest coordinator listens at the same port."""
import contextlib
import json
import os
import random
import tempfile
import threading
import time
import unittest
from pathlib import Path

import wire
from service import resident_mib
from test_resume import status
from cli import DRAFT, PATIENCE, TARGET, Background, generate, wait_until

GROWTH_MIB = 224  # of a process while it is attacked: to unpack one frame may cost 128 MiB (proto/wire/message_arena.c)
STAYS_MIB = 48  # of it, once that is over: 64 sessions and their caches
LINES_MAX = 40  # in its log for all of it
LARGE = 15 << 20
SESSIONS = 64
ENTRIES = 1 << 20
MANY = 3000
COUPLED, CHAIN = 1, 1
U32 = (1 << 32) - 1
HONEST = ["-p", "Once upon a time", "-n", 24, "--temp", 0]
P1, P2, P3, P5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5


def prefix_hash(tokens, value=0):
    """Return the chain of XXH64 over each token's four bytes, with the one before as the seed."""
    for token in tokens:
        value = (value + P5 + 4 ^ token * P1) & (1 << 64) - 1
        value = ((value << 23 | value >> 41) * P2 + P3) & (1 << 64) - 1
        value = (value ^ value >> 33) * P2 & (1 << 64) - 1
        value = (value ^ value >> 29) * P3 & (1 << 64) - 1
        value ^= value >> 32
    return value


def sampling(biases=0):
    return wire.field(1, 1.0) + wire.field(3, 1.0) + wire.field(5, 1.0) + wire.field(9, wire.field(1, 5) + wire.field(2, 1.5)) * biases


def open_session(session, **more):
    return wire.message(wire.OPEN_SESSION, {1: sampling(), 4: COUPLED, 5: CHAIN, 6: 8, 7: 8, 8: 1.0, 11: 3, 15: 16,
                                            **{int(name[1:]): value for name, value in more.items()}}, session)


def prefix(session, tokens, round=1, start=0, known=True):
    return wire.message(wire.PREFIX, {1: start, 2: tokens, 3: wire.Fixed(prefix_hash(tokens) if known else 1), 4: round}, session)


def tree(session, tokens, round=1, base=3, known=(1, 458, 1112)):
    return wire.message(wire.DRAFT_TREE, {1: round, 3: base, 4: wire.Fixed(prefix_hash(known)), 5: tokens, 6: [1] * len(tokens)}, session)


def verdict(session, accepted, round=1, base=3):
    return wire.message(wire.VERDICT, {1: round, 2: base, 3: accepted, 4: 7, 10: wire.Fixed(1)}, session)


# ---- attacks: lists of frames ----

def sessions_with_much():
    """Return the state that is kept as long as the session is."""
    for number in (25, 3, 2):  # owner, constraint, ids that end it
        for session in range(1, SESSIONS + 1):
            yield [open_session(2 * session + 1, **{f"f{number}": "o" * LARGE if number != 2 else b"\x07" * ENTRIES})]
    for session in range(1, 9):
        yield [open_session(2 * session + 1, f1=sampling(biases=ENTRIES)), open_session(2 * session + 1, f14=[1] * ENTRIES)]


def sessions_without_end():
    for at in range(0, MANY, 100):
        yield [frame for session in range(at, at + 100) for frame in (open_session(2 * session + 1), prefix(2 * session + 1, [1, 458, 1112]))]


def sessions_that_are_refused():
    for at in range(0, MANY, 100):
        yield [open_session(2 * session + 1, f5=99, f4=99) for session in range(at, at + 100)]


def texts_beyond_all_bounds():
    open_one = open_session(5)
    for frame in (prefix(5, [3] * ENTRIES, known=False), prefix(5, [U32] * 1000, known=False), prefix(5, [1], start=U32), prefix(5, []),
                  prefix(5, [1, 458, 1112], round=(1 << 64) - 1), prefix(5, [3] * 100000)):
        yield [open_one, frame, frame]


def trees_and_verdicts():
    for session in (0, 4, 9, (1 << 64) - 1, 5):
        yield [open_session(5), prefix(5, [1, 458, 1112]), tree(session, [U32] * 9), tree(session, [5] * ENTRIES), tree(session, [5] * 9, base=U32),
               tree(session, [5], round=(1 << 64) - 1), verdict(session, [1, 2, 3]), verdict(session, list(range(ENTRIES))),
               verdict(session, [U32], round=(1 << 64) - 1, base=U32)]


def wrong_order():
    session = 7
    words = [verdict(session, [1]), tree(session, [5, 6]), prefix(session, [1, 458, 1112]), wire.message(wire.PSI_REQUEST, {1: 1, 2: 3}, session),
             wire.message(wire.PSI_REPLY, {1: 1, 2: 3}, session), wire.message(wire.CANCEL, {1: "no"}, session), open_session(session),
             wire.message(wire.WELCOME, {1: "again", 2: 1000}), wire.hello("me"), wire.message(wire.CANCEL, {}, 0),
             wire.message(wire.ERROR, {1: 5, 2: "no"}, session), wire.message(wire.ERROR, {1: 5, 2: "no"})]
    for seed in range(30):
        random.Random(seed).shuffle(words)
        yield words * 3


def repeated_and_late():
    text = [1, 458, 1112, 300]
    for round in (1, 2, 3, 2, 1):
        yield [open_session(11)] * 50 + [prefix(11, text[:2 + round], round)] * 50 + [tree(11, [5, 6], round, 2 + round, text[:2 + round])] * 50


def vocabularies():
    yield [wire.message(wire.VOCAB_MAP, {1: wire.Fixed(1), 2: wire.Fixed(2), 3: [1] * ENTRIES, 4: wire.Fixed(3)}, 13)] * 3
    yield [wire.message(wire.VOCABULARY, {1: wire.Fixed(9), 2: U32, 3: os.urandom(1 << 20)}, 13)] * 3
    yield [wire.message(wire.VOCAB_REQUEST, {1: wire.Fixed(9)}, 13)] * 300


def nonsense():
    draw = random.Random(4711)
    for _ in range(20):
        yield [draw.randbytes(draw.randrange(1, 400)) for _ in range(100)]
        yield [wire.message(draw.choice(wire.BODIES), {field: draw.choice((0, 1, U32, draw.randbytes(40))) for field in range(1, 9)},
                            draw.choice((0, 5, 7, 1 << 63))) for _ in range(100)]
    yield [wire.message(wire.HEARTBEAT, {}, version=99)] * 100


ATTACKS = (sessions_that_are_refused, sessions_without_end, texts_beyond_all_bounds, trees_and_verdicts, wrong_order, repeated_and_late, vocabularies,
           nonsense, sessions_with_much)


def is_final(frame):
    """Return whether it tells a program to end, as a coordinator may."""
    with contextlib.suppress(IndexError, KeyError):
        said = wire.parse(frame)
        return wire.ERROR in said
    return False


class Watch:
    """The most memory that a process had while we looked."""

    def __init__(self, pid):
        self.pid, self.most, self.over = pid, resident_mib(pid), threading.Event()
        self.before = self.most
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self):
        while not self.over.wait(0.005):
            with contextlib.suppress(OSError, AssertionError):
                self.most = max(self.most, resident_mib(self.pid))

    def end(self):
        self.over.set()
        self.thread.join()
        return self.most - self.before, resident_mib(self.pid) - self.before


class FalseCoordinator(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.hub = wire.Hub()
        self.stack.callback(self.hub.close)
        self.endpoint = f"tcp://127.0.0.1:{self.hub.port}"
        self.log = Path(self.stack.enter_context(tempfile.TemporaryDirectory()), "log")

    def start(self, program, *words):
        error = self.stack.enter_context(self.log.open("wb"))
        return self.stack.enter_context(Background(*words, "--connect", self.endpoint, program=program, error=error))

    def assault(self, edge, attacks):
        """Let the attacks come, and check that memory grows by little, at most and for good."""
        self.hub.accept()
        self.hub.settle()
        watch = Watch(edge.process.pid)
        for attack in attacks:
            for frames in attack():
                self.hub.send(*(frame for frame in frames if not is_final(frame)))
                self.hub.settle()
                self.hub.heard.clear()
            self.assertIsNone(edge.process.poll(), attack.__name__)
            print(f"\n  {attack.__name__}: {watch.most - watch.before:.0f} MiB", end="", flush=True)
        most, stays = watch.end()
        print(f"\n  at most {most:.0f} MiB, of which {stays:.0f} stay; {len(self.log.read_bytes().splitlines())} lines")
        self.assertLess(most, GROWTH_MIB)
        self.assertLess(stays, STAYS_MIB)
        self.assertLess(len(self.log.read_bytes().splitlines()), LINES_MAX)

    def succeed(self, *words):
        """Put an honest coordinator in its place."""
        self.hub.close()
        coordinator = Background("-m", TARGET, "--listen", self.endpoint, "--journal", "none", "--ready-fd", "1", *words,
                                 program="outrider-coordinator")
        self.stack.enter_context(coordinator)
        self.assertEqual(coordinator.process.stdout.readline().decode().strip(), self.endpoint)

    def test_drafter(self):
        edge = self.start("outrider-drafter", "-m", DRAFT)
        self.assault(edge, ATTACKS)
        self.succeed()
        self.stack.enter_context(Background("-m", TARGET, "--connect", self.endpoint, program="outrider-verifier"))
        wait_until(lambda: status(self.endpoint)["drafters"] == status(self.endpoint)["verifiers"] == 1, "the drafter calls again")
        text = generate("--connect", self.endpoint, *HONEST)
        self.assertGreater(text["accepted"], 0)
        self.assertEqual(text["tokens"], generate("--plain", *HONEST)["tokens"])

    def test_verifier(self):
        edge = self.start("outrider-verifier", "-m", TARGET)
        self.assault(edge, ATTACKS)
        self.succeed()
        wait_until(lambda: status(self.endpoint)["verifiers"] == 1, "the verifier calls again")
        text = generate("--connect", self.endpoint, "--plain", *HONEST)
        self.assertEqual(text["tokens"], generate("--plain", *HONEST)["tokens"])

    def test_client(self):
        """A client that hears only about texts of others waits, and asks the next coordinator."""
        def deltas():
            for number in (0, 1, U32, (1 << 64) - 1):
                yield [wire.message(wire.DELTA, {1: number, 2: offset, 3: [5] * 9, 4: "x" * size, 5: finish, 13: U32, 19: U32}, 5)
                       for offset in (0, 7, U32) for finish in (0, 1, 9) for size in (0, 1 << 20)]
            yield [wire.message(wire.DELTA, {1: 5, 3: [5] * ENTRIES}, 5)] * 3
        edge = self.start("outrider", "generate", "--json", "--plain", *HONEST)
        self.assault(edge, (deltas, trees_and_verdicts, wrong_order, vocabularies, nonsense))
        self.succeed()
        self.stack.enter_context(Background("-m", TARGET, "--connect", self.endpoint, program="outrider-verifier"))
        out, _ = edge.process.communicate(timeout=PATIENCE)
        self.assertEqual(edge.process.returncode, 0, self.log.read_text())
        self.assertEqual(json.loads(out)["tokens"], generate("--plain", *HONEST)["tokens"])


if __name__ == "__main__":
    unittest.main()
