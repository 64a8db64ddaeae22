"""Writable arrays that are aligned for vector instructions and devices."""

from __future__ import annotations

import math
from typing import Any, Final, Sequence

import numpy as np
import numpy.typing as npt

# Bytes: a cache line, and what torch, jax and TensorFlow take without a copy of their own.
ALIGNMENT: Final = 64


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A writable array at a multiple of 64 bytes, whose values are not set."""
    memory = np.empty(math.prod(shape) * dtype.itemsize + ALIGNMENT, np.uint8)
    first = -memory.__array_interface__["data"][0] % ALIGNMENT
    return np.ndarray(shape, dtype, memory, first)


def aligned_copies(
    arrays: Sequence[npt.NDArray[Any]], dtypes: Sequence[np.dtype[Any]] | None = None
) -> list[npt.NDArray[Any]]:
    """Writable, contiguous copies, each at a multiple of 64 bytes, in one piece of memory.

    The memory stays as long as one of the arrays. `dtypes` are those of the copies, which hold all
    values; None: as the arrays. Cost: one copy, and about a microsecond an array.
    """
    types = [array.dtype for array in arrays] if dtypes is None else dtypes
    starts = []
    total = 0
    for array, dtype in zip(arrays, types):
        starts.append(total)
        total += -(-array.size * dtype.itemsize // ALIGNMENT) * ALIGNMENT
    memory = np.empty(total + ALIGNMENT, np.uint8)
    first = -memory.__array_interface__["data"][0] % ALIGNMENT
    copies = []
    for start, array, dtype in zip(starts, arrays, types):
        copy: npt.NDArray[Any] = np.ndarray(array.shape, dtype, memory, first + start)
        np.copyto(copy, array, casting="unsafe")
        copies.append(copy)
    return copies
