"""Columns of a batch as tensors of torch, and back. Imports torch when it is used."""

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


def _own(column: Array) -> Array:
    flags = column.flags
    # Writable and aligned.
    return column if flags.behaved and flags.c_contiguous else column.copy()


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
