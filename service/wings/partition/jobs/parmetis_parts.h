// What pm_dglpart does in the pipeline around ParMETIS, by the engines here: text files of a graph
// in, text files of its parts out.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARMETIS_PARTS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARMETIS_PARTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "service/wings/partition/cutting/assignment.h"
#include "service/wings/partition/cutting/assignment_engine.h"
#include "service/wings/partition/cutting/partition_options.h"

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

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARMETIS_PARTS_H_
