"""Streams that tell when the sizes of their graphs change. See `PackOptions.drift`."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

from packhouse.planning.stream_tuning import PackTuned


class SizesDriftedWarning(UserWarning):
    """The sizes of a stream's graphs have changed, and other limits would waste less."""


@dataclasses.dataclass(frozen=True)
class DriftWatch:
    """How a stream is watched for changes of the sizes of its graphs.

    The test's chance of a false alarm is at most one in a thousand for each stream, however long it
    is. Graphs must come shuffled: each new kind of graphs is a change.

    - `num_graphs`: how many graphs the present limits are judged from after a change; without a
      `device`, and so many at the beginning of the stream that later ones are compared with. 500 to
      65,536; 0: 2,000.
    - `min_loss`: from which share of the cost of batches on a change is told; 0: 0.02.
    """

    num_graphs: int = 0
    min_loss: float = 0.0


@dataclasses.dataclass(frozen=True)
class DriftedComponent:
    """A component, before and after a change.

    - `reference_mean`, `mean`: rows of a graph, when limits were chosen and after the change.
    - `reference_efficiency`, `present_efficiency`: real rows over rows in full batches with the
      stream's limits, when they were chosen and after the change.
    - `offered_efficiency`: after the change, with the offered limits.
    """

    reference_mean: float
    mean: float
    reference_efficiency: float
    present_efficiency: float
    offered_efficiency: float


@dataclasses.dataclass(frozen=True)
class PackDrifted:
    """The sizes of a stream's graphs have changed. The stream goes on with its limits.

    - `first_graph`, `found_graph`, `end_graph`: places in the stream, from 0: where the change
      began, by estimate; where it was found; and the end of what it was judged from.
    - `loss`: the share of the cost of batches that the offered limits would save.
    - `components`: by component, and `graphs`.
    - `offered`: the shapes that are offered; None if no others cost less.
    - `look_ahead`: the one that is offered; that of the stream if no other is.
    - `reasons`: sentences for people.
    """

    first_graph: int
    found_graph: int
    end_graph: int
    loss: float
    components: dict[str, DriftedComponent]
    offered: PackTuned | None
    look_ahead: int
    reasons: tuple[str, ...]

    @property
    def limits(self) -> dict[str, int] | None:
        """The largest of the offered shapes, as `PackOptions.limits` of the next stream."""
        return None if self.offered is None else self.offered.shapes[0].limits

    @staticmethod
    def from_proto(message: Any) -> PackDrifted:
        """Reads a `packhouse.v1.PackDrifted`."""
        return PackDrifted(
            first_graph=message.first_graph,
            found_graph=message.found_graph,
            end_graph=message.end_graph,
            loss=message.loss,
            components={
                component.component: DriftedComponent(
                    reference_mean=component.reference_mean,
                    mean=component.mean,
                    reference_efficiency=component.reference_efficiency,
                    present_efficiency=component.present_efficiency,
                    offered_efficiency=component.offered_efficiency,
                )
                for component in message.components
            },
            offered=PackTuned.from_proto(message.offered) if message.HasField("offered") else None,
            look_ahead=message.look_ahead,
            reasons=tuple(message.reasons),
        )

    def warn(self, level: int) -> None:
        """Warns; `level` as warnings.warn's `stacklevel`."""
        limits = "" if self.limits is None else f"; better from the next stream on: {self.limits}"
        warnings.warn(
            f"pack: the sizes of graphs have changed, and the limits waste {self.loss:.1%} of the "
            f"cost of batches{limits}. {' '.join(self.reasons)}",
            SizesDriftedWarning,
            stacklevel=level + 1,
        )
