"""Notes which functions with mutated lines a process in Python calls: stands in the mutated package's folder.

PACKHOUSE_MUTANT_LINES is a file, "path:line number" of each mutant; PACKHOUSE_MUTANT_REACHED as in mutant_switch.h.
"""

from __future__ import annotations

import mmap
import os
import sys
import threading
from inspect import CO_OPTIMIZED
from types import CodeType, FrameType
from typing import Any


def _trace(lines: str, reached: str) -> None:
    mutants: dict[str, list[tuple[int, int]]] = {}
    with open(lines) as file:
        for text in file:
            place, _, number = text.strip().rpartition(" ")
            path, _, line = place.rpartition(":")
            mutants.setdefault(path, []).append((int(line), int(number)))
    with open(f"{reached}.test", "rb") as file:
        test = mmap.mmap(file.fileno(), 4, access=mmap.ACCESS_READ)
    of_code: dict[CodeType, list[int]] = {}
    noted: set[tuple[bytes, int]] = set()

    def on_call(frame: FrameType, _event: str, _argument: Any) -> None:
        code = frame.f_code
        if code.co_filename not in mutants:
            return
        numbers = of_code.get(code)
        if numbers is None:
            own = {line for _, _, line in code.co_lines() if line is not None}
            if code.co_flags & CO_OPTIMIZED:  # A function, not a module or a class with functions in it.
                own.update(range(code.co_firstlineno, max(own) + 3))
            numbers = [number for line, number in mutants[code.co_filename] if line in own]
            of_code[code] = numbers
        if not numbers:
            return
        # What is made as a module is read is there for all tests.
        now = bytes(4) if not code.co_flags & CO_OPTIMIZED else test[:4]
        for number in numbers:
            if (now, number) not in noted:
                noted.add((now, number))
                out = os.open(reached, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
                os.write(out, f"reached {int.from_bytes(now, 'little')} {number}\n".encode())
                os.close(out)

    threading.settrace(on_call)
    sys.settrace(on_call)


if "PACKHOUSE_MUTANT_LINES" in os.environ and "PACKHOUSE_MUTANT_REACHED" in os.environ:
    _trace(os.environ["PACKHOUSE_MUTANT_LINES"], os.environ["PACKHOUSE_MUTANT_REACHED"])
