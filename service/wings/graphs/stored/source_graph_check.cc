#include "service/wings/graphs/stored/source_graph_check.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/disk_file.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/stored/disk_space.h"
#include "service/wings/graphs/stored/graph_files.h"
#include "service/wings/graphs/stored/graph_list.h"
#include "service/wings/graphs/stored/graph_verification.h"
#include "service/wings/graphs/stored/row_log.h"
#include "service/wings/graphs/stored/source_graph_names.h"

namespace packhouse {
namespace {

bool GoOn(const SourceGraphProgress&) { return true; }

SourceGraphInfo InfoFor(const GraphDefinition& definition, const GraphManifest& manifest) {
  SourceGraphInfo info;
  info.name = definition.name;
  info.schema = definition.schema;
  info.options = definition.options;
  info.state = SourceGraphState::kSealed;
  info.id = definition.id;
  info.num_nodes = manifest.num_nodes;
  info.num_edges = manifest.num_edges;
  info.version = manifest.version;
  return info;
}

bool IsThere(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// Opening a graph cuts off what is behind its last whole record. Nobody can tell whether an append
// was being written there, or was answered and is damaged.
absl::Status CheckTail(const std::string& rows, const GraphDefinition& definition,
                       const DamageVisitor& found) {
  const auto file = DiskFile::Open(rows, DiskFile::Mode::kRead);
  if (absl::IsNotFound(file.status())) return absl::OkStatus();
  PH_RETURN_IF_ERROR(file.status());
  const auto end =
      ScanRowLog(*file, definition.id, [](const RowRecord&) { return absl::OkStatus(); });
  // What is wrong before was found already.
  if (absl::IsDataLoss(end.status())) return absl::OkStatus();
  PH_RETURN_IF_ERROR(end.status());
  PH_ASSIGN_OR_RETURN(const uint64_t bytes, file->Size());
  if (bytes != *end) {
    found({rows, absl::StrCat("bytes ", *end, " to ", bytes), "are no whole record",
           "nothing if the server or the machine ended while they were written; otherwise the "
           "last append"});
  }
  return absl::OkStatus();
}

absl::StatusOr<SourceGraphVerifyReport> VerifyFolder(const std::string& folder,
                                                     const GraphDefinition& definition,
                                                     const DamageVisitor& found) {
  const std::string rows = absl::StrCat(folder, "/", kRowsFile);
  const std::string cost = absl::StrCat("source graph ", Quoted(definition.name));
  const auto manifest = ReadManifest(folder);
  if (absl::IsNotFound(manifest.status())) {
    if (HasLostManifest(folder)) {
      found({absl::StrCat(folder, "/", kManifestFile), "", "is missing", cost});
      return SourceGraphVerifyReport();
    }
    PH_ASSIGN_OR_RETURN(SourceGraphVerifyReport report, VerifyRows(rows, definition, GoOn));
    PH_RETURN_IF_ERROR(CheckTail(rows, definition, found));
    return report;
  }
  PH_RETURN_IF_ERROR(manifest.status());
  if (manifest->id != definition.id ||
      manifest->num_nodes.size() != definition.schema->node_sets().size() ||
      manifest->num_edges.size() != definition.schema->edge_sets().size()) {
    return absl::DataLossError(
        absl::StrCat(folder, "/", kManifestFile, ": is that of another graph"));
  }
  auto store = std::make_shared<DiskSpace>(folder, UINT64_MAX, 0);
  return VerifyArrays(folder, *manifest, InfoFor(definition, *manifest),
                      std::make_shared<GraphSpace>(std::move(store), definition.name, 0), GoOn);
}

// As the store calls it.
std::string NameOf(const std::string& folder, const std::string& known_name) {
  if (const auto definition = ReadDefinition(folder); definition.ok()) return definition->name;
  const auto manifest = ReadManifest(folder);
  return manifest.ok() && !manifest->name.empty() ? manifest->name : known_name;
}

absl::Status CheckGraph(const std::string& folder, const std::string& known_name,
                        const DamageVisitor& found) {
  const auto definition = ReadDefinition(folder);
  if (absl::IsDataLoss(definition.status()) || absl::IsNotFound(definition.status())) {
    found({absl::StrCat(folder, "/", kDefinitionFile), "",
           std::string(definition.status().message()),
           absl::StrCat("source graph ", Quoted(NameOf(folder, known_name)))});
    return absl::OkStatus();
  }
  PH_RETURN_IF_ERROR(definition.status());
  const std::string cost = absl::StrCat("source graph ", Quoted(definition->name));
  const auto report = VerifyFolder(folder, *definition, found);
  if (absl::IsDataLoss(report.status())) {
    found({folder, "", std::string(report.status().message()), cost});
    return absl::OkStatus();
  }
  PH_RETURN_IF_ERROR(report.status());
  TellDamage(folder, cost, *report, found);
  return absl::OkStatus();
}

// The folders of graphs, and what the list calls each; one that is not listed by its own name.
absl::StatusOr<GraphList> GraphFoldersIn(const std::string& folder) {
  const GraphList listed = ReadGraphList(folder).value_or(GraphList());
  GraphList names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!IsSourceGraphFolderName(name)) continue;
    const auto known = listed.find(name);
    names.emplace(name, known == listed.end() ? name : known->second);
  }
  if (error) return DiskStatus(error.value(), "cannot list", folder);
  return names;
}

// Calls `found` for what is listed and missing, or for the list if it is damaged; returns the list
// of what is there.
absl::StatusOr<GraphList> CheckList(const std::string& folder, const DamageVisitor& found) {
  const auto list = ReadGraphList(folder);
  if (absl::IsDataLoss(list.status())) {
    found({absl::StrCat(folder, "/", kGraphListFile), "", std::string(list.status().message()),
           "nothing that is there: packhoused store repair --accept-missing writes it anew"});
    return GraphList();
  }
  PH_RETURN_IF_ERROR(list.status());
  GraphList there;
  for (const auto& [name, graph] : *list) {
    const std::string path = absl::StrCat(folder, "/", name);
    if (IsThere(path)) {
      there.emplace(name, graph);
    } else {
      found({path, "", "is missing", absl::StrCat("source graph ", Quoted(graph))});
    }
  }
  return there;
}

std::string CompanionOf(const std::string& graph) {
  return absl::StrCat(graph, "/", kCompanionFolder);
}

// Calls `found` and returns false if a sealed graph has no companion folder.
bool CheckCompanion(const std::string& graph, const std::string& name, const DamageVisitor& found) {
  const std::string companion = CompanionOf(graph);
  if (IsThere(companion) || !IsThere(absl::StrCat(graph, "/", kManifestFile))) return true;
  found(
      {companion, "", "is missing", absl::StrCat("the partitions of source graph ", Quoted(name))});
  return false;
}

absl::Status WriteList(const std::string& folder, const GraphList& list) {
  return WriteWhole(folder, kGraphListFile, EncodeGraphList(list));
}

}  // namespace

void TellDamage(const std::string& place, const std::string& cost,
                const SourceGraphVerifyReport& report, DamageVisitor found) {
  for (const absl::Status& damage : report.damaged) {
    // Its words begin with the file.
    const absl::string_view message = damage.message();
    const size_t colon = message.find(": ");
    const bool names_file = absl::StartsWith(message, place) && colon != absl::string_view::npos;
    found({std::string(names_file ? message.substr(0, colon) : place), "",
           std::string(names_file ? message.substr(colon + 2) : message), cost});
  }
  if (report.num_damaged > report.damaged.size()) {
    found({place, "", absl::StrCat(report.num_damaged - report.damaged.size(), " more places"),
           cost});
  }
}

absl::Status AcceptMissingSourceGraphs(
    const std::string& folder, DamageVisitor missing,
    absl::FunctionRef<absl::Status(const std::string& graph, const std::string& companion)>
        companion) {
  if (!IsThere(folder)) return absl::OkStatus();
  PH_ASSIGN_OR_RETURN(const DiskFile lock, LockSourceGraphs(folder));
  bool is_missing = false;
  PH_ASSIGN_OR_RETURN(const GraphList there, CheckList(folder, [&](const StoredDamage& damage) {
                        is_missing = true;
                        missing(damage);
                      }));
  if (is_missing) PH_RETURN_IF_ERROR(WriteList(folder, there));
  PH_ASSIGN_OR_RETURN(const GraphList names, GraphFoldersIn(folder));
  for (const auto& [name, known_name] : names) {
    const std::string graph = absl::StrCat(folder, "/", name);
    const std::string graph_name = NameOf(graph, known_name);
    if (!CheckCompanion(graph, graph_name, missing)) {
      PH_RETURN_IF_ERROR(MakeFolder(CompanionOf(graph)));
    }
    PH_RETURN_IF_ERROR(companion(graph_name, CompanionOf(graph)));
  }
  return absl::OkStatus();
}

absl::Status DropDamagedSourceGraph(const std::string& folder, absl::string_view name) {
  if (IsThere(folder)) {
    PH_ASSIGN_OR_RETURN(const DiskFile lock, LockSourceGraphs(folder));
    PH_ASSIGN_OR_RETURN(const GraphList names, GraphFoldersIn(folder));
    for (const auto& [folder_name, known_name] : names) {
      const std::string graph = absl::StrCat(folder, "/", folder_name);
      if (NameOf(graph, known_name) != name) continue;
      bool is_damaged = false;
      PH_RETURN_IF_ERROR(
          CheckGraph(graph, known_name, [&](const StoredDamage&) { is_damaged = true; }));
      if (!is_damaged) {
        return absl::FailedPreconditionError(
            absl::StrCat("source graph ", Quoted(name), " is sound: a server can delete it"));
      }
      PH_ASSIGN_OR_RETURN(GraphList list, ReadGraphList(folder));
      if (list.erase(folder_name) != 0) PH_RETURN_IF_ERROR(WriteList(folder, list));
      // As the store deletes: what is left is removed when it is opened.
      const std::string deleted = absl::StrCat(graph, kDeletedFolder);
      PH_RETURN_IF_ERROR(RenameDurably(graph, deleted));
      return RemoveAll(deleted);
    }
    // One that is missing.
    PH_ASSIGN_OR_RETURN(GraphList list, ReadGraphList(folder));
    const size_t num_dropped =
        std::erase_if(list, [name](const auto& graph) { return graph.second == name; });
    if (num_dropped != 0) return WriteList(folder, list);
  }
  return absl::NotFoundError(absl::StrCat("source graph ", Quoted(name), ": there is none"));
}

absl::StatusOr<uint64_t> CheckSourceGraphFolders(
    const std::string& folder, DamageVisitor found,
    absl::FunctionRef<void(const std::string& graph, const std::string& companion)> companion) {
  if (!IsThere(folder)) return 0;
  PH_ASSIGN_OR_RETURN(const DiskFile lock, LockSourceGraphs(folder));
  PH_ASSIGN_OR_RETURN(const GraphList names, GraphFoldersIn(folder));
  PH_RETURN_IF_ERROR(CheckList(folder, found).status());
  uint64_t num_graphs = 0;
  std::map<std::string, std::string> folders;  // By the names of graphs.
  for (const auto& [name, known_name] : names) {
    ++num_graphs;
    const std::string graph = absl::StrCat(folder, "/", name);
    PH_RETURN_IF_ERROR(CheckGraph(graph, known_name, found));
    const std::string graph_name = NameOf(graph, known_name);
    const auto [first, is_new] = folders.emplace(graph_name, name);
    if (!is_new) {
      found({graph, "", absl::StrCat("has a source graph of the same name as ", first->second),
             absl::StrCat("no server starts before one of the two, of source graph ",
                          Quoted(graph_name), ", is moved away")});
    }
    CheckCompanion(graph, graph_name, found);
    companion(graph_name, CompanionOf(graph));
  }
  return num_graphs;
}

}  // namespace packhouse
