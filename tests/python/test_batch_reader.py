"""The readers of batches against protobuf: the same for every message, whatever its bytes."""

from __future__ import annotations

import ctypes
import os
import pickle
import subprocess
import sys
from typing import Any

import grpc
import numpy as np
import pytest
from lanes import in_a_slot
from random_graphs import molecules, narrowed, random_schema, random_table
from reference_collation import batch_message

from packhouse import Batch, DerivedTensor, DType, GraphSchema, LoadedBatch, PackhouseError, Padding
from packhouse.data.batch import received_by_protobuf
from packhouse.data.reading import (
    HAS_NATIVE,
    BatchReader,
    NativeReader,
    Reader,
    new_reader,
    parse_response,
)
from packhouse.v1 import batch_pb2, loader_pb2, packing_pb2, sampling_pb2

# Python's own, and the native one where it was built.
KINDS: list[Any] = [BatchReader, *([NativeReader] if HAS_NATIVE else [])]

both_readers = pytest.mark.parametrize("kind", KINDS)


def random_batch(rng: np.random.Generator, padding: Padding) -> tuple[Any, GraphSchema]:
    graphs = random_table(rng, random_schema(rng), int(rng.integers(0, 7)))
    limits = {
        name: graphs.rows(name) + 1 + int(rng.integers(0, 5))
        for name in graphs.schema.all_components
    }
    message = batch_message(graphs, limits, padding, tuple(DerivedTensor))
    message.id = int(rng.integers(0, 1 << int(rng.integers(1, 63))))
    return message, graphs.schema


def as_the_server_writes(response: Any) -> bytes:
    """A LoadResponse or PackResponse of a batch: each tensor ends with its data, while protobuf puts
    the declared type behind them.
    """
    is_loaded = isinstance(response, loader_pb2.LoadResponse)
    batch = response.batch.batch if is_loaded else response.batch
    head = batch_pb2.Batch.FromString(batch.SerializeToString())
    del head.tensors[:]
    whole = head.SerializeToString()
    for tensor in batch.tensors:
        data = batch_pb2.Tensor(data=tensor.data).SerializeToString()
        fields = batch_pb2.Tensor.FromString(tensor.SerializeToString())
        fields.data = b""
        whole += field(8, fields.SerializeToString() + data)
    if is_loaded:
        others = loader_pb2.LoadedBatch.FromString(response.batch.SerializeToString())
        others.ClearField("batch")
        whole = field(1, whole) + others.SerializeToString()
    return field(2, whole)


def load_response(rng: np.random.Generator, batch: Any) -> Any:
    return loader_pb2.LoadResponse(
        batch=loader_pb2.LoadedBatch(
            batch=batch,
            is_padding=bool(rng.integers(2)),
            is_redelivered=bool(rng.integers(2)),
            graphs_of_step=int(rng.integers(0, 400)),
            shape=int(rng.integers(0, 3)),
            drawn_smaller=[
                sampling_pb2.DrawnSmaller(graph_id=int(rng.integers(0, 1 << 62)), level=number + 1)
                for number in range(max(0, int(rng.integers(-3, 3))))
            ],
        )
    )


def content(batch: Batch) -> dict[str, Any]:
    fields = dict(vars(batch))
    tensors = fields.pop("tensors")
    for name in ("graph_ids", "sizes"):
        fields[name] = fields[name].tolist()
    fields["names"] = list(tensors)
    fields["tensors"] = [(each.dtype, each.shape, each.tobytes()) for each in tensors.values()]
    return fields


def read_by_protobuf(response: bytes, schema: GraphSchema) -> dict[str, Any] | None:
    """The batch; None if there is none. Raises what is wrong with it."""
    message = parse_response(loader_pb2.LoadResponse, response)
    if message.WhichOneof("message") != "batch":
        return None
    return content(LoadedBatch.of(message.batch, schema, 1, 2))


def read_by_hand(
    reader: Reader, response: bytes, schema: GraphSchema
) -> dict[str, Any] | None:
    parts = reader.read(response)
    return None if parts is None else content(LoadedBatch.of_loaded_parts(parts, schema, 1, 2))


@both_readers
@pytest.mark.parametrize("is_copied", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_a_batch_in_a_slot_is_what_protobuf_reads(kind: Any, seed: int, is_copied: bool) -> None:
    rng = np.random.default_rng(seed)
    message, schema = random_batch(rng, Padding(1 + seed % 4))
    if seed % 3 == 0:
        message = narrowed(rng, message)
    reader = kind(is_loaded=True)
    # Once more than it takes to remember a layout, and then another beginning.
    for number in range(5):
        message.id += number
        response = load_response(rng, message)
        expected = read_by_protobuf(response.SerializeToString(), schema)
        offset = 8 * number if number > 3 else 8
        whole = in_a_slot(response, offset)
        buffer = (ctypes.c_char * (offset + len(whole) + 64))()
        ctypes.memmove(ctypes.addressof(buffer) + offset, whole, len(whole))
        parts = reader.read_slot(buffer, ctypes.addressof(buffer), offset, len(whole), is_copied)
        assert parts is not None
        if is_copied:
            ctypes.memset(buffer, 0xFF, len(buffer))
        assert content(LoadedBatch.of_loaded_parts(parts, schema, 1, 2)) == expected
        for array in (parts.graph_ids, parts.sizes, *parts.tensors.values()):
            assert array.flags.behaved
        # Nothing but tensors holds the buffer.
        held = [each for each in parts.tensors.values() if holds(each, buffer)]
        assert len(held) == (0 if is_copied else len(parts.tensors))
        assert not holds(parts.graph_ids, buffer) and not holds(parts.sizes, buffer)


def holds(array: Any, buffer: Any) -> bool:
    """Whether the array is a view of the buffer."""
    while array is not None and array is not buffer:
        array = getattr(array, "base", None)
    return array is buffer


@both_readers
@pytest.mark.parametrize("padding", list(Padding))
@pytest.mark.parametrize("seed", range(40))
def test_a_loaded_batch_is_what_protobuf_reads(kind: Any, seed: int, padding: Padding) -> None:
    rng = np.random.default_rng(seed)
    message, schema = random_batch(rng, padding)
    reader = kind(is_loaded=True)
    # Once more than it takes to remember a layout.
    for number in range(4):
        message.id += number
        response = load_response(rng, message).SerializeToString()
        expected = read_by_protobuf(response, schema)
        assert expected is not None
        assert read_by_hand(reader, response, schema) == expected


@both_readers
@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_narrow_tensors_become_what_they_are(kind: Any, writable: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    message, schema = random_batch(rng, list(Padding)[seed % 4])
    message = narrowed(rng, message)
    wide = kind(is_loaded=True, writable=writable)
    narrow = kind(is_loaded=True, writable=writable, widen=False)
    for _ in range(4):
        response = as_the_server_writes(load_response(rng, message))
        expected = read_by_protobuf(response, schema)
        assert read_by_hand(wide, response, schema) == expected
        parts = narrow.read(response)
        assert parts is not None and parts.declared is None
        batch = Batch.of_parts(wide.read(response), schema)
        assert list(batch.tensors) == list(parts.tensors)
        shown, nbytes = repr(batch), batch.nbytes
        copied = batch.writable().tensors
        changed = pickle.loads(pickle.dumps(batch)).tensors
        for tensor in message.tensors:
            declared = DType(tensor.declared_dtype or tensor.dtype).numpy
            came = parts.tensors[tensor.name]
            array = batch[tensor.name]
            assert came.dtype == DType(tensor.dtype).numpy and array.dtype == declared
            assert came.tobytes() == tensor.data
            assert array.tobytes() == came.astype(declared).tobytes()
            assert array is batch.tensors[tensor.name] or not tensor.declared_dtype
            for copy in (copied[tensor.name], changed[tensor.name]):
                assert copy.dtype == declared and copy.tobytes() == array.tobytes()
            if tensor.declared_dtype:
                assert array.flags.writeable and array.flags.c_contiguous
                assert array.__array_interface__["data"][0] % 64 == 0
                # What is written to it stays.
                array.reshape(-1)[:1] = 3
                assert (batch[tensor.name].reshape(-1)[:1] == 3).all()
        assert (repr(batch), batch.nbytes) == (shown, nbytes)
        columns = sum(array.nbytes for array in batch.tensors.values())
        assert nbytes == columns + batch.graph_ids.nbytes + batch.sizes.nbytes


@both_readers
def test_types_that_no_narrow_tensor_has_are_refused(kind: Any) -> None:
    schema = GraphSchema((), ())
    for dtype, declared in [
        (DType.INT8, DType.INT64),
        (DType.UINT16, DType.INT64),
        (DType.INT64, DType.INT32),
        (DType.INT32, DType.UINT32),
        (DType.UINT8, DType.BOOL),
        (DType.UINT8, DType.FLOAT32),
        (DType.UINT8, DType.BFLOAT16),
        (DType.FLOAT16, DType.INT64),
        (DType.UINT8, None),
    ]:
        number = 15 if declared is None else declared.value
        tensor = batch_pb2.Tensor(
            name="x", dtype=dtype.value, shape=[1], data=bytes(dtype.numpy.itemsize)
        )
        message = batch_pb2.Batch(real_rows=[0], rows=[0], tensors=[tensor])
        Batch.from_proto(message, schema)
        message.tensors[0].declared_dtype = number
        response = as_the_server_writes(packing_pb2.PackResponse(batch=message))
        for writable in (False, True):
            assert kind(is_loaded=False, writable=writable).read(response) is None
        with pytest.raises(ValueError, match="15" if declared is None else "'x' of .* comes as"):
            Batch.from_proto(message, schema)


@both_readers
@pytest.mark.parametrize("seed", range(40))
def test_a_packed_batch_is_what_protobuf_reads(kind: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    message, schema = random_batch(rng, Padding.MASKED)
    reader = kind(is_loaded=False)
    for _ in range(3):
        parts = reader.read(packing_pb2.PackResponse(batch=message).SerializeToString())
        assert parts is not None
        expected = content(Batch.from_proto(message, schema))
        assert content(Batch.of_parts(parts, schema)) == expected


@both_readers
def test_shapes_may_take_turns(kind: Any) -> None:
    rng = np.random.default_rng(0)
    reader = kind(is_loaded=True)
    graphs = molecules(rng, 3)
    # More than are remembered.
    messages = [
        batch_message(
            graphs,
            {name: graphs.rows(name) + spare for name in graphs.schema.all_components},
            Padding.GRAPH,
            tuple(DerivedTensor),
        )
        for spare in range(1, 13)
    ]
    for turn in range(300):
        message = messages[int(rng.integers(12 if turn > 150 else 5))]
        response = load_response(rng, message).SerializeToString()
        expected = read_by_protobuf(response, graphs.schema)
        assert read_by_hand(reader, response, graphs.schema) == expected


@both_readers
def test_arrays_are_read_only_views_of_the_response(kind: Any) -> None:
    graphs = molecules(np.random.default_rng(0), 3)
    message = batch_message(graphs, {}, Padding.NONE)
    response = packing_pb2.PackResponse(batch=message).SerializeToString()
    reader = kind(is_loaded=False)
    whole = np.frombuffer(response, np.uint8)
    for _ in range(3):
        parts = reader.read(response)
        assert parts is not None
        for array in parts.tensors.values():
            assert not array.flags.writeable and array.flags.c_contiguous
            assert array.size == 0 or np.shares_memory(array, whole)


@both_readers
def test_views_keep_the_response_and_nothing_else_does(kind: Any) -> None:
    message = batch_message(molecules(np.random.default_rng(0), 3), {}, Padding.NONE)
    response = packing_pb2.PackResponse(batch=message).SerializeToString()
    unread = sys.getrefcount(response)
    reader = kind(is_loaded=False)
    for _ in range(5):
        parts = reader.read(response)
        assert parts is not None
        x = parts.tensors["x"]
        del parts
        assert sys.getrefcount(response) > unread
        del x
        assert sys.getrefcount(response) == unread
        for cut in range(0, len(response), 7):
            reader.read(response[:cut])
    # What is refused on the way keeps nothing either.
    assert sys.getrefcount(response) == unread


@both_readers
@pytest.mark.parametrize("is_loaded", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_writable_arrays_are_aligned_and_apart(kind: Any, is_loaded: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    message, schema = random_batch(rng, Padding.GRAPH)
    loaded = load_response(rng, message)
    packed = packing_pb2.PackResponse(batch=message)
    response = (loaded if is_loaded else packed).SerializeToString()
    parts = kind(is_loaded=is_loaded, writable=True).read(response)
    expected = received_by_protobuf(message, loaded.batch if is_loaded else None)
    assert parts is not None
    assert content(Batch.of_parts(parts, schema)) == content(Batch.of_parts(expected, schema))
    assert parts[8:] == expected[8:]
    arrays = [parts.graph_ids, parts.sizes, *parts.tensors.values()]
    for array in arrays:
        assert array.flags.writeable and array.flags.c_contiguous
        assert array.__array_interface__["data"][0] % 64 == 0
    copies = [array.copy() for array in arrays]
    before = bytes(bytearray(response))
    del parts
    for number, array in enumerate(arrays):
        # Each alone is changed, and still there when the others are gone.
        array.view(np.uint8)[...] ^= 0xFF
        for other, copy in zip(arrays[number + 1 :], copies[number + 1 :]):
            assert other.tobytes() == copy.tobytes()
    assert response == before


@both_readers
def test_what_is_no_batch_is_left_to_protobuf(kind: Any) -> None:
    reader = kind(is_loaded=True)
    opened = loader_pb2.LoadResponse(opened=loader_pb2.LoadOpened(session=7))
    for message in (opened, loader_pb2.LoadResponse(end_of_epoch={}), loader_pb2.LoadResponse()):
        assert reader.read(message.SerializeToString()) is None


@pytest.mark.filterwarnings("ignore:Unexpected end-group tag")
@pytest.mark.parametrize("seed", range(25))
def test_whatever_the_bytes_the_two_agree(seed: int) -> None:
    """What is read by hand, protobuf reads alike; what protobuf refuses, is not read by hand."""
    rng = np.random.default_rng(seed)
    message, schema = random_batch(rng, Padding.MASKED)
    if seed % 2:
        message = narrowed(rng, message)
    response = as_the_server_writes(load_response(rng, message))
    # One that knows the layout, and others that have to find their way.
    readers: list[Reader] = [BatchReader(is_loaded=True)]
    readers += [kind(is_loaded=True, writable=copied) for kind in KINDS for copied in (False, True)]
    for _ in range(3):
        readers[0].read(response)
    read = 0
    for number in range(400):
        damaged = mutate(rng, response) if number % 4 else response[: rng.integers(len(response))]
        expected: Any
        try:
            expected = read_by_protobuf(damaged, schema)
        except (PackhouseError, ValueError):
            expected = "refused"
        for reader in readers:
            try:
                received = read_by_hand(reader, damaged, schema)
            except ValueError:
                assert expected == "refused"
                continue
            if received is not None:
                assert received == expected
                read += 1
    # Data may be anything.
    assert read > 0


def mutate(rng: np.random.Generator, response: bytes) -> bytes:
    """Bytes changed, taken out, put in, moved or repeated, at one to three places."""
    mutated = bytearray(response)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(mutated)))
        count = int(rng.integers(1, 8))
        kind = int(rng.integers(5))
        if kind == 0:
            mutated[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            mutated[at] = int(rng.integers(256))
        elif kind == 2:
            del mutated[at : at + count]
        elif kind == 3:
            mutated[at:at] = rng.bytes(count)
        else:
            mutated[at:at] = mutated[at : at + count]
        if not mutated:
            break
    return bytes(mutated)


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field of less than 16 KiB, its length in two bytes."""
    assert len(content) < 1 << 14
    head = bytes([number << 3 | 2, len(content) & 0x7F | 0x80, len(content) >> 7])
    return head + content


@both_readers
def test_unusual_messages_are_read_as_protobuf_reads_them(kind: Any) -> None:
    graphs = molecules(np.random.default_rng(0), 3)
    message = batch_message(graphs, {}, Padding.NONE)
    whole = message.SerializeToString()
    tensor = message.tensors[0].SerializeToString()
    later = b"\xc2\x3e\x03abc"  # Field 1000.
    rows = batch_pb2.Batch(real_rows=message.real_rows).SerializeToString()
    assert rows in whole and rows[2] < 0x80
    halves = bytes([0x32, 1, rows[2], 0x32, len(rows) - 3]) + rows[3:]
    y = message.tensors[len(message.tensors) - 1].SerializeToString()
    cases = {
        "as usual, lengths in two bytes": field(2, field(1, whole)),
        "a field of a later version, first": field(2, field(1, later + whole)),
        "a field of a later version, in front of the tensors": field(
            2, field(1, whole.replace(field(8, tensor), later + field(8, tensor)))
        ),
        "a field of a later version, last": field(2, field(1, whole + later)),
        "in a tensor": field(2, field(1, whole + field(8, later + y))),
        "of the response": field(2, field(1, whole)) + later,
        "of the loaded batch": field(2, field(1, whole) + later),
        "two batches, which are merged": field(2, field(1, whole) + field(1, b"\x08\x07")),
        "two loaded batches": field(2, field(1, whole)) + field(2, b"\x20\x07"),
        "batch and end": field(2, field(1, whole)) + field(3, b""),
        "a tensor twice": field(2, field(1, whole + field(8, y))),
        "the id behind the tensors": field(2, field(1, whole + b"\x08\x07")),
        "a tensor with two names": field(2, field(1, whole + field(8, b"\x0a\x01a\x0a\x01b" + y))),
        "ids twice, of which the last count": field(2, field(1, b"\x22\x03abc" + whole)),
        "rows in two parts": field(2, field(1, whole.replace(rows, halves))),
        "a shape beyond 32 bits": field(2, field(1, whole) + b"\x28\x81\x80\x80\x80\x10"),
    }
    for case, response in cases.items():
        reader = kind(is_loaded=True)
        expected = read_by_protobuf(response, graphs.schema)
        for _ in range(3):
            received = read_by_hand(reader, response, graphs.schema)
            assert received is None or received == expected, case
    assert read_by_hand(reader, cases["as usual, lengths in two bytes"], graphs.schema) is not None


@both_readers
def test_what_protobuf_refuses_is_not_read(kind: Any) -> None:
    graphs = molecules(np.random.default_rng(0), 3)
    message = batch_message(graphs, {}, Padding.NONE)
    whole = message.SerializeToString()
    message.tensors[0].name = "of none of the others"
    other = message.tensors[0].SerializeToString()
    cases = {
        "a name that is no UTF-8": field(2, field(1, whole + field(8, b"\x0a\x01\xff"))),
        "and another name": field(2, field(1, whole + field(8, b"\x0a\x01\xff" + other))),
        "a field 0": field(2, field(1, whole + b"\x02\x00")),
        "cut off": field(2, field(1, whole))[:-1],
    }
    for case, response in cases.items():
        with pytest.raises(PackhouseError):
            read_by_protobuf(response, graphs.schema)
        assert kind(is_loaded=True).read(response) is None, case


def test_bytes_that_are_no_message_are_told() -> None:
    with pytest.raises(PackhouseError, match="5 bytes that are no packhouse.v1.LoadResponse") as e:
        parse_response(loader_pb2.LoadResponse, b"\x12\xff\xff\xff\x0f")
    assert e.value.code is grpc.StatusCode.INTERNAL


@pytest.mark.skipif(not HAS_NATIVE, reason="the native reader was not built")
def test_whatever_python_reads_the_native_reader_reads() -> None:
    """Else it would be slow, and nobody would notice."""
    rng = np.random.default_rng(0)
    for number in range(60):
        message, _ = random_batch(rng, list(Padding)[number % 3])
        if number % 2:
            message = narrowed(rng, message)
        response = as_the_server_writes(load_response(rng, message))
        assert NativeReader(is_loaded=True).read(response) is not None


def test_the_native_reader_can_be_left_out() -> None:
    program = "from packhouse.data.reading import new_reader; print(type(new_reader(is_loaded=True)))"
    for word, expected in (("0", BatchReader), ("1", KINDS[-1])):
        ran = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PACKHOUSE_NATIVE": word},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stdout.strip() == str(expected)
    assert isinstance(new_reader(is_loaded=False), (BatchReader, NativeReader))
