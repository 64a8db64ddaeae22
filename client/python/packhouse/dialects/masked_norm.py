"""BatchNorm over real rows alone. Needs torch when it is imported."""

from __future__ import annotations

from typing import Any

import torch


class MaskedBatchNorm(torch.nn.BatchNorm1d):
    """BatchNorm1d whose mean, variance and running statistics are those of real rows.

        norm = MaskedBatchNorm(channels)
        x = norm(x, data.node_mask)

    Takes x [rows, channels] and a bool mask [rows]. Real rows become what BatchNorm1d would make of
    them alone; padding rows become 0. Without a mask all rows are real. Parameters and state are
    BatchNorm1d's: a checkpoint of one is one of the other.

    Without any real row, as when a rank has no batch left in a step, the result is 0, the running
    statistics stay, and the gradients exist and are 0, so that DistributedDataParallel finds every
    parameter used. A single real row has no variance: ValueError in training, as in BatchNorm1d.
    """

    def forward(self, x: Any, mask: Any = None) -> Any:
        real = x if mask is None else x[mask]
        if not len(real):
            none = 0 * x
            return none if self.weight is None else none + 0 * (self.weight + self.bias)
        normed = super().forward(real)
        if mask is None:
            return normed
        out = normed.new_zeros(x.shape)
        out[mask] = normed
        return out
