"""Messages of protobuf, from files."""

from __future__ import annotations

import warnings
from typing import Any


def parse_whole(message: Any, data: bytes) -> None:
    """Fills in a message. Raises ValueError unless all of the data is one."""
    with warnings.catch_warnings():
        # What one implementation says of data that it has not taken.
        warnings.simplefilter("error", RuntimeWarning)
        try:
            message.ParseFromString(data)
        except Exception as error:  # Each implementation has errors of its own.
            raise ValueError(f"no {message.DESCRIPTOR.name}: {error}") from None
