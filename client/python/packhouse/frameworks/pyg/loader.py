"""A data loader in the place of PyTorch Geometric's. See `packhouse.pyg`."""

from __future__ import annotations

import functools
import os
from typing import Any, Callable, Collection, Iterable, Mapping

from packhouse.base.arguments import names_init_arguments, shows_arguments_of
from packhouse.data.batch import Padding, PaddingLike
from packhouse.frameworks.ingest import MakeTables
from packhouse.frameworks.packed_loader import PackedLoader, Step, length_of
from packhouse.frameworks.pyg.batches import to_batch
from packhouse.frameworks.pyg.datasets import tables
from packhouse.frameworks.torch.packed_loader import TorchPackedLoader
from packhouse.planning.tuning import DeviceProfile

# So that progress is seen.
_GRAPHS_PER_TABLE = 1 << 14


@names_init_arguments
class DataLoader(TorchPackedLoader):
    """In the place of `torch_geometric.loader.DataLoader`: batches are PyG's own `Batch`.

        loader = packhouse.pyg.DataLoader(dataset, batch_size=32, shuffle=True)
        for epoch in range(10):
            for data in loader:
                train(data)

    With `batch_size` a batch has so many graphs, as PyG's has, joined some times as fast. With
    `limits`, the most nodes, edges and graphs of a batch, or with a `device`, graphs are packed: as
    many as fit, in as few batches as there can be:

        loader = packhouse.pyg.DataLoader(dataset, shuffle=True, limits={"nodes": 1024, "edges": 2304})

    A server packs them. It is the user's own on this machine and starts by itself (see
    `packhouse.SharedServer`). The graphs are stored there once, under a name made of what they
    have: the next run finds them. With an `address` it is the server there.

    Every graph is in each epoch once. Each pass is a new epoch, in another order; `set_epoch` says
    which, and `state_dict` and `load_state_dict` go on in the middle of one. Ranks of
    torch.distributed share each epoch by themselves, without a sampler.

    Not thread-safe. Passes may run at the same time.
    """

    @shows_arguments_of(TorchPackedLoader.__init__, PackedLoader.__init__)
    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = None,
        shuffle: bool = False,
        follow_batch: Collection[str] | None = None,
        exclude_keys: Collection[str] | None = None,
        *,
        limits: Mapping[str, int] | None = None,
        device: DeviceProfile | str | os.PathLike[str] | None = None,
        padding: PaddingLike = Padding.NONE,
        components: Mapping[str, str] | None = None,
        transform_once: bool = False,
        **options: Any,
    ) -> None:
        """`dataset` is an `InMemoryDataset`, any other PyG `Dataset`, or a list of `Data` or of
        `HeteroData`; or, with an `address`, the name of a data set that the server has.

        - `limits`: by `nodes`, `edges` and `graphs`, or by the types of a heterogeneous data set, as
          `packhouse.pyg.table` calls them; a graph beyond them is an error that names it.
          `batch_size` is then the most graphs. `device`: a DeviceProfile or its file
          (docs/devices), for which the server chooses the limits. Neither, and no `batch_size`:
          one graph a batch, as PyG has it.
        - `padding`: "graph" fills each batch up to its limits, so that all have one shape; see
          `to_batch`.
        - `follow_batch`, `exclude_keys`: as PyG's. `components`: see `packhouse.pyg.table`.
        - `transform_once`: a transform of the data set is applied when the graphs are read, once.
          Else it is applied to each graph in each epoch, as PyG does, which is as slow as PyG, and
          not for packed graphs, because it may change their sizes.
        - `num_workers`, `prefetch_factor`, `pin_memory`, `persistent_workers`, `worker_init_fn`,
          `timeout`, `multiprocessing_context`, `generator`: as torch's; see TorchPackedLoader.
        - `drop_last`: leaves out the batch that is not full; of several ranks and of packed graphs,
          the step that has not a batch for each rank.
        - `seed`: of the order; drawn if it is not given. `rank`, `num_ranks`: those of
          torch.distributed if they are not given.
        - `job`: a job of this name (see `packhouse.Loader`): what is done is acknowledged, and a
          trainer that is started again goes on there. Other arguments of `packhouse.Loader`, as
          `on_existing`, are for that.
        - `name`: under which the graphs are stored, instead of one made of what they have, which
          has to be read for that. `progress=False`: no progress bar.

        Raises ValueError or TypeError naming the argument, or the graph and the attribute that
        cannot be sent.
        """
        self.dataset = dataset
        self.follow_batch = follow_batch
        self.exclude_keys = exclude_keys
        self._transforms_each = False
        make = functools.partial(
            to_batch,
            padding=Padding.of(padding, "padding") is not Padding.NONE,
            follow_batch=tuple(follow_batch or ()),
        )
        if isinstance(dataset, str):
            super().__init__(
                dataset, make, batch_size=batch_size, shuffle=shuffle, limits=limits,
                device=device, padding=padding, **options,
            )  # fmt: skip
            return
        _check_is_dataset(dataset)
        if getattr(dataset, "transform", None) is not None and not transform_once:
            if limits is not None or device is not None or options.get("job"):
                raise ValueError(
                    "the data set has a transform, which may change the sizes of its graphs: say "
                    "transform_once=True to apply it once, before they are packed"
                )
            self._transforms_each = True
        kept = tuple(exclude_keys or ())
        own = _own_class(dataset)
        if own is not None:
            make.keywords["data_class"] = own
        super().__init__(
            functools.partial(
                tables,
                dataset,
                exclude_keys=kept,
                components=components,
                graphs_per_table=_GRAPHS_PER_TABLE,
            ),
            make,
            batch_size=batch_size,
            shuffle=shuffle,
            limits=limits,
            device=device,
            padding=padding,
            num_graphs=length_of(dataset),
            **options,
        )

    def _local(self, make_tables: MakeTables) -> tuple[int, Callable[[Step], Any]]:
        if not self._transforms_each:
            return super()._local(make_tables)
        joined = _Joined(self.dataset, self.follow_batch, self.exclude_keys)
        return len(self.dataset), joined


class _Joined:
    """Joins graphs as PyG does, each of which is asked for anew."""

    def __init__(
        self, dataset: Any, follow_batch: Iterable[str] | None, exclude_keys: Iterable[str] | None
    ) -> None:
        self._dataset = dataset
        self._follow_batch = None if follow_batch is None else list(follow_batch)
        self._exclude_keys = None if exclude_keys is None else list(exclude_keys)

    def __call__(self, step: Step) -> Any:
        from torch_geometric.data import Batch

        graphs = [self._dataset[position] for position in step.positions.tolist()]
        return Batch.from_data_list(graphs, self._follow_batch, self._exclude_keys)


def _own_class(dataset: Any) -> type[Any] | None:
    """That of its graphs, where it is none of PyG's."""
    from torch_geometric.data import Data, HeteroData

    kind = type(dataset[0]) if hasattr(dataset, "__getitem__") else Data
    return None if kind in (Data, HeteroData) else kind


def _check_is_dataset(dataset: Any) -> None:
    from torch_geometric.data.data import BaseData

    if isinstance(dataset, BaseData):
        raise TypeError("dataset: it is one graph, not a data set: give a list, as [data]")
    if length_of(dataset) == 0:
        raise ValueError("dataset: there is no graph")
