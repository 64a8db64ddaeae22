"""Which batches of a generation a loader has given out, and which of these are done."""

from __future__ import annotations

import sys
import threading


class GivenBatches:
    """One generation's, of one loader. Thread-safe."""

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

    def give(self, number: int, step: int) -> bool:
        """Marks it as given out. True if it was not given out before."""
        with self._lock:
            if number in self._given:
                return False
            self._given.add(number)
            self._held[number] = step
            if step > self._last_given_step:
                self._last_given_step = step
            return True

    def acknowledge(self, number: int) -> bool:
        """Marks it as done. True if it was the last one that was awaited."""
        with self._lock:
            step = self._held.pop(number, None)
            if step is not None and step > self._last_acknowledged_step:
                self._last_acknowledged_step = step
            return not self._held and len(self._given) >= self._num_expected

    def has_all(self) -> bool:
        """Whether as many as are expected have been given out."""
        with self._lock:
            return len(self._given) >= self._num_expected

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
