"""Goal: who is not let in, or not for that, gets nothing, is counted, fills no log, and disturbs nobody; who listens on the way learns no prompt
and no token; secrets are nowhere but in their files.
Method: a coordinator that encrypts on loopback, too, and peers with keys of their own, all real processes; attackers without a key, without
encryption, with another server's key, with a stolen session token, with a recorded conversation, with another owner's name; a forwarder that
records; every log, command line and answer searched for every secret."""
import contextlib
import json
import os
import re
import resource
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request
from pathlib import Path

import service  # noqa: F401  (the path to cli)
from cli import BIN, DRAFT, ENVIRONMENT, TARGET, Cluster, call, of_rest, wait_until

THIEF = Path(os.environ.get("OUTRIDER_THIEF", BIN.parent / "tests/thief"))
PROMPT = "Once upon a time there was a secret that nobody on the way may read"
WORDS = ("-p", PROMPT, "--temp", 0, "--no-display-prompt", "--draft-policy", "fixed")  # all guesses are a drafter's
PLAIN_GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)  # of ZMTP 3.0, without security
ATTEMPTS = 100
LINES_MAX = 5  # in the log, of all attempts of one kind


def is_open(connection):
    """Return whether the other side has not ended it. What it has sent is read."""
    connection.setblocking(False)
    try:
        while connection.recv(4096):
            pass
        return False
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


class Person:
    """A key folder, and commands that are run with it."""

    def __init__(self, folder, name):
        self.name, self.folder = name, Path(folder, name)
        self.call("outrider", "keys", "new")
        self.key = self.public("identity")

    def call(self, program, *words, **settings):
        out, error = call(program, *words, OUTRIDER_KEYS=str(self.folder), **settings)
        return out.decode(errors="replace"), error

    def public(self, which):
        return json.loads(self.call("outrider", "keys", "list", "--json")[0])[which]

    def secrets(self):
        return [line.split()[1] for path in self.folder.glob("*.key") for line in path.read_text().splitlines()
                if line.startswith("secret ")]


class Process:
    """One of our programs with a person's keys. Its log is in a file."""

    def __init__(self, person, program, *words):
        self.log = Path(person.folder, program + ".log")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([BIN / program, *map(str, words)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env={**ENVIRONMENT, "OUTRIDER_KEYS": str(person.folder)})

    def says(self, text):
        wait_until(lambda: text in self.log.read_text(), text)

    def end(self):
        self.process.terminate()
        self.process.wait(timeout=20)


class Recorder:
    """A forwarder that keeps what the near end says and what the far end says, as one conversation each."""

    def __init__(self, endpoint):
        host, port = endpoint.removeprefix("tcp://").rsplit(":", 1)
        self.target = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"
        self.said, self.heard = bytearray(), bytearray()
        self.sockets = [self.listener]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(self.target)
            self.sockets += [near, far]
            for one, other, kept in ((near, far, self.said), (far, near, self.heard)):
                threading.Thread(target=self.carry, args=(one, other, kept), daemon=True).start()

    @staticmethod
    def carry(one, other, kept):
        try:
            while part := one.recv(65536):
                kept.extend(part)
                other.sendall(part)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it ended

    def close(self):
        for each in self.sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)  # whoever waits for it wakes up
            except OSError:
                pass
            each.close()


def varints(tokens):
    """Pack numbers as protobuf does."""
    packed = bytearray()
    for token in tokens:
        while token > 0x7f:
            packed.append(token & 0x7f | 0x80)
            token >>= 7
        packed.append(token)
    return bytes(packed)


class Service(unittest.TestCase):
    """A coordinator on an encrypted endpoint, a verifier, and people: ada and bob with clients' keys, eve with none."""

    listen = ["--encrypt", "on"]
    host = "127.0.0.1"
    verifier = []  # its options

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.processes = []
        self.coordinator = None
        self.operator, self.ada, self.bob, self.eve, self.target = (
            Person(self.scratch.name, name) for name in ("operator", "ada", "bob", "eve", "target"))
        self.operator.call("outrider", "keys", "new", "--coordinator")
        self.server_key = self.operator.public("coordinator")
        self.authorize(self.ada)
        self.authorize(self.bob)
        self.authorize(self.target, "--roles", "verifier")
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            self.endpoint = f"tcp://{self.host}:{unused.getsockname()[1]}"
        self.coordinator = self.start(self.operator, "outrider-coordinator", "-m", TARGET, "--listen", self.endpoint, *self.listen,
                                      "--journal", Path(self.scratch.name, "journal"), "--http", "127.0.0.1:0")
        self.coordinator.says("http on ")
        self.start(self.target, "outrider-verifier", "-m", TARGET, *self.connection(), *self.verifier)
        self.coordinator.says("verifier joined")

    def tearDown(self):
        for process in reversed(self.processes):
            process.end()
        self.scratch.cleanup()

    def start(self, person, program, *words):
        self.processes.append(Process(person, program, *words))
        return self.processes[-1]

    def authorize(self, person, *words):
        """Authorise a key. The coordinator, if it runs already, has read the keyring when this returns."""
        read = self.keyrings_read()
        self.operator.call("outrider", "keys", "authorize", person.key, "--name", person.name, *words)
        wait_until(lambda: self.coordinator is None or self.keyrings_read() > read, "the keyring is read")

    def keyrings_read(self):
        return 0 if self.coordinator is None else self.coordinator.log.read_text().count("the keyring has changed")

    def connection(self, endpoint=None, server_key=None):
        return ["--connect", endpoint or self.endpoint, "--encrypt", "on", "--server-key", server_key or self.server_key]

    def start_drafter(self, person, **where):
        drafter = self.start(person, "outrider-drafter", "-m", DRAFT, *self.connection(**where))
        drafter.says("welcomed")
        return drafter

    def generate(self, person, *words, code=0, **where):
        """Return the output of `generate --json`, or its standard error if it fails."""
        out, error = person.call("outrider", "generate", "--json", *WORDS, *words, *self.connection(**where), code=code)
        return json.loads(out) if code == 0 else error

    def begin(self, person, *words):
        """Begin a generate that goes on, once it has begun to write."""
        process = subprocess.Popen([BIN / "outrider", "generate", *map(str, (*WORDS, *words, *self.connection()))], stdin=subprocess.DEVNULL, bufsize=0,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**ENVIRONMENT, "OUTRIDER_KEYS": str(person.folder)})
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, process.stdout.read(1)

    def status(self):
        """Return the status as an operator on the coordinator's machine sees it; owners see less."""
        address = re.search(r"http on (\S+)", self.coordinator.log.read_text())[1]
        with urllib.request.urlopen(f"{address}/status", timeout=20) as answer:
            return json.load(answer)["figures"]

    def attack(self, do):
        """Return the lines an attack leaves in the coordinator's log, and what it adds to the refusals. The service goes on."""
        refused, size = self.status()["refused"], self.coordinator.log.stat().st_size
        do()
        self.assertEqual(self.generate(self.ada, "-n", 4)["completion_tokens"], 4)
        lines = self.coordinator.log.read_text()[size:].splitlines()
        return [line for line in lines if " warn " in line or " error " in line], self.status()["refused"] - refused


class Strangers(Service):
    def test_plain_peers(self):
        def knock():
            for _ in range(ATTEMPTS):
                with socket.create_connection(("127.0.0.1", int(self.endpoint.rsplit(":", 1)[1])), timeout=10) as line:
                    line.sendall(PLAIN_GREETING)
                    answer = b""
                    while part := line.recv(65536):
                        answer += part
                    self.assertLess(len(answer), 200)  # the greeting
        lines, refused = self.attack(knock)
        self.assertLessEqual(len(lines), LINES_MAX, lines)
        self.assertGreaterEqual(refused, ATTEMPTS)

    def test_nonsense_on_the_line(self):
        def babble():
            for number in range(ATTEMPTS):
                with socket.create_connection(("127.0.0.1", int(self.endpoint.rsplit(":", 1)[1]))) as line:
                    line.sendall(os.urandom(number * 7))
        lines, _ = self.attack(babble)
        self.assertLessEqual(len(lines), LINES_MAX, lines)

    @of_rest
    def test_a_key_nobody_authorised(self):
        def try_it():
            for _ in range(ATTEMPTS // 10):
                self.eve.call("outrider", "status", *self.connection(), code=3)
        lines, refused = self.attack(try_it)
        self.assertIn("outrider keys authorize", self.eve.call("outrider", "status", *self.connection(), code=3)[1])
        self.assertTrue(1 <= len(lines) <= LINES_MAX, lines)
        self.assertGreaterEqual(refused, ATTEMPTS // 10)

    def test_another_servers_key(self):
        """A server with another key than the one we expect is told nothing."""
        error = self.generate(self.ada, "-n", 4, code=1, server_key=self.eve.key)
        self.assertIn("key", error)

    def test_without_encryption(self):
        error = self.ada.call("outrider", "status", "--connect", self.endpoint, "--encrypt", "off", code=3)[1]
        self.assertIn("encrypt", error)


class Thefts(Service):
    def test_a_stolen_token_with_another_key(self):
        out, _ = call(THIEF, self.endpoint, self.server_key, self.ada.folder / "identity.key", self.bob.folder / "identity.key")
        result = json.loads(out)
        self.assertEqual((result["stolen_tokens"], result["stolen_bytes"]), (0, 0), result)
        self.assertGreaterEqual(result["refusals"], 1)
        self.assertEqual(result["owner_tokens"], 400)  # neither cancelled nor disturbed
        lines = [line for line in self.coordinator.log.read_text().splitlines() if " warn " in line]
        self.assertLessEqual(len(lines), LINES_MAX, lines)

    def test_a_replayed_conversation(self):
        recorder = Recorder(self.endpoint)
        self.generate(self.ada, "-n", 16, endpoint=recorder.endpoint)
        recorder.close()
        started = self.status()["started"]

        def replay():
            for _ in range(3):
                with socket.create_connection(("127.0.0.1", int(self.endpoint.rsplit(":", 1)[1])), timeout=1) as line:
                    answer = b""
                    try:
                        line.sendall(recorder.said)
                        while part := line.recv(65536):
                            answer += part
                    except (TimeoutError, ConnectionError):
                        pass
                    self.assertLess(len(answer), 1000)  # the greeting, and no text
        lines, _ = self.attack(replay)
        self.assertLessEqual(len(lines), LINES_MAX, lines)
        self.assertEqual(self.status()["started"], started + 1)  # the one that says the service goes on

    def test_a_changed_conversation(self):
        """Each byte that is changed on the way ends the connection; the text comes right all the same, over a new one."""
        class Forger(Recorder):
            flips = 3

            @classmethod
            def carry(cls, one, other, kept):
                try:
                    while part := one.recv(65536):
                        kept.extend(part)
                        if cls.flips > 0 and len(kept) > 2000:
                            cls.flips -= 1
                            part = part[:-1] + bytes([part[-1] ^ 1])
                        other.sendall(part)
                except OSError:
                    pass
                for end in (one, other):
                    try:
                        end.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        pass
        plain = self.generate(self.ada, "-n", 64)
        forger = Forger(self.endpoint)
        forged = self.generate(self.ada, "-n", 64, endpoint=forger.endpoint)
        forger.close()
        self.assertLess(Forger.flips, 3)
        self.assertEqual(forged["tokens"], plain["tokens"])


class Owners(Service):
    def test_another_owners_drafter(self):
        self.authorize(self.bob, "--roles", "drafter")
        self.start_drafter(self.bob)
        text = self.generate(self.ada, "-n", 32)
        self.assertEqual((text["drafted"], text["completion_tokens"]), (0, 32))
        self.authorize(self.bob, "--roles", "drafter", "--owner", "ada")
        self.start_drafter(self.bob)  # the one before was turned away: its owner is another now
        wait_until(lambda: self.generate(self.ada, "-n", 32)["drafted"] > 0, "a drafter at work")

    def test_another_owners_name(self):
        self.assertIn("ada", self.generate(self.ada, "-n", 4, "--owner", "bob", code=1))

    def test_sessions_at_a_time(self):
        self.authorize(self.ada, "--sessions", 1)
        self.begin(self.ada, "-n", 480, "--ignore-eos", "--plain")
        self.assertIn("your key allows 1", self.generate(self.ada, "-n", 4, "--busy-wait", 0, code=75))
        self.assertEqual(self.generate(self.bob, "-n", 4)["completion_tokens"], 4)

    @of_rest
    def test_tokens_per_minute(self):
        """A text longer than the limit is slow, and right."""
        whole = self.generate(self.bob, "-n", 50)
        self.authorize(self.ada, "--tokens-per-minute", 40)
        begun = time.monotonic()
        limited = self.generate(self.ada, "-n", 44)
        self.assertGreater(time.monotonic() - begun, 3)  # four more than a minute's worth, one in 1.5 s
        self.assertEqual(limited["tokens"], whole["tokens"][:44])


class Revocation(Service):
    verifier = ["--step-delay-ms", 20]  # so that there is a middle of the text

    def revoke(self, person):
        self.operator.call("outrider", "keys", "revoke", person.name)

    def journal(self):
        found = b""
        for file in Path(self.scratch.name, "journal").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it was deleted meanwhile
                found += file.read_bytes()
        return found

    def test_a_client_in_mid_text(self):
        process, _ = self.begin(self.ada, "-n", 490, "--ignore-eos", "--plain")
        self.assertIn(PROMPT.encode(), self.journal())
        self.revoke(self.ada)
        _, error = process.communicate(timeout=20)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn(b"revoked", error)
        self.ada.call("outrider", "status", *self.connection(), code=3)
        wait_until(lambda: PROMPT.encode() not in self.journal(), "the text gone from the journal")
        self.assertEqual(self.generate(self.bob, "-n", 4)["completion_tokens"], 4)

    @of_rest
    def test_a_drafter_in_mid_text(self):
        self.authorize(self.bob, "--roles", "drafter", "--owner", "ada")
        drafter = self.start_drafter(self.bob)
        whole = self.generate(self.ada, "-n", 300, "--ignore-eos", "--plain")
        process, first = self.begin(self.ada, "-n", 300, "--ignore-eos")
        self.revoke(self.bob)
        out, error = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 0, error)
        self.assertEqual((first + out).decode().rstrip("\n"), whole["text"].rstrip("\n"))
        self.assertEqual(drafter.process.wait(timeout=20), 3)
        self.assertEqual(self.generate(self.ada, "-n", 8)["drafted"], 0)


class Crowd(Service):
    """Strangers who take every connection that there is: nobody else gets in meanwhile, but who is revoked goes."""

    def setUp(self):
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))  # as most shells have it
        try:
            super().setUp()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)

    def test_what_the_system_allows_is_used(self):
        soft, hard = resource.prlimit(self.coordinator.process.pid, resource.RLIMIT_NOFILE)
        self.assertEqual(soft, hard)

    def test_a_revocation_is_read_all_the_same(self):
        pid = self.coordinator.process.pid
        limit = max(int(name) for name in os.listdir(f"/proc/{pid}/fd")) + 64
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, limit))
        host, port = self.endpoint.removeprefix("tcp://").rsplit(":", 1)
        crowd = [socket.create_connection((host, int(port))) for _ in range(100)]
        self.coordinator.says("no more can be: a new one is refused")
        self.operator.call("outrider", "keys", "revoke", self.ada.name)
        self.coordinator.says("the keyring has changed: 2 keys")
        self.assertTrue(is_open(crowd[0]))  # the first of them, which never says who it is, has not been given up yet
        for connection in crowd:
            connection.close()
        self.ada.call("outrider", "status", *self.connection(), code=3)
        self.assertEqual(self.generate(self.bob, "-n", 4)["completion_tokens"], 4)


@of_rest
class OverIPv6(Service):
    """The endpoint is every address of this machine. A loopback one is encrypted there as well, since others connect to the same."""

    listen = []  # auto
    host = "[::]"

    def setUp(self):
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError:
            self.skipTest("this machine has no IPv6")
        super().setUp()

    def connection(self, endpoint=None, server_key=None):
        return super().connection(endpoint or self.endpoint.replace("[::]", "127.0.0.1"), server_key)

    def test_both_kinds_of_address(self):
        six = self.endpoint.replace("[::]", "[::1]")
        drafter = self.start_drafter(self.bob, endpoint=six)
        self.ada.call("outrider", "keys", "trust", six, self.server_key)
        text, _ = self.ada.call("outrider", "generate", "--json", *WORDS, "-n", 8, "--connect", six, "--encrypt", "on")
        self.assertEqual(json.loads(text)["tokens"], self.generate(self.ada, "-n", 8)["tokens"])
        self.assertIn("encrypts, and we do not", self.ada.call("outrider", "status", "--connect", six, code=3)[1])
        drafter.end()


class Secrets(Service):
    def conversation(self, **where):
        """Return all that passes between the coordinator and a client and a drafter of ada's while a text is written, and the text."""
        self.authorize(self.bob, "--roles", "drafter", "--owner", "ada")
        recorders = [Recorder(self.endpoint) for _ in range(2)]
        drafter = self.start_drafter(self.bob, endpoint=recorders[0].endpoint, **where)
        texts = []
        wait_until(lambda: texts.append(self.generate(self.ada, "-n", 48, endpoint=recorders[1].endpoint, **where)) or texts[-1]["drafted"] > 0, "a drafter at work")
        text = texts[-1]
        drafter.end()
        for recorder in recorders:
            recorder.close()
        return b"".join(bytes(part) for recorder in recorders for part in (recorder.said, recorder.heard)), text

    def clear_parts(self, capture, text):
        """Return the parts of prompt and text that can be read in it."""
        found = [word for word in (PROMPT, *text["text"].split()) if len(word) > 4 and word.encode() in capture]
        tokens = text["tokens"]
        found += [tokens[at:at + 4] for at in range(len(tokens) - 3) if varints(tokens[at:at + 4]) in capture]
        return found

    def test_a_capture_has_nothing_in_clear(self):
        capture, text = self.conversation()
        self.assertGreater(len(capture), 5000)
        self.assertEqual(self.clear_parts(capture, text), [])

    def stream_place(self):
        """Return the id of an event, which holds the stream's token; it is read while the text is written over HTTP."""
        web = re.search(r"http on (\S+)", self.coordinator.log.read_text()).group(1)
        body = json.dumps({"prompt": PROMPT, "max_tokens": 8, "stream": True}).encode()
        request = urllib.request.Request(f"{web}/v1/completions", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            places = [line[4:].decode().strip() for line in answer.read().splitlines() if line.startswith(b"id: ")]
        with urllib.request.urlopen(f"{web}/metrics", timeout=30) as answer:
            return places[0], answer.read().decode()

    def test_no_secret_is_anywhere(self):
        _, text = self.conversation()
        place, metrics = self.stream_place()
        people = (self.operator, self.ada, self.bob, self.target)
        secrets = [secret for person in people for secret in person.secrets()]
        self.assertEqual(len(secrets), len(people) + 1)
        shown = [metrics, json.dumps(self.status()), self.ada.call("outrider", "status", *self.connection())[0]]
        for process in self.processes:
            shown.append(process.log.read_text())
            if process.process.poll() is None:
                shown += [Path(f"/proc/{process.process.pid}/{name}").read_bytes().decode(errors="replace") for name in ("cmdline", "environ", "comm")]
        self.assertGreater(len(shown), 8)
        secrets += [PROMPT, text["text"].strip()[:24], *(place[at:at + 24] for at in range(0, len(place) - 24, 8))]
        for shown_there in shown:
            for secret in secrets:
                self.assertNotIn(secret, shown_there)
        self.assertNotIn(PROMPT, json.dumps(self.generate(self.ada, "-n", 4)))
        for path in Path(self.scratch.name).rglob("*"):
            if path.is_file():
                self.assertEqual(path.stat().st_mode & 0o077 if path.suffix == ".key" else 0, 0, path)


@of_rest
class LoudSecrets(Secrets):
    """The same holds if everything is logged that can be."""

    listen = ["--encrypt", "on", "--log-level", "debug"]

    def test_a_capture_has_nothing_in_clear(self):
        pass  # the log is no part of it


class PlainControl(Secrets):
    """The same capture without encryption has everything, so the search finds what there is to find."""

    listen = ["--encrypt", "off"]

    def connection(self, endpoint=None, server_key=None):
        return ["--connect", endpoint or self.endpoint, "--encrypt", "off"]

    def authorize(self, person, *words):
        pass  # there are no keys; on loopback all may read all

    def test_a_capture_has_nothing_in_clear(self):
        capture, text = self.conversation()
        found = self.clear_parts(capture, text)
        self.assertIn(PROMPT, found)
        self.assertTrue([part for part in found if isinstance(part, list)])

    def test_no_secret_is_anywhere(self):
        pass


class Up(unittest.TestCase):
    """An `outrider up` on an address of a network is paired with another machine's folder by the commands that it prints."""

    def address(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))  # nothing is sent
            except OSError:
                self.skipTest("this machine has no network")
            return probe.getsockname()[0]

    def test_pairing(self):
        address = self.address()
        with socket.socket() as unused:
            unused.bind((address, 0))
            endpoint = f"tcp://{address}:{unused.getsockname()[1]}"
        with tempfile.TemporaryDirectory() as scratch:
            here, there = Person(scratch, "here"), Person(scratch, "there")
            with Cluster("--listen", endpoint, "--keys", here.folder, "--log-level", "error") as cluster:
                self.assertIn("127.0.0.1", cluster.endpoint)
                printed = b""
                while b"outrider generate --connect tcp://HOST" not in printed:
                    printed += cluster.process.stdout.readline()
                self.assertIn(here.public("coordinator").encode(), printed)
                words = ("generate", "--json", *WORDS, "-n", 8, "--connect", endpoint)
                self.assertIn("outrider keys trust", there.call("outrider", *words, code=1)[1])
                there.call("outrider", "keys", "trust", endpoint, here.public("coordinator"))
                here.call("outrider", "keys", "authorize", there.key, "--name", "there")
                wait_until(lambda: there.call("outrider", "status", "--connect", endpoint, code=None)[0], "a key that holds")
                self.assertEqual(json.loads(there.call("outrider", *words)[0])["completion_tokens"], 8)
                wait_until(lambda: json.loads(there.call("outrider", *words)[0])["drafted"] > 0, "the cluster's own drafter, which serves all")
                self.assertEqual(here.call("outrider", "status", "--ready", "--connect", cluster.endpoint)[0], "")


if __name__ == "__main__":
    unittest.main()
