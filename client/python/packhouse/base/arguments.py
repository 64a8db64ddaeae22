"""Arguments: whether they are what is wanted, members by name, and signatures that show them all.

An error names the argument, what it is and what is right.
"""

from __future__ import annotations

import enum
import inspect
import operator
from typing import Any, Callable, Final, Iterable, TypeVar


def check_type(
    value: Any, argument: str, wanted: type, hint: str = "", *, optional: bool = False
) -> None:
    """Raises TypeError naming the argument, what it is and what is right; `hint` says more of it."""
    if isinstance(value, wanted) or (optional and value is None):
        return
    right = f"{wanted.__name__}, {hint}" if hint else wanted.__name__
    raise TypeError(f"{argument}: a {type(value).__name__} is no {right}")


def check_each(values: Any, argument: str, wanted: type) -> None:
    """The same for each of several values; also for what is no sequence at all."""
    try:
        each = tuple(values)
    except TypeError:
        raise TypeError(
            f"{argument}: a {type(values).__name__} is no sequence of {wanted.__name__}"
        ) from None
    for number, value in enumerate(each):
        check_type(value, f"{argument}[{number}]", wanted)


UINT32_MAX: Final = 2**32 - 1
UINT64_MAX: Final = 2**64 - 1


def whole_number(value: Any, argument: str, most: int = UINT32_MAX) -> int:
    """The number, also of numpy's types, from 0 to `most`.

    Raises TypeError for what is no whole number, ValueError for one that is out of bounds; both
    name the argument.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{argument}: {value!r} is no whole number") from None
    if not 0 <= number <= most:
        raise ValueError(f"{argument}: {number} is not from 0 to {most}")
    return number


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


_Function = TypeVar("_Function", bound=Callable[..., Any])


def shows_arguments_of(*sources: Any) -> Callable[[_Function], _Function]:
    """A function whose `**arguments` are those of `sources` shows them in its signature.

    A source is a TypedDict of optional arguments, or a function, whose keyword arguments are meant.
    """

    def decorated(function: _Function) -> _Function:
        signature = inspect.signature(function)
        parameters = [
            each
            for each in signature.parameters.values()
            if each.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        known = {each.name for each in parameters}
        for source in sources:
            for parameter in _keywords_of(source):
                if parameter.name not in known:
                    known.add(parameter.name)
                    parameters.append(parameter)
        setattr(function, "__signature__", signature.replace(parameters=parameters))
        return function

    return decorated


def _keywords_of(source: Any) -> list[inspect.Parameter]:
    kind = inspect.Parameter.KEYWORD_ONLY
    if isinstance(source, type) and issubclass(source, dict):
        return [
            inspect.Parameter(name, kind, default=None, annotation=annotation)
            for name, annotation in _annotations_of(source).items()
        ]
    return [each for each in inspect.signature(source).parameters.values() if each.kind is kind]


def _annotations_of(source: Any) -> dict[str, Any]:
    """A TypedDict's, as they are written."""
    return {
        name: getattr(annotation, "__forward_arg__", annotation)
        for name, annotation in source.__annotations__.items()
    }
