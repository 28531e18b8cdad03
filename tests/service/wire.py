"""The parts of hostile peers: our messages (proto/wire/outrider.proto) from numbers and strings, ZMTP frames by a bare socket, and, past the
encryption, libzmq itself. A peer of the tests says what none of our programs would."""
import ctypes
import socket
import struct
import threading
import time

VERSION = 2  # of the protocol (common/base/version.h): another one is refused
MORE, LONG, COMMAND = 1, 2, 4
GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)

# Numbers of the Envelope's bodies, and of roles.
HELLO, WELCOME, OPEN_SESSION, PREFIX, DRAFT_TREE, VERDICT, CANCEL, VOCAB_MAP = 3, 4, 5, 6, 7, 8, 9, 10
PSI_REQUEST, PSI_REPLY, STATS, ERROR, VOCABULARY = 11, 12, 14, 15, 21
GENERATE, DELTA, RESUME, HEARTBEAT, VOCAB_REQUEST, STATS_REQUEST = 16, 17, 18, 19, 20, 22
BODIES = range(3, 24)
CLIENT, DRAFTER, VERIFIER = 1, 2, 3


def varint(number):
    number &= (1 << 64) - 1
    packed = bytearray()
    while number > 0x7f:
        packed.append(number & 0x7f | 0x80)
        number >>= 7
    packed.append(number)
    return bytes(packed)


class Fixed(int):
    """A number that is a fixed64."""


def field(number, value):
    """Return one field. An int is a varint, bytes and str have a length, a float is a 32-bit one, a list of ints is packed, of anything else
    repeated."""
    if isinstance(value, Fixed):
        return varint(number << 3 | 1) + struct.pack("<Q", value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, list) and all(isinstance(each, int) for each in value):
        value = b"".join(map(varint, value))
    if isinstance(value, list):
        return b"".join(field(number, each) for each in value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def message(body, fields, session=0, version=VERSION):
    """Return an Envelope with this body. `fields` are values by their numbers."""
    inside = b"".join(field(number, value) for number, value in fields.items())
    return field(1, version) + (field(2, session) if session else b"") + field(body, inside)


def hello(owner="", role=CLIENT, **more):
    """Return a Hello. `more` has fields by number, as f4=..."""
    return message(HELLO, {1: role, 2: "hostile", 7: owner, **{int(name[1:]): value for name, value in more.items()}})


# At temperature 0; what is 1 is off.
SAMPLING = field(3, 1.0) + field(5, 1.0)


def generate(request, prompt=b"Once upon a time", max_tokens=16, **more):
    """Return a request for a coupled text with eight guesses."""
    return message(GENERATE, {1: request, 2: prompt, 4: max_tokens, 5: SAMPLING, 10: 1, 11: 1, 12: 8, 13: 8, 16: 1,
                              **{int(name[1:]): value for name, value in more.items()}})


def resume(request, offset, text_offset, token=b""):
    return message(RESUME, {1: request, 2: offset, 3: token, 4: text_offset})


def frame(body, flags=0):
    if len(body) < 256:
        return bytes([flags, len(body)]) + body
    return bytes([flags | LONG]) + struct.pack(">Q", len(body)) + body


READY = frame(b"\x05READY" + b"\x0bSocket-Type" + struct.pack(">I", 6) + b"DEALER" + b"\x08Identity" + struct.pack(">I", 0), COMMAND)


class Raw:
    """A DEALER on a bare socket, without security; what it sends may be anything."""

    def __init__(self, address, timeout=10, handshake=True):
        self.socket = socket.create_connection(address, timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""
        if handshake:
            self.socket.sendall(GREETING)
            self.read(64)
            self.socket.sendall(READY)

    def send(self, *bodies):
        self.socket.sendall(b"".join(map(frame, bodies)))

    def read(self, count):
        while len(self.rest) < count:
            part = self.socket.recv(65536)
            if not part:
                raise ConnectionError("closed")
            self.rest += part
        got, self.rest = self.rest[:count], self.rest[count:]
        return got

    def frames(self):
        """Return what comes behind the greeting, without commands, until the connection is closed."""
        while True:
            flags = self.read(1)[0]
            size = struct.unpack(">Q", self.read(8))[0] if flags & LONG else self.read(1)[0]
            body = self.read(size)
            if not flags & COMMAND:
                yield body

    def reset(self):
        """End it at once: what is under way is lost, and the other side is told so."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self):
        self.socket.close()


class Hub:
    """A coordinator's side of one connection on a bare socket, without security; what it sends may be anything. What comes is read by a thread,
    so that nothing stands still because of us."""

    ROUTER = READY.replace(b"DEALER", b"ROUTER")

    def __init__(self):
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.line, self.heard, self.answers, self.asked = None, [], set(), 0

    def accept(self):
        """Return the next connection, up to the Hello on it."""
        self.server.settimeout(60)
        self.line = Raw.__new__(Raw)
        self.line.socket, self.line.rest = self.server.accept()[0], b""
        self.line.socket.settimeout(60)
        self.line.socket.sendall(GREETING)
        self.line.read(64)
        self.line.socket.sendall(self.ROUTER)
        hello = parse(next(self.line.frames()))[HELLO]
        threading.Thread(target=self._hear, args=(self.line,), daemon=True).start()
        self.send(message(WELCOME, {1: "hostile", 2: 1000}))
        return hello

    def _hear(self, line):
        try:
            for body in line.frames():
                said = parse(body)
                self.heard += [said] if HEARTBEAT not in said else []
                self.answers.add(parse(said.get(HEARTBEAT, b"")).get(2))
        except (OSError, IndexError, KeyError):
            pass  # it is closed

    def send(self, *bodies):
        self.line.send(*bodies)

    def settle(self, patience=60):
        """Wait until all that was sent has been read. The answer to a question behind it says so."""
        self.asked += 1
        self.send(message(HEARTBEAT, {1: self.asked}))
        end = time.monotonic() + patience
        while self.asked not in self.answers:
            if time.monotonic() > end:
                raise AssertionError("no answer: it does not read any more")
            time.sleep(0.005)

    def close(self):
        self.server.close()
        if self.line is not None:
            self.line.reset()
            self.line = None


class Curve:
    """A DEALER of libzmq with a key that is let in."""

    DEALER, LINGER, SNDHWM, SNDTIMEO, RCVTIMEO = 5, 17, 23, 28, 27
    PUBLIC, SECRET, SERVER = 48, 49, 50
    SEND_MORE = 2

    def __init__(self, endpoint, public, secret, server):
        self.zmq = ctypes.CDLL("libzmq.so.5")
        self.zmq.zmq_ctx_new.restype = self.zmq.zmq_socket.restype = ctypes.c_void_p
        self.context = ctypes.c_void_p(self.zmq.zmq_ctx_new())
        self.socket = ctypes.c_void_p(self.zmq.zmq_socket(self.context, self.DEALER))
        for option, value in ((self.LINGER, 0), (self.SNDHWM, 1000), (self.SNDTIMEO, 1000), (self.RCVTIMEO, 1000)):
            number = ctypes.c_int(value)
            self.zmq.zmq_setsockopt(self.socket, option, ctypes.byref(number), ctypes.sizeof(number))
        for option, key in ((self.SERVER, server), (self.PUBLIC, public), (self.SECRET, secret)):
            self.zmq.zmq_setsockopt(self.socket, option, key.encode(), ctypes.c_size_t(len(key)))
        if self.zmq.zmq_connect(self.socket, endpoint.encode()) != 0:
            raise ConnectionError(endpoint)

    def send(self, body, more=False):
        """Send it. Return False if it could not be sent within a second."""
        return self.zmq.zmq_send(self.socket, body, ctypes.c_size_t(len(body)), self.SEND_MORE if more else 0) >= 0

    def receive(self):
        """Return the next frame, or None if none came within a second."""
        room = ctypes.create_string_buffer(1 << 16)
        count = self.zmq.zmq_recv(self.socket, room, ctypes.c_size_t(len(room)), 0)
        return room.raw[:min(count, len(room))] if count >= 0 else None

    def close(self):
        self.zmq.zmq_close(self.socket)
        self.zmq.zmq_ctx_term(self.context)


def fields(packed):
    """Return (number, kind, value) of each field of a message, ints and bytes. IndexError or KeyError: it is none."""
    found, at = [], 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = packed[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(packed):
        key = number()
        kind = key & 7
        if kind == 0:
            found.append((key >> 3, 0, number()))
            continue
        size = number() if kind == 2 else {1: 8, 5: 4}[kind]
        found.append((key >> 3, kind, packed[at:at + size]))
        at += size
    return found


def parse(packed):
    """Return the fields of a message by number, the last one where several have the same."""
    return {number: value for number, _, value in fields(packed)}
