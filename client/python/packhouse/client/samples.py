"""Sub-graphs drawn from a server's source graphs: `Client.samples`."""

from __future__ import annotations

from typing import Any, Final, Iterator, Mapping

import grpc

from packhouse.base.arguments import names_arguments, whole_number
from packhouse.base.errors import PackhouseError
from packhouse.calls.retrying import UnaryCalls
from packhouse.data.graphs import GraphTable
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
from packhouse.planning.pack_options import OnRejected, PackOptions, limits_to_proto
from packhouse.planning.tuning import DeviceProfile
from packhouse.stored.dataset import Dataset
from packhouse.v1 import sampling_pb2, sampling_pb2_grpc

_SAMPLE_METHOD: Final = "/packhouse.v1.SamplingService/Sample"


@names_arguments
class Sampling:
    """Sub-graphs around seeds of a source graph: packed, as tables, as a data set.

    Get it by `Client.samples`. Thread-safe.
    """

    def __init__(self, channel: grpc.Channel, servers: Any, call: UnaryCalls) -> None:
        """Streams go over `channel`, calls over `servers`, which may be of several."""
        # Responses are bytes: see batch_reader.py.
        self._sample = channel.stream_stream(
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
