"""What the package reads of messages is all of them.

Each class with `from_proto` gets a message with a distinct value in every field, found by reflection,
and then the same without one field after the other: what is read must differ each time. So a new field
without its place fails here, and so does a new class without its row.
"""

import dataclasses
import enum
import importlib
import inspect
import itertools
import pkgutil
from typing import Any, Callable, Iterator

import numpy as np
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

import packhouse
from packhouse.v1 import (
    dataset_pb2,
    feedback_pb2,
    graphs_pb2,
    loader_pb2,
    packing_pb2,
    partitioning_pb2,
    planning_pb2,
    sampling_pb2,
    sizes_pb2,
    source_graph_pb2,
)

# Rows of numbers.
_SIZES = np.array([[3, 4], [5, 6]], "<u4").tobytes()


def _histogram(message: Any) -> None:
    message.Clear()
    message.components.extend(["nodes", "edges"])
    message.tuples = _SIZES
    message.counts = np.array([7, 8], "<u8").tobytes()


def _tensor(message: Any) -> None:
    message.ClearField("index_into")
    message.dtype = graphs_pb2.DATA_TYPE_INT32
    message.row_shape[:] = [2]
    message.padding_value = b"\x05\x00\x00\x00"


def _schema(message: Any) -> None:
    message.components[:] = ["nodes", "edges"]
    index = message.tensors[0]
    _tensor(index)
    index.component = "nodes"
    index.index_into = "edges"
    index.ClearField("padding_value")
    padded = message.tensors.add()
    padded.CopyFrom(index)
    padded.name = "padded"
    padded.ClearField("index_into")
    padded.padding_value = b"\x05\x00\x00\x00"


def _plan(message: Any) -> None:
    message.plan.tuples = np.array([[3], [4]], "<u4").tobytes()


@dataclasses.dataclass
class Row:
    """The message that a class reads; what makes the filled one valid; fields that it leaves out.

    With a field, all below it are left out.
    """

    message: type
    repair: Callable[[Any], None] = lambda message: None
    left_out: tuple[str, ...] = ()


def _leaves(message: Message, path: str = "") -> Iterator[tuple[str, Message, FieldDescriptor]]:
    """Path, message and field of each value."""
    for field, value in message.ListFields():
        name = path + field.name
        if field.type != FieldDescriptor.TYPE_MESSAGE:
            yield name, message, field
        elif field.label == FieldDescriptor.LABEL_REPEATED:
            for each in value:
                yield from _leaves(each, name + ".")
        else:
            yield from _leaves(value, name + ".")


def _fill(message: Message, numbers: Iterator[int], depth: int = 0) -> None:
    """Gives every field a value of its own, but of a oneof the first alone."""
    assert depth < 12, "the messages contain themselves"
    for field in message.DESCRIPTOR.fields:
        oneof = field.containing_oneof
        if oneof is not None and message.WhichOneof(oneof.name) is not None:
            continue
        repeated = field.label == FieldDescriptor.LABEL_REPEATED
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            value = getattr(message, field.name)
            if not repeated:
                value.SetInParent()
            _fill(value.add() if repeated else value, numbers, depth + 1)
            continue
        number = next(numbers)
        value = {
            FieldDescriptor.CPPTYPE_STRING: f"text.{number}",
            FieldDescriptor.CPPTYPE_BOOL: True,
            FieldDescriptor.CPPTYPE_DOUBLE: number + 0.5,
            FieldDescriptor.CPPTYPE_FLOAT: number + 0.5,
        }.get(field.cpp_type, number)
        if field.type == FieldDescriptor.TYPE_BYTES:
            value = number.to_bytes(8, "little")
        elif field.type == FieldDescriptor.TYPE_ENUM:
            value = max(field.enum_type.values_by_number)
        if repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)


def _describe(thing: Any) -> Any:
    """All that a thing holds, comparable."""
    if isinstance(thing, np.ndarray):
        return thing.tolist()
    if isinstance(thing, enum.Enum):
        return str(thing)
    if isinstance(thing, BaseException):
        return repr(thing), str(thing)
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        return [(f.name, _describe(getattr(thing, f.name))) for f in dataclasses.fields(thing)]
    if isinstance(thing, dict) or hasattr(thing, "items"):
        return [(_describe(key), _describe(value)) for key, value in thing.items()]
    if isinstance(thing, (list, tuple)):
        return [_describe(each) for each in thing]
    return repr(thing)


def _read(kind: type, message: Message) -> Any:
    try:
        return _describe(kind.from_proto(message))  # type: ignore[attr-defined]
    except (ValueError, KeyError, IndexError) as error:
        return repr(error)


def _kinds() -> dict[str, type]:
    """All classes of the package that read a message."""
    kinds = {}
    for module in pkgutil.walk_packages(packhouse.__path__, "packhouse."):
        # Frameworks make tensors of what others have read, and may not be here.
        parts = module.name.split(".")
        if parts[1] in ("v1", "demo", "command", "frameworks") or (
            len(parts) == 2 and not module.ispkg
        ):
            continue
        loaded = importlib.import_module(module.name)
        for name, kind in inspect.getmembers(loaded, inspect.isclass):
            if kind.__module__ == module.name and "from_proto" in vars(kind):
                kinds[name] = kind
    return kinds


KINDS = _kinds()
def _estimate(message: Any) -> None:
    _schema(message.schema)
    _histogram(message.histogram)


# Of times, servers tell whole seconds. The name of a summary says what its heuristic is. What was
# asked for of a partition, the caller knows. Text is always ragged. The loader keeps cursors, and reads
# the share of an epoch by itself.
ROWS: dict[str, Row] = {
    "Dataset": Row(dataset_pb2.Dataset, lambda message: _schema(message.schema)),
    "DatasetDrift": Row(dataset_pb2.DatasetDrift),
    "DeviceModel": Row(feedback_pb2.DeviceModel, left_out=("last_report.nanos",)),
    "DeviceProfile": Row(planning_pb2.DeviceProfile),
    "EpochInfo": Row(loader_pb2.Epoch, left_out=("start_cursor", "share")),
    "EpochShape": Row(loader_pb2.EpochShape),
    "EpochShare": Row(loader_pb2.EpochShare),
    "GraphSchema": Row(graphs_pb2.GraphSchema, _schema),
    "Histogram": Row(sizes_pb2.Histogram, _histogram),
    "Job": Row(loader_pb2.Job, left_out=("epochs.last_used.nanos", "last_used.nanos")),
    "JobEpoch": Row(loader_pb2.JobEpoch, left_out=("last_used.nanos",)),
    "MixedDataset": Row(loader_pb2.MixedDataset),
    "Oversize": Row(planning_pb2.Oversize),
    "PackDrifted": Row(packing_pb2.PackDrifted),
    "PackOpened": Row(
        packing_pb2.PackOpened, lambda message: _schema(message.schema), ("payload",)
    ),
    "PackShape": Row(packing_pb2.PackShape),
    "PackTuned": Row(packing_pb2.PackTuned),
    "Partition": Row(partitioning_pb2.PartitionJob, left_out=("request", "graph_version")),
    "Plan": Row(
        planning_pb2.PlanResponse, _plan, ("best.heuristic", "summaries.heuristic")
    ),
    "PlanSummary": Row(planning_pb2.PlanSummary, left_out=("heuristic",)),
    "Rejection": Row(packing_pb2.Rejection),
    "SizeEstimate": Row(sampling_pb2.EstimateSizesResponse, _estimate),
    "SourceColumn": Row(source_graph_pb2.SourceColumn, left_out=("ragged",)),
    "SourceGraph": Row(
        source_graph_pb2.SourceGraph,
        left_out=("schema.node_sets.columns.ragged", "schema.edge_sets.columns.ragged"),
    ),
    "SourceGraphSchema": Row(
        source_graph_pb2.SourceGraphSchema,
        left_out=("node_sets.columns.ragged", "edge_sets.columns.ragged"),
    ),
    "TensorSpec": Row(graphs_pb2.TensorSpec, _tensor),
    "TuneProgress": Row(planning_pb2.TuneProgress),
    "TunedShape": Row(planning_pb2.TunedShape),
}


def test_each_class_that_reads_a_message_has_a_row() -> None:
    # What is in a batch's tensors, its schema says: test_batch_reader.py.
    assert set(KINDS) - {"Batch"} == set(ROWS)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_every_field_is_read(name: str) -> None:
    row = ROWS[name]
    message = row.message()
    _fill(message, itertools.count(1001))
    row.repair(message)
    whole = _read(KINDS[name], message)
    assert not isinstance(whole, str), whole
    unread = []
    for path, part, field in list(_leaves(message)):
        repeated = field.label == FieldDescriptor.LABEL_REPEATED
        value = getattr(part, field.name)
        value = list(value) if repeated else value
        part.ClearField(field.name)
        if _read(KINDS[name], message) == whole:
            unread.append(path)
        if repeated:
            getattr(part, field.name).extend(value)
        else:
            setattr(part, field.name, value)
    left_out = [
        next((each for each in row.left_out if f"{path}.".startswith(f"{each}.")), path)
        for path in unread
    ]
    assert list(dict.fromkeys(left_out)) == list(row.left_out)


# A plan is said as another message: that of a plan to begin with.
SAID_AGAIN = sorted(name for name in ROWS if "to_proto" in vars(KINDS[name]) and name != "Plan")


@pytest.mark.parametrize("name", SAID_AGAIN)
def test_what_was_read_is_said_again(name: str) -> None:
    row = ROWS[name]
    message = row.message()
    _fill(message, itertools.count(1001))
    row.repair(message)
    said = KINDS[name].from_proto(message).to_proto()  # type: ignore[attr-defined]
    for path in row.left_out:
        *above, field = path.split(".")
        for whole in (message, said):
            parts = [whole]
            for each in above:
                within = [getattr(part, each) for part in parts]
                parts = [x for y in within for x in ([y] if isinstance(y, Message) else y)]
            for part in parts:
                part.ClearField(field)
    assert said == message


def test_what_is_said_again_is_no_empty_list() -> None:
    assert {"DeviceProfile", "GraphSchema", "Histogram", "SourceGraphSchema"} <= set(SAID_AGAIN)
