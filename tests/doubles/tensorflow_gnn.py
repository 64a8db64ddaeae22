"""As much of TF-GNN as its dialect and its tests use; see tensorflow.py beside this."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf


def _whole(value: Any) -> Any:
    return value if isinstance(value, (tf.Tensor, tf.RaggedTensor)) else tf.constant(value)


@dataclasses.dataclass
class Adjacency:
    source_name: str
    source: Any
    target_name: str
    target: Any

    @classmethod
    def from_indices(cls, source: Any, target: Any) -> Adjacency:
        return cls(source[0], _whole(source[1]), target[0], _whole(target[1]))

    @classmethod
    def from_incident_node_sets(cls, source: str, target: str, index_spec: Any) -> Adjacency:
        return cls(source, index_spec, target, index_spec)


class HyperAdjacency:
    @classmethod
    def from_indices(cls, ends: Any) -> HyperAdjacency:
        return cls()


@dataclasses.dataclass
class _Piece:
    """A context, a set, or the spec of one."""

    sizes: Any
    features: dict[str, Any]
    adjacency: Any = None

    @classmethod
    def from_fields(cls, *, sizes: Any = None, features: Any = None, adjacency: Any = None) -> Any:
        made = {name: _whole(value) for name, value in (features or {}).items()}
        return cls(_whole([1] if sizes is None else sizes), made, adjacency)

    @classmethod
    def from_field_specs(cls, *, features_spec: Any, sizes_spec: Any, adjacency_spec: Any = None) -> Any:
        return cls(sizes_spec, features_spec, adjacency_spec)

    def get_features_dict(self) -> dict[str, Any]:
        return dict(self.features)

    total_size = property(lambda self: self.sizes.numpy().sum())
    sizes_spec = property(lambda self: self.sizes)

    def fields(self) -> list[Any]:
        """In one order, of values and of specs alike."""
        ends = [self.adjacency.source, self.adjacency.target] if self.adjacency else []
        return [self.sizes, *ends, *(self.features[name] for name in sorted(self.features))]

    def with_fields(self, fields: Iterator[Any]) -> Any:
        sizes, ends = next(fields), self.adjacency
        if ends:
            ends = Adjacency(ends.source_name, next(fields), ends.target_name, next(fields))
        return type(self)(sizes, {name: next(fields) for name in sorted(self.features)}, ends)


class Context(_Piece):
    pass


class NodeSet(_Piece):
    pass


class EdgeSet(_Piece):
    pass


ContextSpec, NodeSetSpec, EdgeSetSpec = Context, NodeSet, EdgeSet
AdjacencySpec = Adjacency


def _spec_of(value: Any) -> Any:
    if isinstance(value, tf.RaggedTensor):
        return tf.RaggedTensorSpec(value.shape, value.dtype, value.ragged_rank, tf.int32)
    return tf.TensorSpec(value.shape, value.dtype)


@dataclasses.dataclass
class _Graph:
    context: Any
    node_sets: dict[str, Any]
    edge_sets: dict[str, Any]
    rank = 0

    def pieces(self) -> list[Any]:
        sets = (self.node_sets, self.edge_sets)
        return [self.context, *(each[name] for each in sets for name in sorted(each))]

    def with_pieces(self, pieces: Iterator[Any], kind: Any) -> Any:
        context = next(pieces)
        nodes = {name: next(pieces) for name in sorted(self.node_sets)}
        return kind(context, nodes, {name: next(pieces) for name in sorted(self.edge_sets)})


class GraphTensor(_Graph):
    @classmethod
    def from_pieces(cls, context: Any = None, node_sets: Any = None, edge_sets: Any = None) -> Any:
        return cls(context or Context.from_fields(), node_sets or {}, edge_sets or {})

    num_components = property(lambda self: len(self.context.sizes))

    @property
    def spec(self) -> GraphTensorSpec:
        pieces = (each.with_fields(iter(map(_spec_of, each.fields()))) for each in self.pieces())
        made: GraphTensorSpec = self.with_pieces(pieces, GraphTensorSpec)
        return made

    def flat(self) -> list[Any]:
        parts: list[Any] = []
        for field in (field for piece in self.pieces() for field in piece.fields()):
            is_ragged = isinstance(field, tf.RaggedTensor)
            parts += [field.flat_values, *field.nested_row_lengths()] if is_ragged else [field]
        return parts

    @staticmethod
    def batch_of(graphs: Sequence[GraphTensor]) -> Any:
        """Has the names of what it is of, and no values before it is merged."""
        merged = _merged(graphs)
        pieces = (each.with_fields(itertools.repeat(None)) for each in merged.pieces())
        batch = merged.with_pieces(pieces, GraphTensor)
        batch.rank, batch.merge_batch_to_components = 1, lambda: merged
        return batch


class GraphTensorSpec(_Graph):
    @classmethod
    def from_piece_specs(cls, context: Any, node_sets: Any, edge_sets: Any) -> Any:
        return cls(context, node_sets, edge_sets)

    context_spec = property(lambda self: self.context)

    def relax(self, num_nodes: bool, num_edges: bool) -> GraphTensorSpec:
        """Of any number of rows."""

        def open_of(spec: Any) -> Any:
            return dataclasses.replace(spec, shape=(None, *spec.shape[1:]))

        pieces = (each.with_fields(iter(map(open_of, each.fields()))) for each in self.pieces())
        made: GraphTensorSpec = self.with_pieces(pieces, GraphTensorSpec)
        return made

    def is_compatible_with(self, graph: GraphTensor) -> bool:
        for mine, other in zip(self.pieces(), graph.pieces()):
            if sorted(mine.features) != sorted(other.features) or bool(mine.adjacency) != bool(
                other.adjacency
            ):
                return False
            if not all(spec.takes(field) for spec, field in zip(mine.fields(), other.fields())):
                return False
        return (sorted(self.node_sets), sorted(self.edge_sets)) == (
            sorted(graph.node_sets),
            sorted(graph.edge_sets),
        )

    def flat(self) -> list[Any]:
        return [each for piece in self.pieces() for field in piece.fields() for each in field.flat()]

    def packed(self, parts: Iterator[Any]) -> Any:
        def value(spec: Any) -> Any:
            flat = next(parts)
            if not isinstance(spec, tf.RaggedTensorSpec):
                return flat
            rank = spec.ragged_rank
            return tf.ragged_of(flat, [next(parts) for _ in range(rank)], spec.shape[1 : rank + 1])

        pieces = (each.with_fields(iter(map(value, each.fields()))) for each in self.pieces())
        return self.with_pieces(pieces, GraphTensor)


def _joined(values: Sequence[Any]) -> Any:
    """Rows one after the other."""
    first = values[0]
    if not isinstance(first, tf.RaggedTensor):
        return tf.Tensor(np.concatenate([each.numpy() for each in values]), first.dtype)
    levels = zip(*(each.nested_row_lengths() for each in values))
    lengths = [np.concatenate([each.numpy() for each in level]) for level in levels]
    flat = _joined([each.flat_values for each in values])
    return tf.ragged_of(flat, lengths, first.uniform_lengths())


def _merged(graphs: Sequence[GraphTensor]) -> GraphTensor:
    joined: GraphTensor = graphs[0].with_pieces(
        (
            each.with_fields(map(_joined, zip(*(piece.fields() for piece in same))))
            for same in zip(*(graph.pieces() for graph in graphs))
            for each in same[:1]
        ),
        GraphTensor,
    )
    for name, edges in joined.edge_sets.items():
        ends = edges.adjacency
        for end, node_set in (("source", ends.source_name), ("target", ends.target_name)):
            sizes = [int(graph.node_sets[node_set].total_size) for graph in graphs]
            counts = [len(getattr(graph.edge_sets[name].adjacency, end)) for graph in graphs]
            starts = np.repeat(np.cumsum(sizes) - sizes, counts)
            setattr(ends, end, tf.Tensor(getattr(ends, end).numpy() + starts, tf.int32))
    return joined


@dataclasses.dataclass
class SizeConstraints:
    total_num_components: int
    total_num_nodes: Mapping[str, int]
    total_num_edges: Mapping[str, int]
    min_nodes_per_component: Any = None


@dataclasses.dataclass
class FeatureDefaultValues:
    context: Any = None
    node_sets: Any = None
    edge_sets: Any = None


def _padded(value: Any, count: int, fill: Any) -> Any:
    if isinstance(value, tf.RaggedTensor):
        empty = value.uniform_row_length
        lengths = np.append(value.row_lengths().numpy(), np.full(count, empty or 0))
        inner = _padded(value.values, count * (empty or 0), None)
        return tf.RaggedTensor(inner, lengths, empty)
    if fill is None:
        fill = b"" if value.dtype is tf.string else 0
    fill = fill.encode() if isinstance(fill, str) else fill
    rows = np.full((count, *value.shape[1:]), fill, value.numpy().dtype)
    return _joined([value, tf.Tensor(rows, value.dtype)])


def _spread(first: int, last: int, count: int) -> Any:
    lowest, steps = np.float32(first), np.float32(max(count - 1, 1))
    step = (np.float32(last + 1) - lowest) / steps
    places = (lowest + step * np.arange(count, dtype=np.float32)).astype(np.int64)
    if count > 1:
        places[-1] = last
    return np.clip(places, first, last)


def pad_to_total_sizes(graph: GraphTensor, totals: SizeConstraints, padding_values: Any = None) -> Any:
    """The first fake component has all fake rows but the least of the others."""
    values = padding_values or FeatureDefaultValues()
    fake = totals.total_num_components - graph.num_components

    def sized(piece: Any, total: int, least: int) -> tuple[Any, int]:
        count = total - int(piece.total_size)
        sizes = np.full(fake, least)
        if count < least * fake or count and not fake:
            raise ValueError(f"{total} rows cannot be had")
        if fake:
            sizes[0] += count - least * fake
        return tf.Tensor(np.append(piece.sizes.numpy(), sizes), tf.int32), count

    def features(piece: Any, count: int, fills: Any) -> dict[str, Any]:
        return {name: _padded(each, count, (fills or {}).get(name)) for name, each in piece.features.items()}

    nodes, edges = {}, {}
    for name, piece in graph.node_sets.items():
        least = (totals.min_nodes_per_component or {}).get(name, 0)
        sizes, count = sized(piece, totals.total_num_nodes[name], least)
        nodes[name] = NodeSet(sizes, features(piece, count, (values.node_sets or {}).get(name)))
    for name, piece in graph.edge_sets.items():
        sizes, count = sized(piece, totals.total_num_edges[name], 0)
        ends = []
        for node_set, index in (
            (piece.adjacency.source_name, piece.adjacency.source),
            (piece.adjacency.target_name, piece.adjacency.target),
        ):
            first, last = int(graph.node_sets[node_set].total_size), nodes[node_set].total_size - 1
            if count and last < first:
                raise ValueError(f"fake edges of {name!r} have no fake node of {node_set!r}")
            made = np.append(index.numpy(), _spread(first, last, count))
            ends.append((node_set, tf.Tensor(made, tf.int32)))
        made_features = features(piece, count, (values.edge_sets or {}).get(name))
        edges[name] = EdgeSet(sizes, made_features, Adjacency.from_indices(*ends))
    whole = features(graph.context, fake, values.context)
    context = Context(tf.ones([graph.num_components + fake], tf.int32), whole)
    real = np.arange(graph.num_components + fake) < graph.num_components
    return GraphTensor(context, nodes, edges), real
