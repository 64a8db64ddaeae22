"""Masked arrays: below a gap any value may stand, so an array with gaps is refused by its name."""

from __future__ import annotations

import pickle
import types
from typing import Any, Callable

import numpy as np
import pytest

from packhouse import Draw, GraphSchema, GraphTable, Seeds, TensorSpec

pytest.importorskip("torch")

from packhouse.epochs.request import subset_to_proto
from packhouse.files import pickles
from packhouse.frameworks.dgl import _as_tensor
from packhouse.frameworks.torch.tensor_loader import group_ids_of
from packhouse.large.sampling import negative_links
from packhouse.partition import restore
from packhouse.planning.plans import next_fit
from packhouse.torch import DataLoader, TensorLoader, sequence_table

_TABLE = GraphTable(
    GraphSchema(("nodes",), (TensorSpec("x", "float32", "nodes"),)), [[2], [1]], {"x": [0, 1, 2]}
)


def _gaps(values: Any, *, dtype: str | None = None) -> Any:
    """The array, of which the first element is a gap."""
    array = np.ma.masked_array(np.array(values, dtype))
    array.mask = np.zeros(array.shape, bool)
    array.mask[(0,) * array.ndim] = True
    return array


_TAKING: dict[str, tuple[str, Callable[[], Any]]] = {
    "seeds by number": ("seeds", lambda: Seeds(numbers=_gaps([3, 4])).to_proto()),
    "seeds by id": ("seeds", lambda: Seeds(ids=_gaps([3, 4])).to_proto()),
    "seeds by row": ("seeds", lambda: Seeds(rows=_gaps([3, 4])).to_proto()),
    "seeds by mask": ("seeds", lambda: Seeds(rows=_gaps([True, True]))),
    "times": ("times", lambda: Seeds(numbers=[1], times=_gaps([9])).to_proto()),
    "occurrences": ("occurrences", lambda: Seeds(numbers=[1], occurrences=_gaps([9])).to_proto()),
    "readout": ("readout 'y'", lambda: Seeds(numbers=[1], readout={"y": _gaps([9.0])}).to_proto()),
    "links": ("links", lambda: negative_links(_gaps([[0, 1], [1, 2]]), 3, 3)),
    "weights of links": (
        "target_weights",
        lambda: negative_links([[0], [1]], 3, 3, target_weights=_gaps([1.0, 1.0, 1.0])),
    ),
    "subset": ("subset", lambda: subset_to_proto(_gaps([3, 4]))),
    "weights": ("weights", lambda: Draw(weights=_gaps([0.5, 1.0])).to_proto()),
    "documents": ("document 1: 'input_ids'", lambda: sequence_table([[1], _gaps([1, 2])])),
    "keys of documents": (
        "document 0: 'labels'", lambda: sequence_table([{"input_ids": [1], "labels": _gaps([1])}])
    ),
    "tensors": ("tensor 1", lambda: TensorLoader([1, 2], _gaps([1, 2]), batch_size=1, address="nowhere")),
    "groups": ("group_id", lambda: group_ids_of(_gaps([3, 4]))),
    "named groups": ("group_id", lambda: group_ids_of(_gaps(["a", "b"]))),
    "columns": ("'x': the array", lambda: list(DataLoader({"x": _gaps([1, 2])}, batch_size=1))),
    "labels of DGL": ("label 'y'", lambda: _as_tensor("y", _gaps([1.0, 2.0]))),
    "sizes": ("sizes", lambda: next_fit(_gaps([[1, 2]]), {"nodes": 4})),
    "positions": ("positions", lambda: _TABLE.take(_gaps([0, 1]))),
    "rows of parts": ("rows", lambda: restore(_gaps([1.0, 2.0]), [0, 1])),
    "maps of parts": ("mapping", lambda: restore([1.0, 2.0], _gaps([0, 1]))),
    "pickles": ("'y'", lambda: pickles.arrays_of(pickle.dumps({"y": _gaps([1.0, 2.0])}))),
    "pickled data": (
        "'x'", lambda: pickles.arrays_of(pickle.dumps(types.SimpleNamespace(x=_gaps([1.0]))))
    ),
}


@pytest.mark.parametrize("place", _TAKING)
def test_an_array_with_gaps_is_refused_by_name(place: str) -> None:
    name, take = _TAKING[place]
    with pytest.raises(ValueError, match=f"{name} has gaps, which a masked array hides"):
        take()


def test_one_without_gaps_is_any_array() -> None:
    whole = np.ma.masked_array([3, 4])
    assert Seeds(numbers=whole).to_proto() == Seeds(numbers=[3, 4]).to_proto()
    assert subset_to_proto(whole) == subset_to_proto([3, 4])
    assert group_ids_of(whole).tolist() == [3, 4]
    assert _as_tensor("y", whole).tolist() == [3, 4]
    assert sequence_table([whole]).tensors["input_ids"].tolist() == [3, 4]
    assert _TABLE.take(np.ma.masked_array([1])).tensors["x"].tolist() == [2]
