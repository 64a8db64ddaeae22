#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/files/chunked_layout.h"
#include "service/wings/partition/files/npy_file.h"
#include "service/wings/partition/jobs/durable_files.h"
#include "service/wings/partition/jobs/graph_exports.h"
#include "service/wings/partition/jobs/part_tables.h"

namespace packhouse {
namespace {

constexpr uint64_t kMostChunks = 65'536;

// Source and target of each edge of a type, by its number.
std::vector<uint32_t> PairsOf(const HomogeneousEdgeType& type) {
  std::vector<uint32_t> pairs(2 * type.size);
  const Adjacency& rows = type.by_target;
  for (uint32_t row = 0; row < rows.num_rows(); ++row) {
    for (uint64_t at = rows.offsets[row]; at < rows.offsets[row + 1]; ++at) {
      pairs[2 * rows.edge(at)] = rows.neighbours[at];
      pairs[2 * rows.edge(at) + 1] = row;
    }
  }
  return pairs;
}

class ChunkedFolder {
 public:
  ChunkedFolder(const HomogeneousGraph& graph, const ChunkedFolderOptions& options,
                std::string folder)
      : graph_(graph), options_(options), folder_(std::move(folder)) {}

  absl::Status Write() {
    ChunkedGraph chunked;
    chunked.graph_name = options_.graph_name;
    for (const char* const of : {"/nodes", "/edges"}) {
      PH_RETURN_IF_ERROR(MakeFolder(folder_ + of));
    }
    const SourceGraph& source = graph_.source();
    for (size_t t = 0; t < graph_.node_types().size(); ++t) {
      const HomogeneousNodeType& type = graph_.node_types()[t];
      ChunkedNodeType& written = chunked.node_types.emplace_back();
      written.name = type.name;
      written.num_nodes = type.size;
      written.chunks = RowsOfChunks(type.size);
      const auto& columns = source.schema().node_sets()[type.node_set].columns;
      PH_RETURN_IF_ERROR(WriteColumns(
          columns, type.size, absl::StrCat("nodes/", t),
          [&](size_t c) { return source.NodeColumn(type.node_set, c); }, written.features));
    }
    for (size_t t = 0; t < graph_.edge_types().size(); ++t) {
      const HomogeneousEdgeType& type = graph_.edge_types()[t];
      ChunkedEdgeType& written = chunked.edge_types.emplace_back();
      written.name = type.name;
      written.num_edges = type.size;
      written.chunks = RowsOfChunks(type.size);
      PH_RETURN_IF_ERROR(WriteEdges(type, absl::StrCat("edges/", t), written.edges));
      const SourceEdgeSetSpec& spec = source.schema().edge_sets()[type.edge_set];
      // A reversed set has the columns of the other.
      const auto& columns =
          spec.reverse_of ? source.schema().edge_sets()[*spec.reverse_of].columns : spec.columns;
      PH_RETURN_IF_ERROR(WriteColumns(
          columns, type.size, absl::StrCat("edges/", t),
          [&](size_t c) { return source.EdgeColumn(type.edge_set, c); }, written.features));
    }
    for (const char* const of : {"/nodes", "/edges"}) {
      PH_RETURN_IF_ERROR(SyncFolder(folder_ + of));
    }
    PH_ASSIGN_OR_RETURN(const std::string text, WriteChunkedMetadata(chunked));
    PH_RETURN_IF_ERROR(WriteDurably(folder_ + "/metadata.json", [&text](ByteSink& sink) {
                         return sink.Write(text);
                       }).status());
    return SyncFolder(folder_);
  }

 private:
  uint64_t BeginOf(uint64_t chunk, uint64_t rows) const {
    return rows / options_.num_chunks * chunk +
           rows % options_.num_chunks * chunk / options_.num_chunks;
  }

  std::vector<uint64_t> RowsOfChunks(uint64_t rows) const {
    std::vector<uint64_t> chunks;
    for (uint64_t chunk = 0; chunk < options_.num_chunks; ++chunk) {
      chunks.push_back(BeginOf(chunk + 1, rows) - BeginOf(chunk, rows));
    }
    return chunks;
  }

  absl::Status WriteArray(const ArraySource& array, std::string name, ChunkedTable& table) {
    PH_RETURN_IF_ERROR(WriteDurably(absl::StrCat(folder_, "/", name), [&array](ByteSink& sink) {
                         return WriteNpyFile(array, sink);
                       }).status());
    table.files.push_back(std::move(name));
    return absl::OkStatus();
  }

  absl::Status WriteEdges(const HomogeneousEdgeType& type, const std::string& prefix,
                          ChunkedTable& table) {
    const std::vector<uint32_t> pairs = PairsOf(type);
    for (uint64_t chunk = 0; chunk < options_.num_chunks; ++chunk) {
      const uint64_t begin = BeginOf(chunk, type.size);
      const uint64_t count = BeginOf(chunk + 1, type.size) - begin;
      ArraySource array = Int64Array("", absl::MakeConstSpan(pairs).subspan(2 * begin, 2 * count));
      array.header.shape = {count, 2};
      PH_RETURN_IF_ERROR(WriteArray(array, absl::StrCat(prefix, "-ends-", chunk, ".npy"), table));
    }
    return absl::OkStatus();
  }

  template <typename ColumnAt>
  absl::Status WriteColumns(absl::Span<const SourceColumnSpec> columns, uint64_t rows,
                            const std::string& prefix, const ColumnAt& column_at,
                            std::vector<ChunkedTable>& tables) {
    for (size_t c = 0; c < columns.size(); ++c) {
      if (IsLeftOutOfFiles(columns[c])) continue;
      ChunkedTable& table = tables.emplace_back();
      table.name = columns[c].name;
      for (uint64_t chunk = 0; chunk < options_.num_chunks; ++chunk) {
        const uint64_t begin = BeginOf(chunk, rows);
        const ArraySource array =
            RowsOfColumn(columns[c], column_at(c), begin, BeginOf(chunk + 1, rows) - begin);
        PH_RETURN_IF_ERROR(
            WriteArray(array, absl::StrCat(prefix, "-", c, "-", chunk, ".npy"), table));
      }
    }
    return absl::OkStatus();
  }

  const HomogeneousGraph& graph_;
  const ChunkedFolderOptions& options_;
  const std::string folder_;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> WriteChunkedFolder(const HomogeneousGraph& graph,
                                                            const ChunkedFolderOptions& options,
                                                            const std::string& folder) {
  if (options.num_chunks == 0 || options.num_chunks > kMostChunks) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunks: ", options.num_chunks, ", must be 1 to ", kMostChunks));
  }
  if (PathExists(folder)) {
    return absl::AlreadyExistsError(absl::StrCat(folder, " is there already"));
  }
  const std::string partial = folder + ".partial";
  PH_RETURN_IF_ERROR(RemoveFolder(partial));
  PH_RETURN_IF_ERROR(ChunkedFolder(graph, options, partial).Write());
  PH_RETURN_IF_ERROR(RenameDurably(partial, folder));
  return LeftOutColumns(graph.source());
}

}  // namespace packhouse
