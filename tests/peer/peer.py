"""Helpers of the comparisons: running commands one at a time, clusters and servers meanwhile, medians, markdown."""
import json
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PATIENCE = 1800  # seconds for one command
READY_S = 60  # seconds for a cluster to begin


def run(words, **settings):
    """Standard output of a command; its standard error in a sentence if it fails."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=PATIENCE, **settings)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def run_json(words, **settings):
    return json.loads(run(words, **settings))


def run_peer(words):
    """Run a command in a folder of its own: the peer leaves logs where it runs."""
    with tempfile.TemporaryDirectory() as folder:
        return run_json(words, cwd=folder)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def end(process, number):
    process.send_signal(number)
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Cluster:
    """`outrider up` on a free port of loopback, with its defaults, and a further drafter for each draft model of `beside`."""

    def __init__(self, outrider, target, draft, beside=()):
        self.outrider, self.drafters = outrider, 1 + len(beside)
        self.endpoint = f"tcp://127.0.0.1:{free_port()}"
        drafter = outrider.with_name("outrider-drafter")
        self.commands = [(outrider, "up", "-m", target, "-md", draft, "--listen", self.endpoint, "--http", "none"),
                         *((drafter, "-m", model, "--connect", self.endpoint) for model in beside)]
        self.processes = []

    def __enter__(self):
        self.log = tempfile.TemporaryFile()
        try:
            for words in self.commands:
                self.processes.append(subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log))
            self.wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            end(process, signal.SIGINT)
        self.log.close()

    def wait_until_ready(self):
        last = time.monotonic() + READY_S
        while not self.is_ready():
            if time.monotonic() > last or any(process.poll() is not None for process in self.processes):
                self.log.seek(0)
                raise SystemExit("the cluster does not begin:\n" + self.log.read()[-2000:].decode(errors="replace"))
            time.sleep(0.1)

    def is_ready(self):
        words = [str(self.outrider), "status", "--connect", self.endpoint, "--json"]
        found = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
        return found.returncode == 0 and json.loads(found.stdout)["drafters"] == self.drafters


def absolute(text):
    """A path on the command line, also for a program that runs elsewhere."""
    return Path(text).resolve()


def say(text):
    print(text, file=sys.stderr, flush=True)


def median(values):
    return statistics.median(values) if values else float("nan")


def processor():
    """The name of this machine's processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown processor")


def print_table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")
    print(flush=True)
