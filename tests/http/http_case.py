"""Helpers of the tests of the HTTP face: a cluster that has one, and a client in few lines that hides nothing."""
import collections
import http.client
import json
import os
import socket
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))

import cli  # noqa: E402  (the path comes first)
from cli import PATIENCE, generate, wait_until  # noqa: E402, F401

MODEL = cli.TARGET.name
PROMPT = "Once upon a time"


class Cluster(cli.Cluster):
    """`outrider up` with the demonstration models and HTTP on a free port. `url` and `address` (HOST, PORT) say where."""

    def __init__(self, *words, http="127.0.0.1:0", **variables):
        super().__init__("--http", http, "--journal", "none", *words, **variables)
        self.url = None
        for line in self.process.stdout:
            if line.startswith(b"  web"):
                self.url = line.split()[1].decode().rstrip("/")
                break
        if self.url is None:
            raise AssertionError("outrider up: no HTTP\n" + self.end()[2])
        host, port = self.url.split("//")[1].rsplit(":", 1)
        self.address = (host, int(port))
        # Tests look at its end: unread, a full pipe would lose later lines.
        self.log = collections.deque(maxlen=1000)
        self.logging = threading.Thread(target=self.log.extend, args=(self.process.stderr,))
        self.logging.start()
        wait_until(lambda: self.get("/health")[0] == 200 and self.status()["drafters"], "a verifier and a drafter")

    def __exit__(self, *_):
        cli.kill(self.process)
        self.logging.join()
        self.process.stdout.close()
        self.process.stderr.close()

    def ask(self, method, path, body=None, **headers):
        """Return status, headers and body (JSON parsed) of the answer. Bytes in `body` are sent as they are, anything else as JSON."""
        connection = http.client.HTTPConnection(*self.address, timeout=PATIENCE)
        try:
            if body is not None:
                headers = {"Content-Type": "application/json", **headers}
                body = body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            text = answer.read()
            is_json = (answer.headers.get("Content-Type") or "").startswith("application/json")
            return answer.status, answer.headers, json.loads(text) if is_json and text else text.decode()
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.ask("GET", path, **headers)

    def post(self, path, body, **headers):
        return self.ask("POST", path, body, **headers)

    def status(self):
        return self.get("/status")[2]

    def complete(self, **body):
        """Return a completion of the usual prompt. It must go well."""
        code, _, answer = self.post("/v1/completions", {"prompt": PROMPT, "temperature": 0, "max_tokens": 16, **body})
        if code != 200:
            raise AssertionError(f"{code}: {answer}")
        return answer

    def coordinator(self):
        return self.roles("outrider-coordinator")["outrider-coordinator"]


class Event:
    """A server-sent event: its id ("" without), its data, and when it came."""

    def __init__(self, name, data):
        self.id = name
        self.data = data
        self.at = time.monotonic()

    def json(self):
        return json.loads(self.data)


class Stream:
    """A POST whose answer is read while it comes: iterate over its events. Closed at the end of the `with` block."""

    def __init__(self, cluster, path, body, **headers):
        text = json.dumps({**body, "stream": True}).encode()
        lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {len(text)}",
                 *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
        self.socket = socket.create_connection(cluster.address, timeout=PATIENCE)
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode() + text)
        self.comments = []
        self.answer = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Close as a client that is gone, not as one that merely has nothing more to send."""
        if self.answer is not None:
            self.answer.close()
        self.socket.close()

    def begin(self):
        """Return the status, once the answer has begun."""
        if self.answer is None:
            self.answer = http.client.HTTPResponse(self.socket, method="POST")
            self.answer.begin()
        return self.answer.status

    def __iter__(self):
        if self.begin() != 200:
            raise AssertionError(f"{self.answer.status}: {self.answer.read()}")
        name, data = "", []
        while True:
            line = self.answer.readline().decode().rstrip("\n")
            if line.startswith("id: "):
                name = line[4:]
            elif line.startswith("data: "):
                data.append(line[6:])
            elif line.startswith(":"):
                self.comments.append(line)
            elif line == "" and data:
                yield Event(name, "\n".join(data))
                if data == ["[DONE]"]:
                    return
                name, data = "", []
            elif line == "" and self.answer.isclosed():
                return


def text_of(events):
    """Return the text that chunks of a completion add up to. The rest of the events must be as they should."""
    text = ""
    for event in events:
        if event.data != "[DONE]":
            for choice in event.json()["choices"]:
                text += choice["text"]
    return text


def raw(address, request, timeout=PATIENCE):
    """Return a server's answer to these bytes: status (0: nothing) and everything behind the headers."""
    with socket.create_connection(address, timeout=timeout) as connection:
        answer = b""
        try:
            connection.sendall(request)
        except ConnectionError:
            pass  # it has heard enough, and may have said so
        try:
            while part := connection.recv(65536):
                answer += part
                head, _, body = answer.partition(b"\r\n\r\n")
                for line in head.split(b"\r\n"):
                    name, _, value = line.partition(b":")
                    if name.lower() == b"content-length" and len(body) >= int(value):
                        return int(head.split(b" ")[1]), body
        except ConnectionError:
            pass
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split(b" ")[1]) if head else 0, body


def need(module):
    """Import a Python package of the tests' own environment (launch/test.sh makes it). Without it the test is skipped, or fails with CI=true."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    sys.path.append(str(cli.ROOT / "build/venv/lib" / version / "site-packages"))
    try:
        return __import__(module)
    except ImportError as error:
        hint = f"no Python package {module} for {version}: launch/test.sh makes build/venv with it"
        if os.environ.get("CI") == "true":
            raise AssertionError(hint) from error
        raise unittest.SkipTest(hint) from error
