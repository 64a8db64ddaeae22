"""What commands print: texts and numbers as people read them, tables, JSON, progress, questions."""

from __future__ import annotations

import itertools
import json
import math
import re
import sys
import time
from typing import Any, Final, Iterable, NamedTuple, Sequence

from packhouse.command.failures import Failure, Misuse

_BINARY_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB")
# Control characters, bytes that are no UTF-8, what ends a line or turns the text that follows.
_HIDDEN: Final = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
# Between columns.
_GAP: Final = 2
# Between two looks of progress.
_SECONDS: Final = 0.1
_CLEARED: Final = "\r\x1b[K"


def readable(text: str) -> str:
    """As a terminal shows it and nothing more: control characters, but the line feed and the tab, and
    bytes that are no UTF-8 become \\xNN.
    """
    return _HIDDEN.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in found[0].encode("utf-8", "surrogateescape"))


def grouped(number: int) -> str:
    """In groups of three digits: 32901 gives "32,901"."""
    return f"{number:,}"


def percent(ratio: float, decimals: int = 2) -> str:
    """Without the sign: 0.98776 gives "98.78"."""
    return f"{100 * ratio:.{decimals}f}"


def small_percent(ratio: float) -> str:
    """With two significant digits and the sign, for shares that may be tiny: 0.000015 gives
    "0.0015 %".
    """
    value = 100 * ratio
    if abs(value) >= 10:
        return f"{value:.0f} %"
    if abs(value) >= 1e-4:
        return f"{value:.2g} %"
    return f"{value:.6f} %" if value else "0 %"


def bytes_text(number: int) -> str:
    """`16.0 GiB`; whole below 1 KiB."""
    if number < 1024:
        return f"{number} B"
    value = number / 1024
    for unit in _BINARY_UNITS:
        if value < 1024:
            return f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} EiB"


def counted(number: int, one: str, many: str = "") -> str:
    """`1 graph`, `2,000 graphs`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


class Column(NamedTuple):
    """Neighbours with the same group, which is not empty, share a heading above their own."""

    name: str
    group: str = ""
    # Wider than its cells, for rows that follow later.
    min_width: int = 0


class TextTable:
    """Columns are as wide as their widest cell and two spaces apart; the first is flush left, the
    others flush right.
    """

    def __init__(self, columns: Sequence[Column | str], rows: Iterable[Sequence[object]] = ()) -> None:
        self._columns = [Column(one) if isinstance(one, str) else one for one in columns]
        # A row of cells, or a heading.
        self._rows: list[list[str] | str] = []
        for row in rows:
            self.add_row(*row)

    def add_row(self, *cells: object) -> None:
        """Missing cells at the end are empty."""
        shown = [readable(str(cell)) for cell in cells]
        self._rows.append(shown + [""] * (len(self._columns) - len(shown)))

    def add_heading(self, text: str) -> None:
        """A line across all columns; it does not widen them."""
        self._rows.append(readable(text))

    def render(self, *, has_head: bool = True) -> str:
        """Lines that end in a line feed and have no trailing spaces; without the head, for rows that
        follow others.
        """
        from rich.cells import cell_len

        widths = [
            max(
                [column.min_width, cell_len(column.name)]
                + [cell_len(row[k]) for row in self._rows if not isinstance(row, str)]
            )
            for k, column in enumerate(self._columns)
        ]
        groups = self._groups(widths)

        def line_of(cells: Sequence[str]) -> str:
            padded = [" " * (width - cell_len(cell)) for width, cell in zip(widths, cells)]
            parts = [
                cell + space if k == 0 else space + cell
                for k, (cell, space) in enumerate(zip(cells, padded))
            ]
            return (" " * _GAP).join(parts)

        lines = []
        if has_head:
            lines += [groups] if groups.strip() else []
            lines.append(line_of([column.name for column in self._columns]))
        lines += [row if isinstance(row, str) else line_of(row) for row in self._rows]
        return "".join(f"{line.rstrip(' ')}\n" for line in lines)

    def _groups(self, widths: list[int]) -> str:
        """The line of the groups' headings, centred between dashes; widens columns to hold them."""
        parts = []
        numbered = enumerate(self._columns)
        for _, neighbours in itertools.groupby(numbered, lambda each: each[1].group or each[0]):
            numbers = [number for number, _ in neighbours]
            group = self._columns[numbers[0]].group
            width = sum(widths[k] for k in numbers) + _GAP * (len(numbers) - 1)
            widths[numbers[0]] += max(0, len(group) - width)
            width = max(width, len(group))
            dashes = width - len(group) - 2
            if not group or dashes < 0:
                parts.append(group.ljust(width))
            else:
                parts.append(("-" * (dashes // 2) + f" {group} ").ljust(width, "-"))
        return (" " * _GAP).join(parts)


def print_json(value: Any) -> None:
    """As indented JSON. Numbers that JSON does not have become null."""
    print(json.dumps(_strict(value), indent=2, ensure_ascii=False))


def tell(as_json: bool, value: Any, text: str) -> None:
    """Prints the one or the other of what says the same."""
    if as_json:
        print_json(value)
    else:
        print(text, end="")


def fields(of: Any, names: str) -> dict[str, Any]:
    """Attributes of a thing or a message for JSON: `graphs=num_graphs` gives one another name."""
    pairs = (each.rpartition("=")[::2] for each in names.split())
    return {name or attribute: getattr(of, attribute) for name, attribute in pairs}


def note(text: str) -> None:
    """A line on stderr, `packhouse: ...`, of what is no failure."""
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


class Progress:
    """`show` replaces the line on stderr, as often as a person can read it; where stderr is no
    terminal, it writes one now and then, or nothing. For a `with` block.
    """

    def __init__(self, quiet: bool = False, between_lines: float = math.inf) -> None:
        """`between_lines`: seconds, where there is no terminal."""
        self._is_on = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self._between = _SECONDS if self._is_on else math.inf if quiet else between_lines
        self._due = 0.0 if self._is_on else time.monotonic() + self._between
        self._is_shown = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.clear()

    def show(self, text: str) -> None:
        """The state of things now."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + self._between
        if self._is_on:
            self._is_shown = True
            print(_CLEARED + readable(text), end="", flush=True, file=sys.stderr)
        else:
            note(text)

    def clear(self) -> None:
        """Takes the line away, for others or at the end."""
        if self._is_shown:
            self._is_shown = False
            print(_CLEARED, end="", flush=True, file=sys.stderr)


def confirm(deed: str, yes: bool) -> None:
    """Returns if it may be done: with `yes` (the option --yes), or if the answer on a terminal is `y`
    or `yes`. `deed` says what would be done, as in `delete job 'a'`.

    Raises Misuse if stdin is no terminal, Failure after any other answer. Where `deed` costs a call,
    do not make it with `yes`.
    """
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise Misuse(f"to {deed} where nobody can be asked, add --yes")
    print(f"{readable(deed)}? [y/N] ", end="", flush=True, file=sys.stderr)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Failure("CANCELLED", "nothing was done")
