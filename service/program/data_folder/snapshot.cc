#include "service/program/data_folder/snapshot.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/engine/histograms/histogram_file.h"
#include "service/program/data_folder/folder_contents.h"
#include "service/program/data_folder/snapshot_writer.h"
#include "service/program/data_folder/value_file.h"
#include "service/stores/limits/data_folder.h"
#include "service/stores/lmdb/checked_value.h"

namespace packhouse {
namespace {

constexpr size_t kMaxSnapshotName = 63;
constexpr uint64_t kBytesInFile = uint64_t{64} << 20;
// Larger than any key or note; data is in folders.
constexpr uint64_t kMostOfSmallFile = uint64_t{64} << 20;

std::string RecordsFile(uint64_t number, uint64_t first_graph) {
  return absl::StrCat(kSnapshotRecords, absl::Hex(number, absl::kZeroPad16), "/",
                      absl::Hex(first_graph, absl::kZeroPad16));
}

absl::Status WriteRecords(const DatasetsCut& cut, SnapshotWriter& writer, uint64_t& dataset_bytes) {
  for (const DatasetsCut::Dataset& dataset : cut.datasets()) {
    for (uint64_t from = 0; from < dataset.num_graphs;) {
      uint64_t next = from;
      PH_RETURN_IF_ERROR(
          writer.Write(RecordsFile(dataset.number, from), [&](SnapshotFile& file) -> absl::Status {
            ValueWriter values(&file);
            PH_ASSIGN_OR_RETURN(
                next, cut.VisitRecords(dataset, from, kBytesInFile,
                                       [&](absl::string_view key, absl::string_view record) {
                                         dataset_bytes += key.size() + record.size();
                                         return values.Add(key, record);
                                       }));
            return values.Flush();
          }));
      from = next;
    }
  }
  return absl::OkStatus();
}

// First the mark, then each job's records under its name.
absl::Status WriteLedger(const LmdbJobLogs& ledger, const LmdbTransaction& moment,
                         SnapshotWriter& writer) {
  PH_ASSIGN_OR_RETURN(const uint64_t mark, ledger.MarkAt(moment));
  return writer.Write(kSnapshotLedger, [&](SnapshotFile& file) -> absl::Status {
    ValueWriter values(&file);
    PH_RETURN_IF_ERROR(values.Add("", EncodeNumber(mark)));
    PH_RETURN_IF_ERROR(ledger.ForEach(moment, [&](absl::string_view job, absl::string_view record) {
      return values.Add(job, record);
    }));
    return values.Flush();
  });
}

// Files of the data folder itself. Keys are among them, so nobody else may read the copies.
absl::Status WriteFiles(const OpenedFolder& stores, const std::string& folder,
                        SnapshotWriter& writer) {
  std::set<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(stores.data_dir, error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code of_entry;
    if (!entry->is_regular_file(of_entry)) continue;
    const std::string name = entry->path().filename().string();
    if (absl::EndsWith(name, ".unfinished") || name == kContentsFile) continue;
    if (entry->file_size(of_entry) <= kMostOfSmallFile || name == kHistogramsFile) {
      names.insert(name);
    }
  }
  if (error) return DiskStatus(error.value(), "cannot list", stores.data_dir);
  if (stores.histograms) names.insert(kHistogramsFile);
  // Before there is anything in it.
  const std::string files = absl::StrCat(folder, "/", kSnapshotFiles);
  PH_RETURN_IF_ERROR(MakeFolder(files));
  std::filesystem::permissions(files, std::filesystem::perms::owner_all, error);
  if (error) return DiskStatus(error.value(), "cannot make private", files);
  for (const std::string& name : names) {
    const std::string path = absl::StrCat(kSnapshotFiles, name);
    if (name == kHistogramsFile && stores.histograms) {
      PH_RETURN_IF_ERROR(writer.Write(path, [&](SnapshotFile& file) {
        return stores.histograms([&](absl::string_view bytes) { return file.Append(bytes); });
      }));
    } else {
      // It may be replaced by another at any moment, and has gone then, or is the old one.
      const auto opened =
          DiskFile::Open(absl::StrCat(stores.data_dir, "/", name), DiskFile::Mode::kRead);
      if (absl::IsNotFound(opened.status())) continue;
      PH_RETURN_IF_ERROR(opened.status());
      PH_ASSIGN_OR_RETURN(const uint64_t bytes, opened->Size());
      PH_RETURN_IF_ERROR(writer.Copy(path, *opened, bytes));
    }
    std::filesystem::permissions(
        absl::StrCat(folder, "/", path),
        std::filesystem::perms::owner_read | std::filesystem::perms::owner_write, error);
    if (error) return DiskStatus(error.value(), "cannot make private", path);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SnapshotReport> TakeSnapshot(const OpenedFolder& stores, const std::string& folder,
                                            absl::Time now, SnapshotProgress progress) {
  const OpenedGraphs& source_graphs = stores.source_graphs;
  if (!source_graphs.link_all) {
    PH_RETURN_IF_ERROR(CheckHasNoGraphs(stores.data_dir, source_graphs.why_not));
  }
  PH_ASSIGN_OR_RETURN(const auto writer, SnapshotWriter::Begin(folder, &progress));
  writer->report().total_bytes = stores.datasets->num_bytes() + stores.ledger->num_bytes() +
                                 (source_graphs.link_all ? source_graphs.num_bytes() : 0);
  SnapshotManifest manifest;
  manifest.taken = absl::FormatTime(absl::RFC3339_sec, now, absl::UTCTimeZone());
  // First the ledger: what its epochs need is there a moment later, too.
  std::optional<absl::StatusOr<LmdbTransaction>> moment(stores.ledger->BeginReading());
  PH_RETURN_IF_ERROR(moment->status());
  std::unique_ptr<DatasetsCut> cut;
  PH_RETURN_IF_ERROR(writer->Write(kSnapshotValues, [&](SnapshotFile& file) -> absl::Status {
    ValueWriter values(&file);
    PH_ASSIGN_OR_RETURN(
        cut, stores.datasets->TakeCut([&](absl::string_view key, absl::string_view value) {
          manifest.dataset_bytes += key.size() + value.size();
          return values.Add(key, value);
        }));
    return values.Flush();
  }));
  OpenedGraphs::CopyFiles copy_graphs;
  if (source_graphs.link_all) {
    PH_ASSIGN_OR_RETURN(copy_graphs, source_graphs.link_all());
  }
  PH_RETURN_IF_ERROR(WriteLedger(*stores.ledger, **moment, *writer));
  moment.reset();
  PH_RETURN_IF_ERROR(WriteRecords(*cut, *writer, manifest.dataset_bytes));
  manifest.page_bytes = cut->page_bytes();
  cut.reset();
  if (copy_graphs) {
    PH_RETURN_IF_ERROR(copy_graphs([&writer](const std::string& path, const std::string& link,
                                             uint64_t num_bytes) -> absl::Status {
      PH_ASSIGN_OR_RETURN(const DiskFile file, DiskFile::Open(link, DiskFile::Mode::kRead));
      return writer->Copy(absl::StrCat(kSnapshotGraphs, path), file, num_bytes);
    }));
  }
  PH_RETURN_IF_ERROR(WriteFiles(stores, folder, *writer));
  return writer->Finish(std::move(manifest));
}

absl::StatusOr<SnapshotReport> TakeNamedSnapshot(const OpenedFolder& stores,
                                                 const std::string& parent, absl::string_view name,
                                                 absl::Time now, SnapshotProgress progress) {
  const auto is_bad = [](char c) {
    return !absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.' && c != '-';
  };
  if (name.empty() || name.size() > kMaxSnapshotName || name[0] == '.' ||
      std::any_of(name.begin(), name.end(), is_bad)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "name ", Quoted(name.substr(0, 2 * kMaxSnapshotName)), ": must have 1 to ",
        kMaxSnapshotName, " of the characters [A-Za-z0-9_.-], the first of them no point"));
  }
  return TakeSnapshot(stores, absl::StrCat(parent, "/", name), now, progress);
}

absl::StatusOr<SnapshotReport> TakeSnapshotOffline(const std::string& data_dir,
                                                   const GraphFolder& graphs,
                                                   const std::string& folder, absl::Time now,
                                                   SnapshotProgress progress) {
  std::error_code error;
  if (!std::filesystem::is_directory(data_dir, error)) {
    return absl::NotFoundError(absl::StrCat("there is no data folder '", data_dir, "'"));
  }
  PH_RETURN_IF_ERROR(CheckRestored(data_dir));
  PH_RETURN_IF_ERROR(VerifyFolderContents(data_dir, {}));
  // An empty folder is that of a server that has stored nothing.
  bool has_store = std::filesystem::is_empty(data_dir, error);
  for (const std::string& store :
       {DatasetsFolder(data_dir), DeliveryFolder(data_dir), SourceGraphsFolder(data_dir)}) {
    has_store |= std::filesystem::is_directory(store, error);
  }
  if (!has_store) {
    return absl::NotFoundError(
        absl::StrCat("'", data_dir, "' is no data folder: there is no store in it"));
  }
  LmdbDatasetStore::Options of_datasets;
  of_datasets.folder = DatasetsFolder(data_dir);
  PH_ASSIGN_OR_RETURN(const auto datasets, LmdbDatasetStore::Open(of_datasets));
  LmdbJobLogs::Options of_ledger;
  of_ledger.folder = DeliveryFolder(data_dir);
  PH_ASSIGN_OR_RETURN(const auto ledger, LmdbJobLogs::Open(of_ledger));
  OpenedFolder opened = {data_dir, datasets.get(), ledger.get(), {.why_not = graphs.why_not}};
  if (graphs.open) {
    PH_ASSIGN_OR_RETURN(opened.source_graphs, graphs.open(SourceGraphsFolder(data_dir)));
  }
  return TakeSnapshot(opened, folder, now, progress);
}

absl::StatusOr<SnapshotManifest> ReadSnapshotManifest(const std::string& folder) {
  const auto text = ReadWhole(absl::StrCat(folder, "/", kSnapshotManifest));
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(
        absl::StrCat("'", folder, "' has no manifest: it is no snapshot, or one that was stopped"));
  }
  PH_RETURN_IF_ERROR(text.status());
  return DecodeSnapshotManifest(*text);
}

}  // namespace packhouse
