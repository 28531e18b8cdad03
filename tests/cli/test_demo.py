"""Goal: `outrider demo` shows what drafting is worth and says whether both texts are equal, in a terminal, without one and as JSON; its target is made
once; and whatever stops it leaves nothing behind. `generate`, `up` and `bench load` run with `-m FILE` alone.
Method: a small target in a cache folder of the test's own; the text is compared with the one that `generate` writes on the same file."""
import fcntl
import json
import os
import pty
import re
import resource
import select
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest
from pathlib import Path

from cli import BIN, DRAFT, ENVIRONMENT, PATIENCE, TARGET, Background, Cluster, children, generate, is_alive, outrider, wait_until

SIZE = "21M"
PROGRAMS = ("outrider-coordinator", "outrider-verifier", "outrider-drafter")
LINE = r"\d+\.\d times as fast as plain decoding: \d+ tokens/s instead of \d+, \d\.\d tokens per target call; the texts are equal \(seed %d\)"
TERMINAL = struct.pack("HHHH", 24, 80, 0, 0)


def run_in_terminal(*words, size=TERMINAL, look=lambda pid, seen: None, **variables):
    """The demo's exit code and what it wrote to a terminal of this size. `look` is told whenever it has written."""
    pid, file = pty.fork()
    if pid == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, size)
        os.execve(BIN / "outrider", ["outrider", "demo", *map(str, words)], {**ENVIRONMENT, **variables})
    seen, end = b"", time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if select.select([file], [], [], 0.1)[0]:
            try:
                part = os.read(file, 4096)
            except OSError:  # the other side is closed
                break
            seen += part
            look(pid, seen)
    else:
        os.kill(pid, signal.SIGKILL)
    os.close(file)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen.decode()


class Demo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.cache = Path(cls.temporary.name) / "cache"
        cls.variables = {"XDG_CACHE_HOME": str(cls.cache)}
        cls.first = cls.demo("-n", 24, "-s", 7)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def demo(cls, *words):
        out, _ = outrider("demo", "--size", SIZE, "--json", *words, **cls.variables)
        assert out.count(b"\n") == 1, out
        return json.loads(out)

    def names(self, folder=None):
        return sorted(path.name for path in ((folder or self.cache) / "outrider").iterdir())

    def test_json(self):
        line = self.first
        self.assertEqual(list(line), ["equal", "speedup", "seed", "prompt", "target", "plain", "drafted"])
        self.assertIs(line["equal"], True)
        self.assertEqual((line["seed"], line["prompt"], line["target"]["made"]), (7, "Once upon a time", True))
        self.assertAlmostEqual(line["speedup"], line["drafted"]["tokens_per_second"] / line["plain"]["tokens_per_second"], places=5)
        text = generate("-m", line["target"]["file"], "--plain", "-p", "Once upon a time", "-n", 24, "-s", 7, "--ignore-eos")["text"]
        for name in ("plain", "drafted"):
            self.assertEqual((line[name]["text"], line[name]["completion_tokens"]), (text, 24))
            self.assertAlmostEqual(line[name]["tokens_per_call"], 24 / line[name]["target_calls"], places=5)
        self.assertEqual((line["plain"]["target_calls"], line["plain"]["drafted"]), (24, 0))

    def test_the_target_is_made_once(self):
        file = Path(self.first["target"]["file"])
        self.assertEqual((file.parent, self.first["target"]["bytes"]), (self.cache / "outrider", file.stat().st_size))
        before = file.stat()
        line = self.demo("-n", 2)
        self.assertFalse(line["target"]["made"])
        self.assertEqual({**self.first["target"], "made": False}, line["target"])
        self.assertEqual((file.stat().st_ino, file.stat().st_mtime_ns), (before.st_ino, before.st_mtime_ns))
        self.assertEqual(self.names(), [file.name])

    def test_what_was_killed_leaves_nothing_for_ever(self):
        folder = self.cache / "outrider"
        gone = subprocess.Popen(["true"])
        gone.wait()
        name = "demo-300M-f16.gguf"
        left = [f"{name}.{gone.pid}.new", f"{name}.{gone.pid}.original", f"{name}.{gone.pid}.new.{gone.pid}.tmp"]
        others = [f"{name}.{os.getpid()}.new", f"{name}.new", f"mine.{gone.pid}.new", f"{name}.{gone.pid}.old"]
        for file in left + others:
            (folder / file).write_text("unfinished")
        self.demo("-n", 2)
        self.assertEqual(self.names(), sorted([Path(self.first["target"]["file"]).name, *others]))
        for file in others:
            (folder / file).unlink()

    def test_killed_while_it_writes(self):
        with Background("demo", "--size", "300M", "-t", 1, **self.variables) as demo:
            wait_until(lambda: any(name.endswith(".tmp") for name in self.names()), "the file grows")
            demo.process.kill()
            demo.process.wait()
        self.assertTrue(any("300M" in name for name in self.names()))
        self.demo("-n", 2)
        self.assertEqual(self.names(), [Path(self.first["target"]["file"]).name])

    def test_killed_in_a_container(self):
        """There the next run has the same process number, so its unfinished file bears the same name."""
        with tempfile.TemporaryDirectory() as cache:
            folder = Path(cache, "outrider")
            folder.mkdir()
            name = Path(self.first["target"]["file"]).name
            script = 'touch "$1.$$.new.$$.tmp"; exec "$2" demo --size "$3" --json -n 2'
            done = subprocess.run(["sh", "-c", script, "sh", folder / name, BIN / "outrider", SIZE], capture_output=True, timeout=PATIENCE,
                                  env={**ENVIRONMENT, "XDG_CACHE_HOME": cache})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([file.name for file in folder.iterdir()], [name])

    def test_a_broken_file_is_replaced(self):
        file = Path(self.first["target"]["file"])
        whole = file.read_bytes()

        def inflate(source, size):
            outrider("model", "inflate", source, file, size, "--type", "F16", "--force")

        for spoil in (lambda: file.write_bytes(whole[:-1000]), lambda: file.write_bytes(b""), lambda: file.write_text("mine"),
                      lambda: inflate(TARGET, "25M"), lambda: inflate(DRAFT, SIZE)):
            spoil()
            line = self.demo("-n", 2)
            self.assertTrue(line["equal"] and line["target"]["made"])
            self.assertEqual(file.read_bytes(), whole)

    def test_without_a_terminal(self):
        out, error = outrider("demo", "--size", SIZE, "-n", 24, "-s", 7, "-p", "It was", **self.variables)
        texts = out.decode()
        self.assertRegex(texts, "(?s)^plain: \\d+ tokens/s, 1\\.0 per target call\nIt was(.*)\n\ndrafted: .* per target call\nIt was\\1\n\n"
                                + LINE % 7 + "\n$")
        self.assertNotIn("\x1b", texts)
        self.assertIn("verifier (pid", error)
        self.assertIn("drafter (pid", error)

    def test_side_by_side_in_a_terminal(self):
        code, seen = run_in_terminal("--size", SIZE, "-n", 24, "-s", 7, **self.variables)
        self.assertEqual(code, 0, seen)
        last = seen.rpartition("\x1b[J")[2]
        self.assertRegex(last, "^" + LINE % 7 + "\r\n$")
        drawn = re.split(r"\x1b\[\d+A\r", seen)[-1].split("\x1b[J")[0].replace("\x1b[K", "").split("\r\n")
        self.assertRegex(drawn[0], r"^plain: \d+ tokens/s +\| drafted: \d+ tokens/s *$")
        left, right = zip(*(line.split(" | ") for line in drawn[1:] if line))
        self.assertEqual([line.rstrip() for line in left], [line.rstrip() for line in right])
        text = "Once upon a time" + self.first["plain"]["text"]
        self.assertEqual(" ".join(line.strip() for line in left), text.replace("\n", " ").strip())
        self.assertTrue(all(len(line) < 80 for line in drawn))

    def test_a_warning_in_a_terminal_stays(self):
        killed = []

        def kill_drafter(pid, seen):
            if not killed and re.search(rb"drafted: [1-9]", seen):
                killed.append(children(pid)[PROGRAMS[2]])
                os.kill(killed[0], signal.SIGKILL)

        code, seen = run_in_terminal("--size", SIZE, "-n", 400, "-s", 7, look=kill_drafter, **self.variables)
        self.assertEqual((code, len(killed)), (0, 1), seen)
        after = re.split("the text goes on by plain decoding\\s+", seen)
        self.assertEqual(len(after), 2, seen)
        self.assertTrue(after[1].startswith("plain: "), after[1][:200])

    def test_a_narrow_terminal_gets_lines(self):
        code, seen = run_in_terminal("--size", SIZE, "-n", 4, "-s", 7, size=struct.pack("HHHH", 24, 30, 0, 0), **self.variables)
        self.assertEqual(code, 0, seen)
        self.assertNotIn("\x1b[", seen)
        self.assertRegex(seen, LINE % 7)

    def test_ctrl_c_while_it_writes(self):
        with Background("demo", "--size", SIZE, "-n", 100000, "-s", 7, **self.variables) as command:
            roles = command.roles(*PROGRAMS)
            time.sleep(0.5)
            command.process.send_signal(signal.SIGINT)
            code, out, error = command.end()
        self.assertEqual((code, out), (130, b""), error)
        wait_until(lambda: not any(map(is_alive, roles.values())), "no process is left")

    def test_ctrl_c_while_the_target_is_made(self):
        with tempfile.TemporaryDirectory() as folder:
            with Background("demo", "--size", "300M", "-t", 1, XDG_CACHE_HOME=folder) as command:
                command.hears("making the demonstration target")
                wait_until(lambda: list((Path(folder) / "outrider").iterdir()), "the file grows")
                command.process.send_signal(signal.SIGINT)
                code, _, error = command.end()
                self.assertEqual(code, 130, error)
                self.assertEqual(children(command.process.pid), {})
            self.assertEqual(self.names(Path(folder)), [])

    def test_no_room(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([BIN / "outrider", "demo", "--size", SIZE], env={**ENVIRONMENT, "XDG_CACHE_HOME": folder}, preexec_fn=limit,
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
            self.assertRegex(done.stderr, "XDG_CACHE_HOME .*cannot write .*ulimit -f")
            self.assertEqual(self.names(Path(folder)), [])
        self.assertIn("set XDG_CACHE_HOME", outrider("demo", XDG_CACHE_HOME="/dev/null", code=1)[1])
        self.assertIn("set XDG_CACHE_HOME", outrider("demo", XDG_CACHE_HOME="here", HOME="", code=1)[1])

    def test_refusals(self):
        for words, said in ((["--type", "Q9_9"], "--type: "), (["--size", "7M"], "--size: no shape"), (["--size", "much"], "--size: 'much'"), (["-n", 0], "-n/--predict"),
                            (["-s", "x"], "-s/--seed"), (["-t", 1000], "-t/--threads: 1000")):
            self.assertIn(said, outrider("demo", *words, code=2, **self.variables)[1])


class TargetAlone(unittest.TestCase):
    def test_guesses_are_looked_up(self):
        words = ["-m", TARGET, "-p", "the king of the king of the king of the", "-n", 48, "-s", 3]
        for dist in (["--temp", 0], ["--temp", 1], ["--temp", 0, "--accept", "greedy"], ["--accept", "naive"]):
            line = generate(*words, *dist)
            self.assertEqual((line["draft_method"], line["draft_policy"], line["draft_ahead"]), ("ngram", "auto", 0), dist)
            self.assertGreater(line["lookup_rounds"], 0)
            if "naive" not in dist:
                self.assertEqual(line["tokens"], generate(*words, *dist, "--plain")["tokens"], dist)

    def test_it_is_said_in_one_line(self):
        words = ["generate", "-m", TARGET, "-p", "x", "-n", 2]
        _, error = outrider(*words)
        self.assertEqual(error.count("no draft model is given"), 1)
        self.assertNotIn("drafter (pid", error)
        for more in (["--plain"], ["-md", DRAFT]):
            self.assertNotIn("no draft model", outrider(*words, *more)[1])

    def test_what_needs_a_draft_model_asks_for_it(self):
        asks = "needs a draft model: name one with -md"
        for words in (["--draft-method", "chain"], ["--accept", "sps"], ["--multi-model", DRAFT], ["--vocab-map", "slrs"], ["--draft-policy", "fixed"], ["--draft-ahead", 2],
                      ["--threads-draft", 1], ["--acceptance-file", "x"], ["--packed-draft", "off"]):
            self.assertIn(asks, outrider("generate", "-m", TARGET, "-p", "x", *words, code=2)[1])
            outrider("generate", "-m", TARGET, "-p", "x", "-n", 1, *words, "--plain")
        for program in (["up", "--multi-model", DRAFT], ["up", "--cpu-range-draft", "0-0"], ["bench", "load", "--draft-method", "chain"]):
            self.assertIn(asks, outrider(*program, "-m", TARGET, code=2)[1])
        self.assertIn("name a draft model with -md", outrider("bench", "-m", TARGET, code=2)[1])

    def test_a_service_takes_a_drafter_later(self):
        words = ["-p", "the king of the king of the king of the", "-n", 48, "-s", 3]
        with Cluster("-m", TARGET, "--http", "none") as up:
            there = ["--connect", up.endpoint]
            self.assertIn(b"none here; those of other machines may connect", up.process.stdout.readline() + up.process.stdout.readline())
            plain = generate(*words, "--plain", *there)["tokens"]
            looked_up = generate(*words, *there)
            self.assertEqual(looked_up["tokens"], plain)
            self.assertGreater(looked_up["lookup_rounds"], 0)
            with Background("-m", DRAFT, "--connect", up.endpoint, program="outrider-drafter") as drafter:
                drafter.hears("welcomed by outrider")
                line = generate(*words, "--draft-policy", "fixed", *there)
                self.assertGreater(line["drafted"], 0)
                self.assertEqual(line["tokens"], plain)

    def test_load_needs_no_draft_model(self):
        out, error = outrider("bench", "load", "-m", TARGET, "--sessions", "1,2", "--seconds", 1, "--check", "--json")
        self.assertEqual([(step["sessions"], step["wrong"], step["errors"]) for step in json.loads(out)], [(1, 0, 0), (2, 0, 0)])
        self.assertEqual(error.count("no draft model is given"), 1)


if __name__ == "__main__":
    unittest.main()
