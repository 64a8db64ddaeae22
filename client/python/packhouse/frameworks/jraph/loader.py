"""Epochs of graphs as jraph's `GraphsTuple`. See `packhouse.jraph`."""

from __future__ import annotations

import functools
import os
from typing import Any, Iterable, Mapping

from packhouse.base.arguments import shows_arguments_of
from packhouse.data.batch import Padding, PaddingLike
from packhouse.frameworks.jraph.batches import tables, to_graphs_tuple
from packhouse.frameworks.packed_loader import PackedLoader, length_of
from packhouse.planning.tuning import DeviceProfile


class Batches(PackedLoader):
    """Epochs of `GraphsTuple`s; what `batches` gives."""


@shows_arguments_of(PackedLoader.__init__)
def batches(
    graphs: Iterable[Any] | str,
    batch_size: int | None = None,
    shuffle: bool = False,
    *,
    limits: Mapping[str, int] | None = None,
    device: DeviceProfile | str | os.PathLike[str] | None = None,
    padding: PaddingLike | None = None,
    **options: Any,
) -> Batches:
    """Epochs of these graphs, joined: each pass is one, with each graph in it once.

        limits = {"nodes": 1024, "edges": 2304, "graphs": 48}
        loader = packhouse.jraph.batches(graphs, shuffle=True, limits=limits)
        for epoch in range(10):
            for graph in loader:
                state = step(state, graph)          # Compiled once.

    `graphs` are `GraphsTuple`s, each of one graph or several; or, with an `address`, the name of a
    data set that the server has. With `limits` or a `device` graphs are packed, and padded as
    `pad_with_graphs` does unless `padding` says otherwise; with `batch_size` a batch is what
    `jraph.batch` makes of so many. Other options, and how the graphs come to the server: see
    `packhouse.pyg.DataLoader`; there are no worker processes.
    """
    is_packed = limits is not None or device is not None
    if padding is None:
        padding = Padding.GRAPH if is_packed else Padding.NONE
    is_padded = Padding.of(padding, "padding") is not Padding.NONE
    source: Any = graphs
    if not isinstance(graphs, str):
        if hasattr(graphs, "n_node"):
            raise TypeError("graphs: it is one GraphsTuple, not several: give a list, as [graph]")
        if length_of(graphs) == 0:
            raise ValueError("graphs: there is no graph")
        held = graphs if length_of(graphs) is not None else list(graphs)
        source = functools.partial(tables, held)
    return Batches(
        source,
        functools.partial(to_graphs_tuple, padding=is_padded),
        batch_size=batch_size,
        shuffle=shuffle,
        limits=limits,
        device=device,
        padding=padding,
        **options,
    )
