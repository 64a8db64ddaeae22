"""HTTP/2 as hostile clients speak it: frames by hand, so that no library minds its manners."""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import Final

from hostile import address_of

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame of HTTP/2."""
    head = struct.pack(">I", len(payload))[1:] + bytes([kind, flags])
    return head + struct.pack(">I", stream) + payload


def headers(method: str) -> bytes:
    """What a call of "package.Service/Method" begins with, not compressed."""
    return b"".join(
        b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value
        for name, value in (
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", f"/{method}".encode()),
            (b":authority", b"hostile"),
            (b"content-type", b"application/grpc"),
            (b"te", b"trailers"),
        )
    )


class Flood:
    """A connection whose calls begin with `start`, and then send all that the server lets them."""

    def __init__(self, address: str, method: str, start: bytes, calls: int = 1) -> None:
        self._socket = socket.create_connection(address_of(address))
        self._received = b""
        # What the server lets the connection (0), and each call, send.
        self.windows = dict.fromkeys([0, *range(1, 2 * calls, 2)], 65535)
        self._initial = 65535
        self._num_pings = self._num_answers = 0
        self._is_stuck = False
        self._socket.sendall(PREFACE + frame(4, 0, 0, b""))
        # What the server lets each connection send is said before the first call begins.
        self.await_answer()
        for call in list(self.windows)[1:]:
            self._socket.sendall(frame(1, 4, call, headers(method)) + frame(0, 0, call, start))
            self._spend(call, len(start))
        self._socket.setblocking(False)

    def send_some(self) -> int:
        """As many bytes as the server takes now; none once it has ended the connection."""
        sent = 0
        if self._is_stuck:
            return sent
        self._is_stuck = True
        with contextlib.suppress(OSError):
            with contextlib.suppress(BlockingIOError):
                while read := self._socket.recv(65536):
                    self._received += read
            self._take_frames()
            for call in list(self.windows)[1:]:
                while (size := min(self.windows[0], self.windows[call], 16384)) > 0:
                    # A server that does not read may have this connection wait for ever.
                    self._socket.settimeout(0.5)
                    self._socket.sendall(frame(0, 0, call, bytes(size)))
                    self._socket.setblocking(False)
                    self._spend(call, size)
                    sent += size
            self._is_stuck = False
        return sent

    def await_answer(self) -> None:
        """Until the server has read all that was sent, and said what it lets the calls send."""
        self._socket.settimeout(60)
        self._socket.sendall(frame(6, 0, 0, bytes(8)))
        self._num_pings += 1
        while self._num_answers < self._num_pings:
            read = self._socket.recv(65536)
            if not read:
                raise ConnectionResetError
            self._received += read
            self._take_frames()
        self._socket.setblocking(False)

    def _spend(self, call: int, size: int) -> None:
        self.windows[0] -= size
        self.windows[call] -= size

    def _take_frames(self) -> None:
        while len(self._received) >= 9:
            length = int.from_bytes(self._received[:3], "big")
            if len(self._received) < 9 + length:
                return
            kind, flags = self._received[3:5]
            call = int.from_bytes(self._received[5:9], "big")
            payload = self._received[9 : 9 + length]
            self._received = self._received[9 + length :]
            if kind == 8 and call in self.windows:
                self.windows[call] += int.from_bytes(payload, "big")
            elif kind == 4 and not flags & 1:
                for at in range(0, length, 6):
                    name, value = struct.unpack(">HI", payload[at : at + 6])
                    if name == 4:
                        for each in list(self.windows)[1:]:
                            self.windows[each] += value - self._initial
                        self._initial = value
                self._socket.sendall(frame(4, 1, 0, b""))
            elif kind == 6 and not flags & 1:
                self._socket.sendall(frame(6, 1, 0, payload))
            elif kind == 6:
                self._num_answers += 1

    def close(self) -> None:
        self._socket.close()
