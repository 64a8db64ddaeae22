"""Whether an LMDB file has all of its pages: one that is cut ends the process that reads it."""

from __future__ import annotations

import os
from typing import Any


def opened(name: str) -> Any:
    """The environment, read-only. Raises ImportError, OSError, and ValueError naming the file."""
    import lmdb

    is_folder = os.path.isdir(name)
    try:
        environment = lmdb.open(name, subdir=is_folder, readonly=True, lock=False, max_readers=1)
    except lmdb.Error as error:
        raise ValueError(f"{name}: is no LMDB file: {error}") from error
    has = os.stat(os.path.join(name, "data.mdb") if is_folder else name).st_size
    needs = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    if has < needs:
        environment.close()
        raise ValueError(f"{name}: is cut: it has {has:,} bytes, and its pages need {needs:,}")
    return environment
