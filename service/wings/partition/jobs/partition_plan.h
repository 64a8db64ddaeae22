// What is asked of a partition, in words that can be kept in a file.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_PLAN_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/wings/graphs/source_graphs/source_graph.h"
#include "service/wings/partition/cutting/partition_options.h"
#include "service/wings/partition/jobs/part_tables.h"

namespace packhouse {

// Classes of a node set by its columns: by the values of one, or by several masks.
struct PlannedClasses {
  std::string node_set;
  std::vector<std::string> columns;
};

struct PartitionPlan {
  static constexpr size_t kMaxNameLength = 128;

  // Letters and underscores, as DGL has it.
  std::string name;
  // `classes` is empty: the columns below say them.
  PartitionOptions options;
  std::vector<PlannedClasses> classes;
  // Heeds the weights that ReadMetisFile gives a graph, if it has any: columns kMetisWeight and
  // kMetisSize of its nodes and kMetisWeight of its edges.
  bool metis_weights = false;
  GraphForms forms;
  // Besides DGL's files.
  bool npy = false;
  bool safetensors = false;
  // part<p>/orig_nids.dgl and orig_eids.dgl.
  bool original_ids = false;
  // mapping/nodes/SET.npy and mapping/edges/SOURCE:SET:TARGET.npy.
  bool mapping = false;
  // assignment/SET.txt and assignment/partition_meta.json.
  bool assignment = false;
  // No parts, no mapping and no JSON file: the report and parts.npy, a part for each homogeneous
  // node, uint32.
  bool without_files = false;
};

// Whether a partition may have this name.
bool IsPartitionName(absl::string_view name);

// INVALID_ARGUMENT naming the field, the value and the bound. What depends on the graph is checked
// when the work begins.
absl::Status CheckPartitionPlan(const PartitionPlan& plan);

// A text of all that decides the result, which says whether work that was begun can go on: two
// plans have the same text exactly if they ask for the same. One line of JSON.
std::string PlanText(const PartitionPlan& plan);
// INVALID_ARGUMENT for a text that PlanText did not make.
absl::StatusOr<PartitionPlan> PlanOfText(absl::string_view text);

// options with the classes and weights that the columns of `graph` give. Errors: as
// ClassesFromColumn, and NOT_FOUND naming a node set that the graph does not have.
absl::StatusOr<PartitionOptions> OptionsFor(const SourceGraph& graph, const PartitionPlan& plan);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_PLAN_H_
