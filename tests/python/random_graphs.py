"""Seeded random schemas and graphs; the same everywhere for the same seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from packhouse import GRAPHS, DType, GraphSchema, GraphTable, Layout, TensorSpec
from packhouse.v1 import batch_pb2

_NAMES = ("nodes", "edges", "triplets", "sets/A-1.b", "tokens")


def random_schema(rng: np.random.Generator) -> GraphSchema:
    """0 to 4 components and 0 to 6 tensors of any type, shape and role."""
    components = [str(name) for name in rng.permutation(_NAMES)[: rng.integers(0, 5)]]
    tensors = []
    for number in range(int(rng.integers(0, 7))):
        dtype = DType(int(rng.integers(1, 14)))
        targets: list[str | None] = [None]
        # Types that can number every row of the small batches that tests make.
        if dtype.is_integer and dtype.numpy.itemsize > 1:
            targets += [*components, GRAPHS]
        target = targets[int(rng.integers(0, len(targets)))]
        row_shape = tuple(int(n) for n in rng.integers(1, 4, int(rng.integers(0, 3))))
        rows_last = len(row_shape) == 1 and rng.integers(0, 2) == 0
        tensors.append(
            TensorSpec(
                name=f"sets/tensor_{number}#{dtype.name}",
                dtype=dtype,
                component=[*components, GRAPHS][int(rng.integers(0, len(components) + 1))],
                row_shape=row_shape,
                index_into=target,
                padding_value=0 if target else int(rng.integers(0, 2)),
                layout=Layout.ROWS_LAST if rows_last else Layout.ROWS_FIRST,
            )
        )
    return GraphSchema(components, tensors)


def random_table(
    rng: np.random.Generator, schema: GraphSchema, count: int, largest: int = 9
) -> GraphTable:
    """`count` graphs with up to `largest` rows a component, now and then none; odd ids."""
    sizes = rng.integers(0, largest + 1, (count, len(schema.components)))
    for spec in schema.tensors:
        # A row that points into an empty component could hold no valid value.
        if spec.index_into is not None and spec.index_into != GRAPHS:
            column = list(schema.components).index(spec.index_into)
            sizes[:, column] = np.maximum(sizes[:, column], 1)
    shapes = GraphTable(GraphSchema(schema.components), sizes)
    tensors: dict[str, Any] = {}
    for spec in schema.tensors:
        rows = shapes.rows(spec.component)
        shape = spec.array_shape(rows)
        if spec.index_into is None:
            tensors[spec.name] = _random_elements(rng, spec.dtype, shape)
        else:
            bounds = np.repeat(shapes.counts(spec.index_into), shapes.counts(spec.component))
            if spec.layout is Layout.ROWS_FIRST:
                bounds = bounds.reshape(-1, *(1 for _ in spec.row_shape))
            drawn = rng.random(shape) * bounds
            tensors[spec.name] = drawn.astype(np.int64)
    ids = rng.permutation(10 * count)[:count] if rng.integers(2) else np.arange(count) + 7
    return GraphTable(schema, sizes, tensors, ids)


def _random_elements(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Any:
    if dtype is DType.BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    raw = rng.integers(0, 256, (*shape, dtype.numpy.itemsize), dtype=np.uint8)
    # Every bit pattern may occur, not-a-number included: tensors are bytes to the server.
    return raw.view(dtype.numpy).reshape(shape)


def with_few_bits(rng: np.random.Generator, table: GraphTable) -> GraphTable:
    """The same graphs; the integers of each column that are no indices fit some number of bits, and
    are often the last that do.
    """
    tensors = dict(table.tensors)
    for spec in table.schema.tensors:
        if not spec.dtype.is_integer or spec.index_into is not None:
            continue
        column = tensors[spec.name]
        bits = min(int(rng.choice([0, 1, 7, 8, 15, 16, 31, 32, 63, 64])), 8 * column.itemsize)
        unsigned = rng.integers(0, 1 << bits, column.shape, dtype=np.uint64) if bits < 64 else (
            rng.integers(0, (1 << 64) - 1, column.shape, dtype=np.uint64, endpoint=True)
        )
        unsigned[rng.random(column.shape) < 0.2] = (1 << bits) - 1
        if rng.integers(2):
            unsigned[rng.random(column.shape) < 0.2] ^= np.uint64((1 << 64) - 1)
        tensors[spec.name] = unsigned.astype(column.dtype)
    return GraphTable(table.schema, table.sizes, tensors, table.graph_ids)


def narrowed(rng: np.random.Generator, message: Any) -> Any:
    """The `packhouse.v1.Batch` with some tensors of integers in a narrow type, in which they have other values."""
    message = batch_pb2.Batch.FromString(message.SerializeToString())
    for tensor in message.tensors:
        declared = DType(tensor.dtype)
        types = [
            dtype
            for dtype in (DType.UINT8, DType.INT16, DType.INT32)
            if declared.is_integer and dtype.numpy.itemsize < declared.numpy.itemsize
        ]
        if types and rng.integers(4):
            narrow = types[int(rng.integers(len(types)))]
            tensor.declared_dtype = tensor.dtype
            tensor.dtype = narrow.value
            count = len(tensor.data) // declared.numpy.itemsize
            tensor.data = rng.bytes(count * narrow.numpy.itemsize)
    return message


def molecules(rng: np.random.Generator, count: int) -> GraphTable:
    """Graphs with the sizes and tensors of small molecules, about 25 nodes and 55 edges."""
    schema = GraphSchema(
        ("nodes", "edges"),
        (
            TensorSpec("x", DType.INT16, "nodes", (9,)),
            TensorSpec("senders", DType.INT32, "edges", index_into="nodes"),
            TensorSpec("receivers", DType.INT32, "edges", index_into="nodes"),
            TensorSpec("edge_attr", DType.INT8, "edges", (3,), padding_value=-1),
            TensorSpec("y", DType.FLOAT32, GRAPHS),
        ),
    )
    nodes = 2 + rng.poisson(23, count)
    edges = 2 * (nodes + rng.integers(-1, 5, count))
    owners = np.repeat(np.arange(count), edges)
    return GraphTable(
        schema,
        np.stack([nodes, edges], axis=1),
        {
            "x": rng.integers(0, 119, (nodes.sum(), 9)),
            "senders": (rng.random(len(owners)) * nodes[owners]).astype(np.int32),
            "receivers": (rng.random(len(owners)) * nodes[owners]).astype(np.int32),
            "edge_attr": rng.integers(0, 5, (edges.sum(), 3)),
            "y": rng.random(count),
        },
    )


def labelled_molecules(rng: np.random.Generator, count: int) -> GraphTable:
    """Molecules of whose nodes a tenth is labelled, by a mask with its counts; of each fourth none."""
    table = molecules(rng, count)
    owners = np.repeat(np.arange(count), table.counts("nodes"))
    mask = (rng.random(len(owners)) < 0.1) & (owners % 4 != 0)
    specs = (*table.schema.tensors, TensorSpec("labelled", DType.BOOL, "nodes"))
    schema = GraphSchema(table.schema.components, specs)
    whole = GraphTable(schema, table.sizes, {**table.tensors, "labelled": mask})
    return whole.with_counts(["labelled"])
