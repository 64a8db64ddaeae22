"""What was made once, made again: plans by their receipts, and the batches of epochs.

For looking into a loss that jumped: `client.receipts.batches("job", epoch=7, numbers=[1234])` gives
that batch with the bytes that the trainer got, in any state of the epoch.
"""

from __future__ import annotations

import itertools
from typing import Any, Callable, Iterable, Iterator

import grpc

from packhouse.base.arguments import UINT64_MAX, names_arguments, whole_number
from packhouse.base.errors import PackhouseError
from packhouse.calls.servers import JobCalls
from packhouse.data.histogram import Histogram
from packhouse.data.schema import GraphSchema
from packhouse.epochs.batches import LoadedBatch
from packhouse.epochs.info import EpochRows
from packhouse.epochs.request import EpochArguments, EpochRequest
from packhouse.planning.plans import Plan
from packhouse.v1 import receipts_pb2, receipts_pb2_grpc


@names_arguments
class Receipts:
    """Get it from `Client.receipts`. May be used from any thread."""

    def __init__(
        self, channel: grpc.Channel, unary: Callable[[Any, Any], Any], jobs: JobCalls
    ) -> None:
        """`unary(method, request)` makes a unary call; `jobs` those about one job."""
        self._stub = receipts_pb2_grpc.ReceiptServiceStub(channel)
        self._unary = unary
        self._jobs = jobs

    def plan(
        self,
        receipt: str,
        source: Histogram | str | None = None,
        *,
        dataset: str | None = None,
        warm_start: Plan | None = None,
        summaries_only: bool = False,
    ) -> Plan:
        """The plan of a receipt, pack for pack.

        `source` is the histogram, or the name of one that the server keeps; `dataset` is the data
        set, all of its graphs that fit. With neither it is the plan of an epoch that the server
        remembers; then `best` has packs, lower bound, number of patterns and receipt alone.
        `warm_start` is what the plan started from, if it did.

        Errors: FAILED_PRECONDITION if the sizes are others than those of the receipt, or another
        version of the planner made it; NOT_FOUND; INVALID_ARGUMENT if it is no receipt of one plan.
        """
        if source is not None and dataset is not None:
            raise ValueError("source: given beside dataset; sizes are from one of them")
        request = receipts_pb2.ReplanRequest(
            receipt=receipt,
            dataset=dataset,
            warm_start=None if warm_start is None else warm_start.to_proto(),
            summaries_only=summaries_only,
        )
        if isinstance(source, str):
            request.histogram_name = source
        elif source is not None:
            request.histogram.CopyFrom(source.to_proto())
        return Plan.from_proto(self._unary(self._stub.Replan, request).plan)

    def batches(
        self,
        job: str,
        epoch: int,
        numbers: Iterable[int],
        words: EpochArguments | None = None,
    ) -> Iterator[LoadedBatch]:
        """Batches of an epoch by their numbers (`LoadedBatch.number`), in that order.

        Tensors, ids and sizes are those that the epoch's loaders got, byte for byte; `step` and
        `graphs_of_step` are 0, and there is nothing to acknowledge. `words` are the arguments of the
        loader, needed only if the server does not have them: for long subsets and weights, and for
        epochs that it does not remember any more.

        Errors: NOT_FOUND if nothing is remembered of the job; FAILED_PRECONDITION if the epoch
        cannot be made again, saying why; OUT_OF_RANGE naming a number that it does not have.
        """
        schema = GraphSchema()
        epoch_rows: EpochRows | None = None
        for response in self.responses(job, epoch, numbers, words):
            if response.HasField("opened"):
                schema = GraphSchema.from_proto(response.opened.schema)
                epoch_rows = EpochRows.of(response.opened.epoch)
            else:
                yield LoadedBatch.of(response.batch, schema, 0, 0, epoch_rows)

    def responses(
        self,
        job: str,
        epoch: int,
        numbers: Iterable[int],
        words: EpochArguments | None = None,
    ) -> Iterator[Any]:
        """What `batches` reads, as the server sends it: `packhouse.v1.RebuildBatchesResponse`s, of
        which the first says what the epoch is. A message can be stored as it is.
        """
        request = receipts_pb2.RebuildBatchesRequest(
            job=job,
            epoch=epoch,
            numbers=[whole_number(number, "numbers", UINT64_MAX) for number in numbers],
        )
        if words is not None:
            request.words.CopyFrom(EpochRequest(words, job="").of_epoch(0))

        def begin(channel: grpc.Channel) -> Iterator[Any]:
            responses = receipts_pb2_grpc.ReceiptServiceStub(channel).RebuildBatches(request)
            # Only the owner of the job gives a first one.
            first = list(itertools.islice(responses, 1))
            return itertools.chain(first, responses)

        try:
            yield from self._jobs.call(begin)
        except grpc.RpcError as error:
            raise PackhouseError.of(error) from None
