"""Goal: an owner whose clients take no notice of others, by asking for much or by reading nothing, keeps neither their places nor their memory.
Method: the real programs, a crowd of one owner's texts that holds every place, and bare sockets that ask and never read, beside another
owner's short texts. Counted are texts and bytes, and no times."""
import contextlib
import socket
import time
import unittest

import wire
from service import resident_mib, status
from cli import Background, Cluster, generate, wait_until

CROWD = 128
PLACES = 64  # as is usual
TOKENS = 450
MUTE = 16
MUTE_TURNS = 40
EACH = 40  # a flood is not heard
MEMORY_MIB = 48
WHOLE = wire.generate(1, max_tokens=300, f31=21, f32=1)  # with log-probabilities and trees
SHORT = ["-p", "Once upon a time", "-n", 8, "--ignore-eos", "--temp", 0, "--plain"]


class Owners(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.cluster = stack.enter_context(Cluster("--log-level", "error"))
        self.endpoint = self.cluster.endpoint
        self.stack = stack

    def short(self):
        return generate("--connect", self.endpoint, "--owner", "few", *SHORT)["tokens"]

    def test_a_crowd_makes_way(self):
        """All places have long texts of one owner, which began together: another's is written before many of them have ended."""
        before = self.short()
        self.stack.enter_context(Background("bench", "load", "--connect", self.endpoint, "--owner", "crowd", "--sessions", CROWD, "--seconds", 60,
                                            "--max-tokens", TOKENS, "--ignore-eos", "--plain"))
        wait_until(lambda: status(self.endpoint)["sessions"] >= PLACES, "a crowd at work")
        for _ in range(2):
            begun = status(self.endpoint)["started"]
            self.assertEqual(self.short(), before)
            others = status(self.endpoint)["started"] - begun - 1
            print(f"\n  {others} of the crowd's texts ended meanwhile")
            self.assertLess(others, PLACES / 2)

    def mute(self):
        """Ask for one text with all that can be said of it, and read nothing."""
        address = self.endpoint.removeprefix("tcp://").rsplit(":", 1)
        line = wire.Raw((address[0], int(address[1])))
        line.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.stack.callback(line.close)
        line.send(wire.hello("mute"), WHOLE)
        return line

    def test_readers_that_read_nothing(self):
        before = self.short()
        coordinator = self.cluster.roles("outrider-coordinator")["outrider-coordinator"]
        lines = [self.mute() for _ in range(MUTE)]
        wait_until(lambda: status(self.endpoint)["started"] == MUTE + 1, "they are heard")
        wait_until(lambda: status(self.endpoint)["sessions"] == 0, "their texts")
        words = [WHOLE, wire.resume(1, 0, 0), wire.message(wire.STATS_REQUEST, {1: 0})] * EACH
        most = 0
        for _ in range(MUTE_TURNS):
            for line in lines:
                with contextlib.suppress(OSError):  # cut off, as it may be
                    line.send(*words)
            time.sleep(0.05)
            most = max(most, resident_mib(coordinator))
        print(f"\n  at most {most:.0f} MiB resident")
        self.assertLess(most, MEMORY_MIB)
        self.assertEqual(self.short(), before)


if __name__ == "__main__":
    unittest.main()
