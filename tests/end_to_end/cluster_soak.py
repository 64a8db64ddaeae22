"""A cluster under fire: servers that share jobs, their workers, and etcd are killed and stopped.

    python3 cluster_soak.py --packhoused BINARY [--faults 300] [--replicas 4] [--workers 64]
                            [--jobs 8] [--etcd 3] [--interval 1] [--lease 10] [--quiet 6]
                            [--seed 0] [--history FILE] [--check FILE] [--judge-takeover]
                            [--spares 2] [--s3] [--partitions] [--other BINARY]
                            [--step 0.01] [--retry 180]

On loopback: nodes of etcd, servers that share jobs over it, each with a copy of one sealed data set,
and workers, each a process of its own. Every other job is dynamic, the rest are ranked; they load
epoch after epoch, until all faults have been made. A fault is one of

- a server is killed (-9) and started again, at once or ("crashed") after its lease; stopped (SIGSTOP) for longer than its lease; or drained
  and started again, as a rolling restart does;
- a server is added that no worker has heard of, up to --spares of them; or one is drained and does not
  come back, as when the number of servers follows the load;
- a worker is killed and started again, or stopped for a while;
- the leader of etcd is killed and started again, or stopped for a while.

With --s3, servers share their data sets too, and a process appends to another one all the time. Then a
fault may be one of S3, for some seconds: it is killed and started again; answers 500 and 503; hangs; or
breaks off its answers. Once more a law: each append is there once, and all of them are sound.

With --partitions, which needs root, each server and each node of etcd is a machine in a network of its
own (namespaces.py). Then a fault may be that a server, or the leader of etcd, is cut off from all
others; or a server from etcd alone, so that its workers and S3 still reach it.

With --other, a server of another version, servers that are drained come back as the other version, and
back: a rolling upgrade that never ends.

At most one server and one node of etcd are away at a time. Workers write down what happens before
and after it does; the history is checked when all is over (cluster_history.py), and can be checked
again with --check. The laws: every batch is received, with the same bytes each time; an epoch has one
generation; every batch is new exactly once, whoever acknowledges it how often; what was acknowledged
is in every later cursor; every graph is in one batch.

Said at the end: how long jobs of servers were without an owner. With --judge-takeover it is a fault
if this was more than the lease and two seconds, where nothing else was broken at that time. For this
the first --quiet faults are of servers, with time between them. Later a takeover may last longer:
whoever leads etcd anew grants all leases their whole length again, and who takes a job may be killed.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import os
import pathlib
import random
import selectors
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from typing import Any, Callable, Final, Sequence

from cluster_history import History
from etcd_process import EtcdProcess
from namespaces import Machine, network, why_no_network
from replica_process import (
    DATASET,
    Replica,
    addresses,
    cluster,
    copied_folders,
    fill,
    sizes_only,
)
from s3_front import S3Fault, S3Front
from s3_process import BUCKET, S3Process

from packhouse import Client, Loader, PackhouseError
from packhouse.base.local_server import find_server
from packhouse.epochs.load_connection import LoadConnection
from packhouse.v1 import loader_pb2

_LIMITS: Final = {"nodes": 64, "edges": 64, "graphs": 8}
# How often each fault is drawn.
_FAULTS: Final = {
    "killed": 3,
    "crashed": 2,
    "stopped": 2,
    "drained": 2,
    "added": 2,
    "removed": 2,
    "worker-killed": 6,
    "worker-stopped": 3,
    "etcd-killed": 2,
    "etcd-stopped": 1,
}
_S3_FAULTS: Final = {"s3-killed": 1, "s3-refuses": 2, "s3-hangs": 2, "s3-breaks": 2}
_PARTITIONS: Final = {"cut": 2, "cut-from-etcd": 3, "etcd-cut": 2}
# Longer than a request to S3 may stall.
_S3_SECONDS: Final = 12.0
_GROWING: Final = "growing"
_GRAPHS_OF_APPEND: Final = 100


def _group_of(kind: str) -> str:
    """Faults of one group come one at a time."""
    return next((each for each in ("worker", "etcd", "s3") if kind.startswith(each)), "server")


def _say(*words: object) -> None:
    os.write(sys.stdout.fileno(), (" ".join(map(str, words)) + "\n").encode())


def _write_down_acknowledgements() -> None:
    """Each batch goes in a call of its own, of which is said that it begins and how it ended."""
    call_once = LoadConnection._call_once  # pylint: disable=protected-access

    def told(self: LoadConnection, method: str, request: Any) -> Any:
        if method != "Acknowledge" or not request.batches:
            return call_once(self, method, request)
        response = None
        for batch in request.batches:
            one = loader_pb2.AcknowledgeRequest()
            one.CopyFrom(request)
            del one.batches[:]
            one.batches.append(batch)
            what = (request.epoch, request.generation, batch)
            _say("lost", *what)
            begun = time.monotonic()
            response = call_once(self, method, one)
            _say("acknowledged", begun, time.monotonic(), *what, response.num_new, response.cursor)
        return response

    setattr(LoadConnection, "_call_once", told)


def work(options: argparse.Namespace) -> int:
    """A worker of a job: epoch after epoch, until the file says which is the last."""
    _write_down_acknowledgements()
    job, worker = options.job, options.worker
    sharing = (
        {"worker": f"w{worker}"}
        if job.startswith("dynamic")
        else {"rank": worker, "num_ranks": options.workers}
    )
    epoch = options.epoch
    with Loader(
        options.address,
        dataset=DATASET,
        job=job,
        seed=5,
        limits=_LIMITS,
        max_in_flight=4,
        retry_timeout=options.retry,
        # Killed at the end of an epoch, it comes back to one that is over.
        on_existing="resume",
        **sharing,
    ) as loader:
        while True:
            loader.set_epoch(epoch)
            _say("opened", worker, epoch, loader.epoch_info().num_batches)
            for batch in loader:
                graphs = ",".join(map(str, batch.graph_ids))
                _say(
                    *("batch", time.monotonic(), epoch, batch.generation, batch.number),
                    *(int(batch.is_padding), batch.session >> 20, _address_of(loader)),
                    *(zlib.crc32(batch.graph_ids.tobytes()), graphs),
                )
                time.sleep(options.step)
            with contextlib.suppress(FileNotFoundError):
                if epoch >= int(pathlib.Path(options.last).read_text(encoding="ascii")):
                    return 0
            epoch += 1


def append(options: argparse.Namespace) -> int:
    """Appends until the workers have their last epoch; then holds the data set against the law."""
    table = sizes_only(_GRAPHS_OF_APPEND)
    last = pathlib.Path(options.last)
    servers = itertools.cycle(options.address.split(","))

    def call(ask: Callable[[Client], Any]) -> Any:
        while True:
            try:
                with Client(next(servers)) as client:
                    return ask(client)
            except PackhouseError as error:
                if error.code.name not in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"):
                    raise

    call(lambda client: client.datasets.create(_GROWING, table.schema))
    sequence = tries = 0

    def append_next(client: Client) -> None:
        nonlocal tries
        tries += 1
        client.datasets.append(
            _GROWING, [table], producer="soak", first_sequence=sequence, retry_timeout=5
        )

    while not last.exists():
        sequence += 1
        call(append_next)
        time.sleep(options.step)
    found = call(lambda client: client.datasets.get(_GROWING)).num_graphs
    is_sound = call(lambda client: client.datasets.verify(_GROWING)).is_sound
    _say(f"{sequence} appends in {tries} tries, {found} graphs, {'' if is_sound else 'not '}sound")
    return 0 if is_sound and found == sequence * _GRAPHS_OF_APPEND else 1


def _address_of(loader: Loader) -> str:
    """Where its batches come from."""
    connection = loader._connection  # pylint: disable=protected-access
    assert connection is not None
    return connection._load_address  # pylint: disable=protected-access


class Workers:
    """All processes that load, and the history that they tell. One thread reads it."""

    def __init__(self, options: argparse.Namespace, address: str, folder: pathlib.Path) -> None:
        self.last = folder / "last"
        self.log = folder / "workers.log"
        per_job = max(1, options.workers // options.jobs)
        names = [f"{'ranked' if i % 2 else 'dynamic'}-{i}" for i in range(options.jobs)]
        self._keys = [(job, worker) for job in names for worker in range(per_job)]
        self._command = [
            *(sys.executable, "-B", os.path.abspath(__file__), "--address", address),
            *("--workers", str(per_job), "--last", str(self.last)),
            *("--step", str(options.step), "--retry", str(options.retry)),
        ]
        self._selector = selectors.DefaultSelector()
        self._rest: dict[tuple[str, int], bytes] = collections.defaultdict(bytes)
        self.running: dict[tuple[str, int], subprocess.Popen[bytes]] = {}
        # The epoch that each has heard of last.
        self.epochs: dict[tuple[str, int], int] = {}
        self.history: list[str] = []
        self.broken: list[str] = []

    def start_all(self) -> None:
        for key in self._keys:
            self._start(key)

    def _start(self, key: tuple[str, int]) -> None:
        job, worker = key
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [
                    *self._command,
                    *("--work", "--job", job, "--worker", str(worker)),
                    *("--epoch", str(self.epochs.get(key, 0))),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert process.stdout is not None
        self.running[key] = process
        self._selector.register(process.stdout, selectors.EVENT_READ, key)

    def start_appends(self) -> subprocess.Popen[bytes]:
        """What appends to a data set; its exit status is 0 if no law was broken."""
        with self.log.open("ab") as log:
            return subprocess.Popen([*self._command, "--append"], stdin=subprocess.DEVNULL, stderr=log)

    def read_until(self, deadline: float) -> None:
        """Hears what they say, and starts those that were killed again."""
        while self.running:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            for ready, _ in self._selector.select(left):
                self._read(ready.data)

    def _read(self, key: tuple[str, int]) -> None:
        process = self.running[key]
        assert process.stdout is not None
        received = os.read(process.stdout.fileno(), 1 << 16)
        *lines, rest = (self._rest[key] + received).split(b"\n")
        self._rest[key] = rest
        for line in lines:
            text = line.decode()
            self.history.append(f"{key[0]} {text}")
            if text.startswith("opened"):
                self.epochs[key] = int(text.split()[2])
        if received:
            return
        # Half a line was not said.
        self._rest[key] = b""
        self._selector.unregister(process.stdout)
        process.stdout.close()
        del self.running[key]
        status = process.wait()
        if status < 0:
            self._start(key)
        elif status > 0:
            self.broken.append(f"worker {key} ended with status {status}")

    def end(self) -> None:
        """After a failure; those that have ended are not there."""
        for process in self.running.values():
            process.kill()
            process.wait()


class Fire:
    """Makes faults. What must be undone later is undone on threads of their own."""

    def __init__(
        self,
        options: argparse.Namespace,
        etcd: EtcdProcess,
        replicas: list[Replica],
        workers: Workers,
        s3: S3Process | None = None,
        front: S3Front | None = None,
        machines: Sequence[Machine] = (),
    ) -> None:
        """`replicas`: the first of them run. `machines`: theirs, then those of etcd's nodes."""
        self._s3 = s3
        self._front = front
        self._machines = machines
        self._etcd = etcd
        self._replicas = replicas
        self._workers = workers
        self._random = random.Random(options.seed)
        self._versions = (
            [find_server(options.packhoused), options.other] if options.other else []
        )
        self._version_of = [0] * len(replicas)
        self._lease = float(options.lease)
        self._num_first = options.replicas
        # Servers that run, or will again by themselves. Guarded by the interpreter's lock.
        self._running = set(range(options.replicas))
        weights = {
            **_FAULTS,
            **(_S3_FAULTS if s3 is not None else {}),
            **(_PARTITIONS if machines else {}),
        }
        kinds = [kind for kind in weights if options.etcd >= 3 or not kind.startswith("etcd")]
        if options.spares == 0:
            kinds = [kind for kind in kinds if kind not in ("added", "removed")]
        # Each kind comes at its turn, so that a short run has all of them.
        self._kinds: list[str] = []
        while len(self._kinds) < options.faults:
            some = [kind for kind in kinds for _ in range(weights[kind])]
            self._random.shuffle(some)
            self._kinds += some
        self._kinds = self._kinds[: options.faults]
        self._threads: list[threading.Thread] = []
        # What is away now: a server, a node of etcd. Guarded by the interpreter's lock.
        self._away: set[str] = set()
        self.counts: collections.Counter[str] = collections.Counter()
        self.broken: list[str] = []

    @property
    def is_over(self) -> bool:
        return not self._kinds

    def make_quiet(self, number: int) -> None:
        """A fault of a server that has a job, while nothing else is broken."""
        cut = ("cut", "cut-from-etcd") if self._machines else ()
        kinds = ("killed", "stopped", "crashed", *cut, "drained")
        kind = kinds[number % len(kinds)]
        events = (line.split() for line in reversed(self._workers.history))
        owner = next(words[8] for words in events if words[1] == "batch")
        self._hurt_server(kind, next(each for each in self._replicas if each.advertised == owner))
        self.counts[kind] += 1

    def make_one(self) -> None:
        """The next fault that can be made now."""
        for i, kind in enumerate(self._kinds):
            group = _group_of(kind)
            if group != "worker" and group in self._away:
                continue
            if self._make(kind, group):
                self._kinds.pop(i)
                self.counts[kind] += 1
            return

    def _make(self, kind: str, group: str) -> bool:
        if group == "worker":
            return self._hurt_worker(kind)
        if group == "etcd":
            leader = self._etcd.leader()
            if leader is None:
                return False
            self._write_down(kind, str(leader))
            self._away.add(group)
            # Whoever leads etcd anew grants all leases their whole length again: without a rest, no
            # lease would ever end.
            rest = 2.5 * self._lease
            if kind == "etcd-killed":
                self._etcd.kill(leader)
                self._later(group, 1.0, lambda: self._etcd.start(leader), rest)
            elif kind == "etcd-cut":
                machine = self._machines[len(self._replicas) + leader]
                machine.cut()
                self._later(group, 5.0, lambda: machine.cut(False), rest)
            else:
                self._etcd.pause(leader)
                self._later(group, 3.0, lambda: self._etcd.resume(leader), rest)
            return True
        if group == "s3":
            self._hurt_s3(kind)
            return True
        self._hurt_any_server(kind)
        return True

    def _hurt_any_server(self, kind: str) -> None:
        spares = [i for i in range(len(self._replicas)) if i not in self._running]
        # Workers must find one that they know.
        num_known = sum(i < self._num_first for i in self._running)
        removable = [i for i in self._running if i >= self._num_first or num_known > 2]
        if kind in ("added", "removed"):
            kind = "added" if kind == "added" and spares or not removable else "removed"
        chosen = {"added": spares, "removed": removable}.get(kind, [*self._running])
        number = self._random.choice(sorted(chosen))
        if kind == "added":
            self._running.add(number)
        elif kind == "removed":
            self._running.remove(number)
        self._hurt_server(kind, self._replicas[number])

    def _hurt_s3(self, kind: str) -> None:
        s3, front = self._s3, self._front
        assert s3 is not None and front is not None
        self._write_down(kind, s3.address)
        self._away.add("s3")
        if kind == "s3-killed":
            s3.kill()
            self._later("s3", 3.0, s3.start)
            return
        front.set(S3Fault(kind.removeprefix("s3-")))
        self._later("s3", _S3_SECONDS, lambda: front.set(S3Fault.NONE))

    def _hurt_server(self, kind: str, replica: Replica) -> None:
        group = "server"
        self._write_down(kind, replica.advertised)
        self._away.add(group)
        if kind == "cut":
            machine = self._machines[self._replicas.index(replica)]
            machine.cut()
            self._later(group, 1.5 * self._lease, lambda: machine.cut(False))
        elif kind == "cut-from-etcd":
            machine = self._machines[self._replicas.index(replica)]
            others = self._machines[len(self._replicas) :]
            machine.cut_from(others)
            self._later(group, 1.5 * self._lease, lambda: machine.cut_from(others, False))
        elif kind == "stopped":
            replica.send(signal.SIGSTOP)
            self._later(group, 1.5 * self._lease, lambda: replica.send(signal.SIGCONT))
        elif kind == "crashed":
            replica.kill()
            self._later(group, 1.5 * self._lease, lambda: self._start(replica))
        elif kind == "added":
            self._later(group, 0.0, lambda: self._start(replica))
        elif kind == "removed":
            replica.send(signal.SIGTERM)
            self._later(group, 0.0, replica.stop)
        elif kind == "drained":
            replica.send(signal.SIGTERM)
            self._later(group, 0.0, lambda: self._start_again(replica))
        else:
            replica.kill()
            self._later(group, 0.0, lambda: self._start(replica))

    def _hurt_worker(self, kind: str) -> bool:
        key = self._random.choice(sorted(self._workers.running))
        process = self._workers.running[key]
        self._write_down(kind, f"{key[0]}/{key[1]}")
        if kind == "worker-killed":
            process.kill()
        else:
            process.send_signal(signal.SIGSTOP)
            self._later("", 2.0, lambda: process.send_signal(signal.SIGCONT))
        return True

    def _write_down(self, kind: str, target: str) -> None:
        self._workers.history.append(f"- fault {time.monotonic()} {kind} {target}")

    def _later(
        self, group: str, seconds: float, undo: Callable[[], object], rest: float = 0.0
    ) -> None:
        def run() -> None:
            time.sleep(seconds)
            try:
                undo()
            except Exception as error:  # pylint: disable=broad-exception-caught
                self.broken.append(f"undoing a fault of {group}: {error!r}")
            if not self.is_over:
                time.sleep(rest)
            self._away.discard(group)

        self._threads.append(threading.Thread(target=run))
        self._threads[-1].start()

    def _start_again(self, replica: Replica) -> None:
        replica.stop()
        if self._versions:
            number = self._replicas.index(replica)
            self._version_of[number] = 1 - self._version_of[number]
            replica.become(self._versions[self._version_of[number]])
        self._start(replica)

    @staticmethod
    def _start(replica: Replica) -> None:
        """As whoever runs servers does: again, where etcd does not answer at once."""
        for attempt in range(30):
            try:
                replica.start()
                return
            except RuntimeError:
                if attempt == 29:
                    raise
                time.sleep(0.5)

    def end(self) -> None:
        for thread in self._threads:
            thread.join()


def run(options: argparse.Namespace, folder: pathlib.Path) -> int:
    """The soak; exit status 0 if no law was broken."""
    num_servers = options.replicas + options.spares
    with contextlib.ExitStack() as stack:
        machines: list[Machine] = []
        host = "127.0.0.1"
        if options.partitions:
            net = stack.enter_context(network(folder))
            machines = [net.machine() for _ in range(num_servers + options.etcd)]
            host = net.host
        s3 = stack.enter_context(S3Process(folder / "s3")) if options.s3 else None
        front = stack.enter_context(S3Front(s3.address, host)) if s3 is not None else None
        shared_store: tuple[str, ...] = ()
        if s3 is not None and front is not None:
            shared_store = (
                f"--store=s3://{BUCKET}/soak",
                f"--s3-endpoint=http://{front.address}",
                f"--s3-credentials={s3.credentials}",
                # Older versions have other flags.
                *(() if options.other else ("--sweep-period=5s",)),
            )
            folders = [folder / f"cache{i}" for i in range(num_servers)]
        else:
            folders = copied_folders(folder, num_servers, options.graphs, options.packhoused)
        etcd = stack.enter_context(EtcdProcess(folder / "etcd", options.etcd, machines[num_servers:]))
        replicas = stack.enter_context(
            cluster(
                *(etcd, folders, folder / "key", options.lease, options.packhoused),
                machines=machines[:num_servers],
                shared_store=shared_store,
                num_started=options.replicas,
            )
        )
        workers = Workers(options, addresses(replicas[: options.replicas]), folder)
        stack.callback(workers.end)
        appends: subprocess.Popen[bytes] | None = None
        if s3 is not None:
            with Client(replicas[0].advertised) as client:
                fill(client, options.graphs)
            appends = workers.start_appends()
            stack.callback(appends.kill)
        fire = Fire(options, etcd, replicas, workers, s3, front, machines)
        stack.callback(fire.end)
        workers.start_all()
        # All have begun, and there are batches.
        while not workers.broken and (
            len(workers.epochs) < len(workers.running) or " batch " not in workers.history[-1]
        ):
            workers.read_until(time.monotonic() + 0.1)
        for number in range(options.quiet):
            fire.make_quiet(number)
            workers.read_until(time.monotonic() + 2.5 * options.lease + 3)
        while not fire.is_over and not workers.broken:
            workers.read_until(time.monotonic() + options.interval)
            fire.make_one()
        last = max(workers.epochs.values()) + 2
        workers.last.write_text(str(last), encoding="ascii")
        deadline = time.monotonic() + options.patience
        while workers.running and time.monotonic() < deadline and not workers.broken:
            workers.read_until(time.monotonic() + 1)
        if workers.running:
            workers.broken.append(f"not at the end of epoch {last}: {sorted(workers.running)}")
        if appends is not None and appends.wait(options.patience) != 0:
            workers.broken.append("an append is not there once, or not sound")
        fire.end()
        broken = workers.broken + fire.broken
        if broken:
            sys.stderr.write(workers.log.read_text(errors="replace")[-4000:])
    if options.history:
        pathlib.Path(options.history).write_text("\n".join(workers.history), encoding="utf-8")
    return check(workers.history, options, broken)


def check(history: list[str], options: argparse.Namespace, broken: list[str]) -> int:
    """Says what a history has, and what is wrong with it; exit status 0 if nothing is."""
    read = History(history)
    broken = broken + read.check(options.graphs)
    kinds = collections.Counter(kind for _, kind, _ in read.injected)
    print(
        f"{sum(kinds.values())} faults ({', '.join(f'{kinds[k]} {k}' for k in sorted(kinds))}); "
        f"{read.num_epochs} epochs, {read.num_acknowledged:,} acknowledgements, "
        f"{read.num_lost} of unknown outcome, {read.num_redelivered} batches received again"
    )
    takeovers = collections.defaultdict(list)
    for each in read.takeovers(options.lease):
        takeovers[each.kind, each.is_alone].append(each.seconds)
    for (kind, is_alone), seconds in sorted(takeovers.items()):
        print(
            f"takeovers of jobs of {kind} servers{'' if is_alone else ', other faults meanwhile'}: "
            f"{len(seconds)}, median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s"
        )
        bound = options.lease + 2.0
        if options.judge_takeover and is_alone and max(seconds) > bound:
            broken.append(f"{kind}: a takeover of {max(seconds):.2f} s, at most {bound} s")
    for law in broken[:10]:
        print(f"cluster_soak: {law}", file=sys.stderr)
    print(f"laws broken: {len(broken)}", flush=True)
    return 1 if broken else 0


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options of the soak; those after --work are for its own use."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--packhoused", help="default: $PACKHOUSED, then PATH")
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between two faults")
    parser.add_argument("--quiet", type=int, default=6, help="faults before, one at a time")
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--spares", type=int, default=2, help="servers that are added and removed")
    parser.add_argument("--workers", type=int, default=64, help="of all jobs together")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--etcd", type=int, default=3, help="nodes; fewer than 3 are not hurt")
    parser.add_argument("--graphs", type=int, default=4000, help="of the data set")
    parser.add_argument("--lease", type=int, default=10, help="seconds")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds, for the last epoch")
    parser.add_argument("--step", type=float, default=0.01, help="seconds of a worker for a batch")
    parser.add_argument("--retry", type=float, default=180.0, help="seconds that a worker tries again")
    parser.add_argument("--seed", type=int, default=0, help="of the faults")
    parser.add_argument("--history", help="a file to write the history to")
    parser.add_argument("--check", help="a history to check; nothing else happens")
    parser.add_argument("--judge-takeover", action="store_true")
    for name in ("--address", "--job", "--last"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    for name in ("--worker", "--epoch"):
        parser.add_argument(name, type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--s3", action="store_true", help="share data sets too, and hurt S3")
    parser.add_argument("--partitions", action="store_true", help="cut servers and etcd off; needs root")
    parser.add_argument("--other", help="a server of another version")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--append", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(options: argparse.Namespace) -> int:
    if options.work:
        return work(options)
    if options.append:
        return append(options)
    if options.partitions and (why_not := why_no_network()):
        print(f"cluster_soak: skipped: {why_not}", file=sys.stderr)
        return 77
    if options.check:
        lines = pathlib.Path(options.check).read_text(encoding="utf-8").splitlines()
        return check(lines, options, [])
    with tempfile.TemporaryDirectory() as folder:
        return run(options, pathlib.Path(folder))


if __name__ == "__main__":
    sys.exit(main(parse()))
