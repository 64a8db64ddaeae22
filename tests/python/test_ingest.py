"""Storing a framework's graphs, with a client that only notes what it is asked to do."""

from __future__ import annotations

import fcntl
import io
import pathlib
import sys
from typing import Any, Callable, Iterator

import grpc
import numpy as np
import pytest

from packhouse import GraphSchema, GraphTable, TensorSpec
from packhouse.base.errors import PackhouseError
from packhouse.frameworks import ingest
from packhouse.stored.dataset import DatasetState

SCHEMA = GraphSchema(
    ("nodes",), [TensorSpec("x", "float32", "nodes"), TensorSpec("kept", "bool", "nodes")]
)


def table(count: int, x: float = 1, schema: GraphSchema = SCHEMA) -> GraphTable:
    """Graphs of two nodes."""
    columns = {"x": np.full(2 * count, x, np.float32), "kept": np.arange(2 * count) % 2 == 0}
    return GraphTable(schema, np.full((count, 1), 2), columns)


class Noted:
    """Data sets that are there or not; `calls` has what was asked for."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.there: dict[str, Any] = {}
        self.failing: dict[str, Exception] = {}
        self.stored: list[GraphTable] = []
        self.datasets = self

    def _note(self, *call: Any) -> None:
        self.calls.append(call)
        if call[0] in self.failing:
            raise self.failing[call[0]]

    def _dataset(self, name: str) -> Any:
        if name not in self.there:
            raise PackhouseError(grpc.StatusCode.NOT_FOUND, name)
        return self.there[name]

    def create(self, name: str, schema: GraphSchema) -> Any:
        self._note("create", name)
        if name in self.there:
            raise PackhouseError(grpc.StatusCode.ALREADY_EXISTS, name)
        self.there[name] = Found(schema, DatasetState.OPEN, 0)
        return self.there[name]

    def get(self, name: str) -> Any:
        self._note("get", name)
        return self._dataset(name)

    def append(self, name: str, tables: Any, *, producer: str, first_sequence: int) -> None:
        self.stored = list(tables)
        self._note("append", name, producer, first_sequence)
        self._dataset(name).num_graphs = sum(map(len, self.stored))

    def seal(self, name: str) -> Any:
        self._note("seal", name)
        self._dataset(name).state = DatasetState.SEALED
        return self._dataset(name)

    def delete(self, name: str) -> None:
        self._note("delete", name)
        del self.there[name]


class Found:
    def __init__(self, schema: GraphSchema, state: DatasetState, num_graphs: int) -> None:
        self.schema, self.state, self.num_graphs = schema, state, num_graphs


def error_of(code: str) -> PackhouseError:
    return PackhouseError(grpc.StatusCode[code], "said so")


def stored(client: Any, tables: Any, **options: Any) -> Any:
    return ingest.ingest_tables(client, "a", tables, **options)


def test_all_tables_are_stored_in_order_and_sealed() -> None:
    client = Noted()
    made = stored(client, iter([table(3, 1), table(2, 2)]))
    assert client.calls == [("create", "a"), ("append", "a", "ingest", 1), ("seal", "a")]
    assert [len(each) for each in client.stored] == [3, 2] and made.num_graphs == 5
    assert made.state is DatasetState.SEALED
    # One that is open is gone on with.
    client.there["a"].state = DatasetState.OPEN
    client.calls.clear()
    made = stored(client, [table(4)], seal=False)
    assert made.num_graphs == 4 and made.state is DatasetState.OPEN
    assert [call[0] for call in client.calls] == ["create", "get", "append", "get"]


def test_what_is_sealed_is_left_alone_if_it_has_as_many_graphs() -> None:
    client = Noted()
    client.there["a"] = Found(SCHEMA, DatasetState.SEALED, 5)
    assert stored(client, [table(3), table(2)]) is client.there["a"]
    assert [call[0] for call in client.calls] == ["create", "get"]
    with pytest.raises(ValueError, match="'a' is sealed with 5 graphs; these are 6"):
        stored(client, [table(3), table(3)])
    other = GraphSchema(("nodes",), SCHEMA.tensors[:1])
    client.there["a"] = Found(other, DatasetState.OPEN, 0)
    with pytest.raises(ValueError, match="another schema: the first of these graphs has a tensor 'kept'"):
        stored(client, [table(3)])
    assert "append" not in [call[0] for call in client.calls]


def test_no_graph_is_no_data_set() -> None:
    client = Noted()
    with pytest.raises(ValueError, match="data set 'a': there is no graph"):
        stored(client, [])
    assert not client.calls


def failing_after(first: GraphTable, error: Exception) -> Iterator[GraphTable]:
    yield first
    raise error


# What fails, and whether a data set that this call made is deleted.
FAILURES: list[tuple[Callable[[Noted], Any], bool]] = [
    (lambda client: failing_after(table(1), ValueError("said so")), True),
    (lambda client: failing_after(table(1), OSError("said so")), False),
    (lambda client: failing_after(table(1), error_of("UNAVAILABLE")), False),
    (lambda client: client.failing.update(append=error_of("INVALID_ARGUMENT")), True),
    (lambda client: client.failing.update(append=error_of("UNAVAILABLE")), False),
    (lambda client: client.failing.update(append=RuntimeError("said so")), False),
]


@pytest.mark.parametrize("fail, is_deleted", FAILURES)
def test_graphs_that_cannot_be_stored_leave_no_data_set(
    fail: Callable[[Noted], Any], is_deleted: bool
) -> None:
    """Unless it was there before, or trying again may help."""
    for was_there in (False, True):
        client = Noted()
        if was_there:
            client.there["a"] = Found(SCHEMA, DatasetState.OPEN, 0)
        tables = fail(client) or [table(1)]
        with pytest.raises(Exception, match="said so"):
            stored(client, tables)
        assert ("delete", "a") in client.calls if is_deleted and not was_there else (
            "a" in client.there
        )
        assert ("seal", "a") not in client.calls


def test_other_failures_of_creating_pass() -> None:
    client = Noted()
    client.failing["create"] = error_of("PERMISSION_DENIED")
    with pytest.raises(PackhouseError, match="PERMISSION_DENIED"):
        stored(client, [table(1)])
    assert client.calls == [("create", "a")]


def test_padding_values_and_counts_are_those_of_what_is_stored() -> None:
    client = Noted()
    stored(client, [table(2)], padding_values={"x": 2.5}, counts=["kept"])
    (kept,) = client.stored
    assert kept.schema.components == ("nodes", "kept") and kept.sizes.tolist() == [[2, 1]] * 2
    assert [spec.padding_value for spec in kept.schema.tensors] == [2.5, 0]
    assert client.there["a"].schema == kept.schema and kept.graph_ids.tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"padding_values: no tensor 'z'; there are \['x', 'kept'\]"):
        stored(Noted(), [table(2)], padding_values={"z": 1})


def spec(name: str = "x", dtype: str = "float32", **fields: Any) -> TensorSpec:
    return TensorSpec(name, dtype, fields.pop("component", "nodes"), **fields)


PAIRS: list[tuple[GraphSchema, GraphSchema, str]] = [
    (GraphSchema(("nodes", "edges")), GraphSchema(("nodes",)), "A has 'edges', which B lacks"),
    (GraphSchema(("nodes",)), GraphSchema(("nodes", "edges")), "B has 'edges', which A lacks"),
    (GraphSchema(("nodes",), [spec()]), GraphSchema(("nodes",)), "A has a tensor 'x', which B lacks"),
    (GraphSchema(("nodes",)), GraphSchema(("nodes",), [spec()]), "B has a tensor 'x', which A lacks"),
    (
        GraphSchema(("nodes",), [spec(row_shape=(2,))]),
        GraphSchema(("nodes",), [spec(dtype="int8", index_into="nodes")]),
        "B has int8 rows of the shape [] along 'nodes' that number 'nodes' in tensor 'x', A has float32 "
        "rows of the shape [2] along 'nodes'",
    ),
    (
        GraphSchema(("nodes",), [spec(padding_value=2.5)]),
        GraphSchema(("nodes",), [spec()]),
        "B has float32 rows of the shape [] along 'nodes' in tensor 'x', A has float32 rows of the shape "
        "[] along 'nodes' with padding value 2.5",
    ),
    (
        GraphSchema(("nodes",), [spec("x"), spec("y")]),
        GraphSchema(("nodes",), [spec("y"), spec("x")]),
        "B has components and tensors in another order than A",
    ),
]


@pytest.mark.parametrize("first, other, told", PAIRS)
def test_what_differs_in_two_schemas_is_named(
    first: GraphSchema, other: GraphSchema, told: str
) -> None:
    assert ingest.difference(first, other, "A", "B") == told


class Part:
    def __init__(self, count: int, schema: GraphSchema = SCHEMA) -> None:
        made = table(count, count, schema) if schema is SCHEMA else None
        self.schema, self.sizes = schema, np.full((count, 1), 2)
        self.columns: Any = {} if made is None else made.tensors


def test_objects_are_joined_so_many_at_a_time_and_named_by_number() -> None:
    def joined(counts: Any, most: int, first_id: int = 0) -> list[GraphTable]:
        def part(count: Any) -> Part:
            if count < 0:
                raise (ValueError if count == -1 else TypeError)("is odd")
            return Part(count) if count else Part(1, GraphSchema(("nodes",)))

        return list(ingest.joined_tables(counts, part, "Thing", most, first_id))

    for most, lengths in ((0, [6]), (1, [1, 2, 3]), (2, [3, 3])):
        made = joined([1, 2, 3], most, 4)
        assert [len(each) for each in made] == lengths
        whole = GraphTable.concatenate(made)
        assert [int(number) for each in made for number in each.graph_ids] == list(range(4, 10))
        assert whole.tensors["x"].tolist() == [1] * 2 + [2] * 4 + [3] * 6
    (made,) = ingest.joined_tables([2], Part, "Thing", 0)
    assert made.graph_ids.tolist() == [0, 1]
    for counts, most, words in (
        ([], 0, "there is no graph, so that the schema is not known"),
        ([1, 1, 0], 1, "^Thing 0 has a tensor 'x', which Thing 2 lacks"),
        ([1, 1, 0], 0, "^Thing 0 has a tensor 'x', which Thing 2 lacks"),
        ([1, -1], 0, "^Thing 1: is odd$"),
        ([-2], 0, "^Thing 0: is odd$"),
    ):
        with pytest.raises(ValueError, match=words):
            joined(counts, most)


def test_sizes_are_taken_by_name() -> None:
    sizes, names = ingest.sizes_by_name([{"b": 1, "a": 2}, {"a": 3, "b": 4}], "graph")
    assert sizes.tolist() == [[1, 2], [4, 3]] and names == ("b", "a")
    sizes, names = ingest.sizes_by_name([], "graph")
    assert sizes.shape == (0, 2) and names == ("nodes", "edges")
    with pytest.raises(ValueError, match="graph 1 has 'c', which graph 0 lacks"):
        ingest.sizes_by_name([{"a": 1}, {"a": 1, "c": 1}], "graph")
    with pytest.raises(ValueError, match="graph 0 has 'c', which graph 1 lacks"):
        ingest.sizes_by_name([{"a": 1, "c": 1}, {"a": 1}], "graph")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_after_a_while_and_then_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    now = [10.0]

    def taken(seconds: list[float], total: int | None, is_shown: bool = True) -> str:
        terminal.truncate(0)
        terminal.seek(0)
        now[0] = 10
        made = ingest.Progress("storing", total, is_shown, lambda: now[0])
        counted = made.counted(table(1000) for _ in seconds)
        for second in seconds:
            next(counted)
            now[0] = second
        assert not list(counted)
        return terminal.getvalue()

    assert taken([10.4, 10.49], 4000) == ""
    line = "\r\x1b[Kpackhouse: storing "
    # Not more often than ten times a second.
    assert taken([10.5, 10.55, 10.61], 4000) == (
        f"{line}{'█' * 8}{'░' * 22} 1,000 of 4,000 graphs{line}{'█' * 22}{'░' * 8} 3,000 of 4,000 graphs"
        "\r\x1b[K"
    )
    assert taken([10.5], None) == f"{line}1,000 graphs\r\x1b[K"
    assert taken([10.5], 500) == f"{line}{'█' * 30} 1,000 of 500 graphs\r\x1b[K"
    assert taken([10.5], 4000, is_shown=False) == ""
    monkeypatch.setattr(terminal, "isatty", lambda: False)
    assert taken([10.5], 4000) == ""


@pytest.fixture
def cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACKHOUSE_CACHE", str(tmp_path))


@pytest.mark.usefixtures("cache")
def test_equal_graphs_are_stored_once() -> None:
    """Under a name that follows from all that would be stored."""
    client: Any = Noted()
    num_made = 0

    def name_of(*tables: GraphTable, **options: Any) -> str:
        def make() -> list[GraphTable]:
            nonlocal num_made
            num_made += 1
            return list(tables)

        made = ingest.store_once(client, make, **options)
        assert made.num_graphs == sum(map(len, tables))
        return made.name

    first = name_of(table(3))
    # What an earlier version has stored is found again.
    assert first == "by-content/e38187cd8b211297a0db970992b7ca78"
    assert client.calls[-1] == ("seal", first) and num_made == 1
    client.calls.clear()
    assert name_of(table(3)) == first and client.calls == [("get", first)]
    halves = GraphSchema(("nodes",), (SCHEMA.tensors[0], spec("kept", "int8")))
    others = [
        name_of(table(2)),
        name_of(table(3, x=2)),
        name_of(table(1), table(2)),
        name_of(table(3), padding_values={"x": 1.5}),
        name_of(GraphTable(halves, np.full((3, 1), 2), table(3).tensors)),
    ]
    assert len({first, *others}) == 6
    # One that was begun is gone on with.
    client.there[first].state = DatasetState.OPEN
    client.calls.clear()
    assert name_of(table(3)) == first and client.calls[-1] == ("seal", first)


@pytest.mark.usefixtures("cache")
def test_many_graphs_are_made_a_second_time_and_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    client: Any = Noted()
    num_made: list[int] = []
    for most, times in ((table(3).nbytes * 2, 1), (table(3).nbytes * 2 - 1, 2)):
        monkeypatch.setattr(ingest, "_MOST_HELD_BYTES", most)
        client.there.clear()
        num_made.clear()

        def make() -> Iterator[GraphTable]:
            num_made.append(1)
            return iter([table(3), table(3)])

        assert ingest.store_once(client, make).num_graphs == 6
        assert len(num_made) == times and [len(each) for each in client.stored] == [3, 3]


@pytest.mark.usefixtures("cache")
def test_a_name_is_trusted_if_it_has_as_many_graphs() -> None:
    client: Any = Noted()

    def make() -> list[GraphTable]:
        return [table(3)]

    assert ingest.store_once(client, make, name="mine") == ingest.Stored("mine", 3)
    assert ("create", "mine") in client.calls
    client.calls.clear()
    made = ingest.store_once(client, lambda: iter(()), name="mine", num_graphs=3)
    assert made == ingest.Stored("mine", 3) and client.calls == [("get", "mine")]
    with pytest.raises(ValueError, match="'mine' is stored with 3 graphs; these are 4: give another"):
        ingest.store_once(client, make, name="mine", num_graphs=4)
    assert ingest.store_once(client, make, name="mine") == ingest.Stored("mine", 3)
    client.failing["get"] = error_of("UNAVAILABLE")
    with pytest.raises(PackhouseError, match="UNAVAILABLE"):
        ingest.store_once(client, make, name="mine", num_graphs=3)


@pytest.mark.usefixtures("cache")
def test_one_process_at_a_time_stores_under_a_name(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_held(path: pathlib.Path) -> bool:
        with open(path, "wb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    seen: list[dict[pathlib.Path, bool]] = []

    def stored(client: Any, name: str, tables: Any, padding_values: Any) -> Any:
        seen.append({path: is_held(path) for path in sorted(tmp_path.glob("store-*"))})
        return Found(SCHEMA, DatasetState.SEALED, 3)

    monkeypatch.setattr(ingest, "ingest_tables", stored)
    client: Any = Noted()
    for name in ("a", "b"):
        assert ingest.store_once(client, lambda: [table(3)], name=name).num_graphs == 3
    (first,) = seen[0]
    assert seen[0] == {first: True} and len(seen[1]) == 2 and not seen[1][first]
    assert sum(seen[1].values()) == 1 and not any(map(is_held, seen[1]))
