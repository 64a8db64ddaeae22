"""Epochs of a data set, delivered to the workers of a training job. See `Loader`."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
import uuid
import weakref
from typing import TYPE_CHECKING, Any, AsyncIterator, Iterator, Literal, NoReturn

from packhouse.asynchronous import iterate
from packhouse.backoff import Backoff
from packhouse.batch import DerivedTensor, Padding
from packhouse.connecting import LoadArguments, split
from packhouse.epoch_info import EpochInfo, check_not_empty
from packhouse.epoch_request import EpochRequest
from packhouse.errors import EpochFinishedError, PackhouseError
from packhouse.finished_epochs import Finished, check_finished, restarts, words_for_finished
from packhouse.given_batches import GivenBatches
from packhouse.load_connection import LoadConnection
from packhouse.loaded_batch import LoadedBatch
from packhouse.loader_settings import LoaderSettings, LoaderStart, LoaderState
from packhouse.received_batch import ReceivedBatch
from packhouse.schema import GraphSchema
from packhouse.sharing import Dynamic, Ranked, sharing_of
from packhouse.v1 import loader_pb2
from packhouse.whole_numbers import UINT64_MAX, whole_number

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from packhouse.splitting import MicroBatch


class Loader(Iterator[LoadedBatch]):
    """The batches of one worker, epoch by epoch; each graph of an epoch reaches one worker once.

        loader = Loader("localhost:50051", dataset="molhiv", job="run-1", seed=7, rank=0,
                        num_ranks=2, limits={"nodes": 512, "edges": 1152, "graphs": 32})
        for epoch in range(10):
            loader.set_epoch(epoch)
            for batch in loader:
                train(batch)

    A batch is acknowledged when the next one is asked for, so never while it is being trained on.
    With acknowledge="manual" you acknowledge it yourself. If this worker dies, batches that it has
    not acknowledged come again, to this worker or to another. A thread of its own sends
    acknowledgements, those of about 30 ms together. They are durable at the latest when the
    iteration ends. `max_in_flight` also bounds the speed, because an acknowledgement waits for the
    server's disk: take 64 for thousands of batches a second.

    An epoch that was finished before this loader came to it raises EpochFinishedError, because it
    would give no batch: a job was run again under its name, or an epoch was set a second time.
    `finished` can say otherwise. For validation use `Evaluation`: the server keeps nothing of it. A
    graph beyond the limits raises PackhouseError (OUT_OF_RANGE) naming it, unless `oversize` says
    REJECT: then a warning gives the number of such graphs, once an epoch.

    If the connection breaks or the server restarts, the loader goes on by itself. It gives up after
    `retry_timeout` seconds of failing in a row. Batches that come again because of that are not
    given out twice. Iterating ends with PackhouseError (FAILED_PRECONDITION) if the trainer has
    been started anew elsewhere or rolled back; also, naming both, if the epoch was opened with
    other arguments or a state is of another epoch. Other errors:
    - NOT_FOUND: no such data set.
    - INVALID_ARGUMENT: an argument that makes no sense; names it, the value and the bound.
    - OUT_OF_RANGE: a graph that the limits do not take; names it.
    - FAILED_PRECONDITION: the data set is not sealed.
    - RESOURCE_EXHAUSTED: too many streams or bytes at the server now; names the bound.
    - DATA_LOSS: a stored record fails its checksum; names it and its graphs.

    Connects when it is first asked for something, not when it is made. Use it from one thread; only
    `acknowledge` and `flush` may be called from any. Worker processes that read for a trainer: see
    `EpochReaders`. gRPC does not survive a fork: fork before a loader is used, or start processes
    by spawning: a loader can be pickled, and the copy starts where this one's epoch was set or its
    state was loaded.
    """

    def __init__(
        self,
        address: str,
        *,
        job: str,
        rank: int | None = None,
        num_ranks: int | None = None,
        drop_last: bool = False,
        worker: str | None = None,
        rank_group: int = 0,
        max_in_flight: int = 0,
        attempt: str | None = None,
        acknowledge: Literal["automatic", "manual"] = "automatic",
        finished: Finished = "error",
        **arguments: Unpack[LoadArguments],
    ) -> None:
        """Takes all `EpochArguments`, which must be the same for all workers of the job, and all
        `ConnectionArguments`.

        Workers share an epoch in one of two ways. Ranked: `rank` of `num_ranks`, all with the same
        number of steps. The last step is completed with padding; with `drop_last` it is left out
        instead if it is not full. The default is one rank. Dynamic: first come, first served.
        `worker` is this worker's name, the same each time that it joins; `rank_group` is the number
        of the rank group whose batches it takes.

        `max_in_flight` bounds the batches that are sent and not acknowledged (0: 16). `attempt`
        names one start of the trainer: the same for all of its workers, and new after each restart
        (a launcher's restart counter will do). Give one if several workers load states.

        `finished` says what to do with an epoch that was finished before. "error" raises
        EpochFinishedError; "skip" gives nothing; "restart" loads it again from its start, and
        forgets what was done of it and of the job's later epochs; dynamic workers need an `attempt`
        for that, and so do several ranks of which each may come at any time. A loaded state goes on
        from where it was, whatever this says.
        """
        connecting, writable, rest = split(arguments, address, job, max_in_flight)
        request = EpochRequest(rest, job)
        sharing = sharing_of(request, rank, num_ranks, drop_last, worker, rank_group)
        if acknowledge not in ("automatic", "manual"):
            raise ValueError(f"acknowledge {acknowledge!r} is neither 'automatic' nor 'manual'")
        check_finished(finished)
        self._settings = LoaderSettings(
            connecting,
            request,
            sharing,
            is_placed=worker is not None or rank is not None or num_ranks is not None,
            attempt=attempt or "",
            manual=acknowledge == "manual",
            finished=finished,
            writable=writable,
        )
        self._begin(LoaderStart(attempt=attempt or ""))

    @staticmethod
    def of_settings(settings: LoaderSettings, start: LoaderStart) -> Loader:
        """A loader with another loader's settings."""
        loader = Loader.__new__(Loader)
        loader._settings = settings
        loader._begin(start)
        return loader

    def _begin(self, start: LoaderStart) -> None:
        self._start = start
        # Drawn where a first try, whose answer was lost, and the next are to be known for the same.
        self._drawn_attempt = ""
        self._attempt_is_used = False
        # Whether an epoch has ended here: then the next one may be over before this worker comes.
        self._has_ended_one = False
        self._connection: LoadConnection | None = None
        self._finalizer: Any = None
        self._forget_position()

    def _forget_position(self) -> None:
        # Of the first stream in this generation: its counts are those of when this worker came.
        self._first_opened: Any = None
        self._schema = GraphSchema()
        self._session = 0
        self._given = GivenBatches()
        self._ended = False
        self._is_restart = False
        # Given out last, and not acknowledged yet; automatic only.
        self._current: LoadedBatch | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {
            "settings": self._settings,
            "start": self._start,
            "drawn_attempt": self._drawn_attempt,
            "attempt_is_used": self._attempt_is_used,
            "has_ended_one": self._has_ended_one,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._settings = state["settings"]
        self._begin(state["start"])
        self._drawn_attempt = state["drawn_attempt"]
        self._attempt_is_used = state["attempt_is_used"]
        self._has_ended_one = state["has_ended_one"]

    @property
    def settings(self) -> LoaderSettings:
        """The arguments it was made with."""
        return self._settings

    @property
    def start(self) -> LoaderStart:
        """Where it starts to load, or has started."""
        if self._start.attempt or not self._drawn_attempt:
            return self._start
        return dataclasses.replace(self._start, attempt=self._drawn_attempt)

    @property
    def epoch(self) -> int:
        """The number of the epoch that iterating gives."""
        return self._start.epoch

    @property
    def cursor(self) -> str:
        """The state of all workers when this one's last acknowledgement became durable; "" before.

        Dynamic workers keep it in checkpoints; `state_dict` is more exact.
        """
        return self._connection.acknowledger.cursor if self._connection is not None else ""

    @property
    def generation_cursor(self) -> str:
        """The start of the present generation: a loader that starts from it loads the same again.
        Waits for the server.
        """
        return str(self._open().cursor)

    @property
    def num_steps_done(self) -> int:
        """How many of the `len` steps were done before this worker came: progress starts there."""
        return int(self._open().num_steps_done)

    def set_epoch(self, epoch: int) -> None:
        """Iterating gives that epoch from now on, from where the job's workers have got to.

        Does nothing if it is the present epoch and has not ended. Otherwise makes all
        acknowledgements durable first. Iterating raises EpochFinishedError if it was finished
        before, unless `finished` says otherwise.
        """
        epoch = whole_number(epoch, "epoch", UINT64_MAX)
        if epoch == self.epoch and not self._ended:
            return
        self.flush()
        self._leave()
        if epoch <= self.epoch:
            self._has_ended_one = False
        self._start = LoaderStart(epoch, attempt=self._start.attempt)
        self._forget_position()

    def epoch_info(self) -> EpochInfo:
        """What the epoch is like, and how far it is now. Errors: as iterating."""
        request = loader_pb2.GetEpochRequest(epoch=self._settings.request.of_epoch(self.epoch))
        return EpochInfo.from_proto(self._connect().call("GetEpoch", request))

    def __len__(self) -> int:
        """Steps of this worker in this epoch (dynamic: batches of its profile), done ones included.

        Asks the server, and waits for it for up to `retry_timeout` seconds. Begins to load if a
        state was loaded, because the state decides what is left.
        """
        if self._first_opened is not None or self._start.cursor:
            return int(self._open().num_steps)
        return self._settings.sharing.num_steps(self.epoch_info(), self._settings.request)

    def __iter__(self) -> Loader:
        """Goes on after the batch given out last. Raises ValueError if the epoch has ended."""
        if self._ended:
            raise ValueError(f"epoch {self.epoch} has ended: call set_epoch")
        return self

    def __aiter__(self) -> AsyncIterator[LoadedBatch]:
        """As iterating, but waits on another thread; leaving early does not change the loader."""
        return iterate(iter(self))

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
                if self._given.give(received.id, received.step):
                    batch = LoadedBatch.of_loaded_parts(
                        received, self._schema, self._open().generation, self._session
                    )
                    if not self._settings.manual:
                        self._current = batch
                    return batch
            elif received.WhichOneof("message") == "end_of_epoch":
                connection.finish()
                break
        self._end()

    @contextlib.contextmanager
    def acknowledged_by_hand(self) -> Iterator[Loader]:
        """Iterating acknowledges nothing meanwhile, as if acknowledge="manual" had been said."""
        settings = self._settings
        self._settings = dataclasses.replace(settings, manual=True)
        try:
            yield self
        finally:
            self._settings = settings

    def acknowledge(self, batch: LoadedBatch) -> None:
        """Says that this batch is done; it is sent soon. Callable from any thread; the batch may
        come from another process's loader.

        Raises PackhouseError if an earlier acknowledgement has failed.
        """
        self._acknowledge(batch, self._connect())

    def _acknowledge(self, batch: LoadedBatch, connection: LoadConnection) -> None:
        if self._current is not None and self._current.number == batch.number:
            self._current = None
        connection.acknowledger.add(batch.lease)
        if self._given.acknowledge(batch.number):
            # The server waits for it, to say that this is the end.
            connection.acknowledger.hurry()

    def split(self, batch: LoadedBatch, parts: int = 2) -> list[MicroBatch]:
        """The batch again, as two or more micro-batches of about 1/`parts` of its rows.

        For a batch that did not fit the device: each of its graphs is in exactly one micro-batch,
        and their `loss_weight`s add up to one. All batches of a shape are split to the same shapes,
        at most `parts` - 1 of them; padding and derived tensors are the loader's. The batch stays
        the one that is acknowledged, so that all ranks have the same number of steps. The server
        packs them: the graphs go there and back. A `Meter` that saw the step fail has told the
        server, and limits that are chosen later are below. Raises ValueError if the batch cannot be
        split: it has one graph, or one that needs nearly all of its rows, or parts that are joined.
        """
        from packhouse.splitting import split_batch

        spec = self._settings.request.of_epoch(0)
        if spec.join_parts:
            raise ValueError("split: the parts of a batch are joined, and have no graphs")
        return split_batch(
            self._settings.connecting,
            batch,
            parts,
            Padding(spec.padding) if spec.padding else Padding.NONE,
            [DerivedTensor(each) for each in spec.derived],
        )

    def flush(self) -> None:
        """Waits until all acknowledgements are durable. Raises PackhouseError if that failed."""
        if self._connection is not None:
            self._connect().acknowledger.flush()

    def state_dict(self) -> LoaderState:
        """Where the epoch is, for the checkpoint; to be called after a step has been done.

        The batch given out last counts as done, and is acknowledged (unless that is manual). With
        ranks, the state is the one after as many steps as this rank has done. All ranks must have
        done these steps, or must do them before they stop; then any one rank's state serves all.
        Without ranks, the state is what all workers have done by now. Raises ValueError if ranked
        steps were acknowledged out of order.
        """
        generation = self._open().generation
        if self._current is not None:
            self.acknowledge(self._current)
        self.flush()
        if isinstance(self._settings.sharing, Ranked):
            steps = self._given.steps_done()
            if steps is None:
                steps = int(self._first_opened.num_steps_done)
            cursor = self.cursor_at_step(steps)
        else:
            request = loader_pb2.AcknowledgeRequest(
                job=self._settings.request.job,
                epoch=self.epoch,
                generation=generation,
                session=self._session,
            )
            cursor = self._connect().call("Acknowledge", request).cursor
        return LoaderState(epoch=self.epoch, cursor=cursor)

    def load_state_dict(self, state: LoaderState, attempt: str | None = None) -> None:
        """Goes on exactly where the state was taken, even if the service went further since.

        There may be other workers, and more or fewer. All must load the same state; the server
        refuses what earlier workers do from now on. `attempt` replaces the constructor's. Raises
        ValueError if an attempt is needed: for dynamic workers, and if the present attempt has
        loaded already.

        The server forgets what was done of later epochs: they are loaded from their start.
        """
        given, sharing = self._start.attempt, self._settings.sharing
        if attempt is None and given and self._attempt_is_used:
            raise ValueError(f"attempt {given!r} has loaded already: give a new one")
        if attempt is None and not given and isinstance(sharing, Dynamic):
            raise ValueError("dynamic workers need an attempt to load a state")
        self._leave()
        if self._connection is not None:
            self._connect().acknowledger.reset()
        if attempt is None and not given and self._is_alone:
            self._drawn_attempt = uuid.uuid4().hex
        self._attempt_is_used = False
        self._start = LoaderStart(state["epoch"], state["cursor"], attempt or given)
        self._has_ended_one = False
        self._forget_position()

    def cursor_at_step(self, steps: int) -> str:
        """The cursor for when every rank has done this many steps of this generation, no more.

        Errors: FAILED_PRECONDITION if another generation has started, or the worker is dynamic;
        OUT_OF_RANGE beyond the epoch's steps.
        """
        request = loader_pb2.ReportStepRequest(
            job=self._settings.request.job,
            epoch=self.epoch,
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

    @property
    def _is_alone(self) -> bool:
        """Whether it is the only rank, so that nobody needs to know its attempt."""
        sharing = self._settings.sharing
        return isinstance(sharing, Ranked) and sharing.num_ranks == 1

    def _load_request(self) -> Any:
        request = loader_pb2.LoadRequest(
            epoch=self._settings.request.of_epoch(self.epoch),
            max_in_flight=self._settings.connecting.max_in_flight,
            attempt=self.start.attempt,
        )
        self._settings.sharing.to_proto(request)
        if self._first_opened is not None:
            request.generation = self._first_opened.generation
        elif self._start.generation is not None:
            request.generation = self._start.generation
        else:
            request.cursor = self._start.cursor
        return request

    def _connect(self) -> LoadConnection:
        if self._connection is None:
            self._connection = LoadConnection(
                self._settings.connecting, writable=self._settings.writable
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
                    backoff = Backoff(
                        self._settings.connecting.retry_timeout, connection.longest_delay
                    )
                time.sleep(backoff.delay_after(error))
        if not isinstance(received, ReceivedBatch) and received.HasField("opened"):
            opened = received.opened
            if self._first_opened is None and not self._accept(opened):
                connection.leave()
                return self._receive(connection)
            self._session = opened.session
            connection.acknowledger.renew(self.epoch, opened.generation, opened.session)
            if self._first_opened is None:
                self._schema = GraphSchema.from_proto(opened.schema)
                self._attempt_is_used = True
                self._first_opened = opened
                if not opened.num_steps_is_estimate:
                    self._given.expect(opened.num_steps - opened.num_steps_done)
                elif self._settings.manual and not isinstance(self._settings.sharing, Dynamic):
                    # The caller must know which batch is the last one before its acknowledgement.
                    connection.leave()
                    raise ValueError(
                        "samples: acknowledging by hand, and reading in other processes, need "
                        "Samples.exact_steps"
                    )
        return received

    def _accept(self, opened: Any) -> bool:
        """Whether to go on with an epoch that this loader has come to; False: ask for it again."""
        if not self._settings.looks_at_epoch:
            return True
        try:
            check_not_empty(opened.epoch, 5)
            is_restart = self._restarts(opened)
        except Exception:
            self._connect().leave()
            raise
        if is_restart:
            self._is_restart = True
            self._start = dataclasses.replace(self._start, cursor=opened.epoch.start_cursor)
            if self._is_alone and not self._start.attempt:
                self._drawn_attempt = uuid.uuid4().hex
        return not is_restart

    def _restarts(self, opened: Any) -> bool:
        """Whether it is finished and to be loaded anew. Raises EpochFinishedError."""
        epoch, sharing = opened.epoch, self._settings.sharing
        if opened.num_steps_is_estimate:
            return False
        if not epoch.num_batches or opened.num_steps_done < opened.num_steps:
            return False
        if not sharing.all_done(epoch):
            return False
        if isinstance(sharing, Dynamic) and self._has_ended_one:
            # The others were faster.
            return False
        if not self._start.cursor:
            attempt = self._start.attempt
            return restarts(epoch, self._settings.finished, sharing, attempt, "loader")
        if self._is_restart:
            raise EpochFinishedError(
                f"{words_for_finished(epoch, 'loader')}, by attempt {self._start.attempt!r} too: "
                "name a new attempt to start it anew"
            )
        # A state that says so.
        return False

    def _has_all(self) -> bool:
        """Whether all is given out, so that waiting for the end would be waiting for the caller."""
        if not self._settings.manual or isinstance(self._settings.sharing, Dynamic):
            return False
        return self._given.has_all()

    def _end(self) -> NoReturn:
        self.flush()
        self._leave()
        self._ended = True
        self._has_ended_one = True
        raise StopIteration

    def _leave(self) -> None:
        if self._connection is not None:
            self._connect().leave()
