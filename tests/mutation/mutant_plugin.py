"""A plugin of pytest: tells which test runs, which mutated lines it reaches, and runs only those that are asked for.

PACKHOUSE_MUTANT_REACHED: as in mutant_switch.h. PACKHOUSE_MUTANT_TESTS: a file with the names of the tests to run.
"""

from __future__ import annotations

import mmap
import os
import pathlib
from collections.abc import Iterator
from time import monotonic  # As it is, though a test puts another clock there.
from typing import Any

import pytest

_reached = os.environ.get("PACKHOUSE_MUTANT_REACHED")
_only = os.environ.get("PACKHOUSE_MUTANT_TESTS")
_last = 0


def _shared() -> mmap.mmap | None:
    if not _reached:
        return None
    with open(f"{_reached}.test", "r+b") as file:
        return mmap.mmap(file.fileno(), 4)


_test = _shared()


# What fixtures reach is of no test, since they may serve several.
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Numbers the tests."""
    global _last
    if _test is None or not _reached:
        yield
        return
    _last += 1
    with pathlib.Path(_reached).open("a") as out:
        out.write(f"test {_last} {item.nodeid}\n")
    _test[:] = _last.to_bytes(4, "little")
    begin = monotonic()
    yield
    _test[:] = bytes(4)
    with pathlib.Path(_reached).open("a") as out:
        out.write(f"took {_last} {round(1000 * (monotonic() - begin))}\n")


def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    """Leaves those that are asked for."""
    if _only:
        names = set(pathlib.Path(_only).read_text().split("\n"))
        config.hook.pytest_deselected(items=[each for each in items if each.nodeid not in names])
        items[:] = [each for each in items if each.nodeid in names]
