"""Goal: whatever breaks, the user gets a sentence and an exit code, nothing hangs, no process stays behind, and where the text can go on it
is the same text.
Method: damaged files, foreign vocabularies, taken ports, killed processes, signals, and a peer that speaks another protocol version."""
import os
import signal
import socket
import tempfile
import unittest
from pathlib import Path

from cli import DRAFT, OTHER_VOCABULARY, TARGET, Background, Cluster, ZmtpDealer, generate, is_alive, outrider, wait_until

ROLES = ("outrider-coordinator", "outrider-verifier", "outrider-drafter")
# Large trees make rounds slow enough to be caught in the middle.
LONG_TEXT = ["-p", "Once upon a time", "-n", 400, "--temp", 0, "--ignore-eos", "--draft-nodes", 768]


class BadInput(unittest.TestCase):
    def fails(self, *words, pattern):
        out, error = outrider("generate", "--json", "-n", 8, *words, code=1)
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
        self.fails("-md", OTHER_VOCABULARY, "-p", "x", pattern=r"another vocabulary.*--plain")

    def test_prompt_longer_than_the_context(self):
        self.fails("-p", "word " * 600, pattern=r"prompt has \d+ tokens and the context holds 512")
        self.fails("-p", "one two three four five six seven", "-c", 4, pattern="context holds 4")

    def test_larger_context_than_the_model_was_made_for(self):
        self.fails("-p", "x", "-c", 100000, pattern="100000")

    def test_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            endpoint = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
            _, error = outrider("up", "--listen", endpoint, code=1)
            self.assertIn(endpoint, error)
            self.assertIn("in use", error)

    def test_nobody_answers(self):
        with socket.socket() as reserved:  # bound but not listening: a connection is refused
            reserved.bind(("127.0.0.1", 0))
            endpoint = f"tcp://127.0.0.1:{reserved.getsockname()[1]}"
            self.fails("--connect", endpoint, "-p", "x", pattern=f"no coordinator answers at {endpoint}")
        self.fails("--connect", "nonsense", "-p", "x", pattern="nonsense")


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
        self.assertRegex(error, r"\d+ tokens, ")
        self.assert_all_ended(roles)


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
                return generate("--connect", cluster.endpoint, "-p", "Once upon a time", "-n", 16, "--temp", 0)["drafted"] > 0
            wait_until(drafted, "drafting again")

    def test_verifier_ends_it(self):
        with Cluster("-m", TARGET, "-md", DRAFT) as cluster:
            os.kill(cluster.roles(*ROLES)["outrider-verifier"], signal.SIGKILL)
            code, _, error = cluster.end()
            self.assertEqual(code, 1)
            self.assertIn("outrider-verifier was killed by signal 9", error)

    def test_refused_drafter_ends_it(self):
        with Background("up", "--listen", "tcp://127.0.0.1:*", "-m", TARGET, "-md", OTHER_VOCABULARY) as cluster:
            code, _, error = cluster.end()
            self.assertEqual(code, 1)
            self.assertIn("another vocabulary", error)


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
