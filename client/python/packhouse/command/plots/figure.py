"""The common part of all pictures."""

from __future__ import annotations

from typing import Final

from packhouse.command.failures import Misuse

_ENDINGS: Final = (".svg", ".pdf", ".png")


def check_name(path: str) -> None:
    """Raises Misuse if the name's end tells no kind of picture."""
    if not path.endswith(_ENDINGS):
        raise Misuse(f"--plot {path}: the name must end in .svg or .png, or .pdf")
