"""Durable data sets of a real server."""

from __future__ import annotations

from typing import Iterator

import grpc
import numpy as np
import pytest
from random_graphs import molecules, random_schema, random_table

from packhouse import (
    Client,
    DatasetState,
    GraphSchema,
    GraphTable,
    Loader,
    LocalServer,
    PackhouseError,
    VerifyProgress,
)

MOLECULES = molecules(np.random.default_rng(0), 300)


def parts(table: GraphTable, size: int) -> list[GraphTable]:
    return [table.slice(start, start + size) for start in range(0, len(table), size)]


def stored(server: LocalServer, name: str, graphs: int) -> GraphTable:
    """All graphs of a sealed data set, in its order."""
    limits = {"graphs": graphs}
    with Loader(
        server.address, dataset=name, job=f"reads-{name}", limits=limits, in_order=True
    ) as loader:
        return GraphTable.concatenate([batch.unbatch() for batch in loader])


def expect(code: grpc.StatusCode, *words: str) -> pytest.RaisesContext[PackhouseError]:
    pattern = "".join(f"(?=.*{word})" for word in words)
    return pytest.raises(PackhouseError, match=f"(?s)^{code.name}: {pattern}")


def test_a_data_set_is_as_it_was_created(client: Client) -> None:
    created = client.datasets.create(
        "datasets/created", MOLECULES.schema, max_bytes=1 << 30, max_rows={"nodes": 99}
    )
    assert created == client.datasets.get("datasets/created")
    assert created.schema == MOLECULES.schema
    assert created.state is DatasetState.OPEN
    assert created.version != 0
    assert (created.num_graphs, created.num_records) == (0, 0)
    assert (created.max_bytes, created.max_rows, created.grouped) == (1 << 30, {"nodes": 99}, False)
    assert created.histogram is None
    with expect(grpc.StatusCode.ALREADY_EXISTS, "datasets/created"):
        client.datasets.create("datasets/created")
    assert client.datasets.create("datasets/sizes", grouped=True).schema == GraphSchema()
    assert client.datasets.get("datasets/sizes").grouped


def test_appends_do_not_get_into_a_data_set_made_anew(client: Client) -> None:
    name = "datasets/anew"
    first = client.datasets.create(name, MOLECULES.schema)

    def tables() -> Iterator[GraphTable]:
        # Before the stream begins: the server cannot know what is meant but by the id.
        client.datasets.delete(name)
        anew = client.datasets.create(name, MOLECULES.schema)
        assert anew.id not in (0, first.id)
        yield MOLECULES

    with expect(grpc.StatusCode.NOT_FOUND, name):
        client.datasets.append(name, tables())
    assert client.datasets.get(name).num_graphs == 0


@pytest.mark.parametrize("seed", range(8))
def test_graphs_of_any_schema_are_kept_byte_for_byte(
    server: LocalServer, client: Client, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    schema = random_schema(rng)
    sent = random_table(rng, schema, 50)
    name = f"datasets/any-{seed}"
    client.datasets.create(name, schema)
    totals = client.datasets.append(name, parts(sent, 17), chunk_bytes=300)
    assert (totals.num_appended, totals.num_repeated, totals.num_graphs) == (50, 0, 50)
    assert totals.next_sequence == totals.num_chunks + 1 > 3
    sealed = client.datasets.seal(name)
    assert (sealed.state, sealed.num_graphs) == (DatasetState.SEALED, 50)
    assert sealed.num_records == totals.num_chunks
    assert client.datasets.seal(name) == sealed
    assert stored(server, name, 50).equals(sent)


def test_a_repeated_append_stores_nothing_twice(client: Client) -> None:
    client.datasets.create("datasets/repeated", MOLECULES.schema)
    tables = parts(MOLECULES, 30)
    first = client.datasets.append("datasets/repeated", tables[:4], producer="p", first_sequence=1)
    assert (first.producer, first.next_sequence, first.num_graphs) == ("p", 5, 120)
    again = client.datasets.append("datasets/repeated", tables, producer="p", first_sequence=1)
    assert (again.num_chunks, again.num_repeated) == (10, 4)
    assert (again.num_appended, again.num_graphs) == (180, 300)
    # Other graphs under the same numbers are not taken for a repetition.
    with pytest.raises(PackhouseError, match="sequence 2 of producer 'p'.*next one is 11") as taken:
        client.datasets.append("datasets/repeated", [tables[0], tables[2]], producer="p", first_sequence=1)
    assert taken.value.code is grpc.StatusCode.ALREADY_EXISTS
    assert client.datasets.get("datasets/repeated").num_graphs == 300
    other = client.datasets.append("datasets/repeated", tables[:1], producer="q", first_sequence=7)
    assert (other.num_appended, other.next_sequence, other.num_graphs) == (30, 8, 330)
    # Without a name each call is another producer.
    assert client.datasets.append("datasets/repeated", tables[:1]).num_appended == 30
    assert client.datasets.append("datasets/repeated", tables[:1]).num_appended == 30
    with pytest.raises(ValueError, match="first_sequence 0"):
        client.datasets.append("datasets/repeated", tables, first_sequence=0)


def test_each_call_of_a_producer_adds_its_tables(client: Client) -> None:
    client.datasets.create("datasets/loop", MOLECULES.schema)
    num_graphs = 0
    for table in parts(MOLECULES, 30):
        for _ in range(2):  # The same graphs again are wanted, too.
            totals = client.datasets.append("datasets/loop", [table], producer="import-1")
            num_graphs += len(table)
            assert (totals.num_repeated, totals.num_graphs) == (0, num_graphs)
    assert totals.next_sequence == 21
    later = client.datasets.append("datasets/loop", [], producer="import-1")
    assert (later.num_chunks, later.next_sequence) == (0, 21)


def test_what_is_older_than_the_server_remembers_is_not_sent(client: Client) -> None:
    client.datasets.create("datasets/long", MOLECULES.schema)
    tables = parts(MOLECULES, 1)
    tables = (tables * (300 // len(tables) + 1))[:300]
    client.datasets.append("datasets/long", tables, producer="p", first_sequence=1)
    # A program that was killed begins again.
    again = client.datasets.append("datasets/long", tables, producer="p", first_sequence=1)
    assert (again.num_repeated, again.num_appended, again.num_graphs) == (300, 0, 300)
    # It may be the same or not, and nobody can tell.
    with pytest.raises(PackhouseError, match="nothing was sent") as old:
        client.datasets.append("datasets/long", tables[:40], producer="p", first_sequence=1)
    assert old.value.code is grpc.StatusCode.ALREADY_EXISTS
    assert client.datasets.get("datasets/long").num_graphs == 300


def test_no_tables_are_stored_but_the_data_set_must_be_there(client: Client) -> None:
    client.datasets.create("datasets/empty")
    totals = client.datasets.append("datasets/empty", [])
    assert (totals.num_chunks, totals.num_graphs) == (0, 0)
    with expect(grpc.StatusCode.NOT_FOUND, "datasets/none"):
        client.datasets.append("datasets/none", [])


def test_what_the_source_raises_comes_after_its_graphs_are_stored(client: Client) -> None:
    def broken() -> Iterator[GraphTable]:
        yield from parts(MOLECULES, 50)[:3]
        raise KeyError("the disk is gone")

    client.datasets.create("datasets/broken", MOLECULES.schema)
    with pytest.raises(KeyError, match="the disk is gone"):
        client.datasets.append("datasets/broken", broken())
    assert client.datasets.get("datasets/broken").num_graphs == 150


def test_another_schema_is_refused_before_anything_is_sent(client: Client) -> None:
    client.datasets.create("datasets/schema", MOLECULES.schema)
    other = molecules(np.random.default_rng(1), 3)
    shuffled = GraphSchema(("edges", "nodes"), other.schema.tensors)
    table = GraphTable(shuffled, other.sizes[:, ::-1], other.tensors)
    with pytest.raises(ValueError, match="table 1 has another schema"):
        client.datasets.append("datasets/schema", [other, table])
    assert client.datasets.get("datasets/schema").num_graphs == 3


def test_bad_input_ends_the_append_after_what_was_good(client: Client) -> None:
    client.datasets.create("datasets/bad", MOLECULES.schema, max_rows={"nodes": 200})
    senders = MOLECULES.tensors["senders"].copy()
    senders[-1] = MOLECULES.sizes[-1, 0]
    bad = GraphTable(
        MOLECULES.schema, MOLECULES.sizes, MOLECULES.tensors | {"senders": senders}, first_id=1000
    )
    with expect(grpc.StatusCode.INVALID_ARGUMENT, "1299", "senders"):
        client.datasets.append("datasets/bad", [MOLECULES.slice(0, 10), bad])
    assert client.datasets.get("datasets/bad").num_graphs == 10
    large = MOLECULES.take([0])
    rows = {
        "x": np.zeros((201, 9), np.int16),
        **{name: column[:0] for name, column in large.tensors.items() if name not in ("x", "y")},
        "y": large.tensors["y"],
    }
    table = GraphTable(MOLECULES.schema, [[201, 0]], rows, graph_ids=[77])
    with expect(grpc.StatusCode.OUT_OF_RANGE, "77", "201", "200"):
        client.datasets.append("datasets/bad", [table])
    client.datasets.seal("datasets/bad")
    with expect(grpc.StatusCode.FAILED_PRECONDITION, "datasets/bad"):
        client.datasets.append("datasets/bad", [MOLECULES])


def test_group_ids_are_checked(client: Client) -> None:
    client.datasets.create("datasets/groups", MOLECULES.schema, grouped=True)
    tables = parts(MOLECULES, 100)
    with pytest.raises(ValueError, match="group_ids of table 1 are missing"):
        client.datasets.append("datasets/groups", tables, group_ids=[range(100)])
    with pytest.raises(ValueError, match=r"group_ids of table 0 have shape \(99,\)"):
        client.datasets.append("datasets/groups", tables, group_ids=[range(99)])
    with expect(grpc.StatusCode.INVALID_ARGUMENT, "group ids"):
        client.datasets.append("datasets/groups", tables)
    client.datasets.create("datasets/no-groups", MOLECULES.schema)
    with expect(grpc.StatusCode.INVALID_ARGUMENT, "group ids"):
        client.datasets.append("datasets/no-groups", tables, group_ids=[range(100)] * 3)


def test_data_sets_are_listed_by_name_in_pages(client: Client) -> None:
    names = [f"datasets/listed/{number}" for number in range(7)]
    for name in reversed(names):
        client.datasets.create(name)
    listed = [dataset.name for dataset in client.datasets.list(page_size=2)]
    assert listed == sorted(listed)
    assert [name for name in listed if name in names] == names
    assert listed == [dataset.name for dataset in client.datasets.list()]


def test_a_deleted_name_is_free_again(client: Client) -> None:
    client.datasets.create("datasets/deleted", MOLECULES.schema)
    client.datasets.append("datasets/deleted", [MOLECULES])
    client.datasets.delete("datasets/deleted")
    for gone in (client.datasets.delete, client.datasets.get, client.datasets.seal):
        with expect(grpc.StatusCode.NOT_FOUND, "datasets/deleted"):
            gone("datasets/deleted")
    with expect(grpc.StatusCode.NOT_FOUND, "datasets/deleted"):
        client.datasets.verify("datasets/deleted")
    assert client.datasets.create("datasets/deleted").num_graphs == 0


def test_a_sound_data_set_is_verified_to_the_end(client: Client) -> None:
    client.datasets.create("datasets/verified", MOLECULES.schema)
    client.datasets.append("datasets/verified", parts(MOLECULES, 10))
    reports: list[VerifyProgress] = []
    verification = client.datasets.verify("datasets/verified", reports.append)
    assert verification.is_sound
    assert (verification.num_records, verification.num_damaged) == (30, 0)
    assert verification.num_bytes == reports[-1].num_bytes_total
    assert reports == sorted(reports, key=lambda report: report.num_records)
    assert {report.num_records_total for report in reports} == {30}

    def stop(report: VerifyProgress) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        client.datasets.verify("datasets/verified", stop)


def test_appends_survive_a_server_that_is_killed(mortal_server: LocalServer) -> None:
    def tables() -> Iterator[GraphTable]:
        for number, table in enumerate(parts(MOLECULES, 10)):
            if number % 9 == 5:
                mortal_server.kill()
                mortal_server.start()
            yield table

    with Client(mortal_server.address) as client:
        client.datasets.create("survives", MOLECULES.schema)
        totals = client.datasets.append("survives", tables())
        assert (totals.num_chunks, totals.num_graphs) == (30, 300)
        assert totals.num_appended + 10 * totals.num_repeated == 300
        client.datasets.seal("survives")
    assert stored(mortal_server, "survives", 300).equals(MOLECULES)


def test_a_server_that_stays_away_is_given_up(mortal_server: LocalServer) -> None:
    def tables() -> Iterator[GraphTable]:
        yield MOLECULES
        mortal_server.kill()
        yield MOLECULES

    with Client(mortal_server.address) as client:
        client.datasets.create("away", MOLECULES.schema)
        with expect(grpc.StatusCode.UNAVAILABLE):
            client.datasets.append("away", tables(), retry_timeout=0.3)
