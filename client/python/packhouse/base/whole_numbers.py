"""Arguments that are whole numbers: an error names the argument, where protobuf would not."""

from __future__ import annotations

import operator
from typing import Any, Final

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
