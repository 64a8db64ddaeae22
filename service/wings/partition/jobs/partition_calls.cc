// What callers ask of the jobs. The work itself is in partition_jobs.cc.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/cutting/homogeneous_graph.h"
#include "service/wings/partition/files/dgl_reader.h"
#include "service/wings/partition/files/npy_file.h"
#include "service/wings/partition/jobs/durable_files.h"
#include "service/wings/partition/jobs/part_writer.h"
#include "service/wings/partition/jobs/partition_jobs.h"
#include "service/wings/partition/jobs/partition_needs.h"
#include "service/wings/partition/jobs/partition_run.h"

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

absl::Status TakePart(const std::string& path, uint32_t part, const HomogeneousGraph& graph,
                      std::vector<uint32_t>& parts) {
  PH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const absl::StatusOr<DglGraphView> view = ReadDglGraphFile(file.bytes());
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

// The part of each homogeneous node, from the files that RunPartition() has written into `folder`:
// parts.npy, or the parts themselves. DATA_LOSS naming the file, if they do not have each node
// once; errors of the disk. O(nodes); 4 bytes a node.
absl::StatusOr<std::vector<uint32_t>> ReadKeptParts(const std::string& folder, uint32_t num_parts,
                                                    const HomogeneousGraph& graph) {
  std::vector<uint32_t> parts(graph.num_nodes(), kNone);
  const std::string all = folder + kPartsOfNodesFile;
  if (PathExists(all)) {
    PH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(all));
    const absl::StatusOr<ArrayView> array = ReadNpyFile(file.bytes());
    if (!array.ok() || array->header.dtype != DType::kUint32 ||
        array->bytes.size() != parts.size() * sizeof(uint32_t)) {
      return BrokenParts(all, "it does not have a part for each node");
    }
    std::memcpy(parts.data(), array->bytes.data(), array->bytes.size());
  } else {
    for (uint32_t part = 0; part < num_parts; ++part) {
      PH_RETURN_IF_ERROR(TakePart(PartFolder(folder, part) + "/graph.dgl", part, graph, parts));
    }
  }
  if (std::any_of(parts.begin(), parts.end(),
                  [num_parts](uint32_t part) { return part >= num_parts; })) {
    return BrokenParts(folder, "a node is in no part");
  }
  return parts;
}

absl::Status NoPartition(absl::string_view graph, absl::string_view name) {
  return absl::NotFoundError(
      absl::StrCat("partition ", Quoted(name), " of ", Quoted(graph), ": there is none"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> PartitionJobs::OpenFor(
    const SourceGraphStore& graphs, absl::string_view graph, absl::string_view name) {
  auto opened = graphs.Open(graph);
  // Without a seal there are no partitions.
  if (absl::IsFailedPrecondition(opened.status())) return NoPartition(graph, name);
  if (opened.ok() && !IsPartitionName(name)) return NoPartition(graph, name);
  return opened;
}

absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> PartitionJobs::OpenDone(
    absl::string_view graph, absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(auto opened, OpenFor(*graphs_, graph, name));
  const PartitionFolder folder(*opened, name);
  PH_RETURN_IF_ERROR(folder.State().status());
  if (folder.is_done()) return opened;
  return absl::FailedPreconditionError(
      absl::StrCat("partition ", Quoted(name), " of ", Quoted(graph), " is not done"));
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
  if (!runs) return;
  info.phase = work->phase;
  info.share_done = work->share;
  const double done = work->share - work->began_share;
  if (work->began_share >= 0 && done > 0) {
    info.rest = (clock_->Now() - work->began) * ((1 - work->share) / done);
  }
}

absl::StatusOr<PartitionJobInfo> PartitionJobs::Read(const StoredSourceGraph& graph,
                                                     const std::string& name,
                                                     bool with_files) const {
  PartitionJobInfo info;
  info.graph = graph.info().name;
  info.graph_version = graph.version();
  ReadProgress(info, {info.graph, name});
  // The disk is asked afterwards, and knows better: work may just have ended.
  const PartitionFolder folder(graph, name);
  PH_ASSIGN_OR_RETURN(PartitionState state, folder.State());
  info.plan = std::move(state.plan);
  if (folder.is_done()) {
    info.state = PartitionJobState::kDone;
    info.error = absl::OkStatus();
    info.rest.reset();
    PH_ASSIGN_OR_RETURN(info.report, folder.Report());
    if (with_files) {
      PH_ASSIGN_OR_RETURN(info.files, folder.Files());
    }
    return info;
  }
  // Without the list nobody works at it.
  if (!state.end) PH_RETURN_IF_ERROR(PartitionFolder::NamesOf(graph).status());
  if (state.end) {
    const bool was_cancelled = absl::IsCancelled(*state.end);
    info.state = was_cancelled ? PartitionJobState::kCancelled : PartitionJobState::kFailed;
    info.error = was_cancelled ? absl::OkStatus() : *state.end;
    info.rest.reset();
  }
  return info;
}

absl::StatusOr<PartitionJobInfo> PartitionJobs::Partition(absl::string_view graph,
                                                          const PartitionPlan& plan,
                                                          const ClientId& client) {
  PH_RETURN_IF_ERROR(CheckPartitionPlan(plan));
  absl::MutexLock changes(&changes_);
  PH_ASSIGN_OR_RETURN(const auto opened, graphs_->Open(graph));
  const Key key(opened->info().name, plan.name);
  const PartitionFolder folder(*opened, plan.name);
  const absl::StatusOr<PartitionJobInfo> before = Read(*opened, plan.name, /*with_files=*/true);
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
    if (before->state == PartitionJobState::kDone) return before;
    const auto is_it = [&key](const Key& other) { return other == key; };
    absl::MutexLock lock(&mutex_);
    // If nobody works on it, it was not known whether it is on the disk.
    if (!has_ended && states_.HasAny(is_it)) return before;
  } else if (!absl::IsNotFound(before.status())) {
    return before.status();
  }
  PH_RETURN_IF_ERROR(CheckPlanOf(*opened, plan));
  PH_RETURN_IF_ERROR(NeedsOf(*opened, plan, memory_ == nullptr ? 0 : memory_->bound()).status());
  PH_RETURN_IF_ERROR(CountBytes(key, folder.NumBytes()));
  PH_ASSIGN_OR_RETURN(FairBound::Place place, waiting_bound_.Enter(client));
  PH_RETURN_IF_ERROR(before.ok() ? folder.RemoveEnd() : folder.Create(plan, client));
  {
    absl::MutexLock lock(&mutex_);
    Ask(key, client, std::move(place), opened);
  }
  // It was asked for, whether or not the disk can be read now.
  absl::StatusOr<PartitionJobInfo> now = Read(*opened, plan.name, /*with_files=*/true);
  if (now.ok()) return now;
  PartitionJobInfo info;
  info.graph = key.first;
  info.plan = plan;
  info.graph_version = opened->version();
  ReadProgress(info, key);
  return info;
}

absl::StatusOr<PartitionJobInfo> PartitionJobs::Get(absl::string_view graph,
                                                    absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(const auto opened, OpenFor(*unused_graphs_, graph, name));
  return Read(*opened, std::string(name), /*with_files=*/true);
}

absl::StatusOr<std::vector<PartitionJobInfo>> PartitionJobs::List(absl::string_view graph) const {
  std::vector<PartitionJobInfo> list;
  const auto opened = unused_graphs_->Open(graph);
  if (absl::IsFailedPrecondition(opened.status())) return list;
  PH_RETURN_IF_ERROR(opened.status());
  PH_ASSIGN_OR_RETURN(const PartitionList names, PartitionFolder::NamesOf(**opened));
  for (const std::string& name : names) {
    absl::StatusOr<PartitionJobInfo> info = Read(**opened, name, /*with_files=*/false);
    // It may just have been deleted.
    if (absl::IsNotFound(info.status())) continue;
    if (absl::IsDataLoss(info.status())) {
      // It keeps nobody from the others.
      PartitionJobInfo damaged;
      damaged.graph = (*opened)->info().name;
      damaged.graph_version = (*opened)->version();
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
  absl::MutexLock changes(&changes_);
  PH_ASSIGN_OR_RETURN(const auto opened, OpenFor(*graphs_, graph, name));
  const Key key{graph, name};
  PH_ASSIGN_OR_RETURN(PartitionJobInfo before, Read(*opened, key.second, /*with_files=*/true));
  if (before.state != PartitionJobState::kWaiting && before.state != PartitionJobState::kRunning) {
    return before;
  }
  // First, so that it does not go on after a crash.
  const PartitionFolder folder(*opened, name);
  PH_RETURN_IF_ERROR(folder.Settle());
  PH_RETURN_IF_ERROR(folder.WriteEnd(absl::CancelledError("the partition was cancelled")));
  const auto is_it = [&key](const Key& other) { return other == key; };
  EndWork(is_it);
  {
    absl::MutexLock lock(&mutex_);
    states_.ForgetFailures(is_it);
  }
  absl::StatusOr<PartitionJobInfo> now = Read(*opened, key.second, /*with_files=*/true);
  if (now.ok()) return now;
  // It was cancelled, whether or not the disk can be read now.
  before.state = PartitionJobState::kCancelled;
  before.rest.reset();
  return before;
}

absl::Status PartitionJobs::Delete(absl::string_view graph, absl::string_view name) {
  std::string deleted;
  {
    absl::MutexLock changes(&changes_);
    PH_ASSIGN_OR_RETURN(const auto opened, OpenFor(*graphs_, graph, name));
    const PartitionFolder folder(*opened, name);
    // One that is damaged can be deleted.
    if (const auto state = folder.State(); absl::IsNotFound(state.status())) return state.status();
    const Key key{graph, name};
    const auto is_it = [&key](const Key& other) { return other == key; };
    EndWork(is_it);
    // The files are removed without holding up others.
    PH_ASSIGN_OR_RETURN(deleted, folder.MoveAway());
    CountBytes(key, 0).IgnoreError();
    absl::MutexLock lock(&mutex_);
    bytes_.erase(key);
    states_.ForgetFailures(is_it);
  }
  // What cannot be removed now is when the jobs are opened again.
  if (!deleted.empty()) RemoveFolder(deleted).IgnoreError();
  return absl::OkStatus();
}

absl::StatusOr<PartitionJobs::FileBytes> PartitionJobs::ReadFile(absl::string_view graph,
                                                                 absl::string_view name,
                                                                 absl::string_view path,
                                                                 uint64_t offset,
                                                                 uint64_t max_bytes) const {
  PH_ASSIGN_OR_RETURN(const auto opened, OpenDone(graph, name));
  return PartitionFolder(*opened, name).Read(path, offset, max_bytes);
}

absl::StatusOr<PartitionJobs::Parts> PartitionJobs::PartsOf(absl::string_view graph,
                                                            absl::string_view name) const {
  Parts parts;
  PH_ASSIGN_OR_RETURN(parts.graph, OpenDone(graph, name));
  const PartitionFolder folder(*parts.graph, name);
  PH_ASSIGN_OR_RETURN(const PartitionState state, folder.State());
  parts.num_parts = state.plan.options.num_parts;
  PH_RETURN_IF_ERROR(folder.Files().status());
  PH_ASSIGN_OR_RETURN(const HomogeneousGraph homogeneous,
                      HomogeneousGraph::Create(parts.graph.get()));
  if (memory_ != nullptr) {
    PH_ASSIGN_OR_RETURN(parts.memory, memory_->Hold("the parts of nodes",
                                                    sizeof(uint32_t) * homogeneous.num_nodes()));
  }
  PH_ASSIGN_OR_RETURN(parts.part, ReadKeptParts(folder.files(), parts.num_parts, homogeneous));
  return parts;
}

absl::Status PartitionJobs::DeleteGraph(absl::string_view graph) {
  absl::Status deleted;
  {
    absl::MutexLock changes(&changes_);
    EndWork([graph](const Key& key) { return key.first == graph; });
    deleted = graphs_->Delete(graph);
    if (deleted.ok()) ForgetGraph(graph);
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
