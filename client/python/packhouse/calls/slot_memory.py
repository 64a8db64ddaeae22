"""Memory that a server of the same host writes batches into, one slot each, and who views a slot.

The mapping is the client's own: it stays while an array views it, whatever becomes of the server. A
slot is returned when the last array over it has gone: each slot has one buffer, which arrays view,
and its count of references says whether any does. See `Lane`.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import sys
import threading
import weakref
from typing import Any, Callable, Final, Protocol

from packhouse.base.forks import tell_forks

_MREMAP_MAYMOVE: Final = 1
_MREMAP_FIXED: Final = 2
_MADV_REMOVE: Final = 9
_FAILED: Final = ctypes.c_void_p(-1).value

# What sys.getrefcount says of what is in a list alone.
_IN_A_LIST: Final = [object()]
_ALONE: Final = sys.getrefcount(_IN_A_LIST[0])


class Pinning(Protocol):
    """A device's library, which copies faster, and without waiting, from memory that it knows."""

    def register(self, address: int, num_bytes: int) -> bool:
        """False: it cannot."""

    def unregister(self, address: int) -> None:
        """After all copies from there have ended."""


class SlotMemory:
    """A memory file in slots of equal size, mapped for reading and writing. Linux's alone.

    What is viewed when this process forks becomes a copy in its place before, and its slot is
    returned: neither process sees what the other one or the server writes. `hold`, `pin`,
    `take_returned` and `leave` are for one thread; arrays may go, and processes fork, on any.

    The C extension reads `buffers`, `addresses`, `held` and `is_forking`, and writes to `held`, without
    the lock: it does so where no other thread runs, and not while another one `is_forking`.
    """

    def __init__(self, descriptor: int, num_slots: int, slot_bytes: int) -> None:
        """Maps the file, whose descriptor stays the caller's. Raises OSError."""
        self.num_slots = num_slots
        self.slot_bytes = slot_bytes
        self._kind = _buffer_type(slot_bytes)
        # For each slot 1 if it is the client's: `take_returned` has not told it since it was held.
        self.held = bytearray(num_slots)
        # One byte: 1 while slots are moved.
        self.is_forking = bytearray(1)
        # Of `hold`, `take_returned` and forks. Of a signal handler that forks: reentrant.
        self._lock = threading.RLock()
        size = num_slots * slot_bytes
        address = _map(descriptor, size)
        # Where slots are now, and all that is mapped.
        self.addresses = [address + number * slot_bytes for number in range(num_slots)]
        self._regions = [(address, size)]
        # What ends the registration with a device's library; whether there is one, None: not tried.
        self._pins: list[Callable[[], None]] = []
        self._is_pinned: bool | None = None
        # Not at the interpreter's end, when arrays may still be there.
        weakref.finalize(self, _unmap, self._regions, self._pins).atexit = False
        # Of each slot; none after `leave`. And those that were viewed then.
        self.buffers = [self._new_buffer(number) for number in range(num_slots)]
        self._left: list[weakref.ref[Any]] = []
        tell_forks(self)

    def _new_buffer(self, number: int) -> Any:
        buffer = self._kind.from_address(self.addresses[number])
        # The memory must not go before.
        buffer.memory = self
        buffer.number = number
        return buffer

    def hold(self, buffer: Any) -> None:
        """Arrays may view this one of `buffers`: when all of them have gone, and no one else has it,
        its slot is returned. Doing so again changes nothing.
        """
        with self._lock:
            # Else a fork has moved the slot, and it was returned.
            if self.buffers[buffer.number] is buffer:
                self.held[buffer.number] = 1

    def pin(self, library: Pinning) -> bool:
        """Registers all slots, once, until they are unmapped; whether they are registered. A fork
        that moves a slot ends it for good: the library would read at the slot's former place.
        """
        with self._lock:
            if self._is_pinned is None:
                address, size = self._regions[0]
                self._is_pinned = len(self._regions) == 1 and library.register(address, size)
                if self._is_pinned:
                    self._pins.append(functools.partial(library.unregister, address))
            return self._is_pinned

    @property
    def is_pinned(self) -> bool:
        """Whether the slots are registered: a device may read them after a call that began it."""
        return bool(self._is_pinned)

    @property
    def num_returned(self) -> int:
        """How many slots `take_returned` would tell."""
        return sum(is_held and self._is_alone(n) for n, is_held in enumerate(self.held))

    def take_returned(self, numbers: dict[int, None]) -> None:
        """Adds the slots that nobody views any more. An exception that interrupts it has lost none.
        """
        with self._lock:
            for number, is_held in enumerate(self.held):
                if is_held and self._is_alone(number):
                    numbers[number] = None
                    self.held[number] = 0

    def leave(self) -> None:
        """No slot will be taken any more: those that nobody views cost no memory from now on. After
        this, nothing but views keeps the memory.
        """
        with self._lock:
            self.take_returned({})
            if any(self.held):
                for number, address in enumerate(self.addresses):
                    if not self.held[number]:
                        _libc().madvise(address, self.slot_bytes, _MADV_REMOVE)
                self._left = [
                    weakref.ref(self.buffers[number])
                    for number, is_held in enumerate(self.held)
                    if is_held
                ]
            self.held[:] = bytes(self.num_slots)
            self.buffers.clear()

    def _is_alone(self, number: int) -> bool:
        return sys.getrefcount(self.buffers[number]) == _ALONE

    def before_fork(self) -> None:
        """See Forked."""
        with self._lock:
            self.is_forking[0] = 1
            try:
                for number, is_held in enumerate(self.held):
                    if is_held and not self._is_alone(number):
                        self._move(number)
                        # What is viewed now, nobody asks about any more.
                        self.buffers[number] = self._new_buffer(number)
                for each in self._left:
                    buffer = each()
                    if buffer is not None:
                        self._move(buffer.number)
                self._left = []
            finally:
                self.is_forking[0] = 0

    def after_fork_in_child(self) -> None:
        """See Forked."""
        # Another thread may have held it. The slots are the parent's.
        self._lock = threading.RLock()
        self.held[:] = bytes(self.num_slots)
        # The device is the parent's, too.
        self._pins.clear()
        self._is_pinned = False

    def _move(self, number: int) -> None:
        """Leaves a copy in the slot's place, and maps the slot elsewhere. Who reads at the place sees
        the shared memory or the copy, which are the same. Raises OSError.
        """
        _unpin(self._pins)
        self._is_pinned = False
        libc, place, size = _libc(), self.addresses[number], self.slot_bytes
        # Of size 0, it is mapped once more.
        elsewhere = _checked(libc.mremap(place, 0, size, _MREMAP_MAYMOVE, None), size)
        self._regions.append((elsewhere, size))
        copy = _map(-1, size)
        ctypes.memmove(copy, place, size)
        _checked(libc.mremap(copy, size, size, _MREMAP_MAYMOVE | _MREMAP_FIXED, place), size)
        self.addresses[number] = elsewhere


@functools.lru_cache(maxsize=None)
def _buffer_type(num_bytes: int) -> Any:
    """A buffer of so many bytes at an address."""
    return type("SlotBuffer", (ctypes.c_char * num_bytes,), {})


# The module `mmap` keeps a descriptor open as long as arrays view what it has mapped.
@functools.lru_cache(maxsize=None)
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    libc.mmap.restype = libc.mremap.restype = pointer
    libc.mmap.argtypes = (pointer, size, number, number, number, ctypes.c_long)
    libc.mremap.argtypes = (pointer, size, size, number, pointer)
    libc.munmap.argtypes = (pointer, size)
    libc.madvise.argtypes = (pointer, size, number)
    return libc


def _map(descriptor: int, size: int) -> int:
    """Anonymous memory if `descriptor` is -1."""
    flags = mmap.MAP_SHARED if descriptor >= 0 else mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    protection = mmap.PROT_READ | mmap.PROT_WRITE
    return _checked(_libc().mmap(None, size, protection, flags, descriptor, 0), size)


def _checked(address: int, size: int) -> int:
    if address == _FAILED:
        number = ctypes.get_errno()
        raise OSError(number, f"{size} bytes cannot be mapped: {os.strerror(number)}")
    return address


def _unpin(pins: list[Callable[[], None]]) -> None:
    while pins:
        pins.pop()()


def _unmap(regions: list[tuple[int, int]], pins: list[Callable[[], None]]) -> None:
    _unpin(pins)
    for address, size in regions:
        _libc().munmap(address, size)
