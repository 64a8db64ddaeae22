#include "service/wings/graphs/stored/file_source_graph_store.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/stored/graph_list.h"
#include "service/wings/graphs/stored/source_graph_names.h"

namespace packhouse {
namespace {

uint64_t NewId() {
  std::random_device device;
  uint64_t id = 0;
  while (id == 0) id = uint64_t{device()} << 32 | device();
  return id;
}

}  // namespace

FileSourceGraphStore::FileSourceGraphStore(const Options& options)
    : options_(options),
      space_(
          std::make_shared<DiskSpace>(options.folder, options.max_bytes, options.min_free_bytes)),
      names_(options.folder) {}

absl::StatusOr<std::unique_ptr<FileSourceGraphStore>> FileSourceGraphStore::Open(
    const Options& options) {
  PH_RETURN_IF_ERROR(MakeFolder(options.folder));
  auto store = std::unique_ptr<FileSourceGraphStore>(new FileSourceGraphStore(options));
  PH_ASSIGN_OR_RETURN(store->lock_, LockSourceGraphs(options.folder));
  PH_RETURN_IF_ERROR(store->Load());
  return store;
}

absl::Status FileSourceGraphStore::Load() {
  // What an earlier process has renamed, and could not sync, is on the disk before anything is
  // built on it.
  PH_RETURN_IF_ERROR(names_.Sync());
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(options_.folder, error), end;
       !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) return DiskStatus(error.value(), "cannot list", options_.folder);
  auto listed = ReadGraphList(options_.folder);
  if (absl::IsDataLoss(listed.status())) {
    return absl::DataLossError(absl::StrCat(
        listed.status().message(),
        "; packhoused store repair --accept-missing writes it anew, of the graphs that are there"));
  }
  PH_RETURN_IF_ERROR(listed.status());
  // Those that are missing are damaged.
  for (const auto& [folder, graph_name] : *listed) names.push_back(folder);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  absl::MutexLock changes(&changes_);
  absl::ReleasableMutexLock lock(&mutex_);
  for (const std::string& name : names) {
    const std::string folder = absl::StrCat(options_.folder, "/", name);
    if (absl::EndsWith(name, kDeletedFolder) || absl::EndsWith(name, kUnfinishedFolder) ||
        absl::EndsWith(name, kUnfinishedFile)) {
      RemoveAll(folder).IgnoreError();
      continue;
    }
    if (!IsSourceGraphFolderName(name)) continue;
    const auto known = listed->find(name);
    PH_ASSIGN_OR_RETURN(
        auto graph,
        SourceGraphFolder::Load(folder, known == listed->end() ? name : known->second, space_));
    std::string graph_name = graph->name();
    if (graphs_.contains(graph_name)) {
      return absl::DataLossError(absl::StrCat(
          options_.folder, ": folders ",
          absl::string_view(graphs_[graph_name]->folder()).substr(options_.folder.size() + 1),
          " and ", name, " have source graphs of one name, ", Quoted(graph_name),
          "; move one of them away"));
    }
    graphs_.emplace(std::move(graph_name), std::move(graph));
  }
  lock.Release();
  // On a disk that takes nothing all graphs are read; changes wait until the list is written.
  NoteGraphs("").IgnoreError();
  return absl::OkStatus();
}

absl::Status FileSourceGraphStore::NoteGraphs(absl::string_view except) const {
  GraphList list;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [name, graph] : graphs_) {
      std::string folder = graph->folder().substr(options_.folder.size() + 1);
      if (folder != except) list.emplace(std::move(folder), name);
    }
  }
  std::string text = EncodeGraphList(list);
  if (text != noted_) {
    noted_.clear();
    const absl::Status put = names_.Put(kGraphListFile, text);
    are_noted_ = put.ok();
    PH_RETURN_IF_ERROR(put);
    noted_ = std::move(text);
  }
  are_noted_ = true;
  return absl::OkStatus();
}

absl::Status FileSourceGraphStore::NoteLate() const {
  if (are_noted_) return absl::OkStatus();
  absl::MutexLock changes(&changes_);
  return are_noted_ ? absl::OkStatus() : NoteGraphs("");
}

void FileSourceGraphStore::TryNoteLate() const {
  if (are_noted_ || !changes_.TryLock()) return;
  if (!are_noted_) NoteGraphs("").IgnoreError();
  changes_.Unlock();
}

absl::StatusOr<std::shared_ptr<SourceGraphFolder>> FileSourceGraphStore::Find(
    absl::string_view name) const {
  PH_RETURN_IF_ERROR(names_.Settle());
  absl::MutexLock lock(&mutex_);
  const auto found = graphs_.find(name);
  if (found != graphs_.end()) return found->second;
  return absl::NotFoundError(absl::StrCat("source graph ", Quoted(name), ": there is none"));
}

absl::Status FileSourceGraphStore::CheckNew(absl::string_view name) const {
  absl::MutexLock lock(&mutex_);
  if (graphs_.contains(name)) {
    return absl::AlreadyExistsError(
        absl::StrCat("source graph ", Quoted(name), ": there is one already"));
  }
  if (graphs_.size() >= options_.max_graphs) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "there are ", graphs_.size(), " source graphs, the bound is ", options_.max_graphs));
  }
  return absl::OkStatus();
}

std::string FileSourceGraphStore::PathOf(uint64_t id) const {
  return names_.PathOf(SourceGraphFolderName(id));
}

absl::Status FileSourceGraphStore::Place(const std::shared_ptr<SourceGraphFolder>& graph) {
  const std::string unfinished = SourceGraphFolder::UnfinishedOf(graph->folder());
  const auto name_of = [](const std::string& path) { return path.substr(path.rfind('/') + 1); };
  const absl::Status placed = names_.Rename(name_of(unfinished), name_of(graph->folder()));
  if (!placed.ok() && !DiskOutcomeIsUnknown(placed)) {
    RemoveAll(unfinished).IgnoreError();
    return placed;
  }
  // Also if that is not known: until it is, its name is taken, and nobody gets at it.
  if (!placed.ok()) are_noted_ = false;
  absl::MutexLock lock(&mutex_);
  graphs_.emplace(graph->name(), graph);
  return placed;
}

absl::Status FileSourceGraphStore::NotePlaced() const {
  const absl::Status noted = NoteGraphs("");
  // The graph is there, and nobody would miss it.
  return noted.ok() ? noted : UnknownOutcome(noted);
}

absl::StatusOr<SourceGraphInfo> FileSourceGraphStore::Create(absl::string_view name,
                                                             const SourceGraphSchema& schema,
                                                             const SourceGraphOptions& options) {
  PH_RETURN_IF_ERROR(CheckSourceGraphName(name));
  PH_RETURN_IF_ERROR(CheckSourceGraphOptions(schema, options));
  GraphDefinition definition;
  definition.name = std::string(name);
  definition.id = NewId();
  definition.schema = std::make_shared<const SourceGraphSchema>(schema);
  definition.options = options;
  definition.options.node_sets.resize(schema.node_sets().size());
  definition.options.edge_sets.resize(schema.edge_sets().size());
  absl::MutexLock changes(&changes_);
  PH_RETURN_IF_ERROR(names_.Settle());
  PH_RETURN_IF_ERROR(CheckNew(name));
  // A graph needs some room for its own files.
  PH_RETURN_IF_ERROR(space_->Take(0));
  const std::string folder = PathOf(definition.id);
  PH_ASSIGN_OR_RETURN(const auto graph,
                      SourceGraphFolder::Create(folder, std::move(definition), space_));
  PH_ASSIGN_OR_RETURN(SourceGraphInfo info, graph->Get());
  PH_RETURN_IF_ERROR(Place(graph));
  PH_RETURN_IF_ERROR(NotePlaced());
  return info;
}

absl::StatusOr<SourceAppendResult> FileSourceGraphStore::Append(
    const Target& target, const SourceGraphChunk& chunk,
    const std::optional<ProducerSequence>& producer) {
  if (producer) PH_RETURN_IF_ERROR(CheckProducer(*producer));
  PH_RETURN_IF_ERROR(NoteLate());
  PH_ASSIGN_OR_RETURN(const auto graph, Find(target.name));
  PH_ASSIGN_OR_RETURN(const SourceAppendResult result, graph->Append(target.id, chunk, producer));
  appended_nodes_.fetch_add(result.num_nodes, std::memory_order_relaxed);
  appended_edges_.fetch_add(result.num_edges, std::memory_order_relaxed);
  return result;
}

absl::StatusOr<ProducerHistory> FileSourceGraphStore::GetProducer(
    const Target& target, absl::string_view producer) const {
  PH_ASSIGN_OR_RETURN(const auto graph, Find(target.name));
  PH_RETURN_IF_ERROR(graph->CheckId(target.id));
  return graph->GetProducer(producer);
}

absl::StatusOr<SourceGraphInfo> FileSourceGraphStore::Seal(
    const Target& target, const SealOptions& options,
    absl::FunctionRef<bool(const SourceGraphProgress&)> progress) {
  PH_RETURN_IF_ERROR(NoteLate());
  PH_ASSIGN_OR_RETURN(const auto graph, Find(target.name));
  PH_RETURN_IF_ERROR(graph->CheckId(target.id));
  return graph->Seal(options, progress);
}

absl::StatusOr<SourceGraphInfo> FileSourceGraphStore::Get(absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(const auto graph, Find(name));
  return graph->Get();
}

absl::StatusOr<SourceGraphList> FileSourceGraphStore::List(size_t page_size,
                                                           absl::string_view page_token) const {
  if (!page_token.empty() && !CheckSourceGraphName(page_token).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("page token ", Quoted(page_token), ": is that of no page"));
  }
  TryNoteLate();
  if (page_size == 0) page_size = kDefaultPageSize;
  page_size = std::min(page_size, kMaxPageSize);
  std::vector<std::shared_ptr<SourceGraphFolder>> page;
  SourceGraphList list;
  {
    absl::MutexLock lock(&mutex_);
    auto next = page_token.empty() ? graphs_.begin() : graphs_.upper_bound(page_token);
    for (; next != graphs_.end() && page.size() < page_size; ++next) page.push_back(next->second);
    if (next != graphs_.end()) list.next_page_token = page.back()->name();
  }
  for (const auto& graph : page) list.graphs.push_back(graph->Listed());
  return list;
}

absl::Status FileSourceGraphStore::Delete(const Target& target) {
  absl::MutexLock changes(&changes_);
  PH_ASSIGN_OR_RETURN(const auto graph, Find(target.name));
  PH_RETURN_IF_ERROR(graph->CheckId(target.id));
  const std::string folder = graph->folder().substr(options_.folder.size() + 1);
  const std::string deleted = absl::StrCat(folder, kDeletedFolder);
  PH_RETURN_IF_ERROR(NoteGraphs(folder));
  absl::Status renamed = names_.Rename(folder, deleted);
  // Of one that was missing nothing is left.
  if (absl::IsNotFound(renamed)) renamed = absl::OkStatus();
  if (!renamed.ok() && !DiskOutcomeIsUnknown(renamed)) {
    NoteGraphs("").IgnoreError();
    return renamed;
  }
  {
    absl::MutexLock lock(&mutex_);
    graphs_.erase(target.name);
  }
  graph->Forget();
  // Nothing of it is removed before it is known that it is deleted. What is not removed now is when
  // the store is opened again. Maps keep their files.
  PH_RETURN_IF_ERROR(renamed);
  RemoveAll(names_.PathOf(deleted)).IgnoreError();
  return absl::OkStatus();
}

absl::StatusOr<SourceGraphVerifyReport> FileSourceGraphStore::Verify(
    absl::string_view name, absl::FunctionRef<bool(const SourceGraphProgress&)> progress) const {
  PH_ASSIGN_OR_RETURN(const auto graph, Find(name));
  return graph->Verify(progress);
}

absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> FileSourceGraphStore::Open(
    absl::string_view name) const {
  TryNoteLate();
  PH_ASSIGN_OR_RETURN(const auto graph, Find(name));
  return graph->Open();
}

absl::StatusOr<SealedSourceGraph> FileSourceGraphStore::OpenSealed(absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(const auto graph, Find(name));
  return graph->OpenSealed();
}

absl::StatusOr<SourceGraphCopy> FileSourceGraphStore::CopyIn(
    const SealedSourceGraph& from, absl::FunctionRef<bool(const SourceGraphProgress&)> progress) {
  SourceGraphCopy copy;
  for (const ArrayInfo& array : from.manifest->arrays) copy.num_bytes += array.bytes;
  GraphDefinition definition = from.definition;
  definition.id = NewId();
  absl::MutexLock changes(&changes_);
  if (const auto there = Get(definition.name);
      there.ok() && there->version == from.manifest->version) {
    copy.num_old_bytes = copy.num_bytes;
    return copy;
  }
  PH_RETURN_IF_ERROR(CheckNew(definition.name));
  const std::string folder = PathOf(definition.id);
  PH_ASSIGN_OR_RETURN(const auto graph, SourceGraphFolder::CopyIn(folder, std::move(definition),
                                                                  from, space_, progress));
  PH_RETURN_IF_ERROR(Place(graph));
  PH_RETURN_IF_ERROR(NotePlaced());
  return copy;
}

absl::StatusOr<LinkedGraphs> FileSourceGraphStore::LinkAll() const {
  PH_ASSIGN_OR_RETURN(LinkedGraphs linked, LinkedGraphs::Begin(options_.folder));
  // Nothing is created or deleted meanwhile; appends and seals go on.
  absl::MutexLock changes(&changes_);
  PH_RETURN_IF_ERROR(names_.Settle());
  std::vector<std::shared_ptr<SourceGraphFolder>> graphs;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [name, graph] : graphs_) graphs.push_back(graph);
  }
  for (const auto& graph : graphs) PH_RETURN_IF_ERROR(graph->Link(linked));
  return linked;
}

SourceGraphStoreCounts FileSourceGraphStore::counts() const {
  SourceGraphStoreCounts counts;
  counts.num_bytes = space_->used();
  counts.max_bytes = space_->max_bytes();
  counts.appended_nodes = appended_nodes_.load(std::memory_order_relaxed);
  counts.appended_edges = appended_edges_.load(std::memory_order_relaxed);
  absl::MutexLock lock(&mutex_);
  counts.num_graphs = graphs_.size();
  return counts;
}

}  // namespace packhouse
