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

__all__ = [
    "GRAPHS",
    "Batch",
    "Client",
    "ComponentEfficiency",
    "DType",
    "DerivedTensor",
    "GraphSchema",
    "GraphTable",
    "Histogram",
    "LocalServer",
    "NextFit",
    "ObserveTotals",
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
    "next_fit",
]
