"""Epochs as PyTorch has data sets. Needs torch, which nothing else here does."""

from __future__ import annotations

from torch.utils.data import IterableDataset

from packhouse.epoch_readers import EpochReaders


class EpochDataset(EpochReaders, IterableDataset):
    """A loader's epochs for torch's DataLoader, with any number of worker processes.

        dataset = EpochDataset(Loader(address, dataset="molhiv", job="run-1", limits=limits))
        data_loader = DataLoader(dataset, batch_size=None, num_workers=2)
        for epoch in range(10):
            dataset.set_epoch(epoch)
            for batch in dataset.trained(data_loader):
                train(batch)

    What comes are packhouse's batches, whole, hence `batch_size=None`. `num_workers`,
    `multiprocessing_context`, `persistent_workers` and `prefetch_factor` are as you like, but that
    a worker is asked for no more than the loader's `max_in_flight` batches ahead. See EpochReaders.
    """
