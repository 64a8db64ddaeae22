"""Arguments: whether they are what is wanted, members by name, and signatures that show them all.

An error names the argument, what it is and what is right.
"""

from __future__ import annotations

import collections
import collections.abc
import datetime
import enum
import functools
import inspect
import numbers
import operator
import os
import re
import sys
import typing
import warnings
from typing import Any, Callable, Final, Iterable, Mapping, TypeVar


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
# In annotations: from 0 to 2^32 - 1.
Uint32 = int


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
        setattr(function, _NAMES, _names_of(sources))
        return function

    return decorated


def _names_of(sources: Iterable[Any]) -> Mapping[str, Any]:
    names: list[Any] = []
    for source in sources:
        names += getattr(source, _NAMES, {}), vars(sys.modules[source.__module__])
    return collections.ChainMap(*names)


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
    """A class and its public methods refuse arguments of a wrong type by their names, first of all.

    They raise TypeError, or ValueError for a whole number below 0 or above its bound, or NaN. Types
    are those of the annotations, also of the members of sequences and mappings; types that
    are not known here are checked where they are read. A class may have a `_hint`, which says how to
    come by one.
    """
    names_init_arguments(kind)
    names = vars(sys.modules[kind.__module__])
    for name, method in list(vars(kind).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(kind, name, _naming_arguments(method, names))
    return kind


def names_init_arguments(kind: _Class) -> _Class:
    """The same of what a class is made of alone."""
    # A NamedTuple has no `__init__`.
    name = "__init__" if "__init__" in vars(kind) else "__new__"
    checked = _naming_arguments(vars(kind)[name], vars(sys.modules[kind.__module__]))
    setattr(kind, name, checked if name == "__init__" else staticmethod(checked))
    return kind


def _naming_arguments(method: _Function, names: Mapping[str, Any]) -> _Function:
    checks: dict[str, _Check | None] = {}
    names = collections.ChainMap(getattr(method, _NAMES, {}), names)  # type: ignore[arg-type]

    # When it is called first: importing the package stays quick.
    @functools.lru_cache(maxsize=None)
    def signature() -> inspect.Signature:
        return inspect.signature(method)

    @functools.wraps(method)
    def checked(*positional: Any, **by_name: Any) -> Any:
        try:
            bound = signature().bind(*positional, **by_name)
        except TypeError:
            return method(*positional, **by_name)  # Which says what is amiss.
        for argument, value in bound.arguments.items():
            if argument not in checks:
                annotation = signature().parameters[argument].annotation
                text = getattr(annotation, "__forward_arg__", str(annotation))
                checks[argument] = _check_of(text, names)
            check = checks[argument]
            if check is not None:
                check(value, argument)
        return method(*positional, **by_name)

    return checked  # type: ignore[return-value]


_Check = Callable[[Any, str], object]


def _check_of(annotation: str, names: Mapping[str, Any]) -> _Check | None:
    """What checks a value; None for types that are not known here."""
    is_optional = annotation.endswith(" | None")
    annotation = annotation.removesuffix(" | None")
    check = (
        _CHECKS.get(annotation)
        or _check_of_words(annotation, names)
        or _check_of_choices(annotation, names)
        or _check_of_members(annotation, names)
        or _check_of_kinds(_ALTERNATIVES.split(annotation), names)
    )
    if check is None or not is_optional:
        return check
    known = check
    return lambda value, argument: None if value is None else known(value, argument)


def _check_of_choices(annotation: str, names: Mapping[str, Any]) -> _Check | None:
    """Of members of a Choice, or of one; None for anything else."""
    matched = _MEMBERS.fullmatch(annotation)
    alias = names.get(annotation)
    if matched is not None:
        choices, several = [names.get(matched["member"])], True
    elif typing.get_origin(alias) is typing.Union:
        choices = list(typing.get_args(alias))
        several = any(typing.get_origin(each) is collections.abc.Sequence for each in choices)
    else:
        choices, several = [names.get(each) for each in annotation.split(" | ")], False
    for kind in choices:
        if isinstance(kind, type) and issubclass(kind, Choice):
            return kind.each_of if several else kind.of
    return None


def _check_of_words(annotation: str, names: Mapping[str, Any]) -> _Check | None:
    """Of a `Literal` that has a name; None for anything else."""
    alias = names.get(annotation)
    if typing.get_origin(alias) is not typing.Literal:
        return None
    return functools.partial(check_word, typing.get_args(alias))


def check_word(words: tuple[str, ...], value: Any, argument: str) -> None:
    """Raises ValueError naming the argument unless it is one of these words."""
    if value not in words:
        raise ValueError(f"{argument} {value!r} is none of {words}")


def _check_of_kinds(alternatives: list[str], names: Mapping[str, Any]) -> _Check | None:
    """Of instances of one of some classes; None if one of these is not known."""
    kinds = [_kind_of(each, names) for each in alternatives]
    if any(each is None for each in kinds):
        return None
    return functools.partial(_check_kinds, tuple(filter(None, kinds)))


def _check_of_members(annotation: str, names: Mapping[str, Any]) -> _Check | None:
    """Of one sequence or mapping whose members can be checked; None for anything else."""
    matched = _MEMBERS.fullmatch(annotation)
    if matched is None:
        return None
    container, member = matched["container"], matched["member"]
    check = _check_of(member, names)
    if check is None:
        return None
    each = _check_values if container == "Mapping" else _check_members
    return functools.partial(each, check, member)


def _check_members(check: _Check, member: str, values: Any, argument: str) -> None:
    if isinstance(values, (str, bytes)) or not isinstance(values, collections.abc.Iterable):
        raise TypeError(f"{argument}: a {type(values).__name__} is no sequence of {member}")
    # What can be read only once is left as it is.
    if isinstance(values, collections.abc.Sequence):
        for number, value in enumerate(values):
            check(value, f"{argument}[{number}]")


def _check_values(check: _Check, member: str, values: Any, argument: str) -> None:
    if not isinstance(values, collections.abc.Mapping):
        raise TypeError(f"{argument}: a {type(values).__name__} is no mapping to {member}")
    for name, value in values.items():
        check_type(name, f"{argument}: a key", str)
        check(value, f"{argument}[{name!r}]")


def _kind_of(annotation: str, names: Mapping[str, Any]) -> type | None:
    """The class whose instances are wanted; None if it is not known."""
    generic = annotation.partition("[")[0]
    kind = _BUILT_IN.get(generic) or names.get(annotation)
    kind = typing.get_origin(kind) or kind
    if kind is Any or not isinstance(kind, type) or issubclass(kind, enum.Enum):
        return None
    if hasattr(kind, "__total__"):  # A TypedDict.
        return collections.abc.Mapping
    if getattr(kind, "_is_protocol", False) and not getattr(kind, "_is_runtime_protocol", False):
        return None
    return kind


def _check_kinds(kinds: tuple[type, ...], value: Any, argument: str) -> None:
    if isinstance(value, kinds) or (bool in kinds and _is_truth(value)):
        return
    wanted = " or ".join(dict.fromkeys(_SHOWN.get(kind, kind.__name__) for kind in kinds))
    hints = [kind._hint for kind in kinds if hasattr(kind, "_hint")]
    words = f"{argument}: a {type(value).__name__} is no {wanted}"
    if isinstance(value, (str, numbers.Number)):
        words += f": {value!r:.100}"
    raise TypeError("; ".join([words, *hints]))


def _is_truth(value: Any) -> bool:
    # numpy's are no bool.
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")


def _check_number(value: Any, argument: str) -> None:
    if not isinstance(value, numbers.Real):
        raise TypeError(f"{argument}: {value!r} is no number")
    if value != value:
        raise ValueError(f"{argument}: {value!r} is no number")


def _check_truth(value: Any, argument: str) -> None:
    if not isinstance(value, int) and not _is_truth(value):
        raise TypeError(f"{argument}: {value!r} is neither True nor False")


def _check_names(value: Any, argument: str) -> None:
    if isinstance(value, str):
        raise TypeError(f"{argument}: {value!r} is one name; a sequence of names is needed")
    check_each(value, argument, str)


def check_limits(limits: Any, argument: str) -> None:
    """Raises ValueError naming the argument unless `limits` maps names to numbers of rows."""
    if not isinstance(limits, collections.abc.Mapping):
        raise ValueError(
            f'{argument}: {limits!r} is no mapping such as {{"nodes": 512, "graphs": 32}}'
        )
    for component, rows in limits.items():
        is_number = isinstance(rows, numbers.Integral) and not isinstance(rows, bool)
        if not is_number or not 0 <= rows <= UINT64_MAX:
            raise ValueError(f"{argument}: {rows!r} is no number of rows of {component!r}")


def _check_array(value: Any, argument: str) -> None:
    if not isinstance(value, (collections.abc.Iterable, numbers.Number)):
        raise TypeError(f"{argument}: a {type(value).__name__} is no array")


# What stands between the types of a union, but not within brackets.
_ALTERNATIVES: Final = re.compile(r" \| (?![^\[]*\])")
_MEMBERS: Final = re.compile(
    r"(?P<container>Iterable|Sequence|Collection|Mapping)"
    r"\[(?:str, )?(?P<member>[\w.]+(?:\[[^\[\]]*\])?)\]"
)
# Where a function has the names that are in its annotations, beside its own module.
_NAMES: Final = "_names_of_annotations"


@typing.runtime_checkable
class _File(typing.Protocol):
    def fileno(self) -> int: ...


_BUILT_IN: Final[dict[str, Any]] = {
    "str": str,
    "bytes": bytes,
    "int": numbers.Integral,
    "float": numbers.Real,
    "bool": bool,
    "os.PathLike": os.PathLike,
    "datetime.timedelta": datetime.timedelta,
    "IO": _File,
    "Iterable": collections.abc.Iterable,
    "Sequence": collections.abc.Iterable,
    "Collection": collections.abc.Iterable,
    "Mapping": collections.abc.Mapping,
    "Callable": collections.abc.Callable,
    "npt.ArrayLike": collections.abc.Iterable,
    "npt.NDArray": collections.abc.Iterable,
}
# Of classes that have other names for users.
_SHOWN: Final = {
    numbers.Integral: "whole number",
    numbers.Real: "number",
    _File: "file",
    collections.abc.Iterable: "sequence",
    collections.abc.Mapping: "mapping",
    collections.abc.Callable: "function",
}
_CHECKS: Final[dict[str, Callable[[Any, str], object]]] = {
    "int": lambda value, argument: whole_number(value, argument, UINT64_MAX),
    "Uint32": whole_number,
    "float": _check_number,
    "bool": _check_truth,
    "Sequence[str]": _check_names,
    "Collection[str]": _check_names,
    "tuple[str, ...]": _check_names,
    "Mapping[str, int]": check_limits,
    **dict.fromkeys(
        (
            "npt.ArrayLike",
            "npt.ArrayLike | Iterable[npt.ArrayLike]",
            "npt.ArrayLike | Texts",
            "Sizes",
            "GraphSubset",
        ),
        _check_array,
    ),
}


def parse_whole(message: Any, data: bytes) -> None:
    """Fills in a message. Raises ValueError unless all of the data is one."""
    # One implementation warns of data that it has not taken, and cannot raise it.
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", RuntimeWarning)
        try:
            message.ParseFromString(data)
        except Exception as error:  # Each implementation has errors of its own.
            raise ValueError(f"no {message.DESCRIPTOR.name}: {error}") from None
    if told:
        raise ValueError(f"no {message.DESCRIPTOR.name}: {told[0].message}")
