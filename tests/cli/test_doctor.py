"""Goal: the doctor finds what is wrong, says what to do about it, and sees nothing wrong where nothing is; it never hangs and never disturbs
what it looks at.
Method: the demonstration models, damaged files, taken ports, real coordinators with and without verifier and drafter, and a false one that
answers what we want; states, sentences and exit codes, mostly by way of --json."""
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import struct
import tempfile
import threading
import time
import unittest
from pathlib import Path

from cli import BIN, DRAFT, OTHER_VOCABULARY, TARGET, Background, Cluster, ZmtpDealer, call, generate, outrider, wait_until

ANY_PORT = "tcp://127.0.0.1:*"  # so that no test depends on what else runs on this machine
PROTOCOL = 2  # common/base/version.h


def examine(*words, code=0, command="outrider", **variables):
    """Return the checks of `doctor --json` by (group, name), and the rest of the line."""
    out, error = call(command, "doctor", "--json", *words, code=code, **variables)
    assert out.endswith(b"\n") and out.count(b"\n") == 1, out
    assert error == "", error
    line = json.loads(out)
    checks = {(check["group"], check["name"]): check for check in line["checks"]}
    assert len(checks) == len(line["checks"]), "two checks of one name"
    for check in line["checks"]:
        assert list(check) == ["group", "name", "state", "detail", "advice"], check
        assert (check["state"] == "ok") == (check["advice"] is None), check
    counts = {state: sum(check["state"] == state for check in line["checks"]) for state in ("ok", "warn", "fail")}
    assert (line["ok"], line["warnings"], line["failed"]) == (counts["ok"], counts["warn"], counts["fail"]), line
    assert (code == 1) == (counts["fail"] > 0), line
    return checks, line


def of_this_machine(checks):
    """Return how many warnings there are where all is well: one if this machine has several memory nodes."""
    return int(checks["installation", "memory nodes"]["state"] == "warn")


@contextlib.contextmanager
def listener():
    """Open a port that somebody else listens on. Connections are taken, and nothing is said."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(16)
        yield f"tcp://127.0.0.1:{taken.getsockname()[1]}"


def dead_endpoint():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{unused.getsockname()[1]}"


class Coordinator(Background):
    """A coordinator without verifier and drafter."""

    def __init__(self, *words, address="127.0.0.1"):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            self.port = unused.getsockname()[1]
        self.endpoint = f"tcp://127.0.0.1:{self.port}"
        super().__init__("-m", TARGET, "--listen", f"tcp://{address}:{self.port}", *words, program="outrider-coordinator")
        self.hears("listening on")


class FalseCoordinator:
    """A peer that answers every Hello with one frame, and heartbeats as long as it is told to."""

    class Connection(ZmtpDealer):
        def __init__(self, connection):
            self.socket = connection
            connection.settimeout(10)
            connection.sendall(b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
            self.read(64)
            self.send(b"\x05READY" + b"\x0bSocket-Type" + struct.pack(">I", 6) + b"ROUTER", flags=4)
            self.receive(commands=True)

    def __init__(self, answer, beats=0):
        self.answer, self.beats = answer, beats
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.talk, args=(self.socket.accept()[0],), daemon=True).start()

    def talk(self, connection):
        with contextlib.suppress(OSError), connection:
            peer = self.Connection(connection)
            peer.receive()
            peer.send(self.answer)
            for _ in range(self.beats):
                peer.receive()
                peer.send(HEARTBEAT)
            peer.receive()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def field(number, value):
    """Return a protobuf field: a number below 128 (version, code, bool), eight bytes, or text."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    if isinstance(value, bytes) and len(value) == 8:
        return bytes([number << 3 | 1]) + value
    text = value.encode()
    return bytes([number << 3 | 2, len(text)]) + text


def envelope(version, body, message):
    tag = body << 3 | 2
    assert len(message) < 128
    return field(1, version) + (bytes([tag]) if tag < 128 else bytes([tag & 127 | 128, tag >> 7])) + bytes([len(message)]) + message


HEARTBEAT = envelope(PROTOCOL, 19, b"")


def welcome(software="outrider 0.1.0", vocab_hash=bytes(8), model="", arith_id="", drafters=0):
    return envelope(PROTOCOL, 4, field(1, software) + field(4, vocab_hash) + field(7, model) + field(8, arith_id) + field(9, drafters))


class Installation(unittest.TestCase):
    def test_all_is_well(self):
        checks, line = examine("--listen", ANY_PORT)
        self.assertEqual((line["warnings"], line["failed"]), (of_this_machine(checks), 0), line)
        self.assertRegex(checks["installation", "memory nodes"]["detail"], r"^one node$|^\d+ nodes: CPUs \d")
        self.assertEqual({group for group, _ in checks}, {"installation", "models", "ports"})
        self.assertRegex(line["next"], "^outrider generate -p ")
        self.assertRegex(checks["installation", "version"]["detail"], r"outrider \d+\.\d+\.\d+ \(protocol \d+, arithmetic \S+\)")
        for role in ("coordinator", "verifier", "drafter"):
            self.assertIn("same version", checks["installation", role]["detail"])
        for role, matrices in (("target", 43), ("draft", 15)):
            self.assertIn(f"{matrices} F16", checks["models", role + " weights"]["detail"])
            self.assertIn("4096 tokens", checks["models", role + " vocabulary"]["detail"])
        # The size of the cache: K and V, four bytes each, of every position, layer and key-value head.
        facts = json.loads(outrider("model", "inspect", "--json", TARGET)[0])
        numbers = {key.removeprefix("llama."): value for key, value in facts["metadata"]}
        heads, kv_heads = int(numbers["attention.head_count"]), int(numbers["attention.head_count_kv"])
        cache = 8 * 512 * int(numbers["block_count"]) * kv_heads * int(numbers["embedding_length"]) // heads
        self.assertIn(f"{cache / 2 ** 20:.1f} MiB more", checks["models", "target weights"]["detail"])

    def test_the_text_says_the_same(self):
        out, error = outrider("doctor", "--listen", ANY_PORT, OUTRIDER_KERNELS="none", code=1)
        text = out.decode()
        self.assertEqual(error, "")
        self.assertRegex(text, r"(?m)^installation$\n  ok    version ")
        self.assertRegex(text, r"(?m)^  FAIL  kernels .*'none'.*ref.*\n        -> unset OUTRIDER_KERNELS")
        self.assertRegex(text, r"\n\n\d+ checks: 1 failed, 0 warnings\.\nnext: .*outrider doctor again\n$")
        self.assertNotIn("\x1b", text)

    def test_kernels(self):
        checks, _ = examine("--listen", ANY_PORT, OUTRIDER_KERNELS="ref")
        self.assertTrue(checks["installation", "kernels"]["detail"].startswith("ref"))
        checks, _ = examine("--listen", ANY_PORT, OUTRIDER_KERNELS="abacus", code=1)
        self.assertEqual(checks["installation", "kernels"]["state"], "fail")

    def test_what_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            checks, _ = examine("--listen", ANY_PORT, PATH=folder, TMPDIR=f"{folder}/absent", OUTRIDER_MODELS=folder, code=1)
        self.assertEqual(checks["installation", "mpirun"]["state"], "warn")
        self.assertEqual(checks["installation", "temp folder"]["state"], "fail")
        self.assertEqual(checks["models", "demonstration"]["state"], "warn")

    def test_programs_of_another_version_or_none(self):
        """The command looks beside itself. Here a copy of it stands among programs that are not what they should be."""
        with tempfile.TemporaryDirectory() as folder:
            command = Path(folder, "outrider")
            shutil.copy(BIN / "outrider", command)
            for name, script in (("outrider-verifier", "echo outrider-verifier 9.9.9"), ("outrider-drafter", "exec sleep 60")):
                program = Path(folder, name)
                program.write_text(f"#!/bin/sh\n{script}\n")
                program.chmod(0o755)
            checks, _ = examine("--listen", ANY_PORT, command=command, code=1)
            self.assertRegex(checks["installation", "coordinator"]["detail"], "missing")
            self.assertIn("9.9.9", checks["installation", "verifier"]["detail"])
            self.assertIn("did not end within", checks["installation", "drafter"]["detail"])
            self.assertEqual({checks["installation", role]["state"] for role in ("coordinator", "verifier", "drafter")}, {"fail"})

    def test_bad_options(self):
        self.assertIn("--listen", outrider("doctor", "--lisen", "x", code=2)[1])
        outrider("doctor", "word", code=2)
        self.assertIn(b"usage: outrider doctor", outrider("doctor", "--help")[0])
        with open("/dev/full", "wb") as full:
            self.assertIn("cannot write", outrider("doctor", "--listen", ANY_PORT, stdout=full, code=1)[1])


class Models(unittest.TestCase):
    def test_files_that_are_no_model(self):
        with tempfile.TemporaryDirectory() as folder:
            text, short = Path(folder, "text.gguf"), Path(folder, "short.gguf")
            text.write_text("Once upon a time\n" * 100)
            short.write_bytes(TARGET.read_bytes()[:1_000_000])
            for path in (text, short, Path(folder, "absent.gguf"), Path(folder)):
                checks, line = examine("--listen", ANY_PORT, "-m", path, "-md", DRAFT, code=1)
                self.assertEqual(checks["models", "target file"]["state"], "fail")
                self.assertIn(path.name, checks["models", "target file"]["detail"])
                self.assertEqual(line["failed"], 1, line)
                self.assertEqual(checks["models", "draft vocabulary"]["state"], "ok")  # the others are still looked at
                self.assertNotIn(("models", "pair"), checks)
                self.assertIn("doctor again", line["next"])

    def test_a_name_that_would_spoil_the_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.fsencode(folder) + b"/\x1b[31m\xff.gguf"
            Path(os.fsdecode(path)).write_bytes(TARGET.read_bytes())
            checks, line = examine("--listen", ANY_PORT, "-m", os.fsdecode(path))
            self.assertIn("/?[31m?.gguf", checks["models", "target file"]["detail"])
            self.assertIn("/?[31m?.gguf", line["next"])

    def test_other_architecture_and_other_weights(self):
        whole = TARGET.read_bytes()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.gguf")
            name = struct.pack("<Q", 5) + b"llama"
            at = whole.index(name, whole.index(b"general.architecture"))
            path.write_bytes(whole[:at] + struct.pack("<Q", 5) + b"alpha" + whole[at + len(name):])
            checks, line = examine("--listen", ANY_PORT, "-m", path, code=1)
            self.assertIn("alpha", checks["models", "target model"]["detail"])
            self.assertEqual((line["failed"], checks["models", "target vocabulary"]["state"]), (1, "ok"))
            # The name, two dimensions, then the type: 1 is F16, 19 is IQ1_S.
            at = whole.index(b"blk.0.ffn_up.weight") + len("blk.0.ffn_up.weight") + 4 + 16
            self.assertEqual(whole[at:at + 4], struct.pack("<I", 1))
            path.write_bytes(whole[:at] + struct.pack("<I", 19) + whole[at + 4:])
            checks, line = examine("--listen", ANY_PORT, "-m", path, code=1)
            self.assertRegex(checks["models", "target weights"]["detail"], r": 1 IQ1_S$")
            self.assertEqual(line["failed"], 1)

    def test_a_pair_of_two_vocabularies(self):
        checks, _ = examine("--listen", ANY_PORT, "-m", TARGET, "-md", OTHER_VOCABULARY)
        self.assertEqual(checks["models", "pair"]["state"], "warn")
        self.assertIn("model compare", checks["models", "pair"]["advice"])
        checks, _ = examine("--listen", ANY_PORT, "-m", TARGET, "-md", TARGET)
        self.assertEqual(checks["models", "pair"]["state"], "ok")

    def test_one_model_alone(self):
        checks, line = examine("--listen", ANY_PORT, "-m", TARGET)
        self.assertEqual(line["next"].split(" -p")[0], f"outrider generate -m {TARGET}")
        self.assertFalse([name for _, name in checks if name.startswith("draft ")])
        checks, line = examine("--listen", ANY_PORT, "-md", DRAFT)
        self.assertTrue(line["next"].startswith(f"outrider-drafter -m {DRAFT}"))
        self.assertFalse([name for _, name in checks if name.startswith("target ")])


class Ports(unittest.TestCase):
    def test_another_program(self):
        with listener() as endpoint:
            checks, _ = examine("--listen", endpoint, code=1)
        self.assertIn("another program", checks["ports", "listen"]["detail"])

    def test_a_port_that_is_taken_but_silent(self):
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            checks, _ = examine("--listen", f"tcp://127.0.0.1:{reserved.getsockname()[1]}", code=1)
        self.assertIn("in use", checks["ports", "listen"]["detail"])

    def test_no_such_address(self):
        for endpoint, pattern in (("tcp://192.0.2.77:5577", "no such address"), ("nonsense", "not an endpoint"),
                                  ("tcp://127.0.0.1:99999", "65535")):
            checks, _ = examine("--listen", endpoint, code=1)
            self.assertIn(pattern, checks["ports", "listen"]["detail"])

    def test_a_coordinator_is_found_where_it_listens(self):
        with tempfile.TemporaryDirectory() as keys, Coordinator("--keys", keys, address="0.0.0.0") as coordinator:
            checks, _ = examine("--listen", f"tcp://0.0.0.0:{coordinator.port}")
            self.assertIn("a coordinator runs there that encrypts", checks["ports", "listen"]["detail"])
        with Coordinator("--encrypt", "off", address="0.0.0.0") as coordinator:
            checks, line = examine("--listen", f"tcp://0.0.0.0:{coordinator.port}")
            self.assertIn("a coordinator runs there", checks["ports", "listen"]["detail"])
            self.assertIn(coordinator.endpoint, checks["coordinator", "connection"]["detail"])
            self.assertIn(f"--connect {coordinator.endpoint}", line["next"])

    def test_a_path_is_not_taken_from_who_listens_there(self):
        with tempfile.TemporaryDirectory() as folder:
            endpoint = f"ipc://{folder}/hub"
            with Background("-m", TARGET, "--listen", endpoint, program="outrider-coordinator") as coordinator:
                coordinator.hears("listening on")
                for _ in range(2):
                    checks, _ = examine("--listen", endpoint)
                    self.assertEqual(checks["coordinator", "encryption"]["state"], "ok")
            self.assertIn("is free", examine("--listen", endpoint)[0]["ports", "listen"]["detail"])


class Coordinators(unittest.TestCase):
    def test_one_without_verifier(self):
        with Coordinator() as coordinator:
            checks, line = examine("--connect", coordinator.endpoint, "-m", TARGET, "-md", DRAFT)
        self.assertNotIn("ports", {group for group, _ in checks})
        states = {name: check["state"] for (group, name), check in checks.items() if group == "coordinator"}
        self.assertEqual(states, {"connection": "ok", "encryption": "ok", "trust": "ok", "verifier": "warn", "drafters": "warn",
                                  "target": "ok", "draft": "ok", "round trip": "ok"})
        self.assertIn(f"outrider-verifier -m {TARGET} --connect {coordinator.endpoint}", checks["coordinator", "verifier"]["advice"])
        self.assertIn(f"outrider-drafter -m {DRAFT} --connect {coordinator.endpoint}", checks["coordinator", "drafters"]["advice"])
        self.assertEqual(line["next"], f"outrider-verifier -m {TARGET} --connect {coordinator.endpoint}")
        trips = re.search(r"median ([\d.]+) ms, longest ([\d.]+) ms, of 10", checks["coordinator", "round trip"]["detail"])
        median, longest = map(float, trips.groups())
        self.assertLessEqual(median, longest)

    def test_a_whole_cluster(self):
        with Cluster("-m", TARGET, "-md", DRAFT, "--log-level", "warn") as cluster:
            generate("--connect", cluster.endpoint, "-p", "x", "-n", 1)

            def joined():
                return examine("--connect", cluster.endpoint)[0]["coordinator", "drafters"]["state"] == "ok"
            wait_until(joined, "the drafter")
            checks, line = examine("--connect", cluster.endpoint)
            self.assertEqual(line["warnings"], of_this_machine(checks), line)
            self.assertIn(TARGET.name, checks["coordinator", "verifier"]["detail"])
            self.assertEqual(checks["coordinator", "drafters"]["detail"], "1 connected")
            self.assertNotIn(("coordinator", "target"), checks)  # nobody said what it should be
            self.assertTrue(line["next"].startswith(f"outrider generate --connect {cluster.endpoint} -p"))
            checks, _ = examine("--connect", cluster.endpoint, "-md", OTHER_VOCABULARY)
            self.assertEqual(checks["coordinator", "draft"]["state"], "warn")
            self.assertEqual(checks["coordinator", "verifier"]["state"], "ok")
            with tempfile.TemporaryDirectory() as folder:
                other = shutil.copy(TARGET, Path(folder, "other-name.gguf"))
                checks, _ = examine("--connect", cluster.endpoint, "-m", other)
                self.assertEqual(checks["coordinator", "target name"]["state"], "warn")

    def test_over_a_network(self):
        """An address of this machine's own that is not loopback is encrypted unless that is switched off, and not trusted."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))  # nothing is sent
            except OSError:
                self.skipTest("this machine has no network")
            address = probe.getsockname()[0]
        with Coordinator("--encrypt", "off", address=address) as coordinator:
            checks, _ = examine("--connect", f"tcp://{address}:{coordinator.port}", "--encrypt", "off")
        for name in ("encryption", "trust"):
            self.assertEqual(checks["coordinator", name]["state"], "warn")
        with tempfile.TemporaryDirectory() as keys, Coordinator("--keys", keys, address=address) as coordinator:
            endpoint = f"tcp://{address}:{coordinator.port}"
            self.assertIn("outrider keys", examine("--connect", endpoint, code=1, OUTRIDER_KEYS=keys)[0]["coordinator", "keys"]["detail"])
            key = json.loads(outrider("keys", "list", "--json", OUTRIDER_KEYS=keys)[0])["coordinator"]
            outrider("keys", "trust", endpoint, key, OUTRIDER_KEYS=keys)
            checks, _ = examine("--connect", endpoint, code=1, OUTRIDER_KEYS=keys)  # not authorised yet
            self.assertIn("key", checks["coordinator", "connection"]["detail"])
            identity = json.loads(outrider("keys", "list", "--json", OUTRIDER_KEYS=keys)[0])["identity"]
            outrider("keys", "authorize", identity, "--trusted", OUTRIDER_KEYS=keys)
            time.sleep(1.2)
            checks, _ = examine("--connect", endpoint, OUTRIDER_KEYS=keys)
            for name in ("encryption", "trust"):
                self.assertEqual(checks["coordinator", name]["state"], "ok")
        with Coordinator("--trust", "none") as coordinator:
            checks, _ = examine("--connect", coordinator.endpoint)
        self.assertEqual([checks["coordinator", name]["state"] for name in ("encryption", "trust")], ["ok", "warn"])

    def test_dead_endpoints(self):
        endpoint = dead_endpoint()
        for where, pattern in ((endpoint, "nobody listens"), ("nonsense", "not an endpoint"), ("http://192.0.2.1:80", "not an endpoint"), ("ipc:///nowhere/at/all", "nobody listens")):
            checks, line = examine("--connect", where, code=1)
            self.assertIn(pattern, checks["coordinator", "connection"]["detail"])
            self.assertEqual(line["failed"], 1, line)

    def test_somebody_else_answers_or_nobody(self):
        with listener() as endpoint:
            checks, _ = examine("--connect", endpoint, code=1)
            self.assertIn("does not answer as an Outrider coordinator", checks["coordinator", "connection"]["detail"])

    def test_another_protocol(self):
        error = field(1, 2) + field(2, "this coordinator speaks protocol 7")
        for frame, pattern in ((envelope(7, 15, error), "coordinator .* says: this coordinator speaks protocol 7"),
                               (envelope(7, 4, b""), "protocol 7")):
            with FalseCoordinator(frame) as hub:
                checks, line = examine("--connect", hub.endpoint, code=1)
                self.assertRegex(checks["coordinator", "connection"]["detail"], pattern)
                self.assertIn("same release", checks["coordinator", "connection"]["advice"])
                self.assertEqual(line["failed"], 1)

    def test_another_release(self):
        with FalseCoordinator(welcome("outrider 0.0.7", b"\x01" * 8, "big\x1b[2J.gguf", "fast-9", 3), beats=10) as hub:
            checks, line = examine("--connect", hub.endpoint, "-m", TARGET, code=1)
        coordinator = {name: check for (group, name), check in checks.items() if group == "coordinator"}
        self.assertEqual({name for name, check in coordinator.items() if check["state"] == "warn"},
                         {"connection", "trust", "verifier", "target name"})
        self.assertEqual((coordinator["target"]["state"], line["failed"]), ("fail", 1))
        self.assertIn("0.0.7", coordinator["connection"]["detail"])
        self.assertIn("big?[2J.gguf, arithmetic fast-9", coordinator["verifier"]["detail"])
        self.assertIn("the same --arith, -ctk and -ctv, and the same release", coordinator["verifier"]["advice"])
        self.assertEqual(coordinator["drafters"]["detail"], "3 connected")
        self.assertEqual(coordinator["round trip"]["state"], "ok")

    def test_heartbeats_that_stop(self):
        with FalseCoordinator(welcome(), beats=4) as hub:
            checks, _ = examine("--connect", hub.endpoint, code=1)
        self.assertIn("not answered", checks["coordinator", "round trip"]["detail"])

    def test_interrupt_ends_it_and_what_was_found_is_there(self):
        with listener() as endpoint, Background("doctor", "--connect", endpoint) as doctor:
            for line in doctor.process.stdout:
                if line == b"coordinator\n":
                    break
            doctor.process.send_signal(signal.SIGINT)
            code, rest, _ = doctor.end()
            self.assertEqual(code, -signal.SIGINT)
            self.assertNotIn(b"does not answer", rest)  # the line before came while it still waited for the answer


if __name__ == "__main__":
    unittest.main()
