"""packhouse.torch.DataLoader: rows and sequences of tokens, each in an epoch once."""

from __future__ import annotations

import inspect
import os
from typing import Any, Iterator

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from packhouse.torch import DataLoader  # noqa: E402

pytestmark = pytest.mark.skipif(
    "PACKHOUSED" not in os.environ, reason="PACKHOUSED does not name a program"
)

ROWS = {"x": torch.arange(300.0).reshape(100, 3), "number": np.arange(100)}
LENGTHS = np.random.default_rng(3).integers(1, 60, 200)
DOCUMENTS = [
    {"input_ids": np.arange(length), "number": np.full(length, number)}
    for number, length in enumerate(LENGTHS)
]


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PACKHOUSE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def test_rows_are_those_of_torchs_own_loader() -> None:
    columns = torch.utils.data.TensorDataset(ROWS["x"], torch.from_numpy(ROWS["number"]))
    theirs = list(torch.utils.data.DataLoader(columns, 32))
    ours = list(DataLoader(ROWS, 32))
    assert len(ours) == len(theirs)
    for batch, (x, number) in zip(ours, theirs):
        assert torch.equal(batch["x"], x) and torch.equal(batch["number"], number)
        assert batch["number"].dtype == number.dtype
    shuffled = DataLoader(ROWS, 32, shuffle=True, seed=1, num_workers=1)
    for _ in range(2):
        batches = list(shuffled)
        numbers = torch.cat([batch["number"] for batch in batches])
        assert sorted(numbers.tolist()) == list(range(100)) != numbers.tolist()
        assert torch.equal(torch.cat([batch["x"] for batch in batches]), ROWS["x"][numbers])


@pytest.mark.parametrize("options", [{"batch_size": 16}, {"limits": {"tokens": 128}}])
def test_documents_are_whole_and_come_once(options: Any) -> None:
    seen: list[int] = []
    with DataLoader(DOCUMENTS, shuffle=True, **options) as loader:
        batches = list(loader)
        assert len(batches) == len(loader)
    for batch in batches:
        bounds = batch.cu_seqlens.tolist()
        for start, stop in zip(bounds, bounds[1:]):
            (number,) = set(batch["number"][start:stop].tolist())
            assert batch["input_ids"][start:stop].tolist() == list(range(LENGTHS[number]))
            seen.append(number)
        assert torch.equal(batch.position_ids, batch["input_ids"].long())
    assert sorted(seen) == list(range(len(DOCUMENTS)))
    if "limits" in options:
        assert len(batches) <= LENGTHS.sum() / 128 * 1.05 + 1


def test_padded_batches_have_one_shape() -> None:
    limits = {"tokens": 128, "graphs": 17}
    real = 0
    with DataLoader(DOCUMENTS, shuffle=True, limits=limits, padding="graph") as loader:
        for batch in loader:
            assert len(batch.cu_seqlens) == 18 and batch["input_ids"].shape == (128,)
            real += batch.num_documents
    assert real == len(DOCUMENTS)


def test_lists_of_tokens_are_documents() -> None:
    (batch,) = DataLoader([[1, 2, 3], [4, 5]], 2)
    assert batch["input_ids"].tolist() == [1, 2, 3, 4, 5]
    assert batch.cu_seqlens.tolist() == [0, 3, 5]
    (batch,) = DataLoader([{"ids": [7]}], tokens="ids")
    assert batch["ids"].tolist() == [7]


def test_what_does_not_fit_together_is_named() -> None:
    with pytest.raises(ValueError, match="'y' has 2 rows, 'x' has 3"):
        DataLoader({"x": [1, 2, 3], "y": [1, 2]}, 2)
    with pytest.raises(ValueError, match="'y' is one number"):
        DataLoader({"y": 1}, 2)
    with pytest.raises(ValueError, match="there is no document"):
        DataLoader([], 2)
    with pytest.raises(ValueError, match="document 1: 'b' has shape"):
        DataLoader([{"a": [1], "b": [1]}, {"a": [1, 2], "b": [1]}], 2)
    with pytest.raises(TypeError, match="neither a dictionary of rows nor a list of documents"):
        DataLoader(7, 2)


def test_every_argument_is_shown() -> None:
    shown = inspect.signature(DataLoader).parameters
    assert {"batch_size", "num_workers", "pin_memory", "drop_last", "seed", "oversize"} <= set(shown)
    assert not any(each.kind is each.VAR_KEYWORD for each in shown.values())
