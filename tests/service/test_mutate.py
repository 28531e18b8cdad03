"""Goal and method: mutate.py's, with so many connections of each kind (OUTRIDER_MUTATE_CONNECTIONS), and with OUTRIDER_MUTATE_SEED."""
import random
import unittest

import mutate
from service import number

CONNECTIONS = number("OUTRIDER_MUTATE_CONNECTIONS", 2000)


class MutatedConnections(unittest.TestCase):
    def play(self, kind):
        seed = number("OUTRIDER_MUTATE_SEED", random.SystemRandom().randrange(mutate.SEED_MAX))
        self.assertEqual(mutate.main(["--kind", kind, "--connections", str(CONNECTIONS), "--seed", str(seed)]), 0)

    def test_zmtp(self):
        self.play("zmtp")

    def test_http(self):
        self.play("http")


if __name__ == "__main__":
    unittest.main()
