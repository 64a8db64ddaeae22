"""What a loader is made with: how an epoch is shared, what becomes of a begun one, where to start."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, Callable, Literal, TypedDict, Union

from packhouse.base.arguments import whole_number
from packhouse.base.errors import EpochBegunError, EpochFinishedError, PackhouseError
from packhouse.epochs.info import EpochShare
from packhouse.epochs.request import Connecting, EpochRequest


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
        """Says so in a `packhouse.v1.LoadRequest`, `GetEpochRequest` or `Evaluation`."""
        request.ranked.rank = self.rank
        request.ranked.num_ranks = self.num_ranks
        request.ranked.drop_last = self.drop_last
        if self.num_readers > 1:
            request.ranked.reader, request.ranked.num_readers = self.reader, self.num_readers

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
        """Says so in a `packhouse.v1.LoadRequest` or `GetEpochRequest`."""
        request.dynamic.worker = self.worker
        request.dynamic.rank_group = self.rank_group
        request.dynamic.end_when_all_leased = not self.waits_for_others

    @property
    def num_ranks(self) -> int:
        """0: there are none."""
        return 0

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


OnExisting = Literal["error", "resume", "restart"]


class EpochBegunWarning(UserWarning):
    """A dynamic worker came to an epoch that was begun, and that nobody else loads: only the rest
    comes. What was done may be an earlier run's, or that of other workers which have gone.
    """


def nobody_else_loads(epoch: Any, get_job: Callable[[], Any], num_own: int) -> bool:
    """Whether no streams but `num_own` load a `packhouse.v1.Epoch` now; False if nobody says so.

    `get_job` gives the `packhouse.v1.Job`.
    """
    try:
        job = get_job()
    except PackhouseError:
        return False
    sessions = {each.epoch: each.num_sessions for each in job.epochs}
    return bool(sessions.get(epoch.epoch, num_own + 1) <= num_own)


def warn_of_begun(epoch: Any, who: str, level: int) -> None:
    """Warns with EpochBegunWarning; `level` as warnings.warn's `stacklevel`."""
    warnings.warn(
        f"epoch {epoch.epoch} of job {epoch.job!r} was begun before this {who} came to it, and nobody "
        f"else loads it: {epoch.num_done} of its {epoch.num_batches} batches are done, and only the "
        'rest comes. Load a state, say on_existing="resume" if that is meant, or take another job '
        "name",
        EpochBegunWarning,
        stacklevel=level + 1,
    )


def words_for_finished(epoch: Any, who: str) -> str:
    """How messages about a `packhouse.v1.Epoch` begin."""
    return f"epoch {epoch.epoch} of job {epoch.job!r} was finished before this {who} came to it"


def restarts(
    epoch: Any,
    begun: EpochShare | None,
    on_existing: str,
    sharing: Sharing,
    attempt: str,
    who: str,
) -> bool:
    """Whether an epoch is to be loaded again that is `begun`, or (None) finished; False: what is left
    of it is loaded.

    Raises EpochBegunError or EpochFinishedError if that is what `on_existing` says, and the latter
    for dynamic workers without an attempt, who would restart each other's epochs.
    """
    if on_existing == "resume":
        return False
    if on_existing == "error" and begun is not None:
        done = f"{begun.num_steps_done} of its steps are done"
        if begun.num_batches_before:
            done = (
                f"{epoch.num_done} of its {epoch.num_batches} batches are done, "
                f"{begun.num_batches_before} of them by ranks of another number, in another attempt "
                "or before a state"
            )
        raise EpochBegunError(
            f"epoch {epoch.epoch} of job {epoch.job!r} was begun before this {who} came to it: "
            f"{done}, so that only the rest would come. Load a state, or say "
            'on_existing="resume" for the rest, on_existing="restart" to load it anew, or take '
            "another job name"
        )
    words = words_for_finished(epoch, who)
    if on_existing == "error":
        raise EpochFinishedError(
            f"{words}, so that nothing would come: take another job name, a later epoch, load a "
            'state, or say on_existing="restart" to load it anew or "resume" to go on without it; '
            "for validation, Evaluation keeps nothing"
        )
    if isinstance(sharing, Dynamic) and not attempt:
        raise EpochFinishedError(
            f'{words}: dynamic workers need an attempt for on_existing="restart", by which those '
            "of one start know each other"
        )
    return True


class LoaderState(TypedDict):
    """What a checkpoint keeps of a loader: plain values, which any serialisation takes."""

    epoch: int
    cursor: str


@dataclasses.dataclass(frozen=True)
class LoaderSettings:
    """What a loader was made with; can be pickled."""

    connecting: Connecting
    request: EpochRequest
    sharing: Sharing
    # Whether the caller said which rank or worker this is.
    is_placed: bool
    attempt: str
    manual: bool
    on_existing: str
    writable: bool
    # Whether the loader is to say that an epoch is begun or finished, or has too large graphs.
    looks_at_epoch: bool = True

    def of_epoch(self, epoch: int) -> Any:
        """The `packhouse.v1.EpochSpec`."""
        return self.request.of_epoch(epoch, self.sharing.num_ranks)


@dataclasses.dataclass(frozen=True)
class LoaderStart:
    """Where a loader starts to load: an epoch, from a cursor or in a generation if there is one."""

    epoch: int = 0
    cursor: str = ""
    attempt: str = ""
    # Of a reader that joins what its trainer has come to.
    generation: int | None = None
