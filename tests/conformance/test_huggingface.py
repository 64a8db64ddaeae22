"""Packed sequences beside Hugging Face's own: what a model gives, what its collator makes, what trl packs."""

from __future__ import annotations

import numpy as np
import torch
from transformers import DataCollatorWithFlattening, LlamaConfig, LlamaForCausalLM

from packhouse import Client, PackOptions, Padding
from packhouse.torch import SequenceBatch, sequence_table, to_sequences

LIMITS = {"tokens": 64, "graphs": 9}


def packed(client: Client) -> tuple[list[list[int]], list[tuple[list[int], SequenceBatch]]]:
    """Documents, and the numbers of those in each batch."""
    random = np.random.default_rng(3)
    documents = [random.integers(5, 99, length).tolist() for length in random.integers(1, 25, 30)]
    options = PackOptions(limits=LIMITS, padding=Padding.GRAPH)
    batches = list(client.pack(sequence_table(documents), options))
    return documents, [
        (batch.graph_ids.tolist(), to_sequences(batch, padding=True)) for batch in batches
    ]


def test_a_model_gives_for_packed_documents_what_it_gives_for_each(client: Client) -> None:
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=100,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            attn_implementation="eager",
        )
    ).eval()
    documents, batches = packed(client)
    seen = 0
    with torch.no_grad():
        for numbers, batch in batches:
            arguments = batch.for_transformers()
            # On a CPU there is no FlashAttention: the mask instead of cu_seqlens.
            hidden = torch.zeros(64, 64).masked_fill(~batch.attention_mask(), -1e9)
            out = model(
                input_ids=arguments["input_ids"],
                position_ids=arguments["position_ids"],
                attention_mask=hidden[None, None],
                labels=arguments["labels"],
            )
            ends = batch.cu_seqlens.tolist()
            losses, predicted = 0.0, 0
            for place, number in enumerate(numbers):
                ids = torch.tensor([documents[number]])
                alone = model(input_ids=ids, labels=ids)
                own = out.logits[0, ends[place] : ends[place + 1]]
                torch.testing.assert_close(own, alone.logits[0], rtol=1e-3, atol=1e-5)
                if ids.shape[1] > 1:
                    losses += float(alone.loss) * (ids.shape[1] - 1)
                    predicted += ids.shape[1] - 1
                seen += 1
            # The model shifts the labels: no document predicts the next one, or padding.
            assert abs(float(out.loss) - losses / predicted) < 1e-4
    assert seen == len(documents)


def test_a_batch_is_what_the_collator_for_flash_attention_makes(client: Client) -> None:
    documents, batches = packed(client)
    for numbers, batch in batches:
        made = DataCollatorWithFlattening()([{"input_ids": documents[each]} for each in numbers])
        arguments = batch.for_transformers()
        real = slice(0, made["input_ids"].shape[1])
        for name in ("input_ids", "position_ids", "labels"):
            assert torch.equal(arguments[name][:, real], made[name]), name
        assert not batch.segment_ids[real.stop :].any()


def test_as_full_as_trl_packs(client: Client) -> None:
    from datasets import Dataset
    from trl.data_utils import pack_dataset

    documents, _ = packed(client)
    theirs = pack_dataset(
        Dataset.from_dict({"input_ids": documents}), 64, "bfd", map_kwargs={"batch_size": 100}
    )
    options = PackOptions(limits={"tokens": 64, "graphs": 99}, look_ahead=64)
    ours = list(client.pack(sequence_table(documents), options))
    assert len(ours) <= len(theirs) + 1
    assert sum(map(len, theirs["input_ids"])) == sum(map(len, documents))
