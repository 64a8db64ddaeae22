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


class HalfMessage:
    """A connection that announces a message and sends a part of it, by hand."""

    def __init__(self, address: str, method: str, announced: int) -> None:
        self._socket = socket.create_connection(address_of(address))
        self._received = b""
        # What the server lets this stream, and the connection, send.
        self._windows = {0: 65535, 1: 65535}
        self._initial = 65535
        self._is_stuck = False
        start = b"\0" + struct.pack(">I", announced)
        self._socket.sendall(
            PREFACE
            + frame(4, 0, 0, b"")
            + frame(1, 4, 1, headers(method))
            + frame(0, 0, 1, start)
        )
        for stream in self._windows:
            self._windows[stream] -= len(start)
        self._socket.setblocking(False)

    def send_some(self) -> None:
        """As much as the server takes now; nothing once it has ended the connection."""
        if self._is_stuck:
            return
        self._is_stuck = True
        with contextlib.suppress(OSError):
            with contextlib.suppress(BlockingIOError):
                while read := self._socket.recv(65536):
                    self._received += read
            self._take_frames()
            window = min(self._windows.values())
            while window > 0:
                size = min(window, 16384)
                # A server that does not read may have this connection wait for ever.
                self._socket.settimeout(0.5)
                self._socket.sendall(frame(0, 0, 1, bytes(size)))
                self._socket.setblocking(False)
                window -= size
                for stream in self._windows:
                    self._windows[stream] -= size
            self._is_stuck = False

    def _take_frames(self) -> None:
        while len(self._received) >= 9:
            length = int.from_bytes(self._received[:3], "big")
            if len(self._received) < 9 + length:
                return
            kind, flags = self._received[3:5]
            stream = int.from_bytes(self._received[5:9], "big")
            payload = self._received[9 : 9 + length]
            self._received = self._received[9 + length :]
            if kind == 8 and stream in self._windows:
                self._windows[stream] += int.from_bytes(payload, "big")
            elif kind == 4 and not flags & 1:
                for at in range(0, length, 6):
                    name, value = struct.unpack(">HI", payload[at : at + 6])
                    if name == 4:
                        self._windows[1] += value - self._initial
                        self._initial = value
                self._socket.sendall(frame(4, 1, 0, b""))
            elif kind == 6 and not flags & 1:
                self._socket.sendall(frame(6, 1, 0, payload))

    def close(self) -> None:
        self._socket.close()
