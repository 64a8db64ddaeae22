// What a data set of parts has for joining: which tensors tell of edges to other parts.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_EPOCHS_PARTS_SCHEMA_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_EPOCHS_PARTS_SCHEMA_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "service/algorithms/graphs/graph_schema.h"

namespace packhouse {

// The schema of a data set that MakePartDataset() made without a halo, and that of its joined
// batches. Immutable; thread-safe.
class PartsSchema {
 public:
  // Numbers of tensors and components are those of the stored schema, unless they are called
  // joined.
  struct EdgeSet {
    size_t component = 0;
    size_t cut = 0;         // The component of `E/cut`.
    size_t cut_source = 0;  // The tensor `E/cut.#source`.
    size_t source_set = 0;  // In node_sets().
    size_t target_set = 0;
  };
  struct NodeSet {
    size_t component = 0;
    size_t number = 0;  // The tensor `S.#number`.
  };
  // A tensor of joined batches.
  struct JoinedTensor {
    static constexpr size_t kNone = ~size_t{0};

    size_t stored = 0;
    // Of an edge set: its number in edge_sets(), and the tensor that has the rows of cut edges; for
    // the sources that is `cut_source`, whose rows are to be looked up.
    size_t edge_set = kNone;
    size_t stored_cut = kNone;
    bool is_source = false;
  };

  // FAILED_PRECONDITION naming what is missing, for a schema that no data set of parts has, or one
  // with a halo. `stored` must outlive the result.
  static absl::StatusOr<PartsSchema> Of(const GraphSchema& stored);

  const GraphSchema& joined() const { return *joined_; }
  const std::vector<NodeSet>& node_sets() const { return node_sets_; }
  const std::vector<EdgeSet>& edge_sets() const { return edge_sets_; }
  const std::vector<JoinedTensor>& tensors() const { return tensors_; }
  // Of each joined component, the stored one.
  const std::vector<size_t>& stored_components() const { return stored_components_; }
  // Of each joined component, the number of its edge set, or JoinedTensor::kNone.
  const std::vector<size_t>& edge_set_of() const { return edge_set_of_; }

 private:
  class Builder;

  PartsSchema() = default;

  std::shared_ptr<const GraphSchema> joined_;
  std::vector<NodeSet> node_sets_;
  std::vector<EdgeSet> edge_sets_;
  std::vector<JoinedTensor> tensors_;
  std::vector<size_t> stored_components_;
  std::vector<size_t> edge_set_of_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_EPOCHS_PARTS_SCHEMA_H_
