#include "service/wings/partition/jobs/partition_check.h"

#include "absl/strings/str_cat.h"
#include "service/base/disk_file.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/jobs/durable_files.h"
#include "service/wings/partition/jobs/partition_contents.h"
#include "service/wings/partition/jobs/partition_list.h"
#include "service/wings/partition/jobs/partition_report.h"
#include "service/wings/partition/jobs/partition_state.h"

namespace packhouse {
namespace {

// One partition, of which all damages cost the same.
class PartitionCheck {
 public:
  PartitionCheck(const std::string& companion, const std::string& graph, const std::string& name,
                 DamageVisitor found)
      : name_(name),
        path_(absl::StrCat(companion, "/", kPartitionsFolder, "/", name)),
        cost_(absl::StrCat("partition ", Quoted(name), " of source graph ", Quoted(graph))),
        found_(found) {}

  void Check() const {
    if (!PathExists(path_)) return Found("", "is missing");
    const std::string state_file = absl::StrCat("/", kPartitionStateFile);
    const auto text = ReadWhole(path_ + state_file);
    if (absl::IsNotFound(text.status())) return Found(state_file, "is missing");
    const auto state = text.ok() ? StateOfText(*text) : text.status();
    if (!state.ok()) return Found(state_file, state.status().message());
    if (state->plan.name != name_) {
      return Found(state_file, absl::StrCat("is that of partition ", Quoted(state->plan.name)));
    }
    if (PathExists(path_ + "/files")) return CheckFiles();
    if (state->end && state->end->ok()) Found("/files", "is missing");
  }

 private:
  void Found(const std::string& file, absl::string_view what) const {
    found_({path_ + file, "", std::string(what), cost_});
  }

  void CheckFiles() const {
    const std::string file = absl::StrCat("/files/", kPartitionContentsFile);
    const auto text = ReadWhole(path_ + file);
    if (absl::IsNotFound(text.status())) return Found(file, "is missing");
    const auto contents = text.ok() ? DecodePartitionContents(*text) : text.status();
    if (!contents.ok()) return Found(file, contents.status().message());
    for (const auto& [path, content] : *contents) CheckFile("/files/" + path, content);
    const auto report = ReadWhole(absl::StrCat(path_, "/files/", kPartitionReportFile));
    // One that was changed is found already.
    if (!contents->contains(kPartitionReportFile) || (report.ok() && !ReportOfText(*report).ok())) {
      Found(absl::StrCat("/files/", kPartitionReportFile), "is no report");
    }
  }

  void CheckFile(const std::string& file, const PartitionFileContent& noted) const {
    const auto now = ReadFileContent(path_ + file);
    if (absl::IsNotFound(now.status())) return Found(file, "is missing");
    if (!now.ok()) return Found(file, now.status().message());
    if (now->num_bytes != noted.num_bytes) {
      return Found(file, absl::StrCat("has ", now->num_bytes, " bytes, had ", noted.num_bytes));
    }
    if (now->crc32c != noted.crc32c) Found(file, "fails its checksum");
  }

  const std::string name_;
  const std::string path_;
  const std::string cost_;
  const DamageVisitor found_;
};

// Calls `found` if the list is damaged; then it is of those that are there.
absl::StatusOr<PartitionList> CheckList(const std::string& companion, DamageVisitor found) {
  auto list = ReadPartitionList(companion);
  if (!absl::IsDataLoss(list.status())) return list;
  found({absl::StrCat(companion, "/", kPartitionListFile), "", std::string(list.status().message()),
         "nothing that is there: packhoused store repair --accept-missing writes it anew"});
  return PartitionsThere(companion);
}

}  // namespace

void CheckPartitions(const std::string& graph, const std::string& companion, DamageVisitor found) {
  if (!PathExists(companion)) return;
  auto names = CheckList(companion, found);
  if (!names.ok()) {
    found({absl::StrCat(companion, "/", kPartitionListFile), "",
           std::string(names.status().message()),
           absl::StrCat("nobody knows: partitions of source graph ", Quoted(graph))});
    names = PartitionList();
  }
  names->merge(PartitionsThere(companion));
  for (const std::string& name : *names) PartitionCheck(companion, graph, name, found).Check();
}

absl::Status AcceptMissingPartitions(const std::string& graph, const std::string& companion,
                                     DamageVisitor missing) {
  if (!PathExists(companion)) return absl::OkStatus();
  bool is_wrong = false;
  const auto note = [&](const StoredDamage& damage) {
    is_wrong = true;
    missing(damage);
  };
  PH_ASSIGN_OR_RETURN(const PartitionList list, CheckList(companion, note));
  const PartitionList there = PartitionsThere(companion);
  for (const std::string& name : list) {
    if (!there.contains(name)) PartitionCheck(companion, graph, name, note).Check();
  }
  return is_wrong ? WritePartitionList(companion, there) : absl::OkStatus();
}

}  // namespace packhouse
