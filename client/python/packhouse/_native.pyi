from typing import Any

import numpy as np

from packhouse.data.batch import ReceivedBatch

def prepare(
    received_batch: type[ReceivedBatch],
    ndarray: type[Any],
    types: dict[int, np.dtype[Any]],
    graph_ids_type: np.dtype[Any],
    sizes_type: np.dtype[Any],
    dtype: type[np.dtype[Any]],
) -> None: ...
def read_batch(
    is_loaded: bool, widen: bool, writable: bool, response: bytes
) -> ReceivedBatch | None: ...
def read_slot(
    is_loaded: bool, widen: bool, buffer: Any, address: int, offset: int, size: int, is_copied: bool
) -> ReceivedBatch | None: ...
def receive(
    is_loaded: bool, widen: bool, socket: int, slots: tuple[Any, ...]
) -> ReceivedBatch | bytes: ...
def loaded_batch(
    kind: type[Any],
    received: ReceivedBatch,
    schema: Any,
    generation: int,
    session: int,
    epoch_rows: Any,
) -> Any: ...
def repeated_numbers(counts: bytes) -> bytearray: ...
def crc32c(data: bytes) -> int: ...
