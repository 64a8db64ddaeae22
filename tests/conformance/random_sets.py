"""Many random sets of graphs through a framework itself and through packhouse, and the tally of it.

A set is made of one seed alone. Either every value that comes out is that of the framework, or the
set is refused with the graph's number, the attribute and the reason, and there is a reason.

    PACKHOUSE_SETS=300     how many sets of each framework (default: what the test says)
    PACKHOUSE_SETS_FROM=N  the number of the first one (default: 0), for sets not tried yet
    PACKHOUSE_SET=17       this set alone, to look at a failure
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import re
from typing import Any, Callable, Final, Iterator

import grpc

from packhouse import (
    Client,
    Evaluation,
    GraphTable,
    LocalServer,
    PackhouseError,
    PackOptions,
    Padding,
)

# What a refusal may be about: the odd attribute's name, and in a word what is odd in it.
Oddities = list[tuple[str, str]]

# Of attributes of later parts, if their rows are not as those of the first part.
DECIDED: Final = "decided by the first part"

_NUMBERED: Final = re.compile(r"\b(graphs?|GraphsTuple|GraphTensor) \d+")


class Refused(Exception):
    """packhouse does not take the set; the cause has the words."""


class PeerFailed(Exception):
    """The framework itself does not join the graphs."""


@contextlib.contextmanager
def _refusals(*kinds: type[Exception]) -> Iterator[None]:
    """Errors of these kinds, and INVALID_ARGUMENT of the server, leave as Refused."""
    try:
        yield
    except kinds as error:
        raise Refused() from error
    except PackhouseError as error:
        if error.code is grpc.StatusCode.INVALID_ARGUMENT:
            raise Refused() from error
        raise


def batches(
    client: Client,
    server: LocalServer,
    give: Callable[[], list[GraphTable]],
    padding: Padding,
    limited: Callable[[str], bool] = lambda name: True,
    stored: dict[str, Any] | None = None,
) -> Iterator[Any]:
    """Every graph of a set once, in batches of at most four. Raises Refused.

    `give` makes the set's tables, or stores it as the data set `random` and gives none; `stored`
    says how that is loaded, besides its name. Components that are not `limited` have no limit.
    """
    with _refusals(ValueError, TypeError):
        tables = give()
    if not tables:
        try:
            yield from Evaluation(
                server.address, dataset="random", **{"limits": {"graphs": 4}, **(stored or {})}
            )
        finally:
            client.datasets.delete("random")
        return
    limits = {
        name: 8 + 3 * max(int(table.counts(name).max(initial=0)) for table in tables)
        for name in tables[0].schema.components
        if limited(name)
    }
    limits["graphs"] = 4
    with _refusals():
        yield from client.pack(tables, PackOptions(limits, padding))


@dataclasses.dataclass
class Tally:
    """What became of the sets of one framework."""

    framework: str
    alike: int = 0
    failures: int = 0
    refused: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    # Sets that the framework itself does not join, by whether we refuse them as well.
    failed_there: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)

    def lines(self) -> Iterator[str]:
        total = self.alike + self.refused.total() + self.failed_there.total()
        yield f"{self.framework}: {total} sets, {self.alike} alike, {self.failures} failures"
        for name, count in sorted(self.refused.items()):
            yield f"  refused {count}: {name}"
        for name, count in sorted(self.failed_there.items()):
            yield f"  {self.framework} fails itself {count}: {name}"


TALLIES: Final[list[Tally]] = []


def run(
    framework: str,
    default: int,
    make: Callable[[int], tuple[Any, Oddities]],
    compare: Callable[[Any], None],
    fault_of: Callable[[str, Oddities], str | None] | None = None,
) -> None:
    """Compares so many sets. `compare` raises Refused, PeerFailed, or an error of its own.

    `fault_of` says what is wrong with the words of a refusal.
    """
    tally = Tally(framework)
    TALLIES.append(tally)
    one = os.environ.get("PACKHOUSE_SET")
    first = int(os.environ.get("PACKHOUSE_SETS_FROM", 0))
    count = int(os.environ.get("PACKHOUSE_SETS", default))
    seeds = [int(one)] if one else range(first, first + count)
    failures = []
    for seed in seeds:
        made, oddities = make(seed)
        try:
            compare(made)
            tally.alike += 1
        except PeerFailed as failed:
            tally.failed_there[str(failed)] += 1
        except Refused as refused:
            words = str(refused.__cause__)
            fault = (fault_of or _fault)(words, oddities)
            if fault:
                failures.append(f"PACKHOUSE_SET={seed}: {fault}: {words}")
            tally.refused[_reason(words, oddities)] += 1
        except Exception as error:
            if one:
                raise
            failures.append(f"PACKHOUSE_SET={seed}: {type(error).__name__}: {error}"[:600])
    tally.failures = len(failures)
    assert not failures, f"{len(failures)} of {len(seeds)} sets:\n" + "\n".join(failures[:40])


def _fault(words: str, oddities: Oddities) -> str | None:
    if not oddities:
        return "refused, but nothing is odd in it"
    if not _NUMBERED.search(words):
        return "refused without the number of a graph"
    if not any(_names(words, name) for name, _ in oddities):
        return f"refused without a name of {oddities}"
    return None


def _reason(words: str, oddities: Oddities) -> str:
    """The first oddity whose name the words have; one that says why rather than when."""
    kinds = [kind for name, kind in oddities if _names(words, name)]
    if not kinds:  # What is no name, as that of an encoding, is not in quotes.
        kinds = [kind for name, kind in oddities if str(name) in words]
    return min(kinds, key=lambda kind: kind == DECIDED, default="(no oddity)")


def _names(words: str, name: Any) -> bool:
    """Whether it is named, in quotes, alone or after its type."""
    whole = (repr(name), f".{name}'", f"'{name}.", f" {name} ")
    return any(each in words for each in whole)
