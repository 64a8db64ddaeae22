"""What batches cost on the device, told to the server, which chooses limits by it.

    with client.feedback.meter("gin/h100", memory=TorchMemory(device)) as meter:
        for batch in loader:
            with meter.step(batch):
                train(batch)

One `with` a step: it measures the step's seconds and the most memory in use, and notices a step that
ran out of memory. A thread of its own sends what was measured, many batches together.
`DeviceProfile(measured_as="gin/h100", ...)` then has limits chosen by it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import statistics
import threading
import time
import warnings
from typing import Any, Callable, Final, Iterable, Iterator, Mapping, Protocol, Sequence, runtime_checkable

import grpc

from packhouse.base.arguments import check_each, names_arguments, whole_number
from packhouse.data.batch import Batch
from packhouse.v1 import feedback_pb2, feedback_pb2_grpc

# Reports that wait to be sent, and how long the first of them does.
_MAX_WAITING: Final = 256
_SECONDS_BETWEEN_SENDING: Final = 5.0
# Seconds that the end waits for a call that is under way, where what is left is dropped.
_CLOSING: Final = 2.0
# Steps of a shape that are measured together.
_STEPS_TOGETHER: Final = 32
# Shapes that are remembered as compiled, the latest.
_MAX_SHAPES: Final = 1024


@names_arguments
@dataclasses.dataclass(frozen=True)
class BatchFeedback:
    """What some batches of one shape cost.

    `rows`: by component, `graphs` too, padding included. `seconds` is of one batch, the median if
    there are several. 0 means not measured. Batches that did not fit the memory have neither
    seconds nor bytes.
    """

    rows: Mapping[str, int]
    seconds: float = 0.0
    peak_bytes: int = 0
    num_batches: int = 1
    out_of_memory: bool = False

    def to_proto(self) -> Any:
        """This report as a `packhouse.v1.BatchFeedback`."""
        message = feedback_pb2.BatchFeedback(
            num_batches=self.num_batches,
            seconds=self.seconds,
            peak_bytes=self.peak_bytes,
            out_of_memory=self.out_of_memory,
        )
        for name, rows in self.rows.items():
            message.capacities.capacities.add(component=name, rows=rows)
        return message


@dataclasses.dataclass(frozen=True)
class MeasuredShape:
    """What was seen of one shape; `expected_seconds` is what the law says."""

    rows: dict[str, int]
    num_batches: int
    seconds: float
    expected_seconds: float
    peak_bytes: int
    num_out_of_memory: int


@dataclasses.dataclass(frozen=True)
class DeviceModel:
    """What a model's batches cost on a device: seconds and bytes for each batch and for each row.

    seconds = max(least_seconds, fixed_seconds + sum of seconds_per_row * rows); no batch that was
    measured took more bytes than fixed_bytes + sum of bytes_per_row * rows. `most_bytes`: since a
    batch of as many did not fit, limits stay below; 0: all fitted. `spread`: the median share by
    which shapes differ from the law. `shapes` is empty in a list of models.
    """

    model: str
    device: str
    seconds_per_row: dict[str, float]
    bytes_per_row: dict[str, float]
    fixed_seconds: float
    least_seconds: float
    spread: float
    fixed_bytes: float
    most_bytes: int
    num_reports: int
    num_out_of_memory: int
    shapes: tuple[MeasuredShape, ...]
    last_report: datetime.datetime | None = None
    """In UTC, to a second; None: not known."""

    @staticmethod
    def from_proto(message: Any) -> DeviceModel:
        """Reads a `packhouse.v1.DeviceModel`."""
        return DeviceModel(
            model=message.model,
            device=message.device,
            seconds_per_row={each.component: each.seconds_per_row for each in message.components},
            bytes_per_row={each.component: each.bytes_per_row for each in message.components},
            fixed_seconds=message.fixed_seconds,
            least_seconds=message.least_seconds,
            spread=message.spread,
            fixed_bytes=message.fixed_bytes,
            most_bytes=message.most_bytes,
            num_reports=message.num_reports,
            num_out_of_memory=message.num_out_of_memory,
            shapes=tuple(
                MeasuredShape(
                    rows={each.component: each.rows for each in shape.capacities.capacities},
                    num_batches=shape.num_batches,
                    seconds=shape.seconds,
                    expected_seconds=shape.expected_seconds,
                    peak_bytes=shape.peak_bytes,
                    num_out_of_memory=shape.num_out_of_memory,
                )
                for shape in message.shapes
            ),
            last_report=(
                datetime.datetime.fromtimestamp(message.last_report.seconds, datetime.timezone.utc)
                if message.HasField("last_report")
                else None
            ),
        )


@runtime_checkable
class MemoryMeter(Protocol):
    """Reads the most memory that a step had in use."""

    def reset(self) -> None:
        """Before a step."""

    def peak_bytes(self) -> int:
        """After it; 0 if it is not known."""


class ProcessMemory:
    """The process's own memory, for training on the CPU: the peak of its resident set (Linux)."""

    def __init__(self) -> None:
        """Reads nothing yet."""
        self._can_reset = True

    def reset(self) -> None:
        """Lets the system forget the peak; where it does not, nothing is measured."""
        try:
            with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
                file.write("5")
        except OSError:
            self._can_reset = False

    def peak_bytes(self) -> int:
        """The peak since `reset`."""
        if not self._can_reset:
            return 0
        try:
            with open("/proc/self/status", encoding="ascii") as file:
                for line in file:
                    if line.startswith("VmHWM:"):
                        return int(line.split()[1]) * 1024
        except OSError:
            pass
        return 0


class JaxMemory:
    """A jax device's memory, by `device.memory_stats()`.

    Its peak cannot be reset: steps that do not exceed all steps before tell no bytes.
    """

    def __init__(self, device: Any) -> None:
        """`device`: one of `jax.devices()`."""
        self._device = device
        self._before = 0

    def reset(self) -> None:
        """Notes the peak so far."""
        self._before = self._peak()

    def peak_bytes(self) -> int:
        """The peak, if this step made it."""
        peak = self._peak()
        return peak if peak > self._before else 0

    def _peak(self) -> int:
        # CPUs have none.
        return int((self._device.memory_stats() or {}).get("peak_bytes_in_use", 0))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that a device, or the process, has no memory left.

    Knows Python's MemoryError, and torch's and jax's errors by their names and messages.
    """
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and (
        "out of memory" in text or "RESOURCE_EXHAUSTED" in text or "can't allocate memory" in text
    )


class Meter:
    """Measures steps and tells the server. Get it from `Feedback.meter`.

    Use it as a context manager: the end sends what is left, unless an exception leaves the block. `step` is for one thread at a time.
    Feedback that cannot be sent is dropped with a warning: training goes on.

    Of ragged batches, hardly two of which have one shape, memory is told and seconds hardly ever
    are, since the first step of a shape does not count: pad them to have both.
    """

    def __init__(
        self,
        report: Callable[[Sequence[BatchFeedback]], None],
        memory: MemoryMeter | None,
        synchronize: Callable[[], None] | None,
    ) -> None:
        """`report` sends reports."""
        self._report = report
        self._memory = memory
        self._synchronize = synchronize
        self._seen: dict[tuple[tuple[str, int], ...], None] = {}
        self._seconds: dict[tuple[tuple[str, int], ...], list[float]] = {}
        self._peaks: dict[tuple[tuple[str, int], ...], int] = {}
        self._waiting: list[BatchFeedback] = []
        self._wakes = threading.Condition()
        self._closed = False
        # What ended the thread's work, and is to be told.
        self._failure: BaseException | None = None
        self._thread = self._started()

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, kind: object, *exc_info: object) -> None:
        # An exception, as of Ctrl-C, does not wait for a server: what is left is dropped.
        self._end(drops=kind is not None)

    @contextlib.contextmanager
    def step(self, batch: Batch) -> Iterator[None]:
        """Around the work on one batch, without waiting for it.

        The first step of each shape counts as one that compiles: its time is not told. An error
        that says that memory ran out is told, and raised.
        """
        failure, self._failure = self._failure, None
        if failure is not None:
            _warn(failure)
        if not self._thread.is_alive() and not self._closed:
            self._thread = self._started()
        rows = tuple(batch.rows.items())
        if self._memory is not None:
            self._memory.reset()
        began = time.perf_counter()
        try:
            yield
            if self._synchronize is not None:
                self._synchronize()
        except BaseException as error:
            if is_out_of_memory(error):
                self._queue([BatchFeedback(rows=dict(rows), out_of_memory=True)], at_once=True)
            raise
        seconds = time.perf_counter() - began
        if self._memory is not None:
            self._peaks[rows] = max(self._peaks.get(rows, 0), self._memory.peak_bytes())
        compiles = rows not in self._seen
        # The latest last.
        self._seen.pop(rows, None)
        self._seen[rows] = None
        if len(self._seen) > _MAX_SHAPES:
            del self._seen[next(iter(self._seen))]
        if not compiles:
            self._seconds.setdefault(rows, []).append(seconds)
        if len(self._seconds.get(rows, [])) >= _STEPS_TOGETHER:
            self._queue([self._take(rows)])
        if max(len(self._peaks), len(self._seconds)) >= _MAX_WAITING:
            self._queue(self._take_all())

    def flush(self) -> None:
        """Sends what was measured so far, and waits until it is sent."""
        self._queue(self._take_all())
        with self._wakes:
            waiting, self._waiting = self._waiting, []
        self._tell(waiting)

    def close(self) -> None:
        """Sends what is left. Idempotent."""
        self._end(drops=False)

    def _end(self, drops: bool) -> None:
        with self._wakes:
            if self._closed:
                return
            self._closed = True
            self._wakes.notify()
        self._thread.join(_CLOSING if drops else None)
        if not drops:
            self.flush()

    def _started(self) -> threading.Thread:
        thread = threading.Thread(target=self._send, name="packhouse-feedback", daemon=True)
        thread.start()
        return thread

    def _take(self, rows: tuple[tuple[str, int], ...]) -> BatchFeedback:
        seconds = self._seconds.pop(rows, [])
        return BatchFeedback(
            rows=dict(rows),
            seconds=statistics.median(seconds) if seconds else 0.0,
            peak_bytes=self._peaks.pop(rows, 0),
            num_batches=max(len(seconds), 1),
        )

    def _take_all(self) -> list[BatchFeedback]:
        return [self._take(rows) for rows in [*self._peaks, *self._seconds]]

    def _queue(self, reports: Iterable[BatchFeedback], at_once: bool = False) -> None:
        telling = [
            each for each in reports if each.seconds or each.peak_bytes or each.out_of_memory
        ]
        with self._wakes:
            self._waiting.extend(telling)
            if at_once or len(self._waiting) >= _MAX_WAITING:
                self._wakes.notify()

    def _send(self) -> None:
        while not self._closed:
            try:
                with self._wakes:
                    if not self._closed:
                        self._wakes.wait(_SECONDS_BETWEEN_SENDING)
                    if self._closed:
                        return
                    waiting, self._waiting = self._waiting, []
                self._tell(waiting)
            except BaseException as error:  # Whatever it is: training goes on, and this does.
                self._failure = error

    def _tell(self, reports: Sequence[BatchFeedback]) -> None:
        try:
            for begin in range(0, len(reports), _MAX_WAITING):
                self._report(reports[begin : begin + _MAX_WAITING])
        except Exception as error:
            _warn(error)


def _warn(error: BaseException) -> None:
    warnings.warn(
        f"feedback was not taken: {error or type(error).__name__}", RuntimeWarning, stacklevel=3
    )


@names_arguments
class Feedback:
    """Get it from `Client.feedback`. May be used from any thread."""

    def __init__(self, channel: grpc.Channel, unary: Callable[[Any, Any], Any]) -> None:
        """`unary(method, request)` makes a unary call."""
        self._stub = feedback_pb2_grpc.FeedbackServiceStub(channel)
        self._unary = unary

    def report(
        self,
        measured_as: str,
        batches: Sequence[BatchFeedback],
        *,
        job: str = "",
        rank_group: int = 0,
    ) -> int:
        """Tells what batches cost; the number of reports of the model on the device now.

        `measured_as` is "MODEL/DEVICE". `job` and `rank_group` are for the server's log. A call
        waits for the server's disk: tell of many batches together, at most 1024. Errors:
        INVALID_ARGUMENT; FAILED_PRECONDITION if the model has other components;
        RESOURCE_EXHAUSTED if the server keeps no more models.
        """
        check_each(batches, "batches", BatchFeedback)
        model, device = _named(measured_as)
        request = feedback_pb2.ReportRequest(
            model=model,
            device=device,
            batches=[each.to_proto() for each in batches],
            job=job,
            rank_group=whole_number(rank_group, "rank_group"),
        )
        return int(self._unary(self._stub.Report, request).num_reports)

    def meter(
        self,
        measured_as: str,
        *,
        memory: MemoryMeter | None = None,
        synchronize: Callable[[], None] | None = None,
        job: str = "",
        rank_group: int = 0,
    ) -> Meter:
        """Measures a training loop.

        `memory` reads the device's memory: `packhouse.torch.TorchMemory`, `JaxMemory`, or
        `ProcessMemory` on the CPU; None: bytes are not told. `synchronize` waits for the device at
        the end of a step, where frameworks work ahead (`torch.cuda.synchronize`); without it a
        step's time is that of the loop, which is the same in the long run.
        """
        _named(measured_as)
        whole_number(rank_group, "rank_group")

        def report(batches: Sequence[BatchFeedback]) -> None:
            if batches:
                self.report(measured_as, batches, job=job, rank_group=rank_group)

        return Meter(report, memory, synchronize)

    def get(self, measured_as: str) -> DeviceModel:
        """What was measured, and the laws. Errors: NOT_FOUND; INVALID_ARGUMENT."""
        model, device = _named(measured_as)
        request = feedback_pb2.GetModelRequest(model=model, device=device)
        return DeviceModel.from_proto(self._unary(self._stub.GetModel, request))

    def list(self) -> Sequence[DeviceModel]:
        """All models and devices, by name, without their shapes."""
        response = self._unary(self._stub.ListModels, feedback_pb2.ListModelsRequest())
        return [DeviceModel.from_proto(model) for model in response.models]

    def delete(self, measured_as: str) -> None:
        """Forgets what was measured. Errors: NOT_FOUND; INVALID_ARGUMENT."""
        model, device = _named(measured_as)
        request = feedback_pb2.DeleteModelRequest(model=model, device=device)
        self._unary(self._stub.DeleteModel, request)


def _named(measured_as: str) -> tuple[str, str]:
    model, slash, device = measured_as.rpartition("/")
    if not slash or not model or not device:
        raise ValueError(f"measured_as: {measured_as!r} is not MODEL/DEVICE")
    return model, device
