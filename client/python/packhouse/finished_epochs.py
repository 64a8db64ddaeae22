"""What happens to an epoch that was finished before this loader came to it."""

from __future__ import annotations

from typing import Any, Final, Literal

from packhouse.errors import EpochFinishedError
from packhouse.sharing import Dynamic, Sharing

Finished = Literal["error", "restart", "skip"]

_CHOICES: Final = ("error", "restart", "skip")


def check_finished(finished: str) -> None:
    """Raises ValueError unless it is one of the choices."""
    if finished not in _CHOICES:
        raise ValueError(f"finished {finished!r} is none of {_CHOICES}")


def words_for_finished(epoch: Any, who: str) -> str:
    """How messages about a `packhouse.v1.Epoch` begin."""
    return f"epoch {epoch.epoch} of job {epoch.job!r} was finished before this {who} came to it"


def restarts(epoch: Any, finished: str, sharing: Sharing, attempt: str, who: str) -> bool:
    """Whether a finished epoch is to be loaded again; False: it gives no batch.

    Raises EpochFinishedError if that is what `finished` says, and for dynamic workers without an
    attempt, who would restart each other's epochs.
    """
    if finished == "skip":
        return False
    words = words_for_finished(epoch, who)
    if finished == "error":
        raise EpochFinishedError(
            f"{words}, so that nothing would come: take another job name, a later epoch, "
            'load a state, or say finished="restart" to load it anew or "skip" to go on without '
            "it; for validation, Evaluation keeps nothing"
        )
    if isinstance(sharing, Dynamic) and not attempt:
        raise EpochFinishedError(
            f'{words}: dynamic workers need an attempt for finished="restart", by which those of '
            "one start know each other"
        )
    return True
