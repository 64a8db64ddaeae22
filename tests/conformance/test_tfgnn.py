"""Batches as TF-GNN merges and pads them, and its graphs as ours."""

from __future__ import annotations

import base64
import itertools
import json
import os
import pathlib
import zlib
from typing import Any, Callable, Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_gnn as tfgnn
from google.protobuf import text_format
from graph_sources import PlainGraph, TypedGraph, of_npz, random_plain, random_typed

import packhouse.tfgnn
from packhouse import Client, GraphTable, Loader, LocalServer, PackOptions, Padding
from packhouse.data.batch import Batch


_numbers = itertools.count()
# Not so beside tests/doubles, which have no more than what the dialect calls.
IS_WHOLE = hasattr(tfgnn, "parse_single_example")
needs_all = pytest.mark.skipif(not IS_WHOLE, reason="a double has no functions, models, or examples")


def tensor_of(graph: PlainGraph) -> Any:
    source, target = graph.edge_index.astype(np.int32)
    return tfgnn.GraphTensor.from_pieces(
        tfgnn.Context.from_fields(features=_constants(graph.whole)),
        {
            "nodes": tfgnn.NodeSet.from_fields(
                features=_constants(graph.nodes), sizes=[graph.num_nodes]
            )
        },
        {
            "edges": tfgnn.EdgeSet.from_fields(
                features=_constants(graph.edges),
                sizes=[len(source)],
                adjacency=tfgnn.Adjacency.from_indices(("nodes", source), ("nodes", target)),
            )
        },
    )


def typed_tensor_of(graph: TypedGraph) -> Any:
    edge_sets = {}
    for key, (source, target) in graph.edge_index.items():
        edge_sets[key[1]] = tfgnn.EdgeSet.from_fields(
            features=_constants(graph.edges[key]),
            sizes=[len(source)],
            adjacency=tfgnn.Adjacency.from_indices(
                (key[0], source.astype(np.int32)), (key[2], target.astype(np.int32))
            ),
        )
    node_sets = {
        name: tfgnn.NodeSet.from_fields(
            features=_constants(features), sizes=[graph.num_nodes[name]]
        )
        for name, features in graph.nodes.items()
    }
    context = tfgnn.Context.from_fields(features=_constants(graph.whole))
    return tfgnn.GraphTensor.from_pieces(context, node_sets, edge_sets)


def _constants(features: dict[str, Any]) -> dict[str, Any]:
    return {name: tf.constant(array) for name, array in features.items()}


def merged(graphs: list[Any]) -> Any:
    """As the library joins them."""
    return batched(graphs).merge_batch_to_components()


def batched(graphs: list[Any]) -> Any:
    """Ragged batches are the way to graphs of unequal sizes."""
    spec = graphs[0].spec.relax(num_nodes=True, num_edges=True)
    dataset = tf.data.Dataset.from_generator(
        lambda: (tuple(tf.nest.flatten(graph, expand_composites=True)) for graph in graphs),
        output_signature=tuple(
            tf.TensorSpec(part.shape, part.dtype)
            for part in tf.nest.flatten(spec, expand_composites=True)
        ),
    ).map(lambda *parts: tf.nest.pack_sequence_as(spec, parts, expand_composites=True))
    (batch,) = dataset.batch(len(graphs))
    return batch


def assert_same_field(ours: Any, theirs: Any, name: str) -> None:
    assert type(ours) is type(theirs) and ours.dtype == theirs.dtype, name
    if isinstance(theirs, tf.RaggedTensor):
        assert ours.ragged_rank == theirs.ragged_rank, name
        for mine, other in zip(ours.nested_row_lengths(), theirs.nested_row_lengths()):
            np.testing.assert_array_equal(mine, other, name)
        ours, theirs = ours.flat_values, theirs.flat_values
    assert ours.shape == theirs.shape, name
    if theirs.dtype == tf.bfloat16:
        # numpy does not know that this type has numbers that are none.
        ours, theirs = tf.cast(ours, tf.float32), tf.cast(theirs, tf.float32)
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy(), name)


def assert_same_features(ours: Any, theirs: Any, name: str) -> None:
    assert set(ours) == set(theirs), name
    for feature, value in theirs.items():
        assert_same_field(ours[feature], value, f"{name}.{feature}")


def assert_same_graph(ours: Any, theirs: Any) -> None:
    assert ours.rank == theirs.rank == 0
    assert_same_field(ours.context.sizes, theirs.context.sizes, "context sizes")
    assert_same_features(ours.context.features, theirs.context.features, "context")
    assert set(ours.node_sets) == set(theirs.node_sets)
    for name, nodes in theirs.node_sets.items():
        assert_same_field(ours.node_sets[name].sizes, nodes.sizes, name)
        assert_same_features(ours.node_sets[name].features, nodes.features, name)
    assert set(ours.edge_sets) == set(theirs.edge_sets)
    for name, edges in theirs.edge_sets.items():
        mine = ours.edge_sets[name]
        assert_same_field(mine.sizes, edges.sizes, name)
        assert_same_features(mine.features, edges.features, name)
        assert mine.adjacency.source_name == edges.adjacency.source_name
        assert mine.adjacency.target_name == edges.adjacency.target_name
        assert_same_field(mine.adjacency.source, edges.adjacency.source, name)
        assert_same_field(mine.adjacency.target, edges.adjacency.target, name)


def limits_of(table: GraphTable, graphs: int = 10) -> dict[str, int]:
    limits = {name: 8 + 3 * int(table.counts(name).max()) for name in table.schema.components}
    return {**limits, "graphs": graphs}


def packed(client: Client, table: GraphTable, padding: Padding) -> Iterator[Batch]:
    # How integers travelled makes no difference.
    compact = padding is Padding.GRAPH
    yield from client.pack([table], PackOptions(limits_of(table), padding, compact=compact))


def assert_exported_is_read(client: Client, graphs: list[Any], table: GraphTable) -> None:
    """What we write, the library reads as equal graphs, all of its checks on."""
    if not IS_WHOLE:
        return
    name = f"exported-{next(_numbers)}"
    client.datasets.create(name, table.schema)
    client.datasets.append(name, table)
    tfgnn.enable_graph_tensor_validation_at_runtime()
    try:
        with client.datasets.export_examples(name) as stream:
            schema = text_format.Parse(str(stream.schema.data), tfgnn.GraphSchema())
            tfgnn.validate_schema(schema)
            spec = tfgnn.create_graph_spec_from_schema_pb(schema)
            examples = list(stream)
        assert len(examples) == len(graphs)
        for graph, example in zip(graphs, examples):
            assert_same_graph(tfgnn.parse_single_example(spec, example), as_read(graph))
    finally:
        tfgnn.disable_graph_tensor_validation_at_runtime()


def as_read(graph: Any) -> Any:
    """The graph as tf.Example can say it: floats of any width have been float32."""

    def narrow(features: Any) -> dict[str, Any]:
        return {
            name: tf.cast(tf.cast(value, tf.float32), value.dtype)
            if value.dtype in (tf.float64, tf.float16, tf.bfloat16)
            else value
            for name, value in features.items()
        }

    return graph.replace_features(
        context=narrow(graph.context.features),
        node_sets={name: narrow(nodes.features) for name, nodes in graph.node_sets.items()},
        edge_sets={name: narrow(edges.features) for name, edges in graph.edge_sets.items()},
    )


def assert_conforms(client: Client, graphs: list[Any]) -> None:
    table = packhouse.tfgnn.table(graphs)
    assert packhouse.tfgnn.table([merged(graphs[:7]), *graphs[7:]]).equals(table)
    assert packhouse.tfgnn.table([batched(graphs[:7]), *graphs[7:]]).equals(table)
    constraints = packhouse.tfgnn.size_constraints(table.schema, limits_of(table))
    spec = packhouse.tfgnn.graph_tensor_spec(table.schema, limits_of(table))
    for padding in (Padding.TFGNN, Padding.GRAPH):
        num_seen = 0
        for batch in packed(client, table, padding):
            whole = merged([graphs[number] for number in batch.graph_ids])
            assert_same_graph(packhouse.tfgnn.to_graph_tensor(batch, padding=False), whole)
            theirs, mask = tfgnn.pad_to_total_sizes(whole, constraints)
            ours = packhouse.tfgnn.to_graph_tensor(batch)
            assert_same_graph(ours, theirs)
            np.testing.assert_array_equal(packhouse.tfgnn.mask(batch), mask)
            assert spec.is_compatible_with(ours)
            num_seen += len(batch)
        assert num_seen == len(graphs)
    assert_exported_is_read(client, graphs, table)
    for batch in packed(client, table, Padding.NONE):
        whole = merged([graphs[number] for number in batch.graph_ids])
        assert_same_graph(packhouse.tfgnn.to_graph_tensor(batch), whole)


@pytest.mark.parametrize("name, count", [("molhiv", 100), ("tu_PROTEINS", 60)])
def test_real_graphs(
    client: Client, shared_data: Callable[[str], pathlib.Path], name: str, count: int
) -> None:
    graphs = of_npz(shared_data(f"graphs/{name}.npz"), count)
    assert_conforms(client, [tensor_of(graph) for graph in graphs])


@pytest.mark.parametrize("seed", range(2))
def test_random_graphs_with_empty_ones(client: Client, seed: int) -> None:
    assert_conforms(client, [tensor_of(graph) for graph in random_plain(seed, 40)])


@pytest.mark.parametrize("seed", range(3))
def test_random_heterogeneous_graphs(client: Client, seed: int) -> None:
    assert_conforms(client, [typed_tensor_of(graph) for graph in random_typed(seed, 40)])


def test_graphs_without_edges(client: Client) -> None:
    assert_conforms(client, [tensor_of(graph) for graph in random_plain(1, 30, largest=0)])


def read_examples(shared_data: Callable[[str], pathlib.Path], kind: str) -> list[Any]:
    if not IS_WHOLE:
        pytest.skip("a double reads no examples")
    schema = tfgnn.read_schema(str(shared_data(f"tfgnn/schemas/{kind}.pbtxt")))
    spec = tfgnn.create_graph_spec_from_schema_pb(schema)
    records = tf.data.TFRecordDataset([str(shared_data(f"tfgnn/examples/{kind}.tfrecord"))])
    return [tfgnn.parse_single_example(spec, record) for record in records]


def golden_field(golden: dict[str, Any], dtype: Any) -> Any:
    if "values_b64" in golden:
        return [base64.b64decode(text) for text in golden["values_b64"]]
    return np.array([float(v) if isinstance(v, str) else v for v in golden["values"]], dtype)


def assert_golden_features(ours: Any, golden: dict[str, Any], name: str) -> None:
    assert set(ours) == set(golden), name
    for feature, field in golden.items():
        value = ours[feature]
        flat = value.flat_values if isinstance(value, tf.RaggedTensor) else value
        assert flat.dtype.name == field["dtype"]
        if isinstance(value, tf.RaggedTensor):
            for depth, lengths in enumerate(value.nested_row_lengths(), start=1):
                assert lengths.numpy().tolist() == field["row_lengths"][f"d{depth}"]
        values = tf.reshape(flat, [-1]).numpy()
        np.testing.assert_array_equal(values, golden_field(field, values.dtype), feature)


def assert_golden(ours: Any, golden: dict[str, Any]) -> None:
    assert int(ours.num_components) == golden["num_components"]
    assert_golden_features(ours.context.features, golden["context"], "context")
    for name, nodes in golden["node_sets"].items():
        assert ours.node_sets[name].sizes.numpy().tolist() == nodes["sizes"]
        assert_golden_features(ours.node_sets[name].features, nodes["features"], name)
    for name, edges in golden["edge_sets"].items():
        mine = ours.edge_sets[name]
        assert mine.sizes.numpy().tolist() == edges["sizes"]
        assert mine.adjacency.source.numpy().tolist() == edges["source"]
        assert mine.adjacency.target.numpy().tolist() == edges["target"]
        assert_golden_features(mine.features, edges["features"], name)


def without_punctuation(graph: Any) -> Any:
    """The same graph, its sets under names that a schema takes; see `schema_name`."""
    return tfgnn.GraphTensor.from_pieces(
        graph.context,
        {schema_name(name): nodes for name, nodes in graph.node_sets.items()},
        {
            schema_name(name): tfgnn.EdgeSet.from_fields(
                features=edges.get_features_dict(),
                sizes=edges.sizes,
                adjacency=tfgnn.Adjacency.from_indices(
                    (schema_name(edges.adjacency.source_name), edges.adjacency.source),
                    (schema_name(edges.adjacency.target_name), edges.adjacency.target),
                ),
            )
            for name, edges in graph.edge_sets.items()
        },
    )


def schema_name(name: str) -> str:
    return name.replace(":", "-")


def golden_cases(path: pathlib.Path, kind: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads(
        (path / f"{kind}.json").read_text(),
        object_pairs_hook=lambda pairs: {schema_name(name): value for name, value in pairs},
    )["cases"]
    return cases


def total_sizes_of(case: dict[str, Any]) -> Any:
    constraints = case["constraints"]
    return tfgnn.SizeConstraints(
        constraints["total_num_components"],
        constraints["total_num_nodes"],
        constraints["total_num_edges"],
        constraints["min_nodes_per_component"],
    )


def joined(client: Client, graphs: list[Any], padding: Padding, spare: int) -> Batch:
    """One batch of all of them, in their order."""
    table = packhouse.tfgnn.table([without_punctuation(graph) for graph in graphs])
    limits = {name: table.rows(name) + spare for name in table.schema.all_components}
    # A packer that looks ahead puts graphs where they fit.
    (batch,) = client.pack([table], PackOptions(limits, padding, look_ahead=1))
    assert batch.graph_ids.tolist() == list(range(len(table)))
    return batch


@pytest.mark.parametrize(
    "kind, num_cases", [("molecules", 24), ("mag", 5), ("ragged", 2), ("readout", 2)]
)
def test_golden_padding(
    client: Client, shared_data: Callable[[str], pathlib.Path], kind: str, num_cases: int
) -> None:
    """What the library wrote down once, its errors too: of batches with padding and without."""
    graphs = read_examples(shared_data, kind)
    cases = golden_cases(shared_data("tfgnn/padding"), kind)
    assert len(cases) == num_cases
    for case in cases:
        values = case["padding_values"]
        options = {
            "total_sizes": total_sizes_of(case),
            "padding_values": tfgnn.FeatureDefaultValues(**values) if values else None,
        }
        records = [graphs[number] for number in case["records"]]
        for padding, spare in ((Padding.NONE, 1), (Padding.GRAPH, 2), (Padding.GRAPH, 9)):
            batch = joined(client, records, padding, spare)
            golden = case["padded"].get("graph")
            if golden is None:
                with pytest.raises((ValueError, TypeError)):
                    packhouse.tfgnn.to_graph_tensor(batch, **options)
                continue
            ours = packhouse.tfgnn.to_graph_tensor(batch, **options)
            assert_golden(ours, golden)
            real = packhouse.tfgnn.mask(batch, total_sizes=options["total_sizes"])
            assert real.tolist() == case["padded"]["mask"]
            spec = packhouse.tfgnn.graph_tensor_spec(batch.schema, options["total_sizes"])
            assert spec.is_compatible_with(ours)


@pytest.mark.parametrize("kind", ["molecules", "mag", "ragged", "readout"])
def test_golden_padding_by_the_server(
    client: Client, shared_data: Callable[[str], pathlib.Path], kind: str
) -> None:
    """A batch that the server padded is the same, where it keeps a row free for padding."""
    graphs = read_examples(shared_data, kind)
    num_made = 0
    for case in golden_cases(shared_data("tfgnn/padding"), kind):
        golden = case["padded"].get("graph")
        if golden is None or case["padding_values"]:
            continue
        records = [without_punctuation(graphs[number]) for number in case["records"]]
        table = packhouse.tfgnn.table(records)
        constraints = case["constraints"]
        limits = {**constraints["total_num_nodes"], **constraints["total_num_edges"]}
        limits = {name: rows for name, rows in limits.items() if name in table.schema.components}
        limits["graphs"] = constraints["total_num_components"]
        real = {name: table.rows(name) for name in table.schema.all_components}
        if any(real[name] == limits[name] for name in {"graphs", *golden["node_sets"]}):
            continue
        # Where there is no row at all, the server wants room for one.
        if min(limits.values()) < 2 or constraints["min_nodes_per_component"]:
            continue
        (batch,) = client.pack([table], PackOptions(limits, Padding.TFGNN, look_ahead=1))
        assert packhouse.tfgnn.mask(batch).tolist() == case["padded"]["mask"]
        assert_golden(packhouse.tfgnn.to_graph_tensor(batch), golden)
        num_made += 1
    assert num_made >= 1


def test_golden_merges(client: Client, shared_data: Callable[[str], pathlib.Path]) -> None:
    cases = golden_cases(shared_data("tfgnn/padding"), "merged")
    assert len(cases) == 4
    for case in cases:
        graphs = read_examples(shared_data, pathlib.Path(case["tfrecord"]).stem)
        records = [graphs[number] for number in case["records"]]
        for padding, spare in ((Padding.NONE, 1), (Padding.GRAPH, 2)):
            batch = joined(client, records, padding, spare)
            assert_golden(packhouse.tfgnn.to_graph_tensor(batch, padding=False), case["graph"])


def test_padding_values_of_a_batch_that_the_server_padded(client: Client) -> None:
    graphs = [typed_tensor_of(graph) for graph in random_typed(8, 30)]
    table = packhouse.tfgnn.table(graphs)
    constraints = packhouse.tfgnn.size_constraints(table.schema, limits_of(table))
    values = tfgnn.FeatureDefaultValues(node_sets={"paper": {"x": -2.5}}, context={"y": 3.0})
    for batch in packed(client, table, Padding.GRAPH):
        whole = merged([graphs[number] for number in batch.graph_ids])
        theirs, mask = tfgnn.pad_to_total_sizes(whole, constraints, padding_values=values)
        assert_same_graph(packhouse.tfgnn.to_graph_tensor(batch, padding_values=values), theirs)
        np.testing.assert_array_equal(packhouse.tfgnn.mask(batch), mask)
    wrong = tfgnn.FeatureDefaultValues(node_sets={"paper": {"z": 1.0}})
    with pytest.raises(ValueError, match="'paper' has no feature 'z'"):
        packhouse.tfgnn.to_graph_tensor(batch, padding_values=wrong)


def pair_of_small_graphs(client: Client, padding: Padding) -> tuple[list[Any], Batch]:
    """Two nodes and an edge each, with features of each kind that padding treats in its own way."""
    graphs = []
    for number in range(2):
        features = {
            "x": tf.constant([1.5, 2.5]),
            "n": tf.constant([number, 4]),
            "b": tf.bitcast(tf.constant([0x3F80, 0x4000], tf.uint16), tf.bfloat16),
            "t": tf.constant(["a", "bc"], tf.string),
            "r": tf.RaggedTensor.from_row_lengths(tf.constant([1, 2, 3]), tf.constant([1, 2])),
        }
        ends = tfgnn.Adjacency.from_indices(("a", [0]), ("a", [1]))
        whole = {"y": tf.constant([[1, 2]]), "name": tf.constant(["whole"], tf.string)}
        graphs.append(
            tfgnn.GraphTensor.from_pieces(
                tfgnn.Context.from_fields(features=whole),
                {"a": tfgnn.NodeSet.from_fields(features=features, sizes=[2])},
                {
                    "e": tfgnn.EdgeSet.from_fields(
                        features={"w": tf.constant([number])}, sizes=[1], adjacency=ends
                    )
                },
            )
        )
    return graphs, joined(client, graphs, padding, 1 if padding is Padding.NONE else 4)


# Of two graphs with 4 nodes and 2 edges: what cannot be, and why not.
CANNOT_BE: list[tuple[Any, str]] = [
    ((1, {"a": 9}, {"e": 9}), "has 2 graphs, more than the 1 of total_num_components"),
    ((3, {"a": 3}, {"e": 9}), "has 4 rows of 'a': more than its total, 3"),
    ((3, {"a": 9}, {"e": 1}), "has 2 rows of 'e': more than its total, 1"),
    ((4, {"a": 5}, {"e": 2}, {"a": 1}), "4 rows of 'a' and 1 for each of 2 fake comp.*: more .* 5"),
    ((2, {"a": 5}, {"e": 2}), "has 1 fake rows of 'a' and no fake component to hold them"),
    ((2, {"a": 4}, {"e": 4}), "has 2 fake rows of 'e' and no fake component to hold them"),
    ((3, {"a": 9}, {"e": 3}, {"a": 3}), "a graph of batch .* has fewer than 3 rows of 'a'"),
    ((3, {"a": 4}, {"e": 3}), "fake edges of 'e' have no fake node of 'a' .* larger than 4"),
    ((3, {}, {"e": 3}), r"no total of the node set 'a', only \[\]"),
    ((3, {"a": 9}, {"b": 3}), r"no total of the edge set 'e', only \['b'\]"),
]


@pytest.mark.parametrize("padding", [Padding.NONE, Padding.GRAPH])
def test_total_sizes_are_padded_to_or_refused_by_name(client: Client, padding: Padding) -> None:
    graphs, batch = pair_of_small_graphs(client, padding)
    whole = merged(graphs)
    for sizes in (
        (2, {"a": 4}, {"e": 2}),
        (3, {"a": 4}, {"e": 2}),
        (3, {"a": 5}, {"e": 7}),
        (5, {"a": 9}, {"e": 4}, {"a": 1}),
        (4, {"a": 8}, {"e": 2, "other": 1}, {"a": 2}),
        (4, {"a": 30}, {"e": 12}, {}),
    ):
        totals = tfgnn.SizeConstraints(*sizes)
        theirs, real = tfgnn.pad_to_total_sizes(whole, totals)
        ours = packhouse.tfgnn.to_graph_tensor(batch, total_sizes=totals)
        assert_same_graph(ours, theirs)
        np.testing.assert_array_equal(packhouse.tfgnn.mask(batch, total_sizes=totals), real)
        nodes = packhouse.tfgnn.node_mask(batch, "a", total_sizes=totals)
        assert nodes.tolist() == [True] * 4 + [False] * (sizes[1]["a"] - 4)
        spec = packhouse.tfgnn.graph_tensor_spec(batch.schema, totals)
        assert spec.is_compatible_with(ours)
        assert not packhouse.tfgnn.graph_tensor_spec(
            batch.schema, tfgnn.SizeConstraints(sizes[0], {"a": 31}, sizes[2])
        ).is_compatible_with(ours)
    for cannot, words in CANNOT_BE:
        with pytest.raises(ValueError, match=words):
            packhouse.tfgnn.to_graph_tensor(batch, total_sizes=tfgnn.SizeConstraints(*cannot))
    with pytest.raises(ValueError, match="total_sizes with padding=False: give one of them"):
        packhouse.tfgnn.to_graph_tensor(batch, padding=False, total_sizes=totals)


VALUES: list[tuple[dict[str, Any], Any]] = [
    ({"context": {"y": 7, "name": "none"}, "node_sets": {"a": {"x": -1.5, "n": 3}}}, None),
    ({"node_sets": {"a": {"t": "text", "r": 9}}, "edge_sets": {"e": {"w": 5}}}, None),
    ({"node_sets": {"a": {"t": b"bytes", "n": np.int32(-2)}}}, None),
    ({"node_sets": {"zz": {}}}, "padding_values: no set 'zz', only "),
    ({"node_sets": {"a": {"q": 1}}}, "padding_values: 'a' has no feature 'q'"),
    ({"edge_sets": {"e": {"w": [1]}}}, r"of 'e', feature 'w', must be a scalar, and has shape \(1,\)"),
    ({"node_sets": {"a": {"t": 1}}}, "of 'a', feature 't', must be a string, and is 1"),
    ({"node_sets": {"a": {"n": 1.5}}}, "of 'a', feature 'n', is 1.5: "),
]


@pytest.mark.parametrize("values, words", VALUES)
def test_padding_values_are_taken_or_refused_by_name(
    client: Client, values: dict[str, Any], words: str | None
) -> None:
    graphs, batch = pair_of_small_graphs(client, Padding.GRAPH)
    totals = tfgnn.SizeConstraints(4, {"a": 9}, {"e": 5})
    given = tfgnn.FeatureDefaultValues(**values)
    for sizes in (totals, None):
        options = {"total_sizes": sizes, "padding_values": given}
        if words is not None:
            with pytest.raises((ValueError, TypeError), match=words):
                packhouse.tfgnn.to_graph_tensor(batch, **options)
            continue
        rows = tfgnn.SizeConstraints(
            batch.rows["graphs"], {"a": batch.rows["a"]}, {"e": batch.rows["e"]}
        )
        theirs, _ = tfgnn.pad_to_total_sizes(merged(graphs), sizes or rows, padding_values=given)
        assert_same_graph(packhouse.tfgnn.to_graph_tensor(batch, **options), theirs)
    # Of a batch without its padding they mean nothing.
    bare = packhouse.tfgnn.to_graph_tensor(batch, padding=False, padding_values=given)
    assert_same_graph(bare, merged(graphs))


def test_padding_values_may_be_of_16_bits(client: Client) -> None:
    _, batch = pair_of_small_graphs(client, Padding.GRAPH)
    values = tfgnn.FeatureDefaultValues(node_sets={"a": {"b": -2.5}})
    totals = tfgnn.SizeConstraints(3, {"a": 5}, {"e": 2})
    ours = packhouse.tfgnn.to_graph_tensor(batch, total_sizes=totals, padding_values=values)
    bits = tf.bitcast(ours.node_sets["a"].features["b"], tf.uint16).numpy().tolist()
    assert bits == [0x3F80, 0x4000] * 2 + [0xC020]


def test_fake_ends_are_spread_with_the_rounding_of_32_bits() -> None:
    assert packhouse.tfgnn.fake_ends(4, 6, 7).tolist() == [4, 4, 5, 5, 6, 6, 6]
    assert packhouse.tfgnn.fake_ends(4, 6, 2).tolist() == [4, 6]
    assert packhouse.tfgnn.fake_ends(4, 6, 1).tolist() == [4]
    assert packhouse.tfgnn.fake_ends(4, 6, 0).tolist() == []
    assert packhouse.tfgnn.fake_ends(0, 0, 3).tolist() == [0, 0, 0]
    large = packhouse.tfgnn.fake_ends((1 << 24) + 1, (1 << 24) + 3, 3)
    assert large.dtype == np.int32 and large.min() == (1 << 24) + 1
    assert large.max() == (1 << 24) + 3


def test_a_data_set_of_tensorflows_has_an_epoch_each_time(
    client: Client, server: LocalServer
) -> None:
    graphs = [tensor_of(graph) for graph in random_plain(12, 30)]
    dataset = packhouse.tfgnn.ingest(client, "tfgnn/epochs", graphs)
    limits = limits_of(packhouse.tfgnn.table(graphs))
    settings: dict[str, Any] = {"dataset": "tfgnn/epochs", "job": "epochs", "limits": limits}
    spec = packhouse.tfgnn.graph_tensor_spec(dataset.schema, limits)
    totals = tfgnn.SizeConstraints(
        limits["graphs"] + 1, {"nodes": limits["nodes"] + 1}, {"edges": limits["edges"] + 2}
    )
    wider = packhouse.tfgnn.graph_tensor_spec(dataset.schema, totals)
    with Loader(server.address, padding=Padding.TFGNN, **settings) as loader:
        values = {
            "total_sizes": totals,
            "padding_values": tfgnn.FeatureDefaultValues(node_sets={"nodes": {"x": -3.0}}),
        }
        pairs = packhouse.tfgnn.to_dataset(lambda: loader, spec, with_mask=True)
        padded = packhouse.tfgnn.to_dataset(lambda: loader, wider, with_mask=True, **values)
        alone = packhouse.tfgnn.to_dataset(lambda: loader, wider, **values)
        for epoch, given in enumerate((pairs, pairs, padded, alone)):
            num_real, num_nodes = 0, 0
            for item in given:
                graph, real = (item, None) if given is alone else item
                assert graph.spec == (spec if given is pairs else wider)
                x = graph.node_sets["nodes"].features["x"].numpy()
                if given is not pairs:
                    assert (x[-1] == -3).all()
                num_real += 0 if real is None else int(np.asarray(real).sum())
                num_nodes += int((x > 0).any(axis=1).sum())
            assert loader.epoch == epoch and num_real == (0 if given is alone else 30)
            assert num_nodes == sum(int(graph.node_sets["nodes"].total_size) for graph in graphs)
    with pytest.raises(KeyError):
        packhouse.tfgnn.size_constraints(dataset.schema, {"nodes": 1, "graphs": 1})
    made = packhouse.tfgnn.size_constraints(dataset.schema, {"nodes": 3, "edges": 4, "graphs": 5}, {"nodes": 1})
    assert (made.total_num_components, dict(made.total_num_nodes)) == (5, {"nodes": 3})
    assert dict(made.total_num_edges) == {"edges": 4}
    assert dict(made.min_nodes_per_component) == {"nodes": 1}


def test_ragged_features_and_strings(
    client: Client, shared_data: Callable[[str], pathlib.Path]
) -> None:
    assert_conforms(client, read_examples(shared_data, "ragged"))
    assert_conforms(client, read_examples(shared_data, "molecules"))
    assert_conforms(client, read_examples(shared_data, "mag"))


def test_every_way_to_be_ragged(client: Client) -> None:
    """One and two ragged dimensions, fixed ones before, between and after, of numbers and text."""

    def ragged(seed: int, dims: list[int | None], dtype: Any) -> Any:
        random = np.random.default_rng(seed)

        def nested(inner: list[int | None]) -> Any:
            if not inner:
                return bytes(random.integers(0, 256, random.integers(0, 4), np.uint8)).hex()
            size = random.integers(0, 3) if inner[0] is None else inner[0]
            return [nested(inner[1:]) for _ in range(size)]

        rows = [nested(dims) for _ in range(3)]
        rank = max((place for place, dim in enumerate(dims, 1) if dim is None), default=0)
        if rank == 0:
            strings = tf.constant(rows, tf.string, shape=(3, *dims))
        else:
            strings = tf.ragged.constant(
                rows, tf.string, rank, tuple(dims[rank:]), row_splits_dtype=tf.int32
            )
            # Dimensions of a fixed size are told so.
            values = strings.flat_values
            partitions = list(strings.nested_row_lengths())
            for place in range(rank, 0, -1):
                size = dims[place - 1]
                if size is None:
                    values = tf.RaggedTensor.from_row_lengths(values, partitions[place - 1])
                else:
                    values = tf.RaggedTensor.from_uniform_row_length(
                        values, tf.constant(size, tf.int32), nrows=len(partitions[place - 1])
                    )
            strings = values
        if dtype == tf.string:
            return strings
        lengths = tf.ragged.map_flat_values(tf.strings.length, strings) if rank else (
            tf.strings.length(strings)
        )
        return tf.cast(lengths, dtype)

    shapes: list[list[int | None]] = [
        [], [3], [None], [None, 2], [2, None], [None, None], [2, None, 3], [None, 2, None, 2],
        [2, 2, None], [None, None, None], [2, 3],
    ]

    def graph(seed: int) -> Any:
        features = {
            f"f{number}_{dtype.name}": ragged(17 * seed + number, dims, dtype)
            for number, dims in enumerate(shapes)
            for dtype in (tf.string, tf.int64, tf.float32, tf.uint8)
        }
        few = dict(list(features.items())[:12])
        return tfgnn.GraphTensor.from_pieces(
            node_sets={
                "a": tfgnn.NodeSet.from_fields(features=few, sizes=[3]),
                "latent": tfgnn.NodeSet.from_fields(features={}, sizes=[seed]),
            },
            edge_sets={
                "e": tfgnn.EdgeSet.from_fields(
                    features=dict(list(features.items())[12:28]),
                    sizes=[3],
                    adjacency=tfgnn.Adjacency.from_indices(("a", [0, 1, 2]), ("a", [2, 1, 0])),
                )
            },
        )

    graphs = [graph(seed) for seed in range(6)]
    table = packhouse.tfgnn.table(graphs)
    assert_exported_is_read(client, graphs, table)
    limits = {"a": 9, "latent": 20, "e": 9, "graphs": 4}
    constraints = packhouse.tfgnn.size_constraints(table.schema, limits)
    seen = []
    for batch in client.pack([table], PackOptions(limits, Padding.TFGNN)):
        whole = merged([graphs[number] for number in batch.graph_ids])
        theirs, _ = tfgnn.pad_to_total_sizes(whole, constraints)
        assert_same_graph(packhouse.tfgnn.to_graph_tensor(batch), theirs)
        seen += batch.graph_ids.tolist()
    assert sorted(seen) == list(range(6))


@needs_all
@pytest.mark.parametrize("kind", ("molecules", "mag", "ragged", "readout", "dtypes"))
def test_the_library_reads_what_was_stored_as_examples(
    client: Client, shared_data: Callable[[str], pathlib.Path], kind: str
) -> None:
    """Their record, our data set, our record: equal GraphTensors by their schema."""
    schema = tfgnn.read_schema(str(shared_data(f"tfgnn/schemas/{kind}.pbtxt")))
    spec = tfgnn.create_graph_spec_from_schema_pb(schema)
    path = str(shared_data(f"tfgnn/examples/{kind}.tfrecord"))
    records = [record.numpy() for record in tf.data.TFRecordDataset([path])]
    name = f"stored-{next(_numbers)}"
    path = shared_data(f"tfgnn/schemas/{kind}.pbtxt")
    client.datasets.create(name, packhouse.tfgnn.read_schema(path))
    client.datasets.append_examples(name, records)
    tfgnn.enable_graph_tensor_validation_at_runtime()
    try:
        for record, example in zip(records, client.datasets.export_examples(name)):
            theirs = tfgnn.parse_single_example(spec, record)
            assert_same_graph(tfgnn.parse_single_example(spec, example), theirs)
    finally:
        tfgnn.disable_graph_tensor_validation_at_runtime()
    # And our table of their graphs has the schema that the service made.
    if kind != "readout":
        graphs = [tfgnn.parse_single_example(spec, record) for record in records]
        assert packhouse.tfgnn.table(graphs).schema == client.datasets.get(name).schema


def test_minimum_sizes(client: Client, shared_data: Callable[[str], pathlib.Path]) -> None:
    graphs = read_examples(shared_data, "molecules")
    table = packhouse.tfgnn.table(graphs)
    limits = {"atoms": 60, "bonds": 100, "graphs": 7}
    constraints = tfgnn.SizeConstraints(7, {"atoms": 60}, {"bonds": 100}, {"atoms": 2})
    options = PackOptions(
        limits, "tfgnn", min_rows={"atoms": 2}, derived="row_counts", oversize="reject"
    )
    rejected: list[Any] = []
    for batch in client.pack([table], options, rejected.extend):
        theirs, mask = tfgnn.pad_to_total_sizes(
            merged([graphs[number] for number in batch.graph_ids]), constraints
        )
        assert_same_graph(packhouse.tfgnn.to_graph_tensor(batch), theirs)
        np.testing.assert_array_equal(packhouse.tfgnn.mask(batch), mask)
    assert {each.reason for each in rejected} == {"REJECTION_REASON_TOO_SMALL"}


def test_golden_fake_edges(shared_data: Callable[[str], pathlib.Path]) -> None:
    goldens = json.loads(shared_data("tfgnn/padding/fake_edges.json").read_text())
    for case in goldens["cases"]:
        ours = packhouse.tfgnn.fake_ends(case["first"], case["last"], case["count"])
        assert ours.tolist() == case["index"], case
    for case in goldens["large"]:
        ours = packhouse.tfgnn.fake_ends(case["first"], case["last"], case["count"])
        assert zlib.crc32(ours.astype("<i4").tobytes()) == case["crc32_of_int32_le"]


@needs_all
def test_a_tf_data_set_of_one_shape(client: Client, server: LocalServer) -> None:
    """Stored, loaded and trained on: a tf.function is traced once."""
    graphs = [typed_tensor_of(graph) for graph in random_typed(5, 60)]
    dataset = packhouse.tfgnn.ingest(client, "tfgnn/typed", graphs)
    limits = limits_of(packhouse.tfgnn.table(graphs))
    spec = packhouse.tfgnn.graph_tensor_spec(dataset.schema, limits)
    loader = Loader(
        server.address, dataset="tfgnn/typed", job="tfgnn", limits=limits, padding=Padding.TFGNN
    )
    num_traces = 0

    @tf.function
    def total(graph: Any) -> Any:
        nonlocal num_traces
        num_traces += 1
        return tf.reduce_sum(graph.context["y"]), tf.reduce_sum(graph.node_sets["paper"]["x"])

    sums = np.zeros(2)
    for graph, mask in packhouse.tfgnn.to_dataset(lambda: loader, spec, with_mask=True):
        assert graph.spec == spec
        assert mask.shape == (limits["graphs"],)
        sums += [float(part) for part in total(graph)]
    loader.close()
    assert num_traces == 1
    np.testing.assert_allclose(
        sums,
        [
            sum(float(tf.reduce_sum(graph.context["y"])) for graph in graphs),
            sum(float(tf.reduce_sum(graph.node_sets["paper"]["x"])) for graph in graphs),
        ],
        rtol=1e-5,
    )


@needs_all
def test_keras_trains_for_several_epochs(client: Client, server: LocalServer) -> None:
    """Each is another epoch of the loader, with `steps_per_epoch` (and `repeat`) and without."""
    graphs = [typed_tensor_of(graph) for graph in random_typed(7, 40)]
    dataset = packhouse.tfgnn.ingest(client, "tfgnn/keras", graphs)
    limits = limits_of(packhouse.tfgnn.table(graphs))
    spec = packhouse.tfgnn.graph_tensor_spec(dataset.schema, limits)
    for steps in (None, 1):
        settings: dict[str, Any] = {"dataset": "tfgnn/keras", "job": f"keras-{steps}"}
        settings.update(limits=limits, padding=Padding.TFGNN)
        loader = Loader(server.address, **settings)
        num_steps = loader.epoch_info().num_batches
        per_epoch = None if steps is None else num_steps
        seen: list[float] = []
        layer = tf.keras.layers.Dense(1)

        def one(graph: Any, mask: Any) -> Any:
            y = tf.cast(tf.reshape(graph.context["y"], [limits["graphs"], -1])[:, :1], tf.float32)
            return y, y, tf.cast(mask, tf.float32)

        batches = packhouse.tfgnn.to_dataset(lambda: loader, spec, with_mask=True).map(one)
        if steps is not None:
            batches = batches.repeat()
        model = tf.keras.Sequential([tf.keras.Input((1,)), layer])
        model.compile("sgd", "mse")
        count = tf.keras.callbacks.LambdaCallback(
            on_batch_end=lambda step, logs: seen.append(logs["loss"])
        )
        model.fit(batches, epochs=2, steps_per_epoch=per_epoch, verbose=0, callbacks=[count])
        assert len(seen) == 2 * num_steps
        assert loader.epoch == 1
        loader.close()
        # The first is done to its last batch.
        with Loader(server.address, **settings) as again:
            assert again.epoch_info().num_done == num_steps


def test_a_rank_without_graphs_gets_fake_components(client: Client, server: LocalServer) -> None:
    graphs = [tensor_of(graph) for graph in random_plain(9, 10)]
    schema = packhouse.tfgnn.ingest(client, "tfgnn/few", graphs).schema
    settings: dict[str, Any] = {"limits": {"nodes": 200, "edges": 400, "graphs": 16}}
    spec = packhouse.tfgnn.graph_tensor_spec(schema, settings["limits"])
    settings.update(dataset="tfgnn/few", job="few", padding="tfgnn", num_ranks=2)
    counts = []
    for rank in range(2):
        with Loader(server.address, rank=rank, **settings) as loader:
            (batch,) = loader
            assert packhouse.tfgnn.to_graph_tensor(batch).spec == spec
            counts.append(int(packhouse.tfgnn.mask(batch).sum()))
    assert sorted(counts) == [0, 10]


def test_unpadded_batches_have_an_open_spec(client: Client) -> None:
    graphs = [tensor_of(graph) for graph in random_plain(3, 30)]
    table = packhouse.tfgnn.table(graphs)
    spec = packhouse.tfgnn.graph_tensor_spec(table.schema)
    options = PackOptions({"graphs": 8})
    made = list(packhouse.tfgnn.to_dataset(lambda: client.pack([table], options), spec))
    assert sum(int(graph.num_components) for graph in made) == 30


def test_the_sampler_fits_what_is_padded_afterwards(server: LocalServer) -> None:
    graphs = [typed_tensor_of(graph) for graph in random_typed(6, 50)]
    table = packhouse.tfgnn.table(graphs)
    limits = limits_of(table)
    constraints = packhouse.tfgnn.size_constraints(table.schema, limits)
    sampler = packhouse.tfgnn.batch_sampler(server.address, graphs, limits, seed=3)
    seen: list[int] = []
    for numbers in sampler:
        tfgnn.pad_to_total_sizes(merged([graphs[number] for number in numbers]), constraints)
        seen += numbers
    assert sorted(seen) == list(range(50))


def test_what_cannot_be_sent_is_named() -> None:
    def with_feature(value: Any) -> Any:
        return tfgnn.GraphTensor.from_pieces(
            node_sets={"a": tfgnn.NodeSet.from_fields(features={"f": value}, sizes=[2])}
        )

    with pytest.raises(ValueError, match="GraphTensor 1 has int32 .* 'a.f', GraphTensor 0 has float32"):
        graphs = [with_feature(tf.zeros([2])), with_feature(tf.zeros([2], tf.int32))]
        packhouse.tfgnn.table(graphs)
    with pytest.raises(ValueError, match=r"GraphTensor 1 has .* shape \[4\] .* in tensor 'a.f'"):
        packhouse.tfgnn.table([with_feature(tf.zeros([2, 3])), with_feature(tf.zeros([2, 4]))])
    with pytest.raises(ValueError, match="GraphTensor 0 has 'a', which GraphTensor 1 lacks"):
        other = tfgnn.GraphTensor.from_pieces(node_sets={"b": tfgnn.NodeSet.from_fields(sizes=[2])})
        packhouse.tfgnn.table([with_feature(tf.zeros([2])), other])
    hyper = tfgnn.GraphTensor.from_pieces(
        node_sets={"a": tfgnn.NodeSet.from_fields(sizes=[2])},
        edge_sets={
            "h": tfgnn.EdgeSet.from_fields(
                sizes=[1],
                adjacency=tfgnn.HyperAdjacency.from_indices(
                    {0: ("a", tf.constant([0])), 1: ("a", tf.constant([1])), 2: ("a", tf.constant([1]))}
                ),
            )
        },
    )
    # Also where only the number of elements tells how many rows there are.
    no_lengths = tf.RaggedTensor.from_uniform_row_length(
        tf.RaggedTensor.from_row_lengths(tf.zeros([0]), tf.zeros([0], tf.int32)), 0, nrows=2
    )
    for empty in (
        tf.zeros([2, 0]), tf.zeros([2, 3, 0], tf.string), tf.zeros([2, 0, 3], tf.string), no_lengths
    ):
        with pytest.raises(ValueError, match="GraphTensor 0: feature 'a.f': its rows have no elem"):
            packhouse.tfgnn.table([with_feature(empty)])
    with pytest.raises(ValueError, match="edge set 'h' has a HyperAdjacency"):
        packhouse.tfgnn.table([hyper])
    rows = tf.RaggedTensor.from_row_lengths(tf.zeros([2], tf.uint8), tf.constant([1, 1]))
    named = tfgnn.NodeSet.from_fields(features={"f.bytes": rows}, sizes=[2])
    with pytest.raises(ValueError, match="feature 'f.bytes' of 'a': a batch would have it under anot"):
        packhouse.tfgnn.table([tfgnn.GraphTensor.from_pieces(node_sets={"a": named})])
    counted = tfgnn.NodeSet.from_fields(sizes=[2])
    with pytest.raises(ValueError, match="node set 'edges': a batch would not have it: rename it"):
        packhouse.tfgnn.table([tfgnn.GraphTensor.from_pieces(node_sets={"edges": counted})])
    nodes = {
        name: tfgnn.NodeSet.from_fields(features={feature: tf.zeros([2])}, sizes=[2])
        for name, feature in (("a", "b.c"), ("a.b", "c"))
    }
    with pytest.raises(ValueError, match="two features are called 'a.b.c'"):
        packhouse.tfgnn.table([tfgnn.GraphTensor.from_pieces(node_sets=nodes)])
    with pytest.raises(ValueError, match="no graph"):
        packhouse.tfgnn.table([])
