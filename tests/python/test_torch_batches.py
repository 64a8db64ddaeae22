"""Batches as torch's tensors, and rows of plain tensors."""

from __future__ import annotations

import contextlib
import hashlib
import pathlib
import pickle
import threading
import types
import weakref
from typing import Any, Iterator

import grpc
import numpy as np
import pytest
from interrupting import Interruption
from random_graphs import molecules, narrowed, random_schema, random_table
from reference_collation import batch_message

from packhouse import (
    Batch,
    Client,
    DerivedTensor,
    DType,
    Evaluation,
    GraphSchema,
    GraphTable,
    Loader,
    LocalServer,
    PackhouseError,
    Padding,
    TensorSpec,
    prefetch,
)
from packhouse.stored.dataset import DatasetState
from packhouse.frameworks.torch.epoch_dataset import transform_graphs

torch = pytest.importorskip("torch")

from packhouse.frameworks.torch import batch as batch_module  # noqa: E402
from packhouse.frameworks.torch.batch import (  # noqa: E402
    Copies,
    TorchBatch,
    TorchMemory,
    in_pinned_slot,
)
from packhouse.frameworks.torch.tensor_loader import (  # noqa: E402
    ROWS,
    _NextEpoch,
    group_ids_of,
    store_rows,
)
from packhouse.torch import (  # noqa: E402
    Leased,
    MaskedBatchNorm,
    TensorLoader,
    masked_mean,
    prefetch_to,
    to_torch,
)

LIMITS = {"nodes": 200, "edges": 400, "graphs": 9}


def random_batch(
    seed: int, padding: Padding = Padding.MASKED, *, is_narrow: bool = False
) -> Batch:
    rng = np.random.default_rng(seed)
    graphs = random_table(rng, random_schema(rng), int(rng.integers(1, 7)))
    limits = {name: graphs.rows(name) + 2 for name in graphs.schema.all_components}
    message = batch_message(graphs, limits, padding, tuple(DerivedTensor))
    if is_narrow:
        message = narrowed(rng, message)
    return Batch.from_proto(message, graphs.schema)


def has_only_torchs_types(batch: Batch) -> bool:
    halves = {spec.name for spec in batch.schema.tensors if spec.dtype is DType.BFLOAT16}
    unsigned = (np.uint16, np.uint32, np.uint64)
    return all(
        array.dtype not in unsigned or name in halves for name, array in batch.tensors.items()
    )


def batch_of_molecules() -> Batch:
    graphs = molecules(np.random.default_rng(1), 5)
    return Batch.from_proto(batch_message(graphs, LIMITS, Padding.GRAPH), graphs.schema)


@pytest.mark.parametrize("seed", range(60))
def test_tensors_hold_what_the_arrays_hold(seed: int) -> None:
    batch = random_batch(seed, is_narrow=seed % 2 == 1)
    if seed % 3 == 1:
        batch = batch.writable()
    converted = to_torch(batch)
    assert list(converted.keys()) == list(batch.tensors)
    types = {spec.name: spec.dtype for spec in batch.schema.tensors}
    for name, array in batch.tensors.items():
        tensor = converted[name]
        assert tuple(tensor.shape) == array.shape
        assert tensor.data_ptr() % 64 == 0 and tensor.is_contiguous()
        if types.get(name) is DType.BFLOAT16:
            assert tensor.dtype is torch.bfloat16
            tensor = tensor.view(torch.int16).numpy().view(np.uint16)
            assert tensor.tobytes() == array.tobytes()
        elif array.dtype.kind == "u" and array.dtype.itemsize > 1:
            assert tensor.numpy().astype(array.dtype).tobytes() == array.tobytes()
        else:
            assert tensor.numpy().tobytes() == array.tobytes()
            assert tensor.numpy().dtype == array.dtype
    assert converted.num_graphs == len(converted) == len(batch)
    for name in batch.rows:
        assert converted.mask(name).tolist() == batch.mask(name).tolist()


def test_a_batch_of_torch_goes_to_another_process_in_one_piece() -> None:
    converted = to_torch(batch_of_molecules())
    storages = {tensor.storage().data_ptr() for tensor in converted.tensors.values()}
    assert len(storages) == 1
    copy = pickle.loads(pickle.dumps(converted))
    assert all(torch.equal(copy[name], converted[name]) for name in converted.keys())
    assert copy.real_rows == converted.real_rows and repr(copy) == repr(converted)
    assert "x: int16[200, 9]" in repr(copy)
    with pytest.raises(KeyError, match="no tensor 'z'"):
        copy["z"]
    with pytest.raises(AttributeError):
        copy.no_such_thing


def test_what_is_written_to_a_tensor_is_nobody_elses() -> None:
    batch = batch_of_molecules()
    before = batch["x"].copy()
    to_torch(batch)["x"].fill_(7)
    assert (batch["x"] == before).all()


@pytest.mark.parametrize("seed", range(30))
def test_tensors_share_the_memory_of_a_batch_that_may_be_written_to(seed: int) -> None:
    batch = random_batch(seed)
    own = batch.writable()
    # Of unsigned numbers all tensors are copies.
    is_shared = has_only_torchs_types(batch)
    for made, wanted, shares in (
        (to_torch(own), own, is_shared),
        (to_torch(own, change=lambda _: None), own, False),
        (to_torch(batch), batch, False),
    ):
        for name, array in wanted.tensors.items():
            here = array.__array_interface__["data"][0]
            assert not array.size or (made[name].data_ptr() == here) == shares


@pytest.mark.parametrize("seed", range(30))
def test_a_transform_of_graphs_sees_each_graph_as_it_was_stored(seed: int) -> None:
    batch = random_batch(seed).writable()
    graphs = batch.unbatch()
    before = {name: array.copy() for name, array in batch.tensors.items()}
    seen: list[dict[str, Any]] = []

    def look(graph: dict[str, Any]) -> None:
        seen.append({name: array.copy() for name, array in graph.items()})

    transform_graphs(batch, look)
    for position, graph in enumerate(seen):
        expected = graphs.graph(position)
        assert graph.keys() == expected.keys()
        assert all(graph[name].tobytes() == expected[name].tobytes() for name in graph)
    assert all(batch[name].tobytes() == before[name].tobytes() for name in before)


def test_a_transform_of_graphs_changes_real_rows_alone() -> None:
    batch = batch_of_molecules().writable()
    graphs = batch.unbatch()
    expected = graphs.tensors["x"] + 1

    def add_one(graph: dict[str, Any]) -> dict[str, Any]:
        return {"x": graph["x"] + 1, "senders": graph["receivers"], "receivers": graph["senders"]}

    padding = batch["x"][batch.real_rows["nodes"] :].copy()
    changed = transform_graphs(batch, add_one).unbatch()
    assert (changed.tensors["x"] == expected).all()
    assert (batch["x"][batch.real_rows["nodes"] :] == padding).all()


def test_a_transform_that_changes_a_graphs_size_is_refused() -> None:
    batch = batch_of_molecules().writable()
    with pytest.raises(ValueError, match="graph 0: 'x' has shape .* a packed graph keeps its size"):
        transform_graphs(batch, lambda graph: {"x": graph["x"][:-1]})
    with pytest.raises(ValueError, match="graph 0: tensor 'z' is not in the schema"):
        transform_graphs(batch, lambda graph: {"z": graph["x"]})


@pytest.mark.parametrize("seed", range(30))
def test_a_change_sees_the_copies_that_become_tensors(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a change of writable arrays before, with one copy where torch has all types."""
    batch = random_batch(seed, is_narrow=seed % 2 == 1)
    before = {name: array.copy() for name, array in batch.tensors.items()}

    def flip(changed: Batch) -> None:
        for name, array in changed.tensors.items():
            assert array.dtype == before[name].dtype
            array.view(np.uint8)[...] ^= array.dtype != np.bool_

    expected = batch.writable()
    flip(expected)
    whole = to_torch(expected)
    if has_only_torchs_types(batch):
        monkeypatch.delattr(Batch, "writable")
    changed = to_torch(batch, change=flip)
    assert list(changed.keys()) == list(whole.keys())
    for name in whole.keys():
        as_bytes = [made[name].contiguous().view(torch.uint8).numpy() for made in (changed, whole)]
        assert np.array_equal(*as_bytes), name
    assert all(batch[name].tobytes() == before[name].tobytes() for name in before)


@pytest.fixture(scope="module")
def stored(client: Client) -> str:
    table = molecules(np.random.default_rng(3), 100)
    client.datasets.create("torch-batches", table.schema)
    client.datasets.append("torch-batches", table)
    client.datasets.seal("torch-batches")
    return "torch-batches"


def test_an_evaluation_is_fetched_ahead_in_order(server: LocalServer, stored: str) -> None:
    evaluation = Evaluation(server.address, dataset=stored, limits={"graphs": 7})
    expected = [batch.id for batch in evaluation]
    asked: list[int] = []

    def move(batch: Batch) -> int:
        asked.append(batch.id)
        return batch.id

    for number, moved in enumerate(prefetch(evaluation, move, depth=3)):
        assert moved == expected[number]
        assert len(asked) == min(number + 4, len(expected))
    moved_batches = list(prefetch_to(evaluation, "cpu"))
    assert [batch.id for batch in moved_batches] == expected
    assert moved_batches[0]["x"].dtype is torch.int16
    with pytest.raises(ValueError, match="depth 0 is below 1"):
        prefetch(evaluation, move, depth=0)


class Registering:
    """See Pinning."""

    registered = 0

    def register(self, address: int, num_bytes: int) -> bool:
        """See Pinning."""
        self.registered += 1
        return address % 4096 == 0 and num_bytes > 0

    def unregister(self, address: int) -> None:
        """See Pinning."""
        self.registered -= 1


@pytest.mark.parametrize(
    ("dtypes", "is_direct"),
    [
        ((DType.INT64, DType.FLOAT32, DType.BOOL, DType.BFLOAT16), True),
        ((DType.INT8, DType.UINT32), False),
    ],
)
def test_batches_of_a_lane_are_copied_to_a_device_from_their_slots(
    server: LocalServer, client: Client, dtypes: tuple[DType, ...], is_direct: bool
) -> None:
    specs = [TensorSpec(f"x{k}", dtype, "nodes", (3,)) for k, dtype in enumerate(dtypes)]
    schema = GraphSchema(components=("nodes",), tensors=tuple(specs))
    name = f"pinned-{len(dtypes)}"
    client.datasets.create(name, schema)
    client.datasets.append(name, random_table(np.random.default_rng(4), schema, 900))
    client.datasets.seal(name)
    library = Registering()
    limits = {"nodes": 200, "graphs": 9}
    by_bytes = Loader(server.address, dataset=name, job=f"{name}-b", limits=limits, lane="off")
    by_lane = Loader(server.address, dataset=name, job=f"{name}-l", limits=limits, lane="required")
    compared = 0
    with by_bytes, by_lane:
        for expected, batch in zip(by_bytes, by_lane):
            assert in_pinned_slot(expected, library) is None
            direct = in_pinned_slot(batch, library)
            if direct is None:
                # The first ones may come by bytes, before the lane is open.
                assert not is_direct or compared == 0
                continue
            wanted = to_torch(expected)
            # A device may read a slot after its tensors have gone.
            own = to_torch(batch)
            assert direct.id == wanted.id
            assert direct.graph_ids.tolist() == wanted.graph_ids.tolist()
            assert list(direct.keys()) == list(wanted.keys())
            for key, tensor in wanted.tensors.items():
                assert direct[key].dtype == tensor.dtype
                assert torch.equal(direct[key].view(torch.uint8), tensor.view(torch.uint8))
                # It is the slot, not a copy.
                assert direct[key].data_ptr() == batch[key].__array_interface__["data"][0]
                assert own[key].data_ptr() != direct[key].data_ptr()
            compared += 1
    assert library.registered == is_direct
    assert compared > 1 if is_direct else compared == 0


def test_what_is_copied_is_kept_until_it_has_been() -> None:
    class Event:
        has_happened = False

        def query(self) -> bool:
            return self.has_happened

        def synchronize(self) -> None:
            self.has_happened = True

    class Copied:
        """May be referenced weakly."""

    copies = Copies()
    events = [Event() for _ in range(5)]
    alive = []
    for event in events:
        copied = Copied()
        alive.append(weakref.ref(copied))
        copies.add(event, copied)
        del copied
    copies.let_go()
    assert all(each() is not None for each in alive)
    # A stream's events happen in their order.
    events[0].has_happened = events[1].has_happened = True
    copies.let_go()
    assert [each() is None for each in alive] == [True, True, False, False, False]
    copies.wait()
    assert all(each() is None for each in alive) and all(each.has_happened for each in events)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cuda_device_gets_the_same_by_a_lane(server: LocalServer, stored: str) -> None:
    limits = {"graphs": 7}
    by_bytes = Evaluation(server.address, dataset=stored, limits=limits)
    expected = [to_torch(batch) for batch in by_bytes]
    for depth in (1, 2, 5):
        with Loader(
            server.address, dataset=stored, job=f"cuda-{depth}", limits=limits, lane="required"
        ) as loader:
            moved = {batch.id: batch for batch in prefetch_to(loader, "cuda", depth)}
        assert sorted(moved) == sorted(batch.id for batch in expected)
        graphs = np.concatenate([batch.graph_ids for batch in moved.values()])
        assert sorted(graphs.tolist()) == list(range(len(graphs)))
        for batch in moved.values():
            assert all(tensor.is_cuda for tensor in batch.tensors.values())


def test_what_has_a_lease_keeps_it_on_its_way() -> None:
    class Item:
        lease = "its lease"

    (leased,) = prefetch([Item()], lambda item: {"x": 1})
    assert leased == Leased({"x": 1}, "its lease")
    (leased,) = prefetch([Leased(3, "its lease")], lambda item: item + 1)
    assert leased == Leased(4, "its lease")


class Noted:
    """A tensor that notes what is done to it."""

    def __init__(self, name: str, done: list[Any]) -> None:
        self.name = name
        self.device = "there"
        self._done = done

    def __getattr__(self, what: str) -> Any:
        def call(*arguments: Any, **how: Any) -> Noted:
            self._done.append((self.name, what, arguments, how))
            return Noted(self.name + "'", self._done)

        return call


def test_what_is_done_to_a_batch_is_done_to_each_of_its_tensors() -> None:
    done: list[Any] = []
    info = batch_of_molecules()
    batch = TorchBatch({name: Noted(name, done) for name in "ab"}, info)
    assert "a" in batch and "x" not in batch and batch.device == "there"
    assert TorchBatch({}, info).device == torch.device("cpu")
    for act, what, arguments, how in (
        (lambda: batch.to("gpu", non_blocking=True), "to", ("gpu",), {"non_blocking": True}),
        (lambda: batch.to("gpu"), "to", ("gpu",), {"non_blocking": False}),
        (batch.pin_memory, "pin_memory", (), {}),
    ):
        done.clear()
        made = act()
        assert done == [(name, what, arguments, how) for name in "ab"]
        assert [each.name for each in made.tensors.values()] == ["a'", "b'"]
        assert made.info is info
    done.clear()
    batch.record_stream("stream")
    assert done == [(name, "record_stream", ("stream",), {}) for name in "ab"]
    assert to_torch(info).info.tensors == {}


def test_batches_go_to_a_device_on_a_stream_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[Any] = []
    present: list[Any] = ["present"]

    class Event:
        def __init__(self, number: int) -> None:
            self.number = number

        def query(self) -> bool:
            return False

        def synchronize(self) -> None:
            log.append(("copied", self.number))

    class Stream:
        num_events = 0

        def __init__(self, device: Any) -> None:
            self.device = device

        def record_event(self) -> Event:
            self.num_events += 1
            return Event(self.num_events)

        def wait_event(self, event: Event) -> None:
            log.append(("waits", event.number))

    @contextlib.contextmanager
    def stream(used: Stream) -> Iterator[None]:
        present.append(used)
        yield
        present.pop()

    class Moved:
        def record_stream(self, used: Any) -> None:
            log.append(("used by", used.device.type))

    class Item:
        lease = "its lease"

        def pin_memory(self) -> Item:
            log.append("pinned")
            return self

        def to(self, device: Any, non_blocking: bool) -> Moved:
            assert present[-1] != "present" and present[-1].device == device
            log.append(("to", device.type, non_blocking))
            return Moved()

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", stream)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    copied = ["pinned", ("to", "cuda", True)]
    moved = prefetch_to([Item(), Leased(Item(), "another")], "cuda", 1)
    first = next(moved)
    assert isinstance(first.item, Moved) and first.lease == "its lease"
    assert log == [*copied, *copied, ("waits", 1), ("used by", "cuda")]
    (second,) = moved
    assert isinstance(second.item, Moved) and second.lease == "another"
    assert log[6:] == [("waits", 2), ("used by", "cuda"), ("copied", 1), ("copied", 2)]


def test_a_device_takes_slots_or_says_that_it_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Any] = []
    cudart = types.SimpleNamespace(
        cudaHostRegister=lambda *of: done.append(of) or of[0] % 2, cudaHostUnregister=done.append
    )
    monkeypatch.setattr(torch.cuda, "cudart", lambda: cudart)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: done.append(device.type))
    library = batch_module._CudaPinning(torch.device("cpu"))
    assert library.register(4096, 8192) is True and library.register(7, 9) is False
    library.unregister(4096)
    assert done == [(4096, 8192, 1), (7, 9, 1), "cpu", 4096]


def test_the_memory_of_a_step_is_the_devices_or_the_processs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[Any] = []
    process = types.SimpleNamespace(reset=lambda: done.append("reset"), peak_bytes=lambda: 5)
    monkeypatch.setattr(batch_module, "ProcessMemory", lambda: process)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda of: done.append(str(of)))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda of: done.append(str(of)) or 7)
    for is_there, device, peak, expected in (
        (False, None, 5, ["reset"]),
        (True, "cpu", 5, ["reset"]),
        (True, None, 7, ["cuda", "cuda"]),
        (False, "cuda:1", 7, ["cuda:1", "cuda:1"]),
    ):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: is_there)
        memory = TorchMemory(device)
        memory.reset()
        assert memory.peak_bytes() == peak and done == expected
        done.clear()


# Rows of plain tensors.


def rows_of(batches: Iterator[Any]) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("rows", "batch_size"), [(1, 1), (64, 64), (65, 64), (1000, 7), (40000, 64)])
def test_each_row_comes_once_an_epoch(
    server: LocalServer, rows: int, batch_size: int, drop_last: bool
) -> None:
    y = torch.arange(rows)
    loader = TensorLoader(
        y, batch_size=batch_size, drop_last=drop_last, address=server.address, seed=3
    )
    epochs = [rows_of(loader) for _ in range(3)]
    for batches in epochs:
        assert len(batches) == len(loader)
        assert all(len(batch) == batch_size for batch in batches[: rows // batch_size])
        flat = [row for batch in batches for row in batch]
        if drop_last:
            assert len(set(flat)) == len(flat) == rows // batch_size * batch_size
        else:
            assert sorted(flat) == list(range(rows))
    if rows > 100:
        assert epochs[0] != epochs[1] != epochs[2]
    again = TensorLoader(
        y, batch_size=batch_size, drop_last=drop_last, address=server.address, seed=3
    )
    again.set_epoch(1)
    assert rows_of(again) == epochs[1]


def test_the_epoch_that_is_read_ahead_is_the_one_that_is_asked_for(server: LocalServer) -> None:
    rows = torch.arange(40_000)

    def epoch_alone(epoch: int, step: int = 0) -> list[list[int]]:
        with TensorLoader(rows, address=server.address) as loader:
            loader.load_state_dict({"epoch": epoch, "next_step": step})
            return rows_of(loader)

    with TensorLoader(rows, address=server.address) as loader:
        # In turn, then others than those that were read ahead, then within one of these.
        for epoch in (0, 1, 2, 7, 7, 3):
            loader.load_state_dict({"epoch": epoch, "next_step": 0})
            assert rows_of(loader) == epoch_alone(epoch)
        loader.load_state_dict({"epoch": 4, "next_step": 300})
        assert rows_of(loader) == epoch_alone(4, 300)
        # Left early.
        for number, _ in enumerate(loader):
            if number == 400:
                break
        loader.set_epoch(6)
        assert rows_of(loader) == epoch_alone(6)
    # None of the threads that read ahead is left.
    for thread in threading.enumerate():
        if thread.name == "packhouse-rows":
            thread.join(20)
            assert not thread.is_alive()


def test_an_epoch_that_could_not_be_read_ahead_is_read_again(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Any) -> None:
        """Ends without all messages."""

    monkeypatch.setattr("packhouse.frameworks.torch.tensor_loader._NextEpoch._run", fail)
    with TensorLoader(torch.arange(1000), address=server.address) as loader:
        for _ in range(3):
            assert sorted(row for batch in rows_of(loader) for row in batch) == list(range(1000))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_epoch_read_ahead_is_whole_or_none() -> None:
    """Whatever is raised at any line of the thread that reads it."""
    messages: Any = [types.SimpleNamespace(graph_ids=np.arange(3, dtype=np.uint64))] * 3

    def read(interruption: Interruption) -> list[Any] | None:
        with interruption:
            return _NextEpoch(1, messages).wait()

    passing = Interruption(thread="packhouse-rows")
    assert len(read(passing) or ()) == len(messages)
    for at in range(len(passing.lines)):
        epoch = read(Interruption(at, "packhouse-rows"))
        assert epoch is None or len(epoch) == len(messages), passing.lines[at]


def test_rows_of_all_tensors_stay_together(server: LocalServer) -> None:
    rng = np.random.default_rng(0)
    x, y, z = rng.random((500, 3)), np.arange(500), torch.arange(500) * 2
    for x_batch, y_batch, z_batch in TensorLoader(x, y, z, address=server.address):
        assert (x_batch.numpy() == x[y_batch]).all()
        assert (z_batch == 2 * y_batch).all()


def test_without_shuffling_rows_come_in_their_order(server: LocalServer) -> None:
    loader = TensorLoader(
        torch.arange(40_000), batch_size=48, shuffle=False, address=server.address
    )
    assert [row for batch in rows_of(loader) for row in batch] == list(range(40_000))


@pytest.mark.parametrize("kind", ["int", "str"])
def test_groups_are_never_split(server: LocalServer, kind: str) -> None:
    groups = np.random.default_rng(0).integers(0, 300, 2000).astype(kind)
    loader = TensorLoader(
        torch.arange(2000), batch_size=64, group_id=groups, address=server.address
    )
    for _ in range(2):
        batches = rows_of(loader)
        assert len(batches) == len(loader)
        assert max(map(len, batches)) <= 64
        batch_of_group: dict[Any, int] = {}
        for number, batch in enumerate(batches):
            for row in batch:
                assert batch_of_group.setdefault(groups[row], number) == number
        assert sorted(row for batch in batches for row in batch) == list(range(2000))


def test_ranks_have_as_many_batches_and_share_the_rows(server: LocalServer) -> None:
    loaders = [
        TensorLoader(torch.arange(1000), rank=rank, num_ranks=3, address=server.address)
        for rank in range(3)
    ]
    read = [rows_of(loader) for loader in loaders]
    assert [len(batches) for batches in read] == [len(loader) for loader in loaders] == [6] * 3
    rows = [row for batches in read for batch in batches for row in batch]
    assert sorted(rows) == list(range(1000))


@pytest.mark.parametrize("options", [{}, {"group_id": np.arange(3000) // 5}])
@pytest.mark.parametrize("step", [0, 1, 30, 46])
def test_a_state_goes_on_exactly(server: LocalServer, step: int, options: dict[str, Any]) -> None:
    def make() -> Any:
        return TensorLoader(torch.arange(3000), address=server.address, **options)

    loader = make()
    loader.set_epoch(2)
    batches = iter(loader)
    for _ in range(step):
        next(batches)
    state = loader.state_dict()
    rest = rows_of(batches)
    other = make()
    other.load_state_dict(state)
    assert rows_of(other) == rest
    assert other.state_dict() == {"epoch": 2, "next_step": len(loader)}


def test_rows_may_be_those_of_a_data_set(server: LocalServer, client: Client) -> None:
    from packhouse import GRAPHS, GraphSchema, TensorSpec

    schema = GraphSchema((), (TensorSpec("x", "float32", GRAPHS, 3), TensorSpec("y", "int64", GRAPHS)))
    x = np.random.default_rng(0).random((500, 3)).astype(np.float32)
    client.datasets.create("table", schema)
    client.datasets.append("table", GraphTable(schema, np.empty((500, 0)), {"x": x, "y": np.arange(500)}))
    client.datasets.seal("table")
    for shuffle in (True, False):
        rows = []
        with TensorLoader("table", batch_size=64, shuffle=shuffle, address=server.address) as loader:
            for batch in loader:
                assert (batch["x"].numpy() == x[batch["y"]]).all()
                rows += batch["y"].tolist()
            assert len(loader) == 8
        assert sorted(rows) == list(range(500)) and (rows == sorted(rows)) != shuffle


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((), {}, "a tensor is needed"),
        ((torch.ones(3), torch.ones(4)), {}, "tensor 1 has 4 rows, the first has 3"),
        ((torch.ones(3),), {"batch_size": 0}, "batch_size 0 is below 1"),
        ((torch.ones(3),), {"group_id": [1, 2]}, r"group_id has shape \(2,\)"),
        ((torch.ones(3),), {"group_id": [1, 2, 3], "drop_last": True}, "drop_last is not for groups"),
        (("table", torch.ones(3)), {}, "a data set has its own tensors"),
        (("table",), {"group_id": [1]}, "a data set has its own tensors and groups"),
    ],
)
def test_what_is_wrong_is_named(
    server: LocalServer, arguments: Any, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        TensorLoader(*arguments, address=server.address, **options)


def test_a_server_of_its_own_ends_with_the_loader() -> None:
    with TensorLoader(torch.arange(10), batch_size=4) as loader:
        assert sorted(torch.cat(list(loader)).tolist()) == list(range(10))
        own, folder = loader._server, pathlib.Path(loader._folder.name)
        assert own is not None and folder.is_dir()
    assert own.returncode == 0 and not folder.exists()
    loader.close()


def test_an_epoch_that_is_set_begins_anew_unless_a_state_of_it_was_loaded() -> None:
    loader = TensorLoader.__new__(TensorLoader)
    loader.load_state_dict({"epoch": 4, "next_step": 3})
    loader.set_epoch(4)
    assert loader.epoch == 4 and loader.state_dict() == {"epoch": 4, "next_step": 3}
    loader.set_epoch(5)
    assert loader.state_dict() == {"epoch": 5, "next_step": 0}
    loader._step, loader._is_over = 7, True
    loader.set_epoch(5)
    assert loader.state_dict() == {"epoch": 5, "next_step": 0} and not loader._is_over


NORMS: list[dict[str, Any]] = [
    {},
    {"momentum": None},
    {"affine": False},
    {"track_running_stats": False},
    {"eps": 0.5, "momentum": 0.7},
]


@pytest.mark.parametrize("settings", NORMS)
@pytest.mark.parametrize("filler", [0.0, 7.0, float("inf"), float("nan")])
def test_a_masked_norm_is_batch_norm_of_the_real_rows(
    settings: dict[str, Any], filler: float
) -> None:
    """Values, state and gradients, whatever padding rows hold, and with fewer real rows each step."""
    generator = torch.Generator().manual_seed(3)
    ours = MaskedBatchNorm(4, **settings).double()
    theirs = torch.nn.BatchNorm1d(4, **settings).double()
    for step in range(9):
        # Real rows first, as in batches, and anywhere.
        mask = torch.rand(20, generator=generator) < 0.8 if step % 2 else torch.arange(20) < 20 - step
        x = torch.randn(20, 4, generator=generator, dtype=torch.float64) + step
        x[~mask] = filler
        weights = torch.randn(20, 4, generator=generator, dtype=torch.float64)
        for norm in (ours, theirs):
            norm.train(step < 7)
            norm.zero_grad()
        padded, real = x.clone().requires_grad_(), x[mask].requires_grad_()
        out, expected = ours(padded, mask), theirs(real)
        torch.testing.assert_close(out[mask], expected)
        assert not out[~mask].any()
        (out * weights).sum().backward()
        (expected * weights[mask]).sum().backward()
        torch.testing.assert_close(padded.grad[mask], real.grad)
        assert not padded.grad[~mask].any()
        for mine, other in zip(ours.parameters(), theirs.parameters()):
            torch.testing.assert_close(mine.grad, other.grad)
        for mine, other in zip(ours.state_dict().values(), theirs.state_dict().values()):
            torch.testing.assert_close(mine, other)


def test_a_masked_norm_of_few_rows() -> None:
    norm = MaskedBatchNorm(3)
    torch.nn.init.normal_(norm.bias)
    x = torch.randn(4, 3)
    before = {name: tensor.clone() for name, tensor in norm.state_dict().items()}
    none = norm(x, torch.zeros(4, dtype=torch.bool))
    assert not none.any()
    none.sum().backward()
    assert not norm.weight.grad.any() and not norm.bias.grad.any()
    assert all(torch.equal(norm.state_dict()[name], tensor) for name, tensor in before.items())
    one = norm(x, torch.arange(4) < 1)
    torch.testing.assert_close(one[0], norm.bias)
    assert torch.equal(norm.running_var, before["running_var"])
    assert torch.equal(norm.running_mean, 0.1 * x[0])
    assert norm(x.half(), torch.ones(4, dtype=torch.bool)).dtype is torch.half
    with pytest.raises(ValueError, match="needs .rows, channels."):
        norm(torch.zeros(4, 3, 2), torch.ones(4, dtype=torch.bool))


def test_masks_by_arithmetic_do_not_look_at_values() -> None:
    """Tensors without values have shapes alone: what asks for a value of theirs fails."""
    norm = MaskedBatchNorm(3).to("meta")
    x = torch.empty(8, 3, device="meta", requires_grad=True)
    mask = torch.empty(8, dtype=torch.bool, device="meta")
    for training in (True, False):
        norm.train(training)
        masked_mean(norm(x, mask).square(), mask).backward()
    assert x.grad.shape == (8, 3)
    # As what was here before does.
    with pytest.raises((NotImplementedError, RuntimeError)):
        x[mask].mean().item()


@pytest.mark.skipif(not hasattr(torch, "compile"), reason="torch has no compile before 2.0")
def test_masks_by_arithmetic_are_compiled_once() -> None:
    norm = MaskedBatchNorm(3)
    graphs = 0

    def count(graph: Any, _: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return graph.forward

    @torch.compile(backend=count, fullgraph=True, dynamic=False)
    def loss_of(x: Any, mask: Any) -> Any:
        return masked_mean(norm(x, mask).square(), mask)

    for real in (8, 5, 1, 0):
        loss_of(torch.randn(8, 3), torch.arange(8) < real)
    assert graphs == 1


@pytest.mark.parametrize("filler", [0.0, float("inf"), float("nan")])
def test_a_masked_mean_is_that_of_the_real_rows(filler: float) -> None:
    for shape in ((9,), (9, 4), (9, 2, 3)):
        for real in (9, 5, 1):
            x = torch.randn(shape)
            x[real:] = filler
            x.requires_grad_()
            mean = masked_mean(x, torch.arange(9) < real)
            torch.testing.assert_close(mean, x[:real].mean())
            mean.backward()
            assert torch.isfinite(x.grad).all() and not x.grad[real:].any()
        assert masked_mean(x, torch.zeros(9, dtype=torch.bool)) == 0


def test_padding_values_make_the_gradients_of_lengths_finite() -> None:
    """The two ways of docs/frameworks/padding.md, and what is the matter without them."""
    rng = np.random.default_rng(4)
    schema = GraphSchema(
        ("nodes", "edges"),
        (
            TensorSpec("pos", "float32", "nodes", (3,)),
            TensorSpec("shift", "float32", "edges", (3,)),
            TensorSpec("edge_index", "int32", "edges", (2,), "nodes", layout="rows_last"),
        ),
    )
    graphs = GraphTable(
        schema,
        [[3, 2], [2, 1]],
        {
            "pos": rng.standard_normal((5, 3)),
            "shift": np.zeros((3, 3)),
            "edge_index": [[0, 1, 0], [1, 2, 1]],
        },
    )

    def gradient(table: GraphTable, chosen: bool) -> Any:
        limits = {"nodes": 8, "edges": 6, "graphs": 4}
        batch = Batch.from_proto(batch_message(table, limits, Padding.GRAPH), table.schema)
        data = to_torch(batch)
        pos = data["pos"].clone().requires_grad_()
        source, target = data["edge_index"].long()
        squares = (pos[target] - pos[source] + data["shift"]).square().sum(dim=1)
        mask = data.mask("edges")
        lengths = (torch.where(mask, squares, torch.ones_like(squares)) if chosen else squares).sqrt()
        masked_mean(lengths, mask).backward()
        return pos.grad[data.mask("nodes")], torch.isfinite(pos.grad).all()

    with_values = GraphTable(
        schema.with_padding_values({"shift": 10.0}), graphs.sizes, graphs.tensors
    )
    real, is_finite = gradient(graphs, chosen=False)
    assert not is_finite
    for table, chosen in ((with_values, False), (graphs, True)):
        ours, is_finite = gradient(table, chosen)
        assert is_finite
        torch.testing.assert_close(ours, real)


def test_equal_rows_are_stored_once_under_one_name() -> None:
    done: list[Any] = []
    failure: list[grpc.StatusCode] = []
    state = [DatasetState.OPEN]

    class Datasets:
        def create(self, name: str, schema: GraphSchema, grouped: bool) -> None:
            assert schema == ROWS
            done.append(("create", name, grouped))
            if failure:
                raise PackhouseError(failure[0], "it is there")

        def get(self, name: str) -> Any:
            done.append(("get", name))
            return types.SimpleNamespace(state=state[0])

        def append(self, name: str, table: GraphTable, **how: Any) -> None:
            assert (how.pop("producer"), how.pop("first_sequence")) == ("rows", 1)
            done.append(("append", name, len(table), how["group_ids"] is None))

        def seal(self, name: str) -> None:
            done.append(("seal", name))

    client: Any = types.SimpleNamespace(datasets=Datasets())
    plain = "packhouse.rows/5"
    stored = [("append", plain, 5, True), ("seal", plain)]
    assert store_rows(client, 5, None) == plain
    assert done == [("create", plain, False), *stored]
    groups = np.arange(5, dtype=np.uint64)
    done.clear()
    name = store_rows(client, 5, groups)
    assert name == f"{plain}-{hashlib.blake2b(groups.tobytes(), digest_size=12).hexdigest()}"
    assert done == [("create", name, True), ("append", name, 5, False), ("seal", name)]
    failure.append(grpc.StatusCode.ALREADY_EXISTS)
    for state[0], more in ((DatasetState.OPEN, stored), (DatasetState.SEALED, [])):
        done.clear()
        assert store_rows(client, 5, None) == plain
        assert done == [("create", plain, False), ("get", plain), *more]
    failure[0] = grpc.StatusCode.UNAVAILABLE
    with pytest.raises(PackhouseError, match="it is there"):
        store_rows(client, 5, None)


def test_groups_of_any_values_have_numbers_that_stay() -> None:
    assert group_ids_of([3, 1, 3]).tolist() == [3, 1, 3]
    numbers = [
        int.from_bytes(hashlib.blake2b(value, digest_size=8).digest(), "little")
        for value in (b"b", b"a", b"b")
    ]
    assert group_ids_of(["b", "a", "b"]).tolist() == numbers
    assert group_ids_of([0.5, 2.0]).dtype == np.uint64
