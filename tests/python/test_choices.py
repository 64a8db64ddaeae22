"""Choices may be given by name; what is none of them is refused by the argument's name."""

from __future__ import annotations

import re
from typing import Any, get_args

import numpy as np
import pytest

import packhouse
from packhouse import (
    Client,
    DerivedTensor,
    DType,
    Evaluation,
    Loader,
    OversizePolicy,
    PackOptions,
    Padding,
    PlanAlgorithm,
    PlanHeuristic,
    TensorSpec,
)
from packhouse.base.arguments import check_each, check_type, parse_whole, whole_number
from packhouse.data.batch import PaddingLike
from packhouse.epochs import order
from packhouse.large import partitions
from packhouse.planning import pack_options, plans, tuning
from packhouse.stored import administration
from packhouse.v1 import (
    admin_pb2, batch_pb2, dataset_pb2, loader_pb2, packing_pb2, partitioning_pb2, planning_pb2,
    source_graph_pb2,
)  # fmt: skip


def test_every_member_is_found_by_its_name_its_value_and_itself() -> None:
    for kind in (Padding, DerivedTensor, OversizePolicy, PlanAlgorithm):
        for member in kind:
            for value in (member, int(member), member.name, member.name.lower()):
                assert kind.of(value, "kind") is member
            assert kind.of(member.name.lower().replace("_", "-"), "kind") is member


@pytest.mark.parametrize("value", ["padded", "", 17, True, None, 1.0])
def test_what_is_none_of_them_is_refused_by_name(value: Any) -> None:
    choices = "'none', 'masked', 'graph', 'tfgnn'"
    with pytest.raises(ValueError, match=f"^padding: .* is none of {choices}$"):
        PackOptions({"nodes": 3}, padding=value)


def test_options_and_loaders_take_names() -> None:
    limits = {"nodes": 3, "edges": 4, "graphs": 2}
    by_name = PackOptions(limits, "graph", derived=["row_counts", "masks"], oversize="reject")
    by_member = PackOptions(
        limits,
        Padding.GRAPH,
        derived=(DerivedTensor.ROW_COUNTS, DerivedTensor.MASKS),
        oversize=OversizePolicy.REJECT,
    )
    assert by_name == by_member
    assert PackOptions(limits, derived="masks").derived == (DerivedTensor.MASKS,)
    assert PlanHeuristic(algorithm="no_packing").algorithm is PlanAlgorithm.NO_PACKING
    common: dict[str, Any] = {"dataset": "d", "limits": limits}
    for make in (Evaluation, lambda *place, **how: Loader(*place, job="j", **how)):
        make("nowhere:1", **common, padding="masked", derived="masks", oversize="reject")
        for argument in ("padding", "derived", "oversize"):
            with pytest.raises(ValueError, match=f"^{argument}: 'other' is none of"):
                make("nowhere:1", **common, **{argument: "other"})


def test_an_element_type_is_understood_in_every_usual_way() -> None:
    for dtype in DType:
        assert DType.of(dtype.name.lower()) is DType.of(dtype) is dtype
        assert TensorSpec("x", dtype.name.lower(), "nodes").dtype is dtype
    assert DType.of("double") is DType.FLOAT64
    assert DType.of(np.float16) is DType.FLOAT16
    assert TensorSpec("x", "int64", "nodes", 9).row_shape == (9,)
    with pytest.raises(ValueError, match="tensor 'x': dtype 'floaty' is no type of elements"):
        TensorSpec("x", "floaty", "nodes")
    with pytest.raises(ValueError, match="tensor 'x': dtype complex128 cannot be sent"):
        TensorSpec("x", complex, "nodes")


def test_torchs_element_types_are_understood() -> None:
    torch = pytest.importorskip("torch")
    assert DType.of(torch.bfloat16) is DType.BFLOAT16
    assert DType.of(torch.float32) is DType.FLOAT32
    assert DType.of(torch.bool) is DType.BOOL


@pytest.mark.parametrize(
    "limits",
    [512, {"nodes": -1}, {"nodes": 1.5}, {"nodes": "many"}, {"nodes": True}, {"nodes": 1 << 64}, None],
)
def test_limits_that_are_none_are_refused_by_name(limits: Any) -> None:
    with pytest.raises(ValueError, match="^limits: "):
        PackOptions(limits)
    if limits is not None:
        with pytest.raises(ValueError, match="^limits: "):
            Evaluation("nowhere:1", dataset="d", limits=limits)


@pytest.mark.parametrize(
    "argument, value",
    [
        ("rank", -1),
        ("rank", "a"),
        ("num_ranks", 0.5),
        ("seed", "x"),
        ("seed", 2**64),
        ("look_ahead", -1),
        ("max_in_flight", -2),
        ("draw", 100),
        ("dataset", None),
        ("worker", 3),
    ],
)
def test_an_argument_that_makes_no_sense_is_named(argument: str, value: Any) -> None:
    arguments: dict[str, Any] = {"dataset": "d", "job": "j", "limits": {"nodes": 3}}
    if argument != "worker":
        arguments["num_ranks"] = 2
    with pytest.raises((TypeError, ValueError), match=f"^{argument}: .*{value!r}"):
        Loader("nowhere:1", **{**arguments, argument: value})


def test_epochs_are_numbered_from_0() -> None:
    with pytest.raises(ValueError, match="^epoch: -1 is not from 0"):
        Loader("nowhere:1", dataset="d", job="j", limits={"nodes": 3}).set_epoch(-1)
    last: Any = "last"
    with pytest.raises(TypeError, match="^epoch: 'last' is no whole number"):
        Evaluation("nowhere:1", dataset="d", limits={"nodes": 3}, epoch=last)


def test_numbers_may_be_of_numpy() -> None:
    Loader(
        "nowhere:1", dataset="d", job="j", limits={"nodes": 3}, seed=np.int64(7), rank=np.uint8(0)
    )
    limits = {"nodes": (1 << 64) - 1, "edges": 0, "graphs": np.int64(3)}
    assert PackOptions(limits, compact=np.bool_(True)).limits == limits
    for number in (0, 7, np.uint8(7), (1 << 32) - 1):
        assert whole_number(number, "x") == number and type(whole_number(number, "x")) is int
    assert whole_number((1 << 64) - 1, "x", (1 << 64) - 1) == (1 << 64) - 1
    with pytest.raises(ValueError, match="^x: 8 is not from 0 to 7$"):
        whole_number(8, "x", 7)


def test_what_is_no_table_is_named(client: Client) -> None:
    graphs: Any = [{"x": [1]}]
    with pytest.raises(TypeError, match="^tables: a dict is no GraphTable; .*from_graphs"):
        client.pack(graphs, PackOptions({"nodes": 3}))


def test_a_mask_is_no_subset() -> None:
    with pytest.raises(ValueError, match=re.escape("np.flatnonzero(mask)")):
        Evaluation(
            "nowhere:1", dataset="d", limits={"nodes": 3}, subset=np.array([True, False, True])
        )


def test_the_typed_names_of_paddings_are_those_that_are_taken() -> None:
    names = [name for way in get_args(PaddingLike) for name in get_args(way)]
    assert [Padding.of(name, "padding") for name in names] == list(Padding)


# Packhouse's own enumerations, by the message of the protocol that each stands for.
ENUMS: dict[str, Any] = {
    name: (kind, module.DESCRIPTOR.enum_types_by_name[name])
    for module in (
        admin_pb2, batch_pb2, dataset_pb2, loader_pb2, packing_pb2, partitioning_pb2, planning_pb2,
        source_graph_pb2,
    )
    for name in module.DESCRIPTOR.enum_types_by_name
    for place in (packhouse, administration, order, pack_options, partitions, plans, tuning)
    for kind in [getattr(place, name, None)]
    if hasattr(kind, "__members__")
}  # fmt: skip


@pytest.mark.parametrize("name", ENUMS)
def test_numbers_are_those_of_the_protocol(name: str) -> None:
    """A name that both have is one number; 0 is what nobody says."""
    kind, described = ENUMS[name]
    prefix = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper() + "_"
    numbers = {
        value.name.removeprefix(prefix): value.number for value in described.values if value.number
    }
    members = {member: int(of.value) for member, of in kind.__members__.items() if of.value}
    assert members == numbers


def test_every_enumeration_is_looked_at() -> None:
    assert set(ENUMS) >= {
        "CapacityTerm", "CostForm", "DatasetState", "DerivedTensor", "DuplicateNodes", "LogLevel",
        "LowerBoundKind", "OpeningRule", "OversizePolicy", "PartitionFormat", "PartitionObjective",
        "PartitionState", "PlacementRule", "PlanAlgorithm", "Padding", "PartitionHalo",
        "PartitionMethod", "PriorityKind", "SourceGraphState", "TuneObjective",
    }  # fmt: skip


def test_what_a_value_must_be_is_said_of_it_and_of_each_of_several() -> None:
    check_type(1, "x", int)
    check_each([1, 2], "x", int)
    for check, words in (
        (lambda: check_type("a", "x", int), "^x: a str is no int$"),
        (lambda: check_each([1, "a"], "x", int), r"^x\[1\]: a str is no int$"),
        (lambda: check_each(1, "x", int), "^x: a int is no sequence of int$"),
    ):
        with pytest.raises(TypeError, match=words):
            check()


def test_a_message_is_all_of_its_bytes() -> None:
    message = batch_pb2.Capacity(component="nodes", rows=3)
    data = message.SerializeToString()
    for given in (data, b""):
        made = batch_pb2.Capacity()
        parse_whole(made, given)
        assert made.SerializeToString() == given
    for wrong in (data[:-1], data + b"\xff", b"\x0c"):
        with pytest.raises(ValueError, match="^no Capacity: "):
            parse_whole(batch_pb2.Capacity(), wrong)
