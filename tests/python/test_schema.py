"""Schemas: what is refused, and the way over the wire and back."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from random_graphs import random_schema

from packhouse import (
    DType,
    GraphSchema,
    SourceColumn,
    SourceEdgeSet,
    SourceGraphSchema,
    SourceNodeSet,
    TensorSpec,
)


@pytest.mark.parametrize("seed", range(50))
def test_a_schema_survives_the_wire(seed: int) -> None:
    schema = random_schema(np.random.default_rng(seed))
    assert GraphSchema.from_proto(schema.to_proto()) == schema


def test_a_padding_value_survives_the_wire_in_every_type() -> None:
    for dtype in DType:
        spec = TensorSpec("x", dtype, "nodes", padding_value=1)
        assert len(spec.to_proto().padding_value) == dtype.numpy.itemsize
        assert TensorSpec.from_proto(spec.to_proto()) == spec


def test_zero_padding_is_left_out() -> None:
    assert TensorSpec("x", DType.FLOAT64, "nodes").to_proto().padding_value == b""
    assert TensorSpec("x", DType.FLOAT64, "nodes", padding_value=-0.0).to_proto().padding_value


def test_a_padding_value_of_text_survives_the_wire() -> None:
    for text in ("pad", "é", b"\xff\0"):
        spec = TensorSpec("n.t.bytes", DType.UINT8, "n.t.bytes", padding_value=text)
        assert spec.padding_text == (text.encode() if isinstance(text, str) else text)
        assert TensorSpec.from_proto(spec.to_proto()) == spec
    # One byte is an element as well.
    one = TensorSpec("n.t.bytes", DType.UINT8, "n.t.bytes", padding_value="x")
    assert TensorSpec.from_proto(one.to_proto()).padding_text == one.padding_text == b"x"
    none = TensorSpec("n.t.bytes", DType.UINT8, "n.t.bytes", padding_value="")
    assert none.to_proto().padding_value == b"" and none.padding_text == b""
    with pytest.raises(ValueError, match="4097 bytes"):
        TensorSpec("n.t.bytes", DType.UINT8, "n.t.bytes", padding_value="x" * 4097)
    with pytest.raises(ValueError, match="has no text"):
        TensorSpec("x", DType.INT32, "nodes", padding_value="pad")


def test_every_numpy_type_of_the_wire_is_recognised() -> None:
    for dtype in DType:
        if dtype is not DType.BFLOAT16:
            assert DType.of(dtype.numpy) is dtype
            assert DType.of(dtype.numpy.newbyteorder(">")) is dtype
    with pytest.raises(ValueError, match="complex128"):
        DType.of(np.complex128)


def test_row_bytes_multiply_the_extents() -> None:
    assert TensorSpec("x", DType.BFLOAT16, "nodes", (3, 5)).row_bytes == 30
    assert TensorSpec("x", DType.BOOL, "nodes").row_bytes == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": ""}, "tensor name ''"),
        ({"name": "nodes mask"}, "nodes mask"),
        ({"name": "x" * 129}, "1 to 128"),
        ({"row_shape": (3, 0)}, "extent 0"),
        ({"layout": "rows_last"}, "one extent, at most 16, not \\(\\)"),
        ({"layout": "rows_last", "row_shape": (2, 3)}, "one extent"),
        ({"layout": "rows_last", "row_shape": (17,)}, "at most 16"),
        ({"layout": "columns"}, "'columns' is none of 'rows_first', 'rows_last'"),
        ({"row_shape": (1 << 12, 1 << 12)}, "67108864 bytes"),
        ({"index_into": "nodes"}, "FLOAT32"),
        ({"index_into": "nodes", "dtype": DType.BFLOAT16}, "BFLOAT16"),
        ({"index_into": "nodes", "dtype": DType.INT32, "padding_value": 1}, "padding_value"),
        ({"row_shape": ((1 << 22) + 1,)}, "a row has 16777220 bytes, more than 16777216"),
        ({"dtype": DType.UINT8, "padding_value": 256}, "256"),
        ({"dtype": DType.UINT8, "padding_value": -1}, "padding_value -1 is no UINT8"),
        ({"dtype": DType.UINT8, "row_shape": 2, "padding_value": "x"}, "has no text"),
        ({"dtype": DType.INT8, "padding_value": 0.5}, "0.5"),
    ],
)
def test_a_bad_tensor_is_refused(fields: dict[str, object], message: str) -> None:
    good: dict[str, object] = {"name": "x", "dtype": DType.FLOAT32, "component": "nodes"}
    with pytest.raises(ValueError, match=message):
        TensorSpec(**(good | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("components", "tensors", "message"),
    [
        (("graphs",), (), "implied"),
        (("nodes", "nodes"), (), "'nodes' is listed twice"),
        (("a b",), (), "'a b'"),
        ([f"c{number}" for number in range(65)], (), "65 components"),
        (("nodes",), (TensorSpec("x", DType.INT8, "edges"),), "'edges'"),
        (("a/b",), (TensorSpec("a/b/counts", DType.INT8, "a/b"),), "derived from a component"),
        (("nodes",), (TensorSpec("graphs/mask", DType.INT8, "nodes"),), "derived from a component"),
        (("nodes",), (TensorSpec("i", DType.INT8, "nodes", index_into="sets"),), "'sets'"),
        (("nodes",), (TensorSpec("x", DType.INT8, "nodes"),) * 2, "'x' is listed twice"),
    ],
)
def test_a_bad_schema_is_refused(
    components: tuple[str, ...], tensors: tuple[TensorSpec, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        GraphSchema(components, tensors)


@pytest.mark.parametrize("seed", range(40))
def test_a_schema_survives_being_pickled(seed: int) -> None:
    schema = random_schema(np.random.default_rng(seed))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        copy = pickle.loads(pickle.dumps(schema, protocol))
        assert copy == schema and copy.all_components == schema.all_components
        assert copy.to_proto() == schema.to_proto()


def test_schemas_that_differ_only_in_a_zeros_sign_are_not_mixed_up() -> None:
    for zero in (0.0, -0.0, 0):
        spec = TensorSpec("x", "float32", "nodes", padding_value=zero)
        copy = pickle.loads(pickle.dumps(GraphSchema(("nodes",), (spec,))))
        assert repr(copy.tensors[0].padding_value) == repr(zero)


def test_edges_of_a_source_graph_survive_the_wire_with_each_lookup_and_not_without() -> None:
    nodes = [SourceNodeSet("n", [SourceColumn("x", "float32")], text_ids=True)]
    for by_source, by_target in ((True, True), (True, False), (False, True)):
        edges = SourceEdgeSet("e", "n", "n", by_source=by_source, by_target=by_target)
        schema = SourceGraphSchema(nodes, [edges])
        back = SourceGraphSchema.from_proto(schema.to_proto())
        assert back.edge_set("e") == edges and back.node_set("n").text_ids
    without = SourceEdgeSet("e", "n", "n", by_source=False, by_target=False)
    with pytest.raises(ValueError, match="edge set 'e': neither by_source nor by_target"):
        SourceGraphSchema(nodes, [without]).to_proto()


def test_what_is_just_within_each_bound_is_taken() -> None:
    for fields in (
        {"name": "x" * 128},
        {"row_shape": (16,), "layout": "rows_last"},
        {"row_shape": (1 << 22,)},
        {"dtype": "uint8", "padding_value": 255},
        {"dtype": "int8", "padding_value": -128},
        {"dtype": "uint8", "padding_value": "x" * 4096},
    ):
        whole: dict[str, Any] = {"name": "x", "dtype": "float32", "component": "nodes", **fields}
        assert TensorSpec.from_proto(TensorSpec(**whole).to_proto()) == TensorSpec(**whole)
    assert len(GraphSchema([f"c{number}" for number in range(64)]).components) == 64


def test_padding_values_are_those_of_the_tensors_that_are_named() -> None:
    specs = (TensorSpec("x", "float32", "n"), TensorSpec("y", "int8", "n", padding_value=3))
    schema = GraphSchema(("n",), specs)
    changed = schema.with_padding_values({"x": 2.5})
    assert [each.padding_value for each in changed.tensors] == [2.5, 3]
    assert schema.tensors == specs and changed.components == ("n",)
    with pytest.raises(KeyError, match="z"):
        schema.with_padding_values({"x": 1, "z": 1})
    with pytest.raises(ValueError, match=r"^tensor 'y': its padding value must be a scalar, not \[1\]"):
        schema.with_padding_values({"x": 1, "y": [1]})  # type: ignore[dict-item]
