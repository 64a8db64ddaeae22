"""What tensors a graph has: element types, tensor specifications, the schema of a stream."""

from __future__ import annotations

import dataclasses
import enum
import functools
import pickle
import re
from typing import TYPE_CHECKING, Any, Final, Mapping, Sequence

import numpy as np

from packhouse.base.arguments import Choice, names_arguments, whole_number
from packhouse.v1 import graphs_pb2

# The component of which every graph has exactly one row; never listed in a schema.
GRAPHS: Final = "graphs"

MAX_COMPONENTS: Final = 64
MAX_TENSORS: Final = 256
# Most elements of a row of a tensor with Layout.ROWS_LAST.
MAX_PLANES: Final = 16
MAX_ROW_BYTES: Final = 16 << 20
MAX_PADDING_TEXT: Final = 4096

# Of components and of tensors.
_NAME = re.compile(r"[A-Za-z0-9_.#/:%!^~@+=-]{1,128}")
_NAME_FORM: Final = "is not 1 to 128 of [A-Za-z0-9_.#/:%!^~@+=-]"
# The names of a component's derived tensors, after its own name.
_DERIVED = ("/counts", "/graph", "/offsets", "/mask")


class DType(enum.Enum):
    """Element type of a tensor; the values are those of `packhouse.v1.DataType`."""

    BOOL = 1
    INT8 = 2
    INT16 = 3
    INT32 = 4
    INT64 = 5
    UINT8 = 6
    UINT16 = 7
    UINT32 = 8
    UINT64 = 9
    FLOAT16 = 10
    BFLOAT16 = 11
    FLOAT32 = 12
    FLOAT64 = 13

    @property
    def numpy(self) -> np.dtype[Any]:
        """The little-endian numpy type; numpy has no bfloat16, whose bits travel as uint16."""
        return _NUMPY_TYPES[self]

    @property
    def is_integer(self) -> bool:
        """Whether an index tensor may have this type."""
        return self is not DType.BFLOAT16 and self.numpy.kind in "iu"

    @staticmethod
    def of(dtype: Any) -> DType:
        """The type for a name ("float32", "bfloat16"), a dtype of numpy, torch or jax.

        BFLOAT16 by its name only: numpy's uint16 is UINT16. Raises ValueError if the wire has no
        such type.
        """
        if isinstance(dtype, DType):
            return dtype
        # torch's names begin with torch., and numpy does not know them.
        name = str(dtype).rpartition(".")[2].upper()
        if name in DType.__members__:
            return DType[name]
        try:
            wanted = np.dtype(dtype).newbyteorder("<")
        except TypeError:
            raise ValueError(f"dtype {dtype!r} is no type of elements") from None
        if wanted.name == "bfloat16":
            return DType.BFLOAT16
        for candidate, numpy_type in _NUMPY_TYPES.items():
            if numpy_type == wanted and candidate is not DType.BFLOAT16:
                return candidate
        raise ValueError(f"dtype {wanted} cannot be sent")


# A DType, a name, or another library's dtype.
DTypeLike = Any

_NUMPY_TYPES: Final = {
    DType.BOOL: np.dtype("?"),
    DType.INT8: np.dtype("i1"),
    DType.INT16: np.dtype("<i2"),
    DType.INT32: np.dtype("<i4"),
    DType.INT64: np.dtype("<i8"),
    DType.UINT8: np.dtype("u1"),
    DType.UINT16: np.dtype("<u2"),
    DType.UINT32: np.dtype("<u4"),
    DType.UINT64: np.dtype("<u8"),
    DType.FLOAT16: np.dtype("<f2"),
    DType.BFLOAT16: np.dtype("<u2"),
    DType.FLOAT32: np.dtype("<f4"),
    DType.FLOAT64: np.dtype("<f8"),
}


class Layout(Choice):
    """Which axis of a tensor's array numbers its rows; "rows_first" and "rows_last" do as well.

    - ROWS_FIRST: [rows, *row_shape].
    - ROWS_LAST: [*row_shape, rows], for a row_shape of one extent. PyG's `edge_index`, (2, edges):
      `TensorSpec("edge_index", "int64", "edges", (2,), "nodes", layout="rows_last")`.

    Tables, chunks, stored graphs and batches all have this layout: nothing is ever transposed.
    """

    ROWS_FIRST = 1
    ROWS_LAST = 2


def _row_shape_of(row_shape: Any) -> tuple[int, ...]:
    """Also of one extent. Raises TypeError or ValueError naming the field."""
    try:
        extents = tuple(row_shape)
    except TypeError:
        extents = (row_shape,)
    return tuple(whole_number(extent, "row_shape") for extent in extents)


@names_arguments
@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """One tensor of every graph.

    A graph has as many rows of it as its count in `component`, each of shape `row_shape` (empty:
    a scalar). With `index_into` the values number rows of that component within the same graph.
    `padding_value` is one element that fills padding rows (for BFLOAT16: its bits); for the bytes
    of text it may be a text, as str or bytes, which padding rows have with Padding.TFGNN. `dtype`
    may be given as DType.of takes it: `TensorSpec("x", "float32", "nodes", (9,))`.

    Raises ValueError naming the field and the value that is wrong.
    """

    name: str
    dtype: DType
    component: str
    row_shape: tuple[int, ...] = ()
    index_into: str | None = None
    padding_value: bool | int | float | str | bytes = 0
    layout: Layout = Layout.ROWS_FIRST

    if TYPE_CHECKING:

        def __init__(
            self,
            name: str,
            dtype: DTypeLike,
            component: str,
            row_shape: int | Sequence[int] = (),
            index_into: str | None = None,
            padding_value: bool | int | float | str | bytes = 0,
            layout: Layout | str = Layout.ROWS_FIRST,
        ) -> None: ...

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "dtype", DType.of(self.dtype))
        except ValueError as error:
            raise ValueError(f"tensor {self.name!r}: {error}") from None
        object.__setattr__(self, "row_shape", _row_shape_of(self.row_shape))
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"tensor name {self.name!r} {_NAME_FORM}")
        for extent in self.row_shape:
            if extent < 1:
                raise ValueError(f"tensor {self.name!r}: extent {extent} of row_shape is below 1")
        layout = Layout.of(self.layout, f"layout of tensor {self.name!r}")
        object.__setattr__(self, "layout", layout)
        if layout is Layout.ROWS_LAST and (
            len(self.row_shape) != 1 or self.row_shape[0] > MAX_PLANES
        ):
            raise ValueError(
                f"tensor {self.name!r}: rows last needs a row_shape of one extent, at most "
                f"{MAX_PLANES}, not {self.row_shape}"
            )
        if self.row_bytes > MAX_ROW_BYTES:
            raise ValueError(
                f"tensor {self.name!r}: a row has {self.row_bytes} bytes, more than {MAX_ROW_BYTES}"
            )
        if self.index_into is not None:
            if not self.dtype.is_integer:
                raise ValueError(f"index tensor {self.name!r} has dtype {self.dtype.name}")
            if self.padding_value != 0:
                raise ValueError(f"index tensor {self.name!r} has a padding_value")
        if isinstance(self.padding_value, (str, bytes)):
            self._take_text(self.padding_value)
        elif self.dtype.numpy.kind in "iu":
            bounds = np.iinfo(self.dtype.numpy)
            if (
                not bounds.min <= self.padding_value <= bounds.max
                or int(self.padding_value) != self.padding_value
            ):
                raise ValueError(
                    f"tensor {self.name!r}: padding_value {self.padding_value} "
                    f"is no {self.dtype.name}"
                )

    def _take_text(self, text: str | bytes) -> None:
        text = text.encode() if isinstance(text, str) else text
        if self.dtype is not DType.UINT8 or self.row_shape:
            raise ValueError(f"tensor {self.name!r}: padding_value {text!r}, but it has no text")
        if len(text) > MAX_PADDING_TEXT:
            raise ValueError(
                f"tensor {self.name!r}: padding_value has {len(text)} bytes, more than "
                f"{MAX_PADDING_TEXT}"
            )
        object.__setattr__(self, "padding_value", text or 0)

    @property
    def padding_text(self) -> bytes:
        """For the bytes of text: what padding rows have."""
        if isinstance(self.padding_value, bytes):
            return self.padding_value
        return bytes([int(self.padding_value)]) if self.padding_value else b""

    @property
    def rows_axis(self) -> int:
        """The axis of its arrays that numbers rows: 0, or -1 with Layout.ROWS_LAST."""
        return -1 if self.layout is Layout.ROWS_LAST else 0

    def array_shape(self, rows: int) -> tuple[int, ...]:
        """The shape of an array of this many rows."""
        if self.layout is Layout.ROWS_LAST:
            return (*self.row_shape, rows)
        return (rows, *self.row_shape)

    @property
    def is_mask(self) -> bool:
        """Whether it has one bool for each row."""
        return self.dtype is DType.BOOL and not self.row_shape

    @property
    def row_elements(self) -> int:
        """Elements in one row."""
        elements = 1
        for extent in self.row_shape:
            elements *= extent
        return elements

    @property
    def row_bytes(self) -> int:
        """Bytes of one row on the wire."""
        return self.row_elements * self.dtype.numpy.itemsize

    def to_proto(self) -> Any:
        """This tensor as a `packhouse.v1.TensorSpec`."""
        if isinstance(self.padding_value, bytes):
            padding = self.padding_value
            is_zero = False
        else:
            padding = np.array(self.padding_value, self.dtype.numpy).tobytes()
            # Compared as bytes, so that -0.0 is sent and only a true zero is left out.
            is_zero = not any(padding)
        return graphs_pb2.TensorSpec(
            name=self.name,
            dtype=self.dtype.value,
            row_shape=self.row_shape,
            component=self.component,
            index_into=self.index_into or "",
            padding_value=b"" if is_zero else padding,
            layout=self.layout.value if self.layout is Layout.ROWS_LAST else 0,
        )

    @staticmethod
    def from_proto(message: Any) -> TensorSpec:
        """The reverse of `to_proto`. Raises ValueError on a message that is no tensor."""
        dtype = DType(message.dtype)
        padding: int | float | bytes = 0
        if len(message.padding_value) > dtype.numpy.itemsize:
            padding = message.padding_value
        elif message.padding_value:
            padding = np.frombuffer(message.padding_value, dtype.numpy, count=1)[0].item()
        return TensorSpec(
            name=message.name,
            dtype=dtype,
            component=message.component,
            row_shape=tuple(message.row_shape),
            index_into=message.index_into or None,
            padding_value=padding,
            layout=Layout(message.layout or Layout.ROWS_FIRST),
        )


@names_arguments
@dataclasses.dataclass(frozen=True)
class GraphSchema:
    """The components of a size tuple, in order, and the tensors that grow along them.

    Raises ValueError naming the component or tensor that is wrong.
    """

    components: Sequence[str] = ("nodes", "edges")
    tensors: Sequence[TensorSpec] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "components", tuple(self.components))
        object.__setattr__(self, "tensors", tuple(self.tensors))
        if len(self.components) > MAX_COMPONENTS:
            raise ValueError(f"{len(self.components)} components, more than {MAX_COMPONENTS}")
        if len(self.tensors) > MAX_TENSORS:
            raise ValueError(f"{len(self.tensors)} tensors, more than {MAX_TENSORS}")
        for name in self.components:
            if not _NAME.fullmatch(name):
                raise ValueError(f"component name {name!r} {_NAME_FORM}")
            if name == GRAPHS:
                raise ValueError(f"component {GRAPHS!r} is implied and must not be listed")
        _refuse_duplicates("component", self.components)
        _refuse_duplicates("tensor", [tensor.name for tensor in self.tensors])
        derived = {f"{name}{suffix}" for name in self.all_components for suffix in _DERIVED}
        for tensor in self.tensors:
            if tensor.name in derived:
                raise ValueError(
                    f"tensor name {tensor.name!r} is that of a tensor derived from a component"
                )
            for component in (tensor.component, tensor.index_into):
                if component is not None and component not in self.all_components:
                    raise ValueError(f"tensor {tensor.name!r}: no component {component!r}")

    @functools.cached_property
    def all_components(self) -> tuple[str, ...]:
        """The components, then `graphs`: the order of `Batch.rows` and of resolved limits."""
        return (*self.components, GRAPHS)

    @functools.cached_property
    def _pickled(self) -> bytes:
        specs = tuple(
            tuple(getattr(spec, field.name) for field in dataclasses.fields(spec))
            for spec in self.tensors
        )
        return pickle.dumps((self.components, specs))

    def __reduce__(self) -> tuple[Any, ...]:
        # Each batch that goes to another process has one, and they are all the same.
        return _schema_of, (self._pickled,)

    def tensor(self, name: str) -> TensorSpec:
        """The tensor of that name. Raises KeyError."""
        for spec in self.tensors:
            if spec.name == name:
                return spec
        raise KeyError(name)

    def with_padding_values(self, values: Mapping[str, int | float | str | bytes]) -> GraphSchema:
        """This schema with `padding_value`s of these tensors; those of the others stay.

        That of text is given for the tensor of its bytes: `{"papers.name.bytes": "none"}`.
        Raises KeyError for a tensor that it does not have, ValueError for a value that its type
        does not have.
        """
        for name, value in values.items():
            self.tensor(name)
            if np.ndim(value):
                raise ValueError(
                    f"tensor {name!r}: its padding value must be a scalar, not {value!r}"
                )
        return GraphSchema(
            self.components,
            [
                dataclasses.replace(spec, padding_value=values[spec.name])
                if spec.name in values
                else spec
                for spec in self.tensors
            ],
        )

    def to_proto(self) -> Any:
        """This schema as a `packhouse.v1.GraphSchema`."""
        return graphs_pb2.GraphSchema(
            components=self.components, tensors=[tensor.to_proto() for tensor in self.tensors]
        )

    @staticmethod
    def from_proto(message: Any) -> GraphSchema:
        """The reverse of `to_proto`. Raises ValueError on a message that is no schema."""
        return GraphSchema(
            components=tuple(message.components),
            tensors=tuple(TensorSpec.from_proto(tensor) for tensor in message.tensors),
        )


@functools.lru_cache(maxsize=64)
def _schema_of(pickled: bytes) -> GraphSchema:
    components, specs = pickle.loads(pickled)
    return GraphSchema(components, tuple(TensorSpec(*spec) for spec in specs))


def _refuse_duplicates(kind: str, names: Sequence[str]) -> None:
    for position, name in enumerate(names):
        if name in names[:position]:
            raise ValueError(f"{kind} {name!r} is listed twice")
