#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "service/base/in_file.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/source_graphs/memory_source_graph.h"
#include "service/wings/partition/cutting/homogeneous_graph.h"
#include "service/wings/partition/cutting/new_ids.h"
#include "service/wings/partition/files/parmetis_rows.h"
#include "service/wings/partition/files/text_rows.h"
#include "service/wings/partition/jobs/durable_files.h"
#include "service/wings/partition/jobs/parmetis_pipeline.h"
#include "service/wings/partition/jobs/partition_run.h"

namespace packhouse {
namespace {

// Of nodes, and of edges with the types of their ends.
constexpr uint64_t kMostTypes = SourceGraphSchema::kMaxSets;

// The line that begins at `begin`, without its end.
absl::string_view LineAt(absl::string_view text, uint64_t begin) {
  return text.substr(begin, std::min(text.find('\n', begin), text.size()) - begin);
}

class Pipeline {
 public:
  Pipeline(const ParmetisPartition& partition, AssignmentEngine* engine)
      : partition_(partition), engine_(engine), options_(partition.options) {}

  absl::StatusOr<Assignment> Run() {
    PH_RETURN_IF_ERROR(CheckParmetisName(partition_.graph_name));
    if (PathExists(partition_.output)) {
      return absl::AlreadyExistsError(absl::StrCat(partition_.output, " is there already"));
    }
    PH_ASSIGN_OR_RETURN(const MappedFile stats_file, MappedFile::Open(Input("stats")));
    absl::StatusOr<ParmetisStats> stats = ReadParmetisStats(stats_file.bytes());
    if (!stats.ok()) return InFile(Input("stats"), stats.status());
    stats_ = *stats;
    PH_ASSIGN_OR_RETURN(const MappedFile nodes, MappedFile::Open(Input("nodes")));
    PH_ASSIGN_OR_RETURN(const MappedFile edges, MappedFile::Open(Input("edges")));
    nodes_text_ = nodes.bytes();
    edges_text_ = edges.bytes();
    absl::Status read = ReadNodes();
    if (!read.ok()) return InFile(Input("nodes"), read);
    read = ReadEdges();
    if (!read.ok()) return InFile(Input("edges"), read);
    PH_ASSIGN_OR_RETURN(const std::unique_ptr<const SourceGraph> source, MakeGraph());
    PH_ASSIGN_OR_RETURN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
    PH_ASSIGN_OR_RETURN(Assignment assignment, AssignParts(graph, options_, engine_, {}));
    PH_ASSIGN_OR_RETURN(const NewIds ids,
                        NewIds::Create(&graph, assignment.part, assignment.num_parts));
    PH_RETURN_IF_ERROR(WriteAll(ids, assignment));
    return assignment;
  }

 private:
  struct NodeType {
    uint64_t type = 0;   // As the file has it.
    uint64_t begin = 0;  // The first node.
    std::map<std::vector<uint64_t>, uint16_t> class_of_weights;
    NodeClasses classes;
  };

  std::string Input(const char* what) const {
    return absl::StrCat(partition_.input_folder, "/", partition_.graph_name, "_", what, ".txt");
  }

  absl::Status ReadNodes() {
    TextLines lines(nodes_text_);
    ParmetisNode node;
    size_t num_classes = 0;
    while (const std::optional<absl::string_view> line = lines.Next()) {
      absl::Status status =
          ParseParmetisNode(*line, ParmetisSide::kInput, stats_.num_weights, &node);
      if (!status.ok()) return lines.Wrong(status.message());
      if (types_.empty() || node.type != types_.back().type) {
        if (!types_.empty() && node.type < types_.back().type) {
          return lines.Wrong(absl::StrCat("node type ", node.type, " comes after ",
                                          types_.back().type, ", must ascend"));
        }
        if (types_.size() == kMostTypes) {
          return lines.Wrong(absl::StrCat("more than ", kMostTypes, " node types"));
        }
        types_.emplace_back();
        types_.back().type = node.type;
        types_.back().begin = node_lines_.size();
        types_.back().classes.node_set = types_.size() - 1;
        types_.back().classes.num_classes = 0;
      }
      if (std::any_of(node.weights.begin(), node.weights.end(), [](uint64_t w) { return w > 1; })) {
        return lines.Wrong(
            "a weight is above 1: classes of nodes are spread evenly here, whose weights are 0 and "
            "1");
      }
      NodeType& type = types_.back();
      const auto [at, is_new] = type.class_of_weights.emplace(
          node.weights, static_cast<uint16_t>(type.classes.num_classes));
      if (is_new) ++type.classes.num_classes;
      num_classes += is_new ? 1 : 0;
      if (num_classes > PartitionOptions::kMaxClasses) {
        return lines.Wrong(absl::StrCat("nodes have more than ", PartitionOptions::kMaxClasses,
                                        " different rows of weights"));
      }
      type.classes.class_of.push_back(at->second);
      node_lines_.push_back(static_cast<uint64_t>(line->data() - nodes_text_.data()));
    }
    if (node_lines_.size() == stats_.num_nodes) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("has ", node_lines_.size(), " nodes, ",
                                                   Input("stats"), " says ", stats_.num_nodes));
  }

  // Where the type of a node is in types_.
  size_t TypeOf(uint64_t node) const {
    const auto after =
        std::upper_bound(types_.begin(), types_.end(), node,
                         [](uint64_t at, const NodeType& type) { return at < type.begin; });
    return static_cast<size_t>(after - types_.begin()) - 1;
  }

  absl::Status ReadEdges() {
    TextLines lines(edges_text_);
    ParmetisEdge edge;
    while (const std::optional<absl::string_view> line = lines.Next()) {
      absl::Status status = ParseParmetisEdge(*line, ParmetisSide::kInput, &edge);
      if (!status.ok()) return lines.Wrong(status.message());
      if (std::max(edge.source, edge.target) >= node_lines_.size()) {
        return lines.Wrong(absl::StrCat("joins ", edge.source, " and ", edge.target, ", there are ",
                                        node_lines_.size(), " nodes"));
      }
      const size_t source = TypeOf(edge.source);
      const size_t target = TypeOf(edge.target);
      MemoryEdgeSet& set = edges_[{edge.type, source, target}];
      if (edges_.size() > kMostTypes) {
        return lines.Wrong(absl::StrCat("more than ", kMostTypes,
                                        " edge types, told apart by the types of their ends"));
      }
      set.sources.push_back(static_cast<uint32_t>(edge.source - types_[source].begin));
      set.targets.push_back(static_cast<uint32_t>(edge.target - types_[target].begin));
      ++num_edges_;
    }
    if (num_edges_ == stats_.num_edges) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("has ", num_edges_, " edges, ", Input("stats"), " says ", stats_.num_edges));
  }

  // Homogeneous ids of its nodes are those of the input: names of types have the order of types_.
  absl::StatusOr<std::unique_ptr<const SourceGraph>> MakeGraph() {
    const auto name = [](uint64_t number) { return absl::StrFormat("%020d", number); };
    std::vector<SourceNodeSetSpec> node_specs;
    std::vector<MemoryNodeSet> nodes;
    for (size_t t = 0; t < types_.size(); ++t) {
      const uint64_t end = t + 1 < types_.size() ? types_[t + 1].begin : node_lines_.size();
      node_specs.push_back({name(types_[t].type), {}});
      nodes.emplace_back().num_nodes = end - types_[t].begin;
      if (types_[t].classes.num_classes > 1) {
        options_.classes.push_back(std::move(types_[t].classes));
      }
    }
    std::vector<SourceEdgeSetSpec> edge_specs;
    std::vector<MemoryEdgeSet> edges;
    for (auto& [key, set] : edges_) {
      const auto& [type, source, target] = key;
      SourceEdgeSetSpec spec;
      spec.name = absl::StrCat(node_specs[source].name, ":", type, ":", node_specs[target].name);
      spec.source = source;
      spec.target = target;
      edge_specs.push_back(std::move(spec));
      edges.push_back(std::move(set));
    }
    edges_.clear();
    PH_ASSIGN_OR_RETURN(SourceGraphSchema schema,
                        SourceGraphSchema::Create(std::move(node_specs), std::move(edge_specs)));
    return MakeMemorySourceGraph(std::move(schema), 1, std::move(nodes), std::move(edges));
  }

  template <typename Rows>
  static absl::Status WriteText(const std::string& path, const Rows& rows) {
    return WriteDurably(path,
                        [&rows](ByteSink& sink) -> absl::Status {
                          TextWriter text(sink);
                          PH_RETURN_IF_ERROR(rows(text));
                          return text.Finish();
                        })
        .status();
  }

  absl::Status WriteAll(const NewIds& ids, const Assignment& assignment) const {
    // Where the lines of each part's edges begin.
    std::vector<std::vector<uint64_t>> edges_of_part(assignment.num_parts);
    TextLines lines(edges_text_);
    ParmetisEdge edge;
    while (const std::optional<absl::string_view> line = lines.Next()) {
      PH_RETURN_IF_ERROR(ParseParmetisEdge(*line, ParmetisSide::kInput, &edge));
      edges_of_part[assignment.part[edge.target]].push_back(
          static_cast<uint64_t>(line->data() - edges_text_.data()));
    }
    const std::string partial = PartialFolder(partition_.output);
    PH_RETURN_IF_ERROR(RemoveFolder(partial));
    PH_RETURN_IF_ERROR(MakeFolder(partial));
    for (uint32_t part = 0; part < assignment.num_parts; ++part) {
      PH_RETURN_IF_ERROR(WritePart(ids, part, edges_of_part[part], partial));
    }
    PH_RETURN_IF_ERROR(
        WriteDurably(
            absl::StrCat(partial, "/", partition_.graph_name, "_part.", assignment.num_parts),
            [&assignment](ByteSink& sink) { return WriteParmetisParts(assignment.part, sink); })
            .status());
    PH_RETURN_IF_ERROR(SyncFolder(partial));
    return RenameDurably(partial, partition_.output);
  }

  absl::Status WritePart(const NewIds& ids, uint32_t part, const std::vector<uint64_t>& edges,
                         const std::string& folder) const {
    const auto path = [&](const char* what) {
      return absl::StrCat(folder, "/", ParmetisPartFile(part, partition_.graph_name, what));
    };
    const IdRange nodes = ids.NodesOfPart(part);
    const auto write_nodes = [&](TextWriter& text) -> absl::Status {
      for (uint64_t node = nodes.begin; node < nodes.end; ++node) {
        text.Number(node);
        text.Word(LineAt(nodes_text_, node_lines_[ids.original_of_node()[node]]));
        PH_RETURN_IF_ERROR(text.EndLine());
      }
      return absl::OkStatus();
    };
    const auto write_edges = [&](TextWriter& text) -> absl::Status {
      ParmetisEdge edge;
      for (const uint64_t begin : edges) {
        const absl::string_view line = LineAt(edges_text_, begin);
        PH_RETURN_IF_ERROR(ParseParmetisEdge(line, ParmetisSide::kInput, &edge));
        text.Number(ids.new_of_node()[edge.source]);
        text.Number(ids.new_of_node()[edge.target]);
        text.Word(line);
        PH_RETURN_IF_ERROR(text.EndLine());
      }
      return absl::OkStatus();
    };
    PH_RETURN_IF_ERROR(WriteText(path("nodes"), write_nodes));
    PH_RETURN_IF_ERROR(WriteText(path("edges"), write_edges));
    return WriteText(path("stats"), [&](TextWriter& text) {
      return WriteParmetisStats({nodes.size(), edges.size(), stats_.num_weights}, text);
    });
  }

  const ParmetisPartition& partition_;
  AssignmentEngine* const engine_;
  PartitionOptions options_;
  ParmetisStats stats_;
  absl::string_view nodes_text_;
  absl::string_view edges_text_;
  std::vector<NodeType> types_;
  std::vector<uint64_t> node_lines_;  // Where each begins.
  // By type, and places of the types of both ends.
  std::map<std::tuple<uint64_t, size_t, size_t>, MemoryEdgeSet> edges_;
  uint64_t num_edges_ = 0;
};

}  // namespace

absl::StatusOr<Assignment> PartitionParmetisFolder(const ParmetisPartition& partition,
                                                   AssignmentEngine* engine) {
  return Pipeline(partition, engine).Run();
}

}  // namespace packhouse
