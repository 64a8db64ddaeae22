"""packhouse.torch.DataLoader: rows and sequences of tokens, each in an epoch once."""

from __future__ import annotations

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
SEQUENCES = [
    {"tokens": np.arange(length) + 1000 * number, "number": number}
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


def expect_sequences(batches: list[Any]) -> None:
    """Each comes once, whole, where `cu_seqlens` says; the other tensors agree."""
    seen = []
    for batch in batches:
        bounds = batch["cu_seqlens"].tolist()
        assert bounds[0] == 0 and bounds[-1] == len(batch["position_ids"])
        assert batch["cu_seqlens"].dtype == torch.int32
        for place, number in enumerate(batch["number"].tolist()):
            part = slice(bounds[place], bounds[place + 1])
            assert batch["tokens"][part].tolist() == SEQUENCES[number]["tokens"].tolist()
            assert batch["position_ids"][part].tolist() == list(range(LENGTHS[number]))
            assert set(batch["segment_ids"][part].tolist()) == {place}
            seen.append(number)
    assert sorted(seen) == list(range(len(SEQUENCES)))


@pytest.mark.parametrize("options", [{"batch_size": 16}, {"limits": {"tokens": 128}}])
def test_sequences_are_whole_and_come_once(options: Any) -> None:
    with DataLoader(SEQUENCES, shuffle=True, **options) as loader:
        batches = list(loader)
        assert len(batches) == len(loader)
        expect_sequences(batches)
        if "limits" in options:
            # None has so many that another would fit into it and into the one behind.
            assert len(batches) <= LENGTHS.sum() / 128 * 1.05 + 1


def test_padded_batches_have_one_shape() -> None:
    limits = {"tokens": 128, "graphs": 17}
    real = 0
    with DataLoader(SEQUENCES, shuffle=True, limits=limits, padding="graph") as loader:
        for batch in loader:
            assert {name: tuple(tensor.shape) for name, tensor in batch.items()} == {
                "tokens": (128,),
                "number": (17,),
                "cu_seqlens": (18,),
                "position_ids": (128,),
                "segment_ids": (128,),
                "token_mask": (128,),
            }
            mask = batch["token_mask"]
            count = int(mask.sum())
            real += count
            segments = batch["segment_ids"]
            assert mask[:count].all() and (segments[count:] == segments[:count].max() + 1).all()
            assert batch["cu_seqlens"][-1] == 128
    assert real == LENGTHS.sum()


def test_lists_of_tokens_are_sequences() -> None:
    batches = list(DataLoader([[1, 2, 3], [4, 5]], 2))
    assert batches[0]["tokens"].tolist() == [1, 2, 3, 4, 5]
    assert batches[0]["cu_seqlens"].tolist() == [0, 3, 5]


def test_what_does_not_fit_together_is_named() -> None:
    with pytest.raises(ValueError, match="'y' has 2 rows, 'x' has 3"):
        DataLoader({"x": [1, 2, 3], "y": [1, 2]}, 2)
    with pytest.raises(ValueError, match="'y' is one number"):
        DataLoader({"y": 1}, 2)
    with pytest.raises(ValueError, match="there is no sequence"):
        DataLoader([], 2)
    with pytest.raises(ValueError, match="sequence 1: 'b' has 1 tokens, not 2"):
        DataLoader([{"a": [1], "b": [1]}, {"a": [1, 2], "b": [1]}], 2)
    with pytest.raises(ValueError, match=r"sequence 1 has \['b'\], sequence 0 \['a'\]"):
        DataLoader([{"a": [1]}, {"b": [1]}], 2)
    with pytest.raises(ValueError, match="'segment_ids': batches have something else"):
        DataLoader([{"segment_ids": [1]}], 2)
