"""Goal: nothing that a peer writes on its connection ends the coordinator or fills its memory: frames without end, messages without an end,
PINGs, and resets in the midst of them. An honest peer whose one frame takes long is heard.
Method: raw ZMTP connections in some threads against a coordinator without a verifier, whose memory and answers are looked at."""
import socket
import struct
import threading
import time
import unittest

from service import resident_mib
from cli import TARGET, Background, ZmtpDealer

CONNECTIONS = 16
MEMORY_MIB = 192
FRAME = b"\x00\x01x"
PING = b"\x04\x07\x04PING\0\0"
UNFINISHED = b"\x01\0"  # an empty part, and more to come


class Coordinator(Background):
    def __init__(self):
        super().__init__("-m", TARGET, "--listen", "tcp://127.0.0.1:*", "--journal", "none", "--ready-fd", "1",
                         program="outrider-coordinator")
        self.endpoint = self.process.stdout.readline().decode().strip()


def attack(endpoint, data, lasts=0):
    """One connection that writes `data`, and resets it."""
    try:
        dealer = ZmtpDealer(endpoint)
    except OSError:
        return  # it has ended, as the caller will see
    dealer.socket.settimeout(5)
    try:
        dealer.socket.sendall(data)
        time.sleep(lasts)
    except OSError:
        pass  # cut off, as it may be
    dealer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    dealer.close()


def crowd(endpoint, data, lasts=0):
    threads = [threading.Thread(target=attack, args=(endpoint, data), kwargs={"lasts": lasts}) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    return threads


class Wire(unittest.TestCase):
    def setUp(self):
        self.coordinator = Coordinator()
        self.addCleanup(self.coordinator.__exit__)

    def still_serves(self):
        self.assertIsNone(self.coordinator.process.poll())
        dealer = ZmtpDealer(self.coordinator.endpoint)
        self.addCleanup(dealer.close)
        dealer.send(b"nonsense")
        self.assertTrue(dealer.receive())  # and it is told so

    def resets(self, data):
        for _ in range(3):
            for thread in crowd(self.coordinator.endpoint, data):
                thread.join()
            self.still_serves()

    def test_resets_under_a_flood(self):
        self.resets(FRAME * 20000)

    def test_resets_with_pings_under_a_flood(self):
        self.resets((FRAME + PING) * 20000)

    def test_messages_without_an_end(self):
        threads = crowd(self.coordinator.endpoint, UNFINISHED * (1 << 19), lasts=1)
        most = 0
        while any(thread.is_alive() for thread in threads):
            most = max(most, resident_mib(self.coordinator.process.pid))
            time.sleep(0.01)
        print(f"\n  at most {most:.0f} MiB resident")
        self.assertLess(most, MEMORY_MIB)
        self.still_serves()

    def test_a_slow_large_frame_is_heard(self):
        dealer = ZmtpDealer(self.coordinator.endpoint)
        self.addCleanup(dealer.close)
        part = bytes(1 << 20)
        dealer.socket.sendall(b"\x02" + struct.pack(">Q", 15 * len(part)))
        for _ in range(15):
            dealer.socket.sendall(part)
            time.sleep(0.05)
        self.assertTrue(dealer.receive())  # it makes no sense, and is told so


if __name__ == "__main__":
    unittest.main()
