"""Goal: nothing that one HTTP client sends, or does not read, keeps others from being served, or memory from having a bound.
Method: real processes and hostile clients beside honest ones; texts, statuses and memory are looked at, no times.
"""
import json
import os
import signal
import socket
import tempfile
import time
import unittest
from pathlib import Path

from http_case import PROMPT, Cluster, Stream, cli, wait_until

OPERATOR = {"Authorization": "Bearer sk-operator-0001"}
ADA = {"Authorization": "Bearer sk-ada-0000001"}
BEN = {"Authorization": "Bearer sk-ben-0000001"}
KEYS = "sk-operator-0001\nsk-ada-0000001 ada\nsk-ben-0000001 ben\n"
LIMITED = json.dumps({"prompt": PROMPT, "max_tokens": 4, "temperature": 0}).encode()


class KeyedCluster(Cluster):
    """A cluster with keys of two owners and an operator. The key file may be rewritten."""

    def __init__(self, text, *words, **variables):
        self.folder = tempfile.TemporaryDirectory()
        self.file = Path(self.folder.name, "keys")
        self.file.touch(0o600)
        self.file.write_text(text)
        super().__init__("--api-key-file", self.file, *words, **variables)

    def ask(self, method, path, body=None, **headers):
        return super().ask(method, path, body, **({} if "Authorization" in headers else OPERATOR), **headers)

    def __exit__(self, *error):
        super().__exit__(*error)
        self.folder.cleanup()


# Sanitizers keep what was freed for a while, and the shadow of all.
SANITIZED = 1 if b"__asan_init" not in (cli.BIN / "outrider-coordinator").read_bytes() else 4


def memory_of(pid):
    """Return the MiB that a process has in memory. With a sanitizer it is what the process would have without."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024 / SANITIZED
    raise AssertionError("no VmRSS")


def series(cluster, name, label):
    """Return the number of a series of /metrics with this label's value."""
    for line in cluster.get("/metrics?names=plain")[2].splitlines():
        if line.startswith(f"outrider_{name}{{") and f'"{label}"' in line:
            return float(line.split()[-1])
    raise AssertionError(f"no {name} of {label}")


def hold_bodies(cluster, count, length, headers):
    """Open so many connections that have sent a body of this length but for its last byte."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{lines}Content-Length: {length}\r\n\r\n".encode()
    held = [socket.create_connection(cluster.address, timeout=cli.PATIENCE) for _ in range(count)]
    for connection in held:
        connection.sendall(head + b" " * (length - 1))
    return held


def rest_of(connection):
    """Return all that a connection still brings, up to its end."""
    text = b""
    connection.settimeout(cli.PATIENCE)
    try:
        while part := connection.recv(1 << 16):
            text += part
            if b"[DONE]" in part:
                break
    except ConnectionError:
        pass
    connection.close()
    return text


def close_all(connections):
    for connection in connections:
        connection.close()


class BodiesTest(unittest.TestCase):
    """16 bodies of 4 MiB but for the last byte held all memory for bodies: everybody heard 503 for 30 s."""

    def test_one_owners_bodies_leave_others_alone(self):
        with KeyedCluster(KEYS) as cluster:
            held = []
            for more in (16, 8):
                held += hold_bodies(cluster, more, 4 << 20, ADA)
                for headers in (BEN, OPERATOR, ADA, BEN):  # and its own program that goes on
                    self.assertEqual(cluster.post("/v1/completions", LIMITED, **headers)[0], 200, headers)
            self.assertLess(memory_of(cluster.coordinator()), 160)
            close_all(held)

    def test_without_keys_who_stands_still_gives_way(self):
        with Cluster() as cluster:
            held = hold_bodies(cluster, 24, 4 << 20, {})
            for _ in range(4):
                cluster.complete(max_tokens=4)
            large = json.dumps({"prompt": PROMPT, "user": "x" * (3 << 20), "max_tokens": 1}).encode()
            self.assertEqual(cluster.post("/v1/completions", large)[0], 200)
            # A client whose body was given up hears so when the body is whole; the last ones were not given up.
            for connection in held:
                connection.sendall(b" ")
            answers = [connection.recv(64).split(b" ")[1] for connection in held]
            self.assertIn(b"408", answers)
            self.assertIn(b"400", answers)
            self.assertLessEqual(set(answers), {b"400", b"408", b"429"})
            self.assertNotIn(b"503", answers)
            close_all(held)

    def test_what_a_body_becomes_is_counted(self):
        """3 MB of empty objects took 233 MiB while they were read."""
        with Cluster(OUTRIDER_MEMORY_MAX="8M") as cluster:
            objects = b'{"content":[' + b"{}," * 1040000 + b"{}]}"
            before = memory_of(cluster.coordinator())
            code, _, answer = cluster.post("/tokenize", objects)
            self.assertIn(code, (400, 413), answer)
            self.assertLess(memory_of(cluster.coordinator()) - before, 24)
            code, _, answer = cluster.post("/detokenize", {"tokens": [9] * 100000})
            self.assertEqual(code, 413, answer)
            self.assertIn("--memory-max", answer["error"]["message"])
            self.assertTrue(cluster.post("/detokenize", {"tokens": [9] * 1000})[2]["content"])
            pieces = cluster.post("/tokenize", {"content": PROMPT, "with_pieces": True})[2]["tokens"]
            longest = max(pieces, key=lambda token: len(token["piece"]))["id"]
            code, _, answer = cluster.post("/detokenize", {"tokens": [longest] * 40000})  # its text, not its numbers
            self.assertEqual(code, 413, answer)
            for pieces in (False, True):
                _, _, answer = cluster.post("/tokenize", {"content": PROMPT * 100, "with_pieces": pieces})
                tokens = [token["id"] for token in answer["tokens"]] if pieces else answer["tokens"]
                self.assertEqual(cluster.post("/detokenize", {"tokens": tokens})[2]["content"], PROMPT * 100)
            self.assertEqual(series(cluster, "held_bytes", "bodies"), 0)

    def test_what_can_never_fit_is_said(self):
        with Cluster(OUTRIDER_MEMORY_MAX="1M") as cluster:
            code, headers, answer = cluster.post("/v1/completions", b" " * (3 << 20))
            self.assertEqual(code, 413, answer)
            self.assertIn("--memory-max", answer["error"]["message"])
            self.assertNotIn("Retry-After", headers)
            cluster.complete(max_tokens=4)


def ticks_of(pid):
    """Return the processor time of a process, in hundredths of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def work_of_threads(pid):
    """Return nanoseconds of processor time, by thread."""
    return {thread.name: int((thread / "schedstat").read_text().split()[0]) for thread in Path(f"/proc/{pid}/task").iterdir()}


class ConnectionsTest(unittest.TestCase):
    """Connections that bring no request, in any number, keep nobody from having one."""

    def test_clients_that_send_no_more_are_no_work(self):
        """64 connections that had sent a part of a body and closed their side were asked about for ever, in one turn."""
        part = b"POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n" + b" " * 40000
        with KeyedCluster(KEYS) as cluster:
            pid = cluster.coordinator()
            held = [socket.create_connection(cluster.address, timeout=cli.PATIENCE) for _ in range(200)]
            self.assertEqual(cluster.get("/health")[0], 200)
            cli.stop(pid)  # so that all ends are there at the same time
            for connection in held:
                connection.sendall(part)
                connection.shutdown(socket.SHUT_WR)
            os.kill(pid, signal.SIGCONT)
            self.assertEqual(cluster.get("/health")[0], 200)
            time.sleep(0.5)
            before = ticks_of(pid)
            time.sleep(1)
            self.assertLess(ticks_of(pid) - before, 25 * SANITIZED)
            for connection in held:
                self.assertLessEqual(len(rest_of(connection)), 1000)
            cluster.process.send_signal(signal.SIGTERM)
            self.assertEqual(cluster.process.wait(timeout=20), 0)


class RequestsTest(unittest.TestCase):
    """One request of 4 MB took 0.5 GB."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("--sessions-max", "1")
        cls.addClassCleanup(cls.cluster.__exit__)

    def test_stop_strings_are_bounded(self):
        for stop in (["x" * 257], "y" * 257, ["a"] * 17, ["\u20ac" * 86]):
            code, _, answer = self.cluster.post("/v1/completions", {"prompt": PROMPT, "stop": stop})
            self.assertEqual((code, answer["error"]["param"]), (400, "stop"), answer)
        self.cluster.complete(stop=["z" * 250 + str(i) for i in range(16)])

    @cli.of_rest
    def test_long_texts_are_no_work_of_the_thread_that_writes_streams(self):
        """An answer of 64 Ki tokens with their pieces was made in 45 ms, which all streams waited for."""
        def work(times, ask):
            before = work_of_threads(pid)
            for _ in range(times):
                self.assertEqual(ask()[0], 200)
            return {thread: work - before.get(thread, 0) for thread, work in work_of_threads(pid).items()}
        pid = self.cluster.coordinator()
        small = work(200, lambda: self.cluster.get("/v1/models"))
        writer = max(small, key=small.get)
        for large in {"content": "\x01" * (64 << 10), "with_pieces": True}, {"content": "\x01" * (512 << 10)}:
            large = work(5, lambda: self.cluster.post("/tokenize", large))
            self.assertLess(large[writer], sum(large.values()) / 3)

    def test_a_large_request_is_not_kept_while_its_texts_wait(self):
        before = memory_of(self.cluster.coordinator())
        large = {"prompt": PROMPT, "max_tokens": 400, "ignore_eos": True, "user": "x" * (3 << 20), "stop": ["q" * 250] * 16, "n": 128}
        with Stream(self.cluster, "/v1/completions", large), Stream(self.cluster, "/v1/completions", large):
            wait_until(lambda: self.cluster.status()["sessions_live"], "a text")
            for _ in range(20):
                self.assertLessEqual(self.cluster.status()["waiting"], 3, "copies are asked for one by one")
                time.sleep(0.02)
            self.assertLess(memory_of(self.cluster.coordinator()) - before, 48)

    def test_copies_in_turn_are_the_same_texts(self):
        body = {"n": 5, "seed": 7, "temperature": 1, "max_tokens": 12, "logprobs": 2}
        choices = self.cluster.complete(**body)["choices"]
        self.assertEqual([choice["index"] for choice in choices], list(range(5)))
        self.assertEqual(len({choice["text"] for choice in choices}), 5)
        self.assertEqual(choices[0]["text"], self.cluster.complete(**{**body, "n": 1})["choices"][0]["text"])
        with Stream(self.cluster, "/v1/completions", {"prompt": PROMPT, **body}) as stream:
            texts = [""] * 5
            for event in stream:
                if event.data != "[DONE]":
                    for choice in event.json()["choices"]:
                        texts[choice["index"]] += choice["text"]
        self.assertEqual(texts, [choice["text"] for choice in choices])
        several = self.cluster.complete(prompt=["One", "Two"], n=2, echo=True, max_tokens=3)["choices"]
        self.assertEqual([choice["text"][:3] for choice in several], ["One", "One", "Two", "Two"])


class AnswersTest(unittest.TestCase):
    """Bytes gathered for whole answers, and bytes that wait for readers, have one limit together."""

    def test_whole_answers_end_at_the_limit(self):
        with Cluster(OUTRIDER_MEMORY_MAX="1M") as cluster:
            large = {"prompt": PROMPT, "max_tokens": 1000, "ignore_eos": True, "logprobs": 20, "n": 16}
            code, headers, answer = cluster.post("/v1/completions", large)
            self.assertEqual((code, answer["error"]["code"]), (429, "rate_limit_exceeded"))
            self.assertIn("--memory-max", answer["error"]["message"])
            wait_until(lambda: not cluster.status()["sessions_live"], "its texts to end")
            answer = cluster.complete(logprobs=20, max_tokens=16)
            self.assertEqual(len(answer["choices"][0]["logprobs"]["tokens"]), 16)
            self.assertGreater(series(cluster, "held_refused_total", "answers"), 0)
            self.assertEqual(series(cluster, "held_limit_bytes", "memory"), 1 << 20)
            self.assertEqual(series(cluster, "held_bytes", "bodies"), 0)
            wait_until(lambda: series(cluster, "held_bytes", "answers") == 0 and series(cluster, "held_bytes", "requests") == 0, "all to be released")

    def test_slow_readers_make_room_for_the_others(self):
        """Readers that never read fill the limit; one that reads gets all of its text."""
        with Cluster(OUTRIDER_MEMORY_MAX="4M") as cluster:
            loud = {"prompt": PROMPT, "max_tokens": 1500, "ignore_eos": True, "logprobs": 20, "temperature": 0}
            deaf = [Stream(cluster, "/v1/completions", {**loud, "n": 4}) for _ in range(3)]
            with Stream(cluster, "/v1/completions", {**loud, "max_tokens": 300}) as stream:
                count = sum(len(event.json()["choices"][0].get("text", "")) > 0 for event in stream if event.data != "[DONE]")
            self.assertGreater(count, 20)
            wait_until(lambda: not cluster.status()["sessions_live"], "all texts to end")
            self.assertLessEqual(series(cluster, "held_bytes", "unsent"), 4 << 20)
            whole = [b"[DONE]" in rest_of(stream.socket) for stream in deaf]
            self.assertIn(False, whole, "some were dropped")


class KeysTest(unittest.TestCase):
    """An API key has limits, over all of its connections, and can be revoked."""

    def test_a_revoked_key_stops_at_once(self):
        endless = {"prompt": PROMPT, "max_tokens": -1, "ignore_eos": True, "n": 100}
        with KeyedCluster(KEYS) as cluster, Stream(cluster, "/v1/completions", endless, **ADA) as stream, \
                Stream(cluster, "/v1/completions", {**endless, "n": 1, "max_tokens": 60}, **BEN) as other:
            events = iter(stream)
            next(events)
            cluster.file.write_text(KEYS + "sk-x broken line\n")  # changes nothing
            time.sleep(1.2)
            next(events)
            self.assertEqual(cluster.get("/v1/models", **ADA)[0], 200)
            self.assertEqual(sum("stay as they were" in line.decode() for line in list(cluster.log)), 1)
            cluster.file.write_text(KEYS.replace("sk-ada-0000001 ada\n", ""))
            last = None
            for event in events:
                last = event
            self.assertEqual(last.json()["error"]["code"], "invalid_api_key", "the stream ends with an error")
            self.assertEqual(cluster.get("/v1/models", **ADA)[0], 401)
            wait_until(lambda: not any(session["owner"] == "ada" for session in cluster.status()["sessions"]), "her texts to end")
            self.assertEqual([event.data for event in other][-1], "[DONE]", "nobody else's")
            self.assertNotIn("sk-", "".join(line.decode() for line in list(cluster.log)))

    def test_who_comes_back_has_its_own_place(self):
        """A text does not count against its own client, which goes on with it before the loss of its line was noticed."""
        body = {"prompt": PROMPT, "max_tokens": -1, "ignore_eos": True, "draft": False}
        with KeyedCluster(KEYS.replace("ada\n", "ada sessions=1\n")) as cluster:
            with Stream(cluster, "/v1/completions", body, **ADA) as first:
                name = next(iter(first)).id
                self.assertEqual(cluster.post("/v1/completions", LIMITED, **ADA)[0], 429)
                with Stream(cluster, "/v1/completions", body, **ADA, Last_Event_ID=name) as second:
                    self.assertEqual(second.begin(), 200)
                    self.assertEqual(cluster.post("/v1/completions", LIMITED, **ADA)[0], 429)

    def test_limits_are_the_keys(self):
        text = KEYS.replace("ada\n", "ada sessions=2 tokens-per-minute=300 nodes=3\n")
        endless = {"prompt": PROMPT, "max_tokens": -1, "ignore_eos": True, "n": 8, "draft": {"nodes": 16}}
        with KeyedCluster(text) as cluster:
            with Stream(cluster, "/v1/completions", endless, **ADA) as stream:
                events = iter(stream)
                for event in events:
                    if event.json()["choices"][0]["index"] == 1:
                        break
                sessions = [session for session in cluster.status()["sessions"] if session["owner"] == "ada"]
                self.assertEqual(len(sessions), 2)
                self.assertLessEqual(max(session["nodes"] for session in sessions), 3)
                code, headers, answer = cluster.post("/v1/completions", LIMITED, **ADA)
                self.assertEqual((code, answer["error"]["code"]), (429, "rate_limit_exceeded"))
                self.assertIn("2 texts at a time", answer["error"]["message"])
                self.assertIn("Retry-After", headers)
                self.assertEqual(cluster.post("/v1/completions", LIMITED, **BEN)[0], 200)
            wait_until(lambda: not any(session["owner"] == "ada" for session in cluster.status()["sessions"]), "her texts to end")
            long = {"prompt": PROMPT, "max_tokens": 700, "ignore_eos": True}
            wait_until(lambda: cluster.post("/v1/completions", long, **ADA)[0] == 200, "a place for her")
            code, headers, answer = cluster.post("/v1/completions", LIMITED, **ADA)
            self.assertEqual(code, 429)
            self.assertIn("300 tokens a minute", answer["error"]["message"])
            self.assertGreater(int(headers["Retry-After"]), 1)
            # Another limit holds within a second.
            cluster.file.write_text(KEYS)
            wait_until(lambda: cluster.post("/v1/completions", LIMITED, **ADA)[0] == 200, "the new limit")


class FiguresTest(unittest.TestCase):
    """An owner's /status shows nothing of others but how many requests wait."""

    def test_owners_see_their_own(self):
        with KeyedCluster(KEYS) as cluster:
            def seen():
                status = cluster.get("/status", **BEN)[2]
                del status["uptime_s"]
                for peer in status["peers"]:
                    del peer["connected_s"]
                return json.dumps(status, sort_keys=True)

            wait_until(lambda: cluster.get("/status", **BEN)[2]["figures"]["page_positions"] > 0, "the verifier's first figures")
            first = seen()
            self.assertEqual(cluster.post("/v1/completions", {"prompt": PROMPT * 40, "max_tokens": 80}, **ADA)[0], 200)
            with Stream(cluster, "/v1/completions", {"prompt": PROMPT, "max_tokens": -1, "ignore_eos": True, "user": "ada"}, **ADA) as stream:
                next(iter(stream))
                self.assertEqual(seen(), first)
                self.assertTrue(cluster.get("/status", **ADA)[2]["sessions"])
            self.assertEqual(cluster.get("/metrics", **BEN)[0], 403)
            self.assertEqual(cluster.get("/status")[2]["figures"]["started"], 2, "the operator sees them")


if __name__ == "__main__":
    unittest.main()
