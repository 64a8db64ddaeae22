"""Pickles of graphs: reading one runs whatever program its author put into it.

`tables` reads the `.pt` files that PyTorch Geometric keeps its processed data sets in: what
`InMemoryDataset.save` writes, in PyG 2 and before: `DATASET/processed/data.pt`, OGB's
`processed/geometric_data_processed.pt`; also a list of `Data` or `HeteroData`, a `Batch`, or a whole
data set that was saved by `torch.save`. The tables are those of `packhouse.pyg.tables`. It needs
torch and torch_geometric. `arrays_of` is for one graph, in whatever file its pickle lies.

`lmdb_items` reads LMDB files of pickles, as fairchem's before ASE's databases: each value is a pickle of
a `Data` of PyG's or of a dict of arrays; keys are numbers in text, and `length` may say how many there
are. See `packhouse.files.frames` for what the arrays are. It needs lmdb.
"""

from __future__ import annotations

import io
import os
import pickle
from typing import Any, Collection, Final, Iterable, Iterator, Union

import numpy as np

from packhouse.data.graphs import GraphTable, array_of
from packhouse.files import atoms_files, frames
from packhouse.files.frames import Item, Malformed, Sample

LMDB_ENDINGS: Final = (".lmdb",)

_IS_PICKLE: Final = "is a pickle: reading it runs the program that its author put into it"
_HAS_PICKLES: Final = "has pickles: reading one runs the program that its author put into it"
# The key of the number of graphs in an LMDB file.
_LENGTH: Final = b"length"


def check_trusted(name: str, is_trusted: bool, danger: str = _HAS_PICKLES) -> None:
    """Raises PermissionError unless the user says so."""
    if not is_trusted:
        raise PermissionError(
            f"{name} {danger}. If you trust the author, say --trust-pickle (trust_pickle=True)"
        )


def arrays_of(pickled: bytes, is_of_torch: bool = False) -> dict[str, Any]:
    """The arrays of a `Data` of PyG's, of this or an older version, or of a dict.

    Raises ValueError for what is neither, or has attributes that PyG would join otherwise than along
    nodes, edges and graphs; and whatever the pickle raises.
    """
    made = _load_by_torch(io.BytesIO(pickled)) if is_of_torch else pickle.loads(pickled)
    if isinstance(made, dict):
        return {str(name): _array(value, str(name)) for name, value in made.items() if value is not None}
    state = dict(getattr(made, "__dict__", {}))
    if "_global_store" in state or hasattr(made, "node_types"):
        raise ValueError("has types of nodes: read it in Python, and use packhouse.pyg.ingest")
    if "_store" in state:
        values = made.to_dict()
    elif "edge_index" in state or "x" in state or "pos" in state:
        # As PyG kept them before its version 2.
        values = {name: value for name, value in state.items() if not name.startswith("_")}
    else:
        raise ValueError(f"a {type(made).__name__} is no graph: a Data of PyG's or a dict is")
    arrays = {}
    for name, value in values.items():
        if value is None:
            continue
        if name != "edge_index" and ("index" in name or name == "face"):
            raise ValueError(
                f"{name!r} is shifted when PyG joins graphs: read it in Python, and use "
                "packhouse.pyg.ingest"
            )
        arrays[name] = _array(value, name)
    if "num_nodes" not in arrays and getattr(made, "num_nodes", None) is not None:
        arrays["num_nodes"] = np.asarray(int(made.num_nodes))
    return arrays


def _array(value: Any, name: str) -> Any:
    return value.detach().cpu().numpy() if hasattr(value, "detach") else array_of(value, repr(name))


def _load_by_torch(file: str | io.BytesIO) -> Any:
    import inspect

    import torch

    # torch 2.6 reads tensors alone unless it is told otherwise; before 1.13 it knows no such word.
    knows = "weights_only" in inspect.signature(torch.load).parameters
    options = {"weights_only": False} if knows else {}
    return torch.load(file, map_location="cpu", **options)


def tables(
    path: str | os.PathLike[str], *, trust_pickle: bool = False, exclude_keys: Collection[str] = ()
) -> Iterator[GraphTable]:
    """The graphs of a file, ids from 0; see `packhouse.pyg.tables`.

    Raises PermissionError unless `trust_pickle`: say so of files that you wrote yourself, or whose
    author may run programs here. Raises OSError, and ValueError naming the file for what is no data
    set of PyG's or has an attribute that cannot be sent.
    """
    name = os.fspath(path)
    check_trusted(name, trust_pickle, _IS_PICKLE)
    # Looked for before torch is imported, which takes seconds.
    os.stat(name)
    return _tables(name, exclude_keys)


def _tables(name: str, exclude_keys: Collection[str]) -> Iterator[GraphTable]:
    from packhouse.frameworks.pyg import datasets as pyg_datasets

    try:
        yield from pyg_datasets.tables(_dataset(_load(name)), exclude_keys=exclude_keys)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError) as error:
        # PyG's own, as of data that an older PyG has made, or graphs that do not fit each other.
        told = " ".join(str(error).split()) or "no reason is given"
        raise ValueError(f"{name}: PyG cannot read it: {type(error).__name__}: {told}") from error


def _load(name: str) -> Any:
    try:
        return _load_by_torch(name)
    except (pickle.UnpicklingError, EOFError, RuntimeError) as error:
        raise ValueError(f"torch cannot read it: {error}") from error


def _dataset(saved: Any) -> Any:
    """What `pyg_datasets.tables` takes. Raises ValueError."""
    from torch_geometric.data import Batch, Data, Dataset, InMemoryDataset
    from torch_geometric.data.data import BaseData

    if isinstance(saved, Dataset):
        return saved
    if isinstance(saved, Batch):
        return saved.to_data_list()
    if isinstance(saved, BaseData):
        return [saved]
    if isinstance(saved, list) and all(isinstance(graph, BaseData) for graph in saved):
        return saved
    if not isinstance(saved, tuple) or not 2 <= len(saved) <= 4:
        raise ValueError(
            f"no data set of PyG's: it has a {type(saved).__name__}, not (data, slices) or a list "
            "of Data"
        )
    data, slices = saved[:2]
    if isinstance(data, dict):
        # With its class at the end, except in a short time's TU data sets.
        made_by = saved[-1] if isinstance(saved[-1], type) else Data
        data = made_by.from_dict(data)
    if not isinstance(data, BaseData) or not isinstance(slices, (dict, type(None))):
        raise ValueError(
            f"no data set of PyG's: ({type(data).__name__}, {type(slices).__name__}) is not "
            "(data, slices)"
        )
    if slices is None:
        return [data]

    class Saved(InMemoryDataset):  # type: ignore[misc]
        """The data set without its files."""

        def __init__(self) -> None:
            super().__init__(None)
            self.data, self.slices = data, slices

    return Saved()


def lmdb_items(name: str, trust_pickle: bool) -> Iterator[Item]:
    """The graphs of a file or a folder, in the order of their numbers.

    Raises PermissionError unless `trust_pickle`, OSError, ImportError, ValueError.
    """
    check_trusted(name, trust_pickle)
    return frames.of_samples(_lmdb_samples(name))


def _lmdb_samples(name: str) -> Iterator[Union[Sample, Malformed]]:
    os.stat(name)
    with atoms_files.needed("lmdb", name):
        environment = atoms_files.opened_lmdb(name)
    with environment, environment.begin(buffers=True) as transaction:
        for key in _lmdb_keys(transaction):
            where = f"key {key.decode(errors='replace')}"
            value = transaction.get(key)
            if value is None:
                yield Malformed(where, "is missing")
                continue
            try:
                yield Sample(where, arrays_of(bytes(value)))
            # A pickle raises whatever it likes.
            except Exception as error:  # pylint: disable=broad-except
                if isinstance(error, ImportError):
                    raise
                yield Malformed(where, f"{type(error).__name__}: {error}")


def _lmdb_keys(transaction: Any) -> Iterable[bytes]:
    length = transaction.get(_LENGTH)
    if length is not None:
        try:
            number = int(bytes(length))
        except ValueError:
            number = int(pickle.loads(bytes(length)))
        return (str(one).encode() for one in range(number))
    keys = [bytes(key) for key in transaction.cursor().iternext(values=False)]
    return sorted(keys, key=lambda key: (not key.isdigit(), int(key) if key.isdigit() else 0, key))
