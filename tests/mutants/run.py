#!/usr/bin/env python3
"""Plant known mistakes in a copy of the source, one after the other, and demand that the tests named for each turn red.

Each mutant is AREA/NAME.patch beside this file; the area is the folder of the source that it changes. Before its diff it says what is
wrong, which line of docs/algorithms.md that offends, and "caught by: TEST ...": names of CTest that are build targets too. Only those are
built and run, until one fails. A compile error, or a patch that does not apply, is an error of the mutant and no catch.

Exit status 0 if the unpatched copy is green and every mutant was caught.
"""
import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OUTPUT_LINES = 40  # of a command that went wrong


class Failure(Exception):
    """A sentence for the user that says what went wrong."""


class Mutant:
    def __init__(self, path):
        head = path.read_text().split("\n--- ", 1)[0]
        caught_by = re.search(r"^caught by: (.+)$", head, re.M)
        if not caught_by:
            raise Failure(f"{path.name}: no line 'caught by: TEST ...' before the diff")
        self.path = path
        self.name = path.stem
        self.tests = caught_by.group(1).split()
        self.what = " ".join(head[:caught_by.start()].split())


def run(command, cwd, env=None):
    """Exit code and output. The command and its children end with us, whatever ends us."""
    process = subprocess.Popen(list(map(str, command)), cwd=cwd, env={**os.environ, **(env or {})}, text=True, errors="replace",
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output, _ = process.communicate()
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    return process.returncode, output


def demand(command, cwd, what, env=None):
    code, output = run(command, cwd, env)
    if code != 0:
        raise Failure(f"{what}:\n" + "\n".join(output.splitlines()[-OUTPUT_LINES:]))
    return output


class Copy:
    """A copy of the source, and one build of it."""

    def __init__(self, folder, jobs):
        self.source = folder / "source"
        self.build = folder / "build"
        self.jobs = jobs
        data = os.environ.get("OUTRIDER_TEST_DATA") or ROOT.parent / "shared/data"
        # Objects of an earlier copy are as good; git apply must not take a repository around the copy for its own.
        self.env = {"CCACHE_BASEDIR": str(folder), "GIT_CEILING_DIRECTORIES": str(folder), "OUTRIDER_TEST_DATA": str(data), "OR_TEST_WHOLE": "1"}

    def make(self):
        listing = demand(["git", "ls-files", "-z", "-co", "--exclude-standard"], ROOT, "the source cannot be listed")
        for name in filter(None, listing.split("\0")):
            if (ROOT / name).is_file():  # and not deleted since
                (self.source / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.source / name)
        demand(["cmake", "-S", self.source, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"], self.source,
               "the copy cannot be configured", self.env)

    def apply(self, mutant, *options):
        demand(["git", "apply", *options, mutant.path], self.source, "the patch does not apply", self.env)

    def compile(self, tests):
        demand(["cmake", "--build", self.build, "-j", self.jobs, "--target", *tests], self.source, "it does not compile", self.env)

    def verdict_of(self, test):
        """'passed', 'failed' or 'timed out'."""
        code, output = run(["ctest", "--test-dir", self.build, "-R", f"^{test}$", "--no-tests=error"], self.source, self.env)
        if code == 0 and "***Skipped" not in output:
            return "passed"
        for sign, verdict in (("***Timeout", "timed out"), ("***Failed", "failed"), ("***Exception", "failed")):
            if sign in output:
                return verdict
        raise Failure(f"{test} was not run:\n{output}")


def first_red(copy, mutant):
    """The test that caught it, or None."""
    copy.apply(mutant)
    try:
        copy.compile(mutant.tests)
        for test in mutant.tests:
            verdict = copy.verdict_of(test)
            if verdict != "passed":
                return test if verdict == "failed" else f"{test} ({verdict})"
    finally:
        copy.apply(mutant, "-R")
    return None


def check_green(copy, mutants):
    """Otherwise any mutant would seem to be caught."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    copy.compile(tests)
    for test in tests:
        verdict = copy.verdict_of(test)
        if verdict != "passed":
            raise Failure(f"{test} {verdict} without any mutant: mend that first")


def check_mutants(copy, mutants):
    """Print the table; how many were not caught."""
    width = max(len(mutant.name) for mutant in mutants)
    missed = 0
    for mutant in mutants:
        started = time.monotonic()
        notes = ""
        try:
            caught_by = first_red(copy, mutant)
        except Failure as failure:
            caught_by, notes = "ERROR", f"\n{failure}"
        else:
            if caught_by is None:
                caught_by, notes = "SURVIVED", f"  {' '.join(mutant.tests)} stayed green: {mutant.what}"
        missed += bool(notes)
        print(f"{mutant.name:{width}}  {caught_by:20}  {time.monotonic() - started:5.1f} s{notes}", flush=True)
    return missed


def load():
    """All mutants by name, which is theirs alone whatever the folder."""
    mutants = sorted((Mutant(path) for path in HERE.rglob("*.patch")), key=lambda mutant: mutant.name)
    for one, other in zip(mutants, mutants[1:]):
        if one.name == other.name:
            raise Failure(f"two mutants have the name {one.name}")
    return mutants


def choose(mutants, only, sample, seed):
    unknown = set(only) - {mutant.name for mutant in mutants}
    if unknown:
        raise Failure(f"no such mutant: {', '.join(sorted(unknown))} (--list names them)")
    if only:
        return [mutant for mutant in mutants if mutant.name in only]
    if sample:
        print(f"a sample of {sample} drawn with --seed {seed}", flush=True)
        return random.Random(seed).sample(mutants, min(sample, len(mutants)))
    return mutants


def check_patches(mutants):
    """Does each still say what is to be changed? Builds nothing."""
    stale = [mutant.name for mutant in mutants if run(["git", "apply", "--check", mutant.path], ROOT)[0] != 0]
    for name in stale:
        print(f"{name}: the patch no longer applies")
    print(f"{len(mutants) - len(stale)} of {len(mutants)} patches apply")
    return not stale


def commit():
    """Return the id of this commit, or another string for each run where it cannot be told."""
    code, output = run(["git", "rev-parse", "HEAD"], ROOT)
    return output.strip() if code == 0 else str(time.time_ns())


def check(mutants, jobs, keep):
    folder = Path(tempfile.mkdtemp(prefix="outrider-mutants-"))
    started = time.monotonic()
    try:
        copy = Copy(folder, jobs)
        copy.make()
        check_green(copy, mutants)
        print(f"the unpatched copy is green after {time.monotonic() - started:.1f} s", flush=True)
        missed = check_mutants(copy, mutants)
    finally:
        if keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(mutants) - missed} of {len(mutants)} mutants caught in {time.monotonic() - started:.1f} s")
    return missed == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="say what there is, and what catches it")
    parser.add_argument("--apply", action="store_true", help="look whether the patches still apply, and no more")
    parser.add_argument("--only", metavar="NAME", action="append", default=[], help="this mutant; may be given several times")
    parser.add_argument("--sample", metavar="N", type=int, help="N of them, drawn with --seed")
    parser.add_argument("--seed", help="of the sample (default: the commit)")
    parser.add_argument("--jobs", metavar="N", type=int, default=os.cpu_count(), help="compilers at once (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="leave the copy and its build behind")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # unwinds, as Ctrl-C does
    try:
        mutants = choose(load(), options.only, options.sample, options.seed or commit())
        if options.list:
            for mutant in mutants:
                print(f"{mutant.name}: {mutant.what} [{' '.join(mutant.tests)}]")
            return 0
        good = check_patches(mutants) if options.apply else check(mutants, options.jobs, options.keep)
        return 0 if good else 1
    except Failure as failure:
        print(failure, file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
