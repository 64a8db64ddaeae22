#include "client/graph/source_graphs/chunked_tables.h"

#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/graph/files/input_file.h"
#include "client/graph/files/npz_numbers.h"
#include "client/graph/source_graphs/text_columns.h"
#include "service/base/in_file.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/files/chunked_layout.h"

namespace packhouse::client {
namespace {

// Files of one metadata.json.
class ChunkFolder {
 public:
  explicit ChunkFolder(std::filesystem::path metadata) : metadata_(std::move(metadata)) {
    paths_.push_back(metadata_.string());
  }

  absl::StatusOr<TextFiles> Texts(const ChunkedTable& files) {
    TextFiles texts;
    texts.delimiter = files.delimiter;
    PH_ASSIGN_OR_RETURN(texts.paths, Paths(files));
    return texts;
  }

  // `rows`: of the node type or edge type.
  absl::StatusOr<RowColumn> Column(const ChunkedTable& feature, uint64_t rows) {
    RowColumn column;
    column.spec.name = feature.name;
    if (feature.format == ChunkFormat::kCsv) {
      PH_ASSIGN_OR_RETURN(column.texts, Texts(feature));
      PH_ASSIGN_OR_RETURN(const TextKind kind, KindOfTexts(column.texts));
      if (kind.fields > 1) column.spec.row_shape = {static_cast<uint32_t>(kind.fields)};
      // As pyarrow, by which DGL reads these files.
      column.spec.dtype = kind.is_bool    ? DType::kBool
                          : kind.is_whole ? DType::kInt64
                                          : DType::kFloat64;
      return column;
    }
    PH_ASSIGN_OR_RETURN(const std::vector<std::string> paths, Paths(feature));
    uint64_t found = 0;
    for (const std::string& path : paths) {
      PH_ASSIGN_OR_RETURN(NpyArray array, OpenNpyFile(path));
      PH_ASSIGN_OR_RETURN(SourceColumnSpec spec, ColumnOfArray(array, feature.name));
      const bool is_first = column.arrays.empty();
      if (!is_first &&
          (spec.dtype != column.spec.dtype || spec.row_shape != column.spec.row_shape)) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, ": has rows of ", DTypeName(spec.dtype), " ",
                         ShapeText(array.header), ", the first chunk has others"));
      }
      column.spec = std::move(spec);
      found += array.rows();
      column.arrays.push_back(std::move(array));
    }
    if (found != rows) {
      return absl::InvalidArgumentError(absl::StrCat(metadata_.string(), ": feature ",
                                                     Quoted(feature.name), " has ", found,
                                                     " rows, its type ", rows));
    }
    return column;
  }

  // The arrays of the ends of edges.
  absl::StatusOr<std::vector<NpyArray>> Pairs(const ChunkedEdgeType& type) {
    PH_ASSIGN_OR_RETURN(const std::vector<std::string> paths, Paths(type.edges));
    std::vector<NpyArray> arrays;
    uint64_t found = 0;
    for (const std::string& path : paths) {
      PH_ASSIGN_OR_RETURN(NpyArray array, OpenNpyFile(path));
      if (!IsInteger(array.header.dtype) || array.header.shape.size() != 2 ||
          array.header.shape[1] != 2) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, ": has rows of ", DTypeName(array.header.dtype), " ",
                         ShapeText(array.header), ", two whole numbers are needed"));
      }
      found += array.rows();
      arrays.push_back(std::move(array));
    }
    if (found != type.num_edges) {
      return absl::InvalidArgumentError(absl::StrCat(metadata_.string(), ": edge type ",
                                                     Quoted(type.name), " has ", type.num_edges,
                                                     " edges, its files ", found));
    }
    return arrays;
  }

  std::string fingerprint() const { return FingerprintOfFiles(paths_); }

 private:
  absl::StatusOr<std::vector<std::string>> Paths(const ChunkedTable& files) {
    if (files.format == ChunkFormat::kParquet) {
      return InFile(metadata_.string(), ParquetIsNotRead());
    }
    std::vector<std::string> paths;
    for (const std::string& path : files.files) {
      paths.push_back((metadata_.parent_path() / path).string());
      std::error_code error;
      if (!std::filesystem::exists(paths.back(), error)) {
        return absl::NotFoundError(absl::StrCat(paths.back(), ": is not there"));
      }
    }
    paths_.insert(paths_.end(), paths.begin(), paths.end());
    return paths;
  }

  const std::filesystem::path metadata_;
  std::vector<std::string> paths_;
};

// SOURCE, RELATION and TARGET, of which the reader has made sure.
std::vector<std::string> PartsOf(const ChunkedEdgeType& type) {
  return absl::StrSplit(type.name, ':');
}

}  // namespace

absl::StatusOr<SourceTables> OpenChunkedTables(const std::string& path) {
  PH_ASSIGN_OR_RETURN(const std::string bytes, ReadInputFile(path));
  const absl::StatusOr<ChunkedGraph> metadata = ReadChunkedMetadata(bytes);
  if (!metadata.ok()) return InFile(path, metadata.status());
  ChunkFolder folder(path);
  std::vector<OpenTable> tables;
  std::vector<SourceNodeSetSpec> node_sets;
  for (const ChunkedNodeType& type : metadata->node_types) {
    std::vector<RowColumn> columns;
    SourceNodeSetSpec& spec = node_sets.emplace_back();
    spec.name = type.name;
    for (const ChunkedTable& feature : type.features) {
      PH_ASSIGN_OR_RETURN(RowColumn column, folder.Column(feature, type.num_nodes));
      spec.columns.push_back(column.spec);
      columns.push_back(std::move(column));
    }
    tables.push_back(ReadNumberedNodes(node_sets.size() - 1, type.num_nodes, std::move(columns)));
  }
  const auto node_type = [&metadata](const std::string& name) {
    size_t number = 0;
    while (metadata->node_types[number].name != name) ++number;
    return number;
  };
  std::map<std::string, int> uses;
  for (const ChunkedEdgeType& type : metadata->edge_types) ++uses[PartsOf(type)[1]];
  std::vector<SourceEdgeSetSpec> edge_sets;
  for (const ChunkedEdgeType& type : metadata->edge_types) {
    SourceEdgeSetSpec& spec = edge_sets.emplace_back();
    const std::vector<std::string> parts = PartsOf(type);
    spec.name = uses[parts[1]] == 1 ? parts[1] : type.name;
    spec.source = node_type(parts[0]);
    spec.target = node_type(parts[2]);
    PairedEdges edges;
    edges.set = edge_sets.size() - 1;
    if (type.edges.format == ChunkFormat::kNumpy) {
      PH_ASSIGN_OR_RETURN(edges.arrays, folder.Pairs(type));
    } else {
      PH_ASSIGN_OR_RETURN(edges.files, folder.Texts(type.edges));
    }
    edges.num_edges = type.num_edges;
    edges.num_sources = metadata->node_types[spec.source].num_nodes;
    edges.num_targets = metadata->node_types[spec.target].num_nodes;
    for (const ChunkedTable& feature : type.features) {
      PH_ASSIGN_OR_RETURN(RowColumn column, folder.Column(feature, type.num_edges));
      spec.columns.push_back(column.spec);
      edges.columns.push_back(std::move(column));
    }
    tables.push_back(ReadPairedEdges(std::move(edges)));
  }
  PH_ASSIGN_OR_RETURN(SourceGraphSchema schema,
                      SourceGraphSchema::Create(std::move(node_sets), std::move(edge_sets)));
  return SourceTables{std::move(schema), /*has_text_ids=*/false, std::move(tables),
                      folder.fingerprint()};
}

}  // namespace packhouse::client
