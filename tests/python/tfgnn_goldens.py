"""What TF-GNN's own library wrote down, and how packhouse's tensors say the same; with numpy alone.

The names of tensors are told at `packhouse.tfgnn.table`.
"""

from __future__ import annotations

import base64
import json
import os
import pathlib
import struct
from typing import Any, Mapping

import numpy as np
import numpy.typing as npt
import pytest

Arrays = Mapping[str, npt.NDArray[Any]]


def shared(name: str) -> pathlib.Path:
    """The path of a file of TF-GNN's; skips the test where it is missing."""
    path = pathlib.Path(os.environ.get("PACKHOUSE_SHARED_DATA", "../shared/data"), "tfgnn", name)
    if not path.exists():
        pytest.skip(f"no tfgnn/{name}: PACKHOUSE_SHARED_DATA does not name the folder of real data")
    return path


def golden(name: str) -> Any:
    return json.loads(shared(name).read_text())


def records(name: str) -> list[bytes]:
    """The payloads of a TFRecord file. Checksums are another test's."""
    data = shared(name).read_bytes()
    found = []
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        found.append(data[at + 12 : at + 12 + length])
        at += 12 + length + 4
    return found


def assert_feature(tensors: Arrays, prefix: str, name: str, field: Any) -> None:
    """A feature of a set (or of the context, without prefix) is the golden one, row by row."""
    tensor = f"{prefix}{name}"
    row_lengths = dict(field.get("row_lengths", {}))
    if field["dtype"] == "string":
        tensor += ".bytes"
        depth = len(field["shape"]) + 1
        lengths = tensors[f"{tensor}.d{depth}"].reshape(-1)
        data = tensors[tensor].tobytes()
        stops = np.cumsum(lengths, dtype=np.int64).tolist()
        strings = [data[start:stop] for start, stop in zip([0, *stops], stops)]
        assert strings == [base64.b64decode(text) for text in field["values_b64"]], tensor
        fixed = tensors[f"{tensor}.d{depth}"].shape[1:]
    else:
        values = tensors[tensor]
        fixed = values.shape[1:]
        if field["dtype"] == "bfloat16":
            values = (values.astype("<u4") << 16).view("<f4")
        else:
            assert values.dtype == np.dtype(field["dtype"]), tensor
        expected = [float(v) if isinstance(v, str) else v for v in field["values"]]
        np.testing.assert_array_equal(
            values.reshape(-1), np.array(expected, values.dtype), tensor, strict=False
        )
    for level, expected in row_lengths.items():
        assert tensors[f"{tensor}.{level}"].reshape(-1).tolist() == expected, (tensor, level)
    inner = field["shape"]
    last = max((place for place, dim in enumerate(inner, 1) if dim == -1), default=0)
    assert tuple(inner[last:]) == fixed, tensor


def assert_graph(tensors: Arrays, counts: Mapping[str, Any], graph: Any) -> None:
    """Tensors of one graph, or of several joined, are the golden ones; `counts` has the rows of
    each graph by component.
    """
    for name, field in graph["context"].items():
        assert_feature(tensors, "", name, field)
    for name, nodes in graph["node_sets"].items():
        assert list(counts[name]) == nodes["sizes"], name
        for feature, field in nodes["features"].items():
            assert_feature(tensors, f"{name}.", feature, field)
    for name, edges in graph["edge_sets"].items():
        assert list(counts[name]) == edges["sizes"], name
        assert tensors[f"{name}.source"].tolist() == edges["source"], name
        assert tensors[f"{name}.target"].tolist() == edges["target"], name
        for feature, field in edges["features"].items():
            assert_feature(tensors, f"{name}.", feature, field)
