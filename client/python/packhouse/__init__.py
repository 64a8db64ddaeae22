"""packhouse: many small graphs into full, padded, fixed-shape batches.

Start with `Client` and `PackOptions`; `GraphTable` is what goes in, `Batch` what comes out. For
graphs that are stored and loaded epoch by epoch: `Client.datasets`, then `Loader`, or
`EpochReaders` where worker processes read, and `Evaluation` for validation.

Importing it is quick: a name's module is imported when the name is used first.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

from packhouse._version import __version__
from packhouse.base.processes import keep_forks_apart

# Before gRPC is imported by any of the others.
keep_forks_apart()

# Where the names are, for type checkers and editors; below for the interpreter.
if TYPE_CHECKING:
    from packhouse.base.errors import EpochBegunError, EpochFinishedError, PackhouseError
    from packhouse.base.local_server import LocalServer
    from packhouse.base.processes import read_messages_whole, tune_process_for_batches
    from packhouse.base.shared_server import SharedServer
    from packhouse.calls.credentials import Credentials
    from packhouse.client.datasets import Datasets
    from packhouse.client.facade import Client
    from packhouse.data.batch import Batch, DerivedTensor, Padding
    from packhouse.data.examples import ExampleStream, SkippedExample, TfgnnSchema
    from packhouse.data.graphs import GraphTable
    from packhouse.data.histogram import Histogram
    from packhouse.data.pieces import join_pieces
    from packhouse.data.schema import GRAPHS, DType, GraphSchema, Layout, TensorSpec
    from packhouse.epochs.batches import LoadedBatch, MicroBatch
    from packhouse.epochs.epoch_readers import EpochReaders
    from packhouse.epochs.evaluation import Evaluation, EvaluationReaders
    from packhouse.epochs.info import (
        Company,
        EpochInfo,
        EpochRankGroup,
        EpochSamples,
        EpochSegments,
        EpochShape,
        EpochSteps,
        JoinedParts,
        MixedDataset,
    )
    from packhouse.epochs.loader import Loader
    from packhouse.epochs.order import ByScore, CostBalanced, CostForm, CostTerm
    from packhouse.epochs.prefetching import prefetch
    from packhouse.epochs.request import (
        ConnectionArguments,
        Draw,
        EpochArguments,
        RankGroup,
        Segments,
    )
    from packhouse.epochs.settings import EpochBegunWarning, LoaderState
    from packhouse.large.partitions import (
        Partition,
        PartitionBalance,
        PartitionFormat,
        PartitionHalo,
        PartitionMethod,
        PartitionObjective,
        PartitionPart,
        PartitionReport,
        Partitions,
        PartitionState,
        PartsProgress,
    )
    from packhouse.large.source_graph import (
        DuplicateNodes,
        EdgeRows,
        NodeRows,
        SourceColumn,
        SourceEdgeSet,
        SourceGraph,
        SourceGraphSchema,
        SourceGraphState,
        SourceNodeSet,
    )
    from packhouse.large.source_graphs import (
        FoundNodes,
        ReadEdges,
        SourceAppendTotals,
        SourceGraphs,
        SourceGraphVerification,
    )
    from packhouse.large.sub_graphs import (
        SampleProgress,
        Samples,
        SampleStream,
        Sampling,
        Seeds,
        SizeEstimate,
        SubGraphs,
    )
    from packhouse.planning.pack_options import (
        CapacityTerm,
        DriftedComponent,
        DriftWatch,
        OversizePolicy,
        OversizeWarning,
        PackDrifted,
        PackFlushed,
        PackOpened,
        PackOptions,
        PackShape,
        PackTuned,
        Rejection,
        SizesDriftedWarning,
        TunedComponent,
    )
    from packhouse.planning.packing import PackStream
    from packhouse.planning.plans import (
        ComponentEfficiency,
        LowerBoundKind,
        NextFit,
        OpeningRule,
        Pattern,
        PlacementRule,
        Plan,
        PlanAlgorithm,
        PlanHeuristic,
        PlanSummary,
        PriorityKind,
        next_fit,
    )
    from packhouse.planning.tuning import (
        ComponentProfile,
        DeviceProfile,
        Oversize,
        TuneCell,
        TunedShape,
        TuneObjective,
        TuneProgress,
        Tuning,
    )
    from packhouse.stored.dataset import (
        AppendTotals,
        DamagedRecord,
        Dataset,
        DatasetDrift,
        DatasetState,
        Verification,
        VerifyProgress,
    )
    from packhouse.stored.feedback import (
        BatchFeedback,
        DeviceModel,
        Feedback,
        JaxMemory,
        MeasuredShape,
        Meter,
        ProcessMemory,
    )
    from packhouse.stored.histograms import Histograms, ObserveTotals
    from packhouse.stored.jobs import Job, JobEpoch, Jobs

_MODULES: Final = {
    "data.batch": "Batch DerivedTensor Padding",
    "client.datasets": "Datasets",
    "client.facade": "Client",
    "stored.histograms": "Histograms ObserveTotals",
    "stored.jobs": "Jobs Job JobEpoch",
    "large.sub_graphs": "Sampling SampleProgress Samples SampleStream Seeds SizeEstimate SubGraphs",
    "epochs.request": "ConnectionArguments Draw EpochArguments RankGroup Segments",
    "stored.dataset": (
        "AppendTotals DamagedRecord Dataset DatasetDrift DatasetState Verification "
        "VerifyProgress"
    ),
    "planning.pack_options": (
        "DriftedComponent DriftWatch PackDrifted SizesDriftedWarning CapacityTerm PackShape "
        "PackTuned TunedComponent OversizePolicy OversizeWarning PackOptions PackOpened "
        "Rejection PackFlushed"
    ),
    "epochs.info": (
        "Company EpochInfo EpochRankGroup EpochSamples EpochSegments EpochShape EpochSteps "
        "JoinedParts MixedDataset"
    ),
    "epochs.epoch_readers": "EpochReaders",
    "epochs.settings": "EpochBegunWarning LoaderState",
    "calls.credentials": "Credentials",
    "base.errors": "EpochBegunError EpochFinishedError PackhouseError",
    "data.examples": "ExampleStream SkippedExample TfgnnSchema",
    "epochs.evaluation": "Evaluation EvaluationReaders",
    "stored.feedback": (
        "BatchFeedback DeviceModel Feedback JaxMemory MeasuredShape Meter ProcessMemory"
    ),
    "data.graphs": "GraphTable",
    "data.histogram": "Histogram",
    "epochs.batches": "LoadedBatch MicroBatch",
    "epochs.loader": "Loader",
    "epochs.order": "ByScore CostBalanced CostForm CostTerm",
    "base.local_server": "LocalServer",
    "planning.plans": (
        "NextFit next_fit ComponentEfficiency LowerBoundKind Pattern Plan PlanAlgorithm "
        "PlanHeuristic PlanSummary OpeningRule PlacementRule PriorityKind"
    ),
    "planning.packing": "PackStream",
    "large.partitions": (
        "Partition PartitionBalance PartitionFormat PartitionHalo PartitionMethod "
        "PartitionObjective PartitionPart PartitionReport Partitions PartitionState "
        "PartsProgress"
    ),
    "data.pieces": "join_pieces",
    "epochs.prefetching": "prefetch",
    "base.processes": "read_messages_whole tune_process_for_batches",
    "data.schema": "GRAPHS DType GraphSchema Layout TensorSpec",
    "base.shared_server": "SharedServer",
    "large.source_graph": (
        "DuplicateNodes SourceColumn SourceEdgeSet SourceGraph SourceGraphSchema "
        "SourceGraphState SourceNodeSet EdgeRows NodeRows"
    ),
    "large.source_graphs": (
        "FoundNodes ReadEdges SourceAppendTotals SourceGraphs SourceGraphVerification"
    ),
    "planning.tuning": (
        "ComponentProfile DeviceProfile Oversize TuneCell TunedShape TuneObjective "
        "TuneProgress Tuning"
    ),
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "AppendTotals",
    "Batch",
    "BatchFeedback",
    "ByScore",
    "CapacityTerm",
    "Client",
    "Company",
    "ComponentEfficiency",
    "ComponentProfile",
    "ConnectionArguments",
    "CostBalanced",
    "CostForm",
    "CostTerm",
    "Credentials",
    "DType",
    "DamagedRecord",
    "Dataset",
    "DatasetDrift",
    "DatasetState",
    "Datasets",
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
    "EpochBegunWarning",
    "EpochFinishedError",
    "EpochInfo",
    "EpochRankGroup",
    "EpochReaders",
    "EpochSamples",
    "EpochSegments",
    "EpochShape",
    "EpochSteps",
    "Evaluation",
    "EvaluationReaders",
    "ExampleStream",
    "Feedback",
    "FoundNodes",
    "GRAPHS",
    "GraphSchema",
    "GraphTable",
    "Histogram",
    "Histograms",
    "JaxMemory",
    "Job",
    "JobEpoch",
    "Jobs",
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
    "MixedDataset",
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
    "Partitions",
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
    "Sampling",
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
