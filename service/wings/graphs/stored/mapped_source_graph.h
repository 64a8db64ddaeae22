// A sealed graph in its mapped arrays.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_MAPPED_SOURCE_GRAPH_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_MAPPED_SOURCE_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"
#include "service/wings/graphs/stored/array_file.h"
#include "service/wings/graphs/stored/disk_space.h"
#include "service/wings/graphs/stored/graph_files.h"

namespace packhouse {

// What the arrays of a graph were sealed with, and what is known of them. Thread-safe.
struct SealedChecks {
  SealedChecks(absl::string_view graph_name, const GraphManifest& manifest);

  GraphChecks graph;
  // Made while a seal ends: a hash table of Abseil that cannot grow for want of memory is broken.
  std::map<std::string, std::unique_ptr<const ArrayChecks>> arrays;
};

// Rows are checked as SourceColumn says, edges when they are first asked for.
class MappedSourceGraph final : public StoredSourceGraph {
 public:
  // Maps the arrays of the graph in `folder`. `info` is that of the sealed graph. `space` is kept
  // as long as the map. DATA_LOSS naming the file if one is missing, or has another length than
  // the manifest says. Reads nothing but the last blocks of the offsets of ragged arrays.
  static absl::StatusOr<std::shared_ptr<const MappedSourceGraph>> Open(
      const std::string& folder, const GraphManifest& manifest, SourceGraphInfo info,
      std::shared_ptr<const GraphSpace> space, std::shared_ptr<SealedChecks> checks);

  // Of arrays that are in memory, by their names. `owner` keeps them there as long as the map.
  // DATA_LOSS naming an array if one is missing or has another length than the sets need.
  using Arrays = absl::flat_hash_map<std::string, absl::string_view>;
  static absl::StatusOr<std::shared_ptr<const MappedSourceGraph>> OfArrays(
      Arrays arrays, std::shared_ptr<const void> owner, SourceGraphInfo info,
      std::shared_ptr<SealedChecks> checks);

  // The bytes of an array of the manifest.
  absl::string_view array(absl::string_view name) const {
    const auto found = arrays_.find(name);
    return found == arrays_.end() ? absl::string_view() : found->second;
  }

  const SourceGraphSchema& schema() const override { return *info_.schema; }
  uint64_t version() const override { return info_.version; }
  uint64_t num_nodes(size_t node_set) const override { return info_.num_nodes[node_set]; }
  uint64_t num_edges(size_t edge_set) const override { return info_.num_edges[edge_set]; }
  absl::StatusOr<Adjacency> BySource(size_t edge_set) const override;
  absl::StatusOr<Adjacency> ByTarget(size_t edge_set) const override;
  SourceColumn NodeColumn(size_t node_set, size_t column) const override {
    return node_columns_[node_set][column];
  }
  SourceColumn EdgeColumn(size_t edge_set, size_t column) const override {
    return edge_columns_[Stored(edge_set)][column];
  }
  SourceColumn NodeIds(size_t node_set) const override { return ids_[node_set]; }
  bool integer_ids(size_t node_set) const override {
    return info_.options.node_sets[node_set].integer_ids;
  }
  ImportedRows NodeRows(size_t node_set) const override { return node_rows_[node_set]; }
  ImportedRows EdgeRows(size_t edge_set) const override { return edge_rows_[Stored(edge_set)]; }
  NodesByRow NodesOfRows(size_t node_set) const override { return by_row_[node_set]; }
  absl::Status Damaged(absl::string_view why) const override { return checks_->graph.Add(why); }
  const SourceGraphInfo& info() const override { return info_; }
  const std::string& companion_folder() const override { return companion_folder_; }

  // Whether every offset ascends, and every edge ends at a node: the first that does not.
  // `progress` is called now and then; if it returns false, CANCELLED.
  absl::Status CheckStructure(absl::FunctionRef<bool()> progress) const;

 private:
  MappedSourceGraph(SourceGraphInfo info, std::string companion_folder, Arrays arrays,
                    std::shared_ptr<const void> owner, std::shared_ptr<SealedChecks> checks)
      : info_(std::move(info)),
        companion_folder_(std::move(companion_folder)),
        owner_(std::move(owner)),
        checks_(std::move(checks)),
        arrays_(std::move(arrays)) {}

  struct CheckedAdjacency {
    Adjacency rows;
    CheckedArray offsets;
    CheckedArray neighbours;
    CheckedArray edges;
  };

  absl::Status FindArrays();
  absl::StatusOr<CheckedAdjacency> FindAdjacency(size_t edge_set, bool by_source) const;
  absl::StatusOr<Adjacency> By(size_t edge_set, bool source) const;
  // The bytes of an array of `bytes`; DATA_LOSS naming it if it has others.
  absl::StatusOr<const char*> Array(const std::string& name, uint64_t bytes,
                                    CheckedArray* checked) const;
  absl::StatusOr<SourceColumn> Column(const std::string& name, uint64_t step_bytes, bool ragged,
                                      uint64_t num_rows) const;
  absl::StatusOr<ImportedRows> Rows(const std::string& name, uint64_t count) const;
  absl::StatusOr<NodesByRow> ByRow(size_t node_set) const;
  size_t Stored(size_t edge_set) const {
    return info_.schema->edge_sets()[edge_set].reverse_of.value_or(edge_set);
  }

  const SourceGraphInfo info_;
  const std::string companion_folder_;
  const std::shared_ptr<const void> owner_;
  const std::shared_ptr<SealedChecks> checks_;
  const Arrays arrays_;
  std::vector<SourceColumn> ids_;
  std::vector<ImportedRows> node_rows_;
  std::vector<NodesByRow> by_row_;
  std::vector<ImportedRows> edge_rows_;
  std::vector<std::vector<SourceColumn>> node_columns_;
  std::vector<std::vector<SourceColumn>> edge_columns_;
  std::vector<CheckedAdjacency> by_source_;
  std::vector<CheckedAdjacency> by_target_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_MAPPED_SOURCE_GRAPH_H_
