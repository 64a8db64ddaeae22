#include "service/wings/partition/jobs/graph_folders.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/base/digest.h"
#include "service/base/file_name.h"
#include "service/base/in_file.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/source_graphs/memory_source_graph.h"
#include "service/wings/partition/files/chunked_layout.h"
#include "service/wings/partition/files/metis_graph_file.h"
#include "service/wings/partition/files/npy_file.h"
#include "service/wings/partition/files/number_lines.h"
#include "service/wings/partition/files/text_rows.h"
#include "service/wings/partition/jobs/durable_files.h"

namespace packhouse {
namespace {

std::string PathIn(const std::string& folder, const std::string& file) {
  return absl::StartsWith(file, "/") ? file : absl::StrCat(folder, "/", file);
}

absl::Status TakeCsvEdges(absl::string_view text, char delimiter, uint64_t num_sources,
                          uint64_t num_targets, MemoryEdgeSet& set) {
  TextLines lines(WithoutByteOrderMark(text));
  std::vector<absl::string_view> fields;
  while (const std::optional<absl::string_view> line = lines.Next()) {
    SplitNumberLine(*line, delimiter, &fields);
    if (fields.empty()) continue;
    if (fields.size() != 2) {
      return lines.Wrong(absl::StrCat("has ", fields.size(), " fields, 2 are needed"));
    }
    const absl::StatusOr<uint64_t> source = NodeOfField(fields[0], "source", num_sources);
    if (!source.ok()) return lines.Wrong(source.status().message());
    const absl::StatusOr<uint64_t> target = NodeOfField(fields[1], "target", num_targets);
    if (!target.ok()) return lines.Wrong(target.status().message());
    set.sources.push_back(static_cast<uint32_t>(*source));
    set.targets.push_back(static_cast<uint32_t>(*target));
  }
  return absl::OkStatus();
}

template <typename Id>
absl::Status TakePairs(absl::string_view bytes, uint64_t num_sources, uint64_t num_targets,
                       MemoryEdgeSet& set) {
  for (size_t at = 0; at < bytes.size(); at += 2 * sizeof(Id)) {
    Id pair[2];
    std::memcpy(pair, bytes.data() + at, sizeof(pair));
    // Negative ones are large.
    if (static_cast<uint64_t>(pair[0]) >= num_sources ||
        static_cast<uint64_t>(pair[1]) >= num_targets) {
      return absl::InvalidArgumentError(absl::StrCat("row ", at / sizeof(pair), " joins ", pair[0],
                                                     " and ", pair[1], ", there are ", num_sources,
                                                     " and ", num_targets, " nodes"));
    }
    set.sources.push_back(static_cast<uint32_t>(pair[0]));
    set.targets.push_back(static_cast<uint32_t>(pair[1]));
  }
  return absl::OkStatus();
}

absl::Status TakeEdgeFile(const ChunkedTable& table, absl::string_view bytes, uint64_t num_sources,
                          uint64_t num_targets, MemoryEdgeSet& set) {
  if (table.format == ChunkFormat::kParquet) return ParquetIsNotRead();
  if (table.format == ChunkFormat::kCsv) {
    return TakeCsvEdges(bytes, table.delimiter, num_sources, num_targets, set);
  }
  PH_ASSIGN_OR_RETURN(const ArrayView array, ReadNpyFile(bytes));
  if (array.header.shape.size() != 2 || array.header.shape[1] != 2) {
    return absl::InvalidArgumentError("must have rows of two ids");
  }
  switch (array.header.dtype) {
    case DType::kInt32:
      return TakePairs<int32_t>(array.bytes, num_sources, num_targets, set);
    case DType::kInt64:
      return TakePairs<int64_t>(array.bytes, num_sources, num_targets, set);
    case DType::kUint32:
      return TakePairs<uint32_t>(array.bytes, num_sources, num_targets, set);
    case DType::kUint64:
      return TakePairs<uint64_t>(array.bytes, num_sources, num_targets, set);
    default:
      return absl::InvalidArgumentError("ids must be int32, int64, uint32 or uint64");
  }
}

// One column of all chunks; its type and shape go into `spec`.
absl::StatusOr<MemoryColumn> ReadColumn(const std::string& folder, const ChunkedTable& table,
                                        uint64_t rows, SourceColumnSpec& spec) {
  spec.name = table.name;
  MemoryColumn column;
  uint64_t found = 0;
  for (size_t i = 0; i < table.files.size(); ++i) {
    const std::string path = PathIn(folder, table.files[i]);
    if (table.format == ChunkFormat::kParquet) return InFile(path, ParquetIsNotRead());
    if (table.format != ChunkFormat::kNumpy) {
      return absl::UnimplementedError(
          absl::StrCat(path, ": features are read from numpy files, not from csv"));
    }
    PH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
    const absl::StatusOr<ArrayView> array = ReadNpyFile(file.bytes());
    if (!array.ok()) return InFile(path, array.status());
    const ArrayHeader& header = array->header;
    if (header.shape.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": must have rows"));
    }
    const std::vector<uint32_t> row_shape(header.shape.begin() + 1, header.shape.end());
    if (i > 0 && (header.dtype != spec.dtype || row_shape != spec.row_shape)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": its rows are of another type or shape than those before"));
    }
    spec.dtype = header.dtype;
    spec.row_shape = row_shape;
    column.bytes.append(array->bytes.data(), array->bytes.size());
    found += header.shape[0];
  }
  if (found == rows) return column;
  return absl::InvalidArgumentError(
      absl::StrCat("feature ", Quoted(table.name), " has ", found, " rows, must have ", rows));
}

uint64_t VersionOf(const std::vector<MemoryNodeSet>& nodes,
                   const std::vector<MemoryEdgeSet>& edges) {
  Digest digest;
  const auto add = [&digest](const std::vector<uint32_t>& ids) {
    digest.Add(absl::string_view(reinterpret_cast<const char*>(ids.data()),
                                 ids.size() * sizeof(uint32_t)));
  };
  for (const MemoryNodeSet& set : nodes) {
    digest.Add(set.num_nodes);
    for (const MemoryColumn& column : set.columns) digest.Add(column.bytes);
  }
  for (const MemoryEdgeSet& set : edges) {
    add(set.sources);
    add(set.targets);
    for (const MemoryColumn& column : set.columns) digest.Add(column.bytes);
  }
  uint64_t version = 0;
  // 16 hexadecimal digits.
  (void)absl::SimpleHexAtoi(digest.Hex(sizeof(version)), &version);
  return std::max<uint64_t>(version, 1);
}

absl::StatusOr<std::unique_ptr<const SourceGraph>> MakeGraph(
    std::vector<SourceNodeSetSpec> node_specs, std::vector<SourceEdgeSetSpec> edge_specs,
    std::vector<MemoryNodeSet> nodes, std::vector<MemoryEdgeSet> edges) {
  PH_ASSIGN_OR_RETURN(SourceGraphSchema schema,
                      SourceGraphSchema::Create(std::move(node_specs), std::move(edge_specs)));
  const uint64_t version = VersionOf(nodes, edges);
  return MakeMemorySourceGraph(std::move(schema), version, std::move(nodes), std::move(edges));
}

MemoryColumn Int64Column(const std::vector<uint64_t>& values) {
  MemoryColumn column;
  column.bytes.assign(reinterpret_cast<const char*>(values.data()),
                      values.size() * sizeof(uint64_t));
  return column;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const SourceGraph>> ReadChunkedFolder(const std::string& folder) {
  const std::string path = folder + "/metadata.json";
  PH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const absl::StatusOr<ChunkedGraph> chunked = ReadChunkedMetadata(file.bytes());
  if (!chunked.ok()) return InFile(path, chunked.status());
  std::vector<SourceNodeSetSpec> node_specs;
  std::vector<MemoryNodeSet> nodes;
  absl::flat_hash_map<std::string, size_t> set_of;
  for (const ChunkedNodeType& type : chunked->node_types) {
    if (type.num_nodes > SourceGraph::kMaxNodes) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": node type ", Quoted(type.name),
                                                     " has ", type.num_nodes, " nodes, at most ",
                                                     SourceGraph::kMaxNodes));
    }
    set_of[type.name] = nodes.size();
    SourceNodeSetSpec spec = {type.name, {}};
    MemoryNodeSet set;
    set.num_nodes = type.num_nodes;
    for (const ChunkedTable& table : type.features) {
      PH_ASSIGN_OR_RETURN(MemoryColumn column,
                          ReadColumn(folder, table, type.num_nodes, spec.columns.emplace_back()));
      set.columns.push_back(std::move(column));
    }
    node_specs.push_back(std::move(spec));
    nodes.push_back(std::move(set));
  }
  std::vector<SourceEdgeSetSpec> edge_specs;
  std::vector<MemoryEdgeSet> edges;
  for (const ChunkedEdgeType& type : chunked->edge_types) {
    const std::vector<std::string> words = absl::StrSplit(type.name, ':');
    SourceEdgeSetSpec spec;
    spec.name = type.name;
    spec.source = set_of[words[0]];
    spec.target = set_of[words[2]];
    MemoryEdgeSet set;
    for (const std::string& name : type.edges.files) {
      const std::string edge_path = PathIn(folder, name);
      PH_ASSIGN_OR_RETURN(const MappedFile edge_file, MappedFile::Open(edge_path));
      const absl::Status status =
          TakeEdgeFile(type.edges, edge_file.bytes(), nodes[spec.source].num_nodes,
                       nodes[spec.target].num_nodes, set);
      if (!status.ok()) return InFile(edge_path, status);
    }
    if (set.sources.size() != type.num_edges) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": edge type ", Quoted(type.name),
                                                     " has ", type.num_edges, " edges, its files ",
                                                     set.sources.size()));
    }
    for (const ChunkedTable& table : type.features) {
      PH_ASSIGN_OR_RETURN(MemoryColumn column,
                          ReadColumn(folder, table, type.num_edges, spec.columns.emplace_back()));
      set.columns.push_back(std::move(column));
    }
    edge_specs.push_back(std::move(spec));
    edges.push_back(std::move(set));
  }
  return MakeGraph(std::move(node_specs), std::move(edge_specs), std::move(nodes),
                   std::move(edges));
}

absl::StatusOr<std::unique_ptr<const SourceGraph>> ReadMetisFile(const std::string& path) {
  PH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  absl::StatusOr<MetisGraph> graph = ReadMetisGraph(file.bytes());
  if (!graph.ok()) return InFile(path, graph.status());
  SourceNodeSetSpec node_spec = {"_N", {}};
  MemoryNodeSet nodes;
  nodes.num_nodes = graph->num_vertices();
  if (graph->num_constraints > 0) {
    node_spec.columns.push_back({kMetisWeight,
                                 DType::kInt64,
                                 {static_cast<uint32_t>(graph->num_constraints)},
                                 false,
                                 false});
    nodes.columns.push_back(Int64Column(graph->vertex_weights));
  }
  if (!graph->vertex_sizes.empty()) {
    node_spec.columns.push_back({kMetisSize, DType::kInt64, {}, false, false});
    nodes.columns.push_back(Int64Column(graph->vertex_sizes));
  }
  SourceEdgeSetSpec edge_spec;
  edge_spec.name = "_E";
  MemoryEdgeSet edges;
  if (!graph->edge_weights.empty()) {
    edge_spec.columns.push_back({kMetisWeight, DType::kInt64, {}, false, false});
    edges.columns.push_back(Int64Column(graph->edge_weights));
  }
  for (uint64_t v = 0; v < graph->num_vertices(); ++v) {
    edges.sources.insert(edges.sources.end(), graph->offsets[v + 1] - graph->offsets[v],
                         static_cast<uint32_t>(v));
  }
  edges.targets = std::move(graph->neighbours);
  std::vector<MemoryNodeSet> node_sets;
  node_sets.push_back(std::move(nodes));
  std::vector<MemoryEdgeSet> edge_sets;
  edge_sets.push_back(std::move(edges));
  return MakeGraph({std::move(node_spec)}, {std::move(edge_spec)}, std::move(node_sets),
                   std::move(edge_sets));
}

absl::StatusOr<FolderAssignment> ReadAssignmentFolder(const std::string& folder,
                                                      const HomogeneousGraph& graph) {
  const std::string meta_path = folder + "/partition_meta.json";
  PH_ASSIGN_OR_RETURN(const MappedFile meta_file, MappedFile::Open(meta_path));
  const absl::StatusOr<AssignmentMeta> meta = ReadAssignmentMeta(meta_file.bytes());
  if (!meta.ok()) return InFile(meta_path, meta.status());
  FolderAssignment assignment;
  assignment.num_parts = static_cast<uint32_t>(meta->num_parts);
  for (const HomogeneousNodeType& type : graph.node_types()) {
    const std::string path = absl::StrCat(folder, "/", FileNameOf(type.name), ".txt");
    PH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
    const absl::StatusOr<std::vector<uint32_t>> parts =
        ReadPartLines(file.bytes(), type.size, assignment.num_parts);
    if (!parts.ok()) return InFile(path, parts.status());
    assignment.part.insert(assignment.part.end(), parts->begin(), parts->end());
  }
  return assignment;
}

}  // namespace packhouse
