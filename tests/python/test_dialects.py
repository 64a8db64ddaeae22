"""What needs no framework: the layout table, and that none is imported before it is used."""

from __future__ import annotations

import copy
import pathlib
import pickle
import re
import subprocess
import sys
import types
import warnings
from typing import Any, Iterator, NamedTuple

import grpc
import numpy as np
import pytest

from reference_collation import batch_message

from packhouse import (
    DType,
    GraphSchema,
    GraphTable,
    OversizePolicy,
    OversizeWarning,
    PackOptions,
    TensorSpec,
)
from packhouse.base.errors import PackhouseError
from packhouse.data.batch import Batch, Padding
from packhouse.data.reading import HAS_NATIVE, repeated_numbers
from packhouse.frameworks import batch_sampler, jraph as jraph_dialect
from packhouse.frameworks.batch_sampler import BatchSampler
from packhouse.frameworks.layout import RESERVED, Layout
from packhouse.frameworks.pyg.joining import LazyDict
from packhouse.frameworks.tfgnn import datasets as tfgnn_datasets
from packhouse.planning.pack_options import Rejection
from packhouse.v1 import packing_pb2


def index(name: str, component: str, into: str, shape: tuple[int, ...] = ()) -> TensorSpec:
    return TensorSpec(name, DType.INT32, component, shape, index_into=into)


@pytest.mark.parametrize("dialect", ["pyg", "jraph", "dgl", "tfgnn"])
def test_no_framework_is_imported_before_it_is_used(dialect: str) -> None:
    program = f"""
import sys, packhouse.{dialect}
frameworks = {{"torch", "torch_geometric", "jax", "jraph", "dgl", "tensorflow", "tensorflow_gnn"}}
loaded = frameworks & set(sys.modules)
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("page", ["pyg.md", "dgl.md"])
def test_each_reserved_name_is_on_the_page(page: str) -> None:
    pages = pathlib.Path(__file__).parents[2] / "docs" / "frameworks"
    (reserving,) = re.findall(r"[^.:]*`lease`[^.:]*", (pages / page).read_text())
    named = re.findall(r"`([a-z_#]+)`", reserving)
    assert set(named) >= RESERVED, page


def test_roles_follow_from_names() -> None:
    schema = GraphSchema(
        ("paper", "author", "author.writes.paper", "cites", "paper.tags", "faces"),
        (
            TensorSpec("paper.x", DType.FLOAT32, "paper", (4,)),
            index("author.writes.paper.source", "author.writes.paper", "author"),
            index("author.writes.paper.target", "author.writes.paper", "paper"),
            index("edge_index", "cites", "paper", (2,)),
            TensorSpec("cites.weight", DType.FLOAT32, "cites"),
            TensorSpec("paper.tags", DType.INT8, "paper.tags"),
            index("faces", "faces", "paper", (3,)),
            TensorSpec("y", DType.FLOAT32, "graphs"),
        ),
    )
    layout = Layout.of(schema)
    assert list(layout.node_sets) == ["paper", "author"]
    assert list(layout.edge_sets) == ["author.writes.paper", "cites"]
    writes, cites = layout.edge_sets.values()
    assert (writes.source, writes.relation, writes.target) == ("author", "writes", "paper")
    assert (cites.source, cites.relation, cites.target) == ("paper", "cites", "paper")
    assert cites.ends.are_joined and not writes.ends.are_joined
    assert list(layout.node_sets["paper"].features) == ["x"]
    assert list(cites.features) == ["weight"] and list(layout.graphs.features) == ["y"]
    tags, faces = layout.attributes["paper.tags"], layout.attributes["faces"]
    assert (tags.owner, tags.name, faces.owner, faces.name) == ("paper", "tags", "graphs", "faces")
    assert not layout.is_homogeneous
    assert Layout.of(schema) is layout


def test_edges_without_tensors_are_counted() -> None:
    nodes = TensorSpec("x", "float32", "nodes")
    layout = Layout.of(GraphSchema(("nodes", "edges"), (nodes,)))
    assert layout.counts_edges and layout.is_homogeneous
    assert list(layout.node_sets) == ["nodes"] and not layout.edge_sets
    for more in (
        TensorSpec("weight", "float32", "edges"),
        TensorSpec("next", "int32", "nodes", index_into="edges"),
    ):
        layout = Layout.of(GraphSchema(("nodes", "edges"), (nodes, more)))
        assert layout.counts_edges == (more.name == "next")
    assert not Layout.of(GraphSchema(("nodes", "other"), (nodes,))).counts_edges


def test_counts_of_masks_are_no_rows_of_a_graph() -> None:
    specs = (
        TensorSpec("x", "float32", "nodes"),
        index("edge_index", "edges", "nodes", (2,)),
        TensorSpec("train", "bool", "nodes"),
        TensorSpec("splits", "bool", "nodes", (10,)),
        TensorSpec("z", "int8", "nodes"),
    )
    layout = Layout.of(GraphSchema(("nodes", "edges", "train"), specs))
    assert layout.is_homogeneous and not layout.attributes
    assert list(layout.node_sets["nodes"].features) == ["x", "train", "splits", "z"]
    # What is called as a tensor that is no mask, or as none, or has rows of its own, is a set.
    for name in ("splits", "z", "other"):
        assert name in Layout.of(GraphSchema(("nodes", "edges", name), specs)).node_sets
    more = TensorSpec("train.y", "int8", "train")
    assert "train" in Layout.of(GraphSchema(("nodes", "edges", "train"), (*specs, more))).node_sets


@pytest.mark.parametrize(
    "ends", [("source", "target"), ("senders", "receivers"), ("src", "dst"), ("row", "col")]
)
def test_ends_have_the_names_that_are_usual(ends: tuple[str, str]) -> None:
    specs = [index(name, "edges", "nodes") for name in ends]
    layout = Layout.of(GraphSchema(("nodes", "edges"), specs))
    assert layout.is_homogeneous
    assert not layout.edge_sets["edges"].features


def test_joined_ends_are_found_in_either_layout() -> None:
    ends = np.array([[0, 1, 2], [3, 4, 5]])
    for layout in ("rows_first", "rows_last"):
        spec = TensorSpec("edge_index", DType.INT32, "edges", (2,), "nodes", layout=layout)
        (edges,) = Layout.of(GraphSchema(("nodes", "edges"), (spec,))).edge_sets.values()
        column = ends if layout == "rows_last" else ends.T
        source, target = edges.ends.of({"edge_index": column})
        assert source.tolist() == [0, 1, 2] and target.tolist() == [3, 4, 5]
        assert np.shares_memory(source, ends)


def test_two_tensors_of_one_meaning_are_refused() -> None:
    specs = [TensorSpec(name, DType.INT8, "nodes") for name in ("x", "nodes.x")]
    with pytest.raises(ValueError, match="'x' and 'nodes.x' have one meaning"):
        Layout.of(GraphSchema(("nodes",), specs))


def test_a_sampler_refuses_what_it_cannot_know() -> None:
    with pytest.raises(ValueError, match=r"sizes has shape \(3,\), needs \(n, 2\)"):
        BatchSampler("nowhere", [1, 2, 3], {"nodes": 8})
    with pytest.raises(ValueError, match="rank 2 of 2 ranks"):
        BatchSampler("nowhere", np.zeros((3, 2), int), {"nodes": 8}, rank=2, num_ranks=2)


def test_a_sampler_tells_of_an_epoch_that_it_gives_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass after one that has ended, shuffled or without its first batches; not one after a loop
    that was left, after set_epoch, or in an order that is the same in all epochs.
    """
    monkeypatch.setattr(batch_sampler, "_ask", lambda question: ([[0, 2], [1]], []))

    def sampler(shuffle: bool) -> BatchSampler:
        return BatchSampler("nowhere", np.zeros((3, 2), int), {"nodes": 8}, shuffle=shuffle)

    with warnings.catch_warnings():
        warnings.simplefilter("error", batch_sampler.RepeatedEpochWarning)
        shuffled = sampler(True)
        next(iter(shuffled))
        assert list(shuffled) == [[0, 2], [1]]
        shuffled.set_epoch(0)
        assert list(shuffled) == [[0, 2], [1]]
        shuffled.set_epoch(1)
        before = iter(shuffled)
        shuffled.set_epoch(2)
        assert list(before) == [[0, 2], [1]] == list(shuffled)
        in_order = sampler(False)
        assert list(in_order) == list(in_order)
    with pytest.warns(batch_sampler.RepeatedEpochWarning, match="epoch 2 .*: call set_epoch"):
        assert list(shuffled) == [[0, 2], [1]]
    in_order.set_epoch(0, first_batch=1)
    assert list(in_order) == [[1]]
    with pytest.warns(batch_sampler.RepeatedEpochWarning, match="without its first 1: call set_"):
        assert list(in_order) == [[1]]


def asked_for(
    monkeypatch: pytest.MonkeyPatch, batches: list[list[int]], rejections: Any = ()
) -> list[Any]:
    """The questions of samplers, each of which has these batches as its answer."""
    asked: list[Any] = []

    def ask(question: Any) -> Any:
        asked.append(question)
        return batches, list(rejections)

    monkeypatch.setattr(batch_sampler, "_ask", ask)
    return asked


SIZES = np.arange(20).reshape(10, 2)


def test_ranks_of_a_sampler_have_as_many_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    def shares(num_batches: int, num_ranks: int, drop_last: bool = False) -> list[list[int]]:
        asked_for(monkeypatch, [[number] for number in range(num_batches)])
        made = []
        for rank in range(num_ranks):
            sampler = BatchSampler(
                "nowhere", SIZES, {"nodes": 99}, rank=rank, num_ranks=num_ranks, drop_last=drop_last
            )
            batches = list(sampler)
            assert len(sampler) == len(batches)
            sampler.set_epoch(0, first_batch=1)
            assert list(sampler) == batches[1:] and len(sampler) == max(0, len(batches) - 1)
            sampler.set_epoch(0, first_batch=50)
            assert len(sampler) == 0 and not list(sampler)
            made.append([number for batch in batches for number in batch])
        return made

    assert shares(5, 1) == shares(5, 1, drop_last=True) == [[0, 1, 2, 3, 4]]
    assert shares(5, 2) == [[0, 2, 4], [1, 3, 0]]
    assert shares(4, 2) == shares(4, 2, drop_last=True) == [[0, 2], [1, 3]]
    assert shares(5, 2, drop_last=True) == [[0, 2], [1, 3]]
    assert shares(5, 3) == [[0, 3], [1, 4], [2, 0]]
    assert shares(2, 5) == [[0], [1], [0], [1], [0]]
    assert shares(1, 2, drop_last=True) == [[], []]


def test_a_sampler_asks_once_an_epoch_for_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asked_for(monkeypatch, [[3], [1]])
    options: dict[str, Any] = {"padding": Padding.GRAPH, "look_ahead": 7, "timeout": 5.0}
    sampler = BatchSampler("there", SIZES, {"atoms": 9}, components=("atoms", "b"), seed=3, **options)
    assert len(sampler) == 2 and list(sampler) == [[3], [1]] and sampler.epoch == 0
    (first,) = asked
    assert (first.address, first.components, first.timeout) == ("there", ("atoms", "b"), 5.0)
    assert first.options == PackOptions({"atoms": 9}, Padding.GRAPH, look_ahead=7)
    assert sorted(first.numbers.tolist()) == list(range(10)) != first.numbers.tolist()
    assert first.sizes.tolist() == SIZES[first.numbers.astype(int)].tolist()
    sampler.set_epoch(1)
    assert len(sampler) == 2 and sampler.epoch == 1 and len(asked) == 2
    assert asked[1].numbers.tolist() != first.numbers.tolist()
    # Another process of the same seed has the same epochs, of another seed others.
    for seed, is_same in ((3, True), (4, False)):
        len(BatchSampler("there", SIZES, {"nodes": 9}, seed=seed))
        assert (asked[-1].numbers.tolist() == first.numbers.tolist()) == is_same
    in_order = BatchSampler("there", SIZES, {"nodes": 9}, shuffle=False)
    len(in_order)
    assert asked[-1].numbers.tolist() == list(range(10)) and asked[-1].timeout == 60
    assert asked[-1].options == PackOptions({"nodes": 9}, oversize=OversizePolicy.ERROR)
    with pytest.raises(ValueError, match="rank 1 of 1 ranks"):
        BatchSampler("there", SIZES, {"nodes": 9}, rank=1)


def test_a_sampler_tells_of_graphs_that_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    message = packing_pb2.Rejection(
        graph_id=3, reason=packing_pb2.REJECTION_REASON_TOO_LARGE, component="nodes", value=9, bound=8
    )
    asked_for(monkeypatch, [[0]], [Rejection.from_proto(message)] * 2)
    sampler = BatchSampler("there", SIZES, {"nodes": 8}, oversize=OversizePolicy.REJECT)
    sampler.set_epoch(4)
    with pytest.warns(OversizeWarning, match="epoch 4.* 2 .*graph 3 has 9 nodes, at most 8"):
        assert list(sampler) == [[0]]


def test_what_packs_for_a_sampler_and_fails_says_why(tmp_path: pathlib.Path) -> None:
    question = batch_sampler._Question(
        f"unix:{tmp_path}/nobody", np.zeros(0, np.uint64), np.zeros((0, 2), np.uint32),
        ("nodes", "edges"), PackOptions({"nodes": 8}), 0.2,
    )  # fmt: skip
    with pytest.raises(PackhouseError, match="nobody") as raised:
        batch_sampler._ask(question)
    assert raised.value.code is grpc.StatusCode.UNAVAILABLE
    with pytest.raises(PackhouseError, match="the process that packs ended with status 1") as raised:
        batch_sampler._ask(question._replace(address=7))  # type: ignore[arg-type]
    assert raised.value.code is grpc.StatusCode.UNKNOWN


def test_the_layout_is_kept_for_the_schema_it_was_read_of() -> None:
    """Schemas come and go. A later schema at the same address has its own layout."""
    for number in range(300):
        schema = GraphSchema((f"nodes{number}",), [TensorSpec("x", DType.INT8, f"nodes{number}")])
        assert list(Layout.of(schema).node_sets) == [f"nodes{number}"]


IS_NATIVE = [False, *([True] if HAS_NATIVE else [])]


@pytest.mark.parametrize("is_native", IS_NATIVE)
@pytest.mark.parametrize("seed", range(20))
def test_repeated_numbers_are_numpys(
    is_native: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("packhouse.data.reading._IS_NATIVE", is_native)
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 5, size=int(rng.integers(0, 40)))
    numbers = repeated_numbers(counts)
    assert numbers.dtype == np.int64 and numbers.flags.writeable and numbers.flags.aligned
    assert numbers.tolist() == [i for i, count in enumerate(counts) for _ in range(count)]


@pytest.mark.parametrize("is_native", IS_NATIVE)
def test_counts_below_zero_are_refused(
    is_native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("packhouse.data.reading._IS_NATIVE", is_native)
    with pytest.raises(ValueError):
        repeated_numbers(np.array([1, -1, 3]))


@pytest.mark.skipif(not HAS_NATIVE, reason="the native reader was not built")
def test_counts_that_no_memory_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("packhouse.data.reading._IS_NATIVE", True)
    for counts in ([1 << 62], [(1 << 63) - 1, 1], [1 << 58] * 2):
        with pytest.raises((ValueError, MemoryError)):
            repeated_numbers(np.array(counts))


def test_a_lazy_dict_is_made_once_and_by_whatever_looks_into_it() -> None:
    made: list[int] = []

    def make() -> dict[str, int]:
        made.append(1)
        return {"x": 1, "y": 2}

    plain = {"x": 1, "y": 2}
    looks: dict[str, tuple[Any, Any]] = {
        "item": (lambda lazy: lazy["y"], 2),
        "in": (lambda lazy: "x" in lazy, True),
        "length": (len, 2),
        "true": (bool, True),
        "iterated": (list, ["x", "y"]),
        "keys": (lambda lazy: list(lazy.keys()), ["x", "y"]),
        "values": (lambda lazy: list(lazy.values()), [1, 2]),
        "items": (lambda lazy: list(lazy.items()), [("x", 1), ("y", 2)]),
        "get": (lambda lazy: (lazy.get("x"), lazy.get("z", 3)), (1, 3)),
        "equal": (lambda lazy: (lazy == plain, plain == lazy, lazy != plain), (True, True, False)),
        "as a dict": (dict, plain),
        "merged": (lambda lazy: {**lazy}, plain),
        "copied": (lambda lazy: lazy.copy(), plain),
        "copied by copy": (copy.copy, plain),
        "deep": (copy.deepcopy, plain),
        "pickled": (lambda lazy: pickle.loads(pickle.dumps(lazy)), plain),
        "shown": (repr, repr(plain)),
    }
    for name, (look, expected) in looks.items():
        made.clear()
        lazy = LazyDict(make)
        assert not made
        assert look(lazy) == expected, name
        assert look(lazy) == expected, name
        assert made == [1], name
    lazy = LazyDict(make)
    with pytest.raises(KeyError):
        lazy["z"]
    lazy["z"] = 3
    del lazy["x"]
    assert lazy.pop("y") == 2 and lazy == {"z": 3}


def test_edges_with_more_than_two_ends_are_named() -> None:
    class HyperAdjacency:
        """As TF-GNN's, as far as it is looked at."""

    def sizes(count: int) -> types.SimpleNamespace:
        return types.SimpleNamespace(numpy=lambda: np.array([count]))

    graph = types.SimpleNamespace(
        rank=0,
        num_components=1,
        context=types.SimpleNamespace(features={}),
        node_sets={"a": types.SimpleNamespace(sizes=sizes(2), features={})},
        edge_sets={
            "h": types.SimpleNamespace(sizes=sizes(1), features={}, adjacency=HyperAdjacency())
        },
    )
    with pytest.raises(ValueError, match="edge set 'h' has a HyperAdjacency: edges must have one"):
        tfgnn_datasets.table([graph])


class GraphsTuple(NamedTuple):
    """As jraph's."""

    nodes: Any
    edges: Any
    receivers: Any
    senders: Any
    globals: Any
    n_node: Any
    n_edge: Any


@pytest.fixture
def jraph(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The dialect beside a double of jraph."""
    module: Any = types.ModuleType("jraph")
    module.GraphsTuple = GraphsTuple
    monkeypatch.setitem(sys.modules, "jraph", module)
    jraph_dialect._graphs_tuple.cache_clear()
    yield jraph_dialect
    jraph_dialect._graphs_tuple.cache_clear()


ONE = GraphsTuple(
    nodes={"x": np.array([[1], [2]], "f4"), "h": np.array([3, 4], "i2")},
    edges=np.array([5], "i1"),
    receivers=[1],
    senders=[0],
    globals={"y": np.array([0.5], "f4")},
    n_node=np.array([2]),
    n_edge=np.array([1]),
)
# Two graphs, of one node and of two.
TWO = GraphsTuple(
    nodes={"h": np.array([6, 7, 8], "i2"), "x": np.array([[3], [4], [5]], "f4")},
    edges=np.array([9, 10], "i1"),
    receivers=[0, 1],
    senders=[0, 2],
    globals={"y": np.array([1.5, 2.5], "f4")},
    n_node=np.array([1, 2]),
    n_edge=np.array([1, 1]),
)


def batch_of(table: GraphTable, limits: dict[str, int], padding: Padding = Padding.GRAPH) -> Batch:
    return Batch.from_proto(batch_message(table, limits, padding), table.schema)


def as_lists(graph: Any) -> Any:
    return [
        {name: array.tolist() for name, array in field.items()}
        if isinstance(field, dict)
        else field if field is None else field.tolist()
        for field in graph
    ]  # fmt: skip


def test_jraphs_graphs_are_joined_and_padded_as_it_does(jraph: Any) -> None:
    table = jraph.table([ONE, TWO], first_id=4)
    assert table.graph_ids.tolist() == [4, 5, 6]
    assert [spec.name for spec in table.schema.tensors] == [
        *("h", "x", "edges", "y", "senders", "receivers")
    ]
    assert table.sizes.tolist() == [[2, 1], [1, 1], [2, 1]]
    assert table.tensors["senders"].tolist() == [0, 0, 1]
    assert table.tensors["receivers"].tolist() == [1, 0, 0]
    parts = list(jraph.tables([ONE, TWO], tuples_per_table=1))
    assert [len(part) for part in parts] == [1, 2]
    assert GraphTable.concatenate(parts).equals(jraph.table([ONE, TWO]))

    batch = batch_of(table, {"nodes": 8, "edges": 5, "graphs": 5})
    padded = jraph.to_graphs_tuple(batch)
    assert as_lists(padded) == [
        {"h": [3, 4, 6, 7, 8, 0, 0, 0], "x": [[1], [2], [3], [4], [5], [0], [0], [0]]},
        [5, 9, 10, 0, 0],
        [1, 2, 3, 5, 5],
        [0, 2, 4, 5, 5],
        {"y": [0.5, 1.5, 2.5, 0, 0]},
        [2, 1, 2, 3, 0],
        [1, 1, 1, 2, 0],
    ]
    assert all(array.dtype == np.int32 for array in (*padded[2:4], *padded[5:]))
    real = jraph.to_graphs_tuple(batch, padding=False)
    assert as_lists(real) == [
        {"h": [3, 4, 6, 7, 8], "x": [[1], [2], [3], [4], [5]]},
        [5, 9, 10], [1, 2, 3], [0, 2, 4], {"y": [0.5, 1.5, 2.5]}, [2, 1, 2], [1, 1, 1],
    ]  # fmt: skip
    assert jraph.table([real], first_id=4).equals(table)
    assert as_lists(jraph.masks(batch)) == [
        [True] * 5 + [False] * 3, [True] * 3 + [False] * 2, [True] * 3 + [False] * 2
    ]  # fmt: skip
    chosen = jraph.to_graphs_tuple(batch, padding=False, nodes="h", globals="y")
    assert as_lists(chosen)[0] == [3, 4, 6, 7, 8] and as_lists(chosen)[4] == [0.5, 1.5, 2.5]
    with pytest.raises(KeyError, match=r"edges='z': the tensors there are \['edges'\]"):
        jraph.to_graphs_tuple(batch, edges="z")
    with pytest.raises(ValueError, match="no padding graph to hold them"):
        full = {"nodes": 8, "edges": 5, "graphs": 3}
        jraph.to_graphs_tuple(batch_of(table, full, Padding.MASKED))


def test_what_a_batch_has_not_is_none_in_jraphs_graph(jraph: Any) -> None:
    nodes = GraphTable(GraphSchema(("nodes",)), [[2], [1]])
    batch = batch_of(nodes, {"nodes": 4, "graphs": 3})
    assert as_lists(jraph.to_graphs_tuple(batch)) == [
        None, None, [], [], None, [2, 1, 1], [0, 0, 0]
    ]  # fmt: skip
    assert as_lists(jraph.masks(batch)) == [[True] * 3 + [False], [], [True, True, False]]
    faces = GraphSchema(("nodes", "faces"), (index("faces", "faces", "nodes", (3,)),))
    none = GraphTable(faces, [[2, 0]], {"faces": []})
    with pytest.raises(ValueError, match="^jraph has no place for rows of 'faces'$"):
        jraph.to_graphs_tuple(batch_of(none, {}, Padding.NONE))
    shared = ONE._replace(nodes={"f": np.zeros(2)}, edges={"f": np.zeros(1), "nodes.g": np.ones(1)})
    names = [spec.name for spec in jraph.table([shared]).schema.tensors]
    assert names == ["nodes.f", "edges.f", "edges.nodes.g", "y", "senders", "receivers"]
    alone = ONE._replace(edges=None, senders=None, receivers=None, n_edge=[0])
    assert jraph.table([alone]).sizes.tolist() == [[2, 0]]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"edges": {}}, "'edges': an empty dict would come back as None: give None"),
        ({"nodes": {1: np.zeros(2)}}, "nodes: the key 1 is no text"),
        ({"nodes": {"x": None}}, "nodes: 'x' is None, which cannot be sent"),
        ({"nodes": {"x": [1, 2]}}, "nodes: 'x' is a nest; only arrays and dicts of them"),
        ({"nodes": {"senders": np.zeros(2)}}, "nodes: a feature cannot be called 'senders', nor"),
        ({"nodes": np.zeros(3)}, r"nodes: 'nodes' has the shape \(3,\), and there are 2 nodes"),
        ({"globals": np.float32(1)}, r"graphs: 'globals' has the shape \(\), and there are 1 graphs"),
        ({"nodes": np.zeros(2, complex)}, "nodes: 'nodes': dtype complex128 cannot be sent"),
        ({"senders": [0, 1]}, "'senders': there are 2, and n_edge tells of 1 edges"),
        ({"receivers": [0.5]}, "'receivers': float64 are no whole numbers"),
        ({"n_node": np.array([[2]])}, r"'n_node' has the shape \(1, 1\), not \(n,\)"),
    ],
)
def test_what_jraphs_graphs_cannot_have_is_named(
    jraph: Any, fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        jraph.table([ONE._replace(**fields)])


def test_one_graph_of_jraph_is_not_several(jraph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for take in (jraph.table, jraph.tables, jraph.batches):
        with pytest.raises(TypeError, match="^graphs: it is one GraphsTuple, not several: give a"):
            take(ONE)
    with pytest.raises(ValueError, match="^graphs: there is no graph$"):
        jraph.batches([])
    asked = asked_for(monkeypatch, [[0], [1]])
    sampler = jraph.batch_sampler("there", [ONE, TWO], {"nodes": 9}, shuffle=False)
    assert list(sampler) == [[0], [1]] and asked[0].sizes.tolist() == [[2, 1], [3, 2]]
