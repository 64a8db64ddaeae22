// From what the pipeline around ParMETIS wrote to parts as DGL loads them.
//
// Start here: Create scans all files once; then PartOf gives each part. Every edge comes back:
// those of the parts' files, and all self loops and duplicates that were taken out before.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_PARMETIS_CONVERTER_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_PARMETIS_CONVERTER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/graphs/dtype.h"
#include "service/wings/partition/files/dgl_writer.h"
#include "service/wings/partition/files/parmetis_rows.h"
#include "service/wings/partition/files/partition_json.h"

namespace packhouse {

// Texts of the files, mapped or in memory; they must outlive the converter.
struct ParmetisFiles {
  ParmetisSchema schema;
  uint64_t num_weights = 1;
  // One a part.
  std::vector<absl::string_view> nodes;
  std::vector<absl::string_view> edges;
  // Lines as in NAME_edges.txt; may be empty.
  absl::string_view removed_edges = {};
  // Of attributes: float32, float64, int32 or int64.
  DType node_attributes = DType::kFloat32;
  DType edge_attributes = DType::kFloat32;
};

// The files of one part. Sources view the part and the converter, which must outlive them.
struct ConvertedPart {
  struct Edge {
    uint64_t source = 0;  // New homogeneous ids.
    uint64_t target = 0;
    uint64_t original = 0;  // Within its type.
    uint64_t type = 0;
    absl::string_view attributes = {};
  };
  uint64_t first_node = 0;  // New ids of the inner nodes begin here, and of the edges.
  uint64_t first_edge = 0;
  std::vector<uint64_t> nodes;  // New ids: inner nodes, then halo.
  std::vector<uint64_t> owners;
  std::vector<uint64_t> node_types;
  std::vector<uint64_t> original_nodes;  // Within their types.
  uint64_t num_inner = 0;
  std::vector<absl::string_view> node_attributes;  // Of inner nodes.
  std::vector<Edge> edges;                         // By (type, new target, original id).
};

// Immutable after Create. Node ids: as the pipeline gave them. New edge ids ascend by (part, edge
// type, new target, id in the type).
class ParmetisConverter {
 public:
  // Reads all texts once. Takes 16 bytes for each node of the whole graph and
  // for each removed edge, and a bit for each edge while it reads.
  //
  // Errors: INVALID_ARGUMENT naming part, file and line: of rows that cannot be; node ids that are
  // not ascending by 1, not sorted by type, or not those of the schema; a node without a part, or
  // with two; an edge whose new ids are not those of its ends; an id of an edge that is there twice
  // or missing, if all edges of its type should be there; a relation that joins different types
  // of nodes (name it source:relation:target in the schema); rows with different numbers of
  // attributes.
  static absl::StatusOr<ParmetisConverter> Create(ParmetisFiles files);

  uint64_t num_parts() const { return files_.nodes.size(); }
  // With the paths of DglPartFileNames. `method` goes into the file.
  PartitionJson Json(std::string graph_name, std::string method) const;

  // O(the part's text, and the removed edges); memory for its rows.
  absl::StatusOr<ConvertedPart> PartOf(uint64_t part) const;

  // graph.dgl: in-edges of inner nodes only, all inner; _TYPE is int64, as DGL's converter has it.
  DglGraphSource Graph(const ConvertedPart& part) const;
  // TYPE/feat, a row a node; types without attributes have none.
  std::vector<ArraySource> NodeFeatures(const ConvertedPart& part) const;
  std::vector<ArraySource> EdgeFeatures(const ConvertedPart& part) const;

 private:
  explicit ParmetisConverter(ParmetisFiles files);

  absl::Status ScanNodes();
  absl::Status ScanEdges();
  // Adds to what is known of the edge's type.
  absl::Status TakeEdge(const ParmetisEdge& edge, std::vector<std::vector<bool>>& seen);
  absl::Status CheckAllSeen(const std::vector<std::vector<bool>>& seen) const;
  absl::Status NameEdgeTypes();
  uint64_t NodeTypeOf(uint64_t input_node) const;
  uint64_t OwnerOf(uint64_t new_node) const;

  ParmetisFiles files_;
  std::vector<uint64_t> new_of_node_;    // By id of the input.
  std::vector<uint64_t> input_of_node_;  // By new id.
  std::vector<uint64_t> part_ends_;      // New node ids.
  // By part, then type.
  std::vector<std::vector<uint64_t>> node_counts_;
  std::vector<std::vector<uint64_t>> edge_counts_;
  // By edge type: node types of the ends, unless no edge was seen.
  std::vector<std::optional<std::pair<uint64_t, uint64_t>>> ends_;
  std::vector<std::string> edge_type_names_;  // source:relation:target
  // Numbers of attributes by type, unless no row was seen.
  std::vector<std::optional<uint64_t>> node_columns_;
  std::vector<std::optional<uint64_t>> edge_columns_;
  // By part: the removed edges that it owns.
  std::vector<std::vector<absl::string_view>> removed_of_part_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_PARMETIS_CONVERTER_H_
