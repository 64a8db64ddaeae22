"""What a batch costs, as text and as terms, and the order of an epoch by it."""

from __future__ import annotations

from typing import Any

import pytest

from packhouse import ByScore, CostBalanced, CostForm, CostTerm, RankGroup
from packhouse.epochs.request import EpochRequest
from packhouse.v1 import loader_pb2


@pytest.mark.parametrize(
    ("cost", "terms"),
    [
        ("edges", [CostTerm("edges")]),
        (
            "sum(nodes^2) + 0.5 * edges + 2*nodes^2 + 7",
            [
                CostTerm("nodes", CostForm.SUM_OF_SQUARES),
                CostTerm("edges", weight=0.5),
                CostTerm("nodes", "squared_rows", 2.0),
                CostTerm("", CostForm.BATCH, 7.0),
            ],
        ),
        (" 1e-3*bonds/a->b+c ", [CostTerm("bonds/a->b+c", weight=1e-3)]),
        ("up^down + a^^2", [CostTerm("up^down"), CostTerm("a^", CostForm.SQUARED_ROWS)]),
    ],
)
def test_a_cost_is_read_as_text(cost: str, terms: list[CostTerm]) -> None:
    assert CostBalanced(cost).to_proto() == CostBalanced(terms).to_proto()


@pytest.mark.parametrize(
    "cost",
    ["nodes edges", "2*", "x*edges", "sum(nodes)", "edges +", "(edges)", "nodes^3", "2*nodes^10",
     "sum(nodes^3)", "nodes^2^2", "nodes^2.5"],
)  # fmt: skip
def test_what_is_no_cost_is_refused_by_the_term(cost: str) -> None:
    with pytest.raises(ValueError, match="cost: .* is no term: edges, 0.5"):
        CostBalanced(cost).to_proto()


@pytest.mark.parametrize("weight", [0.0, -1.0])
def test_a_weight_is_above_0(weight: float) -> None:
    with pytest.raises(ValueError, match="^weight: .*, must be above 0$"):
        CostBalanced([CostTerm("edges", weight=weight)]).to_proto()
    with pytest.raises(ValueError, match="^weight: .*, must be above 0$"):
        CostBalanced(f"{weight}*edges").to_proto()


def test_steps_are_for_the_ranks_that_load_unless_the_order_says_it() -> None:
    def ranks_of(loading: int, said: int = 0, **words: Any) -> int:
        words = {"limits": {"nodes": 9}} | words if "rank_groups" not in words else words
        words |= {"dataset": "d", "order": CostBalanced("edges", said)}
        spec = EpochRequest(words, job="j").of_epoch(3, loading)
        return int(spec.order.cost_balanced.num_ranks)

    assert ranks_of(8) == 8
    assert ranks_of(0) == 0
    assert ranks_of(8, said=5) == 5
    # Several rank groups have their own numbers.
    group = RankGroup([{"nodes": 9}], num_ranks=4)
    assert ranks_of(8, rank_groups=[group, group]) == 0
    spec = EpochRequest({"dataset": "d", "limits": {"nodes": 9}}, job="j").of_epoch(3, 8)
    assert not spec.HasField("order")


def test_a_curriculum_is_told_as_it_was_asked_for() -> None:
    by_tensor = ByScore("difficulty", descending=True, buckets=4).to_proto()
    assert by_tensor == loader_pb2.BatchOrder(
        by_score=loader_pb2.ByScore(tensor="difficulty", descending=True, num_buckets=4)
    )
    assert ByScore(component="nodes").to_proto().by_score == loader_pb2.ByScore(component="nodes")
    for none in (ByScore(), ByScore("difficulty", "nodes")):
        with pytest.raises(ValueError, match="^order: tensor '.*' and component '.*', must be one"):
            none.to_proto()
