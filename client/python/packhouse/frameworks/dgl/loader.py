"""A data loader in the place of DGL's `GraphDataLoader`. See `packhouse.dgl`."""

from __future__ import annotations

import functools
import os
from typing import Any, Mapping

from packhouse.base.arguments import shows_arguments_of
from packhouse.data.batch import Batch, Padding, PaddingLike
from packhouse.frameworks.dgl.batches import tables, to_batch
from packhouse.frameworks.packed_loader import PackedLoader, length_of
from packhouse.frameworks.torch.packed_loader import TorchPackedLoader
from packhouse.planning.tuning import DeviceProfile


class GraphDataLoader(TorchPackedLoader):
    """In the place of `dgl.dataloading.GraphDataLoader`: batches are joined graphs of DGL's.

        loader = packhouse.dgl.GraphDataLoader(dataset, shuffle=True, limits={"nodes": 1024})
        for graph, labels in loader:
            train(graph, labels)

    All else is as with `packhouse.pyg.DataLoader`.
    """

    @shows_arguments_of(TorchPackedLoader.__init__, PackedLoader.__init__)
    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = None,
        shuffle: bool = False,
        *,
        limits: Mapping[str, int] | None = None,
        device: DeviceProfile | str | os.PathLike[str] | None = None,
        padding: PaddingLike = Padding.NONE,
        **options: Any,
    ) -> None:
        """`dataset` has graphs, or pairs of a graph and its label; or is, with an `address`, the name
        of a data set that the server has.

        A batch is what DGL's own is: a joined graph, or that and the labels, as one tensor or by
        name. With padding, or of a name, it is a `packhouse.dgl.GraphBatch`. Other options: see
        `packhouse.pyg.DataLoader`.
        """
        self.dataset = dataset
        is_padded = Padding.of(padding, "padding") is not Padding.NONE
        first = None
        source: Any = dataset
        if not isinstance(dataset, str):
            if length_of(dataset) == 0:
                raise ValueError("dataset: there is no graph")
            if type(dataset).__name__ == "DGLGraph":
                raise TypeError("dataset: it is one graph, not a data set: give a list, as [graph]")
            source = functools.partial(tables, dataset)
            first = dataset[0] if hasattr(dataset, "__getitem__") else None
        make = functools.partial(_joined, padding=is_padded, form=_form_of(first, is_padded))
        super().__init__(
            source, make, batch_size=batch_size, shuffle=shuffle, limits=limits, device=device,
            padding=padding, num_graphs=length_of(dataset), **options,
        )  # fmt: skip


def _form_of(item: Any, is_padded: bool) -> str:
    """What DGL makes of such items: a `graph`, a `pair`, or a pair with labels by `name`."""
    if item is None or is_padded:
        return ""
    if not isinstance(item, (tuple, list)):
        return "graph"
    return "name" if isinstance(item[1], Mapping) else "pair"


def _joined(batch: Batch, padding: bool, form: str) -> Any:
    made = to_batch(batch, padding=padding)
    if form == "graph":
        return made.graph
    if form == "pair":
        (label,) = made.data.values()
        return made.graph, label
    return (made.graph, made.data) if form else made
