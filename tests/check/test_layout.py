"""Goal: check_layout.py and check_words.py see each kind of fault. Method: a small repository, sound at first, with one planted fault at a time."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).parent
HEADER = "// a - adds.\n#pragma once\n\n// Add two numbers.\nint or_a(int x, int y);\n"
SOURCE = '#include "common/base/a.h"\n\n// The sum is not checked for overflow.\nint or_a(int x, int y)\n{\n    return x + y; // What a sum is.\n}\n'
SOUND = {"common/base/a.h": HEADER, "common/base/a.c": SOURCE, "coordinator/b.c": '#include "common/base/a.h"\n', "tests/c_test.c": "// Goal: none.\n"}
MANY = " ".join(["word"] * 30)
LAYOUT = {"common/base may not include": {"common/base/a.c": '#include "coordinator/b.h"\n', "coordinator/b.h": "#pragma once\n"},
          "is not a rooted path": {"common/base/a.c": '#include "a.h"\n'},
          "c.h does not compile alone": {"common/base/c.h": "size_t or_c(void);\n",
                                         "common/base/c.c": '// Adds.\n#include <stddef.h>\n#include "common/base/c.h"\n'},
          "d.h does not compile alone": {"kernels/cuda/d.h": "bool or_d(void);\n", "kernels/cuda/d.cu": '#include "kernels/cuda/d.h"\n'},
          "a.c: 501 lines of a product file": {"common/base/a.c": "\n" * 501},
          "a.h: 31 prototypes of a header": {"common/base/a.h": "".join(f"int or_{i}(void);\n" for i in range(31))},
          "common/base: 31 files of a folder": {f"common/base/{i}.txt": "" for i in range(29)},
          "tests/many: 31 files of a folder": {f"tests/many/{i}.py": "" for i in range(31)}}
SMALL = {"the build compiles what a source includes first": {"common/base/a.h": "size_t or_a(void);\n"},
         "a test may be long": {"common/base/a_test.c": "\n" * 501},
         "patches are aside": {f"tests/many/{i}.patch": "" for i in range(40)}}
WORDS = {"common: 1 of 3 comments begin as fragments do": {"common/base/a.c": SOURCE.replace("The sum is", "What is summed is")},
         "common: 1 header sentences have over 30 words": {"common/base/a.h": HEADER.replace("Add two", f"Add {MANY} two")},
         "coordinator: 1 of 1 comments": {"coordinator/b.c": "// Of the sum.\n"},
         "tests (scripts): 1 of 2 comments": {"tests/d.py": '"""Goal: none."""\n# How it adds.\n# More of it.\n'},
         "tests (scripts): 1 of 1 comments": {"tests/d.py": 'def add():\n    """What a sum is."""\n'},
         "launch (scripts): 1 of 1 comments": {"launch/e.sh": "# Of the sum.\ntrue # that is all\n"},
         "coordinator (scripts): 1 of 1 comments": {"coordinator/f.js": "// Of the sum.\n"}}
PLAIN = {"a sentence ends at a full stop": {"common/base/a.h": HEADER.replace("Add two numbers.", f"{MANY.capitalize()}. {MANY.capitalize()}.")},
         "a source's sentences are its own": {"common/base/a.c": SOURCE.replace("overflow", MANY)},
         "one fragment in fifty is let pass": {"common/base/a.c": "// The sum.\n\n" * 60 + "// Of it.\n"},
         "other strings are no docstrings": {"tests/d.py": 'add = """What a sum is."""\n'},
         "a string is no comment": {"common/base/a.c": 'const char *const or_a = "x"; const char *const or_b = "// Of it";\n'}}


def check(script, files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            place = Path(folder) / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        subprocess.run(["git", "init", "-q", folder], check=True)
        done = subprocess.run([sys.executable, "-B", HERE / script, "--root", folder], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


class Faults(unittest.TestCase):
    def expect(self, script, sound, faults):
        for words, files in {"sound": {}, **sound}.items():
            with self.subTest(words):
                code, out = check(script, {**SOUND, **files})
                self.assertEqual(code, 0, out)
        for words, files in faults.items():
            with self.subTest(words):
                code, out = check(script, {**SOUND, **files})
                self.assertEqual(code, 1, out)
                self.assertIn(words, out)

    def test_layout(self):
        self.expect("check_layout.py", SMALL, LAYOUT)

    def test_words(self):
        self.expect("check_words.py", PLAIN, WORDS)


if __name__ == "__main__":
    unittest.main()
