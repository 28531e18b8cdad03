"""Goal: no connection, whatever its bytes, ends a process, leaks, or makes a later text wrong.
Method: the real programs (OUTRIDER_BIN; meant for the sanitizers' build). Conversations of our own programs are recorded through a relay, others are
made by wire.py and from a table of HTTP requests. Each connection plays one of them with some mutations, half of the connections only behind an intact
handshake (greeting, READY and Hello; for HTTP the headers of the first request). Afterwards an honest text must be the plain one by both ways in, and
every process must end at SIGTERM with 0, which LeakSanitizer denies to one that leaks.

    mutate.py --connections 100000 --kind zmtp|http --seed N

The seed and the recordings decide what each connection says. When something fails, the recordings lie in the file that is named, and
--recordings FILE plays them again."""
import argparse
import contextlib
import json
import os
import random
import re
import signal
import socket
import struct
import sys
import tempfile
import time
from pathlib import Path

import wire
from service import resident_mib
from test_security import Recorder
from cli import DRAFT, ROOT, TARGET, Background, generate, outrider, wait_until

OPEN = 24  # connections at a time
SEED_MAX = 1 << 30
PROMPT = "Once upon a time"
HONEST = ["-p", PROMPT, "-n", 24, "--temp", 0]
EXTREMES = (0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
# Only whole stacks tell the memory that Open MPI keeps from ours; they take too long elsewhere.
WHOLE_STACKS = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "detect_leaks=1") + ":fast_unwind_on_malloc=0",
                "LSAN_OPTIONS": os.environ.get("LSAN_OPTIONS", f"suppressions={ROOT}/tests/support/lsan.supp:print_suppressions=0")}
COMPLAINTS = re.compile("Sanitizer|runtime error|Assertion|assertion failed")


class Service:
    """A coordinator with a verifier and a drafter, in a folder of their own. Their output is in files: nobody reads pipes here."""

    def __init__(self, stack):
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.stack, self.processes = stack, {}
        first = self.start("coordinator", "-m", TARGET, "--listen", "tcp://127.0.0.1:*", "--http", "127.0.0.1:0", "--journal", self.folder / "journal",
                           "--resume-window", 2, "--ready-fd", 1)
        self.endpoint = first.stdout.readline().decode().strip()
        words = first.stdout.readline().split()
        if len(words) != 2:
            raise AssertionError("no coordinator: " + self.said("coordinator"))
        self.http = address(words[1].decode())
        self.zmtp = address(self.endpoint)

    def start(self, name, *words):
        variables = {"OUTRIDER_KEYS": str(self.folder / "keys"), "XDG_STATE_HOME": str(self.folder)}
        variables.update(WHOLE_STACKS if name == "verifier" else {})
        with open(self.folder / f"{name}.log", "ab") as log:
            background = Background(*words, "--log-level", "error", program=f"outrider-{name}", error=log, **variables)
        self.stack.callback(background.__exit__)
        self.processes[name] = background.process
        return background.process

    def complete(self):
        self.start("verifier", "-m", TARGET, "--connect", self.endpoint)
        self.start("drafter", "-m", DRAFT, "--connect", self.endpoint)
        wait_until(lambda: (now := self.status())["ready"] and now["drafters"], "a verifier and a drafter")

    def said(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def ended(self):
        return [name for name, process in self.processes.items() if process.poll() is not None]

    def status(self):
        return json.loads(outrider("status", "--connect", self.endpoint, "--json", code=None)[0] or '{"ready": false}')

    def idle(self):
        # By the coordinator's count: a verifier whose place a false one took keeps sessions that ended meanwhile until it needs their room.
        now = self.status()
        return now["ready"] and now["waiting"] == 0 and all(peer["sessions"] == 0 for peer in now["peers"])

    def end(self):
        """Return what was wrong with the ends of the processes."""
        troubles = []
        for name in ("drafter", "verifier", "coordinator"):
            process = self.processes[name]
            process.send_signal(signal.SIGTERM)
            if process.wait(timeout=60) != 0:
                troubles.append(f"{name}: exit {process.returncode}")
            if COMPLAINTS.search(self.said(name)):
                troubles.append(f"{name}: " + self.said(name)[-6000:])
        return troubles


def address(endpoint):
    host, port = endpoint.split("//")[-1].rstrip("/").rsplit(":", 1)
    return host, int(port)


# ---- conversations: a list of parts, the first `intact` of which are the handshake ----

def split(said):
    """Split one side of a ZMTP connection into greeting and frames."""
    parts, at = [said[:64]], 64
    while at + 2 <= len(said):
        large = said[at] & wire.LONG and at + 9 <= len(said)
        size = 9 + struct.unpack_from(">Q", said, at + 1)[0] if large else 2 + said[at + 1]
        parts.append(said[at:at + size])
        at += size
    return parts


def recorded(service):
    """Record what a verifier, a drafter and clients say while a text is written; and what a second verifier and drafter say, with which the campaign goes on."""
    with contextlib.ExitStack() as stack:
        relays = {}
        for name in ("verifier", "drafter", "generate", "status"):
            relays[name] = Recorder(service.endpoint)
            stack.callback(relays[name].close)
        for name, model in (("verifier", TARGET), ("drafter", DRAFT)):
            stack.enter_context(Background("-m", model, "--connect", relays[name].endpoint, program=f"outrider-{name}"))
        generate("--connect", relays["generate"].endpoint, *HONEST)
        outrider("status", "--connect", relays["status"].endpoint)
        return {name: [part.hex() for part in split(bytes(relay.said))[:60]] for name, relay in relays.items()}


def scripted(first):
    """Build by wire.py what no program of ours says by itself in a short text. Requests have numbers from `first` on, or they would all be the
    same text."""
    start = [wire.GREETING, wire.READY]
    ask = [wire.frame(wire.generate(number, max_tokens=6)) for number in (first, first + 1, first + 2)]
    rich = wire.frame(wire.generate(first + 3, max_tokens=4, f8=["x", "yz"], f31=5, f32=1, f35=1, f30="label", f5=wire.field(1, 0.5) + wire.field(3, 0.9)))
    chat = wire.frame(wire.message(wire.GENERATE, {1: first + 4, 4: 4, 16: 1, 34: [wire.field(1, "user") + wire.field(2, "hi")]}))
    numbers = {1: 1, 2: 0, 3: 5, 4: wire.Fixed(7), 5: [1, 2, 3], 6: [1, 1, 1]}
    trees = [wire.frame(wire.message(wire.DRAFT_TREE, {**numbers, 1: turn}, session=turn)) for turn in range(1, 5)]
    verdicts = [wire.frame(wire.message(wire.VERDICT, {1: turn, 2: 5, 3: [1, 2], 4: 9, 7: turn == 4}, session=turn)) for turn in range(1, 5)]
    others = [wire.frame(wire.message(body, {1: 1, 2: 2}, session=1)) for body in wire.BODIES]
    beat = wire.frame(wire.message(wire.HEARTBEAT, {1: 5}))
    resumes = [wire.frame(wire.resume(first, 1, 3)), wire.frame(wire.resume(first + 1, 0, 0, bytes(16)))]
    stats = [wire.frame(wire.message(wire.STATS_REQUEST, {1: turn, 2: 0})) for turn in (0, 1)]

    def told(role, *parts):
        return [*start, wire.frame(wire.hello(role=role, f8=512, f9=64, f10=8)), *parts]
    return [told(wire.CLIENT, *ask, *resumes, *stats), told(wire.CLIENT, rich, chat, beat, ask[0], ask[0], resumes[0]), told(wire.DRAFTER, *trees, beat),
            told(wire.VERIFIER, *verdicts, beat), told(wire.CLIENT, *others), told(wire.DRAFTER, *others), told(wire.VERIFIER, *others)]


def zmtp_conversations(recordings):
    """Return two groups, of which each is taken as often."""
    return [[[bytes.fromhex(part) for part in parts] for parts in recordings.values()],
            [conversation for first in range(11, 10011, 10) for conversation in scripted(first)]]


COMPLETIONS = [{}, {"stream": True}, {"n": 3, "temperature": 1, "seed": 7}, {"stop": ["a", "the king"], "logprobs": 3}, {"stream": True, "logprobs": 2, "n": 2},
               {"prompt": [1, 5, 9]}, {"prompt": ["a", "b"]}, {"logit_bias": {"5": -100}, "top_k": 5, "top_p": 0.5, "min_p": 0.1}, {"echo": True},
               {"draft": False}, {"draft": {"method": "rsd-c", "accept": "recursive", "shape": "4x2x1"}}, {"draft": {"details": True}, "stream": True},
               {"stream": True, "stream_options": {"include_usage": True}, "user": "ann", "model": "outrider"}, {"ignore_eos": True, "best_of": 2, "n": 2}]
MESSAGES = [[{"role": "user", "content": "hi"}], [{"role": "system", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "b"}]},
            {"role": "assistant", "content": None}, {"role": "user", "content": "\u00fc\U0001f451"}]]
READ = ("/health", "/status", "/status?events_after=3", "/metrics", "/metrics?names=plain", "/v1/models", "/v1/models/outrider", "/", "/app.js", "/nothing")


def bodies():
    for more in COMPLETIONS:
        yield "/v1/completions", {"prompt": PROMPT, "max_tokens": 3, "temperature": 0, **more}
    for messages in MESSAGES:
        for more in ({}, {"stream": True, "logprobs": True, "top_logprobs": 2}):
            yield "/v1/chat/completions", {"messages": messages, "max_tokens": 3, **more}
    yield "/tokenize", {"content": PROMPT, "with_pieces": True}
    yield "/detokenize", {"tokens": [1, 5, 9]}


def head(method, path, *lines):
    return "\r\n".join((f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", "")).encode()


def http_conversations():
    json_type, place = "Content-Type: application/json", "Last-Event-ID: " + "A" * 76
    found = []
    for path, said in bodies():
        body = json.dumps(said).encode()
        length = f"Content-Length: {len(body)}"
        found.append([head("POST", path, json_type, length), body, head("GET", "/health")])
        found.append([head("POST", path, json_type, "Transfer-Encoding: chunked"), b"%x\r\n" % len(body), body, b"\r\n0\r\n\r\n"])
        found.append([head("POST", path, json_type, length, "Expect: 100-continue", place), body, head("POST", path, json_type, length), body])
    for path in READ:
        found.append([head("GET", path), head("HEAD", path), head("OPTIONS", path, "Origin: http://localhost")])
    return [found]


# ---- mutations ----

def fields(packed):
    """Return the fields as wire.fields does; None if this is no message."""
    try:
        return wire.fields(packed)
    except (IndexError, KeyError):
        return None


def packed_again(found):
    out = bytearray()
    for number, kind, value in found:
        out += wire.varint(number << 3 | kind)
        out += wire.varint(value) if kind == 0 else (wire.varint(len(value)) if kind == 2 else b"") + value
    return bytes(out)


class Mutator:
    """All choices that the chance of one connection makes."""

    def __init__(self, seed, number, kind, conversations):
        self.chance = random.Random(f"{seed} {kind} {number}")
        self.kind, self.conversations = kind, conversations

    def conversation(self):
        return self.chance.choice(self.chance.choice(self.conversations))

    def parts(self):
        """Return the intact parts and the mutated ones."""
        chance = self.chance
        whole = self.conversation()
        shaken = 3 if self.kind == "zmtp" else 1
        start, rest = whole[:shaken], whole[shaken:]
        if len(rest) > 12:
            first = chance.randrange(len(rest) - 8)
            rest = rest[first:first + chance.randint(1, 12)]
        if chance.random() < 0.5:
            return start, self.mutated(rest, start)
        return [], self.mutated([*start, *rest], [])

    def mutated(self, parts, start):
        parts = list(parts)
        for _ in range(self.chance.choice((1, 1, 1, 2, 3, 8))):
            if parts:
                self.chance.choice((self.change_part, self.change_part, self.change_parts, self.change_fields))(parts)
        if self.kind == "http" and len(start) == 1 and parts and self.chance.random() < 0.5:
            start[0] = re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % len(parts[0]), start[0])
        return parts

    def change_part(self, parts):
        at = self.chance.randrange(len(parts))
        parts[at] = bytes(self.chance.choice((self.flip, self.cut, self.repeat, self.extreme, self.insert))(bytearray(parts[at])))

    def change_parts(self, parts):
        """Drop, repeat, swap, or go on as another conversation."""
        chance, at = self.chance, self.chance.randrange(len(parts))
        turn = chance.randrange(4)
        if turn == 0:
            del parts[at]
        elif turn == 1:
            parts[at:at] = [parts[at]] * chance.choice((1, 2, 20))
        elif turn == 2:
            other = chance.randrange(len(parts))
            parts[at], parts[other] = parts[other], parts[at]
        else:
            other = self.conversation()
            parts[at:] = other[chance.randrange(len(other)):][:12]

    def change_fields(self, parts):
        """Change one value of a message or of a JSON text, with lengths that are right again, so that what reads it gets to it."""
        at = self.chance.randrange(len(parts))
        if self.kind == "http":
            parts[at] = self.change_json(parts[at])
            return
        part = parts[at]
        skip = 9 if part and part[0] & wire.LONG else 2
        parts[at] = wire.frame(self.change_message(part[skip:], 2))

    def change_message(self, packed, depth):
        chance, found = self.chance, fields(packed)
        if not found:
            return packed
        at = chance.randrange(len(found))
        number, kind, value = found[at]
        turn = chance.randrange(8)
        if turn == 0:
            del found[at]
        elif turn == 1:
            found[at:at] = [found[at]] * chance.choice((1, 3, 500))
        elif turn == 2:
            found[at] = (chance.randrange(40), kind, value)
        elif kind == 2 and depth > 0 and turn < 7:
            found[at] = (number, kind, self.change_message(value, depth - 1))
        elif kind == 2:
            found[at] = (number, kind, chance.choice((b"", value * 3, chance.randbytes(40), value[:-1], b"\xff" * 30, b"\0" * 2000)))
        elif kind == 0:
            found[at] = (number, kind, chance.choice((*EXTREMES, chance.randrange(9), value ^ 1, value + 1)))
        else:
            found[at] = (number, kind, chance.randbytes(len(value)) if turn < 7 else b"\xff" * len(value))
        return packed_again(found)

    def change_json(self, text):
        """Change numbers and words of it, headers' as well."""
        chance = self.chance
        places = list(re.finditer(rb"-?\d+(\.\d+)?|true|false|null|\"[^\"]*\"|[\[\]{},:]", text))
        if not places:
            return text
        place = chance.choice(places)
        other = chance.choice((b"%d" % chance.choice(EXTREMES), b"-1", b"1e999", b"null", b"[]", b"{}", b'""', b'"\\ud800"', b'"\\u0000"', b"[" * 300, b"3.5",
                               chance.choice(places).group(), chance.randbytes(4)))
        return text[:place.start()] + other + text[place.end():]

    def flip(self, part):
        for _ in range(self.chance.choice((1, 1, 2, 8))):
            if part:
                part[self.chance.randrange(len(part))] ^= 1 << self.chance.randrange(8)
        return part

    def cut(self, part):
        return part[:self.chance.randrange(len(part) + 1)]

    def repeat(self, part):
        first = self.chance.randrange(len(part) + 1)
        last = self.chance.randint(first, len(part))
        return part[:last] + part[first:last] * self.chance.choice((1, 2, 30)) + part[last:]

    def insert(self, part):
        at = self.chance.randrange(len(part) + 1)
        return part[:at] + self.chance.randbytes(self.chance.choice((1, 2, 8, 300))) + part[at:]

    def extreme(self, part):
        """Return the part with a number in the place of what is there, in any of the spellings that lengths have. The length of a frame comes
        first of all."""
        chance, number = self.chance, self.chance.choice(EXTREMES)
        if self.kind == "zmtp" and chance.random() < 0.4:
            return bytearray(struct.pack(">BQ", part[0] | wire.LONG if part else wire.LONG, number)) + part[2:]
        said = chance.choice((struct.pack(">Q", number), struct.pack("<I", number & 0xffffffff), wire.varint(number), b"%d" % number, b"%x" % number))
        at = chance.randrange(len(part) + 1)
        return part[:at] + said + part[at + len(said):]


# ---- connections ----

class Connection:
    """A connection whose bytes go out in pieces, between those of others. Its end is a reset, in the midst of them for some."""

    GREETED, WELCOMED = 1, 128  # bytes that say so: behind a reset nothing is heard that was not read before

    def __init__(self, place, mutator):
        chance = self.chance = mutator.chance
        start, rest = mutator.parts()
        said = b"".join((*start, *rest))
        self.awaits = 0 if mutator.kind == "http" else self.WELCOMED if start else self.GREETED
        if chance.random() < 0.15:
            said = said[:chance.randrange(len(said) + 1)]
            self.awaits = min(self.awaits, self.GREETED)
        cuts = sorted(chance.randrange(len(said) + 1) for _ in range(chance.choice((0, 0, 0, 1, 4, 20))))
        self.pieces = [said[first:last] for first, last in zip((0, *cuts), (*cuts, len(said)))]
        self.socket = socket.create_connection(place, timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def step(self):
        """Do one step. Return False if it has said everything."""
        if not self.pieces:
            return False
        try:
            self.socket.sendall(self.pieces.pop(0))
        except OSError:
            self.pieces = []  # it was cut off, or is not listened to
        return bool(self.pieces)

    def hear(self):
        """Return the message that it waits for, or any that is there."""
        self.socket.settimeout(0.5 if self.awaits else self.chance.choice((*[0] * 19, 0.1)))
        heard = 0
        while part := self.socket.recv(65536):
            heard += len(part)
            if heard >= self.awaits:
                break

    def end(self):
        with contextlib.suppress(OSError):
            self.hear()
        if self.chance.random() < 0.9:  # the others leave a port in TIME_WAIT
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class Campaign:
    """Open so many connections of one kind."""

    def __init__(self, service, how, conversations):
        self.service, self.how, self.conversations = service, how, conversations
        self.place = service.zmtp if how.kind == "zmtp" else service.http
        self.most = self.refused = 0

    def connect(self, number):
        """Connect. Return None if that is refused. A refused connection would say the same again with the same number."""
        try:
            return Connection(self.place, Mutator(self.how.seed, number, self.how.kind, self.conversations))
        except OSError:
            self.refused += 1
            return None

    def run(self):
        """Return the number of the connection at which a process had ended, or None if none has."""
        order, begun = random.Random(self.how.seed), time.monotonic()
        now, number = [], 0
        while number < self.how.connections or now:
            while number < self.how.connections and len(now) < OPEN:
                connection = self.connect(number)
                number += 1
                now += [connection] if connection else []
                if number % 500 == 0:
                    if self.service.ended():
                        return number
                    self.look(number, begun)
            at = order.randrange(len(now))
            if not now[at].step():
                now.pop(at).end()
        return None

    def look(self, number, begun):
        self.most = max(self.most, resident_mib(self.service.processes["coordinator"].pid))
        if number % 10000 == 0:
            print(f"  {number} connections, {time.monotonic() - begun:.0f} s, {self.most:.0f} MiB at most", flush=True)


def honest(service):
    """Return what is wrong with a text of each way in, now that the others are gone."""
    wait_until(service.idle, "the end of their texts")
    expected = generate("--plain", *HONEST)
    troubles = []
    if generate("--connect", service.endpoint, *HONEST)["tokens"] != expected["tokens"]:
        troubles.append("a text by ZeroMQ is not the plain one")
    body = json.dumps({"prompt": PROMPT, "max_tokens": 24, "temperature": 0}).encode()
    with socket.create_connection(service.http, timeout=60) as line:
        line.sendall(head("POST", "/v1/completions", "Content-Type: application/json", "Connection: close", f"Content-Length: {len(body)}") + body)
        answer = b"".join(iter(lambda: line.recv(65536), b""))
    said = json.loads(answer.partition(b"\r\n\r\n")[2])
    if said.get("choices", [{}])[0].get("text") != expected["text"]:
        troubles.append(f"a text by HTTP is not the plain one: {said}")
    return troubles


def campaign(how):
    """Return what went wrong."""
    with contextlib.ExitStack() as stack:
        service = Service(stack)
        recordings = json.loads(Path(how.recordings).read_text()) if how.recordings else recorded(service)
        service.complete()
        run = Campaign(service, how, zmtp_conversations(recordings) if how.kind == "zmtp" else http_conversations())
        begun = time.monotonic()
        ended_at = run.run()
        spent = time.monotonic() - begun
        if ended_at is not None:
            troubles = [f"{name} had ended at connection {ended_at}: {service.said(name)[-6000:]}" for name in service.ended()]
        else:
            troubles = honest(service)
            last = resident_mib(service.processes["coordinator"].pid)
            print(f"  {how.kind}: {how.connections} connections ({run.refused} refused) in {spent:.0f} s, seed {how.seed}; "
                  f"coordinator {run.most:.0f} MiB at most, {last:.0f} at the end", flush=True)
            troubles += service.end()
        if troubles and not how.recordings:
            kept = Path(tempfile.gettempdir(), f"mutate-{how.kind}-{how.seed}.json")
            kept.write_text(json.dumps(recordings))
            troubles.append(f"replay: mutate.py --connections {how.connections} --kind {how.kind} --seed {how.seed} --recordings {kept}")
        return troubles


def main(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=2000)
    parser.add_argument("--kind", choices=("zmtp", "http"), required=True)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(SEED_MAX))
    parser.add_argument("--recordings")
    how = parser.parse_args(words)
    print(f"\n  seed {how.seed}", flush=True)
    troubles = campaign(how)
    print("\n".join(troubles))
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
