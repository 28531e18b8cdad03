"""Goal: check_figures.py sees a name that no figure has. Method: the files that it reads, copied, with one fault at a time: a name
misspelt where it is used, or changed in its table."""
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHECK = ROOT / "tests/check/check_figures.py"
READ = ("proto/wire", "coordinator/figures", "coordinator/http/api", "coordinator/http/dashboard", "launch/prometheus", "launch/grafana",
        "tests/http", "docs")
FAULTS = {  # what is said: file, before, after
    "alerts.yml: there is no metric outrider:cut_of_total": ("launch/prometheus/alerts.yml", "outrider:cut_off_total", "outrider:cut_of_total"),
    "rules.yml: there is no metric outrider:verifier_passes": ("launch/prometheus/rules.yml", "verifier_passes_total", "verifier_passes"),
    "outrider.json: there is no metric outrider:tokens_per_call_buckets": ("launch/grafana/outrider.json", "tokens_per_call_bucket", "tokens_per_call_buckets"),
    "outrider.json: there is no metric outrider:http_streams": ("coordinator/http/api/api_figures.c", '"http_streams"', '"http_stream"'),
    "rules.yml: there is no metric outrider:wasted_nodes_total": ("coordinator/figures/telemetry.c", '"wasted_nodes_total"', '"waste_total"'),
    "overview.js: there is no metric rounds_totals": ("coordinator/http/dashboard/overview.js", '"rounds_total"', '"rounds_totals"'),
    "overview.js: /status has no parked among its figures": ("proto/wire/figures.h", "uint32_t, parked", "uint32_t, away"),
    "tables.js: /status has no bytes among its peers": ("proto/wire/figures.h", "uint64_t, bytes", "uint64_t, octets"),
    "tables.js: /status has no age_s among its sessions": ("proto/wire/figures.h", "uint64_t, age_ms, 23, OR_IN_SECONDS", "uint64_t, age_ms, 23, 0"),
    "app.js: /status has no versions among its status": ("coordinator/http/dashboard/app.js", "status.ready", "status.versions"),
}


class Figures(unittest.TestCase):
    def setUp(self):
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for folder in READ:
            shutil.copytree(ROOT / folder, self.root / folder, ignore=shutil.ignore_patterns("__pycache__"))

    def check(self):
        done = subprocess.run([sys.executable, "-B", CHECK, "--root", self.root], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    def test_sound(self):
        self.assertEqual(self.check(), (0, "all figures that are named exist\n"))

    def test_faults(self):
        for words, (name, before, after) in FAULTS.items():
            with self.subTest(words):
                place = self.root / name
                sound = place.read_text()
                self.assertIn(before, sound)
                place.write_text(sound.replace(before, after))
                code, out = self.check()
                place.write_text(sound)
                self.assertEqual(code, 1)
                self.assertIn(words, out)


if __name__ == "__main__":
    unittest.main()
