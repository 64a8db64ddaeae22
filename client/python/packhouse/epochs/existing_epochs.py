"""What happens to an epoch that was begun or finished before this loader came to it."""

from __future__ import annotations

import warnings
from typing import Any, Callable, Final, Literal

from packhouse.base.errors import EpochBegunError, EpochFinishedError, PackhouseError
from packhouse.epochs.sharing import Dynamic, Sharing

OnExisting = Literal["error", "resume", "restart"]

_CHOICES: Final = ("error", "resume", "restart")


def check_on_existing(on_existing: str) -> None:
    """Raises ValueError unless it is one of the choices."""
    if on_existing not in _CHOICES:
        raise ValueError(f"on_existing {on_existing!r} is none of {_CHOICES}")


class EpochBegunWarning(UserWarning):
    """A dynamic worker came to an epoch that was begun, and that nobody else loads: only the rest
    comes. What was done may be an earlier run's, or that of other workers which have gone.
    """


def nobody_else_loads(epoch: Any, get_job: Callable[[], Any], num_own: int) -> bool:
    """Whether no streams but `num_own` load a `packhouse.v1.Epoch` now; False if nobody says so.

    `get_job` gives the `packhouse.v1.Job`.
    """
    try:
        job = get_job()
    except PackhouseError:
        return False
    sessions = {each.epoch: each.num_sessions for each in job.epochs}
    return bool(sessions.get(epoch.epoch, num_own + 1) <= num_own)


def warn_of_begun(epoch: Any, who: str, level: int) -> None:
    """Warns with EpochBegunWarning; `level` as warnings.warn's `stacklevel`."""
    warnings.warn(
        f"epoch {epoch.epoch} of job {epoch.job!r} was begun before this {who} came to it, and nobody "
        f"else loads it: {epoch.num_done} of its {epoch.num_batches} batches are done, and only the "
        'rest comes. Load a state, say on_existing="resume" if that is meant, or take another job '
        "name",
        EpochBegunWarning,
        stacklevel=level + 1,
    )


def words_for_finished(epoch: Any, who: str) -> str:
    """How messages about a `packhouse.v1.Epoch` begin."""
    return f"epoch {epoch.epoch} of job {epoch.job!r} was finished before this {who} came to it"


def restarts(
    epoch: Any, num_done: int, on_existing: str, sharing: Sharing, attempt: str, who: str
) -> bool:
    """Whether an epoch is to be loaded again of which `num_done` steps are done, or (0) all are;
    False: what is left of it is loaded.

    Raises EpochBegunError or EpochFinishedError if that is what `on_existing` says, and the latter
    for dynamic workers without an attempt, who would restart each other's epochs.
    """
    if on_existing == "resume":
        return False
    if on_existing == "error" and num_done:
        raise EpochBegunError(
            f"epoch {epoch.epoch} of job {epoch.job!r} was begun before this {who} came to it: "
            f"{num_done} of its steps are done, so that only the rest would come. Load a state, or "
            'say on_existing="resume" for the rest, on_existing="restart" to load it anew, or take '
            "another job name"
        )
    words = words_for_finished(epoch, who)
    if on_existing == "error":
        raise EpochFinishedError(
            f"{words}, so that nothing would come: take another job name, a later epoch, load a "
            'state, or say on_existing="restart" to load it anew or "resume" to go on without it; '
            "for validation, Evaluation keeps nothing"
        )
    if isinstance(sharing, Dynamic) and not attempt:
        raise EpochFinishedError(
            f'{words}: dynamic workers need an attempt for on_existing="restart", by which those '
            "of one start know each other"
        )
    return True
