"""Which batches of a generation a loader has given out, and which of these are done."""

from __future__ import annotations

import sys
import threading


class GivenBatches:
    """One generation's, of one loader. Thread-safe; each method may be called again after an
    exception ended it anywhere.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Below: guarded by _lock.
        self._given: set[int] = set()
        # Steps of batches that were given out and are not acknowledged, by batch number.
        self._held: dict[int, int] = {}
        self._last_given_step = -1
        self._last_acknowledged_step = -1
        self._num_expected = sys.maxsize

    def expect(self, num_batches: int) -> None:
        """Says how many will come."""
        with self._lock:
            self._num_expected = num_batches

    def has(self, number: int) -> bool:
        """Whether it was given out."""
        with self._lock:
            return number in self._given

    def give(self, number: int, step: int) -> None:
        """Marks it as given out, and not done. Idempotent."""
        with self._lock:
            self._held[number] = step
            self._last_given_step = max(self._last_given_step, step)
            self._given.add(number)

    def holds(self, number: int) -> bool:
        """Whether it was given out and is not acknowledged."""
        with self._lock:
            return number in self._held

    def acknowledge(self, number: int) -> bool:
        """Marks it as done. True if it was the last one that was awaited."""
        with self._lock:
            step = self._held.get(number)
            if step is not None:
                self._last_acknowledged_step = max(self._last_acknowledged_step, step)
                del self._held[number]
            return not self._held and len(self._given) >= self._num_expected

    def has_all_with(self, ahead: list[int]) -> bool:
        """Whether as many as are expected have been given out, or are ahead."""
        with self._lock:
            num_ahead = sum(number not in self._given for number in ahead)
            return len(self._given) + num_ahead >= self._num_expected

    def steps_done(self) -> int | None:
        """The step up to which all is done, and nothing after it; None if nothing was given out.

        Raises ValueError if steps were acknowledged out of order.
        """
        with self._lock:
            if self._held:
                steps = min(self._held.values())
                if self._last_acknowledged_step > steps:
                    raise ValueError(
                        f"step {self._last_acknowledged_step} is acknowledged, "
                        f"step {steps} before it is not"
                    )
                return steps
            return self._last_given_step + 1 if self._given else None
