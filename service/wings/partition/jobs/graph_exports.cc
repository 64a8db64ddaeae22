#include "service/wings/partition/jobs/graph_exports.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/files/metis_graph_file.h"
#include "service/wings/partition/files/parmetis_rows.h"
#include "service/wings/partition/jobs/durable_files.h"

namespace packhouse {
namespace {

// Of each edge, by homogeneous ids.
struct PairedEnds {
  std::vector<uint64_t> sources;
  std::vector<uint64_t> targets;
};

PairedEnds EndsOf(const HomogeneousGraph& graph) {
  PairedEnds ends;
  ends.sources.resize(graph.num_edges());
  ends.targets.resize(graph.num_edges());
  for (const HomogeneousEdgeType& type : graph.edge_types()) {
    const Adjacency& rows = type.by_target;
    for (uint32_t row = 0; row < rows.num_rows(); ++row) {
      for (uint64_t at = rows.offsets[row]; at < rows.offsets[row + 1]; ++at) {
        const uint64_t edge = type.start + rows.edge(at);
        ends.sources[edge] = graph.node_types()[type.source].start + rows.neighbours[at];
        ends.targets[edge] = graph.node_types()[type.target].start + row;
      }
    }
  }
  return ends;
}

// A weight for each node type.
absl::Status WriteNodeRows(const HomogeneousGraph& graph, TextWriter& text) {
  ParmetisNode node;
  for (size_t t = 0; t < graph.node_types().size(); ++t) {
    node.type = t;
    node.weights.assign(graph.node_types().size(), 0);
    node.weights[t] = 1;
    for (node.original = 0; node.original < graph.node_types()[t].size; ++node.original) {
      PH_RETURN_IF_ERROR(WriteParmetisNode(node, ParmetisSide::kInput, text));
    }
  }
  return absl::OkStatus();
}

// Those that are removed, or those that are not.
absl::Status WriteEdgeRows(const HomogeneousGraph& graph, const PairedEnds& ends,
                           const std::vector<bool>& removed, bool of_removed, TextWriter& text) {
  ParmetisEdge edge;
  for (size_t t = 0; t < graph.edge_types().size(); ++t) {
    const HomogeneousEdgeType& type = graph.edge_types()[t];
    edge.type = t;
    for (edge.original = 0; edge.original < type.size; ++edge.original) {
      const uint64_t id = type.start + edge.original;
      if (removed[id] != of_removed) continue;
      edge.source = ends.sources[id];
      edge.target = ends.targets[id];
      PH_RETURN_IF_ERROR(WriteParmetisEdge(edge, ParmetisSide::kInput, text));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteMetisGraphOf(const HomogeneousGraph& graph, ByteSink& sink) {
  std::vector<uint32_t> row;
  const auto take = [&](uint32_t node) {
    row.clear();
    graph.ForEachNeighbour(node, [&](uint32_t other) {
      if (other != node) row.push_back(other);
    });
    std::sort(row.begin(), row.end());
  };
  uint64_t entries = 0;
  bool weighted = false;
  for (uint32_t node = 0; node < graph.num_nodes(); ++node) {
    take(node);
    const size_t before = row.size();
    row.erase(std::unique(row.begin(), row.end()), row.end());
    entries += row.size();
    weighted = weighted || row.size() != before;
  }
  MetisGraphHead head;
  head.num_vertices = graph.num_nodes();
  head.num_edges = entries / 2;
  head.has_edge_weights = weighted;
  MetisGraphWriter writer(head, sink);
  std::vector<uint64_t> weights;
  for (uint32_t node = 0; node < graph.num_nodes(); ++node) {
    take(node);
    weights.clear();
    size_t kept = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      if (kept > 0 && row[kept - 1] == row[i]) {
        ++weights.back();
        continue;
      }
      row[kept++] = row[i];
      weights.push_back(1);
    }
    row.resize(kept);
    if (!weighted) weights.clear();
    PH_RETURN_IF_ERROR(writer.Vertex(row, weights));
  }
  return writer.Finish();
}

absl::Status WriteParmetisFolder(const HomogeneousGraph& graph, const std::string& folder,
                                 const std::string& name) {
  PH_RETURN_IF_ERROR(CheckParmetisName(name));
  PH_RETURN_IF_ERROR(MakeFolder(folder));
  const std::string prefix = absl::StrCat(folder, "/", name);
  const PairedEnds ends = EndsOf(graph);
  const std::vector<bool> removed = MarkRemovedEdges(ends.sources, ends.targets);
  ParmetisStats stats;
  stats.num_nodes = graph.num_nodes();
  stats.num_edges = static_cast<uint64_t>(std::count(removed.begin(), removed.end(), false));
  stats.num_weights = graph.node_types().size();
  ParmetisSchema schema;
  for (const HomogeneousNodeType& type : graph.node_types()) {
    schema.node_types.push_back({type.name, type.start, type.end()});
  }
  for (const HomogeneousEdgeType& type : graph.edge_types()) {
    schema.edge_types.push_back({type.name, type.start, type.start + type.size});
  }
  PH_ASSIGN_OR_RETURN(const std::string json, WriteParmetisSchema(schema));
  const auto write = [&prefix](const char* suffix, const auto& rows) -> absl::Status {
    return WriteDurably(prefix + suffix,
                        [&rows](ByteSink& sink) -> absl::Status {
                          TextWriter text(sink);
                          PH_RETURN_IF_ERROR(rows(text));
                          return text.Finish();
                        })
        .status();
  };
  PH_RETURN_IF_ERROR(
      write("_nodes.txt", [&graph](TextWriter& text) { return WriteNodeRows(graph, text); }));
  PH_RETURN_IF_ERROR(write("_edges.txt", [&](TextWriter& text) {
    return WriteEdgeRows(graph, ends, removed, false, text);
  }));
  PH_RETURN_IF_ERROR(write("_removed_edges.txt", [&](TextWriter& text) {
    return WriteEdgeRows(graph, ends, removed, true, text);
  }));
  PH_RETURN_IF_ERROR(
      write("_stats.txt", [&stats](TextWriter& text) { return WriteParmetisStats(stats, text); }));
  PH_RETURN_IF_ERROR(WriteDurably(prefix + ".json", [&json](ByteSink& sink) {
                       return sink.Write(json);
                     }).status());
  return SyncFolder(folder);
}

}  // namespace packhouse
