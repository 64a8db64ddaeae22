"""The client: start here."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping, Sequence

import grpc

from packhouse.base.arguments import check_each, names_arguments
from packhouse.base.errors import PackhouseError
from packhouse.calls.channel import MAX_MESSAGE_BYTES, ChannelOptions, make_channel
from packhouse.calls.credentials import Credentials
from packhouse.calls.retrying import UnaryCalls
from packhouse.calls.servers import JobCalls, Servers, addresses_of, first_that_answers
from packhouse.data.batch import Padding, PaddingLike
from packhouse.data.examples import TfgnnSchema, messages_of
from packhouse.data.graphs import GraphTable, Sizes, tables_of_sizes
from packhouse.data.histogram import Histogram
from packhouse.data.schema import GraphSchema
from packhouse.planning.pack_options import OnRejected, PackOptions, limits_to_proto
from packhouse.planning.packing import (
    ExampleRequests,
    PackStream,
    RequestQueue,
    pack_method,
    pack_of_schema,
    pack_tables,
)
from packhouse.planning.plans import Plan, PlanHeuristic
from packhouse.planning.tuning import DeviceProfile, OnProgress, TuneObjective, Tuning
from packhouse.v1 import planning_pb2, planning_pb2_grpc

# A noun's module is imported when the noun is used first.
if TYPE_CHECKING:
    from packhouse.client.datasets import Datasets
    from packhouse.epochs.receipts import Receipts
    from packhouse.large.partitions import Partitions
    from packhouse.large.source_graphs import SourceGraphs
    from packhouse.large.sub_graphs import Sampling
    from packhouse.stored.administration import Administration
    from packhouse.stored.feedback import Feedback
    from packhouse.stored.histograms import Histograms
    from packhouse.stored.jobs import Jobs


@names_arguments
class Client:
    """A connection to one server, of its own; use it as a context manager.

    What the server keeps is said by noun: `datasets`, `histograms`, `jobs`, `source_graphs`,
    `samples` and `partitions` of them, `feedback`, `receipts`, `administration`. What it computes
    of what is sent are methods here: `pack`, `plan`, `tune`.

    Unary calls have a deadline of `timeout` seconds. Failed calls raise PackhouseError; calls that
    are safe to retry have been retried for some seconds by then (see `packhouse.calls.channel`). All
    methods may be called from any thread; for several streams at full speed give each its own
    Client. At most 64 calls and streams are open at a time (`--max-streams-per-connection` of the
    server); further ones wait until others are over. Where several servers share jobs, calls about
    one job go on to the server that has it. gRPC does not survive a fork: fork before one is made,
    or spawn processes.
    """

    def __init__(
        self,
        address: str,
        *,
        connect_timeout: float = 10.0,
        timeout: float = 60.0,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        options: ChannelOptions = (),
        credentials: Credentials | None = None,
    ) -> None:
        """Connects to HOST:PORT or unix:PATH, and waits until it is connected. Of several addresses
        with commas between them, as a Loader takes them, to the first that answers; while it is
        away, unary calls that are safe to repeat go on at the next.

        `credentials`: for TLS and tokens; None for those of the environment, if there are any.
        `options` are gRPC's channel arguments: see `packhouse.calls.channel.make_channel`. Raises
        PackhouseError with UNAVAILABLE after `connect_timeout` seconds, and with INVALID_ARGUMENT
        if `address` names no server.
        """
        def connect(to: str) -> grpc.Channel:
            return make_channel(
                to,
                max_message_bytes=max_message_bytes,
                options=options,
                credentials=credentials,
            )

        addresses = addresses_of(address)
        self._channel, self._address = first_that_answers(connect, addresses, connect_timeout)
        self._servers = Servers(self._channel, self._address, connect, addresses)
        self._call = UnaryCalls(self._address, timeout)
        self._job_calls = JobCalls(self._servers, connect)
        self._pack = pack_method(self._servers, self._address)
        self._planning = planning_pb2_grpc.PlanningServiceStub(self._servers)

    def __repr__(self) -> str:
        return f"Client({self._address!r})"

    def close(self) -> None:
        """Cancels what still runs and disconnects. Idempotent."""
        self._job_calls.close()
        self._servers.close()
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @functools.cached_property
    def datasets(self) -> Datasets:
        """The server's data sets: graphs that are stored, and loaded epoch by epoch."""
        from packhouse.client.datasets import Datasets

        return Datasets(self._servers, self._call)

    @functools.cached_property
    def histograms(self) -> Histograms:
        """Histograms of sizes that the server keeps by name."""
        from packhouse.stored.histograms import Histograms

        return Histograms(self._servers, self._call)

    @functools.cached_property
    def jobs(self) -> Jobs:
        """Jobs of loaders, with the epochs that they have begun."""
        from packhouse.stored.jobs import Jobs

        return Jobs(self._servers, self._call, self._job_calls)

    @functools.cached_property
    def source_graphs(self) -> SourceGraphs:
        """The server's large graphs, from which many small ones are drawn."""
        from packhouse.large.source_graphs import SourceGraphs

        return SourceGraphs(self._servers, self._call)

    @functools.cached_property
    def samples(self) -> Sampling:
        """Sub-graphs around seeds of a source graph: packed, as tables, as a data set."""
        from packhouse.large.sub_graphs import Sampling

        return Sampling(self._servers, self._call)

    @functools.cached_property
    def partitions(self) -> Partitions:
        """Partitions of source graphs into parts."""
        from packhouse.large.partitions import Partitions

        return Partitions(self._servers, self._call)

    @functools.cached_property
    def receipts(self) -> Receipts:
        """Plans and batches that were made once, made again."""
        from packhouse.epochs.receipts import Receipts

        return Receipts(self._channel, self._call, self._job_calls)

    @functools.cached_property
    def feedback(self) -> Feedback:
        """What batches cost on devices: told by trainers, and what the server makes of it."""
        from packhouse.stored.feedback import Feedback

        return Feedback(self._servers, self._call)

    @functools.cached_property
    def administration(self) -> Administration:
        """What administrators do with the server; needs their role."""
        from packhouse.stored.administration import Administration

        return Administration(self._channel, self._call, self._job_calls)

    def pack(
        self,
        tables: GraphTable | Iterable[GraphTable],
        options: PackOptions | None = None,
        on_rejected: OnRejected | None = None,
        *,
        device: DeviceProfile | None = None,
    ) -> PackStream:
        """Streams whole graphs, or sizes if their schema has no tensors; iterate over the batches.

        Another thread reads `tables`, one or several, as fast as the server takes them. All tables
        share one schema. An exception in `tables` is raised to the reader, after the batches of
        what was sent. A graph that is too large ends the stream with OUT_OF_RANGE, unless
        `options.oversize` is REJECT. Then such graphs are collected in `PackStream.rejections` and
        a warning at the end gives their number, or `on_rejected` gets them on the reading thread.
        An empty `tables` makes an empty stream of sizes.

        `device` stands for `PackOptions.device`: the server chooses the limits.
        """
        options = PackOptions.for_device(options, device)
        if isinstance(tables, GraphTable):
            tables = (tables,)
        return pack_tables(self._pack, tables, options, on_rejected)

    def pack_examples(
        self,
        schema: TfgnnSchema | GraphSchema,
        examples: Iterable[bytes],
        options: PackOptions,
        on_rejected: OnRejected | None = None,
        *,
        skip_malformed: bool = False,
    ) -> PackStream:
        """As `pack`, for graphs as TF-GNN writes them, each a serialized tf.Example; the server
        reads them.

        They are numbered from 0. A malformed one ends the stream with INVALID_ARGUMENT, after the
        batches of earlier messages. With `skip_malformed` (and OversizePolicy.REJECT, if
        `on_rejected` is to be told) such examples are rejections.
        """
        messages = messages_of(
            examples, first_id=0, skip_malformed=skip_malformed, chunk_bytes=options.chunk_bytes
        )
        requests = ExampleRequests(options.to_proto(schema), messages)
        known = schema if isinstance(schema, GraphSchema) else None
        return PackStream(self._pack, requests, known, options, on_rejected)

    def pack_sizes(
        self,
        sizes: Sizes,
        options: PackOptions | None = None,
        components: Sequence[str] = ("nodes", "edges"),
        on_rejected: OnRejected | None = None,
        *,
        device: DeviceProfile | None = None,
    ) -> PackStream:
        """Streams sizes only: a table [n, l] or several, whose graphs are numbered from 0 in order.

        The batches say which graphs belong together (`graph_ids`); tensors stay here. `device` as
        for `pack`.
        """
        options = PackOptions.for_device(options, device)
        schema = GraphSchema(components)

        def tables() -> Iterator[GraphTable]:
            first_id = 0
            for table in tables_of_sizes(sizes):
                numbered = GraphTable(schema, table, first_id=first_id)
                first_id += len(numbered)
                yield numbered

        return pack_of_schema(self._pack, schema, tables(), options, on_rejected)

    def open_pack(
        self,
        schema: GraphSchema,
        options: PackOptions | None = None,
        on_rejected: OnRejected | None = None,
        *,
        device: DeviceProfile | None = None,
    ) -> PackStream:
        """A stream to be fed by hand with `send`, `flush` and `finish`; `device` as for `pack`."""
        options = PackOptions.for_device(options, device)
        requests = RequestQueue(options.to_proto(schema))
        return PackStream(self._pack, requests, schema, options, on_rejected)

    def plan(
        self,
        source: Histogram | str,
        limits: Mapping[str, int],
        *,
        heuristics: Sequence[PlanHeuristic] = (),
        summaries_only: bool = False,
        include_baselines: bool = False,
        include_notebook: bool = False,
        include_tuple_packing: bool = False,
        budget_steps: int = 0,
        seed: int = 0,
        warm_start: Plan | None = None,
        padding: PaddingLike | None = None,
        index_targets: Sequence[str] = (),
        ragged_components: Sequence[str] = (),
    ) -> Plan:
        """Plans a histogram, given whole or by its name on the server.

        With `padding` the plan is pack for pack that of an epoch whose batches are padded so, with
        `limits` as its shape: capacity that padding keeps free is not planned with. `index_targets`
        are the components that index tensors point into (none named: the first component, or with
        Padding.TFGNN none), `ragged_components` those of TF-GNN's ragged features.

        `budget_steps` (0: the server's default; 10^9 are about a second), `seed` and `warm_start`
        (an earlier plan for much the same histogram) are for PlanAlgorithm.OPTIMIZED, which is the
        default of `heuristics`.

        Raises TypeError or ValueError naming the argument. Errors: NOT_FOUND; INVALID_ARGUMENT
        naming a wrong value; OUT_OF_RANGE if a graph alone exceeds `limits`; RESOURCE_EXHAUSTED if
        planning would take too much memory, or the answer is too large (ask for `summaries_only`).
        """
        check_each(heuristics, "heuristics", PlanHeuristic)
        request = planning_pb2.PlanRequest(
            limits=limits_to_proto(limits),
            heuristics=[heuristic.to_proto() for heuristic in heuristics],
            summaries_only=summaries_only,
            include_baselines=include_baselines,
            include_notebook=include_notebook,
            include_tuple_packing=include_tuple_packing,
            budget_steps=budget_steps,
            seed=seed,
            warm_start=None if warm_start is None else warm_start.to_proto(),
        )
        _set_padding(request, padding, index_targets, ragged_components)
        _set_histogram(request, source)
        return Plan.from_proto(self._call(self._planning.Plan, request))

    def tune(
        self,
        source: Histogram | str,
        profile: DeviceProfile,
        *,
        objective: TuneObjective | str = TuneObjective.EPOCH_COST,
        budget_steps: int = 0,
        seed: int = 0,
        include_grid: bool = False,
        on_progress: OnProgress | None = None,
        padding: PaddingLike | None = None,
        index_targets: Sequence[str] = (),
        ragged_components: Sequence[str] = (),
    ) -> Tuning:
        """Chooses limits for a device: `tuning.shapes[0].limits` is what `pack` and `plan` take.

        `on_progress` is called now and then, on the calling thread; an exception in it ends the
        search. With `padding` an epoch whose batches are padded so takes the recommended shapes;
        all capacities include what padding keeps free, and every component but `graphs` needs
        `max_rows`. `index_targets` and `ragged_components` as for `plan`.

        Raises TypeError or ValueError naming the argument. Errors: NOT_FOUND; INVALID_ARGUMENT
        naming a wrong value; FAILED_PRECONDITION if no graph fits any allowed limits;
        RESOURCE_EXHAUSTED if the search would take too much memory; DEADLINE_EXCEEDED after the
        client's `timeout`.
        """
        request = planning_pb2.TuneRequest(
            profile=profile.to_proto(),
            objective=int(TuneObjective.of(objective, "objective")),
            budget_steps=budget_steps,
            seed=seed,
            include_grid=include_grid,
        )
        _set_padding(request, padding, index_targets, ragged_components)
        _set_histogram(request, source)
        responses = self._planning.Tune(request, timeout=self._call.timeout, wait_for_ready=True)
        try:
            return Tuning.from_responses(responses, on_progress)
        except grpc.RpcError as error:
            raise PackhouseError.of(error) from None
        finally:
            responses.cancel()


def _set_padding(
    request: Any,
    padding: PaddingLike | None,
    index_targets: Sequence[str],
    ragged_components: Sequence[str],
) -> None:
    """Raises ValueError naming the argument."""
    if padding is not None:
        request.padding = int(Padding.of(padding, "padding"))
    for argument, names in (
        ("index_targets", index_targets),
        ("ragged_components", ragged_components),
    ):
        if names and padding is None:
            raise ValueError(f"{argument}: {tuple(names)!r} without `padding`, which it belongs to")
        getattr(request, argument).extend(names)


def _set_histogram(request: Any, source: Histogram | str) -> None:
    if isinstance(source, str):
        request.histogram_name = source
    else:
        request.histogram.CopyFrom(source.to_proto())
