// NAME.json: what the parts of a partitioned graph are, in the form of DGL.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_PARTITION_JSON_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_PARTITION_JSON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// [begin, end) of new homogeneous ids: what one part has of one type.
struct PartRange {
  uint64_t begin = 0;
  uint64_t end = 0;

  friend bool operator==(const PartRange&, const PartRange&) = default;
};

// A node type, "item", or an edge type, "user:buys:item", and where its ids are in each part.
struct TypeRanges {
  std::string name;
  std::vector<PartRange> parts;

  friend bool operator==(const TypeRanges&, const TypeRanges&) = default;
};

// Relative to the folder of NAME.json.
struct PartFileNames {
  std::string node_features;
  std::string edge_features;
  std::string graph;

  friend bool operator==(const PartFileNames&, const PartFileNames&) = default;
};

struct PartitionJson {
  std::string graph_name;
  uint64_t num_nodes = 0;
  uint64_t num_edges = 0;
  std::string part_method;
  uint64_t halo_hops = 1;
  // In the order of type ids.
  std::vector<TypeRanges> node_map;
  std::vector<TypeRanges> edge_map;
  // One a part.
  std::vector<PartFileNames> parts;

  friend bool operator==(const PartitionJson&, const PartitionJson&) = default;
};

inline constexpr uint64_t kMaxPartsOfDirectory = uint64_t{1} << 16;

// "part<part>/node_feat.dgl" and so on.
PartFileNames DglPartFileNames(uint64_t part);

// INVALID_ARGUMENT naming the map and the type unless the ranges tile the ids: part by part, and
// type by type within a part, with no gap, and up to num_nodes and num_edges.
absl::Status CheckPartitionJson(const PartitionJson& json);

// The text of NAME.json as DGL writes it. Errors: as CheckPartitionJson.
absl::StatusOr<std::string> WritePartitionJson(const PartitionJson& json);

// Takes any text. INVALID_ARGUMENT naming the field: also for what CheckPartitionJson refuses, for
// paths that are absolute or lead out of the folder, and for edge types that are not
// "source:relation:target" of known node types.
absl::StatusOr<PartitionJson> ReadPartitionJson(absl::string_view text);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_PARTITION_JSON_H_
