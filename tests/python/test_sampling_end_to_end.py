"""Sub-graphs from a real server: streams, data sets and epochs of them, through kills."""

from __future__ import annotations

import itertools
from typing import Any

import grpc
import numpy as np
import pytest

from packhouse import (
    Client,
    Loader,
    LocalServer,
    PackhouseError,
    PackOptions,
    Samples,
    Seeds,
    SourceColumn,
    SourceEdgeSet,
    SourceGraphSchema,
    SourceNodeSet,
    SubGraphs,
)
from packhouse.source_graph_rows import EdgeRows, NodeRows

NODES = 700
LIMITS = {"e": 96, "n": 80, "graphs": 24}
SPEC = """
seed_op { op_name: "seed" node_set_name: "n" }
sampling_ops {
  op_name: "a" input_op_names: "seed" edge_set_name: "e" sample_size: 4 strategy: RANDOM_UNIFORM
}
sampling_ops {
  op_name: "b" input_op_names: "a" edge_set_name: "e" sample_size: 3 strategy: RANDOM_UNIFORM
}
"""


def make_graph(client: Client, name: str) -> None:
    random = np.random.default_rng(0)
    degrees = np.arange(NODES) % 11
    schema = SourceGraphSchema(
        (SourceNodeSet("n", (SourceColumn("x", "float32", (2,)),)),),
        (SourceEdgeSet("e", "n", "n"),),
    )
    client.source_graphs.create(name, schema)
    ids = np.arange(NODES)
    x = np.stack([ids, np.ones(NODES)], axis=1).astype(np.float32)
    sources = np.repeat(ids, degrees)
    targets = random.integers(0, NODES, len(sources))
    rows: list[Any] = [NodeRows("n", ids, {"x": x}), EdgeRows("e", sources, targets)]
    client.source_graphs.append(name, rows)
    client.source_graphs.seal(name)


def key_of(batch: Any) -> bytes:
    return b"".join(np.ascontiguousarray(tensor).tobytes() for tensor in batch.tensors.values())


def test_streams_estimates_and_data_sets(server: LocalServer, client: Client) -> None:
    make_graph(client, "sampling/g")
    sub_graphs = SubGraphs("sampling/g", SPEC)
    estimate = client.estimate_sizes(sub_graphs, num_graphs=300, histogram="sampling/sizes")
    assert estimate.histogram.num_graphs == 300
    assert client.get_histogram("sampling/sizes").totals == estimate.histogram.totals
    options = PackOptions(limits=LIMITS, padding="masked")
    with client.sample(sub_graphs, np.arange(NODES), options) as stream:
        batches = list(stream)
    ids = np.concatenate([batch.graph_ids for batch in batches])
    assert sorted(ids.tolist()) == list(range(NODES))
    tables = list(client.sample_graphs(sub_graphs, Seeds(ids=list(range(NODES)))))
    assert sum(len(table) for table in tables) == NODES
    # The seed is the first node of its sub-graph.
    for table in tables:
        nodes = table.sizes[:, 0].astype(np.int64)
        starts = np.cumsum(nodes) - nodes
        assert table.tensors["n.x"][starts, 0].astype(int).tolist() == table.graph_ids.tolist()
    assert sum(int(table.sizes[:, 1].sum()) for table in tables) == sum(
        int(batch.real_rows["e"]) for batch in batches
    )
    made = client.sample_dataset(sub_graphs, "sampling/d")
    assert made.num_graphs == NODES
    assert client.sample_dataset(sub_graphs, "sampling/d").version == made.version
    with pytest.raises(PackhouseError) as error:
        client.sample_dataset(sub_graphs, "sampling/d", seed=1)
    assert error.value.code is grpc.StatusCode.FAILED_PRECONDITION


def test_payload_ids_leave_features_with_the_client(client: Client) -> None:
    make_graph(client, "sampling/ids")
    sub_graphs = SubGraphs("sampling/ids", SPEC, payload="ids")
    for table in client.sample_graphs(sub_graphs, [3, 5]):
        assert "n.x" not in table.tensors
        assert (table.tensors["n.#number"] == table.tensors["n.#id"]).all()


def test_epochs_have_every_seed_once_through_kills(mortal_server: LocalServer) -> None:
    arguments: dict[str, Any] = {"limits": LIMITS, "padding": "masked", "seed": 4}
    with Client(mortal_server.address) as client:
        make_graph(client, "g")
    samples = Samples(SubGraphs("g", SPEC), window=100)

    def load(job: str, **sharing: Any) -> Loader:
        return Loader(mortal_server.address, samples=samples, job=job, **sharing, **arguments)

    with load("undisturbed") as loader:
        whole = {batch.number: (batch.graph_ids.tolist(), key_of(batch)) for batch in loader}
    assert sorted(itertools.chain(*(ids for ids, _ in whole.values()))) == list(range(NODES))

    # A batch that was read and not acknowledged comes again: its bytes are the same.
    seen: dict[int, Any] = {}
    with load("killed") as loader:
        for position, batch in enumerate(loader):
            if not batch.is_padding:
                content = (batch.graph_ids.tolist(), key_of(batch))
                assert seen.setdefault(batch.number, content) == content
            if position % 9 == 4:
                mortal_server.kill()
                mortal_server.start()
    assert seen == whole

    ranks = []
    union: dict[int, Any] = {}
    for rank in range(3):
        with load("ranks", rank=rank, num_ranks=3) as loader:
            batches = list(loader)
        ranks.append(len(batches))
        for batch in batches:
            if not batch.is_padding:
                union[batch.number] = (batch.graph_ids.tolist(), key_of(batch))
    assert len(set(ranks)) == 1
    assert union == whole
