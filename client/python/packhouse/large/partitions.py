"""Partitions of source graphs, which the server makes and keeps. See `Client.partitions`."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import time
from typing import Any, Callable, Final, Mapping, Sequence

import grpc

from packhouse.base.arguments import Choice, names_arguments, whole_number
from packhouse.base.errors import PackhouseError
from packhouse.calls.retrying import Backoff
from packhouse.stored.dataset import Dataset
from packhouse.v1 import partitioning_pb2, partitioning_pb2_grpc

_PIECE_BYTES: Final = 4 << 20
_POLL_SECONDS: Final = 0.5
_RETRY_TIMEOUT: Final = 300.0


class PartitionMethod(Choice):
    """How each node gets its part."""

    AUTOMATIC = partitioning_pb2.PARTITION_METHOD_AUTOMATIC
    """METIS, or streaming where METIS cannot take the graph or its memory."""
    METIS = partitioning_pb2.PARTITION_METHOD_METIS
    RANDOM = partitioning_pb2.PARTITION_METHOD_RANDOM
    STREAMING = partitioning_pb2.PARTITION_METHOD_STREAMING


class PartitionObjective(Choice):
    """What there is to be little of."""

    CUT = partitioning_pb2.PARTITION_OBJECTIVE_CUT
    """Edges between parts."""
    VOLUME = partitioning_pb2.PARTITION_OBJECTIVE_VOLUME
    """Copies of nodes in other parts."""


class PartitionHalo(Choice):
    """Which nodes and edges of other parts a part has copies of."""

    ALL = partitioning_pb2.PARTITION_HALO_ALL
    """As DGL's partition_graph."""
    IN_EDGES = partitioning_pb2.PARTITION_HALO_IN_EDGES
    """As DGL's converter of ParMETIS's output."""


class PartitionFormat(Choice):
    """A form of the files."""

    DGL = partitioning_pb2.PARTITION_FORMAT_DGL
    NPY = partitioning_pb2.PARTITION_FORMAT_NPY
    SAFETENSORS = partitioning_pb2.PARTITION_FORMAT_SAFETENSORS


class PartitionState(Choice):
    """How far a partition is."""

    WAITING = partitioning_pb2.PARTITION_STATE_WAITING
    RUNNING = partitioning_pb2.PARTITION_STATE_RUNNING
    DONE = partitioning_pb2.PARTITION_STATE_DONE
    FAILED = partitioning_pb2.PARTITION_STATE_FAILED
    CANCELLED = partitioning_pb2.PARTITION_STATE_CANCELLED


@dataclasses.dataclass(frozen=True)
class PartitionBalance:
    """One thing that was to be spread evenly."""

    name: str
    total: int
    largest: int
    """Of the part with most of it."""
    asked: float
    """The largest over the mean, as asked for."""
    achieved: float
    met: bool
    dropped: str
    """Why it was not asked for in the end; empty if it was."""


@dataclasses.dataclass(frozen=True)
class PartitionPart:
    """One part. Cut edges are in-edges of inner nodes that come from other parts."""

    num_inner_nodes: int
    num_halo_nodes: int
    num_inner_edges: int
    num_halo_edges: int
    num_cut_edges: int
    num_bytes: int


@dataclasses.dataclass(frozen=True)
class PartitionReport:
    """What a partition came to."""

    method: PartitionMethod
    reason: str
    notes: Sequence[str]
    num_nodes: int
    num_edges: int
    num_cut_edges: int
    """Edges whose ends have different owners."""
    volume: int
    """The sum over nodes of the number of other parts among their neighbours."""
    balance: Sequence[PartitionBalance]
    parts: Sequence[PartitionPart]


@dataclasses.dataclass(frozen=True)
class Partition:
    """A partition of a source graph as it was when the server was asked."""

    graph: str
    name: str
    num_parts: int
    state: PartitionState
    phase: str
    """What is done now, for example "assigning"; empty unless it runs."""
    share_done: float
    """Of all work, 0 to 1; a guess while METIS works."""
    seconds_left: float
    """If nothing changes; 0 if it is not known."""
    error: PackhouseError | None
    """Why it failed."""
    report: PartitionReport | None
    """Once it is done."""
    files: Mapping[str, int]
    """Once it is done, the bytes of each file by its path; not in lists."""

    @classmethod
    def from_proto(cls, proto: Any) -> Partition:
        """From a PartitionJob."""
        phase = partitioning_pb2.PartitionPhase.Name(proto.phase)
        error = None
        if proto.error_code:
            codes = {code.value[0]: code for code in grpc.StatusCode}
            error = PackhouseError(
                codes.get(proto.error_code, grpc.StatusCode.UNKNOWN), proto.error_message
            )
        return cls(
            graph=proto.request.graph,
            name=proto.request.name,
            num_parts=proto.request.num_parts,
            state=PartitionState(proto.state),
            phase=phase.replace("PARTITION_PHASE_", "").lower() if proto.phase else "",
            share_done=proto.share_done,
            seconds_left=proto.estimated_seconds_left,
            error=error,
            report=_report_of(proto.report) if proto.HasField("report") else None,
            files={file.path: file.num_bytes for file in proto.files},
        )


def _report_of(proto: Any) -> PartitionReport:
    def fields(kind: Any, message: Any) -> Any:
        return kind(**{f.name: getattr(message, f.name) for f in dataclasses.fields(kind)})

    return PartitionReport(
        method=PartitionMethod(proto.method),
        reason=proto.reason,
        notes=tuple(proto.notes),
        num_nodes=proto.num_nodes,
        num_edges=proto.num_edges,
        num_cut_edges=proto.num_cut_edges,
        volume=proto.volume,
        balance=tuple(fields(PartitionBalance, each) for each in proto.balance),
        parts=tuple(fields(PartitionPart, each) for each in proto.parts),
    )


@dataclasses.dataclass(frozen=True)
class PartsProgress:
    """Parts that are on the disk, and all."""

    num_parts: int
    num_parts_total: int


@names_arguments
class Partitions:
    """A server's partitions of source graphs into parts, as DGL's trainers load them.

    Get it by `Client.partitions`. Thread-safe.
    """

    def __init__(self, channel: Any, unary: Callable[[Any, Any], Any]) -> None:
        """`unary` calls a method with a deadline, and raises PackhouseError."""
        self._stub = partitioning_pb2_grpc.PartitioningServiceStub(channel)
        self._unary = unary

    def begin(
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
        `wait`, then `download`. The same arguments find the partition that is there, and one that
        was cancelled or has failed goes on. `name` has letters and underscores. `balance_node_sets` has, for each node set whose classes are spread evenly, the
        column of classes, or several masks. Without `files` there are no files of parts, only what
        `make_dataset` needs. The other arguments are those of `packhouse partition`.

        Errors: INVALID_ARGUMENT naming the field; NOT_FOUND; ALREADY_EXISTS if the name is taken by
        other arguments; FAILED_PRECONDITION if the graph is not sealed; RESOURCE_EXHAUSTED if too
        many wait, or it needs more memory than the server has.
        """
        request = partitioning_pb2.PartitionRequest(
            graph=graph,
            name=name,
            num_parts=whole_number(num_parts, "num_parts"),
            method=int(PartitionMethod.of(method, "method")),
            recursive=recursive,
            objective=int(PartitionObjective.of(objective, "objective")),
            best_quality=best_quality,
            num_hops=whole_number(num_hops, "num_hops"),
            halo=int(PartitionHalo.of(halo, "halo")),
            trainers_per_machine=whole_number(trainers_per_machine, "trainers_per_machine"),
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
        return Partition.from_proto(self._unary(self._stub.Partition, request))

    def get(self, graph: str, name: str) -> Partition:
        """A partition as it is now. Errors: NOT_FOUND."""
        request = partitioning_pb2.GetPartitionRequest(graph=graph, name=name)
        return Partition.from_proto(self._unary(self._stub.GetPartition, request))

    def list(self, graph: str) -> Sequence[Partition]:
        """All partitions of a graph by name, without their files. Errors: NOT_FOUND."""
        request = partitioning_pb2.ListPartitionsRequest(graph=graph)
        response = self._unary(self._stub.ListPartitions, request)
        return tuple(map(Partition.from_proto, response.partitions))

    def cancel(self, graph: str, name: str) -> Partition:
        """Ends the work at a partition; `begin` goes on from there. One that is done stays so.

        Errors: NOT_FOUND.
        """
        request = partitioning_pb2.CancelPartitionRequest(graph=graph, name=name)
        return Partition.from_proto(self._unary(self._stub.CancelPartition, request))

    def delete(self, graph: str, name: str) -> None:
        """Deletes a partition with its files, and ends the work at it. Errors: NOT_FOUND."""
        request = partitioning_pb2.DeletePartitionRequest(graph=graph, name=name)
        self._unary(self._stub.DeletePartition, request)

    def wait(
        self,
        graph: str,
        name: str,
        on_progress: Callable[[Partition], None] | None = None,
    ) -> Partition:
        """Waits until a partition is done, also over a restart of the server.

        `on_progress` is called now and then; its exception ends the wait, and the work goes on.
        Errors: NOT_FOUND; CANCELLED; why the partition failed.
        """
        backoff = Backoff(_RETRY_TIMEOUT, call=f"GetPartition of '{graph}'")
        while True:
            try:
                partition = self.get(graph, name)
            except PackhouseError as error:
                time.sleep(backoff.delay_after(error))
                continue
            backoff.succeeded()
            if on_progress is not None:
                on_progress(partition)
            if partition.error is not None:
                raise partition.error
            if partition.state is PartitionState.CANCELLED:
                raise PackhouseError(
                    grpc.StatusCode.CANCELLED, f"partition {name!r} of {graph!r} was cancelled"
                )
            if partition.state is PartitionState.DONE:
                return partition
            time.sleep(_POLL_SECONDS)

    def make_dataset(
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
        responses = self._stub.PartitionDataset(request, wait_for_ready=True)
        made = None
        try:
            for response in responses:
                if on_progress is not None:
                    on_progress(PartsProgress(response.num_graphs, response.num_graphs_total))
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

    def download(
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
        to = pathlib.Path(folder)
        if to.exists():
            raise FileExistsError(f"{to} is there already")
        partition = self.get(graph, name)
        if partition.state is not PartitionState.DONE:
            raise PackhouseError(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"partition {name!r} of {graph!r} is {partition.state.name.lower()}, not done",
            )
        partial = to.with_name(to.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        for path, num_bytes in partition.files.items():
            parts = pathlib.PurePosixPath(path).parts
            if not parts or path.startswith("/") or ".." in parts:
                raise PackhouseError(
                    grpc.StatusCode.INTERNAL, f"the server has a file {path!r} outside the folder"
                )
            target = partial.joinpath(*parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "xb") as file:
                self._read_file(graph, name, path, num_bytes, file)
        if finish is not None:
            finish(partial)
        partial.rename(to)
        return partition

    def _read_file(self, graph: str, name: str, path: str, num_bytes: int, file: Any) -> None:
        backoff = Backoff(_RETRY_TIMEOUT, call=f"ReadPartitionFile of '{graph}'")
        offset = 0
        while offset < num_bytes:
            request = partitioning_pb2.ReadPartitionFileRequest(
                graph=graph, name=name, path=path, offset=offset, max_bytes=_PIECE_BYTES
            )
            try:
                response = self._unary(self._stub.ReadPartitionFile, request)
            except PackhouseError as error:
                time.sleep(backoff.delay_after(error))
                continue
            backoff.succeeded()
            if not response.data or response.num_bytes != num_bytes:
                raise PackhouseError(
                    grpc.StatusCode.DATA_LOSS,
                    f"{path!r} has {response.num_bytes} bytes now, and had {num_bytes}",
                )
            file.write(response.data)
            offset += len(response.data)
