"""Which reader of batches a stream has: the native one where it was built, else Python's own.

Both read the same messages, to the same result. The native one takes a fifth of the time. It is a
C extension, `client/python/native/read_batch.c`, that is left out where there is no compiler. The
environment variable PACKHOUSE_NATIVE=0 leaves it out, too.
"""

from __future__ import annotations

import os
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from packhouse.data.batch_reader import BatchReader
from packhouse.data.graphs import Array
from packhouse.data.received_batch import GRAPH_IDS, SIZES, ReceivedBatch
from packhouse.data.schema import DType

try:
    from packhouse import _native
except ImportError:
    _native = None  # type: ignore[assignment]
else:
    _native.prepare(
        ReceivedBatch,
        np.ndarray,
        {dtype.value: dtype.numpy for dtype in DType},
        GRAPH_IDS,
        SIZES,
    )

# Whether the C extension was built.
HAS_NATIVE: Final = _native is not None

_IS_NATIVE: Final = HAS_NATIVE and os.environ.get("PACKHOUSE_NATIVE", "1") != "0"


class Reader(Protocol):
    """Reads the responses of one `Pack` or `Load`. Not thread-safe."""

    def read(self, response: bytes) -> ReceivedBatch | None:
        """The batch of a response; None if it has none, or if protobuf is to read it."""


class NativeReader:
    """As BatchReader, in C. Cost: a few microseconds; with `writable` one copy of the data."""

    def __init__(self, *, is_loaded: bool, writable: bool = False, widen: bool = True) -> None:
        """`is_loaded`: of `Load`. `writable`: see `Batch.writable`. `widen`: see
        `ReceivedBatch.as_wanted`.
        """
        self._is_loaded = is_loaded
        self._widen = widen
        self._is_writable = writable

    def read(self, response: bytes) -> ReceivedBatch | None:
        """The batch of a response; None if it has none, or if protobuf is to read it."""
        batch: ReceivedBatch | None = _native.read_batch(
            response, self._is_loaded, self._is_writable
        )
        return batch if batch is None or self._widen else batch.as_wanted(widen=False)


def new_reader(*, is_loaded: bool, writable: bool = False, widen: bool = True) -> Reader:
    """The faster one of those that there are."""
    kind: Any = NativeReader if _IS_NATIVE else BatchReader
    reader: Reader = kind(is_loaded=is_loaded, writable=writable, widen=widen)
    return reader


def repeated_numbers(counts: Array) -> npt.NDArray[np.int64]:
    """counts[0] zeros, counts[1] ones and so on; `counts` is int64. Raises ValueError below 0."""
    if not _IS_NATIVE:
        return np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    return np.frombuffer(_native.repeated_numbers(counts.tobytes()), np.int64)
