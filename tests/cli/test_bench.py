"""Goal: the bench measures what it says, compares texts with plain decoding's, and refuses what makes no sense before it starts anything.
Method: small runs against one running cluster and one local run; figures are recomputed from the counts beside them; outputs are read
by Python's own JSON, CSV and XML parsers."""
import csv
import json
import os
import re
import signal
import tempfile
import time
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

from cli import DRAFT, TARGET, Background, Cluster, generate, outrider, wait_until

SMALL = ["-n", 16, "--repeats", 2]
FIGURES = ["runs", "tokens", "target_calls", "drafted", "accepted", "plain_rounds", "draft_passes", "block_efficiency", "mbsu", "tokens_per_second",
           "acceptance_by_depth", "acceptance_by_rank", "alpha_at", "round_us", "wire_bytes_per_token", "speedup", "wire_bytes_per_accepted",
           "ahead_hit_rate", "bridged_rounds", "lookup_rounds"]
CASE = ["name", "lossy", "draft_method", "accept", "temperature", "tree", "group", "nodes", "texts_differing", "reason", "distribution_entries"]
SPEC_BENCH = [{"question_id": 1, "category": "writing", "turns": ["Once upon a time", "And then?"]},
              {"question_id": 2, "category": "coding", "turns": ["There was once"]},
              {"question_id": 3, "category": "rag", "turns": ["It was a dark night"]},
              {"question_id": 4, "category": "rag", "turns": ["The fox said"]}]
SVG = "{http://www.w3.org/2000/svg}"


class OnACluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("-m", TARGET, "-md", DRAFT, "--log-level", "warn")
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()
        cls.cluster.__exit__()

    def prompts(self, lines):
        path = Path(self.folder.name) / "prompts.jsonl"
        path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
        return path

    def bench(self, *words):
        out, _ = outrider("bench", "--json", "--connect", self.cluster.endpoint, "-m", TARGET, "-md", DRAFT, *words)
        return json.loads(out)

    def check(self, line, case):
        """Check what must hold for any measured case."""
        plain = case["name"] == "plain"
        self.assertIsNone(case["reason"])
        self.assertEqual(case["texts_differing"], 0)
        self.assertAlmostEqual(case["block_efficiency"], case["tokens"] / case["target_calls"], places=6)
        self.assertEqual(plain, case["draft_passes"] == 0)
        self.assertLess(case["plain_rounds"], case["target_calls"])
        calls = case["draft_passes"] / case["target_calls"] * line["size_ratio"] + 1
        self.assertAlmostEqual(case["mbsu"], case["block_efficiency"] / calls, places=6)
        for share in case["acceptance_by_depth"] + case["acceptance_by_rank"]:
            self.assertTrue(share is None or 0 <= share <= 1, case)
        alpha = [share for share in case["alpha_at"] if share is not None]
        self.assertEqual(alpha, sorted(alpha))
        self.assertTrue(all(0 <= share <= 1 for share in alpha))
        self.assertEqual(plain, not alpha)
        low, middle, high = (case["speedup"][key] for key in ("min", "median", "max"))
        self.assertTrue(0 < low <= middle <= high)
        self.assertEqual(plain, case["drafted"] == 0)
        self.assertTrue(all(value >= 0 for key, value in case["round_us"].items() if key != "elsewhere"))
        if plain:
            self.assertEqual((case["block_efficiency"], low, high, case["wire_bytes_per_token"]), (1, 1, 1, 0))
        else:
            self.assertGreater(case["wire_bytes_per_token"], 0)
            self.assertGreater(case["round_us"]["draft"], 0)

    def test_figures(self):
        line = self.bench(*SMALL, "--prompt-limit", 2, "--temp", "0,1", "--methods", "coupled,chain+sps,recursive", "--nodes", "4,16")
        self.assertEqual((line["prompts"], line["prompts_skipped"], line["repeats"], line["interrupted"]), (2, 0, 2, False))
        self.assertEqual(line["runs"], line["runs_planned"])
        self.assertAlmostEqual(line["size_ratio"], 0.159, places=2)
        names = ["coupled+coupled", "chain+sps", "rsd-s+recursive"]
        self.assertEqual([case["name"] for case in line["cases"]], 2 * (["plain"] + 2 * names))
        self.assertEqual([case["nodes"] for case in line["cases"]], 2 * ([0] + 3 * [4] + 3 * [16]))
        for case in line["cases"]:
            self.assertEqual(list(case)[:len(CASE) + len(FIGURES)], CASE + FIGURES)
            self.check(line, case)
            self.assertEqual(case["runs"], 4)
            self.assertLessEqual(case["drafted"], case["nodes"] * case["target_calls"])
        best = {case["nodes"]: case["block_efficiency"] for case in line["cases"] if case["name"] == "coupled+coupled"}
        self.assertGreater(best[16], 1.5)

    def test_a_coupled_trees_bytes(self):
        """A token costs at most 80 bytes for 16 nodes, and the text stays plain decoding's. Guesses for several rounds ahead that come to nothing
        cost more, and on a link without delay nothing is gained for them."""
        for ahead, bound in ((0, 80), (1, 80), (4, 120)):
            for policy in ("fixed", "auto"):
                line = self.bench("-n", 96, "--repeats", 1, "--prompt-limit", 2, "--temp", "0", "--methods", "coupled", "--ignore-eos",
                                  "--draft-ahead", ahead, "--draft-policy", policy)
                self.assertEqual((line["draft_ahead"], line["draft_policy"]), (ahead, policy))
                case = line["cases"][1]
                self.assertEqual(case["texts_differing"], 0)
                if policy == "fixed":
                    self.assertLess(case["wire_bytes_per_token"], bound, (ahead, policy))

    def test_bytes_by_the_size_of_distributions(self):
        line = self.bench("-n", 48, "--repeats", 1, "--prompt-limit", 1, "--temp", 1, "--methods", "coupled,recursive",
                          "--distribution-entries", "8,64")
        self.assertEqual([case["distribution_entries"] for case in line["cases"]], [None, None, 8, 64])
        self.assertEqual([case["tree"] for case in line["cases"]], ["-", "16", "16 K8", "16 K64"])
        coupled, small, large = (case["wire_bytes_per_token"] for case in line["cases"][1:])
        self.assertTrue(coupled < small < large)
        outrider("bench", "--distribution-entries", "8,0", code=2)
        outrider("bench", "--draft-ahead", 9, code=2)
        outrider("bench", "--draft-policy", "best", code=2)

    def test_every_legal_pair_writes_plain_decodings_text(self):
        line = self.bench("-n", 12, "--repeats", 1, "--prompt-limit", 2, "--temp", 0, "--methods", "all", "--nodes", 6)
        measured = [case for case in line["cases"] if case["reason"] is None]
        self.assertLessEqual({"plain", "coupled+coupled", "coupled+greedy", "chain+sps", "mcsd+multi-round", "rsd-c+recursive",
                              "rsd-s+recursive", "rsd-s+naive"}, {case["name"] for case in measured})
        self.assertFalse(any(case["lossy"] for case in measured))
        for case in measured:
            self.assertEqual(case["texts_differing"], 0, case["name"])
        line = self.bench("-n", 4, "--repeats", 1, "--prompt-limit", 1, "--temp", 1, "--methods", "all", "--nodes", 4)
        self.assertNotIn("greedy", {case["accept"] for case in line["cases"]})

    def test_fixed_budget_and_length(self):
        words = ["-n", 24, "--repeats", 1, "--prompt-limit", 2, "--temp", 1, "--methods", "rsd-s+recursive,rsd-c+recursive,chain+sps"]
        line = self.bench("--fixed-budget", *words)
        trees = {case["tree"]: case for case in line["cases"]}
        self.assertLessEqual({"2x3", "3x2", "2x1x1", "2x2", "3x1", "6", "5x6", "2x2x2x2", "30"}, set(trees))
        self.assertEqual({case["group"] for case in line["cases"]}, {0, 6, 10, 14, 21, 30})
        for case in line["cases"]:
            self.check(line, case)
            self.assertLessEqual(case["nodes"], case["group"])
            if case["draft_method"] != "rsd-c":
                self.assertEqual(case["nodes"], case["group"])
        line = self.bench("--fixed-length", *words)
        for case in line["cases"]:
            self.check(line, case)
            if case["draft_method"] in ("chain", "mcsd", "rsd-c", "rsd-s"):  # a pass a level; the last round drafts for nobody
                self.assertLessEqual(case["draft_passes"], (case["group"] + 1) * case["target_calls"])
                self.assertGreater(case["draft_passes"], (case["group"] - 1) * (case["target_calls"] - case["runs"]))

    def test_k_configurations(self):
        line = self.bench("--k-config", "-n", 24, "--repeats", 1, "--prompt-limit", 2, "--temp", 1)
        self.assertEqual(len(line["cases"]), 1 + 2 * 7)
        for case in line["cases"]:
            self.check(line, case)
        self.assertEqual({case["name"] for case in line["cases"] if case["tree"] == "4x2x2x1x1"}, {"mcsd+multi-round", "rsd-c+recursive"})

    def test_prompts_by_category(self):
        path = self.prompts(SPEC_BENCH)
        line = self.bench("--spec-bench", "--prompts", path, "-n", 8, "--repeats", 1, "--temp", 0, "--methods", "coupled")
        for case in line["cases"]:
            parts = case["categories"]
            self.assertEqual({name: part["runs"] for name, part in parts.items()}, {"conversation": 2, "rag": 2})
            for key in ("tokens", "target_calls", "drafted", "accepted"):
                self.assertEqual(sum(part[key] for part in parts.values()), case[key])
        line = self.bench("--prompts", path, "--categories", "rag, coding", "--prompt-limit", 2, "-n", 4, "--repeats", 1, "--temp", 0,
                          "--methods", "plain")
        self.assertEqual({name: part["runs"] for name, part in line["cases"][0]["categories"].items()}, {"coding": 1, "rag": 1})

    def test_guesses_that_are_never_taken_are_measured_too(self):
        """A service would do without such a drafter before long; who measures it wants all it builds."""
        line = self.bench("--methods", "ngram+coupled", "--nodes", 14, "--temp", 1, "--draft-temp", 1, "-n", 64, "--prompt-limit", 1, "--repeats", 1)
        self.assertIsNone(line["cases"][1]["reason"])
        self.assertGreater(line["cases"][1]["target_calls"], 40)

    def test_a_prompt_that_is_too_long_is_left_out(self):
        path = self.prompts([{"prompt": "word " * 2000}, {"prompt": "Once upon a time"}])
        out, error = outrider("bench", "--json", "--connect", self.cluster.endpoint, "--prompts", path, *SMALL, "--methods", "coupled")
        line = json.loads(out)
        self.assertEqual((line["prompts"], line["prompts_skipped"], line["size_ratio"]), (1, 1, None))
        self.assertEqual([case["runs"] for case in line["cases"]], [2] * 4)
        self.assertRegex(error, r"prompt 1 is left out: the prompt has (at least )?\d+ tokens and the context holds 512")

    def test_table_csv_and_plots(self):
        plots, table = Path(self.folder.name) / "plots", Path(self.folder.name) / "table.csv"
        out, error = outrider("bench", "--connect", self.cluster.endpoint, *SMALL, "--spec-bench", "--prompts", self.prompts(SPEC_BENCH),
                              "--csv", table, "--plots", plots, "--methods", "coupled,rsd-s+recursive,greedy", "--temp", "0,1")
        text = out.decode()
        self.assertTrue(all(len(line) <= 120 for line in text.splitlines() if "not measured" not in line))
        for word in ("conversa", "MBSU", "coupled+coupled", "rsd-s+recursive", "temperature 1", "budget 16", "56 of 64 runs, 4 prompts"):
            self.assertIn(word, text)
        self.assertIn("not measured: --accept greedy decodes at temperature 0 only", text)
        with table.open(newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 8 * 3)
        for row in rows:
            if row["reason"] == "":
                self.assertAlmostEqual(float(row["block_efficiency"]), int(row["tokens"]) / int(row["target_calls"]), places=3)
        self.assertEqual({row["category"] for row in rows}, {"all", "conversation", "rag"})
        self.assertEqual(sorted(path.name for path in plots.iterdir()),
                         sorted(f"{name}_t{t}.svg" for name in ("acceptance", "block_efficiency", "speedup") for t in (0, 1)))
        for path in plots.iterdir():
            root = xml.parse(path).getroot()
            self.assertEqual(root.tag, SVG + "svg")
            texts = [element.text for element in root.iter(SVG + "text")]
            self.assertIn("coupled+coupled, 16", texts)
            self.assertNotIn("nan", path.read_text())

    def test_calibrated(self):
        words = ["bench", "--connect", self.cluster.endpoint, *SMALL, "--prompt-limit", 1, "--temp", 0, "--draft-calibrated",
                 "--methods", "dyspec,dyspec-t,chain", "--draft-threshold", 0.2]
        text = outrider(*words)[0].decode()
        for word in ("dyspec*+coupled", "dyspec-t*+coupled", "chain+coupled", "\n* grown by measured acceptance"):
            self.assertIn(word, text)
        self.assertNotIn("chain*", text)
        names = [case["name"] for case in json.loads(outrider(*words, "--json")[0])["cases"]]
        self.assertEqual(names, ["plain", "dyspec*+coupled", "dyspec-t*+coupled", "chain+coupled"])

    def test_ngram_has_no_draft_model(self):
        case = self.bench(*SMALL, "--prompt-limit", 2, "--temp", 0, "--methods", "ngram")["cases"][1]
        self.assertEqual((case["reason"], case["draft_passes"]), (None, 0))
        self.assertEqual(case["mbsu"], case["block_efficiency"])

    def test_rules_numbers_reach_the_verifier(self):
        """A rule that lets nearly everything pass accepts more than one that lets nearly nothing pass."""
        def accepted(*words):
            line = self.bench("-n", 32, "--repeats", 1, "--prompt-limit", 2, "--temp", 1, "--allow-lossy", "--ignore-eos", *words)
            return line["cases"][1]["accepted"]
        self.assertGreater(accepted("--methods", "lenient", "--lenience", 1000), accepted("--methods", "lenient", "--lenience", 1))
        loose, strict = ["--typical-epsilon", 0.0001, "--typical-delta", 0.0001], ["--typical-epsilon", 0.99, "--typical-delta", 100]
        self.assertGreater(accepted("--methods", "typical", *loose), accepted("--methods", "typical", *strict))

    def test_interruption(self):
        with Background("bench", "--json", "--connect", self.cluster.endpoint, "--repeats", 1000, "-n", 64) as run:
            run.hears("of our own")
            time.sleep(1)
            run.process.send_signal(signal.SIGINT)
            code, out, _ = run.end()
        line = json.loads(out)
        self.assertEqual((code, line["interrupted"]), (130, True))
        self.assertTrue(0 < line["runs"] < line["runs_planned"])


class NotMeasured(unittest.TestCase):
    """A case that was named and not measured is reported, and is a failure."""

    def bench(self, endpoint, *words, code=1):
        out, _ = outrider("bench", "--connect", endpoint, *SMALL, "--prompt-limit", 1, "--temp", 0, *words, code=code)
        return out

    def test_without_a_drafter(self):
        with Cluster("-m", TARGET, "--plain", "--log-level", "warn") as cluster:
            plain, drafted = json.loads(self.bench(cluster.endpoint, "--json", "--methods", "coupled"))["cases"]
            self.assertEqual((plain["reason"], plain["runs"]), (None, 2))
            self.assertIn("every round was plain", drafted["reason"])
            self.assertEqual((drafted["runs"], drafted["block_efficiency"]), (0, None))
            self.assertIn(b"not measured: no drafter served it", self.bench(cluster.endpoint, "--methods", "coupled"))
            self.bench(cluster.endpoint, "--methods", "plain", code=0)

    def test_distrusted(self):
        """Only the rule that would have to believe the drafter is not measured."""
        with Background("-m", TARGET, "--listen", "tcp://127.0.0.1:*", "--trust", "none", program="outrider-coordinator") as coordinator:
            endpoint = re.search(r"tcp://[\d.:]+", coordinator.hears("listening on"))[0]
            with (Background("-m", TARGET, "--connect", endpoint, program="outrider-verifier"),
                  Background("-m", DRAFT, "--connect", endpoint, program="outrider-drafter")):
                wait_until(lambda: generate("--connect", endpoint, "-p", "It was", "-n", 8, "--draft-policy", "fixed")["drafted"] > 0, "the drafter")
                line = json.loads(self.bench(endpoint, "--json", "--methods", "coupled,recursive"))
                self.bench(endpoint, "--methods", "coupled", code=0)
        _, coupled, recursive = line["cases"]
        self.assertEqual((coupled["reason"], coupled["runs"]), (None, 2))
        self.assertIn("trusted", recursive["reason"])
        self.assertEqual(recursive["runs"], 0)

    def test_a_late_reason_hides_nothing(self):
        """The drafter is stopped between two repeats; what it drafted for until then is shown, and why no more."""
        with Cluster("-m", TARGET, "-md", DRAFT, "--log-level", "warn") as cluster:
            drafter = cluster.roles("outrider-drafter")["outrider-drafter"]
            wait_until(lambda: generate("--connect", cluster.endpoint, "-p", "It was", "-n", 8, "--draft-policy", "fixed")["drafted"] > 0, "the drafter")
            with Background("bench", "--connect", cluster.endpoint, "-n", 64, "--repeats", 40, "--temp", 0, "--prompt-limit", 1,
                            "--methods", "coupled") as run:
                run.hears("of our own")
                time.sleep(1)
                os.kill(drafter, signal.SIGSTOP)
                code, out, _ = run.end()
        text = out.decode()
        self.assertEqual(code, 0)
        self.assertNotIn("not measured:", text)
        self.assertRegex(text, r"not measured to the end, \d+ runs?: ")
        self.assertRegex(text, r"coupled\+coupled +16 +[1-9]\.\d\d")


class BadInput(unittest.TestCase):
    def refuse(self, *words, code=2):
        out, error = outrider("bench", *words, code=code)
        self.assertEqual(out, b"")
        return error

    def test_methods(self):
        error = self.refuse("--methods", "coupled,eagle")
        for name in ("'eagle'", "rsd-s", "multi-round", "recursive"):
            self.assertIn(name, error)
        self.assertIn("'eagle' is not one of", self.refuse("--methods", "eagle+sps"))
        self.assertIn("'eagle' is not one of", self.refuse("--methods", "chain+eagle"))
        self.assertIn("takes siblings drawn without replacement", self.refuse("--methods", "mcsd+recursive"))
        self.assertIn("temperature 0 only", self.refuse("--methods", "coupled+greedy", "--temp", 1))
        self.assertIn("empty", self.refuse("--methods", "coupled,,chain"))
        self.assertIn("branching factors", self.refuse("--methods", "chain+sps", "--k-config"))

    def test_numbers(self):
        for nodes in (0, 100000, -1):
            self.assertIn(f"{nodes} is not between 1 and 1024", self.refuse("--nodes", f"4,{nodes}"))
        for words, reason in ((["--temp", "0,warm"], "'warm' is not a temperature"), (["--temp", -1], "not a temperature"),
                              (["--temp", "nan"], "not a temperature"), (["-n", 0], "at least 1"), (["--repeats", 0], "between 1 and"),
                              (["--draft-temp", 0], "neither -1 nor above 0"), (["--draft-temp", -2], "neither -1 nor above 0"),
                              (["--lenience", 0.5], "0.5 is neither 0 nor between 1 and"),
                              (["--typical-epsilon", 1.5], "between 0 and 1"), (["--typical-delta", -1], "between 0 and"),
                              (["--draft-threshold", 2], "between 0 and 1"),
                              (["--draft-depth", 0], "at least 1"), (["--nodes", ""], "1 to 64 numbers"),
                              (["--synthetic-acceptance", "0.9,0.2"], "'0.2' is not a probability"),
                              (["--synthetic-acceptance", "much"], "'much' is not"), (["--synthetic-acceptance", ""], "empty"),
                              (["--synthetic-acceptance", "0.5", "--methods", "chain"], "its own method"),
                              (["--fixed-length", "--k-config"], "one of --fixed-length"), (["--categories", "rag"], "--prompts")):
            self.assertIn(reason, self.refuse(*words))

    def test_prompt_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "prompts.jsonl"
            good = json.dumps({"prompt": "Once"})
            for text, reason in (("", "holds no prompts"), ("\n\n", "holds no prompts"), (good + "\n{\"prompt\": \n", "line 2: not a JSON"),
                                 (good + "\n\n[1]\n", "line 3: no text"), ("{\"turns\": []}", "line 1: no text"),
                                 ("{\"turns\": [7]}", "line 1: no text"), ("{\"prompt\": \"\"}", "line 1: the prompt is empty"),
                                 ("{\"prompt\": \"a\", \"category\": 3}", "line 1: \"category\""), ("\x00", "line 1: not a JSON"),
                                 (json.dumps({"prompt": "a", "category": "c" * 40}), "line 1: the category")):
                path.write_text(text)
                self.assertIn(reason, self.refuse("--prompts", path), text)
            path.write_text(good)
            self.assertIn("of these --categories; it has unnamed", self.refuse("--prompts", path, "--categories", "math"))
            self.assertIn("cannot open", self.refuse("--prompts", Path(folder) / "none.jsonl", code=1))


class LocalRun(unittest.TestCase):
    def test_further_draft_models(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "acceptance"
            out, _ = outrider("bench", "--json", "-n", 16, "--repeats", 1, "--temp", 0, "--prompt-limit", 1, "--methods", "multi,sequoia",
                              "--multi-model", DRAFT, "--acceptance-file", path)
            self.assertTrue(path.exists())
        for case in json.loads(out)["cases"][1:]:
            self.assertIsNone(case["reason"])
            self.assertGreater(case["drafted"], 0)

    def test_the_demonstration_pair(self):
        out, error = outrider("bench", "--json", "-n", 16, "--repeats", 1, "--temp", 0, "--prompt-limit", 2, "--methods", "coupled")
        line = json.loads(out)
        self.assertEqual([case["name"] for case in line["cases"]], ["plain", "coupled+coupled"])
        self.assertIn("2 prompts of our own", error)
        self.assertIn("verifier (pid", error)


class WithoutModels(unittest.TestCase):
    def bench(self, *words, **variables):
        out, _ = outrider("bench", "--json", "-n", 256, "--repeats", 1, *words, **variables)
        return {case["nodes"]: case for case in json.loads(out)["cases"]}

    def test_a_chain_of_constant_acceptance(self):
        """Tokens per target call have a closed form, (1 - a^(g+1)) / (1 - a)."""
        cases = self.bench("--synthetic-acceptance", 0.7, "--nodes", "1,4", "--step-us", 300, "--draft-us", 50)
        for nodes, case in cases.items():
            self.assertIsNone(case["reason"])
            self.assertAlmostEqual(case["block_efficiency"], (1 - 0.7 ** (nodes + 1)) / 0.3, delta=0.2)
            self.assertEqual(case["round_us"]["verify"], 300)
            self.assertEqual(case["round_us"]["draft"], 50 if nodes else 0)
        self.assertGreater(cases[4]["speedup"]["median"], cases[1]["speedup"]["median"])

    def test_ranks(self):
        case = self.bench("--synthetic-acceptance", "0.5,0.2,0.1", "--nodes", 3, "--draft-depth", 1)[3]
        for measured, wanted in zip(case["acceptance_by_rank"], (0.5, 0.2, 0.1), strict=True):
            self.assertAlmostEqual(measured, wanted, delta=0.07)
        for measured, wanted in zip(case["alpha_at"], (0.5, 0.7, 0.8, None), strict=True):
            self.assertTrue(measured is wanted or abs(measured - wanted) < 0.07, case["alpha_at"])
        self.assertEqual(len(case["acceptance_by_depth"]), 1)

    def test_the_likeliest_tree(self):
        """With acceptances 0.6 and 0.2 the chain of 0.6, 0.36, 0.216 is the best tree of three nodes, and 1 + their sum the tokens a call."""
        case = self.bench("--synthetic-acceptance", "0.6,0.2", "--nodes", 3)[3]
        self.assertEqual(len(case["acceptance_by_rank"]), 1)
        self.assertAlmostEqual(case["block_efficiency"], 2.176, delta=0.15)
        self.assertIsNone(case["mbsu"])  # of no model nobody knows the size

    def test_what_the_user_set_for_other_services(self):
        """Variables that are meant for a service elsewhere do not reach the coordinator that the bench starts."""
        with tempfile.TemporaryDirectory() as folder:
            case = self.bench("--synthetic-acceptance", "0.6", "--nodes", 1, OUTRIDER_ENCRYPT="on", OUTRIDER_JOURNAL=folder, OUTRIDER_KEYS=folder)[1]
            self.assertIsNone(case["reason"])
            self.assertEqual(list(Path(folder).iterdir()), [])
