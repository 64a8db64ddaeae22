"""Epochs over several data sets at once, of a real server."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Iterator

import grpc
import numpy as np
import pytest
from random_graphs import molecules

from packhouse import (
    GRAPHS,
    Client,
    DType,
    Draw,
    Evaluation,
    GraphSchema,
    GraphTable,
    LoadedBatch,
    Loader,
    LocalServer,
    PackhouseError,
    Segments,
    TensorSpec,
)

RNG = np.random.default_rng(3)
MOLECULES = molecules(RNG, 300)
# The same ids as those of the first 120.
LABELLED = molecules(RNG, 120)
LABEL = -100
LIMITS = {"nodes": 128, "edges": 288, "graphs": 12}
MIXTURE = "mixtures/molecules+mixtures/labelled"

_jobs = itertools.count()


def labelled() -> GraphTable:
    """As MOLECULES are, with a label for each graph."""
    tensors = (
        *LABELLED.schema.tensors,
        TensorSpec("label", DType.INT64, component=GRAPHS, padding_value=LABEL),
    )
    schema = GraphSchema(LABELLED.schema.components, tensors)
    columns = {spec.name: LABELLED.tensors[spec.name] for spec in LABELLED.schema.tensors}
    columns["label"] = np.arange(len(LABELLED), dtype=np.int64)
    return GraphTable(schema, LABELLED.sizes, columns)


def store(client: Client, name: str, table: GraphTable) -> None:
    client.datasets.create(name, table.schema)
    client.datasets.append(name, [table])
    client.datasets.seal(name)


@pytest.fixture(scope="module", autouse=True)
def datasets(client: Client) -> None:
    store(client, "mixtures/molecules", MOLECULES)
    store(client, "mixtures/labelled", labelled())


Make = Callable[..., Loader]


@pytest.fixture
def make(server: LocalServer) -> Iterator[Make]:
    opened = []

    def made(**arguments: Any) -> Loader:
        arguments = {"dataset": MIXTURE, "job": f"mixtures/{next(_jobs)}", "limits": LIMITS, **arguments}
        opened.append(Loader(server.address, **arguments))
        return opened[-1]

    yield made
    for loader in opened:
        loader.close()


def graphs_of(batches: list[LoadedBatch]) -> list[tuple[int, int]]:
    """Which data set, and which id there, each graph has."""
    found = []
    for batch in batches:
        numbers = np.asarray(batch["dataset"])[: batch.num_graphs]
        found += list(zip(numbers.tolist(), batch.graph_ids.tolist(), strict=True))
    return found


ALL = [(0, i) for i in range(len(MOLECULES))] + [(1, i) for i in range(len(LABELLED))]


@pytest.mark.parametrize(
    "options",
    [{}, {"in_order": True}, {"segments": Segments(graphs=100)}, {"mixing": False}],
    ids=lambda options: " ".join(options) or "plain",
)
def test_each_graph_of_each_comes_once(make: Make, options: dict[str, Any]) -> None:
    graphs = graphs_of(list(make(**options)))
    assert sorted(graphs) == ALL
    if "in_order" in options:
        # But for the look-ahead, one data set after the other.
        assert {number for number, _ in graphs[:200]} == {0}


def test_pieces_of_large_graphs_come_once(make: Make) -> None:
    batches = list(make(oversize="partition", limits={"nodes": 20, "edges": 40}))
    assert set(graphs_of(batches)) == set(ALL)
    # Nodes are in each piece that needs them; edges in one.
    edges = sum(int(batch.sizes[:, 1].sum()) for batch in batches)
    assert edges == int(MOLECULES.sizes[:, 1].sum() + LABELLED.sizes[:, 1].sum())


def test_graphs_are_as_they_were_stored_and_what_they_lack_is_filled(make: Make) -> None:
    tables = (MOLECULES, LABELLED)
    for batch in make():
        packed = batch.unbatch()
        for i, (number, graph_id) in enumerate(graphs_of([batch])):
            own = tables[number].slice(graph_id, graph_id + 1)
            here = packed.slice(i, i + 1)
            assert here.sizes.tolist() == own.sizes.tolist()
            for spec in own.schema.tensors:
                assert here.tensors[spec.name].tobytes() == own.tensors[spec.name].tobytes(), spec.name
            assert here.tensors["label"].tolist() == [graph_id if number == 1 else LABEL]


@pytest.mark.filterwarnings("ignore::packhouse.OversizeWarning")
@pytest.mark.parametrize(
    "words",
    [
        {},
        {"padding": "masked"},
        {"shapes": [LIMITS, {"nodes": 64, "edges": 160, "graphs": 6}]},
        {"oversize": "partition", "limits": {"nodes": 20, "edges": 40}},
        {"subset": range(100, 200)},
        {"oversize": "reject", "limits": {"nodes": 24, "edges": 52}},
        {"oversize": "reject", "limits": {"nodes": 24, "edges": 52}, "subset": range(100, 250)},
        {"oversize": "reject", "limits": {"nodes": 24, "edges": 52}, "draw": Draw(num_graphs=100)},
    ],
    ids=lambda words: " ".join(words) or "plain",
)
def test_each_set_has_its_rows_and_its_share_of_the_efficiency(
    make: Make, client: Client, words: dict[str, Any]
) -> None:
    ways = {"limits": None} if "shapes" in words else {}
    loader = make(**ways, **words)
    info = loader.epoch_info()
    batches = list(loader)
    sizes = np.concatenate([batch.sizes for batch in batches])
    numbers = np.array([number for number, _ in graphs_of(batches)])
    assert [mixed.dataset for mixed in info.mixture] == MIXTURE.split("+")
    for number, mixed in enumerate(info.mixture):
        own = sizes[numbers == number]
        assert mixed.num_graphs == len(own) > 0
        assert mixed.rows == {"nodes": own[:, 0].sum(), "edges": own[:, 1].sum(), "graphs": len(own)}
        # Of a draw, graphs that were not drawn did not come either.
        if "draw" not in words:
            came = {graph for graph in graphs_of(batches) if graph[0] == number}
            asked = words.get("subset", range(len(MOLECULES)))
            assert mixed.num_rejected == sum(n == number and i in asked for n, i in ALL) - len(came)
    assert info.num_graphs == sum(mixed.num_graphs for mixed in info.mixture)
    assert info.num_rejected == sum(mixed.num_rejected for mixed in info.mixture)
    assert bool(info.num_rejected) == (words.get("limits", LIMITS)["nodes"] == 24)
    for name, efficiency in info.efficiency.items():
        shares = [mixed.efficiency[name] for mixed in info.mixture]
        assert sum(shares) == pytest.approx(efficiency)


def test_other_epochs_have_no_shares_of_sets(make: Make) -> None:
    assert make(dataset="mixtures/labelled").epoch_info().mixture == ()
    assert make(segments=Segments(graphs=100)).epoch_info().mixture == ()


def test_the_order_of_names_and_the_seed_decide_everything(make: Make) -> None:
    def bytes_of(**arguments: Any) -> list[bytes]:
        return [batch[name].tobytes() for batch in make(**arguments) for name in ("dataset", "label")]

    assert bytes_of() == bytes_of()
    assert bytes_of(seed=1) != bytes_of()
    assert bytes_of(dataset="mixtures/labelled+mixtures/molecules") != bytes_of()


def test_an_epoch_goes_on_after_a_worker_has_left(make: Make) -> None:
    job = "mixtures/left"
    loader = make(job=job)
    seen = list(itertools.islice(loader, 5))
    loader.close()
    # The one in hand was not acknowledged.
    rest = list(make(job=job, on_existing="resume"))
    assert sorted(graphs_of(seen[:-1]) + graphs_of(rest)) == ALL


def test_an_epoch_survives_a_server_that_is_killed(mortal_server: LocalServer) -> None:
    with Client(mortal_server.address) as client:
        store(client, "mixtures/molecules", MOLECULES)
        store(client, "mixtures/labelled", labelled())
    with Loader(mortal_server.address, dataset=MIXTURE, job="killed", limits=LIMITS) as loader:
        batches = []
        for batch in loader:
            batches.append(batch)
            if len(batches) == 7:
                mortal_server.kill()
                mortal_server.start()
        assert sorted(graphs_of(batches)) == ALL


def test_ranks_share_it_in_equal_steps(make: Make) -> None:
    ranks = [make(job="mixtures/ranks", rank=rank, num_ranks=3) for rank in range(3)]
    steps = [len(list(loader)) for loader in ranks]
    assert len(set(steps)) == 1


def test_it_is_exported_graph_by_graph(client: Client, server: LocalServer) -> None:
    stream = client.datasets.export_examples(MIXTURE)
    exported = list(stream)
    assert stream.num_graphs == len(exported) == len(ALL)
    # What is stored of it has the same graphs, in the mixture's order.
    client.datasets.create("mixtures/exported", stream.schema)
    client.datasets.append_examples("mixtures/exported", exported)
    client.datasets.seal("mixtures/exported")
    assert list(client.datasets.export_examples("mixtures/exported")) == exported
    in_order: dict[str, Any] = {"limits": {"graphs": 1}, "in_order": True, "look_ahead": 1}
    pairs = zip(
        Evaluation(server.address, dataset=MIXTURE, **in_order),
        Evaluation(server.address, dataset="mixtures/exported", **in_order),
        strict=True,
    )
    for batch, again in pairs:
        assert batch.sizes.tolist() == again.sizes.tolist()
        for name in ("dataset", "label", "y"):
            assert batch[name].tolist() == again[name].tolist()
    # Of an epoch in its order, from any place.
    for options in ({}, {"segments": Segments(graphs=100)}, {"mixing": False}):
        epoch: dict[str, Any] = {"limits": LIMITS, "epoch": 2, "seed": 5, **options}
        graphs = graphs_of(list(Evaluation(server.address, dataset=MIXTURE, **epoch)))
        expected = [exported[ALL.index(graph)] for graph in graphs]
        assert list(client.datasets.export_examples(MIXTURE, **epoch)) == expected
        part = client.datasets.export_examples(MIXTURE, first_graph=299, num_graphs=9, **epoch)
        assert list(part) == expected[299:308]


def test_draws_have_the_shares_that_were_asked_for(make: Make, client: Client) -> None:
    shares = {"mixtures/molecules": 1.0, "mixtures/labelled": 3.0}
    draw = client.datasets.draw(shares, num_graphs=4000, with_replacement=True)
    drawn = graphs_of(list(make(draw=draw)))
    assert len(drawn) == 4000
    # 0.75, and four standard deviations.
    assert abs(np.mean([number for number, _ in drawn]) - 0.75) < 0.028
    # All alike, of each as many as there are.
    alike = graphs_of(list(make(draw=client.datasets.draw(list(shares), num_graphs=420))))
    assert sorted(alike) == ALL
    hot = client.datasets.draw(list(shares), temperature=1e9)
    weights = np.asarray(hot.weights)
    assert weights[:300].sum() == pytest.approx(weights[300:].sum())


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ({}, "names no data set"),
        ({"mixtures/molecules": -1.0}, "-1.0 of data set 'mixtures/molecules'"),
        ({"mixtures/molecules": float("nan")}, "nan of data set"),
    ],
)
def test_shares_that_mean_nothing_are_refused(
    client: Client, shares: dict[str, float], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        client.datasets.draw(shares)
    with pytest.raises(ValueError, match="temperature: 0 is not above 0"):
        client.datasets.draw(["mixtures/molecules"], temperature=0)


def test_a_subset_is_of_all_that_have_the_ids(make: Make) -> None:
    drawn = graphs_of(list(make(subset=range(100, 130))))
    assert sorted(drawn) == [graph for graph in ALL if 100 <= graph[1] < 130]


def test_an_evaluation_reads_it_as_well(server: LocalServer) -> None:
    evaluation = Evaluation(server.address, dataset=MIXTURE, limits=LIMITS)
    for _ in range(2):
        assert sorted(graphs_of(list(evaluation))) == ALL


def test_it_is_a_data_set_to_look_at_and_not_to_change(client: Client) -> None:
    mixture = client.datasets.get(MIXTURE, include_histogram=True)
    assert mixture.num_graphs == 420
    assert mixture.schema.tensors[-1].name == "dataset"
    assert mixture.histogram is not None
    assert mixture.histogram.num_graphs == 420
    assert MIXTURE not in [each.name for each in client.datasets.list()]
    for change in (client.datasets.delete, client.datasets.seal):
        with pytest.raises(PackhouseError, match="NOT_FOUND"):
            change(MIXTURE)
    with pytest.raises(PackhouseError, match=r"(?s)INVALID_ARGUMENT.*\[A-Za-z0-9_\./-\]"):
        client.datasets.create(MIXTURE, MOLECULES.schema)


def test_what_is_deleted_and_made_anew_is_another_mixture(make: Make, client: Client) -> None:
    store(client, "mixtures/anew", MOLECULES.slice(0, 40))
    name = "mixtures/labelled+mixtures/anew"
    assert len(graphs_of(list(make(dataset=name)))) == 160
    client.datasets.delete("mixtures/anew")
    with pytest.raises(PackhouseError, match="(?s)NOT_FOUND.*mixtures/anew"):
        list(make(dataset=name))
    store(client, "mixtures/anew", MOLECULES.slice(0, 50))
    assert len(graphs_of(list(make(dataset=name)))) == 170


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ({"join_parts": True}, grpc.StatusCode.INVALID_ARGUMENT, "join_parts: not together with a mixture"),
        ({"grouped": True}, grpc.StatusCode.INVALID_ARGUMENT, "grouped: not together with a mixture"),
        ({"dataset": "mixtures/labelled+none"}, grpc.StatusCode.NOT_FOUND, "none"),
        (
            {"dataset": "mixtures/labelled+mixtures/labelled"},
            grpc.StatusCode.INVALID_ARGUMENT,
            "occurs twice",
        ),
    ],
)
def test_what_cannot_be_mixed_is_refused(
    make: Make, arguments: dict[str, Any], code: grpc.StatusCode, words: str
) -> None:
    with pytest.raises(PackhouseError, match=f"(?s){code.name}.*{words}"):
        list(make(**arguments))
