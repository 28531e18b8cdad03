"""Helpers of the tests of the command: running it, its processes, the reference, and a bare ZeroMQ peer."""
import json
import os
import re
import signal
import socket
import struct
import subprocess
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("OUTRIDER_BIN", ROOT / "build/release/bin"))
MODELS = ROOT / "launch/models"
TARGET = MODELS / "tales-6m-f16.gguf"
DRAFT = MODELS / "tales-1m-f16.gguf"
OTHER_VOCABULARY = MODELS / "tales-bpe-1m-f16.gguf"
GAP_MIN = 0.01  # where the reference's two best logits are closer, another rounding may choose the other
PATIENCE = 60  # seconds, for what takes one or two

ENVIRONMENT = {**{key: value for key, value in os.environ.items() if not key.startswith("OUTRIDER_")},
               "OUTRIDER_MODELS": str(MODELS)}


def of_rest(test):
    """Mark a test, or a class of tests, that takes long and whose layer the gate sees without it: CTest's NAME_whole runs it (run_unittest.py)."""
    test.of_rest = True
    return test


def share(cases, parts):
    """Return one in so many of the cases, which the gate takes. OR_TEST_WHOLE takes all."""
    cases = list(cases)
    return cases if "OR_TEST_WHOLE" in os.environ else cases[::parts]


def call(program, *words, stdin=b"", stdout=subprocess.PIPE, code=0, **variables):
    """Run a program of ours; its standard output as bytes, its standard error as text. Fails on another exit code; None: any will do."""
    done = subprocess.run([BIN / program, *map(str, words)], input=stdin, stdout=stdout, stderr=subprocess.PIPE,
                          env={**ENVIRONMENT, **variables}, timeout=PATIENCE)
    error = done.stderr.decode(errors="replace")
    if code is not None and done.returncode != code:
        raise AssertionError(f"{program} {' '.join(map(str, words))}: exit {done.returncode}, not {code}\n{error}")
    return done.stdout, error


def outrider(*words, **settings):
    return call("outrider", *words, **settings)


def generate(*words):
    """Return the parsed output of `generate --json`. Standard output must be exactly one line."""
    out, _ = outrider("generate", "--json", *words)
    lines = out.decode().splitlines()
    assert len(lines) == 1 and out.endswith(b"\n"), out
    return json.loads(lines[0])


def data(name):
    """Return the path of a file of the test data. Without it the test is skipped, or fails with CI=true."""
    path = Path(os.environ.get("OUTRIDER_TEST_DATA") or ROOT.parent / "shared/data") / name
    if not path.exists():
        if os.environ.get("CI") == "true":
            raise AssertionError(f"test data {path} is missing; set OUTRIDER_TEST_DATA")
        raise unittest.SkipTest(f"test data {path} is missing; set OUTRIDER_TEST_DATA")
    return path


REFERENCE = ROOT / "tests/oracles/data/reference.json"  # its file must be there: it is of the repository


def reference(model="tales-6m-f16"):
    """Return the prompts of the reference with their greedy ids, cut where the choice is too close to call."""
    prompts = json.loads(REFERENCE.read_text())["models"][model]["prompts"]
    for prompt in prompts:
        close = [step for step, gap in enumerate(prompt["gaps"]) if gap < GAP_MIN]
        prompt["sure"] = prompt["greedy"][:close[0]] if close else prompt["greedy"]
    return prompts


def started_by(pid):
    """Return the process ids of the children."""
    try:
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except (FileNotFoundError, ProcessLookupError):
        return []  # it ended while we looked


def children(pid):
    """Return child processes by name: {'outrider-drafter': 1234}."""
    found = {}
    for child in started_by(pid):
        try:
            command = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")[0].decode()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found[Path(command).name] = child
    return found


def wait_until(condition, what, patience=PATIENCE):
    """Poll; the condition's value once it is true."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"not within {patience} s: {what}")


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def resident_mib(pid):
    """Return the memory of its own, files mapped left out."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"process {pid} has no RssAnon")


def cpu_s(pid):
    """Return the seconds of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stop(pid):
    """Stop a process, and return once it stands still: until then it may go on for a moment."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T", "its stop")


def descendants(pid):
    """Return the processes that this one has started, and those that they have."""
    direct = started_by(pid)
    return direct + [other for child in direct for other in descendants(child)]


def kill(process):
    """Kill a command. Its children end with it, also those that a failed test has left stopped, so that what they write has an end."""
    started = descendants(process.pid)
    process.kill()
    process.wait()
    for pid in started:
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass


class Background:
    """A command that goes on while a test looks at it. It is killed at the end of the `with` block if it still runs."""

    def __init__(self, *words, program="outrider", error=subprocess.PIPE, **variables):
        self.process = subprocess.Popen([BIN / program, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=error, env={**ENVIRONMENT, **variables}, bufsize=0)  # nothing read ahead: end() would miss it

    def __enter__(self):
        return self

    def __exit__(self, *_):
        kill(self.process)
        self.process.communicate()

    def roles(self, *names):
        """Return the process ids of these children, once all run."""
        def found():
            now = children(self.process.pid)
            return now if all(name in now for name in names) else None
        return wait_until(found, f"children {names} of outrider")

    def hears(self, word):
        """Read standard error up to the line with this word; that line, or "" if it ended without."""
        for line in self.process.stderr:
            if word.encode() in line:
                return line.decode(errors="replace")
        return ""

    def end(self, patience=PATIENCE):
        """Wait for its end: exit code, standard output, standard error."""
        out, error = self.process.communicate(timeout=patience)
        return self.process.returncode, out, error.decode(errors="replace")


class Cluster(Background):
    """`outrider up` on a free port."""

    def __init__(self, *words, **variables):
        super().__init__("up", "--listen", "tcp://127.0.0.1:*", *words, **variables)
        self.endpoint = None
        for line in self.process.stdout:
            if line.startswith(b"  endpoint"):
                self.endpoint = line.split()[1].decode()
                break
        if self.endpoint is None:
            raise AssertionError("outrider up: " + self.end()[2])


class Coordinator(Background):
    """`outrider-coordinator` alone, on a free port."""

    def __init__(self, *words, listen="tcp://127.0.0.1:*", **variables):
        super().__init__("-m", TARGET, "--listen", listen, *words, program="outrider-coordinator", **variables)
        self.endpoint = re.search(r"listening on (\S+)", self.hears("listening on")).group(1)


class ZmtpDealer:
    """A ZeroMQ DEALER in few lines (ZMTP 3.0, no security), to send what our own programs never would."""

    def __init__(self, endpoint):
        host, port = endpoint.removeprefix("tcp://").rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=10)
        self.socket.sendall(b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
        self.read(64)
        properties = b"\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER" + b"\x08Identity" + struct.pack(">I", 0)
        self.send(b"\x05READY" + properties, flags=4)
        self.receive(commands=True)

    def read(self, count):
        got = b""
        while len(got) < count:
            part = self.socket.recv(count - len(got))
            if not part:
                raise ConnectionError("closed")
            got += part
        return got

    def send(self, body, flags=0):
        size = struct.pack(">B", len(body)) if len(body) < 256 else struct.pack(">Q", len(body))
        self.socket.sendall(bytes([flags | (0 if len(body) < 256 else 2)]) + size + body)

    def receive(self, commands=False):
        """Return the next frame. Commands (heartbeats of ZeroMQ itself) are passed over unless wanted."""
        while True:
            flags = self.read(1)[0]
            size = struct.unpack(">Q", self.read(8))[0] if flags & 2 else self.read(1)[0]
            body = self.read(size)
            if commands or not flags & 4:
                return body

    def close(self):
        self.socket.close()
