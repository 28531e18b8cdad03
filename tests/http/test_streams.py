# Goal: many clients at once, most of them queued: nothing lost or mixed up, memory bounded, first words in the order in which they came; a client that
# hangs up frees its work at once, and one that comes back goes on where it was.
# Method: each client has a seed of its own, so that its text is its own; what it must be is asked plainly, one at a time. Times by the clients' clock,
# work by /status. The long version is the same with more clients.
import asyncio
import json
import os
import random
import time
import unittest

from http_case import PROMPT, Cluster, Stream, cli, text_of, wait_until

CLIENTS = int(os.environ.get("OUTRIDER_HTTP_CLIENTS", "100"))
SEED = int(os.environ.get("OUTRIDER_TEST_SEED", "1"))
LIVE = 16  # texts at a time; the rest waits
PROMPTS = [PROMPT, "It was a dark night", "The king said", "There lived a poor"]
MIB_A_CLIENT = 0.1  # of the coordinator, for a queued stream


def body_of(client):
    return {"prompt": PROMPTS[client % len(PROMPTS)], "seed": client, "temperature": 1, "max_tokens": 24}


class Reader:
    """One of many clients. It sends when it is told, and notes when its first word came."""

    def __init__(self, client):
        self.client = client
        self.text = ""
        self.first = None
        self.finish = None
        self.done = False

    async def connect(self, address):
        self.input, self.output = await asyncio.open_connection(*address)

    async def send(self):
        text = json.dumps({**body_of(self.client), "stream": True}).encode()
        self.output.write(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                          b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
        await self.output.drain()

    async def read(self):
        while line := await self.input.readline():
            if not line.startswith(b"data: "):
                continue
            if line == b"data: [DONE]\n":
                self.done = True
                break
            self.first = self.first or time.monotonic()
            for choice in json.loads(line[6:])["choices"]:
                self.text += choice["text"]
                self.finish = choice["finish_reason"] or self.finish
        self.output.close()


async def run_all(address, clients):
    readers = [Reader(client) for client in range(clients)]
    for reader in readers:
        await reader.connect(address)
    reading = [asyncio.create_task(reader.read()) for reader in readers]
    for reader in readers:
        await reader.send()
        await asyncio.sleep(0.001)  # so that there is an order
    await asyncio.gather(*reading)
    return readers


class StreamsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster("--sessions-max", LIVE, "--queue-max", CLIENTS + 100))

    def count(self):
        """Return the number of texts that are worked on or wait."""
        status = self.cluster.status()
        return len(status["sessions"]) + status["waiting"]

    def test_many_clients(self):
        pid = self.cluster.coordinator()
        before = cli.resident_mib(pid)
        readers = asyncio.run(run_all(self.cluster.address, CLIENTS))
        after = cli.resident_mib(pid)
        for reader in readers:
            self.assertTrue(reader.done, f"client {reader.client}")
            plain = self.cluster.complete(**body_of(reader.client), draft=False)["choices"][0]
            self.assertEqual((reader.text, reader.finish), (plain["text"], plain["finish_reason"]), f"client {reader.client}")
        order = sorted(range(CLIENTS), key=lambda client: readers[client].first)
        late = max(abs(place - client) for place, client in enumerate(order))
        self.assertLessEqual(late, 2 * LIVE, "first words come in the order of arrival, give or take those worked on together")
        self.assertLess(after - before, 32 + MIB_A_CLIENT * CLIENTS, "MiB")
        asyncio.run(run_all(self.cluster.address, CLIENTS))
        self.assertLess(cli.resident_mib(pid) - after, 16, "MiB: what a load needed serves the next one")
        print(f"{CLIENTS} clients: places off by at most {late}, memory {before:.0f} -> {after:.0f} MiB", flush=True)

    def written_to_the_end(self):
        """Return how many texts were written to their end so far."""
        lines = [line for line in self.cluster.get("/metrics")[2].splitlines() if line.startswith("outrider:request_success_total{")]
        self.assertTrue(lines)
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if 'finished_reason="abort"' not in line)

    def hang_up(self, body, count):
        """Let all clients of these streams go, and wait until nothing is worked on any more: no text was written to its end for nobody."""
        before = self.written_to_the_end()
        streams = [Stream(self.cluster, "/v1/completions", {**body, "seed": seed}) for seed in range(count)]
        wait_until(lambda: self.count() >= min(count * body.get("n", 1), LIVE), "streams at work")
        for stream in streams:
            stream.close()
        wait_until(lambda: self.count() == 0, "no text at work")
        self.assertEqual(self.written_to_the_end(), before)

    def test_hanging_up_frees_the_work(self):
        end = self.cluster.post("/tokenize", {"content": "</s>"})[2]["tokens"]
        self.assertEqual(len(end), 1)
        endless = {"prompt": PROMPT, "max_tokens": -1, "temperature": 1, "logit_bias": {str(end[0]): -100}, "draft": False}
        self.hang_up(endless, 4 * LIVE)  # at work and queued
        self.hang_up({**endless, "n": 8}, 4)

    def test_half_a_client_is_not_gone(self):
        """A client that has no more to send may still read."""
        with Stream(self.cluster, "/v1/completions", body_of(5)) as stream:
            stream.begin()
            stream.socket.shutdown(1)
            text = text_of(stream)
        self.assertEqual(text, self.cluster.complete(**body_of(5))["choices"][0]["text"])

    def cut_and_resume(self, body, path, cut, pause):
        """Return all events of a stream that is lost after `cut` of them, and goes on by Last-Event-ID."""
        with Stream(self.cluster, path, body) as stream:
            events = []
            for event in stream:
                events.append(event)
                if len(events) == cut or event.data == "[DONE]":
                    break
            time.sleep(pause)  # it may end meanwhile, unread
        if events[-1].data == "[DONE]":
            return events
        with Stream(self.cluster, path, body, Last_Event_ID=events[-1].id) as stream:
            return events + list(stream)

    def test_coming_back(self):
        chance = random.Random(SEED)
        for turn in range(12):
            body = {**body_of(turn), "max_tokens": 60}
            whole = self.cluster.complete(**body)
            events = self.cut_and_resume(body, "/v1/completions", 1 + chance.randrange(12), chance.choice([0, 0.002, 0.3]))
            self.assertEqual(text_of(events), whole["choices"][0]["text"], f"turn {turn}, OUTRIDER_TEST_SEED={SEED}")
            chunks = [event.json() for event in events if event.data != "[DONE]"]
            self.assertEqual(len({chunk["id"] for chunk in chunks}), 1)
            self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], whole["choices"][0]["finish_reason"])

    def test_coming_back_to_the_end(self):
        """The last event before [DONE] was the last that arrived."""
        body = body_of(3)
        with Stream(self.cluster, "/v1/completions", body) as stream:
            events = [event for event, _ in zip(stream, range(1000)) if event.data != "[DONE]"]
        whole = text_of(events)
        resumed = self.cut_and_resume(body, "/v1/completions", len(events), 0.3)
        self.assertEqual(text_of(resumed), whole)
        self.assertEqual(resumed[-1].data, "[DONE]")

    def test_an_end_is_told_once(self):
        """The rest comes, wherever between the finish and [DONE] the line was cut."""
        body = {**body_of(3), "stream_options": {"include_usage": True}}
        for cut_behind in ("finish", "usage"):
            with Stream(self.cluster, "/v1/completions", body) as stream:
                events = []
                for event in stream:
                    events.append(event)
                    choices = event.json()["choices"]
                    if cut_behind == ("usage" if not choices else "finish" if choices[0]["finish_reason"] else ""):
                        break
            with Stream(self.cluster, "/v1/completions", body, Last_Event_ID=events[-1].id) as stream:
                rest = list(stream)
            self.assertEqual([event.data == "[DONE]" for event in rest], [False, True] if cut_behind == "finish" else [True])
            self.assertEqual(rest[0].json()["choices"] if cut_behind == "finish" else [], [])

    def test_offsets_go_on(self):
        body = {**body_of(2), "max_tokens": 60, "logprobs": 0}
        whole = self.cluster.complete(**body)["choices"][0]["logprobs"]
        for cut in (1, 3, 8):
            events = self.cut_and_resume(body, "/v1/completions", cut, 0.05)
            told = [choice["logprobs"] for event in events if event.data != "[DONE]" for choice in event.json()["choices"] if choice["logprobs"]]
            self.assertEqual([token for part in told for token in part["tokens"]], whole["tokens"])
            self.assertEqual([offset for part in told for offset in part["text_offset"]], whole["text_offset"])

    def test_another_request_does_not_go_on(self):
        body = {**body_of(6), "max_tokens": 60}
        with Stream(self.cluster, "/v1/completions", body) as stream:
            name = next(iter(stream)).id
        for other in ({**body, "seed": 1}, {**body, "max_tokens": 61}, {**body, "prompt": "The king"}):
            with Stream(self.cluster, "/v1/completions", other, Last_Event_ID=name) as stream:
                self.assertEqual(stream.begin(), 400, other)
        with Stream(self.cluster, "/v1/completions", body, Last_Event_ID=name) as stream:
            self.assertEqual(stream.begin(), 200)

    def test_two_readers_of_one_text(self):
        """The client that comes back last reads the stream."""
        body = {**body_of(7), "max_tokens": 200}
        whole = self.cluster.complete(**body)["choices"][0]["text"]
        with Stream(self.cluster, "/v1/completions", body) as first:
            event = next(iter(first))
            with Stream(self.cluster, "/v1/completions", body, Last_Event_ID=event.id) as second:
                self.assertEqual(text_of([event, *second]), whole)

    def test_places_that_are_none(self):
        body = body_of(0)
        with Stream(self.cluster, "/v1/completions", body) as stream:
            name = next(iter(stream)).id
        for headers, more in [({"Last_Event_ID": "7"}, {}), ({"Last_Event_ID": "A" * 76}, {}), ({"Last_Event_ID": name}, {"n": 2}),
                              ({"Last_Event_ID": "~" * 76}, {}), ({"Last_Event_ID": name[:20] + "AAAA" + name[24:]}, {})]:
            with Stream(self.cluster, "/v1/completions", {**body, **more}, **headers) as stream:
                self.assertIn(stream.begin(), (400, 404), headers)
        self.assertEqual(self.cluster.post("/v1/completions", body, Last_Event_ID=name)[0], 400)

    @cli.of_rest
    def test_a_stream_that_waits_is_kept_alive(self):
        """Comments come while no place is free, and then the text."""
        end = self.cluster.post("/tokenize", {"content": "</s>"})[2]["tokens"][0]
        endless = {"prompt": PROMPT, "max_tokens": -1, "temperature": 1, "logit_bias": {str(end): -100}, "draft": False}
        streams = [Stream(self.cluster, "/v1/completions", {**endless, "seed": seed}) for seed in range(4 * LIVE)]
        with Stream(self.cluster, "/v1/completions", body_of(1)) as last:
            text = text_of(last)
            self.assertTrue(last.comments, "it waited for more than a second")
        for stream in streams:
            stream.close()
        self.assertEqual(text, self.cluster.complete(**body_of(1))["choices"][0]["text"])


if __name__ == "__main__":
    unittest.main()
