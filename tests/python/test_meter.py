"""Laws of the meter of steps, and of what is told and read of measured models, without a server."""

from __future__ import annotations

import datetime
import threading
from types import SimpleNamespace
from typing import Any, Callable, Iterator, Sequence

import pytest

from packhouse.stored import feedback as feedback_module
from packhouse.stored.feedback import (
    BatchFeedback,
    Feedback,
    JaxMemory,
    Meter,
    ProcessMemory,
    is_out_of_memory,
)
from packhouse.v1 import feedback_pb2


class Clock:
    """Each step takes the next of these seconds."""

    def __init__(self, *seconds: float) -> None:
        self._times = iter([time for each in seconds for time in (100.0, 100.0 + each)])

    def perf_counter(self) -> float:
        return next(self._times)


class Memory:
    """Of a device whose steps take so much."""

    def __init__(self, *peaks: int) -> None:
        self._peaks = iter(peaks)
        self.resets = 0

    def reset(self) -> None:
        self.resets += 1

    def peak_bytes(self) -> int:
        return next(self._peaks)


def batch_of(nodes: int) -> Any:
    return SimpleNamespace(rows={"nodes": nodes, "graphs": 1})


def steps(meter: Meter, *nodes: int) -> None:
    for each in nodes:
        with meter.step(batch_of(each)):
            pass


@pytest.fixture
def told() -> Iterator[list[BatchFeedback]]:
    yield []


def clocked(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
    monkeypatch.setattr(feedback_module.time, "perf_counter", Clock(*seconds).perf_counter)


def test_steps_of_a_shape_are_told_together_but_the_one_that_compiles(
    monkeypatch: pytest.MonkeyPatch, told: list[BatchFeedback]
) -> None:
    clocked(monkeypatch, 50, 1, 60, 2, 9, *[3] * 31)
    memory = Memory(4, 9, 8, 7, 2, *[1] * 31)
    meter = Meter(told.extend, memory, None)
    steps(meter, 7, 7, 5, 7, 7)
    assert told == [] and memory.resets == 5
    meter.flush()
    rows = {"nodes": 7, "graphs": 1}
    assert told[0] == BatchFeedback(rows=rows, seconds=2.0, peak_bytes=9, num_batches=3)
    assert told[1:] == [BatchFeedback(rows={"nodes": 5, "graphs": 1}, peak_bytes=8)]
    del told[:]
    # 32 of them make one report, which waits for others.
    steps(meter, *[7] * 31)
    assert meter._waiting == []
    clocked(monkeypatch, 3)
    meter._memory = None
    steps(meter, 7)
    assert [each.num_batches for each in meter._waiting] == [32]
    assert meter._seconds == {} and meter._peaks == {}
    meter.close()
    assert [each.num_batches for each in told] == [32]
    meter.close()
    assert len(told) == 1 and not meter._thread.is_alive()


def test_a_step_that_did_not_fit_is_told_at_once_and_raised(told: list[BatchFeedback]) -> None:
    has_come = threading.Event()

    def report(reports: Sequence[BatchFeedback]) -> None:
        told.extend(reports)
        if reports:
            has_come.set()

    meter = Meter(report, None, None)
    with pytest.raises(KeyError), meter.step(batch_of(5)):
        raise KeyError
    with pytest.raises(MemoryError), meter.step(batch_of(6)):
        raise MemoryError
    assert has_come.wait(20)
    assert told == [BatchFeedback(rows={"nodes": 6, "graphs": 1}, out_of_memory=True)]
    meter.close()
    assert len(told) == 1

    # The device is waited for within the step, and may say it then.
    def synchronize() -> None:
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError), Meter(told.extend, None, synchronize) as meter:
        steps(meter, 8)
    # Nothing waits for a server after an exception.
    assert not meter._thread.is_alive()


def test_what_waits_is_sent_after_some_seconds_and_dropped_after_an_exception(
    monkeypatch: pytest.MonkeyPatch, told: list[BatchFeedback]
) -> None:
    monkeypatch.setattr(feedback_module, "_SECONDS_BETWEEN_SENDING", 0.01)
    has_come = threading.Event()

    def report(reports: Sequence[BatchFeedback]) -> None:
        told.extend(reports)
        if reports:
            has_come.set()

    meter = Meter(report, Memory(1, 1), None)
    steps(meter, 3)
    meter._queue(meter._take_all())
    assert has_come.wait(20)
    assert [each.rows["nodes"] for each in told] == [3]
    monkeypatch.setattr(feedback_module, "_SECONDS_BETWEEN_SENDING", 100)
    meter.close()
    del told[:]
    with pytest.raises(KeyError), Meter(told.extend, Memory(1), None) as meter:
        steps(meter, 4)
        raise KeyError
    assert told == []
    # Without one, it is sent.
    with Meter(told.extend, Memory(1), None) as meter:
        steps(meter, 4)
    assert len(told) == 1


def test_reports_go_in_calls_of_256_at_most_and_what_is_not_taken_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []
    meter = Meter(lambda reports: calls.append(len(reports)), None, None)
    meter._tell([BatchFeedback({"nodes": 1}, seconds=1)] * 600)
    assert calls == [256, 256, 88]
    meter.close()

    def refuse(_: Any) -> None:
        raise ValueError("no room")

    meter = Meter(refuse, Memory(1), None)
    steps(meter, 3)
    with pytest.warns(RuntimeWarning, match="^feedback was not taken: no room$"):
        meter.close()


def test_shapes_that_are_remembered_are_the_latest(
    monkeypatch: pytest.MonkeyPatch, told: list[BatchFeedback]
) -> None:
    monkeypatch.setattr(feedback_module, "_MAX_SHAPES", 2)
    meter = Meter(told.extend, None, None)
    steps(meter, 1, 2, 1, 3)
    assert [dict(rows)["nodes"] for rows in meter._seen] == [1, 3]
    meter.close()
    # A shape that was forgotten compiles again; of the others the seconds are told.
    assert [each.rows["nodes"] for each in told] == [1]


def test_what_waits_or_is_measured_wakes_the_sender_at_its_bound(
    monkeypatch: pytest.MonkeyPatch, told: list[BatchFeedback]
) -> None:
    monkeypatch.setattr(feedback_module, "_MAX_WAITING", 3)
    has_come = threading.Event()

    def report(reports: Sequence[BatchFeedback]) -> None:
        told.extend(reports)
        has_come.set()

    meter = Meter(report, Memory(*[1] * 9), None)
    steps(meter, 1, 2)
    assert len(meter._peaks) == 2
    steps(meter, 3)
    assert has_come.wait(20) and meter._peaks == {}
    assert [each.rows["nodes"] for each in told] == [1, 2, 3]
    meter.close()


def test_what_ends_the_senders_work_is_told_at_the_next_step_and_it_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Odd(BaseException):
        pass

    failed = threading.Event()
    calls: list[Any] = []

    def report(reports: Sequence[BatchFeedback]) -> None:
        calls.append(reports)
        if len(calls) == 1:
            raise Odd("odd")
        failed.set()

    meter = Meter(report, None, None)
    meter._queue([BatchFeedback({"nodes": 1}, out_of_memory=True)], at_once=True)
    while meter._failure is None:
        meter._thread.join(0.01)
    with pytest.warns(RuntimeWarning, match="^feedback was not taken: odd$"):
        steps(meter, 1)
    assert meter._failure is None
    meter._queue([BatchFeedback({"nodes": 2}, out_of_memory=True)], at_once=True)
    assert failed.wait(20)
    # A thread that has died is started again, unless it is over.
    dead = threading.Thread(target=int)
    dead.start()
    dead.join()
    alive, meter._thread = meter._thread, dead
    steps(meter, 1)
    assert meter._thread is not dead and meter._thread.is_alive()
    meter.close()
    alive.join(20)
    meter._thread = dead
    steps(meter, 1)
    assert meter._thread is dead


@pytest.mark.parametrize(
    "error, is_one",
    [
        (type("OutOfMemoryError", (Exception,), {})(), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("out of memory"), True),
        (RuntimeError("RESOURCE_EXHAUSTED"), True),
        (ValueError("out of memory"), False),
        (RuntimeError("other"), False),
    ],
)
def test_errors_of_memory_are_told_by_their_kind_and_words(error: Exception, is_one: bool) -> None:
    assert is_out_of_memory(error) is is_one


def test_a_device_whose_peak_stays_tells_only_steps_that_exceed_it() -> None:
    peak: dict[str, int] | None = None
    memory = JaxMemory(SimpleNamespace(memory_stats=lambda: peak))
    memory.reset()
    assert memory.peak_bytes() == 0
    peak = {"peak_bytes_in_use": 7}
    assert memory.peak_bytes() == 7
    memory.reset()
    assert memory.peak_bytes() == 0
    peak = {"peak_bytes_in_use": 8}
    assert memory.peak_bytes() == 8


def test_a_process_measures_its_own_memory_where_the_peak_can_be_forgotten(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    files = {"/proc/self/clear_refs": tmp_path / "refs", "/proc/self/status": tmp_path / "status"}
    files["/proc/self/status"].write_text("Name: x\nVmHWM:\t   12 kB\nVmRSS: 3 kB\n")
    real_open = open
    monkeypatch.setattr(
        "builtins.open", lambda name, *rest, **how: real_open(files.get(name, name), *rest, **how)
    )
    memory = ProcessMemory()
    memory.reset()
    assert files["/proc/self/clear_refs"].read_text() == "5"
    assert memory.peak_bytes() == 12 << 10
    files["/proc/self/status"].unlink()
    assert memory.peak_bytes() == 0
    files["/proc/self/status"].write_text("VmHWM: 12 kB\n")
    files["/proc/self/clear_refs"] = tmp_path / "absent" / "refs"
    memory.reset()
    assert memory.peak_bytes() == 0


class Calls:
    """Notes what is asked, and answers."""

    def __init__(self, answer: Any = None) -> None:
        self.asked: list[Any] = []
        self._answer = answer
        self.feedback = Feedback(self, self._unary)  # type: ignore[arg-type]

    def unary_unary(self, method: str, *_: Any, **__: Any) -> str:
        return method.rpartition("/")[2]

    def _unary(self, method: str, request: Any) -> Any:
        self.asked.append((method, request))
        return self._answer


def test_a_report_says_which_model_and_what_its_batches_cost() -> None:
    calls = Calls(feedback_pb2.ReportResponse(num_reports=9))
    batches = [
        BatchFeedback({"nodes": 4, "graphs": 2}, 0.5, 77, 3),
        BatchFeedback({"nodes": 5}, out_of_memory=True),
    ]
    assert calls.feedback.report("gin/big/h100", batches, job="j", rank_group=2) == 9
    ((method, request),) = calls.asked
    assert method == "Report"
    assert (request.model, request.device) == ("gin/big", "h100")
    assert (request.job, request.rank_group) == ("j", 2)
    first, second = request.batches
    rows = {each.component: each.rows for each in first.capacities.capacities}
    assert (rows, first.seconds, first.peak_bytes, first.num_batches, first.out_of_memory) == (
        {"nodes": 4, "graphs": 2},
        0.5,
        77,
        3,
        False,
    )
    assert second.out_of_memory and second.num_batches == 1
    meter = calls.feedback.meter("gin/h100", memory=Memory(3), job="k", rank_group=1)
    meter._tell([])
    assert len(calls.asked) == 1
    steps(meter, 6)
    meter.close()
    _, request = calls.asked[-1]
    assert (request.model, request.job, request.rank_group) == ("gin", "k", 1)
    assert request.batches[0].peak_bytes == 3


@pytest.mark.parametrize("name", ["gin", "/h100", "gin/", "", "/"])
def test_a_name_that_is_no_model_and_device_is_refused(name: str) -> None:
    feedback = Calls().feedback
    uses: list[Callable[[], Any]] = [
        lambda: feedback.get(name),
        lambda: feedback.delete(name),
        lambda: feedback.report(name, []),
        lambda: feedback.meter(name),
    ]
    for use in uses:
        with pytest.raises(ValueError, match=f"^measured_as: '{name}' is not MODEL/DEVICE$"):
            use()
    with pytest.raises(ValueError, match="^rank_group: "):
        feedback.meter("gin/h100", rank_group=-1)
    with pytest.raises(TypeError, match="^batches"):
        feedback.report("gin/h100", [3])  # type: ignore[list-item]


def test_a_model_is_read_and_forgotten_by_its_name() -> None:
    message = feedback_pb2.DeviceModel(model="gin", device="h100", num_reports=3)
    calls = Calls(message)
    model = calls.feedback.get("gin/h100")
    assert (model.model, model.device, model.num_reports, model.last_report) == (
        "gin",
        "h100",
        3,
        None,
    )
    calls.feedback.delete("a/b")
    assert [(method, each.model, each.device) for method, each in calls.asked] == [
        ("GetModel", "gin", "h100"),
        ("DeleteModel", "a", "b"),
    ]
    message.last_report.seconds = 86400
    listed = Calls(feedback_pb2.ListModelsResponse(models=[message]))
    (model,) = listed.feedback.list()
    assert model.last_report == datetime.datetime(1970, 1, 2, tzinfo=datetime.timezone.utc)
