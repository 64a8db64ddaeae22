"""What an epoch is, read from its message, and what its arguments must be; without a server."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from packhouse import RankGroup, Samples, SubGraphs
from packhouse.epochs.info import Company, EpochInfo, EpochRows
from packhouse.epochs.request import EpochRequest, mixing_to_proto, subset_to_proto
from packhouse.v1 import loader_pb2

LIMITS = {"nodes": 8, "graphs": 4}


def epoch() -> Any:
    """Two rank groups: 7 batches of two shapes, and 5 of one."""
    message = loader_pb2.Epoch(num_batches=12)
    for shapes in (((3, 8, 6, 0.75), (4, 4, 4, 0.5)), ((5, 8, 8, 0.25),)):
        group = message.rank_groups.add(num_batches=sum(shape[0] for shape in shapes))
        for batches, capacity, fullest, share in shapes:
            shape = group.shapes.add(num_batches=batches)
            # Of `graphs` there is no limit.
            for component, limit in (("nodes", capacity), ("graphs", 0)):
                shape.components.add(
                    component=component, capacity=limit, efficiency=share * fullest / capacity,
                    fullest_pack=fullest, efficiency_of_fullest=share,
                )
    return message


def test_rows_of_all_shapes_of_all_groups_count() -> None:
    info = EpochInfo.from_proto(epoch())
    rows = round(3 * 6 * 0.75) + 4 * 4 * 0.5 + 5 * 8 * 0.25
    assert info.real_rows == {"nodes": rows, "graphs": rows}
    capacity = 3 * 8 + 4 * 4 + 5 * 8
    assert list(info.efficiency) == ["nodes"], "there is no limit of graphs"
    assert info.efficiency == pytest.approx({"nodes": (3 * 4.5 + 4 * 2 + 5 * 2) / capacity})
    weights = EpochRows.of(epoch()).weights_of({"nodes": 6, "graphs": 0})  # type: ignore[union-attr]
    assert weights == pytest.approx({"nodes": 6 * 12 / rows, "graphs": 0})
    assert EpochRows.of(loader_pb2.Epoch()) is None
    assert EpochRows(12, {"nodes": 0}).weights_of({"nodes": 5}) == {"nodes": 0}
    sampled = epoch()
    sampled.samples.num_windows = 1
    assert EpochInfo.from_proto(sampled).real_rows == {}


def test_steps_of_ranks() -> None:
    info = EpochInfo.from_proto(epoch())
    groups = [RankGroup((LIMITS,), num_ranks=ranks) for ranks in (2, 3)]
    # 7 batches of 2 ranks, 5 of 3; the number of the call is for one group alone.
    assert info.num_steps(groups, 99, drop_last=False) == 4
    assert info.num_steps(groups, 99, drop_last=True) == 1
    one = epoch()
    del one.rank_groups[1]
    alone = EpochInfo.from_proto(one)
    for ranks, kept, dropped in ((1, 7, 7), (2, 4, 3), (7, 1, 1), (8, 1, 0)):
        assert alone.num_steps(groups[:1], ranks, drop_last=False) == kept
        assert alone.num_steps(groups[:1], ranks, drop_last=True) == dropped
    with pytest.raises(ValueError, match="1 rank_groups, the epoch has 2"):
        info.num_steps(groups[:1], 1, drop_last=False)
    assert Company(0.5, 0.25).ratio == 2
    assert Company(0.5, 0).ratio == 0


def test_arguments_of_an_epoch_are_refused_by_name() -> None:
    samples = Samples(SubGraphs("g", "seed_op { op_name: 's' node_set_name: 'n' }"))
    for arguments, kind, words in (
        ({"dataset": "d", "limit": LIMITS}, TypeError, "there is no argument 'limit'"),
        ({"limits": LIMITS}, TypeError, "the argument 'dataset' is missing"),
        ({"dataset": 7, "limits": LIMITS}, TypeError, "dataset: 7 is no name of a data set"),
        ({"samples": "g", "limits": LIMITS}, TypeError, "samples: 'g' is no Samples"),
        (
            {"samples": samples, "dataset": "d", "limits": LIMITS},
            ValueError,
            "samples: given beside dataset",
        ),
        ({"dataset": "d"}, ValueError, "is needed; given: none"),
        (
            {"dataset": "d", "limits": LIMITS, "shapes": [LIMITS]},
            ValueError,
            r"given: \['limits', 'shapes'\]",
        ),
        ({"dataset": "d", "limits": LIMITS, "order": 7}, TypeError, "order: 7 is no "),
        ({"dataset": "d", "limits": LIMITS, "segments": "x"}, TypeError, "segments: 'x' is no "),
    ):
        with pytest.raises(kind, match=words):
            EpochRequest(arguments, "job")


def test_a_subset_is_ids_or_ranges() -> None:
    ids = subset_to_proto([3, 1 << 40])
    assert np.frombuffer(ids.graph_ids, "<u8").tolist() == [3, 1 << 40] and not ids.ranges
    for ranges in (range(2, 5), [range(2, 5), range(9, 9), range(7, 8)]):
        told = [(each.first, each.count) for each in subset_to_proto(ranges).ranges]
        assert told == [(2, 3), (9, 0), (7, 1)][: len(told)]
        assert len(told) == (1 if isinstance(ranges, range) else 3)
    for subset in (range(0, 9, 2), [range(3), range(5, 0, -1)]):
        with pytest.raises(ValueError, match="steps of 1"):
            subset_to_proto(subset)
    with pytest.raises(ValueError, match="subset is a mask"):
        subset_to_proto(np.array([True, False]))


def test_mixing_is_off_or_a_number_from_one() -> None:
    assert mixing_to_proto(None) is None
    for off in (False, np.bool_(False)):
        assert mixing_to_proto(off).off
    for on in (True, np.True_):
        assert mixing_to_proto(on) == loader_pb2.Mixing(off=False)
    for most in (1, 1.0, np.float32(2.5), np.int64(3)):
        assert mixing_to_proto(most).most_company == most
    for bad in (0.99, 0, -1, math.inf, math.nan):
        with pytest.raises(ValueError, match="must be a finite number of at least 1"):
            mixing_to_proto(bad)
    with pytest.raises(TypeError, match="neither a boolean nor a number"):
        mixing_to_proto("on")  # type: ignore[arg-type]
