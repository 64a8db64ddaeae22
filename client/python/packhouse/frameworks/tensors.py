"""Columns of a batch as tensors of torch and back, and means over real rows alone.

Torch is imported when it is used. Means are by the tensors' own methods, so that compiled code
finds them where they are.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from packhouse.data.graphs import Array
from packhouse.data.schema import DType, TensorSpec


def to_torch(column: Array, spec: TensorSpec) -> Any:
    """The column as a torch tensor: the same memory if that is writable, else a copy.

    Index tensors become int64, as torch's frameworks want them. bfloat16 is itself again. Raises
    TypeError naming the tensor if this torch has no such type.
    """
    torch = _torch()
    if spec.index_into is not None:
        if spec.dtype is not DType.INT64:
            column = column.astype(np.int64)
        return torch.from_numpy(_own(column))
    if spec.dtype is DType.BFLOAT16:
        return torch.from_numpy(_own(column.view("<i2"))).view(torch.bfloat16)
    try:
        return torch.from_numpy(_own(column))
    except TypeError as error:
        raise TypeError(f"tensor {spec.name!r}: {error}") from None


def of_array(column: Array) -> Any:
    """Any array as a torch tensor, with the same rule for its memory."""
    return _torch().from_numpy(_own(column))


@functools.lru_cache(maxsize=None)
def _torch() -> Any:
    """The module; an import statement for each tensor takes longer."""
    import torch

    return torch


def may_be_shared(column: Array) -> bool:
    """Whether torch can share its memory: it is writable, aligned, and without gaps."""
    flags = column.flags
    return bool(flags.behaved and flags.c_contiguous)


def _own(column: Array) -> Array:
    return column if may_be_shared(column) else column.copy()


def from_torch(tensor: Any) -> tuple[Array, DType]:
    """A dense torch tensor as an array on the host, which may share its memory.

    Raises ValueError for a type that cannot be sent.
    """
    import torch

    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view("<u2"), DType.BFLOAT16
    array = tensor.numpy()
    return array, DType.of(array.dtype)


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
