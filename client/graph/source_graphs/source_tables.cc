#include "client/graph/source_graphs/source_tables.h"

#include <sys/stat.h>

#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/graph/files/file_kinds.h"
#include "client/graph/files/fingerprint.h"
#include "client/graph/source_graphs/array_tables.h"
#include "client/graph/source_graphs/chunked_tables.h"
#include "client/graph/source_graphs/ogb_tables.h"
#include "client/graph/source_graphs/unigraph_tables.h"

namespace packhouse::client {
namespace {

// The files of a folder that end in `ending`.
std::vector<std::string> FilesWithEnding(const std::filesystem::path& folder,
                                         const std::string& ending) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (absl::EndsWith(entry.path().string(), ending)) found.push_back(entry.path().string());
  }
  return found;
}

constexpr absl::string_view kWriteFolder =
    "write its arrays as nodes/SET/COLUMN.npy and edges/SET/edge_index.npy in a folder, and name "
    "that (docs/sampling.md)";
constexpr KindAdvice kKindAdvice = {"large graph that is read here", kWriteFolder, kWriteFolder};

}  // namespace

absl::StatusOr<bool> SourceTablesReader::Read(size_t max_bytes, graph_files::SourceRows* rows) {
  while (true) {
    if (table_ == nullptr) {
      if (next_ == tables_.tables.size()) return false;
      absl::StatusOr<std::unique_ptr<TableReader>> opened = tables_.tables[next_]();
      if (!opened.ok()) return opened.status();
      ++next_;
      table_ = *std::move(opened);
    }
    absl::StatusOr<bool> has_rows = table_->Read(max_bytes, rows);
    if (!has_rows.ok() || *has_rows) return has_rows;
    table_ = nullptr;
  }
}

absl::StatusOr<SourceTables> OpenSourceTables(const std::string& path,
                                              const std::string& ogb_name) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::exists(path, error)) return absl::NotFoundError(absl::StrCat(path, ": is not there"));
  const fs::path folder(path);
  const bool is_ogb = fs::is_directory(folder / "raw", error);
  if (is_ogb) return OpenOgbTables(path, ogb_name);
  if (!ogb_name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ogb-name: ", path, " has no folder raw/, as OGB's data sets have it"));
  }
  if (!fs::is_directory(path, error)) {
    if (absl::EndsWith(path, ".npz")) return OpenNpzTables(path);
    if (absl::EndsWith(path, ".pbtxt")) return OpenUnigraphTables(path);
    if (absl::EndsWith(path, ".json")) return OpenChunkedTables(path);
    const absl::Status kind = CheckIsTextFile(path, kKindAdvice);
    if (!kind.ok()) return kind;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": must be a .npz, a schema (.pbtxt), a metadata.json, or a folder"));
  }
  if (fs::exists(folder / "metadata.json", error)) {
    return OpenChunkedTables((folder / "metadata.json").string());
  }
  const std::vector<std::string> schemas = FilesWithEnding(folder, ".pbtxt");
  if (schemas.size() == 1) return OpenUnigraphTables(schemas[0]);
  if (schemas.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": has ", schemas.size(), " schemas (.pbtxt); name the one that is meant"));
  }
  if (fs::is_directory(folder / "nodes", error) || fs::is_directory(folder / "edges", error)) {
    return OpenNpyFolderTables(path);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path,
                   ": has no schema (.pbtxt), no metadata.json, no raw/ of OGB, and no "
                   "nodes/ or edges/ of arrays"));
}

absl::Status AddReverses(const std::vector<std::string>& reverses, SourceTables* tables) {
  std::vector<SourceNodeSetSpec> node_sets(tables->schema.node_sets().begin(),
                                           tables->schema.node_sets().end());
  std::vector<SourceEdgeSetSpec> edge_sets(tables->schema.edge_sets().begin(),
                                           tables->schema.edge_sets().end());
  for (const std::string& reverse : reverses) {
    const std::vector<std::string> parts = absl::StrSplit(reverse, absl::MaxSplits('=', 1));
    if (parts.size() != 2 || parts[0].empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--reverse '", reverse, "': must be NAME=EDGE_SET"));
    }
    const std::optional<size_t> set = tables->schema.EdgeSetIndex(parts[1]);
    if (!set) {
      return absl::InvalidArgumentError(
          absl::StrCat("--reverse '", reverse, "': there is no edge set '", parts[1], "'"));
    }
    SourceEdgeSetSpec& spec = edge_sets.emplace_back();
    spec.name = parts[0];
    spec.source = edge_sets[*set].target;
    spec.target = edge_sets[*set].source;
    spec.reverse_of = *set;
  }
  absl::StatusOr<SourceGraphSchema> schema =
      SourceGraphSchema::Create(std::move(node_sets), std::move(edge_sets));
  if (!schema.ok()) return schema.status();
  tables->schema = *std::move(schema);
  return absl::OkStatus();
}

std::string FingerprintOfFiles(const std::vector<std::string>& paths) {
  Fingerprint fingerprint;
  for (const std::string& path : paths) {
    struct stat file = {};
    stat(path.c_str(), &file);
    fingerprint.Add(std::filesystem::path(path).filename().string());
    fingerprint.Add(static_cast<uint64_t>(file.st_size));
    fingerprint.Add(static_cast<uint64_t>(file.st_mtim.tv_sec));
    fingerprint.Add(static_cast<uint64_t>(file.st_mtim.tv_nsec));
  }
  return fingerprint.Hex();
}

}  // namespace packhouse::client
