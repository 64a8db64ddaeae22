"""Every argument of what users make, given something of a wrong type, is refused by its name."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from typing import Any, Iterator

import numpy as np
import pytest

import packhouse
from packhouse import (
    Client,
    ComponentProfile,
    DeviceProfile,
    GraphSchema,
    Histogram,
    PackOptions,
    RankGroup,
    SourceColumn,
    SourceEdgeSet,
    SourceGraphSchema,
    SourceNodeSet,
    SubGraphs,
    TensorSpec,
)

# What users import, whose packages are there.
MODULES = ("sampling", "atoms", "torch", "pyg", "dgl", "jraph", "tfgnn", "command.cluster")
# What the package makes, and users read: answers of servers, batches, parts of a call, errors.
ANSWERS = frozenset(
    """
    AppendTotals Batch Company ComponentEfficiency DamagedRecord Dataset DatasetDrift DeviceModel
    DriftedComponent EpochInfo EpochRankGroup EpochSamples EpochSegments EpochShape EpochSteps
    ExampleStream FoundNodes Job JobEpoch JoinedParts LoadedBatch MeasuredShape Meter MicroBatch MixedDataset NextFit ObserveTotals
    Oversize PackDrifted PackFlushed PackOpened PackShape PackStream PackTuned PackhouseError Partition
    PartitionBalance PartitionPart PartitionReport PartsProgress Pattern Plan PlanSummary
    ReadEdges Rejection SampleProgress SampleStream SizeEstimate SkippedExample SourceAppendTotals
    SourceGraph SourceGraphVerification TuneCell TuneProgress TunedComponent TunedShape Tuning
    Verification VerifyProgress
    LinkSeeds SamplingOp SamplingSpec SamplingStep SourceSets
    Leased SequenceBatch TorchBatch GraphBatch Masks Batches
    """.split()
)
# The nouns of a client: test_arguments_end_to_end.py.
NOUNS = frozenset(
    "Datasets Feedback Histograms Jobs Partitions Sampling SourceGraphs".split()
)
# Right values of arguments without a default.
RIGHT: dict[str, Any] = {
    "address": "127.0.0.1:1",
    "component": "nodes",
    "components": ("nodes",),
    "counts": np.array([1], "<u8"),
    "cutoff": 5.0,
    "data": b"",
    "dataset": [{"input_ids": [1, 2]}],
    "dtype": "float32",
    "edge_set": "edges",
    "graph": "nothing/there",
    "graph_schema": SourceGraphSchema([SourceNodeSet("nodes")]),
    "ids": [1],
    "job": "nothing",
    "limits": {"nodes": 8},
    "name": "x",
    "node_set": "nodes",
    "node_sets": [SourceNodeSet("nodes")],
    "numbers": [0],
    "rows": {"nodes": 1},
    "schema": GraphSchema(("nodes",)),
    "sizes": np.array([[1]]),
    "source": "nodes",
    "sources": [1],
    "spec": "",
    "sub_graphs": SubGraphs("nothing/there", b""),
    "target": "nodes",
    "targets": [1],
    "tuples": np.array([[1]], "<u4"),
}
# Where one of them is not right.
RIGHT_OF: dict[str, dict[str, Any]] = {
    "BatchSampler": {"sizes": np.array([[1, 1]])},
    "DeviceProfile": {"components": {}},
    "EpochDataset": {"source": packhouse.Evaluation("nowhere:1", dataset="d", limits={"nodes": 8})},
    "EpochReaders": {
        "loader": packhouse.Loader("nowhere:1", job="j", dataset="d", limits={"nodes": 8})
    },
    "EvaluationReaders": {
        "evaluation": packhouse.Evaluation("nowhere:1", dataset="d", limits={"nodes": 8})
    },
    "Evaluation": {"dataset": "d"},
    "Loader": {"dataset": "d"},
    # Nothing is started.
    "LocalCluster": {"folder": "/nothing/there"},
    "LocalServer": {"binary": "/nothing/there"},
    "SharedServer": {"binary": "/nothing/there"},
    "Seeds": {"numbers": [0]},
}


class Odd:
    """No text, number, sequence, function or anything else that could be taken."""


def made_by_users() -> Iterator[tuple[str, type]]:
    seen = set()
    for name in ("", *MODULES):
        try:
            module = importlib.import_module(f"packhouse.{name}" if name else "packhouse")
        except ImportError:  # A framework that is not here.
            continue
        for public in getattr(module, "__all__", dir(module)):
            kind = getattr(module, public)
            if not inspect.isclass(kind) or kind in seen or public.startswith("_"):
                continue
            seen.add(kind)
            if not kind.__module__.startswith("packhouse.") or public in ANSWERS | NOUNS:
                continue
            if issubclass(kind, (packhouse.base.arguments.Choice, Exception, dict)):
                continue
            # Of torch, or without arguments; DType.
            init = kind.__new__ if issubclass(kind, tuple) else kind.__init__
            is_ours = getattr(init, "__module__", "").startswith("packhouse.")
            if not (is_ours or issubclass(kind, tuple)) or hasattr(kind, "__members__"):
                continue
            yield f"packhouse.{name}.{public}" if name else public, kind


CLASSES = dict(made_by_users())


def right_arguments(name: str, kind: type) -> dict[str, Any]:
    own = RIGHT_OF.get(kind.__name__, {})
    given = {
        parameter.name: own.get(parameter.name, RIGHT.get(parameter.name))
        for parameter in inspect.signature(kind).parameters.values()
        if parameter.default is inspect.Parameter.empty
        and parameter.kind
        not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    }
    if "limits" in inspect.signature(kind).parameters and "padding_values" not in given:
        given["limits"] = RIGHT["limits"]
    return {**given, **own}


def annotation_of(parameter: inspect.Parameter) -> str:
    annotation = parameter.annotation
    return getattr(annotation, "__forward_arg__", str(annotation))


def wrongs(annotation: str) -> list[Any]:
    """What an argument of this type cannot be."""
    kinds = annotation.removesuffix(" | None").split(" | ")
    if annotation == "Any" or "object" in kinds:
        return []
    if kinds == ["int"]:
        return [Odd(), -1, 2.5, 1 << 64, "1"]
    if kinds == ["Uint32"]:
        return [Odd(), -1, 2.5, 1 << 32, "1"]
    if kinds == ["float"]:
        return [Odd(), "1", float("nan")]
    if kinds == ["bool"]:
        return [Odd(), "no"]
    if kinds == ["Sequence[str]"]:
        return [Odd(), "name", [1]]
    return [Odd()]


@pytest.mark.parametrize("name", CLASSES)
def test_an_argument_of_a_wrong_type_is_named(name: str) -> None:
    kind = CLASSES[name]
    amiss = []
    for parameter in inspect.signature(kind).parameters.values():
        if parameter.kind in (
            inspect.Parameter.VAR_KEYWORD,
            inspect.Parameter.VAR_POSITIONAL,
        ):
            continue
        for wrong in wrongs(annotation_of(parameter)):
            arguments = {**right_arguments(name, kind), parameter.name: wrong}
            shown = f"{parameter.name}: {parameter.annotation} = {wrong!r}"
            try:
                kind(**arguments)
            except (TypeError, ValueError) as error:
                # A tensor may be named before its field.
                if not re.match(rf"(\w+ '\w+': )?{parameter.name}\b", str(error)):
                    amiss.append(f"{shown}: {error!r}"[:300])
            except Exception as error:
                amiss.append(f"{shown}: {error!r}"[:300])
            else:
                amiss.append(f"{shown}: taken")
    assert not amiss, "\n".join(amiss)


def test_a_whole_number_beyond_the_wires_is_named() -> None:
    amiss = []
    seen = 0
    for name, kind in CLASSES.items():
        if not dataclasses.is_dataclass(kind) or not hasattr(kind, "to_proto"):
            continue
        for parameter in inspect.signature(kind).parameters.values():
            annotation = annotation_of(parameter)
            if not {"int", "Uint32"} & set(re.findall(r"\w+", annotation)) or "Mapping" in annotation:
                continue
            seen += 1
            for number in ((1 << 32) - 1, 1 << 32, (1 << 64) - 1):
                given: Any = (number,) if "Sequence" in annotation else number
                arguments = {**right_arguments(name, kind), parameter.name: given}
                try:
                    kind(**arguments).to_proto(*to_proto_arguments(kind))
                except Exception as error:
                    # Another rule may be broken by it; protobuf's own words name nothing.
                    is_ours = isinstance(error, (TypeError, ValueError))
                    if not is_ours or "out of range" in str(error):
                        amiss.append(f"{name}({parameter.name} = {number}): {error!r}"[:300])
    assert not amiss, "\n".join(amiss)
    assert seen > 20


def to_proto_arguments(kind: type) -> list[Any]:
    return [RIGHT["schema"]] if kind is PackOptions else []


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: DeviceProfile({"nodes": 5}), r"components\['nodes'\]: a int is no ComponentProfile"),
        (lambda: DeviceProfile({1: ComponentProfile()}), "components: a key: a int is no str"),
        (lambda: RankGroup(({"nodes": 2.5},)), r"shapes\[0\]: 2.5 is no number of rows"),
        (lambda: GraphSchema(("nodes",), ("x",)), r"tensors\[0\]: a str is no TensorSpec"),
        (
            lambda: SourceGraphSchema([SourceNodeSet("n"), SourceEdgeSet("e", "n", "n")]),
            r"node_sets\[1\]: a SourceEdgeSet is no SourceNodeSet",
        ),
        (lambda: SourceColumn("x", "float32", (2.5,)), r"row_shape\[0\]: 2.5 is no whole number"),
        (lambda: TensorSpec("x", "float32", "nodes", (2.5,)), "row_shape: 2.5 is no whole number"),
        (lambda: Histogram(("nodes",), [[1, 2]], [1]), r"tuples: shape \(1, 2\), needs \(d, 1\)"),
        (lambda: Histogram(("nodes",), [[1]], [1, 2]), r"counts: shape \(2,\), needs \(1,\)"),
        (lambda: PackOptions({"nodes": 8}, derived="mask"), "derived: 'mask' is none of"),
        (lambda: Client(5), "address: a int is no str"),
        (lambda: packhouse.Credentials(tls="yes"), "tls: 'yes' is neither True nor False"),
    ],
)
def test_what_is_wrong_within_an_argument_is_named(make: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        make()


def test_what_the_package_makes_is_told_apart() -> None:
    """A new class is checked, or is named here as one that users do not make."""
    public = set(packhouse.__all__)
    for name in MODULES:
        try:
            public |= set(dir(importlib.import_module(f"packhouse.{name}")))
        except ImportError:
            return
    assert (ANSWERS | NOUNS) <= public, (ANSWERS | NOUNS) - public
