"""GraphTable: slicing, joining, comparing, and the messages it becomes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from random_graphs import molecules, random_schema, random_table

from packhouse import GRAPHS, DType, GraphSchema, GraphTable, Histogram, TensorSpec
from packhouse.data.graphs import convert_exactly, shift_of_rows
from packhouse.frameworks.batch_sampler import BatchSampler
from packhouse.large.source_graph import exact_array

SEEDS = range(40)


def table_of(seed: int, count: int = 12) -> GraphTable:
    rng = np.random.default_rng(seed)
    return random_table(rng, random_schema(rng), count)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_table_is_its_graphs_joined(seed: int) -> None:
    table = table_of(seed)
    graphs = [table.graph(position) for position in range(len(table))]
    joined = GraphTable.from_graphs(table.schema, graphs, table.sizes, table.graph_ids)
    assert joined.equals(table)
    parts = [table.slice(start, start + 5) for start in range(0, len(table), 5)]
    assert GraphTable.concatenate(parts).equals(table)


@pytest.mark.parametrize("seed", SEEDS)
def test_taking_graphs_reorders_them_whole(seed: int) -> None:
    table = table_of(seed)
    positions = np.random.default_rng(seed).integers(0, len(table), 20)
    taken = table.take(positions)
    for place, position in enumerate(positions):
        assert taken.slice(place, place + 1).equals(table.slice(int(position), int(position) + 1))


@pytest.mark.parametrize("seed", SEEDS)
def test_one_changed_byte_is_found_in_its_graph_alone(seed: int) -> None:
    table = table_of(seed)
    for spec in table.schema.tensors:
        rows = table.rows(spec.component)
        if not rows:
            continue
        row = int(np.random.default_rng(seed).integers(0, rows))
        owner = int(np.searchsorted(table.offsets(spec.component), row, side="right")) - 1
        changed = table.tensors[spec.name].copy()
        # The last byte of the last element of a row.
        elements = changed.view(np.uint8).reshape(*changed.shape, -1)
        by_row = np.moveaxis(elements, spec.rows_axis % changed.ndim, 0)
        by_row[row].reshape(-1, by_row.shape[-1])[-1, -1] ^= 1
        other = GraphTable(
            table.schema, table.sizes, table.tensors | {spec.name: changed}, table.graph_ids
        )
        assert np.flatnonzero(table.differing(other)).tolist() == [owner]


def test_what_pyg_has_goes_in_and_out_as_it_is() -> None:
    """(2, E) of each graph: joined along the last axis, in memory and on the wire."""
    edge_index = TensorSpec("edge_index", DType.INT64, "edges", (2,), "nodes", layout="rows_last")
    schema = GraphSchema(("nodes", "edges"), (TensorSpec("x", DType.INT8, "nodes"), edge_index))
    edges = [np.array([[0, 1], [1, 0]]), np.array([[2], [1]]), np.empty((2, 0), np.int64)]
    table = GraphTable.from_graphs(
        schema,
        [
            {"x": np.zeros(nodes, np.int8), "edge_index": ends}
            for nodes, ends in zip((2, 3, 1), edges)
        ],
    )
    assert table.sizes.tolist() == [[2, 2], [3, 1], [1, 0]]
    assert np.array_equal(table.tensors["edge_index"], np.concatenate(edges, axis=1))
    for position, ends in enumerate(edges):
        assert np.array_equal(table.graph(position)["edge_index"], ends)
    (chunk,) = table.slice(0, 2).to_chunks()
    sent = {tensor.name: tensor.data for tensor in chunk.tensors}
    assert np.frombuffer(sent["edge_index"], "<i8").tolist() == [0, 1, 2, 1, 0, 1]
    with pytest.raises(ValueError, match=r"has shape \(2, 3\), needs \(3, 2\)"):
        GraphTable(
            GraphSchema(schema.components, (dataclasses.replace(edge_index, layout="rows_first"),)),
            table.sizes,
            {"edge_index": table.tensors["edge_index"]},
        )
    with pytest.raises(ValueError, match="graph 0: 'edge_index' has shape .2, 3, 1., its rows need"):
        GraphTable.from_graphs(
            schema, [{"x": np.zeros(1, np.int8), "edge_index": np.zeros((2, 3, 1), np.int64)}]
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_counts_of_masks_are_what_is_true_in_each_graph(seed: int) -> None:
    rng = np.random.default_rng(seed)
    masks = [
        TensorSpec("labelled", DType.BOOL, "nodes"),
        TensorSpec("kept", DType.BOOL, "edges"),
        TensorSpec("good", DType.BOOL, GRAPHS),
    ]
    schema = GraphSchema(("nodes", "edges"), [*masks, TensorSpec("x", DType.INT8, "nodes")])
    table = random_table(rng, schema, int(rng.integers(0, 9)))
    counted = table.with_counts(["kept", "labelled", "good"])
    assert counted.schema.components == ("nodes", "edges", "kept", "labelled", "good")
    assert counted.sizes[:, :2].tolist() == table.sizes.tolist()
    assert counted.graph_ids.tolist() == table.graph_ids.tolist()
    for position in range(len(table)):
        graph = table.graph(position)
        counts = [int(graph[name].sum()) for name in ("kept", "labelled", "good")]
        assert counted.sizes[position, 2:].tolist() == counts
        assert counted.graph(position).keys() == graph.keys()
    for name in ("labelled", "kept", "good"):
        assert counted.rows(name) == int(table.tensors[name].sum())


def test_what_is_no_mask_has_no_counts() -> None:
    specs = [
        TensorSpec("splits", DType.BOOL, "nodes", (10,)),
        TensorSpec("x", DType.INT8, "nodes"),
        TensorSpec("edges", DType.BOOL, "nodes"),
        TensorSpec("own", DType.BOOL, "own"),
    ]
    table = random_table(np.random.default_rng(0), GraphSchema(("nodes", "edges", "own"), specs), 4)
    with pytest.raises(KeyError, match="mask"):
        table.with_counts(["mask"])
    for name in ("splits", "x"):
        with pytest.raises(ValueError, match=f"counts of '{name}': a mask has one bool a row"):
            table.with_counts([name])
    for name in ("edges", "own"):
        with pytest.raises(ValueError, match=f"component '{name}' is listed twice"):
            table.with_counts([name])


def test_changed_sizes_and_ids_differ() -> None:
    table = molecules(np.random.default_rng(3), 6)
    swapped = table.take([1, 0, 2, 3, 4, 5])
    assert np.flatnonzero(table.differing(swapped)).tolist() == [0, 1]
    renamed = GraphTable(table.schema, table.sizes, table.tensors, [0, 1, 2, 9, 4, 5])
    assert np.flatnonzero(table.differing(renamed)).tolist() == [3]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("max_bytes", [1, 300, 1 << 20])
def test_chunks_hold_every_graph_once_within_their_bound(seed: int, max_bytes: int) -> None:
    table = table_of(seed)
    start = 0
    for chunk in table.to_chunks(max_bytes):
        stop = start + chunk.sizes.num_graphs
        part = table.slice(start, stop)
        assert stop == start + 1 or part.nbytes <= max_bytes
        assert chunk.sizes.counts == part.sizes.tobytes()
        assert ids_of(chunk.sizes) == part.graph_ids.tolist()
        assert {tensor.name: tensor.data for tensor in chunk.tensors} == {
            name: column.tobytes() for name, column in part.tensors.items()
        }
        start = stop
    assert start == len(table)


def test_size_tables_leave_the_tensors_out() -> None:
    table = molecules(np.random.default_rng(1), 100)
    messages = list(table.to_size_tables(16 * 30))
    assert [message.num_graphs for message in messages] == [30, 30, 30, 10]
    assert b"".join(message.counts for message in messages) == table.sizes.tobytes()
    assert [message.first_id for message in messages] == [0, 30, 60, 90]


def test_ids_up_to_the_largest_travel() -> None:
    largest = (1 << 64) - 1
    sizes = np.empty((2, 0), np.uint32)
    table = GraphTable(GraphSchema(()), sizes, graph_ids=[largest - 1, largest])
    assert ids_of(table.to_size_table()) == [largest - 1, largest]
    # Where the next id would be none, each is said.
    for first, way in ((largest - 1, "graph_ids"), (largest - 2, "first_id")):
        table = GraphTable(GraphSchema(()), sizes, graph_ids=[first, first + 1])
        assert table.to_size_table().WhichOneof("ids") == way


def test_empty_tables_are_tables() -> None:
    schema = molecules(np.random.default_rng(0), 1).schema
    empty = GraphTable.from_graphs(schema, ())
    assert len(empty) == 0 and list(empty.to_chunks()) == []
    assert empty.equals(GraphTable.concatenate([empty, empty]))


def test_lists_become_the_schemas_types() -> None:
    schema = GraphSchema(
        ("nodes", "edges"),
        (
            TensorSpec("x", DType.FLOAT32, "nodes", (2,)),
            TensorSpec("to", DType.INT16, "edges", index_into="nodes"),
            TensorSpec("y", DType.INT8, GRAPHS),
        ),
    )
    graphs: list[dict[str, Any]] = [
        {"x": [[0.5, 1], [2, 3]], "to": [1], "y": 4},
        {"x": [[5, 6]], "to": [], "y": [7]},
    ]
    table = GraphTable.from_graphs(
        schema,
        graphs,
        first_id=5,
    )
    assert table.sizes.tolist() == [[2, 1], [1, 0]]
    assert table.graph_ids.tolist() == [5, 6]
    assert table.tensors["to"].dtype == np.int16
    assert table.graph(1)["x"].tolist() == [[5, 6]]


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ({"x": [1.0]}, "'to' is missing"),
        ({"x": [[1.0, 2.0]], "to": [0]}, "'x' has shape"),
        ({"x": 1.0, "to": [0]}, r"'x' has shape \(\), its rows need \(\), rows first"),
        ({"x": [1.0], "to": [70000]}, "70000"),
        ({"x": [1.0], "to": [0.5]}, "float64"),
        ({"x": [1.0], "to": [0], "from": [0, 0]}, "'from' has 2 rows"),
    ],
)
def test_a_graph_that_breaks_the_schema_is_refused(
    graph: dict[str, Any], message: str
) -> None:
    schema = GraphSchema(
        ("nodes", "edges"),
        (
            TensorSpec("x", DType.FLOAT32, "nodes"),
            TensorSpec("to", DType.INT16, "edges", index_into="nodes"),
            TensorSpec("from", DType.INT16, "edges", index_into="nodes"),
        ),
    )
    with pytest.raises(ValueError, match=message):
        GraphTable.from_graphs(schema, [{"from": [0], **graph}])


def test_columns_that_disagree_with_sizes_are_refused() -> None:
    table = molecules(np.random.default_rng(0), 3)
    with pytest.raises(ValueError, match="'y' has shape"):
        GraphTable(table.schema, table.sizes, table.tensors | {"y": np.zeros(4, np.float32)})
    with pytest.raises(ValueError, match=r"'y' has shape \(0,\), needs \(3,\)"):
        GraphTable(table.schema, table.sizes, table.tensors | {"y": []})
    with pytest.raises(ValueError, match=r"'x' has shape \(1, 9\), needs \(0, 9\)"):
        GraphTable(table.schema, np.zeros((3, 2), int), table.tensors | {"x": np.zeros((1, 9), np.int16)})
    with pytest.raises(ValueError, match="'z' is not in the schema"):
        GraphTable(table.schema, table.sizes, table.tensors | {"z": np.zeros(3)})
    with pytest.raises(ValueError, match="give sizes"):
        GraphTable.from_graphs(GraphSchema(("nodes",)), [{}])


def test_gaps_and_rows_of_several_lengths_are_refused_by_name() -> None:
    """Below a gap of a masked array any value may stand."""
    schema = GraphSchema(("nodes",), (TensorSpec("x", "float32", "nodes"),))
    gaps = np.ma.masked_array([[1], [7]], mask=[[False], [True]])
    uneven: Any = [[1], [2, 3]]
    for odd, says in ((gaps, " has gaps"), (uneven, ": .*sequence")):
        with pytest.raises(ValueError, match=f"^sizes{says}"):
            GraphTable(schema, odd, {"x": np.zeros(8)})
        with pytest.raises(ValueError, match=f"^sizes{says}"):
            BatchSampler("nowhere", odd, {"nodes": 8})
        with pytest.raises(ValueError, match=f"^tuples{says}"):
            Histogram(("nodes",), odd, [1, 1])
        with pytest.raises(ValueError, match=f"x'?{says}"):
            GraphTable(schema, [[1], [1]], {"x": odd})
        with pytest.raises(ValueError, match=f"^ids{says}"):
            exact_array(odd, np.dtype("int64"), "ids")
    # Without a gap it is an array as any other.
    whole = GraphTable(schema, np.ma.masked_array([[1], [7]]), {"x": np.ma.ones(8)})
    assert whole.sizes.tolist() == [[1], [7]] and whole.tensors["x"].tolist() == [1] * 8


def ids_of(message: Any) -> list[int]:
    """Graph ids of a SizeTable message."""
    if message.WhichOneof("ids") == "first_id":
        return list(range(message.first_id, message.first_id + message.num_graphs))
    ids: list[int] = np.frombuffer(message.graph_ids, "<u8").tolist()
    return ids


def test_a_tensor_that_the_schema_does_not_have_is_refused() -> None:
    schema = GraphSchema(("nodes",), (TensorSpec("x", "float32", "nodes"),))
    graph = {"x": [1.0]}
    with pytest.raises(ValueError, match="^graph 1: tensor 'X' is not in the schema$"):
        GraphTable.from_graphs(schema, [graph, {**graph, "X": [1.0]}])


def test_a_graph_that_no_message_takes_is_named() -> None:
    schema = GraphSchema(("nodes",), (TensorSpec("x", "int8", "nodes"),))
    most = (64 << 20) - (64 << 10)
    sizes = np.array([[3], [most], [most + 1], [2]])
    rows = np.zeros(int(sizes.sum()), np.int8)
    table = GraphTable(schema, sizes, {"x": rows}, graph_ids=[7, 8, 9, 10])
    assert next(table.to_chunks()).sizes.num_graphs == 1
    parts = table.parts()
    assert [next(parts).graph_ids.tolist() for _ in range(2)] == [[7], [8]]
    with pytest.raises(ValueError, match="graph 9 has 67,043,329 bytes: cut it"):
        next(parts)
    with pytest.raises(ValueError, match="a chunk has .* bytes: make chunk_bytes smaller"):
        next(table.to_chunks(1 << 30))
    with pytest.raises(ValueError, match="^max_bytes 0 is below 1$"):
        next(table.parts(0))


def test_slices_are_pythons_own() -> None:
    table = molecules(np.random.default_rng(3), 6)
    for start, stop in ((0, 6), (4, 2), (2, 99), (6, 9)):
        part = table.slice(start, stop)
        assert part.graph_ids.tolist() == table.graph_ids[start:stop].tolist()
        assert part.rows("nodes") == table.counts("nodes")[start:stop].sum()
    with pytest.raises(IndexError, match="graph 6 of 6"):
        table.graph(6)


def test_tables_of_other_graphs_or_schemas_are_not_equal() -> None:
    table = molecules(np.random.default_rng(3), 3)
    sizes = GraphTable(GraphSchema(table.schema.components), table.sizes)
    other = GraphTable(table.schema, table.sizes, {**table.tensors, "y": table.tensors["y"] + 1})
    assert table.equals(table.slice(0, 3))
    for unlike in (sizes, table.slice(0, 2), other):
        assert not table.equals(unlike) and not unlike.equals(table)
    with pytest.raises(ValueError, match="^tensor 'x' is no index tensor$"):
        shift_of_rows(table.schema, table.sizes, table.schema.tensor("x"))


@pytest.mark.parametrize(
    ("values", "wanted", "words"),
    [
        (np.array([-32768, 32767]), "int16", ""),
        (np.array([-32769, 0]), "int16", "from -32769 to 0, beyond int16"),
        (np.array([0, 32768]), "int16", "from 0 to 32768, beyond int16"),
        (np.array([0, (1 << 63) - 1], "<u8"), "int64", ""),
        (np.array([1, 1 << 63], "<u8"), "int64", "from 1 to 9223372036854775808, beyond int64"),
        (np.array([True, False]), "uint8", ""),
        (np.array([0.5]), "float32", ""),
        (np.array([1.0]), "int16", "has dtype float64, needs int16"),
        (np.array([], float), "int16", ""),
    ],
)
def test_numbers_keep_their_values_or_are_refused(values: Any, wanted: str, words: str) -> None:
    dtype = np.dtype(wanted)
    if words:
        with pytest.raises(ValueError, match=f"^ids .*{words}$"):
            convert_exactly(values, dtype, "ids")
        return
    made = convert_exactly(values, dtype, "ids")
    assert made.dtype == dtype and made.tolist() == values.tolist()
    assert convert_exactly(made, dtype, "ids") is made
