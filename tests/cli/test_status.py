"""Goal: `outrider status` tells how a service does, in words, in JSON and by exit code, so that probes can use it; a full service is waited for
or reported as such; owners' names reach it.
Method: a coordinator alone, then with a verifier, with one place and no queue; a long text takes the place."""
import json
import re
import unittest

from cli import DRAFT, TARGET
from cli import Background, Cluster, call, outrider, wait_until

LONG_TEXT = ["--plain", "-p", "Once upon a time", "-n", 500, "--temp", 0, "--ignore-eos"]


class Coordinator(Background):
    def __init__(self, *words):
        super().__init__("-m", TARGET, "--listen", "tcp://127.0.0.1:*", *words, program="outrider-coordinator")
        self.endpoint = re.search(r"listening on (\S+)", self.hears("listening on")).group(1)


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
            figures = wait_until(lambda: (now := status(cluster.endpoint))["rounds"] > 0 and now, "the verifier's figures")
            self.assertTrue(figures["ready"])
            self.assertEqual(figures["target"], TARGET.name)
            self.assertEqual((figures["started"], figures["drafters"], figures["verifiers"]), (1, 1, 1))
            self.assertEqual((figures["busy"], figures["cut_off"], figures["cancelled"], figures["waiting"]), (0, 0, 0, 0))
            self.assertGreater(figures["passes"], 0)
            self.assertGreaterEqual(figures["batch_mean"], 0.5)
            out, _ = outrider("status", "--connect", cluster.endpoint)
            for word in ("target", "sessions", "batch", "cache", "drafters   1"):
                self.assertIn(word, out.decode())


class Busy(unittest.TestCase):
    def test_a_full_service_is_waited_for_or_reported(self):
        with Coordinator("--sessions-max", 1, "--queue-max", 0) as hub, \
                Background("-m", TARGET, "--connect", hub.endpoint, program="outrider-verifier") as verifier:
            verifier.hears("welcomed")
            with Background("generate", "--connect", hub.endpoint, *LONG_TEXT) as taker:
                wait_until(lambda: status(hub.endpoint)["started"] == 1, "a request")
                short = ["generate", "--connect", hub.endpoint, "--plain", "-p", "Once", "-n", 4]
                _, error = outrider(*short, "--busy-wait", 0, code=75)
                self.assertIn("busy: 0 requests wait; retry after", error)
                out, error = outrider(*short)
                self.assertEqual(error.count("asking again"), 1)
                self.assertTrue(out.startswith(b"Once"))
                self.assertEqual(taker.end()[0], 0)
            self.assertGreaterEqual(status(hub.endpoint)["busy"], 2)

    def test_who_goes_frees_the_place(self):
        with Coordinator("--sessions-max", 1, "--queue-max", 0) as hub, \
                Background("-m", TARGET, "--connect", hub.endpoint, program="outrider-verifier") as verifier:
            verifier.hears("welcomed")
            with Background("generate", "--connect", hub.endpoint, *LONG_TEXT):
                wait_until(lambda: status(hub.endpoint)["started"] == 1, "a request")
            wait_until(lambda: status(hub.endpoint)["cancelled"] == 1, "the killed client's end")
            outrider("generate", "--connect", hub.endpoint, "--plain", "-p", "Once", "-n", 4, "--busy-wait", 0)


class Options(unittest.TestCase):
    def test_limits_that_make_no_sense(self):
        _, error = call("outrider-coordinator", "-m", TARGET, "--queue-max", 100000, code=2)
        self.assertIn("at most 65536", error)
        _, error = call("outrider-coordinator", "-m", TARGET, "--sessions-max", 0, code=2)
        self.assertIn("at least 1", error)

    def test_a_drafter_of_another_owner_does_not_draft(self):
        with Coordinator("--expect-drafter") as hub, \
                Background("-m", TARGET, "--connect", hub.endpoint, program="outrider-verifier"), \
                Background("-m", DRAFT, "--connect", hub.endpoint, "--owner", "alice", program="outrider-drafter"):
            words = ["generate", "--connect", hub.endpoint, "-p", "Once", "-n", 8, "--json"]
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
