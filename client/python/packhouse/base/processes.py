"""Processes: settings with which they may fork and read batches faster, and how they start programs.

Importing packhouse imports this first of all. It imports nothing of gRPC, and little else.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final, NamedTuple, Sequence


def keep_forks_apart() -> None:
    """Sets GRPC_POLL_STRATEGY=poll, unless the variable is set.

    gRPC's own choice, epoll, leaves its file descriptor open when all channels are closed. A forked
    process would share it with its parent, and each would get the other's events, up to a crash:
    grpcio 1.80 also ends programs that Python 3.9 starts, before they begin. For the few connections
    of a client poll is as fast. gRPC looks at the variable when the process makes its first channel,
    newer versions when it is imported. Importing packhouse calls this first of all.
    """
    os.environ.setdefault("GRPC_POLL_STRATEGY", "poll")


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
    import grpc

    if grpc.__version__.startswith(_VERSIONS_WITH_READ_CHUNKS):
        os.environ.setdefault("GRPC_EXPERIMENTS", "-tcp_read_chunks")


def tune_process_for_batches() -> bool:
    """Lets the process keep the memory of batches for the next ones; False if it cannot (no glibc).

    glibc returns large buffers to the system as soon as they are freed, and the system clears every
    page again for the next batch. That is half of the time of receiving batches of 256 KiB. Call
    this at the start of a program whose work is reading batches: it applies to all of the program's
    memory, and the program may then keep up to 1 GiB more. packhouse itself does not call it.
    """
    import ctypes

    read_messages_whole()
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    mallopt.argtypes = (ctypes.c_int, ctypes.c_int)
    return all(
        mallopt(name, value) for name, value in (_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD)
    )


class Start(NamedTuple):
    """What subprocess.Popen takes."""

    command: list[str]
    arguments: dict[str, Any]


def in_session_of_its_own(command: Sequence[str]) -> Start:
    """How to start a program in a session of its own: signals to this process's group, as of Ctrl-C
    or a scheduler, do not reach it.

    Python does not fork for that: gRPC's fork handlers may end the child. Python before 3.10 would,
    so there the program setsid does it, where it is installed.
    """
    if sys.version_info >= (3, 10):
        return Start(list(command), {"close_fds": False, "start_new_session": True})
    import shutil

    setsid = shutil.which("setsid")
    return Start(([setsid] if setsid else []) + list(command), {"close_fds": False})
