#include "client/cli/source_graphs/ogb_tables.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/source_graphs/text_columns.h"
#include "service/base/file_name.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse::client {
namespace {

namespace fs = std::filesystem;

// `name` or `name.gz`, whichever is there.
std::optional<std::string> FileNamed(const fs::path& folder, const std::string& name) {
  std::error_code error;
  for (const char* ending : {".csv.gz", ".csv"}) {
    const fs::path path = folder / (name + ending);
    if (fs::exists(path, error)) return path.string();
  }
  return std::nullopt;
}

absl::StatusOr<std::string> NeedFile(const fs::path& folder, const std::string& name) {
  const std::optional<std::string> path = FileNamed(folder, name);
  if (path) return *path;
  return absl::NotFoundError(absl::StrCat((folder / name).string(), ".csv.gz: is not there"));
}

// A count that stands alone in a file.
absl::StatusOr<uint64_t> ReadCount(const std::string& path) {
  PH_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, ReadNumbers(path));
  if (numbers.size() != 1 || numbers[0] < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has ", numbers.size(), " numbers, one count is needed"));
  }
  return static_cast<uint64_t>(numbers[0]);
}

// Whether every field of a file is a whole number. Labels of one kind of data set are classes, of
// another they are measured, or missing.
absl::StatusOr<bool> HasWholeNumbers(const std::string& path) {
  PH_ASSIGN_OR_RETURN(const std::unique_ptr<CsvFile> file, CsvFile::Open(path));
  while (true) {
    PH_ASSIGN_OR_RETURN(const bool has_record, file->Next());
    if (!has_record) return true;
    for (const absl::string_view field : file->fields()) {
      int64_t value;
      if (!absl::SimpleAtoi(field, &value)) return false;
    }
  }
}

// Finds the columns of a set and remembers their files.
class OgbFolder {
 public:
  // Adds the column if its file is there.
  absl::Status AddColumn(const fs::path& folder, const std::string& file, const std::string& name,
                         std::vector<RowColumn>* columns) {
    const std::optional<std::string> path = FileNamed(folder, file);
    if (!path) return absl::OkStatus();
    paths_.push_back(*path);
    RowColumn column;
    column.spec.name = name;
    column.texts.paths = {*path};
    PH_ASSIGN_OR_RETURN(const size_t fields, CountFields(column.texts));
    if (fields == 0) return absl::OkStatus();
    column.spec.row_shape = {static_cast<uint32_t>(fields)};
    if (name != "feat") {
      PH_ASSIGN_OR_RETURN(const bool is_whole, HasWholeNumbers(*path));
      if (is_whole) column.spec.dtype = DType::kInt64;
      column.has_gaps = !is_whole;
    }
    columns->push_back(std::move(column));
    return absl::OkStatus();
  }

  absl::StatusOr<PairedEdges> Edges(const fs::path& folder) {
    PairedEdges edges;
    PH_ASSIGN_OR_RETURN(const std::string path, NeedFile(folder, "edge"));
    PH_ASSIGN_OR_RETURN(const std::string count, NeedFile(folder, "num-edge-list"));
    PH_ASSIGN_OR_RETURN(edges.num_edges, ReadCount(count));
    paths_.push_back(path);
    edges.files.paths = {path};
    PH_RETURN_IF_ERROR(AddColumn(folder, "edge-feat", "feat", &edges.columns));
    return edges;
  }

  std::string fingerprint() const { return FingerprintOfFiles(paths_); }

 private:
  std::vector<std::string> paths_;
};

std::vector<SourceColumnSpec> SpecsOf(const std::vector<RowColumn>& columns) {
  std::vector<SourceColumnSpec> specs;
  specs.reserve(columns.size());
  for (const RowColumn& column : columns) specs.push_back(column.spec);
  return specs;
}

struct Counted {
  std::string name;
  uint64_t count = 0;
};

// Names are those of folders, too.
absl::Status CheckOgbName(const std::string& path, size_t line, size_t field,
                          const std::string& name) {
  if (IsPathBelow(name) && name.find('/') == std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": line ", line, ": field ", field, ": ",
                                                 Quoted(name), " cannot be the name of a folder"));
}

// The names and counts of num-node-dict.csv.gz.
absl::StatusOr<std::vector<Counted>> ReadNodeSets(const std::string& path) {
  PH_ASSIGN_OR_RETURN(const auto records, ReadRecords(path));
  if (records.size() != 2 || records[0].size() != records[1].size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": must be a line of names, and a line of as many counts"));
  }
  std::vector<Counted> sets;
  for (size_t i = 0; i < records[0].size(); ++i) {
    uint64_t count = 0;
    if (!absl::SimpleAtoi(records[1][i], &count)) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": line 2: field ", i + 1, ": ",
                                                     Quoted(records[1][i]), " is no count"));
    }
    PH_RETURN_IF_ERROR(CheckOgbName(path, 1, i + 1, records[0][i]));
    sets.push_back({records[0][i], count});
  }
  return sets;
}

absl::StatusOr<SourceTables> OpenOneKind(const fs::path& raw) {
  OgbFolder folder;
  PH_ASSIGN_OR_RETURN(const std::string count_path, NeedFile(raw, "num-node-list"));
  PH_ASSIGN_OR_RETURN(const uint64_t num_nodes, ReadCount(count_path));
  std::vector<RowColumn> columns;
  PH_RETURN_IF_ERROR(folder.AddColumn(raw, "node-feat", "feat", &columns));
  PH_RETURN_IF_ERROR(folder.AddColumn(raw, "node-label", "labels", &columns));
  PH_RETURN_IF_ERROR(folder.AddColumn(raw, "node_year", "year", &columns));
  PH_ASSIGN_OR_RETURN(PairedEdges edges, folder.Edges(raw));
  edges.num_sources = edges.num_targets = num_nodes;
  PH_ASSIGN_OR_RETURN(SourceGraphSchema schema,
                      SourceGraphSchema::Create({{"nodes", SpecsOf(columns)}},
                                                {{"edges", 0, 0, SpecsOf(edges.columns), {}}}));
  std::vector<OpenTable> tables;
  tables.push_back(ReadNumberedNodes(0, num_nodes, std::move(columns)));
  tables.push_back(ReadPairedEdges(std::move(edges)));
  return SourceTables{std::move(schema), /*has_text_ids=*/false, std::move(tables),
                      folder.fingerprint()};
}

absl::StatusOr<SourceTables> OpenSeveralKinds(const fs::path& raw, const std::string& dict) {
  OgbFolder folder;
  PH_ASSIGN_OR_RETURN(const std::vector<Counted> sets, ReadNodeSets(dict));
  std::vector<SourceNodeSetSpec> node_sets;
  std::vector<OpenTable> tables;
  for (const Counted& set : sets) {
    std::vector<RowColumn> columns;
    const fs::path feat = raw / "node-feat" / set.name;
    PH_RETURN_IF_ERROR(folder.AddColumn(feat, "node-feat", "feat", &columns));
    PH_RETURN_IF_ERROR(
        folder.AddColumn(raw / "node-label" / set.name, "node-label", "labels", &columns));
    PH_RETURN_IF_ERROR(folder.AddColumn(feat, "node_year", "year", &columns));
    node_sets.push_back({set.name, SpecsOf(columns)});
    tables.push_back(ReadNumberedNodes(node_sets.size() - 1, set.count, std::move(columns)));
  }
  PH_ASSIGN_OR_RETURN(const std::string triplets_path, NeedFile(raw, "triplet-type-list"));
  PH_ASSIGN_OR_RETURN(const auto triplets, ReadRecords(triplets_path));
  std::vector<SourceEdgeSetSpec> edge_sets;
  for (const std::vector<std::string>& triplet : triplets) {
    if (triplet.size() != 3) {
      return absl::InvalidArgumentError(absl::StrCat(triplets_path, ": line ", edge_sets.size() + 1,
                                                     ": must be source,relation,target"));
    }
    for (size_t field = 0; field < triplet.size(); ++field) {
      PH_RETURN_IF_ERROR(
          CheckOgbName(triplets_path, edge_sets.size() + 1, field + 1, triplet[field]));
    }
    const fs::path of_set =
        raw / "relations" / absl::StrCat(triplet[0], "___", triplet[1], "___", triplet[2]);
    PH_ASSIGN_OR_RETURN(PairedEdges edges, folder.Edges(of_set));
    SourceEdgeSetSpec spec;
    spec.name = triplet[1];
    for (const SourceEdgeSetSpec& other : edge_sets) {
      if (other.name == spec.name) {
        spec.name = absl::StrCat(triplet[0], ".", triplet[1], ".", triplet[2]);
      }
    }
    for (const size_t end : {size_t{0}, size_t{2}}) {
      const auto set = std::find_if(sets.begin(), sets.end(),
                                    [&](const Counted& s) { return s.name == triplet[end]; });
      if (set == sets.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat(triplets_path, ": line ", edge_sets.size() + 1, ": field ", end + 1, ": ",
                         Quoted(triplet[end]), " is no node set"));
      }
      (end == 0 ? spec.source : spec.target) = static_cast<size_t>(set - sets.begin());
      (end == 0 ? edges.num_sources : edges.num_targets) = set->count;
    }
    edges.set = edge_sets.size();
    spec.columns = SpecsOf(edges.columns);
    edge_sets.push_back(std::move(spec));
    tables.push_back(ReadPairedEdges(std::move(edges)));
  }
  PH_ASSIGN_OR_RETURN(SourceGraphSchema schema,
                      SourceGraphSchema::Create(std::move(node_sets), std::move(edge_sets)));
  return SourceTables{std::move(schema), /*has_text_ids=*/false, std::move(tables),
                      folder.fingerprint()};
}

}  // namespace

absl::StatusOr<SourceTables> OpenOgbTables(const std::string& folder) {
  const fs::path raw = fs::path(folder) / "raw";
  const std::optional<std::string> dict = FileNamed(raw, "num-node-dict");
  return dict ? OpenSeveralKinds(raw, *dict) : OpenOneKind(raw);
}

absl::StatusOr<std::vector<OgbSplit>> ReadOgbSplits(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> splits;
  for (const auto& entry : fs::directory_iterator(fs::path(folder) / "split", error)) {
    if (entry.is_directory()) splits.push_back(entry.path());
  }
  std::vector<OgbSplit> parts;
  if (splits.empty()) return parts;
  const fs::path first = *std::min_element(splits.begin(), splits.end());
  // Folders of node sets; the split's own is that of the one node set.
  std::vector<std::pair<std::string, fs::path>> sets = {{"nodes", first}};
  for (const auto& entry : fs::directory_iterator(first, error)) {
    if (entry.is_directory()) sets.emplace_back(entry.path().filename().string(), entry.path());
  }
  std::sort(sets.begin(), sets.end());
  for (const auto& [set, path] : sets) {
    for (const char* part : {"train", "valid", "test"}) {
      const std::optional<std::string> file = FileNamed(path, part);
      if (!file) continue;
      PH_ASSIGN_OR_RETURN(std::vector<int64_t> nodes, ReadNumbers(*file));
      parts.push_back({part, set, std::move(nodes)});
    }
  }
  return parts;
}

}  // namespace packhouse::client
