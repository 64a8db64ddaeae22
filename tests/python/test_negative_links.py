"""Negative links: which are drawn, and how often."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from packhouse.sampling import negative_links

LINKS = np.array([[0, 1, 2, 2], [3, 3, 0, 1]])


def chi_square(counts: Any, expected: Any) -> float:
    return float((((counts - expected) ** 2) / expected).sum())


def test_links_come_first_with_their_labels() -> None:
    made = negative_links(LINKS, 3, 5, mode="triplet", amount=2, seed=1)
    assert made.ends[:8].tolist() == LINKS.T.reshape(-1).tolist()
    assert made.labels.tolist() == [1] * 4 + [0] * 8
    assert made.positives.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    negative = made.ends[8:].reshape(-1, 2)
    # A negative one has the source of its own.
    assert negative[:, 0].tolist() == LINKS[0][made.positives].tolist()
    assert negative[:, 1].max() < 5
    binary = negative_links(LINKS, 3, 5, amount=1.3, seed=1)
    assert binary.labels.tolist() == [1] * 4 + [0] * 6 and (binary.positives == -1).all()
    assert negative_links(LINKS, 3, 5, seed=1).ends.tolist() == negative_links(LINKS, 3, 5, seed=1).ends.tolist()
    assert negative_links(LINKS, 3, 5, amount=0).labels.tolist() == [1] * 4
    assert negative_links(np.zeros((2, 0), int), 3, 5).ends.tolist() == []


def test_every_other_link_is_as_likely() -> None:
    """Chi-square; 99.9 % quantiles."""
    amount = 3000
    many = negative_links(LINKS, 3, 5, amount=amount, seed=2).ends[8:].reshape(-1, 2)
    counts = np.bincount(many[:, 0] * 5 + many[:, 1], minlength=15)
    assert chi_square(counts, len(many) / 15) < 36.1  # 14 degrees of freedom.
    avoided = negative_links(LINKS, 3, 5, amount=amount, seed=3, avoid=LINKS).ends[8:].reshape(-1, 2)
    counts = np.bincount(avoided[:, 0] * 5 + avoided[:, 1], minlength=15)
    is_link = np.zeros(15, bool)
    is_link[LINKS[0] * 5 + LINKS[1]] = True
    assert not counts[is_link].any()
    assert chi_square(counts[~is_link], len(avoided) / 11) < 29.6  # 10.
    weights = np.array([0.0, 1.0, 2.0, 0.0, 5.0])
    drawn = negative_links(LINKS, 3, 5, mode="triplet", amount=amount, seed=4, target_weights=weights)
    counts = np.bincount(drawn.ends[8:].reshape(-1, 2)[:, 1], minlength=5)
    assert not counts[weights == 0].any()
    expected = len(drawn.positives) * weights / 8
    assert chi_square(counts[weights > 0], expected[weights > 0]) < 13.9  # 2.


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mode": "both"}, "mode: 'both'"),
        ({"amount": -1}, "amount: -1"),
        ({"mode": "triplet", "amount": 0.5}, "a whole number"),
        ({"links": LINKS.T}, r"\[2, links\]"),
        ({"links": LINKS + 1}, "a source is not from 0 to 2"),
        ({"links": LINKS * 1.0}, "float64"),
        ({"target_weights": [1, 2]}, "target_weights: 5 finite numbers"),
        ({"source_weights": [0, 0, 0]}, "source_weights: all are 0"),
        ({"avoid": np.stack(np.divmod(np.arange(15), 5))}, "avoid: after 100 draws"),
    ],
)
def test_what_cannot_be_drawn_is_named(change: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {"links": LINKS, "num_sources": 3, "num_targets": 5, **change}
    with pytest.raises(ValueError, match=words):
        negative_links(**arguments)
