"""Limits chosen by a real server."""

from __future__ import annotations


import grpc
import numpy as np
import pytest
from random_graphs import molecules

from packhouse import (
    Client,
    ComponentProfile,
    DeviceProfile,
    Histogram,
    PackhouseError,
    PackOptions,
    TuneObjective,
    TuneProgress,
)

SIZES = molecules(np.random.default_rng(0), 2000).sizes
HISTOGRAM = Histogram.from_sizes(SIZES)
LARGEST = {"nodes": int(SIZES[:, 0].max()), "edges": int(SIZES[:, 1].max())}


def profile(**arguments: int) -> DeviceProfile:
    """Room for at least the largest graph; 8 by 6 limits."""
    nodes = -(-LARGEST["nodes"] // 16) * 16
    edges = -(-LARGEST["edges"] // 32) * 32
    return DeviceProfile(
        {
            "nodes": ComponentProfile(nodes + 7 * 16, nodes, 16),
            "edges": ComponentProfile(edges + 5 * 32, edges, 32, relative_cost=0.5),
        },
        **arguments,
    )


def test_the_recommended_limits_are_allowed_and_pack_everything(client: Client) -> None:
    reports: list[TuneProgress] = []
    tuning = client.tune(HISTOGRAM, profile(), on_progress=reports.append)
    (shape,) = tuning.shapes
    assert shape.limits["nodes"] % 16 == 0
    assert shape.limits["edges"] % 32 == 0
    assert shape.limits["graphs"] == 0
    cost = shape.limits["nodes"] + 0.5 * shape.limits["edges"]
    assert shape.epoch_cost == pytest.approx(shape.packs * cost)
    assert tuning.epoch_cost == shape.epoch_cost >= tuning.least_cost
    assert tuning.single_shape == shape
    assert tuning.oversize is None
    assert tuning.reasons
    assert tuning.cells == ()
    assert [point.epoch_cost for point in tuning.frontier] == sorted(
        (point.epoch_cost for point in tuning.frontier), reverse=True
    )
    for earlier, later in zip(reports, reports[1:]):
        assert earlier.planned <= later.planned
        assert earlier.excluded <= later.excluded

    # What it recommends is what `plan` and `pack` take.
    assert client.plan(HISTOGRAM, shape.limits).best.lower_bound <= shape.packs
    with client.pack_sizes([SIZES], PackOptions(shape.limits)) as stream:
        assert sum(len(batch) for batch in stream) == len(SIZES)
        assert not stream.rejections


def test_the_grid_has_every_cell_once(client: Client) -> None:
    tuning = client.tune(HISTOGRAM, profile(), include_grid=True)
    assert len({cell.capacities for cell in tuning.cells}) == len(tuning.cells) == 8 * 6
    for cell in tuning.cells:
        assert cell.epoch_cost >= tuning.epoch_cost or not cell.planned


def test_the_objective_may_be_the_mean_of_efficiencies(client: Client) -> None:
    tuning = client.tune(
        HISTOGRAM, profile(), objective=TuneObjective.HARMONIC_MEAN, include_grid=True
    )
    assert 0 < tuning.harmonic_mean <= 1
    assert all(cell.harmonic_mean <= tuning.harmonic_mean for cell in tuning.cells if cell.planned)


def test_several_shapes_cost_no_more_than_one(client: Client) -> None:
    tuning = client.tune(HISTOGRAM, profile(max_distinct_shapes=3))
    assert 1 <= len(tuning.shapes) <= 3
    assert tuning.epoch_cost <= tuning.single_shape.epoch_cost
    assert tuning.epoch_cost == pytest.approx(sum(shape.epoch_cost for shape in tuning.shapes))


def test_a_named_histogram_will_do(client: Client) -> None:
    client.observe("tests/tuning", [SIZES])
    named = client.tune("tests/tuning", profile())
    assert named.shapes == client.tune(HISTOGRAM, profile()).shapes


def test_graphs_too_large_are_reported(client: Client) -> None:
    sizes = np.concatenate([SIZES, [[10 * LARGEST["nodes"], 3]] * 2])
    tuning = client.tune(Histogram.from_sizes(sizes), profile())
    assert tuning.oversize is not None
    assert tuning.oversize.num_graphs == 2
    assert tuning.oversize.largest == (10 * LARGEST["nodes"], 3)
    assert tuning.oversize.needed_rows[0] >= 10 * LARGEST["nodes"]


def test_what_progress_raises_ends_the_search(client: Client) -> None:
    def stop(_progress: TuneProgress) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        client.tune(HISTOGRAM, profile(), on_progress=stop)


@pytest.mark.parametrize(
    ("source", "device", "code"),
    [
        ("tests/no-such-histogram", profile(), grpc.StatusCode.NOT_FOUND),
        (HISTOGRAM, DeviceProfile({}), grpc.StatusCode.INVALID_ARGUMENT),
        (
            HISTOGRAM,
            DeviceProfile({"faces": ComponentProfile(5)}),
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
        (
            HISTOGRAM,
            DeviceProfile({"nodes": ComponentProfile(5, relative_cost=float("nan"))}),
            grpc.StatusCode.INVALID_ARGUMENT,
        ),
        (
            HISTOGRAM,
            DeviceProfile({"nodes": ComponentProfile(1)}),
            grpc.StatusCode.FAILED_PRECONDITION,
        ),
    ],
)
def test_tuning_fails_with_its_codes(
    client: Client, source: Histogram | str, device: DeviceProfile, code: grpc.StatusCode
) -> None:
    with pytest.raises(PackhouseError) as raised:
        client.tune(source, device)
    assert raised.value.code is code
    assert raised.value.message
