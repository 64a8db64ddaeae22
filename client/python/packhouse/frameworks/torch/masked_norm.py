"""Moments over real rows alone, by arithmetic. Needs torch when it is imported."""

from __future__ import annotations

from typing import Any

import torch

from packhouse.frameworks.tensors import over_rows


class MaskedBatchNorm(torch.nn.BatchNorm1d):
    """BatchNorm1d whose mean, variance and running statistics are those of real rows.

        norm = MaskedBatchNorm(channels)
        x = norm(x, data.node_mask)

    Takes x [rows, channels] and a bool mask [rows]; without a mask it is BatchNorm1d. Real rows
    become what BatchNorm1d would make of them alone; padding rows become 0, and get a gradient of
    0, whatever they hold. Parameters and state are BatchNorm1d's: a checkpoint of one is one of the
    other.

    No shape and no branch depends on values, so that torch.compile makes one graph for all batches
    of one shape. Without any real row, as when a rank has no batch left in a step, the result is 0,
    the running statistics stay, and the gradients exist and are 0, so that DistributedDataParallel
    finds every parameter used. A single real row has no variance: it becomes the bias, and the
    running variance stays. (BatchNorm1d raises ValueError then, for which it must look at values.)
    """

    def forward(self, x: Any, mask: Any = None) -> Any:
        if mask is None and x.shape[0]:
            return super().forward(x)
        if x.dim() != 2:
            raise ValueError(f"x has shape {tuple(x.shape)}, needs [rows, channels]")
        if mask is None:
            mask = torch.ones(0, dtype=torch.bool, device=x.device)
        mask = over_rows(mask, x)
        # Half precision has too few digits for sums over rows.
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        zeros = torch.zeros_like(wide)
        # Chosen before anything is computed: what is not chosen has a derivative of 0.
        real = torch.where(mask, wide, zeros)
        if self.training or self.running_mean is None:
            count = mask.sum().to(wide.dtype)
            # Again from the first mean: a sum of many large numbers is rounded, one around 0 hardly.
            first = real.sum(0) / count.clamp(min=1)
            mean = first + torch.where(mask, real - first, zeros).sum(0) / count.clamp(min=1)
            centred = torch.where(mask, real - mean, zeros)
            squares = centred.square().sum(0)
            variance = squares / count.clamp(min=1)
            if self.training and self.running_mean is not None:
                self._follow(count, mean.detach(), squares.detach())
        else:
            mean, variance = self.running_mean.to(wide.dtype), self.running_var.to(wide.dtype)
            centred = real - mean
        normed = centred * torch.rsqrt(variance + self.eps)
        if self.weight is not None:
            normed = normed * self.weight + self.bias
        return torch.where(mask, normed, zeros).to(x.dtype)

    def _follow(self, count: Any, mean: Any, squares: Any) -> None:
        """The running statistics after this batch: those of before where it tells nothing."""
        with torch.no_grad():
            self.num_batches_tracked.add_((count > 0).to(self.num_batches_tracked.dtype))
            if self.momentum is None:
                rate: Any = 1 / self.num_batches_tracked.clamp(min=1).to(mean.dtype)
            else:
                rate = self.momentum
            unbiased = squares / (count - 1).clamp(min=1)
            for running, latest, told in (
                (self.running_mean, mean, count > 0),
                (self.running_var, unbiased, count > 1),
            ):
                step = (latest.to(running.dtype) - running) * rate
                running.add_(torch.where(told, step, torch.zeros_like(step)))
