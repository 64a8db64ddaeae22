// Random schemas of TF-GNN, for laws that must hold for all of them.
#ifndef PACKHOUSE_TESTS_TFGNN_RANDOM_SCHEMAS_H_
#define PACKHOUSE_TESTS_TFGNN_RANDOM_SCHEMAS_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/types.pb.h"
#include "tensorflow_gnn/proto/graph_schema.pb.h"
#include "tests/support/random.h"

namespace packhouse::tfgnn {

// Any type that packhouse has; fixed and ragged dimensions in any order.
inline tensorflow_gnn::Feature RandomFeature(Random& random) {
  static constexpr tensorflow::DataType kTypes[] = {
      tensorflow::DT_FLOAT,  tensorflow::DT_DOUBLE, tensorflow::DT_INT32,  tensorflow::DT_UINT8,
      tensorflow::DT_INT16,  tensorflow::DT_INT8,   tensorflow::DT_STRING, tensorflow::DT_INT64,
      tensorflow::DT_BOOL,   tensorflow::DT_HALF,   tensorflow::DT_UINT16, tensorflow::DT_BFLOAT16,
      tensorflow::DT_UINT32, tensorflow::DT_UINT64};
  tensorflow_gnn::Feature feature;
  feature.set_dtype(kTypes[random.Below(std::size(kTypes))]);
  const size_t rank = random.Below(4);
  for (size_t i = 0; i < rank; ++i) {
    const bool is_ragged = random.Below(3) == 0;
    feature.mutable_shape()->add_dim()->set_size(
        is_ragged ? -1 : static_cast<int64_t>(random.Between(1, 3)));
  }
  return feature;
}

// Up to three node sets and three edge sets, some latent, with names as the format has them.
inline tensorflow_gnn::GraphSchema RandomTfgnnSchema(Random& random) {
  static constexpr const char* kNodeSets[] = {"paper", "a.b/c", "_x"};
  static constexpr const char* kEdgeSets[] = {"cites", "e/f.g", "_y/z"};
  static constexpr const char* kFeatures[] = {"feat", "x.y", "#id", "source"};
  tensorflow_gnn::GraphSchema schema;
  const auto add_features = [&](auto* features) {
    const size_t count = random.Below(4);
    for (size_t i = 0; i < count; ++i) {
      (*features)[kFeatures[random.Below(std::size(kFeatures))]] = RandomFeature(random);
    }
  };
  if (random.Below(2) == 0) add_features(schema.mutable_context()->mutable_features());
  const size_t num_node_sets = random.Below(4);
  for (size_t i = 0; i < num_node_sets; ++i) {
    add_features((*schema.mutable_node_sets())[kNodeSets[i]].mutable_features());
  }
  const size_t num_edge_sets = num_node_sets == 0 ? 0 : random.Below(4);
  for (size_t i = 0; i < num_edge_sets; ++i) {
    tensorflow_gnn::EdgeSet& edges = (*schema.mutable_edge_sets())[kEdgeSets[i]];
    edges.set_source(kNodeSets[random.Below(num_node_sets)]);
    edges.set_target(kNodeSets[random.Below(num_node_sets)]);
    add_features(edges.mutable_features());
  }
  return schema;
}

}  // namespace packhouse::tfgnn

#endif  // PACKHOUSE_TESTS_TFGNN_RANDOM_SCHEMAS_H_
