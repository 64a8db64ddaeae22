"""packhouse: many small graphs into full, padded, fixed-shape batches.

Start with `Client` and `PackOptions`; `GraphTable` is what goes in, `Batch` what comes out.
"""

from packhouse.batch import Batch, DerivedTensor, Padding
from packhouse.client import Client, ObserveTotals
from packhouse.errors import PackhouseError
from packhouse.graphs import GraphTable
from packhouse.histogram import Histogram
from packhouse.local_server import LocalServer
from packhouse.next_fit import NextFit, next_fit
from packhouse.packing import (
    OversizePolicy,
    PackFlushed,
    PackOpened,
    PackOptions,
    PackStream,
    Rejection,
)
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
from packhouse.schema import GRAPHS, DType, GraphSchema, TensorSpec
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
    "GRAPHS",
    "Batch",
    "Client",
    "ComponentEfficiency",
    "ComponentProfile",
    "DType",
    "DerivedTensor",
    "DeviceProfile",
    "GraphSchema",
    "GraphTable",
    "Histogram",
    "LocalServer",
    "LowerBoundKind",
    "NextFit",
    "ObserveTotals",
    "Oversize",
    "OversizePolicy",
    "PackFlushed",
    "PackOpened",
    "PackOptions",
    "PackStream",
    "PackhouseError",
    "Padding",
    "Pattern",
    "Plan",
    "PlanAlgorithm",
    "PlanHeuristic",
    "PlanSummary",
    "OpeningRule",
    "PlacementRule",
    "PriorityKind",
    "Rejection",
    "TensorSpec",
    "TuneCell",
    "TuneObjective",
    "TuneProgress",
    "TunedShape",
    "Tuning",
    "next_fit",
]
