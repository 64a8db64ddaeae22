"""Batches padded to TF-GNN's own total sizes, with its padding values. See `packhouse.tfgnn`."""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np
import numpy.typing as npt

from packhouse.data.batch import Batch
from packhouse.data.graphs import Array
from packhouse.data.schema import GRAPHS, DType, TensorSpec
from packhouse.frameworks.layout import Joined, Layout, RowSet
from packhouse.frameworks.tfgnn.ragged import BYTES

Counts = npt.NDArray[np.int64]


def totals_of(total_sizes: Any, layout: Layout) -> dict[str, int]:
    """The total of each set and of `graphs`. Raises ValueError naming a set that has none."""
    totals = {GRAPHS: int(total_sizes.total_num_components)}
    for kind, sets, given in (
        ("node", layout.node_sets, total_sizes.total_num_nodes),
        ("edge", layout.edge_sets, total_sizes.total_num_edges),
    ):
        for name in sets:
            if name not in given:
                raise ValueError(
                    f"total_sizes have no total of the {kind} set {name!r}, only {sorted(given)}"
                )
            totals[name] = int(given[name])
    return totals


class Padded(Joined):
    """The real graphs of a batch with fake rows after them, as `tfgnn.pad_to_total_sizes` has them.

    The batch's own padding is left out, so that it may have any. Without `total_sizes` the totals
    are the rows that the batch has.
    """

    def __init__(self, batch: Batch, total_sizes: Any, padding_values: Any) -> None:
        """Raises ValueError naming the set and its bound where TF-GNN would fail, and TypeError for
        a padding value of another type."""
        super().__init__(batch, padded=False)
        least: Mapping[str, Any] = {}
        if total_sizes is None:
            self._totals = {
                name: batch.rows[name]
                for name in (GRAPHS, *self.layout.node_sets, *self.layout.edge_sets)
            }
        else:
            self._totals = totals_of(total_sizes, self.layout)
            least = total_sizes.min_nodes_per_component or {}
        self._least = {name: int(least.get(name, 0)) for name in self.layout.node_sets}
        self.num_graphs = self._totals[GRAPHS]
        self._check()
        self._fills: dict[str, Any] = {}
        if padding_values is not None:
            self._read_fills(padding_values)

    def rows(self, component: str) -> int:
        """Rows of a component; ragged values and the like have no fake ones."""
        return self._totals.get(component, self.batch.real_rows[component])

    def counts(self, component: str) -> Counts:
        """int64 [num_graphs]: the first fake component has all fake rows but the others' least."""
        if component == GRAPHS:
            return np.ones(self.num_graphs, np.int64)
        least = self._least.get(component, 0)
        counts = np.full(self.num_graphs, least, np.int64)
        # Of the real graphs alone: the batch's own padding is left out.
        counts[: self.num_real] = super().counts(component)
        if self.num_graphs > self.num_real:
            fake = self.rows(component) - self.batch.real_rows[component]
            counts[self.num_real] = fake - least * (self.num_graphs - self.num_real - 1)
        return counts

    def column(self, spec: TensorSpec) -> Array:
        """[rows, *row_shape]: a view if the batch has these rows, else a copy."""
        column = np.moveaxis(self.batch.tensors[spec.name], spec.rows_axis, 0)
        rows, real = self.rows(spec.component), self.batch.real_rows[spec.component]
        fill = self._fills.get(spec.name)
        if fill is None and rows <= len(column):
            return column[:rows]
        whole = np.full(
            (rows, *column.shape[1:]), spec.padding_value if fill is None else fill, column.dtype
        )
        whole[:real] = column[:real]
        return whole

    def text_fill(self, spec: TensorSpec) -> bytes:
        """What stands in fake rows of the feature whose bytes are this tensor."""
        fill: bytes = self._fills.get(spec.name, spec.padding_text)
        return fill

    def mask(self, component: str) -> npt.NDArray[np.bool_]:
        """bool [rows]: True for real rows, which come first."""
        return np.arange(self.rows(component)) < self.batch.real_rows[component]

    def _check(self) -> None:
        real = self.batch.real_rows
        num_fake = self.num_graphs - self.num_real
        if num_fake < 0:
            raise ValueError(
                f"batch {self.batch.id} has {self.num_real} graphs, more than the "
                f"{self.num_graphs} of total_num_components"
            )
        for name, total in self._totals.items():
            least = self._least.get(name, 0)
            wanted = real[name] + least * (num_fake if name != GRAPHS else 0)
            if wanted > total:
                more = f" and {least} for each of {num_fake} fake components" if least else ""
                raise ValueError(
                    f"batch {self.batch.id} has {real[name]} rows of {name!r}{more}: more than its "
                    f"total, {total}"
                )
            if total > real[name] and not num_fake:
                raise ValueError(
                    f"batch {self.batch.id} has {total - real[name]} fake rows of {name!r} and no "
                    "fake component to hold them: total_num_components must be larger"
                )
            if least and super().counts(name)[: self.num_real].min(initial=least) < least:
                raise ValueError(
                    f"a graph of batch {self.batch.id} has fewer than {least} rows of {name!r}, "
                    "the least that min_nodes_per_component allows"
                )
        for edges in self.layout.edge_sets.values():
            if self._totals[edges.component] == real[edges.component]:
                continue
            for nodes in (edges.source, edges.target):
                if self._totals[nodes] == real[nodes]:
                    raise ValueError(
                        f"fake edges of {edges.component!r} have no fake node of {nodes!r} to "
                        f"join: its total must be larger than {real[nodes]}"
                    )

    def _read_fills(self, values: Any) -> None:
        of_sets = {GRAPHS: values.context or {}}
        of_sets.update(values.node_sets or {})
        of_sets.update(values.edge_sets or {})
        rows_of: dict[str, RowSet] = {GRAPHS: self.layout.graphs}
        rows_of.update(self.layout.node_sets)
        rows_of.update(self.layout.edge_sets)
        for set_name, features in of_sets.items():
            if set_name not in rows_of:
                raise ValueError(f"padding_values: no set {set_name!r}, only {list(rows_of)}")
            for name, value in features.items():
                self._add_fill(rows_of[set_name], name, value)

    def _add_fill(self, rows: RowSet, name: str, value: Any) -> None:
        import tensorflow as tf

        where = f"the padding value of {rows.component!r}, feature {name!r},"
        if np.ndim(value):
            raise ValueError(f"{where} must be a scalar, and has shape {np.shape(value)}")
        text = _lengths_of(rows, name + BYTES)
        if text is not None:
            # If it is ragged, fake rows have no string at all.
            if not isinstance(value, (str, bytes)):
                raise TypeError(f"{where} must be a string, and is {value!r}")
            fill = value.encode() if isinstance(value, str) else value
            self._fills[text.name.rpartition(".d")[0]] = fill
            return
        if _lengths_of(rows, name) is not None:
            return  # Ragged: empty in fake rows.
        spec = rows.features.get(name)
        if spec is None:
            raise ValueError(f"padding_values: {rows.component!r} has no feature {name!r}")
        dtype = tf.bfloat16 if spec.dtype is DType.BFLOAT16 else spec.dtype.numpy
        try:
            scalar = tf.convert_to_tensor(value, dtype)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{where} is {value!r}: {error}") from None
        if spec.dtype is DType.BFLOAT16:
            scalar = tf.bitcast(scalar, tf.uint16)
        self._fills[spec.name] = scalar.numpy()


def _lengths_of(rows: RowSet, name: str) -> TensorSpec | None:
    """The lengths of a feature's outermost ragged dimension; None if it has none."""
    for feature, spec in rows.features.items():
        start, _, number = feature.rpartition(".d")
        if start == name and number.isdecimal():
            return spec
    return None
