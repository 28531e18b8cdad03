"""Goal: what an operator is given works as it is: Prometheus reads /metrics, every expression of the rules, the alerts and the Grafana
dashboard has data on a running cluster, and the counters are the sums of what clients were told.

Method: a cluster, and Debian's Prometheus with the files of launch/prometheus, scraping it every second. Expressions are asked until each
had a number, while completions of all kinds run: of Grafana's with its variables filled in, of an alert what stands before its comparison
(nothing is wrong there; when alerts fire is tested on made-up series, test_rules.py). Counters are compared before and after completions
that nothing else runs beside.
"""
import json
import re
import threading
import time
import unittest

from http_case import PROMPT, Cluster, Stream, text_of
from prometheus import ROOT, Prometheus, need_programs, promtool

PATIENCE = 40  # for all expressions to have had data
COLON = "metric names should not contain ':'"
VARIABLES = {"$model_name": ".*", "$__rate_interval": "10s"}
COMPARISON = re.compile(r"\s*(==|[<>]=?)\s*[\d.]+$")
# A text's timings, and the counter of each.
SUMS = {
    "prompt_tokens_total": ("prompt_n", "cache_n"),
    "prefix_cache_queries_total": ("prompt_n", "cache_n"),
    "prefix_cache_hits_total": ("cache_n",),
    "request_generation_tokens_sum": ("predicted_n",),
    "verifier_calls_total": ("target_calls",),
    "spec_decode_num_draft_tokens_total": ("draft_n",),
    "spec_decode_num_accepted_tokens_total": ("draft_n_accepted",),
}


def grafana_expressions():
    dashboard = json.loads((ROOT / "launch/grafana/outrider.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    for variable in dashboard["templating"]["list"]:
        values = re.fullmatch(r"label_values\((.*), \w+\)", variable.get("definition", ""))
        expressions += [values[1]] if values else []
    for name, value in VARIABLES.items():
        expressions = [expression.replace(name, value) for expression in expressions]
    return expressions


def rule_expressions(rules):
    for rule in rules:
        if rule["type"] == "recording":
            yield from (rule["query"], rule["name"])
        else:
            yield from (COMPARISON.sub("", part) for part in rule["query"].split(" and "))


def read_page(text):
    """Return the samples of a page as {'name{labels}': number}, without model_name and the prefix."""
    samples = re.findall(r'^outrider:(\w+)\{model_name="[^"]*",?(.*)\} (\S+)$', text, re.M)
    return {f"{name}{{{labels}}}" if labels else name: float(number) for name, labels, number in samples}


class Load:
    """Clients that ask for completions of all kinds, streamed and whole, one after the other on some threads, until the end of the `with` block."""

    BODIES = [
        {"draft": {"policy": "fixed", "ahead": 2, "nodes": 16}},
        {"draft": {"policy": "auto", "ahead": 2}},
        {"draft": {"policy": "auto"}},
        {"draft": False},
    ]

    def __init__(self, cluster, bodies):
        self.cluster = cluster
        self.over = threading.Event()
        self.failures = []
        self.threads = [threading.Thread(target=self.run, args=(body,)) for body in bodies]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def run(self, body):
        try:
            while not self.over.is_set():
                self.cluster.complete(temperature=1, max_tokens=300, **body)
                with Stream(self.cluster, "/v1/completions", {"prompt": PROMPT, "max_tokens": 300, **body}) as stream:
                    text_of(stream)
        except Exception as error:  # told by the test: a thread's own is lost
            self.failures.append(f"{body}: {error!r}")


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need_programs()
        cls.cluster = cls.enterClassContext(Cluster())

    def page(self, query=""):
        code, headers, text = self.cluster.get("/metrics" + query)
        self.assertEqual((code, headers["Content-Type"]), (200, "text/plain; version=0.0.4; charset=utf-8"))
        return text

    def test_the_page_is_as_promtool_wants_it(self):
        code, said = promtool("check", "metrics", stdin=self.page("?names=plain").encode())
        self.assertEqual((code, said), (0, ""))
        _, said = promtool("check", "metrics", stdin=self.page().encode())
        self.assertEqual([line for line in said.splitlines() if not line.endswith(COLON)], [])

    def test_counters_are_the_sums_of_what_clients_were_told(self):
        before = read_page(self.page())
        replies = [self.cluster.complete(prompt=prompt, max_tokens=tokens, n=n, seed=7, draft=draft)
                   for prompt in ("Once upon a time", "Lily and her dog went to the park because")
                   for tokens, n in ((1, 1), (40, 1), (25, 3))
                   for draft in (False, {"policy": "fixed", "nodes": 8}, {"policy": "auto"})]
        after = read_page(self.page())
        choices = [choice for reply in replies for choice in reply["choices"]]
        timings = [choice.get("timings") or reply["timings"] for reply in replies for choice in reply["choices"]]
        expected = {metric: sum(text[name] for text in timings for name in names) for metric, names in SUMS.items()}
        expected["generation_tokens_total"] = sum(reply["usage"]["completion_tokens"] for reply in replies)
        for metric in ("time_to_first_token", "e2e_request_latency", "request_queue_time"):
            expected[f"{metric}_seconds_count"] = len(choices)
        for reason in ("stop", "length"):
            expected[f'request_success_total{{finished_reason="{reason}"}}'] = sum(
                choice["finish_reason"] == reason for choice in choices)
        self.assertEqual({name: after[name] - before.get(name, 0) for name in expected}, expected)

    def test_every_expression_has_data(self):
        with Prometheus(self.cluster.url.removeprefix("http://")) as prometheus:
            wanted = {*grafana_expressions(), *rule_expressions(prometheus.rules())}
            self.assertGreater(len(wanted), 100)
            # Among other texts on the same CPUs the automatic policy may do without any guess, and then knows nothing of them. Alone it tries both.
            for bodies in Load.BODIES, Load.BODIES[1:2]:
                with Load(self.cluster, bodies) as load:
                    end = time.monotonic() + PATIENCE / 2
                    while wanted and not load.failures and time.monotonic() < end:
                        time.sleep(1)
                        wanted = {expression for expression in wanted if not prometheus.numbers(expression)}
                self.assertEqual(load.failures, [])
            self.assertEqual(sorted(wanted), [], "these never had data")
            broken = [rule for rule in prometheus.rules() if rule["health"] != "ok"]
            self.assertEqual(broken, [])


if __name__ == "__main__":
    unittest.main()
