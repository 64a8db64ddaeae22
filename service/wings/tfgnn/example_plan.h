// Where each key of a tf.Example goes, worked out once for a schema.
#ifndef PACKHOUSE_SERVICE_WINGS_TFGNN_EXAMPLE_PLAN_H_
#define PACKHOUSE_SERVICE_WINGS_TFGNN_EXAMPLE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/wings/tfgnn/example_fields.h"
#include "service/wings/tfgnn/graph_sets.h"

namespace packhouse::tfgnn {

// Where one ragged dimension of a feature comes from, and goes to.
struct LengthsPart {
  // Key of the list; nullopt for the lengths of strings.
  std::optional<size_t> key;
  size_t tensor = 0;
  // Lengths for each row of the dimension before.
  uint64_t per_row = 1;
  // The component whose rows are counted by the lengths.
  size_t component = 0;
};

struct FeaturePart {
  size_t key = 0;
  // Of its values, unless they are empty.
  ListKind kind = ListKind::kNone;
  size_t tensor = 0;
  DType dtype = DType::kFloat32;
  bool is_text = false;
  std::vector<LengthsPart> lengths;
  // Values for each row of the last dimension that is ragged, or of the set.
  uint64_t per_row = 1;
};

struct SetPart {
  // `node set 'a'`.
  std::string text;
  size_t component = 0;
  // The context has none.
  std::optional<size_t> size_key;
  std::vector<FeaturePart> features;
};

struct EndPart {
  size_t key = 0;
  size_t tensor = 0;
  // Position of the node set.
  size_t node_set = 0;
};

struct EdgePart : SetPart {
  EndPart ends[2];
};

struct ExamplePlan {
  SetPart context;
  std::vector<SetPart> node_sets;
  std::vector<EdgePart> edge_sets;

  // Adds the keys, each with `prefix` before it, to `fields`. Errors: those of
  // ExampleDecoder::Create.
  static absl::StatusOr<ExamplePlan> Make(const GraphSets& sets, absl::string_view prefix,
                                          ExampleFields& fields);
};

}  // namespace packhouse::tfgnn

#endif  // PACKHOUSE_SERVICE_WINGS_TFGNN_EXAMPLE_PLAN_H_
