"""Batches as TF-GNN's `GraphTensor`, also padded to its own total sizes, with its padding values.

See `packhouse.tfgnn`.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from packhouse.data.batch import Batch
from packhouse.data.graphs import Array
from packhouse.data.schema import GRAPHS, DType, GraphSchema, TensorSpec
from packhouse.epochs.loader import Loader
from packhouse.frameworks.layout import EdgeSet, Joined, Layout, RowSet
from packhouse.frameworks.tfgnn.schemas import BYTES, check_all_told, ragged_of

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


def to_graph_tensor(
    batch: Batch, *, padding: bool = True, total_sizes: Any = None, padding_values: Any = None
) -> Any:
    """The scalar `tfgnn.GraphTensor` of the graphs, each a component.

    Of a padded batch (Padding.TFGNN; Padding.GRAPH does too) it is what `tfgnn.pad_to_total_sizes`
    makes of the merged graphs with the limits as total sizes: the first fake component holds all
    spare rows, fake edges are spread over the fake nodes, features there are zero (or the tensor's
    `padding_value`), ragged ones empty. With `padding=False`, and of a batch without padding, it is
    the merged graphs themselves. Sizes and indices are int32. `mask` tells real components from
    fake ones. With `min_rows`, ask for DerivedTensor.ROW_COUNTS: it tells how many rows each fake
    component has.

    `total_sizes`, a `tfgnn.SizeConstraints`, has the real graphs padded to these sizes here, with
    its `min_nodes_per_component`; the batch may have any padding or none. `padding_values`, a
    `tfgnn.FeatureDefaultValues`, says what features hold in fake rows; of ragged ones the rows stay
    empty. Both are those of `tfgnn.pad_to_total_sizes`, and copy features whose rows change. Where
    it fails ValueError names the set and its bound, TypeError a padding value of another type.

    Components of the schema are node and edge sets by their names, tensors of whole graphs are the
    context's. Ragged features and strings: see `packhouse.tfgnn.table`. Raises ValueError if there
    is no graph to hold the padding (Padding.MASKED), or for rows that belong to no set.
    """
    import tensorflow as tf
    import tensorflow_gnn as tfgnn

    joined = _joined(batch, padding, total_sizes, padding_values)
    layout = joined.layout
    check_all_told(layout)
    node_sets = {
        name: tfgnn.NodeSet.from_fields(
            features=_features(joined, rows), sizes=tf.constant(_sizes(joined, name))
        )
        for name, rows in layout.node_sets.items()
    }
    edge_sets = {}
    for name, edges in layout.edge_sets.items():
        source, target = _ends(joined, edges)
        edge_sets[name] = tfgnn.EdgeSet.from_fields(
            features=_features(joined, edges),
            sizes=tf.constant(_sizes(joined, name)),
            adjacency=tfgnn.Adjacency.from_indices(
                (edges.source, tf.constant(source)), (edges.target, tf.constant(target))
            ),
        )
    context = tfgnn.Context.from_fields(
        features=_features(joined, layout.graphs), sizes=tf.ones([joined.num_graphs], tf.int32)
    )
    return tfgnn.GraphTensor.from_pieces(context, node_sets, edge_sets)


def mask(batch: Batch, *, total_sizes: Any = None) -> npt.NDArray[np.bool_]:
    """bool [components]: True for real ones; the second that `tfgnn.pad_to_total_sizes` gives."""
    return _joined(batch, True, total_sizes, None).mask(GRAPHS)


def node_mask(batch: Batch, node_set: str, *, total_sizes: Any = None) -> npt.NDArray[np.bool_]:
    """bool [nodes]: True for the real nodes of a set. Raises KeyError."""
    return _joined(batch, True, total_sizes, None).mask(node_set)


def _joined(batch: Batch, padding: bool, total_sizes: Any, padding_values: Any) -> Joined:
    if total_sizes is None and (padding_values is None or not padding):
        return Joined(batch, padded=padding)
    if not padding:
        raise ValueError("total_sizes with padding=False: give one of them")
    return Padded(batch, total_sizes, padding_values)


def graph_tensor_spec(schema: GraphSchema, limits: Any = None) -> Any:
    """The `tfgnn.GraphTensorSpec` of batches of that schema.

    With `limits`, as they were asked for with Padding.TFGNN, or with a `tfgnn.SizeConstraints`, all
    sizes are known; without, none is.
    """
    import tensorflow as tf
    import tensorflow_gnn as tfgnn

    layout = Layout.of(schema)
    check_all_told(layout)
    bounds: dict[str, int] = {}
    if hasattr(limits, "total_num_components"):
        bounds = totals_of(limits, layout)
    elif limits is not None:
        bounds = dict(limits)

    def features(rows: RowSet) -> dict[str, Any]:
        return _feature_specs(layout, rows, bounds.get(rows.component))

    sizes = tf.TensorSpec([bounds.get(GRAPHS)], tf.int32)
    return tfgnn.GraphTensorSpec.from_piece_specs(
        tfgnn.ContextSpec.from_field_specs(features_spec=features(layout.graphs), sizes_spec=sizes),
        {
            name: tfgnn.NodeSetSpec.from_field_specs(features_spec=features(rows), sizes_spec=sizes)
            for name, rows in layout.node_sets.items()
        },
        {
            name: tfgnn.EdgeSetSpec.from_field_specs(
                features_spec=features(edges),
                sizes_spec=sizes,
                adjacency_spec=tfgnn.AdjacencySpec.from_incident_node_sets(
                    edges.source, edges.target, tf.TensorSpec([bounds.get(name)], tf.int32)
                ),
            )
            for name, edges in layout.edge_sets.items()
        },
    )


def to_dataset(
    make_batches: Callable[[], Iterable[Batch]],
    spec: Any,
    *,
    with_mask: bool = False,
    total_sizes: Any = None,
    padding_values: Any = None,
) -> Any:
    """A `tf.data.Dataset` of GraphTensors; each time that it is iterated over calls `make_batches`.

    A Loader whose epoch has ended gives its next epoch, so that keras' `fit` with several epochs
    works, also with `steps_per_epoch` and `repeat()`, as keras wants it; `set_epoch` before gives
    another one.

        dataset = to_dataset(lambda: loader, graph_tensor_spec(schema, limits))

    With `with_mask` it is of pairs, as `tfgnn.pad_to_total_sizes` gives them: a GraphTensor, and
    bool [components], True for real ones. `total_sizes` and `padding_values` are those of
    `to_graph_tensor`.
    `spec` is what `graph_tensor_spec` gives; a batch that is not of it is an error of TensorFlow's.
    A loader's batch counts as done when the next one is asked for, which `prefetch` does early: put
    none after it, or acknowledge by hand.
    """
    import tensorflow as tf

    def flat() -> Iterator[Any]:
        batches = make_batches()
        if isinstance(batches, Loader) and batches.has_ended:
            batches.set_epoch(batches.epoch + 1)
        for batch in batches:
            graph = to_graph_tensor(batch, total_sizes=total_sizes, padding_values=padding_values)
            parts = tf.nest.flatten(graph, expand_composites=True)
            yield (*parts, mask(batch, total_sizes=total_sizes)) if with_mask else tuple(parts)

    parts = tf.nest.flatten(spec, expand_composites=True)
    if with_mask:
        parts.append(tf.TensorSpec(spec.context_spec.sizes_spec.shape, tf.bool))
    signature = tuple(tf.TensorSpec(part.shape, part.dtype) for part in parts)

    def whole(*tensors: Any) -> Any:
        if not with_mask:
            return tf.nest.pack_sequence_as(spec, tensors, expand_composites=True)
        *of_graph, real = tensors
        return tf.nest.pack_sequence_as(spec, of_graph, expand_composites=True), real

    return tf.data.Dataset.from_generator(flat, output_signature=signature).map(whole)


def size_constraints(
    schema: GraphSchema,
    limits: Mapping[str, int],
    min_nodes_per_component: Mapping[str, int] | None = None,
) -> Any:
    """The limits as `tfgnn.SizeConstraints`, for `tfgnn.pad_to_total_sizes` and its like.

    Raises KeyError for a component without a limit.
    """
    import tensorflow_gnn as tfgnn

    layout = Layout.of(schema)
    return tfgnn.SizeConstraints(
        limits[GRAPHS],
        {name: limits[name] for name in layout.node_sets},
        {name: limits[name] for name in layout.edge_sets},
        dict(min_nodes_per_component or {}),
    )


def fake_ends(first: int, last: int, count: int) -> npt.NDArray[np.int32]:
    """int32 [count]: the ends of fake edges over the fake nodes `first` to `last`, as TF-GNN has
    them.

    In float32, with its rounding beyond 2^24.
    """
    lowest, end = np.float32(first), np.float32(last + 1)
    steps = max(count - 1, 1)
    step = (end - lowest) / np.float32(steps)
    spread = lowest + step * np.arange(steps + 1, dtype=np.float32)
    if count > 1:
        spread[-1] = end
    within: npt.NDArray[np.int32] = np.clip(spread[:count].astype(np.int64), first, last).astype(
        np.int32
    )
    return within


def _sizes(joined: Joined, component: str) -> npt.NDArray[np.int32]:
    return joined.counts(component).astype(np.int32)


def _ends(joined: Joined, edges: EdgeSet) -> tuple[Array, Array]:
    """int32 [edges] each. Fake edges are spread: by the server, or here if it has them at one node.
    """
    real = joined.batch.real_rows[edges.component]
    made = []
    for end, nodes in zip(joined.ends(edges), (edges.source, edges.target)):
        whole = np.empty(joined.rows(edges.component), np.int32)
        first, last = joined.batch.real_rows[nodes], joined.rows(nodes) - 1
        whole[:real] = end[:real]
        if len(end) == len(whole) and (len(whole) <= real + 1 or end[-1] == last):
            whole[real:] = end[real:]
        else:
            whole[real:] = fake_ends(first, last, len(whole) - real)
        made.append(whole)
    return made[0], made[1]


def _features(joined: Joined, rows: RowSet) -> dict[str, Any]:
    import tensorflow as tf

    ragged = ragged_of(joined.layout, rows)
    hidden = {each.lengths[0].name for each in ragged}
    features = {
        name: _tensor(joined.column(spec), spec)
        for name, spec in rows.features.items()
        if spec.name not in hidden
    }
    for each in ragged:
        real = joined.batch.real_rows
        outer, *inner = each.lengths
        # Rows of padding are empty; lengths and values have no padding of their own here.
        lengths = [joined.column(outer)]
        lengths += [joined.batch.tensors[spec.name][: real[spec.component]] for spec in inner]
        flat = joined.batch.tensors[each.values.name][: real[each.values.component]]
        if each.is_text:
            of_strings = lengths.pop()
            strings = _strings(flat, of_strings.reshape(-1))
            if not lengths and isinstance(joined, Padded):
                kept = real[rows.component] * int(np.prod(of_strings.shape[1:]))
                strings[kept:] = [joined.text_fill(each.values)] * (len(strings) - kept)
            values = tf.reshape(tf.constant(strings, tf.string), of_strings.shape)
        else:
            values = _tensor(flat, each.values)
        for part in reversed(lengths):
            values = tf.RaggedTensor.from_row_lengths(
                values, tf.constant(part.reshape(-1).astype(np.int32)), validate=False
            )
            for place in range(part.ndim - 1, 0, -1):
                values = tf.RaggedTensor.from_uniform_row_length(
                    values,
                    tf.constant(part.shape[place], tf.int32),
                    nrows=tf.constant(int(np.prod(part.shape[:place])), tf.int32),
                    validate=False,
                )
        features[each.name] = values
    return features


def _feature_specs(layout: Layout, rows: RowSet, total: int | None) -> dict[str, Any]:
    import tensorflow as tf

    ragged = ragged_of(layout, rows)
    hidden = {each.lengths[0].name for each in ragged}
    specs = {
        name: tf.TensorSpec([total, *spec.row_shape], _dtype(spec))
        for name, spec in rows.features.items()
        if spec.name not in hidden
    }
    for each in ragged:
        dtype = tf.string if each.is_text else _dtype(each.values)
        shape = [total, *each.dims]
        if each.ragged_rank:
            specs[each.name] = tf.RaggedTensorSpec(shape, dtype, each.ragged_rank, tf.int32)
        else:
            specs[each.name] = tf.TensorSpec(shape, dtype)
    return specs


def _dtype(spec: TensorSpec) -> Any:
    import tensorflow as tf

    return tf.bfloat16 if spec.dtype is DType.BFLOAT16 else tf.dtypes.as_dtype(spec.dtype.numpy)


def _tensor(column: Array, spec: TensorSpec) -> Any:
    import tensorflow as tf

    if spec.dtype is DType.BFLOAT16:
        return tf.bitcast(tf.constant(column), tf.bfloat16)
    return tf.constant(column)


def _strings(flat: Array, lengths: Array) -> list[bytes]:
    text = flat.tobytes()
    stops = np.cumsum(lengths, dtype=np.int64).tolist()
    return [text[start:stop] for start, stop in zip([0, *stops], stops)]
