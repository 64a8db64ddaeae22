#include "service/wings/partition/jobs/shared_partition_folder.h"

#include <filesystem>
#include <limits>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/base/disk_file.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/jobs/durable_files.h"
#include "service/wings/partition/jobs/partition_contents.h"
#include "service/wings/partition/jobs/partition_list.h"

namespace packhouse {
namespace {

std::string FolderOf(const SharedCompanions& shared, uint64_t graph_id) {
  return absl::StrCat(shared.folder(), "/", absl::Hex(graph_id, absl::kZeroPad16));
}

// "PHASE SHARE SECONDS"; no seconds: nobody knows.
std::string TextOf(const PartitionProgress& progress) {
  return absl::StrCat(static_cast<int>(progress.phase), " ", progress.share_done, " ",
                      progress.rest ? absl::StrCat(absl::ToDoubleSeconds(*progress.rest)) : "");
}

std::optional<PartitionProgress> ProgressOfText(absl::string_view text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  PartitionProgress progress;
  int phase = 0;
  if (words.size() != 3 || !absl::SimpleAtoi(words[0], &phase) ||
      !absl::SimpleAtod(words[1], &progress.share_done)) {
    return std::nullopt;
  }
  progress.phase = static_cast<RunPhase>(phase);
  if (double seconds = 0; absl::SimpleAtod(words[2], &seconds)) {
    progress.rest = absl::Seconds(seconds);
  }
  return progress;
}

// The claim is another server's.
bool IsLost(const absl::Status& status) {
  return absl::IsAborted(status) || absl::IsNotFound(status);
}

}  // namespace

SharedPartitionFolder::SharedPartitionFolder(SharedCompanions* shared, const CompanionGraph& graph,
                                             uint64_t graph_version, absl::string_view name)
    : PartitionFolder(FolderOf(*shared, graph.id), graph.name, graph_version, name),
      shared_(shared),
      graph_id_(graph.id) {}

absl::StatusOr<PartitionState> SharedPartitionFolder::StateIn(const SharedCompanion& found) const {
  absl::StatusOr<PartitionState> state = StateOfText(found.state);
  if (!state.ok() || state->plan.name != name()) {
    return Damaged(kPartitionStateFile, state.ok() ? "is another one's" : state.status().message());
  }
  if (found.is_whole) state->end = absl::OkStatus();
  return state;
}

absl::StatusOr<PartitionState> SharedPartitionFolder::State() const {
  contents_.reset();
  auto found = shared_->Find({graph(), graph_id_}, name());
  if (!found.ok()) {
    found_ = SharedCompanion();
    return found.status();
  }
  found_ = *std::move(found);
  return StateIn(found_);
}

absl::StatusOr<PartitionList> SharedPartitionFolder::Names() const {
  PH_ASSIGN_OR_RETURN(const auto list, shared_->List({graph(), graph_id_}));
  PartitionList names;
  for (const SharedCompanion& each : list) names.insert(each.name);
  return names;
}

std::optional<PartitionWorkElsewhere> SharedPartitionFolder::work_elsewhere() const {
  if (found_.server == shared_->server()) return std::nullopt;
  return PartitionWorkElsewhere{found_.server, found_.server_lives,
                                ProgressOfText(found_.progress)};
}

absl::Status SharedPartitionFolder::MakeFolderFor(const PartitionPlan& plan,
                                                  const ClientId& owner) const {
  const auto here = ReadWhole(absl::StrCat(path(), "/", kPartitionStateFile));
  const auto state = here.ok() ? StateOfText(*here) : here.status();
  if (state.ok() && PlanText(state->plan) == PlanText(plan)) return absl::OkStatus();
  PH_RETURN_IF_ERROR(RemoveFolderHere());
  PH_RETURN_IF_ERROR(MakeFolder(companion()));
  return PartitionFolder::Create(plan, owner);
}

absl::Status SharedPartitionFolder::RemoveFolderHere() const {
  if (!PathExists(path())) return absl::OkStatus();
  PH_ASSIGN_OR_RETURN(const std::string moved, PartitionFolder::MoveAway());
  return RemoveFolder(moved);
}

SharedCompanion SharedPartitionFolder::With(const SharedCompanion& before,
                                            const PartitionState& state) const {
  SharedCompanion wanted = before;
  wanted.graph = {graph(), graph_id_};
  wanted.name = name();
  wanted.state = StateText(state);
  return wanted;
}

absl::Status SharedPartitionFolder::Claim(const PartitionState& state) const {
  PH_RETURN_IF_ERROR(MakeFolderFor(state.plan, state.owner));
  SharedCompanion wanted = With(found_, state);
  wanted.server = shared_->server();
  PH_ASSIGN_OR_RETURN(wanted.revision, shared_->Put(wanted));
  found_ = claimed_ = std::move(wanted);
  return absl::OkStatus();
}

absl::Status SharedPartitionFolder::Create(const PartitionPlan& plan, const ClientId& owner) const {
  found_ = SharedCompanion();
  return Claim({plan, owner, std::nullopt});
}

absl::Status SharedPartitionFolder::RemoveEnd() const {
  PH_ASSIGN_OR_RETURN(PartitionState state, StateIn(found_));
  state.end.reset();
  return Claim(state);
}

absl::Status SharedPartitionFolder::GoOn(const SharedCompanion& claimed) const {
  PH_ASSIGN_OR_RETURN(const PartitionState state, StateIn(claimed));
  found_ = claimed_ = claimed;
  return MakeFolderFor(state.plan, state.owner);
}

absl::Status SharedPartitionFolder::WriteEnd(const absl::Status& how) const {
  // It is published.
  if (how.ok()) return RemoveFolderHere();
  const SharedCompanion& before = claimed_.revision == 0 ? found_ : claimed_;
  PH_ASSIGN_OR_RETURN(PartitionState state, StateIn(before));
  state.end = how;
  return shared_->Put(With(before, state)).status();
}

bool SharedPartitionFolder::IsStillOurs(const PartitionProgress& progress) const {
  return !IsLost(shared_->Tell(claimed_, TextOf(progress)));
}

absl::Status SharedPartitionFolder::Publish(absl::FunctionRef<bool()> goes_on) const {
  PH_ASSIGN_OR_RETURN(PartitionState state, StateIn(claimed_));
  state.end = absl::OkStatus();
  PH_ASSIGN_OR_RETURN(const PartitionContents here, Contents());
  CompanionContents contents;
  for (const auto& [path, content] : here) {
    contents.files.push_back({path, content.num_bytes, content.crc32c});
  }
  PH_ASSIGN_OR_RETURN(contents.summary,
                      ReadWhole(absl::StrCat(files(), "/", kPartitionReportFile)));
  const absl::Status put = shared_->Upload(With(claimed_, state), files(), contents, goes_on);
  return IsLost(put) ? absl::CancelledError(put.message()) : put;
}

absl::StatusOr<const CompanionContents*> SharedPartitionFolder::ContentsFound() const {
  if (!contents_) {
    PH_ASSIGN_OR_RETURN(contents_, shared_->ContentsOf(found_));
  }
  return &*contents_;
}

absl::StatusOr<PartitionReport> SharedPartitionFolder::Report() const {
  PH_ASSIGN_OR_RETURN(const CompanionContents* const contents, ContentsFound());
  absl::StatusOr<PartitionReport> report = ReportOfText(contents->summary);
  return report.ok() ? report : Damaged(kPartitionReportFile, report.status().message());
}

absl::StatusOr<std::vector<PartitionJobFile>> SharedPartitionFolder::Files() const {
  PH_ASSIGN_OR_RETURN(const CompanionContents* const contents, ContentsFound());
  std::vector<PartitionJobFile> files;
  for (const CompanionFile& file : contents->files) files.push_back({file.path, file.num_bytes});
  return files;
}

absl::StatusOr<PartitionBytes> SharedPartitionFolder::Read(absl::string_view file, uint64_t offset,
                                                           uint64_t max_bytes) const {
  PH_ASSIGN_OR_RETURN(const OwnedBytes read, shared_->Map(found_, file, offset, max_bytes));
  if (offset > read.num_bytes) return BeyondEnd(file, offset, read.num_bytes);
  return PartitionBytes{std::string(read.bytes), read.num_bytes};
}

absl::StatusOr<OwnedBytes> SharedPartitionFolder::Map(absl::string_view file) const {
  return shared_->Map(found_, file, 0, std::numeric_limits<uint64_t>::max());
}

absl::StatusOr<std::string> SharedPartitionFolder::MoveAway() const {
  PH_RETURN_IF_ERROR(shared_->Delete({graph(), graph_id_}, name()));
  if (!PathExists(path())) return "";
  return PartitionFolder::MoveAway();
}

void SharedPartitionFolder::RemoveUnneeded(SharedCompanions* shared, const Needed& needed) {
  std::error_code error;
  for (std::filesystem::directory_iterator graph(shared->folder(), error), end;
       !error && graph != end; graph.increment(error)) {
    uint64_t id = 0;
    if (!absl::SimpleHexAtoi(graph->path().filename().string(), &id)) continue;
    RemoveRemains(graph->path().string());
    bool is_needed = false;
    for (const std::string& name : PartitionsThere(graph->path().string())) {
      if (needed.contains({id, name})) {
        is_needed = true;
      } else {
        SharedPartitionFolder(shared, {"", id}, 0, name).RemoveFolderHere().IgnoreError();
      }
    }
    if (!is_needed) RemoveFolder(graph->path().string()).IgnoreError();
  }
}

}  // namespace packhouse
