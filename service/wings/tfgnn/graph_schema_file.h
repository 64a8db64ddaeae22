// TF-GNN's schema of graphs as it lies in files: text or binary.
#ifndef PACKHOUSE_SERVICE_WINGS_TFGNN_GRAPH_SCHEMA_FILE_H_
#define PACKHOUSE_SERVICE_WINGS_TFGNN_GRAPH_SCHEMA_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tensorflow_gnn/proto/graph_schema.pb.h"

namespace packhouse::tfgnn {

// The most bytes of a schema, in either form.
inline constexpr size_t kMaxGraphSchemaBytes = size_t{16} << 20;

// Takes text (as in schema.pbtxt) and the binary form of `tensorflow_gnn.GraphSchema`. Text is what
// parses as text. The schema is not validated: see ValidateGraphSchema.
//
// INVALID_ARGUMENT, for text with line and column; for more than kMaxGraphSchemaBytes.
// Thread-safe.
absl::StatusOr<tensorflow_gnn::GraphSchema> ParseGraphSchema(absl::string_view bytes);

// The text of a schema, sets and features in the order of their names.
std::string GraphSchemaText(const tensorflow_gnn::GraphSchema& schema);

// What TF-GNN's validate_schema says, in its order, and one rule more: every root set of
// `info.root_set` is a node set. Returns warnings, for what is legal and probably not meant.
// `check_readouts`: also checks the read-out sets with a tag, `_readout:TAG`.
//
// INVALID_ARGUMENT naming the set, the feature and the value.
absl::StatusOr<std::vector<std::string>> ValidateGraphSchema(
    const tensorflow_gnn::GraphSchema& schema, bool check_tagged_readouts = false);

// Whether `actual` has every feature of `required`: with the same dtype, if that is set; with the
// same dimensions, if the shape is set, where a required dimension of 0 stands for any.
// INVALID_ARGUMENT naming the feature.
absl::Status CheckRequiredFeatures(const tensorflow_gnn::GraphSchema& required,
                                   const tensorflow_gnn::GraphSchema& actual);

}  // namespace packhouse::tfgnn

#endif  // PACKHOUSE_SERVICE_WINGS_TFGNN_GRAPH_SCHEMA_FILE_H_
