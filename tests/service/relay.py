"""A TCP relay on loopback whose connections can be broken, as a bad line does."""
import socket
import threading
import time


class Relay:
    """`endpoint` leads to the one given, except while it is cut."""

    def __init__(self, endpoint):
        self.lead_to(endpoint)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"
        self.lock = threading.Lock()
        self.pairs = []
        self.closed_until = 0.0

    def lead_to(self, endpoint):
        """From the next connection on."""
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
                threading.Thread(target=self.carry, args=(one, other), daemon=True).start()

    @staticmethod
    def carry(one, other):
        try:
            while part := one.recv(65536):
                other.sendall(part)
        except OSError:
            pass  # cut
        for end in (one, other):
            Relay.hang_up(end)
        one.close()

    @staticmethod
    def hang_up(end):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it was already

    def cut(self, seconds):
        """Break all connections; no new ones for so long."""
        self.closed_until = time.monotonic() + seconds
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for end in pair:
                self.hang_up(end)
