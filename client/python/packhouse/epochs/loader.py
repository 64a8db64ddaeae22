"""Epochs of a data set, delivered to the workers of a training job. See `Loader`."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import threading
import time
import uuid
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable, Iterator, Literal, TypeVar

import grpc

from packhouse.base.arguments import (
    UINT64_MAX,
    Uint32,
    names_init_arguments,
    shows_arguments_of,
    whole_number,
)
from packhouse.base.waiting import AsyncItems
from packhouse.base.errors import EpochFinishedError, PackhouseError
from packhouse.calls.lane import Transport
from packhouse.calls.retrying import Backoff
from packhouse.data.batch import DerivedTensor, Padding, ReceivedBatch
from packhouse.data.schema import GraphSchema
from packhouse.epochs.batches import GivenBatches, LoadedBatch, MicroBatch, split_batch
from packhouse.epochs.info import EpochInfo, EpochRows, EpochShare, check_not_empty
from packhouse.epochs.load_connection import LoadConnection, is_foreign
from packhouse.epochs.request import EpochRequest, LoadArguments, split_arguments
from packhouse.epochs.settings import (
    Dynamic,
    LoaderSettings,
    LoaderStart,
    LoaderState,
    OnExisting,
    Ranked,
    nobody_else_loads,
    restarts,
    sharing_of,
    warn_of_begun,
    words_for_finished,
)
from packhouse.v1 import loader_pb2

if TYPE_CHECKING:
    from typing_extensions import Unpack

_Item = TypeVar("_Item")


class _Place:
    """Where a loader is in its epoch: of one generation."""

    def __init__(self) -> None:
        # Of the first stream in this generation: its counts are those of when this worker came.
        self.first_opened: Any = None
        # Whether the server was asked what loading would find.
        self.is_asked = False
        self.schema = GraphSchema()
        self.epoch_rows: EpochRows | None = None
        self.generation = 0
        self.session = 0
        self.given = GivenBatches()
        # What has come and is not given out yet, in its order; the first one perhaps is (`handed`).
        self.ahead: deque[LoadedBatch] = deque()
        # Given out last.
        self.handed: LoadedBatch | None = None
        # All has come and is durable; and iterating has said so.
        self.is_over = False
        self.has_ended = False
        self.is_restart = False

    def settle(self) -> None:
        """What was given out is no longer ahead."""
        ahead = self.ahead
        if ahead and ahead[0] is self.handed:
            ahead.popleft()

    def has_ahead(self, number: int) -> bool:
        """Whether this batch has come, and is ahead."""
        return any(batch.id == number for batch in self.ahead)

    def has_all(self) -> bool:
        """Whether all batches have come."""
        ahead, given = self.ahead, self.given
        return given.has_all_with([batch.number for batch in ahead])

    def in_hand(self) -> LoadedBatch | None:
        """Given out last, and not acknowledged yet."""
        batch = self.handed
        return batch if batch is not None and batch.id in self.given.held else None


@names_init_arguments
class Loader(Iterator[LoadedBatch]):
    """The batches of one worker, epoch by epoch; each graph of an epoch reaches one worker once.

        loader = Loader("localhost:50051", dataset="molhiv", job="run-1", seed=7, rank=0,
                        num_ranks=2, limits={"nodes": 512, "edges": 1152, "graphs": 32})
        for epoch in range(10):
            loader.set_epoch(epoch)
            for batch in loader:
                train(batch)

    A batch is acknowledged when the next one is asked for, so never while it is being trained on.
    The last one is acknowledged when one more is asked for or, if all `len` steps were given out,
    by `set_epoch` of another epoch and by leaving the `with` block, or calling `close`, unless an
    exception is under way; so trainers that count steps finish their epochs. `state_dict`
    acknowledges whatever was given out last.
    With acknowledge="manual" you acknowledge it yourself. If this worker dies, batches that it has
    not acknowledged come again, to this worker or to another. A thread of its own sends
    acknowledgements, those of about 30 ms together. They are durable at the latest when the
    iteration ends. `max_in_flight` also bounds the speed, because an acknowledgement waits for the
    server's disk: take 64 for thousands of batches a second.

    An epoch that was begun or finished before this loader came to it raises EpochBegunError or
    EpochFinishedError, because only the rest of it, or no batch, would come: a job was run again
    under its name, or with ranks of another number, or an epoch was set a second time. `on_existing`
    can say otherwise. (Of several ranks each looks at its own steps, and at what was done before they
    were dealt; a dynamic worker that comes to a begun epoch which nobody else loads says so by an
    EpochBegunWarning.) For validation use `Evaluation`: the server keeps nothing of it. A
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

    An exception of any kind that is raised while a batch is waited for, as KeyboardInterrupt or one
    of a signal handler of yours, leaves the loader as it was: what was not given out is given out
    next. So does a wait of `async for` that is cancelled.

    Connects when it is first asked for something, not when it is made. Use it from one thread; only
    `acknowledge` and `flush` may be called from any. Worker processes that read for a trainer: see
    `EpochReaders`. gRPC does not survive a fork: fork before a loader is used, or start processes
    by spawning: a loader can be pickled, and the copy starts where this one's epoch was set or its
    state was loaded.
    """

    @shows_arguments_of(LoadArguments)
    def __init__(
        self,
        address: str,
        *,
        job: str,
        rank: Uint32 | None = None,
        num_ranks: Uint32 | None = None,
        drop_last: bool = False,
        worker: str | None = None,
        rank_group: Uint32 = 0,
        max_in_flight: Uint32 = 0,
        attempt: str | None = None,
        acknowledge: Literal["automatic", "manual"] = "automatic",
        on_existing: OnExisting = "error",
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

        `on_existing` says what to do with an epoch of which something was done before, by an earlier
        run under the job's name. "error" raises EpochBegunError or EpochFinishedError; "resume" gives
        the rest, of a finished epoch nothing: workers that crash and come again without a state say
        so. "restart" loads it again from its start, and
        forgets what was done of it and of the job's later epochs; dynamic workers need an `attempt`
        for that, and so do several ranks of which each may come at any time. A loaded state goes on
        from where it was, whatever this says.
        """
        connecting, writable, rest = split_arguments(arguments, address, job, max_in_flight)
        request = EpochRequest(rest, job)
        sharing = sharing_of(request, rank, num_ranks, drop_last, worker, rank_group)
        if acknowledge not in ("automatic", "manual"):
            raise ValueError(f"acknowledge {acknowledge!r} is neither 'automatic' nor 'manual'")
        self._settings = LoaderSettings(
            connecting,
            request,
            sharing,
            is_placed=worker is not None or rank is not None or num_ranks is not None,
            attempt=attempt or "",
            manual=acknowledge == "manual",
            on_existing=on_existing,
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
        self._is_manual = self._settings.manual
        # Drawn where a first try, whose answer was lost, and the next are to be known for the same.
        self._drawn_attempt = ""
        self._attempt_is_used = False
        # Whether an epoch has ended here: then the next one may be over before this worker comes.
        self._has_ended_one = False
        self._connection: LoadConnection | None = None
        # Of the connection before.
        self._transport: Transport = "bytes"
        self._finalizer: Any = None
        # Held by the thread that waits for batches: of waits that `async for` has left, another one.
        self._reading = threading.RLock()
        # Counts what ends such waits.
        self._num_interrupts = 0
        self._place = _Place()

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
    def has_ended(self) -> bool:
        """Whether iterating has given all of the epoch, and said so: then `set_epoch` must follow."""
        return self._place.has_ended

    @property
    def cursor(self) -> str:
        """The state of all workers when this one's last acknowledgement became durable; "" before.

        Dynamic workers keep it in checkpoints; `state_dict` is more exact.
        """
        return self._connection.acknowledger.cursor if self._connection is not None else ""

    @property
    def transport(self) -> Transport:
        """How batches come, or came last: "lane" or "bytes", which it is before any has come. See
        `lane` in `ConnectionArguments`.
        """
        return self._transport if self._connection is None else self._connection.transport

    @property
    def generation_cursor(self) -> str:
        """The start of the present generation: a loader that starts from it loads the same again.
        Waits for the server.
        """
        return str(self._open().cursor)

    @property
    def num_steps_done(self) -> int:
        """How many steps were done before this worker came: `len` more come."""
        return int(self._open().num_steps_done)

    def set_epoch(self, epoch: int) -> None:
        """Iterating gives that epoch from now on, from where the job's workers have got to.

        Does nothing if it is the present epoch and has not ended. Otherwise makes all
        acknowledgements durable first. Iterating raises EpochBegunError or EpochFinishedError if
        something of it was done before, unless `on_existing` says otherwise.
        """
        epoch = whole_number(epoch, "epoch", UINT64_MAX)
        if epoch == self.epoch and not self._place.has_ended:
            return
        self._acknowledge_last()
        self.flush()
        self._leave()
        if epoch <= self.epoch:
            self._has_ended_one = False
        self._go_to(LoaderStart(epoch, attempt=self._start.attempt))

    def _go_to(self, start: LoaderStart) -> None:
        # At once: an exception between would give what is left of one epoch as the other's.
        self._start, self._place = start, _Place()

    def epoch_info(self) -> EpochInfo:
        """What the epoch is like, and how far it is now. Errors: as iterating."""
        request = loader_pb2.GetEpochRequest(
            epoch=self._settings.of_epoch(self.epoch), company=True
        )
        return EpochInfo.from_proto(self._connect().call("GetEpoch", request))

    def __repr__(self) -> str:
        """Asks no server."""
        connecting = self._settings.connecting
        return (
            f"Loader({connecting.address!r}, job={connecting.job!r}, "
            f"{self._settings.request.source}, epoch={self.epoch})"
        )

    def __len__(self) -> int:
        """Steps that iterating gives this worker in this epoch from where it came to it:
        `num_steps_done` are done before. (Dynamic: the batches of its profile that are left.)

        Asks the server, and waits for it for up to `retry_timeout` seconds. Begins to load if
        something is done and no state was loaded, to raise what iterating would.
        """
        if self._place.first_opened is None:
            share = self._share()
            if isinstance(self._settings.sharing, Dynamic) or self._start.cursor:
                return share.num_left
            if not share.is_begun:
                return share.num_left
        opened = self._open()
        return int(opened.num_steps - opened.num_steps_done)

    def _share(self) -> EpochShare:
        """What loading would find now."""
        epoch = self._connect().call("GetEpoch", self._share_request())
        return EpochShare.from_proto(epoch.share)

    def _share_request(self) -> Any:
        request = loader_pb2.GetEpochRequest(epoch=self._settings.of_epoch(self.epoch))
        self._say_who_loads(request)
        return request

    def __iter__(self) -> Loader:
        """Goes on after the batch given out last. Raises ValueError if the epoch has ended."""
        if self._place.has_ended:
            raise ValueError(f"epoch {self.epoch} has ended: call set_epoch")
        return self

    def __aiter__(self) -> AsyncIterator[LoadedBatch]:
        """As iterating, but waits on another thread. Leaving early, or a wait that is cancelled,
        loses nothing: go on with any loop.
        """
        waiting = _AsyncWaits(iter(self))
        return AsyncItems(waiting, waiting.leave)

    def __next__(self) -> LoadedBatch:
        batch = self._peek(0, None)
        if batch is None:
            place = self._place
            place.has_ended = self._has_ended_one = True
            raise StopIteration
        return self.hand_over(batch, batch)

    def peek(self, index: int = 0) -> LoadedBatch | None:
        """What iterating gives after `index` other batches; waits for it. None after the last one.

        Asks for the next batch, so acknowledges the one given out last. Does not give it out:
        whatever happens, it is still ahead. With an index above 0 it does not wait for the end of
        the epoch, but counts its batches. Errors: as iterating.
        """
        return self._peek(index, None)

    def _peek(self, index: int, is_left: Callable[[], bool] | None) -> LoadedBatch | None:
        """The same, until the wait `is_left`."""
        # Here and below: for each batch, calls of functions would cost more than what they do.
        place = self._place
        handed, ahead = place.handed, place.ahead
        connection: LoadConnection | None = None
        if handed is not None and not self._is_manual and handed.id in place.given.held:
            connection = self._connect()
            self._acknowledge(handed, connection)
        # What was given out is no longer ahead.
        if ahead and ahead[0] is handed:
            ahead.popleft()
        if len(ahead) <= index:
            if place.is_over:
                return None
            self._read_until(place, index + 1, is_left, connection)
            if len(ahead) <= index:
                return None
        return ahead[index]

    def hand_over(self, batch: LoadedBatch, item: _Item) -> _Item:
        """`item`, which was made of what `peek` gave: from now on it is given out."""
        place = self._place
        place.given.give(batch.id, batch.step)
        before = place.handed
        try:
            # Nothing is called from here to the caller: between, Python runs no signal handler.
            place.handed = batch
            return item
        except BaseException:
            place.handed = before
            raise

    def look_again(self) -> None:
        """What is ahead comes once more from the server: its arrays may have been written to."""
        with self._reading:
            self._place.ahead.clear()
            if self._connection is not None:
                self._connect().abandon()

    def interrupt(self) -> None:
        """Ends a wait that another thread is in, with PackhouseError (CANCELLED)."""
        self._num_interrupts += 1
        self._look_why()

    def _look_why(self) -> None:
        """Whoever waits for a batch looks whether its wait has been left, or goes on."""
        if self._connection is not None:
            self._connection.interrupt()

    @property
    def handed(self) -> LoadedBatch | None:
        """The batch given out last, of this epoch."""
        return self._place.handed

    @property
    def has_given_all(self) -> bool:
        """Whether all batches of this worker have been given out."""
        place = self._place
        place.settle()
        return not place.ahead and place.has_all()

    def acknowledge_in_hand(self) -> None:
        """Acknowledges the batch given out last, unless that has been done."""
        place = self._place
        batch = place.handed
        if batch is not None and batch.id in place.given.held:
            self._acknowledge(batch, self._connect())

    def _acknowledge_last(self) -> None:
        """The same, if all steps have been given out: whoever counts steps asks for no more."""
        if not self._settings.manual and self.has_given_all:
            self.acknowledge_in_hand()

    def _read_until(
        self,
        place: _Place,
        count: int,
        is_left: Callable[[], bool] | None,
        connection: LoadConnection | None,
    ) -> None:
        """Waits until so many batches are ahead, or the epoch has no more, or the wait is left. By
        that connection, or a new one.
        """
        interrupts = self._num_interrupts
        given, ahead = place.given, place.ahead
        with self._reading:
            # Another thread may have closed it meanwhile.
            if connection is None or connection is not self._connection:
                connection = self._connect()
            try:
                while len(ahead) < count and not place.is_over:
                    may_have_all = len(given.given) + len(ahead) >= given.num_expected
                    if may_have_all and self._needs_no_end(place):
                        break
                    # Else a worker that was rolled back might wait for ever.
                    connection.check()
                    received = self._receive(connection, interrupts, is_left)
                    if type(received) is ReceivedBatch:
                        number = received.id
                        if number not in given.given and not (ahead and place.has_ahead(number)):
                            ahead.append(
                                LoadedBatch.of_loaded_parts(
                                    received,
                                    place.schema,
                                    place.generation,
                                    place.session,
                                    place.epoch_rows,
                                )
                            )
                            if len(ahead) >= count:
                                return
                    elif received.WhichOneof("message") == "end_of_epoch":
                        connection.finish()
                        self._finish(place)
                if not (ahead or place.is_over) and count == 1:
                    self._finish(place)
            except BaseException as failure:
                # Whatever was under way, a new stream gives what was not taken.
                connection.abandon(is_interrupted=is_foreign(failure))
                raise

    def _finish(self, place: _Place) -> None:
        self.flush()
        self._leave()
        place.is_over = True

    def acknowledge(self, batch: LoadedBatch) -> None:
        """Says that this batch is done; it is sent soon. Callable from any thread; the batch may
        come from another process's loader.

        Raises PackhouseError if an earlier acknowledgement has failed.
        """
        self._acknowledge(batch, self._connect())

    def _acknowledge(self, batch: LoadedBatch, connection: LoadConnection) -> None:
        connection.acknowledger.add(batch.lease)
        if self._place.given.acknowledge(batch.id):
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
        if not self._settings.manual:
            self.acknowledge_in_hand()
        self.flush()
        if isinstance(self._settings.sharing, Ranked):
            steps = self._place.given.steps_done()
            if steps is None:
                steps = int(self._place.first_opened.num_steps_done)
            cursor = self.cursor_at_step(steps)
        else:
            request = loader_pb2.AcknowledgeRequest(
                job=self._settings.request.job,
                epoch=self.epoch,
                generation=generation,
                session=self._place.session,
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
        self._has_ended_one = False
        self._go_to(LoaderStart(state["epoch"], state["cursor"], attempt or given))

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
        """Tries for some seconds to send what is acknowledged, and disconnects; using it again
        connects again. If all steps were given out, the last one is acknowledged, unless an
        exception is being handled.
        """
        connection, finalizer = self._connection, self._finalizer
        if connection is None:
            return
        if sys.exc_info()[0] is None and connection.pid == os.getpid():
            # Else it comes again.
            with contextlib.suppress(PackhouseError):
                self._acknowledge_last()
        if connection.pid == os.getpid():
            self._leave()
        connection.close()
        self._transport, self._connection = connection.transport, None
        # What holds no connection holds nothing of gRPC's, so that a fork is safe.
        if finalizer is not None:
            finalizer.detach()

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
            epoch=self._settings.of_epoch(self.epoch),
            max_in_flight=self._settings.connecting.max_in_flight,
        )
        self._say_who_loads(request)
        return request

    def _say_who_loads(self, request: Any) -> None:
        """In a `packhouse.v1.LoadRequest` or `GetEpochRequest`."""
        request.attempt = self.start.attempt
        self._settings.sharing.to_proto(request)
        if self._place.first_opened is not None:
            request.generation = self._place.first_opened.generation
        elif self._start.generation is not None:
            request.generation = self._start.generation
        else:
            request.cursor = self._start.cursor

    def _connect(self) -> LoadConnection:
        connection = self._connection
        if connection is None:
            connection = LoadConnection(
                self._settings.connecting, writable=self._settings.writable
            )
            # Also when the loader is dropped, or the interpreter ends.
            self._finalizer = weakref.finalize(self, connection.close)
            self._connection = connection
        if connection.pid != os.getpid():
            raise RuntimeError(
                f"this loader was connected by process {connection.pid} before a fork, which "
                "gRPC does not survive: close it before the fork, or start processes by spawning"
            )
        return connection

    def _open(self) -> Any:
        """The `packhouse.v1.LoadOpened` of the first stream in this generation; waits for it."""
        place = self._place
        if place.first_opened is None:
            interrupts = self._num_interrupts
            with self._reading:
                connection = self._connect()
                try:
                    while place.first_opened is None:
                        self._receive(connection, interrupts, None)
                except BaseException as failure:
                    connection.abandon(is_interrupted=is_foreign(failure))
                    raise
        return place.first_opened

    def _receive(
        self, connection: LoadConnection, interrupts: int, is_left: Callable[[], bool] | None
    ) -> Any:
        """A batch, or another `packhouse.v1.LoadResponse`, of the present stream or a new one.

        Until the wait `is_left`, or there are more interrupts than that.
        """
        backoff: Backoff | None = None
        while True:
            if self._num_interrupts != interrupts or (is_left is not None and is_left()):
                raise PackhouseError(grpc.StatusCode.CANCELLED, "the wait for a batch was left")
            try:
                epoch = None
                if self._place.first_opened is None:
                    epoch = self._ask_first(connection)
                if epoch is None:
                    received = connection.receive(self._load_request)
                    if type(received) is ReceivedBatch:
                        return received
                    break
            except PackhouseError as error:
                connection.leave()
                connection.check()
                if backoff is None:
                    backoff = Backoff(
                        self._settings.connecting.retry_timeout,
                        connection.longest_delay,
                        connection.describe("Load"),
                    )
                delay = backoff.delay_after(error)
            else:
                self._accept(epoch, is_loading=False)
                self._place.is_asked = True
                continue
            if self._num_interrupts == interrupts and (is_left is None or not is_left()):
                time.sleep(delay)
        if received.HasField("opened"):
            opened = received.opened
            place = self._place
            if place.first_opened is None and not self._accept(opened.epoch, is_loading=True):
                connection.leave()
                return self._receive(connection, interrupts, is_left)
            place.session = opened.session
            connection.acknowledger.renew(self.epoch, opened.generation, opened.session)
            if place.first_opened is None:
                place.schema = GraphSchema.from_proto(opened.schema)
                place.epoch_rows = EpochRows.of(opened.epoch)
                place.generation = opened.generation
                self._attempt_is_used = True
                if not opened.num_steps_is_estimate:
                    place.given.expect(opened.num_steps - opened.num_steps_done)
                elif self._settings.manual and not isinstance(self._settings.sharing, Dynamic):
                    # The caller must know which batch is the last one before its acknowledgement.
                    raise ValueError(
                        "samples: acknowledging by hand, and reading in other processes, need "
                        "Samples.exact_steps"
                    )
                # Last: an exception before has all done again.
                place.first_opened = opened
        return received

    def _ask_first(self, connection: LoadConnection) -> Any:
        """The `packhouse.v1.Epoch` as loading would find it, if that may be a reason not to load:
        loading itself may end the generation of those who do. None: load. Raises PackhouseError.
        """
        place, settings, start = self._place, self._settings, self._start
        if place.is_asked or not settings.looks_at_epoch or settings.on_existing == "resume":
            return None
        if start.cursor or start.generation is not None:
            return None
        request = self._share_request()
        try:
            return connection.get_epoch(request)
        except PackhouseError as error:
            if error.passes and error.code is not grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
            # Load waits as long as planning takes, and says itself what else is wrong.
            place.is_asked = True
            return None

    def _accept(self, epoch: Any, *, is_loading: bool) -> bool:
        """Whether to go on with a `packhouse.v1.Epoch` that this loader has come to, or would come to;
        False: ask for it again.
        """
        if not self._settings.looks_at_epoch:
            return True
        if is_loading:
            check_not_empty(epoch, 6)
        is_restart = self._restarts(epoch, is_loading)
        if is_restart:
            self._place.is_restart = True
            self._start = dataclasses.replace(self._start, cursor=epoch.start_cursor)
            if self._is_alone and not self._start.attempt:
                self._drawn_attempt = uuid.uuid4().hex
        return not is_restart

    def _restarts(self, epoch: Any, is_loading: bool) -> bool:
        """Whether it is to be loaded anew. Raises EpochBegunError and EpochFinishedError."""
        sharing = self._settings.sharing
        share = EpochShare.from_proto(epoch.share)
        is_open = share.is_estimate or share.num_left > 0
        if is_open or not epoch.num_batches or not sharing.all_done(epoch):
            # What other ranks have done says nothing.
            if self._start.cursor or not share.is_begun:
                return False
            if isinstance(sharing, Dynamic):
                if is_loading:
                    self._warn_if_alone(epoch)
                return False
            return restarts(
                epoch, share, self._settings.on_existing, sharing, self._start.attempt, "loader"
            )
        if isinstance(sharing, Dynamic) and self._has_ended_one:
            # The others were faster.
            return False
        if not self._start.cursor:
            attempt = self._start.attempt
            return restarts(epoch, None, self._settings.on_existing, sharing, attempt, "loader")
        if self._place.is_restart:
            raise EpochFinishedError(
                f"{words_for_finished(epoch, 'loader')}, by attempt {self._start.attempt!r} too: "
                "name a new attempt to start it anew"
            )
        # A state that says so.
        return False

    def _warn_if_alone(self, epoch: Any) -> None:
        """Of an epoch of dynamic workers that was begun, by others of this run or not."""
        if self._has_ended_one or self._settings.on_existing == "resume":
            return

        def get_job() -> Any:
            request = loader_pb2.GetJobRequest(job=self._settings.request.job)
            return self._connect().call("GetJob", request)

        if nobody_else_loads(epoch, get_job, num_own=1):
            warn_of_begun(epoch, "loader", 8)

    def _needs_no_end(self, place: _Place) -> bool:
        """Whether all has come, and waiting for the server's word would be waiting for the caller,
        who has not acknowledged all.
        """
        if isinstance(self._settings.sharing, Dynamic) or not place.has_all():
            return False
        return self._settings.manual or bool(place.ahead) or place.in_hand() is not None

    def _leave(self) -> None:
        """Ends the stream, and what another thread may wait for."""
        connection = self._connection
        if connection is None:
            return
        self._connect()
        while not self._reading.acquire(timeout=0.05):
            self.interrupt()
        try:
            connection.leave()
        finally:
            self._reading.release()


class _AsyncWaits:
    """The waits of one `async for`, which end when that is gone: those of others go on, also if it
    goes late, as an exception that is still handled has it.
    """

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._is_left = False

    def peek(self) -> LoadedBatch | None:
        return self._loader._peek(0, lambda: self._is_left)

    def __next__(self) -> LoadedBatch:
        return next(self._loader)

    def leave(self) -> None:
        """Ends a wait that another thread is in."""
        self._is_left = True
        self._loader._look_why()
