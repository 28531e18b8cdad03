#!/usr/bin/env python3
"""Rules, alerts, the Grafana dashboard, our own dashboard and the documents name only figures that exist.

    check_figures.py [--root FOLDER]

Exit status 1 with one line for each name that no figure has. The figures are read from the tables in the source: proto/wire/figures.h,
coordinator/figures/telemetry.c and coordinator/http/api/api_figures.c; a rule that records a metric adds one."""
import argparse
import re
import sys
from pathlib import Path

FIGURES = "proto/wire/figures.h"
DASHBOARD = "coordinator/http/dashboard"
PREFIXES = {"OR_VERIFIER_FIGURES": "", "OR_COORDINATOR_FIGURES": "", "OR_PEER_REPORTED_FIGURES": "peer_", "OR_PEER_FIGURES": "peer_",
            "OR_SESSION_FIGURES": "policy_"}
TABLE = re.compile(r"#define (\w+)\(X\) *\\\n(.*?[^\\])\n", re.S)
ROW = re.compile(r'X\(\w+, (\w+), \d+, ([^,]+), \d+, \w+, "(\w*)"')
COUNTED = re.compile(r'X\(\w+, (COUNTER|GAUGE|HISTOGRAM), "(\w+)"')
HTTP = re.compile(r'ROW\(\w+, (\w+), "(\w+)"|OR_METRIC_(\w+),\s*\.name = "(\w+)"')
NAMED = re.compile(r"outrider:([\w:]+)")
# In the dashboard's source: names of metrics, which are all in one style; then members of /status, of a peer and of a session.
QUOTED = re.compile(r'"([a-z0-9]+(?:_[a-z0-9]+)+)"')
MEMBERS = {"status": re.compile(r"\bstatus\.(\w+)"), "figures": re.compile(r"\bfigures\.(\w+)"),
           "peers": re.compile(r"\bp\.(\w+)"), "sessions": re.compile(r"\bs\.(\w+)")}
COMPUTED = {"busy", "uptime_s"}  # of the dashboard itself, and of the HTTP face


def tables(root):
    """Return the rows by table: [(member, traits, metric)]."""
    found = {name: ROW.findall(rows) for name, rows in TABLE.findall((root / FIGURES).read_text()) if name in PREFIXES}
    missing = [name for name in PREFIXES if not found.get(name)]
    if missing:
        sys.exit(f"{FIGURES}: there are no rows of {', '.join(missing)}: this check no longer reads it")
    return found


def series_of(kind, name):
    return {f"{name}_{part}" for part in ("bucket", "sum", "count")} if kind == "HISTOGRAM" else {name}


def metrics(root, rows):
    """Return the names of all series, those of histograms also by their family, as the dashboard asks for quantiles."""
    series = {PREFIXES[table] + metric for table, members in rows.items() for _, _, metric in members if metric}
    counted = COUNTED.findall((root / "coordinator/figures/telemetry.c").read_text())
    http = [(a or c, b or d) for a, b, c, d in HTTP.findall((root / "coordinator/http/api/api_figures.c").read_text())]
    if not counted or not http:
        sys.exit("telemetry.c or api_figures.c have no rows: this check no longer reads them")
    families = {name for kind, name in counted + http if kind == "HISTOGRAM"}
    return series.union(*(series_of(*row) for row in counted + http)), families


def members(root, rows):
    """Return the names in the objects of /status: those of rows, and those that stats_json.c writes by hand."""
    by_hand = set(re.findall(r'"(\w+)"', (root / "proto/wire/stats_json.c").read_text())) | COMPUTED
    named = {table: {re.sub("_ms$", "_s", member) if "OR_IN_SECONDS" in traits else member for member, traits, _ in found}
             for table, found in rows.items()}
    return {"status": by_hand, "figures": named["OR_VERIFIER_FIGURES"] | named["OR_COORDINATOR_FIGURES"],
            "peers": named["OR_PEER_REPORTED_FIGURES"] | named["OR_PEER_FIGURES"] | by_hand, "sessions": named["OR_SESSION_FIGURES"] | by_hand}


def unknown(root):
    rows = tables(root)
    series, families = metrics(root, rows)
    recorded = set(re.findall(r"record: outrider:([\w:]+)", (root / "launch/prometheus/rules.yml").read_text()))
    for place in [*root.glob("launch/prometheus/*.yml"), *root.glob("launch/grafana/*.json"), *root.glob("tests/http/*.yml"), *root.glob("docs/*.md")]:
        for name in sorted(set(NAMED.findall(place.read_text())) - series - recorded - {"policy_"}):
            yield f"{place.relative_to(root)}: there is no metric outrider:{name}"
    known = members(root, rows)
    for place in sorted((root / DASHBOARD).glob("*.js")):
        text = place.read_text()
        if place.name == "playground.js":  # speaks of requests
            continue
        for name in sorted(set(QUOTED.findall(text)) - series - families):
            yield f"{place.relative_to(root)}: there is no metric {name}"
        for where, pattern in MEMBERS.items():
            for name in sorted(set(pattern.findall(text)) - known[where]):
                yield f"{place.relative_to(root)}: /status has no {name} among its {where}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    found = list(unknown(parser.parse_args().root))
    print("\n".join(found) if found else "all figures that are named exist")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
