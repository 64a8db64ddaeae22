"""Files of seeds: nodes or links of a large graph, with times and features."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import math
import zlib
from typing import TYPE_CHECKING, Any, Iterator, Sequence

if TYPE_CHECKING:
    from packhouse.large.source_graph import SourceColumn

_MOST_DIGITS = 20
_LARGEST_FLOAT32 = float.fromhex("0x1.fffffefffffffp+127")  # What is rounded to it, and not to infinity.


class SeedRows:
    """What a file says, unchecked by the graph: CSV with a header, .gz is fine."""

    def __init__(
        self, path: str, by: str, columns: Sequence[SourceColumn], option: str = "by"
    ) -> None:
        """Nodes are in a column `by` ("id", "row" or "number"), which messages say is chosen by
        `option`; links in `source` and `target`. `columns`: the features that are read, and `time`
        with them. Raises OSError; ValueError naming file, line, column and value.
        """
        self.path = path
        self._line = 0
        records = self._records()
        header = next(records, None)
        if header is None:
            raise ValueError(f"{path}: is empty")
        ends = [name for name in ("source", "target") if name in header]
        if len(ends) == 2 and by not in header:
            self.are_links, places = True, [header.index(name) for name in ends]
        elif not ends and by in header:
            self.are_links, places = False, [header.index(by)]
        else:
            raise ValueError(
                f"{path}: has the columns {', '.join(header)}; needs either {quoted(by)} ({option}) "
                "or 'source' and 'target'"
            )
        # Of nodes, or of the sources and the targets of links.
        self.nodes: list[list[str]] = [[] for _ in places]
        self.times: list[int] | None = [] if "time" in header else None
        self.features: dict[str, list[Any]] = {
            column.name: [] for column in columns if column.name in header
        }
        taken = [column for column in columns if column.name in header]
        for record in records:
            if len(record) != len(header):
                raise self._bad(f"has {len(record)} fields, the header has {len(header)}")
            for texts, place in zip(self.nodes, places):
                if not record[place]:
                    raise self._bad(f"column {quoted(header[place])}: is empty")
                texts.append(record[place])
            if self.times is not None:
                self.times.append(self._element("time", record[header.index("time")], "int64"))
            for column in taken:
                text = record[header.index(column.name)]
                dtype = column.element.name.lower()
                self.features[column.name].append(self._element(column.name, text, dtype))

    def __len__(self) -> int:
        return len(self.nodes[0])

    def _records(self) -> Iterator[list[str]]:
        try:
            with open(self.path, "rb") as plain:
                is_gzip = plain.read(2) == b"\x1f\x8b"
                plain.seek(0)
                file: Any = gzip.open(plain) if is_gzip else plain
                with io.TextIOWrapper(file, "utf-8-sig", "surrogateescape", newline="") as text:
                    reader = csv.reader(text, strict=True)
                    for record in reader:
                        self._line = reader.line_num
                        if record:
                            yield record
        except (csv.Error, EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{self.path}: {error}") from None

    def _bad(self, text: str) -> ValueError:
        return ValueError(f"{self.path}: line {self._line}: {text}")

    def _element(self, name: str, text: str, dtype: str) -> Any:
        """A value of the type. Raises ValueError naming line, column and value."""
        value: Any = None
        if dtype == "bool":
            value = {"0": False, "false": False, "1": True, "true": True}.get(text.lower())
        elif "float" in dtype:
            with contextlib.suppress(ValueError):
                # Python's own also takes blanks and underscores.
                value = float(text) if not set(text) & set("_ \t\r\n\f\v") else None
            if value is not None and dtype != "float64" and math.isfinite(value):
                value = value if abs(value) <= _LARGEST_FLOAT32 else None
        else:
            bits = int(dtype.lstrip("uint"))
            least = 0 if dtype[0] == "u" else -(1 << bits - 1)
            number = int_of(text)
            if number is not None and least <= number < least + (1 << bits):
                value = number
        if value is None:
            raise self._bad(f"column {quoted(name)}: {quoted(text)} is no {dtype}")
        return value


def int_of(text: str) -> int | None:
    """A whole number, with a minus sign or none; else None."""
    digits = text[1:] if text[:1] == "-" else text
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_DIGITS
    return int(text) if is_number else None


def feature_array(values: list[Any], column: SourceColumn) -> Any:
    """The values of a feature, which have its type."""
    import numpy as np

    from packhouse.data.schema import DType
    from packhouse.frameworks.tfgnn.examples_at_once import converted

    if column.element is DType.BFLOAT16:
        return converted(np.array(values, "<f4"), column.element)
    return np.array(values, column.element.numpy)


def quoted(text: str) -> str:
    return f"'{text}'" if len(text) <= 128 else f"'{text[:128]}... ({len(text)} characters)'"
