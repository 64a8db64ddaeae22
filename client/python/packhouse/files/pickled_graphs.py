"""What a pickle has, as named arrays; reading one runs whatever program its author put into it."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np


def check_trusted(name: str, is_trusted: bool) -> None:
    """Raises PermissionError unless the user says so."""
    if not is_trusted:
        raise PermissionError(
            f"{name} has pickles: reading one runs the program that its author put into it. If you "
            "trust the author, say --trust-pickle (trust_pickle=True)"
        )


def arrays_of(pickled: bytes, is_of_torch: bool = False) -> dict[str, Any]:
    """The arrays of a `Data` of PyG's, of this or an older version, or of a dict.

    Raises ValueError for what is neither, or has attributes that PyG would join otherwise than along
    nodes, edges and graphs; and whatever the pickle raises.
    """
    made = _load_by_torch(pickled) if is_of_torch else pickle.loads(pickled)
    if isinstance(made, dict):
        return {str(name): _array(value) for name, value in made.items() if value is not None}
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
        arrays[name] = _array(value)
    if "num_nodes" not in arrays and getattr(made, "num_nodes", None) is not None:
        arrays["num_nodes"] = np.asarray(int(made.num_nodes))
    return arrays


def _array(value: Any) -> Any:
    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)


def _load_by_torch(pickled: bytes) -> Any:
    import inspect
    import io

    import torch

    # torch 2.6 reads tensors alone unless it is told otherwise; before 1.13 it knows no such word.
    knows = "weights_only" in inspect.signature(torch.load).parameters
    options = {"weights_only": False} if knows else {}
    return torch.load(io.BytesIO(pickled), map_location="cpu", **options)
