"""What happened to a cluster under fire, as it was written down; and the laws that it must keep.

A history is a text. Each line is an event; its words are separated by blanks. Times are those of the
machine's monotonic clock, in seconds. JOB begins the lines of workers:

    JOB opened WORKER EPOCH BATCHES
    JOB batch TIME EPOCH GENERATION NUMBER IS_PADDING OWNER ADDRESS CONTENT GRAPHS
    JOB lost EPOCH GENERATION NUMBER
    JOB acknowledged BEGUN ENDED EPOCH GENERATION NUMBER NUM_NEW CURSOR
    - fault TIME KIND TARGET

OWNER is the revision of the job's owner, ADDRESS its address, GRAPHS the ids of its graphs with
commas, CONTENT a checksum. `lost` stands for an acknowledgement of which nobody knows whether it
was done: it is written before the call, and `acknowledged` after it takes it back.
"""

from __future__ import annotations

import base64
import collections
import dataclasses
from typing import Final, Iterable, Iterator

# Faults of servers, after which another one takes their jobs, or the same one again.
REPLICA_FAULTS: Final = (
    *("killed", "crashed", "stopped", "drained", "removed"),
    *("cut", "cut-from-etcd"),
)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def done_of(cursor: str) -> set[int]:
    """The batches that a cursor has as done (packhouse.internal.Cursor, proto/packhouse/internal)."""
    text = cursor.rpartition(".")[0] or cursor
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))[:-4]
    at = 0
    runs: list[int] = []
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            value, at = _varint(data, at)
            if tag >> 3 == 3:
                runs.append(value)
            continue
        assert tag & 7 == 2, f"a cursor has wire type {tag & 7}"
        length, at = _varint(data, at)
        end = at + length
        while tag >> 3 == 3 and at < end:
            value, at = _varint(data, at)
            runs.append(value)
        at = end
    done: set[int] = set()
    position = 0
    for distance, length in zip(runs[::2], runs[1::2], strict=True):
        position += distance
        done.update(range(position, position + length))
        position += length
    return done


@dataclasses.dataclass
class _Acknowledged:
    begun: float
    ended: float
    number: int
    num_new: int
    cursor: str


@dataclasses.dataclass
class _Epoch:
    """All that workers said of one epoch of a job."""

    num_batches: int | None = None
    generations: set[int] = dataclasses.field(default_factory=set)
    contents: dict[int, tuple[str, str]] = dataclasses.field(default_factory=dict)
    padding: set[int] = dataclasses.field(default_factory=set)
    lost: collections.Counter[int] = dataclasses.field(default_factory=collections.Counter)
    acknowledged: list[_Acknowledged] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Takeover:
    """From a fault of a job's owner to the next batch of the job from another ownership."""

    kind: str
    seconds: float
    # Nothing else was broken meanwhile.
    is_alone: bool


class History:
    """Reads a history. `faults` has what is not as it must be, once `check` was called."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._epochs: dict[tuple[str, int], _Epoch] = collections.defaultdict(_Epoch)
        # Of each job, in the order of the time: time, owner, address.
        self._batches: dict[str, list[tuple[float, int, str]]] = collections.defaultdict(list)
        self.injected: list[tuple[float, str, str]] = []
        self.broken: list[str] = []
        self.num_redelivered = 0
        for line in lines:
            self._read(line.split())
        for batches in self._batches.values():
            batches.sort()

    @property
    def num_epochs(self) -> int:
        return len(self._epochs)

    @property
    def num_acknowledged(self) -> int:
        return sum(len(epoch.acknowledged) for epoch in self._epochs.values())

    @property
    def num_lost(self) -> int:
        """Acknowledgements whose outcome nobody learnt."""
        return sum(sum(epoch.lost.values()) for epoch in self._epochs.values())

    def _read(self, words: list[str]) -> None:
        job, event, *rest = words
        if event == "fault":
            self.injected.append((float(rest[0]), rest[1], rest[2]))
        elif event == "opened":
            epoch = self._epochs[job, int(rest[1])]
            if epoch.num_batches not in (None, int(rest[2])):
                self.broken.append(f"{job} {rest[1]}: {epoch.num_batches} batches, and {rest[2]}")
            epoch.num_batches = int(rest[2])
        elif event == "batch":
            self._read_batch(job, rest)
        elif event == "lost":
            epoch = self._epochs[job, int(rest[0])]
            epoch.lost[int(rest[2])] += 1
        else:
            begun, ended, number, generation, batch, num_new, cursor = rest
            epoch = self._epochs[job, int(number)]
            epoch.generations.add(int(generation))
            epoch.lost[int(batch)] -= 1
            epoch.acknowledged.append(
                _Acknowledged(float(begun), float(ended), int(batch), int(num_new), cursor)
            )

    def _read_batch(self, job: str, rest: list[str]) -> None:
        at, number, generation, batch, is_padding, owner, address, *content = rest
        self._batches[job].append((float(at), int(owner), address))
        epoch = self._epochs[job, int(number)]
        epoch.generations.add(int(generation))
        if is_padding == "1":
            epoch.padding.add(int(batch))
        told = (content[0], content[1] if len(content) > 1 else "")
        before = epoch.contents.setdefault(int(batch), told)
        self.num_redelivered += before is not told
        if before != told:
            self.broken.append(f"{job} {number}: batch {batch} came again with other bytes")

    def check(self, num_graphs: int) -> list[str]:
        """The laws that do not hold; none if all is well."""
        for (job, number), epoch in sorted(self._epochs.items()):
            for law in _broken_laws(epoch, num_graphs):
                self.broken.append(f"{job} {number}: {law}")
        return self.broken

    def takeovers(self, lease_seconds: float) -> Iterator[Takeover]:
        """One for each fault of a server that had a job, and each of its jobs."""
        for at, kind, target in self.injected:
            if kind not in REPLICA_FAULTS:
                continue
            others = [
                other
                for other, what, _ in self.injected
                if other != at
                and not what.startswith("worker")
                and at - 2 * lease_seconds < other < at + lease_seconds + 2
            ]
            for batches in self._batches.values():
                before = [each for each in batches if each[0] < at]
                if not before or before[-1][2] != target:
                    continue
                later = [each for each in batches if each[0] > at and each[1] > before[-1][1]]
                if later:
                    yield Takeover(kind, later[0][0] - at, not others)


def _broken_laws(epoch: _Epoch, num_graphs: int) -> Iterator[str]:
    if epoch.num_batches is None:
        yield "nobody knows how many batches it has"
        return
    wanted = set(range(epoch.num_batches))
    if len(epoch.generations) != 1:
        yield f"generations {sorted(epoch.generations)}"
    if not wanted <= epoch.contents.keys():
        yield f"never received: {sorted(wanted - epoch.contents.keys())[:5]}"
    if epoch.contents.keys() - wanted != epoch.padding - wanted:
        yield "batches that it does not have"
    graphs: collections.Counter[str] = collections.Counter()
    for number in wanted & epoch.contents.keys():
        graphs.update(epoch.contents[number][1].split(","))
    if len(graphs) != num_graphs or max(graphs.values()) != 1:
        yield f"{len(graphs)} graphs, {max(graphs.values())} times at most; there are {num_graphs}"
    yield from _broken_acknowledgements(epoch, wanted)


def _broken_acknowledgements(epoch: _Epoch, wanted: set[int]) -> Iterator[str]:
    new: collections.Counter[int] = collections.Counter()
    for each in epoch.acknowledged:
        new[each.number] += each.num_new
    for number in sorted(wanted):
        # New exactly once. Who was told so may have been killed before it could say.
        if new[number] > 1 or (new[number] == 0 and epoch.lost[number] == 0):
            yield f"batch {number} was new {new[number]} times, {epoch.lost[number]} answers lost"
    durable: set[int] = set()
    by_end = sorted(epoch.acknowledged, key=lambda each: each.ended)
    ended = 0
    for each in sorted(epoch.acknowledged, key=lambda each: each.begun):
        while by_end[ended].ended < each.begun:
            durable.add(by_end[ended].number)
            ended += 1
        missing = ((durable | {each.number}) & wanted) - done_of(each.cursor)
        if missing:
            yield f"acknowledged, and not in a later cursor: {sorted(missing)[:5]}"
            return
