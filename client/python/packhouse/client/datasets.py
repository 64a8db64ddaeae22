"""Data sets on a server: `Client.datasets`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping

import grpc
import numpy as np
import numpy.typing as npt

from packhouse.base.arguments import UINT64_MAX, names_arguments, whole_number
from packhouse.base.errors import PackhouseError
from packhouse.calls.retrying import DEFAULT_RETRY_TIMEOUT, UnaryCalls
from packhouse.data.examples import ExampleStream, TfgnnSchema, messages_of
from packhouse.data.graphs import DEFAULT_CHUNK_BYTES, GraphTable
from packhouse.data.histogram import Histogram
from packhouse.data.schema import GraphSchema
from packhouse.epochs.request import Draw, EpochArguments, EpochRequest
from packhouse.planning.pack_options import OversizePolicy, limits_to_proto
from packhouse.stored.appending import ReliableAppend, append_call, chunks_with_groups
from packhouse.stored.dataset import (
    AppendTotals,
    Dataset,
    DatasetDrift,
    OnVerifyProgress,
    Verification,
)
from packhouse.v1 import dataset_pb2, dataset_pb2_grpc, loader_pb2, loader_pb2_grpc

if TYPE_CHECKING:
    from typing_extensions import Unpack


@names_arguments
class Datasets:
    """A server's data sets: graphs that are stored durably, and loaded epoch by epoch.

    Get it by `Client.datasets`. Thread-safe. Names of data sets may have a namespace, as in
    `team/molhiv`.
    """

    def __init__(self, channel: Any, call: UnaryCalls) -> None:
        """`channel` may be of several servers."""
        self._stub = dataset_pb2_grpc.DatasetServiceStub(channel)
        self._loader = loader_pb2_grpc.LoaderServiceStub(channel)
        self._call = call
        # Starts a stream of AppendRequests: see stored/appending.py.
        self.append_call = append_call(channel)

    def create(
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
            max_rows=limits_to_proto(max_rows or {}, "max_rows").capacities,
            grouped=grouped,
            # The server's own default is an error, too.
            oversize_policy=0 if policy is OversizePolicy.ERROR else int(policy),
        )
        return Dataset.from_proto(self._call(self._stub.CreateDataset, request))

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
        dataset = self._await(name, retry_timeout)
        appending = ReliableAppend(
            self.append_call,
            dataset,
            producer,
            first_sequence,
            retry_timeout,
            self._call.address,
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
            self.append_call,
            self._await(name, retry_timeout),
            producer,
            first_sequence,
            retry_timeout,
            self._call.address,
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
        **arguments)` gives them: `arguments` are those that it takes, with `seed` and `limits`. With
        `samples`, `name` is their source graph.

        Errors: NOT_FOUND; OUT_OF_RANGE; FAILED_PRECONDITION if the data set's schema has no form in
        TF-GNN; for an epoch those of Evaluation.
        """
        part = {"first_graph": first_graph, "num_graphs": num_graphs}
        if epoch is not None:
            of_dataset: EpochArguments = {} if "samples" in arguments else {"dataset": name}
            request = EpochRequest({**of_dataset, **arguments}, job="")
            if request.name != name:
                raise ValueError(f"samples: of source graph {request.name!r}, not of {name!r}")
            spec = request.of_epoch(epoch)
            call = self._loader.ExportEpoch(loader_pb2.ExportEpochRequest(epoch=spec, **part))
        elif arguments:
            first = next(iter(arguments))
            raise TypeError(f"{first!r} is for an epoch: give its number as `epoch`")
        else:
            call = self._stub.ExportDataset(
                dataset_pb2.ExportDatasetRequest(name=name, **part)
            )
        return ExampleStream(call)

    def seal(self, name: str) -> Dataset:
        """Ends all appends: from now on the data set never changes and can be loaded. Errors:
        NOT_FOUND.
        """
        request = dataset_pb2.SealDatasetRequest(name=name)
        return Dataset.from_proto(self._call(self._stub.SealDataset, request))

    def get(self, name: str, *, include_histogram: bool = False) -> Dataset:
        """A data set as it is now. Errors: NOT_FOUND; DATA_LOSS."""
        request = dataset_pb2.GetDatasetRequest(name=name, include_histogram=include_histogram)
        response = self._call(self._stub.GetDataset, request)
        histogram = Histogram.from_proto(response.histogram) if include_histogram else None
        drift = DatasetDrift.from_proto(response.drift) if response.HasField("drift") else None
        return Dataset.from_proto(response.dataset, histogram, drift)

    def draw(
        self,
        shares: Mapping[str, float] | Iterable[str],
        *,
        temperature: float = 1,
        num_graphs: int = 0,
        with_replacement: bool = False,
    ) -> Draw:
        """A draw from a mixture: `Loader(..., dataset="molecules+proteins", draw=draw)`.

        `shares` says of each data set, in the order of the mixture's name, which share of the draws
        comes from it, in any unit; its graphs are equally likely. Names alone: a share is the number
        of graphs to the power of 1 / `temperature`, so that 1 draws from all graphs alike, and a
        large number from all data sets alike. `num_graphs` and `with_replacement` as in `Draw`:
        without replacement, what is left of a data set is drawn while there is any. The draw has 8
        bytes for each graph. Errors: NOT_FOUND.
        """
        whole_number(num_graphs, "num_graphs", UINT64_MAX)
        if not temperature > 0:
            raise ValueError(f"temperature: {temperature!r} is not above 0")
        given = shares if isinstance(shares, Mapping) else None
        weights = []
        for name in shares:
            count = self.get(name).num_graphs
            share = float(count) ** (1 / temperature) if given is None else float(given[name])
            if not 0 <= share < math.inf:
                raise ValueError(f"shares: {share!r} of data set {name!r} is not a number of at least 0")
            weights.append(np.full(count, share / max(count, 1)))
        if not weights:
            raise ValueError("shares: names no data set")
        return Draw(np.concatenate(weights), num_graphs, with_replacement)

    def list(self, page_size: int = 0) -> Iterator[Dataset]:
        """All data sets by name, asked for in pages (0: of the server's choice) as you iterate."""
        token = ""
        while True:
            request = dataset_pb2.ListDatasetsRequest(page_size=whole_number(page_size, "page_size"), page_token=token)
            response = self._call(self._stub.ListDatasets, request)
            yield from map(Dataset.from_proto, response.datasets)
            token = response.next_page_token
            if not token:
                return

    def delete(self, name: str) -> None:
        """Frees the name at once; running loads go on. Errors: NOT_FOUND."""
        self._call.delete(self._stub.DeleteDataset, dataset_pb2.DeleteDatasetRequest(name=name))

    def verify(
        self, name: str, on_progress: OnVerifyProgress | None = None
    ) -> Verification:
        """Has the server read all of it. Damage is in the result; it is no error.

        There is no deadline; an exception in `on_progress` ends the check. Errors: NOT_FOUND.
        """
        request = dataset_pb2.VerifyDatasetRequest(name=name)
        responses = self._stub.VerifyDataset(request)
        try:
            return Verification.from_responses(responses, on_progress)
        except grpc.RpcError as error:
            raise PackhouseError.of(error) from None
        finally:
            responses.cancel()

    def _await(self, name: str, retry_timeout: float) -> Dataset:
        """As `get`, for that time while the server is away."""
        request = dataset_pb2.GetDatasetRequest(name=name)
        call = f"GetDataset of '{name}'"
        response = self._call.again(self._stub.GetDataset, request, retry_timeout, call)
        return Dataset.from_proto(response.dataset)
