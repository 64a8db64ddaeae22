"""Whatever is raised at any line of the client, in any thread: no graph is lost, none comes twice."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import threading
from typing import Any, Callable, Iterator

import grpc
import numpy as np
import pytest
from interrupting import Interruption, Stop, expect_each_once, lines_to_try, read
from test_lane_end_to_end import until
from test_pack_lane_end_to_end import lanes_left

from packhouse import (
    Client,
    EpochReaders,
    GraphSchema,
    GraphTable,
    Loader,
    LocalServer,
    PackhouseError,
    PackOptions,
    TensorSpec,
    prefetch,
)
from packhouse.epochs.acknowledging import Acknowledger

NUM_GRAPHS = 24
LIMITS = {"nodes": 12}
SCHEMA = GraphSchema(components=("nodes",), tensors=(TensorSpec("x", "float32", "nodes"),))
TABLE = GraphTable.from_graphs(
    SCHEMA, [{"x": np.full(3, number, np.float32)} for number in range(NUM_GRAPHS)]
)
DATASET = "interruptions"

_jobs = itertools.count()


@pytest.fixture(scope="module", autouse=True)
def dataset(client: Client) -> None:
    client.datasets.create(DATASET, SCHEMA)
    client.datasets.append(DATASET, TABLE)
    client.datasets.seal(DATASET)


Ids = Iterator[list[int]]
Loop = Callable[[], Ids]


class Case:
    """Something that is iterated over: each loop goes on where the one before was left."""

    def __init__(self, server: LocalServer, client: Client) -> None:
        self.server = server
        self.address = server.address
        self.client = client
        self.job = f"interrupted-{next(_jobs)}"
        # Told at the end, without interruptions.
        self.num_done: Callable[[], tuple[int, int]] = lambda: (0, 0)

    def loader(self, **arguments: Any) -> Loader:
        made = Loader(
            self.address,
            dataset=DATASET,
            job=self.job,
            limits=LIMITS,
            max_in_flight=4,
            retry_timeout=20,
            **arguments,
        )

        def num_done() -> tuple[int, int]:
            with self.another() as look:
                info = look.epoch_info()
            return info.num_done, info.num_batches

        self.num_done = num_done
        return made

    def another(self) -> Loader:
        return Loader(self.address, dataset=DATASET, job=self.job, limits=LIMITS)


@contextlib.contextmanager
def of_loader(case: Case) -> Iterator[Loop]:
    with case.loader() as loader:
        yield lambda: (batch.graph_ids.tolist() for batch in loader)


@contextlib.contextmanager
def of_dynamic_loader(case: Case) -> Iterator[Loop]:
    with case.loader(worker="w") as loader:
        yield lambda: (batch.graph_ids.tolist() for batch in loader)


@contextlib.contextmanager
def of_prefetch(case: Case) -> Iterator[Loop]:
    with case.loader() as loader:
        yield lambda: iter(prefetch(loader, lambda batch: batch.graph_ids.tolist()))


@contextlib.contextmanager
def of_readers(case: Case) -> Iterator[Loop]:
    with EpochReaders(case.loader()) as epochs:
        epochs.set_epoch(0)
        yield lambda: (batch.graph_ids.tolist() for batch in epochs)


@contextlib.contextmanager
def of_trained_readers(case: Case) -> Iterator[Loop]:
    with EpochReaders(case.loader()) as epochs:
        epochs.set_epoch(0)
        yield lambda: (batch.graph_ids.tolist() for batch in epochs.trained(epochs))


@contextlib.contextmanager
def of_pack(case: Case) -> Iterator[Loop]:
    with case.client.pack(TABLE, PackOptions(LIMITS)) as stream:
        yield lambda: (batch.graph_ids.tolist() for batch in stream)


def of_pack_by_lane(lane: Any) -> Callable[[Case], Any]:
    """Nobody gives a batch back, so that later ones are copied out of their slots."""

    @contextlib.contextmanager
    def make(case: Case) -> Iterator[Loop]:
        has_opened = threading.Event()

        def tables() -> Iterator[GraphTable]:
            """Else the server may have sent all before the lane is open."""
            yield TABLE.slice(0, 1)
            assert has_opened.wait(60)
            yield TABLE.slice(1, NUM_GRAPHS)

        kept = []
        with case.client.pack(tables(), PackOptions({"nodes": 3}, lane=lane)) as stream:

            def loop() -> Ids:
                assert stream.opened.look_ahead
                has_opened.set()
                for batch in stream:
                    kept.append(batch)
                    yield batch.graph_ids.tolist()

            yield loop
            has_opened.set()
            assert stream.transport == "lane"
        for batch in kept:
            assert batch["x"].tolist() == np.repeat(batch.graph_ids, 3).tolist()
        until(lambda: lanes_left(case.server) == 0)

    return make


# With the part of the lines that is tried: readers start a process each time.
CASES = [
    (of_loader, 4),
    (of_dynamic_loader, 16),
    (of_prefetch, 8),
    (of_readers, 40),
    (of_trained_readers, 40),
    (of_pack, 1),
    (of_pack_by_lane("auto"), 1),
    (of_pack_by_lane("required"), 1),
]


def expect_done(graphs: list[int], case: Case, line: Any) -> None:
    expect_each_once(graphs, NUM_GRAPHS, line)
    num_done, num_batches = case.num_done()
    assert num_done == num_batches, (line, num_done, num_batches)


@pytest.mark.parametrize("make, part", CASES)
def test_an_exception_at_any_line_loses_nothing(
    server: LocalServer, client: Client, make: Callable[[Case], Any], part: int
) -> None:
    passing = Interruption()
    case = Case(server, client)
    with make(case) as loop:
        graphs = read(loop, passing)
    expect_done(graphs, case, None)
    for at in lines_to_try(passing.lines, part):
        case = Case(server, client)
        interruption = Interruption(at)
        with make(case) as loop:
            graphs = read(loop, interruption)
        expect_done(graphs, case, passing.lines[at])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_exception_in_the_acknowledging_thread_stalls_nothing(
    server: LocalServer, client: Client
) -> None:
    """It reaches the trainer, or another thread goes on; at any line. Without a server, and at all
    lines: test_helper_threads.py.
    """
    passing = Interruption(thread="packhouse-acknowledge")
    case = Case(server, client)
    with of_loader(case) as loop:
        graphs = read(loop, passing)
    expect_done(graphs, case, None)
    for at in lines_to_try(passing.lines, 16):
        case = Case(server, client)
        interruption = Interruption(at, "packhouse-acknowledge")
        with of_loader(case) as loop:
            graphs = read(loop, interruption)
        expect_done(graphs, case, passing.lines[at])


def test_a_wait_may_be_ended_before_it_begins(server: LocalServer, client: Client) -> None:
    """Who ends it may come between the reader's last look and its call."""
    case = Case(server, client)
    with case.loader() as loader:
        connection = loader._connect()
        connection.check()
        connection.interrupt()
        with pytest.raises(PackhouseError, match="was ended") as ended:
            connection.receive(loader._load_request)
        assert ended.value.code is grpc.StatusCode.UNAVAILABLE
        connection.leave()
        graphs = [graph for batch in loader for graph in batch.graph_ids.tolist()]
    expect_done(graphs, case, None)


def test_a_file_that_is_missing_for_a_moment_ends_no_training(
    server: LocalServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of the CA, while it is renewed."""
    import packhouse.epochs.load_connection as module

    case = Case(server, client)
    make_channel, failures = module.make_channel, []

    def failing(*arguments: Any, **options: Any) -> Any:
        if failures:
            raise failures.pop()
        return make_channel(*arguments, **options)

    with case.loader() as loader:
        graphs = next(loader).graph_ids.tolist()
        monkeypatch.setattr(module, "make_channel", failing)
        for failure in (FileNotFoundError("ca.crt"), ValueError("token_file: empty")):
            failures.extend([failure] * 4)
            # All connections are made anew.
            loader.look_again()
            loader._connect()._calls = None
            graphs += next(loader).graph_ids.tolist()
        for batch in loader:
            graphs += batch.graph_ids.tolist()
        assert not failures
    expect_done(graphs, case, "missing")
    # What was never there is an error at once.
    failures.append(FileNotFoundError("ca.crt"))
    with pytest.raises(FileNotFoundError), case.loader() as loader:
        next(loader)


async def read_with_cancelled_waits(batches: Any, num_cancelled: int) -> list[int]:
    """Each loop is left by a wait that is cancelled, before or after it is over; then the rest."""
    graphs: list[int] = []
    for number in range(num_cancelled):
        items = batches.__aiter__()
        # Let it begin, and come some of the way.
        wait = asyncio.ensure_future(items.__anext__())
        for _ in range(number):
            await asyncio.sleep(0)
        wait.cancel()
        try:
            graphs += (await wait).graph_ids.tolist()
        except asyncio.CancelledError:
            pass
        except StopAsyncIteration:
            # All came in time.
            return graphs
        del items
    async for batch in batches:
        graphs += batch.graph_ids.tolist()
    return graphs


@pytest.mark.parametrize("what", ["loader", "pack"])
def test_a_wait_that_is_cancelled_takes_nothing(
    server: LocalServer, client: Client, what: str
) -> None:
    case = Case(server, client)
    if what == "loader":
        with case.loader() as loader:
            graphs = asyncio.run(read_with_cancelled_waits(loader, 40))
    else:
        with client.pack(TABLE, PackOptions(LIMITS)) as stream:
            graphs = asyncio.run(read_with_cancelled_waits(stream, 40))
    expect_done(graphs, case, what)


def test_what_is_fetched_ahead_stays_with_its_source(server: LocalServer, client: Client) -> None:
    """A loop over it is left; the next one, of any kind, goes on."""
    for number in range(4):
        case = Case(server, client)
        with case.loader(acknowledge="manual" if number == 3 else "automatic") as loader:
            stream = client.pack(TABLE, PackOptions(LIMITS))
            for source in (loader, stream):
                graphs: list[int] = []
                for batch in prefetch(source, lambda batch: batch.graph_ids.tolist()):
                    graphs += batch
                    if len(graphs) > 4 * number:
                        break
                if number % 2:
                    graphs += sum(prefetch(source, lambda batch: batch.graph_ids.tolist()), [])
                else:
                    graphs += sum((batch.graph_ids.tolist() for batch in source), [])
                expect_done(graphs, case if source is loader else Case(server, client), number)


def steps_of(loader: Any, num_steps: int) -> list[int]:
    """A trainer that counts."""
    items = iter(loader)
    return sum((next(items).graph_ids.tolist() for _ in range(num_steps)), [])


def test_who_counts_steps_finishes_epochs(server: LocalServer, client: Client) -> None:
    """By the next epoch, a checkpoint, or closing in order; not by an exception."""
    case = Case(server, client)
    loader = case.loader()

    def num_left(epoch: int) -> int:
        with case.another() as look:
            look.set_epoch(epoch)
            info = look.epoch_info()
        return info.num_batches - info.num_done

    num_steps = len(loader)
    steps_of(loader, num_steps)
    loader.flush()
    assert num_left(0) == 1
    loader.set_epoch(1)
    assert num_left(0) == 0
    steps_of(loader, num_steps - 1)
    loader.set_epoch(2)
    assert num_left(1) == 2
    steps_of(loader, num_steps)
    loader.state_dict()
    assert num_left(2) == 0
    loader.set_epoch(3)
    steps_of(loader, num_steps)
    with contextlib.suppress(Stop), loader:
        raise Stop
    assert num_left(3) == 1
    with case.loader(on_existing="resume") as again:
        again.set_epoch(3)
        steps_of(again, 1)
    assert num_left(3) == 0


def test_who_counts_steps_after_a_state_finishes_the_epoch(
    server: LocalServer, client: Client
) -> None:
    """Each of two ranks, whatever the others do."""
    for of_readers in (False, True):
        case = Case(server, client)
        for attempt in ("1", "2"):
            for rank in range(2):
                loader = case.loader(rank=rank, num_ranks=2, attempt=attempt)
                with EpochReaders(loader) if of_readers else loader as trainer:
                    if attempt == "2":
                        trainer.load_state_dict(state)
                    items = iter(trainer.trained(trainer) if of_readers else trainer)
                    num_steps = 2 if attempt == "1" else len(trainer)
                    for _ in range(num_steps):
                        next(items)
                    if attempt == "1":
                        state = trainer.state_dict()
                    else:
                        trainer.set_epoch(1)
        with case.another() as look:
            info = look.epoch_info()
            assert info.num_done == info.num_batches > 4, of_readers


def test_readers_whose_steps_are_counted_finish_epochs(
    server: LocalServer, client: Client
) -> None:
    for is_trained in (False, True):
        case = Case(server, client)
        with EpochReaders(case.loader()) as epochs:
            items: Any = iter(())
            for epoch in range(2):
                epochs.set_epoch(epoch)
                # What is left of the epoch before has nothing to say.
                assert next(items, None) is None
                items = iter(epochs.trained(epochs) if is_trained else epochs)
                for _ in range(len(epochs)):
                    next(items)
        with case.another() as look:
            for epoch in range(2):
                look.set_epoch(epoch)
                info = look.epoch_info()
                assert info.num_done == info.num_batches > 0, (is_trained, epoch)


def resources() -> tuple[int, int]:
    """Descriptors and threads of this process."""
    gc.collect()
    return len(os.listdir("/proc/self/fd")), threading.active_count()


def leave(loader: Loader, how: int) -> None:
    """In one of several ways, early."""
    if how == 0:
        for _ in loader:
            break
    elif how == 1:
        with contextlib.suppress(Stop):
            for _ in loader:
                raise Stop
    elif how == 2:
        with loader:
            next(loader)
    elif how == 3:

        async def wait() -> None:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(loader.__aiter__().__anext__(), 0)

        asyncio.run(wait())
    else:
        for _ in prefetch(loader, lambda batch: batch):
            break


def test_a_loader_that_is_gone_leaves_nothing_behind(server: LocalServer, client: Client) -> None:
    """Neither descriptors nor threads, whichever way it was left."""
    for how in range(5):
        leave(Case(server, client).loader(), how)
        before = resources()
        for _ in range(3):
            leave(Case(server, client).loader(), how)
        assert resources() <= before, how


def test_answers_belong_to_their_questions(server: LocalServer, client: Client) -> None:
    """After an exception in the midst of one, and after the helping process has died."""
    case = Case(server, client)
    with EpochReaders(case.loader()) as epochs:
        epochs.set_epoch(0)
        graphs = next(iter(epochs)).graph_ids.tolist()
        expected = epochs.state_dict()
        assert expected["cursor"]

        def handler(*_: Any) -> None:
            raise Stop

        before = signal.signal(signal.SIGALRM, handler)
        try:
            for delay in (1e-6, 1e-4, 3e-4, 1e-3):
                with contextlib.suppress(Stop):
                    signal.setitimer(signal.ITIMER_REAL, delay)
                    while True:
                        epochs.epoch_info()
                signal.setitimer(signal.ITIMER_REAL, 0)
                assert epochs.state_dict() == expected
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        epochs._calls._process.kill()
        assert epochs.state_dict() == expected
        epochs._calls._process.kill()
        for batch in epochs:
            graphs += batch.graph_ids.tolist()
    expect_done(graphs, case, "questions")


TRAINER = """
import os, signal, sys
from packhouse import EpochReaders, Loader
class Preempted(BaseException): pass
def handler(*_): raise Preempted
signal.signal(int(sys.argv[3]), handler)
epochs = EpochReaders(Loader(sys.argv[1], dataset=sys.argv[2], job=sys.argv[4], limits={"nodes": 12}))
try:
    epochs.set_epoch(0)
    next(iter(epochs))
    # What makes its calls is not of the group.
    helper = epochs._calls._process.pid
    assert os.getsid(helper) == helper
    os.killpg(0, int(sys.argv[3]))
    signal.pause()
except Preempted:
    print(epochs.state_dict()["cursor"] != "")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1, signal.SIGTERM])
def test_a_signal_to_the_group_leaves_a_state_to_save(
    server: LocalServer, client: Client, number: int
) -> None:
    case = Case(server, client)
    ran = subprocess.run(
        [sys.executable, "-c", TRAINER, server.address, DATASET, str(int(number)), case.job],
        capture_output=True,
        text=True,
        start_new_session=True,
    )
    assert (ran.returncode, ran.stdout) == (0, "True\n"), ran.stderr


OWNER = """
import os, signal, subprocess, sys
from packhouse import LocalServer
server = LocalServer(data_dir=sys.argv[1], log=subprocess.DEVNULL)
server.start()
print(server.pid, flush=True)
signal.signal(signal.SIGINT, signal.SIG_IGN)
# In a session of its own: how soon it would have died of the signal is nobody's to say.
print(os.getsid(server.pid) == server.pid, flush=True)
os.killpg(0, signal.SIGINT)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_server_of_ones_own_ends_with_its_owner_alone(
    server: LocalServer, tmp_path: pathlib.Path
) -> None:
    """Not by Ctrl-C; and when the owner is killed."""
    ran = subprocess.run(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        capture_output=True,
        text=True,
        start_new_session=True,
    )
    pid, status = ran.stdout.split()
    assert (ran.returncode, status) == (-signal.SIGKILL, "True"), ran.stderr
    # Waits for its end, which ends the lease of the folder.
    descriptor = os.pidfd_open(int(pid)) if os.path.exists(f"/proc/{pid}") else None
    if descriptor is not None:
        import select

        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        assert poll.poll(60_000)
        os.close(descriptor)
    with LocalServer(data_dir=tmp_path, log=subprocess.DEVNULL):
        pass


def test_ctrl_c_beside_a_server_that_hangs_takes_seconds(
    mortal_server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing gives up what is not answered, and does not wait until the call has failed."""
    ended: list[bool] = []
    close = Acknowledger.close

    def closing(acknowledger: Acknowledger, timeout: float | None = None) -> bool:
        ended.append(close(acknowledger, timeout))
        return ended[-1]

    monkeypatch.setattr(Acknowledger, "close", closing)
    with Client(mortal_server.address) as client:
        client.datasets.create(DATASET, SCHEMA)
        client.datasets.append(DATASET, TABLE)
        client.datasets.seal(DATASET)
    case = Case(mortal_server, None)  # type: ignore[arg-type]
    loader = case.loader(timeout=10_000)
    next(loader)
    os.kill(mortal_server.pid, signal.SIGSTOP)
    try:
        loader.acknowledge_in_hand()
        loader.close()
        assert False in ended
    finally:
        os.kill(mortal_server.pid, signal.SIGCONT)
