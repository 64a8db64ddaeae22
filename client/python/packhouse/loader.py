"""Epochs of a data set, delivered to the workers of a training job. See `Loader`."""

from __future__ import annotations

import os
import sys
import threading
import time
import uuid
import weakref
from typing import (
    Any,
    Callable,
    Final,
    Iterator,
    Literal,
    Mapping,
    NoReturn,
    Sequence,
    TypedDict,
)

from packhouse.backoff import DEFAULT_RETRY_TIMEOUT, Backoff
from packhouse.batch import DerivedLike, Padding, PaddingLike
from packhouse.batch_reader import ReceivedBatch
from packhouse.channel import MAX_MESSAGE_BYTES, ChannelOptions
from packhouse.epoch import (
    EpochInfo,
    GraphSubset,
    LoadedBatch,
    RankProfile,
    Sampling,
    check_not_empty,
    epoch_spec,
    profiles_of,
)
from packhouse.errors import EpochFinishedError, PackhouseError
from packhouse.load_connection import LoadConnection
from packhouse.packing import OversizePolicy
from packhouse.schema import GraphSchema
from packhouse.tuning import DeviceProfile
from packhouse.v1 import loader_pb2

Finished = Literal["error", "restart", "skip"]

_FINISHED_CHOICES: Final = ("error", "restart", "skip")


class LoaderState(TypedDict):
    """What a checkpoint keeps of a loader: plain values, which any serialisation takes."""

    epoch: int
    cursor: str


class Loader(Iterator[LoadedBatch]):
    """The batches of one worker, epoch by epoch; each graph of an epoch reaches one worker once.

        loader = Loader("localhost:50051", dataset="molhiv", job="run-1", seed=7, rank=0,
                        num_ranks=2, limits={"nodes": 512, "edges": 1152, "graphs": 32})
        for epoch in range(10):
            loader.set_epoch(epoch)
            for batch in loader:
                train(batch)

    A batch is acknowledged when the next one is asked for, so never while it is being trained on;
    with acknowledge="manual" when you say so. What is not acknowledged comes again, to this worker
    or another, when this one has gone. Acknowledgements are sent by a thread of their own, those of
    some 10 ms together, and are durable at the latest when the iteration ends. The bound
    `max_in_flight` also bounds speed, as an acknowledgement waits for the server's disk: take 64
    for thousands of batches a second.

    An epoch that had been finished before this loader came to it raises EpochFinishedError, as
    nothing would come: a job was run again under its name, or an epoch was set a second time. What
    `finished` says is done instead. For validation use `Evaluation`, of which the server keeps
    nothing. A graph beyond the limits raises PackhouseError (OUT_OF_RANGE) naming it, unless
    `oversize` says REJECT; then a warning gives their number, once an epoch.

    If the connection breaks or the server restarts, the loader goes on by itself, for
    `retry_timeout` seconds of failing in a row; batches that come again because of that are not
    given out twice. If the trainer has been started anew elsewhere, or rolled back, iterating ends
    with PackhouseError (FAILED_PRECONDITION). Other errors: see `packhouse.v1.LoaderService.Load`.

    Connects when it is first asked for something, not when it is made. Use it from one thread, but
    for `acknowledge` and `flush`, which may be called from any. Worker processes that read for a
    trainer: see `EpochReaders`. gRPC does not survive a fork: fork
    before a loader is used, or start processes by spawning: a loader can be
    pickled, and the copy starts where this one's epoch was set or its state was loaded.
    """

    def __init__(
        self,
        address: str,
        *,
        dataset: str,
        job: str,
        seed: int = 0,
        limits: Mapping[str, int] | None = None,
        shapes: Sequence[Mapping[str, int]] | None = None,
        device_profile: DeviceProfile | None = None,
        profiles: Sequence[RankProfile] | None = None,
        padding: PaddingLike = Padding.NONE,
        derived: DerivedLike = (),
        sizes_only: bool = False,
        oversize: OversizePolicy | str = OversizePolicy.ERROR,
        in_order: bool = False,
        look_ahead: int = 0,
        grouped: bool = False,
        subset: GraphSubset | None = None,
        sampling: Sampling | None = None,
        rank: int | None = None,
        num_ranks: int | None = None,
        drop_last: bool = False,
        worker: str | None = None,
        profile: int = 0,
        max_in_flight: int = 0,
        attempt: str | None = None,
        acknowledge: Literal["automatic", "manual"] = "automatic",
        finished: Finished = "error",
        writable: bool = False,
        retry_timeout: float = DEFAULT_RETRY_TIMEOUT,
        timeout: float = 60.0,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        options: ChannelOptions = (),
    ) -> None:
        """Everything up to `sampling` must be the same for all workers of the job.

        Limits are one of `limits` (one shape), `shapes` (several, the largest first),
        `device_profile` (the server chooses), or `profiles` (ranks of unequal hardware).
        Everything else is documented in `packhouse.v1.EpochSpec`; 0 and None mean the server's
        default. `sizes_only`: batches say which graphs belong together, tensors stay here.

        Workers share an epoch in one of two ways. Ranked: `rank` of `num_ranks`, all with the same
        number of steps (`drop_last`: without the batches that do not suffice for one more step,
        instead of completing it with padding); the default is one rank. Dynamic: `worker` is this
        one's name, the same each time that it comes; first come, first served; `profile` is the
        number of the one whose batches it takes.

        `max_in_flight` bounds the batches that are sent and not acknowledged (0: 16). `attempt`
        names one start of the trainer, for all of its workers the same, new after each restart (a
        restart counter of the launcher does): give one if several workers load states. Unary calls
        have a deadline of `timeout` seconds. `options` are gRPC's channel arguments: see
        `packhouse.channel.make_channel`. `writable`: see `Batch.writable`.

        `finished`: of an epoch that was finished before. "error" raises EpochFinishedError; "skip"
        gives nothing; "restart" loads it from its start again, and what was done of it and of the
        job's later epochs is forgotten (dynamic workers, and several ranks of which each may come
        at any time, need an `attempt` for that). A state that was loaded is gone on from as it is.
        """
        self._address = address
        self._profiles = profiles_of(limits, shapes, device_profile, profiles)
        self._spec = epoch_spec(
            self._profiles,
            dataset=dataset,
            job=job,
            seed=seed,
            padding=padding,
            derived=derived,
            sizes_only=sizes_only,
            oversize=oversize,
            in_order=in_order,
            look_ahead=look_ahead,
            grouped=grouped,
            subset=subset,
            sampling=sampling,
        )
        if worker is not None and (rank is not None or num_ranks is not None or drop_last):
            raise ValueError("worker is for dynamic workers, which have no rank: give one or other")
        self._worker = worker
        self._profile = profile
        self._rank = rank or 0
        if num_ranks is None:
            of_profiles = sum(each.num_ranks for each in self._profiles)
            num_ranks = of_profiles if len(self._profiles) > 1 else 1
        self._num_ranks = num_ranks
        self._drop_last = drop_last
        self._max_in_flight = max_in_flight
        self._attempt = attempt or ""
        if acknowledge not in ("automatic", "manual"):
            raise ValueError(f"acknowledge {acknowledge!r} is neither 'automatic' nor 'manual'")
        self._manual = acknowledge == "manual"
        if finished not in _FINISHED_CHOICES:
            raise ValueError(f"finished {finished!r} is none of {_FINISHED_CHOICES}")
        self._finished = finished
        # Of the readers of one trainer: this one's number and how many there are.
        self._reader = (0, 1)
        self._waits_for_others = True
        # Whether it is to say that an epoch is finished, or has too large graphs.
        self._looks_at_epoch = True
        self._writable = writable
        self._retry_timeout = retry_timeout
        self._timeout = timeout
        self._max_message_bytes = max_message_bytes
        self._options = tuple(options)
        self._epoch = 0
        self._start_cursor = ""
        # Of a reader that joins what its trainer has come to.
        self._join_generation: int | None = None
        # Whether an epoch has ended here: then the next one may be over before this worker comes.
        self._has_ended_one = False
        self._attempt_is_used = False
        self._drawn_attempt = ""
        self._begin()

    def _begin(self) -> None:
        """Makes what is neither pickled nor survives a change of the epoch."""
        self._connection: LoadConnection | None = None
        self._finalizer: Any = None
        self._lock = threading.Lock()
        self._forget_position()

    def _forget_position(self) -> None:
        # Of the first stream in this generation: its counts are those of when this worker came.
        self._first_opened: Any = None
        self._schema = GraphSchema()
        self._session = 0
        # Of this generation, when this worker came.
        self._num_left = sys.maxsize
        self._ended = False
        # Steps that were left to others when this one ended.
        self._num_pending = 0
        self._is_restart = False
        # Given out last, and not acknowledged yet; automatic only.
        self._current: LoadedBatch | None = None
        with self._lock:
            # Below: guarded by _lock.
            self._given: set[int] = set()
            # Steps of batches that were given out and are not acknowledged, by batch number.
            self._held: dict[int, int] = {}
            self._last_given_step = -1
            self._last_acknowledged_step = -1

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for name in ("_connection", "_finalizer", "_lock", "_current", "_first_opened"):
            del state[name]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    @property
    def epoch(self) -> int:
        """The number of the epoch that iterating gives."""
        return self._epoch

    @property
    def cursor(self) -> str:
        """What all workers had done when this one's last acknowledgement became durable; "" before.

        Dynamic workers keep it in checkpoints; `state_dict` is more exact.
        """
        return self._connection.acknowledger.cursor if self._connection is not None else ""

    @property
    def num_steps_done(self) -> int:
        """How many of the `len` steps were done before this worker came: progress starts there."""
        return int(self._open().num_steps_done)

    def set_epoch(self, epoch: int) -> None:
        """Iterating gives that epoch from now on: from where the job's workers have come to.

        Nothing happens if it is the present one and has not ended. Else makes all acknowledgements
        durable first. Iterating raises EpochFinishedError if it was finished before, unless
        `finished` says otherwise.
        """
        if epoch == self._epoch and not self._ended:
            return
        self.flush()
        self._leave()
        if epoch <= self._epoch:
            self._has_ended_one = False
        self._epoch = epoch
        self._start_cursor = ""
        self._join_generation = None
        self._forget_position()

    def epoch_info(self) -> EpochInfo:
        """What the epoch is like, and how far it is now. Errors: see `packhouse.v1.GetEpoch`."""
        request = loader_pb2.GetEpochRequest(epoch=self._epoch_spec())
        return EpochInfo.from_proto(self._connect().call("GetEpoch", request))

    def __len__(self) -> int:
        """Steps of this worker in this epoch (dynamic: batches of its profile), done ones included.

        Asks the server, and waits for it for `retry_timeout` seconds; begins to load if a state was
        loaded, as that decides what is left.
        """
        if self._first_opened is not None or self._start_cursor:
            return int(self._open().num_steps)
        info = self.epoch_info()
        if self._worker is not None:
            return info.profiles[self._profile].num_batches
        return info.num_steps(self._profiles, self._num_ranks, self._drop_last)

    def __iter__(self) -> Loader:
        """Goes on after the batch given out last. Raises ValueError if the epoch has ended."""
        if self._ended:
            raise ValueError(f"epoch {self._epoch} has ended: call set_epoch")
        return self

    def __next__(self) -> LoadedBatch:
        if self._ended:
            raise StopIteration
        connection = self._connect()
        if self._current is not None:
            self._acknowledge(self._current, connection)
        while not self._has_all():
            # Else a worker that was rolled back might wait for ever.
            connection.acknowledger.check()
            received = self._receive(connection)
            if isinstance(received, ReceivedBatch):
                if self._take(received.head):
                    batch = LoadedBatch.of_loaded_parts(
                        received, self._schema, self._open().generation, self._session
                    )
                    if self._writable:
                        batch = batch.writable()
                    if not self._manual:
                        self._current = batch
                    return batch
            elif received.WhichOneof("message") == "end_of_epoch":
                self._num_pending = received.end_of_epoch.num_pending
                connection.finish()
                break
        self._end()

    def acknowledge(self, batch: LoadedBatch) -> None:
        """This batch is done: will be sent soon. From any thread, and any process's loader.

        Raises PackhouseError if an earlier acknowledgement has failed.
        """
        self._acknowledge(batch, self._connect())

    def _acknowledge(self, batch: LoadedBatch, connection: LoadConnection) -> None:
        if self._current is not None and self._current.number == batch.number:
            self._current = None
        connection.acknowledger.add(batch.lease)
        with self._lock:
            step = self._held.pop(batch.number, None)
            if step is not None:
                self._last_acknowledged_step = max(self._last_acknowledged_step, step)
            is_last = not self._held and len(self._given) >= self._num_left
        if is_last:
            # The server waits for it, to say that this is the end.
            connection.acknowledger.hurry()

    def flush(self) -> None:
        """Waits until all acknowledgements are durable. Raises PackhouseError if that failed."""
        if self._connection is not None:
            self._connect().acknowledger.flush()

    def state_dict(self) -> LoaderState:
        """Where the epoch is, for the checkpoint; to be called after a step has been done.

        The batch given out last counts as done, and is acknowledged (unless that is manual). With
        ranks the state is that after as many steps as this rank has done, which all ranks must have
        done, or do before they stop: any one rank's state serves all. Otherwise it is what all
        workers have done by now. Raises ValueError if ranked steps were acknowledged out of order.
        """
        generation = self._open().generation
        self._acknowledge_current()
        self.flush()
        if self._worker is None:
            cursor = self.cursor_at_step(self._steps_done())
        else:
            request = loader_pb2.AcknowledgeRequest(
                job=self._spec.job,
                epoch=self._epoch,
                generation=generation,
                session=self._session,
            )
            cursor = self._connect().call("Acknowledge", request).cursor
        return LoaderState(epoch=self._epoch, cursor=cursor)

    def load_state_dict(self, state: LoaderState, attempt: str | None = None) -> None:
        """Goes on exactly where the state was taken, even if the service went further since.

        The workers may be others, and of another number. All must load the same state; what earlier
        ones do from now on is refused. `attempt` as for the constructor, in place of the one given
        there. Raises ValueError if an attempt is needed: for dynamic workers, and if the present
        one has loaded already.

        What was done of later epochs is forgotten: they are loaded from their start.
        """
        if attempt is None and self._attempt and self._attempt_is_used:
            raise ValueError(f"attempt {self._attempt!r} has loaded already: give a new one")
        if attempt is None and not self._attempt and self._worker is not None:
            raise ValueError("dynamic workers need an attempt to load a state")
        self._leave()
        if self._connection is not None:
            self._connect().acknowledger.reset()
        if attempt is not None:
            self._attempt = attempt
        elif self._num_ranks == 1 and not self._attempt:
            # By which a first try, whose answer was lost, and the next are known for the same.
            self._drawn_attempt = uuid.uuid4().hex
        self._attempt_is_used = False
        self._epoch = state["epoch"]
        self._start_cursor = state["cursor"]
        self._join_generation = None
        self._has_ended_one = False
        self._forget_position()

    def cursor_at_step(self, steps: int) -> str:
        """The cursor for when every rank has done this many steps of this generation, no more.

        Errors: see `packhouse.v1.LoaderService.ReportStep`.
        """
        request = loader_pb2.ReportStepRequest(
            job=self._spec.job,
            epoch=self._epoch,
            generation=self._open().generation,
            steps=steps,
        )
        return str(self._connect().call("ReportStep", request).cursor)

    def close(self) -> None:
        """Tries to send what is acknowledged, and disconnects; using it again connects again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            # What holds no connection holds nothing of gRPC's, so that a fork is safe.
            self._finalizer.detach()
            self._finalizer = None

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _epoch_spec(self) -> Any:
        spec = loader_pb2.EpochSpec()
        spec.CopyFrom(self._spec)
        spec.epoch = self._epoch
        return spec

    def _load_request(self) -> Any:
        request = loader_pb2.LoadRequest(
            epoch=self._epoch_spec(),
            max_in_flight=self._max_in_flight,
            attempt=self._attempt or self._drawn_attempt,
        )
        if self._worker is None:
            request.ranked.rank = self._rank
            request.ranked.num_ranks = self._num_ranks
            request.ranked.drop_last = self._drop_last
            if self._reader[1] > 1:
                request.ranked.reader, request.ranked.num_readers = self._reader
        else:
            request.dynamic.worker = self._worker
            request.dynamic.rank_group = self._profile
            request.dynamic.end_when_all_leased = not self._waits_for_others
        if self._first_opened is not None:
            request.generation = self._first_opened.generation
        elif self._join_generation is not None:
            request.generation = self._join_generation
        else:
            request.cursor = self._start_cursor
        return request

    def _connect(self) -> LoadConnection:
        if self._connection is None:
            self._connection = LoadConnection(
                self._address,
                self._spec.job,
                self._timeout,
                self._retry_timeout,
                self._max_message_bytes,
                self._max_in_flight,
                self._options,
            )
            # Also when the loader is dropped, or the interpreter ends.
            self._finalizer = weakref.finalize(self, self._connection.close)
        if self._connection.pid != os.getpid():
            raise RuntimeError(
                f"this loader was connected by process {self._connection.pid} before a fork, which "
                "gRPC does not survive: close it before the fork, or start processes by spawning"
            )
        return self._connection

    def _open(self) -> Any:
        """The `packhouse.v1.LoadOpened` of the first stream in this generation; waits for it."""
        while self._first_opened is None:
            self._receive(self._connect())
        return self._first_opened

    def _receive(self, connection: LoadConnection) -> Any:
        """A batch, or another `packhouse.v1.LoadResponse`, of the present stream or a new one."""
        backoff: Backoff | None = None
        while True:
            try:
                received = connection.receive(self._load_request)
                break
            except PackhouseError as error:
                connection.leave()
                connection.acknowledger.check()
                if backoff is None:
                    backoff = Backoff(self._retry_timeout)
                time.sleep(backoff.delay_after(error))
        if not isinstance(received, ReceivedBatch) and received.HasField("opened"):
            opened = received.opened
            if self._first_opened is None and not self._accept(opened):
                connection.leave()
                return self._receive(connection)
            self._session = opened.session
            connection.acknowledger.renew(self._epoch, opened.generation, opened.session)
            if self._first_opened is None:
                self._schema = GraphSchema.from_proto(opened.schema)
                self._attempt_is_used = True
                self._first_opened = opened
                self._num_left = opened.num_steps - opened.num_steps_done
        return received

    def _accept(self, opened: Any) -> bool:
        """Whether to go on with an epoch that this loader has come to; False: ask for it again."""
        if not self._looks_at_epoch:
            return True
        try:
            check_not_empty(opened.epoch, 5)
            restarts = self._restarts(opened)
        except Exception:
            self._connect().leave()
            raise
        if restarts:
            self._start_cursor = opened.epoch.start_cursor
            if self._num_ranks == 1 and not self._attempt:
                self._drawn_attempt = uuid.uuid4().hex
        return not restarts

    def _restarts(self, opened: Any) -> bool:
        """Whether it is finished and to be loaded anew. Raises EpochFinishedError."""
        epoch = opened.epoch
        if not epoch.num_batches:
            return False
        if opened.num_steps_done < opened.num_steps or not self._all_done(epoch):
            return False
        if self._worker is not None and self._has_ended_one:
            # The others were faster.
            return False
        if self._finished == "skip":
            return False
        words = f"epoch {epoch.epoch} of job {epoch.job!r} was finished before this loader came to it"
        if self._start_cursor:
            if self._finished != "restart" or not self._is_restart:
                return False
            raise EpochFinishedError(
                f"{words}, by attempt {self._attempt!r} too: name a new attempt to start it anew"
            )
        if self._finished == "error":
            raise EpochFinishedError(
                f"{words}, so that nothing would come: take another job name, a later epoch, "
                'load a state, or say finished="restart" to load it anew or "skip" to go on without '
                "it; for validation, Evaluation keeps nothing"
            )
        if self._worker is not None and not self._attempt:
            raise EpochFinishedError(
                f'{words}: dynamic workers need an attempt for finished="restart", by which those of '
                "one start know each other"
            )
        self._is_restart = True
        return True

    def _all_done(self, epoch: Any) -> bool:
        left = epoch.num_batches - epoch.num_done
        # Some of the last batches are dealt to nobody.
        return bool(left == 0 or (self._drop_last and left < self._num_ranks))

    def _take(self, message: Any) -> bool:
        """Whether a `packhouse.v1.Batch` has not been given out yet; it is from now on."""
        number, step = message.id, message.step
        with self._lock:
            if number in self._given:
                return False
            self._given.add(number)
            self._held[number] = step
            if step > self._last_given_step:
                self._last_given_step = step
            return True

    def _has_all(self) -> bool:
        """Whether all is given out, so that waiting for the end would be waiting for the caller."""
        if not self._manual or self._worker is not None or self._first_opened is None:
            return False
        with self._lock:
            return len(self._given) >= self._num_left

    def _acknowledge_current(self) -> None:
        if self._current is not None:
            self.acknowledge(self._current)

    def _steps_done(self) -> int:
        """The steps of this generation that this rank has done: all up to there, and none after."""
        with self._lock:
            if self._held:
                steps = min(self._held.values())
                if self._last_acknowledged_step > steps:
                    raise ValueError(
                        f"step {self._last_acknowledged_step} is acknowledged, "
                        f"step {steps} before it is not"
                    )
                return steps
            if self._given:
                return self._last_given_step + 1
        return int(self._first_opened.num_steps_done)

    def _end(self) -> NoReturn:
        self.flush()
        self._leave()
        self._ended = True
        self._has_ended_one = True
        raise StopIteration

    def _leave(self) -> None:
        if self._connection is not None:
            self._connect().leave()
