#include "service/wings/partition/jobs/partition_list.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/checked_lines.h"
#include "service/base/disk_file.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/jobs/durable_files.h"
#include "service/wings/partition/jobs/partition_plan.h"

namespace packhouse {
namespace {

constexpr absl::string_view kListTitle = "packhouse partitions 1";

}  // namespace

std::string EncodePartitionList(const PartitionList& list) {
  std::string lines;
  for (const std::string& name : list) absl::StrAppend(&lines, name, "\n");
  return WithChecksumLine(kListTitle, lines);
}

absl::StatusOr<PartitionList> DecodePartitionList(absl::string_view text) {
  PH_ASSIGN_OR_RETURN(const std::vector<absl::string_view> lines, LinesOf(kListTitle, text));
  PartitionList list;
  for (const absl::string_view name : lines) {
    if (IsPartitionName(name)) list.emplace(name);
  }
  if (EncodePartitionList(list) == text) return list;
  return absl::DataLossError("is damaged, or was written by a later release of packhoused");
}

PartitionList PartitionsThere(const std::string& companion) {
  PartitionList there;
  std::error_code error;
  const std::string folder = absl::StrCat(companion, "/", kPartitionsFolder);
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (IsPartitionName(name) &&
        PathExists(absl::StrCat(folder, "/", name, "/", kPartitionStateFile))) {
      there.insert(std::move(name));
    }
  }
  return there;
}

absl::StatusOr<PartitionList> ReadPartitionList(const std::string& companion) {
  // Of a graph that is not in a folder.
  if (companion.empty()) return PartitionList();
  // First: before there is one, there is a list.
  const bool has_partitions = !PartitionsThere(companion).empty();
  const auto text = ReadWhole(absl::StrCat(companion, "/", kPartitionListFile));
  if (absl::IsNotFound(text.status())) {
    if (!has_partitions && PathExists(companion)) return PartitionList();
    return absl::DataLossError("is missing");
  }
  PH_RETURN_IF_ERROR(text.status());
  return DecodePartitionList(*text);
}

absl::Status WritePartitionList(const std::string& companion, const PartitionList& list) {
  return WriteWhole(companion, kPartitionListFile, EncodePartitionList(list));
}

}  // namespace packhouse
