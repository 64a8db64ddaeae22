"""packhouse: many small graphs into full, padded, fixed-shape batches.

Start with `Client` and `PackOptions`; `GraphTable` is what goes in, `Batch` what comes out. For
graphs that are stored and loaded epoch by epoch: `Client.create_dataset`, `append`, then `Loader`,
or `EpochReaders` where worker processes read, and `Evaluation` for validation.

Importing it is quick: a name's module is imported when the name is used first.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

from packhouse._version import __version__
from packhouse.fork_polling import keep_forks_apart

# Before gRPC is imported by any of the others.
keep_forks_apart()

# Where the names are, for type checkers and editors; below for the interpreter.
if TYPE_CHECKING:
    from packhouse.batch import Batch, DerivedTensor, Padding
    from packhouse.client import Client, ObserveTotals
    from packhouse.connecting import ConnectionArguments
    from packhouse.dataset import (
        AppendTotals,
        DamagedRecord,
        Dataset,
        DatasetDrift,
        DatasetState,
        Verification,
        VerifyProgress,
    )
    from packhouse.drift import DriftedComponent, DriftWatch, PackDrifted, SizesDriftedWarning
    from packhouse.epoch_info import (
        EpochInfo,
        EpochRankGroup,
        EpochSegments,
        EpochShape,
        JoinedParts,
    )
    from packhouse.epoch_request import Draw, EpochArguments, RankGroup, Segments
    from packhouse.epoch_readers import EpochReaders
    from packhouse.credentials import Credentials
    from packhouse.errors import EpochBegunError, EpochFinishedError, PackhouseError
    from packhouse.examples import ExampleStream, SkippedExample, TfgnnSchema
    from packhouse.evaluation import Evaluation
    from packhouse.evaluation_readers import EvaluationReaders
    from packhouse.feedback import (
        BatchFeedback,
        DeviceModel,
        Feedback,
        JaxMemory,
        MeasuredShape,
        Meter,
        ProcessMemory,
    )
    from packhouse.graphs import GraphTable
    from packhouse.histogram import Histogram
    from packhouse.job import Job, JobEpoch
    from packhouse.loaded_batch import LoadedBatch
    from packhouse.loader import Loader
    from packhouse.loader_settings import LoaderState
    from packhouse.local_server import LocalServer
    from packhouse.next_fit_packing import NextFit, next_fit
    from packhouse.packing import (
        OversizePolicy,
        OversizeWarning,
        PackFlushed,
        PackOpened,
        PackOptions,
        PackStream,
        Rejection,
    )
    from packhouse.partitions import (
        Partition,
        PartitionBalance,
        PartitionFormat,
        PartitionHalo,
        PartitionMethod,
        PartitionObjective,
        PartitionPart,
        PartitionReport,
        PartitionState,
        PartsProgress,
    )
    from packhouse.pieces import join_pieces
    from packhouse.planning import (
        ComponentEfficiency,
        LowerBoundKind,
        Pattern,
        Plan,
        PlanAlgorithm,
        PlanHeuristic,
        PlanSummary,
        OpeningRule,
        PlacementRule,
        PriorityKind,
    )
    from packhouse.prefetching import prefetch
    from packhouse.process_tuning import read_messages_whole, tune_process_for_batches
    from packhouse.schema import GRAPHS, DType, GraphSchema, Layout, TensorSpec
    from packhouse.shared_server import SharedServer
    from packhouse.source_graph import (
        DuplicateNodes,
        SourceColumn,
        SourceEdgeSet,
        SourceGraph,
        SourceGraphSchema,
        SourceGraphState,
        SourceNodeSet,
    )
    from packhouse.source_graph_rows import EdgeRows, NodeRows
    from packhouse.source_graphs import (
        FoundNodes,
        ReadEdges,
        SourceAppendTotals,
        SourceGraphs,
        SourceGraphVerification,
    )
    from packhouse.splitting import MicroBatch
    from packhouse.stream_tuning import CapacityTerm, PackShape, PackTuned, TunedComponent
    from packhouse.sub_graphs import (
        SampleProgress,
        Samples,
        SampleStream,
        Seeds,
        SizeEstimate,
        SubGraphs,
    )
    from packhouse.tuning import (
        ComponentProfile,
        DeviceProfile,
        Oversize,
        TuneCell,
        TunedShape,
        TuneObjective,
        TuneProgress,
        Tuning,
    )

_MODULES: Final = {
    "batch": "Batch DerivedTensor Padding",
    "client": "Client ObserveTotals",
    "connecting": "ConnectionArguments",
    "dataset": (
        "AppendTotals DamagedRecord Dataset DatasetDrift DatasetState Verification "
        "VerifyProgress"
    ),
    "drift": "DriftedComponent DriftWatch PackDrifted SizesDriftedWarning",
    "epoch_info": "EpochInfo EpochRankGroup EpochSegments EpochShape JoinedParts",
    "epoch_request": "Draw EpochArguments RankGroup Segments",
    "epoch_readers": "EpochReaders",
    "credentials": "Credentials",
    "errors": "EpochBegunError EpochFinishedError PackhouseError",
    "examples": "ExampleStream SkippedExample TfgnnSchema",
    "evaluation": "Evaluation",
    "evaluation_readers": "EvaluationReaders",
    "feedback": "BatchFeedback DeviceModel Feedback JaxMemory MeasuredShape Meter ProcessMemory",
    "graphs": "GraphTable",
    "histogram": "Histogram",
    "job": "Job JobEpoch",
    "loaded_batch": "LoadedBatch",
    "loader": "Loader",
    "loader_settings": "LoaderState",
    "local_server": "LocalServer",
    "next_fit_packing": "NextFit next_fit",
    "packing": (
        "OversizePolicy OversizeWarning PackFlushed PackOpened PackOptions PackStream "
        "Rejection"
    ),
    "partitions": (
        "Partition PartitionBalance PartitionFormat PartitionHalo PartitionMethod "
        "PartitionObjective PartitionPart PartitionReport PartitionState PartsProgress"
    ),
    "pieces": "join_pieces",
    "planning": (
        "ComponentEfficiency LowerBoundKind Pattern Plan PlanAlgorithm PlanHeuristic "
        "PlanSummary OpeningRule PlacementRule PriorityKind"
    ),
    "prefetching": "prefetch",
    "process_tuning": "read_messages_whole tune_process_for_batches",
    "schema": "GRAPHS DType GraphSchema Layout TensorSpec",
    "shared_server": "SharedServer",
    "source_graph": (
        "DuplicateNodes SourceColumn SourceEdgeSet SourceGraph SourceGraphSchema "
        "SourceGraphState SourceNodeSet"
    ),
    "source_graph_rows": "EdgeRows NodeRows",
    "source_graphs": "FoundNodes ReadEdges SourceAppendTotals SourceGraphs SourceGraphVerification",
    "splitting": "MicroBatch",
    "stream_tuning": "CapacityTerm PackShape PackTuned TunedComponent",
    "sub_graphs": "SampleProgress Samples SampleStream Seeds SizeEstimate SubGraphs",
    "tuning": (
        "ComponentProfile DeviceProfile Oversize TuneCell TunedShape TuneObjective "
        "TuneProgress Tuning"
    ),
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "AppendTotals",
    "Batch",
    "BatchFeedback",
    "CapacityTerm",
    "Client",
    "ComponentEfficiency",
    "ComponentProfile",
    "ConnectionArguments",
    "Credentials",
    "DType",
    "DamagedRecord",
    "Dataset",
    "DatasetDrift",
    "DatasetState",
    "DerivedTensor",
    "DeviceModel",
    "DeviceProfile",
    "Draw",
    "DriftWatch",
    "DriftedComponent",
    "DuplicateNodes",
    "EdgeRows",
    "EpochArguments",
    "EpochBegunError",
    "EpochFinishedError",
    "EpochInfo",
    "EpochRankGroup",
    "EpochReaders",
    "EpochSegments",
    "EpochShape",
    "Evaluation",
    "EvaluationReaders",
    "ExampleStream",
    "Feedback",
    "FoundNodes",
    "GRAPHS",
    "GraphSchema",
    "GraphTable",
    "Histogram",
    "JaxMemory",
    "Job",
    "JobEpoch",
    "JoinedParts",
    "Layout",
    "LoadedBatch",
    "Loader",
    "LoaderState",
    "LocalServer",
    "LowerBoundKind",
    "MeasuredShape",
    "Meter",
    "MicroBatch",
    "NextFit",
    "NodeRows",
    "ObserveTotals",
    "OpeningRule",
    "Oversize",
    "OversizePolicy",
    "OversizeWarning",
    "PackDrifted",
    "PackFlushed",
    "PackOpened",
    "PackOptions",
    "PackShape",
    "PackStream",
    "PackTuned",
    "PackhouseError",
    "Padding",
    "Partition",
    "PartitionBalance",
    "PartitionFormat",
    "PartitionHalo",
    "PartitionMethod",
    "PartitionObjective",
    "PartitionPart",
    "PartitionReport",
    "PartitionState",
    "PartsProgress",
    "Pattern",
    "PlacementRule",
    "Plan",
    "PlanAlgorithm",
    "PlanHeuristic",
    "PlanSummary",
    "PriorityKind",
    "ProcessMemory",
    "RankGroup",
    "ReadEdges",
    "Rejection",
    "SampleProgress",
    "SampleStream",
    "Samples",
    "Seeds",
    "Segments",
    "SharedServer",
    "SizeEstimate",
    "SizesDriftedWarning",
    "SkippedExample",
    "SourceAppendTotals",
    "SourceColumn",
    "SourceEdgeSet",
    "SourceGraph",
    "SourceGraphSchema",
    "SourceGraphState",
    "SourceGraphVerification",
    "SourceGraphs",
    "SourceNodeSet",
    "SubGraphs",
    "TensorSpec",
    "TfgnnSchema",
    "TuneCell",
    "TuneObjective",
    "TuneProgress",
    "TunedComponent",
    "TunedShape",
    "Tuning",
    "Verification",
    "VerifyProgress",
    "__version__",
    "join_pieces",
    "keep_forks_apart",
    "next_fit",
    "prefetch",
    "read_messages_whole",
    "tune_process_for_batches",
]


if not TYPE_CHECKING:  # With it, type checkers would take any name.

    def __getattr__(name: str) -> Any:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
