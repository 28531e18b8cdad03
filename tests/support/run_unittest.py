"""run_unittest.py SECONDS NAME ...: runs unittest modules, or single tests of them, of the current folder, as `python -m unittest -v` does, and prints
a line for each that was skipped, and how long each took if it was a second or more. After so many seconds it says where every thread is, and ends.
Tests that are marked as of the rest (cli.py's of_rest) are left out, but where OR_TEST_WHOLE is set.

Exit status: 0 if what ran was good, 77 if every test was skipped (also by an import), 1 else, and where there was none at all."""
import faulthandler
import importlib
import os
import sys
import time
import unittest

SKIPPED = 77


def tell(name, why):
    print(f"SKIPPED: {name}: {why}", file=sys.stderr)


class Result(unittest.TextTestResult):
    """A result that counts what was good, also of a test that is skipped in part, and says how long a test took."""

    good = 0
    began = 0

    def startTest(self, test):
        self.began = time.monotonic()
        super().startTest(test)

    def stopTest(self, test):
        super().stopTest(test)
        took = time.monotonic() - self.began
        if took >= 1:
            self.stream.writeln(f"    {took:.1f} s")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.good += 1

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        self.good += error is None


def left_out(test):
    """Return whether a test is marked as of the rest, itself or with its class, and this run is not of the whole."""
    method = getattr(test, test._testMethodName, None)
    return "OR_TEST_WHOLE" not in os.environ and (hasattr(test, "of_rest") or hasattr(method, "of_rest"))


def chosen(suite):
    """Return the suite without the tests that are left out."""
    return unittest.TestSuite(chosen(part) if isinstance(part, unittest.TestSuite) else part
                              for part in suite if isinstance(part, unittest.TestSuite) or not left_out(part))


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
    suite = chosen(unittest.defaultTestLoader.loadTestsFromNames(present))
    result = unittest.TextTestRunner(verbosity=2, resultclass=Result).run(suite)
    for test, why in result.skipped:
        tell(test.id(), why)
    if not result.wasSuccessful() or result.good + len(result.skipped) == 0:
        return 1
    return 0 if result.good > 0 else SKIPPED


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
