// The text files of the pipeline around ParMETIS.
//
// Into it go NAME_nodes.txt, a line for each homogeneous node id: `type weight.. orig_id
// [attributes]`; NAME_edges.txt: `source target type_edge_id edge_type [attributes]`;
// NAME_stats.txt: `nodes edges weights`. Out of it come, for each part, pPPP-NAME_nodes.txt (the
// new id and the line) and pPPP-NAME_edges.txt (the new ids of both ends and the line), and
// NAME_part.K: `node part`. Self loops and edges that join a pair again are not in it; they lie in
// NAME_removed_edges.txt.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_PARMETIS_ROWS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_PARMETIS_ROWS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/wings/partition/files/text_rows.h"

namespace packhouse {

inline constexpr uint64_t kMaxParmetisWeights = 1024;

// Files of the pipeline begin with the graph's name: INVALID_ARGUMENT if they would not be in the
// folder then.
absl::Status CheckParmetisName(absl::string_view name);

struct ParmetisNode {
  uint64_t new_id = 0;  // Of the pipeline's output only.
  uint64_t type = 0;
  std::vector<uint64_t> weights;
  uint64_t original = 0;  // Within its type.
  absl::string_view attributes = {};
};

struct ParmetisEdge {
  uint64_t new_source = 0;  // Of the pipeline's output only.
  uint64_t new_target = 0;
  uint64_t source = 0;  // Homogeneous ids of the input.
  uint64_t target = 0;
  uint64_t original = 0;  // Within its type.
  uint64_t type = 0;
  absl::string_view attributes = {};
};

struct ParmetisStats {
  uint64_t num_nodes = 0;
  uint64_t num_edges = 0;
  uint64_t num_weights = 0;
};

// Whether the lines are of the pipeline's input, or of its output with new ids in front.
enum class ParmetisSide { kInput, kOutput };

// `*node` and `*edge` keep their memory from line to line. INVALID_ARGUMENT saying what is wrong;
// the caller adds the line. Attributes are not looked at.
absl::Status ParseParmetisNode(absl::string_view line, ParmetisSide side, uint64_t num_weights,
                               ParmetisNode* node);
absl::Status ParseParmetisEdge(absl::string_view line, ParmetisSide side, ParmetisEdge* edge);
absl::StatusOr<ParmetisStats> ReadParmetisStats(absl::string_view text);

absl::Status WriteParmetisNode(const ParmetisNode& node, ParmetisSide side, TextWriter& text);
absl::Status WriteParmetisEdge(const ParmetisEdge& edge, ParmetisSide side, TextWriter& text);
absl::Status WriteParmetisStats(const ParmetisStats& stats, TextWriter& text);

// "p007-NAME_nodes.txt" and so on; `what` is nodes, edges or stats.
std::string ParmetisPartFile(uint64_t part, absl::string_view name, absl::string_view what);

// Reads `node part` lines in any order. INVALID_ARGUMENT naming the line, or the first node that
// has no part.
absl::StatusOr<std::vector<uint32_t>> ReadParmetisParts(absl::string_view text, uint64_t num_nodes,
                                                        uint32_t num_parts);
absl::Status WriteParmetisParts(absl::Span<const uint32_t> parts, ByteSink& sink);

// Which edges must be left out before ParMETIS sees the graph: self loops, and edges that join a
// pair, in the same direction, that an earlier edge joins. `sources` and `targets` are homogeneous.
// One mark an edge. O(edges log edges) time, 24 bytes an edge.
std::vector<bool> MarkRemovedEdges(absl::Span<const uint64_t> sources,
                                   absl::Span<const uint64_t> targets);

// One type of the schema: its name, and its range of the input's homogeneous ids.
struct ParmetisType {
  std::string name;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// {"nid": {TYPE: [begin, end]}, "eid": {RELATION: [begin, end]}}. Types are numbered by their
// begin.
struct ParmetisSchema {
  std::vector<ParmetisType> node_types;
  std::vector<ParmetisType> edge_types;
};

// INVALID_ARGUMENT naming the type whose range does not begin where the one before it ends.
absl::StatusOr<ParmetisSchema> ReadParmetisSchema(absl::string_view text);
absl::StatusOr<std::string> WriteParmetisSchema(const ParmetisSchema& schema);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_PARMETIS_ROWS_H_
