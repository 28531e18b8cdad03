#!/usr/bin/env python3
"""The policy `auto` in real time, beside plain decoding and beside the best of many fixed settings.

    outrider model inflate launch/models/tales-6m-f16.gguf big.gguf 300M --type Q8_0
    policy.py --target big.gguf --seconds 6 --turns 5
    policy.py --target big.gguf --cells "300M, 4 sessions"

A cell is a pair, a number of sessions and what its texts are like. In the first turn every fixed setting runs once. The three that wrote most go on:
in each of the other turns plain decoding, `auto`, these three and plain decoding once more run by turns, each in a cluster of its own that knows
nothing yet. Figures are medians over the turns. Plain decoding beside itself says what the machine's noise is. Not a test: it takes minutes for each
cell, and says nothing on a machine that is busy.
"""
import argparse
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from peer import Cluster, absolute, median, print_table, run_json, say

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "launch/models"
PLAIN_ASKED, FIXED_ASKED = 0.97, 0.95  # of plain decoding's speed, and of the best fixed setting's
BEST = 3  # fixed settings that are measured in every turn

TARGET, DRAFT = MODELS / "tales-6m-f16.gguf", MODELS / "tales-1m-f16.gguf"
OTHER_VOCABULARY = MODELS / "tales-bpe-1m-f16.gguf"
LOADED = ("300M", "demonstration pair")  # kinds of cells that are measured with many sessions, too

PLAIN = ("--plain",)
AUTO = ("--draft-policy", "auto")
FIXED = [("--draft-policy", "fixed", "--draft-nodes", nodes, "--draft-ahead", ahead) for nodes in (4, 8, 16, 32, 64) for ahead in (0, 1, 4)]
FIXED.append(("--draft-policy", "fixed", "--draft-method", "ngram"))


@dataclass
class Cell:
    target: Path
    draft: Path
    words: tuple  # more for `bench load`
    beside: tuple = ()  # draft models of further drafters


def cells_of(target, wide):
    """Return the cells by their names. `wide`: a target and a draft model of a large vocabulary, or None."""
    kinds = {
        "300M": Cell(target, DRAFT, ()),
        "demonstration pair": Cell(TARGET, DRAFT, ()),
        "300M, temperature 0": Cell(target, DRAFT, ("--temp", 0)),
        "300M, texts of 16": Cell(target, DRAFT, ("-n", 16)),
        "300M, texts of 400": Cell(target, DRAFT, ("-n", 400, "--ignore-eos")),
        "300M, two ranks": Cell(target, DRAFT, ("--np", 2)),
        "300M, a drafter of another vocabulary": Cell(target, OTHER_VOCABULARY, ()),
        "300M, two drafters": Cell(target, DRAFT, (), (DRAFT,)),
    }
    if wide:
        kinds["128k tokens"] = Cell(*wide, ())
    return {f"{name}, {sessions} sessions": replace(cell, words=(*cell.words, "--sessions", sessions))
            for name, cell in kinds.items() for sessions in ((1, 4, 16, 64) if name in LOADED else (1, 4))}


def speed(options, cell, setting, seconds):
    """Return the tokens a second of all sessions in a run of so many seconds."""
    words = [options.outrider, "bench", "load", "--json", "--seconds", seconds, *cell.words, *setting]
    if cell.beside:
        with Cluster(options.outrider, cell.target, cell.draft, cell.beside) as cluster:
            (row,) = run_json([*words, "--connect", cluster.endpoint])
    else:
        (row,) = run_json([*words, "-m", cell.target, "-md", cell.draft])
    if row["errors"]:
        raise SystemExit(f"{' '.join(map(str, words))}: {row['error']}")
    return row["tokens_per_second"]


def best_fixed(options, cell):
    rates = {setting: speed(options, cell, setting, options.first_seconds) for setting in FIXED}
    best = sorted(rates, key=rates.get, reverse=True)[:BEST]
    for setting in best:
        say(f"  {name_of(setting)}: {rates[setting]:.1f}")
    return best


def name_of(setting):
    return " ".join(str(word).removeprefix("--draft-") for word in setting[2:])


def measure(options, cell):
    """Return lists of speeds, one for each turn, by setting; plain decoding's second run by None."""
    order = [PLAIN, AUTO, *best_fixed(options, cell)]
    found = {setting: [] for setting in [*order, None]}
    for turn in range(options.turns):
        for setting in [*order, None]:
            found[setting].append(speed(options, cell, setting or PLAIN, options.seconds))
        say(f"  turn {turn + 1}: " + ", ".join(f"{rates[-1]:.1f}" for rates in found.values()))
    return found


def row_of(name, found):
    plain, auto = median(found[PLAIN]), median(found[AUTO])
    best = max((setting for setting in found if setting in FIXED), key=lambda setting: median(found[setting]))
    fixed, again = median(found[best]), median(found[None])
    met = auto >= PLAIN_ASKED * plain and auto >= FIXED_ASKED * fixed
    return [name, f"{plain:.0f}", f"{auto:.0f}", f"{fixed:.0f} ({name_of(best)})", f"{again / plain:.2f}", f"{auto / plain:.2f}", f"{auto / fixed:.2f}",
            "met" if met else "not met"]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=absolute, required=True, metavar="FILE", help="the demonstration target, inflated to 300M")
    parser.add_argument("--wide", type=absolute, nargs=2, metavar=("TARGET", "DRAFT"), help="models of a large vocabulary, for two more cells")
    parser.add_argument("--outrider", type=Path, default=ROOT / "build/release/bin/outrider", metavar="FILE", help="default: %(default)s")
    parser.add_argument("--cells", nargs="*", metavar="NAME", help="those to be measured; default: all")
    parser.add_argument("--seconds", type=int, default=6, metavar="S", help="of each run; default: %(default)s")
    parser.add_argument("--first-seconds", type=int, default=3, metavar="S", help="of each run of the first turn; default: %(default)s")
    parser.add_argument("--turns", type=int, default=5, metavar="N", help="default: %(default)s")
    options = parser.parse_args()
    for file in (options.outrider, options.target, *(options.wide or ())):
        if not os.access(file, os.R_OK):
            parser.error(f"{file} cannot be read")
    cells = cells_of(options.target, options.wide)
    unknown = set(options.cells or ()) - set(cells)
    if unknown:
        parser.error(f"no cell is named {' or '.join(sorted(unknown))}; they are: {'; '.join(cells)}")
    return options


def main():
    options = parse()
    rows = []
    for name, cell in cells_of(options.target, options.wide).items():
        if options.cells is None or name in options.cells:
            say(name)
            rows.append(row_of(name, measure(options, cell)))
    print(f"Tokens a second of all sessions, runs of {options.seconds} s, medians of {options.turns}; {PLAIN_ASKED} of plain decoding and {FIXED_ASKED} of the "
          "best fixed setting are asked\n")
    print_table(["cell", "plain", "auto", "best fixed", "plain / plain", "auto / plain", "auto / fixed", ""], rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
