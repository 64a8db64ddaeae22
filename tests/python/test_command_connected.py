"""What commands ask of the server that they talk to, which server that is, and what they print of it."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import tempfile
import types
from typing import Any, Iterator

import grpc
import pytest

from packhouse import PackhouseError
from packhouse.base import local_server
from packhouse.calls import retrying
from packhouse.calls.credentials import Credentials
from packhouse.client import facade
from packhouse.command import admin, batch, connection, partition, program
from packhouse.command.connection import Server
from packhouse.files import chunked_parquet
from packhouse.large.partitions import PartitionMethod, PartitionPart, PartitionReport, PartitionState
from packhouse.v1 import admin_pb2, batch_pb2, receipts_pb2
from test_pack_stream import Failure
from test_stored_calls import Channel

REPORT = PartitionReport(
    method=PartitionMethod.METIS, reason="", notes=(), num_nodes=3, num_edges=4, num_cut_edges=1, volume=2, balance=(),
    parts=(PartitionPart(3, 0, 4, 0, 1, 9),))  # fmt: skip


def job(state: str, **told: Any) -> Any:
    made = {"state": PartitionState[state], "report": REPORT, "share_done": 0.0, "seconds_left": 0.0, "phase": ""}
    return types.SimpleNamespace(**{**made, **told})


class Cut:
    """Partitions of a server: `states` come while one waits."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.begun = self.cancelled = job("DONE")
        self.states: list[Any] = []
        self.partitions = self

    def begin(self, *arguments: Any, **options: Any) -> Any:
        self.calls.append(("begin", arguments, options))
        return self.begun

    def wait(self, graph: str, name: str, on_progress: Any) -> Any:
        self.calls.append(("wait", graph, name))
        for each in self.states:
            if callable(each):
                each()
            else:
                on_progress(each)
        return job("DONE")

    def cancel(self, graph: str, name: str) -> Any:
        self.calls.append(("cancel", graph, name))
        return self.cancelled

    def download(self, *arguments: Any) -> None:
        *told, finish = arguments
        self.calls.append(("download", *told, finish is not None))
        if finish is not None:
            finish(pathlib.Path("partial"))

    def make_dataset(self, *arguments: Any, on_progress: Any, **options: Any) -> None:
        self.calls.append(("dataset", arguments, options))
        on_progress(types.SimpleNamespace(num_parts=3, num_parts_total=5))


def giving(monkeypatch: pytest.MonkeyPatch, module: Any, client: Any) -> list[Any]:
    """`client` for all servers that the module connects to, which are noted."""
    servers: list[Any] = []

    @contextlib.contextmanager
    def connected(server: Any) -> Iterator[Any]:
        servers.append(server)
        yield client

    monkeypatch.setattr(module, "connected", connected)
    return servers


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Cut:
    made = Cut()
    giving(monkeypatch, partition, made)
    return made


PARTITION = ["partition", "g", "--server", "s", "--parts", "4"]
PLAIN = {
    "method": "automatic", "halo": "all", "balance_edges": False, "imbalance": 1.03, "seed": 1, "mapping": False,
    "recursive": False, "objective": "cut", "best_quality": False, "num_hops": 1, "trainers_per_machine": 1,
    "balance_node_sets": {}, "formats": [], "graph_forms": [], "assignment": False, "files": True,
}  # fmt: skip


def test_options_say_how_a_graph_is_cut(cut: Cut, capsys: pytest.CaptureFixture[str]) -> None:
    ways: list[tuple[list[str], dict[str, Any]]] = [
        ([], {}), (["--method", "random"], {"method": "random"}), (["--halo", "in-edges"], {"halo": "in-edges"}),
        (["--balance-edges"], {"balance_edges": True}), (["--imbalance", "1.5"], {"imbalance": 1.5}),
        (["--seed", "3"], {"seed": 3}), (["--mapping"], {"mapping": True}), (["--scheme", "recursive"], {"recursive": True}),
        (["--objtype", "vol"], {"objective": "volume"}), (["--quality", "best"], {"best_quality": True}),
        (["--hops", "2"], {"num_hops": 2}), (["--trainers", "8"], {"trainers_per_machine": 8}),
        (["--balance-ntypes", "n:a,b", "--balance-ntypes", "m:c"], {"balance_node_sets": {"n": ["a", "b"], "m": ["c"]}}),
        (["--format", "npy", "--format", "dgl", "--format", "npy", "--format", "safetensors"], {"formats": ["npy", "safetensors"]}),
        (["--graph-formats", "csr", "--graph-formats", "coo", "--graph-formats", "csr"], {"graph_forms": ["csr", "coo"]}),
        (["--write-assignment"], {"assignment": True}), (["--without-files"], {"files": False}),
        (["--hops", "16", "--trainers", "65536"], {"num_hops": 16, "trainers_per_machine": 65536}),
    ]  # fmt: skip
    for words, said in ways:
        cut.calls.clear()
        assert program.main([*PARTITION, *words]) == 0
        assert cut.calls == [("begin", ("g", "graph", 4), {**PLAIN, **said}), ("wait", "g", "graph")], words
    told = capsys.readouterr()
    assert told.out.startswith(partition.report_table(REPORT) + "\n" + partition.report_picture(REPORT)) and not told.err
    assert program.main([*PARTITION, "--json", "--name", "p"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(partition.report_json(REPORT)))
    assert cut.calls[-1] == ("wait", "g", "p")
    for parts in (1, 65536):
        assert program.main(["partition", "g", "--server", "s", "--parts", str(parts)]) == 0
        assert cut.calls[-2][1] == ("g", "graph", parts)


def test_a_partition_may_be_waited_for_or_not(cut: Cut, capsys: pytest.CaptureFixture[str]) -> None:
    cut.begun = job("RUNNING")
    assert program.main([*PARTITION, "--detach"]) == 0
    assert [call[0] for call in cut.calls] == ["begin"]
    assert capsys.readouterr() == (
        "partition 'graph' of 'g' has begun; the same command without --detach waits for it\n", "")
    assert program.main(PARTITION) == 0
    assert capsys.readouterr().err == "waiting for partition 'graph' of 'g'; Ctrl-C cancels it\n"


def test_ctrl_c_cancels_a_partition_and_a_second_one_ends_the_command(
    cut: Cut, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(signal.SIGINT)
    cut.begun = job("RUNNING")
    cut.states = [job("RUNNING"), lambda: signal.raise_signal(signal.SIGINT), job("RUNNING"), job("RUNNING")]
    cut.cancelled = job("CANCELLED")
    assert program.main(PARTITION) == 1
    assert [call[0] for call in cut.calls] == ["begin", "wait", "cancel"]
    assert capsys.readouterr().err.splitlines()[-1] == (
        "packhouse: partition 'graph' of 'g' was cancelled; the same command goes on with it [CANCELLED]")
    # It may be done before it is cancelled.
    cut.cancelled = job("DONE")
    assert program.main(PARTITION) == 0
    assert signal.getsignal(signal.SIGINT) is before
    seen: list[int] = []

    def note(number: int, _: Any) -> None:
        seen.append(number)

    signal.signal(signal.SIGINT, note)
    try:
        with partition._interrupts() as counted:
            signal.raise_signal(signal.SIGINT)
            assert counted == [signal.SIGINT] and not seen
            signal.raise_signal(signal.SIGINT)
            assert seen == [signal.SIGINT] and signal.getsignal(signal.SIGINT) is note
        assert signal.getsignal(signal.SIGINT) is note
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_state_of_a_partition_is_a_line() -> None:
    assert partition._line_of(job("WAITING")) == "waiting for its turn"
    assert partition._line_of(job("DONE")) == ""
    assert partition._line_of(job("RUNNING", share_done=0.256, phase="assigning")) == " 26 %  assigning"
    assert partition._line_of(job("RUNNING", share_done=1, phase="x", seconds_left=0.6)) == "100 %  x, about 1 s left"


def test_files_and_data_sets_are_made_of_a_partition(cut: Cut, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    begun: list[Any] = []
    monkeypatch.setattr(partition.Progress, "show", lambda _, text: shown.append(text))
    monkeypatch.setattr(partition, "run", lambda *words: begun.append(words))
    cut.states = [job("WAITING")]
    assert program.main([*PARTITION, "--output", "to", "--dataset", "d", "--dataset-halo", "--name", "p"]) == 0
    assert cut.calls[2:] == [("download", "g", "p", "to", False), ("dataset", ("g", "p", "d"), {"halo": True})]
    assert shown == ["waiting for its turn", "3 of 5 parts in the data set"] and not begun
    assert program.main([*PARTITION, "--output", "to", "--orig-ids"]) == 0
    assert cut.calls[-1] == ("download", "g", "graph", "to", True)
    assert begun == [(["partition", "orig-ids", "partial", "--name", "graph"], "partition --orig-ids")]
    assert program.main([*PARTITION, "--dataset", "d"]) == 0
    assert cut.calls[-1] == ("dataset", ("g", "graph", "d"), {"halo": False})


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["partition", "--server", "s", "--parts", "4"], "GRAPH, the name of a source graph, is required"),
        (["partition", "g", "--server=s"], "--parts N is required"),
        ([*PARTITION, "--assignment", "f"],
         "--assignment: not with --server, which takes no files; `packhouse partition` without it partitions graphs in files"),
        ([*PARTITION, "--memory", "1"],
         "--memory: not with --server, whose --memory-budget bounds what its partitions take"),
        ([*PARTITION, "--time-limit", "1"],
         "--time-limit: not with --server, where METIS works as long as it needs; Ctrl-C cancels the partition"),
        ([*PARTITION, "--orig-ids"],
         "--orig-ids: with --server they are made of the files that --output DIR downloads"),
        ([*PARTITION, "--dataset-halo"], "--dataset-halo requires --dataset"),
        ([*PARTITION, "--without-files", "--output", "x"], "--output: not with --without-files"),
        ([*PARTITION, "--detach", "--output", "x"], "--detach: not with --output or --dataset"),
        ([*PARTITION, "--detach", "--dataset", "x"], "--detach: not with --output or --dataset"),
        ([*PARTITION, "--balance-ntypes", "a"],
         "--balance-ntypes a: the graph has several node sets: give SET:a"),
        ([*PARTITION, "--balance-ntypes", ":a"],
         "--balance-ntypes :a: the graph has several node sets: give SET::a"),
        (["partition", "g", "--server", "s", "--parts", "0"], None),
        (["partition", "g", "--server", "s", "--parts", "65537"], None),
        ([*PARTITION, "--hops", "0"], None),
        ([*PARTITION, "--hops", "17"], None),
        ([*PARTITION, "--trainers", "65537"], None),
    ],
)  # fmt: skip
def test_words_of_a_partition_that_cannot_be_are_named(
    cut: Cut, capsys: pytest.CaptureFixture[str], words: list[str], says: str | None
) -> None:
    assert program.main(words) == 2 and not cut.calls
    assert says is None or capsys.readouterr().err.splitlines()[0] == f"packhouse: {says}"


def test_a_partition_is_of_the_server_or_of_files(cut: Cut, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []

    def become(*told: Any) -> None:
        begun.append(told)
        raise SystemExit(0)

    monkeypatch.setattr(partition, "become", become)
    for words in (["g"], ["export", "--server", "s"], ["restore", "-h"], ["convert"], ["dglpart", "--server=s"], []):
        begun.clear()
        with contextlib.suppress(SystemExit):
            program.main(["partition", *words])
        assert begun == [("packhouse", ["partition", *words], "partition")], words
    begun.clear()
    for words in (["--help"], ["-h"], ["g", "--help"], [*PARTITION[1:]]):
        assert program.main(["partition", *words]) == 0 and not begun, words


def test_numpy_files_are_made_of_parquet(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(chunked_parquet, "convert", lambda *paths: 1234 if paths == ("in", "out") else 0)
    partition.convert_chunked.main(["in", "--output", "out"], standalone_mode=False)
    assert capsys.readouterr().out == "out: 1,234 Parquet files converted\n"


def rebuilt() -> list[Any]:
    opened = receipts_pb2.RebuildBatchesResponse()
    opened.opened.epoch.dataset, opened.opened.epoch.dataset_version, opened.opened.epoch.receipt = "d", 5, "r"
    opened.opened.schema.components.append("nodes")
    found = [opened]
    for number in (3, 4):
        made = batch_pb2.Batch(id=number, graph_ids=bytes([number] + [0] * 7), real_rows=[5, 1], rows=[8, 1])
        found.append(receipts_pb2.RebuildBatchesResponse())
        found[-1].batch.batch.CopyFrom(made)
    return found


def test_batches_are_made_again_shown_and_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    asked: list[Any] = []
    found = rebuilt()

    def responses(*arguments: Any) -> Any:
        asked.append(arguments)
        return iter(found)

    giving(monkeypatch, batch, types.SimpleNamespace(receipts=types.SimpleNamespace(responses=responses)))
    words = ["batch", "--server", "s", "--job", "j", "--epoch", "2", "--number", "3", "--number", "4"]
    to = tmp_path / "a/b"
    assert program.main([*words, "--save", str(to)]) == 0
    assert asked == [("j", 2, (3, 4))]
    schema = found[0].opened.schema
    texts = [batch.batch_text(each.batch, schema) for each in found[1:]]
    head = "epoch 2 of job j, of d, plan r\n"
    assert capsys.readouterr().out == head + "".join(f"\n{text}" for text in texts)
    assert {each.name: each.read_bytes() for each in to.iterdir()} == {
        f"batch-{each.batch.batch.id}.pb": each.batch.batch.SerializeToString() for each in found[1:]}
    found[1].batch.drawn_smaller.add(graph_id=3, level=1)
    found[0].words_of_epoch = 0
    assert program.main([*words, "--json", "--save", str(to)]) == 0
    told = capsys.readouterr().out
    assert json.loads(told) == {
        "job": "j", "epoch": 2, "dataset": "d", "dataset_version": 5, "receipt": "r", "words_of_epoch": 0,
        "batches": [batch.batch_json(each.batch) for each in found[1:]]}
    assert program.main(words) == 0
    told = capsys.readouterr().out
    assert told.startswith(
        f"{head}the server does not remember this epoch; made with the words of epoch 0\n\nbatch 3: 1 graphs; rows: nodes 5 "
        "of 8, graphs 1 of 1\ngraphs  3\n1 graphs were drawn smaller\n\nbatch 4: ")
    (tmp_path / "file").write_text("")
    assert program.main([*words, "--save", str(tmp_path / "file/x")]) == 1
    assert capsys.readouterr().err == f"packhouse: --save {tmp_path}/file/x: Not a directory [FAILED_PRECONDITION]\n"
    assert len(asked) == 3


def test_an_administrator_is_answered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[Any] = []
    told = {
        "GetServer": admin_pb2.GetServerResponse(version="1"), "ListClients": admin_pb2.ListClientsResponse(),
        "Reload": admin_pb2.ReloadResponse()}
    told["Reload"].files.add(name="policy", num_reloads=2)

    def ask(client: Any, method: str, request: Any) -> Any:
        asked.append((client, method, type(request).__name__))
        return told[method.rpartition(".")[2]]

    def noting(name: str, answer: Any) -> Any:
        return lambda *words: asked.append((name, *words)) or answer  # type: ignore[func-returns-value]

    draining = [False, True]
    of = types.SimpleNamespace(
        set_log_level=noting("level", types.SimpleNamespace(name="INFO")), drain=lambda: draining.pop(0),
        move_job=noting("move", None),
        snapshot=noting("snapshot", types.SimpleNamespace(folder="f", num_files=1234, num_bytes=5, num_kept_files=3, num_kept_bytes=4)))
    client = types.SimpleNamespace(administration=of)
    servers = giving(monkeypatch, admin, client)
    monkeypatch.setattr(admin, "ask", ask)

    def run(*words: str) -> tuple[int, str]:
        status = program.main(["admin", *words, "--server", "s"])
        return status, capsys.readouterr().out

    for verb, method, text in (("status", "GetServer", admin.status_text), ("clients", "ListClients", admin.clients_text)):
        assert run(verb) == (0, text(told[method]))
        status, out = run(verb, "--json")
        assert status == 0 and json.loads(out) == admin.message_json(told[method])
        assert asked[-1] == (client, f"admin.Admin.{method}", f"{method}Request")
    assert servers[-1].address == "s"
    assert run("reload") == (0, admin.files_text(told["Reload"].files))
    told["Reload"].files.add(name="tokens", failure="torn")
    status, out = run("reload", "--json")
    assert status == 1 and json.loads(out) == [admin.message_json(each) for each in told["Reload"].files]
    assert asked[-1] == (client, "admin.Admin.Reload", "ReloadRequest")
    assert run("log-level", "debug") == (0, "log level: debug, before: info\n") and asked[-1] == ("level", "debug")
    confirmed: list[Any] = []
    monkeypatch.setattr(admin, "confirm", lambda *words: confirmed.append((*words, len(draining))))
    assert run("drain") == (0, "drains\n") and run("drain", "--yes") == (0, "is draining already\n")
    assert confirmed == [("end the server at s", False, 2), ("end the server at s", True, 1)]
    assert run("move-job", "j", "--to", "x:1") == (0, "j: moved to x:1\n") and asked[-1] == ("move", "j", "x:1")
    copied = "f: 1,234 files, 5 bytes; of these 3 files, 4 bytes were there already\n"
    assert run("snapshot", "n") == (0, copied) and asked[-1] == ("snapshot", "n")
    assert json.loads(run("snapshot", "n", "--json")[1])["is_done"] is True


class Connected:
    """Stands for the client's class."""

    def __init__(self, address: str, **options: Any) -> None:
        self.address, self.options, self.is_open = address, options, True

    def __enter__(self) -> Connected:
        return self

    def __exit__(self, *_: Any) -> None:
        self.is_open = False


def test_a_named_server_is_asked_with_the_credentials_of_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facade, "Client", Connected)
    monkeypatch.setattr(connection, "_own_server", lambda: pytest.fail("a server is begun"))
    monkeypatch.setattr(Credentials, "from_environment", lambda **said: said)
    with connection.connected(Server("a:1", {"token": "t"})) as client:
        client = client  # type: Any
        assert client.address == "a:1" and client.is_open
        assert client.options == {"timeout": 600.0, "credentials": {"token": "t"}}
    assert not client.is_open
    assert Server("", {"token": "t"}).credentials() == Credentials()


class Own:
    """Stands for LocalServer."""

    made: list[Own] = []
    failure: Exception | None = None
    log_bytes = b""

    def __init__(self, listen: str, arguments: Any, log: Any) -> None:
        self.address, self.arguments, self.log = listen, arguments, log
        self.is_killed = False
        Own.made.append(self)

    def start(self) -> None:
        self.log.write(self.log_bytes)
        if self.failure is not None:
            raise self.failure

    def kill(self) -> None:
        self.is_killed = True


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> type[Own]:
    monkeypatch.setattr(local_server, "LocalServer", Own)
    monkeypatch.setattr(facade, "Client", Connected)
    monkeypatch.setattr(Own, "made", [])
    return Own


def test_an_own_server_ends_with_the_block(own: type[Own], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ""
    with pytest.raises(KeyError), connection.connected(Server()) as client:
        (server,) = own.made
        assert client.address == server.address and not server.is_killed  # type: ignore[attr-defined]
        assert client.options["credentials"] == Credentials()  # type: ignore[attr-defined]
        assert server.arguments == ("--http-listen", "") and server.address.startswith("unix:/")
        folder = os.path.dirname(server.address.removeprefix("unix:"))
        assert os.path.isdir(folder) and server.address == f"unix:{folder}/socket"
        raise KeyError
    assert own.made[0].is_killed and not os.path.exists(folder)
    for log, words in ((b"", "does not start"), (b" why \xff\n", "does not start: why \N{REPLACEMENT CHARACTER}"),
                       (b"a" + b"b" * 2000, "does not start: " + "b" * 2000)):  # fmt: skip
        monkeypatch.setattr(own, "failure", RuntimeError("does not start"))
        monkeypatch.setattr(own, "log_bytes", log)
        with pytest.raises(RuntimeError) as told, connection.connected(Server()):
            pass
        assert str(told.value) == words


def test_a_socket_lies_where_its_path_is_short_enough(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rest = len("/packhouse-12345678/socket")
    for length, is_there in ((107 - rest, True), (108 - rest, False)):
        folder = str(tmp_path)
        assert len(folder) < length - 1
        folder += "/" + "x" * (length - len(folder) - 1)
        os.mkdir(folder)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        with connection._socket_folder() as made:
            assert (os.path.dirname(made) == folder) == is_there
            assert os.path.basename(made).startswith("packhouse-")
            assert is_there or os.path.dirname(made) == "/tmp"


def test_methods_are_called_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Failure(grpc.StatusCode.PERMISSION_DENIED, "not you")
    channel = Channel(GetServer=[admin_pb2.GetServerResponse(version="9")], TakeSnapshot=["a", "b", refused])
    client: Any = types.SimpleNamespace(_address="a:1", _servers=channel)
    made: list[Any] = []
    calls = retrying.UnaryCalls
    monkeypatch.setattr(retrying, "UnaryCalls", lambda *how: made.append(how) or calls(*how))  # type: ignore[func-returns-value]
    request = admin_pb2.GetServerRequest()
    assert connection.ask(client, "admin.Admin.GetServer", request).version == "9"
    assert channel.asked == [("GetServer", request)] and made == [("a:1", 600.0)]
    found = connection.answers(client, "admin.Admin.TakeSnapshot", admin_pb2.TakeSnapshotRequest(name="n"))
    assert [next(found), next(found)] == ["a", "b"]
    assert channel.streams[0].how == {"timeout": 600.0, "wait_for_ready": True} and not channel.streams[0].is_cancelled
    with pytest.raises(PackhouseError, match="not you"):
        next(found)
    assert channel.streams[0].is_cancelled
