"""BatchNorm over real rows alone. Needs torch when it is imported."""

from __future__ import annotations

from typing import Any

import torch


class MaskedBatchNorm(torch.nn.BatchNorm1d):
    """BatchNorm1d whose mean, variance and running statistics are those of real rows.

        norm = MaskedBatchNorm(channels)
        x = norm(x, data.node_mask)

    Takes x [rows, channels] and a bool mask [rows]; real rows become what BatchNorm1d makes of them
    without the others, padding rows become 0. Without a mask it is BatchNorm1d. Parameters and
    state are BatchNorm1d's: a checkpoint of one is one of the other. A batch without a real row
    leaves the running statistics as they are.
    """

    def forward(self, x: Any, mask: Any = None) -> Any:
        if mask is None:
            return super().forward(x)
        real = x[mask]
        out = torch.zeros_like(x)
        if len(real):
            # One row has no variance: torch refuses it in training, as it does in BatchNorm1d.
            out[mask] = super().forward(real)
        return out
