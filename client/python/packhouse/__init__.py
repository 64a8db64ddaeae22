"""packhouse: many small graphs into full, padded, fixed-shape batches.

Start with `Client` and `PackOptions`; `GraphTable` is what goes in, `Batch` what comes out. For
graphs that are stored and loaded epoch by epoch: `Client.create_dataset`, `append`, then `Loader`,
or `EpochReaders` where worker processes read, and `Evaluation` for validation.
"""

from packhouse.fork_polling import keep_forks_apart

# Before gRPC is imported by any of the others.
keep_forks_apart()

from packhouse._version import __version__
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
from packhouse.errors import EpochFinishedError, PackhouseError
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
from packhouse.next_fit import NextFit, next_fit
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

read_messages_whole()
