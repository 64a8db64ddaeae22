"""packhouse ingest: what is read and how it is cut, and what is told of the answers of a data set."""

from __future__ import annotations

import io
import pathlib
import types
from typing import Any, Iterator

import grpc
import numpy as np
import pytest

from packhouse import GraphSchema, PackhouseError, TensorSpec
from packhouse.client import facade
from packhouse.command import ingest, ingest_sources, program
from packhouse.command.failures import Misuse
from packhouse.files import tfrecords
from packhouse.frameworks.tfgnn.schemas import ExampleMessage
from packhouse.stored.dataset import Dataset, DatasetState
from packhouse.v1 import dataset_pb2

OPTIONS = {
    "groups": "", "graph_schema": "schema", "key_prefix": "", "skip_malformed": False, "readout": "", "exclude": (),
    "cutoff": None, "max_neighbours": 0, "keep_edges": False, "trust_pickle": False,
}  # fmt: skip
SCHEMA = """
node_sets { key: "n" value { features { key: "x" value { dtype: DT_INT64 shape { } } } } }
edge_sets { key: "e" value { source: "n" target: "n" } }
"""


def example(**features: list[int]) -> bytes:
    message = ExampleMessage()
    for key, values in features.items():
        message.features.feature[key].int64_list.value.extend(values)
    return bytes(message.SerializeToString())


def features(data: bytes) -> dict[str, list[int]]:
    message = ExampleMessage.FromString(data)
    return {key: list(each.int64_list.value) for key, each in message.features.feature.items()}


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema").write_text(SCHEMA)
    return tmp_path


def written(*names: str, each: list[bytes]) -> None:
    """Records by turns in the files."""
    with tfrecords.Writer([pathlib.Path(name) for name in names]) as writer:
        for record in each:
            writer.write(record)


def records(**options: Any) -> ingest_sources.Records:
    return ingest_sources.Records({**OPTIONS, "source": ("r*",), **options})


def test_records_are_cut_at_the_bytes_and_numbered(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = [bytes(3), bytes(4), bytes(3), bytes(9), b""]
    written("r0", each=data)
    source = records()
    assert (source.num_graphs, source.num_bytes, source.schema.components) == (5, 19, ("n", "e"))
    for chunk_bytes, wanted in (
        (6, [(0, [3]), (1, [4]), (2, [3]), (3, [9]), (4, [0])]), (7, [(0, [3, 4]), (2, [3]), (3, [9]), (4, [0])]),
        (10, [(0, [3, 4, 3]), (3, [9, 0])]), (18, [(0, [3, 4, 3]), (3, [9, 0])]), (19, [(0, [3, 4, 3, 9, 0])]),
    ):  # fmt: skip
        chunks = list(source.chunks(chunk_bytes))
        assert [(c.content.first_id, [len(e) for e in c.content.examples]) for c in chunks] == wanted
        assert [c.num_graphs for c in chunks] == [len(c.content.examples) for c in chunks]
        assert [c.num_bytes for c in chunks] == [sum(map(len, c.content.examples)) for c in chunks]
        assert not any(c.content.skip_malformed or c.group_ids for c in chunks)
    monkeypatch.setattr(ingest_sources, "_MOST_GRAPHS", 2)
    assert [(c.content.first_id, c.num_graphs) for c in source.chunks(1 << 20)] == [(0, 2), (2, 2), (4, 1)]
    assert all(c.content.skip_malformed for c in records(skip_malformed=True).chunks(99))
    written("r0", each=[])
    assert list(records().chunks(9)) == [] and records().num_graphs == 0


def test_records_of_the_same_content_are_the_same(folder: pathlib.Path) -> None:
    written("r0", each=[b"ab", b"c"])
    of = {records().fingerprint}
    assert len(next(iter(of))) == 16
    written("copy", each=[b"ab", b"c"])
    assert records(source=("copy",)).fingerprint in of
    for each in ([b"a", b"bc"], [b"abc"], [b"c", b"ab"], [b"ab", b"c", b""]):
        written("r0", each=each)
        of.add(records().fingerprint)
    of.add(records(skip_malformed=True).fingerprint)
    (folder / "schema").write_text(SCHEMA.replace("INT64", "INT32"))
    of.add(records().fingerprint)
    assert len(of) == 7


def test_a_refused_record_is_told_with_its_place(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    written("r0", each=[b"a", b"b"])
    written("r1", each=[])
    written("r2", each=[b"c"])
    source = records()
    for number, place in enumerate(("r0: record 0", "r0: record 1", "r2: record 0")):
        for word in ("graph", "example", "record"):
            assert source.explained(f"in {word} {number}: key 'x'") == f"{place}: key 'x'"
            assert source.explained(f"{word} {number} of the request: bad") == f"{place}: bad"
    assert source.explained("too large") == "too large" and source.explained("graph x: bad") == "graph x: bad"
    source.skipped(2, "example 0: is torn")
    source.skipped(1, "is torn")
    source.skipped(0, "")
    source.done()
    assert capsys.readouterr().err.splitlines() == [
        f"packhouse: {told}" for told in (
            "left out: r2: record 0: is torn", "left out: r0: record 1: is torn", "left out 3 malformed records")]
    for _ in range(25):
        source.skipped(1, "is torn")
    source.done()
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 18 and told[-1] == "packhouse: left out 28 malformed records"
    source = records()
    source.done()
    other = ingest_sources.Tables(GraphSchema(()), (), "f")
    assert other.explained("graph 1: bad") == "graph 1: bad"
    other.skipped(1, "bad")
    other.done()
    assert capsys.readouterr().err == ""


def test_keys_lose_their_prefix_and_a_readout_is_added(folder: pathlib.Path) -> None:
    given = {"p/nodes/n.#size": [2, 1], "p/x": [5, 6], "other": [7], "nodes/n.#size": [0]}
    written("r0", each=[example(**given), b"\xff"])
    (chunk,) = records(key_prefix="p/").chunks(1 << 20)
    assert features(chunk.content.examples[0]) == {"nodes/n.#size": [2, 1], "x": [5, 6]}
    assert chunk.content.examples[1] == b"\xff" and chunk.num_graphs == 2
    source = records(readout="seed=n", key_prefix="p/")
    assert sorted(source.schema.components) == ["_readout", "_readout/seed", "e", "n"]
    (chunk,) = source.chunks(1 << 20)
    added = {
        "nodes/_readout.#size": [1], "edges/_readout/seed.#size": [1], "edges/_readout/seed.#source": [0],
        "edges/_readout/seed.#target": [0],
    }  # fmt: skip
    assert features(chunk.content.examples[0]) == {"nodes/n.#size": [2, 1], "x": [5, 6], **added}
    # A graph without the node is named by its number in all files, not in its chunk.
    written("r0", each=[example(x=[1]), example(**{"nodes/n.#size": [0, 0]})])
    chunks = records(readout="seed=n").chunks(1)
    assert features(next(chunks).content.examples[0]) == {"x": [1], **added}
    with pytest.raises(ValueError) as told:
        next(chunks)
    assert str(told.value) == "r0: record 1: has no node of 'n' for --readout"


@pytest.mark.parametrize(
    ("error", "options", "words"),
    [
        (ValueError, {"groups": "g"}, "--groups names an array; records have none"),
        (Misuse, {"source": ("r0", "r0")}, "records are one SOURCE: a file, a glob in quotes, or FILE@N"),
        (ValueError, {"graph_schema": "none"}, "none: No such file or directory"),
        (ValueError, {"graph_schema": "empty"}, "empty: is no graph schema: it has no set and no feature"),
        (ValueError, {"readout": "seed"}, "--readout 'seed': must be KEY=NODE_SET"),
        (ValueError, {"readout": "seed=m"}, "--readout 'seed=m': the schema has no node set 'm'"),
    ],
)
def test_options_of_records_that_cannot_be_are_named(
    folder: pathlib.Path, error: Any, options: dict[str, Any], words: str
) -> None:
    (folder / "empty").write_text("")
    written("r0", each=[b"a"])
    with pytest.raises(error) as told:
        records(**options)
    assert str(told.value) == words
    (folder / "bad").write_text("node_sets { key: 3 }")
    with pytest.raises(ValueError, match="^bad: "):
        records(graph_schema="bad")


def opened(*source: str, **options: Any) -> ingest_sources.Source:
    return ingest_sources.open_files({**OPTIONS, "source": source, **options})


def test_a_list_of_sizes_is_read_of_a_file_or_of_stdin(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "num_nodes,num_edges\n" + "".join(f"{k},{2 * k}\n" for k in range(5))
    (folder / "sizes.csv").write_text(text)
    (folder / "named").write_text(text)
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(text.encode())))
    sources = [opened("sizes.csv"), opened("named"), opened("-")]
    for source in sources:
        assert source.schema == GraphSchema(("nodes", "edges")) and source.fingerprint == sources[0].fingerprint
        assert (source.num_graphs, source.num_bytes, source.group_ids) == (5, 40, None)
        chunks = list(source.chunks(1 << 20))
        assert [c.num_graphs for c in chunks] == [5] and chunks[0].group_ids == b""
    (folder / "other.csv").write_text(text.replace("4,8", "4,9"))
    assert opened("other.csv").fingerprint != sources[0].fingerprint
    (folder / "names.csv").write_text(text.replace("num_edges", "num_faces"))
    assert opened("names.csv").fingerprint != sources[0].fingerprint


@pytest.mark.parametrize(
    ("error", "source", "options", "words"),
    [
        (FileNotFoundError, ("none",), {}, "[Errno 2] No such file or directory: 'none'"),
        (Misuse, ("sizes.csv", "-"), {}, "- reads one list of sizes from stdin: it stands alone"),
        (ValueError, ("sizes.csv",), {"groups": "g"},
         "sizes.csv: --groups 'g' names an array of an .npz file, and this is none"),
        (ValueError, ("sizes.csv", "sizes.csv"), {"groups": "g"},
         "sizes.csv: --groups 'g' names an array of an .npz file, and this is none"),
        (ValueError, ("sizes.csv",), {"keep_edges": True}, "--keep-edges and --max-neighbours need --cutoff"),
        (ValueError, ("sizes.csv",), {"max_neighbours": 3}, "--keep-edges and --max-neighbours need --cutoff"),
    ],
)  # fmt: skip
def test_files_and_options_that_do_not_go_together_are_named(
    folder: pathlib.Path, error: Any, source: tuple[str, ...], options: dict[str, Any], words: str
) -> None:
    (folder / "sizes.csv").write_text("num_nodes\n1\n")
    with pytest.raises(error) as told:
        opened(*source, **options)
    assert str(told.value) == words
    (folder / "odd").write_text("what\n")
    with pytest.raises(ValueError, match="^odd: .*; as a list of sizes: "):
        opened("odd")
    (folder / "odd.csv").write_text("what\n")
    with pytest.raises(ValueError) as failed:
        opened("odd.csv")
    assert "as a list of sizes" not in str(failed.value)


def test_groups_are_cut_with_the_graphs(folder: pathlib.Path) -> None:
    arrays = {
        "node_offsets": np.array([0, 1, 3, 6]), "edge_offsets": np.array([0, 0, 0, 0]),
        "edge_index": np.zeros((2, 0), np.int64), "x": np.arange(6, dtype=np.float32), "g": np.array([7, 7, 1 << 40]),
    }  # fmt: skip
    np.savez("graphs.npz", **arrays)
    source = opened("graphs.npz", groups="g")
    (whole,) = source.chunks(1 << 20)
    assert whole.group_ids == np.array([7, 7, 1 << 40], "<u8").tobytes() and whole.num_graphs == 3
    parts = list(opened("graphs.npz", groups="g").chunks(1))
    assert [part.group_ids for part in parts] == [np.array([g], "<u8").tobytes() for g in (7, 7, 1 << 40)]
    assert opened("graphs.npz").fingerprint != source.fingerprint == opened("graphs.npz", groups="g").fingerprint


def test_a_file_is_told_by_its_size_and_its_ends(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_sources, "_SAMPLED", 4)

    def sample(data: bytes) -> Any:
        (folder / "f").write_bytes(data)
        return ingest_sources._sample("f")

    first = sample(b"abcdXXefgh")
    assert first[0] == 10 and sample(b"abcdYYefgh") == first
    for other in (b"abcdXXXefgh", b"abceXXefgh", b"abcdXXefgi", b"abcdXXffgh"):
        assert sample(other) != first, other
    assert sample(b"ab") == sample(b"ab") != sample(b"ac")
    (folder / "in").mkdir()
    (folder / "in/b").write_bytes(b"1")
    (folder / "in/a").write_bytes(b"2")
    (folder / "in/deeper").mkdir()
    whole = ingest_sources._sample("in")
    assert whole[0] == 3
    (folder / "in/a").write_bytes(b"3")
    assert ingest_sources._sample("in") != whole


class Stored:
    """A client whose one data set answers appends as `answers` says."""

    def __init__(self) -> None:
        self.there: list[Any] = []
        self.answers: list[Any] = []
        self.calls: list[Any] = []
        self.requests: list[Any] = []
        self.datasets = self

    def __call__(self, address: str, **_: Any) -> Stored:
        self.calls.append(("at", address))
        return self

    def __enter__(self) -> Stored:
        return self

    def __exit__(self, *_: Any) -> None:
        """As a client's."""

    def get(self, name: str) -> Any:
        self.calls.append(("get", name))
        each = self.there.pop(0)
        if isinstance(each, Exception):
            raise each
        return each

    def create(self, name: str, schema: GraphSchema, **wanted: Any) -> Any:
        self.calls.append(("create", name, wanted))
        return self.get(name)

    def seal(self, name: str) -> Any:
        self.calls.append(("seal", name))
        return self.get(name)

    def delete(self, name: str) -> None:
        self.calls.append(("delete", name))

    def append_call(self, requests: Iterator[Any]) -> Any:
        def answers() -> Iterator[Any]:
            for request in requests:
                request = dataset_pb2.AppendRequest.FromString(request.SerializeToString())
                if not request.producer_sequence.sequence:
                    yield dataset_pb2.AppendResponse()
                    continue
                self.requests.append(request)
                each = self.answers.pop(0)
                if isinstance(each, Exception):
                    raise each
                yield each

        return Call(answers())


class Call:
    def __init__(self, each: Iterator[Any]) -> None:
        self._each = each

    def __iter__(self) -> Iterator[Any]:
        return self._each

    def __next__(self) -> Any:
        return next(self._each)

    def cancel(self) -> None:
        """As gRPC's."""


def error(code: str, words: str = "bad") -> PackhouseError:
    return PackhouseError(grpc.StatusCode[code], words)


class Refusal(grpc.RpcError):
    """As a stream raises it."""

    def __init__(self, name: str, words: str) -> None:
        self.code = lambda: grpc.StatusCode[name]
        self.details = lambda: words
        self.trailing_metadata = lambda: ()


def dataset(**told: Any) -> Dataset:
    return Dataset(**{
        "name": "d", "schema": GraphSchema(("nodes",)), "state": DatasetState.OPEN, "id": 1, "version": 1,
        "num_graphs": 0, "num_records": 0, "num_bytes": 2048, "max_bytes": 0, "max_rows": {}, "grouped": False, **told})


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch, folder: pathlib.Path) -> Stored:
    made = Stored()
    monkeypatch.setattr(facade, "Client", made)
    (folder / "sizes.csv").write_text("num_nodes\n" + "7\n" * 682)
    return made


def run(*words: str, source: str = "sizes.csv") -> int:
    return program.main(["ingest", source, "--server", "s:1", "--dataset", "d", *words])


def appended(number: int, **told: Any) -> Any:
    return dataset_pb2.AppendResponse(num_appended=number, **told)


def test_graphs_are_stored_and_all_is_told(
    stored: Stored, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(ingest.Progress, "show", lambda _, text: shown.append(text))
    made = dataset(num_graphs=682, state=DatasetState.SEALED)
    stored.there = [error("NOT_FOUND"), dataset(), made]
    words = ["--seal", "--chunk-bytes", "4KiB", "--max-bytes", "1GiB", "--max-rows", "nodes=9", "--producer", "p"]
    stored.answers = [appended(341)] * 2
    assert run(*words) == 0
    sizes = [request.graphs.sizes.num_graphs for request in stored.requests]
    assert sum(sizes) == 682 and len(sizes) == 2
    assert stored.calls == [
        ("at", "s:1"), ("get", "d"),
        ("create", "d", {"max_bytes": 1 << 30, "max_rows": {"nodes": 9}, "grouped": False, "oversize": "error"}),
        ("get", "d"), ("seal", "d"), ("get", "d"),
    ]  # fmt: skip
    assert [(of.producer, of.sequence) for of in (each.producer_sequence for each in stored.requests)] == [("p", 1), ("p", 2)]
    assert {request.producer_sequence.HasField("forget_after") for request in stored.requests} == {False}
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "d: 682 graphs, 2,048 bytes; sealed"
    assert told[1].startswith("  stored 682 graphs, 0 had been there; 2.7 KiB in ") and told[1].endswith(" MB/s")
    assert float(told[1].split(" in ")[1].split(" s, ")[0]) < 60
    assert told[2:] == ["  components: nodes"]
    assert [each.split(" graphs, ")[0] for each in shown] == [" 50.4 %  341 of 682", "100.0 %  682 of 682"]
    assert all(each.endswith(" MB/s, 0:00:00 left") for each in shown)

    # Without a name the producer is one of the content and of the chunks' bytes, for a week.
    stored.calls.clear()
    stored.there = [dataset(), dataset()]
    stored.answers = [appended(682)]
    stored.requests.clear()
    assert run("--quiet") == 0
    assert stored.calls == [("at", "s:1"), ("get", "d"), ("get", "d")]
    (request,) = stored.requests
    name = request.producer_sequence.producer
    assert name.startswith("ingest-") and name.endswith(f"-{1 << 20}")
    assert request.producer_sequence.forget_after.seconds == 7 * 24 * 3600
    assert capsys.readouterr() == ("", "")


def test_repetitions_were_there_or_are_of_this_run(stored: Stored, capsys: pytest.CaptureFixture[str]) -> None:
    first = 341
    for before, answers, line, note in (
        (first, [appended(first, is_repetition=True), appended(0)], f"  stored {682 - first:,} graphs, {first:,} had", False),
        (first - 1, [appended(first, is_repetition=True), appended(0)], "  stored 682 graphs, 0 had", True),
        (682, [appended(0), appended(0, is_repetition=True)], "  stored 682 graphs, 0 had", True),
        (5000, [appended(0, is_repetition=True)] * 2, "  stored 0 graphs, 682 had", False),
        (0, [appended(0)] * 2, "  stored 682 graphs, 0 had", False),
    ):
        stored.there = [dataset(num_graphs=before), dataset()]
        stored.answers, stored.requests = list(answers), []
        assert run("--chunk-bytes", "4KiB") == 0
        assert [request.graphs.sizes.num_graphs for request in stored.requests][0] == first, "the chunks are others"
        told = capsys.readouterr()
        assert told.out.splitlines()[1].startswith(line), (before, told.out)
        assert told.err == (
            f"packhouse: the data set had {before:,} graphs before, which were not taken for these: they came from "
            "another source, or with another --chunk-bytes or --producer\n" if note else "")


def test_pieces_and_what_was_left_out_are_told(stored: Stored, capsys: pytest.CaptureFixture[str]) -> None:
    spec = TensorSpec("#piece", "int64", "graphs")
    stored.there = [dataset(), dataset(schema=GraphSchema(("nodes",), (spec,)))]
    stored.answers = [appended(700)]
    assert run() == 0
    told = capsys.readouterr().out.splitlines()
    assert told[2] == "  graphs beyond the bounds were cut: they are stored as 700 graphs with their pieces"
    assert len(told) == 5 and "#piece" in told[4]

    written("r0", each=[b"a", b"b", b"c"])
    schema = records(skip_malformed=True).schema
    stored.there = [dataset(schema=schema), dataset(schema=schema)]
    answer = appended(1, num_skipped=2)
    answer.skipped.add(example=1, graph_id=1, message="example 1: is torn")
    stored.answers = [answer]
    assert run("--graph-schema", "schema", "--skip-malformed", source="r0") == 0
    told = capsys.readouterr()
    assert told.out.splitlines()[1].startswith("  stored 1 graphs, 0 had been there; 3 B in ")
    assert told.err.splitlines() == ["packhouse: left out: r0: record 1: is torn", "packhouse: left out 2 malformed records"]


def test_a_data_set_of_this_run_goes_with_what_cannot_be_stored(
    stored: Stored, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    written("r0", each=[b"a", b"b"])
    schema = records().schema
    for is_ours in (True, False):
        for refusal, goes, words in (
            (Refusal("INVALID_ARGUMENT", "example 1: is torn"), True, "r0: record 1: is torn [INVALID_ARGUMENT]"),
            (Refusal("RESOURCE_EXHAUSTED", "example 1: no room"), False, "example 1: no room [RESOURCE_EXHAUSTED]"),
            (RuntimeError("mine"), True, None),
            (OSError("disk"), False, None),
        ):
            stored.calls.clear()
            stored.there = [*([error("NOT_FOUND")] if is_ours else []), dataset(schema=schema)]
            stored.answers = [refusal]
            status = run("--graph-schema", "schema", source="r0")
            assert status == 1
            assert (("delete", "d") in stored.calls) == (goes and is_ours), (is_ours, refusal)
            told = capsys.readouterr().err
            assert words is None or told == f"packhouse: {words}\n"


def test_what_was_read_before_an_error_is_stored_first(stored: Stored, capsys: pytest.CaptureFixture[str]) -> None:
    written("r0", each=[example(x=[1]), example(**{"nodes/n.#size": [0]})])
    schema = records(readout="seed=n").schema
    stored.there, stored.answers = [dataset(schema=schema)], [appended(1)]
    words = ["--graph-schema", "schema", "--readout", "seed=n", "--chunk-bytes", "4KiB"]
    (pathlib.Path("r0")).unlink()
    written("r0", each=[example(x=list(range(128, 2200))), example(**{"nodes/n.#size": [0]})])
    assert run(*words, source="r0") == 1
    assert len(stored.requests) == 1 and not stored.answers
    assert capsys.readouterr().err == (
        "packhouse: r0: record 1: has no node of 'n' for --readout [INVALID_ARGUMENT]\n")


def test_another_client_may_make_the_data_set(stored: Stored, capsys: pytest.CaptureFixture[str]) -> None:
    stored.there = [error("NOT_FOUND"), error("ALREADY_EXISTS"), dataset(), dataset()]
    stored.answers = [appended(682)]
    assert run("--quiet") == 0
    assert [call[0] for call in stored.calls] == ["at", "get", "create", "get", "get", "get"]
    for there in ([error("PERMISSION_DENIED", "not you")], [error("NOT_FOUND"), error("PERMISSION_DENIED", "not you")]):
        stored.there = list(there)
        assert run("--quiet") == 1
        assert capsys.readouterr().err == "packhouse: not you [PERMISSION_DENIED]\n" and not stored.there


def test_a_server_that_is_away_is_asked_again(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(ingest.time, "sleep", slept.append)
    stored.there = [error("UNAVAILABLE"), dataset(), error("UNAVAILABLE"), dataset()]
    stored.answers = [appended(682)]
    assert run("--quiet") == 0 and len(slept) == 2 and not stored.there


@pytest.mark.parametrize(
    ("there", "words", "says"),
    [
        ({"grouped": True}, [], "is grouped, the source has no group ids (--groups)"),
        ({}, ["--max-rows", "nodes=9", "--oversize", "partition"],
         "was created without cutting graphs (--oversize partition)"),
        ({"max_rows": {"nodes": 8, "b": 1}}, ["--max-rows", "nodes=9"],
         "was created with max_rows b=1 nodes=8, wanted is nodes=9"),
        ({}, ["--max-rows", "nodes=9"], "was created with max_rows none, wanted is nodes=9"),
        ({"max_bytes": 5}, ["--max-bytes", "6"], "was created with max_bytes 5, wanted is 6"),
    ],
)  # fmt: skip
def test_a_data_set_that_was_made_otherwise_is_left_alone(
    stored: Stored, capsys: pytest.CaptureFixture[str], there: dict[str, Any], words: list[str], says: str
) -> None:
    stored.there = [dataset(**there)]
    assert run(*words) == 1 and not stored.requests
    assert capsys.readouterr().err == f"packhouse: data set 'd' {says} [FAILED_PRECONDITION]\n"
    stored.there = [dataset(schema=GraphSchema(("edges",)))]
    assert run() == 1
    assert capsys.readouterr().err == (
        "packhouse: data set 'd' exists and has another schema: it has 'edges', which the first of these graphs lacks "
        "[INVALID_ARGUMENT]\n")
    # What is not asked for may be whatever it is.
    stored.there = [dataset(max_bytes=5, max_rows={"nodes": 8})] * 2
    stored.answers = [appended(682)]
    assert run("--quiet") == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--chunk-bytes", "4095"], "--chunk-bytes '4095': must be a number of bytes from 4.0 KiB to 32.0 MiB"),
        (["--chunk-bytes", "33554433"], "--chunk-bytes '33554433': must be a number of bytes from 4.0 KiB to 32.0 MiB"),
        (["--chunk-bytes", "x"], "--chunk-bytes 'x': must be a number of bytes from 4.0 KiB to 32.0 MiB"),
        (["--max-bytes", "x"], "--max-bytes 'x': must be a number of bytes, as in 10GiB"),
        (["--oversize", "partition"], "--oversize needs --max-rows"),
    ],
)
def test_bounds_of_options_are_named(
    stored: Stored, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert run(*words) == 2
    assert capsys.readouterr().err.splitlines()[0] == f"packhouse: {says}"
    assert not stored.calls
    for fits in ("4096", "32MiB"):
        stored.there, stored.answers = [dataset()] * 2, [appended(0)] * 9
        assert run("--quiet", "--chunk-bytes", fits) == 0


def test_how_far_it_is_and_how_long_it_takes() -> None:
    source: Any = types.SimpleNamespace(num_graphs=2000, num_bytes=8_000_000)
    run_ = ingest._Ingest(None, "s:1", "d", source, False)  # type: ignore[arg-type]
    assert run_._state(0) == "0 of 2,000 graphs, 0.0 MB/s"
    run_._stored, run_._present, run_._bytes = 1000, 500, 2_000_000
    assert run_._state(4) == " 25.0 %  1,500 of 2,000 graphs, 0.5 MB/s, 0:00:12 left"
    run_._bytes = 9_000_000
    assert run_._state(9) == "100.0 %  1,500 of 2,000 graphs, 1.0 MB/s, 0:00:00 left"
    source.num_graphs = source.num_bytes = 0
    assert run_._state(9) == "1,500 graphs, 1.0 MB/s"
