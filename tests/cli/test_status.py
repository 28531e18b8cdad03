"""Goal: `outrider status` tells how a service does, in words, in JSON and by exit code, so that probes can use it; a full service is waited for
or reported as such; owners' names reach it.
Method: a coordinator alone, then with a verifier, with one place and no queue; a long text takes the place."""
import json
import os
import re
import signal
import tempfile
import unittest
from pathlib import Path

from cli import DRAFT, TARGET
from cli import Background, Cluster, Coordinator, call, of_rest, outrider, wait_until

SLOW = ["--step-delay-ms", 12]  # a text of 500 tokens holds its place for 6 s: programs that look at it have started by then
LONG_TEXT = ["--plain", "-p", "Once upon a time", "-n", 500, "--temp", 0, "--ignore-eos"]


def status(endpoint, code=0):
    out, _ = outrider("status", "--connect", endpoint, "--json", code=code)
    return json.loads(out)


class Status(unittest.TestCase):
    def test_exit_codes(self):
        _, error = outrider("status", "--connect", "tcp://127.0.0.1:9", code=3)
        self.assertIn("nobody listens", error)
        self.assertEqual(outrider("status", "--ready", "--connect", "tcp://127.0.0.1:9", code=3), (b"", ""))
        outrider("status", "--connect", "nonsense", code=2)
        outrider("status", "--prompt", "x", code=2)
        out, _ = outrider("status", "--help")
        self.assertIn(b"Exit codes:", out)

    def test_readiness_comes_with_the_verifier(self):
        with Coordinator() as hub:
            out, _ = outrider("status", "--connect", hub.endpoint, code=1)
            self.assertIn("not ready: no verifier", out.decode())
            self.assertFalse(status(hub.endpoint, code=1)["ready"])
            self.assertEqual(outrider("status", "--ready", "--connect", hub.endpoint, code=1), (b"", ""))
            with Background("-m", TARGET, "--connect", hub.endpoint, program="outrider-verifier") as verifier:
                verifier.hears("welcomed")
                self.assertEqual(outrider("status", "--ready", "--connect", hub.endpoint), (b"", ""))
            wait_until(lambda: status_code(hub.endpoint) == 1, "not ready again")

    def test_figures_of_a_cluster(self):
        with Cluster() as cluster:
            outrider("generate", "--connect", cluster.endpoint, "-p", "Once", "-n", 40, "--owner", "alice")
            line = wait_until(lambda: (now := status(cluster.endpoint))["figures"]["rounds"] > 0 and now, "the verifier's figures")
            figures = line["figures"]
            self.assertTrue(line["ready"])
            self.assertEqual(line["model"], TARGET.name)
            self.assertEqual((figures["started"], figures["drafters"], figures["verifiers"]), (1, 1, 1))
            self.assertEqual((figures["busy"], figures["cut_off"], figures["cancelled"], figures["waiting"]), (0, 0, 0, 0))
            self.assertGreater(figures["passes"], 0)
            self.assertGreaterEqual(figures["batched"], figures["passes"])
            self.assertEqual([peer["role"] for peer in line["peers"]].count("verifier"), 1)
            self.assertIn("verifier joined", [event["kind"] for event in line["events"]])
            out, _ = outrider("status", "--connect", cluster.endpoint)
            for word in ("target", "sessions", "batch", "cache", "drafters   1", "choice     "):
                self.assertIn(word, out.decode())


    def test_budgets_of_live_sessions(self):
        """A user on this machine who names no owner sees all sessions."""
        terms = {"id", "label", "owner", "automatic", "source", "nodes", "depth", "ahead", "round_trip_ms", "draft_ms", "plain_ms", "verify_ms", "row_us",
                 "queue_ms", "batch", "acceptance", "block_efficiency", "hit_rate", "plain_rate", "draft_rate", "prompt_tokens", "tokens", "age_s"}
        with Cluster() as cluster, \
                Background("generate", "--connect", cluster.endpoint, "-p", "Once", "-n", 4000, "-c", 0, "--ignore-eos", "--owner", "alice",
                           "--draft-policy", "auto", "--plain", "--no-display-prompt") as taker:
            os.read(taker.process.stdout.fileno(), 1)
            os.kill(cluster.roles("outrider-verifier")["outrider-verifier"], signal.SIGSTOP)  # the text goes on for as long as we like
            policies = wait_until(lambda: status(cluster.endpoint)["sessions"], "a session")
            self.assertEqual(set(policies[0]), terms)
            self.assertEqual(policies[0]["owner"], "alice")
            out, _ = outrider("status", "--connect", cluster.endpoint, "--json", "--owner", "bob")
            self.assertEqual(json.loads(out)["sessions"], [])  # who has a name sees what is his
            out, _ = outrider("status", "--connect", cluster.endpoint)
            self.assertIn("plain/s", out.decode())
            taker.process.kill()


class Busy(unittest.TestCase):
    def test_a_full_service_is_waited_for_or_reported(self):
        with Coordinator("--sessions-max", 1, "--queue-max", 0) as hub, \
                Background("-m", TARGET, *SLOW, "--connect", hub.endpoint, program="outrider-verifier") as verifier:
            verifier.hears("welcomed")
            with Background("generate", "--connect", hub.endpoint, *LONG_TEXT) as taker:
                wait_until(lambda: status(hub.endpoint)["figures"]["started"] == 1, "a request")
                short = ["generate", "--connect", hub.endpoint, "--plain", "-p", "Once", "-n", 4]
                _, error = outrider(*short, "--busy-wait", 0, code=75)
                self.assertIn("busy: 0 requests wait; retry after", error)
                out, error = outrider(*short)
                self.assertGreaterEqual(error.count("asking again"), 1)
                self.assertTrue(out.startswith(b"Once"))
                self.assertEqual(taker.end()[0], 0)
            self.assertGreaterEqual(status(hub.endpoint)["figures"]["busy"], 2)

    def test_who_goes_frees_the_place(self):
        with Coordinator("--sessions-max", 1, "--queue-max", 0) as hub, \
                Background("-m", TARGET, *SLOW, "--connect", hub.endpoint, program="outrider-verifier") as verifier:
            verifier.hears("welcomed")
            with Background("generate", "--connect", hub.endpoint, *LONG_TEXT):
                wait_until(lambda: status(hub.endpoint)["figures"]["started"] == 1, "a request")
            wait_until(lambda: status(hub.endpoint)["figures"]["parked"] == 1, "that the killed client is missed")
            outrider("generate", "--connect", hub.endpoint, "--plain", "-p", "Once", "-n", 4, "--busy-wait", 0)


class Waiting(unittest.TestCase):
    def test_the_client_is_told_why(self):
        with Coordinator() as hub, Background("generate", "--connect", hub.endpoint, *LONG_TEXT) as first:
            self.assertIn("waiting up to", first.hears("no verifier is connected yet"))

    def test_and_how_many_come_before(self):
        with Coordinator("--sessions-max", 1) as hub, \
                Background("-m", TARGET, "--step-delay-ms", 50, "--connect", hub.endpoint, program="outrider-verifier") as verifier:
            verifier.hears("welcomed")
            words = ["generate", "--connect", hub.endpoint, *LONG_TEXT]
            with Background(*words) as taker:
                wait_until(lambda: status(hub.endpoint)["figures"]["started"] == 1, "a request")
                with Background(*words) as second:
                    self.assertTrue(second.hears("this request is the next"))
                    with Background(*words) as third:
                        self.assertTrue(third.hears("1 request waits before this one"))
                taker.process.kill()


class Keys(unittest.TestCase):
    """A coordinator that encrypts, and a user whose keys are in another folder."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.operator, self.user = ({"OUTRIDER_KEYS": str(Path(scratch.name, name))} for name in ("operator", "user"))
        call("outrider", "keys", "new", "--coordinator", **self.operator)
        call("outrider", "keys", "new", **self.user)
        self.hub = Coordinator("--encrypt", "on", **self.operator)
        self.addCleanup(self.hub.__exit__)
        self.server_key = self.public(self.operator, "coordinator.key")

    @staticmethod
    def public(person, file):
        return re.search(r"public (\S+)", Path(person["OUTRIDER_KEYS"], file).read_text()).group(1)

    def connection(self, key=None):
        return ["--connect", self.hub.endpoint, "--encrypt", "on", "--server-key", key or self.server_key]

    def refusal(self, *words, code):
        """Return what the command says. One that went on trying would say after 10 s that there was no answer."""
        _, error = outrider(*words, code=code, **self.user)
        return error

    def test_a_probe_takes_no_trouble_for_life(self):
        """Any exit code but 3 means that the coordinator lives."""
        words = ["status", "--connect", self.hub.endpoint, "--encrypt", "on"]
        self.assertIn("outrider keys trust", self.refusal(*words, code=3))
        Path(self.user["OUTRIDER_KEYS"], "identity.key").chmod(0o644)
        self.assertIn("chmod", self.refusal("status", *self.connection(), code=3))

    @of_rest
    def test_a_refusal_at_first_contact_is_the_end(self):
        stranger = self.public(self.user, "identity.key")
        for words, code in ((["status"], 3), (["generate", "-p", "x"], 1)):
            self.assertIn("outrider keys authorize", self.refusal(*words, *self.connection(), code=code))
            self.assertIn("another key", self.refusal(*words, *self.connection(stranger), code=code))
            self.assertIn("--encrypt on", self.refusal(*words, "--connect", self.hub.endpoint, "--encrypt", "off", code=code))

    def test_a_key_that_was_revoked_while_nobody_was_there(self):
        key = self.public(self.user, "identity.key")
        call("outrider", "keys", "authorize", key, "--name", "user", **self.operator)
        wait_until(lambda: call("outrider", "status", *self.connection(), code=None, **self.user)[0], "the coordinator's welcome")
        words = ["generate", "-p", "x", *self.connection()]
        with Background(*words, **self.user) as writer:
            self.assertTrue(writer.hears("no verifier is connected yet"))
            self.hub.process.kill()
            self.assertTrue(writer.hears("the connection to the coordinator"))
            call("outrider", "keys", "revoke", "user", **self.operator)
            with Coordinator("--encrypt", "on", listen=self.hub.endpoint, **self.operator):
                code, _, error = writer.end()
                self.assertEqual(code, 1)
                self.assertIn("outrider keys authorize", error)

    @of_rest
    def test_the_bench_has_keys_too(self):
        call("outrider", "keys", "authorize", self.public(self.user, "identity.key"), "--name", "user", **self.operator)
        call("outrider", "keys", "new", **self.operator)
        call("outrider", "keys", "authorize", self.public(self.operator, "identity.key"), "--name", "verifier", "--roles", "verifier",
             **self.operator)
        with Background("-m", TARGET, "--connect", self.hub.endpoint, "--encrypt", "on", "--server-key", self.server_key,
                        program="outrider-verifier", **self.operator):
            words = [*self.connection(), "--no-padding", "--temp", "0", "--prompt-limit", "1", "--json", "--draft-policy", "fixed",
                     "--draft-ahead", "2"]
            out, _ = outrider("bench", "load", *words, "--plain", "--sessions", "1", "--seconds", "5", "-n", "4", **self.user)
            self.assertGreater(json.loads(out)[0]["texts"], 0)
            outrider("bench", *words, "--repeats", "1", "-n", "4", "--methods", "coupled", code=1, **self.user)


class Options(unittest.TestCase):
    def test_limits_that_make_no_sense(self):
        _, error = call("outrider-coordinator", "-m", TARGET, "--queue-max", 100000, code=2)
        self.assertIn("at most 65536", error)
        _, error = call("outrider-coordinator", "-m", TARGET, "--sessions-max", 0, code=2)
        self.assertIn("at least 1", error)
        words = ["--listen", "tcp://127.0.0.1:*", "--chat-template", "chatmel"]
        for program, *first in (["outrider-coordinator", "-m", TARGET], ["outrider", "up"]):
            self.assertIn("write chatml, ", call(program, *first, *words, code=2)[1])

    def test_http_that_cannot_be_as_asked_for(self):
        """The exit code is 2: no new start mends it, so who looks after the service leaves it ended."""
        listen = ["-m", TARGET, "--listen", "tcp://127.0.0.1:*", "--journal", "none"]
        _, error = call("outrider-coordinator", *listen, "--http", "0.0.0.0:0", code=2)
        self.assertIn("--api-key-file", error)
        with tempfile.NamedTemporaryFile() as keys:
            Path(keys.name).write_text("sk-outrider-12345678\n")
            Path(keys.name).chmod(0o644)
            _, error = call("outrider-coordinator", *listen, "--http", "127.0.0.1:0", "--api-key-file", keys.name, code=2)
            self.assertIn("chmod", error)
            self.assertNotIn("12345678", error)

    def test_a_drafter_of_another_owner_does_not_draft(self):
        with Coordinator("--expect-drafter") as hub, \
                Background("-m", TARGET, "--connect", hub.endpoint, program="outrider-verifier"), \
                Background("-m", DRAFT, "--connect", hub.endpoint, "--owner", "alice", program="outrider-drafter"):
            words = ["generate", "--connect", hub.endpoint, "-p", "Once", "-n", 8, "--json", "--draft-policy", "fixed"]
            out, _ = outrider(*words, "--owner", "bob")
            self.assertEqual(json.loads(out)["drafted"], 0)
            out, _ = outrider(*words, "--owner", "alice")
            self.assertGreater(json.loads(out)["drafted"], 0)


def status_code(endpoint):
    try:
        outrider("status", "--ready", "--connect", endpoint)
    except AssertionError:
        return 1
    return 0


if __name__ == "__main__":
    unittest.main()
