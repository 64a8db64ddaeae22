"""A SourceGraphService that keeps its rows in memory, for tests of what clients send."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import numpy as np

from packhouse.v1 import histogram_pb2
from packhouse.v1 import source_graph_pb2 as v1
from packhouse.v1 import source_graph_pb2_grpc


def ids_of(ids: Any) -> list[int] | list[str]:
    if not ids.HasField("text"):
        return [int(each) for each in np.frombuffer(ids.integers, "<i8")]
    ends = np.cumsum(np.frombuffer(ids.text.lengths, "<u4")).tolist()
    return [ids.text.data[a:b].decode() for a, b in zip([0, *ends], ends)]


class StubSourceGraphs(source_graph_pb2_grpc.SourceGraphServiceServicer):
    """Takes each request once, by producer and sequence, as the contract says.

    `break_after`: a stream ends with UNAVAILABLE when so many requests were stored; once.
    """

    def __init__(self) -> None:
        self.graphs: dict[str, Any] = {}
        self.last: dict[tuple[str, str], int] = {}
        # Of each graph and set: ids, or pairs of ids; and the bytes of columns.
        self.rows: dict[tuple[str, str], list[Any]] = {}
        self.columns: dict[tuple[str, str, str], bytes] = {}
        # Of each graph that was sealed.
        self.duplicates: dict[str, int] = {}
        # Of each producer, in seconds; 0: none was said.
        self.forget_after: dict[str, int] = {}
        # So many calls of GetSourceGraph find nothing.
        self.absent = 0
        # Of lookups; None: they are answered.
        self.refuse_lookups: grpc.StatusCode | None = None
        self.break_after = 0
        self.num_requests = 0

    def CreateSourceGraph(self, request: Any, context: Any) -> Any:
        if request.name in self.graphs:
            context.abort(grpc.StatusCode.ALREADY_EXISTS, f"there is a graph {request.name}")
        graph = v1.SourceGraph(
            name=request.name, schema=request.schema, state=v1.SOURCE_GRAPH_STATE_OPEN,
            id=len(self.graphs) + 1, max_bytes=request.max_bytes)
        self.graphs[request.name] = graph
        return graph

    def GetSourceGraph(self, request: Any, context: Any) -> Any:
        if request.name not in self.graphs or self.absent > 0:
            self.absent -= 1
            context.abort(grpc.StatusCode.NOT_FOUND, f"no source graph '{request.name}'")
        graph = self.graphs[request.name]
        if graph.state != v1.SOURCE_GRAPH_STATE_OPEN:
            return graph
        # Rows that were appended, as the contract has it.
        answer = v1.SourceGraph.FromString(graph.SerializeToString())
        for numbers, sets in ((answer.num_nodes, graph.schema.node_sets),
                              (answer.num_edges, graph.schema.edge_sets)):
            numbers.extend(len(self.rows.get((graph.name, each.name), ())) for each in sets)
        return answer

    def AppendSourceGraph(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        for request in requests:
            graph = self.graphs[request.graph]
            if request.graph_id != graph.id:
                context.abort(grpc.StatusCode.NOT_FOUND, "another graph")
            sequence = request.producer_sequence
            key = (graph.name, sequence.producer)
            if sequence.sequence == 0:
                state = histogram_pb2.ProducerState(
                    next_sequence=self.last.get(key, 0) + 1, first_remembered_sequence=1)
                yield v1.AppendSourceGraphResponse(
                    producer_sequence=sequence, producer_state=state)
                continue
            is_repetition = sequence.sequence <= self.last.get(key, 0)
            answer = v1.AppendSourceGraphResponse(
                producer_sequence=sequence, is_repetition=is_repetition)
            self.forget_after[sequence.producer] = sequence.forget_after.seconds
            if not is_repetition:
                self.last[key] = sequence.sequence
                self._store(graph.name, request, answer)
                self.num_requests += 1
                if self.num_requests == self.break_after:
                    context.abort(grpc.StatusCode.UNAVAILABLE, "gone for a moment")
            yield answer

    def _store(self, graph: str, request: Any, answer: Any) -> None:
        for rows in request.nodes:
            ids = ids_of(rows.ids)
            self.rows.setdefault((graph, rows.node_set), []).extend(ids)
            answer.num_nodes += len(ids)
            self._store_columns(graph, rows.node_set, rows.columns)
        for rows in request.edges:
            ends = list(zip(ids_of(rows.sources), ids_of(rows.targets)))
            self.rows.setdefault((graph, rows.edge_set), []).extend(ends)
            answer.num_edges += len(ends)
            self._store_columns(graph, rows.edge_set, rows.columns)

    def _store_columns(self, graph: str, name: str, columns: Any) -> None:
        for column in columns:
            key = (graph, name, column.name)
            self.columns[key] = self.columns.get(key, b"") + column.data

    def LookupNodes(self, request: Any, context: Any) -> Any:
        """By one row: that of a node, or of one that only edges name, which follow all rows."""
        if self.refuse_lookups is not None:
            context.abort(self.refuse_lookups, "no lookups")
        (row,) = np.frombuffer(request.rows, "<u8").tolist()
        graph = self.graphs[request.graph]
        rows = self.rows.get((request.graph, request.node_set), [])
        names = [each.name for each in graph.schema.node_sets]
        nodes = graph.num_nodes[names.index(request.node_set)]
        without = nodes - len(set(rows))
        if row >= len(rows) + without or (row < len(rows) and rows[row] in rows[:row]):
            context.abort(grpc.StatusCode.OUT_OF_RANGE, f"row {row}")
        return v1.LookupNodesResponse(numbers=bytes(4), version=1)

    def SealSourceGraph(self, request: Any, context: Any) -> Iterator[Any]:
        graph = self.graphs[request.name]
        self.duplicates[request.name] = request.duplicates
        yield v1.SealSourceGraphResponse(work_done=1, work_total=2)
        nodes = {each.name: set(self.rows.get((graph.name, each.name), ()))
                 for each in graph.schema.node_sets}
        for each in graph.schema.edge_sets:
            ends = self.rows.get((graph.name, each.reverse_of or each.name), [])
            if not each.reverse_of:
                nodes[each.source] |= {source for source, _ in ends}
                nodes[each.target] |= {target for _, target in ends}
            graph.num_edges.append(len(ends))
        graph.num_nodes.extend(len(nodes[each.name]) for each in graph.schema.node_sets)
        graph.state = v1.SOURCE_GRAPH_STATE_SEALED
        graph.version = 1
        yield v1.SealSourceGraphResponse(work_done=2, work_total=2, graph=graph)


class Serving:
    """A stub behind a port; a context manager."""

    def __init__(self) -> None:
        self.stub = StubSourceGraphs()
        self._server = grpc.server(
            futures.ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", 64 << 20)])
        source_graph_pb2_grpc.add_SourceGraphServiceServicer_to_server(self.stub, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def __enter__(self) -> Serving:
        self._server.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.stop(None).wait()
