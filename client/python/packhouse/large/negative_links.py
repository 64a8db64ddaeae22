"""Links that are not there, for training on links: drawn here, by the type of link."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from packhouse.base.arguments import UINT64_MAX, whole_number

_MOST_ROUNDS: Final = 100


@dataclasses.dataclass(frozen=True, eq=False)
class LinkSeeds:
    """Links for `Seeds`, positive ones first.

    - `ends`: source, target, source, ...: `Seeds(numbers=links.ends)`, or `rows=` if rows were given.
    - `labels`: 1 for each link that was given, 0 for each negative one, int64: a feature of
      `_readout`, or the target of the loss.
    - `positives`: of each negative link the place of the one that it was drawn for; -1 where it was
      drawn for none ("binary").
    """

    ends: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]
    positives: npt.NDArray[np.int64]


def negative_links(
    links: npt.ArrayLike,
    num_sources: int,
    num_targets: int,
    *,
    mode: str = "binary",
    amount: float = 1.0,
    seed: int = 0,
    source_weights: npt.ArrayLike | None = None,
    target_weights: npt.ArrayLike | None = None,
    avoid: npt.ArrayLike | None = None,
) -> LinkSeeds:
    """Links of one type and negative ones beside them, as PyG's `NegativeSampling` has it.

    Args:
      links: sources and targets, [2, links]. Of several types: one call for each.
      num_sources: how many nodes the set of the sources has; negative sources are below it.
      num_targets: likewise of the targets.
      mode: "binary": both ends of a negative link are drawn; "triplet": each link gets `amount`
        negative ones with its own source and a target that is drawn.
      amount: negative links for each link. With "triplet" a whole number.
      seed: decides the draw.
      source_weights, target_weights: how likely each node is, in proportion; otherwise all are alike.
      avoid: links that a negative one must not be, [2, any number], such as all known ones. Otherwise
        a negative link may be there by chance, as with PyG.

    Raises ValueError naming the argument; also if hardly any other links are left to draw.
    Cost: O((links + avoid) * log avoid).
    """
    pairs = _pairs(links, num_sources, num_targets, "links")
    if mode not in ("binary", "triplet"):
        raise ValueError(f"mode: {mode!r} is neither 'binary' nor 'triplet'")
    if not 0 <= amount < float("inf"):
        raise ValueError(f"amount: {amount!r} is no number of negative links")
    if mode == "triplet" and amount != int(amount):
        raise ValueError(f"amount: {amount!r}, with mode='triplet' a whole number is needed")
    random = np.random.default_rng(whole_number(seed, "seed", UINT64_MAX))
    from_source = _Chooser(num_sources, source_weights, "source_weights")
    from_target = _Chooser(num_targets, target_weights, "target_weights")
    count = pairs.shape[1]
    if mode == "triplet":
        positives = np.repeat(np.arange(count), int(amount))
    else:
        positives = np.full(int(np.ceil(count * amount)), -1)
    sources = pairs[0][positives] if mode == "triplet" else from_source.draw(random, len(positives))
    targets = from_target.draw(random, len(positives))
    if avoid is not None:
        if num_sources * num_targets >= 2**63:
            raise ValueError(f"avoid: not for {num_sources} times {num_targets} nodes")
        known = np.unique(_keys(_pairs(avoid, num_sources, num_targets, "avoid"), num_targets))
        for _ in range(_MOST_ROUNDS):
            bad = np.flatnonzero(np.isin(sources * num_targets + targets, known))
            if not len(bad):
                break
            if mode == "binary":
                sources[bad] = from_source.draw(random, len(bad))
            targets[bad] = from_target.draw(random, len(bad))
        else:
            raise ValueError(
                f"avoid: after {_MOST_ROUNDS} draws, {len(bad)} negative links are still among those "
                f"to avoid, one of them {sources[bad[0]]} to {targets[bad[0]]}"
            )
    ends = np.concatenate([pairs, np.stack([sources, targets])], axis=1)
    labels = np.zeros(ends.shape[1], np.int64)
    labels[:count] = 1
    return LinkSeeds(ends.T.reshape(-1), labels, positives)


def _pairs(links: Any, num_sources: int, num_targets: int, name: str) -> npt.NDArray[np.int64]:
    pairs = np.asarray(links)
    if pairs.ndim != 2 or pairs.shape[0] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(
            f"{name}: {pairs.dtype} of shape {pairs.shape}, whole numbers of shape [2, links] are needed"
        )
    for row, most, end in ((pairs[0], num_sources, "source"), (pairs[1], num_targets, "target")):
        if len(row) and not 0 <= int(row.min()) <= int(row.max()) < most:
            raise ValueError(f"{name}: a {end} is not from 0 to {most - 1}")
    return pairs.astype(np.int64)


def _keys(pairs: npt.NDArray[np.int64], num_targets: int) -> npt.NDArray[np.int64]:
    keys: npt.NDArray[np.int64] = pairs[0] * num_targets + pairs[1]
    return keys


class _Chooser:
    def __init__(self, count: int, weights: Any, name: str) -> None:
        self._count = whole_number(count, name.replace("_weights", "s"), UINT64_MAX)
        self._sums: npt.NDArray[np.float64] | None = None
        if weights is None:
            return
        given = np.asarray(weights, np.float64)
        if given.shape != (count,) or not np.isfinite(given).all() or (given < 0).any():
            raise ValueError(f"{name}: {count} finite numbers that are not below 0 are needed")
        self._sums = np.cumsum(given)
        if count and not self._sums[-1] > 0:
            raise ValueError(f"{name}: all are 0")

    def draw(self, random: np.random.Generator, size: int) -> npt.NDArray[np.int64]:
        if size and not self._count:
            raise ValueError("links: there are no nodes to draw negative ones from")
        if self._sums is None:
            return random.integers(0, max(self._count, 1), size, np.int64)
        drawn = random.random(size) * self._sums[-1]
        # Rounding may give the sum itself.
        most = int(np.flatnonzero(np.diff(self._sums, prepend=0.0))[-1]) if size else 0
        chosen: npt.NDArray[np.int64] = np.searchsorted(self._sums, drawn, side="right")
        return np.minimum(chosen, most)
