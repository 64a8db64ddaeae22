// What callers ask of the jobs. The work itself is in partition_jobs.cc.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/cutting/homogeneous_graph.h"
#include "service/wings/partition/files/dgl_reader.h"
#include "service/wings/partition/files/npy_file.h"
#include "service/wings/partition/jobs/part_writer.h"
#include "service/wings/partition/jobs/partition_jobs.h"
#include "service/wings/partition/jobs/partition_needs.h"
#include "service/wings/partition/jobs/partition_run.h"
#include "service/wings/partition/jobs/shared_partition_folder.h"

namespace packhouse {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

absl::Status BrokenParts(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, " is damaged: ", what));
}

template <typename T>
T ValueAt(const ArrayView& array, uint64_t at) {
  T value;
  std::memcpy(&value, array.bytes.data() + at * sizeof(T), sizeof(T));
  return value;
}

absl::Status TakePart(const PartitionFolder& folder, const std::string& path, uint32_t part,
                      const HomogeneousGraph& graph, std::vector<uint32_t>& parts) {
  PH_ASSIGN_OR_RETURN(const OwnedBytes file, folder.Map(path));
  const absl::StatusOr<DglGraphView> view = ReadDglGraphFile(file.bytes);
  if (!view.ok()) return BrokenParts(path, view.status().message());
  const ArrayView* const inner = FindArray(view->node_data, "inner_node");
  const ArrayView* const originals = FindArray(view->node_data, "orig_id");
  const ArrayView* const types = FindArray(view->node_data, "_TYPE");
  const bool has_types = graph.node_types().size() > 1;
  if (inner == nullptr || originals == nullptr || inner->header.dtype != DType::kUint8 ||
      originals->header.dtype != DType::kInt64 ||
      (has_types && (types == nullptr || types->header.dtype != DType::kInt32))) {
    return BrokenParts(path, "its nodes have no inner_node, orig_id or _TYPE");
  }
  for (uint64_t i = 0; i < view->num_nodes; ++i) {
    if (ValueAt<uint8_t>(*inner, i) == 0) break;  // The halo.
    const int64_t type = has_types ? ValueAt<int32_t>(*types, i) : 0;
    const int64_t original = ValueAt<int64_t>(*originals, i);
    if (type < 0 || static_cast<size_t>(type) >= graph.node_types().size() || original < 0 ||
        original >= static_cast<int64_t>(graph.node_types()[static_cast<size_t>(type)].size)) {
      return BrokenParts(path, absl::StrCat("node ", i, " is none of the graph"));
    }
    uint32_t& of_node = parts[graph.node_types()[static_cast<size_t>(type)].start +
                              static_cast<uint32_t>(original)];
    if (of_node != kNone) return BrokenParts(path, absl::StrCat("node ", i, " is in two parts"));
    of_node = part;
  }
  return absl::OkStatus();
}

// The part of each homogeneous node, from the files of a partition that is done: parts.npy, or the
// parts themselves. DATA_LOSS naming the file, if they do not have each node once; errors of the
// folder. O(nodes); 4 bytes a node.
absl::StatusOr<std::vector<uint32_t>> ReadKeptParts(const PartitionFolder& folder,
                                                    uint32_t num_parts,
                                                    const HomogeneousGraph& graph) {
  PH_ASSIGN_OR_RETURN(const std::vector<PartitionJobFile> files, folder.Files());
  std::vector<uint32_t> parts(graph.num_nodes(), kNone);
  const std::string all = kPartsOfNodesFile + 1;
  if (std::any_of(files.begin(), files.end(), [&](const auto& file) { return file.path == all; })) {
    PH_ASSIGN_OR_RETURN(const OwnedBytes file, folder.Map(all));
    const absl::StatusOr<ArrayView> array = ReadNpyFile(file.bytes);
    if (!array.ok() || array->header.dtype != DType::kUint32 ||
        array->bytes.size() != parts.size() * sizeof(uint32_t)) {
      return BrokenParts(all, "it does not have a part for each node");
    }
    std::memcpy(parts.data(), array->bytes.data(), array->bytes.size());
  } else {
    for (uint32_t part = 0; part < num_parts; ++part) {
      const std::string path = PartFolder("", part).substr(1) + "/graph.dgl";
      PH_RETURN_IF_ERROR(TakePart(folder, path, part, graph, parts));
    }
  }
  if (std::any_of(parts.begin(), parts.end(),
                  [num_parts](uint32_t part) { return part >= num_parts; })) {
    return BrokenParts(all, "a node is in no part");
  }
  return parts;
}

// Several servers may change a partition at the same time: each tries again, by what it is then.
absl::Status UnlessOthersAreFaster(absl::FunctionRef<absl::Status()> change) {
  constexpr int kTries = 10;
  for (int tries = 1;; ++tries) {
    absl::Status changed = change();
    if (!absl::IsAborted(changed)) return changed;
    if (tries == kTries) return absl::UnavailableError(changed.message());
  }
}

bool HasEnded(const PartitionJobInfo& info) {
  return info.state != PartitionJobState::kWaiting && info.state != PartitionJobState::kRunning;
}

absl::Status NoPartition(absl::string_view graph, absl::string_view name) {
  return absl::NotFoundError(
      absl::StrCat("partition ", Quoted(name), " of ", Quoted(graph), ": there is none"));
}

}  // namespace

absl::StatusOr<PartitionJobs::Opened> PartitionJobs::Open(const SourceGraphStore& graphs,
                                                          absl::string_view graph,
                                                          absl::string_view name) const {
  Opened opened;
  if (options_.shared == nullptr) {
    PH_ASSIGN_OR_RETURN(opened.graph, graphs.Open(graph));
    opened.folder = std::make_shared<const PartitionFolder>(*opened.graph, name);
    return opened;
  }
  PH_ASSIGN_OR_RETURN(const SourceGraphInfo info, graphs.Get(graph));
  // To open one that is not sealed is an error, and nothing is fetched.
  if (info.state != SourceGraphState::kSealed) PH_RETURN_IF_ERROR(graphs.Open(graph).status());
  // A use, as to open it is.
  if (&graphs != unused_graphs_) PH_RETURN_IF_ERROR(Use(graph));
  opened.folder = std::make_shared<const SharedPartitionFolder>(
      options_.shared, CompanionGraph{info.name, info.id}, info.version, name);
  return opened;
}

absl::Status PartitionJobs::Use(absl::string_view graph) const {
  const absl::Status used = graphs_->OpenIfHere(graph).status();
  // It would have to be fetched.
  return absl::IsCancelled(used) ? absl::OkStatus() : used;
}

absl::StatusOr<PartitionJobs::Opened> PartitionJobs::OpenFor(const SourceGraphStore& graphs,
                                                             absl::string_view graph,
                                                             absl::string_view name) const {
  auto opened = Open(graphs, graph, name);
  // Without a seal there are no partitions.
  if (absl::IsFailedPrecondition(opened.status())) return NoPartition(graph, name);
  if (opened.ok() && !IsPartitionName(name)) return NoPartition(graph, name);
  return opened;
}

absl::StatusOr<PartitionJobs::Opened> PartitionJobs::OpenDone(absl::string_view graph,
                                                              absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(auto opened, OpenFor(*graphs_, graph, name));
  PH_RETURN_IF_ERROR(opened.folder->State().status());
  if (opened.folder->is_done()) return opened;
  return absl::FailedPreconditionError(
      absl::StrCat("partition ", Quoted(name), " of ", Quoted(graph), " is not done"));
}

PartitionProgress PartitionJobs::ProgressOf(const PartitionWork& work) const {
  PartitionProgress progress = {work.phase, work.share, std::nullopt};
  const double done = work.share - work.began_share;
  if (work.began_share >= 0 && done > 0) {
    progress.rest = (clock_->Now() - work.began) * ((1 - work.share) / done);
  }
  return progress;
}

void PartitionJobs::ReadProgress(PartitionJobInfo& info, const Key& key) const {
  absl::MutexLock lock(&mutex_);
  PartitionStates::State state;
  const std::shared_ptr<const PartitionWork> work = states_.Find(key, &state);
  if (work == nullptr) {
    info.error = states_.failure(key);
    if (!info.error.ok()) info.state = PartitionJobState::kFailed;
    return;
  }
  const bool runs = state != PartitionStates::State::kWaiting && work->has_memory;
  info.state = runs ? PartitionJobState::kRunning : PartitionJobState::kWaiting;
  if (runs) static_cast<PartitionProgress&>(info) = ProgressOf(*work);
}

absl::StatusOr<PartitionJobInfo> PartitionJobs::Read(const PartitionFolder& folder,
                                                     const std::string& name,
                                                     bool with_files) const {
  PH_ASSIGN_OR_RETURN(PartitionJobInfo info, ReadState(folder, name));
  if (info.state != PartitionJobState::kDone) return info;
  PH_ASSIGN_OR_RETURN(info.report, folder.Report());
  if (with_files) {
    PH_ASSIGN_OR_RETURN(info.files, folder.Files());
  }
  return info;
}

absl::StatusOr<PartitionJobInfo> PartitionJobs::ReadState(const PartitionFolder& folder,
                                                          const std::string& name) const {
  PartitionJobInfo info;
  info.graph = folder.graph();
  info.graph_version = folder.graph_version();
  ReadProgress(info, {info.graph, name});
  // The disk is asked afterwards, and knows better: work may just have ended.
  PH_ASSIGN_OR_RETURN(PartitionState state, folder.State());
  info.plan = std::move(state.plan);
  if (folder.is_done()) {
    info.state = PartitionJobState::kDone;
    info.error = absl::OkStatus();
    info.rest.reset();
    return info;
  }
  if (state.end) {
    const bool was_cancelled = absl::IsCancelled(*state.end);
    info.state = was_cancelled ? PartitionJobState::kCancelled : PartitionJobState::kFailed;
    info.error = was_cancelled ? absl::OkStatus() : *state.end;
    info.rest.reset();
    return info;
  }
  // Without the list nobody works at it.
  PH_RETURN_IF_ERROR(folder.CheckIsListed());
  const auto elsewhere = folder.work_elsewhere();
  if (!elsewhere) return info;
  info.state = !elsewhere->lives     ? PartitionJobState::kFailed
               : elsewhere->progress ? PartitionJobState::kRunning
                                     : PartitionJobState::kWaiting;
  static_cast<PartitionProgress&>(info) = elsewhere->progress.value_or(PartitionProgress());
  info.error = elsewhere->lives
                   ? absl::OkStatus()
                   : absl::UnavailableError(absl::StrCat(
                         "the server ", elsewhere->server,
                         ", which works at it, is gone: it goes on if that server starts again "
                         "with its cache; asked for again, it begins anew at another one"));
  return info;
}

absl::StatusOr<PartitionJobInfo> PartitionJobs::Partition(absl::string_view graph,
                                                          const PartitionPlan& plan,
                                                          const ClientId& client) {
  PH_RETURN_IF_ERROR(CheckPartitionPlan(plan));
  const Key key(graph, plan.name);
  std::shared_ptr<const StoredSourceGraph> fetched;
  Asked asked = Asked::kThere;
  PH_RETURN_IF_ERROR(UnlessOthersAreFaster([&]() -> absl::Status {
    {
      absl::MutexLock changes(&changes_);
      PH_ASSIGN_OR_RETURN(asked, TryPartition(graph, plan, client, fetched));
    }
    if (asked == Asked::kThere || asked == Asked::kNew) return absl::OkStatus();
    if (asked == Asked::kNeedsGraph) {
      PH_ASSIGN_OR_RETURN(fetched, graphs_->Open(graph));
    } else {
      AwaitEnd([&key](const Key& other) { return other == key; });
    }
    return absl::AbortedError(absl::StrCat("partition ", Quoted(plan.name), " of ", Quoted(graph),
                                           ": others change it all the time"));
  }));
  // The folder is the work's.
  const auto opened = Open(*unused_graphs_, graph, plan.name);
  absl::StatusOr<PartitionJobInfo> now =
      opened.ok() ? Read(*opened->folder, plan.name, /*with_files=*/true) : opened.status();
  if (now.ok() || asked == Asked::kThere) return now;
  // It was asked for, whether or not the disk can be read now.
  PartitionJobInfo info;
  info.graph = key.first;
  info.plan = plan;
  if (fetched != nullptr) info.graph_version = fetched->version();
  ReadProgress(info, key);
  return info;
}

absl::StatusOr<PartitionJobs::Asked> PartitionJobs::TryPartition(
    absl::string_view graph, const PartitionPlan& plan, const ClientId& client,
    std::shared_ptr<const StoredSourceGraph>& fetched) {
  PH_ASSIGN_OR_RETURN(const Opened opened, Open(*graphs_, graph, plan.name));
  const PartitionFolder& folder = *opened.folder;
  const Key key(folder.graph(), plan.name);
  const auto is_it = [&key](const Key& other) { return other == key; };
  const absl::StatusOr<PartitionJobInfo> before = ReadState(folder, plan.name);
  if (before.ok()) {
    if (PlanText(before->plan) != PlanText(plan)) {
      return absl::AlreadyExistsError(
          absl::StrCat("partition ", Quoted(plan.name), " of ", Quoted(graph),
                       ": there is one that was asked for in other words"));
    }
    // An earlier call may have ended before it was known to be on the disk and in the list.
    PH_RETURN_IF_ERROR(folder.Settle());
    const bool has_ended = before->state == PartitionJobState::kFailed ||
                           before->state == PartitionJobState::kCancelled;
    if (before->state == PartitionJobState::kDone) return Asked::kThere;
    if (!has_ended && folder.work_elsewhere()) return Asked::kThere;
    absl::MutexLock lock(&mutex_);
    // If nobody works on it, it was not known whether it is on the disk.
    if (!has_ended && states_.HasAny(is_it) && !states_.HasCancelled(is_it)) return Asked::kThere;
  } else if (!absl::IsNotFound(before.status())) {
    return before.status();
  }
  if (opened.graph != nullptr) fetched = opened.graph;
  if (fetched == nullptr || !folder.IsOf(*fetched)) return Asked::kNeedsGraph;
  {
    absl::MutexLock lock(&mutex_);
    // Work that another server has ended.
    if (options_.shared != nullptr) states_.Cancel(is_it);
    if (states_.HasCancelled(is_it)) return Asked::kNeedsEnd;
  }
  PH_RETURN_IF_ERROR(CheckPlanOf(*fetched, plan));
  PH_RETURN_IF_ERROR(NeedsOf(*fetched, plan, memory_ == nullptr ? 0 : memory_->bound()).status());
  PH_RETURN_IF_ERROR(CountBytes(key, folder.NumBytes()));
  PH_ASSIGN_OR_RETURN(FairBound::Place place, waiting_bound_.Enter(client));
  PH_RETURN_IF_ERROR(before.ok() ? folder.RemoveEnd() : folder.Create(plan, client));
  absl::MutexLock lock(&mutex_);
  Ask(key, client, std::move(place), fetched, opened.folder);
  return Asked::kNew;
}

absl::StatusOr<PartitionJobInfo> PartitionJobs::Get(absl::string_view graph,
                                                    absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(const Opened opened, OpenFor(*unused_graphs_, graph, name));
  return Read(*opened.folder, std::string(name), /*with_files=*/true);
}

absl::StatusOr<std::vector<PartitionJobInfo>> PartitionJobs::List(absl::string_view graph) const {
  std::vector<PartitionJobInfo> list;
  const auto of_graph = Open(*unused_graphs_, graph, "");
  if (absl::IsFailedPrecondition(of_graph.status())) return list;
  PH_RETURN_IF_ERROR(of_graph.status());
  PH_ASSIGN_OR_RETURN(const PartitionList names, of_graph->folder->Names());
  for (const std::string& name : names) {
    PH_ASSIGN_OR_RETURN(const Opened opened, Open(*unused_graphs_, graph, name));
    absl::StatusOr<PartitionJobInfo> info = Read(*opened.folder, name, /*with_files=*/false);
    // It may just have been deleted.
    if (absl::IsNotFound(info.status())) continue;
    if (absl::IsDataLoss(info.status())) {
      // It keeps nobody from the others.
      PartitionJobInfo damaged;
      damaged.graph = opened.folder->graph();
      damaged.graph_version = opened.folder->graph_version();
      damaged.plan.name = name;
      damaged.state = PartitionJobState::kFailed;
      damaged.error = info.status();
      info = std::move(damaged);
    }
    PH_RETURN_IF_ERROR(info.status());
    list.push_back(*std::move(info));
  }
  return list;
}

absl::StatusOr<PartitionJobInfo> PartitionJobs::Cancel(absl::string_view graph,
                                                       absl::string_view name) {
  PartitionJobInfo before;
  PH_RETURN_IF_ERROR(UnlessOthersAreFaster([&] {
    absl::MutexLock changes(&changes_);
    return TryCancel(graph, name, before);
  }));
  const Key key{graph, name};
  const auto is_it = [&key](const Key& other) { return other == key; };
  AwaitEnd(is_it);
  if (!HasEnded(before)) {
    // Work that was ending as it was cancelled may have failed.
    absl::MutexLock lock(&mutex_);
    if (!states_.HasAny(is_it)) states_.ForgetFailures(is_it);
  }
  const auto opened = Open(*unused_graphs_, graph, name);
  absl::StatusOr<PartitionJobInfo> now =
      opened.ok() ? Read(*opened->folder, key.second, /*with_files=*/true) : opened.status();
  if (now.ok() || HasEnded(before)) return now;
  // It was cancelled, whether or not the disk can be read now.
  before.state = PartitionJobState::kCancelled;
  before.rest.reset();
  return before;
}

absl::Status PartitionJobs::TryCancel(absl::string_view graph, absl::string_view name,
                                      PartitionJobInfo& before) {
  PH_ASSIGN_OR_RETURN(const Opened opened, OpenFor(*graphs_, graph, name));
  const PartitionFolder& folder = *opened.folder;
  const Key key{graph, name};
  PH_ASSIGN_OR_RETURN(before, ReadState(folder, key.second));
  if (HasEnded(before)) return absl::OkStatus();
  // First, so that it does not go on after a crash.
  PH_RETURN_IF_ERROR(folder.Settle());
  PH_RETURN_IF_ERROR(folder.WriteEnd(absl::CancelledError("the partition was cancelled")));
  absl::MutexLock lock(&mutex_);
  states_.Cancel([&key](const Key& other) { return other == key; });
  return absl::OkStatus();
}

absl::Status PartitionJobs::Delete(absl::string_view graph, absl::string_view name) {
  const Key key{graph, name};
  const auto is_it = [&key](const Key& other) { return other == key; };
  const auto find = [&]() -> absl::StatusOr<Opened> {
    // No use: a store without room for one must let go of what it has.
    PH_ASSIGN_OR_RETURN(Opened opened, OpenFor(*unused_graphs_, graph, name));
    // One that is damaged can be deleted.
    const auto state = opened.folder->State();
    if (absl::IsNotFound(state.status())) return state.status();
    return opened;
  };
  // Otherwise the work goes on.
  PH_RETURN_IF_ERROR(find().status());
  std::string deleted;
  PH_RETURN_IF_ERROR(WithoutWork(is_it, [&]() -> absl::Status {
    PH_ASSIGN_OR_RETURN(const Opened opened, find());
    // The files are removed without holding up others.
    PH_ASSIGN_OR_RETURN(deleted, opened.folder->MoveAway());
    CountBytes(key, 0).IgnoreError();
    absl::MutexLock lock(&mutex_);
    bytes_.erase(key);
    states_.ForgetFailures(is_it);
    return absl::OkStatus();
  }));
  // What cannot be removed now is when the jobs are opened again.
  if (!deleted.empty()) RemoveFolder(deleted).IgnoreError();
  return absl::OkStatus();
}

absl::StatusOr<PartitionJobs::FileBytes> PartitionJobs::ReadFile(absl::string_view graph,
                                                                 absl::string_view name,
                                                                 absl::string_view path,
                                                                 uint64_t offset,
                                                                 uint64_t max_bytes) const {
  PH_ASSIGN_OR_RETURN(const Opened opened, OpenDone(graph, name));
  return opened.folder->Read(path, offset, max_bytes);
}

absl::StatusOr<PartitionJobs::Parts> PartitionJobs::PartsOf(absl::string_view graph,
                                                            absl::string_view name) const {
  Parts parts;
  PH_ASSIGN_OR_RETURN(Opened opened, OpenDone(graph, name));
  const PartitionFolder& folder = *opened.folder;
  PH_ASSIGN_OR_RETURN(const PartitionState state, folder.State());
  parts.num_parts = state.plan.options.num_parts;
  if (opened.graph == nullptr) {
    PH_ASSIGN_OR_RETURN(opened.graph, graphs_->Open(graph));
    if (!folder.IsOf(*opened.graph)) return NoPartition(graph, name);
  }
  parts.graph = std::move(opened.graph);
  PH_ASSIGN_OR_RETURN(const HomogeneousGraph homogeneous,
                      HomogeneousGraph::Create(parts.graph.get()));
  if (memory_ != nullptr) {
    PH_ASSIGN_OR_RETURN(parts.memory, memory_->Hold("the parts of nodes",
                                                    sizeof(uint32_t) * homogeneous.num_nodes()));
  }
  PH_ASSIGN_OR_RETURN(parts.part, ReadKeptParts(folder, parts.num_parts, homogeneous));
  return parts;
}

absl::Status PartitionJobs::DeleteGraph(absl::string_view graph) {
  const absl::Status deleted = WithoutWork([graph](const Key& key) { return key.first == graph; },
                                           [&] {
                                             absl::Status gone = graphs_->Delete(graph);
                                             if (gone.ok()) ForgetGraph(graph);
                                             return gone;
                                           });
  if (options_.shared != nullptr) {
    // What is left of them goes with a sweep.
    if (deleted.ok()) options_.shared->RemoveGone().IgnoreError();
    FindClaimed();
    return deleted;
  }
  // The graph is still there: its partitions go on.
  if (!deleted.ok()) FindUnfinishedOf(std::string(graph));
  return deleted;
}

void PartitionJobs::ForgetGraph(absl::string_view graph) {
  const auto is_of_graph = [graph](const Key& key) { return key.first == graph; };
  absl::MutexLock lock(&mutex_);
  states_.ForgetFailures(is_of_graph);
  for (auto it = bytes_.begin(); it != bytes_.end();) {
    if (is_of_graph(it->first)) {
      all_bytes_ -= it->second;
      it = bytes_.erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace packhouse
