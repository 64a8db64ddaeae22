"""Batches by a lane of a real server: the same as by bytes, whoever dies, forks or keeps them."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from typing import Any, Callable, Iterator, Sequence

import numpy as np
import pytest
from interrupting import PACKAGE
from lane_remains import has_left_all, lane_descriptors, tell
from random_graphs import molecules, random_schema, random_table, with_few_bits

from packhouse import (
    GRAPHS,
    Batch,
    Client,
    DerivedTensor,
    DType,
    Evaluation,
    GraphSchema,
    GraphTable,
    LoadedBatch,
    Loader,
    LocalServer,
    PackhouseError,
    Padding,
    Segments,
    SharedServer,
    TensorSpec,
)

MOLECULES = molecules(np.random.default_rng(0), 400)
LIMITS = {"nodes": 128, "edges": 288, "graphs": 12}
DATASET = "lanes/molecules"

_jobs = itertools.count()


def store(client: Client, name: str, table: GraphTable, groups: Any = None) -> None:
    client.datasets.create(name, table.schema, grouped=groups is not None)
    client.datasets.append(name, [table], group_ids=None if groups is None else [groups])
    client.datasets.seal(name)


def with_lane(folder: pathlib.Path, listen: str = "127.0.0.1:0", lane: str = "lane") -> LocalServer:
    """A server that offers lanes, by a socket in the folder; skips where the program knows none."""
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    path = f"unix:{folder}/{lane}" if lane else ""
    server = LocalServer(listen=listen, data_dir=folder / "data", arguments=("--lane", path))
    try:
        server.start()
    except RuntimeError:
        pytest.skip("this packhoused has no --lane")
    return server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    running = with_lane(tmp_path_factory.mktemp("lanes"))
    yield running
    running.stop()
    assert running.returncode == 0


@pytest.fixture(scope="module")
def client(server: LocalServer) -> Iterator[Client]:
    with Client(server.address) as connected:
        yield connected


@pytest.fixture
def mortal_server(tmp_path: pathlib.Path) -> Iterator[LocalServer]:
    running = with_lane(tmp_path, f"unix:{tmp_path}/socket")
    yield running
    running.stop()


@pytest.fixture(scope="module", autouse=True)
def datasets(client: Client) -> None:
    store(client, DATASET, MOLECULES)
    store(client, "lanes/groups", MOLECULES, np.random.default_rng(1).integers(0, 150, 400))


Make = Callable[..., Loader]


@pytest.fixture
def make(server: LocalServer) -> Iterator[Make]:
    """Makes loaders of a job of their own each; closes them at the end."""
    made: list[Loader] = []

    def loader(address: str = server.address, **arguments: Any) -> Loader:
        arguments = {"dataset": DATASET, "job": f"lanes-{next(_jobs)}", "lane": "required"} | arguments
        if "shapes" not in arguments:
            arguments.setdefault("limits", LIMITS)
        made.append(Loader(address, **arguments))
        return made[-1]

    yield loader
    for each in made:
        each.close()


def content(batch: Batch) -> list[Any]:
    """All of it."""
    fields = {
        name: value for name, value in vars(batch).items()
        if name not in ("schema", "tensors", "graph_ids", "sizes", "session", "generation")
    }
    tensors = [
        (name, each.dtype, each.shape, each.tobytes()) for name, each in batch.tensors.items()
    ]
    return [fields, batch.graph_ids.tolist(), batch.sizes.tolist(), tensors]


def ids_of(batches: Sequence[LoadedBatch]) -> list[int]:
    return sorted(int(each) for batch in batches for each in batch.graph_ids)


ALL_IDS = sorted(MOLECULES.graph_ids.tolist())


def until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it does not come to pass"
        time.sleep(0.01)


# The same bytes.


@pytest.mark.parametrize("padding", list(Padding))
@pytest.mark.parametrize("seed", range(6))
def test_batches_of_any_schema_are_the_same_either_way(
    client: Client, make: Make, seed: int, padding: Padding
) -> None:
    rng = np.random.default_rng(seed)
    schema = random_schema(rng)
    while not schema.tensors:
        schema = random_schema(rng)
    name = f"lanes/any-{seed}-{padding.name}"
    store(client, name, random_table(rng, schema, 60))
    words = {
        "dataset": name,
        "limits": {each: int(rng.integers(11, 60)) for each in schema.components}
        | {GRAPHS: int(rng.integers(2, 9))},
        "padding": padding,
        "derived": tuple(DerivedTensor),
        "num_ranks": 2,
    }
    for rank in range(2):
        job = f"lanes-any-{next(_jobs)}"
        by_lane = make(job=job, rank=rank, **words)
        by_bytes = make(job=f"{job}-bytes", rank=rank, lane="off", **words)
        for one, other in itertools.zip_longest(by_lane, by_bytes):
            assert content(one) == content(other)
            for array in (one.graph_ids, one.sizes, *one.tensors.values()):
                assert array.flags.behaved
        assert (by_lane.transport, by_bytes.transport) == ("lane", "bytes")


WORDS: list[dict[str, Any]] = [
    {"padding": Padding.GRAPH, "seed": 5},
    {"shapes": [LIMITS, {"nodes": 64, "edges": 160, "graphs": 6}], "padding": Padding.MASKED},
    {"in_order": True, "sizes_only": True},
    {"dataset": "lanes/groups", "grouped": True, "oversize": "reject"},
    {"compact": True, "derived": tuple(DerivedTensor), "padding": Padding.MASKED},
    {"compact": True, "widen": False},
    {"writable": True, "padding": Padding.GRAPH},
    {"segments": Segments(graphs=100, tracks=2)},
]


@pytest.mark.filterwarnings("ignore::packhouse.OversizeWarning")
@pytest.mark.parametrize("words", WORDS)
def test_all_words_give_the_same_either_way(
    server: LocalServer, client: Client, make: Make, words: dict[str, Any]
) -> None:
    if "compact" in words:
        name = "lanes/few-bits"
        if name not in [dataset.name for dataset in client.datasets.list()]:
            specs = [TensorSpec(f"v{n}", dtype, "nodes") for n, dtype in enumerate(
                dtype for dtype in DType if dtype.is_integer for _ in range(3)
            )]
            schema = GraphSchema(MOLECULES.schema.components, [*MOLECULES.schema.tensors, *specs])
            drawn = {each.name: np.zeros(MOLECULES.rows("nodes"), each.dtype.numpy) for each in specs}
            table = GraphTable(schema, MOLECULES.sizes, MOLECULES.tensors | drawn)
            store(client, name, with_few_bits(np.random.default_rng(4), table))
        words = words | {"dataset": name}
    by_lane = make(**words)
    by_bytes = make(lane="off", **words)
    for epoch in range(2):
        by_lane.set_epoch(epoch)
        by_bytes.set_epoch(epoch)
        pairs = list(zip(by_lane, by_bytes))
        assert pairs and all(content(one) == content(other) for one, other in pairs)
    if "segments" in words:
        return
    given = {"dataset": DATASET} | ({} if "shapes" in words else {"limits": LIMITS}) | words
    evaluation = Evaluation(server.address, lane="required", **given)
    other = Evaluation(server.address, lane="off", **given)
    for first_step in (0, 2):
        one_pass = [content(batch) for batch in evaluation.from_step(first_step)]
        assert one_pass == [content(batch) for batch in other.from_step(first_step)]
    # The calls of short ones end for the server before the lane is open.
    assert other.transport == "bytes"


def test_an_evaluation_has_a_lane(server: LocalServer) -> None:
    words: dict[str, Any] = {"dataset": DATASET, "limits": {"nodes": 64}}
    evaluation = Evaluation(server.address, lane="required", **words)
    transports = set()
    # Its call may have ended for the server before the lane is open: on a busy machine, often.
    for _ in range(400):
        assert ids_of(list(evaluation)) == ALL_IDS
        transports.add(evaluation.transport)
        if "lane" in transports:
            break
    assert "lane" in transports


@pytest.mark.parametrize("lane", ["auto", "off"])
def test_a_pass_to_its_end_is_no_cancelled_call(server: LocalServer, lane: Any) -> None:
    def cancelled() -> list[str]:
        with urllib.request.urlopen(f"http://{server.http_address}/metrics", timeout=60) as page:
            lines = page.read().decode().splitlines()
        return [line for line in lines if 'code="CANCELLED"' in line and 'method="Load"' in line]

    before = cancelled()
    for _ in range(20):
        assert ids_of(list(Evaluation(server.address, dataset=DATASET, limits=LIMITS, lane=lane))) == ALL_IDS
    assert cancelled() == before


# Who keeps what, and for how long.


def test_views_outlive_all(mortal_server: LocalServer, make: Make) -> None:
    with Client(mortal_server.address) as client:
        store(client, DATASET, MOLECULES)
    loader = make(mortal_server.address, padding="graph")
    kept = [next(loader), next(loader)]
    expected = [content(batch) for batch in kept]
    loader.close()
    assert [content(batch) for batch in kept] == expected
    mortal_server.kill()
    gc.collect()
    assert [content(batch) for batch in kept] == expected
    for batch in kept:
        batch["x"][:] = 0
    assert lane_descriptors("self") == 0


@pytest.mark.parametrize("padding", ["none", "graph"])
def test_who_keeps_every_batch_gets_the_whole_epoch(make: Make, padding: Any) -> None:
    words: dict[str, Any] = {"padding": padding, "limits": KILL_LIMITS, "seed": 3}
    loader, other = make(**words), make(lane="off", **words)
    kept = list(loader)
    assert ids_of(kept) == ALL_IDS
    for batch, expected in zip(kept, other):
        assert content(batch) == content(expected)
    # What is left of the ring serves the next epoch.
    loader.set_epoch(1)
    assert ids_of(list(loader)) == ALL_IDS


def test_a_batch_may_be_written_to(make: Make) -> None:
    words: dict[str, Any] = {"limits": KILL_LIMITS}
    loader, other = make(**words), make(lane="off", **words)
    for batch, expected in zip(loader, other):
        assert content(batch) == content(expected)
        for array in (batch.graph_ids, batch.sizes, *batch.tensors.values()):
            array.view(np.uint8)[...] = 0xA5


def test_torch_shares_the_memory(make: Make) -> None:
    torch = pytest.importorskip("torch")
    import packhouse.torch
    from packhouse.frameworks.tensors import to_torch

    loader, other = make(padding="graph"), make(padding="graph", lane="off")
    before = None
    for batch, expected in zip(loader, other):
        for spec in batch.schema.tensors:
            column = batch[spec.name]
            made = to_torch(column, spec)
            assert torch.equal(made, to_torch(expected[spec.name], spec)), spec.name
            if spec.index_into is None:
                assert made.data_ptr() == column.__array_interface__["data"][0]
                assert made.data_ptr() % 64 == 0
        whole = packhouse.torch.to_torch(batch)
        for name, array in batch.tensors.items():
            assert whole[name].data_ptr() == array.__array_interface__["data"][0]
        wanted = to_torch(expected["x"], batch.schema.tensor("x"))
        made = whole["x"]
        del batch, column, array, whole
        # A tensor alone holds the slot.
        if before is not None:
            assert torch.equal(*before)
        before = made, wanted


# Forks.


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_fork_after_the_first_batch_breaks_neither(make: Make, kind: str) -> None:
    words: dict[str, Any] = {"padding": "graph", "limits": KILL_LIMITS, "seed": 8}
    loader, other = make(**words), make(lane="off", **words)
    given = []
    children = []
    for number, (batch, expected) in enumerate(itertools.zip_longest(loader, other)):
        assert content(batch) == content(expected)
        given.append(batch.graph_ids)
        column: Any = batch["x"]
        if kind == "torch":
            column = pytest.importorskip("torch").from_numpy(column)
        if number in (0, 7, 12):
            children.append(Child(functools.partial(reads_and_writes, column, batch, expected)))
            # The parent goes on, and the server writes to all slots meanwhile.
            column[:] = 3
        if number in (6, 40):
            assert children.pop(0).goes_on() == 0
    assert sorted(np.concatenate(given).tolist()) == ALL_IDS
    assert [child.goes_on() for child in children] == [0]


def reads_and_writes(column: Any, batch: Any, expected: Any) -> int:
    if column.tolist() != expected["x"].tolist() or content(batch) != content(expected):
        return 1
    column[:] = 7
    return 0


class Child:
    """A process that is forked now, and does `work` once it is told to go on."""

    def __init__(self, work: Callable[[], int]) -> None:
        go, self._gone = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            code = 99
            try:
                os.close(self._gone)
                os.read(go, 1)
                code = work()
            finally:
                os._exit(code)
        os.close(go)

    def goes_on(self) -> int:
        """What `work` gave."""
        # Closing it would not do: later children have it too.
        os.write(self._gone, b"x")
        os.close(self._gone)
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


# Kills.


class AtLine:
    """Does something once, when the package has come to its line number `at`."""

    def __init__(self, at: int, action: Callable[[], None]) -> None:
        self._left = at
        self._action = action

    def __enter__(self) -> AtLine:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *exc_info: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: Any, event: str, arg: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(PACKAGE) else None

    def _line(self, frame: Any, event: str, arg: Any) -> Any:
        if event == "line":
            self._left -= 1
            if self._left == 0:
                sys.settrace(None)
                self._action()
        return self._line


KILL_LIMITS = {"nodes": 64, "edges": 160, "graphs": 6}


def points(most: int, count: int) -> list[int]:
    """Some of the points, or many."""
    draws = random.Random(7)
    if os.environ.get("PACKHOUSE_ALL_CASES"):
        count *= 50
    return [draws.randrange(1, most) for _ in range(count)]


@pytest.mark.parametrize("keeps", [False, True])
def test_a_server_that_is_killed_gives_each_graph_once(
    mortal_server: LocalServer, make: Make, keeps: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with Client(mortal_server.address) as client:
        store(client, DATASET, MOLECULES)
    words: dict[str, Any] = {"limits": KILL_LIMITS, "padding": "graph", "max_in_flight": 8}
    expected = {batch.number: content(batch) for batch in make(lane="off", **words)}
    def kill() -> None:
        mortal_server.kill()
        mortal_server.start()

    for num_killed, at in enumerate(points(4000, 6), 1):
        loader = make(mortal_server.address, **words)
        given, kept = [], []
        with AtLine(at, kill):
            for batch in loader:
                given.append(batch.number)
                now = content(batch)
                now[0]["is_redelivered"] = False
                assert now == expected[batch.number], at
                if keeps:
                    kept.append(batch)
        assert sorted(given) == sorted(expected), at
        assert loader.transport == "lane", at
        for batch in kept:
            kept_now = content(batch)
            kept_now[0]["is_redelivered"] = False
            assert kept_now == expected[batch.number], at
        loader.close()
    assert lane_descriptors("self") == 0
    until(lambda: has_left_all(mortal_server.pid))
    tell(capsys, f"{num_killed} servers killed under a Python loader")


TRAINER = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from packhouse import Loader
from test_lane_end_to_end import AtLine, KILL_LIMITS
loader = Loader({address!r}, dataset={dataset!r}, job={job!r}, limits=KILL_LIMITS, padding="graph",
                max_in_flight=8, lane="required", on_existing="resume")
with AtLine({at}, lambda: os.kill(os.getpid(), signal.SIGKILL)):
    for batch in loader:
        print("given", batch.number, flush=True)
"""


def test_a_trainer_that_is_killed_gives_each_graph_once(
    server: LocalServer, make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    words: dict[str, Any] = {"limits": KILL_LIMITS, "padding": "graph", "max_in_flight": 8}
    expected = {batch.number: content(batch) for batch in make(lane="off", **words)}
    num_killed = num_redelivered = 0
    for at in points(4000, 5):
        job = f"lanes-{next(_jobs)}"
        program = TRAINER.format(
            tests=os.path.dirname(__file__), address=server.address, dataset=DATASET, job=job, at=at
        )
        ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        assert ended.returncode in (0, -signal.SIGKILL)
        num_killed += ended.returncode != 0
        given = [int(line.split()[1]) for line in ended.stdout.splitlines()]
        assert len(given) == len(set(given))
        # All but the last one was acknowledged, and at most this many of these were not sent.
        rest = make(job=job, on_existing="resume", **words)
        come = []
        for batch in rest:
            come.append(batch.number)
            num_redelivered += batch.is_redelivered
            now = content(batch)
            now[0]["is_redelivered"] = False
            now[0]["step"] = expected[batch.number][0]["step"]
            assert now == expected[batch.number], at
        assert len(come) == len(set(come)), at
        assert set(given) | set(come) == set(expected), at
        # What came again had not been acknowledged: it was on its way, or in hand.
        assert len(set(given) & set(come)) <= 8, at
        assert rest.epoch_info().num_done == len(expected), at
        rest.close()
    assert num_redelivered > 0
    until(lambda: has_left_all(server.pid))
    tell(capsys, f"{num_killed} Python trainers killed")


# Who has a lane.


@pytest.fixture(scope="module")
def laneless_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    running = with_lane(tmp_path_factory.mktemp("laneless"), lane="")
    with Client(running.address) as client:
        store(client, DATASET, MOLECULES)
    yield running
    running.stop()


def test_a_lane_that_is_required_and_not_there_is_an_error(
    laneless_server: LocalServer, make: Make
) -> None:
    words = r"^FAILED_PRECONDITION: lane 'required': 127\.0\.0\.1:\d+ gives none: .*--lane"
    with pytest.raises(PackhouseError, match=words):
        next(make(laneless_server.address))
    evaluation = Evaluation(
        laneless_server.address, dataset=DATASET, limits=LIMITS, lane="required"
    )
    with pytest.raises(PackhouseError, match=words):
        next(iter(evaluation))
    for lane in ("auto", "off"):
        loader = make(laneless_server.address, lane=lane)
        assert ids_of(list(loader)) == ALL_IDS and loader.transport == "bytes"


def transports_shown(server: LocalServer, job: str) -> list[str]:
    """How batches go to each worker of a job, as the operator's page has it."""
    address = f"http://{server.http_address}/api/job?name={job}"
    status, answered = 202, b""
    while status == 202:  # Not answered yet.
        with urllib.request.urlopen(address, timeout=60) as answer:
            status, answered = answer.status, answer.read()
    (epoch,) = json.loads(answered)["loading"]
    return [worker["transport"] for worker in epoch["workers"]]


def test_a_lane_is_taken_by_default_and_not_if_off(
    server: LocalServer, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    for lane, transport, shown in (
        ("auto", "lane", "lane"), ("required", "lane", "lane"), ("off", "bytes", "grpc")
    ):  # fmt: skip
        loader = make(lane=lane)
        assert loader.transport == "bytes"
        next(loader)
        assert loader.transport == transport
        assert transports_shown(server, loader.settings.request.job) == [shown]
        loader.close()
        assert loader.transport == transport
    monkeypatch.setenv("PACKHOUSE_LANE", "off")
    loader = make(lane="auto")
    assert ids_of(list(loader)) == ALL_IDS and loader.transport == "bytes"


def test_a_socket_that_is_elsewhere_is_no_lane(
    server: LocalServer, make: Make, tmp_path: pathlib.Path
) -> None:
    # As in another container, or behind a forwarded port: the path leads nowhere.
    running = with_lane(tmp_path)
    with contextlib.ExitStack() as stack:
        stack.callback(running.stop)
        with Client(running.address) as client:
            store(client, DATASET, MOLECULES)
        os.rename(tmp_path / "lane", tmp_path / "away")
        loader = make(running.address, lane="auto")
        assert ids_of(list(loader)) == ALL_IDS and loader.transport == "bytes"
        with pytest.raises(PackhouseError, match="gives none: .*/lane: No such file or directory"):
            next(make(running.address))
        os.rename(tmp_path / "away", tmp_path / "lane")
        loader = make(running.address)
        assert ids_of(list(loader)) == ALL_IDS and loader.transport == "lane"
        loader.close()


# With a command behind it: in a container that has the folders of this machine, but no network,
# process, memory or name in common with it.
APART = (
    *("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--ipc", "--net", "--uts"),
    *("--mount-proc", "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh"),
)
TRAINER_APART = """
import sys
from packhouse import Loader

address, dataset = sys.argv[1:]
with Loader(address, dataset=dataset, job="apart", limits={"graphs": 16}, lane="required") as loader:
    print(*sorted(int(each) for batch in loader for each in batch.graph_ids), loader.transport)
"""


def test_containers_share_the_sockets_folder_alone(mortal_server: LocalServer) -> None:
    if subprocess.run([*APART, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this system gives no namespaces")
    with Client(mortal_server.address) as client:
        store(client, DATASET, MOLECULES)
    trainer = [*APART, sys.executable, "-B", "-c", TRAINER_APART, mortal_server.address, DATASET]
    done = subprocess.run(trainer, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [*map(str, ALL_IDS), "lane"]


def test_a_server_of_ones_own_has_a_lane(
    make: Make, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with LocalServer(data_dir=tmp_path / "data", log=subprocess.DEVNULL) as server:
        with Client(server.address) as client:
            store(client, DATASET, MOLECULES)
        loader = make(server.address)
        assert ids_of(list(loader)) == ALL_IDS and loader.transport == "lane"
        loader.close()
        assert len(list(temporary.iterdir())) == 1
        # The socket that a killed server leaves is not in the way.
        server.kill()
        assert not list(temporary.iterdir())
        server.start()
        loader = make(server.address, job="again")
        assert ids_of(list(loader)) == ALL_IDS and loader.transport == "lane"
        loader.close()
    assert not list(temporary.iterdir())


def test_the_shared_server_has_a_lane(
    make: Make, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "PACKHOUSED" not in os.environ:
        pytest.skip("PACKHOUSED does not name a server program")
    monkeypatch.setenv("PACKHOUSE_CACHE", str(tmp_path / "cache"))
    with SharedServer() as shared:
        with Client(shared.address) as client:
            store(client, DATASET, MOLECULES)
        loader = make(shared.address)
        assert ids_of(list(loader)) == ALL_IDS and loader.transport == "lane"
        loader.close()
    until(lambda: not list((tmp_path / "cache").glob("run-*")))


WORKERS = """
import sys
from torch.utils.data import DataLoader
from packhouse import Loader
from packhouse.torch import EpochDataset, to_torch
def lies_in_a_slot(batch):
    base = batch["x"]
    while base is not None and type(base).__name__ != "SlotBuffer":
        base = getattr(base, "base", None)
    return batch.graph_ids.tolist(), base is not None
dataset = EpochDataset(
    # So few come before a lane is open.
    Loader({address!r}, dataset={dataset!r}, job={job!r}, limits={limits!r}, lane="required",
           max_in_flight=2),
    transform={transform})
dataset.set_epoch(0)
ids = []
lying = 0
for item in dataset.trained(DataLoader(dataset, batch_size=None, num_workers=2)):
    if dataset._transform is to_torch:
        # What goes to another process does so in one piece.
        assert len({{tensor.storage().data_ptr() for tensor in item.tensors.values()}}) == 1
        ids += item.graph_ids.tolist()
    else:
        lying += item[1]
        ids += item[0]
assert dataset._transform is to_torch or lying > 10
dataset.close()
print(sorted(ids))
"""


@pytest.mark.parametrize("transform", ["lies_in_a_slot", "to_torch"])
def test_worker_processes_have_lanes_of_their_own(server: LocalServer, transform: str) -> None:
    pytest.importorskip("torch")
    program = WORKERS.format(
        address=server.address,
        dataset=DATASET,
        limits=LIMITS,
        transform=transform,
        job=f"workers-{transform}",
    )
    output = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    assert output == f"{ALL_IDS}\n"
