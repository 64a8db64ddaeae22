"""Stores one large graph's files in a server as a source graph. See `packhouse`."""

from __future__ import annotations

import contextlib
import queue
import time
import warnings
from collections import deque
from typing import Any, Final, Iterable, Iterator

import grpc

from packhouse.base.errors import PackhouseError
from packhouse.calls.channel import make_channel
from packhouse.calls.credentials import Credentials
from packhouse.calls.retrying import DEFAULT_RETRY_TIMEOUT, Backoff
from packhouse.files.graph_tables import DEFAULT_REQUEST_BYTES, GraphFiles
from packhouse.v1 import source_graph_pb2, source_graph_pb2_grpc

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
    `packhouse.v1.SourceGraph`. `credentials`: None for those of the environment.

    An edge may end at an id that the node files do not have: that node has zeros in every column,
    and a UserWarning tells how many there are once the graph is sealed. With `appended_only`,
    sealing refuses such edges.

    After a failure call it again with the same files and `request_bytes`: rows that are stored are
    not stored twice. Raises ValueError for bad rows, and PackhouseError: FAILED_PRECONDITION if the
    graph has another schema, is sealed, or was created without `appended_only`, or for an edge that
    it refuses.
    """
    channel = make_channel(address, credentials=credentials)
    try:
        stub = source_graph_pb2_grpc.SourceGraphServiceStub(channel)
        schema = source_graph_pb2.SourceGraphSchema.FromString(files.schema.SerializeToString())
        for each in schema.node_sets:
            each.appended_only = appended_only
        graph = _get_or_create(stub, name, schema)
        producer = f"import-{files.fingerprint}-{request_bytes}"
        append = _Append(stub, graph, producer, retry_timeout)
        try:
            append.send_all(files.requests(request_bytes))
        except ValueError as error:
            # The reason is the files'; what was sent before is stored, or not.
            with contextlib.suppress(PackhouseError):
                append.await_answers()
            raise ValueError(f"{error}{_rows_there(stub, name)}") from None
        finally:
            append.close()
        appended = stub.GetSourceGraph(
            source_graph_pb2.GetSourceGraphRequest(name=name), timeout=60
        )
        if not seal:
            return appended
        sealed = None
        for response in stub.SealSourceGraph(source_graph_pb2.SealSourceGraphRequest(name=name)):
            if response.HasField("graph"):
                sealed = response.graph
        if sealed is None:
            return stub.GetSourceGraph(
                source_graph_pb2.GetSourceGraphRequest(name=name), timeout=60
            )
        _warn_of_nodes_without_rows(stub, appended, sealed)
        return sealed
    except grpc.RpcError as error:
        raise PackhouseError.of(error) from None
    finally:
        channel.close()


def _rows_there(stub: Any, name: str) -> str:
    """What refused files leave: rows that corrected ones would come on top of. Else empty."""
    try:
        request = source_graph_pb2.GetSourceGraphRequest(name=name)
        graph = stub.GetSourceGraph(request, timeout=60)
    except grpc.RpcError:
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


def _get_or_create(stub: Any, name: str, schema: Any) -> Any:
    request = source_graph_pb2.CreateSourceGraphRequest(name=name, schema=schema)
    try:
        return stub.CreateSourceGraph(request, timeout=60, wait_for_ready=True)
    except grpc.RpcError as error:
        failure = PackhouseError.of(error)
        if failure.code != grpc.StatusCode.ALREADY_EXISTS:
            raise failure from None
    graph = stub.GetSourceGraph(source_graph_pb2.GetSourceGraphRequest(name=name), timeout=60)
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
