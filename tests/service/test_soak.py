"""Goal and method: soak.py's, in its short form: processes, texts, memory and journal are asserted, and no times."""
import unittest

import soak


class HostileSoak(unittest.TestCase):
    def test_all_attacks_at_once(self):
        self.assertEqual(soak.main([]), 0)


if __name__ == "__main__":
    unittest.main()
