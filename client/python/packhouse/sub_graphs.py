"""Sub-graphs drawn from a source graph around seeds: what to draw, and what comes back."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Final, Iterable, Iterator, Sequence, Union

import grpc
import numpy as np
import numpy.typing as npt

from packhouse.errors import PackhouseError
from packhouse.graphs import GraphTable, convert_exactly
from packhouse.histogram import Histogram
from packhouse.packing import OnRejected, PackOptions, PackStream, TableRequests
from packhouse.schema import GraphSchema
from packhouse.v1 import packing_pb2, sampling_pb2

# A text or serialized TF-GNN SamplingSpec, or a message of that type.
SpecLike = Union[str, bytes, Any]
# Numbers of nodes, or several arrays of them, or `Seeds`.
SeedsLike = Any

_SEEDS_OF_REQUEST: Final = 65536


@dataclasses.dataclass(frozen=True)
class SubGraphs:
    """Which sub-graphs are drawn, and what travels with them.

    - `graph`: the name of a sealed source graph.
    - `spec`: a TF-GNN SamplingSpec: its text, its bytes, or the message.
    - `seeds_per_graph`: how many seeds share one sub-graph and its frontier.
    - `induced`: all edges between sampled nodes; of `induced_edge_sets`, or of those of the spec.
    - `node_time_column` or `edge_time_column`: temporal: no edge later than the sub-graph's time;
      `latest`: the latest edges instead of random ones.
    - `weight_column`: for TOP_K and RANDOM_WEIGHTED ("": `#weight`, or else `weight`).
    - `link_node_set`: of the ends of link seeds ("": as the schema says).
    - `readout`: a node set `_readout` with a row for each seed.
    - `payload`: "features", or "ids": features stay here, and the numbers of nodes and edges in the
      source graph (`S.#number`) and the ids of nodes (`S.#id`) come instead.
    - `numbers`: the tensors `S.#number` beside the features.

    Raises ValueError naming the field.
    """

    graph: str
    spec: SpecLike
    seeds_per_graph: int = 1
    induced: bool = False
    induced_edge_sets: Sequence[str] = ()
    node_time_column: str = ""
    edge_time_column: str = ""
    latest: bool = False
    weight_column: str = ""
    link_node_set: str = ""
    readout: bool = False
    payload: str = "features"
    numbers: bool = False

    def __post_init__(self) -> None:
        if self.payload not in ("features", "ids"):
            raise ValueError(f"payload: {self.payload!r} is neither 'features' nor 'ids'")

    def to_proto(self) -> Any:
        """This as a `packhouse.v1.SubGraphs`."""
        message = sampling_pb2.SubGraphs(
            graph=self.graph,
            seeds_per_graph=self.seeds_per_graph,
            induced=self.induced,
            induced_edge_sets=self.induced_edge_sets,
            node_time_column=self.node_time_column,
            edge_time_column=self.edge_time_column,
            latest=self.latest,
            weight_column=self.weight_column,
            link_node_set=self.link_node_set,
            readout=self.readout,
            without_features=self.payload == "ids",
            numbers=self.numbers or self.payload == "ids",
            ids=self.payload == "ids",
        )
        if isinstance(self.spec, str):
            message.text = self.spec
        elif isinstance(self.spec, bytes):
            message.binary = self.spec
        elif hasattr(self.spec, "SerializeToString"):
            message.binary = self.spec.SerializeToString()
        else:
            raise ValueError("spec: is neither text nor bytes nor a SamplingSpec")
        return message


@dataclasses.dataclass(frozen=True, eq=False)
class Seeds:
    """Nodes around which sub-graphs are drawn, by their `numbers` in the source graph or by their
    external `ids` (integers, str or bytes); for link seeds source, target, source, ... `times`: the
    time of each sub-graph, for temporal sampling.
    """

    numbers: npt.ArrayLike | None = None
    ids: Sequence[int] | Sequence[str] | Sequence[bytes] | npt.ArrayLike | None = None
    times: npt.ArrayLike | None = None

    def __post_init__(self) -> None:
        if (self.numbers is None) == (self.ids is None):
            raise ValueError("seeds: one of numbers and ids is needed")

    def to_proto(self) -> Any:
        """These as a `packhouse.v1.Seeds`."""
        message = sampling_pb2.Seeds()
        if self.numbers is not None:
            message.numbers = convert_exactly(
                self.numbers, np.dtype("<u4"), "seeds"
            ).tobytes()
        else:
            ids: Any = self.ids
            if len(ids) != 0 and isinstance(ids[0], (str, bytes)):
                texts = [one.encode() if isinstance(one, str) else one for one in ids]
                message.ids.text.data = b"".join(texts)
                message.ids.text.lengths = np.array([len(t) for t in texts], "<u4").tobytes()
            else:
                message.ids.integers = convert_exactly(ids, np.dtype("<i8"), "seeds").tobytes()
        if self.times is not None:
            message.times = convert_exactly(self.times, np.dtype("<i8"), "times").tobytes()
        return message

    @staticmethod
    def of(seeds: SeedsLike) -> Seeds:
        """`seeds` itself, or numbers of nodes."""
        return seeds if isinstance(seeds, Seeds) else Seeds(numbers=seeds)


@dataclasses.dataclass(frozen=True, eq=False)
class Samples:
    """For a `Loader`: epochs of sub-graphs instead of a data set's graphs.

    - `seeds`: all of them; None: every node of the spec's seed set. Batches name a sub-graph by the
      place of its seed in this list (for all nodes: the node's number).
    - `window`: how many sub-graphs are drawn and packed at a time (0: 4096).
    - `exact_steps`: the number of steps is known from the beginning; it takes about as long as
      drawing the epoch without features. Needed with `acknowledge="manual"` and for `EpochReaders`.
    - `draw_smaller`: a sub-graph beyond the limits is drawn smaller; otherwise that is OUT_OF_RANGE.
    """

    sub_graphs: SubGraphs
    seeds: SeedsLike | None = None
    window: int = 0
    exact_steps: bool = False
    draw_smaller: bool = True


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
    """As PackStream, of sub-graphs; get one from `Client.sample`.

    `drawn_smaller`: the level of each sub-graph that came in a batch so far and was drawn smaller
    than the spec says, by its id.
    """

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

    def __init__(self, opening: Any, seeds: SeedsLike, nodes_per_request: int) -> None:
        super().__init__(None, (), GraphSchema(()), 1)
        self._requests = self._seed_requests(opening, seeds, nodes_per_request)

    @staticmethod
    def _seed_requests(opening: Any, seeds: SeedsLike, nodes_per_request: int) -> Iterator[Any]:
        yield sampling_pb2.SampleRequest(open=opening)
        for part in _parts_of(seeds, nodes_per_request):
            request = sampling_pb2.SampleRequest()
            request.seeds.seeds.CopyFrom(part.to_proto())
            yield request


def _parts_of(seeds: SeedsLike, nodes_per_request: int) -> Iterator[Seeds]:
    if isinstance(seeds, Seeds):
        yield seeds
        return
    arrays: Iterable[Any] = (seeds,)
    if not isinstance(seeds, np.ndarray) and not (
        isinstance(seeds, Sequence) and (not seeds or np.ndim(seeds[0]) == 0)
    ):
        arrays = seeds
    for array in arrays:
        if isinstance(array, Seeds):
            yield array
            continue
        numbers = convert_exactly(array, np.dtype("<u4"), "seeds").reshape(-1)
        for begin in range(0, len(numbers), nodes_per_request):
            yield Seeds(numbers=numbers[begin : begin + nodes_per_request])


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
        seed=seed,
        epoch=epoch,
        beyond_limits=beyond_limits(draw_smaller),
    )
    if options is not None:
        opening.pack.CopyFrom(options.to_proto(GraphSchema(())))
        opening.pack.ClearField("schema")
        payload = packing_pb2.PAYLOAD_SIZES if sizes_only else packing_pb2.PAYLOAD_UNSPECIFIED
        opening.pack.payload = payload
    return opening


def requests_for(opening: Any, sub_graphs: SubGraphs, seeds: SeedsLike) -> SeedRequests:
    """The requests of a stream; none of them divides the seeds of a sub-graph, or a link."""
    unit = 2 * sub_graphs.seeds_per_graph
    return SeedRequests(opening, seeds, max(unit, _SEEDS_OF_REQUEST // unit * unit))


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
