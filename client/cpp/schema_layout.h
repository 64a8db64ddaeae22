// A graph schema resolved: component numbers instead of names, row sizes in bytes.
#ifndef PACKHOUSE_CLIENT_CPP_SCHEMA_LAYOUT_H_
#define PACKHOUSE_CLIENT_CPP_SCHEMA_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "packhouse/v1/graphs.pb.h"

namespace packhouse::client {

// Bytes of one element; 0 for UNSPECIFIED and for values that this client does not know.
std::size_t ElementBytes(v1::DataType dtype);

// Whether it is a signed or unsigned integer; bool is none.
bool IsInteger(v1::DataType dtype);

struct TensorLayout {
  std::string name;
  v1::DataType dtype = v1::DATA_TYPE_UNSPECIFIED;
  std::vector<uint32_t> row_shape;
  // v1::LAYOUT_ROWS_LAST: the number of rows is the last extent, not the first.
  bool rows_last = false;
  // Elements of one row, and their bytes; both at least 1.
  std::size_t row_elements = 0;
  std::size_t row_bytes = 0;
  // The component that it grows along: its index in SchemaLayout::components, or components.size()
  // for `graphs`.
  std::size_t component = 0;
  // For an index tensor, the component that it points into, numbered in the same way.
  std::optional<std::size_t> index_into;

  // The tensor's bytes are planes, one after the other, each with its part of every row. There is
  // one plane or, with rows last, one for each element of a row.
  std::size_t num_planes() const { return rows_last ? row_elements : 1; }
  std::size_t plane_row_bytes() const { return row_bytes / num_planes(); }
};

struct SchemaLayout {
  // Without `graphs`.
  std::vector<std::string> components;
  // In schema order.
  std::vector<TensorLayout> tensors;
};

// Resolves `schema`. For a schema that was left unset, the caller must pass DefaultSchema(): a
// message cannot distinguish "unset" from "no component".
//
// Errors: INVALID_ARGUMENT naming the tensor or component: a name twice, `graphs` listed, an
// unknown component or dtype, an extent of 0, a row of more than 16 MiB, an index tensor that is
// not of an integer type, an unknown layout, or rows last without a row shape of one extent of at
// most 16. Cost: O(components * tensors); thread-safe.
absl::StatusOr<SchemaLayout> ResolveSchema(const v1::GraphSchema& schema);

// The server's meaning of an unset schema: `nodes`, `edges`, no tensors.
v1::GraphSchema DefaultSchema();

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_SCHEMA_LAYOUT_H_
