#!/usr/bin/env python3
"""Outrider beside llama.cpp and its kin: single steps, trees and prefill of the same files, on the same threads, by turns.

    compare.py --peer ik_llama.cpp/build/bin --peer llama.cpp/build/bin MODEL.gguf ...

Each turn runs, one after the other, `outrider bench step` and the peer's `llama-bench` for each kind of pass, with each of its --peer-options; the
figures are medians over the turns, with the least and the most. Of each peer the options count that have the least median; options that it does not
know are left out. Our tree steps compute the logits of all their rows, a peer's batches those of the last only. Not a test: it takes minutes, and says
nothing on a machine that is busy. tests/peer/README.md says how to make the files.
"""
import argparse
import os
import sys
from itertools import product
from pathlib import Path

from peer import absolute, median, print_table, processor, run, run_json, run_peer, say

ROOT = Path(__file__).resolve().parents[2]

# The comparisons: our arguments, how to find our figure, the peer's arguments, its tokens, and what is asked for.
KINDS = {
    "plain": (["--rows", "1"], ("tree", 1), ["-p", "0", "-n", "{n}"], 1.15),
    "tree of 16": (["--rows", "16"], ("tree", 16), ["-p", "16", "-n", "0"], 1.9),
    "tree of 64": (["--rows", "64"], ("tree", 64), ["-p", "64", "-n", "0"], 1.7),
    "prefill 512": (["--rows", "1", "--prefill", "512"], ("prefill", 512), ["-p", "512", "-n", "0"], 1.55),
}


def ours(options, model, words, key):
    """Milliseconds of a pass."""
    lines = run_json([options.outrider, "bench", "step", "-m", model, "-t", options.threads, "--repeat", options.passes, "--json", *words])
    return next(line["ms"] for line in lines if (line["pass"], line["rows"]) == key)


def peers(options, folder, more, model, words):
    """Milliseconds of a token where it generates, else of the batch."""
    words = [word.format(n=options.generate) for word in words]
    lines = run_peer([folder / "llama-bench", "-m", model, "-t", options.threads, "-r", options.passes, "-o", "json", *words, *more.split()])
    line = lines[0]
    return 1e-6 * median(line["samples_ns"]) / max(line["n_gen"], 1)


def known_options(options, model):
    """Every peer's folder with each of the options that it takes."""
    known = []
    for folder, more in product(options.peer, options.peer_options):
        try:
            run_peer([folder / "llama-bench", "-m", model, "-r", 1, "-o", "json", "-p", 0, "-n", 1, *more.split()])
            known.append((folder, more))
        except SystemExit as error:
            say(f"{folder} does not run with '{more}': {(str(error).splitlines() or ['failed'])[-1]}")
    for folder in options.peer:
        if all(each != folder for each, _ in known):
            raise SystemExit(f"{folder} runs with none of the options")
    return known


def measure(options, model):
    """Of each kind our milliseconds, and the peers' by folder and options; each a list over turns."""
    known = known_options(options, model)
    times = {kind: ([], {each: [] for each in known}) for kind in options.kinds}
    for turn in range(options.turns):
        for kind in options.kinds:
            mine, key, theirs, _ = KINDS[kind]
            times[kind][0].append(ours(options, model, mine, key))
            for (folder, more), found in times[kind][1].items():
                found.append(peers(options, folder, more, model, theirs))
            say(f"{model.name}, turn {turn + 1} of {options.turns}, {kind}: ours {times[kind][0][-1]:.1f} ms, peer " +
                ", ".join(f"{found[-1]:.1f}" for found in times[kind][1].values()) + " ms")
    return times


def name_of(folder):
    """The checkout's name: its programs lie in build/bin."""
    return folder.parent.parent.name if folder.parts[-2:] == ("build", "bin") else str(folder)


def spread(found):
    return f"{median(found):.1f} ({min(found):.1f} to {max(found):.1f})"


def report(options, model, times):
    rows = []
    for kind, (mine, theirs) in times.items():
        goal = KINDS[kind][3]
        for peer in options.peer:
            (_, more), best = min((each for each in theirs.items() if each[0][0] == peer), key=lambda each: median(each[1]))
            name = " ".join([name_of(peer)] * (len(options.peer) > 1) + [more or "no options"])
            ratio, ratio_of_bests = median(best) / median(mine), min(best) / min(mine)
            rows.append([kind, spread(mine), spread(best), name, f"{ratio:.2f}", f"{ratio_of_bests:.2f}", f"{goal:.2f}", "yes" if ratio >= goal else "no"])
    print(f"{model.name}, {model.stat().st_size / 1e9:.2f} GB, {processor()}, {options.threads} threads, medians of {options.turns} (least to most)\n")
    print_table(["pass", "ours, ms", "peer's best, ms", "with", "peer / ours", "of the bests", "asked", "met"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=absolute, metavar="MODEL", help="GGUF files")
    parser.add_argument("--peer", type=absolute, action="append", required=True, metavar="DIR", help="a folder with a peer's llama-bench; may be repeated")
    parser.add_argument("--outrider", type=Path, default=ROOT / "build/release/bin/outrider", metavar="FILE", help="ours; default: %(default)s")
    parser.add_argument("-t", "--threads", type=int, default=os.cpu_count(), metavar="N", help="of both; default: %(default)s")
    parser.add_argument("--turns", type=int, default=5, metavar="N", help="default: %(default)s")
    parser.add_argument("--passes", type=int, default=3, metavar="N", help="passes of a kind in a turn, of which each takes the median; default: %(default)s")
    parser.add_argument("--generate", type=int, default=16, metavar="N", help="tokens that the peer generates in a pass; default: %(default)s")
    parser.add_argument("--kinds", default=",".join(KINDS), metavar="LIST", help="default: %(default)s")
    parser.add_argument("--peer-options", action="append", metavar="WORDS",
                        help='more for llama-bench, as "-rtr 1" (repack at load) or "-fa 0"; may be repeated: the best is taken')
    options = parser.parse_args()
    options.kinds = options.kinds.split(",")
    options.peer_options = options.peer_options or [""]
    for kind in options.kinds:
        if kind not in KINDS:
            parser.error(f"--kinds: there is no '{kind}'; they are {', '.join(KINDS)}")
    for program in [options.outrider] + [folder / "llama-bench" for folder in options.peer]:
        if not os.access(program, os.X_OK):
            parser.error(f"{program} is no program")
    print(run([options.outrider, "model", "inspect", "--kernels"]))
    for model in options.models:
        report(options, model, measure(options, model))
    return 0


if __name__ == "__main__":
    sys.exit(main())
