"""What commands print."""

from __future__ import annotations

import json
import math
import sys
from typing import Any


def print_json(value: Any) -> None:
    """As indented JSON. Numbers that JSON does not have become null."""
    print(json.dumps(_strict(value), indent=2, ensure_ascii=False))


def note(text: str) -> None:
    """A line on stderr, `packhouse: ...`, of what is no failure."""
    from packhouse.command.readable import readable

    print(f"packhouse: {readable(text)}", file=sys.stderr)


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str):
        # Names of files that are no UTF-8.
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return value
