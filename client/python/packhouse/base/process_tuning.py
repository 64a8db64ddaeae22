"""Settings with which a process reads batches faster. Importing packhouse.calls.channel makes the first."""

from __future__ import annotations

import ctypes
import os
from typing import Final

import grpc

# Of mallopt, in glibc's malloc.h, with what the C++ client and the server set too.
_TRIM_THRESHOLD: Final = (-1, 1 << 30)
_TOP_PAD: Final = (-2, 16 << 20)
_MMAP_THRESHOLD: Final = (-3, 32 << 20)

# Versions that read in chunks by default, and can be told not to. Others do not know the setting.
_VERSIONS_WITH_READ_CHUNKS: Final = ("1.51.", "1.52.")


def read_messages_whole() -> None:
    """Sets GRPC_EXPERIMENTS=-tcp_read_chunks, unless the variable is set.

    gRPC then receives a message in one or two pieces, not in one for each 16 or 64 KiB, which
    Python must join. It looks at the variable when the process makes its first channel. Importing
    packhouse.calls.channel, and so all that makes one, calls this; programs that are started later
    inherit the variable.
    """
    if grpc.__version__.startswith(_VERSIONS_WITH_READ_CHUNKS):
        os.environ.setdefault("GRPC_EXPERIMENTS", "-tcp_read_chunks")


def tune_process_for_batches() -> bool:
    """Lets the process keep the memory of batches for the next ones; False if it cannot (no glibc).

    glibc returns large buffers to the system as soon as they are freed, and the system clears every
    page again for the next batch. That is half of the time of receiving batches of 256 KiB. Call
    this at the start of a program whose work is reading batches: it applies to all of the program's
    memory, and the program may then keep up to 1 GiB more. packhouse itself does not call it.
    """
    read_messages_whole()
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    mallopt.argtypes = (ctypes.c_int, ctypes.c_int)
    return all(
        mallopt(name, value) for name, value in (_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD)
    )
