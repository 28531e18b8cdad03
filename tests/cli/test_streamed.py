"""Goal: a target whose layers stay on disk takes the memory that it is given, and no more.
Method: an inflated model, in memory and from disk; the largest resident set of each process, as the system counts it."""
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from cli import BIN, ENVIRONMENT, TARGET, outrider

MIB = 1 << 20
GIVEN = 120 * MIB
READERS = 3 * 4 * MIB  # a piece each, while the file is read for the first time


def resident(*words):
    """Return the most bytes that were resident while the command ran."""
    process = subprocess.Popen([BIN / "outrider", *map(str, words)], stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return 1024 * usage.ru_maxrss


class Streamed(unittest.TestCase):
    def test_memory(self):
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "model.gguf"
            outrider("model", "inflate", TARGET, model, "300M", "--type", "Q8_0")
            outrider("model", "pack", model)
            weights = Path(f"{model}.packed").stat().st_size
            step = ("bench", "step", "-m", model, "--rows", "1,64", "--repeat", 3)
            others = resident(*step) - weights
            self.assertGreater(others, 0)
            self.assertGreater(weights, 2 * GIVEN)
            self.assertLessEqual(resident(*step, "--weights-memory", GIVEN), others + 1.1 * GIVEN + READERS)


if __name__ == "__main__":
    unittest.main()
