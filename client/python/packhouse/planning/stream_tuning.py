"""The shapes that a server chose for a stream's hardware. See `PackOptions.device`."""

from __future__ import annotations

import dataclasses
from typing import Any

from packhouse.base.arguments import Choice
from packhouse.planning.tuning import Oversize


class CapacityTerm(Choice):
    """What kept a capacity of the first shape from being larger.

    - NONE: the component has no limit.
    - MAX_ROWS: `ComponentProfile.max_rows`, or the largest multiple of `multiple_of` within it.
    - MEMORY_BYTES: `DeviceProfile.memory_bytes` has no room for `multiple_of` more.
    - SERVER: the server's bound for the bytes of a batch, or for its number of graphs.
    - SIZES: the sizes of the graphs. More rows would cost more and stay empty.
    """

    NONE = 0
    MAX_ROWS = 1
    MEMORY_BYTES = 2
    SERVER = 3
    SIZES = 4


@dataclasses.dataclass(frozen=True)
class PackShape:
    """A shape that batches may have: rows by component (0: no limit), padding included.

    - `usable`: the most real rows.
    - `batch_bytes`: the size of a padded batch's tensors; 0 without padding.
    - `memory_bytes`: what a batch takes by the profile's model.
    - `expected_share`: the share of full batches that will have this shape. 0: it is for batches
      that are not full, or for rare graphs.
    """

    limits: dict[str, int]
    usable: dict[str, int]
    batch_bytes: int
    memory_bytes: int
    expected_share: float

    @staticmethod
    def from_proto(message: Any) -> PackShape:
        """Reads a `packhouse.v1.PackShape`."""
        return PackShape(
            limits={capacity.component: capacity.rows for capacity in message.capacities},
            usable={capacity.component: capacity.usable_rows for capacity in message.capacities},
            batch_bytes=message.batch_bytes,
            memory_bytes=message.memory_bytes,
            expected_share=message.expected_share,
        )


@dataclasses.dataclass(frozen=True)
class TunedComponent:
    """What is expected of a component: real rows over rows in full batches, and why not more."""

    expected_efficiency: float
    term: CapacityTerm


@dataclasses.dataclass(frozen=True)
class PackTuned:
    """The shapes of a stream's batches. A larger shape comes before a smaller one; each batch has the
    last one that takes it. Where no one shape takes all graphs, there are several of which none takes
    all that another takes.

    - `components`: by component, and `graphs`.
    - `expected_overhead`: the cost of full batches over that of their real rows, less 1.
    - `num_graphs`: from how many graphs the shapes were chosen.
    - `oversize`: those of them that fit no allowed shape, or not the shapes together with the others.
    - `reasons`: sentences for people.
    """

    shapes: tuple[PackShape, ...]
    components: dict[str, TunedComponent]
    expected_overhead: float
    num_graphs: int
    oversize: Oversize | None
    reasons: tuple[str, ...]

    @staticmethod
    def from_proto(message: Any) -> PackTuned:
        """Reads a `packhouse.v1.PackTuned`."""
        return PackTuned(
            shapes=tuple(PackShape.from_proto(shape) for shape in message.shapes),
            components={
                component.component: TunedComponent(
                    component.expected_efficiency, CapacityTerm(component.term)
                )
                for component in message.components
            },
            expected_overhead=message.expected_overhead,
            num_graphs=message.num_graphs,
            oversize=(
                Oversize.from_proto(message.oversize) if message.HasField("oversize") else None
            ),
            reasons=tuple(message.reasons),
        )
