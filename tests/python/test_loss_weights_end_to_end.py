"""Weights of the loss: the weighted means of all ranks and steps are the mean over the epoch."""

from __future__ import annotations

import itertools
import pickle
from typing import Any, Sequence

import numpy as np
import pytest
from random_graphs import labelled_molecules

from packhouse import (
    GRAPHS,
    Client,
    Draw,
    Evaluation,
    GraphTable,
    LoadedBatch,
    Loader,
    LocalServer,
    OversizePolicy,
    Padding,
    RankGroup,
    Segments,
)

LIMITS = {"nodes": 128, "edges": 288, "graphs": 12, "labelled": 128}
DATASET = "weights/labelled"
_jobs = itertools.count()


TABLE = labelled_molecules(np.random.default_rng(3), 300)


@pytest.fixture(scope="module", autouse=True)
def dataset(client: Client) -> None:
    client.datasets.create(DATASET, TABLE.schema)
    client.datasets.append(DATASET, [TABLE])
    client.datasets.seal(DATASET)


def losses_of(tensors: Any, component: str) -> np.ndarray[Any, Any]:
    """One number for each row that counts, by what the row has."""
    if component == GRAPHS:
        return np.sin(tensors["y"].astype(np.float64))
    if component == "edges":
        return np.sqrt(1.0 + tensors["edge_attr"].sum(axis=1))
    nodes = np.cos(tensors["x"].sum(axis=1).astype(np.float64))
    return nodes[tensors["labelled"]] if component == "labelled" else nodes


def mean_of(values: np.ndarray[Any, Any]) -> float:
    return float(values.mean()) if len(values) else 0.0


def weighted(batch: LoadedBatch, component: str) -> float:
    """loss_weights * (the mean over the batch's real rows)."""
    real = batch.unbatch().tensors
    return batch.loss_weights[component] * mean_of(losses_of(real, component))


def expect_the_mean(batches: Sequence[LoadedBatch], num_batches: int, table: GraphTable) -> None:
    for component in table.schema.all_components:
        total = sum(weighted(batch, component) for batch in batches) / num_batches
        assert total == pytest.approx(mean_of(losses_of(table.tensors, component))), component
        weights = [batch.loss_weights[component] for batch in batches if not batch.is_padding]
        assert np.mean(weights) == pytest.approx(1), component


def load(server: LocalServer, num_ranks: int, **arguments: Any) -> tuple[list[LoadedBatch], Any]:
    """All batches of all ranks, and what the epoch is."""
    words: dict[str, Any] = {"dataset": DATASET, "job": f"weights-{next(_jobs)}", "seed": 5}
    if not {"limits", "shapes", "rank_groups"} & set(arguments):
        words["limits"] = LIMITS
    batches: list[LoadedBatch] = []
    for rank in range(num_ranks):
        with Loader(
            server.address, rank=rank, num_ranks=num_ranks, **words, **arguments
        ) as loader:
            batches += loader
            info = loader.epoch_info()
    for name, rows in info.real_rows.items():
        assert rows == sum(batch.real_rows[name] for batch in batches)
    return batches, info


WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "graph": {"padding": Padding.GRAPH},
    "masked": {"padding": Padding.MASKED},
    "in order": {"in_order": True},
    "segments": {"segments": Segments(graphs=100)},
    "unequal ranks": {
        "rank_groups": [
            RankGroup([LIMITS], num_ranks=2),
            RankGroup([{"nodes": 60, "edges": 144, "graphs": 6, "labelled": 60}], num_ranks=1),
        ]
    },
    "several shapes": {
        "shapes": [LIMITS, {"nodes": 28, "edges": 68, "graphs": 12, "labelled": 28}],
        "padding": Padding.GRAPH,
    },
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("num_ranks", [1, 3])
def test_the_weighted_means_of_ranks_and_steps_are_that_of_the_epoch(
    server: LocalServer, way: str, num_ranks: int
) -> None:
    if way == "unequal ranks" and num_ranks == 1:
        pytest.skip("there are three ranks")
    batches, info = load(server, num_ranks, **WAYS[way])
    assert len(batches) % num_ranks == 0
    assert len({batch.shape for batch in batches}) == 1 + (way == "several shapes")
    expect_the_mean(batches, info.num_batches, TABLE)
    assert info.real_rows == {name: TABLE.rows(name) for name in TABLE.schema.all_components}
    for batch in batches:
        if batch.is_padding:
            assert set(batch.loss_weights.values()) == {0.0}


def test_what_is_chosen_and_left_out_counts_as_it_comes(server: LocalServer) -> None:
    some = [int(each) for each in TABLE.graph_ids[::3]]
    batches, info = load(server, 2, subset=some)
    expect_the_mean(batches, info.num_batches, TABLE.take(np.arange(0, len(TABLE), 3)))
    small = {"nodes": 24, "edges": 60, "graphs": 12, "labelled": 24}
    batches, info = load(server, 2, limits=small, oversize=OversizePolicy.REJECT)
    fits = np.all(TABLE.sizes[:, :2] <= [24, 60], axis=1)
    assert 0 < info.num_rejected == int((~fits).sum())
    expect_the_mean(batches, info.num_batches, TABLE.take(np.flatnonzero(fits)))
    drawn, info = load(server, 2, draw=Draw(num_graphs=500, with_replacement=True))
    ids = np.concatenate([batch.graph_ids for batch in drawn]).astype(np.int64)
    expect_the_mean(drawn, info.num_batches, TABLE.take(ids))


def test_they_stay_when_others_go_on(server: LocalServer) -> None:
    """With another number of ranks, in the middle of the epoch."""
    words: dict[str, Any] = {"dataset": DATASET, "job": "weights-on", "seed": 5, "limits": LIMITS}
    with Loader(server.address, **words) as loader:
        before = [next(loader) for _ in range(7)]
        state = loader.state_dict()
        num_batches = loader.epoch_info().num_batches
    after: list[LoadedBatch] = []
    for rank in range(4):
        with Loader(server.address, rank=rank, num_ranks=4, **words) as loader:
            loader.load_state_dict(state, attempt="2")
            after += loader
    expect_the_mean([*before, *after], num_batches, TABLE)


def test_dynamic_workers_and_evaluations_have_them(server: LocalServer) -> None:
    words: dict[str, Any] = {"dataset": DATASET, "seed": 5, "limits": LIMITS}
    with Loader(server.address, job="weights-dynamic", worker="a", **words) as loader:
        expect_the_mean(list(loader), loader.epoch_info().num_batches, TABLE)
    evaluations = [Evaluation(server.address, rank=rank, num_ranks=3, **words) for rank in range(3)]
    batches = [batch for evaluation in evaluations for batch in evaluation]
    expect_the_mean(batches, evaluations[0].epoch_info().num_batches, TABLE)
    # In another process, and as arrays of their own.
    (copy,) = pickle.loads(pickle.dumps([batches[0].writable()]))
    assert copy.loss_weights == batches[0].loss_weights


def test_parts_of_a_batch_have_their_share(server: LocalServer) -> None:
    words: dict[str, Any] = {"dataset": DATASET, "seed": 5, "limits": LIMITS}
    with Loader(server.address, job="weights-parts", **words) as loader:
        batch = next(loader)
        parts = loader.split(batch)
    for component in TABLE.schema.all_components:
        of_batch = mean_of(losses_of(batch.unbatch().tensors, component))
        of_parts = sum(
            part.loss_weights[component] * mean_of(losses_of(part.unbatch().tensors, component))
            for part in parts
        )
        assert of_parts == pytest.approx(of_batch)


def test_what_is_not_counted_is_named(server: LocalServer) -> None:
    evaluation = Evaluation(server.address, dataset=DATASET, limits=LIMITS)
    (batch, *_) = evaluation
    with pytest.raises(KeyError, match="(?s)'tokens'.*nodes.*labelled.*with_counts"):
        batch.loss_weights["tokens"]
    unknown = LoadedBatch._make(batch.__dict__ | {"epoch_rows": None})
    with pytest.raises(ValueError, match="not known beforehand"):
        unknown.loss_weights
