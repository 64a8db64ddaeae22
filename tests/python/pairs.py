"""zip(strict=True), which Python 3.9 does not have."""

from __future__ import annotations

from typing import Iterable, Iterator, TypeVar

_One = TypeVar("_One")
_Other = TypeVar("_Other")


def pairs(ones: Iterable[_One], others: Iterable[_Other]) -> Iterator[tuple[_One, _Other]]:
    """Pairs of what comes at the same place; both must have the same length."""
    first, second = list(ones), list(others)
    assert len(first) == len(second)
    return zip(first, second)
