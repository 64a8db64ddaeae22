"""The demo's verifier notices every way in which a stream can go wrong."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest
from random_graphs import molecules
from reference_collation import batch_message

from packhouse import Batch, DerivedTensor, GraphTable, Padding, Rejection
from packhouse.demo.streaming import Verifier, choose_limits

SENT = molecules(np.random.default_rng(5), 12)
LIMITS = {"nodes": 300, "edges": 700, "graphs": 9}
DERIVED = (DerivedTensor.ROW_COUNTS, DerivedTensor.MASKS)


def messages() -> list[Any]:
    parts = [SENT.take([3, 1, 2, 0, 7, 5]), SENT.take([4, 6, 8, 9, 10, 11])]
    return [batch_message(part, LIMITS, Padding.GRAPH, DERIVED) for part in parts]


def verify(received: list[Any], rejections: list[Rejection] | None = None) -> Verifier:
    verifier = Verifier(SENT, LIMITS)
    for message in received:
        verifier.check(Batch.from_proto(message, SENT.schema))
    verifier.check_rejections(rejections or [], {"nodes": 299, "edges": 700, "graphs": 8})
    verifier.finish()
    return verifier


def test_a_faithful_stream_has_no_faults() -> None:
    verifier = verify(messages())
    assert verifier.faults == [] and verifier.num_intact == len(SENT)


def change_byte(tensor: str) -> Callable[[list[Any]], None]:
    def change(received: list[Any]) -> None:
        for candidate in received[1].tensors:
            if candidate.name == tensor:
                data = bytearray(candidate.data)
                data[0] ^= 1
                candidate.data = bytes(data)

    return change


@pytest.mark.parametrize(
    ("harm", "intact"),
    [
        (lambda received: received.pop(), 6),
        (lambda received: received.append(received[0]), 6),
        (change_byte("x"), 11),
        (change_byte("senders"), 11),
        (change_byte("y"), 11),
        (change_byte("nodes/mask"), 12),
        (change_byte("edges/counts"), 12),
        (lambda received: received[0].rows.__setitem__(0, 301), 12),
    ],
    ids=["lost", "repeated", "x", "senders", "y", "mask", "counts", "shape"],
)
def test_harm_is_noticed(harm: Callable[[list[Any]], None], intact: int) -> None:
    received = messages()
    harm(received)
    verifier = verify(received)
    assert verifier.faults
    assert verifier.num_intact == intact


def test_a_rejection_must_be_deserved() -> None:
    fits = Rejection(graph_id=4, reason="", component="nodes", value=999, bound=299)
    assert verify(messages()[:1], [fits]).faults
    assert verify(messages(), [fits]).faults


@pytest.mark.parametrize("seed", range(20))
def test_chosen_limits_take_every_graph(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, rng.integers(1, 400), (int(rng.integers(1, 50)), 2))
    table = GraphTable(SENT.schema.__class__(), sizes)
    limits = choose_limits(table, {})
    assert all(rows % 8 == 0 for rows in limits.values())
    # A row of each component and a graph are kept free at most.
    assert (sizes < [limits["nodes"], limits["edges"]]).all() and limits["graphs"] >= 2
    assert choose_limits(table, {"edges": 5})["edges"] == 5
