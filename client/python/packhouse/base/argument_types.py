"""Arguments of a wrong type: an error names the argument and what is right."""

from __future__ import annotations

from typing import Any


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
