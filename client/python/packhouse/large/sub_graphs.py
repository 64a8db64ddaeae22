"""Sub-graphs drawn from a source graph around seeds: what to draw, and what comes back.

`Client.samples` draws them.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Final, Iterable, Iterator, Mapping, Sequence, Union

import grpc
import numpy as np
import numpy.typing as npt

from packhouse.base.arguments import UINT64_MAX, Uint32, names_arguments, whole_number
from packhouse.base.errors import PackhouseError
from packhouse.calls.retrying import UnaryCalls
from packhouse.data.graphs import GraphTable, array_of, convert_exactly
from packhouse.data.histogram import Histogram
from packhouse.data.schema import GraphSchema
from packhouse.large.sampling import SamplingSpec
from packhouse.large.source_graph import SourceColumn, column_bytes, ids_to_proto
from packhouse.planning.pack_options import OnRejected, PackOptions, limits_to_proto
from packhouse.planning.packing import PackStream, TableRequests
from packhouse.planning.tuning import DeviceProfile
from packhouse.stored.dataset import Dataset
from packhouse.v1 import packing_pb2, sampling_pb2, sampling_pb2_grpc

# A `packhouse.sampling.SamplingSpec`; or TF-GNN's: its text, its bytes, or a message of that type.
SpecLike = Union[SamplingSpec, str, bytes, Any]
# Numbers of nodes, or several arrays of them, or a mask over rows, or `Seeds`.
SeedsLike = Any

_SEEDS_OF_REQUEST: Final = 65536
_EXCLUDE: Final[dict[str | None, Any]] = {
    None: sampling_pb2.EXCLUDE_LINKS_UNSPECIFIED,
    "self": sampling_pb2.EXCLUDE_LINKS_SELF,
    "reverse_types": sampling_pb2.EXCLUDE_LINKS_REVERSE_TYPES,
}


@names_arguments
@dataclasses.dataclass(frozen=True)
class SubGraphs:
    """Which sub-graphs are drawn, and what travels with them.

    - `graph`: the name of a sealed source graph.
    - `spec`: what `packhouse.sampling.SamplingSpecBuilder` builds; or a TF-GNN SamplingSpec: its
      text, its bytes, or the message.
    - `seeds_per_graph`: how many seeds share one sub-graph and its frontier.
    - `induced`: all edges between sampled nodes; of `induced_edge_sets`, or of those of the spec.
    - `merge_parallel`: of parallel edges that are drawn one is there, as in TF-GNN; otherwise all are,
      as in PyG and DGL.
    - `node_time_column` or `edge_time_column`: temporal: no edge later than the sub-graph's time;
      `latest`: the latest edges instead of random ones. `untimed_sets`: the sets without the
      column (node sets, or edge sets), which are never late; others without it are an error.
      `time_window`: no edge more than this earlier than the sub-graph's time (0: however early).
    - `weight_column`: for TOP_K and RANDOM_WEIGHTED ("": `#weight`, or else `weight`).
    - `link_node_set`: of both ends of link seeds; or `link_edge_set`: the edge set whose edges the
      links are or would be, whose sources and targets may be of two sets ("": as the schema says).
    - `exclude`: "self": the edges that the sub-graph's own links are (parallel ones too) are not drawn;
      "reverse_types": nor those back, in the reverse of `link_edge_set` and in `reverse_edge_sets`.
      As DGL's `exclude`; needs `link_edge_set`.
    - `readout`: a node set `_readout` with a row for each seed; links always have one.
    - `readout_columns`: features of `_readout`, such as labels, whose rows come with the seeds
      (`Seeds.readout`); for links by default those of the schema's node set `_readout`.
    - `payload`: "features", or "ids": features stay here, and the rows of nodes and edges where they
      were imported from (`S.#row`), their numbers in the source graph (`S.#number`) and the ids of
      nodes (`S.#id`) come instead.
    - `rows`: the tensors `S.#row` beside the features. PyG's `e_id` and DGL's `dgl.EID` are these.
    - `numbers`: the tensors `S.#number` beside the features.

    Raises ValueError or TypeError naming the field.
    """

    graph: str
    spec: SpecLike
    seeds_per_graph: Uint32 = 1
    induced: bool = False
    induced_edge_sets: Sequence[str] = ()
    node_time_column: str = ""
    edge_time_column: str = ""
    latest: bool = False
    weight_column: str = ""
    link_node_set: str = ""
    readout: bool = False
    readout_columns: Sequence[SourceColumn] = ()
    payload: str = "features"
    numbers: bool = False
    merge_parallel: bool = False
    untimed_sets: Sequence[str] = ()
    rows: bool = False
    time_window: int = 0
    link_edge_set: str = ""
    exclude: str | None = None
    reverse_edge_sets: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.payload not in ("features", "ids"):
            raise ValueError(f"payload: {self.payload!r} is neither 'features' nor 'ids'")
        is_spec = isinstance(self.spec, (SamplingSpec, str, bytes))
        if not is_spec and not hasattr(self.spec, "SerializeToString"):
            raise TypeError(f"spec: {self.spec!r} is neither a SamplingSpec nor its text or bytes")
        if self.exclude not in _EXCLUDE:
            raise ValueError(f"exclude: {self.exclude!r} is neither 'self' nor 'reverse_types'")

    def to_proto(self) -> Any:
        """This as a `packhouse.v1.SubGraphs`."""
        message = sampling_pb2.SubGraphs(
            graph=self.graph,
            seeds_per_graph=self.seeds_per_graph,
            induced=self.induced,
            induced_edge_sets=self.induced_edge_sets,
            node_time_column=self.node_time_column,
            edge_time_column=self.edge_time_column,
            untimed_sets=self.untimed_sets,
            time_window=self.time_window,
            link_edge_set=self.link_edge_set,
            exclude=_EXCLUDE[self.exclude],
            reverse_edge_sets=self.reverse_edge_sets,
            latest=self.latest,
            merge_parallel=self.merge_parallel,
            weight_column=self.weight_column,
            link_node_set=self.link_node_set,
            readout=self.readout,
            readout_columns=[column.to_proto() for column in self.readout_columns],
            without_features=self.payload == "ids",
            numbers=self.numbers or self.payload == "ids",
            rows=self.rows or self.payload == "ids",
            ids=self.payload == "ids",
        )
        if isinstance(self.spec, SamplingSpec):
            message.text = self.spec.to_text()
        elif isinstance(self.spec, str):
            message.text = self.spec
        elif isinstance(self.spec, bytes):
            message.binary = self.spec
        else:
            message.binary = self.spec.SerializeToString()
        return message


@names_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class Seeds:
    """Nodes around which sub-graphs are drawn.

    - `rows`, `numbers` or `ids`: their rows where the node set was imported from, or a mask over these
      rows; or their numbers in the source graph; or their external ids (integers, str or bytes). Rows
      and numbers are the same where ids ascend from row to row. For link seeds source, target, source, ...: `edge_label_index.T.ravel()`, where PyG has
      an array [2, links].
    - `times`: the time of each sub-graph, integers, for temporal sampling.
    - `occurrences`: which time each seed (or link) comes, from 0. A seed that is in a list several
      times is drawn around anew each time; the server counts. For a part of a list: as counted there.
    - `readout`: a row for each seed (or link) of every feature of `_readout`, by its name. Values
      are converted to the types of `SubGraphs.readout_columns`; for columns of the graph's schema
      they must be arrays of the columns' types.

    `Client` and `Loader` raise ValueError for what is none of these.
    """

    numbers: npt.ArrayLike | None = None
    ids: Sequence[int] | Sequence[str] | Sequence[bytes] | npt.ArrayLike | None = None
    times: npt.ArrayLike | None = None
    readout: Mapping[str, npt.ArrayLike] | None = None
    occurrences: npt.ArrayLike | None = None
    rows: npt.ArrayLike | None = None

    def __post_init__(self) -> None:
        if [self.numbers is None, self.ids is None, self.rows is None].count(False) != 1:
            raise ValueError("seeds: one of rows, numbers and ids is needed")
        if self.rows is not None and _is_mask(self.rows):
            mask = array_of(self.rows, "seeds")
            if mask.ndim != 1:
                raise ValueError(f"seeds: a mask of shape {mask.shape}, needs one axis")
            object.__setattr__(self, "rows", np.flatnonzero(mask))

    def to_proto(self, readout_columns: Sequence[SourceColumn] = ()) -> Any:
        """These as a `packhouse.v1.Seeds`, with values of the types of `readout_columns`."""
        message = sampling_pb2.Seeds()
        ids: Any = self.ids
        if self.rows is not None:
            message.rows = _one_axis(self.rows, "<u8", "seeds").tobytes()
        elif self.numbers is not None:
            message.numbers = _one_axis(self.numbers, "<u4", "seeds").tobytes()
        elif isinstance(ids, (str, bytes)) or (len(ids) and isinstance(ids[0], (str, bytes))):
            ids_to_proto(ids, True, message.ids)
        else:
            message.ids.integers = _one_axis(ids, "<i8", "seeds").tobytes()
        if self.times is not None:
            message.times = _one_axis(self.times, "<i8", "times").tobytes()
        if self.occurrences is not None:
            message.occurrences = _one_axis(self.occurrences, "<u4", "occurrences").tobytes()
        columns = {column.name: column for column in readout_columns if not column.ragged}
        for name, rows in (self.readout or {}).items():
            if name in columns:
                data = column_bytes(rows, columns[name], f"readout {name!r}")
            else:
                array = array_of(rows, f"readout {name!r}")
                data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
            message.readout.add(name=name, data=data)
        return message

    def parts(self, seeds_per_graph: int, most_nodes: int) -> Iterator[Seeds]:
        """These in several, none of more than `most_nodes` nodes, a multiple of two sub-graphs' seeds.

        Raises ValueError for times or rows that are not as many as the seeds need.
        """
        kind = next(k for k in ("rows", "numbers", "ids") if getattr(self, k) is not None)
        nodes: Any = getattr(self, kind)
        count = len(nodes) if hasattr(nodes, "__len__") else 0
        if count <= most_nodes:
            yield self
            return

        def cut(rows: Any, units: Sequence[int], name: str) -> Any:
            for unit in units:
                if -(-count // unit) == len(rows):
                    return rows[begin // unit : -(-end // unit)]
            raise ValueError(f"{name}: {len(rows)} rows, there are {count} seeds (or ends of links)")

        for begin in range(0, count, most_nodes):
            end = min(begin + most_nodes, count)
            times: Any = self.times
            if times is not None:
                times = cut(times, (seeds_per_graph, 2 * seeds_per_graph), "times")
            occurrences: Any = self.occurrences
            if occurrences is not None:
                occurrences = cut(occurrences, (1, 2), "occurrences")
            readout = {
                name: cut(rows, (1, 2), f"readout {name!r}")
                for name, rows in (self.readout or {}).items()
            }
            yield dataclasses.replace(
                self, times=times, occurrences=occurrences, readout=readout, **{kind: nodes[begin:end]}
            )

    @staticmethod
    def of(seeds: SeedsLike) -> Seeds:
        """`seeds` itself, or numbers of nodes, or a mask over rows."""
        if isinstance(seeds, Seeds):
            return seeds
        _check_seeds(seeds)
        return Seeds(rows=seeds) if _is_mask(seeds) else Seeds(numbers=seeds)


def seeds_to_proto(seeds: SeedsLike | None, sub_graphs: SubGraphs) -> Any:
    """The `packhouse.v1.Seeds` of one request; None: all nodes of the seeds' set."""
    return None if seeds is None else Seeds.of(seeds).to_proto(sub_graphs.readout_columns)


@names_arguments
@dataclasses.dataclass(frozen=True, eq=False)
class Samples:
    """For a `Loader`: epochs of sub-graphs instead of a data set's graphs.

    - `seeds`: all of them; None: every node of the spec's seed set. Batches name a sub-graph by the
      place of its seed in this list (for all nodes: the node's number).
    - `window`: how many sub-graphs are drawn and packed at a time (0: 4096).
    - `exact_steps`: the number of steps is known from the beginning; it takes about as long as
      drawing the epoch without features. Needed with `acknowledge="manual"` and for `EpochReaders`;
      an `Evaluation` always does so.
    - `draw_smaller`: a sub-graph beyond the limits is drawn smaller; otherwise that is OUT_OF_RANGE.
    """

    sub_graphs: SubGraphs
    seeds: SeedsLike | None = None
    window: Uint32 = 0
    exact_steps: bool = False
    draw_smaller: bool = True

    def __post_init__(self) -> None:
        if self.seeds is not None:
            _check_seeds(self.seeds)


@dataclasses.dataclass(frozen=True, eq=False)
class SizeEstimate:
    """The sizes of some sub-graphs: what `Client.plan` and `Client.tune` take.

    `num_seeds` and `num_graphs` are of all; `bytes_per_graph` of all tensors of one, on average.
    """

    schema: GraphSchema
    histogram: Histogram
    num_seeds: int
    num_graphs: int
    bytes_per_graph: float

    @staticmethod
    def from_proto(message: Any) -> SizeEstimate:
        """Reads a `packhouse.v1.EstimateSizesResponse`."""
        return SizeEstimate(
            schema=GraphSchema.from_proto(message.schema),
            histogram=Histogram.from_proto(message.histogram),
            num_seeds=message.num_seeds,
            num_graphs=message.num_graphs,
            bytes_per_graph=message.bytes_per_graph,
        )


@dataclasses.dataclass(frozen=True)
class SampleProgress:
    """Sub-graphs on the disk, and in all; and how many this call has drawn smaller."""

    num_graphs: int
    num_graphs_total: int
    num_drawn_smaller: int


OnSampleProgress = Callable[[SampleProgress], None]


def beyond_limits(draw_smaller: bool) -> int:
    """The `packhouse.v1.BeyondLimits`."""
    return int(
        sampling_pb2.BEYOND_LIMITS_DRAW_SMALLER
        if draw_smaller
        else sampling_pb2.BEYOND_LIMITS_REFUSE
    )


class SampleStream(PackStream):
    """As PackStream, of sub-graphs; get one from `Client.samples.pack`.

    `drawn_smaller`: the level of each sub-graph that came in a batch so far and was drawn smaller
    than the spec says, by its id.
    """

    _takes_lane = False

    def __init__(
        self,
        start_call: Callable[[Iterator[Any]], Any],
        requests: SeedRequests,
        options: PackOptions,
        on_rejected: OnRejected | None,
    ) -> None:
        self.drawn_smaller: dict[int, int] = {}
        super().__init__(start_call, requests, None, options, on_rejected)

    def _parse(self, data: bytes) -> Any:
        response = self._parse_as(sampling_pb2.SampleResponse, data)
        for smaller in response.drawn_smaller:
            self.drawn_smaller[smaller.graph_id] = smaller.level
        return response


class SeedRequests(TableRequests):
    """The requests of a Sample stream; gRPC's sending thread pulls them."""

    def __init__(self, opening: Any, sub_graphs: SubGraphs, seeds: SeedsLike) -> None:
        super().__init__(None, (), GraphSchema(()), 1)
        _check_seeds(seeds)
        self._requests = self._seed_requests(opening, sub_graphs, seeds)

    @staticmethod
    def _seed_requests(opening: Any, sub_graphs: SubGraphs, seeds: SeedsLike) -> Iterator[Any]:
        yield sampling_pb2.SampleRequest(open=opening)
        per_graph = max(1, sub_graphs.seeds_per_graph)
        # None of them divides the seeds of a sub-graph, or a link.
        most_nodes = max(1, _SEEDS_OF_REQUEST // (2 * per_graph)) * 2 * per_graph
        for several in _lists_of(seeds):
            for part in several.parts(per_graph, most_nodes):
                request = sampling_pb2.SampleRequest()
                request.seeds.seeds.CopyFrom(part.to_proto(sub_graphs.readout_columns))
                yield request


def _is_mask(values: Any) -> bool:
    if isinstance(values, np.ndarray):
        return bool(values.dtype == np.bool_)
    return isinstance(values, (list, tuple)) and bool(values) and isinstance(values[0], (bool, np.bool_))


def _one_axis(values: Any, dtype: str, name: str) -> npt.NDArray[Any]:
    array = array_of(values, name)
    if array.ndim != 1:
        raise ValueError(f"{name}: shape {array.shape}, needs one axis")
    if array.dtype == np.bool_:
        raise ValueError(f"{name}: a mask is over rows: Seeds(rows=mask)")
    return convert_exactly(array, np.dtype(dtype), name)


def _check_seeds(seeds: Any) -> None:
    if isinstance(seeds, (str, bytes)) or not isinstance(seeds, (Seeds, Iterable)):
        raise TypeError(f"seeds: {seeds!r} is neither Seeds nor numbers of nodes")


def _lists_of(seeds: SeedsLike) -> Iterator[Seeds]:
    if isinstance(seeds, Seeds):
        yield seeds
        return
    arrays: Iterable[Any] = (seeds,)
    if _is_mask(seeds):
        arrays = (Seeds.of(seeds),)
    elif not isinstance(seeds, np.ndarray) and not (
        isinstance(seeds, Sequence) and (not seeds or np.ndim(seeds[0]) == 0)
    ):
        arrays = seeds
    for each in arrays:
        # Single numbers of nodes may come one by one.
        yield each if isinstance(each, Seeds) else Seeds(numbers=np.atleast_1d(each))


def opening_of(
    sub_graphs: SubGraphs,
    options: PackOptions | None,
    *,
    seed: int,
    epoch: int,
    sizes_only: bool = False,
    draw_smaller: bool = True,
) -> Any:
    """The `packhouse.v1.SampleOpen`."""
    opening = sampling_pb2.SampleOpen(
        sub_graphs=sub_graphs.to_proto(),
        seed=whole_number(seed, "seed", UINT64_MAX),
        epoch=whole_number(epoch, "epoch", UINT64_MAX),
        beyond_limits=beyond_limits(draw_smaller),
    )
    if options is not None:
        opening.pack.CopyFrom(options.to_proto(GraphSchema(())))
        opening.pack.ClearField("schema")
        payload = packing_pb2.PAYLOAD_SIZES if sizes_only else packing_pb2.PAYLOAD_UNSPECIFIED
        opening.pack.payload = payload
    return opening


def read_graphs(call: Any, requests: SeedRequests) -> Iterator[GraphTable]:
    """Sub-graphs as they come, in the order of their seeds. Cancels the call when it is dropped."""
    schema: GraphSchema | None = None
    try:
        for data in call:
            response = sampling_pb2.SampleResponse.FromString(data)
            if response.HasField("opened"):
                schema = GraphSchema.from_proto(response.opened.schema)
            elif response.HasField("graphs") and schema is not None:
                yield _table_of(response.graphs, schema)
        if requests.error is not None:
            raise requests.error
    except grpc.RpcError as error:
        raise PackhouseError.of(error) from None
    finally:
        requests.close()
        call.cancel()


def _table_of(chunk: Any, schema: GraphSchema) -> GraphTable:
    """Reads a `packhouse.v1.GraphChunk` with explicit ids."""
    num_graphs = chunk.sizes.num_graphs
    sizes = np.frombuffer(chunk.sizes.counts, "<u4").reshape(num_graphs, len(schema.components))
    rows = dict(zip(schema.components, sizes.sum(axis=0, dtype=np.int64).tolist()))
    rows["graphs"] = num_graphs
    data = {tensor.name: tensor.data for tensor in chunk.tensors}
    tensors = {
        spec.name: np.frombuffer(data[spec.name], spec.dtype.numpy).reshape(
            spec.array_shape(rows[spec.component])
        )
        for spec in schema.tensors
    }
    ids = np.frombuffer(chunk.sizes.graph_ids, "<u8")
    return GraphTable(schema, sizes, tensors, graph_ids=ids)


_SAMPLE_METHOD: Final = "/packhouse.v1.SamplingService/Sample"


@names_arguments
class Sampling:
    """Sub-graphs around seeds of a source graph: packed, as tables, as a data set.

    Get it by `Client.samples`. Thread-safe.
    """

    def __init__(self, servers: Any, call: UnaryCalls) -> None:
        """`servers` may be of several."""
        # Responses are bytes: see reading.py.
        self._sample = servers.stream_stream(
            _SAMPLE_METHOD, request_serializer=sampling_pb2.SampleRequest.SerializeToString
        )
        self._stub = sampling_pb2_grpc.SamplingServiceStub(servers)
        self._call = call

    def pack(
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
        decides. `options` and `device` as for `Client.pack`.

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

    def tables(
        self, sub_graphs: SubGraphs, seeds: SeedsLike, *, seed: int = 0, epoch: int = 0
    ) -> Iterator[GraphTable]:
        """Draws sub-graphs around seeds, not packed: tables of them, in the order of the seeds.

        Arguments and errors as `pack`.
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
        `pack`.
        """
        request = sampling_pb2.EstimateSizesRequest(
            sub_graphs=sub_graphs.to_proto(),
            seed=seed,
            epoch=epoch,
            seeds=seeds_to_proto(seeds, sub_graphs),
            num_graphs=whole_number(num_graphs, "num_graphs"),
            histogram=histogram,
        )
        return SizeEstimate.from_proto(self._call(self._stub.EstimateSizes, request))

    def make_dataset(
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
        Errors: as `pack`; FAILED_PRECONDITION if there is a data set of this name that the same
        call has not made.
        """
        request = sampling_pb2.SampleDatasetRequest(
            sub_graphs=sub_graphs.to_proto(),
            seed=seed,
            epoch=epoch,
            seeds=seeds_to_proto(seeds, sub_graphs),
            dataset=dataset,
            max_bytes=max_bytes,
            max_rows=limits_to_proto(max_rows or {}, "max_rows").capacities,
            beyond_limits=beyond_limits(draw_smaller),
        )
        responses = self._stub.SampleDataset(request, wait_for_ready=True)
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
