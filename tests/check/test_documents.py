"""Goal: check_documents.py sees a citation that leads nowhere. Method: a small repository, sound at first, with one fault at a time."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECK = Path(__file__).with_name("check_documents.py")
SOUND = {"README.md": "Type:\n\n    src/start.sh    # ends with `outrider demo`\n\nRead `docs/one.md`, `src/a.c`, `src/<name>.c`, `or_a` and [this](docs/one.md#two).\n",
         "ARCHITECTURE.md": "1. **First.** Stop.\n",
         "docs/one.md": "# One\n\n## 1. First\n\n## 2. Two\n", "src/a.c": "// As docs/one.md\n// section 2 says.\nint or_a;\n",
         "src/start.sh": "make\nexec build/release/bin/outrider demo \"$@\"\n"}
FAULTS = {"there is no src/b.c": {"README.md": "`src/b.c`\n"},
          "there is no src/b_<name>.c": {"README.md": "`src/b_<name>.c`\n"},
          "there is no or_b": {"README.md": "`or_b`\n"},
          "leads nowhere": {"README.md": "[this](docs/two.md)\n"},
          "there is no docs/two.md": {"src/a.c": "// docs/two.md\n"},
          "docs/one.md has no section 3": {"src/a.c": "// As docs/one.md\n// section 3 says.\n"},
          "cites DESIGN.md": {"src/a.c": "// DESIGN.md section 4\n"},
          "cites ../shared/reviews": {"docs/one.md": "## 2. See ../shared/reviews/tests.md\n"},
          "README.md has 201 lines": {"README.md": "line\n" * 201},
          "its first command, src/begin.sh, is not there": {"README.md": "    src/begin.sh\n"},
          "its last line runs no command": {"src/start.sh": "make\n"},
          "ends with `outrider up`": {"src/start.sh": "exec build/release/bin/outrider up \"$@\"\n"},
          "tour has 13 stops": {"ARCHITECTURE.md": "1. **A.**\n" * 13}}


def check(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            place = Path(folder) / name
            place.parent.mkdir(exist_ok=True)
            place.write_text(text)
        subprocess.run(["git", "init", "-q", folder], check=True)
        done = subprocess.run([sys.executable, "-B", CHECK, "--root", folder], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout


class Documents(unittest.TestCase):
    def test_sound(self):
        self.assertEqual(check(SOUND), (0, "all that is cited is there\n"))

    def test_faults(self):
        for words, fault in FAULTS.items():
            with self.subTest(words):
                code, out = check({**SOUND, **fault})
                self.assertEqual(code, 1)
                self.assertIn(words, out)


if __name__ == "__main__":
    unittest.main()
