"""Graph sizes from CSV files, plain or gzipped.

The first line names the columns: `num_nodes,num_edges` or `nodes,edges`, any number of components; a
leading `num_` is dropped. Each row is one graph or, where there is a column `count`, that many graphs
(a histogram). Values are whole numbers, sizes below 2^32.

What pandas, R and spreadsheets write is read as it comes: a first column of row numbers that has no
name, quotes, CRLF, a byte order mark, and `;` or tabs instead of commas. `packhouse` reads the same
files as the same sizes.
"""

from __future__ import annotations

import csv
import gzip
import os
import re
import zlib
from typing import Any, BinaryIO, Final, Iterator, NamedTuple

import numpy as np
import numpy.typing as npt

from packhouse.data.graphs import GraphTable
from packhouse.data.schema import GRAPHS, GraphSchema
from packhouse.files import file_kinds

_PREFIX: Final = "num_"
_COUNT: Final = "count"
# Others' words for it. A component of such a name would be a histogram that is taken for graphs.
_LIKE_COUNT: Final = frozenset({"count", "counts", "n", "num", "freq", "frequency", "weight"})
_MOST_COMPONENTS: Final = 64
_MOST_GRAPHS: Final = 1 << 28
_LONGEST_LINE: Final = 1 << 20
_BLOCK: Final = 1 << 22
_MOST_SIZE: Final = (1 << 32) - 1
_MOST_COUNT: Final = (1 << 64) - 1
_SHOWN: Final = 40
_NAME: Final = re.compile(r"[A-Za-z0-9_.#/:%!^~@+=-]{1,128}")
# numpy reads int64, which 18 digits fit: longer numbers are read one by one, to be refused by name.
_LONG_NUMBER: Final = re.compile(rb"[0-9]{19}")
_EMPTY_LINE: Final = re.compile(rb"^\r*\n", re.MULTILINE)
_PLAIN: Final = b"0123456789\r\n"

Values = npt.NDArray[np.uint64]


class SizeTable(NamedTuple):
    """What a file says: uint32 [rows, l] sizes; uint64 [rows] graphs of each row, or None if each is
    one.
    """

    components: tuple[str, ...]
    sizes: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.uint64] | None

    @property
    def num_graphs(self) -> int:
        """In Python's integers, which do not wrap around."""
        return len(self.sizes) if self.counts is None else sum(self.counts.tolist())


def load(path: str | os.PathLike[str], seed: int = 0) -> GraphTable:
    """The sizes of a file, ids from 0, no tensors.

    A histogram has no order of graphs: its graphs come shuffled by `seed`. Raises OSError, or
    ValueError naming file, line and value for anything else than the above.
    """
    return expanded(read(path), os.fspath(path), seed)


def expanded(table: SizeTable, name: str, seed: int = 0) -> GraphTable:
    """The graphs of a table, as `load` has them. Raises ValueError with the name of the file."""
    schema = GraphSchema(table.components)
    if table.counts is None:
        return GraphTable(schema, table.sizes)
    if table.num_graphs > _MOST_GRAPHS:
        raise ValueError(f"{name}: the counts add up to more than {_MOST_GRAPHS} graphs")
    sizes = np.repeat(table.sizes, table.counts.astype(np.int64), axis=0)
    np.random.default_rng(seed).shuffle(sizes)
    return GraphTable(schema, sizes)


def read(path: str | os.PathLike[str]) -> SizeTable:
    """The same as the file has it: a histogram stays one. Raises as `load`."""
    with open(path, "rb") as file:
        return read_stream(file, os.fspath(path))


def read_stream(file: BinaryIO, name: str) -> SizeTable:
    """The same of an open file, which messages call `name`; it may be a pipe."""
    first = file.read(2)
    whole = _Begun(first, file)
    if first != b"\x1f\x8b":
        return _read(whole, name)
    with gzip.open(whole) as unpacked:  # type: ignore[call-overload]
        return _read(unpacked, name)


class _Begun:
    """A file of which the first bytes were read."""

    def __init__(self, first: bytes, file: BinaryIO) -> None:
        self._first = first
        self._file = file

    def read(self, size: int = -1) -> bytes:
        first, self._first = self._first, b""
        if size < 0:
            return first + self._file.read()
        if len(first) > size:
            first, self._first = first[:size], first[size:]
        return first + self._file.read(size - len(first))


class _Columns(NamedTuple):
    """What the first line says."""

    names: list[str]
    delimiter: str
    components: list[str]
    count_column: int | None
    # A first column without a name has row numbers.
    has_row_numbers: bool


def _read(file: Any, name: str) -> SizeTable:
    blocks = _blocks(file, name)
    line, header = next(blocks, (1, b""))
    if not header.strip():
        raise ValueError(f"{name}: is empty; a header line is needed")
    first, _, rest = header.partition(b"\n")
    # Of the line end alone: what divides may be a tab.
    says = first.rstrip(b"\r")
    if says.lower().startswith(b"sep=") and len(says) == 5:
        # Excel's own line, which says what the columns are divided by.
        line, (first, _, rest) = 2, rest.partition(b"\n")
    columns = _header(_text(first, name, line), f"{name}:{line}")
    tables: list[Values] = []
    rows = _Rows(name, columns)
    for number, block in _following(line + 1, rest, blocks):
        tables.append(rows.read(number, block))
    table = np.concatenate(tables) if tables else np.empty((0, 1), np.uint64)
    if not len(table):
        raise ValueError(f"{name}: has a header but no sizes")
    return _table(name, columns, table)


def _table(name: str, columns: _Columns, table: Values) -> SizeTable:
    if columns.has_row_numbers:
        if (table[1:, 0] <= table[:-1, 0]).any():
            raise ValueError(
                f"{name}: the first column has no name, and is no row number: name or remove it"
            )
        table = table[:, 1:]
    counts = None
    if columns.count_column is not None:
        column = columns.count_column - columns.has_row_numbers
        counts = table[:, column].copy()
        table = np.delete(table, column, axis=1)
    return SizeTable(tuple(columns.components), table.astype(np.uint32), counts)


def _following(
    line: int, rest: bytes, blocks: Iterator[tuple[int, bytes]]
) -> Iterator[tuple[int, bytes]]:
    if rest:
        yield line, rest
    yield from blocks


def _blocks(file: Any, name: str) -> Iterator[tuple[int, bytes]]:
    """Whole lines, some at a time, with the number of the first."""
    line = 1
    kept = b""
    while True:
        try:
            read = file.read(_BLOCK)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            lines = line + kept.count(b"\n") - 1
            raise ValueError(
                f"{name}: after line {lines}: its compressed data is broken: {error}"
            ) from None
        if line == 1 and not kept:
            _check_kind(read, name)
            read = read.removeprefix(b"\xef\xbb\xbf")
        kept += read
        end = len(kept) if not read else kept.rfind(b"\n") + 1
        if end:
            yield line, kept[:end]
            line += kept.count(b"\n", 0, end)
            kept = kept[end:]
        if not read:
            return
        if len(kept) > _LONGEST_LINE:
            raise ValueError(f"{name}:{line}: is longer than {_LONGEST_LINE} bytes")


def _check_kind(first: bytes, name: str) -> None:
    if first.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in first[:4] and _is_wide(first):
        raise ValueError(
            f"{name}: is in UTF-16: save it as UTF-8 ('CSV UTF-8' in a spreadsheet program)"
        )
    # From stdin there is no file of this name.
    kind = file_kinds.kind_of(name) if os.path.exists(name) else None
    if kind is not None and (kind[0] != "a gzipped file" or b"\0" in first):
        raise ValueError(f"{name}: is {kind[0]}, no list of sizes: {kind[1]}")
    if b"\0" in first:
        raise ValueError(f"{name}: is no text: a list of sizes is a CSV file")


def _is_wide(first: bytes) -> bool:
    """Whether each second byte of what should be text is 0."""
    return first[1:64:2].strip(b"\0") == b"" or first[0:64:2].strip(b"\0") == b""


def _text(line: bytes, name: str, number: int) -> str:
    try:
        return line.decode().strip("\r\n")
    except UnicodeDecodeError:
        raise ValueError(
            f"{name}:{number}: is not in UTF-8: a list of sizes is a CSV file whose first line names "
            "the columns, as in num_nodes,num_edges"
        ) from None


def _header(line: str, where: str) -> _Columns:
    delimiter = next((one for one in ",;\t" if one in line), ",")
    names = [field.strip() for field in _fields(line, delimiter, where)]
    has_row_numbers = len(names) > 1 and not names[0]
    components: list[str] = []
    count = None
    for column, name in enumerate(names):
        if has_row_numbers and column == 0:
            continue
        bare = name.removeprefix(_PREFIX)
        shown = f"{where}: column {name[:_SHOWN]!r}"
        if name == _COUNT:
            if count is not None:
                raise ValueError(f"{shown} is there twice")
            count = column
            continue
        if len(names) > 1 + has_row_numbers and name.lower() in _LIKE_COUNT:
            raise ValueError(
                f"{shown}: are these the graphs of a row? Then name it 'count', else 'num_{name}'"
            )
        if not _NAME.fullmatch(bare):
            raise ValueError(
                f"{shown} is no component name (letters, digits, '_', '.', '-'); is the header "
                "missing?"
            )
        if bare.isdigit():
            raise ValueError(
                f"{shown} is a number; the first line must name the columns, as in "
                "num_nodes,num_edges"
            )
        if bare == GRAPHS:
            raise ValueError(f"{shown} is reserved: every row is a graph; did you mean 'count'?")
        if bare in components:
            raise ValueError(f"{shown} is there twice")
        components.append(bare)
    if not components:
        raise ValueError(f"{where}: no column names a component")
    if len(components) > _MOST_COMPONENTS:
        raise ValueError(
            f"{where}: {len(components)} components, at most {_MOST_COMPONENTS} are supported"
        )
    return _Columns(names, delimiter, components, count, has_row_numbers)


def _fields(line: str, delimiter: str, where: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        raise ValueError(f"{where}: {line[:_SHOWN]!r}: {error}") from None


class _Rows:
    """Reads rows of whole numbers."""

    def __init__(self, name: str, columns: _Columns) -> None:
        self._name = name
        self._columns = columns
        self._empty_line: int | None = None
        border = re.escape(columns.delimiter.encode())
        self._quoted = re.compile(
            rb'(?:(?<=[\n%b])|^)"([0-9]+)"(?=[\r\n%b]|$)' % (border, border)
        )

    def read(self, line: int, block: bytes) -> Values:
        """The rows of some lines, of which the first has that number."""
        plain = self._plain(block)
        return plain if plain is not None else self._one_by_one(line, block)

    def _plain(self, block: bytes) -> Values | None:
        """The rows by numpy, or None if there is anything but digits, delimiters and line ends."""
        delimiter = self._columns.delimiter
        if b'"' in block:
            block = self._quoted.sub(rb"\1", block)
        if self._empty_line is not None or block.translate(None, _PLAIN + delimiter.encode()):
            return None
        if _LONG_NUMBER.search(block) or _EMPTY_LINE.search(block):
            return None
        try:
            table = np.loadtxt(
                block.decode().splitlines(), np.int64, delimiter=delimiter, ndmin=2, comments=None
            )
        except ValueError:
            return None
        column = self._columns.count_column
        sizes = table if column is None else np.delete(table, column, axis=1)
        if table.shape[1] != len(self._columns.names) or (sizes > _MOST_SIZE).any():
            return None
        return table.astype(np.uint64)

    def _one_by_one(self, line: int, block: bytes) -> Values:
        rows = []
        num_lines = block.count(b"\n")
        for number, one in enumerate(block.split(b"\n"), line):
            text = _text(one, self._name, number)
            if not text.strip():
                # Behind the last line end there is no line.
                if self._empty_line is None and number < line + num_lines:
                    self._empty_line = number
                continue
            if self._empty_line is not None:
                raise ValueError(f"{self._name}:{self._empty_line}: is empty")
            rows.append(self._row(number, text))
        return np.array(rows, np.uint64).reshape(-1, len(self._columns.names))

    def _row(self, line: int, text: str) -> list[int]:
        where = f"{self._name}:{line}"
        fields = [field.strip() for field in _fields(text, self._columns.delimiter, where)]
        if len(fields) != len(self._columns.names):
            names = ", ".join(name or "the row number" for name in self._columns.names)
            raise ValueError(
                f"{where}: {text[:_SHOWN]!r} has {len(fields)} values, the header has "
                f"{len(self._columns.names)} columns: {names[:_SHOWN]}"
            )
        values = []
        for column, field in enumerate(fields):
            most = _MOST_COUNT if column == self._columns.count_column else _MOST_SIZE
            is_number = field.isascii() and field.isdigit() and len(field.lstrip("0")) <= 20
            if not is_number or int(field) > most:
                raise ValueError(
                    f"{where}: {self._columns.names[column] or 'the row number'} is "
                    f"{field[:_SHOWN]!r}, not a whole number from 0 to {most}"
                )
            values.append(int(field))
        return values
