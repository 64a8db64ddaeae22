#include "service/wings/graphs/stored/graph_verification.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/checksum.h"
#include "service/base/disk_file.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/stored/mapped_source_graph.h"
#include "service/wings/graphs/stored/row_log.h"

namespace packhouse {
namespace {

void AddDamage(absl::Status damage, SourceGraphVerifyReport& report) {
  ++report.num_damaged;
  if (report.damaged.size() < SourceGraphVerifyReport::kMaxListed) {
    report.damaged.push_back(std::move(damage));
  }
}

absl::Status VerifyArray(const std::string& path, const ArrayInfo& array, SourceGraphProgress& now,
                         SealWork::Progress progress, SourceGraphVerifyReport& report) {
  const auto file = DiskFile::Open(path, DiskFile::Mode::kRead);
  if (absl::IsNotFound(file.status())) {
    AddDamage(absl::DataLossError(absl::StrCat(path, ": is missing")), report);
    return absl::OkStatus();
  }
  if (!file.ok()) return file.status();
  PH_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  if (size != array.bytes) {
    AddDamage(absl::DataLossError(
                  absl::StrCat(path, ": has ", size, " bytes, was sealed with ", array.bytes)),
              report);
  }
  std::string block;
  for (size_t b = 0; b < array.block_crcs.size(); ++b) {
    const uint64_t begin = b * ArrayInfo::kBlockBytes;
    block.resize(std::min<uint64_t>(ArrayInfo::kBlockBytes, array.bytes - begin));
    auto got = file->ReadAt(begin, block.data(), block.size());
    const bool is_sound = got.ok() && *got == block.size() && Crc32c(block) == array.block_crcs[b];
    if (!is_sound) {
      AddDamage(
          absl::DataLossError(absl::StrCat(path, ": bytes ", begin, " to ", begin + block.size(),
                                           got.ok() ? " fail their checksum" : " cannot be read")),
          report);
    }
    report.num_bytes += block.size();
    now.done += block.size();
    if (!progress(now)) return absl::CancelledError("given up");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SourceGraphVerifyReport> VerifyRows(const std::string& path,
                                                   const GraphDefinition& definition,
                                                   SealWork::Progress progress) {
  SourceGraphVerifyReport report;
  const auto file = DiskFile::Open(path, DiskFile::Mode::kRead);
  if (absl::IsNotFound(file.status())) {
    if (definition.has_log) {
      AddDamage(absl::DataLossError(absl::StrCat(path, ": is missing")), report);
    }
    return report;
  }
  if (!file.ok()) return file.status();
  SourceGraphProgress now;
  PH_ASSIGN_OR_RETURN(now.total, file->Size());
  std::string bytes;
  const auto end = ScanRowLog(*file, definition.id, [&](const RowRecord& record) -> absl::Status {
    // A record's memory is reserved when it is appended, but not here: it is read in pieces.
    uint64_t at = record.offset + RowHeader::kBytes + record.header.index_bytes;
    const uint64_t record_end = record.offset + record.header.record_bytes;
    uint32_t crc = 0;
    bool is_sound = true;
    while (at < record_end && is_sound) {
      bytes.resize(std::min<uint64_t>(ArrayInfo::kBlockBytes, record_end - at));
      const auto got = file->ReadAt(at, bytes.data(), bytes.size());
      is_sound = got.ok() && *got == bytes.size();
      crc = Crc32c(bytes, crc);
      at += bytes.size();
      if (!progress(now)) return absl::CancelledError("given up");
    }
    if (!is_sound || crc != record.header.data_crc) {
      AddDamage(absl::DataLossError(absl::StrCat(path, ": the record at byte ", record.offset,
                                                 ": its rows fail their checksum")),
                report);
    }
    report.num_bytes += record.header.record_bytes;
    now.done = std::min(now.total, record_end);
    return absl::OkStatus();
  });
  if (absl::IsDataLoss(end.status())) {
    AddDamage(end.status(), report);
  } else if (!end.ok()) {
    return end.status();
  }
  return report;
}

absl::StatusOr<SourceGraphVerifyReport> VerifyArrays(const std::string& folder,
                                                     const GraphManifest& manifest,
                                                     SourceGraphInfo info,
                                                     std::shared_ptr<const GraphSpace> space,
                                                     SealWork::Progress progress) {
  SourceGraphVerifyReport report;
  SourceGraphProgress now;
  for (const ArrayInfo& array : manifest.arrays) now.total += array.bytes;
  for (const ArrayInfo& array : manifest.arrays) {
    PH_RETURN_IF_ERROR(VerifyArray(absl::StrCat(folder, "/", kArraysFolder, "/", array.name), array,
                                   now, progress, report));
  }
  if (report.num_damaged != 0) return report;
  auto checks = std::make_shared<SealedChecks>(info.name, manifest);
  auto graph = MappedSourceGraph::Open(folder, manifest, std::move(info), std::move(space),
                                       std::move(checks));
  absl::Status structure = graph.status();
  if (graph.ok()) structure = (*graph)->CheckStructure([&] { return progress(now); });
  if (absl::IsCancelled(structure)) return structure;
  if (!structure.ok()) AddDamage(std::move(structure), report);
  return report;
}

}  // namespace packhouse
