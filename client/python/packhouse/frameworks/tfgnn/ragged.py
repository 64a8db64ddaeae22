"""Which tensors of a schema are a ragged feature or text of TF-GNN. See `packhouse.tfgnn.table`."""

from __future__ import annotations

from typing import Final, Sequence

from packhouse.data.schema import TensorSpec
from packhouse.frameworks.layout import Layout, RowSet

# The ending of a feature that holds text: its innermost lengths are those of the strings.
BYTES: Final = ".bytes"


class Ragged:
    """A ragged or text feature: the tensors of its lengths, from the outermost, and its values.

    `dims` is its shape in TF-GNN after the dimension of the rows: None for a ragged one.
    """

    def __init__(self, values: TensorSpec, name: str, lengths: Sequence[TensorSpec]) -> None:
        self.values = values
        self.lengths = lengths
        self.is_text = name.endswith(BYTES)
        self.name = name[: -len(BYTES)] if self.is_text else name
        self.dims: list[int | None] = []
        for spec in lengths:
            self.dims += [*spec.row_shape, None]
        if self.is_text:
            self.dims.pop()
        else:
            self.dims += values.row_shape

    @property
    def ragged_rank(self) -> int:
        """How many dimensions a RaggedTensor of it partitions: up to its last ragged one."""
        return max((place for place, dim in enumerate(self.dims, 1) if dim is None), default=0)


def ragged_of(layout: Layout, rows: RowSet) -> list[Ragged]:
    """The ragged and text features of a set."""
    attributes = {
        attribute.name: attribute.spec
        for attribute in layout.attributes.values()
        if attribute.owner == rows.component
    }
    found = []
    for name, values in attributes.items():
        lengths = [
            (int(number), spec)
            for whole, spec in (*rows.features.items(), *attributes.items())
            if whole.startswith(name + ".d") and (number := whole[len(name) + 2 :]).isdecimal()
        ]
        lengths.sort(key=lambda level: level[0])
        if lengths and lengths[0][1].component == rows.component:
            found.append(Ragged(values, name, [spec for _, spec in lengths]))
    return found


def check_all_told(layout: Layout) -> None:
    """Raises ValueError for rows that belong to no set and to no ragged feature."""
    told = set()
    for rows in (*layout.node_sets.values(), *layout.edge_sets.values(), layout.graphs):
        for ragged in ragged_of(layout, rows):
            told |= {ragged.values.component, *(spec.component for spec in ragged.lengths)}
    for component in layout.attributes:
        if component not in told:
            raise ValueError(
                f"the rows of {component!r} belong to no node set, edge set or ragged feature"
            )
