"""Graphs from LMDB files of pickled objects, as fairchem's before ASE's databases. Needs lmdb.

Each value is a pickle of a `Data` of PyG's or of a dict of arrays; keys are numbers in text, and
`length` may say how many there are. See `packhouse.files.frames` for what the arrays are.
"""

from __future__ import annotations

import os
from typing import Any, Final, Iterable, Iterator, Union

from packhouse.files import atoms_files, frames, pickles
from packhouse.files.atoms_files import needed
from packhouse.files.frames import Item, Malformed, Sample

ENDINGS: Final = (".lmdb",)

_LENGTH: Final = b"length"


def items(name: str, trust_pickle: bool) -> Iterator[Item]:
    """The graphs of a file or a folder, in the order of their numbers.

    Raises PermissionError unless `trust_pickle`, OSError, ImportError, ValueError.
    """
    pickles.check_trusted(name, trust_pickle)
    return frames.of_samples(_samples(name))


def _samples(name: str) -> Iterator[Union[Sample, Malformed]]:
    os.stat(name)
    with needed("lmdb", name):
        environment = atoms_files.opened_lmdb(name)
    with environment, environment.begin(buffers=True) as transaction:
        for key in _keys(transaction):
            where = f"key {key.decode(errors='replace')}"
            value = transaction.get(key)
            if value is None:
                yield Malformed(where, "is missing")
                continue
            try:
                yield Sample(where, pickles.arrays_of(bytes(value)))
            # A pickle raises whatever it likes.
            except Exception as error:  # pylint: disable=broad-except
                if isinstance(error, ImportError):
                    raise
                yield Malformed(where, f"{type(error).__name__}: {error}")


def _keys(transaction: Any) -> Iterable[bytes]:
    length = transaction.get(_LENGTH)
    if length is not None:
        try:
            number = int(bytes(length))
        except ValueError:
            import pickle

            number = int(pickle.loads(bytes(length)))
        return (str(one).encode() for one in range(number))
    keys = [bytes(key) for key in transaction.cursor().iternext(values=False)]
    return sorted(keys, key=lambda key: (not key.isdigit(), int(key) if key.isdigit() else 0, key))
