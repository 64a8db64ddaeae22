from typing import Any, Callable

import numpy as np

from packhouse.data.batch import ReceivedBatch
from packhouse.data.graphs import Array

def prepare(
    received_batch: type[ReceivedBatch],
    ndarray: type[Any],
    types: dict[int, np.dtype[Any]],
    graph_ids_type: np.dtype[Any],
    sizes_type: np.dtype[Any],
    record_of: Callable[[list[str], list[Array], list[int], int], np.dtype[Any]],
) -> None: ...
def read_batch(response: bytes, is_loaded: bool, writable: bool) -> ReceivedBatch | None: ...
def read_slot(
    is_loaded: bool, buffer: Any, address: int, offset: int, size: int, is_copied: bool
) -> ReceivedBatch | None: ...
def repeated_numbers(counts: bytes) -> bytearray: ...
def crc32c(data: bytes) -> int: ...
