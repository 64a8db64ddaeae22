#include "service/wings/graphs/stored/graph_sealer.h"

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "service/base/disk_file.h"
#include "service/base/memory_budget.h"
#include "service/base/out_of_memory.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/stored/logged_rows.h"
#include "service/wings/graphs/stored/seal_edges.h"
#include "service/wings/graphs/stored/seal_nodes.h"
#include "service/wings/graphs/stored/seal_task.h"

namespace packhouse {
namespace {

// Blocks of the arrays that are written at the same time, and of lists of places.
constexpr uint64_t kBufferBytes = uint64_t{16} << 20;

uint64_t NewVersion() {
  std::random_device device;
  uint64_t version = 0;
  while (version == 0) version = uint64_t{device()} << 32 | device();
  return version;
}

// An upper bound of the units that the steps count, unless edges make nodes.
uint64_t WorkOf(const GraphDefinition& definition, const LoggedRows& rows) {
  uint64_t units = 1;
  for (size_t n = 0; n < definition.schema->node_sets().size(); ++n) {
    units += LoggedRows::CountRows(rows.nodes(n)) *
             (3 + definition.schema->node_sets()[n].columns.size());
  }
  for (size_t e = 0; e < definition.schema->edge_sets().size(); ++e) {
    const bool both =
        definition.options.edge_sets[e].by_source && definition.options.edge_sets[e].by_target;
    units += LoggedRows::CountRows(rows.edges(e)) *
             ((both ? 6 : 5) + definition.schema->edge_sets()[e].columns.size());
  }
  return units;
}

absl::StatusOr<GraphManifest> Seal(const GraphDefinition& definition, const std::string& folder,
                                   GraphSpace* space, const SealOptions& options,
                                   SealWork::Progress progress) {
  MemoryHold hold;
  if (options.memory != nullptr) {
    PH_ASSIGN_OR_RETURN(
        hold, options.memory->Hold("sealing a source graph", options.memory_bytes + kBufferBytes));
  }
  SealWork work(1, progress);
  PH_ASSIGN_OR_RETURN(const LoggedRows rows, LoggedRows::Open(absl::StrCat(folder, "/", kRowsFile),
                                                              definition, options.memory, work));
  work.AddTotal(WorkOf(definition, rows));
  SealTask task;
  task.definition = &definition;
  task.rows = &rows;
  task.folder = absl::StrCat(folder, "/", kArraysFolder);
  task.space = space;
  task.memory_bytes = options.memory_bytes;
  task.duplicates = options.duplicates;
  task.work = &work;
  GraphManifest manifest;
  manifest.name = definition.name;
  manifest.id = definition.id;
  manifest.version = NewVersion();
  for (size_t n = 0; n < definition.schema->node_sets().size(); ++n) {
    PH_ASSIGN_OR_RETURN(const uint64_t num_nodes, SealNodes(task, n));
    manifest.num_nodes.push_back(num_nodes);
  }
  for (size_t e = 0; e < definition.schema->edge_sets().size(); ++e) {
    if (definition.schema->edge_sets()[e].reverse_of) {
      manifest.num_edges.push_back(0);
      continue;
    }
    PH_ASSIGN_OR_RETURN(const uint64_t num_edges, SealEdges(task, e, manifest.num_nodes));
    manifest.num_edges.push_back(num_edges);
  }
  for (size_t e = 0; e < definition.schema->edge_sets().size(); ++e) {
    if (const auto& of = definition.schema->edge_sets()[e].reverse_of) {
      manifest.num_edges[e] = manifest.num_edges[*of];
    }
  }
  PH_RETURN_IF_ERROR(SyncFolder(task.folder));
  manifest.arrays = std::move(task.arrays);
  return manifest;
}

}  // namespace

absl::StatusOr<GraphManifest> SealGraph(const GraphDefinition& definition,
                                        const std::string& folder, GraphSpace* space,
                                        const SealOptions& options, SealWork::Progress progress) {
  const std::string arrays = absl::StrCat(folder, "/", kArraysFolder);
  PH_RETURN_IF_ERROR(RemoveAll(arrays));
  PH_RETURN_IF_ERROR(MakeFolder(arrays));
  const uint64_t before = space->used();
  // Also if an allocation fails. What remains is removed when the graph is sealed again, or the
  // store is opened.
  absl::Cleanup undo = [&] {
    HasMemoryFor([&] { RemoveAll(arrays).IgnoreError(); });
    space->Give(space->used() - before);
  };
  auto manifest = Seal(definition, folder, space, options, progress);
  if (manifest.ok()) std::move(undo).Cancel();
  return manifest;
}

}  // namespace packhouse
