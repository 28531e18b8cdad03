"""Goal: a crowd gets the right texts, each of it its share, and serving costs no more memory after an hour than after a minute.
Method: 64 sessions at once on the demonstration pair, every text compared with plain decoding's, while the memory of each process is read
every half second. What the command itself says is held against its own figures. OUTRIDER_LOAD_SECONDS makes it longer (label long: ten minutes)."""
import json
import time
import unittest

from relay import Relay
from service import load_words, members, number, resident_mib, status
from cli import DRAFT, Background, Cluster, outrider

SECONDS = number("OUTRIDER_LOAD_SECONDS", 28)
SESSIONS = 64
# The coordinator remembers some hundreds of texts that have ended, for clients that missed the end; memory grows until it has so many. In
# the short version short texts bring that about sooner.
WARM_UP = min(60, 0.6 * SECONDS)  # seconds
TOKENS = 64 if SECONDS >= 120 else 24
GROWTH = 1.02  # and after that: nothing but noise
GROWTH_MIB = 1
FAIRNESS = 0.5


class Crowd(unittest.TestCase):
    def watch(self, process, roles):
        """Return memory by process until the load has ended: [(seconds, MiB)]."""
        seen = {pid: [] for pid in roles}
        began = time.monotonic()
        while process.poll() is None:
            for pid in roles:
                seen[pid].append((time.monotonic() - began, resident_mib(pid)))
            time.sleep(0.5)
        return seen

    def assert_flat(self, name, samples):
        early = max(mib for second, mib in samples if second <= WARM_UP)
        late = max(mib for second, mib in samples if second > WARM_UP)
        print(f"  {name}: {early:.1f} MiB at most in the first {WARM_UP:.0f} s, {late:.1f} MiB after that")
        self.assertLessEqual(late, max(GROWTH * early, early + GROWTH_MIB), f"{name} grows")

    def test_memory_and_fairness(self):
        with Cluster("--log-level", "warn") as cluster:
            roles = members(cluster)
            with Background(*load_words(cluster.endpoint, SESSIONS, SECONDS, "--seeds", 8, "--max-tokens", TOKENS)) as client:
                seen = self.watch(client.process, roles)
                code, out, error = client.end()
            self.assertEqual(code, 0, error)
            figures = json.loads(out)[0]
            print(f"\n  {json.dumps(figures)}")
            self.assertEqual((figures["wrong"], figures["errors"], figures["busy"]), (0, 0, 0), figures)
            self.assertGreater(figures["texts"], SESSIONS)
            served = status(cluster.endpoint)
            self.assertEqual((served["drafters"], served["cut_off"]), (1, 0), served)
            self.assertGreater(figures["session_tokens_per_second"]["worst_over_median"], FAIRNESS, figures)
            for pid, name in roles.items():
                self.assert_flat(name, seen[pid])


class Command(unittest.TestCase):
    """The command `outrider bench load` itself is tested."""

    def refused(self, *words, pattern):
        out, error = outrider("bench", "load", "--json", *words, code=2)
        self.assertEqual(out, b"")
        self.assertRegex(error, pattern)

    def test_options_that_make_no_sense(self):
        for words, pattern in ((["--sessions", "4,0"], "'0' is not a number from 1"), (["--sessions", "4,,1"], "empty word"),
                               (["--sessions", "-1"], "--sessions"), (["--sessions", "4x"], "'4x'"), (["--seconds", 0], "--seconds"),
                               (["--max-tokens", 0], "--max-tokens"), (["--seeds", 0], "--seeds"), (["--temp", -1], "--temp")):
            self.refused(*words, pattern=pattern)

    def test_no_table_without_an_answer(self):
        out, error = outrider("bench", "load", "--connect", "tcp://127.0.0.1:9", code=1)
        self.assertEqual(out, b"")
        self.assertIn("no coordinator answers", error)

    def test_figures(self):
        out, _ = outrider("bench", "load", "--sessions", "1,3", "--seconds", 2, "--max-tokens", 20, "--ignore-eos", "--check", "--json")
        lines = json.loads(out)
        self.assertEqual([line["sessions"] for line in lines], [1, 3])
        for line in lines:
            rates = line["session_tokens_per_second"]
            self.assertEqual((line["errors"], line["wrong"], line["error"]), (0, 0, None))
            self.assertGreaterEqual(line["tokens_per_second"] * line["seconds"] + 1e-3, 20 * line["texts"])
            self.assertLess(line["tokens_per_second"] * line["seconds"], 20 * (line["texts"] + line["sessions"]))
            self.assertLessEqual(rates["worst"], rates["median"])
            for name in ("first_token_ms", "inter_token_ms"):
                self.assertTrue(0 < line[name]["p50"] <= line[name]["p95"] <= line[name]["p99"], line)
        self.assertEqual(lines[0]["session_tokens_per_second"]["worst_over_median"], 1)

    def test_a_wrong_text_is_noticed(self):
        """Another target takes over behind the relay after the plain texts were learnt."""
        with Cluster("--plain", "--log-level", "error") as right, Relay(right.endpoint) as relay, \
                Cluster("--plain", "--log-level", "error", "-m", DRAFT) as wrong:
            words = ["--connect", relay.endpoint, "--sessions", "1,2", "--seconds", 2, "--plain", "--check", "--json"]
            with Background("bench", "load", *words) as client:
                self.assertTrue(client.hears("decoded plainly"))
                relay.lead_to(wrong.endpoint)
                code, out, error = client.end()
        self.assertEqual(code, 1, error)
        self.assertGreater(sum(line["wrong"] for line in json.loads(out)), 0)


if __name__ == "__main__":
    unittest.main()
