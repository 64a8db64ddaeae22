"""Reads batches where they were received: tensors are views, while protobuf would copy them.

There are two readers of the same messages, with the same result: the native one where it was built,
else Python's own, which takes five times as long. The native one is a C extension,
`client/python/native/read_batch.c`, that is left out where there is no compiler. The environment
variable PACKHOUSE_NATIVE=0 leaves it out, too.
"""

from __future__ import annotations

import functools
import math
import os
import struct
from typing import Any, Callable, Final, NamedTuple, Protocol, Sequence, Union

import grpc
import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from packhouse.base.errors import PackhouseError
from packhouse.data.batch import GRAPH_IDS, SIZES, ReceivedBatch, declared_type, received
from packhouse.data.graphs import Array
from packhouse.data.schema import DType
from packhouse.v1 import batch_pb2, loader_pb2

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
        np.dtype,
    )

# Whether the C extension was built.
HAS_NATIVE: Final = _native is not None

_IS_NATIVE: Final = HAS_NATIVE and os.environ.get("PACKHOUSE_NATIVE", "1") != "0"


# What a response is read from.
Bytes = Union[bytes, memoryview]


class Reader(Protocol):
    """Reads the responses of one `Pack` or `Load`. Not thread-safe."""

    # Of a socket's descriptor and slots (see `Lane`): waits for the next message, and reads the batch
    # that it tells of. Bytes: the message, if that is to be done in Python; none at the end. None: all
    # is to be done in Python.
    receive: Callable[[int, tuple[Any, ...]], ReceivedBatch | bytes] | None

    def read(self, response: bytes) -> ReceivedBatch | None:
        """The batch of a response; None if it has none, or if protobuf is to read it."""

    def read_slot(
        self, buffer: Any, address: int, offset: int, size: int, is_copied: bool
    ) -> ReceivedBatch | None:
        """The same of a response in `size` bytes from `offset` on of a writable buffer.

        `address` is the buffer's. Arrays of tensors hold the buffer, and those of ids and sizes are
        small copies; if `is_copied`, all are copies. All are writable and aligned.
        """


class NativeReader:
    """As BatchReader, in C. Cost: a few microseconds; with `writable` one copy of the data."""

    def __init__(self, *, is_loaded: bool, writable: bool = False, widen: bool = True) -> None:
        """`is_loaded`: of `Load`. `writable`: see `Batch.writable`. `widen`: see
        `ReceivedBatch.as_wanted`.
        """
        # Methods of its own would take as long as a tensor.
        self.read: Any = functools.partial(_native.read_batch, is_loaded, widen, writable)
        self.read_slot: Any = functools.partial(_native.read_slot, is_loaded, widen)
        receive = getattr(_native, "receive", None)
        # Where there are lanes.
        self.receive: Any = receive and functools.partial(receive, is_loaded, widen)


def new_reader(*, is_loaded: bool, writable: bool = False, widen: bool = True) -> Reader:
    """The faster one of those that there are."""
    kind: Any = NativeReader if _IS_NATIVE else BatchReader
    reader: Reader = kind(is_loaded=is_loaded, writable=writable, widen=widen)
    return reader


# What `LoadedBatch.of_loaded_parts` makes, by its arguments, of most batches; None: it does that itself.
# None where there is no native reader.
loaded_batch: Final = _native.loaded_batch if _IS_NATIVE else None


def repeated_numbers(counts: Array) -> npt.NDArray[np.int64]:
    """counts[0] zeros, counts[1] ones and so on; `counts` is int64. Raises ValueError below 0."""
    if not _IS_NATIVE:
        return np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    return np.frombuffer(_native.repeated_numbers(counts.tobytes()), np.int64)


# Tags: field number and wire type.
_RESPONSE_BATCH: Final = 0x12  # PackResponse.batch, and LoadResponse.batch.
_LOADED_BATCH: Final = 0x0A
_TENSORS: Final = 0x42
_NAME: Final = 0x0A
_DTYPE: Final = 0x10
_SHAPE: Final = 0x1A
_DATA: Final = 0x22
_DECLARED: Final = 0x28
_GAP: Final = 0x32

# Field 15000 of value 0, which no message has.
_UNKNOWN_FIELD: Final = b"\xc0\xa9\x07\x00"

_END_GROUP: Final = 4
_VARINT: Final = 0
_LENGTH_DELIMITED: Final = 2

# Protobuf takes lengths of five bytes, of which a message needs no more than four.
_MAX_LENGTH_BYTES: Final = 4
_MAX_VARINT_BYTES: Final = 10

# A job has at most as many shapes.
_MAX_LAYOUTS: Final = 8
_MAX_SEEN: Final = 64


def parse_response(kind: Any, response: bytes) -> Any:
    """A message of that type. Raises PackhouseError with INTERNAL if the bytes are not one."""
    try:
        return _parse(kind, response)
    except DecodeError as error:
        raise PackhouseError(
            grpc.StatusCode.INTERNAL,
            f"the server sent {len(response)} bytes that are no {kind.DESCRIPTOR.full_name}",
        ) from error


def _parse(kind: Any, data: bytes) -> Any:
    """Raises DecodeError also for bytes that protobuf accepts with a warning without reading them
    to the end.
    """
    message = kind()
    if message.MergeFromString(data) != len(data):
        raise DecodeError("the end of a group that has not begun")
    return message


def _parse_part(kind: Any, part: Bytes) -> Any:
    """As `_parse`, of a part of a message: refuses an end of a group as the last byte, too.

    Protobuf refuses it in the whole message, but accepts it here; it reads no field after it.
    """
    data = bytes(part)
    message = _parse(kind, data)
    if data and data[-1] & 7 == _END_GROUP:
        _parse(kind, data + _UNKNOWN_FIELD)
    return message


class BatchReader:
    """Reads the responses of one `Pack` or `Load`. Not thread-safe.

    For any bytes it returns what protobuf would read. It reads only responses whose fields are in
    the server's order, and leaves all others to protobuf. This is right because a message is a
    sequence of fields: protobuf itself reads those before the tensors, and the rest are the
    tensors.

    Batches of a fixed shape differ in their tensors' data only, not in the bytes between. These
    bytes are remembered, and compared at once. Cost: O(fields), some microseconds; some tens for
    the first batches of a shape and for batches without padding.
    """

    receive = None

    def __init__(self, *, is_loaded: bool, writable: bool = False, widen: bool = True) -> None:
        """`is_loaded`: of `Load`. `writable`: see `Batch.writable`. `widen`: see `as_wanted`."""
        self._is_loaded = is_loaded
        self._widen = widen
        self._is_writable = writable
        # Used last comes first.
        self._layouts: list[_Layout] = []
        # Hashes of heads that came once: those of ragged batches are not worth a layout.
        self._seen: set[int] = set()

    def read(self, response: bytes) -> ReceivedBatch | None:
        """The batch of a response; None if it has none, or if protobuf is to read it."""
        try:
            batch = self._read(response)
        except (DecodeError, IndexError, OverflowError, ValueError):
            # Protobuf will say what is wrong.
            return None
        if batch is None:
            return None
        batch = batch.as_wanted(widen=self._widen)
        return batch.writable() if self._is_writable else batch

    def read_slot(
        self, buffer: Any, address: int, offset: int, size: int, is_copied: bool
    ) -> ReceivedBatch | None:
        """See Reader."""
        try:
            batch = self._read(memoryview(buffer).cast("B")[offset : offset + size])
        except (DecodeError, IndexError, OverflowError, ValueError):
            return None
        if batch is None:
            return None
        batch = batch.as_wanted(widen=self._widen)
        if is_copied:
            return batch.writable()
        return batch._replace(graph_ids=batch.graph_ids.copy(), sizes=batch.sizes.copy())

    def _read(self, response: Bytes) -> ReceivedBatch | None:
        if not response or response[0] != _RESPONSE_BATCH:
            return None
        length, start = _read_length(response, 1)
        end = len(response)
        if start + length != end:
            return None
        loaded = None
        if self._is_loaded:
            if response[start] != _LOADED_BATCH:
                return None
            length, start = _read_length(response, start + 1)
            loaded_end, end = end, start + length
            if end > loaded_end:
                return None
            loaded = _parse_part(loader_pb2.LoadedBatch, response[end:loaded_end])
            if loaded.HasField("batch"):
                return None

        for position, layout in enumerate(self._layouts):
            first = end - layout.size
            if first >= start and layout.fits(response, first):
                if position > 0:
                    self._layouts.insert(0, self._layouts.pop(position))
                tensors = layout.view(response, first)
                declared = layout.declared
                break
        else:
            first = _skip_to_tensors(response, start, end)
            parts = _read_tensors(response, first, end)
            tensors = {part.name: part.view(response) for part in parts}
            declared = _declared_of(parts)
            if len(tensors) != len(parts):
                return None
            self._learn(response, parts, first, end)

        head = _parse_part(batch_pb2.Batch, response[start:first])
        if head.tensors:
            return None
        return received(head, tensors, loaded, declared)

    def _learn(self, response: Bytes, parts: list[_Part], first: int, end: int) -> None:
        """Remembers a layout that comes a second time."""
        if not parts:
            return
        layout = _Layout(response, parts, first, end)
        if layout.key not in self._seen:
            if len(self._seen) == _MAX_SEEN:
                self._seen.clear()
            self._seen.add(layout.key)
            return
        layout.prepare(parts, first)
        self._layouts.insert(0, layout)
        del self._layouts[_MAX_LAYOUTS:]


class _Part(NamedTuple):
    """A tensor, and where it is in a response."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    # Of its data.
    begin: int
    end: int
    # Its own type, if it travels in a narrow one.
    declared: np.dtype[Any] | None

    def view(self, response: Bytes) -> Array:
        return np.ndarray(self.shape, self.dtype, response, self.begin)


class _Layout:
    """All tensors of a batch: the bytes between their data, and how to view the data."""

    def __init__(self, response: Bytes, parts: list[_Part], first: int, end: int) -> None:
        self.size = end - first
        heads = []
        at = first
        for part in parts:
            heads.append(bytes(response[at : part.begin]))
            at = part.end
        self._heads = tuple(heads)
        self.key = hash((self._heads, self.size))

    def prepare(self, parts: list[_Part], first: int) -> None:
        """Makes it ready for `fits` and `view`. Raises ValueError if numpy has no such type."""
        self._names = [part.name for part in parts]
        self.declared = _declared_of(parts)
        words = (
            f"{len(head)}s{part.end - part.begin}x"
            for head, part in zip(self._heads, parts)
        )
        self._between = struct.Struct("<" + "".join(words))
        offsets = [part.begin - first for part in parts]
        self._record = _record_of(self._names, parts, offsets, self.size)

    def fits(self, response: Bytes, first: int) -> bool:
        """Whether a batch with this layout has its tensors at `first`."""
        return self._between.unpack_from(response, first) == self._heads

    def view(self, response: Bytes, first: int) -> dict[str, Array]:
        """The tensors. Requires that it fits."""
        record: Array = np.ndarray((), self._record, response, first)
        return {name: record[name] for name in self._names}


def _record_of(
    names: list[str], tensors: Sequence[_Part], offsets: list[int], size: int
) -> np.dtype[Any]:
    """A type whose fields are such tensors, at these places of `size` bytes. Raises ValueError if
    numpy has no such type.

    One view of all, and then its fields, is a third of the time of a view for each.
    """
    formats = [(each.dtype, each.shape) for each in tensors]
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})


def _declared_of(parts: list[_Part]) -> dict[str, np.dtype[Any]]:
    return {part.name: part.declared for part in parts if part.declared is not None}


def _skip_to_tensors(response: Bytes, at: int, end: int) -> int:
    """Where the first of a batch's tensors is, or the batch's end."""
    while at < end and response[at] != _TENSORS:
        kind = response[at] & 7
        if response[at] >= 0x80:
            raise ValueError("a field of a later version")
        if kind == _VARINT:
            at = _skip_varint(response, at + 1)
        elif kind == _LENGTH_DELIMITED:
            length, at = _read_length(response, at + 1)
            at += length
        else:
            raise ValueError("a field of a later version")
    if at > end:
        raise ValueError("a field ends behind its message")
    return at


def _read_tensors(response: Bytes, at: int, end: int) -> list[_Part]:
    """The bytes between. Raises ValueError unless they are tensors that each end with their data.
    """
    parts = []
    while at < end:
        if response[at] != _TENSORS:
            raise ValueError("a field behind the tensors")
        length, at = _read_length(response, at + 1)
        tensor_end = at + length
        if tensor_end > end:
            raise ValueError("a tensor ends behind its batch")
        description = at
        begin = tensor_end
        while at < tensor_end:
            tag = response[at]
            if tag == _DATA:
                description_end = at
                length, begin = _read_length(response, at + 1)
                if begin + length != tensor_end:
                    raise ValueError("a tensor does not end with its data")
                break
            if tag in (_DTYPE, _DECLARED):
                at = _skip_varint(response, at + 1)
            elif tag in (_NAME, _SHAPE, _GAP):
                length, at = _read_length(response, at + 1)
                at += length
            else:
                raise ValueError("a field of a later version")
        else:
            if at > tensor_end:
                raise ValueError("a field ends behind its tensor")
            description_end = tensor_end
        tensor = _parse(batch_pb2.Tensor, bytes(response[description:description_end]))
        dtype = DType(tensor.dtype).numpy
        shape = tuple(tensor.shape)
        if math.prod(shape) * dtype.itemsize != tensor_end - begin:
            raise ValueError("a tensor's data has not the bytes of its shape")
        declared = declared_type(tensor.name, tensor.dtype, tensor.declared_dtype)
        parts.append(_Part(tensor.name, dtype, shape, begin, tensor_end, declared))
        at = tensor_end
    return parts


def _read_length(response: Bytes, at: int) -> tuple[int, int]:
    """A length, and where it ends. Raises IndexError at the response's end, or ValueError."""
    byte = response[at]
    at += 1
    if byte < 0x80:
        return byte, at
    length = byte & 0x7F
    for shift in range(7, 7 * _MAX_LENGTH_BYTES, 7):
        byte = response[at]
        at += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return length, at
    raise ValueError("a length is too long")


def _skip_varint(response: Bytes, at: int) -> int:
    for end in range(at + 1, at + 1 + _MAX_VARINT_BYTES):
        if response[end - 1] < 0x80:
            return end
    raise ValueError("a number is too long")
