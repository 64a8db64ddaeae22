"""Limits that learn from what batches cost, with a real server."""

from __future__ import annotations

import datetime
import itertools
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import grpc
import numpy as np
import pytest
from random_graphs import molecules

from packhouse import (
    GRAPHS,
    BatchFeedback,
    Client,
    ComponentProfile,
    DeviceProfile,
    Loader,
    LocalServer,
    PackhouseError,
    Padding,
    ProcessMemory,
)
from packhouse.stored.feedback import Meter, is_out_of_memory

MOLECULES = molecules(np.random.default_rng(0), 600)
DATASET = "feedback/molecules"
_models = itertools.count()


@pytest.fixture(scope="module", autouse=True)
def dataset(client: Client) -> None:
    client.datasets.create(DATASET, MOLECULES.schema)
    client.datasets.append(DATASET, [MOLECULES])
    client.datasets.seal(DATASET)


@pytest.fixture
def measured_as() -> str:
    return f"feedback/gin-{next(_models)}/cpu"


def device(measured_as: str, **others: Any) -> DeviceProfile:
    components = {
        "nodes": ComponentProfile(max_rows=4096, min_rows=64, multiple_of=16),
        "edges": ComponentProfile(max_rows=8192, min_rows=128, multiple_of=16),
    }
    return DeviceProfile(components, measured_as=measured_as, **others)


def cost(rows: dict[str, int], fixed: float = 0.01) -> BatchFeedback:
    """Of a device with hidden constants."""
    return BatchFeedback(
        rows,
        seconds=fixed + 2e-5 * rows["nodes"] + 1e-5 * rows["edges"],
        peak_bytes=1_000_000 + 2000 * rows["nodes"] + 1000 * rows["edges"],
        num_batches=5,
    )


def some_shapes() -> list[dict[str, int]]:
    return [
        {"nodes": nodes, "edges": edges, "graphs": 8}
        for nodes, edges in [(100, 300), (200, 400), (400, 700), (300, 900), (800, 1700)]
    ]


def test_a_model_is_reported_shown_listed_and_deleted(client: Client, measured_as: str) -> None:
    with pytest.raises(PackhouseError) as missing:
        client.feedback.get(measured_as)
    assert missing.value.code is grpc.StatusCode.NOT_FOUND
    assert client.feedback.report(measured_as, [cost(rows) for rows in some_shapes()]) == 5
    model = client.feedback.get(measured_as)
    assert model.seconds_per_row["nodes"] == pytest.approx(2e-5, rel=0.1)
    assert model.seconds_per_row["edges"] == pytest.approx(1e-5, rel=0.1)
    assert model.fixed_seconds == pytest.approx(0.01, rel=0.1)
    assert model.bytes_per_row["nodes"] == pytest.approx(2000, rel=0.1)
    assert len(model.shapes) == 5
    assert model.num_out_of_memory == 0
    assert model.last_report is not None and model.last_report.utcoffset() == datetime.timedelta(0)
    listed = [f"{each.model}/{each.device}" for each in client.feedback.list()]
    assert measured_as in listed
    client.feedback.delete(measured_as)
    assert measured_as not in [f"{each.model}/{each.device}" for each in client.feedback.list()]


def test_malformed_reports_are_refused_by_name(client: Client, measured_as: str) -> None:
    rows = some_shapes()[0]
    for bad, word in [
        (BatchFeedback(rows), "tells nothing"),
        (BatchFeedback(rows, seconds=-1), "seconds"),
        (BatchFeedback(rows, seconds=1, out_of_memory=True), "out_of_memory"),
        (BatchFeedback({"nodes": 1}, seconds=1), "graphs"),
    ]:
        with pytest.raises(PackhouseError, match=word) as refused:
            client.feedback.report(measured_as, [bad])
        assert refused.value.code is grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(ValueError, match="MODEL/DEVICE"):
        client.feedback.report("gin", [cost(rows)])
    client.feedback.report(measured_as, [cost(rows)])
    with pytest.raises(PackhouseError, match="components") as refused:
        client.feedback.report(measured_as, [BatchFeedback({"words": 1, "graphs": 1}, seconds=1)])
    assert refused.value.code is grpc.StatusCode.FAILED_PRECONDITION


def test_tune_takes_what_was_measured(client: Client, measured_as: str) -> None:
    sizes = client.datasets.get(DATASET, include_histogram=True).histogram
    assert sizes is not None
    # Too few bytes for large batches, as declared; 1.5 MB, as measured, for small ones.
    client.feedback.report(measured_as, [cost(rows) for rows in some_shapes()])
    tuned = client.tune(sizes, device(measured_as, memory_bytes=1_500_000))
    limits = tuned.shapes[0].limits
    assert 1_000_000 + 2000 * limits["nodes"] + 1000 * limits["edges"] <= 1_500_000
    assert any(measured_as in reason for reason in tuned.reasons)
    # What did not fit keeps limits below what did, where nobody says how much memory there is.
    too_large = {"nodes": 1000, "edges": 2000, "graphs": 8}
    client.feedback.report(measured_as, [BatchFeedback(too_large, out_of_memory=True)])
    limits = client.tune(sizes, device(measured_as)).shapes[0].limits
    assert 2000 * limits["nodes"] + 1000 * limits["edges"] <= 2000 * 800 + 1000 * 1700


def loader_of(server: LocalServer, measured_as: str, job: str, **others: Any) -> Loader:
    return Loader(
        server.address,
        dataset=DATASET,
        job=job,
        device_profile=device(measured_as),
        padding=Padding.MASKED,
        **others,
    )


def rows_of_epoch(loader: Loader, epoch: int) -> dict[str, int]:
    loader.set_epoch(epoch)
    shapes = [batch.rows for batch in loader]
    assert all(rows == shapes[0] for rows in shapes)
    return dict(shapes[0])


def test_an_adaptive_job_moves_between_epochs_and_never_within_one(
    server: LocalServer, client: Client, measured_as: str
) -> None:
    with loader_of(server, measured_as, f"{measured_as}-moves", adaptive=True) as loader:
        loader.set_epoch(0)
        first = dict(next(loader).rows)
        half = {name: rows // 2 for name, rows in first.items()}
        client.feedback.report(
            measured_as,
            [BatchFeedback(first, out_of_memory=True), cost(half)],
        )
        # The rest of the epoch, and another worker that comes later, have the same limits.
        assert all(batch.rows == first for batch in loader)
        second = rows_of_epoch(loader, 1)
        assert second != first
        assert any(second[name] < first[name] for name in first)


def test_without_adaptive_limits_stay(
    server: LocalServer, client: Client, measured_as: str
) -> None:
    with loader_of(server, measured_as, f"{measured_as}-stays") as loader:
        first = rows_of_epoch(loader, 0)
        client.feedback.report(
            measured_as,
            [BatchFeedback(first, out_of_memory=True),
             cost({name: rows // 2 for name, rows in first.items()})],
        )
        assert rows_of_epoch(loader, 1) == first


@pytest.mark.parametrize("padding", [Padding.NONE, Padding.MASKED, Padding.GRAPH])
def test_a_batch_is_split_and_its_graphs_and_weights_add_up(
    server: LocalServer, padding: Padding
) -> None:
    job = f"feedback/split-{padding.name}"
    limits = {"nodes": 160, "edges": 360, "graphs": 12}
    # The first of two servers is away.
    address = f"127.0.0.1:1,{server.address}"
    with Loader(address, dataset=DATASET, job=job, limits=limits, padding=padding) as loader:
        seen: set[int] = set()
        for batch in itertools.islice(loader, 5):
            micros = loader.split(batch)
            assert len(micros) >= 2
            assert sum(micro.loss_weight for micro in micros) == pytest.approx(1)
            ids = [graph for micro in micros for graph in micro.graph_ids.tolist()]
            assert sorted(ids) == sorted(batch.graph_ids.tolist())
            for micro in micros:
                assert all(micro.rows[name] <= batch.rows[name] for name in batch.rows)
                assert set(micro.tensors) == set(batch.tensors)
            seen.update(ids)
        with pytest.raises(ValueError, match="parts 1"):
            loader.split(batch, parts=1)
    assert seen


CAPPED = """
import resource, sys
import numpy as np
from packhouse import Client, ComponentProfile, DeviceProfile, Loader, Padding
from packhouse import ProcessMemory

address, dataset, measured_as = sys.argv[1:]
MIB = 1 << 20
profile = DeviceProfile(
    {"nodes": ComponentProfile(max_rows=1024, multiple_of=16),
     "edges": ComponentProfile(max_rows=2048, multiple_of=16)},
    measured_as=measured_as,
    # So that the first limits are the largest.
    fixed_cost=1e6,
)


def train(batch):
    # A quarter of a MiB a node.
    return np.ones((batch.rows["nodes"], MIB // 32)).sum()


def data_bytes():
    lines = open("/proc/self/status").read().splitlines()
    (line,) = [line for line in lines if line.startswith("VmData:")]
    return int(line.split()[1]) * 1024


with Client(address) as client, Loader(
    address, dataset=dataset, job=measured_as, device_profile=profile, padding=Padding.MASKED,
    adaptive=True,
) as loader:
    failures = []
    too_large = []
    for epoch in range(3):
        loader.set_epoch(epoch)
        failed = 0
        with client.feedback.meter(measured_as, memory=ProcessMemory()) as meter:
            for number, batch in enumerate(loader):
                if epoch == 0 and number == 0:
                    limit = data_bytes() + 224 * MIB
                    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
                try:
                    # What did not fit once is split before it is tried.
                    if batch.rows not in too_large:
                        with meter.step(batch):
                            train(batch)
                        continue
                except MemoryError:
                    failed += 1
                    too_large.append(batch.rows)
                if batch.rows in too_large:
                    for micro in loader.split(batch, parts=4):
                        with meter.step(micro):
                            train(micro)
        failures.append(failed)
    print(failures)
"""


def test_a_process_with_capped_memory_learns_it(
    server: LocalServer, client: Client, measured_as: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CAPPED, server.address, DATASET, measured_as],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        # Arenas of many threads would take the room that is left.
        env={**os.environ, "MALLOC_ARENA_MAX": "1"},
    )
    assert done.returncode == 0, done.stderr
    failures = [int(each) for each in done.stdout.strip("[]\n").split(", ")]
    assert failures[0] >= 1
    # Never more than one after the first epoch.
    assert sum(failures[1:]) <= 1
    assert client.feedback.get(measured_as).num_out_of_memory >= 1


def test_the_meter_measures_steps_and_reports_what_does_not_fit(
    server: LocalServer, client: Client, measured_as: str
) -> None:
    with Loader(
        server.address,
        dataset=DATASET,
        job="feedback/meter",
        limits={"nodes": 160, "edges": 360, "graphs": 12},
        padding=Padding.MASKED,
    ) as loader, client.feedback.meter(measured_as, memory=ProcessMemory()) as meter:
        for number, batch in enumerate(itertools.islice(loader, 8)):
            if number == 5:
                with pytest.raises(MemoryError), meter.step(batch):
                    raise MemoryError
                continue
            with meter.step(batch):
                np.zeros(1000).sum()
    model = client.feedback.get(measured_as)
    assert model.num_out_of_memory == 1
    (shape,) = model.shapes
    assert shape.rows == {"nodes": 160, "edges": 360, GRAPHS: 12}
    # The first step compiles, and is not counted.
    assert shape.seconds > 0


class OneByte:
    def reset(self) -> None:
        pass

    def peak_bytes(self) -> int:
        return 1


def test_the_meter_is_bounded_if_every_batch_has_another_shape() -> None:
    told: list[BatchFeedback] = []
    with Meter(told.extend, OneByte(), None) as meter:
        for nodes in range(3000):
            batch: Any = SimpleNamespace(rows={"nodes": nodes, GRAPHS: 1})
            with meter.step(batch):
                pass
            assert len(meter._seen) <= 1024
            assert len(meter._peaks) < 256
    assert [each.rows["nodes"] for each in told] == list(range(3000))
    assert all(each.peak_bytes == 1 and each.seconds == 0 for each in told)


def test_errors_that_say_that_memory_ran_out() -> None:
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"))
    assert is_out_of_memory(RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying"))
    assert not is_out_of_memory(RuntimeError("shapes do not match"))
    assert not is_out_of_memory(KeyboardInterrupt())
