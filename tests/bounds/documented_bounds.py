"""The bounds that the protos' comments name."""

from __future__ import annotations

import dataclasses
import pathlib
import re

_BOUND = re.compile(r"\b(?:at most|up to|no more than|\d[\d,]* to) (\d[\d,.]*\d|\d)(\^\d+)?( [KMG]iB)?", re.IGNORECASE)
_BLOCK = re.compile(r"^(message|enum|service|oneof|rpc)\s+(\w+)")
_FIELD = re.compile(r"^(?:repeated |optional )?[\w.<>, ]+ (\w+) = \d+")


@dataclasses.dataclass(frozen=True)
class DocumentedBound:
    """A bound in a comment above something of a proto."""

    key: str  # "TensorSpec.row_shape: 8"
    sentence: str  # What stands around it.


def documented_bounds(text: str) -> list[DocumentedBound]:
    """Those of one proto file: `at most N`, `up to N`, `M to N`."""
    blocks: list[str] = []
    comment: list[str] = []
    found = []
    for line in text.split("\n"):
        code, _, behind = line.partition("//")
        if behind:
            comment.append(behind.strip())
        code = code.strip()
        if not code:
            continue
        block = _BLOCK.match(code)
        field = _FIELD.match(code)
        own = block[2] if block else field[1] if field else ""
        name = ".".join(each for each in (*blocks, own) if each)
        words = " ".join(comment)
        for bound in _BOUND.finditer(words):
            number = "".join(each or "" for each in bound.groups())
            around = words[max(0, bound.start() - 40) : bound.end() + 40]
            found.append(DocumentedBound(f"{name}: {number}", around))
        comment = []
        if code.endswith("{"):
            blocks.append(block[2] if block and block[1] != "oneof" else "")
        elif code.startswith("}"):
            blocks.pop()
    return found


def all_documented_bounds(folder: pathlib.Path) -> dict[str, str]:
    """Of all protos in a folder: the sentences by their keys."""
    return {
        each.key: each.sentence
        for path in sorted(folder.glob("*.proto"))
        for each in documented_bounds(path.read_text(encoding="ascii"))
    }
