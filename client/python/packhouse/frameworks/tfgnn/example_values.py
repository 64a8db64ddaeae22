"""What numbers of tf.Examples become, and how many a record may have."""

from __future__ import annotations

from typing import Final

import numpy as np

from packhouse.data.graphs import Array
from packhouse.data.schema import DType

MAX_COUNT: Final = (1 << 32) - 1
MAX_LENGTH: Final = (1 << 31) - 1
# The most bytes of rows of one graph: a record of 20 bytes can declare four billion empty rows.
MAX_GRAPH_BYTES: Final = 1 << 30


def is_float(dtype: DType) -> bool:
    """Whether a tf.Example has it as floats."""
    return dtype.numpy.kind == "f" or dtype is DType.BFLOAT16


def range_of(dtype: DType) -> tuple[int, int] | None:
    """The least and the largest number that an int64 becomes in it; None where all do."""
    if dtype is DType.BOOL or dtype.numpy.itemsize == 8:
        return None
    bounds = np.iinfo(dtype.numpy)
    return int(bounds.min), int(bounds.max)


def converted(values: Array, dtype: DType) -> Array:
    """Floats, or int64s in the range of the type, as this type."""
    if dtype is DType.BOOL:
        flags: Array = values != 0
        return flags
    if dtype is not DType.BFLOAT16:
        # Beyond float16: infinity, as the service has it.
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(dtype.numpy)
    # To the nearest, and among two to the even one; NaN stays NaN.
    bits = values.view("<u4")
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    halves: Array = np.where(np.isnan(values), (bits >> 16) | 0x40, rounded).astype("<u2")
    return halves
