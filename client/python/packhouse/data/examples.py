"""Graphs as TF-GNN's serialized tf.Examples, which the server reads and writes itself."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections import deque
from typing import Any, AsyncIterator, Final, Iterable, Iterator, NamedTuple

import grpc

from packhouse.base.arguments import names_arguments
from packhouse.base.waiting import AsyncItems
from packhouse.base.errors import PackhouseError
from packhouse.data.schema import GraphSchema
from packhouse.v1 import graphs_pb2

# The most examples in a message.
_MAX_EXAMPLES: Final = 1 << 20


@names_arguments
@dataclasses.dataclass(frozen=True)
class TfgnnSchema:
    """A `tensorflow_gnn.GraphSchema`, as text or serialized; the server makes a GraphSchema of it,
    as `packhouse.tfgnn.graph_schema` does.

    Descriptions and metadata are not kept.
    """

    data: str | bytes

    @staticmethod
    def read(path: str | os.PathLike[str]) -> TfgnnSchema:
        """That of a file, text (`graph_schema.pbtxt`) or binary. Raises OSError."""
        with open(path, "rb") as file:
            data = file.read()
        try:
            return TfgnnSchema(data.decode())
        except UnicodeDecodeError:
            return TfgnnSchema(data)

    def to_proto(self) -> Any:
        """The `packhouse.v1.TfgnnSchema`."""
        if isinstance(self.data, str):
            return graphs_pb2.TfgnnSchema(text=self.data)
        return graphs_pb2.TfgnnSchema(binary=self.data)


class SkippedExample(NamedTuple):
    """A malformed example that was left out."""

    # Its place among all examples of the call.
    example: int
    graph_id: int
    # Empty where a message had more than a hundred.
    message: str


class ExampleStream(Iterator[bytes]):
    """The examples of a data set as they come; get one from `Client.datasets.export_examples`.

    Iterate over it until it ends, or leave its `with` block to cancel the call. `async for` waits
    on another thread. Raises PackhouseError if the call fails, after all examples before that.
    """

    def __init__(self, call: Any) -> None:
        self._call = call
        self._lock = threading.RLock()
        # Below: guarded by _lock.
        self._waiting: deque[bytes] = deque()
        self._schema: str | None = None
        self._num_graphs = 0

    @property
    def schema(self) -> TfgnnSchema:
        """The schema of the examples; waits for it."""
        if self._schema is None:
            self._read()
        return TfgnnSchema(self._schema or "")

    @property
    def num_graphs(self) -> int:
        """How many graphs the data set had when the call began, or the epoch has; waits for it."""
        if self._schema is None:
            self._read()
        return self._num_graphs

    def __next__(self) -> bytes:
        with self._lock:
            if not self.peek():
                raise StopIteration
            return self._waiting.popleft()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return AsyncItems(self, self.close)

    def peek(self) -> bool:
        """Waits for the next example, and leaves it; False: there is none."""
        with self._lock:
            try:
                while not self._waiting:
                    self._read()
            except StopIteration:
                return False
            return True

    def close(self) -> None:
        """Cancels the call if it still runs. Idempotent."""
        self._call.cancel()

    def __enter__(self) -> ExampleStream:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _read(self) -> None:
        """Takes in one response. Raises StopIteration at the end."""
        try:
            response = next(self._call)
        except grpc.RpcError as error:
            raise PackhouseError.of(error) from None
        if self._schema is None:
            self._schema = response.tfgnn_schema.text
            self._num_graphs = response.num_graphs
        self._waiting.extend(response.examples)


def check_examples(examples: Any) -> None:
    """Raises TypeError for a single example, or the name of a file, instead of several examples."""
    if isinstance(examples, (str, bytes, bytearray, memoryview)):
        raise TypeError(
            f"examples: a single {type(examples).__name__}, needs several, each the bytes of a"
            " tf.Example"
        )


def messages_of(
    examples: Iterable[bytes], *, first_id: int, skip_malformed: bool, chunk_bytes: int
) -> Iterator[Any]:
    """The `packhouse.v1.Examples` of these, each of about `chunk_bytes` or of one example.

    Raises TypeError as `check_examples`.
    """
    check_examples(examples)
    return _messages_of(examples, first_id, skip_malformed, chunk_bytes)


def _messages_of(
    examples: Iterable[bytes], first_id: int, skip_malformed: bool, chunk_bytes: int
) -> Iterator[Any]:
    part: list[bytes] = []
    size = 0
    for example in examples:
        if part and (size + len(example) > chunk_bytes or len(part) == _MAX_EXAMPLES):
            yield graphs_pb2.Examples(
                examples=part, first_id=first_id, skip_malformed=skip_malformed
            )
            first_id += len(part)
            part, size = [], 0
        part.append(example)
        size += len(example)
    if part:
        yield graphs_pb2.Examples(examples=part, first_id=first_id, skip_malformed=skip_malformed)
