"""packhouse for PyTorch; needs torch, which nothing else in packhouse imports.

`DataLoader` takes the place of torch's, for rows and for sequences of tokens, which it packs.
`EpochDataset` is a loader's epochs, or an evaluation, as torch's DataLoader reads them; `to_torch`
makes tensors of a batch, `to_sequences` those of packed token sequences; `prefetch_to` moves
batches to a device ahead of their use; `TensorLoader` gives batches of rows of plain tensors in
memory.

BatchNorm and padding: padding rows take part in the statistics of a BatchNorm as any other row, as
in every framework that pads. With 33 padding rows of 6,656 the running mean of a molhiv model
shifted by up to 1.3 standard deviations. Either compute statistics over real rows alone
(`MaskedBatchNorm` of `packhouse.torch`; `masked_mean` for the loss), or ask for
`padding="none"`, which sends real rows alone in batches of unequal shape, or use LayerNorm.
"""

from packhouse.epochs.epoch_readers import Leased
from packhouse.frameworks.tensors import masked_mean
from packhouse.frameworks.torch.batch import TorchBatch, TorchMemory, prefetch_to, to_torch
from packhouse.frameworks.torch.data_loader import (
    DataLoader,
    SequenceBatch,
    sequence_table,
    to_sequences,
)
from packhouse.frameworks.torch.epoch_dataset import EpochDataset
from packhouse.frameworks.torch.masked_norm import MaskedBatchNorm
from packhouse.frameworks.torch.tensor_loader import TensorLoader

__all__ = [
    "DataLoader",
    "EpochDataset",
    "Leased",
    "MaskedBatchNorm",
    "SequenceBatch",
    "TensorLoader",
    "TorchBatch",
    "TorchMemory",
    "masked_mean",
    "prefetch_to",
    "sequence_table",
    "to_sequences",
    "to_torch",
]
