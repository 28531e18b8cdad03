"""Goal: however many ranks run the target, and in how many stages, the text is the same; whichever of its processes dies, the user learns which,
nothing hangs and nobody stays behind; ranks that wait cost next to nothing.
Method: local clusters with --np and --pp against one with a single rank, jobs started by hand with mpirun, signals, /proc. The numbers of ranks
are those of OUTRIDER_RANKS (the long run takes 8)."""
import json
import os
import signal
import struct
import subprocess
import tempfile
import time
import unittest
from pathlib import Path
from unittest.mock import patch

import cli
from cli import BIN, DRAFT, ENVIRONMENT, PATIENCE, ROOT, TARGET
from cli import Background, cpu_s, data, generate, is_alive, outrider, reference, wait_until

COUNTS = [int(count) for count in os.environ.get("OUTRIDER_RANKS", "2,4").split(",")]
LAYOUTS = [["--np", count] for count in COUNTS] + [["--np", count, "--pp", 2] for count in COUNTS]
QWEN2 = ROOT / "tests/model/data/qwen2-14-heads-q8_0.gguf"  # one layer: it cannot be split into stages
MPI = {**ENVIRONMENT, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none"]
VERIFIER = BIN / "outrider-verifier"
NOWHERE = "tcp://127.0.0.1:9"
LONG_TEXT = ["-p", "Once upon a time", "-n", 400, "--temp", 0, "--ignore-eos", "--draft-nodes", 64, "--draft-policy", "fixed"]
IDLE_SECONDS = 5
IDLE_SHARE_MAX = 0.05  # of a core; measured values are below 0.01, but machines of a CI are not alone


def words(*parts):
    return [str(part) for part in parts]


def ranks_of(mpirun):
    """Return the process ids of the job's ranks on this machine, in order."""
    found = {}
    for child in Path(f"/proc/{mpirun}/task/{mpirun}/children").read_text().split():
        try:
            variables = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
            found.update({int(text.split(b"=")[1]): int(child) for text in variables if text.startswith(b"OMPI_COMM_WORLD_RANK=")})
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            pass  # it ended, or has not begun
    return [found[rank] for rank in sorted(found)]


def mpirun_of(command):
    """Return the verifier of a command's cluster: the child of the process that keeps it."""
    pid = command.process.pid

    def found():
        keepers = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return next((child for keeper in keepers if (child := cli.children(keeper).get("mpirun"))), None)
    return wait_until(found, "mpirun")


def all_ranks(mpirun, count):
    return wait_until(lambda: len(found := ranks_of(mpirun)) == count and found, f"{count} ranks")


def shared_memory(pid):
    """Remove what a killed mpirun could not."""
    maps = Path(f"/proc/{pid}/maps").read_text().split()
    return {Path(word) for word in maps if word.startswith("/dev/shm/")}


def with_unknown_token(gguf):
    """Return the model with a vocabulary that takes any text, with token 0 for what it lacks. Two entries of 64 bytes keep the tensors aligned."""
    added = b"".join(struct.pack("<Q", len(key)) + key + struct.pack("<II", 4, 0) for key in (b"tokenizer.ggml.unknown_token_id", b"x"))
    entries = struct.unpack_from("<Q", gguf, 16)[0] + 2
    return gguf[:16] + struct.pack("<Q", entries) + added + gguf[24:]


class Cluster(cli.Cluster):
    """A cluster that is ended in order. If it were killed, it could not remove its ready file."""

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate()


class Job:
    """Verifiers under an mpirun of our own. Several lists of words are an MPMD job."""

    def __init__(self, *parts):
        line = [*MPIRUN]
        for i, (count, options) in enumerate(parts):
            line += [*([":"] if i else []), "-np", str(count), str(VERIFIER), *words(*options)]
        self.process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=MPI)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()  # killed, it would leave shared memory behind
        self.process.communicate()

    def end(self):
        out, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out.decode(errors="replace")


class SameText(unittest.TestCase):
    """Send the same requests to clusters that differ in their ranks only."""

    def texts(self, cluster, prompts, count):
        def ids(prompt, *sampling):
            return generate("--connect", cluster.endpoint, "-p", prompt, "-n", count, "--ignore-eos", *sampling)["tokens"]
        return [(ids(prompt, "--temp", 0), ids(prompt, "--temp", 0.9, "-s", 11)) for prompt in prompts]

    def check(self, options, prompts, count, layouts=LAYOUTS):
        with Cluster("--log-level", "warn", *options) as cluster:
            expected = self.texts(cluster, prompts, count)
        for layout in layouts:
            with self.subTest(layout), Cluster("--log-level", "warn", *options, *layout) as cluster:
                self.assertEqual(self.texts(cluster, prompts, count), expected)
        return expected

    def check_reference(self, name, options):
        prompts = reference(name)
        texts = self.check(options, [prompt["text"] for prompt in prompts], 24)
        for prompt, (greedy, _) in zip(prompts, texts):
            sure = prompt["sure"][:24]
            self.assertEqual(greedy[:len(sure)], sure)

    def test_drafted(self):
        self.check_reference("tales-6m-f16", ["-m", TARGET, "-md", DRAFT])

    def test_beside_sixteen_others(self):
        prompts = reference("tales-6m-f16")[:2]
        options = ["--log-level", "warn", "-m", TARGET, "-md", DRAFT]
        seen = []
        for layout in [[], *LAYOUTS[:len(COUNTS)]]:
            with self.subTest(layout), Cluster(*options, *layout) as cluster:
                with Background("bench", "load", "--connect", cluster.endpoint, "--sessions", 16, "--seconds", 4, "--max-tokens", 24, "--check") as others:
                    time.sleep(1)  # the plain texts that theirs are compared with, then the crowd
                    seen.append(self.texts(cluster, [prompt["text"] for prompt in prompts], 24))
                    code, _, error = others.end()
                self.assertEqual(code, 0, error)
                self.assertEqual(seen[-1], seen[0])
        for prompt, (greedy, _) in zip(prompts, seen[0]):
            self.assertEqual(greedy[:len(prompt["sure"][:24])], prompt["sure"][:24])

    def test_units_that_do_not_divide(self):
        self.check_reference("stories260K-f32", ["-m", data("models/stories260K-f32.gguf"), "--plain"])

    def test_fourteen_heads(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "qwen2.gguf")
            path.write_bytes(with_unknown_token(QWEN2.read_bytes()))
            self.check(["-m", path, "--plain"], ["AB", "HELLO [WORLD]", "XYZ" * 20], 24, [["--np", count] for count in COUNTS])

    def test_rounded_caches(self):
        self.check(["-m", TARGET, "-md", DRAFT, "-ctk", "q8_0", "-ctv", "f16", "--kv-cache-size", "8M"], ["The king", "Hwaet"], 24)


class KilledProcesses(unittest.TestCase):
    COUNT = max(COUNTS)

    def start(self, *options):
        run = Background("generate", "--no-display-prompt", *LONG_TEXT, "--np", self.COUNT, *options)
        self.addCleanup(run.__exit__)
        roles = run.roles("outrider-coordinator", "outrider", "outrider-drafter")
        run.first = os.read(run.process.stdout.fileno(), 1)  # some text is there
        mpirun = mpirun_of(run)
        ranks = all_ranks(mpirun, self.COUNT)
        return run, mpirun, ranks, [*roles.values(), mpirun, *ranks]

    def assert_all_ended(self, pids):
        for pid in pids:
            wait_until(lambda pid=pid: not is_alive(pid), f"the end of process {pid}")

    def test_a_rank(self):
        for rank in (0, self.COUNT - 1):
            run, _, ranks, pids = self.start()
            os.kill(ranks[rank], signal.SIGKILL)
            code, _, error = run.end()
            self.assertEqual(code, 1)
            self.assertRegex(error, rf"outrider generate: outrider-verifier .*: mpirun noticed that process rank {rank} .* on node \S+ .*signal 9")
            self.assert_all_ended(pids)

    def test_mpirun(self):
        run, mpirun, ranks, pids = self.start()
        for segment in shared_memory(ranks[0]):
            self.addCleanup(segment.unlink, missing_ok=True)
        os.kill(mpirun, signal.SIGKILL)
        code, _, error = run.end()
        self.assertEqual(code, 1)
        self.assertIn("outrider-verifier was killed by signal 9", error)
        self.assert_all_ended(pids)

    def test_the_command_itself(self):
        run, _, ranks, pids = self.start()
        segments = set().union(*map(shared_memory, ranks))
        self.assertTrue(segments)
        run.process.kill()
        run.end()
        self.assert_all_ended(pids)
        self.assertFalse([segment for segment in segments if segment.exists()])  # mpirun had the time to clean up

    def test_interrupt(self):
        run, _, _, pids = self.start()
        run.process.send_signal(signal.SIGINT)
        self.assertEqual(run.end()[0], 130)
        self.assert_all_ended(pids)

    def test_a_rank_that_hangs(self):
        text = [*LONG_TEXT, "-n", 120]
        plain = generate("--plain", *text)
        with patch.dict(cli.ENVIRONMENT, OUTRIDER_RANK_TIMEOUT="2"):
            cluster = Cluster("-m", TARGET, "-md", DRAFT, "--np", 2, "--log-level", "warn")
        with cluster:
            old = all_ranks(mpirun_of(cluster), 2)
            generate("--connect", cluster.endpoint, "-p", "x", "-n", 1)  # the job serves
            with Background("generate", "--json", "--connect", cluster.endpoint, *text) as run:
                os.kill(old[1], signal.SIGSTOP)
                self.assertRegex(cluster.hears("error"), r"rank 0 on \S+: nothing from the other ranks for 2 s in .*: one of them is stuck")
                code, out, error = run.end()
                self.assertEqual(code, 0, error)
                self.assertEqual(json.loads(out)["tokens"], plain["tokens"])
            wait_until(lambda: not any(map(is_alive, old)), "the end of the old ranks")

    def test_what_a_killed_command_leaves(self):
        with tempfile.TemporaryDirectory() as folder, patch.dict(cli.ENVIRONMENT, TMPDIR=folder):
            ready = Path(folder, f"outrider-{os.geteuid()}", "verifier-of-{}.ready")
            with Cluster("--plain") as killed:
                left = Path(str(ready).format(killed.process.pid))
                wait_until(left.exists, "readiness")
                killed.process.kill()
                killed.process.wait()
            left.touch()  # its verifier may have removed it
            foreign = left.with_name("verifier-of-me.ready")
            foreign.touch()
            with Cluster("--plain") as cluster:
                wait_until(Path(str(ready).format(cluster.process.pid)).exists, "readiness")
                self.assertFalse(left.exists())
                self.assertTrue(foreign.exists())

    def test_a_job_that_is_started_again(self):
        text = [*LONG_TEXT, "-n", 120]
        plain = generate("--plain", *text)
        with Cluster("-m", TARGET, "-md", DRAFT, "--np", 2, "--log-level", "warn") as cluster:
            old = all_ranks(mpirun_of(cluster), 2)
            generate("--connect", cluster.endpoint, "-p", "x", "-n", 1)  # the job serves
            with Background("generate", "--json", "--connect", cluster.endpoint, *text) as run:
                os.kill(old[1], signal.SIGKILL)
                code, out, error = run.end()
                self.assertEqual(code, 0, error)
                self.assertEqual(json.loads(out)["tokens"], plain["tokens"])
            wait_until(lambda: not any(map(is_alive, old)), "the end of the old ranks")


class Jobs(unittest.TestCase):
    """The user runs mpirun by hand, as with a host file."""

    def test_idle_ranks_and_an_orderly_end(self):
        with tempfile.TemporaryDirectory() as folder, Cluster("--plain") as cluster:
            os.kill(cluster.roles("outrider-verifier")["outrider-verifier"], signal.SIGSTOP)
            ready = Path(folder, "ready")
            ready.write_text("of one that was killed\n")
            count = max(COUNTS)
            with Job((count, ["-m", TARGET, "--connect", cluster.endpoint, "--ready-file", ready])) as job:
                ranks = all_ranks(job.process.pid, count)
                wait_until(lambda: ready.exists() and ready.read_text() == "ready\n", "readiness")
                time.sleep(1.5)  # what the start has woken may settle
                before = [cpu_s(pid) for pid in ranks]
                time.sleep(IDLE_SECONDS)
                shares = [(cpu_s(pid) - used) / IDLE_SECONDS for pid, used in zip(ranks, before)]
                self.assertLess(max(shares), IDLE_SHARE_MAX, shares)
                os.kill(ranks[0], signal.SIGTERM)
                code, out = job.end()
                self.assertEqual(code, 0, out)
                self.assertFalse(ready.exists())
                self.assertFalse(list(filter(is_alive, ranks)))

    def fails(self, code, pattern, *parts):
        with Job(*parts) as job:
            got, out = job.end()
            self.assertEqual(got, code, out)
            self.assertEqual(len([line for line in out.splitlines() if " error verifier" in line]), 1, out)
            self.assertRegex(out, pattern)

    def test_trouble_names_rank_and_host(self):
        target = ["-m", TARGET, "--connect", NOWHERE]
        self.fails(3, r"rank 0 on \S+: rank 1 on \S+ has another model file", (1, target), (1, ["-m", DRAFT, "--connect", NOWHERE]))
        self.fails(1, r"rank 1 on \S+: .*none\.gguf", (1, target), (1, ["-m", "none.gguf", "--connect", NOWHERE]))
        self.fails(2, r"rank 0 on \S+: unknown option '--conect'", (2, ["--conect", NOWHERE]))
        self.fails(2, r"rank 1 on \S+: unknown option '--conect'", (1, target), (1, ["--conect", NOWHERE]))
        self.fails(2, r"rank 0 on \S+: 3 ranks in 2 stages: .*--pp", (3, [*target, "--pp", 2]))
        self.fails(2, r"rank 0 on \S+: --pp is not the same", (1, [*target, "--pp", 2]), (1, target))

    def test_counts_that_cannot_be(self):
        for options in (["--np", 3], ["--np", 0], ["--np", 16], ["--np", 4, "--pp", 3], ["--np", 2, "--pp", 0], ["--np", 1, "--pp", 2]):
            for command in (["generate", "-p", "x"], ["up"], ["bench"]):
                self.assertRegex(outrider(*command, *options, code=2)[1], "--np: .*--pp")

    def test_without_mpirun(self):
        _, error = outrider("generate", "-p", "x", "--np", 2, code=1, PATH="/nonexistent")
        self.assertRegex(error, "--np: mpirun is not installed.*openmpi-bin")


if __name__ == "__main__":
    unittest.main()
