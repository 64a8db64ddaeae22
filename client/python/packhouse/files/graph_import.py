"""One large graph from Parquet and Arrow files, stored in a server as a source graph. Needs pyarrow.

- `nodes/SET.parquet` has a row for each node: `id`, whole numbers or text, and columns.
- `edges/SOURCE.NAME.TARGET.parquet` has a row for each edge: `source` and `target`, the ids of both
  ends in the node sets SOURCE and TARGET, and columns. The edge set is called NAME if no other has
  that name, otherwise SOURCE.NAME.TARGET. With one node set `edges/NAME.parquet` will do.

A set may be a folder of such files, `nodes/SET/*.parquet`, read in the order of their names. A
column holds numbers, text or bytes, lists of numbers of one length, or of different lengths. A node
set of which only edges tell has the nodes at their ends. Files may also end in `.arrow`,
`.feather` or `.ipc`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import queue
import time
import warnings
from collections import deque
from typing import Any, Callable, Final, Iterable, Iterator

import grpc
import numpy as np
import numpy.typing as npt

from packhouse.base.errors import PackhouseError
from packhouse.calls.channel import make_channel
from packhouse.calls.credentials import Credentials
from packhouse.calls.retrying import DEFAULT_RETRY_TIMEOUT, Backoff, UnaryCalls
from packhouse.calls.servers import Servers, addresses_of, first_that_answers
from packhouse.files import arrow
from packhouse.v1 import graphs_pb2, source_graph_pb2, source_graph_pb2_grpc

# Rows of a request are of about so many bytes.
DEFAULT_REQUEST_BYTES: Final = 4 << 20
_ROWS_READ: Final = 1 << 16

_DTYPES: Final = {
    "bool": graphs_pb2.DATA_TYPE_BOOL,
    "int8": graphs_pb2.DATA_TYPE_INT8,
    "int16": graphs_pb2.DATA_TYPE_INT16,
    "int32": graphs_pb2.DATA_TYPE_INT32,
    "int64": graphs_pb2.DATA_TYPE_INT64,
    "uint8": graphs_pb2.DATA_TYPE_UINT8,
    "uint16": graphs_pb2.DATA_TYPE_UINT16,
    "uint32": graphs_pb2.DATA_TYPE_UINT32,
    "uint64": graphs_pb2.DATA_TYPE_UINT64,
    "float16": graphs_pb2.DATA_TYPE_FLOAT16,
    "float32": graphs_pb2.DATA_TYPE_FLOAT32,
    "float64": graphs_pb2.DATA_TYPE_FLOAT64,
}


@dataclasses.dataclass(frozen=True)
class SetFiles:
    """The files of one set; `source` and `target` are node sets, empty for nodes."""

    name: str
    paths: tuple[str, ...]
    source: str = ""
    target: str = ""


@dataclasses.dataclass(frozen=True)
class GraphFiles:
    """A graph's files, and the `packhouse.v1.SourceGraphSchema` that follows from the first rows.

    `fingerprint` tells them from others by names, lengths and times of modification.
    """

    schema: Any
    sets: tuple[SetFiles, ...]
    fingerprint: str

    def requests(self, request_bytes: int = DEFAULT_REQUEST_BYTES) -> Iterator[Any]:
        """All rows as `packhouse.v1.AppendSourceGraphRequest`s of about so many bytes.

        The same files and `request_bytes` give the same requests. Raises ValueError naming file,
        column and rows for what differs from the schema, and for nulls.
        """
        for files in self.sets:
            for path in files.paths:
                first = 0
                for batch in arrow._batches(path, _ROWS_READ):
                    rows = batch.num_rows
                    step = max(1, rows * request_bytes // max(1, batch.nbytes))
                    for start in range(0, rows, step):
                        part = batch.slice(start, step)
                        try:
                            yield _request(self.schema, files, part)
                        except ValueError as error:
                            last = first + start + part.num_rows
                            raise ValueError(
                                f"{path}: rows {first + start} to {last - 1}: {error}"
                            ) from error
                    first += rows


def open_files(folder: str | os.PathLike[str]) -> GraphFiles:
    """Finds the files of a graph, and reads the first rows of each set.

    Raises OSError, ImportError without pyarrow, and ValueError naming the file.
    """
    root = pathlib.Path(folder)
    nodes = _sets_in(root / "nodes")
    edges = _sets_in(root / "edges")
    if not nodes and not edges:
        raise ValueError(f"{root}: has neither nodes/ nor edges/ with Parquet or Arrow files")
    sets = [SetFiles(name, paths) for name, paths in nodes.items()]
    ends = {name: _ends(root, name, tuple(nodes)) for name in edges}
    uses = [relation for _, relation, _ in ends.values()]
    for name, paths in edges.items():
        source, relation, target = ends[name]
        known = relation if uses.count(relation) == 1 else name
        sets.append(SetFiles(known, paths, source, target))
    digest = hashlib.sha256()
    for path in (path for files in sets for path in files.paths):
        status = os.stat(path)
        digest.update(repr((os.path.basename(path), status.st_size, status.st_mtime_ns)).encode())
    return GraphFiles(_schema(sets), tuple(sets), digest.hexdigest()[:16])


def _sets_in(folder: pathlib.Path) -> dict[str, tuple[str, ...]]:
    sets: dict[str, tuple[str, ...]] = {}
    for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
        if entry.is_dir():
            inside = sorted(path for path in entry.iterdir() if path.suffix in arrow.ENDINGS)
            if inside:
                sets[entry.name] = tuple(map(str, inside))
        elif entry.suffix in arrow.ENDINGS:
            if entry.stem in sets:
                raise ValueError(f"{entry}: the set {entry.stem!r} has other files too")
            sets[entry.stem] = (str(entry),)
    return sets


def _ends(root: pathlib.Path, name: str, nodes: tuple[str, ...]) -> tuple[str, str, str]:
    parts = name.split(".")
    if len(parts) == 3:
        return parts[0], parts[1], parts[2]
    if len(nodes) == 1:
        return nodes[0], name, nodes[0]
    raise ValueError(
        f"{root / 'edges' / name}: must be called SOURCE.NAME.TARGET, unless there is one node "
        f"set; there are {len(nodes)}"
    )


def _schema(sets: list[SetFiles]) -> Any:
    schema = source_graph_pb2.SourceGraphSchema()
    kinds: dict[str, int] = {}
    for files in sets:
        first = next(arrow._batches(files.paths[0], _ROWS_READ), None)
        if first is None:
            raise ValueError(f"{files.paths[0]}: has no rows")
        id_columns = ("source", "target") if files.source else ("id",)
        for column, node_set in zip(id_columns, (files.source or files.name, files.target)):
            if column not in first.schema.names:
                raise ValueError(f"{files.paths[0]}: has no column {column!r}")
            kind = _id_kind(first.column(column))
            if kinds.setdefault(node_set, kind) != kind:
                raise ValueError(
                    f"{files.paths[0]}: column {column!r} has ids of another kind than the node "
                    f"set {node_set!r} elsewhere: all are whole numbers, or all are text"
                )
        added = schema.edge_sets.add() if files.source else schema.node_sets.add()
        added.name = files.name
        for name, column in zip(first.schema.names, first.columns):
            if name in id_columns:
                continue
            try:
                added.columns.append(_column_spec(name, column))
            except ValueError as error:
                raise ValueError(f"{files.paths[0]}: column {name!r} {error}") from error
        if files.source:
            added.source, added.target = files.source, files.target
    for name in kinds:
        if all(each.name != name for each in schema.node_sets):
            schema.node_sets.add(name=name)
    for each in schema.node_sets:
        each.id_kind = kinds[each.name]
    return schema


def _is_text(column: Any) -> bool:
    import pyarrow

    kind = column.type
    return bool(
        pyarrow.types.is_string(kind)
        or pyarrow.types.is_large_string(kind)
        or pyarrow.types.is_binary(kind)
        or pyarrow.types.is_large_binary(kind)
    )


def _id_kind(column: Any) -> int:
    return int(
        source_graph_pb2.NODE_ID_KIND_TEXT
        if _is_text(column)
        else source_graph_pb2.NODE_ID_KIND_INTEGER
    )


def _column_spec(name: str, column: Any) -> Any:
    import pyarrow

    spec = source_graph_pb2.SourceColumn(name=name)
    if _is_text(column):
        spec.dtype, spec.ragged, spec.text = graphs_pb2.DATA_TYPE_UINT8, True, True
        return spec
    kind = column.type
    depth = 0
    while pyarrow.types.is_fixed_size_list(kind):
        spec.row_shape.append(kind.list_size)
        kind = kind.value_type
        depth += 1
    if depth == 0 and (pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind)):
        spec.ragged = True
        kind = kind.value_type
        while pyarrow.types.is_fixed_size_list(kind):
            spec.row_shape.append(kind.list_size)
            kind = kind.value_type
    dtype = _DTYPES.get(str(kind).replace("halffloat", "float16").replace("double", "float64"))
    if dtype is None and str(kind) == "float":
        dtype = graphs_pb2.DATA_TYPE_FLOAT32
    if dtype is None:
        raise ValueError(f"has type {column.type}, which cannot be sent: leave it out")
    spec.dtype = dtype
    return spec


def _request(schema: Any, files: SetFiles, batch: Any) -> Any:
    request = source_graph_pb2.AppendSourceGraphRequest()
    if files.source:
        rows = request.edges.add(edge_set=files.name)
        specs = next(s for s in schema.edge_sets if s.name == files.name).columns
        _set_ids(rows.sources, "source", batch)
        _set_ids(rows.targets, "target", batch)
    else:
        rows = request.nodes.add(node_set=files.name)
        specs = next(s for s in schema.node_sets if s.name == files.name).columns
        _set_ids(rows.ids, "id", batch)
    for spec in specs:
        if spec.name not in batch.schema.names:
            raise ValueError(f"column {spec.name!r} is missing")
        column = batch.column(spec.name)
        if column.null_count:
            raise ValueError(f"column {spec.name!r} has a null: fill it, or leave the column out")
        found = _column_spec(spec.name, column)
        if found != spec:
            raise ValueError(f"column {spec.name!r} has type {column.type}, other rows another")
        added = rows.columns.add(name=spec.name)
        added.data, added.lengths = _column_bytes(column)
    return request


def _set_ids(ids: Any, name: str, batch: Any) -> None:
    column = batch.column(name)
    if column.null_count:
        raise ValueError(f"column {name!r} has a null; every id must be there")
    if _is_text(column):
        ids.text.data, ids.text.lengths = _column_bytes(column)
        return
    values = column.to_numpy(zero_copy_only=False)
    exact = values.astype("<i8")
    if values.dtype.kind not in "iu" or not np.array_equal(exact, values):
        raise ValueError(f"column {name!r} has type {column.type}; ids are int64, or text")
    ids.integers = exact.tobytes()


def _column_bytes(column: Any) -> tuple[bytes, bytes]:
    """The rows' bytes, and the lengths of ragged rows."""
    import pyarrow

    lengths: npt.NDArray[Any] | None = None
    if _is_text(column):
        column = column.cast(pyarrow.large_binary())
        offsets = np.frombuffer(column.buffers()[1], np.int64)[
            column.offset : column.offset + len(column) + 1
        ]
        data = column.buffers()[2]
        whole = memoryview(data if data is not None else b"")[offsets[0] : offsets[-1]]
        return bytes(whole), np.diff(offsets).astype("<u4").tobytes()
    kind = column.type
    if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind):
        lengths = np.diff(np.asarray(column.offsets, np.int64)).astype("<u4")
        column = column.flatten()
    while pyarrow.types.is_fixed_size_list(column.type):
        column = column.flatten()
    if column.null_count:
        raise ValueError("a list has a null: fill it, or leave the column out")
    values = column.to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(values).tobytes(), b"" if lengths is None else lengths.tobytes()


# As long as a Client waits for its server, and for an answer.
_CONNECT_SECONDS: Final = 10.0
_CALL_SECONDS: Final = 60.0
# Requests that are sent and not answered: enough to keep the server busy while answers travel.
_WINDOW: Final = 8


def import_graph(
    address: str,
    name: str,
    files: GraphFiles,
    *,
    seal: bool = False,
    appended_only: bool = False,
    request_bytes: int = DEFAULT_REQUEST_BYTES,
    retry_timeout: float = DEFAULT_RETRY_TIMEOUT,
    credentials: Credentials | None = None,
) -> Any:
    """Creates the source graph if need be, stores all rows, and returns a
    `packhouse.v1.SourceGraph`. `address` and `credentials`: as a `Client` takes them.

    An edge may end at an id that the node files do not have: that node has zeros in every column,
    and a UserWarning tells how many there are once the graph is sealed. With `appended_only`,
    sealing refuses such edges.

    After a failure call it again with the same files and `request_bytes`: rows that are stored are
    not stored twice. Raises ValueError for bad rows, and PackhouseError: FAILED_PRECONDITION if the
    graph has another schema, is sealed, or was created without `appended_only`, or for an edge that
    it refuses.
    """
    def connect(to: str) -> grpc.Channel:
        return make_channel(to, credentials=credentials)

    addresses = addresses_of(address)
    seconds = min(_CONNECT_SECONDS, max(1.0, retry_timeout))
    channel, first = first_that_answers(connect, addresses, seconds)
    servers = Servers(channel, first, connect, addresses)
    try:
        stub = source_graph_pb2_grpc.SourceGraphServiceStub(servers)
        calls = UnaryCalls(first, _CALL_SECONDS)

        def call(method: str, request: Any) -> Any:
            words = f"{method} of {name!r}"
            return calls.again(getattr(stub, method), request, retry_timeout, words)

        def get() -> Any:
            return call("GetSourceGraph", source_graph_pb2.GetSourceGraphRequest(name=name))

        schema = source_graph_pb2.SourceGraphSchema.FromString(files.schema.SerializeToString())
        for each in schema.node_sets:
            each.appended_only = appended_only
        graph = _get_or_create(call, get, name, schema)
        producer = f"import-{files.fingerprint}-{request_bytes}"
        append = _Append(stub, graph, producer, retry_timeout)
        try:
            append.send_all(files.requests(request_bytes))
        except ValueError as error:
            # The reason is the files'; what was sent before is stored, or not.
            with contextlib.suppress(PackhouseError):
                append.await_answers()
            raise ValueError(f"{error}{_rows_there(get, name)}") from None
        finally:
            append.close()
        appended = get()
        if not seal:
            return appended
        sealed = None
        for response in stub.SealSourceGraph(source_graph_pb2.SealSourceGraphRequest(name=name)):
            if response.HasField("graph"):
                sealed = response.graph
        if sealed is None:
            return get()
        _warn_of_nodes_without_rows(stub, appended, sealed)
        return sealed
    except grpc.RpcError as error:
        raise PackhouseError.of(error) from None
    finally:
        servers.close()
        channel.close()


def _rows_there(get: Callable[[], Any], name: str) -> str:
    """What refused files leave: rows that corrected ones would come on top of. Else empty."""
    try:
        graph = get()
    except PackhouseError:
        return ""
    nodes, edges = sum(graph.num_nodes), sum(graph.num_edges)
    if nodes + edges == 0:
        return ""
    return (
        f"; source graph {name!r} has {nodes} nodes and {edges} edges by now: if they are of these "
        f"files, delete it (packhouse graph delete {name}) before corrected ones are imported"
    )


def _warn_of_nodes_without_rows(stub: Any, appended: Any, sealed: Any) -> None:
    """`appended`: the graph before it was sealed. Sets without rows and columns have no file."""
    for each, rows, nodes in zip(sealed.schema.node_sets, appended.num_nodes, sealed.num_nodes):
        if not rows and not each.columns:
            continue
        how = ""
        try:
            without = _count_nodes_without_rows(stub, sealed.name, each.name, rows, nodes)
        except grpc.RpcError:
            # Who may import need not be allowed to look nodes up.
            how, without = "at least ", max(0, nodes - rows)
        if without:
            warnings.warn(
                f"node set {each.name!r}: of its {nodes} nodes {how}{without} have no row: "
                "edges end at ids that its files do not have, and their columns are zeros; "
                "appended_only refuses such edges, and names one",
                stacklevel=3,
            )


def _count_nodes_without_rows(stub: Any, graph: str, node_set: str, rows: int, nodes: int) -> int:
    """How many of the nodes of a sealed set only edges name, where `rows` rows were appended.

    Of counts alone that cannot be told, if nodes were there twice; but those nodes have the rows that
    follow. O(log nodes) calls.
    """

    def is_one(number: int) -> bool:
        row = (rows + number).to_bytes(8, "little")
        request = source_graph_pb2.LookupNodesRequest(graph=graph, node_set=node_set, rows=row)
        try:
            stub.LookupNodes(request, timeout=60)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.OUT_OF_RANGE:
                raise
            return False
        return True

    low, high = max(0, nodes - rows), nodes
    step = low  # Mostly there are no others.
    while step < high:
        if not is_one(step):
            high = step
            break
        low = step + 1
        step = 2 * step + 1
    while low < high:
        middle = (low + high) // 2
        if is_one(middle):
            low = middle + 1
        else:
            high = middle
    return low


def _get_or_create(
    call: Callable[[str, Any], Any], get: Callable[[], Any], name: str, schema: Any
) -> Any:
    request = source_graph_pb2.CreateSourceGraphRequest(name=name, schema=schema)
    try:
        return call("CreateSourceGraph", request)
    except PackhouseError as error:
        # Perhaps by a try whose answer was lost.
        if error.code is not grpc.StatusCode.ALREADY_EXISTS:
            raise
    graph = get()
    # A server may fill in what was left unset.
    there = _names_of(graph.schema)
    if there != _names_of(schema):
        raise PackhouseError(
            grpc.StatusCode.FAILED_PRECONDITION,
            f"source graph {name!r} has the sets {there}, the files have {_names_of(schema)}",
        )
    for each, wanted in zip(graph.schema.node_sets, schema.node_sets):
        if wanted.appended_only and not each.appended_only:
            raise PackhouseError(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"source graph {name!r} was created without appended_only; delete it, or import "
                "without",
            )
    return graph


def _names_of(schema: Any) -> dict[str, list[str]]:
    return {
        each.name: [column.name for column in each.columns]
        for each in (*schema.node_sets, *schema.edge_sets)
    }


class _Append:
    """One producer's requests, in order, numbered from 1; a broken stream's are sent again."""

    def __init__(self, stub: Any, graph: Any, producer: str, retry_timeout: float) -> None:
        self._stub = stub
        self._graph = graph
        self._producer = producer
        self._backoff = Backoff(retry_timeout, call=f"AppendSourceGraph to '{graph.name}'")
        self._unanswered: deque[Any] = deque()
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._call: Any = None

    def send_all(self, requests: Iterable[Any]) -> None:
        for sequence, request in enumerate(requests, 1):
            while len(self._unanswered) >= _WINDOW:
                self._read_answer()
            request.graph = self._graph.name
            request.graph_id = self._graph.id
            request.producer_sequence.producer = self._producer
            request.producer_sequence.sequence = sequence
            self._unanswered.append(request)
            if self._call is None:
                self._start()
            else:
                self._requests.put(request)
        self.await_answers()

    def await_answers(self) -> None:
        """Of all that was sent."""
        while self._unanswered:
            self._read_answer()

    def close(self) -> None:
        self._requests.put(None)
        if self._call is not None:
            self._call.cancel()

    def _start(self) -> Iterator[Any]:
        self._requests = queue.SimpleQueue()
        for request in self._unanswered:
            self._requests.put(request)
        self._call = self._stub.AppendSourceGraph(iter(self._requests.get, None))
        return self._call  # type: ignore[no-any-return]

    def _read_answer(self) -> None:
        while True:
            try:
                next(self._call or self._start())
                break
            except StopIteration:
                failure = PackhouseError(
                    grpc.StatusCode.UNAVAILABLE, "the stream ended with rows unanswered"
                )
            except grpc.RpcError as error:
                failure = PackhouseError.of(error)
            self._requests.put(None)
            self._call = None
            time.sleep(self._backoff.delay_after(failure))
        self._backoff.succeeded()
        self._unanswered.popleft()
