"""Graphs from tars of WebDataset: files of one name up to the first dot are one graph.

What follows the dot is the array's name and its format: `0001.edge_index.npy`, `0001.y.json`. `.npy`
is one array; `.npz` has arrays by name, `.json` numbers, lists or a dict of them; `.cls`, `.index`,
`.id`, `.count` are whole numbers; `.txt` is text; `.pkl`, `.pickle`, `.pyd`, `.pt`, `.pth` are pickles, a
dict or a `Data` of PyG's. See `packhouse.files.frames` for what the arrays are. Read once from
beginning to end, also from `.tar.gz`.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
from typing import Any, Final, Iterator, Union

import numpy as np

from packhouse.files import frames, pickles
from packhouse.files.frames import Item, Malformed, Sample

ENDINGS: Final = (".tar", ".tar.gz", ".tgz")

_NUMBERS: Final = ("cls", "index", "inx", "id", "count")
_TEXTS: Final = ("txt", "text")
_PICKLES: Final = ("pkl", "pickle", "pyd")
_PICKLES_OF_TORCH: Final = ("pt", "pth")


def items(name: str, trust_pickle: bool) -> Iterator[Item]:
    """The graphs of a tar. Raises OSError, ValueError if it is none, and PermissionError at the
    first pickle unless `trust_pickle`."""
    return frames.of_samples(_samples(name, trust_pickle))


def _samples(name: str, trust_pickle: bool) -> Iterator[Union[Sample, Malformed]]:
    os.stat(name)
    try:
        with tarfile.open(name, "r|*") as archive:
            yield from _of_archive(name, archive, trust_pickle)
    except (tarfile.TarError, EOFError) as error:
        raise ValueError(f"{name}: is no whole tar: {error}") from error


def _of_archive(
    name: str, archive: Any, trust_pickle: bool
) -> Iterator[Union[Sample, Malformed]]:
    key: str | None = None
    arrays: dict[str, Any] = {}
    wrong = ""
    for member in archive:
        if not member.isfile():
            continue
        folder, base = os.path.split(member.name)
        stem, _, ending = base.partition(".")
        if not ending or base.startswith("."):
            continue
        here = os.path.join(folder, stem)
        if here != key:
            if key is not None:
                yield Malformed(f"sample {key}", wrong) if wrong else Sample(f"sample {key}", arrays)
            key, arrays, wrong = here, {}, ""
        kind = ending.rpartition(".")[2].lower()
        if kind in _PICKLES + _PICKLES_OF_TORCH:
            pickles.check_trusted(f"{name}: {member.name}", trust_pickle)
        try:
            arrays.update(_read(ending, archive.extractfile(member).read()))
        # numpy, json and pickles raise errors of all kinds.
        except Exception as error:  # pylint: disable=broad-except
            if isinstance(error, (ImportError, tarfile.TarError, EOFError)):
                raise
            wrong = f"{base}: {error}"
    if key is not None:
        yield Malformed(f"sample {key}", wrong) if wrong else Sample(f"sample {key}", arrays)


def _read(ending: str, content: bytes) -> dict[str, Any]:
    """The arrays of a file. Raises ValueError."""
    own, _, kind = ending.rpartition(".")
    kind = kind.lower()
    if kind == "npy":
        return {own or "npy": np.load(io.BytesIO(content), allow_pickle=False)}
    if kind == "npz":
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return _named(own, {name: arrays[name] for name in arrays.files})
    if kind == "json":
        value = json.loads(content)
        return _named(own, value) if isinstance(value, dict) else {own or "json": np.asarray(value)}
    if kind in _NUMBERS:
        return {own or kind: np.asarray(int(content))}
    if kind in _PICKLES + _PICKLES_OF_TORCH:
        return _named(own, pickles.arrays_of(content, kind in _PICKLES_OF_TORCH))
    if kind in _TEXTS:
        return {ending: np.asarray(content.decode())}
    # Of no numbers, to be left out by name.
    return {ending: np.asarray(content)}


def _named(own: str, arrays: dict[str, Any]) -> dict[str, Any]:
    return {f"{own}.{name}" if own else name: np.asarray(value) for name, value in arrays.items()}
