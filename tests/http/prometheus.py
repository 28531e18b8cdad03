"""A real Prometheus (Debian's) with our own configuration, for a test: in a folder of its own, on loopback, asked over its API."""
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.parse
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = ROOT / "launch/prometheus"
PATIENCE = 30


def need_programs():
    """Skip the test without them, or fail it with CI=true."""
    for program in ("prometheus", "promtool"):
        if shutil.which(program) is None:
            if os.environ.get("CI") == "true":
                raise AssertionError(f"{program} is missing: apt-get install prometheus")
            raise unittest.SkipTest(f"{program} is missing: apt-get install prometheus")


def promtool(*words, stdin=b""):
    """Return the exit code, and what it says on either output."""
    done = subprocess.run(["promtool", *map(str, words)], input=stdin, capture_output=True, timeout=PATIENCE)
    return done.returncode, (done.stdout + done.stderr).decode()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Prometheus:
    """A Prometheus that scrapes `target` (HOST:PORT) every second with launch/prometheus. It is killed at the end of the `with` block."""

    def __init__(self, target):
        self.folder = tempfile.TemporaryDirectory(prefix="outrider-prometheus-")
        self.url = f"http://127.0.0.1:{free_port()}"
        for file in CONFIGURATION.glob("*.yml"):
            text = file.read_text().replace("_interval: 5s", "_interval: 1s").replace("127.0.0.1:8080", target)
            Path(self.folder.name, file.name).write_text(text)
        self.log = open(Path(self.folder.name, "log"), "w+b")
        self.process = subprocess.Popen(
            ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=warn",
             "--web.listen-address=" + self.url.removeprefix("http://")],
            cwd=self.folder.name, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def __enter__(self):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            try:
                with urllib.request.urlopen(self.url + "/-/ready", timeout=PATIENCE):
                    return self
            except OSError:
                time.sleep(0.1)
        self.__exit__()
        raise AssertionError("prometheus does not start: " + self.said)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.log.seek(0)
        self.said = self.log.read().decode(errors="replace")
        self.log.close()
        self.folder.cleanup()

    def ask(self, path, **fields):
        """Return the data of an API call."""
        query = urllib.parse.urlencode(fields)
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=PATIENCE) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path} {fields}: {error.read().decode()}") from None

    def numbers(self, expression):
        """Return its present value: a number for each series; values that are no number are left out."""
        numbers = [float(sample["value"][1]) for sample in self.ask("query", query=expression)["result"]]
        return [number for number in numbers if number == number]

    def rules(self):
        return [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]
