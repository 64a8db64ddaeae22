"""The schema that the service makes of TF-GNN's own, made here. See `docs/tfgnn.md`."""

from __future__ import annotations

from typing import Any, Final, Mapping

from packhouse.data.examples import TfgnnSchema
from packhouse.data.schema import GRAPHS, DType, GraphSchema, TensorSpec
from packhouse.frameworks.tfgnn.messages import dtype_name, parse_graph_schema
from packhouse.frameworks.tfgnn.ragged import BYTES

_DTYPES: Final = {
    "DT_BOOL": DType.BOOL,
    "DT_INT8": DType.INT8,
    "DT_INT16": DType.INT16,
    "DT_INT32": DType.INT32,
    "DT_INT64": DType.INT64,
    "DT_UINT8": DType.UINT8,
    "DT_UINT16": DType.UINT16,
    "DT_UINT32": DType.UINT32,
    "DT_UINT64": DType.UINT64,
    "DT_HALF": DType.FLOAT16,
    "DT_BFLOAT16": DType.BFLOAT16,
    "DT_FLOAT": DType.FLOAT32,
    "DT_DOUBLE": DType.FLOAT64,
}


def graph_schema(schema: TfgnnSchema) -> GraphSchema:
    """What the server makes of TF-GNN's own schema, made here. The server checks more, such as
    read-outs.

    Raises ValueError naming the set and the feature that is wrong.
    """
    message = parse_graph_schema(schema.data)
    maker = _Maker([*sorted(message.node_sets), *sorted(message.edge_sets)])
    for name in message.edge_sets:
        if name in message.node_sets:
            raise ValueError(
                f"graph schema: there are a node set and an edge set {name!r}, which would be one "
                "component"
            )
    maker.add_features("context", "", GRAPHS, message.context.features)
    for name, nodes in sorted(message.node_sets.items()):
        maker.add_features(f"node set {name!r}", f"{name}.", name, nodes.features)
    for name, edges in sorted(message.edge_sets.items()):
        mark = "#" if {"source", "target"} & set(edges.features) else ""
        for end, nodes in (("source", edges.source), ("target", edges.target)):
            if nodes not in message.node_sets:
                raise ValueError(
                    f"graph schema: edge set {name!r}: there is no node set {nodes!r}"
                )
            tensor = TensorSpec(f"{name}.{mark}{end}", DType.INT32, name, index_into=nodes)
            maker.tensors.append(tensor)
        maker.add_features(f"edge set {name!r}", f"{name}.", name, edges.features)
    return GraphSchema(maker.components, maker.tensors)


class _Maker:
    """The components and tensors so far."""

    def __init__(self, components: list[str]) -> None:
        self.components = components
        self.tensors: list[TensorSpec] = []

    def add_features(
        self, where: str, prefix: str, component: str, features: Mapping[str, Any]
    ) -> None:
        """The features of a set, or of the context."""
        for name, feature in sorted(features.items()):
            self._add(f"{where}: feature {name!r}", prefix + name, component, feature)

    def _add(self, where: str, name: str, component: str, feature: Any) -> None:
        dims = [dim.size for dim in feature.shape.dim]
        if feature.shape.unknown_rank:
            raise ValueError(f"graph schema: {where}: the rank is unknown")
        dtype_text = dtype_name(feature.dtype)
        if dtype_text == "DT_STRING":
            dtype = DType.UINT8
            name += BYTES
            dims.append(-1)
        elif dtype_text in _DTYPES:
            dtype = _DTYPES[dtype_text]
        else:
            raise ValueError(f"graph schema: {where}: packhouse has no dtype {dtype_text}")
        fixed: list[int] = []
        names = [f"{name}.d{place}" for place, dim in enumerate(dims, 1) if dim == -1]
        names.append(name)
        for dim in dims:
            if dim < -1 or dim == 0:
                raise ValueError(
                    f"graph schema: {where}: a dimension of {dim} is neither -1 (ragged) nor at "
                    "least 1"
                )
            if dim != -1:
                fixed.append(dim)
                continue
            self.tensors.append(TensorSpec(names.pop(0), DType.INT32, component, fixed))
            fixed = []
            component = names[0]
            self.components.append(component)
        self.tensors.append(TensorSpec(name, dtype, component, fixed))
