"""Goal: whoever is killed, and whatever line is cut, a text goes on and is the right one, or ends with a sentence; nothing hangs, no process is
left over, and no page is lost.
Method: `outrider up` with two ranks and clients that compare every text with plain decoding; at random moments kill -9 of a rank, of mpirun or
of the drafter, or a rank stopped for a while. In a second cluster the verifier's line goes through a relay that breaks it. Moments and victims
come from a seed, which is printed; OR_TEST_SEED replays it. OUTRIDER_CHAOS_KILLS makes it longer (label long: fifty)."""
import json
import os
import random
import signal
import time
import unittest
from unittest.mock import patch

from relay import Relay
from service import LAUNCHERS, EndlessLoad, number, processes, status
from cli import DRAFT, ENVIRONMENT, TARGET, Background, Cluster, generate, wait_until

KILLS = number("OUTRIDER_CHAOS_KILLS", 4)
CUTS = max(3, KILLS // 5)
SEED = number("OR_TEST_SEED", 20260611)
PATIENCE = 240  # seconds: `outrider up` waits for up to 30 before it starts again who ended soon after its last start, as they do here
TEXT = ["-p", "Once upon a time", "-n", 200, "--temp", 0, "--ignore-eos"]


class Chaos(unittest.TestCase):
    def setUp(self):
        self.random = random.Random(SEED)
        self.plain = generate("--plain", *TEXT)["text"]
        print(f"\n  OR_TEST_SEED={SEED}")

    def write(self, endpoint):
        probe = Background("generate", "--json", "--connect", endpoint, *TEXT)
        self.addCleanup(probe.__exit__)
        return probe

    def ended_well(self, probe):
        """Return whether it was the right text. If not it must have been a sentence."""
        code, out, error = probe.end(PATIENCE)
        if code == 0:
            self.assertEqual(json.loads(out)["text"], self.plain)
            return True
        self.assertEqual((code, out), (1, b""), error)
        self.assertRegex(error, r"outrider generate: \w.{20,}")
        return False

    def texts_survive(self, endpoint, strike):
        """Write two texts during a blow at a random moment, and one after it."""
        began = time.monotonic()
        probes = [self.write(endpoint) for _ in range(2)]
        time.sleep(self.random.uniform(0, 0.6))
        what = strike()
        whole = sum(self.ended_well(probe) for probe in probes)
        wait_until(lambda: self.ended_well(self.write(endpoint)), "a text after it", PATIENCE)
        print(f"  {what}: {whole} of 2 texts went on; the next one was there after {time.monotonic() - began:.1f} s", flush=True)

    def assert_load_was_right(self, load):
        figures = load.finish()
        print(f"  meanwhile {figures['texts']} texts, {figures['errors']} errors ({figures['error']})")
        self.assertEqual(figures["wrong"], 0, figures)
        self.assertGreater(figures["texts"], 0)
        if figures["errors"] > 0:
            self.assertGreater(len(figures["error"]), 20)

    def assert_no_page_lost(self, endpoint):
        """Check that all pages are free once nobody asks for anything. These verifiers keep no texts for others to share."""
        def idle():
            now = status(endpoint)
            return now["sessions"] == 0 and now["pages_free"] == now["pages"]
        wait_until(idle, "all pages free")


class Killed(Chaos):
    def alive(self):
        """Return process ids by what they are."""
        found = {}
        for name, pid in processes(self.cluster.endpoint):
            found.setdefault("mpirun" if name in LAUNCHERS else name, []).append(pid)
        return found

    def count(self):
        return {name: len(pids) for name, pids in self.alive().items()}

    def strike(self):
        alive = self.alive()
        name = self.random.choice(sorted(alive))
        pid = self.random.choice(alive[name])
        if name == "outrider-verifier" and self.random.random() < 0.3:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(self.random.uniform(0.2, 3))
            os.kill(pid, signal.SIGCONT)
            return f"{name} stopped"
        os.kill(pid, signal.SIGKILL)
        return f"{name} killed"

    def test_kill_9(self):
        with patch.dict(ENVIRONMENT, OUTRIDER_PREFIX_SHARING="false"):
            cluster = Cluster("--log-level", "error", "--np", 2)
        with cluster as self.cluster:
            endpoint = self.cluster.endpoint
            wait_until(lambda: {"outrider-verifier", "outrider-drafter"} <= set(self.count()), "verifier and drafter")
            self.assertTrue(self.ended_well(self.write(endpoint)))
            whole = self.count()
            print(f"  {whole}")
            with EndlessLoad(endpoint, 4) as load:
                for _ in range(KILLS):
                    self.texts_survive(endpoint, self.strike)
                    wait_until(lambda: self.count() == whole, f"everybody again, and nobody twice: {whole}", PATIENCE)
                self.assert_load_was_right(load)
            self.assert_no_page_lost(endpoint)
            self.cluster.process.send_signal(signal.SIGINT)
            code, _, error = self.cluster.end()
            self.assertEqual(code, 0, error)
            wait_until(lambda: not processes(endpoint), "the end of all processes")


class Cut(Chaos):
    """The verifier reaches its coordinator through a relay."""

    def strike(self):
        seconds = self.random.choice((0, self.random.uniform(0.1, 3)))
        self.relay.cut(seconds)
        return f"line cut for {seconds:.1f} s"

    def test_verifiers_line(self):
        with Background("-m", TARGET, "--listen", "tcp://127.0.0.1:*", "--ready-fd", 1, "--log-level", "error",
                        program="outrider-coordinator") as coordinator:
            endpoint = coordinator.process.stdout.readline().decode().strip()
            with Relay(endpoint) as self.relay, \
                    Background("-m", TARGET, "--connect", self.relay.endpoint, "--no-prefix-sharing", "--log-level", "error",
                               program="outrider-verifier"), \
                    Background("-m", DRAFT, "--connect", endpoint, "--log-level", "error", program="outrider-drafter"), \
                    EndlessLoad(endpoint, 4) as load:
                for _ in range(CUTS):
                    self.texts_survive(endpoint, self.strike)
                self.assert_load_was_right(load)
                self.assert_no_page_lost(endpoint)


if __name__ == "__main__":
    unittest.main()
