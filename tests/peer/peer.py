"""Helpers of the comparisons: running commands one at a time, medians, markdown."""
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PATIENCE = 1800  # seconds for one command


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
