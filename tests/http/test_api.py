# Goal: whatever is sent, the answer is what was asked for or OpenAI's error with the right status and the field's name, and nothing ends but the call.
# Method: bad bodies by a bare socket, one after the other against one cluster; after each it still writes. Then what is not OpenAI's: tokens, health, status,
# draft settings, methods, keys.
import json
import os
import tempfile
import time
import unittest
from pathlib import Path

from http_case import MODEL, PROMPT, Cluster, Stream, cli, raw

TYPES = {400: "invalid_request_error", 404: "invalid_request_error", 405: "invalid_request_error", 413: "invalid_request_error",
         415: "invalid_request_error"}

BODY_BYTES_MAX = 4 << 20  # the usual --http-body-max

# Wrong requests: the fields besides the prompt, and the field that the error must name.
WRONG = [
    ({"max_tokens": -5}, "max_tokens"), ({"max_tokens": 0}, "max_tokens"), ({"max_tokens": "16"}, "max_tokens"),
    ({"max_tokens": 1.5}, "max_tokens"), ({"max_tokens": 1 << 40}, "max_tokens"), ({"max_tokens": True}, "max_tokens"),
    ({"temperature": -0.1}, "temperature"), ({"temperature": 2.1}, "temperature"), ({"temperature": "hot"}, "temperature"),
    ({"top_p": 1.5}, "top_p"), ({"top_k": -2}, "top_k"), ({"min_p": -1}, "min_p"), ({"repetition_penalty": 0}, "repetition_penalty"),
    ({"presence_penalty": 3}, "presence_penalty"), ({"frequency_penalty": -3}, "frequency_penalty"),
    ({"n": 0}, "n"), ({"n": 129}, "n"), ({"n": -1}, "n"), ({"seed": -2}, "seed"), ({"seed": 1.5}, "seed"), ({"seed": "7"}, "seed"),
    ({"stop": ""}, "stop"), ({"stop": ["a", 7]}, "stop"), ({"stop": ["x"] * 17}, "stop"), ({"stop": {}}, "stop"),
    ({"logit_bias": {"king": 1}}, "logit_bias"), ({"logit_bias": {"5": 101}}, "logit_bias"), ({"logit_bias": {"999999999": 1}}, "logit_bias"),
    ({"logit_bias": {"-1": 1}}, "logit_bias"), ({"logit_bias": []}, "logit_bias"), ({"logprobs": 21}, "logprobs"), ({"logprobs": True}, "logprobs"),
    ({"stream": "yes"}, "stream"), ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream": True, "stream_options": {"shape": 1}}, "stream_options.shape"), ({"echo": 1}, "echo"), ({"echo": True, "logprobs": 1}, "echo"),
    ({"best_of": 2}, "best_of"), ({"suffix": "."}, "suffix"), ({"tools": []}, "tools"), ({"user": 5}, "user"), ({"grammar": "x"}, "grammar"),
    ({"prompt": []}, "prompt"), ({"prompt": 7}, "prompt"), ({"prompt": [[]]}, "prompt[0]"), ({"prompt": [1, "a"]}, "prompt"),
    ({"prompt": ["a", 1]}, "prompt[1]"), ({"prompt": [-1]}, "prompt"), ({"prompt": [1 << 40]}, "prompt"), ({"prompt": ["a"] * 129}, "prompt"),
    ({"prompt": ["a", "b"], "n": 65}, "n"), ({"prompt": None}, "prompt"),
    ({"draft": 5}, "draft"), ({"draft": {"method": "magic"}}, "draft"), ({"draft": {"nodes": 0}}, "draft.nodes"),
    ({"draft": {"nodes": 5000}}, "draft.nodes"), ({"draft": {"depth": -1}}, "draft.depth"), ({"draft": {"shape": "4x"}}, "draft.shape"),
    ({"draft": {"ahead": 9}}, "draft.ahead"), ({"draft": {"ahead": 2, "method": "ngram"}}, "draft.ahead"),
    ({"draft": {"policy": "maybe"}}, "draft.policy"), ({"draft": {"accept": "typical"}}, "draft.accept"),
    ({"draft": {"accept": "greedy"}, "temperature": 1}, "draft"), ({"draft": {"temperature": 0}}, "draft.temperature"),
    ({"draft": {"colour": 1}}, "draft.colour"),
]

# Bodies that are no request at all.
BROKEN = [b"", b"{", b"[]", b"7", b"null", b'"text"', b'{"prompt": "a"', b'{"prompt": "a"} x', b"{'prompt': 'a'}", b'{"prompt": "\xff\xfe"}',
          b'{"prompt": "\xed\xa0\x80"}', b'{"prompt": "\\ud800"}', b'{"prompt": "a", "prompt": "b"}', b'{"prompt": "a", "temperature": 1e999}',
          b'{"prompt": "a", "temperature": NaN}', b'{"prompt": "a", "seed": 99999999999999999999}', b"[" * 100000, b'{"a":' * 1000 + b"1" + b"}" * 1000,
          b"\0" * 100, b'{"prompt": [' + b"1," * 3000000 + b"1]}", b'{"\\u0000": 1}']

CHAT = [
    ({}, "messages"), ({"messages": []}, "messages"), ({"messages": "hello"}, "messages"), ({"messages": ["hello"]}, "messages[0]"),
    ({"messages": [{"role": "user"}]}, "messages[0]"), ({"messages": [{"role": "robot", "content": "a"}]}, "messages[0].role"),
    ({"messages": [{"role": "tool", "content": "a"}]}, "messages[0].role"), ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "messages[0].content[0].type"),
    ({"messages": [{"role": "user", "content": "a", "name": "Ann"}]}, "messages[0].name"),
]
CHAT_FIELDS = [
    ({"tools": [{}]}, "tools"), ({"functions": []}, "functions"), ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"modalities": ["audio"]}, "modalities"), ({"top_logprobs": 3}, "top_logprobs"), ({"max_tokens": 4, "max_completion_tokens": 4}, "max_tokens"),
    ({"prompt": "a"}, "prompt"), ({"store": True}, "store"),
]
USUAL = {"tool_choice": "none", "response_format": {"type": "text"}, "modalities": ["text"], "store": False, "service_tier": "auto", "tools": None,
         "parallel_tool_calls": True, "n": None, "logit_bias": {}, "stop": None}


class ApiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster("--chat-template", "chatml"))

    def assert_error(self, answer, status, param, told=""):
        code, _, body = answer
        self.assertEqual(code, status, (told, body))
        self.assertEqual(set(body), {"error"})
        self.assertEqual(set(body["error"]), {"message", "type", "param", "code"})
        self.assertEqual(body["error"]["param"], param, told)
        self.assertEqual(body["error"]["type"], TYPES[status])
        self.assertGreater(len(body["error"]["message"]), 10)

    def post(self, more, **headers):
        return self.cluster.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 4, **more}, **headers)

    def chat(self, **more):
        return self.cluster.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4, **more})

    def test_wrong_fields_are_named(self):
        for more, param in WRONG:
            self.assert_error(self.post(more), 400, param, more)
        for more, param in CHAT:
            self.assert_error(self.cluster.post("/v1/chat/completions", more), 400, param, more)
        for more, param in CHAT_FIELDS:
            self.assert_error(self.chat(**more), 400, param, more)
        self.cluster.complete()

    def test_broken_bodies(self):
        for body in BROKEN:
            for path in ("/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"):
                code, _, answer = self.cluster.post(path, body)
                status = 413 if len(body) > BODY_BYTES_MAX else 400
                self.assertEqual((code, answer["error"]["type"]), (status, TYPES[status]), (path, body[:40]))
        self.cluster.complete()

    def test_what_is_usual_may_be_said(self):
        code, _, answer = self.chat(**USUAL)
        self.assertEqual(code, 200, answer)
        self.assertEqual(self.post({"best_of": 2, "n": 2})[0], 200)
        self.assertEqual(self.post({"suffix": None, "stop": [], "user": "ann", "safety_identifier": "a", "prompt_cache_key": "a", "stream": False})[0], 200)

    def test_models_by_name(self):
        for name in (MODEL, MODEL.removesuffix(".gguf"), "outrider", None):
            self.assertEqual(self.post({"model": name})[0], 200, name)
        for name in ("gpt-4", "", MODEL + "\0", "ü" * 300):
            self.assert_error(self.post({"model": name}), 404, "model", name)
        self.assert_error(self.post({"model": 4}), 400, "model")

    def test_odd_texts_come_back(self):
        for prompt in ("", "a\0b", "\U0001f409 drag\u00f6n", "</s><s>", "\u2581", "x" * 200):
            self.assertEqual(self.post({"prompt": prompt})[0], 200, prompt)
            answer = self.cluster.complete(prompt=prompt, echo=True, max_tokens=1)
            self.assertTrue(answer["choices"][0]["text"].startswith(prompt), prompt)

    def test_paths_and_methods(self):
        for method, path, status in [("GET", "/v1/completions", 405), ("PUT", "/v1/completions", 405), ("POST", "/health", 405), ("POST", "/metrics", 405),
                                     ("DELETE", "/v1/models", 405), ("GET", "/v2", 404), ("GET", "/v1", 404), ("POST", "/v1/responses", 404), ("POST", "/", 404), ("GET", "/../etc/passwd", 404)]:
            code, headers, answer = self.cluster.ask(method, path, b"{}" if method in ("POST", "PUT") else None)
            self.assertEqual(code, status, (method, path, answer))
            self.assertEqual("Allow" in headers, status == 405)
            self.assertEqual("The API is at /v1/completions" in str(answer), status == 404, (method, path))
        code, headers, body = self.cluster.ask("HEAD", "/v1/models")
        self.assertEqual((code, body), (200, ""))
        self.assertEqual(self.cluster.ask("OPTIONS", "/v1/completions")[0], 204)
        for other in ("text/plain", "application/jsonp", "application/json-seq", ""):
            self.assert_error(self.cluster.post("/v1/completions", {"prompt": "a"}, Content_Type=other), 415, None)
        self.assertEqual(self.cluster.post("/v1/completions", {"prompt": "a"}, Content_Type="application/json; charset=utf-8")[0], 200)

    def test_no_header_comes_twice(self):
        for method, path, body in [("GET", "/", None), ("GET", "/icon.svg", None), ("GET", "/health", None), ("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1}),
                                   ("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1, "stream": True})]:
            code, headers, _ = self.cluster.ask(method, path, body)
            names = [name.lower() for name in headers.keys()]
            self.assertEqual((code, sorted(names)), (200, sorted(set(names))), (path, body))

    def test_bare_sockets(self):
        address = self.cluster.address
        body = json.dumps({"prompt": PROMPT, "max_tokens": 4}).encode()
        head = b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
        self.assertEqual(raw(address, head + b"Content-Length: %d\r\n\r\n" % len(body) + body)[0], 200)
        self.assertEqual(raw(address, head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n")[0], 200)
        many = b"".join(b"X-%d: %s\r\n" % (i, b"y" * 60) for i in range(1000))
        self.assertIn(raw(address, head + many + b"Content-Length: 2\r\n\r\n{}")[0], (400, 413, 431))
        untyped = head.replace(b"Content-Type: application/json\r\n", b"") + b"Content-Length: %d\r\n\r\n" % len(body) + body
        self.assertEqual(raw(address, untyped)[0], 415)
        for ambiguous in (b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                          b"Host: a\r\nContent-Length: 2\r\n\r\n{}"):
            self.assertEqual(raw(address, head + ambiguous)[0], 400, ambiguous)
        for broken in (b"\0\1\2\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", head + b"Content-Length: -1\r\n\r\n", head + b"Content-Length: x\r\n\r\n"):
            self.assertIn(raw(address, broken + b"Host: 127.0.0.1\r\n\r\n", timeout=10)[0], (0, 400, 505), broken)
        huge = head + b"Content-Length: 99999999\r\n\r\n"
        self.assertIn(raw(address, huge + b"x" * (20 << 20), timeout=10)[0], (0, 413))
        self.cluster.complete()

    def test_contexts_that_are_too_small(self):
        for stream in (False, True):
            code, _, answer = self.post({"prompt": "word " * 20000, "stream": stream})
            self.assertEqual((code, answer["error"]["code"], answer["error"]["param"]), (400, "context_length_exceeded", "prompt"))

    def test_draft_settings(self):
        plain = self.cluster.complete(draft=False)
        self.assertEqual(plain["timings"]["draft_n"], 0)
        for draft in ("off", True, {}, {"nodes": 4, "depth": 2}, {"method": "topk"}, {"method": "ngram"}, {"method": "none"}, {"accept": "greedy"},
                      {"method": "rsd-c", "accept": "recursive", "shape": "4x2x1"}, {"policy": "auto"}, {"ahead": 2}, {"temperature": 0.5}, None,
                      {"method": "chain", "accept": "sps", "distribution_entries": 8}, {"vocab_map": "same"}):
            answer = self.cluster.complete(draft=draft)
            self.assertEqual(answer["choices"][0]["text"], plain["choices"][0]["text"], draft)
        self.assertGreater(self.cluster.complete(draft={"nodes": 4, "policy": "fixed"})["timings"]["draft_n"], 0)

    def test_every_parameter_may_be_said(self):
        """Each is sent with its default, its least and its most, as /parameters tells them, and with each name that it may have."""
        for row in self.cluster.get("/parameters")[2]["parameters"]:
            values = row["choices"] or [value for value in (row["default"], row["least"], row["most"]) if value is not None]
            for value in values[1:] if row["above"] else values:
                inner = row["name"].removeprefix("draft.")
                more = {inner: value} if inner == row["name"] else {"draft": {inner: value}}
                code, _, answer = self.post({"max_tokens": 1, **more})
                together = row["name"] in ("draft.method", "draft.accept", "draft.vocab_map", "temperature")  # some need others beside them
                self.assertIn(code, (200, 400) if together else (200,), (more, answer))
            if row["most"] is not None:
                more = {inner: row["most"] + 1} if inner == row["name"] else {"draft": {inner: row["most"] + 1}}
                self.assert_error(self.post(more), 400, row["name"], more)

    def test_details_of_a_stream(self):
        with Stream(self.cluster, "/v1/completions", {"prompt": PROMPT, "max_tokens": 40, "temperature": 0, "draft": {"details": True, "policy": "fixed"}}) as stream:
            choices = [event.json()["choices"][0] for event in stream if event.data != "[DONE]"]
        told = [choice["outrider"] for choice in choices if "outrider" in choice]
        tokens = [token for part in told for token in part["tokens"]]
        self.assertEqual("".join(token["text"] for token in tokens), "".join(choice["text"] for choice in choices))
        self.assertTrue(any(token["drafted"] for token in tokens) and not all(token["drafted"] for token in tokens))
        trees = [part["tree"] for part in told if "tree" in part]
        self.assertTrue(trees)
        for tree in trees:
            self.assertEqual(len(tree["text"]), len(tree["parents"]))
            self.assertTrue(all(0 <= parent <= node for node, parent in enumerate(tree["parents"])))
            self.assertTrue(all(1 <= node <= len(tree["text"]) for node in tree["accepted"]))

    def test_details_end_with_the_text(self):
        """Tokens behind a stop string are no part of the text, and one that it cuts is there as far as the text has it."""
        body = {"max_tokens": 60, "draft": {"details": True}}
        whole = self.cluster.complete(**body)["choices"][0]["text"]
        for stop in (whole[20:24], whole[31], whole[22:40], whole[0]):
            choice = self.cluster.complete(**body, stop=stop)["choices"][0]
            self.assertEqual(choice["text"], whole[:whole.index(stop)])
            self.assertEqual("".join(token["text"] for token in choice["outrider"]["tokens"]), choice["text"], stop)
            with Stream(self.cluster, "/v1/completions", {"prompt": PROMPT, "temperature": 0, **body, "stop": stop}) as stream:
                parts = [event.json()["choices"][0] for event in stream if event.data != "[DONE]"]
            tokens = [token["text"] for part in parts for token in part.get("outrider", {"tokens": []})["tokens"]]
            self.assertEqual("".join(tokens), choice["text"], stop)

    def test_other_servers_words(self):
        self.assertNotEqual(self.cluster.complete(seed=-1, temperature=1)["seed"], self.cluster.complete(seed=-1, temperature=1)["seed"])
        turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": None}, {"role": "user", "content": "hi"}]
        empty = [{**turn, "content": turn["content"] or ""} for turn in turns]
        told, same = (self.chat(messages=messages, temperature=0)[2] for messages in (turns, empty))
        self.assertEqual(told["choices"], same["choices"])
        end = self.cluster.post("/tokenize", {"content": "</s>"})[2]["tokens"][0]
        likely = {"logit_bias": {str(end): 100}, "max_tokens": 8}
        self.assertEqual(self.cluster.complete(**likely)["choices"][0]["finish_reason"], "stop")
        going = self.cluster.complete(**likely, ignore_eos=True)
        self.assertEqual((going["choices"][0]["finish_reason"], going["usage"]["completion_tokens"]), ("length", 8))

    def test_sentences_speak_of_fields(self):
        for draft in ({"shape": "4x2"}, {"shape": "0x1", "method": "rsd-c", "accept": "recursive"}, {"accept": "recursive", "method": "topk"},
                      {"accept": "greedy"}, {"vocab_map": "slrs", "accept": "coupled"}):
            code, _, answer = self.post({"draft": draft, "temperature": 1})
            self.assertEqual(code, 400, draft)
            self.assertNotIn("--", answer["error"]["message"])

    def test_logs_are_joined_by_the_request(self):
        """The request's id joins them, whoever the client says the text is for."""
        with Stream(self.cluster, "/v1/completions", {"prompt": PROMPT, "max_tokens": -1, "ignore_eos": True, "user": "ann"}) as stream:
            next(iter(stream))
            labels = [session["label"] for session in self.cluster.status()["sessions"]]
            self.assertIn(stream.answer.headers["X-Request-Id"], labels)

    def test_tokens(self):
        text = "There was a king, \U0001f451."
        tokens = self.cluster.post("/tokenize", {"content": text})[2]["tokens"]
        self.assertEqual(self.cluster.post("/detokenize", {"tokens": tokens})[2], {"content": text})
        self.assertEqual(self.cluster.post("/tokenize", {"prompt": text, "add_special": True})[2]["tokens"][1:], tokens)
        pieces = self.cluster.post("/tokenize", {"content": text, "with_pieces": True})[2]["tokens"]
        self.assertEqual([piece["id"] for piece in pieces], tokens)
        raw_bytes = b"".join(piece["piece"].encode() if isinstance(piece["piece"], str) else bytes(piece["piece"]) for piece in pieces)
        self.assertEqual(raw_bytes.decode().lstrip(), text)
        self.assertEqual(len(self.cluster.post("/tokenize", {"content": "</s>"})[2]["tokens"]), 1)
        self.assertGreater(len(self.cluster.post("/tokenize", {"content": "</s>", "parse_special": False})[2]["tokens"]), 1)
        self.assertEqual(self.cluster.post("/tokenize", {"content": text, "model": "outrider"})[2]["tokens"], tokens)
        self.assertEqual(self.cluster.post("/detokenize", {"tokens": tokens, "model": MODEL})[2], {"content": text})
        for path, body in [("/tokenize", {"content": text}), ("/detokenize", {"tokens": tokens})]:
            self.assert_error(self.cluster.post(path, {**body, "model": "gpt-4"}), 404, "model")
        for path, body, param in [("/tokenize", {}, "content"), ("/tokenize", {"content": 5}, "content"), ("/tokenize", {"content": "a", "x": 1}, "x"),
                                  ("/detokenize", {}, "tokens"), ("/detokenize", {"tokens": [-1]}, "tokens"), ("/detokenize", {"tokens": "a"}, "tokens")]:
            self.assert_error(self.cluster.post(path, body), 400, param, (path, body))

    def test_status(self):
        status = self.cluster.status()
        self.assertTrue(status["ready"])
        self.assertEqual(status["model"], MODEL)
        self.assertRegex(status["choice"], "^(plain decoding|guesses|guesses made ahead|unknown)\\b")
        self.assertEqual({peer["role"] for peer in status["peers"]}, {"drafter", "verifier"})
        events = [event["number"] for event in status["events"]]
        self.assertEqual(events, sorted(events))
        self.assertTrue(all(event["number"] > events[0] for event in self.cluster.get(f"/status?events_after={events[0]}")[2]["events"]))

    def test_metrics_in_both_spellings(self):
        self.assertIn("outrider:http_requests_total{", self.cluster.get("/metrics")[2])
        plain = self.cluster.get("/metrics?names=plain")[2]
        self.assertIn("outrider_http_requests_total{", plain)
        self.assertNotIn("outrider:", plain)
        self.assertEqual(self.cluster.get("/metrics?names=long")[0], 400)


class LoadingTest(unittest.TestCase):
    """A coordinator without a verifier: it answers, and requests wait."""

    def test_health_while_loading(self):
        reader, writer = os.pipe()
        words = ["-m", cli.TARGET, "--listen", "tcp://127.0.0.1:*", "--http", "127.0.0.1:0", "--journal", "none", "--verifier-timeout", 1500,
                 "--ready-fd", writer]
        os.set_inheritable(writer, True)
        coordinator = cli.subprocess.Popen([cli.BIN / "outrider-coordinator", *map(str, words)], pass_fds=[writer], env=cli.ENVIRONMENT,
                                           stdin=cli.subprocess.DEVNULL, stderr=cli.subprocess.DEVNULL)
        os.close(writer)
        try:
            with os.fdopen(reader) as lines:
                places = lines.read().split("\n")
            cluster = object.__new__(Cluster)
            host, port = places[1].removeprefix("http ").rsplit(":", 1)
            cluster.address = (host, int(port))
            code, headers, body = cluster.get("/health")
            self.assertEqual((code, body), (503, {"status": "loading model"}))
            self.assertIn("Retry-After", headers)
            self.assertFalse(cluster.status()["ready"])
            begin = time.monotonic()
            code, _, body = cluster.post("/v1/completions", {"prompt": PROMPT})
            self.assertEqual(code, 503, body)
            self.assertGreater(time.monotonic() - begin, 1, "it waited for a verifier")
        finally:
            coordinator.terminate()
            self.assertEqual(coordinator.wait(timeout=cli.PATIENCE), 0)


class KeyTest(unittest.TestCase):
    """Keys are asked for where there are keys, and owners see their own."""

    def test_keys(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "keys")
            file.write_text("# KEY [OWNER]\nsk-operator-0001\nsk-alice-00001 alice\n")
            file.chmod(0o600)
            with KeyedCluster("--api-key-file", file) as cluster:
                self.check(cluster)

    def check(self, cluster):
        for path in ("/health", "/v1/models", "/metrics", "/status", "/", "/app.js"):
            self.assertEqual(cluster.get(path)[0], 401, path)
            self.assertEqual(cluster.get(path, Authorization="Bearer sk-nobody-000")[0], 401, path)
            self.assertEqual(cluster.get(path, Authorization="Bearer sk-operator-0001")[0], 200, path)
        alice = {"Authorization": "Bearer sk-alice-00001"}
        self.assertEqual(cluster.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 4}, **alice)[0], 200)
        self.assertEqual(cluster.get("/metrics", **alice)[0], 403)
        self.assertEqual(cluster.get("/status", **alice)[2]["events"], [])
        with Stream(cluster, "/v1/completions", {"prompt": PROMPT, "max_tokens": 40}, Authorization="Bearer sk-alice-00001") as stream:
            name = next(iter(stream)).id
        body = {"prompt": PROMPT, "max_tokens": 40}
        with Stream(cluster, "/v1/completions", body, Authorization="Bearer sk-operator-0001", Last_Event_ID=name) as stream:
            self.assertEqual(stream.begin(), 404, "another's text")
        with Stream(cluster, "/v1/completions", body, Authorization="Bearer sk-alice-00001", Last_Event_ID=name) as stream:
            self.assertEqual(stream.begin(), 200)


class KeyedCluster(Cluster):
    def get(self, path, **headers):
        return super().get(path, **({"Authorization": "Bearer sk-operator-0001"} if not headers and not hasattr(self, "ready") else headers))

    def __enter__(self):
        self.ready = True
        return self


if __name__ == "__main__":
    unittest.main()
