"""Arguments: whether they are what is wanted, members by name, and signatures that show them all.

An error names the argument, what it is and what is right.
"""

from __future__ import annotations

import collections.abc
import datetime
import enum
import functools
import inspect
import numbers
import operator
import os
import re
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


_Class = TypeVar("_Class", bound=type)


def names_arguments(kind: _Class) -> _Class:
    """The public methods of a class refuse arguments of a wrong type by their names, first of all.

    They raise TypeError, or ValueError for a whole number below 0 or above 64 bits. Types are those
    of the annotations; members of a Choice and rows by component are checked where they are read. A
    class may have a `_hint`, which says how to come by one.
    """
    for name, method in list(vars(kind).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(kind, name, _naming_arguments(method))
    return kind


def _naming_arguments(method: _Function) -> _Function:
    signature = inspect.signature(method)
    checks: dict[str, Callable[[Any, str], object] | None] = {}

    @functools.wraps(method)
    def checked(*positional: Any, **by_name: Any) -> Any:
        for argument, value in signature.bind(*positional, **by_name).arguments.items():
            if argument not in checks:
                annotation = str(signature.parameters[argument].annotation)
                checks[argument] = _check_of(annotation, method.__globals__)
            check = checks[argument]
            if check is not None:
                check(value, argument)
        return method(*positional, **by_name)

    return checked  # type: ignore[return-value]


def _check_of(annotation: str, names: dict[str, Any]) -> Callable[[Any, str], object] | None:
    """What checks a value; None for types that are not known here."""
    is_optional = annotation.endswith(" | None")
    annotation = annotation.removesuffix(" | None")
    check = _CHECKS.get(annotation)
    if check is None:
        kinds = [_kind_of(each, names) for each in _ALTERNATIVES.split(annotation)]
        if any(each is None for each in kinds):
            return None
        check = functools.partial(_check_kinds, tuple(filter(None, kinds)))
    if not is_optional:
        return check
    known = check
    return lambda value, argument: None if value is None else known(value, argument)


def _kind_of(annotation: str, names: dict[str, Any]) -> type | None:
    """The class whose instances are wanted; None if it is not known."""
    generic = annotation.partition("[")[0]
    if generic in ("Iterable", "Sequence"):
        return collections.abc.Iterable
    if generic == "Mapping":
        return None if annotation == "Mapping[str, int]" else collections.abc.Mapping
    if generic == "Callable" or annotation.startswith("On"):
        return collections.abc.Callable  # type: ignore[return-value]
    kind = _BUILT_IN.get(annotation) or names.get(annotation)
    if kind is Any or not isinstance(kind, type) or issubclass(kind, Choice):
        return None
    if hasattr(kind, "__total__"):  # A TypedDict.
        return collections.abc.Mapping
    if getattr(kind, "_is_protocol", False) and not getattr(kind, "_is_runtime_protocol", False):
        return None
    return kind


def _check_kinds(kinds: tuple[type, ...], value: Any, argument: str) -> None:
    if isinstance(value, kinds):
        return
    wanted = " or ".join(dict.fromkeys(kind.__name__ for kind in kinds))
    hints = [kind._hint for kind in kinds if hasattr(kind, "_hint")]
    raise TypeError("; ".join([f"{argument}: a {type(value).__name__} is no {wanted}", *hints]))


def _check_number(value: Any, argument: str) -> None:
    if not isinstance(value, numbers.Real):
        raise TypeError(f"{argument}: {value!r} is no number")


def _check_truth(value: Any, argument: str) -> None:
    # numpy's are no bool.
    if not isinstance(value, int) and type(value).__name__ not in ("bool_", "bool"):
        raise TypeError(f"{argument}: {value!r} is neither True nor False")


def _check_names(value: Any, argument: str) -> None:
    if isinstance(value, str):
        raise TypeError(f"{argument}: {value!r} is one name; a sequence of names is needed")
    check_each(value, argument, str)


def _check_array(value: Any, argument: str) -> None:
    if not isinstance(value, (collections.abc.Iterable, numbers.Number)):
        raise TypeError(f"{argument}: a {type(value).__name__} is no array")


# What stands between the types of a union, but not within brackets.
_ALTERNATIVES: Final = re.compile(r" \| (?![^\[]*\])")
_BUILT_IN: Final[dict[str, type]] = {
    "str": str,
    "os.PathLike[str]": os.PathLike,
    "datetime.timedelta": datetime.timedelta,
}
_CHECKS: Final[dict[str, Callable[[Any, str], object]]] = {
    "int": lambda value, argument: whole_number(value, argument, UINT64_MAX),
    "float": _check_number,
    "bool": _check_truth,
    "Sequence[str]": _check_names,
    **dict.fromkeys(
        (
            "npt.ArrayLike",
            "npt.ArrayLike | Iterable[npt.ArrayLike]",
            "npt.ArrayLike | Texts",
            "Sizes",
        ),
        _check_array,
    ),
}
