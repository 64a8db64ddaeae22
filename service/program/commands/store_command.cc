#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/base/command_line/json.h"
#include "service/base/command_line/table.h"
#include "service/base/status_macros.h"
#include "service/base/stored_damage.h"
#include "service/program/commands/subcommands.h"
#include "service/program/data_folder/graph_folder.h"
#include "service/program/data_folder/maintenance.h"
#include "service/program/data_folder/snapshot.h"

namespace packhouse {
namespace {

struct StoreArguments {
  std::string folder;
  std::string snapshot;
  bool json = false;
  RepairOptions repair;
  GraphFolder graphs;
  std::vector<std::string> dropped_graphs;
  SharedCheck check_shared;
  SharedRepair repair_shared;
  SharedSnapshot snapshot_shared;
  SharedSnapshot restore_shared;
};

// Otherwise of a store that a wing knows.
bool IsFolder(const std::string& store) { return !absl::StrContains(store, "://"); }

bool IsSnapshot(const std::string& folder) {
  std::error_code error;
  return std::filesystem::exists(folder + "/" + kSnapshotManifest, error);
}

void Print(const StoredDamage& damage) {
  std::cout << damage.file << (damage.place.empty() ? "" : ", ") << damage.place << ": "
            << damage.what << "\n  costs " << damage.cost << '\n';
}

Json DamageJson(const StoredDamage& damage) {
  return {
      {"file", damage.file}, {"place", damage.place}, {"what", damage.what}, {"cost", damage.cost}};
}

absl::StatusOr<StoredCounts> CheckStore(const StoreArguments& arguments, DamageVisitor found) {
  StoredCounts counts;
  if (IsFolder(arguments.folder)) {
    PH_ASSIGN_OR_RETURN(counts, CheckDataFolder(arguments.folder, found, arguments.graphs));
    if (!arguments.graphs.check) {
      const absl::Status all_checked = CheckHasNoGraphs(arguments.folder, arguments.graphs.why_not);
      if (!all_checked.ok()) std::cerr << all_checked.message() << '\n';
    }
  }
  if (arguments.check_shared) {
    PH_RETURN_IF_ERROR(arguments.check_shared(arguments.folder, found, counts));
  }
  return counts;
}

ExitCode RunCheck(const StoreArguments& arguments) {
  uint64_t num_damages = 0;
  Json damages = Json::array();
  const auto found = [&](const StoredDamage& damage) {
    ++num_damages;
    if (arguments.json) {
      damages.push_back(DamageJson(damage));
    } else {
      Print(damage);
    }
  };
  Json counts;
  std::string words;
  if (IsSnapshot(arguments.folder)) {
    const auto manifest = CheckSnapshot(arguments.folder, found);
    if (!manifest.ok()) return Fail(manifest.status());
    if (arguments.check_shared) {
      StoredCounts of_shared;
      const absl::Status shared = arguments.check_shared(arguments.folder, found, of_shared);
      if (!shared.ok()) return Fail(shared);
    }
    counts = {{"files", manifest->files.size()}, {"taken", manifest->taken}};
    words = absl::StrCat("a snapshot of ", manifest->taken, ", ", Grouped(manifest->files.size()),
                         " files");
  } else {
    const auto checked = CheckStore(arguments, found);
    if (!checked.ok()) return Fail(checked.status());
    counts = {{"datasets", checked->num_datasets},
              {"ledger_records", checked->num_ledger_records},
              {"source_graphs", checked->num_source_graphs},
              {"histograms", checked->num_histograms}};
    words = absl::StrCat(Grouped(checked->num_datasets), " data sets, ",
                         Grouped(checked->num_ledger_records), " records of the ledger, ",
                         Grouped(checked->num_source_graphs), " source graphs, ",
                         Grouped(checked->num_histograms), " named histograms");
    if (!IsFolder(arguments.folder)) {
      counts["unnamed_objects"] = checked->num_unnamed_objects;
      counts["unnamed_bytes"] = checked->num_unnamed_bytes;
      absl::StrAppend(&words, ", ", Grouped(checked->num_unnamed_objects), " objects of ",
                      Grouped(checked->num_unnamed_bytes),
                      " bytes that nothing names, for the servers to sweep");
    }
  }
  if (arguments.json) {
    counts["damages"] = damages;
    std::cout << JsonText(counts);
  } else {
    std::cout << arguments.folder << ": " << words << ", "
              << (num_damages == 0 ? "sound" : absl::StrCat(Grouped(num_damages), " damages"))
              << '\n';
  }
  return num_damages == 0 ? kExitOk : kExitFailure;
}

// What was done before an error is in the report, too.
absl::Status Repair(const StoreArguments& arguments, RepairReport& report) {
  if (IsFolder(arguments.folder)) {
    for (const std::string& graph : arguments.dropped_graphs) {
      PH_RETURN_IF_ERROR(DropDamagedGraph(arguments.folder, arguments.graphs, graph));
      std::cout << "dropped: source graph '" << graph << "', with its partitions\n";
    }
    PH_ASSIGN_OR_RETURN(report,
                        RepairDataFolder(arguments.folder, arguments.repair, arguments.graphs));
  } else if (!arguments.dropped_graphs.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--drop-source-graph: is for folders, not for ", arguments.folder));
  }
  if (arguments.repair_shared) {
    PH_RETURN_IF_ERROR(arguments.repair_shared(arguments.folder, arguments.repair, report));
  }
  return absl::OkStatus();
}

ExitCode RunRepair(const StoreArguments& arguments) {
  RepairReport report;
  const absl::Status repaired = Repair(arguments, report);
  for (const std::string& done : report.done) std::cout << done << '\n';
  for (const std::string& job : report.lost_jobs) {
    std::cout << "lost: job '" << job << "'; its trainers begin anew, or go on from a cursor\n";
  }
  if (!repaired.ok()) return Fail(repaired);
  std::cout << arguments.folder << ": "
            << (report.is_changed ? "repaired"
                                  : "nothing to repair in the ledger, and nothing is missing")
            << '\n';
  return kExitOk;
}

ExitCode RunCompact(const StoreArguments& arguments) {
  const auto stores = CompactDataFolder(arguments.folder);
  if (!stores.ok()) return Fail(stores.status());
  for (const CompactedStore& store : *stores) {
    std::cout << store.folder << ": " << Grouped(store.bytes_before) << " bytes, now "
              << Grouped(store.bytes_after) << '\n';
  }
  return kExitOk;
}

ExitCode RunSnapshot(const StoreArguments& arguments) {
  // A line that is written over, where somebody looks at it.
  const bool is_watched = ::isatty(STDERR_FILENO) != 0;
  uint64_t shown = UINT64_MAX;
  const auto progress = [&](const SnapshotReport& now) {
    if (is_watched && now.num_bytes >> 26 != shown) {
      shown = now.num_bytes >> 26;
      std::cerr << '\r' << Grouped(now.num_bytes >> 20) << " of about "
                << Grouped(now.total_bytes >> 20) << " MiB " << std::flush;
    }
    return true;
  };
  const auto taken = [&]() -> absl::StatusOr<SnapshotReport> {
    if (arguments.snapshot_shared) {
      PH_ASSIGN_OR_RETURN(
          const auto of_shared,
          arguments.snapshot_shared(arguments.folder, arguments.snapshot, progress));
      if (of_shared) return *of_shared;
    }
    return TakeSnapshotOffline(arguments.folder, arguments.graphs, arguments.snapshot, absl::Now(),
                               progress);
  };
  const auto report = taken();
  if (is_watched) std::cerr << "\r\033[K";
  if (!report.ok()) return Fail(report.status());
  std::cout << report->folder << ": " << Grouped(report->num_files) << " files, "
            << Grouped(report->num_bytes) << " bytes, of which " << Grouped(report->num_kept_bytes)
            << " were there\n";
  return kExitOk;
}

ExitCode RunRestore(const StoreArguments& arguments) {
  const auto restored = [&]() -> absl::Status {
    if (arguments.restore_shared) {
      PH_ASSIGN_OR_RETURN(const auto of_shared,
                          arguments.restore_shared(arguments.folder, arguments.snapshot,
                                                   [](const SnapshotReport&) { return true; }));
      if (of_shared) return absl::OkStatus();
    }
    return RestoreSnapshot(arguments.snapshot, arguments.folder);
  };
  if (const absl::Status status = restored(); !status.ok()) return Fail(status);
  std::cout << arguments.folder << ": restored\n";
  return kExitOk;
}

CLI::App* AddStoreAction(CLI::App& command, const std::shared_ptr<StoreArguments>& arguments,
                         ExitCode& code, const std::string& name, const std::string& description,
                         ExitCode (*run)(const StoreArguments&)) {
  CLI::App* const action = command.add_subcommand(name, description);
  action->callback([arguments, &code, run] { code = run(*arguments); });
  return action;
}

void AddFolder(const std::shared_ptr<StoreArguments>& arguments, CLI::App& action,
               const std::string& help) {
  action.add_option("folder", arguments->folder, help)->required()->type_name("DIR");
}

}  // namespace

void AddStoreCommand(CLI::App& app, const CommandParts& parts, ExitCode& code) {
  const auto arguments = std::make_shared<StoreArguments>();
  arguments->graphs = parts.graphs;
  CLI::App* const command = app.add_subcommand(
      "store", "Snapshot, restore, copy, check, repair or compact a server's data folder");
  command->require_subcommand(1);
  const std::string data_dir = "The server's --data-dir; no server may have it open";

  CLI::App* const snapshot = AddStoreAction(
      *command, arguments, code, "snapshot",
      "Copy all stores of a data folder into a folder, with checksums. A stopped snapshot goes on",
      RunSnapshot);
  AddFolder(arguments, *snapshot, data_dir);
  snapshot->add_option("snapshot", arguments->snapshot, "The folder to write; new or empty")
      ->required()
      ->type_name("SNAPSHOT");
  if (parts.add_to_snapshot != nullptr) {
    arguments->snapshot_shared = parts.add_to_snapshot(*snapshot);
  }

  CLI::App* const restore = AddStoreAction(
      *command, arguments, code, "restore",
      "Verify a snapshot and make a data folder of it, which must be missing or empty", RunRestore);
  restore->add_option("snapshot", arguments->snapshot, "The snapshot's folder")
      ->required()
      ->type_name("SNAPSHOT");
  AddFolder(arguments, *restore, "The data folder to make");
  if (parts.add_to_restore != nullptr) arguments->restore_shared = parts.add_to_restore(*restore);

  if (parts.add_to_store != nullptr) parts.add_to_store(*command, code);

  CLI::App* const check = AddStoreAction(
      *command, arguments, code, "check",
      "Read everything in a data folder, or a snapshot, and name what is damaged", RunCheck);
  AddFolder(arguments, *check, data_dir + "; or a snapshot");
  check->add_flag("--json", arguments->json, "Print JSON");
  if (parts.add_to_check != nullptr) arguments->check_shared = parts.add_to_check(*check);

  CLI::App* const repair =
      AddStoreAction(*command, arguments, code, "repair",
                     "Give up the jobs that damaged records of the ledger belong to", RunRepair);
  AddFolder(arguments, *repair, data_dir);
  repair
      ->add_option(
          "--drop-source-graph", arguments->dropped_graphs,
          "Remove this source graph, which is damaged, with its partitions; may be repeated")
      ->type_name("NAME");
  repair->add_flag("--accept-missing", arguments->repair.accept_missing,
                   "Go on without what must be there and is missing, or in s3:// cannot be read");
  if (parts.add_to_repair != nullptr) arguments->repair_shared = parts.add_to_repair(*repair);

  CLI::App* const compact =
      AddStoreAction(*command, arguments, code, "compact",
                     "Give space of deleted data back to the disk", RunCompact);
  AddFolder(arguments, *compact, data_dir);
}

}  // namespace packhouse
