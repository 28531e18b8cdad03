"""Goal: what the gate is made of takes neither what was skipped nor what changed for something else.
Method: run_unittest.py on modules that pass, fail, are skipped in part or end the interpreter; the functions of launch/test.sh in a repository of
the test's, with a compiler for GPUs that does nothing."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNTRACKED = 3000  # with their long names: more than a pipe holds


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_here(self, *words, **environment):
        done = subprocess.run([*map(str, words)], cwd=self.folder, env={**os.environ, **environment}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60, check=False)
        return done.returncode, done.stdout.decode()


class Runner(Folder):
    """tests/support/run_unittest.py."""

    def status_of(self, *lines, **environment):
        (self.folder / "test_it.py").write_text("\n".join(["import sys, unittest", *lines]))
        return self.run_here(sys.executable, "-B", ROOT / "tests/support/run_unittest.py", 5, "test_it", **environment)

    GOOD = ["class Good(unittest.TestCase):", "    def test_good(self): pass"]
    SKIPPED = ["class Skipped(unittest.TestCase):", "    def test_skipped(self): self.skipTest('none')"]
    CLASS_SKIPPED = ["class ClassSkipped(unittest.TestCase):", "    @classmethod", "    def setUpClass(cls): raise unittest.SkipTest('none')",
                     "    def test_one(self): pass", "    def test_two(self): pass"]
    PARTS_SKIPPED = ["class Parts(unittest.TestCase):", "    def test_parts(self):", "        for i in range(4):",
                     "            with self.subTest(i=i): self.skipTest('none')"]
    BAD = ["class Bad(unittest.TestCase):", "    def test_bad(self): self.fail()"]

    def test_what_ran_counts(self):
        for skipped in self.SKIPPED, self.CLASS_SKIPPED, self.PARTS_SKIPPED:
            with self.subTest(skipped[0]):
                self.assertEqual(self.status_of(*skipped)[0], 77)
                code, text = self.status_of(*skipped, *self.GOOD)
                self.assertEqual(code, 0, text)
                self.assertIn("SKIPPED: ", text)
                self.assertEqual(self.status_of(*skipped, *self.BAD)[0], 1)
        self.assertEqual(self.status_of(*self.GOOD)[0], 0)
        self.assertEqual(self.status_of(*self.PARTS_SKIPPED, "            with self.subTest('good'): pass")[0], 0)
        self.assertEqual(self.status_of("raise unittest.SkipTest('none')")[0], 77)

    def test_what_takes_too_long_says_where_it_was(self):
        code, text = self.status_of("import time", "class Slow(unittest.TestCase):", "    def test_that_hangs(self): time.sleep(60)")
        self.assertEqual(code, 1, text)
        self.assertIn("in test_that_hangs", text)

    def test_what_is_of_the_rest_runs_with_the_whole(self):
        marks = [f"sys.path.insert(0, '{ROOT}/tests/cli')", "from cli import of_rest"]
        for marked in [*self.BAD[:1], "    @of_rest", *self.BAD[1:]], ["@of_rest", *self.BAD]:
            with self.subTest(marked[0]):
                self.assertEqual(self.status_of(*marks, *marked, *self.GOOD)[0], 0)
                self.assertEqual(self.status_of(*marks, *marked, *self.GOOD, OR_TEST_WHOLE="1")[0], 1)
                self.assertEqual(self.status_of(*marks, *marked)[0], 1)  # nothing is left

    def test_nothing_is_a_failure(self):
        self.assertEqual(self.status_of()[0], 1)
        self.assertEqual(self.status_of("import no_such_module", *self.GOOD)[0], 1)
        self.assertEqual(self.status_of("sys.exit(0)")[0], 1)


class RecentFiles(Folder):
    """launch/test.sh leaves the CUDA build to the rest only where nothing of it has changed."""

    def git(self, *words):
        code, text = self.run_here("git", "-c", "user.name=test", "-c", "user.email=test@example.org", *words)
        self.assertEqual(code, 0, text)

    def cuda_step(self):
        tools = self.folder / ".git/tools"
        tools.mkdir(exist_ok=True)
        (tools / "nvcc").touch(mode=0o755)
        functions = "set -euo pipefail; say() { echo \"$*\"; }; suite() { echo built; }; " \
                    f"eval \"$(sed -n '/^recent_files()/p; /^cuda_built()/,/^}}/p' {ROOT}/launch/test.sh)\"; cuda_built recent"
        code, text = self.run_here("bash", "-c", functions, PATH=f"{tools}:{os.environ['PATH']}")
        self.assertEqual(code, 0, text)
        return text.strip()

    def change(self, name):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.read_text() + "x" if path.exists() else "x")
        self.git("add", name)
        self.git("commit", "-qm", name)

    def test_a_change_is_seen_among_many_files(self):
        self.git("init", "-q")
        self.change("kernels/cuda/a.cu")
        for i in range(20):
            self.change("README")
        self.assertIn("is left to the rest", self.cuda_step())
        self.change("kernels/cuda/a.cu")
        self.assertEqual(self.cuda_step(), "built")
        for i in range(UNTRACKED):
            (self.folder / f"{'a-file-that-is-not-committed' * 2}-{i}").touch()
        self.assertEqual(self.cuda_step(), "built")


if __name__ == "__main__":
    unittest.main()
