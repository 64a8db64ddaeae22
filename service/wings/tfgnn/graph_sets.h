// Which tensor of a schema is what in TF-GNN: the one table behind decoding, encoding and read-out.
//
// The convention, the same as in Python (client/python/packhouse/frameworks/layout.py):
// - A node set or edge set S is the component S. Its feature F is the tensor `S.F` along S. A
//   feature F of the context is the tensor `F` along `graphs`. A latent set has no tensor.
// - The ends of the edges of S are the int32 tensors `S.source` and `S.target`, scalars that point
//   into the components of the two node sets; they are `S.#source` and `S.#target` if a feature of
//   S is called `source` or `target`. (Schemas made elsewhere may call them otherwise, or have both
//   in one tensor `edge_index` of row shape [2]; see FromSchema.)
// - A feature with ragged dimensions has its values in a tensor `S.F` along a component `S.F` of
// its
//   own, and int32 tensors of lengths `S.F.dI`, I being the number of the ragged dimension (the
//   first dimension after that of the rows has number 1). The first of them grows along S, each
//   further one along a component of its own, with its own name. Fixed dimensions between are the
//   row shape of the tensor that follows them: with the shape [-1, 2, -1, 3], `S.F.d1` is along S,
//   `S.F.d3` has the row shape [2], and `S.F` has the row shape [3].
// - Strings are ragged rows of bytes: a feature F of strings is the feature `F.bytes` of uint8 with
//   one more ragged dimension at the end.
#ifndef PACKHOUSE_SERVICE_WINGS_TFGNN_GRAPH_SETS_H_
#define PACKHOUSE_SERVICE_WINGS_TFGNN_GRAPH_SETS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/algorithms/graphs/graph_schema.h"

namespace tensorflow_gnn {
class GraphSchema;
}  // namespace tensorflow_gnn

namespace packhouse::tfgnn {

// One ragged dimension of a feature.
struct RaggedDimension {
  // I of `.dI`.
  uint32_t number = 0;
  // The tensor of lengths.
  size_t lengths = 0;

  friend bool operator==(const RaggedDimension&, const RaggedDimension&) = default;
};

struct Feature {
  // Within its set.
  std::string name;
  // Of TF-GNN: the dimensions after that of the rows, -1 for a ragged one, without that of the
  // bytes of strings.
  std::vector<int64_t> shape;
  // Whether its values are strings. Then `dtype` is uint8, and the last of `ragged` has the
  // strings' lengths, which are no list of a tf.Example.
  bool is_text = false;
  DType dtype = DType::kFloat32;
  // The tensor of values.
  size_t values = 0;
  // From the outermost.
  std::vector<RaggedDimension> ragged;

  friend bool operator==(const Feature&, const Feature&) = default;
};

// A node set, or the context.
struct RowSet {
  // Empty for the context.
  std::string name;
  // num_components() for the context.
  size_t component = 0;
  // In the order of their names.
  std::vector<Feature> features;

  friend bool operator==(const RowSet&, const RowSet&) = default;
};

struct EdgeSet : RowSet {
  // Positions in node_sets().
  size_t source_set = 0;
  size_t target_set = 0;
  // Tensors of the ends. The same tensor if it is one of row shape [2], source first.
  size_t source = 0;
  size_t target = 0;

  friend bool operator==(const EdgeSet&, const EdgeSet&) = default;
};

// Immutable; thread-safe. A copy shares the schema.
class GraphSets {
 public:
  // The sets of a TF-GNN schema, and the packhouse schema that follows from it: components are the
  // node sets, then the edge sets, each in the order of their names, then those of ragged features;
  // tensors are those of the context, the node sets and the edge sets, in the same order.
  //
  // INVALID_ARGUMENT: as ValidateGraphSchema; a name that a schema cannot have, too many components
  // or tensors (see GraphSchema::Create); a dtype that packhouse does not have (float8, int4,
  // uint4), a dimension below -1 or of 0; sets or features whose names would mean something else on
  // the way back, for example a node set and an edge set of the same name. Names the set, the
  // feature and the value.
  static absl::StatusOr<GraphSets> FromTfgnn(const tensorflow_gnn::GraphSchema& schema);
  // The same from a file's bytes: see ParseGraphSchema.
  static absl::StatusOr<GraphSets> FromTfgnnFile(absl::string_view bytes);

  // The roles that follow from the names of any schema, as in Python's layout.py: a component is an
  // edge set if it has two ends, otherwise a node set, unless it holds a part of a ragged feature.
  // Ends are one index tensor `edge_index` of row shape [2], or a pair of scalar index tensors
  // called `source` and `target` (or `senders`, `receivers`; `src`, `dst`; `row`, `col`; `#source`,
  // `#target`), each perhaps with the component's name and a dot before it.
  //
  // INVALID_ARGUMENT naming the tensor or component for what TF-GNN cannot say: rows that belong to
  // no set, two tensors of one meaning.
  static absl::StatusOr<GraphSets> FromSchema(GraphSchema schema);

  const GraphSchema& schema() const { return *schema_; }
  std::shared_ptr<const GraphSchema> shared_schema() const { return schema_; }
  // In the order of their components.
  absl::Span<const RowSet> node_sets() const { return node_sets_; }
  absl::Span<const EdgeSet> edge_sets() const { return edge_sets_; }
  const RowSet& context() const { return context_; }

  // TF-GNN's schema. FromTfgnn of it has equal sets, and an equal packhouse schema if this one came
  // from FromTfgnn. Descriptions and metadata are not kept.
  tensorflow_gnn::GraphSchema ToTfgnn() const;
  // The same as text, for a file.
  std::string ToTfgnnText() const;

 private:
  GraphSets() = default;

  std::shared_ptr<const GraphSchema> schema_;
  std::vector<RowSet> node_sets_;
  std::vector<EdgeSet> edge_sets_;
  RowSet context_;
};

}  // namespace packhouse::tfgnn

#endif  // PACKHOUSE_SERVICE_WINGS_TFGNN_GRAPH_SETS_H_
