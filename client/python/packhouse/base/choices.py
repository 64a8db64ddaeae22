"""Enums whose members may be given by name."""

from __future__ import annotations

import enum
from typing import Any, Iterable, TypeVar

_Member = TypeVar("_Member", bound="Choice")


class Choice(enum.IntEnum):
    """An enum whose members may be given by name, in upper or lower case."""

    @classmethod
    def of(cls: type[_Member], value: Any, argument: str) -> _Member:
        """The member that `value` is or names. Raises ValueError naming the argument."""
        if isinstance(value, str):
            member = cls.__members__.get(value.upper().replace("-", "_"))
            if member is not None:
                return member
        elif isinstance(value, int) and not isinstance(value, bool):
            try:
                return cls(value)
            except ValueError:
                pass
        names = ", ".join(repr(name.lower()) for name in cls.__members__)
        raise ValueError(f"{argument}: {value!r} is none of {names}")

    @classmethod
    def each_of(cls: type[_Member], values: Any, argument: str) -> tuple[_Member, ...]:
        """The members that are given, or the one. Raises ValueError naming the argument."""
        if isinstance(values, (str, int)) or not isinstance(values, Iterable):
            values = (values,)
        return tuple(cls.of(value, argument) for value in values)
