// Writes one part, in all formats, and takes it back from its files.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PART_WRITER_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PART_WRITER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/wings/partition/files/array.h"
#include "service/wings/partition/files/dgl_writer.h"
#include "service/wings/partition/jobs/partition_plan.h"

namespace packhouse {

// The three tables of a part, and numbers in the source graph.
struct PartSources {
  DglGraphSource graph;
  std::vector<ArraySource> node_features;
  std::vector<ArraySource> edge_features;
  // One array a type, of inner nodes and inner edges; written with PartFormats::original_ids.
  std::vector<ArraySource> original_nodes = {};
  std::vector<ArraySource> original_edges = {};
};

struct PartFormats {
  bool npy = false;
  bool safetensors = false;
  bool original_ids = false;
};

// Writes the files into FOLDER/part<p>, which appears at once when all is on the disk, and gives
// their bytes. A folder of an attempt that was interrupted is removed first. The files: graph.dgl,
// node_feat.dgl, edge_feat.dgl; graph/NAME.npy, node_feat/SET/COLUMN.npy, ..., where SET and COLUMN
// are as FileNameOf() has them; graph.safetensors and so on. In the latter two, a graph has the
// arrays sources and targets, nodes/NAME and edges/NAME. With original_ids also orig_nids.dgl and
// orig_eids.dgl, tensor files with an array for each type, as DGL's pipeline from chunked files
// writes them.
absl::StatusOr<uint64_t> WritePart(const PartSources& part, const PartFormats& formats,
                                   const std::string& folder, uint64_t number);

// Where it is, once it is whole.
std::string PartFolder(const std::string& folder, uint64_t number);

// The bytes of all files in a folder and below.
absl::StatusOr<uint64_t> FolderBytes(const std::string& folder);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PART_WRITER_H_
