"""Named histograms and plans of a real server."""

from __future__ import annotations

import itertools
import json
from typing import Iterator

import grpc
import numpy as np
import numpy.typing as npt
import pytest
from random_graphs import molecules

from packhouse import (
    Client,
    Histogram,
    LocalServer,
    OversizePolicy,
    OversizeWarning,
    PackhouseError,
    PackOptions,
    PlacementRule,
    PlanHeuristic,
    PriorityKind,
)
from packhouse.command import program

_numbers = itertools.count()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A histogram's name that no other test uses."""
    return f"tests/{request.node.name.partition('[')[0]}-{next(_numbers)}"


SIZES = molecules(np.random.default_rng(0), 2000).sizes


def expect_same(left: Histogram, right: Histogram) -> None:
    assert left.components == right.components
    assert left.tuples.tolist() == right.tuples.tolist()
    assert left.counts.tolist() == right.counts.tolist()


def expect_code(raised: pytest.ExceptionInfo[PackhouseError], code: grpc.StatusCode) -> None:
    assert raised.value.code is code
    assert raised.value.message


def test_observed_sizes_are_counted(client: Client, name: str) -> None:
    assert client.histograms.observe(name, [SIZES[:500], SIZES[500:]]) == (2000, 2000)
    histogram = client.histograms.get(name)
    expect_same(histogram, Histogram.from_sizes(SIZES))
    assert histogram.totals == {"nodes": SIZES[:, 0].sum(), "edges": SIZES[:, 1].sum()}
    assert client.histograms.observe(name, [SIZES[:3]]) == (3, 2003)


def test_histograms_are_listed_shown_and_deleted(
    server: LocalServer, client: Client, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    client.histograms.observe(name, SIZES)
    assert name in client.histograms.list()
    assert list(client.histograms.list()) == sorted(set(client.histograms.list()))

    def run(*arguments: str) -> str:
        assert program.main(["histograms", *arguments, "--server", server.address]) == 0
        return capfd.readouterr().out

    assert name in run("list").splitlines()
    assert {"name": name} in json.loads(run("list", "--json"))
    assert run("show", name).startswith("2,000 graphs of ")
    shown = json.loads(run("show", name, "--json"))
    assert shown["num_graphs"] == 2000 and shown["maxima"] == client.histograms.get(name).maxima
    assert run("delete", name, "--yes") == f"{name}: deleted\n"
    assert name not in client.histograms.list()


@pytest.mark.parametrize("sizes", [np.zeros((0, 2), np.uint32), []])
@pytest.mark.parametrize("producer", ["", "counter"])
def test_a_table_without_rows_makes_the_histogram(
    client: Client, name: str, sizes: object, producer: str
) -> None:
    assert client.histograms.observe(name, sizes, producer=producer).num_counted == 0
    histogram = client.histograms.get(name)
    assert (histogram.components, len(histogram.counts)) == (("nodes", "edges"), 0)
    assert client.histograms.observe(name, SIZES, producer=producer).num_counted == len(SIZES)


def test_a_repeated_sequence_counts_once(client: Client, name: str) -> None:
    tables = [SIZES[:100], SIZES[100:300]]
    assert client.histograms.observe(name, tables, producer="worker", first_sequence=1) == (300, 300)
    assert client.histograms.observe(name, tables, producer="worker", first_sequence=1) == (0, 300)
    with pytest.raises(PackhouseError, match="sequence 1 of producer 'worker'") as taken:
        client.histograms.observe(name, tables[1:], producer="worker", first_sequence=1)
    assert taken.value.code is grpc.StatusCode.ALREADY_EXISTS
    # Each call without a number counts what it has.
    assert client.histograms.observe(name, tables, producer="other", gather_bytes=0) == (300, 600)
    assert client.histograms.observe(name, tables, producer="other", gather_bytes=0) == (300, 900)
    assert client.histograms.observe(name, tables[1:], producer="other", first_sequence=2, gather_bytes=0) == (
        0,
        900,
    )


def test_what_is_older_than_the_server_remembers_is_not_counted_again(
    client: Client, name: str
) -> None:
    tables = np.split(SIZES[:1000], 1000) * 2

    def observe(most: int) -> tuple[int, int]:
        return client.histograms.observe(
            name, tables[:most], producer="p", first_sequence=1, gather_bytes=0
        )

    assert observe(2000) == (2000, 2000)
    assert observe(2000)[0] == 0
    with pytest.raises(PackhouseError, match="nothing was sent"):
        observe(100)
    assert client.histograms.get(name).num_graphs == 2000


@pytest.mark.parametrize("gather_bytes", [0, 1, 1000, 1 << 18])
def test_tables_of_any_length_are_counted(client: Client, name: str, gather_bytes: int) -> None:
    rng = np.random.default_rng(gather_bytes)
    cuts = np.sort(rng.integers(0, len(SIZES), 300))
    tables = [[], *np.split(SIZES, cuts), np.tile(SIZES, (100, 1))]
    graphs = len(SIZES) * 101
    for counted in (graphs, 0):  # The second time, all are repetitions.
        totals = client.histograms.observe(
            name, tables, producer="worker", first_sequence=1, gather_bytes=gather_bytes
        )
        assert totals == (counted, graphs)
    expect_same(client.histograms.get(name), Histogram.from_sizes(np.tile(SIZES, (101, 1))))
    assert client.histograms.observe(name, []) == (0, graphs)
    assert client.histograms.observe(name, [[], []]) == (0, graphs)


# Else the number of a request that was cut short would hide the whole of it.
def test_what_was_counted_before_a_source_failed_is_told_when_all_comes_again(
    client: Client, name: str
) -> None:
    def failing(tables: int) -> Iterator[npt.NDArray[np.uint32]]:
        yield from np.split(SIZES, 20)[:tables]
        raise OSError("the disk")

    for tables in (3, 12, 17):
        with pytest.raises(OSError, match="the disk"):
            client.histograms.observe(
                name, failing(tables), producer="worker", first_sequence=1, gather_bytes=3000
            )
    totals = client.histograms.observe(
        name, np.split(SIZES, 20), producer="worker", first_sequence=1, gather_bytes=3000
    )
    assert 0 < totals.num_counted < totals.num_graphs == 2000
    expect_same(client.histograms.get(name), Histogram.from_sizes(SIZES))


def test_all_that_came_before_a_source_failed_is_counted(client: Client, name: str) -> None:
    def failing() -> Iterator[npt.NDArray[np.uint32]]:
        yield from [np.tile(SIZES, (20, 1))] * 20
        raise OSError("the disk")

    for passes in (1, 2, 3):
        with pytest.raises(OSError, match="the disk"):
            client.histograms.observe(name, failing(), producer="worker", gather_bytes=0)
        assert client.histograms.get(name).num_graphs == passes * 400 * len(SIZES)


def test_merging_and_subtracting_cancel_out(client: Client, name: str) -> None:
    client.histograms.observe(name, [SIZES])
    before = client.histograms.get(name)
    addend = Histogram.from_sizes(SIZES[:50] + 3)
    assert client.histograms.merge(name, addend) == (50, 2050)
    assert client.histograms.merge(name, addend, subtract=True).num_graphs == 2000
    expect_same(client.histograms.get(name), before)


def test_a_packed_stream_is_counted(client: Client, name: str) -> None:
    options = PackOptions(limits={"nodes": 30}, oversize=OversizePolicy.REJECT, histogram=name)
    with client.pack_sizes([SIZES], options) as stream, pytest.warns(OversizeWarning):
        packed = np.concatenate([batch.sizes for batch in stream])
    assert 0 < len(packed) < len(SIZES)
    assert len(packed) + len(stream.rejections) == len(SIZES)
    expect_same(client.histograms.get(name), Histogram.from_sizes(packed))


def test_histograms_fail_with_their_codes(client: Client, name: str) -> None:
    with pytest.raises(PackhouseError) as raised:
        client.histograms.get(name)
    expect_code(raised, grpc.StatusCode.NOT_FOUND)
    with pytest.raises(PackhouseError) as raised:
        client.histograms.delete(name)
    expect_code(raised, grpc.StatusCode.NOT_FOUND)
    addend = Histogram.from_sizes([[1, 1]] * 2)
    with pytest.raises(PackhouseError) as raised:
        client.histograms.merge(name, addend, subtract=True)
    expect_code(raised, grpc.StatusCode.NOT_FOUND)

    client.histograms.observe(name, [[[1, 1]]])
    with pytest.raises(PackhouseError) as raised:
        client.histograms.observe(name, [[[1, 1]]], components=("nodes", "sets"))
    expect_code(raised, grpc.StatusCode.FAILED_PRECONDITION)
    with pytest.raises(PackhouseError) as raised:
        client.histograms.merge(name, addend, subtract=True)
    expect_code(raised, grpc.StatusCode.OUT_OF_RANGE)
    assert client.histograms.get(name).num_graphs == 1
    with pytest.raises(PackhouseError) as raised:
        list(client.pack_sizes([[[1]]], PackOptions({"sets": 5}, histogram=name), ("sets",)))
    expect_code(raised, grpc.StatusCode.FAILED_PRECONDITION)

    client.histograms.delete(name)
    with pytest.raises(PackhouseError) as raised:
        client.histograms.get(name)
    expect_code(raised, grpc.StatusCode.NOT_FOUND)
    with pytest.raises(PackhouseError) as raised:
        client.histograms.observe("no spaces", [[[1, 1]]])
    expect_code(raised, grpc.StatusCode.INVALID_ARGUMENT)


def test_what_the_source_raises_reaches_the_caller(client: Client, name: str) -> None:
    with pytest.raises(ValueError, match="sizes"):
        client.histograms.observe(name, [[[1, -1]]])


def test_a_plan_tries_what_it_is_told(client: Client) -> None:
    heuristics = [
        PlanHeuristic(kind, placement, component="edges" if kind is PriorityKind.COMPONENT else "")
        for kind in PriorityKind
        for placement in PlacementRule
    ]
    histogram = Histogram.from_sizes(SIZES)
    plan = client.plan(
        histogram, {"nodes": 128, "edges": 288}, heuristics=heuristics, summaries_only=True
    )
    assert len(plan.summaries) == len(heuristics)
    assert plan.patterns == ()


def test_plans_fail_with_their_codes(client: Client, name: str) -> None:
    histogram = Histogram.from_sizes(SIZES)
    with pytest.raises(PackhouseError) as raised:
        client.plan(name, {"nodes": 128})
    expect_code(raised, grpc.StatusCode.NOT_FOUND)
    with pytest.raises(PackhouseError) as raised:
        client.plan(histogram, {"nodes": 5})
    expect_code(raised, grpc.StatusCode.OUT_OF_RANGE)
    nothing_known: tuple[dict[str, int], ...] = ({}, {"sets": 5})
    for limits in nothing_known:
        with pytest.raises(PackhouseError) as raised:
            client.plan(histogram, limits)
        expect_code(raised, grpc.StatusCode.INVALID_ARGUMENT)
