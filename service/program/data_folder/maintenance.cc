#include "service/program/data_folder/maintenance.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/access/security/hmac_signer.h"
#include "service/base/disk_file.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/engine/histograms/histogram_file.h"
#include "service/engine/jobs/ledger_repair.h"
#include "service/program/data_folder/folder_contents.h"
#include "service/program/data_folder/lmdb_log_repair.h"
#include "service/stores/limits/data_folder.h"
#include "service/stores/lmdb/lmdb_dataset_store.h"
#include "service/stores/lmdb/lmdb_maintenance.h"
#include "service/stores/logs/logged_keys.h"

namespace packhouse {
namespace {

bool HasData(const std::string& folder) {
  std::error_code error;
  return std::filesystem::file_size(folder + "/data.mdb", error) > 0 && !error;
}

absl::Status CheckIsFolder(const std::string& data_dir) {
  std::error_code error;
  if (!std::filesystem::is_directory(data_dir, error)) {
    return absl::NotFoundError(absl::StrCat("there is no data folder '", data_dir, "'"));
  }
  return CheckRestored(data_dir);
}

// And has what it must have.
absl::Status CheckIsWhole(const std::string& data_dir) {
  PH_RETURN_IF_ERROR(CheckIsFolder(data_dir));
  return VerifyFolderContents(data_dir, {});
}

std::string NameOf(const std::string& job) {
  return job == kKeysLog ? "measured models" : absl::StrCat("job ", Quoted(job));
}

std::string CostOfLog(const std::string& job) {
  return absl::StrCat(job == kKeysLog ? "all " : "", NameOf(job));
}

// Of which each record is a change: what it follows from others nobody knows who has lost one.
LedgerRepair RepairKeys(absl::Span<const FoundRecord> records) {
  LedgerRepair repair;
  for (const FoundRecord& record : records) {
    const absl::Status read =
        record.status.ok() ? LoggedKeys::CheckRecord(record.bytes) : record.status;
    if (!read.ok()) {
      repair.losses.push_back({record.sequence, std::string(read.message()), false});
      repair.is_lost = true;
    } else if (record.is_mended) {
      repair.losses.push_back({record.sequence, "one bit had flipped", true});
    }
    repair.records.push_back(record.bytes);
  }
  if (repair.is_lost) repair.records.clear();
  return repair;
}

LedgerRepair Repair(const FoundLog& log) {
  return log.job == kKeysLog ? RepairKeys(log.records) : RepairLedger(log.records);
}

absl::StatusOr<uint64_t> CheckLedger(const std::string& folder, DamageVisitor found,
                                     uint64_t& identity) {
  const std::string file = folder + "/data.mdb";
  const auto logs = ReadDamagedLogs(folder);
  if (absl::IsDataLoss(logs.status())) {
    found({file, "", std::string(logs.status().message()),
           "all jobs and measured models, until a snapshot is restored"});
    return 0;
  }
  PH_RETURN_IF_ERROR(logs.status());
  identity = logs->identity;
  for (const std::string& what : logs->disorder) {
    found({file, "", what, "nothing: packhoused store repair puts it right"});
  }
  uint64_t num_records = 0;
  for (const FoundLog& log : logs->logs) {
    if (log.job != kKeysLog) num_records += log.records.size();
    TellLosses(Repair(log), file, NameOf(log.job), CostOfLog(log.job), found);
  }
  return num_records;
}

// Repairs the logs of jobs. `found` is what is there of them.
absl::Status RepairLogs(const std::string& folder, const FoundLogs& found, RepairReport& report) {
  LmdbLogsTail tail = found.tail;
  std::vector<NewLog> logs;
  bool is_sound = found.disorder.empty();
  for (const std::string& what : found.disorder) report.done.push_back(what);
  for (const FoundLog& log : found.logs) {
    LedgerRepair repair = Repair(log);
    is_sound = is_sound && repair.losses.empty();
    for (const RecordLoss& loss : repair.losses) {
      report.done.push_back(
          absl::StrCat(NameOf(log.job), ", record ", loss.sequence, ": ", loss.what, "; ",
                       loss.is_mended ? "it was put right, nothing is lost"
                                      : absl::StrCat("it costs ", CostOfLog(log.job))));
    }
    // Also if it is the folder's own mark that is damaged.
    tail.mark = std::max(tail.mark, repair.last_generation);
    if (repair.is_lost) {
      if (log.job != kKeysLog) report.lost_jobs.push_back(log.job);
      continue;
    }
    logs.push_back(
        {log.job, log.number, log.next_sequence - log.records.size(), std::move(repair.records)});
  }
  std::sort(report.lost_jobs.begin(), report.lost_jobs.end());
  if (is_sound) return absl::OkStatus();
  PH_RETURN_IF_ERROR(RewriteLogs(folder, tail, logs));
  report.is_changed = true;
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> CheckHistograms(const std::string& data_dir, DamageVisitor found) {
  const std::string file = absl::StrCat(data_dir, "/", kHistogramsFile);
  const auto number = ReadHistogramFile(
      file, nullptr, [](const KeptHistogram& /*read*/) { return absl::OkStatus(); });
  if (absl::IsDataLoss(number.status())) {
    found({file, "", std::string(number.status().message()), "all named histograms"});
  }
  if (absl::IsDataLoss(number.status()) || absl::IsNotFound(number.status())) return 0;
  return number;
}

// Which a server reads as it starts, and does not start with if it is damaged.
void CheckSigningKey(const std::string& data_dir, DamageVisitor found) {
  const std::string key = absl::StrCat(data_dir, "/", kSigningKeyFile);
  const absl::Status has_key = security::HmacSigner::CheckKey(key);
  if (!has_key.ok() && !absl::IsNotFound(has_key)) {
    found({key, "", std::string(has_key.message()), "the cursors that were given out"});
  }
}

absl::Status CheckContents(const std::string& data_dir, const StoreIdentities& identities,
                           DamageVisitor found) {
  const auto contents = ReadFolderContents(data_dir);
  if (absl::IsDataLoss(contents.status())) {
    found({absl::StrCat(data_dir, "/", kContentsFile), "", std::string(contents.status().message()),
           "nothing else that is there: packhoused store repair --accept-missing writes it anew"});
    return absl::OkStatus();
  }
  PH_RETURN_IF_ERROR(contents.status());
  CheckFolderContents(data_dir, *contents, identities, found);
  return absl::OkStatus();
}

// Goes on without what is missing, if the options say so.
absl::Status AcceptMissing(const std::string& data_dir, const RepairOptions& options,
                           const GraphFolder& graphs, RepairReport& report) {
  const StoreIdentities identities = ReadIdentities(data_dir);
  std::vector<std::string> missing;
  std::vector<std::string> empty;
  PH_RETURN_IF_ERROR(CheckContents(data_dir, identities, [&](const StoredDamage& damage) {
    missing.push_back(
        absl::StrCat("'", damage.file, "' ", damage.what, "; it costs ", damage.cost));
    std::error_code error;
    if (std::filesystem::file_size(damage.file, error) == 0 && !error) {
      empty.push_back(damage.file);
    }
  }));
  // Graphs and partitions that are missing keep nobody from anything else.
  if (options.accept_missing && graphs.accept_missing) {
    PH_RETURN_IF_ERROR(
        graphs.accept_missing(SourceGraphsFolder(data_dir), [&missing](const StoredDamage& damage) {
          missing.push_back(
              absl::StrCat("'", damage.file, "' ", damage.what, "; it costs ", damage.cost));
        }));
  }
  if (missing.empty()) return absl::OkStatus();
  if (!options.accept_missing) {
    return absl::FailedPreconditionError(
        absl::StrCat(absl::StrJoin(missing, "\n"),
                     "\nNothing was changed. Put it back, or restore a snapshot, "
                     "or say --accept-missing to go on without it"));
  }
  for (const std::string& file : empty) PH_RETURN_IF_ERROR(RemoveDurably(file));
  PH_RETURN_IF_ERROR(RewriteFolderContents(data_dir, identities));
  report.is_changed = true;
  report.done = std::move(missing);
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckHasNoGraphs(const std::string& data_dir, absl::string_view why_not) {
  const std::string folder = SourceGraphsFolder(data_dir);
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code of_entry;
    // Each graph is a folder.
    if (!entry->is_directory(of_entry)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("the source graphs in '", folder, "' are left out: ", why_not));
  }
  return error && error != std::errc::no_such_file_or_directory
             ? DiskStatus(error.value(), "cannot list", folder)
             : absl::OkStatus();
}

absl::StatusOr<StoredCounts> CheckDataFolder(const std::string& data_dir, DamageVisitor found,
                                             const GraphFolder& graphs) {
  PH_RETURN_IF_ERROR(CheckIsFolder(data_dir));
  StoredCounts counts;
  StoreIdentities identities;
  PH_ASSIGN_OR_RETURN(counts.num_datasets,
                      CheckDatasetFolder(DatasetsFolder(data_dir), found, &identities["datasets"]));
  PH_ASSIGN_OR_RETURN(counts.num_ledger_records,
                      CheckLedger(DeliveryFolder(data_dir), found, identities["delivery"]));
  if (graphs.check) {
    PH_ASSIGN_OR_RETURN(counts.num_source_graphs,
                        graphs.check(SourceGraphsFolder(data_dir), found));
  }
  PH_ASSIGN_OR_RETURN(counts.num_histograms, CheckHistograms(data_dir, found));
  CheckSigningKey(data_dir, found);
  PH_RETURN_IF_ERROR(CheckContents(data_dir, identities, found));
  return counts;
}

absl::StatusOr<RepairReport> RepairDataFolder(const std::string& data_dir,
                                              const RepairOptions& options,
                                              const GraphFolder& graphs) {
  PH_RETURN_IF_ERROR(CheckIsFolder(data_dir));
  RepairReport report;
  PH_RETURN_IF_ERROR(AcceptMissing(data_dir, options, graphs, report));
  const std::string folder = DeliveryFolder(data_dir);
  const auto logs = ReadDamagedLogs(folder);
  if (absl::IsDataLoss(logs.status())) {
    return absl::DataLossError(absl::StrCat(
        logs.status().message(), "; this cannot be repaired, restore a snapshot, or move '", folder,
        "' away and say --accept-missing: then all jobs are lost"));
  }
  PH_RETURN_IF_ERROR(logs.status());
  PH_RETURN_IF_ERROR(RepairLogs(folder, *logs, report));
  return report;
}

absl::Status DropDamagedGraph(const std::string& data_dir, const GraphFolder& graphs,
                              absl::string_view name) {
  PH_RETURN_IF_ERROR(CheckIsFolder(data_dir));
  if (!graphs.drop) {
    return absl::UnimplementedError(
        absl::StrCat("source graph ", Quoted(name), ": ", graphs.why_not));
  }
  return graphs.drop(SourceGraphsFolder(data_dir), name);
}

absl::StatusOr<std::vector<CompactedStore>> CompactDataFolder(const std::string& data_dir) {
  PH_RETURN_IF_ERROR(CheckIsWhole(data_dir));
  const std::string datasets = DatasetsFolder(data_dir);
  if (HasData(datasets)) {
    LmdbDatasetStore::Options options;
    options.folder = datasets;
    PH_ASSIGN_OR_RETURN(const auto store, LmdbDatasetStore::Open(options));
    PH_RETURN_IF_ERROR(store->WaitUntilErased());
  }
  std::vector<CompactedStore> stores;
  for (const std::string& folder : {datasets, DeliveryFolder(data_dir)}) {
    if (!HasData(folder)) continue;
    PH_ASSIGN_OR_RETURN(const CompactedFile file, CompactLmdbFolder(folder));
    stores.push_back({folder, file.bytes_before, file.bytes_after});
  }
  return stores;
}

}  // namespace packhouse
