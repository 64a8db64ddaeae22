"""How the workers of a job share an epoch."""

from __future__ import annotations

import dataclasses
from typing import Any, Union

from packhouse.base.arguments import whole_number
from packhouse.epochs.info import EpochInfo
from packhouse.epochs.request import EpochRequest


@dataclasses.dataclass(frozen=True)
class Ranked:
    """Rank `rank` of `num_ranks`, all with the same number of steps.

    The last step is completed with padding; with `drop_last` it is left out instead if there are
    not enough batches for all ranks. Reader i of k gets the rank's steps i, i + k, ...
    """

    rank: int
    num_ranks: int
    drop_last: bool = False
    reader: int = 0
    num_readers: int = 1

    def to_proto(self, request: Any) -> None:
        """Says so in a `packhouse.v1.LoadRequest` or `Evaluation`."""
        request.ranked.rank = self.rank
        request.ranked.num_ranks = self.num_ranks
        request.ranked.drop_last = self.drop_last
        if self.num_readers > 1:
            request.ranked.reader, request.ranked.num_readers = self.reader, self.num_readers

    def num_steps(self, info: EpochInfo, request: EpochRequest) -> int:
        """Steps of the rank in a whole epoch."""
        return info.num_steps(request.rank_groups, self.num_ranks, self.drop_last)

    def all_done(self, epoch: Any) -> bool:
        """Whether nothing of a `packhouse.v1.Epoch` is left for anybody."""
        left = epoch.num_batches - epoch.num_done
        # Nobody gets some of the last batches.
        return bool(left == 0 or (self.drop_last and left < self.num_ranks))

    def of_reader(self, number: int, count: int, next_step: int) -> Ranked:
        """The part of a worker process; the first one gets the first step that is left."""
        return dataclasses.replace(
            self, reader=(number + next_step) % count, num_readers=count
        )


@dataclasses.dataclass(frozen=True)
class Dynamic:
    """First come, first served: `worker` is this one's name, the same each time that it comes.

    `rank_group` is the number of the rank group whose batches it takes. With `waits_for_others` it
    stays until the batches that others lease are done.
    """

    worker: str
    rank_group: int = 0
    waits_for_others: bool = True

    def to_proto(self, request: Any) -> None:
        """Says so in a `packhouse.v1.LoadRequest`."""
        request.dynamic.worker = self.worker
        request.dynamic.rank_group = self.rank_group
        request.dynamic.end_when_all_leased = not self.waits_for_others

    def num_steps(self, info: EpochInfo, request: EpochRequest) -> int:
        """Batches of its rank group in a whole epoch."""
        return info.rank_groups[self.rank_group].num_batches

    def all_done(self, epoch: Any) -> bool:
        """Whether nothing of a `packhouse.v1.Epoch` is left for anybody."""
        return bool(epoch.num_batches == epoch.num_done)

    def of_reader(self, number: int, count: int, waits_for_others: bool) -> Dynamic:
        """The part of a worker process, which is a worker of its own."""
        worker = f"{self.worker}/{number}" if count > 1 else self.worker
        return dataclasses.replace(self, worker=worker, waits_for_others=waits_for_others)


Sharing = Union[Ranked, Dynamic]


def sharing_of(
    request: EpochRequest,
    rank: int | None,
    num_ranks: int | None,
    drop_last: bool,
    worker: str | None,
    rank_group: int,
) -> Sharing:
    """The sharing that a loader's arguments give. Raises ValueError for both ways at once, and
    ValueError or TypeError naming an argument that makes no sense."""
    if worker is None:
        return ranked_of(request, rank, num_ranks, drop_last)
    if rank is not None or num_ranks is not None or drop_last:
        raise ValueError("worker is for dynamic workers, which have no rank: give one or other")
    if not isinstance(worker, str):
        raise TypeError(f"worker: {worker!r} is no name of a worker")
    return Dynamic(worker, whole_number(rank_group, "rank_group"))


def ranked_of(
    request: EpochRequest, rank: int | None, num_ranks: int | None, drop_last: bool
) -> Ranked:
    """The rank; without arguments the only one. Raises as sharing_of."""
    ranks = request.num_ranks if num_ranks is None else whole_number(num_ranks, "num_ranks")
    return Ranked(0 if rank is None else whole_number(rank, "rank"), ranks, drop_last)
