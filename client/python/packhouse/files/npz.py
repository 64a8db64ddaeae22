"""Whole graphs from .npz files: molecules, the TU sets, or your own.

Graphs of one kind of nodes and edges: `node_offsets` and `edge_offsets`, int64 [graphs + 1], say
which rows of the other arrays are a graph's. `edge_index` [2, edges] has row numbers local to each
graph and becomes int32 `senders` and `receivers`. `x` and `node_tag` have a row for each node,
`edge_attr` for each edge, `y` for each graph; an array of any other name has a row for each of what
its length fits, and if that is more than one, of what its name begins with: `node_`, `edge_` or
`graph_`. Only the offsets are required.

Heterogeneous graphs: `COMPONENT.offsets` says the same of each component (`paper.offsets`,
`author.writes.paper.offsets`). `COMPONENT.edge_index` [2, rows] makes a component a set of edges
SOURCE.RELATION.TARGET, and becomes int32 `COMPONENT.source` and `COMPONENT.target`.
`COMPONENT.NAME` has a row for each row of the component, every other array one for each graph.

Arrays are read some rows at a time: mapped where they are stored as they are, otherwise read in
order. `packhouse ingest` reads the same files as the same graphs.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import struct
import zipfile
import zlib
from typing import IO, Any, Final, Iterator

import numpy as np
import numpy.typing as npt

from packhouse.data.graphs import Array, GraphTable
from packhouse.data.schema import GRAPHS, DType, GraphSchema, TensorSpec

_LOCAL_HEADER: Final = struct.Struct("<4s22x2H")
_SUFFIX: Final = ".npy"
_PIECE: Final = 4 << 20


class ArchivedArray:
    """One array; rows are read by `rows`."""

    def __init__(self, archive: NpzArchive, entry: zipfile.ZipInfo) -> None:
        self.name: Final = entry.filename[: -len(_SUFFIX)]
        self.crc: Final = entry.CRC
        self._archive = archive
        self._entry = entry
        with archive.open(entry) as file:
            version = np.lib.format.read_magic(file)  # type: ignore[no-untyped-call]
            read: Any = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }.get(version)
            if read is None:
                raise ValueError(f"array {self.name!r}: is of version {version} of .npy")
            shape, is_fortran, dtype = read(file)
            self._start = file.tell()
        self.shape: Final[tuple[int, ...]] = shape
        self.dtype: Final[np.dtype[Any]] = dtype
        if dtype.hasobject:
            raise ValueError(f"array {self.name!r}: has objects of Python, which are not read")
        if is_fortran and len(shape) > 1:
            raise ValueError(f"array {self.name!r}: is in Fortran order; save it in C order")
        self.nbytes: Final = math.prod(shape) * dtype.itemsize
        if entry.file_size - self._start != self.nbytes:
            raise ValueError(
                f"array {self.name!r}: has {entry.file_size - self._start} bytes, its header says "
                f"{self.nbytes}"
            )
        self._mapped = archive.mapped(entry, self._start, self.nbytes)

    def check(self) -> None:
        """Raises ValueError if it is mapped and damaged."""
        if self._mapped is None:
            return
        with self._archive.open(self._entry) as file:
            checksum = zlib.crc32(file.read(self._start))
        for begin in range(0, self.nbytes, _PIECE):
            checksum = zlib.crc32(self._mapped[begin : begin + _PIECE], checksum)
            self._archive.forget()
        if checksum != self.crc:
            raise ValueError(f"array {self.name!r}: is damaged: its checksum does not match")

    def whole(self) -> Array:
        """All of it."""
        elements = np.frombuffer(self._bytes(0, self.nbytes), self.dtype)
        return elements.reshape(self.shape)

    def row_reader(self, first_element: int = 0) -> RowReader:
        """Reads elements in order, from one on."""
        return RowReader(self, first_element)

    def _bytes(self, start: int, stop: int) -> Any:
        if self._mapped is not None:
            return self._mapped[start:stop]
        with self._archive.open(self._entry) as file:
            file.seek(self._start + start)
            return _exactly(file, stop - start, self.name)

    def open(self, start: int) -> IO[bytes] | None:
        """What is read in order, from a byte on; None if it is mapped."""
        if self._mapped is not None:
            return None
        file = self._archive.open(self._entry)
        file.seek(self._start + start)
        return file


class RowReader:
    """The elements of an array, in order."""

    def __init__(self, array: ArchivedArray, first_element: int) -> None:
        self._array = array
        self._at = first_element * array.dtype.itemsize
        self._file = array.open(self._at)

    def read(self, num_elements: int) -> Array:
        """The next so many, flat. Raises ValueError, or what zipfile does, for a damaged file."""
        num_bytes = num_elements * self._array.dtype.itemsize
        start, self._at = self._at, self._at + num_bytes
        data: Any
        if self._file is None:
            data = self._array._bytes(start, self._at)
        else:
            data = _exactly(self._file, num_bytes, self._array.name)
        return np.frombuffer(data, self._array.dtype)


class NpzArchive:
    """An open .npz file. Close it, or leave its `with` block; arrays of it that are mapped stay."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises OSError, ValueError, and zipfile.BadZipFile."""
        self._file = open(path, "rb")
        try:
            self._zip = zipfile.ZipFile(self._file)
            self._map: mmap.mmap | None = None
            if any(entry.compress_type == zipfile.ZIP_STORED for entry in self._zip.infolist()):
                self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            self.arrays: Final = [self._array(entry) for entry in self._zip.infolist()]
        except BaseException:
            self._file.close()
            raise
        names = [array.name for array in self.arrays]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"array {name!r}: is there twice")

    def __enter__(self) -> NpzArchive:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Idempotent."""
        self._zip.close()
        self._file.close()

    def forget(self) -> None:
        """Lets go of the memory of what was read of a mapped file: it is read again when it is
        needed.
        """
        if self._map is not None and hasattr(self._map, "madvise"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def check(self) -> None:
        """Compares what is mapped with its checksums; what is compressed is compared as it is read.

        Raises ValueError naming the array.
        """
        for array in self.arrays:
            array.check()

    def open(self, entry: zipfile.ZipInfo) -> IO[bytes]:
        """What the entry has, decompressed and compared with its checksum at the end."""
        return self._zip.open(entry)

    def mapped(self, entry: zipfile.ZipInfo, start: int, num_bytes: int) -> memoryview | None:
        """The bytes of an entry that is stored as it is; otherwise None."""
        if self._map is None or entry.compress_type != zipfile.ZIP_STORED:
            return None
        header = self._map[entry.header_offset : entry.header_offset + _LOCAL_HEADER.size]
        _, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(header)
        begin = entry.header_offset + _LOCAL_HEADER.size + name_bytes + extra_bytes + start
        if begin + num_bytes > len(self._map):
            raise zipfile.BadZipFile("the archive is cut")
        return memoryview(self._map)[begin : begin + num_bytes]

    def _array(self, entry: zipfile.ZipInfo) -> ArchivedArray:
        if not entry.filename.endswith(_SUFFIX):
            raise ValueError(f"entry {entry.filename!r} is no .npy file")
        return ArchivedArray(self, entry)


def _exactly(file: IO[bytes], num_bytes: int, name: str) -> bytes:
    data = file.read(num_bytes)
    if len(data) != num_bytes:
        raise ValueError(f"array {name!r}: ends too soon")
    return data


_NODES: Final = "nodes"
_EDGES: Final = "edges"
_EDGE_INDEX: Final = "edge_index"
_OFFSETS: Final = ".offsets"
# What numpy and zipfile raise for files that are cut or damaged, and this module for odd arrays.
_DAMAGED: Final = (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, SyntaxError)
_KNOWN: Final = {"x": _NODES, "node_tag": _NODES, "edge_attr": _EDGES, "y": GRAPHS}
_PREFIXES: Final = {"node_": _NODES, "edge_": _EDGES, "graph_": GRAPHS}


def load(path: str | os.PathLike[str]) -> GraphTable:
    """The graphs of a file, ids from 0.

    Raises OSError, or ValueError naming file and array if one is missing or of a wrong length.
    """
    with NpzGraphs(path) as graphs:
        parts = list(graphs.tables())
        return GraphTable.concatenate(parts) if parts else graphs.empty()


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a zip archive of numpy's arrays, whatever it is called."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False
    return bool(names) and all(name.endswith(".npy") for name in names)


class NpzGraphs:
    """An open file of graphs, read some at a time: memory is bounded by what is asked for at once.

    Raises as `load`; damage of what is compressed is found when it is read. Not for several threads.
    """

    def __init__(self, path: str | os.PathLike[str], groups: str = "") -> None:
        """`groups` names the array with the group id of each graph, if there is one."""
        self._path = os.fspath(path)
        with self._named():
            self._archive = NpzArchive(path)
        try:
            with self._named():
                self._archive.check()
                arrays = {array.name: array for array in self._archive.arrays}
                self.group_ids = None
                if groups:
                    if groups not in arrays:
                        raise ValueError(f"has no array {groups!r} for --groups")
                    self.group_ids = _ids(arrays.pop(groups))
                layout = _Layout(arrays)
                is_heterogeneous = any(_is_offsets(name) for name in arrays)
                if is_heterogeneous:
                    layout.heterogeneous()
                else:
                    layout.homogeneous()
                self._sizes = layout.sizes()
                self._columns = layout.columns
                if self.group_ids is not None and len(self.group_ids) != len(self._sizes):
                    raise ValueError(
                        f"array {groups!r}: has {len(self.group_ids)} group ids for "
                        f"{len(self._sizes)} graphs"
                    )
                self.schema = layout.schema()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> NpzGraphs:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Idempotent."""
        self._archive.close()

    @property
    def num_graphs(self) -> int:
        """Graphs in the file."""
        return len(self._sizes)

    @property
    def sizes(self) -> npt.NDArray[np.uint32]:
        """[graphs, components]."""
        return self._sizes.astype(np.uint32)

    @property
    def num_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self._archive.arrays)

    @property
    def checksums(self) -> list[tuple[str, int, int]]:
        """Of each array its name, bytes, and checksum: equal ones are equal graphs."""
        return [(array.name, array.nbytes, array.crc) for array in self._archive.arrays]

    def empty(self) -> GraphTable:
        """No graphs of the schema."""
        columns = {
            spec.name: np.empty(spec.array_shape(0), spec.dtype.numpy) for spec in self.schema.tensors
        }
        return GraphTable(self.schema, self._sizes[:0], columns)

    def tables(self, max_bytes: int = 8 << 20) -> Iterator[GraphTable]:
        """All graphs in order, about so many bytes at a time. Columns of a mapped file are views; the
        memory of those of one table is let go when the next one is made.
        """
        counts = {name: self._sizes[:, k] for k, name in enumerate(self.schema.components)}
        counts[GRAPHS] = np.ones(len(self._sizes), np.int64)
        bytes_per_graph = np.full(len(self._sizes), 4 * len(self.schema.components) + 8, np.int64)
        for spec, array, _ in self._columns:
            bytes_per_graph += counts[spec.component] * (array.dtype.itemsize * spec.row_elements)
        ends = np.cumsum(bytes_per_graph)
        readers = [array.row_reader(first) for _, array, first in self._columns]
        start = 0
        while start < len(self._sizes):
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + max_bytes, side="right")))
            columns = {}
            with self._named():
                for (spec, _, _), reader in zip(self._columns, readers):
                    rows = int(counts[spec.component][start:stop].sum())
                    read = reader.read(rows * spec.row_elements)
                    columns[spec.name] = read.reshape(spec.array_shape(rows))
                yield GraphTable(self.schema, self._sizes[start:stop], columns, first_id=start)
            self._archive.forget()
            start = stop

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGED as error:
            raise ValueError(f"{self._path}: {error}") from error


def _ids(array: ArchivedArray) -> npt.NDArray[np.uint64]:
    if array.dtype.kind not in "iu" or len(array.shape) != 1:
        raise ValueError(f"array {array.name!r}: must be whole numbers, one for each graph")
    return array.whole().astype(np.uint64)


def _is_offsets(name: str) -> bool:
    return name.endswith(_OFFSETS) and name != _OFFSETS


class _Layout:
    """Finds out what the arrays of a file are."""

    def __init__(self, arrays: dict[str, ArchivedArray]) -> None:
        self._arrays = arrays
        self._counts: dict[str, npt.NDArray[Any]] = {}
        # Of each tensor its array, and which element is its first.
        self.columns: list[tuple[TensorSpec, ArchivedArray, int]] = []

    def homogeneous(self) -> None:
        """Graphs of one kind of nodes and edges."""
        for component, name in ((_NODES, "node_offsets"), (_EDGES, "edge_offsets")):
            if name not in self._arrays:
                raise ValueError(f"no array {name!r}, which graphs need")
            self._counts[component] = _counts(self._arrays.pop(name))
        for name, array in self._arrays.items():
            if name == _EDGE_INDEX:
                self._add_ends(name, _EDGES, {"senders": _NODES, "receivers": _NODES})
            else:
                self._add(name, self._component_by_rows(name, array))

    def heterogeneous(self) -> None:
        """Graphs of several kinds of nodes and edges."""
        for name in [name for name in self._arrays if _is_offsets(name)]:
            self._counts[name[: -len(_OFFSETS)]] = _counts(self._arrays.pop(name))
        for name in self._arrays:
            component = max(
                (one for one in self._counts if name.startswith(one + ".")), key=len, default=GRAPHS
            )
            if component != GRAPHS and name == f"{component}.{_EDGE_INDEX}":
                self._add_named_ends(name, component)
            else:
                self._add(name, component)

    def _num_graphs(self) -> int:
        return len(next(iter(self._counts.values())))

    def _rows(self, component: str) -> int:
        if component == GRAPHS:
            return self._num_graphs()
        return int(self._counts[component].sum())

    def _component_by_rows(self, name: str, array: ArchivedArray) -> str:
        if name in _KNOWN:
            return _KNOWN[name]
        rows = array.shape[0] if array.shape else -1
        fitting = [one for one in (_NODES, _EDGES, GRAPHS) if rows == self._rows(one)]
        named = [one for prefix, one in _PREFIXES.items() if name.startswith(prefix)]
        both = [one for one in named if one in fitting] or fitting
        if len(both) == 1:
            return both[0]
        counts = ", ".join(f"{self._rows(one)} {one}" for one in (_NODES, _EDGES, GRAPHS))
        advice = ": say which by a name that begins with node_, edge_ or graph_" if both else ""
        raise ValueError(f"array {name!r} has shape {array.shape}; there are {counts}{advice}")

    def _add(self, name: str, component: str) -> None:
        array = self._arrays[name]
        if not array.shape or array.shape[0] != self._rows(component):
            raise ValueError(
                f"array {name!r} has shape {array.shape}, needs one row for each of the "
                f"{self._rows(component)} {component}"
            )
        spec = TensorSpec(name, DType.of(array.dtype), component, array.shape[1:])
        self.columns.append((spec, array, 0))

    def _add_named_ends(self, name: str, component: str) -> None:
        sources = [one for one in self._counts if component.startswith(one + ".")]
        targets = [one for one in self._counts if component.endswith("." + one)]
        source, target = max(sources, key=len, default=""), max(targets, key=len, default="")
        # Two dots, and a relation between them.
        if not source or not target or len(source) + len(target) + 2 >= len(component):
            raise ValueError(
                f"array {name!r}: {component!r} must be SOURCE.RELATION.TARGET, where SOURCE and "
                "TARGET have offsets"
            )
        self._add_ends(
            name, component, {f"{component}.source": source, f"{component}.target": target}
        )

    def _add_ends(self, name: str, component: str, ends: dict[str, str]) -> None:
        array = self._arrays[name]
        rows = self._rows(component)
        if array.shape != (2, rows) or array.dtype.kind not in "iu":
            raise ValueError(
                f"array {name!r} has shape {array.shape} of {array.dtype}, needs whole numbers "
                f"(2, {rows})"
            )
        for row, (end, into) in enumerate(ends.items()):
            spec = TensorSpec(end, DType.INT32, component, index_into=into)
            self.columns.append((spec, array, row * rows))

    def sizes(self) -> npt.NDArray[np.int64]:
        """[graphs, components]."""
        lengths = {len(counts) for counts in self._counts.values()}
        if len(lengths) > 1:
            raise ValueError("the offsets differ in length")
        return np.stack(list(self._counts.values()), axis=1)

    def schema(self) -> GraphSchema:
        """Of the graphs."""
        return GraphSchema(tuple(self._counts), [spec for spec, _, _ in self.columns])


def _counts(offsets: ArchivedArray) -> npt.NDArray[np.int64]:
    """Rows of each graph. Raises ValueError naming the array."""
    read = offsets.whole()
    if read.ndim != 1 or not len(read) or read.dtype.kind not in "iu":
        raise ValueError(f"array {offsets.name!r}: must be whole numbers, one more than graphs")
    counts = np.diff(read.astype(np.int64))
    if read[0] != 0 or (counts < 0).any():
        raise ValueError(f"array {offsets.name!r}: must begin with 0 and never fall")
    return counts
