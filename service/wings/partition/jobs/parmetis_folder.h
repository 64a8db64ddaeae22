// From the folder of the pipeline around ParMETIS to a partition as DGL loads it.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARMETIS_FOLDER_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARMETIS_FOLDER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "service/algorithms/graphs/dtype.h"
#include "service/wings/partition/files/partition_json.h"

namespace packhouse {

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

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARMETIS_FOLDER_H_
