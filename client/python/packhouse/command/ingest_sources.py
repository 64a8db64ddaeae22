"""What `packhouse ingest` reads: graphs of files, in the chunks in which they are stored."""

from __future__ import annotations

import bisect
import errno
import hashlib
import os
import re
import sys
from typing import Any, Final, Iterable, Iterator, Mapping, NamedTuple

import numpy as np

from packhouse.command.failures import Misuse
from packhouse.command.output import note
from packhouse.data.examples import TfgnnSchema
from packhouse.data.graphs import GraphTable
from packhouse.data.schema import GraphSchema
from packhouse.files import file_kinds, npz, reading, size_files, tfrecords
from packhouse.stored.appending import EncodedChunk

_MOST_GRAPHS: Final = 1 << 20
# Of a file whose content would take long to read, to tell it from others.
_SAMPLED: Final = 1 << 20
# Graphs that are left out and named.
_MOST_NAMED: Final = 20
_NUMBERED: Final = re.compile(r"\b(?:graph|example|record) (\d+)(?: of the request)?: ")


class Chunk(NamedTuple):
    """What is sent at once: an EncodedChunk, or `packhouse.v1.Examples`."""

    content: Any
    num_graphs: int
    num_bytes: int
    group_ids: bytes = b""


class Source:
    """Graphs, read once in order. The number of graphs and bytes is 0 where it is not known."""

    schema: GraphSchema
    is_grouped = False
    num_graphs = 0
    num_bytes = 0
    # The same for the same graphs wherever they lie.
    fingerprint: str
    _noun = "graphs"

    def __init__(self) -> None:
        self._num_left_out = 0

    def chunks(self, chunk_bytes: int) -> Iterator[Chunk]:
        """All graphs. Raises OSError or ValueError naming file and place."""
        raise NotImplementedError

    def explained(self, message: str) -> str:
        """What the server says of a refused chunk, with the place in the files if it is known."""
        return message

    def skipped(self, graph_id: int, message: str) -> None:
        """A graph that the server left out."""

    def leave_out(self, told: str) -> None:
        """Names the first that are left out, and counts all."""
        self._num_left_out += 1
        if told and self._num_left_out <= _MOST_NAMED:
            note(f"left out: {told}")

    def done(self) -> None:
        """Tells on stderr how many were left out."""
        if self._num_left_out:
            note(f"left out {self._num_left_out:,} malformed {self._noun}")


def _fingerprint(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


class Tables(Source):
    """Graphs in tables."""

    def __init__(
        self,
        schema: GraphSchema,
        tables: Iterable[GraphTable],
        fingerprint: str,
        *,
        num_graphs: int = 0,
        num_bytes: int = 0,
        group_ids: Any = None,
        constant: bool = False,
    ) -> None:
        """`group_ids` are those of all graphs; `constant`: see EncodedChunk. `schema` and `tables` may be
        set later.
        """
        super().__init__()
        self.schema = schema
        self.is_grouped = group_ids is not None
        self.num_graphs = num_graphs
        self.num_bytes = num_bytes
        self.fingerprint = fingerprint
        self.tables = tables
        self._group_ids = group_ids
        self._constant = constant

    def chunks(self, chunk_bytes: int) -> Iterator[Chunk]:
        """As Source has it."""
        begin = 0
        for table in self.tables:
            for part in table.parts(chunk_bytes):
                end = begin + len(part)
                groups = b""
                if self._group_ids is not None:
                    groups = self._group_ids[begin:end].astype("<u8").tobytes()
                chunk = EncodedChunk(part, constant=self._constant)
                yield Chunk(chunk, len(part), chunk.num_bytes, groups)
                begin = end


def open_files(given: Mapping[str, Any]) -> Source:
    """Files of any kind but records: `given` has the options. Raises Misuse, OSError, ValueError."""
    names = list(given["source"])
    for name in names:
        if name != "-" and not os.path.exists(name):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    neighbours = _neighbours(given)
    plain = not (neighbours or given["exclude"] or given["skip_malformed"])
    if len(names) == 1 and plain:
        name = names[0]
        if _is_npz(name):
            return _of_npz(name, given["groups"])
        is_list = name == "-" or name.endswith((".csv", ".csv.gz"))
        if is_list or not reading.is_known(name) and file_kinds.kind_of(name) is None:
            _refuse_groups(given, name)
            try:
                return _of_sizes(name)
            except ValueError as error:
                told = "" if is_list else f"{reading.unknown(name)}; as a list of sizes: "
                raise ValueError(f"{told}{error}") from None
    if "-" in names:
        raise Misuse("- reads one list of sizes from stdin: it stands alone")
    _refuse_groups(given, names[0])
    options = [str(given[name]) for name in ("exclude", "cutoff", "max_neighbours", "keep_edges")]
    fingerprint = _fingerprint(options, [_sample(name) for name in names])
    source = Tables(GraphSchema(()), (), fingerprint)
    tables = reading.tables(
        names,
        trust_pickle=given["trust_pickle"],
        exclude=given["exclude"],
        on_malformed=source.leave_out if given["skip_malformed"] else None,
        neighbours=neighbours,
    )
    first = next(tables, None)
    if first is None:
        raise ValueError(f"{names[0]}: there is no graph")
    source.schema = first.schema
    source.tables = _chained(first, tables)
    return source


def _chained(first: GraphTable, rest: Iterator[GraphTable]) -> Iterator[GraphTable]:
    yield first
    del first
    yield from rest


def _refuse_groups(given: Mapping[str, Any], name: str) -> None:
    if given["groups"]:
        raise ValueError(
            f"{name}: --groups '{given['groups']}' names an array of an .npz file, and this is none"
        )


def _is_npz(name: str) -> bool:
    """By its content: a .pt file is a zip archive, too."""
    if not os.path.isfile(name) or name.endswith(reading.PICKLES):
        return name.endswith(".npz")
    return name.endswith(".npz") or npz.is_archive(name)


def _of_npz(name: str, groups: str) -> Source:
    graphs = npz.NpzGraphs(name, groups)
    return Tables(
        graphs.schema,
        graphs.tables(),
        _fingerprint(graphs.checksums, groups),
        num_graphs=graphs.num_graphs,
        num_bytes=graphs.num_bytes,
        group_ids=graphs.group_ids,
        constant=True,
    )


def _of_sizes(name: str) -> Source:
    if name == "-":
        table = size_files.expanded(size_files.read_stream(sys.stdin.buffer, "stdin"), "stdin")
    else:
        table = size_files.load(name)
    content = hashlib.sha256(table.sizes.tobytes()).hexdigest()
    return Tables(
        table.schema,
        [table],
        _fingerprint(table.schema.components, content),
        num_graphs=len(table),
        num_bytes=table.sizes.nbytes,
        constant=True,
    )


def _sample(name: str) -> tuple[int, str]:
    """The size of a file, and a digest of its beginning and end; of a folder, of all of its files."""
    if os.path.isdir(name):
        inside = sorted(os.path.join(name, each) for each in os.listdir(name))
        return len(inside), _fingerprint([_sample(each) for each in inside if os.path.isfile(each)])
    with open(name, "rb") as file:
        digest = hashlib.sha256(file.read(_SAMPLED))
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _SAMPLED))
        digest.update(file.read(_SAMPLED))
    return size, digest.hexdigest()


def _neighbours(given: Mapping[str, Any]) -> Any:
    if given["cutoff"] is None:
        if given["keep_edges"] or given["max_neighbours"]:
            raise ValueError("--keep-edges and --max-neighbours need --cutoff")
        return None
    from packhouse.files.atoms_files import Neighbours

    return Neighbours(given["cutoff"], given["max_neighbours"], given["keep_edges"])


class Records(Source):
    """TFRecord files of tf.Examples. The server decodes them, unless keys have a prefix or a read-out
    is added. All records are read once before any is sent.
    """

    _noun = "records"

    def __init__(self, given: Mapping[str, Any]) -> None:
        """Raises OSError or ValueError naming file and place."""
        super().__init__()
        from packhouse.frameworks.tfgnn.schemas import graph_schema

        if given["groups"]:
            raise ValueError("--groups names an array; records have none")
        if len(given["source"]) > 1:
            raise Misuse("records are one SOURCE: a file, a glob in quotes, or FILE@N")
        path = given["graph_schema"]
        self._prefix: str = given["key_prefix"]
        self._skips: bool = given["skip_malformed"]
        self._readout: str = given["readout"]
        try:
            tfgnn = TfgnnSchema.read(path)
            self._read_schema = graph_schema(tfgnn)
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror}") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        if not self._read_schema.components and not self._read_schema.tensors:
            raise ValueError(f"{path}: is no graph schema: it has no set and no feature")
        self.schema = self._read_schema
        if self._readout:
            self.schema = graph_schema(_with_readout(tfgnn, *self._readout_parts()))
        self._paths = tfrecords.files_of(given["source"][0])
        self._first_records: list[int] = []
        self._files: list[str] = []
        digest = hashlib.sha256(repr((self.schema.to_proto().SerializeToString(), self._skips)).encode())
        for record in tfrecords.read(self._paths):
            if record.number == 0:
                self._first_records.append(self.num_graphs)
                self._files.append(record.path)
            digest.update(len(record.data).to_bytes(8, "little") + record.data)
            self.num_graphs += 1
            self.num_bytes += len(record.data)
        self.fingerprint = digest.hexdigest()[:16]

    def chunks(self, chunk_bytes: int) -> Iterator[Chunk]:
        """As Source has it."""
        decoded = bool(self._prefix or self._readout)
        first_id = num_bytes = 0
        records: list[bytes] = []
        for record in tfrecords.read(self._paths):
            is_full = num_bytes + len(record.data) > chunk_bytes or len(records) == _MOST_GRAPHS
            if records and is_full:
                yield self._chunk(records, first_id, num_bytes, decoded)
                first_id += len(records)
                records, num_bytes = [], 0
            records.append(record.data)
            num_bytes += len(record.data)
        if records:
            yield self._chunk(records, first_id, num_bytes, decoded)

    def explained(self, message: str) -> str:
        """As Source has it."""
        found = _NUMBERED.search(message)
        return self._place(int(found[1]), message[found.end() :]) if found else message

    def skipped(self, graph_id: int, message: str) -> None:
        """As Source has it."""
        told = message.partition(": ")[2] or message
        self.leave_out(self._place(graph_id, told) if message else "")

    def _place(self, number: int, told: str) -> str:
        file = bisect.bisect_right(self._first_records, number) - 1
        return f"{self._files[file]}: record {number - self._first_records[file]}: {told}"

    def _chunk(self, records: list[bytes], first_id: int, num_bytes: int, decoded: bool) -> Chunk:
        if not decoded:
            from packhouse.v1 import graphs_pb2

            content = graphs_pb2.Examples(
                examples=records, first_id=first_id, skip_malformed=self._skips
            )
            return Chunk(content, len(records), num_bytes)
        table = self._table(records, first_id)
        return Chunk(EncodedChunk(table, constant=True), len(table), num_bytes)

    def _table(self, records: list[bytes], first_id: int) -> GraphTable:
        """Decoded here. Raises ValueError naming file and record."""
        from packhouse.frameworks.tfgnn.example_decoding import table_from_examples

        if self._prefix:
            records = [_without_prefix(record, self._prefix) for record in records]
        ids = list(range(first_id, first_id + len(records)))
        while True:
            try:
                table = table_from_examples(self._read_schema, records, ids)
                break
            except ValueError as error:
                found = _NUMBERED.search(str(error))
                if found is None:
                    raise
                number = int(found[1])
                told = self._place(ids[number], str(error)[found.end() :])
                if not self._skips:
                    raise ValueError(told) from None
                self.leave_out(told)
                del records[number], ids[number]
        return self._with_readout(table) if self._readout else table

    def _readout_parts(self) -> tuple[str, str]:
        key, equals, nodes = self._readout.partition("=")
        if not equals:
            raise ValueError(f"--readout '{self._readout}': must be KEY=NODE_SET")
        if nodes not in self._read_schema.components:
            raise ValueError(f"--readout '{self._readout}': the schema has no node set '{nodes}'")
        return key, nodes

    def _with_readout(self, table: GraphTable) -> GraphTable:
        """With a node of `_readout` for each graph, and an edge to it from the first node."""
        key, nodes = self._readout_parts()
        empty = np.flatnonzero(table.counts(nodes) == 0)
        if len(empty):
            raise ValueError(
                self._place(
                    int(table.graph_ids[empty[0]]), f"has no node of '{nodes}' for --readout"
                )
            )
        sizes = np.ones((len(table), len(self.schema.components)), np.uint32)
        for k, name in enumerate(self.schema.components):
            if name in self._read_schema.components:
                sizes[:, k] = table.counts(name)
        zeros = np.zeros(len(table), np.int32)
        columns = {
            spec.name: table.tensors.get(spec.name, zeros) for spec in self.schema.tensors
        }
        return GraphTable(self.schema, sizes, columns, table.graph_ids)


def _with_readout(schema: TfgnnSchema, key: str, nodes: str) -> TfgnnSchema:
    from packhouse.frameworks.tfgnn.schemas import parse_graph_schema

    message = parse_graph_schema(schema.data)
    message.node_sets["_readout"].SetInParent()
    edges = message.edge_sets[f"_readout/{key}"]
    edges.source, edges.target = nodes, "_readout"
    return TfgnnSchema(message.SerializeToString())


def _without_prefix(record: bytes, prefix: str) -> bytes:
    """The features whose keys begin so, under the rest of their keys."""
    from google.protobuf.message import DecodeError

    from packhouse.frameworks.tfgnn.schemas import ExampleMessage

    message = ExampleMessage()
    try:
        message.ParseFromString(record)
    except DecodeError:
        # Named when it is decoded.
        return record
    stripped = ExampleMessage()
    for key, feature in message.features.feature.items():
        if key.startswith(prefix):
            stripped.features.feature[key[len(prefix) :]].CopyFrom(feature)
    return bytes(stripped.SerializeToString())
