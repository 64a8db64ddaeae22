"""Text tables with aligned columns."""

from __future__ import annotations

from typing import Final, NamedTuple, Sequence

from packhouse.command.readable import readable

_GAP: Final = 2


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

    def __init__(self, columns: Sequence[Column | str]) -> None:
        self._columns = [Column(one) if isinstance(one, str) else one for one in columns]
        # A row of cells, or a heading.
        self._rows: list[list[str] | str] = []

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
        begin = 0
        while begin < len(widths):
            group = self._columns[begin].group
            end = begin + 1
            while end < len(widths) and group and self._columns[end].group == group:
                end += 1
            width = sum(widths[begin:end]) + _GAP * (end - begin - 1)
            widths[begin] += max(0, len(group) - width)
            width = max(width, len(group))
            left, right = (width - len(group)) // 2, width - len(group) - (width - len(group)) // 2
            if group:
                before = "-" * (left - 1) + " " if left else ""
                after = " " + "-" * (right - 1) if right else ""
                parts.append(before + group + after)
            else:
                parts.append(" " * width)
            begin = end
        return (" " * _GAP).join(parts)
