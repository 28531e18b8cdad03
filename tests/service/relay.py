"""A TCP relay on loopback that is as slow as a long line, and can be broken as a bad one is."""
import queue
import random
import socket
import threading
import time

PART_MAX = 65536


class Relay:
    """`endpoint` leads to the one given, except while it is cut. Each direction delays what it carries by delay_s, give or take
    `jitter` of that, never out of order, and carries `rate` bytes a second. All three may be set while it runs."""

    def __init__(self, endpoint, delay_s=0, jitter=0, rate=None):
        self.lead_to(endpoint)
        self.delay_s, self.jitter, self.rate = delay_s, jitter, rate
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"
        self.random = random.Random(1)
        self.lock = threading.Lock()
        self.pairs = []
        self.seen = []
        self.closed_until = self.stalled_until = 0.0

    def lead_to(self, endpoint):
        """Lead to this endpoint from the next connection on."""
        host, port = endpoint.removeprefix("tcp://").rsplit(":", 1)
        self.target = (host, int(port))

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.hang_up(self.listener)
        self.cut(0)

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                self.listener.close()
                return
            try:
                if time.monotonic() < self.closed_until:
                    raise ConnectionRefusedError
                far = socket.create_connection(self.target, timeout=5)
                far.settimeout(None)
            except OSError:
                near.close()
                continue
            with self.lock:
                self.pairs.append((near, far))
            for one, other in ((near, far), (far, near)):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.carry, args=(one, other), daemon=True).start()

    def carry(self, one, other):
        """Take what comes from `one`, with the time when it is due at `other`."""
        parts = queue.SimpleQueue()
        threading.Thread(target=self.deliver, args=(parts, one, other), daemon=True).start()
        idle = due = 0.0
        try:
            while part := one.recv(PART_MAX):
                self.seen.append(part)
                idle = max(idle, time.monotonic()) + (len(part) / self.rate if self.rate else 0)
                due = max(due, idle + self.delay_s * (1 + self.jitter * self.random.uniform(-1, 1)))
                parts.put((due, part))
        except OSError:
            pass  # cut
        parts.put(None)

    def deliver(self, parts, one, other):
        try:
            while entry := parts.get():
                due, part = entry
                while (left := max(due, self.stalled_until) - time.monotonic()) > 0:
                    time.sleep(left)
                other.sendall(part)
        except OSError:
            pass  # cut
        for end in (one, other):
            self.hang_up(end)
        one.close()

    @staticmethod
    def hang_up(end):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it was already

    @property
    def capture(self):
        """Return every byte that came by so far, of both directions, as who listens on the line has them."""
        return b"".join(self.seen)

    def stall(self, seconds):
        """Let nothing arrive for so long. Nothing is lost."""
        self.stalled_until = time.monotonic() + seconds

    def cut(self, seconds):
        """Break all connections; no new ones for so long."""
        self.closed_until = time.monotonic() + seconds
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for end in pair:
                self.hang_up(end)
