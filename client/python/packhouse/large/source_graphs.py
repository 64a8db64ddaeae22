"""Large graphs on the server, from which many small ones are drawn. See `Client.source_graphs`."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Final, Iterable, Iterator, Sequence

import grpc
import numpy as np
import numpy.typing as npt

from packhouse.base.arguments import names_arguments, whole_number
from packhouse.base.errors import PackhouseError
from packhouse.calls.retrying import DEFAULT_RETRY_TIMEOUT, UnaryCalls
from packhouse.large.source_graph import (
    DuplicateNodes,
    EdgeRows,
    NodeRows,
    SourceGraph,
    SourceGraphSchema,
    Texts,
    columns_of,
    exact_array,
    ids_of,
    ids_to_proto,
    requests_of,
)
from packhouse.stored.appending import ReliableRequests
from packhouse.v1 import source_graph_pb2, source_graph_pb2_grpc

_REQUEST_BYTES: Final = 4 << 20


@dataclasses.dataclass(frozen=True)
class SourceAppendTotals:
    """What `SourceGraphs.append` has stored."""

    num_nodes: int
    num_edges: int
    num_repeated: int
    """Requests that had been stored before."""
    total_nodes: int
    """Rows in the graph now."""
    total_edges: int
    producer: str
    next_sequence: int


@dataclasses.dataclass(frozen=True)
class SourceGraphVerification:
    """What `SourceGraphs.verify` found."""

    num_bytes: int
    num_damaged: int
    damaged: Sequence[str]
    """The first thousand: the array or record, its bytes, and what is wrong."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged."""
        return self.num_damaged == 0


@dataclasses.dataclass(frozen=True)
class FoundNodes:
    """Nodes by their numbers. `columns` by name: see `columns_of`."""

    numbers: npt.NDArray[np.uint32]
    """2**32 - 1 for an id that no node has."""
    ids: npt.NDArray[np.int64] | list[bytes] | None
    """Only if numbers were looked up."""
    columns: dict[str, Any]
    rows: npt.NDArray[np.int64]
    """Of what was imported, see docs/sampling.md; -1 for an id that no node has."""


@dataclasses.dataclass(frozen=True)
class ReadEdges:
    """Edges in the order of their numbers; the ends are numbers of nodes."""

    sources: npt.NDArray[np.uint32]
    targets: npt.NDArray[np.uint32]
    columns: dict[str, Any]
    rows: npt.NDArray[np.int64] | None = None
    """Of what was imported, if they were asked for."""


class _ReliableRows(ReliableRequests):
    """One producer's requests to one graph, in order. Use from one thread."""

    def __init__(
        self,
        start_call: Callable[[Iterator[Any]], Any],
        graph: SourceGraph,
        producer: str | None,
        first_sequence: int | None,
        retry_timeout: float,
        address: str,
    ) -> None:
        asking = source_graph_pb2.AppendSourceGraphRequest(graph=graph.name, graph_id=graph.id)
        call = f"AppendSourceGraph to '{graph.name}' at {address}"
        super().__init__(start_call, asking, producer, first_sequence, retry_timeout, call)
        self._graph = graph
        self._num_nodes = 0
        self._num_edges = 0
        self._num_repeated = 0
        self._total_nodes = sum(graph.num_nodes.values())
        self._total_edges = sum(graph.num_edges.values())

    def send(self, request: Any) -> None:
        """Sends rows; waits if too many are unanswered."""
        request.graph = self._graph.name
        request.graph_id = self._graph.id
        self._send(request)

    def finish(self) -> SourceAppendTotals:
        """Waits until everything is stored."""
        self._finish()
        return SourceAppendTotals(
            self._num_nodes,
            self._num_edges,
            self._num_repeated,
            self._total_nodes,
            self._total_edges,
            self._producer,
            self._next_sequence,
        )

    def _take(self, request: Any, answer: Any) -> None:
        self._num_nodes += answer.num_nodes
        self._num_edges += answer.num_edges
        self._num_repeated += answer.is_repetition
        self._total_nodes = answer.total_nodes
        self._total_edges = answer.total_edges


@names_arguments
class SourceGraphs:
    """The source graphs of a server. Get it from `Client.source_graphs`.

    Make one with `create`, `append` rows to it from any number of producers and in any order, then
    `seal` it. From then on it never changes; nodes are numbered in ascending order of their ids,
    edges of the numbers of their ends. Failed calls raise PackhouseError. Thread-safe.
    """

    def __init__(self, channel: Any, unary: UnaryCalls) -> None:
        """`channel` may be of several servers."""
        self._stub = source_graph_pb2_grpc.SourceGraphServiceStub(channel)
        self._unary = unary

    def create(self, name: str, schema: SourceGraphSchema, *, max_bytes: int = 0) -> SourceGraph:
        """Makes an empty graph, which takes at most `max_bytes` on disk (0: the server's bound).

        Errors: INVALID_ARGUMENT; ALREADY_EXISTS; RESOURCE_EXHAUSTED.
        """
        request = source_graph_pb2.CreateSourceGraphRequest(
            name=name, schema=schema.to_proto(), max_bytes=max_bytes
        )
        return SourceGraph.from_proto(self._unary(self._stub.CreateSourceGraph, request))

    def append(
        self,
        name: str,
        rows: NodeRows | EdgeRows | Iterable[NodeRows | EdgeRows],
        *,
        producer: str | None = None,
        first_sequence: int | None = None,
        request_bytes: int = _REQUEST_BYTES,
        retry_timeout: float = DEFAULT_RETRY_TIMEOUT,
    ) -> SourceAppendTotals:
        """Stores nodes and edges durably, each once; returns when all are on the server's disk.

        Rows may come in any order, edges before their nodes. They are sent in requests of about
        `request_bytes`. If the server goes away, requests that it has not answered are sent again,
        for `retry_timeout` seconds. Each call adds its rows. A call that a program may repeat after
        an error has a `producer` and a `first_sequence`: requests are numbered from it, and a
        repetition with the same rows stores none of them again (see `Client.datasets.append`).

        Raises ValueError for rows that the schema does not have, naming the set and the column;
        rows before them are stored. Errors: NOT_FOUND; FAILED_PRECONDITION if it is sealed;
        ALREADY_EXISTS for other rows under a sequence that is taken; RESOURCE_EXHAUSTED if a bound
        or the disk is full.
        """
        found = self._unary.again(
            self._stub.GetSourceGraph,
            source_graph_pb2.GetSourceGraphRequest(name=name),
            retry_timeout,
            f"GetSourceGraph of '{name}'",
        )
        graph = SourceGraph.from_proto(found)
        appending = _ReliableRows(
            self._stub.AppendSourceGraph,
            graph,
            producer,
            first_sequence,
            retry_timeout,
            self._unary.address,
        )
        try:
            for each in (rows,) if isinstance(rows, (NodeRows, EdgeRows)) else rows:
                for request in requests_of(each, graph.schema, request_bytes):
                    appending.send(request)
            return appending.finish()
        except ValueError:
            appending.finish()
            raise
        finally:
            appending.close()

    def seal(
        self,
        name: str,
        *,
        duplicates: DuplicateNodes | str = DuplicateNodes.REFUSE,
        on_progress: Callable[[float], None] | None = None,
    ) -> SourceGraph:
        """Ends all appends, and makes the graph that is read; may take minutes.

        There is no deadline. `on_progress` gets numbers from 0 to 1; its exception ends the call.
        The server goes on sealing then, as it does if this process ends, and another call joins it.
        Errors: NOT_FOUND; FAILED_PRECONDITION naming a node that was appended twice (see
        `duplicates`), or one that an edge misses, or if the graph is being sealed with another
        rule; UNAVAILABLE if the server ends: the graph is open again; RESOURCE_EXHAUSTED.
        """
        rule = DuplicateNodes.of(duplicates, "duplicates")
        responses = self._stub.SealSourceGraph(
            source_graph_pb2.SealSourceGraphRequest(name=name, duplicates=rule.value)
        )
        try:
            graph = None
            for response in responses:
                if response.HasField("graph"):
                    graph = SourceGraph.from_proto(response.graph)
                elif on_progress is not None:
                    on_progress(response.work_done / max(1, response.work_total))
            if graph is None:
                raise PackhouseError(grpc.StatusCode.INTERNAL, "the seal ended without a graph")
            return graph
        except grpc.RpcError as error:
            raise PackhouseError.of(error) from None
        finally:
            responses.cancel()

    def get(self, name: str) -> SourceGraph:
        """A graph as it is now. Errors: NOT_FOUND; DATA_LOSS."""
        request = source_graph_pb2.GetSourceGraphRequest(name=name)
        return SourceGraph.from_proto(self._unary(self._stub.GetSourceGraph, request))

    def list(self, page_size: int = 0) -> Iterator[SourceGraph]:
        """All graphs by name, asked for in pages (0: of the server's choice) as you iterate."""
        token = ""
        while True:
            request = source_graph_pb2.ListSourceGraphsRequest(
                page_size=whole_number(page_size, "page_size"), page_token=token
            )
            response = self._unary(self._stub.ListSourceGraphs, request)
            yield from map(SourceGraph.from_proto, response.graphs)
            token = response.next_page_token
            if not token:
                return

    def delete(self, name: str) -> None:
        """Frees the name at once; what reads the graph goes on. Errors: NOT_FOUND."""
        request = source_graph_pb2.DeleteSourceGraphRequest(name=name)
        self._unary(self._stub.DeleteSourceGraph, request)

    def verify(
        self, name: str, on_progress: Callable[[int, int], None] | None = None
    ) -> SourceGraphVerification:
        """Has the server read all of it. Damage is in the result; it is no error.

        There is no deadline. `on_progress` gets the bytes that were read, and all bytes. Errors:
        NOT_FOUND.
        """
        responses = self._stub.VerifySourceGraph(
            source_graph_pb2.VerifySourceGraphRequest(name=name)
        )
        result = None
        try:
            for response in responses:
                if response.finished:
                    result = SourceGraphVerification(
                        response.num_bytes, response.num_damaged, tuple(response.damaged)
                    )
                elif on_progress is not None:
                    on_progress(response.num_bytes, response.num_bytes_total)
            if result is None:
                raise PackhouseError(
                    grpc.StatusCode.INTERNAL, "the verification ended without a result"
                )
            return result
        except grpc.RpcError as error:
            raise PackhouseError.of(error) from None
        finally:
            responses.cancel()

    def lookup_nodes(
        self,
        name: str,
        node_set: str,
        *,
        ids: npt.ArrayLike | Texts | None = None,
        numbers: npt.ArrayLike | None = None,
        rows: npt.ArrayLike | None = None,
        columns: Iterable[str] | None = (),
    ) -> FoundNodes:
        """Nodes by their `ids`, their `numbers` or their imported `rows`, with `columns` (None: all).

        Columns of an id that no node has are zeros or empty. Errors: NOT_FOUND; OUT_OF_RANGE for a
        number or row that no node has; FAILED_PRECONDITION if the graph is not sealed; INVALID_ARGUMENT if
        the rows do not fit into a message.
        """
        if [ids is None, numbers is None, rows is None].count(False) != 1:
            raise ValueError("either ids or numbers or rows are needed")
        spec = self.get(name).schema.node_set(node_set)
        request = source_graph_pb2.LookupNodesRequest(
            graph=name,
            node_set=node_set,
            columns=() if columns is None else columns,
            all_columns=columns is None,
            with_rows=True,
        )
        if ids is not None:
            ids_to_proto(ids, spec.text_ids, request.ids)
        elif rows is not None:
            request.rows = exact_array(rows, np.dtype("<u8"), "rows").tobytes()
        else:
            request.numbers = exact_array(numbers, np.dtype("<u4"), "numbers").tobytes()
        response = self._unary(self._stub.LookupNodes, request)
        return FoundNodes(
            np.frombuffer(response.numbers, "<u4"),
            ids_of(response.ids) if ids is None else None,
            columns_of(response.columns, spec.columns),
            np.frombuffer(response.rows, "<i8"),
        )

    def read_edges(
        self,
        name: str,
        edge_set: str,
        first_edge: int = 0,
        num_edges: int = 1 << 20,
        *,
        columns: Iterable[str] | None = (),
        rows: bool = False,
    ) -> ReadEdges:
        """The edges [first_edge, first_edge + num_edges), as far as there are so many.

        A sealed graph numbers edges by the ids of their ends, not as they were imported; with `rows`
        the result says which row each was there.

        With `columns` (None: all). Errors as `lookup_nodes`.
        """
        schema = self.get(name).schema
        spec = schema.edge_set(edge_set)
        if spec.reverse_of:
            spec = schema.edge_set(spec.reverse_of)
        request = source_graph_pb2.ReadEdgesRequest(
            graph=name,
            edge_set=edge_set,
            first_edge=first_edge,
            num_edges=num_edges,
            columns=() if columns is None else columns,
            all_columns=columns is None,
            with_rows=rows,
        )
        response = self._unary(self._stub.ReadEdges, request)
        return ReadEdges(
            np.frombuffer(response.sources, "<u4"),
            np.frombuffer(response.targets, "<u4"),
            columns_of(response.columns, spec.columns),
            np.frombuffer(response.rows, "<i8") if rows else None,
        )
