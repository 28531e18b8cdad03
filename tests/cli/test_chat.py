"""Goal: `outrider chat` is a conversation: streamed, coloured, with history, commands and keys that do what they say; without a terminal it is a
filter; and what it says is what `generate` writes after the same prompt and seed.
Method: pipes, and a pseudo-terminal that a person's keys are typed into."""
import json
import os
import pty
import re
import select
import signal
import subprocess
import tempfile
import termios
import time
import unittest
from pathlib import Path

from cli import BIN, DRAFT, ENVIRONMENT, PATIENCE, TARGET, Background, Cluster, Coordinator, children, generate, is_alive, outrider, stop, wait_until

DRAFTED, CORRECTED, PLAIN = "\x1b[32m", "\x1b[33m", "\x1b[0m"
LONG = ("Tell me a long story", 6)  # question and seed of an answer that does not end by itself
LONG_TOKENS = 480
STEP_MS = 1000 * 3 * PATIENCE // LONG_TOKENS  # of a verifier with which that answer takes longer than whatever a test waits for


def play(*turns):
    """Return the prompt that a conversation is without a template."""
    lines = [f"{'User' if i % 2 == 0 else 'Assistant'}: {words}" for i, words in enumerate(turns)]
    return "\n".join([*lines, "Assistant:"])


def written(prompt, *words):
    return generate("-p", prompt, *words)["text"].split("\nUser:")[0].strip()


class Terminal:
    """A process of `outrider chat` on a terminal of its own. It is killed at the end of the `with` block if it still runs."""

    def __init__(self, *words, **variables):
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            environment = {**ENVIRONMENT, "TERM": "xterm", "LC_ALL": "C.UTF-8", **variables}
            environment.pop("NO_COLOR", None) if "NO_COLOR" not in variables else None
            os.execve(BIN / "outrider", ["outrider", "chat", *map(str, words)], environment)
        self.seen = ""  # and not asked about yet
        self.all = ""

    def __enter__(self):
        self.hears("> ")
        return self

    def __exit__(self, *_):
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.file)

    def read(self):
        ready, _, _ = select.select([self.file], [], [], 0.1)
        if not ready:
            return True
        try:
            text = os.read(self.file, 4096).decode(errors="replace")
        except OSError:  # the other side is closed
            return False
        self.seen += text
        self.all += text
        return text != ""

    def hears(self, words):
        """Return everything up to these words, and them."""
        end = time.monotonic() + PATIENCE
        while words not in self.seen:
            if time.monotonic() > end or not self.read():
                raise AssertionError(f"no {words!r} in {self.all!r}")
        place = self.seen.index(words) + len(words)
        heard, self.seen = self.seen[:place], self.seen[place:]
        return heard

    def types(self, text):
        os.write(self.file, text.encode())

    def is_listening(self):
        """Return whether the editor reads. Before, the terminal would still echo and keep what is typed."""
        return not termios.tcgetattr(self.file)[3] & termios.ICANON

    def says(self, line):
        """Type a line; what comes up to the next prompt, without the echo."""
        wait_until(self.is_listening, "the editor")
        self.types(line + "\r")
        self.hears("\n")
        return self.hears("> ").rpartition("> ")[0].replace("\r\n", "\n")

    def asks(self, line):
        """Ask; the answer as it stood there, its figures."""
        heard = self.says(line)
        return re.fullmatch(r"(?:note: [^\n]*\n)*(.*)\n((?:note: [^\n]*\n)*\d+ tokens?[^\n]*)\n", heard, re.DOTALL).groups()

    def ends(self):
        """Return its exit code."""
        end = time.monotonic() + PATIENCE
        while self.read():
            if time.monotonic() > end:
                raise AssertionError(f"it does not end: {self.all!r}")
        _, status = os.waitpid(self.pid, 0)
        self.pid = None
        return os.waitstatus_to_exitcode(status)


class Piped(unittest.TestCase):
    def test_each_line_is_a_question(self):
        first = written(play("hi"), "-n", 40, "-s", 5)
        second = written(play("hi", first, "And then?"), "-n", 40, "-s", 5)
        out, error = outrider("chat", "-n", 40, "-s", 5, "--draft-policy", "fixed", stdin=b"hi\n\n/stats\nAnd then?\n")
        self.assertEqual(out.decode(), f"{first}\n{second}\n")
        self.assertEqual(len(re.findall(r"\d+ tokens?, \d+\.\d per target call, \d+ % of drafted tokens accepted", error)), 2)
        self.assertRegex(error, r"\d+ tokens in 1 answer, .*; 2 turns in the conversation")
        self.assertEqual(error.count("has no chat template"), 1)  # said once

    def test_nothing_asked(self):
        for stdin in (b"", b"\n  \n", b"/quit\nhi\n"):
            self.assertEqual(outrider("chat", stdin=stdin)[0], b"")

    def test_a_template_by_name(self):
        text = generate("-p", "USER: hi\nASSISTANT:", "-n", 30, "-s", 5)["text"]
        out, error = outrider("chat", "-n", 30, "-s", 5, "--chat-template", "vicuna", stdin=b"hi\n")
        self.assertEqual(out.decode(), text.strip() + "\n")
        self.assertNotIn("note", error)

    def test_no_template_and_a_system_message(self):
        prompt = "Speak in verse.\n\n" + play("hi")
        for words, stdin in ((["--system", "Speak in verse."], b"hi\n"), ([], b"/system Speak in verse.\nhi\n")):
            out, error = outrider("chat", "-n", 30, "-s", 3, "--chat-template", "none", *words, stdin=stdin)
            self.assertEqual(out.decode(), written(prompt, "-n", 30, "-s", 3) + "\n")
            self.assertNotIn("note", error)

    def test_the_oldest_is_forgotten(self):
        questions = "".join(f"Tell me more of this story, number {i}, and then?\n" for i in range(8))
        out, error = outrider("chat", "-n", 40, "-s", 5, "-c", 128, stdin=questions.encode())
        self.assertEqual(len(re.findall(r"(?m)^\d+ tokens?[ ,]", error)), 8)
        self.assertIn("its oldest turns are forgotten", error)
        self.assertNotIn(b"\x1b", out)

    def test_a_question_beyond_the_context(self):
        _, error = outrider("chat", "-c", 64, stdin=b"word " * 200 + b"\n", code=1)
        self.assertIn("context", error)

    def test_options_that_make_no_sense(self):
        for words, hint in ((["--chat-template", "llama9"], "zephyr or vicuna"), (["-p", "x"], "-p"), (["-n", 0], "--predict"),
                            (["--connect", "tcp://127.0.0.1:5577", "--chat-template", "llama2"], "the coordinator chooses")):
            _, error = outrider("chat", *words, code=2)
            self.assertIn(hint, error)
        _, error = outrider("chat", "--connect", "tcp://127.0.0.1:1", stdin=b"hi\n", code=1)
        self.assertIn("127.0.0.1:1", error)


class AtATerminal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("-m", TARGET, "-md", DRAFT, "--log-level", "warn", "--http", "off")
        cls.place = ["--connect", cls.cluster.endpoint]
        generate(*cls.place, "-p", "x", "-n", 1)  # so that the drafter has joined

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__()

    def test_colours_and_commands(self):
        first = written(play("hi"), "-n", 60, "-s", 6)
        with Terminal(*self.place, "-n", 60, "-s", 6, "--draft-policy", "fixed") as terminal:
            answer, figures = terminal.asks("hi")
            self.assertIn("has no chat template", terminal.all)
            self.assertIn(DRAFTED, answer)
            self.assertIn(CORRECTED, answer)
            self.assertEqual(re.sub(r"\x1b\[\d+m", "", answer), first)
            self.assertTrue(answer.endswith(PLAIN))
            self.assertRegex(figures, r"per target call, \d+ % of drafted tokens accepted, \d+ tokens/s \(seed 6\)")
            self.assertIn("there is no command /hepl", terminal.says("/hepl"))
            listed = terminal.says("/help")
            for word in ("/reset", "/undo", "/system", "/seed", "/save", "/stats", "/quit", "guessed by the drafter"):
                self.assertIn(word, listed)
            self.assertIn("forgotten", terminal.says("/undo"))
            self.assertIn("nothing to undo", terminal.says("/undo"))
            self.assertEqual(terminal.asks("hi")[0], answer)  # as if it had not been asked before
            self.assertIn("the seed 9", terminal.says("/seed 9"))
            self.assertIn("/seed takes", terminal.says("/seed nine"))
            self.assertIn("(seed 9)", terminal.asks("And then?")[1])
            with tempfile.TemporaryDirectory() as folder:
                self.assertIn("4 messages", terminal.says(f"/save {folder}/talk.json"))
                messages = json.loads(Path(folder, "talk.json").read_text())
                self.assertIn("cannot write", terminal.says(f"/save {folder}/no/talk.json"))
            self.assertEqual([m["role"] for m in messages], ["user", "assistant"] * 2)
            self.assertEqual([m["content"] for m in messages[:3]], ["hi", first, "And then?"])
            self.assertIn("begins anew", terminal.says("/reset"))
            self.assertIn("0 turns", terminal.says("/stats"))
            terminal.types("/quit\r")
            self.assertEqual(terminal.ends(), 0)

    def test_no_colour(self):
        for words, variables in ((["--no-color"], {}), ([], {"NO_COLOR": "1"})):
            with Terminal(*self.place, "-n", 30, "-s", 6, *words, **variables) as terminal:
                self.assertEqual(terminal.asks("hi")[0], written(play("hi"), "-n", 30, "-s", 6))
                wait_until(terminal.is_listening, "the editor")
                terminal.types("\x04")
                self.assertEqual(terminal.ends(), 0)

    def test_lines_are_edited_and_remembered(self):
        with Terminal(*self.place, "-n", 8, "-s", 6, "--no-color", "--chat-template", "none") as terminal:
            answer = terminal.asks("hi\x7f\x7fday naïve 日")[0]
            self.assertEqual(answer, written(play("day naïve 日"), "-n", 8, "-s", 6))
            terminal.says("/undo")
            self.assertEqual(terminal.asks("\x1b[A\x1b[A")[0], answer)  # up, up: the same question

    def test_it_is_stopped_and_goes_on(self):
        with Terminal(*self.place, "-n", 8, "-s", 6, "--no-color", "--chat-template", "none") as terminal:
            wait_until(terminal.is_listening, "the editor")
            stop(terminal.pid)
            attributes = termios.tcgetattr(terminal.file)
            attributes[3] |= termios.ICANON | termios.ECHO  # as a shell would
            termios.tcsetattr(terminal.file, termios.TCSANOW, attributes)
            os.kill(terminal.pid, signal.SIGCONT)
            self.assertEqual(terminal.asks("hi")[0], written(play("hi"), "-n", 8, "-s", 6))

    def test_sigterm_ends_it_and_its_cluster(self):
        with Terminal("-n", 8) as terminal:
            roles = wait_until(lambda: children(terminal.pid), "its cluster")
            os.kill(terminal.pid, signal.SIGTERM)
            self.assertEqual(terminal.ends(), 130)
        for pid in roles.values():
            self.assertFalse(is_alive(pid))


class WhileItAnswers(unittest.TestCase):
    """Keys that are typed before an answer has ended. It cannot end earlier, however late they come: its verifier waits at each token."""

    @classmethod
    def setUpClass(cls):
        cls.hub = Coordinator()
        cls.addClassCleanup(cls.hub.__exit__)
        verifier = Background("-m", TARGET, "--connect", cls.hub.endpoint, "--step-delay-ms", STEP_MS, program="outrider-verifier")
        cls.addClassCleanup(verifier.__exit__)
        verifier.hears("welcomed")

    def asks_much(self):
        """Return a terminal, in a `with` block, where some of a long answer stands."""
        question, seed = LONG
        terminal = Terminal("--connect", self.hub.endpoint, "-n", LONG_TOKENS, "-s", seed, "--plain", "--no-color", "--chat-template", "none")
        self.enterContext(terminal)
        wait_until(terminal.is_listening, "the editor")
        terminal.types(question + "\r")
        terminal.hears("\n")
        wait_until(lambda: terminal.read() and terminal.seen.strip(), "some of the answer")
        return terminal

    def test_keys_that_stop(self):
        terminal = self.asks_much()
        terminal.types("\x03")
        figures = terminal.hears("> ")
        count = int(re.search(r"(\d+) tokens?[, (]", figures)[1])
        self.assertIn(count, range(1, LONG_TOKENS))
        self.assertIn("2 turns", terminal.says("/stats"))  # what came is kept
        wait_until(terminal.is_listening, "the editor")
        terminal.types("half a line\x03")
        terminal.hears("Ctrl-C again")
        terminal.hears("> ")
        self.assertIn("2 turns", terminal.says("/stats"))  # it was not sent
        terminal.types("\x03")
        terminal.hears("Ctrl-C again")
        terminal.hears("> ")
        terminal.types("\x03")
        self.assertEqual(terminal.ends(), 130)

    def test_ctrl_c_again_and_again_ends_it(self):
        """The coordinator, which stands still, does not confirm the first one: the second ends the answer and the program."""
        terminal = self.asks_much()
        stop(self.hub.process.pid)
        self.addCleanup(os.kill, self.hub.process.pid, signal.SIGCONT)
        end = time.monotonic() + PATIENCE
        while terminal.read() and time.monotonic() < end:  # signals that come at once are one
            terminal.types("\x03")
        self.assertEqual(terminal.ends(), 130)


if __name__ == "__main__":
    unittest.main()
