"""See dgl."""

from __future__ import annotations

from typing import Any, Mapping

import torch
from torch.utils.data import DataLoader

import dgl


def _collated(items: list[Any]) -> Any:
    first = items[0]
    if isinstance(first, dgl.DGLGraph):
        return dgl.batch(items)
    if isinstance(first, Mapping):
        return {name: _collated([item[name] for item in items]) for name in first}
    if isinstance(first, (tuple, list)):
        return tuple(_collated(list(parts)) for parts in zip(*items))
    dtype = torch.float64 if type(first) is float else None
    return torch.stack([torch.as_tensor(item, dtype=dtype) for item in items])


class GraphCollator:
    @staticmethod
    def collate(items: list[Any]) -> Any:
        return _collated(items)


class GraphDataLoader(DataLoader):  # type: ignore[type-arg]
    def __init__(self, dataset: Any, **options: Any) -> None:
        super().__init__(dataset, collate_fn=_collated, **options)
