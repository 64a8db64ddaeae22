"""Hostile clients against a real server: what it promises the others must hold.

    PYTHONPATH=build/release/python python3 tests/abuse/abuse.py \
        --packhoused build/release/service/packhoused [--only fairness] [--seconds 60]

Every module of `scenarios/` has functions marked by `@scenario`. Each gets an `Abuse`, starts
servers with it, and yields rows. A row is a law, which must hold in every run however slow the
machine, or a figure, which depends on time and is judged in long runs only. Exit status 1 if a law
is broken, or in a long run a figure missed.

`abuse_test.py` runs each scenario in its short form.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import os
import pathlib
import pkgutil
import sys
import tempfile
import time
from typing import Callable, Final, Iterator

_FOLDER: Final = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(_FOLDER), str(_FOLDER.parent / "end_to_end")]

from server_process import ServerProcess  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Row:
    """One thing that was measured."""

    name: str
    # What was seen, and what it is held against, in words with units.
    seen: str
    bound: str
    holds: bool
    # Depends on the machine's speed.
    is_timed: bool = False


def law(name: str, seen: str, bound: str, holds: bool) -> Row:
    """A row that must hold on every machine."""
    return Row(name, seen, bound, holds)


def figure(name: str, seen: str, bound: str, holds: bool) -> Row:
    """A row about time: judged in long runs only."""
    return Row(name, seen, bound, holds, is_timed=True)


@dataclasses.dataclass(frozen=True)
class Abuse:
    """What a scenario is given."""

    # How long it may go on, about. A short run does as little as shows that the scenario works.
    seconds: float
    is_short: bool

    @contextlib.contextmanager
    def server(self, *flags: str, data: bool = False) -> Iterator[ServerProcess]:
        """A server with these flags, with a data folder of its own if `data`."""
        with contextlib.ExitStack() as stack:
            if data:
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                flags = ("--data-dir", folder, *flags)
            yield stack.enter_context(ServerProcess(*flags))


Scenario = Callable[[Abuse], Iterator[Row]]
SCENARIOS: Final[dict[str, Scenario]] = {}


def scenario(function: Scenario) -> Scenario:
    """Registers a function as `module.function`."""
    SCENARIOS[f"{function.__module__.rpartition('.')[2]}.{function.__name__}"] = function
    return function


def load_scenarios() -> dict[str, Scenario]:
    """All of them, by name."""
    for module in pkgutil.iter_modules([str(_FOLDER / "scenarios")]):
        importlib.import_module(f"scenarios.{module.name}")
    return SCENARIOS


def run(options: argparse.Namespace) -> int:
    """The scenarios asked for; the exit status."""
    if options.packhoused:
        os.environ["PACKHOUSED"] = options.packhoused
    abuse = Abuse(options.seconds, options.short)
    broken = 0
    for name, function in sorted(load_scenarios().items()):
        if options.only not in name:
            continue
        started = time.monotonic()
        for row in function(abuse):
            judged = not (row.is_timed and abuse.is_short)
            broken += judged and not row.holds
            word = ("holds" if row.holds else "BROKEN") if judged else "not judged"
            print(f"{name}: {row.name}: {row.seen} (bound: {row.bound}): {word}", flush=True)
        print(f"{name}: {time.monotonic() - started:.1f} s", flush=True)
    return 1 if broken else 0


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--packhoused", help="default: $PACKHOUSED")
    parser.add_argument("--only", default="", help="scenarios whose names contain this")
    parser.add_argument("--seconds", type=float, default=60, help="of each scenario, about")
    parser.add_argument("--short", action="store_true", help="the form in which tests run them")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    # Scenarios import this module by its name. Under the name `__main__` it would exist twice.
    import abuse as this

    sys.exit(this.run(this.parse()))
