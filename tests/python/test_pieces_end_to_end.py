"""Graphs beyond the limits, cut into pieces by a real server, and put together again."""

from __future__ import annotations

import grpc
import numpy as np
import pytest

from packhouse import (
    Client,
    GraphSchema,
    GraphTable,
    Layout,
    Loader,
    LocalServer,
    PackhouseError,
    PackOptions,
    TensorSpec,
    join_pieces,
)

SCHEMA = GraphSchema(
    ("nodes", "edges", "nodes.tags"),
    (
        TensorSpec("x", "float32", "nodes", (3,)),
        TensorSpec(
            "edge_index", "int64", "edges", (2,), index_into="nodes", layout=Layout.ROWS_LAST
        ),
        TensorSpec("nodes.tags.d1", "int32", "nodes"),
        TensorSpec("nodes.tags", "uint8", "nodes.tags"),
        TensorSpec("y", "int64", "graphs"),
    ),
)
LIMITS = {"nodes": 80, "edges": 200, "nodes.tags": 150, "graphs": 8}


def a_graph(random: np.random.Generator, nodes: int) -> dict[str, np.ndarray]:
    sources = random.integers(0, nodes, 3 * nodes)
    tags = random.integers(0, 3, nodes)
    return {
        "x": random.random((nodes, 3), np.float32),
        "edge_index": np.stack([sources, (sources + random.integers(0, 5, len(sources))) % nodes]),
        "nodes.tags.d1": tags,
        "nodes.tags": random.integers(0, 255, tags.sum()),
        "y": np.array([nodes]),
    }


@pytest.fixture(scope="module")
def table() -> GraphTable:
    random = np.random.default_rng(5)
    sizes = [20, 900, 33, 300, 5, 1]
    return GraphTable.from_graphs(SCHEMA, [a_graph(random, n) for n in sizes], first_id=100)


def check(parts: list[GraphTable], table: GraphTable) -> None:
    for part in parts:
        assert (part.sizes <= [LIMITS[name] for name in SCHEMA.components]).all()
    whole = join_pieces(parts)
    assert whole.schema == table.schema
    order = np.argsort(whole.graph_ids)
    assert whole.graph_ids[order].tolist() == table.graph_ids.tolist()
    assert whole.sizes[order].tolist() == table.sizes.tolist()
    again = GraphTable.from_graphs(SCHEMA, [tensors_of(whole, i) for i in order], first_id=100)
    for name, column in table.tensors.items():
        assert np.array_equal(again.tensors[name], column), name


def tensors_of(table: GraphTable, i: int) -> dict[str, np.ndarray]:
    ends = {
        name: np.concatenate([[0], np.cumsum(table.sizes[:, k], dtype=np.int64)])
        for k, name in enumerate(SCHEMA.components)
    }
    ends["graphs"] = np.arange(len(table.sizes) + 1)
    return {
        spec.name: table.tensors[spec.name][..., slice(*ends[spec.component][i : i + 2])]
        if spec.name == "edge_index"
        else table.tensors[spec.name][slice(*ends[spec.component][i : i + 2])]
        for spec in SCHEMA.tensors
    }


def test_a_stream_cuts_what_no_batch_takes(client: Client, table: GraphTable) -> None:
    options = PackOptions(LIMITS, padding="graph", oversize="partition")
    with client.pack([table], options) as stream:
        batches = list(stream)
        assert not stream.rejections
    parts = [batch.unbatch() for batch in batches]
    check(parts, table)
    pieces = sum(len(part.graph_ids) for part in parts)
    # Of the largest 12 and 5 at the least, and some for the halo.
    assert 4 + 12 + 5 <= pieces <= 4 + 2 * (12 + 5)
    inner = sum(part.tensors["nodes.#inner"].sum() for part in parts)
    assert inner == table.sizes[:, 0].sum()
    with pytest.raises(ValueError, match="piece 0 of .* is missing"):
        join_pieces([parts[-1]] if parts[-1].tensors["#piece"][0] else parts[1:])


def test_what_cannot_be_cut_is_named(client: Client) -> None:
    random = np.random.default_rng(5)
    table = GraphTable.from_graphs(SCHEMA, [a_graph(random, 9)], first_id=7)
    limits = {**LIMITS, "nodes": 1, "edges": 1}
    options = PackOptions(limits, oversize="partition")
    with client.pack([table], options) as stream:
        with pytest.warns(match="1 graphs"):
            assert not list(stream)
        assert [rejection.graph_id for rejection in stream.rejections] == [7]
    for arguments, words in (
        ({"max_rows": {}}, "needs max_rows"),
        ({"max_rows": {"nodes": 9}, "grouped": True}, "grouped"),
    ):
        with pytest.raises(PackhouseError, match=words) as raised:
            client.datasets.create(
                "pieces/no", SCHEMA, oversize="partition", **arguments  # type: ignore[arg-type]
            )
        assert raised.value.code is grpc.StatusCode.INVALID_ARGUMENT


def test_an_epoch_has_each_piece_once(
    server: LocalServer, client: Client, table: GraphTable
) -> None:
    client.datasets.create("pieces/whole", SCHEMA)
    client.datasets.append("pieces/whole", table)
    client.datasets.seal("pieces/whole")
    loader = Loader(
        server.address,
        job="pieces",
        dataset="pieces/whole",
        limits=LIMITS,
        padding="graph",
        oversize="partition",
    )
    orders = []
    for epoch in range(2):
        loader.set_epoch(epoch)
        batches = list(loader)
        check([batch.unbatch() for batch in batches], table)
        orders.append([batch.graph_ids.tolist() for batch in batches])
    assert orders[0] != orders[1]
    info = loader.epoch_info()
    assert info.num_cut_graphs == 2 and info.num_rejected == 0
    assert info.num_graphs == info.num_pieces + 4
    loader.close()


def test_an_append_stores_pieces(server: LocalServer, client: Client, table: GraphTable) -> None:
    max_rows = {name: LIMITS[name] for name in SCHEMA.components}
    made = client.datasets.create("pieces/cut", SCHEMA, max_rows=max_rows, oversize="partition")
    assert "nodes.#row" in [tensor.name for tensor in made.schema.tensors]
    client.datasets.append("pieces/cut", table)
    sealed = client.datasets.seal("pieces/cut")
    assert sealed.num_graphs > len(table.graph_ids)
    loader = Loader(
        server.address, job="cut", dataset="pieces/cut", limits={**LIMITS, "graphs": 4}
    )
    check([batch.unbatch() for batch in loader], table)
    loader.close()
