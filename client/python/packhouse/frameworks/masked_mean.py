"""Means over real rows alone, by arithmetic. By the tensors' own methods: it imports no torch, so
that compiled code finds it where it is."""

from __future__ import annotations

from typing import Any


def masked_mean(values: Any, mask: Any) -> Any:
    """The mean of `values` [rows, ...] over the rows where `mask` [rows] is True; 0 if none is.

        loss = masked_mean(losses, data.graph_mask)

    What other rows hold does not matter, and they get a gradient of 0, also where they are infinite
    or NaN. `values[mask].mean()` is the same number, but has a shape of its own for each batch, so
    that compiled code is compiled anew, and is NaN if no row is real.
    """
    mask = over_rows(mask, values)
    total = values.masked_fill(~mask, 0).sum()
    return total / mask.expand(values.shape).sum().clamp(min=1)


def over_rows(mask: Any, values: Any) -> Any:
    """The mask [rows] in as many dimensions as `values` has, all but the first of extent 1."""
    return mask.reshape(mask.shape[0], *[1] * (values.dim() - 1))
