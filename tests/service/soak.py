"""Goal: whatever attackers with keys send, all at once, no process ends, every honest text is right, memory and journal stay bounded, and memory comes
back afterwards.
Method: a coordinator (HTTP with keys, ZeroMQ with and without encryption, a journal), a verifier and a drafter; 16 honest sessions of two owners, each
text compared with its plain one and resumed where it is cut; four hostile keys with 16 connections each (attacks.py), niced. Nobody reads the
coordinator's log meanwhile.

    soak.py                      half a minute
    soak.py --minutes 30         and then a control: busy loops, niced alike, take the CPU time that the attackers took, and the hostile keys write
                                 as many texts at a time as they had at work, in peace; honest p99 at most twice that
    soak.py --multipart          messages of many parts that never end, and nothing else
    soak.py --without stalled-log,many-texts        --only hang-up,slow-body

It prints a line a minute, a table, and what went wrong; exit code 1 if anything did. --seed replays whose connection makes which attack first."""
import argparse
import asyncio
import contextlib
import ctypes
import fcntl
import json
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import attacks
import wire
from service import EndlessLoad, cpu_s
from cli import BIN, DRAFT, ENVIRONMENT, TARGET, call, wait_until

MIB = 1 << 20
RESIDENT_MAX_MIB, JOURNAL_MAX_MIB = 256, 64
BACK = 1.1  # of the memory before
SHORT_BACK_MIB = 8  # more than before
HOSTILE_KEYS, CONNECTIONS, NICE = 4, 16, 10
OWNERS = ("ada", "bob")
HONEST, ON_WEB = 16, 12  # honest sessions, and how many of them come by HTTP; the others come by ZeroMQ
PROMPTS = ("Once upon a time", "It was a dark night", "The king said", "There lived a poor")
SHORT_S, WARM_S, COUNT_S, SETTLE_S = 12, 6, 1, 90  # the last one only where it is needed: texts of the attack end, and are kept for 10 s more
BURNER = """import os, sys, time
share, parent, began = float(sys.argv[1]), os.getppid(), time.monotonic()
while os.getppid() == parent:
    if time.process_time() < share * (time.monotonic() - began):
        sum(range(20000))
    else:
        time.sleep(0.005)
"""


def dies_with_us():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def niced():
    dies_with_us()
    os.nice(NICE)


def resident_mib(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0  # it has ended


def bytes_under(path):
    """Return the bytes of a journal: a file, those beside it that begin with its name, and folders."""
    found = 0
    for place in path.parent.glob(path.name + "*"):
        for part in [place, *place.rglob("*")]:
            with contextlib.suppress(OSError):
                found += part.stat().st_blocks * 512 if part.is_file() else 0
    return found


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


class Log:
    """The standard error of a process. It is kept, and not read while it is stalled."""

    def __init__(self, pipe):
        self.pipe, self.lines, self.reading = pipe, [], threading.Event()
        fcntl.fcntl(pipe, 1031, 4096)  # F_SETPIPE_SZ: soon full
        self.reading.set()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        while self.reading.wait() and (part := os.read(self.pipe.fileno(), 4096)):
            self.lines.append(part)
            del self.lines[:-256]

    def tail(self):
        self.reading.set()
        self.thread.join(2)
        return b"".join(self.lines).decode(errors="replace")[-4000:]


class Service:
    """The real programs in a folder of their own."""

    def __init__(self, stack, *words):
        self.stack = stack
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.journal = self.folder / "journal"
        self.environment = {**ENVIRONMENT, "OUTRIDER_KEYS": str(self.folder / "keys"), "XDG_STATE_HOME": str(self.folder)}
        self.processes = {}
        self.names = [*OWNERS, *(f"mallory{i}" for i in range(HOSTILE_KEYS))]
        keys = self.folder / "api-keys"
        keys.touch(0o600)
        keys.write_text("".join(f"sk-soak-{name} {name}\n" for name in self.names) + "sk-soak-operator\n")
        self.curve = self.make_keys()
        listen = ["--listen", "tcp://127.0.0.1:*"]
        if self.curve is not None:
            listen += ["--listen", self.curve["endpoint"]]
        ready, told = os.pipe()
        self.start("coordinator", "-m", TARGET, *listen, "--journal", self.journal, "--http", "127.0.0.1:0", "--api-key-file", keys, "--ready-fd", told,
                   "--resume-window", 10, *words, pass_fds=(told,))
        os.close(told)
        with open(ready) as lines:
            said = lines.read().splitlines()
        if len(said) < 2:
            raise AssertionError("no coordinator: " + self.logs["coordinator"].tail())
        self.endpoint, web = said[0], said[1].split()[1]
        self.zmtp = self.address(self.endpoint)
        self.http = self.address(web)
        self.start("verifier", "-m", TARGET, "--connect", self.endpoint)
        self.start("drafter", "-m", DRAFT, "--connect", self.endpoint)
        wait_until(lambda: self.ready(), "verifier and drafter")

    logs = {}

    @staticmethod
    def address(endpoint):
        host, port = endpoint.split("//")[-1].rstrip("/").rsplit(":", 1)
        return host, int(port)

    def start(self, name, *words, pass_fds=()):
        process = subprocess.Popen([BIN / f"outrider-{name}", *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, env=self.environment, bufsize=0, pass_fds=pass_fds, preexec_fn=dies_with_us)
        self.stack.callback(self.end, process)
        self.processes[name] = process
        self.logs[name] = Log(process.stderr)

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.wait()

    def make_keys(self):
        """Make a hostile client's key and an encrypted endpoint, where this machine has an address besides loopback."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))  # nothing is sent
            except OSError:
                return None
            host = probe.getsockname()[0]
        with socket.create_server((host, 0)) as unused:
            port = unused.getsockname()[1]

        def keys(*words, folder="keys"):
            return call("outrider", "keys", *words, OUTRIDER_KEYS=str(self.folder / folder))[0]
        keys("new", "--coordinator")
        keys("new", folder="hostile")
        own = json.loads(keys("list", "--json", folder="hostile"))["identity"]
        keys("authorize", own, "--name", "mallory", "--owner", "mallory0")
        secret = [line.split()[1] for line in (self.folder / "hostile/identity.key").read_text().splitlines() if line.startswith("secret ")][0]
        return {"endpoint": f"tcp://{host}:{port}", "address": (host, port), "public": own, "secret": secret,
                "server": json.loads(keys("list", "--json"))["coordinator"]}

    def ask(self, path, body=None, owner=OWNERS[0]):
        request = urllib.request.Request(f"http://{self.http[0]}:{self.http[1]}{path}", json.dumps(body).encode() if body else None,
                                         {"Authorization": f"Bearer sk-soak-{owner}", "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def ready(self):
        try:
            return self.ask("/status")["drafters"]
        except OSError:
            return False

    def welcome(self):
        """Return the hash of the vocabulary that a drafter must name."""
        dealer = wire.Raw(self.zmtp)
        with contextlib.closing(dealer.socket):
            dealer.send(wire.hello())
            for frame in dealer.frames():
                said = wire.parse(frame)
                if 4 in said:
                    return int.from_bytes(wire.parse(said[4]).get(4, b""), "little")
        raise AssertionError("no Welcome")

    def metrics(self):
        """Return the metrics by name with labels."""
        host, port = self.http
        request = urllib.request.Request(f"http://{host}:{port}/metrics", headers={"Authorization": "Bearer sk-soak-operator"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines}

    def total(self, name, but="none"):
        return sum(value for label, value in self.metrics().items() if label.startswith(f"outrider:{name}{{") and but not in label)

    def unaccounted(self):
        """Return the resident MiB less what the ledger says is kept for texts, which goes with how fast honest texts end at the moment."""
        return self.figures()[0] - self.total("held_bytes", but='kind="journal"') / MIB

    def live(self):
        """Return how many texts are being written, whoever's."""
        return self.total("sessions")

    def figures(self):
        pid = self.processes["coordinator"].pid
        return (resident_mib(pid) if self.processes["coordinator"].poll() is None else 0.0), bytes_under(self.journal) / MIB


def body_of(text):
    greedy = text % 2 == 0
    return {"prompt": PROMPTS[text % len(PROMPTS)], "max_tokens": 100, "temperature": 0 if greedy else 1, "seed": 17 + text, "ignore_eos": True}


class Honest:
    """Clients that stream texts of these owners by HTTP, one after the other, until they are told to end. They note what went wrong, and how long
    tokens took. They have a process of their own: what this one does besides, looking through the journal for one, would count as the service's time."""

    def __init__(self, service, plain, owners, sessions):
        self.service, self.plain, self.owners, self.sessions = service, plain, owners, sessions
        self.troubles, self.gaps = [], []
        self.texts = self.resumed = self.busy = 0
        self.stop = False
        self.told, telling = multiprocessing.Pipe(duplex=False)
        self.process = multiprocessing.get_context("fork").Process(target=self.work, args=(telling,), daemon=True)
        self.process.start()
        telling.close()

    def work(self, telling):
        dies_with_us()
        signal.signal(signal.SIGTERM, self.leave)
        asyncio.run(self.run())
        telling.send((self.troubles, self.gaps, self.texts, self.resumed, self.busy))

    def leave(self, *_):
        self.stop = True

    async def run(self):
        await asyncio.gather(*(self.session(number) for number in range(self.sessions)))

    async def session(self, number):
        text = number
        while not self.stop:
            text = (text + 1) % len(self.plain)
            try:
                await self.write(self.owners[number % len(self.owners)], text, number % 4 < 2)
            except Exception as error:  # anything else is the service's fault, too
                self.troubles.append(f"text {text}: {error!r}")
                await asyncio.sleep(0.5)

    async def write(self, owner, text, plain):
        """Half of the texts are written without guesses, and only those are timed: whether guessing pays is decided anew all the time, which
        changes the time between tokens manifold in peace, too."""
        said = {"text": "", "place": None, "at": None, "done": False, "plain": plain}
        tries = 0
        while not said["done"] and not self.stop:
            try:
                status = await asyncio.wait_for(self.read(owner, text, said), 60)
            except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
                status = 0
            if said["done"]:
                break
            if status in (429, 503):
                self.busy += 1
            elif status not in (0, 200):
                if not self.stop:
                    self.troubles.append(f"text {text}: status {status} after {len(said['text'])} characters")
                return
            else:
                self.resumed += 1
            tries += 1
            if tries > 600:
                raise AssertionError("tried six hundred times")
            await asyncio.sleep(0.2)
        if said["done"]:
            self.texts += 1
            if said["text"] != self.plain[text]:
                self.troubles.append(f"text {text} is wrong: {said['text']!r}, not {self.plain[text]!r}")

    async def read(self, owner, text, said):
        """One connection's part of a text; the answer's status."""
        reader, writer = await asyncio.open_connection(*self.service.http)
        try:
            body = json.dumps({**body_of(text), "stream": True, "draft": False if said["plain"] else {"policy": "fixed"}}).encode()
            place = f"Last-Event-ID: {said['place']}\r\n" if said["place"] else ""
            writer.write(f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk-soak-{owner}\r\n{place}"
                         f"Content-Type: application/json\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            head = await reader.readuntil(b"\r\n\r\n")
            status = int(head.split(b" ")[1])
            name = None
            while status == 200 and (line := await reader.readline()):
                if line.startswith(b"id: "):
                    name = line[4:].decode().strip()
                elif line.startswith(b"data: [DONE]"):
                    said["done"] = True
                    break
                elif line.startswith(b"data: "):
                    self.take(json.loads(line[6:]), said)
                elif line == b"\n" and name is not None:
                    said["place"], name = name, None
            return status
        finally:
            writer.close()

    def take(self, event, said):
        if "error" in event:
            raise AssertionError(event["error"])
        part = "".join(choice["text"] for choice in event["choices"])
        if part:
            now = time.monotonic()
            if said["at"] is not None and said["plain"]:
                self.gaps.append((now, now - said["at"]))
            said["at"] = now
            said["text"] += part

    def between(self, since, until):
        """Return p50 and p99 of the gaps between tokens, in milliseconds."""
        gaps = [gap * 1000 for at, gap in self.gaps if since <= at <= until]
        return quantile(gaps, 0.5), quantile(gaps, 0.99)

    def end(self):
        """Tell them to end, and take what they noted."""
        self.process.terminate()
        if self.told.poll(70):
            self.troubles, self.gaps, self.texts, self.resumed, self.busy = self.told.recv()
        else:
            self.troubles = ["honest clients do not end"]
        self.process.join(10)


class Least:
    """The least that a figure was so far. Honest texts make memory go up and down meanwhile."""

    def __init__(self, figure):
        self.figure, self.value = figure, float("inf")

    def read(self):
        self.value = min(self.value, self.figure())
        return self.value


class Progress:
    """A line a minute on standard error: what was written in it, what it took, and how much memory is held."""

    def __init__(self, service):
        self.service, self.minutes, self.at = service, 0, time.monotonic()
        self.before = self.read()

    def read(self):
        return [self.service.total("generation_tokens_total"), *(cpu_s(self.service.processes[name].pid) for name in ("coordinator", "verifier", "drafter"))]

    def tell(self):
        if time.monotonic() < self.at + 60:
            return
        now, self.at, self.minutes = self.read(), self.at + 60, self.minutes + 1
        tokens, *seconds = (after - before for before, after in zip(self.before, now))
        self.before = now
        print(f"minute {self.minutes}: {tokens:.0f} tokens; {', '.join(f'{each:.0f}' for each in seconds)} s of CPU for coordinator, verifier, drafter; "
              f"{self.service.live():.0f} texts at work, {self.service.unaccounted():.1f} MiB but for texts", file=sys.stderr, flush=True)


class Soak:
    def __init__(self, options):
        self.options = options
        self.troubles, self.peaks, self.live = [], [0.0, 0.0], []

    def kinds(self):
        table = attacks.MULTIPART if self.options.multipart else attacks.ATTACKS
        unknown = {*self.options.without, *self.options.only} - {*table, "stalled-log"}
        if unknown:
            raise SystemExit(f"soak.py: no such attack: {', '.join(sorted(unknown))}")
        return [name for name in self.options.only or table if name not in self.options.without and name != "stalled-log"]

    def begin_attack(self, service):
        vocabulary = service.welcome()
        foes = []
        for number in range(HOSTILE_KEYS):
            kinds = self.kinds()
            random.Random(self.options.seed + number).shuffle(kinds)
            how = {"zmtp": service.zmtp, "http": service.http, "key": f"sk-soak-mallory{number}", "owner": f"mallory{number}", "curve": service.curve,
                   "vocab_hash": vocabulary, "vocab_size": self.options.vocabulary, "kinds": kinds, "connections": CONNECTIONS, "seed": self.options.seed + number,
                   "parent": os.getpid()}
            foe = subprocess.Popen([sys.executable, "-B", attacks.__file__, json.dumps(how)], stdout=subprocess.PIPE, preexec_fn=niced)
            service.stack.callback(service.end, foe)
            foes.append(foe)
        return foes

    def watch(self, service, seconds, until=lambda: False, count=False):
        """Look at the processes for so long; false once one has ended. `count`: note now and then how many texts are written."""
        end, count_at, progress = time.monotonic() + seconds, time.monotonic(), Progress(service)
        while time.monotonic() < end and not until():
            progress.tell()
            self.peaks = [max(pair) for pair in zip(self.peaks, service.figures())]
            ended = [f"{name} ended with {process.poll()}" for name, process in service.processes.items() if process.poll() is not None]
            if ended:
                self.troubles += ended
                return False
            if count and time.monotonic() >= count_at:
                self.live.append(service.live())
                count_at = time.monotonic() + COUNT_S
            time.sleep(0.25)
        return True

    def mean_live(self):
        return sum(self.live) / max(1, len(self.live))

    def finish_attack(self, foes):
        made, cut, cpu = {}, {}, sum(cpu_s(foe.pid) for foe in foes)
        for foe in foes:
            foe.send_signal(signal.SIGTERM)
        for foe in foes:
            out, _ = foe.communicate(timeout=30)
            for table, name in ((made, "made"), (cut, "cut")):
                for kind, count in json.loads(out or b"{}").get(name, {}).items():
                    table[kind] = table.get(kind, 0) + count
        return made, cut, cpu

    def control(self, service, share, seconds, guests, plain):
        peaceful = Honest(service, plain, service.names[len(OWNERS):], guests) if guests > 0 else None
        loops = [subprocess.Popen([sys.executable, "-c", BURNER, str(share / HOSTILE_KEYS)], preexec_fn=niced) for _ in range(HOSTILE_KEYS)]
        for loop in loops:
            service.stack.callback(service.end, loop)
        self.watch(service, seconds)
        for loop in loops:
            service.end(loop)
        if peaceful is not None:
            peaceful.end()
            self.troubles += peaceful.troubles[:5]

    def check(self, condition, sentence):
        if not condition:
            self.troubles.append(sentence)

    def run(self):
        options = self.options
        length, warm, settle = (SHORT_S, WARM_S, SETTLE_S) if options.minutes == 0 else (options.minutes * 60, 45, 120)
        with contextlib.ExitStack() as stack:
            service = Service(stack)
            plain = [service.ask("/v1/completions", {**body_of(text), "draft": False})["choices"][0]["text"] for text in range(8)]
            load = stack.enter_context(EndlessLoad(service.endpoint, HONEST - ON_WEB, "--owner", OWNERS[1]))
            honest = Honest(service, plain, OWNERS, ON_WEB)
            alive = self.watch(service, warm)
            before, unaccounted = service.figures()[0], service.unaccounted()
            began = time.monotonic()
            foes = self.begin_attack(service)
            if "stalled-log" not in options.without and (not options.only or "stalled-log" in options.only):
                service.logs["coordinator"].reading.clear()
            alive = alive and self.watch(service, length, count=True)
            ended = time.monotonic()
            made, cut, cpu = self.finish_attack(foes)
            after, back = float("nan"), unaccounted + SHORT_BACK_MIB if options.minutes == 0 else max(BACK * unaccounted, unaccounted + 2)
            if alive:
                least = Least(service.unaccounted)
                alive = self.watch(service, settle, until=lambda: least.read() <= back)
                after = service.figures()[0]
                self.check(least.value <= back, f"memory did not come back: but for texts {unaccounted:.1f} MiB before, {least.value:.1f} MiB after")
            service.logs["coordinator"].reading.set()
            quiet, over = time.monotonic(), None
            if alive and options.minutes > 0:
                guests = max(0, round(self.mean_live()) - HONEST)
                self.control(service, cpu / (ended - began), min(180, max(60, length / 4)), guests, plain)
                over = time.monotonic()
            honest.end()
            under, control = honest.between(began, ended), (float("nan"), float("nan"))
            if over is not None:
                control = honest.between(quiet, over)
                self.check(under[1] <= 2 * control[1], f"honest p99 between tokens: {under[1]:.1f} ms under attack, {control[1]:.1f} ms beside busy loops")
            self.troubles += honest.troubles[:20]
            figures = None
            if alive:
                figures = load.finish()
                self.check(figures["wrong"] == 0 and figures["errors"] == 0, f"honest ZeroMQ sessions: {figures}")
            self.check(honest.texts >= ON_WEB, f"only {honest.texts} honest texts were written")
            self.check(self.peaks[0] < RESIDENT_MAX_MIB, f"the coordinator grew to {self.peaks[0]:.0f} MiB")
            self.check(self.peaks[1] < JOURNAL_MAX_MIB, f"the journal grew to {self.peaks[1]:.0f} MiB")
            if not alive:
                print(service.logs["coordinator"].tail(), file=sys.stderr)
        self.tell(ended - began, honest, figures, before, after, under, control, made, cut, cpu)
        return 1 if self.troubles else 0

    def tell(self, seconds, honest, figures, before, after, under, control, made, cut, cpu):
        rows = [("attacked for", f"{seconds:.0f} s, {HOSTILE_KEYS} keys with {CONNECTIONS} connections each, {cpu:.0f} s of CPU, seed {self.options.seed}"),
                ("honest texts by HTTP", f"{honest.texts}, {honest.resumed} times resumed, {honest.busy} times busy"),
                ("honest texts by ZeroMQ", f"{figures['texts']}, {figures['wrong']} wrong, {figures['errors']} errors" if figures else "-"),
                ("coordinator resident", f"{before:.1f} MiB before, {self.peaks[0]:.1f} at most, {after:.1f} after"),
                ("journal", f"{self.peaks[1]:.1f} MiB at most"),
                ("texts at a time", f"{self.mean_live():.1f} on average under attack, {HONEST} of them honest"),
                ("between honest tokens", f"p50 {under[0]:.1f} ms, p99 {under[1]:.1f} ms"),
                ("beside busy loops", f"p50 {control[0]:.1f} ms, p99 {control[1]:.1f} ms; p99 ratio {under[1] / control[1]:.2f}")]
        rows += [(f"  {name}", f"{count} times, {cut.get(name, 0)} cut or refused") for name, count in sorted(made.items())]
        for name, text in rows:
            print(f"{name:32} {text}")
        for trouble in self.troubles:
            print(f"WRONG: {trouble}")
        print("everything held" if not self.troubles else f"{len(self.troubles)} things went wrong", flush=True)


def names(text):
    return [name for name in text.split(",") if name]


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--multipart", action="store_true")
    parser.add_argument("--without", type=names, default=[])
    parser.add_argument("--only", type=names, default=[])
    parser.add_argument("--seed", type=int, default=int(os.environ.get("OR_TEST_SEED", 20260711)))
    parser.add_argument("--vocabulary", type=int, default=4096, help="tokens of the target's vocabulary")
    options = parser.parse_args(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return Soak(options).run()


if __name__ == "__main__":
    sys.exit(main())
