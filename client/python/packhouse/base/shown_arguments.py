"""Signatures that show every argument, for completion in notebooks and for `help`."""

from __future__ import annotations

import inspect
from typing import Any, Callable, TypeVar

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
