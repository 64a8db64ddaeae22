"""The client: start here."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import os
import pathlib
import time
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Final,
    Iterable,
    Iterator,
    Mapping,
    NamedTuple,
    Sequence,
)

import grpc
import numpy.typing as npt

from packhouse.base.argument_types import check_each, check_type
from packhouse.base.errors import PackhouseError
from packhouse.base.whole_numbers import UINT64_MAX, whole_number
from packhouse.calls.backoff import DEFAULT_RETRY_TIMEOUT, Backoff
from packhouse.calls.channel import MAX_MESSAGE_BYTES, ChannelOptions, make_channel
from packhouse.calls.credentials import Credentials
from packhouse.calls.job_owner import JobCalls
from packhouse.calls.replicas import addresses_of
from packhouse.calls.servers import Servers, first_that_answers
from packhouse.data.batch import Padding, PaddingLike
from packhouse.data.examples import ExampleStream, TfgnnSchema, messages_of
from packhouse.data.graphs import DEFAULT_CHUNK_BYTES, GraphTable
from packhouse.data.histogram import Histogram
from packhouse.data.schema import GraphSchema
from packhouse.epochs.receipts import Receipts
from packhouse.epochs.request import EpochArguments, EpochRequest
from packhouse.large.partitions import (
    Partition,
    PartitionFormat,
    PartitionHalo,
    PartitionMethod,
    PartitionObjective,
    Partitions,
    PartsProgress,
)
from packhouse.large.source_graphs import SourceGraphs
from packhouse.large.sub_graphs import (
    OnSampleProgress,
    SampleProgress,
    SampleStream,
    SeedRequests,
    SeedsLike,
    SizeEstimate,
    SubGraphs,
    beyond_limits,
    opening_of,
    read_graphs,
    seeds_to_proto,
)
from packhouse.planning.packing import (
    ExampleRequests,
    OnRejected,
    OversizePolicy,
    PackOptions,
    PackStream,
    RequestQueue,
    pack_method,
    pack_of_schema,
    pack_tables,
    limits_to_proto,
)
from packhouse.planning.plans import Plan, PlanHeuristic
from packhouse.planning.tuning import DeviceProfile, OnProgress, TuneObjective, Tuning
from packhouse.stored.appending import ReliableAppend, chunks_with_groups
from packhouse.stored.dataset import (
    AppendTotals,
    Dataset,
    DatasetDrift,
    OnVerifyProgress,
    Verification,
)
from packhouse.stored.feedback import Feedback
from packhouse.stored.job import Job
from packhouse.stored.observing import (
    DEFAULT_GATHER_BYTES,
    ReliableObserve,
    Sizes,
    observe_requests,
    tables_of_sizes,
)
from packhouse.v1 import (
    batch_pb2,
    dataset_pb2,
    dataset_pb2_grpc,
    histogram_pb2,
    histogram_pb2_grpc,
    loader_pb2,
    loader_pb2_grpc,
    partitioning_pb2,
    planning_pb2,
    planning_pb2_grpc,
    sampling_pb2,
    sampling_pb2_grpc,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from packhouse.stored.administration import Administration

_SAMPLE_METHOD: Final = "/packhouse.v1.SamplingService/Sample"


class ObserveTotals(NamedTuple):
    """What a call of `observe` or `merge_histogram` counted, and what the histogram then held."""

    num_counted: int
    num_graphs: int


def _without_producer(error: PackhouseError) -> PackhouseError:
    """The failure of a stream of sizes that cannot be made again, with the way out."""
    if not error.passes:
        return error
    return PackhouseError(
        error.code,
        f"{error.message}; what was counted is not known: a call with `producer` goes on over this",
    )


def _set_padding(
    request: Any,
    padding: PaddingLike | None,
    index_targets: Sequence[str],
    ragged_components: Sequence[str],
) -> None:
    """Raises TypeError or ValueError naming the argument."""
    if padding is not None:
        request.padding = int(Padding.of(padding, "padding"))
    for argument, names in (
        ("index_targets", index_targets),
        ("ragged_components", ragged_components),
    ):
        if isinstance(names, str):
            raise TypeError(f"{argument}: {names!r} is one name; a sequence of names is needed")
        check_each(names, argument, str)
        if names and padding is None:
            raise ValueError(f"{argument}: {tuple(names)!r} without `padding`, which it belongs to")
        getattr(request, argument).extend(names)


def _set_histogram(request: Any, source: Histogram | str) -> None:
    """Raises TypeError for anything else."""
    if isinstance(source, str):
        request.histogram_name = source
    elif isinstance(source, Histogram):
        request.histogram.CopyFrom(source.to_proto())
    else:
        raise TypeError(
            f"source: a {type(source).__name__} is neither a Histogram nor the name of one; for a "
            "table of sizes: Histogram.from_sizes(sizes, components)"
        )


class Client:
    """A connection to one server, of its own; use it as a context manager.

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
        self._timeout = timeout

        def connect(to: str) -> grpc.Channel:
            return make_channel(
                to,
                max_message_bytes=max_message_bytes,
                options=options,
                credentials=credentials,
            )

        self._channel, self._address = first_that_answers(
            connect, addresses_of(address), connect_timeout
        )
        self._pack = pack_method(self._channel)
        self._sample = self._channel.stream_stream(
            _SAMPLE_METHOD, request_serializer=sampling_pb2.SampleRequest.SerializeToString
        )
        servers = Servers(self._channel, self._address, connect, addresses_of(address))
        self._servers = servers
        self._sampling = sampling_pb2_grpc.SamplingServiceStub(servers)
        self._histograms = histogram_pb2_grpc.HistogramServiceStub(servers)
        self._planning = planning_pb2_grpc.PlanningServiceStub(servers)
        self._datasets = dataset_pb2_grpc.DatasetServiceStub(servers)
        self._loader = loader_pb2_grpc.LoaderServiceStub(servers)
        self._source_graphs = SourceGraphs(self._channel, self._unary, self._address)
        self._partitions = Partitions(self._channel, self._unary)
        self._jobs = JobCalls(servers, connect)
        self._get_job = self._jobs.unary(loader_pb2_grpc.LoaderServiceStub, "GetJob")
        self._delete_job = self._jobs.unary(loader_pb2_grpc.LoaderServiceStub, "DeleteJob")
        self._receipts = Receipts(self._channel, self._unary, self._jobs)
        self._feedback = Feedback(servers, self._unary)

    def __repr__(self) -> str:
        return f"Client({self._address!r})"

    def close(self) -> None:
        """Cancels what still runs and disconnects. Idempotent."""
        self._jobs.close()
        self._servers.close()
        self._channel.close()

    @property
    def source_graphs(self) -> SourceGraphs:
        """The server's large graphs, from which many small ones are drawn."""
        return self._source_graphs

    @functools.cached_property
    def administration(self) -> Administration:
        """What administrators do with the server; needs their role."""
        # Few programs are theirs: others do not wait for it.
        from packhouse.stored.administration import Administration

        return Administration(self._channel, self._unary, self._jobs)

    @property
    def receipts(self) -> Receipts:
        """Plans and batches that were made once, made again."""
        return self._receipts

    @property
    def feedback(self) -> Feedback:
        """What batches cost on devices: told by trainers, and what the server makes of it."""
        return self._feedback

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

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

    def sample(
        self,
        sub_graphs: SubGraphs,
        seeds: SeedsLike,
        options: PackOptions | None = None,
        on_rejected: OnRejected | None = None,
        *,
        seed: int = 0,
        epoch: int = 0,
        sizes_only: bool = False,
        draw_smaller: bool = True,
        device: DeviceProfile | None = None,
    ) -> SampleStream:
        """Draws sub-graphs around seeds, and packs them; iterate over the batches.

        `seeds` are numbers of nodes, or `Seeds`, or an iterable of either, which another thread
        reads as fast as the server takes them. Sub-graphs are numbered from 0 in their order. The
        same `seed` and `epoch` draw the same. A sub-graph beyond the limits is drawn smaller
        (`SampleStream.drawn_smaller`), unless `draw_smaller` is False: then `options.oversize`
        decides. `options` and `device` as for `pack`.

        Errors: NOT_FOUND (source graph, or an id of a node); INVALID_ARGUMENT naming what is wrong
        with the spec; OUT_OF_RANGE for a seed that is no node.
        """
        options = PackOptions.for_device(options, device)
        opening = opening_of(
            sub_graphs,
            options,
            seed=seed,
            epoch=epoch,
            sizes_only=sizes_only,
            draw_smaller=draw_smaller,
        )
        requests = SeedRequests(opening, sub_graphs, seeds)
        return SampleStream(self._sample, requests, options, on_rejected)

    def sample_graphs(
        self, sub_graphs: SubGraphs, seeds: SeedsLike, *, seed: int = 0, epoch: int = 0
    ) -> Iterator[GraphTable]:
        """Draws sub-graphs around seeds, not packed: tables of them, in the order of the seeds.

        Arguments and errors as `sample`.
        """
        opening = opening_of(sub_graphs, None, seed=seed, epoch=epoch)
        requests = SeedRequests(opening, sub_graphs, seeds)
        return read_graphs(self._sample(requests), requests)

    def estimate_sizes(
        self,
        sub_graphs: SubGraphs,
        seeds: SeedsLike | None = None,
        *,
        num_graphs: int = 0,
        seed: int = 0,
        epoch: int = 0,
        histogram: str = "",
    ) -> SizeEstimate:
        """Draws some sub-graphs (0: 2,000), structure only, for the histogram of their sizes.

        They are chosen at random from `seeds` (None: all nodes of the spec's seed set). With
        `histogram` the sizes are also in the named histogram, which is made anew. Errors as
        `sample`.
        """
        request = sampling_pb2.EstimateSizesRequest(
            sub_graphs=sub_graphs.to_proto(),
            seed=whole_number(seed, "seed", UINT64_MAX),
            epoch=whole_number(epoch, "epoch", UINT64_MAX),
            seeds=seeds_to_proto(seeds, sub_graphs),
            num_graphs=whole_number(num_graphs, "num_graphs"),
            histogram=histogram,
        )
        return SizeEstimate.from_proto(self._unary(self._sampling.EstimateSizes, request))

    def sample_dataset(
        self,
        sub_graphs: SubGraphs,
        dataset: str,
        seeds: SeedsLike | None = None,
        *,
        seed: int = 0,
        epoch: int = 0,
        max_bytes: int = 0,
        max_rows: Mapping[str, int] | None = None,
        draw_smaller: bool = True,
        on_progress: OnSampleProgress | None = None,
    ) -> Dataset:
        """Draws the sub-graphs of all seeds (None: all nodes) into a data set, and seals it.

        If it ends early, call it again with the same arguments: it goes on where it was. A sub-graph
        with more rows than `max_rows` is drawn smaller or, without `draw_smaller`, OUT_OF_RANGE.
        Errors: as `sample`; FAILED_PRECONDITION if there is a data set of this name that the same
        call has not made.
        """
        request = sampling_pb2.SampleDatasetRequest(
            sub_graphs=sub_graphs.to_proto(),
            seed=whole_number(seed, "seed", UINT64_MAX),
            epoch=whole_number(epoch, "epoch", UINT64_MAX),
            seeds=seeds_to_proto(seeds, sub_graphs),
            dataset=dataset,
            max_bytes=whole_number(max_bytes, "max_bytes", UINT64_MAX),
            max_rows=limits_to_proto(max_rows or {}, "max_rows").capacities,
            beyond_limits=beyond_limits(draw_smaller),
        )
        responses = self._sampling.SampleDataset(request, wait_for_ready=True)
        made = None
        try:
            for response in responses:
                if on_progress is not None:
                    on_progress(
                        SampleProgress(
                            response.num_graphs,
                            response.num_graphs_total,
                            response.num_drawn_smaller,
                        )
                    )
                if response.HasField("dataset"):
                    made = Dataset.from_proto(response.dataset)
        except grpc.RpcError as error:
            raise PackhouseError.of(error) from None
        finally:
            responses.cancel()
        if made is None:
            raise PackhouseError(
                grpc.StatusCode.INTERNAL, "the server did not say what it has made"
            )
        return made

    def observe(
        self,
        histogram: str,
        sizes: Sizes,
        components: Sequence[str] = ("nodes", "edges"),
        half_life: datetime.timedelta | None = None,
        producer: str = "",
        first_sequence: int | None = None,
        gather_bytes: int = DEFAULT_GATHER_BYTES,
        retry_timeout: float = DEFAULT_RETRY_TIMEOUT,
    ) -> ObserveTotals:
        """Counts tables of sizes [n, l], or one, in a named histogram, created if need be.

        Tables are sent together, in requests of `gather_bytes` or more; with 0 each goes as soon as
        it comes. Large ones are sent in parts of 1 MiB.

        Each call counts its tables. A call that a program may repeat after a failure has a
        `producer`, the name of who counts, and a `first_sequence`: requests are numbered from it,
        and a repetition with the same tables and `gather_bytes` counts none of them again. Other
        sizes under the same numbers raise ALREADY_EXISTS. With a `producer` alone the call goes on
        at the server's next number. The server can compare the last 1280 numbers of a producer;
        older requests are not sent, and are taken for counted.

        If the server goes away, or something ends the stream, a call with a `producer` goes on for
        `retry_timeout` seconds: its requests are sent again, and counted once. Without one it
        fails, since nobody knows then what was counted.
        """
        if producer:
            return self._observe_repeatably(
                histogram,
                sizes,
                components,
                half_life,
                producer,
                first_sequence,
                gather_bytes,
                retry_timeout,
            )
        # An exception of `sizes` in gRPC's sending thread is raised here instead.
        failure: list[Exception] = []

        def requests() -> Iterator[Any]:
            try:
                yield from observe_requests(
                    histogram,
                    tables_of_sizes(sizes),
                    components,
                    half_life,
                    gather_bytes,
                    is_repeatable=False,
                )
            except Exception as error:
                failure.append(error)

        counted, graphs_now = 0, 0
        try:
            for response in self._histograms.Observe(requests()):
                counted += response.num_counted
                graphs_now = response.num_graphs
        except grpc.RpcError as error:
            failure.append(_without_producer(PackhouseError.of(error)))
        if failure:
            raise failure[0]
        return ObserveTotals(counted, graphs_now)

    def _observe_repeatably(
        self,
        histogram: str,
        sizes: Sizes,
        components: Sequence[str],
        half_life: datetime.timedelta | None,
        producer: str,
        first_sequence: int | None,
        gather_bytes: int,
        retry_timeout: float,
    ) -> ObserveTotals:
        observing = ReliableObserve(
            self._histograms.Observe,
            histogram,
            producer,
            first_sequence,
            retry_timeout,
            self._address,
        )
        try:
            requests = observe_requests(
                histogram,
                tables_of_sizes(sizes),
                components,
                half_life,
                gather_bytes,
                is_repeatable=True,
            )
            while True:
                try:
                    request = next(requests)
                except StopIteration:
                    observing.finish()
                    return ObserveTotals(observing.num_counted, observing.num_graphs)
                except Exception:  # Whatever it is, it is the caller's.
                    observing.finish()
                    raise
                observing.send(request)
        finally:
            observing.close()

    def get_histogram(self, histogram: str) -> Histogram:
        """The named histogram now. Errors: NOT_FOUND."""
        request = histogram_pb2.GetHistogramRequest(histogram=histogram)
        response = self._unary(self._histograms.GetHistogram, request)
        found = Histogram.from_proto(response.histogram)
        return dataclasses.replace(found, revision=response.revision)

    def merge_histogram(
        self,
        histogram: str,
        addend: Histogram,
        *,
        subtract: bool = False,
        producer: str = "",
        sequence: int = 0,
    ) -> ObserveTotals:
        """Adds a histogram to a named one, or subtracts it: all of it or nothing.

        With a `producer` and a rising `sequence`, a repeated call counts once, and another one
        under the same sequence raises ALREADY_EXISTS. Errors: NOT_FOUND if
        `subtract` names no histogram; OUT_OF_RANGE if it would subtract more graphs of some size
        than there are; FAILED_PRECONDITION if the components differ.
        """
        request = histogram_pb2.MergeHistogramRequest(
            histogram=histogram, addend=addend.to_proto(), subtract=subtract
        )
        if producer:
            request.producer_sequence.producer = producer
            request.producer_sequence.sequence = sequence
        response = self._unary(self._histograms.MergeHistogram, request)
        return ObserveTotals(response.num_counted, response.num_graphs)

    def delete_histogram(self, histogram: str) -> None:
        """Forgets a named histogram. Errors: NOT_FOUND."""
        request = histogram_pb2.DeleteHistogramRequest(histogram=histogram)
        self._delete(self._histograms.DeleteHistogram, request)

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
        check_type(warm_start, "warm_start", Plan, "which an earlier `plan` gave", optional=True)
        request = planning_pb2.PlanRequest(
            limits=limits_to_proto(limits),
            heuristics=[heuristic.to_proto() for heuristic in heuristics],
            summaries_only=summaries_only,
            include_baselines=include_baselines,
            include_notebook=include_notebook,
            include_tuple_packing=include_tuple_packing,
            budget_steps=whole_number(budget_steps, "budget_steps", UINT64_MAX),
            seed=whole_number(seed, "seed", UINT64_MAX),
            warm_start=None if warm_start is None else warm_start.to_proto(),
        )
        _set_padding(request, padding, index_targets, ragged_components)
        _set_histogram(request, source)
        return Plan.from_proto(self._unary(self._planning.Plan, request))

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
        check_type(
            profile, "profile", DeviceProfile, "such as DeviceProfile.load(path) reads from a file"
        )
        request = planning_pb2.TuneRequest(
            profile=profile.to_proto(),
            objective=int(TuneObjective.of(objective, "objective")),
            budget_steps=whole_number(budget_steps, "budget_steps", UINT64_MAX),
            seed=whole_number(seed, "seed", UINT64_MAX),
            include_grid=include_grid,
        )
        _set_padding(request, padding, index_targets, ragged_components)
        _set_histogram(request, source)
        responses = self._planning.Tune(request, timeout=self._timeout, wait_for_ready=True)
        try:
            return Tuning.from_responses(responses, on_progress)
        except grpc.RpcError as error:
            raise PackhouseError.of(error) from None
        finally:
            responses.cancel()

    def create_dataset(
        self,
        name: str,
        schema: GraphSchema | TfgnnSchema | None = None,
        *,
        max_bytes: int = 0,
        max_rows: Mapping[str, int] | None = None,
        grouped: bool = False,
        oversize: OversizePolicy | str = OversizePolicy.ERROR,
    ) -> Dataset:
        """Makes an empty data set, of sizes (`nodes`, `edges`) without a `schema`.

        Of a TF-GNN schema the server makes the `schema` of the returned data set.
        It takes at most `max_bytes` on disk (0: only the server's bound), and no graph with more
        rows than `max_rows`. If `grouped`, every graph has a group id. With `oversize` "partition"
        a graph with more rows than `max_rows` is cut into pieces, which are stored instead; the
        returned `schema` then has their tensors, and what is appended keeps the given one. Errors:
        ALREADY_EXISTS; RESOURCE_EXHAUSTED.
        """
        policy = OversizePolicy.of(oversize, "oversize")
        request = dataset_pb2.CreateDatasetRequest(
            name=name,
            schema=schema.to_proto() if isinstance(schema, GraphSchema) else None,
            tfgnn_schema=schema.to_proto() if isinstance(schema, TfgnnSchema) else None,
            max_bytes=max_bytes,
            max_rows=[
                batch_pb2.Capacity(component=component, rows=rows)
                for component, rows in (max_rows or {}).items()
            ],
            grouped=grouped,
            # The server's own default is an error, too.
            oversize_policy=0 if policy is OversizePolicy.ERROR else int(policy),
        )
        return Dataset.from_proto(self._unary(self._datasets.CreateDataset, request))

    def append(
        self,
        name: str,
        tables: GraphTable | Iterable[GraphTable],
        *,
        producer: str | None = None,
        first_sequence: int | None = None,
        group_ids: npt.ArrayLike | Iterable[npt.ArrayLike] | None = None,
        chunk_bytes: int = DEFAULT_CHUNK_BYTES,
        retry_timeout: float = DEFAULT_RETRY_TIMEOUT,
    ) -> AppendTotals:
        """Stores graphs durably, each once; returns when all are on the server's disk.

        `tables`, one or several, share the data set's schema; `group_ids` has an array for each, if
        the data set is grouped. If the server goes away, chunks that it has not answered are sent
        again, for `retry_timeout` seconds, and each is stored once. Each call adds its tables.

        A call that a program may repeat after an error has a `producer`, the name of who sends, and
        a `first_sequence`: chunks are numbered from it, and a repetition with the same tables and
        `chunk_bytes` stores none of them again. Other chunks under the same numbers are an error.
        The numbers of the next call begin at the result's `next_sequence`. With a `producer` alone
        the call goes on at the server's next number. The server can compare the last 256 numbers of
        a producer; older chunks are not sent, and count as stored.

        A table makes at least one chunk, of at most about `chunk_bytes`; tables of some hundred
        kilobytes or more use the disk best. An exception of `tables` is raised after all sent
        chunks have been stored. Errors, after which answered chunks stay: INVALID_ARGUMENT naming
        the graph and the tensor; OUT_OF_RANGE for a graph above the data set's `max_rows`;
        NOT_FOUND; FAILED_PRECONDITION if it is sealed; ALREADY_EXISTS for other graphs under a
        sequence that is taken; RESOURCE_EXHAUSTED if a quota or the disk is full.
        """
        groups: Any = group_ids
        if isinstance(tables, GraphTable):
            tables = (tables,)
            groups = None if groups is None else (groups,)
        dataset = self._get_dataset_within(name, retry_timeout)
        appending = ReliableAppend(
            self._datasets.Append,
            dataset,
            producer,
            first_sequence,
            retry_timeout,
            self._address,
        )
        try:
            chunks = chunks_with_groups(tables, groups, dataset.appended_schema, chunk_bytes)
            while True:
                try:
                    chunk, groups_of_chunk = next(chunks)
                except StopIteration:
                    return appending.finish()
                except Exception:  # Whatever it is, it is the caller's.
                    appending.finish()
                    raise
                appending.send(chunk, groups_of_chunk)
        finally:
            appending.close()

    def append_examples(
        self,
        name: str,
        examples: Iterable[bytes],
        *,
        producer: str | None = None,
        first_sequence: int | None = None,
        first_id: int = 0,
        skip_malformed: bool = False,
        chunk_bytes: int = DEFAULT_CHUNK_BYTES,
        retry_timeout: float = DEFAULT_RETRY_TIMEOUT,
    ) -> AppendTotals:
        """As `append`, for graphs as TF-GNN writes them, each a serialized tf.Example; the server
        reads them.

        They have the ids `first_id` and up. A malformed one raises INVALID_ARGUMENT naming its
        number in its message, the key and what is wrong. With `skip_malformed` such examples are
        left out, counted and named in the result.
        """
        appending = ReliableAppend(
            self._datasets.Append,
            self._get_dataset_within(name, retry_timeout),
            producer,
            first_sequence,
            retry_timeout,
            self._address,
        )
        messages = messages_of(
            examples, first_id=first_id, skip_malformed=skip_malformed, chunk_bytes=chunk_bytes
        )
        try:
            while True:
                try:
                    message = next(messages)
                except StopIteration:
                    return appending.finish()
                except Exception:  # Whatever it is, it is the caller's.
                    appending.finish()
                    raise
                appending.send(message)
        finally:
            appending.close()

    def export_examples(
        self,
        name: str,
        *,
        first_graph: int = 0,
        num_graphs: int = 0,
        epoch: int | None = None,
        **arguments: Unpack[EpochArguments],
    ) -> ExampleStream:
        """The graphs of a data set in its order, each as a serialized tf.Example that TF-GNN reads.

        From place `first_graph` on, `num_graphs` of them (0: all). With an `epoch`, they come in
        the order of that epoch's batches, as `Evaluation(address, dataset=name, epoch=epoch,
        **arguments)` gives them: `arguments` are those that it takes, with `seed` and `limits`.

        Errors: NOT_FOUND; OUT_OF_RANGE; FAILED_PRECONDITION if the data set's schema has no form in
        TF-GNN; for an epoch those of Evaluation.
        """
        part = {"first_graph": first_graph, "num_graphs": num_graphs}
        if epoch is not None:
            request = EpochRequest({"dataset": name, **arguments}, job="")
            spec = request.of_epoch(whole_number(epoch, "epoch", UINT64_MAX))
            call = self._loader.ExportEpoch(loader_pb2.ExportEpochRequest(epoch=spec, **part))
        elif arguments:
            first = next(iter(arguments))
            raise TypeError(f"{first!r} is for an epoch: give its number as `epoch`")
        else:
            call = self._datasets.ExportDataset(
                dataset_pb2.ExportDatasetRequest(name=name, **part)
            )
        return ExampleStream(call)

    def seal_dataset(self, name: str) -> Dataset:
        """Ends all appends: from now on the data set never changes and can be loaded. Errors:
        NOT_FOUND.
        """
        request = dataset_pb2.SealDatasetRequest(name=name)
        return Dataset.from_proto(self._unary(self._datasets.SealDataset, request))

    def get_dataset(self, name: str, *, include_histogram: bool = False) -> Dataset:
        """A data set as it is now. Errors: NOT_FOUND; DATA_LOSS."""
        request = dataset_pb2.GetDatasetRequest(name=name, include_histogram=include_histogram)
        response = self._unary(self._datasets.GetDataset, request)
        histogram = Histogram.from_proto(response.histogram) if include_histogram else None
        drift = DatasetDrift.from_proto(response.drift) if response.HasField("drift") else None
        return Dataset.from_proto(response.dataset, histogram, drift)

    def list_datasets(self, page_size: int = 0) -> Iterator[Dataset]:
        """All data sets by name, asked for in pages (0: of the server's choice) as you iterate."""
        token = ""
        while True:
            request = dataset_pb2.ListDatasetsRequest(page_size=page_size, page_token=token)
            response = self._unary(self._datasets.ListDatasets, request)
            yield from map(Dataset.from_proto, response.datasets)
            token = response.next_page_token
            if not token:
                return

    def delete_dataset(self, name: str) -> None:
        """Frees the name at once; running loads go on. Errors: NOT_FOUND."""
        self._delete(self._datasets.DeleteDataset, dataset_pb2.DeleteDatasetRequest(name=name))

    def verify_dataset(
        self, name: str, on_progress: OnVerifyProgress | None = None
    ) -> Verification:
        """Has the server read all of it. Damage is in the result; it is no error.

        There is no deadline; an exception in `on_progress` ends the check. Errors: NOT_FOUND.
        """
        request = dataset_pb2.VerifyDatasetRequest(name=name)
        responses = self._datasets.VerifyDataset(request)
        try:
            return Verification.from_responses(responses, on_progress)
        except grpc.RpcError as error:
            raise PackhouseError.of(error) from None
        finally:
            responses.cancel()

    def list_jobs(self, page_size: int = 0) -> Iterator[Job]:
        """All jobs by name, asked for in pages (0: of the server's choice) as you iterate."""
        token = ""
        while True:
            request = loader_pb2.ListJobsRequest(page_size=page_size, page_token=token)
            response = self._unary(self._loader.ListJobs, request)
            yield from map(Job.from_proto, response.jobs)
            token = response.next_page_token
            if not token:
                return

    def get_job(self, job: str) -> Job:
        """What the server keeps of a job. Errors: NOT_FOUND."""
        return Job.from_proto(self._unary(self._get_job, loader_pb2.GetJobRequest(job=job)))

    def delete_job(self, job: str) -> None:
        """Forgets a job's epochs and acknowledgements (see `Loader`). Errors: NOT_FOUND."""
        self._delete(self._delete_job, loader_pb2.DeleteJobRequest(job=job))

    def partition(
        self,
        graph: str,
        name: str,
        num_parts: int,
        *,
        method: PartitionMethod | str = PartitionMethod.AUTOMATIC,
        recursive: bool = False,
        objective: PartitionObjective | str = PartitionObjective.CUT,
        best_quality: bool = False,
        num_hops: int = 1,
        halo: PartitionHalo | str = PartitionHalo.ALL,
        trainers_per_machine: int = 1,
        balance_node_sets: Mapping[str, Sequence[str]] | None = None,
        balance_edges: bool = False,
        imbalance: float = 1.03,
        seed: int = 1,
        formats: Sequence[PartitionFormat | str] = (),
        graph_forms: Sequence[str] = (),
        mapping: bool = False,
        assignment: bool = False,
        files: bool = True,
    ) -> Partition:
        """Begins to cut a sealed source graph into parts as DGL's trainers load them.

        The server goes on whether or not this client stays, also after it was started again:
        `wait_for_partition`, then `download_partition`. The same arguments find the partition that
        is there, and one that was cancelled or has failed goes on. `name` has letters and
        underscores. `balance_node_sets` has, for each node set whose classes are spread evenly, the
        column of classes, or several masks. Without `files` there are no files of parts, only what
        `partition_dataset` needs. The other arguments are those of `packhouse partition`.

        Errors: INVALID_ARGUMENT naming the field; NOT_FOUND; ALREADY_EXISTS if the name is taken by
        other arguments; FAILED_PRECONDITION if the graph is not sealed; RESOURCE_EXHAUSTED if too
        many wait, or it needs more memory than the server has.
        """
        request = partitioning_pb2.PartitionRequest(
            graph=graph,
            name=name,
            num_parts=num_parts,
            method=int(PartitionMethod.of(method, "method")),
            recursive=recursive,
            objective=int(PartitionObjective.of(objective, "objective")),
            best_quality=best_quality,
            num_hops=num_hops,
            halo=int(PartitionHalo.of(halo, "halo")),
            trainers_per_machine=trainers_per_machine,
            balance_node_sets=[
                partitioning_pb2.PartitionClasses(node_set=node_set, columns=columns)
                for node_set, columns in (balance_node_sets or {}).items()
            ],
            balance_edges=balance_edges,
            imbalance=imbalance,
            seed=seed,
            formats=[int(each) for each in PartitionFormat.each_of(formats, "formats")],
            graph_forms=graph_forms,
            mapping=mapping,
            assignment=assignment,
            without_files=not files,
        )
        return self._partitions.begin(request)

    def partition_dataset(
        self,
        graph: str,
        partition: str,
        dataset: str,
        *,
        halo: bool = False,
        features: bool = True,
        ids: bool = False,
        max_bytes: int = 0,
        on_progress: Callable[[PartsProgress], None] | None = None,
    ) -> Dataset:
        """Makes the parts of a partition that is done a data set, and seals it: graph p is part p.

        `Loader(dataset=..., join_parts=True)` joins parts to batches with the edges between them,
        as Cluster-GCN does; with a `halo` each part has copies of the nodes of others at which its
        edges begin, and is loaded as any graph. Nodes and edges have their numbers in the source
        graph (`S.#number`) and the rows that they were imported from (`S.#row`), nodes also their
        `ids`. If it ends early, call it again with the same arguments: it goes on where it was.

        Errors: NOT_FOUND; FAILED_PRECONDITION if the partition is not done, or there is a data set
        of this name that the same call has not made; INVALID_ARGUMENT naming what no data set has.
        """
        request = partitioning_pb2.PartitionDatasetRequest(
            graph=graph,
            partition=partition,
            dataset=dataset,
            halo=halo,
            max_bytes=max_bytes,
            without_features=not features,
            ids=ids,
        )
        return self._partitions.make_dataset(request, on_progress)

    def get_partition(self, graph: str, name: str) -> Partition:
        """A partition as it is now. Errors: NOT_FOUND."""
        return self._partitions.get(graph, name)

    def list_partitions(self, graph: str) -> Sequence[Partition]:
        """All partitions of a graph by name, without their files. Errors: NOT_FOUND."""
        return self._partitions.list(graph)

    def wait_for_partition(
        self,
        graph: str,
        name: str,
        on_progress: Callable[[Partition], None] | None = None,
    ) -> Partition:
        """Waits until a partition is done, also over a restart of the server.

        `on_progress` is called now and then; its exception ends the wait, and the work goes on.
        Errors: NOT_FOUND; CANCELLED; why the partition failed.
        """
        return self._partitions.wait(graph, name, on_progress)

    def download_partition(
        self,
        graph: str,
        name: str,
        folder: str | os.PathLike[str],
        finish: Callable[[pathlib.Path], None] | None = None,
    ) -> Partition:
        """Writes the files of a partition that is done into a new `folder`.

        The folder appears when it has all files, and `finish`, which gets the folder that becomes it,
        has returned; until then there is `folder`.partial. Raises FileExistsError if it is there.
        Errors: NOT_FOUND; FAILED_PRECONDITION if it is not done.
        """
        return self._partitions.download(graph, name, folder, finish)

    def cancel_partition(self, graph: str, name: str) -> Partition:
        """Ends the work at a partition; `partition` goes on from there. One that is done stays so.

        Errors: NOT_FOUND.
        """
        return self._partitions.cancel(graph, name)

    def delete_partition(self, graph: str, name: str) -> None:
        """Deletes a partition with its files, and ends the work at it. Errors: NOT_FOUND."""
        self._partitions.delete(graph, name)

    def _delete(self, method: Any, request: Any) -> None:
        """Retries, too: NOT_FOUND after a first try that may have worked counts as deleted."""
        backoff = Backoff(self._timeout, call=f"a deletion at {self._address}")
        tries = 0
        while True:
            tries += 1
            try:
                self._unary(method, request)
                return
            except PackhouseError as error:
                if tries > 1 and error.code is grpc.StatusCode.NOT_FOUND:
                    return
                time.sleep(backoff.delay_after(error))

    def _get_dataset_within(self, name: str, retry_timeout: float) -> Dataset:
        """Asks again for that time while the server is away."""
        backoff = Backoff(retry_timeout, call=f"GetDataset of '{name}' at {self._address}")
        while True:
            try:
                return self.get_dataset(name)
            except PackhouseError as error:
                time.sleep(backoff.delay_after(error))

    def _unary(self, method: Any, request: Any) -> Any:
        try:
            return method(request, timeout=self._timeout, wait_for_ready=True)
        except grpc.RpcError as error:
            raise PackhouseError.of(error) from None
