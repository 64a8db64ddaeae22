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


def test_a_seed_is_drawn_from_a_generator_and_the_same_for_all_ranks() -> None:
    def drawn(number: int) -> int:
        return DataLoader(ROWS, generator=torch.Generator().manual_seed(number)).seed

    assert drawn(1) == drawn(1) != drawn(2)
    torch.manual_seed(3)
    first = DataLoader(ROWS).seed
    torch.manual_seed(3)
    assert DataLoader(ROWS, rank=0, num_ranks=1).seed == first
    assert DataLoader(ROWS, rank=1, num_ranks=2).seed == 0
    assert DataLoader(ROWS, rank=1, num_ranks=2, seed=8).seed == 8


def test_ranks_are_those_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    def numbers(**options: Any) -> list[list[int]]:
        return [batch["number"].tolist() for batch in DataLoader(ROWS, 7, shuffle=True, **options)]

    told = [numbers(rank=rank, num_ranks=3) for rank in range(3)]
    assert sorted(sum(sum(told, []), [])) == list(range(100))
    monkeypatch.setattr(torch.distributed, "is_available", lambda: True)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 3)
    for rank in range(3):
        monkeypatch.setattr(torch.distributed, "get_rank", lambda: rank)
        assert numbers() == told[rank]
        assert numbers(rank=0, num_ranks=1, seed=0) != told[rank]
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: False)
    assert len(sum(numbers(), [])) == 100


def test_what_torchs_loader_has_and_this_not_is_refused() -> None:
    for name in ("sampler", "batch_sampler", "collate_fn"):
        with pytest.raises(TypeError, match=f"^{name}: "):
            DataLoader(ROWS, **{name: 0})
        DataLoader(ROWS, **{name: None})


def test_what_is_said_of_processes_is_said_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Noted:
        """As torch's, without processes."""

        def __init__(self, source: Any, sampler: Any, **options: Any) -> None:
            made.append(options)
            self._source, self.sampler = source, sampler

        def __iter__(self) -> Iterator[Any]:
            return (self._source[step] for step in self.sampler)

    monkeypatch.setattr(torch.utils.data, "DataLoader", Noted)
    options = {"persistent_workers": True, "worker_init_fn": print, "timeout": 3.0}
    loader = DataLoader(
        ROWS, 30, num_workers=2, prefetch_factor=5, multiprocessing_context="spawn", **options
    )
    for _ in range(2):
        batches = [batch["number"].tolist() for batch in loader]
        assert [len(batch) for batch in batches] == [30, 30, 30, 10]
        assert sum(batches, []) == list(range(100))
    # The processes stay from epoch to epoch.
    assert made == [
        {
            "batch_size": None, "num_workers": 2, "prefetch_factor": 5, "pin_memory": False,
            "multiprocessing_context": "spawn", **options,
        }
    ]  # fmt: skip
    loader.load_state_dict({"epoch": 5, "next_step": 3, "seed": loader.seed})
    assert [len(batch["number"]) for batch in loader] == [10]


def test_tensors_are_pinned_wherever_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    from packhouse.frameworks.torch.packed_loader import _pinned

    class Pinned:
        def pin_memory(self) -> str:
            return "pinned"

    assert _pinned((Pinned(), {"a": Pinned(), "b": 3}, "text")) == (
        "pinned", {"a": "pinned", "b": 3}, "text"
    )  # fmt: skip
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for pin_memory in (False, True):
        loader = DataLoader({"x": [1, 2]}, 2, pin_memory=pin_memory)
        monkeypatch.setattr(
            "packhouse.frameworks.torch.packed_loader._pinned", lambda item: "pinned"
        )
        assert (list(loader) == ["pinned"]) == pin_memory
