// The pipeline around ParMETIS, in the forms of its files: what its pm_dglpart does, by the engines
// here, and the way from its folder to a partition as DGL loads it.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARMETIS_PIPELINE_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARMETIS_PIPELINE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "service/algorithms/graphs/dtype.h"
#include "service/wings/partition/cutting/assignment.h"
#include "service/wings/partition/cutting/assignment_engine.h"
#include "service/wings/partition/cutting/partition_options.h"
#include "service/wings/partition/files/partition_json.h"

namespace packhouse {

struct ParmetisPartition {
  std::string input_folder;  // Has NAME_nodes.txt, NAME_edges.txt and NAME_stats.txt.
  std::string graph_name;    // NAME.
  std::string output;
  // Its classes are empty: nodes with the same weights are a class, and each class is spread
  // evenly.
  PartitionOptions options;
};

// Writes pPPP-NAME_nodes.txt, _edges.txt and _stats.txt for each part, and NAME_part.K, which
// ConvertParmetisFolder reads. New node ids ascend by (part, type, id of the input); edges are in
// the part of their target, in the order of the input. The output appears when it is whole; until
// then it is PartialFolder(output). The same files and options give the same bytes. `engine` may be
// null.
//
// Errors: ALREADY_EXISTS for the output; NOT_FOUND naming a file that is not there;
// INVALID_ARGUMENT naming the file of other numbers of rows than the stats have, and of the stats;
// INVALID_ARGUMENT naming file and line: of rows that cannot be, of nodes whose types do not
// ascend, or with weights other than 0 and 1, of edges that join no nodes, of more than
// SourceGraphSchema::kMaxSets types of nodes, or of edges with the types of their ends, of more
// than PartitionOptions::kMaxClasses classes; those of AssignParts and of the disk. Memory: that of
// a graph in memory, 16 bytes a node and 8 an edge.
absl::StatusOr<Assignment> PartitionParmetisFolder(const ParmetisPartition& partition,
                                                   AssignmentEngine* engine);

// As DGL's convert_partition.py has it.
struct ParmetisConversion {
  std::string input_folder;  // Has p000-NAME_nodes.txt and so on.
  std::string graph_name;    // NAME.
  std::string schema;        // The path of the JSON file.
  uint64_t num_parts = 1;
  uint64_t num_weights = 1;   // Of each node.
  std::string removed_edges;  // The path; empty: INPUT/NAME_removed_edges.txt if it is there.
  DType node_attributes = DType::kFloat32;
  DType edge_attributes = DType::kFloat32;
  std::string output;
};

// The output appears when it is whole; until then it is PartialFolder(output).
//
// Errors: ALREADY_EXISTS for the output; those of ParmetisConverter, naming the file; of the disk.
absl::StatusOr<PartitionJson> ConvertParmetisFolder(const ParmetisConversion& conversion);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARMETIS_PIPELINE_H_
