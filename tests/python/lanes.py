"""A server's end of a lane (docs/lane.md), for tests of the client's end."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from typing import Any

from packhouse.v1 import batch_pb2, loader_pb2

TOKEN = b"0123456789abcdef"
BY_CALL = 0xFFFFFFFF


def _long(length: int) -> bytes:
    """A length in four bytes, however small: so it does not move what comes after it."""
    return bytes([length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14 & 0x7F | 0x80, length >> 21])


def in_a_slot(response: Any, offset: int) -> bytes:
    """A LoadResponse with a batch, whose tensors' data begins at multiples of 64 where the whole
    begins at `offset`.
    """
    message = response.batch
    head = batch_pb2.Batch.FromString(message.batch.SerializeToString())
    del head.tensors[:]
    others = loader_pb2.LoadedBatch.FromString(message.SerializeToString())
    others.ClearField("batch")
    tensors = b""
    # Behind the tags and lengths of the response and its batch.
    start = offset + 5 + 5 + head.ByteSize()
    for tensor in message.batch.tensors:
        fields = batch_pb2.Tensor.FromString(tensor.SerializeToString())
        fields.data = b""
        known = fields.SerializeToString()
        end = start + len(tensors) + 5 + len(known) + 5 + 5
        gap = b"\xa5" * (-end % 64)
        data = b"\x32" + _long(len(gap)) + gap + b"\x22" + _long(len(tensor.data)) + tensor.data
        tensors += b"\x42" + _long(len(known) + len(data)) + known + data
    batch = head.SerializeToString() + tensors
    loaded = b"\x0a" + _long(len(batch)) + batch + others.SerializeToString()
    return b"\x12" + _long(len(loaded)) + loaded


class SlotServer:
    """Takes one client, and writes to its slots what a test says. Its socket is at `offer`'s path."""

    def __init__(
        self, folder: Any, num_slots: int = 4, slot_bytes: int = 8192, num_before: int = 1
    ) -> None:
        self.num_slots = num_slots
        self.slot_bytes = slot_bytes
        self.num_before = num_before
        path = f"{folder}/lane"
        self.offer = loader_pb2.Lane(socket_path=path, token=TOKEN)
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listening.bind(path)
        self._listening.listen()
        self.memory = os.memfd_create("slots")
        os.ftruncate(self.memory, num_slots * slot_bytes)
        # How many connections it closes before that without reading a token; and whether it goes with
        # the last of them.
        self.num_unread = 0
        self.goes = False
        self.connection: Any = None
        self.hello = b""
        self.welcome = self.told_welcome()
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def told_welcome(self, magic: bytes = b"PHL1") -> bytes:
        return struct.pack("<4sIQQ", magic, self.num_slots, self.slot_bytes, self.num_before)

    def _take(self) -> None:
        with contextlib.suppress(OSError):
            self.connection, _ = self._listening.accept()
            while self.num_unread > 0:
                self.num_unread -= 1
                if self.goes and self.num_unread == 0:
                    self._listening.close()
                self.connection.close()
                self.connection, _ = self._listening.accept()
            self.hello = self.connection.recv(64)
            if self.welcome:
                socket.send_fds(self.connection, [self.welcome], [self.memory])
            else:
                self.connection.close()

    def taken(self) -> SlotServer:
        """When a client has been taken."""
        self._thread.join()
        return self

    def write(self, slot: int, response: Any, offset: int = 0) -> None:
        content = in_a_slot(response, offset)
        os.pwrite(self.memory, content, slot * self.slot_bytes + offset)
        self.say(slot, offset, len(content))

    def fill(self, slot: int, byte: bytes) -> None:
        """As a later batch would."""
        os.pwrite(self.memory, byte * self.slot_bytes, slot * self.slot_bytes)

    def say(self, slot: int, offset: int = 0, size: int = 0) -> None:
        self.connection.send(struct.pack("<IIQ", slot, offset, size))

    def released(self) -> list[int]:
        """What has been released and not told; does not wait."""
        slots: list[int] = []
        with contextlib.suppress(BlockingIOError):
            while True:
                message = self.connection.recv(4096, socket.MSG_DONTWAIT)
                if not message:
                    return slots
                slots += struct.unpack(f"<{len(message) // 4}I", message)
        return slots

    def close(self) -> None:
        self._listening.close()
        if self.connection is not None:
            self.connection.close()
        os.close(self.memory)
