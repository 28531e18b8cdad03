"""Goal: the configuration of Prometheus, its rules and its alerts are valid, and each alert fires where it should and nowhere else.
Method: Debian's promtool, on the files of launch/prometheus and on made-up series (alerts_test.yml), which must name every alert."""
import re
import unittest
from pathlib import Path

from prometheus import CONFIGURATION, need_programs, promtool

SERIES = Path(__file__).with_name("alerts_test.yml")


class Rules(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        need_programs()

    def test_the_configuration_is_valid(self):
        code, said = promtool("check", "config", CONFIGURATION / "prometheus.yml")
        self.assertEqual(code, 0, said)
        self.assertIn("2 rule files found", said)  # an empty one is valid, too

    def test_alerts_fire_where_they_should_and_nowhere_else(self):
        code, said = promtool("test", "rules", SERIES)
        self.assertEqual(code, 0, said)

    def test_every_alert_is_expected_somewhere(self):
        alerts = re.findall(r"- alert: (\w+)", (CONFIGURATION / "alerts.yml").read_text())
        self.assertTrue(alerts)
        self.assertEqual(set(alerts), set(re.findall(r'alertname="(\w+)"', SERIES.read_text())))


if __name__ == "__main__":
    unittest.main()
