"""Goal: `outrider up` serves a crowd with its defaults, its limits reach the processes that keep them, a drafter that is refused after it had
served costs speed only, and options of a local cluster are refused where there is none.
Method: the children's own command lines and their answers; a folder with our programs and a script in the drafter's place, which is refused
after a given time; command lines that make no sense."""
import json
import os
import shutil
import signal
import sys
import tempfile
import unittest
from pathlib import Path

import service
from cli import BIN, DRAFT, TARGET, Background, Cluster, call, children, generate, of_rest, outrider, wait_until

ROLES = ("outrider-coordinator", "outrider-verifier", "outrider-drafter")
LOCAL = (["--np", 2], ["--pp", 2], ["--kv-cache-size", "1M"], ["-ctk", "f16"], ["-ctv", "q8_0"], ["--window-slack", 512], ["-c", 128],
         ["-t", 1], ["-td", 1], ["--acceptance-file", "x"])
FILES = (["-m", TARGET], ["-md", DRAFT], ["--multi-model", DRAFT])  # which `bench` takes, to tell what runs there
NOWHERE = "tcp://127.0.0.1:9"
SERVED_SECONDS = 11  # a drafter that lived for more than ten seconds was welcomed


def option(pid, name):
    """Return what a process was given, or None."""
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return words[words.index(name) + 1] if name in words else None


class Limits(unittest.TestCase):
    def given(self, cluster, name):
        return [option(cluster.roles(*ROLES)[role], name) for role in ROLES]

    def test_defaults(self):
        with Cluster("--log-level", "error") as cluster:
            self.assertEqual(self.given(cluster, "--sessions-max"), ["64"] * 3)
            self.assertEqual(self.given(cluster, "--owner-sessions-max"), ["0", None, None])
            self.assertEqual(self.given(cluster, "--queue-max"), ["1024", None, None])
            self.assertEqual(self.given(cluster, "--memory-max"), [None] * 3)

    def test_they_hold(self):
        """There is one place and nobody may wait, so a second request is turned away."""
        with Cluster("--log-level", "error", "--sessions-max", 1, "--queue-max", 0, "--owner-sessions-max", 1) as cluster:
            self.assertEqual(self.given(cluster, "--sessions-max"), ["1"] * 3)
            self.assertEqual(self.given(cluster, "--owner-sessions-max")[0], "1")
            words = ["generate", "--connect", cluster.endpoint, "--no-display-prompt", "-p", "Once upon a time"]
            with Background(*words, "-n", 480, "--temp", 0, "--ignore-eos", "--plain") as first:
                os.read(first.process.stdout.fileno(), 1)
                os.kill(cluster.roles(*ROLES)[ROLES[1]], signal.SIGSTOP)  # the text goes on for as long as we like
                self.assertIn("busy", outrider(*words, "-n", 4, "--busy-wait", 0, code=75)[1])

    def test_there_may_be_no_http(self):
        """`none` is the word of --journal and --device, too; `off` says the same."""
        for word in ("none", "off"):
            with Cluster("--log-level", "info", "--http", word) as cluster:
                pid = cluster.roles(*ROLES)[ROLES[0]]
                self.assertEqual(option(pid, "--http"), word)
                outrider("generate", "--connect", cluster.endpoint, "-p", "x", "-n", 2)

    def test_those_of_memory_and_journal(self):
        """Errors name them, so `up` has to know them."""
        with Cluster("--log-level", "error", "--memory-max", "5M", "--journal-max", "3M") as cluster:
            self.assertEqual(self.given(cluster, "--memory-max"), [str(5 << 20), None, None])
            self.assertEqual(self.given(cluster, "--journal-max"), [str(3 << 20), None, None])

    def test_those_that_make_no_sense(self):
        for words in (["--sessions-max", 0], ["--sessions-max", 65537], ["--queue-max", 65537]):
            self.assertIn(words[0], outrider("up", *words, code=2)[1])

    def test_those_that_make_no_sense_to_a_child(self):
        """Its sentence is in its log, which `up` shows, and the exit code is that of a command line."""
        for words, name in ((["--http-cert", TARGET], "coordinator"), (["-dev", "CUDA77"], "verifier"), (["-devd", "CUDA77"], "drafter")):
            with self.subTest(name):
                error = outrider("up", "--listen", "tcp://127.0.0.1:*", *words, code=2)[1]
                self.assertRegex(error, rf"error {name}: .*(--http-cert|CUDA77)")
                self.assertIn(f"outrider up: outrider-{name}: it cannot serve as it was started", error)

    def test_a_crowd_larger_than_usual_has_places(self):
        with Background("bench", "load", "--sessions", "2,70", "--seconds", 60, "--plain") as run:
            roles = run.roles("outrider-coordinator", "outrider-verifier")
            self.assertEqual([option(pid, "--sessions-max") for pid in roles.values()], ["70"] * 2)


class Refused(unittest.TestCase):
    """A script in the drafter's place ends as a drafter does that the coordinator refuses."""

    def up(self, seconds):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        shutil.copy(BIN / "outrider", folder.name)  # it looks for the others beside itself
        for name in ROLES[:2]:
            Path(folder.name, name).symlink_to(BIN / name)
        drafter = Path(folder.name, ROLES[2])
        drafter.write_text(f"#!{sys.executable}\nimport sys, time\ntime.sleep({seconds})\nsys.exit(3)\n")
        drafter.chmod(0o755)
        run = Background("up", "--listen", "tcp://127.0.0.1:*", "--log-level", "warn", "-m", TARGET, "-md", DRAFT,
                         program=Path(folder.name, "outrider"))
        self.addCleanup(run.__exit__)
        return run

    def test_at_once(self):
        code, _, error = self.up(0).end()
        self.assertEqual(code, 1, error)
        self.assertIn("outrider-drafter: ", error)

    @of_rest
    def test_after_it_had_served(self):
        run = self.up(SERVED_SECONDS)
        self.assertIn("starting it again in 1 s", run.hears("outrider-drafter ended"))
        wait_until(lambda: Path(sys.executable).name in children(run.process.pid), "another drafter")
        run.process.send_signal(signal.SIGINT)
        self.assertEqual(run.end()[0], 0)


class LateVerifier(unittest.TestCase):
    def test_a_load_does_not_measure_how_models_are_loaded(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(BIN / "outrider", folder)
            for name in (ROLES[0], ROLES[2]):
                Path(folder, name).symlink_to(BIN / name)
            verifier = Path(folder, ROLES[1])
            verifier.write_text(f'#!/bin/sh\nsleep 3\nexec "{BIN / ROLES[1]}" "$@"\n')
            verifier.chmod(0o755)
            out, _ = call(Path(folder, "outrider"), "bench", "load", "-m", TARGET, "-md", DRAFT, "--sessions", 1, "--seconds", 1, "--json")
        self.assertLess(json.loads(out)[0]["first_token_ms"]["p99"], 1500)


class Elsewhere(unittest.TestCase):
    def test_options_of_a_local_cluster(self):
        """Each is refused with a sentence that says where it belongs."""
        for command, refused in ((["generate", "-p", "x"], LOCAL + FILES), (["chat"], LOCAL + FILES), (["bench"], LOCAL), (["bench", "load"], LOCAL + FILES)):
            for words in refused:
                with self.subTest(command=command, words=words):
                    error = outrider(*command, "--connect", NOWHERE, *words, code=2)[1]
                    self.assertRegex(error, rf"{words[0]}\b.* is for a local cluster: .*outrider up")

    def test_variables_may_be_meant_for_workers(self):
        for name, value in (("OUTRIDER_THREADS", 2), ("OUTRIDER_CTX_SIZE", 512), ("OUTRIDER_ACCEPTANCE_FILE", "x")):
            with self.subTest(name):
                self.assertNotIn("local cluster", outrider("generate", "-p", "x", "--connect", NOWHERE, code=1, **{name: str(value)})[1])

    def test_an_interrupted_text_is_a_line_of_json_too(self):
        with Cluster("--log-level", "error", "--plain") as cluster:
            generate("--connect", cluster.endpoint, "-p", "x", "-n", 1)  # the verifier is there
            os.kill(cluster.roles(*ROLES[:2])[ROLES[1]], signal.SIGSTOP)  # and its texts go on for as long as we like
            with Background("generate", "--json", "--connect", cluster.endpoint, "-p", "Once") as run:
                wait_until(lambda: service.status(cluster.endpoint)["started"] == 2, "a text that goes on")
                run.process.send_signal(signal.SIGINT)
                code, out, error = run.end()
        self.assertEqual((code, json.loads(out)["finish_reason"]), (130, "cancelled"), error)


if __name__ == "__main__":
    unittest.main()
