"""One hostile key: so many connections, each of which goes through the attacks one after the other until the process is told to end.

    attacks.py HOW        (JSON: addresses, keys, kinds of attack, connections, seed)

soak.py starts four of them. At SIGTERM it prints how often each attack was made and how often it was refused, as a line of JSON."""
import contextlib
import json
import os
import random
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections import Counter

import wire

ATTACKS, MULTIPART = {}, {}
TURN_S = 4  # of an attack that holds something
BODY_MAX = 4 << 20


def attack(table):
    def take(function):
        table[function.__name__.replace("_", "-")] = function
        return function
    return take


class Foe:
    """One connection's worth of a hostile key. Attacks take what they need of it and clean up on their way out."""

    def __init__(self, how, number):
        self.how, self.random = how, random.Random(f"{how['seed']} {number}")
        self.zmtp, self.http = tuple(how["zmtp"]), tuple(how["http"])
        self.number = number

    def dealer(self, role=wire.CLIENT, **more):
        dealer = wire.Raw(self.zmtp)
        dealer.send(wire.hello(self.how["owner"], role, **more))
        return dealer

    def request(self):
        return self.random.getrandbits(62) | 1

    def web(self, body=b"", path="/v1/completions", method="POST", more=(), length=None, unread=False):
        """Open a socket on which this was asked. If `unread` it takes next to nothing before it is read."""
        line = socket.socket()
        line.settimeout(10)
        if unread:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.connect(self.http)
        head = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {self.how['key']}", "Content-Type: application/json",
                f"Content-Length: {len(body) if length is None else length}", *more, "", ""]
        line.sendall("\r\n".join(head).encode() + body)
        return line

    def hold(self, seconds=TURN_S):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.1)

    def body(self, **fields):
        return json.dumps({"prompt": "Once upon a time", "max_tokens": -1, "temperature": 1, "seed": self.random.getrandbits(30), **fields}).encode()


def reset(line):
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    line.close()


# ---- ZeroMQ ----

@attack(ATTACKS)
def flood_and_reset(foe):
    """Send twenty thousand frames of a byte, and reset the connection while they wait."""
    with contextlib.closing(wire.Raw(foe.zmtp)) as dealer:
        dealer.socket.sendall(wire.frame(b"x") * 20000)
        dealer.reset()


@attack(ATTACKS)
def flood_while_heard(foe):
    """Attack in the same way as a client that has a text under way, so that traffic flows out, too."""
    with contextlib.closing(foe.dealer()) as dealer:
        dealer.send(*(wire.generate(foe.request(), max_tokens=400) for _ in range(2)))
        time.sleep(foe.random.uniform(0, 0.5))
        dealer.socket.sendall(wire.frame(wire.message(wire.STATS_REQUEST, {1: 1})) * 2000 + wire.frame(b"x") * 20000)
        dealer.reset()


@attack(ATTACKS)
def repeated_generate(foe):
    """Ask for a finished text again and again, and read nothing."""
    again = wire.generate(foe.request(), max_tokens=200)
    with contextlib.closing(foe.dealer()) as dealer:
        dealer.send(again)
        time.sleep(2)
        for _ in range(20):
            dealer.send(*[again] * 500)
            time.sleep(0.1)


@attack(ATTACKS)
def resume_storm(foe):
    with contextlib.closing(foe.dealer()) as dealer:
        request = foe.request()
        dealer.send(wire.generate(request, max_tokens=100))
        for _ in range(20):
            offsets = [foe.random.choice((0, 1, 50, 1 << 31, (1 << 32) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)) for _ in range(400)]
            dealer.send(*(wire.resume(foe.random.choice((request, foe.request())), offset & 0xffffffff, offset, foe.random.choice((b"", bytes(16))))
                          for offset in offsets))
            time.sleep(0.1)


@attack(ATTACKS)
def hello_flood(foe):
    for _ in range(20):
        with contextlib.closing(wire.Raw(foe.zmtp)) as dealer:
            dealer.send(*(wire.hello(f"{foe.how['owner']}-{foe.random.getrandbits(20)}", foe.random.randrange(6)) for _ in range(200)))


@attack(ATTACKS)
def status_polling(foe):
    with contextlib.closing(foe.dealer()) as dealer:
        for _ in range(20):
            dealer.send(*[wire.message(wire.STATS_REQUEST, {1: foe.random.randrange(2), 2: foe.random.choice((0, (1 << 64) - 1))})] * 200)
            time.sleep(0.1)


@attack(ATTACKS)
def waiting_prompts(foe):
    """Send prompts as long as they may be, with stop strings, that wait for a place."""
    with contextlib.closing(foe.dealer()) as dealer:
        for _ in range(40):
            dealer.send(wire.generate(foe.request(), b"a" * 300, 400, f8=[os.urandom(250) for _ in range(16)], f30="x" * 60))
        foe.hold()


@attack(ATTACKS)
def drafters_garbage(foe):
    """Send a drafter's messages, with numbers that fit nothing."""
    number = foe.random.getrandbits
    with contextlib.closing(foe.dealer(wire.DRAFTER, f4=wire.Fixed(foe.how["vocab_hash"]), f5=foe.how["vocab_size"], f6="m", f8=512, f9=1024,
                                       f10=64)) as dealer:
        for _ in range(20):
            trees = [wire.message(foe.random.choice((wire.DRAFT_TREE, wire.DRAFT_TREE, *wire.BODIES)),
                                  {1: number(4), 2: number(4), 3: number(9), 4: wire.Fixed(number(64)), 5: [number(9) for _ in range(16)], 6: [1] * 16},
                                  session=number(foe.random.choice((3, 64)))) for _ in range(100)]
            dealer.send(*trees)
            time.sleep(0.1)


def relayed_curve(foe, bytes_max, use):
    """Let `use` have a connection with our key that a relay of ours resets once so many bytes went by."""
    near = socket.create_server(("127.0.0.1", 0))
    done = threading.Event()

    def carry():
        with near:
            one, _ = near.accept()
        with one, socket.create_connection(tuple(foe.how["curve"]["address"]), timeout=10) as other:
            passed = 0
            while passed < bytes_max and not done.is_set():
                for ready in select.select((one, other), (), (), 0.1)[0]:
                    part = ready.recv(65536)
                    if not part:
                        return
                    (other if ready is one else one).sendall(part)
                    passed += len(part) if ready is one else 0
            reset(other)

    thread = threading.Thread(target=quietly, args=(carry,), daemon=True)
    thread.start()
    keys = foe.how["curve"]
    dealer = wire.Curve(f"tcp://127.0.0.1:{near.getsockname()[1]}", keys["public"], keys["secret"], keys["server"])
    try:
        use(dealer, done)
    finally:
        done.set()
        dealer.close()
        thread.join(2)


def quietly(do):
    try:
        do()
    except OSError:
        pass  # the other side was quicker


@attack(ATTACKS)
def encrypted_flood(foe):
    """Send a flood past the encryption that is reset by a relay in the middle of it."""
    if foe.how["curve"] is None:
        time.sleep(0.1)
        return

    def use(dealer, done):
        dealer.send(wire.hello())
        dealer.send(wire.generate(foe.request(), max_tokens=400))
        end = time.monotonic() + TURN_S
        while time.monotonic() < end and dealer.send(b"x"):
            pass
    relayed_curve(foe, foe.random.randrange(200000, 2000000), use)


# ---- HTTP ----

@attack(ATTACKS)
def giant_stop_strings(foe):
    """Send a body as large as may be, of stop strings, for 128 texts; or of a user's name."""
    part = "x" * (BODY_MAX // 17)
    fields = {"n": 128, "stop": [f"{part}{i}" for i in range(16)]} if foe.random.random() < 0.7 else {"n": 128, "user": part * 16}
    with foe.web(foe.body(stream=True, **fields)) as line:
        line.recv(4096)
        foe.hold(1)


@attack(ATTACKS)
def many_texts(foe):
    with foe.web(foe.body(stream=True, n=128)) as line:
        line.recv(4096)
        foe.hold()


@attack(ATTACKS)
def slow_body(foe):
    """Send all of a body but its last byte."""
    with foe.web(b" " * (BODY_MAX - 1), length=BODY_MAX) as line:
        line.settimeout(15)
        line.recv(4096)


@attack(ATTACKS)
def contradictory_framing(foe):
    body = foe.body(max_tokens=2)
    length = f"Content-Length: {len(body)}\r\n"
    for lines in (length * 2, length + "Content-Length: 0\r\n", length + "Transfer-Encoding: chunked\r\n", length + "Host: evil\r\n",
                  length.replace(" ", " +"), length.replace("\r\n", ", 7\r\n"), "Transfer-Encoding: chunked, identity\r\n", ""):
        with socket.create_connection(foe.http, timeout=2) as line:
            line.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {foe.how['key']}\r\n{lines}\r\n".encode() + body * 2)
            line.recv(4096)


@attack(ATTACKS)
def slow_reader(foe):
    """Ask for a stream with log-probabilities that nobody reads."""
    with foe.web(foe.body(stream=True, n=4, logprobs=5, ignore_eos=True), unread=True) as line:
        foe.hold(2 * TURN_S)
        reset(line)


@attack(ATTACKS)
def whole_answer(foe):
    """Ask for a whole answer with log-probabilities, as large as may be, and leave it unread."""
    with foe.web(foe.body(n=8, logprobs=20, ignore_eos=True), unread=True):
        foe.hold(2 * TURN_S)


@attack(ATTACKS)
def hang_up(foe):
    for _ in range(10):
        with foe.web(foe.body(stream=True)) as line:
            if foe.random.random() < 0.5:
                line.recv(4096)
            if foe.random.random() < 0.5:
                reset(line)


@attack(ATTACKS)
def impossible_place(foe):
    """Send a Last-Event-ID with numbers that no text has."""
    body = foe.body(stream=True)
    for _ in range(10):
        place = foe.random.choice(("A" * 76, "_" * 76, "7", "~" * 76, "_" * 40 + "A" * 36))
        with foe.web(body, more=(f"Last-Event-ID: {place}",)) as line:
            line.recv(4096)


@attack(ATTACKS)
def web_polling(foe):
    path = foe.random.choice(("/status", "/health", "/metrics", "/v1/models", "/", "/events"))
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {foe.how['key']}\r\n\r\n".encode()
    with socket.create_connection(foe.http, timeout=10) as line:
        for _ in range(50):
            line.sendall(request)
            line.recv(65536)


# ---- unfinished messages, in a run of their own ----

@attack(MULTIPART)
def unfinished_message(foe):
    """Send parts without a last one, for a while."""
    with contextlib.closing(foe.dealer()) as dealer:
        part = wire.frame(b"x", wire.MORE) * 10000
        end = time.monotonic() + TURN_S
        while time.monotonic() < end:
            dealer.socket.sendall(part)
        if foe.random.random() < 0.5:
            dealer.reset()


@attack(MULTIPART)
def unfinished_encrypted_message(foe):
    if foe.how["curve"] is None:
        time.sleep(0.1)
        return

    def use(dealer, done):
        end = time.monotonic() + TURN_S
        while time.monotonic() < end and dealer.send(b"x", more=True):
            pass
    relayed_curve(foe, foe.random.randrange(200000, 2000000), use)


def main():
    how = json.loads(sys.argv[1])
    table = {**ATTACKS, **MULTIPART}
    made, refused = Counter(), Counter()

    def go_on(number):
        foe = Foe(how, number)
        kinds = how["kinds"]
        turn = number
        while True:
            name = kinds[turn % len(kinds)]
            turn += 1
            try:
                table[name](foe)
            except OSError:  # refused, cut or full: as it should be
                refused[name] += 1
                time.sleep(0.05)
            made[name] += 1

    def end(*_):
        print(json.dumps({"made": made, "cut": refused}), flush=True)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    for number in range(how["connections"]):
        threading.Thread(target=go_on, args=(number,), daemon=True).start()
    while os.getppid() == how["parent"]:  # nobody attacks for a parent that is gone
        time.sleep(0.5)


if __name__ == "__main__":
    main()
