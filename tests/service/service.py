"""Helpers of the tests of a running service: its processes and their memory, and clients that keep it busy."""
import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))

from cli import Background, cpu_s, outrider, resident_mib, wait_until  # noqa: E402, F401  (the path comes first)


LAUNCHERS = ("mpirun", "mpiexec", "orterun")  # of ranks; not ours


def processes(endpoint):
    """Return the processes started for this coordinator as (name, process id), the oldest first. Its port is in their command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it ended while we looked
        name = Path(words[0].decode(errors="replace")).name
        if endpoint.encode() in words and name in ("outrider-verifier", "outrider-drafter", *LAUNCHERS):
            found.append((name, int(entry.name)))
    return sorted(found, key=lambda process: process[1])


def members(cluster):
    """Return process ids and names of a cluster, once all run, without the launcher of ranks."""
    def found():
        roles = {pid: name for name, pid in processes(cluster.endpoint) if name.startswith("outrider-")}
        return roles if set(roles.values()) >= {"outrider-verifier", "outrider-drafter"} else None
    coordinator = cluster.roles("outrider-coordinator")["outrider-coordinator"]
    return {coordinator: "outrider-coordinator", **wait_until(found, "verifier and drafter")}


def status(endpoint):
    """Return the figures of `outrider status`."""
    return json.loads(outrider("status", "--connect", endpoint, "--json")[0])["figures"]


def load_words(endpoint, sessions, seconds, *words):
    """Return the words of an `outrider bench load` that compares every text with plain decoding's. Drafters work whether that pays or not."""
    return ["bench", "load", "--connect", endpoint, "--sessions", sessions, "--seconds", seconds, "--check", "--json", "--draft-policy", "fixed", *words]


def load(endpoint, sessions, seconds, *words):
    """Return its measurements. Wrong texts and errors fail."""
    return json.loads(outrider(*load_words(endpoint, sessions, seconds, *words))[0])[0]


class EndlessLoad(Background):
    """Load until it is ended; what it measured."""

    def __init__(self, endpoint, sessions, *words):
        super().__init__(*load_words(endpoint, sessions, 86400, *words))

        if not self.hears("decoded plainly"):
            raise AssertionError("outrider bench load: " + self.end()[2])

    def finish(self):
        self.process.send_signal(signal.SIGINT)
        code, out, error = self.end()
        if code != 130:
            raise AssertionError(f"outrider bench load: exit {code}\n{error}")
        return json.loads(out)[0]


def number(variable, default):
    """Return a test's size from the environment, which may ask for the long version of a short test."""
    return int(os.environ.get(variable, default))
