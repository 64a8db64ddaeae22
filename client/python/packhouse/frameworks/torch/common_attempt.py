"""One name for a start of a trainer that all its ranks know."""

from __future__ import annotations

import uuid

from torch import distributed


def common_attempt() -> str | None:
    """A new name, the same on all ranks of torch.distributed, all of which must call this; None
    where there is one rank, which needs none.

    Ranks that load a state know each other by it: see `Loader`.
    """
    if not distributed.is_available() or not distributed.is_initialized():
        return None
    if distributed.get_world_size() == 1:
        return None
    drawn = [uuid.uuid4().hex]
    distributed.broadcast_object_list(drawn)
    return drawn[0]
