#include "service/program/wings/graphs_in_folder.h"

#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <utility>

#include "service/base/status_macros.h"
#include "service/program/data_folder/graph_names.h"
#include "service/wings/graphs/stored/graph_files.h"
#include "service/wings/graphs/stored/source_graph_check.h"

namespace packhouse {
namespace {

static_assert(absl::string_view(kSealedGraphFile) == kManifestFile);
static_assert(absl::string_view(kGraphCompanions) == kCompanionFolder);

void TellUnchecked(const std::string& graph, const std::string& companion) {
  std::error_code error;
  if (!std::filesystem::exists(companion, error) || std::filesystem::is_empty(companion, error)) {
    return;
  }
  std::cerr << companion << ": what is kept beside source graph '" << graph
            << "' is not checked: this packhoused was built without the wing that wrote it\n";
}

}  // namespace

OpenedGraphs OpenedGraphsIn(std::shared_ptr<const FileSourceGraphStore> store) {
  OpenedGraphs graphs;
  graphs.num_bytes = [store] { return store->counts().num_bytes; };
  graphs.link_all = [store]() -> absl::StatusOr<OpenedGraphs::CopyFiles> {
    PH_ASSIGN_OR_RETURN(LinkedGraphs linked, store->LinkAll());
    return [linked = std::make_shared<const LinkedGraphs>(std::move(linked))](
               OpenedGraphs::CopyFile copy) -> absl::Status {
      for (const LinkedFile& file : linked->files()) {
        PH_RETURN_IF_ERROR(copy(file.path, file.link, file.num_bytes));
      }
      return absl::OkStatus();
    };
  };
  return graphs;
}

GraphFolder GraphsInFolder(const CompanionChecks& companions) {
  GraphFolder graphs;
  graphs.open = [](const std::string& folder) -> absl::StatusOr<OpenedGraphs> {
    FileSourceGraphStore::Options options;
    options.folder = folder;
    PH_ASSIGN_OR_RETURN(auto store, FileSourceGraphStore::Open(options));
    return OpenedGraphsIn(std::move(store));
  };
  graphs.check = [check = companions.check](const std::string& folder, DamageVisitor found) {
    return CheckSourceGraphFolders(folder, found,
                                   [&](const std::string& graph, const std::string& companion) {
                                     if (!check) return TellUnchecked(graph, companion);
                                     check(graph, companion, found);
                                   });
  };
  graphs.accept_missing = [accept = companions.accept_missing](const std::string& folder,
                                                               DamageVisitor missing) {
    return AcceptMissingSourceGraphs(
        folder, missing, [&](const std::string& graph, const std::string& companion) {
          return accept ? accept(graph, companion, missing) : absl::OkStatus();
        });
  };
  graphs.drop = DropDamagedSourceGraph;
  return graphs;
}

}  // namespace packhouse
