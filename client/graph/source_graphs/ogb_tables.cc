#include "client/graph/source_graphs/ogb_tables.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "client/graph/files/fingerprint.h"
#include "client/graph/source_graphs/ogb_facts.h"
#include "client/graph/source_graphs/text_columns.h"
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

absl::Status HasManyGraphs(const std::string& path, uint64_t graphs) {
  return absl::UnimplementedError(absl::StrCat(
      path, ": the data set has ", graphs,
      " graphs, and a source graph is one large graph: load it in Python, as "
      "ogb.graphproppred.PygGraphPropPredDataset does, and give it to packhouse.pyg.ingest"));
}

// A count that stands alone in a file.
absl::StatusOr<uint64_t> ReadCount(const std::string& path) {
  PH_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, ReadNumbers(path));
  if (numbers.size() > 1) return HasManyGraphs(path, numbers.size());
  if (numbers.size() != 1 || numbers[0] < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has ", numbers.size(), " numbers, one count is needed"));
  }
  return static_cast<uint64_t>(numbers[0]);
}

// `node_year` of `node_year.csv.gz`; empty if the file has another ending.
std::string StemOfCsv(const fs::path& path) {
  std::string name = path.filename().string();
  for (const char* ending : {".csv.gz", ".csv"}) {
    if (absl::EndsWith(name, ending)) return name.substr(0, name.size() - strlen(ending));
  }
  return "";
}

// Finds the columns of sets, and remembers which files are read.
class OgbFolder {
 public:
  OgbFolder(fs::path raw, OgbFacts facts) : raw_(std::move(raw)), facts_(std::move(facts)) {}

  const OgbFacts& facts() const { return facts_; }

  // The path of a file that is there, which counts as read.
  absl::StatusOr<std::string> Need(const fs::path& folder, const std::string& name) {
    PH_ASSIGN_OR_RETURN(std::string path, NeedFile(folder, name));
    known_.insert(path);
    return path;
  }

  // Adds the column if its file is there.
  absl::Status AddColumn(const fs::path& folder, const std::string& file, const std::string& name,
                         std::vector<RowColumn>* columns) {
    const std::optional<std::string> path = FileNamed(folder, file);
    if (!path) return absl::OkStatus();
    paths_.push_back(*path);
    known_.insert(*path);
    RowColumn column;
    column.spec.name = name;
    column.texts.paths = {*path};
    PH_ASSIGN_OR_RETURN(const TextKind kind, KindOfTexts(column.texts));
    column.spec.row_shape = {static_cast<uint32_t>(std::max<size_t>(kind.fields, 1))};
    if (kind.is_whole) column.spec.dtype = DType::kInt64;
    column.has_gaps = !kind.is_whole;
    columns->push_back(std::move(column));
    return absl::OkStatus();
  }

  // Adds a column NAME for each file `node_NAME` or `edge_NAME`, as `prefix` says.
  absl::Status AddFurtherColumns(const fs::path& folder, const std::string& prefix,
                                 std::vector<RowColumn>* columns) {
    std::set<std::string> names;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      const std::string stem = StemOfCsv(entry.path());
      if (absl::StartsWith(stem, prefix) && stem.size() > prefix.size()) names.insert(stem);
    }
    // OGB's loader renames it.
    if (prefix == "node_" && !names.contains("node_species")) {
      PH_RETURN_IF_ERROR(AddColumn(folder, "species", "species", columns));
    }
    for (const std::string& stem : names) {
      PH_RETURN_IF_ERROR(AddColumn(folder, stem, stem.substr(prefix.size()), columns));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<PairedEdges> Edges(const fs::path& folder) {
    PairedEdges edges;
    PH_ASSIGN_OR_RETURN(const std::string path, Need(folder, "edge"));
    PH_ASSIGN_OR_RETURN(const std::string count, Need(folder, "num-edge-list"));
    PH_ASSIGN_OR_RETURN(edges.num_edges, ReadCount(count));
    paths_.push_back(path);
    edges.files.paths = {path};
    edges.has_inverses = facts_.has_inverse_edges;
    PH_RETURN_IF_ERROR(AddColumn(folder, "edge-feat", "feat", &edges.columns));
    PH_RETURN_IF_ERROR(AddFurtherColumns(folder, "edge_", &edges.columns));
    return edges;
  }

  // Whether all files are there that the data set's loader needs.
  absl::Status CheckNeeded() const {
    for (const std::string& name : facts_.needed_files) {
      const bool is_renamed = name == "node_species" && FileNamed(raw_, "species");
      if (!is_renamed) PH_RETURN_IF_ERROR(NeedFile(raw_, name).status());
    }
    return absl::OkStatus();
  }

  // Of those files, where there are several kinds: one that no kind has.
  void NoteAbsent() {
    for (const std::string& name : facts_.needed_files) {
      const bool is_read = std::any_of(known_.begin(), known_.end(), [&](const std::string& path) {
        return StemOfCsv(fs::path(path)) == name;
      });
      if (is_read) continue;
      notes_.push_back(absl::StrCat(raw_.string(), ": ", facts_.name, " has files ", name,
                                    ".csv.gz, and here there is none"));
    }
  }

  std::string fingerprint() const {
    Fingerprint fingerprint;
    fingerprint.Add(FingerprintOfFiles(paths_));
    fingerprint.Add(uint64_t{facts_.has_inverse_edges});
    return fingerprint.Hex();
  }

  std::vector<std::string> Notes() const {
    std::vector<std::string> notes = notes_;
    if (facts_.has_inverse_edges) {
      notes.push_back(absl::StrCat(facts_.name,
                                   " has each edge once in its files: the same edge the other way "
                                   "was added to each, as OGB's loader does"));
    }
    std::set<std::string> unread;
    std::error_code error;
    for (const auto& entry : fs::recursive_directory_iterator(raw_, error)) {
      // They say what else is there.
      const std::string stem = StemOfCsv(entry.path());
      const bool is_list = stem == "nodetype-has-feat" || stem == "nodetype-has-label";
      if (!entry.is_directory() && !is_list && !known_.contains(entry.path().string())) {
        unread.insert(entry.path().string());
      }
    }
    for (const std::string& path : unread) notes.push_back(absl::StrCat(path, " is not read"));
    return notes;
  }

 private:
  const fs::path raw_;
  const OgbFacts facts_;
  // Of rows.
  std::vector<std::string> paths_;
  std::set<std::string> known_;
  std::vector<std::string> notes_;
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
  if (records.size() > 2) return HasManyGraphs(path, records.size() - 1);
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

absl::StatusOr<SourceTables> OpenOneKind(const fs::path& raw, OgbFolder& folder) {
  PH_ASSIGN_OR_RETURN(const std::string count_path, folder.Need(raw, "num-node-list"));
  PH_ASSIGN_OR_RETURN(const uint64_t num_nodes, ReadCount(count_path));
  std::vector<RowColumn> columns;
  PH_RETURN_IF_ERROR(folder.AddColumn(raw, "node-feat", "feat", &columns));
  PH_RETURN_IF_ERROR(folder.AddColumn(raw, "node-label", "labels", &columns));
  PH_RETURN_IF_ERROR(folder.AddFurtherColumns(raw, "node_", &columns));
  PH_RETURN_IF_ERROR(folder.CheckNeeded());
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

absl::StatusOr<SourceTables> OpenSeveralKinds(const fs::path& raw, OgbFolder& folder) {
  PH_ASSIGN_OR_RETURN(const std::string dict, folder.Need(raw, "num-node-dict"));
  PH_ASSIGN_OR_RETURN(const std::vector<Counted> sets, ReadNodeSets(dict));
  std::vector<SourceNodeSetSpec> node_sets;
  std::vector<OpenTable> tables;
  for (const Counted& set : sets) {
    std::vector<RowColumn> columns;
    const fs::path feat = raw / "node-feat" / set.name;
    PH_RETURN_IF_ERROR(folder.AddColumn(feat, "node-feat", "feat", &columns));
    PH_RETURN_IF_ERROR(
        folder.AddColumn(raw / "node-label" / set.name, "node-label", "labels", &columns));
    PH_RETURN_IF_ERROR(folder.AddFurtherColumns(feat, "node_", &columns));
    node_sets.push_back({set.name, SpecsOf(columns)});
    tables.push_back(ReadNumberedNodes(node_sets.size() - 1, set.count, std::move(columns)));
  }
  PH_ASSIGN_OR_RETURN(const std::string triplets_path, folder.Need(raw, "triplet-type-list"));
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
  folder.NoteAbsent();
  PH_ASSIGN_OR_RETURN(SourceGraphSchema schema,
                      SourceGraphSchema::Create(std::move(node_sets), std::move(edge_sets)));
  return SourceTables{std::move(schema), /*has_text_ids=*/false, std::move(tables),
                      folder.fingerprint()};
}

}  // namespace

absl::StatusOr<SourceTables> OpenOgbTables(const std::string& folder, const std::string& name) {
  const fs::path raw = fs::path(folder) / "raw";
  std::error_code error;
  const fs::path arrays = raw / "data.npz";
  if (fs::exists(arrays, error)) {
    return absl::UnimplementedError(absl::StrCat(
        arrays.string(),
        ": OGB's arrays are not read; in Python, numpy.load() gives them, and numpy.save() writes "
        "a folder that `packhouse graph import` takes: nodes/nodes/feat.npy of node_feat, "
        "edges/edges/edge_index.npy of edge_index, and so on"));
  }
  PH_ASSIGN_OR_RETURN(OgbFacts facts, OgbFactsOf(folder, name));
  OgbFolder files(raw, std::move(facts));
  const bool has_kinds = FileNamed(raw, "num-node-dict").has_value();
  absl::StatusOr<SourceTables> tables =
      has_kinds ? OpenSeveralKinds(raw, files) : OpenOneKind(raw, files);
  if (tables.ok()) tables->notes = files.Notes();
  return tables;
}

absl::StatusOr<OgbSplits> ReadOgbSplits(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> splits;
  for (const auto& entry : fs::directory_iterator(fs::path(folder) / "split", error)) {
    if (entry.is_directory()) splits.push_back(entry.path());
  }
  OgbSplits found;
  if (splits.empty()) return found;
  std::sort(splits.begin(), splits.end());
  const fs::path first = splits.front();
  for (const fs::path& other : absl::MakeConstSpan(splits).subspan(1)) {
    found.notes.push_back(
        absl::StrCat(other.string(), " is not read: the seeds are those of ", first.string()));
  }
  // Folders of node sets; the split's own is that of the one node set.
  std::vector<std::pair<std::string, fs::path>> sets = {{"nodes", first}};
  for (const auto& entry : fs::directory_iterator(first, error)) {
    if (entry.is_directory()) sets.emplace_back(entry.path().filename().string(), entry.path());
  }
  std::sort(sets.begin(), sets.end());
  std::set<std::string> read;
  for (const auto& [set, path] : sets) {
    for (const char* part : {"train", "valid", "test"}) {
      const std::optional<std::string> file = FileNamed(path, part);
      if (!file) continue;
      read.insert(*file);
      PH_ASSIGN_OR_RETURN(std::vector<int64_t> nodes, ReadNumbers(*file));
      found.parts.push_back({part, set, std::move(nodes)});
    }
  }
  std::set<std::string> unread;
  for (const auto& entry : fs::recursive_directory_iterator(first, error)) {
    // It says which kinds of nodes have a folder.
    const bool is_list = StemOfCsv(entry.path()) == "nodetype-has-split";
    if (!entry.is_directory() && !is_list && !read.contains(entry.path().string())) {
      unread.insert(entry.path().string());
    }
  }
  for (const std::string& path : unread) {
    const bool is_torch = absl::EndsWith(path, ".pt");
    found.notes.push_back(absl::StrCat(
        path, " is not read", is_torch ? ": in Python, torch.load() gives what it has" : ""));
  }
  return found;
}

}  // namespace packhouse::client
