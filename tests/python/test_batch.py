"""Un-batching undoes collation, whatever the schema and the padding."""

from __future__ import annotations

import numpy as np
import pytest
from pairs import pairs
from random_graphs import molecules, random_schema, random_table
from reference_collation import batch_message

from packhouse import Batch, DerivedTensor, GraphSchema, GraphTable, LoadedBatch, Padding, TensorSpec
from packhouse.v1 import loader_pb2


@pytest.mark.parametrize("padding", list(Padding))
@pytest.mark.parametrize("seed", range(60))
def test_unbatching_returns_the_graphs(seed: int, padding: Padding) -> None:
    rng = np.random.default_rng(seed)
    graphs = random_table(rng, random_schema(rng), int(rng.integers(1, 7)))
    limits = {
        name: graphs.rows(name) + 1 + int(rng.integers(0, 5))
        for name in graphs.schema.all_components
    }
    message = batch_message(graphs, limits, padding, tuple(DerivedTensor))
    batch = Batch.from_proto(message, graphs.schema)
    received = batch.unbatch()
    if graphs.schema.tensors:
        assert received.equals(graphs)
    else:
        assert received.sizes.tolist() == graphs.sizes.tolist()
        assert received.graph_ids.tolist() == graphs.graph_ids.tolist()
    for name, share in batch.efficiency.items():
        assert share == (batch.real_rows[name] / batch.rows[name] if batch.rows[name] else 1)


def test_arrays_are_read_only_views() -> None:
    graphs = molecules(np.random.default_rng(0), 3)
    batch = Batch.from_proto(batch_message(graphs, {}, Padding.NONE), graphs.schema)
    for array in (*batch.tensors.values(), batch.graph_ids, batch.sizes):
        assert not array.flags.writeable and not array.flags.owndata


def test_a_batch_that_contradicts_itself_is_refused() -> None:
    graphs = molecules(np.random.default_rng(0), 3)
    message = batch_message(graphs, {}, Padding.NONE)
    message.tensors[0].shape[0] += 1
    with pytest.raises(ValueError):
        Batch.from_proto(message, graphs.schema)
    for field, words in (("real_rows", "2 counts of real rows and 3"), ("rows", "3 .* rows and 2")):
        message = batch_message(graphs, {}, Padding.NONE)
        getattr(message, field).pop()
        with pytest.raises(ValueError, match=f"^a batch of 3 components has {words} of rows$"):
            Batch.from_proto(message, graphs.schema)
    message = batch_message(graphs, {}, Padding.NONE)
    with pytest.raises(ValueError):
        Batch.from_proto(message, GraphSchema(("nodes",)))


def batch_of_molecules(limits: dict[str, int], padding: Padding = Padding.MASKED) -> Batch:
    graphs = molecules(np.random.default_rng(1), 5)
    message = batch_message(graphs, limits, padding, tuple(DerivedTensor))
    return Batch.from_proto(message, graphs.schema)


LIMITS = {"nodes": 200, "edges": 400, "graphs": 9}


def test_tensors_are_had_by_name() -> None:
    batch = batch_of_molecules(LIMITS)
    assert batch["x"] is batch.tensors["x"]
    assert "x" in batch and "z" not in batch
    assert dict(batch) == batch.tensors
    assert len(batch) == batch.num_graphs == 5
    with pytest.raises(KeyError, match="no tensor 'z' in the batch: it has .*'edge_attr'"):
        batch["z"]
    # A batch has a length, but is no sequence, so that graphs and tensors are not mixed up.
    with pytest.raises(TypeError):
        iter(batch)  # type: ignore[call-overload]


def test_a_mask_is_the_derived_one() -> None:
    batch = batch_of_molecules(LIMITS)
    for name in batch.rows:
        assert batch.mask(name).tolist() == batch[f"{name}/mask"].tolist()
        assert batch.mask(name).sum() == batch.real_rows[name]
    with pytest.raises(KeyError):
        batch.mask("sets")


def test_a_repr_says_what_is_in_it_on_one_line() -> None:
    batch = batch_of_molecules(LIMITS)
    text = repr(batch)
    assert text.startswith("Batch(0: ") and "\n" not in text
    assert "%); ids " in text
    graphs = list(batch.unbatch())
    assert len(graphs) == len(batch)
    for number, graph in enumerate(graphs):
        for name, rows in batch.unbatch().graph(number).items():
            assert np.array_equal(graph[name], rows)
    assert "5 of 9 graphs" in text and "x: int16[200, 9]" in text
    assert "more" in text and len(text) < 400
    plain = batch_message(batch.unbatch(), LIMITS, Padding.MASKED)
    assert "more" not in repr(Batch.from_proto(plain, batch.schema))


@pytest.mark.parametrize("padding", list(Padding))
@pytest.mark.parametrize("seed", range(30))
def test_writable_arrays_are_aligned_copies(seed: int, padding: Padding) -> None:
    rng = np.random.default_rng(seed)
    graphs = random_table(rng, random_schema(rng), int(rng.integers(0, 7)))
    limits = {name: graphs.rows(name) + 1 for name in graphs.schema.all_components}
    message = loader_pb2.LoadedBatch(
        batch=batch_message(graphs, limits, padding, tuple(DerivedTensor)), graphs_of_step=7
    )
    batch = LoadedBatch.of(message, graphs.schema, 3, 4)
    copy = batch.writable()
    assert type(copy) is LoadedBatch
    assert copy.lease == batch.lease and copy.graphs_of_step == 7
    assert list(copy.tensors) == list(batch.tensors)
    before = [array.tobytes() for array in batch.tensors.values()]
    for mine, theirs in pairs(
        (copy.graph_ids, copy.sizes, *copy.tensors.values()),
        (batch.graph_ids, batch.sizes, *batch.tensors.values()),
    ):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        assert mine.tobytes() == theirs.tobytes()
        assert mine.flags.writeable and mine.flags.aligned and mine.flags.c_contiguous
        assert mine.__array_interface__["data"][0] % 64 == 0
        # Each has memory of its own: what is written to one is seen in no other.
        mine.reshape(-1).view(np.uint8)[...] ^= 255
    assert [array.tobytes() for array in batch.tensors.values()] == before
    for mine, was in pairs(copy.tensors.values(), before):
        assert mine.tobytes() == bytes(255 - byte for byte in was)


def test_torch_takes_writable_arrays_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    torch = pytest.importorskip("torch")
    batch = batch_of_molecules(LIMITS).writable()
    tensors = {name: torch.from_numpy(batch[name]) for name in batch.keys()}
    assert not recwarn.list
    tensors["y"][0] = 17
    assert batch["y"][0] == 17


def batch_of_nodes(count: int, num_tensors: int, padding: Padding = Padding.MASKED) -> Batch:
    """Of graphs of one node each, from id 7 on."""
    specs = [TensorSpec(f"t{number}", "int8", "nodes") for number in range(num_tensors)]
    schema = GraphSchema(("nodes",), specs)
    columns = {spec.name: np.zeros(count, np.int8) for spec in specs}
    graphs = GraphTable(schema, np.ones((count, 1), np.uint32), columns, first_id=7)
    limits = {"nodes": 1000, "graphs": 8}
    return Batch.from_proto(batch_message(graphs, limits, padding), schema)


def test_a_repr_names_few_ids_and_tensors() -> None:
    eight = ", ".join(f"t{number}: int8[1000]" for number in range(8))
    assert [
        repr(batch_of_nodes(5, 9)),
        repr(batch_of_nodes(4, 8)),
        repr(batch_of_nodes(0, 0)),
        repr(batch_of_nodes(0, 0, Padding.NONE)),
    ] == [
        "Batch(0: 5 of 1,000 nodes (0.5 %), 5 of 8 graphs (62.5 %); ids 7, 8, 9, 10, ...; "
        f"{eight}, 1 more)",
        f"Batch(0: 4 of 1,000 nodes (0.4 %), 4 of 8 graphs (50.0 %); ids 7, 8, 9, 10; {eight})",
        "Batch(0: 0 of 1,000 nodes (0.0 %), 0 of 8 graphs (0.0 %); ids none)",
        "Batch(0: 0 of 0 nodes (100.0 %), 0 of 0 graphs (100.0 %); ids none)",
    ]


def test_a_batch_without_its_tensors_holds_no_message() -> None:
    batch = batch_of_nodes(3, 2)
    bare = batch.without_tensors()
    assert bare.tensors == {} and list(batch.tensors) == ["t0", "t1"]
    for mine, theirs in ((bare.graph_ids, batch.graph_ids), (bare.sizes, batch.sizes)):
        assert mine.tolist() == theirs.tolist() and mine.flags.owndata
    assert (bare.id, bare.rows, bare.real_rows) == (batch.id, batch.rows, batch.real_rows)
    assert batch.nbytes == 3 * 8 + 3 * 4 + 2 * 1000 and bare.nbytes == 3 * 8 + 3 * 4
