"""The bounds that the protos' comments and the tables of bounds in docs/ name."""

from __future__ import annotations

import dataclasses
import pathlib
import re

_NUMBER = r"(\d[\d,.]*\d|\d)(\^\d+)?( [KMG]iB)?"
_BOUND = re.compile(rf"\b(at most|up to|no more than|\d[\d,]* to|at least|above|below) {_NUMBER}", re.IGNORECASE)
_OPPOSITES = {"at least": ">= ", "above": "> ", "below": "< "}
_COUNTED = re.compile(rf"(?<![\w^.,])(?<!some )(?<!about ){_NUMBER}(?![\d.,]*\d)")
_FLAG = re.compile(r"`(--max-[\w-]+)`")
_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
_BLOCK = re.compile(r"^(message|enum|service|oneof|rpc)\s+(\w+)")
_FIELD = re.compile(r"^(?:repeated |optional )?[\w.<>, ]+ (\w+) = \d+")


@dataclasses.dataclass(frozen=True)
class DocumentedBound:
    """A bound in a comment above something of a proto, or in a row of a page's table."""

    # "TensorSpec.row_shape: 8", "CostTerm.weight: > 0", "memory.md, connections: --max-connections"
    key: str
    sentence: str  # What stands around it.


def documented_bounds(text: str) -> list[DocumentedBound]:
    """Those of one proto file: `at most N`, `up to N`, `M to N`, `at least N`, `above N`, `below N`."""
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
            number = _OPPOSITES.get(bound[1].lower(), "") + "".join(each or "" for each in bound.groups()[1:])
            around = words[max(0, bound.start() - 40) : bound.end() + 40]
            found.append(DocumentedBound(f"{name}: {number}", around))
        comment = []
        if code.endswith("{"):
            blocks.append(block[2] if block and block[1] != "oneof" else "")
        elif code.startswith("}"):
            blocks.pop()
    return found


def bounds_of_page(page: str, text: str) -> list[DocumentedBound]:
    """Of the tables of bounds in a page of docs/: each flag `--max-...` and each number that is no estimate."""
    found = []
    cells: list[str] = []
    is_table = False
    for line in text.split("\n"):
        if not line.startswith("|"):
            is_table, cells = False, []
            continue
        is_header = not cells
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if is_header:
            is_table = cells[-1] == "bound" or cells == ["bound", "value"]
        elif is_table and not cells[0].startswith("---"):
            thing, bound = (_LINK.sub(r"\1", cell) for cell in (cells[0], cells[-1]))
            thing = re.split("[,;]", thing)[0].replace("`", "")
            numbers = ("".join(filter(None, each.groups())) for each in _COUNTED.finditer(_CODE.sub("", bound)))
            for what in dict.fromkeys([*_FLAG.findall(bound), *numbers]):
                found.append(DocumentedBound(f"{page}, {thing}: {what}", bound))
    return found


def all_documented_bounds(protos: pathlib.Path, docs: pathlib.Path) -> dict[str, str]:
    """Of all protos and pages in two folders: the sentences by their keys."""
    found = [each for path in protos.glob("*.proto") for each in documented_bounds(path.read_text(encoding="ascii"))]
    for path in docs.glob("*.md"):
        found += bounds_of_page(path.name, path.read_text(encoding="utf-8"))
    return {each.key: each.sentence for each in found}
