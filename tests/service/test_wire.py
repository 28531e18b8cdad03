"""Goal: nothing that a peer writes on its connection ends the coordinator or fills its memory, however often it comes again: frames without end,
messages without an end, frames that are never whole, PINGs, and resets in the midst of them. Honest peers are heard meanwhile.
Method: raw ZMTP connections in some threads against a coordinator without a verifier, whose memory and answers are looked at."""
import contextlib
import socket
import struct
import tempfile
import threading
import time
import unittest
from pathlib import Path

import wire
from service import cpu_s, resident_mib
from cli import Coordinator, ZmtpDealer

CONNECTIONS = 16
MEMORY_MIB = 96
FLOOD_S = 4
FRAME = b"\x00\x01x"
PING = b"\x04\x07\x04PING\0\0"
UNFINISHED = b"\x01\0"  # an empty part, and more to come
COMMAND, LONG = 4, 2


def attack(endpoint, data, lasts=0):
    """Write `data` on one connection, and reset it."""
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
        self.coordinator = Coordinator("--journal", "none")
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

    def flood(self, data, lasts=0):
        """Write `data` on connections that are reset and come again, for some seconds. Return the most memory meanwhile."""
        end = time.monotonic() + FLOOD_S

        def again_and_again():
            while time.monotonic() < end:
                attack(self.coordinator.endpoint, data, lasts)
        threads = [threading.Thread(target=again_and_again) for _ in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        most = 0
        while any(thread.is_alive() for thread in threads):
            most = max(most, resident_mib(self.coordinator.process.pid))
            time.sleep(0.01)
        print(f"\n  at most {most:.0f} MiB resident")
        self.assertLess(most, MEMORY_MIB)
        self.still_serves()

    def test_tiny_frames_again_and_again(self):
        self.flood(FRAME * 200000)

    def test_messages_without_an_end_again_and_again(self):
        self.flood(UNFINISHED * (1 << 18))

    def test_messages_without_an_end_that_stay(self):
        self.flood(UNFINISHED * (1 << 18), lasts=FLOOD_S / 2)

    def crowd_that_stays(self, data, count):
        dealers = []
        self.addCleanup(lambda: [dealer.close() for dealer in dealers])
        for _ in range(count):
            dealers.append(ZmtpDealer(self.coordinator.endpoint))
            dealers[-1].socket.settimeout(0.05)
            try:
                dealers[-1].socket.sendall(data)
            except OSError:
                pass  # it waits for us to read, or was cut

    def large_frames_are_heard(self):
        """Check that an honest peer's frames of a size that has to wait for a place are heard."""
        dealer = ZmtpDealer(self.coordinator.endpoint)
        self.addCleanup(dealer.close)
        for size in (200 << 10, 5 << 20):
            dealer.socket.sendall(b"\x02" + struct.pack(">Q", size) + bytes(size))
            self.assertTrue(dealer.receive())  # it makes no sense, and is told so

    def test_parts_of_large_frames_hold_up_nobody(self):
        for flags in (LONG, LONG | COMMAND):
            self.crowd_that_stays(bytes([flags]) + struct.pack(">Q", 15 << 20) + bytes(60 << 10), 64)
            self.large_frames_are_heard()
        self.assertLess(resident_mib(self.coordinator.process.pid), MEMORY_MIB)

    def test_large_frames_but_for_a_byte_hold_up_nobody(self):
        size = 2 << 20
        for flags in (LONG, LONG | COMMAND):
            self.crowd_that_stays(bytes([flags]) + struct.pack(">Q", size) + bytes(size - 1), 48)
            self.large_frames_are_heard()
        self.assertLess(resident_mib(self.coordinator.process.pid), MEMORY_MIB)

    def holders_give_way(self, byte_now_and_then):
        """Check that an honest peer at 2.5 MB a second is heard beside some that have sent nearly as much as all may hold together, and then nothing,
        or a byte now and then."""
        part = 15 << 20
        holders = [ZmtpDealer(self.coordinator.endpoint) for _ in range(4)]
        for holder, left in zip(holders, (100, 100, 100, part - (2900 << 10))):
            self.addCleanup(holder.close)
            holder.socket.sendall(bytes([LONG]) + struct.pack(">Q", part) + bytes(part - left))

        def wait(seconds):
            time.sleep(seconds)
            for holder in holders if byte_now_and_then else ():
                with contextlib.suppress(OSError):  # it is cut, as it should be
                    holder.socket.sendall(b"\0")

        for _ in range(8):
            wait(0.5)
        dealer = ZmtpDealer(self.coordinator.endpoint)
        self.addCleanup(dealer.close)
        dealer.socket.sendall(bytes([LONG]) + struct.pack(">Q", 5 << 20))
        for _ in range(20):
            dealer.socket.sendall(bytes(256 << 10))
            wait(0.1)
        self.assertTrue(dealer.receive())
        self.assertLess(resident_mib(self.coordinator.process.pid), MEMORY_MIB)

    def test_who_holds_large_frames_in_silence_gives_way(self):
        self.holders_give_way(byte_now_and_then=False)

    def test_who_holds_large_frames_with_a_byte_now_and_then_gives_way(self):
        self.holders_give_way(byte_now_and_then=True)

    def test_large_parts_and_then_silence_fill_nothing(self):
        size = (16 << 20) - 1
        self.crowd_that_stays(b"\x03" + struct.pack(">Q", size) + bytes(size), 16)
        time.sleep(3)  # in its first seconds a crowd that was quick looks honest
        self.large_frames_are_heard()
        self.assertLess(resident_mib(self.coordinator.process.pid), MEMORY_MIB)

    def test_commands_that_libzmq_keeps_fill_nothing(self):
        body = b"\x09SUBSCRIBE" + bytes(60 << 10)
        for flags in (LONG | COMMAND, LONG | COMMAND | 1):
            self.flood((bytes([flags]) + struct.pack(">Q", len(body)) + body) * 200, lasts=0.2)

    def test_who_reads_nothing_and_is_cut_costs_nothing(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name, "hub")
        with Coordinator("--journal", "none", listen=f"ipc://{path}") as coordinator:
            line = socket.socket(socket.AF_UNIX)
            self.addCleanup(line.close)
            line.connect(str(path))
            line.settimeout(0.5)
            with contextlib.suppress(OSError):
                line.sendall(wire.GREETING + wire.READY + wire.frame(b"nonsense") * 20000)  # each is answered
            time.sleep(0.5)
            with contextlib.suppress(OSError):
                line.sendall(wire.frame(b"", wire.MORE) * 5000)
            time.sleep(2)  # it is cut
            before = cpu_s(coordinator.process.pid)
            time.sleep(1)
            self.assertLess(cpu_s(coordinator.process.pid) - before, 0.3)

    def test_many_small_parts_of_messages_fill_nothing(self):
        self.crowd_that_stays(UNFINISHED * (30 << 10), 200)
        self.large_frames_are_heard()
        self.assertLess(resident_mib(self.coordinator.process.pid), MEMORY_MIB)

    def test_who_says_all_at_once_is_heard(self):
        host, port = self.coordinator.endpoint.removeprefix("tcp://").rsplit(":", 1)
        for _ in range(20):
            line = wire.Raw((host, int(port)), handshake=False)
            self.addCleanup(line.close)
            line.socket.sendall(wire.GREETING + wire.READY + wire.frame(b"nonsense"))
            line.read(64)
            self.assertTrue(next(line.frames()))

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
