"""Goal: a host that vanishes without a word holds a connection for half a minute and no longer, whether it says nothing or is being told something.
Method: raw clients whose own kernel drops whatever comes for them (a socket filter), so that nothing is acknowledged and nothing is reset; the
system tells which of the coordinator's connections are established."""
import contextlib
import ctypes
import fcntl
import socket
import struct
import termios
import time
import unittest
from pathlib import Path

import wire
import service  # noqa: F401  (the path to cli)
from cli import TARGET, Background, wait_until

SO_ATTACH_FILTER = 26
GONE_S = 40


def vanish(line):
    """Let its kernel drop every packet for this socket from now on. What it has sent is acknowledged before: else it would go on sending that."""
    wait_until(lambda: struct.unpack("i", fcntl.ioctl(line, termios.TIOCOUTQ, bytes(4)))[0] == 0, "nothing is under way")
    drop_all = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # BPF_RET: keep 0 bytes
    line.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HxxxxxxQ", 1, ctypes.addressof(drop_all)))


class Vanish(unittest.TestCase):
    def established(self, port):
        """Return the connections of the coordinator's port that it has not ended."""
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(int(row[1].split(":")[1], 16) == port and row[3] == "01" for row in rows)

    def test_it_is_given_up(self):
        with contextlib.ExitStack() as stack:
            coordinator = stack.enter_context(Background("-m", TARGET, "--listen", "tcp://127.0.0.1:*", "--journal", "none", "--ready-fd", 1,
                                                         "--log-level", "error", program="outrider-coordinator"))
            host, port = coordinator.process.stdout.readline().decode().strip().removeprefix("tcp://").rsplit(":", 1)
            silent, told = (stack.enter_context(contextlib.closing(wire.Raw((host, int(port))))) for _ in range(2))
            told.send(wire.hello())
            next(told.frames())
            self.assertEqual(self.established(int(port)), 2)
            begun = time.monotonic()
            vanish(silent.socket)
            vanish(told.socket)  # it is sent heartbeats
            wait_until(lambda: self.established(int(port)) == 0, "both are given up")
            print(f"\n  given up after {time.monotonic() - begun:.0f} s")
            self.assertLess(time.monotonic() - begun, GONE_S)
            self.assertIsNone(coordinator.process.poll())


if __name__ == "__main__":
    unittest.main()
