"""run_unittest.py SECONDS NAME ...: runs unittest modules, or single tests of them, of the current folder, as `python -m unittest -v` does, and prints
a line for each that was skipped. After so many seconds it says where every thread is, and ends.

Exit status: 0 if what ran was good, 77 if every test was skipped (also by an import), 1 else, and where there was none at all."""
import faulthandler
import importlib
import os
import sys
import unittest

SKIPPED = 77


def tell(name, why):
    print(f"SKIPPED: {name}: {why}", file=sys.stderr)


class Result(unittest.TextTestResult):
    """A result that counts what was good, also of a test that is skipped in part."""

    good = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.good += 1

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        self.good += error is None


def main(seconds, names):
    faulthandler.dump_traceback_later(seconds, exit=True)
    sys.path.insert(0, os.getcwd())
    present = []
    for name in names:
        try:
            importlib.import_module(name.split(".")[0])
            present.append(name)
        except unittest.SkipTest as why:
            tell(name, why)
        except SystemExit as end:
            print(f"{name} ends the program: {end}", file=sys.stderr)
            return 1
    if not present:
        return SKIPPED if names else 1
    suite = unittest.defaultTestLoader.loadTestsFromNames(present)
    result = unittest.TextTestRunner(verbosity=2, resultclass=Result).run(suite)
    for test, why in result.skipped:
        tell(test.id(), why)
    if not result.wasSuccessful() or result.good + len(result.skipped) == 0:
        return 1
    return 0 if result.good > 0 else SKIPPED


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
