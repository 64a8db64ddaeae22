"""Programs that are started for this process, and what a terminal sends does not reach."""

from __future__ import annotations

import shutil
import sys
from typing import Any, NamedTuple, Sequence


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
    setsid = shutil.which("setsid")
    return Start(([setsid] if setsid else []) + list(command), {"close_fds": False})
