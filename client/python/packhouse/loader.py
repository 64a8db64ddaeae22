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

import grpc
import grpc.experimental

from packhouse.acknowledging import Acknowledger, Lease
from packhouse.backoff import Backoff
from packhouse.batch import DerivedTensor, Padding, tensors_of
from packhouse.batch_reader import BatchReader, ReceivedBatch, parse_response
from packhouse.client import MAX_MESSAGE_BYTES
from packhouse.epoch import (
    EpochInfo,
    GraphSubset,
    LoadedBatch,
    RankProfile,
    Sampling,
    subset_to_proto,
)
from packhouse.errors import PackhouseError
from packhouse.packing import OversizePolicy
from packhouse.schema import GraphSchema
from packhouse.tuning import DeviceProfile
from packhouse.v1 import loader_pb2, loader_pb2_grpc

_LOAD_METHOD: Final = "/packhouse.v1.LoaderService/Load"

# The server's, for max_in_flight 0.
_DEFAULT_IN_FLIGHT: Final = 16

# Connections of processes that this one was forked from: to be neither used nor taken apart.
_INHERITED: Final[list[Any]] = []


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

    If the connection breaks or the server restarts, the loader goes on by itself, for
    `retry_timeout` seconds of failing in a row; batches that come again because of that are not
    given out twice. If the trainer has been started anew elsewhere, or rolled back, iterating ends
    with PackhouseError (FAILED_PRECONDITION). Other errors: see `packhouse.v1.LoaderService.Load`.

    Connects when it is first asked for something, not when it is made. Use it from one thread, but
    for `acknowledge` and `flush`, which may be called from any. gRPC does not survive a fork: fork
    before a loader is used or after `close`, or start processes by spawning: a loader can be
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
        padding: Padding = Padding.NONE,
        derived: Sequence[DerivedTensor] = (),
        sizes_only: bool = False,
        oversize: OversizePolicy = OversizePolicy.REJECT,
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
        retry_timeout: float = 60.0,
        timeout: float = 60.0,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
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
        have a deadline of `timeout` seconds.
        """
        self._address = address
        self._profiles = _profiles_of(limits, shapes, device_profile, profiles)
        self._spec = loader_pb2.EpochSpec(
            dataset=dataset,
            job=job,
            seed=seed,
            profiles=[profile.to_proto() for profile in self._profiles],
            padding=int(padding),
            derived=[int(tensor) for tensor in derived],
            payload="PAYLOAD_SIZES" if sizes_only else "PAYLOAD_UNSPECIFIED",
            oversize_policy=int(oversize),
            in_order=in_order,
            look_ahead=look_ahead,
            grouped=grouped,
            subset=None if subset is None else subset_to_proto(subset),
            sampling=None if sampling is None else sampling.to_proto(),
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
        self._retry_timeout = retry_timeout
        self._timeout = timeout
        self._max_message_bytes = max_message_bytes
        self._epoch = 0
        self._start_cursor = ""
        self._attempt_is_used = False
        self._drawn_attempt = ""
        self._begin()

    def _begin(self) -> None:
        """Makes what is neither pickled nor survives a change of the epoch."""
        self._connection: _Connection | None = None
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
        for name in ("_connection", "_lock", "_current", "_first_opened"):
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
        durable first.
        """
        if epoch == self._epoch and not self._ended:
            return
        self.flush()
        self._leave()
        self._epoch = epoch
        self._start_cursor = ""
        self._forget_position()

    def epoch_info(self) -> EpochInfo:
        """What the epoch is like, and how far it is now. Errors: see `packhouse.v1.GetEpoch`."""
        request = loader_pb2.GetEpochRequest(epoch=self._epoch_spec())
        return EpochInfo.from_proto(self._connect().call("GetEpoch", request))

    def __len__(self) -> int:
        """Steps of this worker in this epoch (dynamic: batches of its profile), done ones included.

        Asks the server; begins to load if a state was loaded, as that decides what is left.
        """
        if self._first_opened is not None or self._start_cursor:
            return int(self._open().num_steps)
        info = self.epoch_info()
        if self._worker is not None:
            return info.profiles[self._profile].num_batches
        steps = []
        for profile, of_epoch in zip(self._profiles, info.profiles, strict=True):
            ranks = profile.num_ranks if len(self._profiles) > 1 else self._num_ranks
            whole, rest = divmod(of_epoch.num_batches, ranks)
            steps.append(whole if self._drop_last or not rest else whole + 1)
        return min(steps) if self._drop_last else max(steps)

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
                    if not self._manual:
                        self._current = batch
                    return batch
            elif received.WhichOneof("message") == "end_of_epoch":
                connection.finish()
                break
        self._end()

    def acknowledge(self, batch: LoadedBatch) -> None:
        """This batch is done: will be sent soon. From any thread, and any process's loader.

        Raises PackhouseError if an earlier acknowledgement has failed.
        """
        self._acknowledge(batch, self._connect())

    def _acknowledge(self, batch: LoadedBatch, connection: _Connection) -> None:
        if self._current is not None and self._current.number == batch.number:
            self._current = None
        connection.acknowledger.add(
            Lease(batch.epoch, batch.generation, batch.session, batch.number)
        )
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
        else:
            request.dynamic.worker = self._worker
            request.dynamic.profile = self._profile
        if self._first_opened is not None:
            request.generation = self._first_opened.generation
        else:
            request.cursor = self._start_cursor
        return request

    def _connect(self) -> _Connection:
        if self._connection is None:
            self._connection = _Connection(
                self._address,
                self._spec.job,
                self._timeout,
                self._retry_timeout,
                self._max_message_bytes,
                self._max_in_flight or _DEFAULT_IN_FLIGHT,
            )
            # Also when the loader is dropped, or the interpreter ends.
            weakref.finalize(self, self._connection.close)
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

    def _receive(self, connection: _Connection) -> Any:
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
            self._session = opened.session
            connection.acknowledger.renew(self._epoch, opened.generation, opened.session)
            if self._first_opened is None:
                self._schema = GraphSchema.from_proto(opened.schema)
                self._attempt_is_used = True
                self._first_opened = opened
                self._num_left = opened.num_steps - opened.num_steps_done
        return received

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
        raise StopIteration

    def _leave(self) -> None:
        if self._connection is not None:
            self._connect().leave()


class _Connection:
    """What a loader has open, in the process that made it."""

    def __init__(
        self,
        address: str,
        job: str,
        timeout: float,
        retry_timeout: float,
        max_message_bytes: int,
        max_in_flight: int,
    ) -> None:
        self.pid = os.getpid()
        self._address = address
        self._timeout = timeout
        self._retry_timeout = retry_timeout
        self._options = [
            ("grpc.max_receive_message_length", max_message_bytes),
            ("grpc.max_send_message_length", max_message_bytes),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 2000),
            # A server that is gone without a word is noticed; it allows pings of this frequency.
            ("grpc.keepalive_time_ms", 60_000),
            ("grpc.keepalive_timeout_ms", 20_000),
        ]
        # For unary calls: those of any thread.
        self._channel = grpc.insecure_channel(address, options=self._options)
        self._stub = loader_pb2_grpc.LoaderServiceStub(self._channel)
        self.acknowledger = Acknowledger(
            lambda request: self._call_once("Acknowledge", request),
            job,
            retry_timeout,
            self._wake,
            # The server goes on sending meanwhile.
            gather=max(1, max_in_flight // 4),
        )
        # For Load alone. Anew after a failure: gRPC would wait longer and longer with an old one.
        self._load_channel: Any = None
        self._load: Any = None
        self._reader = BatchReader(is_loaded=True)
        # Whether Load was cancelled for its reader to look at the acknowledgements.
        self._woken = False

    def call(self, method: str, request: Any) -> Any:
        """A unary call that is safe to retry, and is. Raises PackhouseError."""
        backoff = Backoff(self._retry_timeout)
        while True:
            try:
                return self._call_once(method, request)
            except PackhouseError as error:
                time.sleep(backoff.delay_after(error))

    def receive(self, make_request: Callable[[], Any]) -> Any:
        """The next batch, or another `packhouse.v1.LoadResponse`; of a new call if there is none.

        Raises PackhouseError, UNAVAILABLE also if the stream ends; ValueError if a batch
        contradicts itself.
        """
        try:
            if self._load is None:
                if self._load_channel is None:
                    self._load_channel = grpc.insecure_channel(
                        self._address,
                        options=[
                            *self._options,
                            # Reads on the caller's thread: ten times as many messages a second.
                            (grpc.experimental.ChannelOptions.SingleThreadedUnaryStream, 1),
                        ],
                    )
                start_load = self._load_channel.unary_stream(
                    _LOAD_METHOD, request_serializer=loader_pb2.LoadRequest.SerializeToString
                )
                self._woken = False
                self._load = start_load(make_request())
            response: bytes = next(self._load)
        except StopIteration:
            raise PackhouseError(
                grpc.StatusCode.UNAVAILABLE, "the stream ended before the epoch did"
            ) from None
        except grpc.RpcError as error:
            # Not chained: the error is the call, and would keep it alive.
            failure = PackhouseError.of(error)
        else:
            return self._reader.read(response) or _parse(response)
        if self._woken:
            failure = PackhouseError(grpc.StatusCode.UNAVAILABLE, "acknowledging has failed")
        raise failure

    def finish(self) -> None:
        """Takes Load's own end after an epoch's; the next one comes by the same connection."""
        try:
            for _ in self._load:
                pass
            self._load = None
        except grpc.RpcError:  # All has come, however the stream ends.
            self.leave()

    def leave(self) -> None:
        """Ends Load, if it runs."""
        load, self._load = self._load, None
        if load is not None:
            load.cancel()
            self._load_channel.close()
            self._load_channel = None

    def close(self) -> None:
        """Tries to send what is acknowledged, and disconnects. Idempotent."""
        if self.pid != os.getpid():
            _INHERITED.append(self)
            return
        self.leave()
        if self._load_channel is not None:
            self._load_channel.close()
        self.acknowledger.close()
        self._channel.close()

    def _wake(self) -> None:
        """Lets a thread that waits in `receive` look why nothing comes."""
        load = self._load
        if load is not None:
            self._woken = True
            load.cancel()

    def _call_once(self, method: str, request: Any) -> Any:
        try:
            return getattr(self._stub, method)(request, timeout=self._timeout)
        except grpc.RpcError as error:
            raise PackhouseError.of(error) from None


def _parse(data: bytes) -> Any:
    response = parse_response(loader_pb2.LoadResponse, data)
    if not response.HasField("batch"):
        return response
    message = response.batch
    return ReceivedBatch(message.batch, tensors_of(message.batch), message)


def _profiles_of(
    limits: Mapping[str, int] | None,
    shapes: Sequence[Mapping[str, int]] | None,
    device_profile: DeviceProfile | None,
    profiles: Sequence[RankProfile] | None,
) -> tuple[RankProfile, ...]:
    ways = {
        "limits": limits is not None,
        "shapes": shapes is not None,
        "device_profile": device_profile is not None,
        "profiles": profiles is not None,
    }
    given = [name for name, is_given in ways.items() if is_given]
    if len(given) != 1:
        raise ValueError(
            f"one of limits, shapes, device_profile, profiles is needed; given: {given or 'none'}"
        )
    if profiles is not None:
        return tuple(profiles)
    if limits is not None:
        shapes = (limits,)
    return (RankProfile(shapes or (), device_profile),)
