// The small files of a stored source graph: what it is, and what was sealed. Each has a checksum.
//
//   file := "PHGRAPH\n" u32 version = 1, u32 length, message, u32 crc of all before
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_GRAPH_FILES_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_GRAPH_FILES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/base/producer.h"
#include "service/wings/graphs/source_graphs/source_graph_schema.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"
#include "service/wings/graphs/stored/array_file.h"

namespace packhouse {

inline constexpr char kDefinitionFile[] = "definition";
inline constexpr char kManifestFile[] = "manifest";
inline constexpr char kRowsFile[] = "rows";
inline constexpr char kArraysFolder[] = "arrays";
inline constexpr char kCompanionFolder[] = "companion";

struct GraphDefinition {
  std::string name;
  uint64_t id = 0;
  std::shared_ptr<const SourceGraphSchema> schema;
  // With options for every set.
  SourceGraphOptions options;
  // The log of rows was made with the graph, so that one that is missing was lost. Graphs of 0.1.0
  // have none before rows are appended.
  bool has_log = false;
};

// What is remembered of each producer.
using ProducerHistories = absl::btree_map<std::string, ProducerHistory>;

struct GraphManifest {
  // As the definition has it, for a graph whose definition is damaged.
  std::string name;
  uint64_t id = 0;
  uint64_t version = 0;
  std::vector<uint64_t> num_nodes;
  std::vector<uint64_t> num_edges;
  std::vector<ArrayInfo> arrays;
  ProducerHistories producers;
};

std::string EncodeDefinition(const GraphDefinition& definition);
std::string EncodeManifest(const GraphManifest& manifest);

// DATA_LOSS naming `where` if a checksum or the contents are wrong; FAILED_PRECONDITION naming both
// versions for another version, if the checksum is right.
absl::StatusOr<GraphDefinition> DecodeGraphDefinition(const std::string& where,
                                                      absl::string_view bytes);
absl::StatusOr<GraphManifest> DecodeGraphManifest(const std::string& where,
                                                  absl::string_view bytes);

// Of files. NOT_FOUND if there is no such file.
absl::StatusOr<GraphDefinition> ReadDefinition(const std::string& folder);
absl::StatusOr<GraphManifest> ReadManifest(const std::string& folder);

// Whether a graph without a manifest was sealed and has lost it. The log of rows is there until the
// manifest is: arrays beside it are those of a seal that did not come to its end, arrays without it
// are all that there is of the graph. Also if the disk does not say, so that nothing is removed.
bool HasLostManifest(const std::string& folder);

// Names of arrays. `part` is empty, or such as ".offsets".
std::string IdsArray(size_t node_set, absl::string_view part);
std::string NodeColumnArray(size_t node_set, size_t column, absl::string_view part);
std::string EdgeColumnArray(size_t edge_set, size_t column, absl::string_view part);
std::string AdjacencyArray(size_t edge_set, bool by_source, absl::string_view part);
// Rows and numbers: as ImportedRows and NodesByRow. Not there where number n was row n.
std::string NodeRowsArray(size_t node_set);
std::string NodesByRowArray(size_t node_set);
std::string EdgeRowsArray(size_t edge_set);
inline constexpr char kOffsetsPart[] = ".offsets";
inline constexpr char kNeighboursPart[] = ".neighbours";
inline constexpr char kEdgesPart[] = ".edges";

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_GRAPH_FILES_H_
