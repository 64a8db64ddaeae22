"""What a loader was made with, and where it starts."""

from __future__ import annotations

import dataclasses
from typing import TypedDict

from packhouse.epochs.connecting import Connecting
from packhouse.epochs.request import EpochRequest
from packhouse.epochs.sharing import Sharing


class LoaderState(TypedDict):
    """What a checkpoint keeps of a loader: plain values, which any serialisation takes."""

    epoch: int
    cursor: str


@dataclasses.dataclass(frozen=True)
class LoaderSettings:
    """What a loader was made with; can be pickled."""

    connecting: Connecting
    request: EpochRequest
    sharing: Sharing
    # Whether the caller said which rank or worker this is.
    is_placed: bool
    attempt: str
    manual: bool
    on_existing: str
    writable: bool
    # Whether the loader is to say that an epoch is begun or finished, or has too large graphs.
    looks_at_epoch: bool = True


@dataclasses.dataclass(frozen=True)
class LoaderStart:
    """Where a loader starts to load: an epoch, from a cursor or in a generation if there is one."""

    epoch: int = 0
    cursor: str = ""
    attempt: str = ""
    # Of a reader that joins what its trainer has come to.
    generation: int | None = None
