"""Goal: whatever breaks, the user gets a sentence and an exit code, nothing hangs, no process stays behind, and where the text can go on it
is the same text.
Method: damaged files, foreign vocabularies, taken ports, killed processes, signals, and a peer that speaks another protocol version."""
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from cli import BIN, DRAFT, ENVIRONMENT, OTHER_VOCABULARY, PATIENCE, TARGET
from cli import Background, Cluster, ZmtpDealer, call, generate, is_alive, of_rest, outrider, wait_until

ROLES = ("outrider-coordinator", "outrider-verifier", "outrider-drafter")
# Large trees make rounds slow enough to be caught in the middle.
LONG_TEXT = ["-p", "Once upon a time", "-n", 400, "--temp", 0, "--ignore-eos", "--draft-nodes", 768, "--draft-policy", "fixed"]


def interrupt_twice(run):
    """Return whether the second interrupt came before the first could end a process that hangs: on a busy machine it may not."""
    begun = time.monotonic()
    run.process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    run.process.send_signal(signal.SIGINT)
    return time.monotonic() - begun < 0.5


class BadInput(unittest.TestCase):
    def fails(self, *words, pattern, code=1):
        out, error = outrider("generate", "--json", "-n", 8, *words, code=code)
        self.assertEqual(out, b"")
        self.assertRegex(error, pattern)

    def test_files_that_are_no_model(self):
        with tempfile.TemporaryDirectory() as folder:
            text, short = Path(folder, "text.gguf"), Path(folder, "short.gguf")
            text.write_text("Once upon a time\n" * 100)
            short.write_bytes(TARGET.read_bytes()[:1_000_000])
            for path in (text, short, Path(folder, "absent.gguf")):
                self.fails("-m", path, "--plain", "-p", "x", pattern=path.name)
                self.fails("-m", TARGET, "-md", path, "-p", "x", pattern=path.name)

    def test_drafter_with_another_vocabulary(self):
        self.fails("-md", OTHER_VOCABULARY, "--vocab-map", "same", "-p", "x", pattern=r"vocabular.*--vocab-map")

    def test_prompt_longer_than_the_context(self):
        self.fails("-p", "word " * 600, pattern=r"prompt has \d+ tokens and the context holds 512")
        self.fails("-p", "one two three four five six seven", "-c", 4, pattern="context holds 4")

    def test_larger_context_than_the_model_was_made_for(self):
        self.fails("-p", "x", "-c", 100000, pattern="100000")

    def test_methods_that_do_not_fit(self):
        for words, pattern in ((["--accept", "recursive", "--draft-method", "mcsd"], "use --accept .*multi-round.*--draft-method rsd-s"),
                               (["--accept", "sps", "--draft-method", "rsd-c"], "takes one sequence"),
                               (["--accept", "naive", "--draft-method", "coupled"], "shared noise"),
                               (["--accept", "greedy", "--temp", 1], "--accept coupled"),
                               (["--accept", "best"], "multi-round, recursive"),
                               (["--accept", "typical"], "--allow-lossy"),
                               (["--accept", "lenient", "--allow-lossy", "--lenience", 0.5], "--lenience"),
                               (["--draft-temp", 0], "--draft-temp"),
                               (["--draft-method", "ngram", "--draft-ahead", 2], "looked up in no time"),
                               (["--draft-method", "tree"], "rsd-c, rsd-s"),
                               (["--draft-method", "rsd-c", "--draft-shape", "4xx"], "not a tree shape.*4x2x1"),
                               (["--draft-method", "rsd-c", "--draft-shape", "40x40"], "more than 1024 nodes"),
                               (["--draft-method", "rsd-s", "--draft-shape", "2x2x2"], "width x length"),
                               (["--draft-method", "chain", "--draft-shape", "4x2"], "--draft-shape is for mcsd"),
                               (["--accept", "recursive", "--distribution-entries", 0], "--distribution-entries"),
                               (["--accept", "recursive", "--distribution-entries", 257], "--distribution-entries")):
            self.fails("-p", "x", *words, pattern=pattern, code=2)
        self.assertIn("--trust", call("outrider-coordinator", "-m", TARGET, "--trust", "all", code=2)[1])

    def test_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            endpoint = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
            _, error = outrider("up", "--listen", endpoint, code=1)
            self.assertIn(endpoint, error)
            self.assertIn("in use", error)

    def test_endpoints_that_make_no_sense(self):
        """The exit code is 2, with which nobody starts a process again; no key is asked for, and none is made."""
        with tempfile.TemporaryDirectory() as folder:
            keys = {"OUTRIDER_KEYS": str(Path(folder, "keys"))}
            for endpoint, pattern in (("nonsense", "not an endpoint"), ("inproc://x", "not an endpoint"), ("tcp://:5", "not an endpoint"),
                                      ("http://192.0.2.1:8080", "not an endpoint"), ("tcp://192.0.2.1", "not an endpoint"),
                                      ("tcp://127.0.0.1:0", "1 to 65535"), ("tcp://127.0.0.1:99999", "1 to 65535"),
                                      ("tcp://127.0.0.1:*", "1 to 65535")):
                for command in (["generate", "-p", "x"], ["chat"], ["bench"], ["bench", "load"], ["status"]):
                    self.assertIn(pattern, outrider(*command, "--connect", endpoint, code=2, **keys)[1])
                for role in ROLES[1:]:
                    self.assertIn(pattern, call(role, "-m", TARGET, "--connect", endpoint, code=2, **keys)[1])
            for endpoint, pattern in (("nonsense", "not an endpoint"), ("inproc://x", "not an endpoint"), ("tcp://127.0.0.1:99999", "65535"),
                                      ("tcp://192.0.2.1:", "65535"), ("tcp://192.0.2.1", "not an endpoint")):
                self.assertIn(pattern, call("outrider-coordinator", "-m", TARGET, "--listen", endpoint, code=2, **keys)[1])
                self.assertIn(pattern, outrider("up", "--listen", endpoint, code=2, **keys)[1])
            self.assertFalse(Path(keys["OUTRIDER_KEYS"]).exists())

    def test_closed_descriptors(self):
        """A file that we open must not be taken for standard input or output."""
        words = [BIN / "outrider", "generate", "--json", "-p", "Once upon a time", "-n", "8", "--temp", "0"]
        for closed in ("<&- 2>&-", "<&- >&- 2>&-"):
            done = subprocess.run(["sh", "-c", f'"$0" "$@" {closed}', *words], capture_output=True, env=ENVIRONMENT, timeout=PATIENCE)
            self.assertEqual(done.returncode, 0)
            if ">&- 2" not in closed:
                self.assertEqual(json.loads(done.stdout)["completion_tokens"], 8)


class KilledProcesses(unittest.TestCase):
    def start(self, *words):
        run = Background("generate", "--no-display-prompt", *LONG_TEXT, *words)
        self.addCleanup(run.__exit__)
        roles = run.roles(*ROLES)
        run.first = os.read(run.process.stdout.fileno(), 1)  # some text is there
        return run, roles

    def assert_all_ended(self, roles):
        for name, pid in roles.items():
            wait_until(lambda pid=pid: not is_alive(pid), f"the end of {name}")

    def test_drafter(self):
        run, roles = self.start()
        os.kill(roles["outrider-drafter"], signal.SIGKILL)
        code, out, error = run.end()
        self.assertEqual(code, 0, error)
        self.assertRegex(error, r"outrider-drafter was killed by signal 9.*plain decoding")
        plain = generate("--plain", *LONG_TEXT)
        self.assertEqual((run.first + out).decode(), plain["text"] + "\n")
        self.assert_all_ended(roles)

    def test_verifier(self):
        run, roles = self.start()
        os.kill(roles["outrider-verifier"], signal.SIGKILL)
        code, _, error = run.end()
        self.assertEqual(code, 1)
        self.assertIn("outrider-verifier was killed by signal 9", error)
        self.assert_all_ended(roles)

    def test_coordinator(self):
        run, roles = self.start()
        os.kill(roles["outrider-coordinator"], signal.SIGKILL)
        code, _, error = run.end()
        self.assertEqual(code, 1)
        self.assertIn("outrider-coordinator was killed by signal 9", error)
        self.assert_all_ended(roles)

    def test_the_command_itself(self):
        run, roles = self.start()
        run.process.kill()
        run.end()
        self.assert_all_ended(roles)

    def test_interrupt_keeps_what_there_is(self):
        run, roles = self.start()
        run.process.send_signal(signal.SIGINT)
        code, out, error = run.end()
        self.assertEqual(code, 130)
        self.assertTrue(out.endswith(b"\n"))
        self.assertRegex(error, r"\d+ tokens?, ")
        self.assert_all_ended(roles)

    def test_interrupt_before_any_token(self):
        run = Background("generate", *LONG_TEXT)
        self.addCleanup(run.__exit__)
        os.kill(run.roles(*ROLES)["outrider-verifier"], signal.SIGSTOP)  # before it has joined
        run.hears("verifier (pid")
        time.sleep(0.3)
        run.process.send_signal(signal.SIGINT)
        code, _, error = run.end()
        self.assertEqual(code, 130)
        self.assertRegex(error, r"^0 tokens \(seed \d+\)\n$")

    def test_a_finished_text_waits_for_nobody(self):
        run, roles = self.start("-n", 40, "--log-level", "debug")
        os.kill(roles["outrider-drafter"], signal.SIGSTOP)
        self.assertIn("40 tokens", run.hears("tokens/s"))
        code, _, error = run.end()
        self.assertEqual(code, 0)
        self.assertIn("outrider-drafter did not end within 500 ms and is killed", error)
        self.assert_all_ended(roles)

    def test_verifier_ends_in_order_while_it_starts(self):
        verifier = Background("-m", TARGET, "--connect", "tcp://127.0.0.1:1", program="outrider-verifier")
        self.addCleanup(verifier.__exit__)

        def watches():  # the handler is there from before MPI_Init on
            status = Path(f"/proc/{verifier.process.pid}/status").read_text()
            return int(status.split("SigCgt:")[1].split()[0], 16) >> (signal.SIGTERM - 1) & 1
        wait_until(watches, "the verifier's signal handler")
        verifier.process.send_signal(signal.SIGTERM)
        self.assertEqual(verifier.end()[0], 0)


class LocalCluster(unittest.TestCase):
    def test_up_ends_in_order(self):
        with Cluster("-m", TARGET, "-md", DRAFT) as cluster:
            roles = cluster.roles(*ROLES)
            cluster.process.send_signal(signal.SIGINT)
            code, _, error = cluster.end()
            self.assertEqual(code, 0, error)
            self.assertFalse([name for name, pid in roles.items() if is_alive(pid)])

    def test_drafter_comes_back(self):
        with Cluster("-m", TARGET, "-md", DRAFT, "--log-level", "warn") as cluster:
            old = cluster.roles(*ROLES)["outrider-drafter"]
            os.kill(old, signal.SIGKILL)
            wait_until(lambda: cluster.roles(*ROLES)["outrider-drafter"] != old, "another drafter")

            def drafted():
                return generate("--connect", cluster.endpoint, "-p", "Once upon a time", "-n", 16, "--temp", 0, "--draft-policy", "fixed")["drafted"] > 0
            wait_until(drafted, "drafting again")

    def test_verifier_comes_back_and_the_text_goes_on(self):
        text = [*LONG_TEXT, "-n", 80]
        plain = generate("--plain", *text)
        with Cluster("-m", TARGET, "-md", DRAFT, "--log-level", "warn") as cluster:
            verifier = cluster.roles(*ROLES)["outrider-verifier"]
            with Background("generate", "--connect", cluster.endpoint, "--no-display-prompt", *text) as run:
                first = os.read(run.process.stdout.fileno(), 1)
                os.kill(verifier, signal.SIGKILL)
                code, out, error = run.end()
            self.assertEqual(code, 0, error)
            self.assertEqual((first + out).decode(), plain["text"] + "\n")
            self.assertNotEqual(cluster.roles(*ROLES)["outrider-verifier"], verifier)
            self.assertIn("starting it again", cluster.hears("outrider-verifier was killed by signal 9"))

    def test_coordinator_comes_back_and_the_text_goes_on(self):
        """It comes back twice, at the same endpoint and the same HTTP address."""
        text = [*LONG_TEXT, "-n", 120]
        plain = generate("--plain", *text)
        with tempfile.TemporaryDirectory() as folder, Cluster("-m", TARGET, "-md", DRAFT, "--log-level", "warn", "--http", "127.0.0.1:0",
                                                              "--journal", str(Path(folder, "texts"))) as cluster:
            out = b""
            with Background("generate", "--connect", cluster.endpoint, "--no-display-prompt", *text) as run:
                for _ in range(2):
                    coordinator = cluster.roles(*ROLES)["outrider-coordinator"]
                    out += os.read(run.process.stdout.fileno(), 1)
                    os.kill(coordinator, signal.SIGKILL)
                    wait_until(lambda old=coordinator: cluster.roles(*ROLES)["outrider-coordinator"] != old, "another coordinator")
                code, rest, error = run.end()
            self.assertEqual(code, 0, error)
            self.assertEqual((out + rest).decode(), plain["text"] + "\n")
            self.assertIn("starting it again", cluster.hears("outrider-coordinator was killed by signal 9"))

    def test_second_interrupt_hurries(self):
        with Cluster("-m", TARGET, "-md", DRAFT, "--log-level", "debug") as cluster:
            roles = cluster.roles(*ROLES)
            os.kill(roles["outrider-verifier"], signal.SIGSTOP)
            in_time = interrupt_twice(cluster)
            error = cluster.end()[2]
            if in_time:
                self.assertNotIn("did not end within", error)
            self.assertFalse([name for name, pid in roles.items() if is_alive(pid)])


class Outage(unittest.TestCase):
    """A coordinator that dies in the middle of a text, with a journal for the next one."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            self.endpoint = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
        self.journal = Path(scratch.name, "journal")
        self.hub = self.start("outrider-coordinator", "-m", TARGET, "--listen", self.endpoint, "--journal", self.journal)
        self.hub.hears("listening on")
        self.verifier = self.start("outrider-verifier", "-m", TARGET, "--connect", self.endpoint, "--step-delay-ms", 20)
        self.verifier.hears("welcomed")
        self.writer = self.start("outrider", "generate", "--json", "--connect", self.endpoint, *LONG_TEXT, "-n", 250, "--plain")
        wait_until(lambda: self.figures()["sessions"] == 1, "a text in progress")
        time.sleep(0.5)
        self.hub.process.kill()
        self.hub.process.wait()

    def start(self, program, *words):
        process = Background(*words, program=program)
        self.addCleanup(process.__exit__)
        return process

    def figures(self):
        return json.loads(outrider("status", "--connect", self.endpoint, "--json")[0])["figures"]

    def test_who_interrupts_it_gets_what_there_is(self):
        self.assertIn("is lost", self.writer.hears("the connection to the coordinator"))
        self.writer.process.send_signal(signal.SIGINT)
        code, out, error = self.writer.end()
        self.assertEqual(code, 130, error)
        line = json.loads(out)
        self.assertEqual(line["finish_reason"], "cancelled")
        self.assertGreater(line["completion_tokens"], 0)
        self.assertEqual(line["completion_tokens"], len(line["tokens"]))
        self.assertRegex(error, r"(?m)^\d+ tokens \(seed \d+\)$")  # no figures that nobody has

    @of_rest
    def test_figures_are_of_what_was_counted(self):
        self.assertTrue(self.verifier.hears("the connection to the coordinator is lost"))
        self.start("outrider-coordinator", "-m", TARGET, "--listen", self.endpoint, "--journal", self.journal)
        code, out, error = self.writer.end()
        self.assertEqual(code, 0, error)
        line = json.loads(out)
        self.assertEqual(line["completion_tokens"], 250)
        self.assertGreater(line["resumed_tokens"], 0)
        self.assertEqual(line["block_efficiency"], 1)  # plain
        self.assertLess(line["tokens_per_second"], 50)  # 20 ms a step at least
        self.assertIn("since the coordinator was restarted", error)


class Patience(unittest.TestCase):
    """Run the cases that take long by design side by side."""

    @classmethod
    def setUpClass(cls):
        cls.reserved = socket.socket()  # bound but not listening: a connection is refused
        cls.addClassCleanup(cls.reserved.close)
        cls.reserved.bind(("127.0.0.1", 0))
        cls.endpoint = f"tcp://127.0.0.1:{cls.reserved.getsockname()[1]}"
        cls.caller = Background("generate", "--connect", cls.endpoint, "-p", "x")
        cls.addClassCleanup(cls.caller.__exit__)
        cls.hopeless = Background("up", "--listen", "tcp://127.0.0.1:*", "-m", TARGET, "--plain", "-c", 100000)
        cls.addClassCleanup(cls.hopeless.__exit__)

    def test_a_late_coordinator_is_welcomed_once(self):
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            endpoint = f"tcp://127.0.0.1:{reserved.getsockname()[1]}"
        with Background("-m", DRAFT, "--connect", endpoint, program="outrider-drafter") as drafter:
            time.sleep(2)  # for some Hellos to wait
            with Background("-m", TARGET, "--listen", endpoint, program="outrider-coordinator"):
                self.assertTrue(drafter.hears("welcomed by"))
                time.sleep(0.3)
                drafter.process.send_signal(signal.SIGTERM)
                code, _, error = drafter.end()
                self.assertEqual(code, 0)
                self.assertNotIn("welcomed by", error)

    @of_rest
    def test_silence_is_said_and_a_second_interrupt_hurries(self):
        with Background("generate", "--no-display-prompt", *LONG_TEXT, "--log-level", "debug") as run:
            verifier = run.roles(*ROLES)["outrider-verifier"]
            os.read(run.process.stdout.fileno(), 1)
            os.kill(verifier, signal.SIGSTOP)
            self.assertIn("for 5 s; still waiting", run.hears("nothing new"))
            in_time = interrupt_twice(run)
            code, _, error = run.end()
            self.assertEqual(code, 130)
            if in_time:
                self.assertNotIn("did not end within", error)
            self.assertFalse(is_alive(verifier))

    def test_verifier_that_never_joins_ends_it(self):
        code, _, error = self.hopeless.end()
        self.assertEqual(code, 1)
        self.assertEqual(error.count("error verifier:"), 3, error)

    def test_when_nobody_answers(self):
        code, out, error = self.caller.end()
        self.assertEqual((code, out), (1, b""))
        self.assertIn(f"no coordinator answers at {self.endpoint}", error)


class OtherProtocol(unittest.TestCase):
    def test_another_version_and_noise_get_an_error_and_harm_nobody(self):
        with Cluster("-m", TARGET, "--plain", "--log-level", "error") as cluster:
            newer = ZmtpDealer(cluster.endpoint)
            newer.send(bytes([0x08, 99, 0x1A, 2, 0x08, 1]))  # Envelope{version: 99, hello: {role: client}}
            reply = newer.receive()
            self.assertRegex(reply, rb"protocol 99, this is \d+")
            newer.close()
            noise = ZmtpDealer(cluster.endpoint)
            noise.send(b"\xff" * 300)
            self.assertTrue(noise.receive())
            noise.close()
            line = generate("--connect", cluster.endpoint, "--plain", "-p", "Once upon a time", "-n", 8, "--temp", 0)
            self.assertEqual(line["completion_tokens"], 8)


if __name__ == "__main__":
    unittest.main()
