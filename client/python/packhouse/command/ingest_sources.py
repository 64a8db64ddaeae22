"""What `packhouse ingest` reads: graphs of files, in the chunks in which they are stored."""

from __future__ import annotations

import bisect
import dataclasses
import errno
import hashlib
import os
import re
import sys
from typing import Any, Final, Iterable, Iterator, Mapping, NamedTuple

from google.protobuf.message import DecodeError

from packhouse.command.failures import Misuse
from packhouse.command.output import note
from packhouse.data.examples import TfgnnSchema
from packhouse.data.graphs import GraphTable
from packhouse.data.schema import GraphSchema
from packhouse.files import file_kinds, npz, reading, size_files, tfrecords
from packhouse.frameworks.tfgnn.schemas import ExampleMessage, graph_schema, parse_graph_schema
from packhouse.stored.appending import EncodedChunk
from packhouse.v1 import graphs_pb2

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
    group_ids: Any = None
    num_graphs = 0
    num_bytes = 0
    # The same for the same graphs wherever they lie.
    fingerprint: str
    _noun = "graphs"
    _num_left_out = 0

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


@dataclasses.dataclass
class Tables(Source):
    """Graphs in tables. `group_ids` are those of all graphs; `constant`: see EncodedChunk. `schema` and
    `tables` may be set later.
    """

    schema: GraphSchema
    tables: Iterable[GraphTable]
    fingerprint: str
    num_graphs: int = 0
    num_bytes: int = 0
    group_ids: Any = None
    constant: bool = False

    def chunks(self, chunk_bytes: int) -> Iterator[Chunk]:
        """As Source has it."""
        begin = 0
        for table in self.tables:
            for part in table.parts(chunk_bytes):
                end = begin + len(part)
                groups = b""
                if self.group_ids is not None:
                    groups = self.group_ids[begin:end].astype("<u8").tobytes()
                chunk = EncodedChunk(part, constant=self.constant)
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
        names, trust_pickle=given["trust_pickle"], exclude=given["exclude"],
        on_malformed=source.leave_out if given["skip_malformed"] else None, neighbours=neighbours,
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
        graphs.schema, graphs.tables(), _fingerprint(graphs.checksums, groups),
        num_graphs=graphs.num_graphs, num_bytes=graphs.num_bytes, group_ids=graphs.group_ids,
        constant=True,
    )


def _of_sizes(name: str) -> Source:
    if name == "-":
        table = size_files.expanded(size_files.read_stream(sys.stdin.buffer, "stdin"), "stdin")
    else:
        table = size_files.load(name)
    content = hashlib.sha256(table.sizes.tobytes()).hexdigest()
    return Tables(
        table.schema, [table], _fingerprint(table.schema.components, content), num_graphs=len(table),
        num_bytes=table.sizes.nbytes, constant=True,
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
    """TFRecord files of tf.Examples, which the server decodes. All records are read once before any is
    sent.
    """

    _noun = "records"

    def __init__(self, given: Mapping[str, Any]) -> None:
        """Raises OSError or ValueError naming file and place."""
        if given["groups"]:
            raise ValueError("--groups names an array; records have none")
        if len(given["source"]) > 1:
            raise Misuse("records are one SOURCE: a file, a glob in quotes, or FILE@N")
        path = given["graph_schema"]
        self._prefix: str = given["key_prefix"]
        self._skips: bool = given["skip_malformed"]
        try:
            tfgnn = TfgnnSchema.read(path)
            self.schema = graph_schema(tfgnn)
        except OSError as error:
            raise ValueError(f"{path}: {error.strerror}") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        if not self.schema.components and not self.schema.tensors:
            raise ValueError(f"{path}: is no graph schema: it has no set and no feature")
        self._key, equals, self._nodes = given["readout"].partition("=")
        if given["readout"]:
            if not equals:
                raise ValueError(f"--readout '{given['readout']}': must be KEY=NODE_SET")
            if self._nodes not in self.schema.components:
                raise ValueError(
                    f"--readout '{given['readout']}': the schema has no node set '{self._nodes}'"
                )
            self.schema = graph_schema(_with_readout(tfgnn, self._key, self._nodes))
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
        first_id = num_bytes = 0
        records: list[bytes] = []
        for record in tfrecords.read(self._paths):
            is_full = num_bytes + len(record.data) > chunk_bytes or len(records) == _MOST_GRAPHS
            if records and is_full:
                yield self._chunk(records, first_id, num_bytes)
                first_id += len(records)
                records, num_bytes = [], 0
            records.append(record.data)
            num_bytes += len(record.data)
        if records:
            yield self._chunk(records, first_id, num_bytes)

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

    def _chunk(self, records: list[bytes], first_id: int, num_bytes: int) -> Chunk:
        if self._prefix or self._nodes:
            records = [self._changed(record, number) for number, record in enumerate(records, first_id)]
        content = graphs_pb2.Examples(examples=records, first_id=first_id, skip_malformed=self._skips)
        return Chunk(content, len(records), num_bytes)

    def _changed(self, record: bytes, number: int) -> bytes:
        """The features whose keys have the prefix, under the rest of their keys; and a node of
        `_readout`, with an edge to it from the first node. Raises ValueError naming file and record.
        """
        message, made = ExampleMessage(), ExampleMessage()
        try:
            message.ParseFromString(record)
        except DecodeError:
            # The server names it.
            return record
        features = made.features.feature
        for key, feature in message.features.feature.items():
            if key.startswith(self._prefix):
                features[key[len(self._prefix) :]].CopyFrom(feature)
        if self._nodes:
            size = f"nodes/{self._nodes}.#size"
            if size in features and not sum(features[size].int64_list.value):
                raise ValueError(self._place(number, f"has no node of '{self._nodes}' for --readout"))
            edges = f"edges/_readout/{self._key}."
            one, zero = ("nodes/_readout.#size", f"{edges}#size"), (f"{edges}#source", f"{edges}#target")
            for number_, keys in ((1, one), (0, zero)):
                for key in keys:
                    features[key].int64_list.value.append(number_)
        return bytes(made.SerializeToString())


def _with_readout(schema: TfgnnSchema, key: str, nodes: str) -> TfgnnSchema:
    message = parse_graph_schema(schema.data)
    message.node_sets["_readout"].SetInParent()
    edges = message.edge_sets[f"_readout/{key}"]
    edges.source, edges.target = nodes, "_readout"
    return TfgnnSchema(message.SerializeToString())
