"""Packed token sequences: each document once, apart from its neighbours, in tensors of one shape."""

from __future__ import annotations

import functools
import pickle
from typing import Any

import numpy as np
import pytest

from packhouse import Client, Loader, LocalServer, PackOptions, Padding

pytest.importorskip("torch.utils.data")

import torch

from packhouse.torch import EpochDataset, sequence_table, to_sequences

LIMITS = {"tokens": 64, "graphs": 9}


def documents() -> list[list[int]]:
    """Also empty ones, and some that leave a batch no room for another. Token ids are unique."""
    random = np.random.default_rng(7)
    lengths = [*random.integers(0, 30, 60), 0, 63, 1, 63]
    ends = np.cumsum(lengths) + 1
    return [list(range(end - length, end)) for end, length in zip(ends, lengths)]


@pytest.fixture(scope="module")
def corpus(server: LocalServer, client: Client) -> str:
    table = sequence_table(documents())
    client.datasets.create("corpus", table.schema)
    client.datasets.append("corpus", [table])
    client.datasets.seal("corpus")
    return "corpus"


def loaded(server: LocalServer, corpus: str, job: str, padding: str = "graph") -> Loader:
    limits: dict[str, Any] = {"limits": LIMITS, "padding": padding}
    return Loader(server.address, dataset=corpus, job=job, **limits)


@pytest.mark.parametrize("padding", [False, True])
def test_each_document_comes_once_and_is_told_from_its_neighbours(
    server: LocalServer, corpus: str, padding: bool
) -> None:
    expected = documents()
    seen: list[int] = []
    with loaded(server, corpus, f"sequences-{padding}") as loader:
        for batch in loader:
            made = to_sequences(batch, padding=padding)
            ends = made.cu_seqlens.tolist()
            assert ends[0] == 0 and made.num_documents == len(batch)
            for place, number in enumerate(batch.graph_ids.tolist()):
                rows = slice(ends[place], ends[place + 1])
                document = expected[number]
                assert made["input_ids"][rows].tolist() == document
                assert made.position_ids[rows].tolist() == list(range(len(document)))
                assert set(made.segment_ids[rows].tolist()) <= {place + 1}
                assert made.labels[rows].tolist() == [-100, *document[1:]][: len(document)]
                seen.append(number)
            rest = slice(ends[len(batch)], None)
            assert not made.segment_ids[rest].any() and set(made.labels[rest].tolist()) <= {-100}
            assert made.max_seqlen == max(np.diff(ends))
            assert len(made["input_ids"]) == ends[-1]
            if padding:
                assert len(made["input_ids"]) == LIMITS["tokens"]
                assert len(ends) == LIMITS["graphs"] + 1
            else:
                assert not len(made["input_ids"][rest])
            assert made.cu_seqlens.dtype == made.segment_ids.dtype == torch.int32
            assert made.position_ids.dtype == made.labels.dtype == torch.int64
    assert sorted(seen) == list(range(len(expected)))


def attention(x: Any, mask: Any) -> Any:
    return (x @ x.T).masked_fill(~mask, -torch.inf).softmax(1) @ x


def test_attention_is_that_of_each_document_alone(server: LocalServer, corpus: str) -> None:
    """By the mask, and by `cu_seqlens` as kernels of variable length read them."""
    torch.manual_seed(0)
    embed = torch.nn.Embedding(4096, 8).double()
    with loaded(server, corpus, "attention") as loader:
        made = to_sequences(next(loader), padding=True)
    x = embed(made["input_ids"].long())
    for causal in (False, True):
        packed = attention(x, made.attention_mask(causal))
        ends = made.cu_seqlens.tolist()
        for start, end in zip(ends, ends[1:]):
            own = torch.ones(end - start, end - start, dtype=torch.bool)
            alone = attention(x[start:end], own.tril() if causal else own)
            torch.testing.assert_close(packed[start:end], alone)


def test_epochs_give_them(server: LocalServer, corpus: str) -> None:
    make = functools.partial(to_sequences, padding=True, max_seqlen=64)
    with EpochDataset(loaded(server, corpus, "epochs"), transform=make) as epochs:
        epochs.set_epoch(0)
        data_loader = torch.utils.data.DataLoader(epochs, batch_size=None)
        shapes = set()
        for batch in epochs.trained(data_loader):
            again = pickle.loads(pickle.dumps(batch)).to("cpu")
            assert torch.equal(again["input_ids"], batch["input_ids"])
            arguments = again.for_transformers()
            shapes.add(
                tuple(
                    tuple(value.shape) if torch.is_tensor(value) else value
                    for value in arguments.values()
                )
            )
            assert again.loss_weight == 1.0
        info = epochs.epoch_info()
        assert info.num_done == info.num_batches
    assert shapes == {((1, 64), (1, 64), (10,), (10,), 64, 64, (1, 64))}


def test_what_cannot_be_is_named(client: Client) -> None:
    table = sequence_table(
        [{"input_ids": [1, 2], "labels": [-100, 2]}, {"input_ids": [3], "labels": [3]}]
    )
    options = PackOptions(limits=LIMITS, padding=Padding.GRAPH)
    (batch,) = client.pack(table, options)
    made = to_sequences(batch)
    assert made.labels is None and made["labels"].tolist() == [-100, 2, 3]
    assert made.lease is None
    with pytest.raises(KeyError, match=r"no tensor 'ids'.* has \['input_ids', 'labels'\]"):
        to_sequences(batch, tokens="ids")
    with pytest.raises(ValueError, match="max_seqlen is 8: batch 0 has 61 rows of 'tokens'"):
        to_sequences(batch, padding=True, max_seqlen=8)
    full = PackOptions(limits={"tokens": 64, "graphs": 2}, padding=Padding.MASKED)
    (batch,) = client.pack(table, full)
    with pytest.raises(ValueError, match="61 spare rows of 'tokens' and no padding graph"):
        to_sequences(batch, padding=True)


@pytest.mark.parametrize(
    "wrong, words",
    [
        ([], "there is no document"),
        ([[1], {"ids": [1]}], r"document 1 has the keys \['ids'\], the first one \['input_ids'\]"),
        ([{"input_ids": [1], "labels": [1, 2]}], r"document 0: 'labels' has shape \(2,\)"),
        ([[1], [[1]]], r"document 1: 'input_ids' has shape \(1, 1\)"),
        ([[1 << 31]], "document 0: 'input_ids' has values beyond int32"),
        ([["a"]], "document 0: 'input_ids' has values of type <U1, needs numbers"),
    ],
)
def test_documents_that_cannot_be_stored_are_named(wrong: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        sequence_table(wrong)
