#include "service/wings/graphs/stored/source_graph_folder.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "service/base/disk_file.h"
#include "service/base/out_of_memory.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/stored/graph_sealer.h"
#include "service/wings/graphs/stored/graph_verification.h"
#include "service/wings/graphs/stored/source_graph_names.h"

namespace packhouse {
namespace {

uint64_t BytesOf(const GraphManifest& manifest) {
  uint64_t bytes = 0;
  for (const ArrayInfo& array : manifest.arrays) bytes += array.bytes;
  return bytes;
}

// Of another release, or nothing that the graph's files can help, such as too many open files.
bool IsNoDamage(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsResourceExhausted(status);
}

}  // namespace

SourceGraphFolder::SourceGraphFolder(std::string folder, GraphDefinition definition,
                                     std::shared_ptr<DiskSpace> store)
    : folder_(std::move(folder)),
      names_(folder_),
      definition_(std::move(definition)),
      space_(std::make_shared<GraphSpace>(std::move(store), definition_.name,
                                          definition_.options.max_bytes)) {}

absl::StatusOr<std::shared_ptr<SourceGraphFolder>> SourceGraphFolder::Create(
    const std::string& folder, GraphDefinition definition, std::shared_ptr<DiskSpace> store) {
  const std::string unfinished = UnfinishedOf(folder);
  absl::Cleanup remove = [&unfinished] { RemoveAll(unfinished).IgnoreError(); };
  definition.has_log = true;
  PH_RETURN_IF_ERROR(Begin(unfinished, definition));
  PH_RETURN_IF_ERROR(WriteWhole(unfinished, kRowsFile, BeginningOfRowLog(definition.id)));
  // From here on nothing fails: what is renamed is a graph.
  auto graph = std::shared_ptr<SourceGraphFolder>(
      new SourceGraphFolder(folder, std::move(definition), std::move(store)));
  absl::MutexLock lock(&graph->mutex_);
  graph->log_ =
      RowLog::New(absl::StrCat(folder, "/", kRowsFile), &graph->definition_, graph->space_.get());
  std::move(remove).Cancel();
  return graph;
}

std::string SourceGraphFolder::UnfinishedOf(const std::string& folder) {
  return absl::StrCat(folder, kUnfinishedFolder);
}

absl::Status SourceGraphFolder::Begin(const std::string& unfinished,
                                      const GraphDefinition& definition) {
  PH_RETURN_IF_ERROR(RemoveAll(unfinished));
  PH_RETURN_IF_ERROR(MakeFolder(unfinished));
  return WriteWhole(unfinished, kDefinitionFile, EncodeDefinition(definition));
}

absl::StatusOr<std::shared_ptr<SourceGraphFolder>> SourceGraphFolder::CopyIn(
    const std::string& folder, GraphDefinition definition, const SealedSourceGraph& from,
    std::shared_ptr<DiskSpace> store, SealWork::Progress progress) {
  const std::string unfinished = UnfinishedOf(folder);
  absl::Cleanup remove = [&unfinished] { RemoveAll(unfinished).IgnoreError(); };
  const std::string arrays = absl::StrCat(unfinished, "/", kArraysFolder);
  PH_RETURN_IF_ERROR(Begin(unfinished, definition));
  PH_RETURN_IF_ERROR(MakeFolder(arrays));
  PH_RETURN_IF_ERROR(MakeFolder(absl::StrCat(unfinished, "/", kCompanionFolder)));
  {
    // Counted while it is written; from then on by the graph.
    GraphSpace space(store, definition.name, definition.options.max_bytes);
    SourceGraphProgress now = {0, BytesOf(*from.manifest)};
    for (const ArrayInfo& array : from.manifest->arrays) {
      PH_ASSIGN_OR_RETURN(ArrayWriter writer, ArrayWriter::Create(arrays, array.name, &space));
      absl::string_view rest = from.graph->array(array.name);
      while (!rest.empty()) {
        const absl::string_view block = rest.substr(0, ArrayInfo::kBlockBytes);
        PH_RETURN_IF_ERROR(writer.Append(block));
        rest.remove_prefix(block.size());
        now.done += block.size();
        if (!progress(now)) return absl::CancelledError("given up");
      }
      PH_ASSIGN_OR_RETURN(const ArrayInfo written, writer.Finish());
      if (written.bytes != array.bytes || written.block_crcs != array.block_crcs) {
        return absl::DataLossError(absl::StrCat("source graph ", Quoted(definition.name),
                                                ": array ", array.name,
                                                " fails a checksum: verify the graph"));
      }
    }
  }
  PH_RETURN_IF_ERROR(SyncFolder(arrays));
  GraphManifest manifest = *from.manifest;
  manifest.name = definition.name;
  manifest.id = definition.id;
  PH_RETURN_IF_ERROR(WriteWhole(unfinished, kManifestFile, EncodeManifest(manifest)));
  auto graph = std::shared_ptr<SourceGraphFolder>(
      new SourceGraphFolder(folder, std::move(definition), std::move(store)));
  absl::MutexLock lock(&graph->mutex_);
  graph->BecomeSealed(graph->ToBeSealed(std::move(manifest)));
  graph->space_->TakeStored(BytesOf(*graph->manifest_));
  std::move(remove).Cancel();
  return graph;
}

absl::StatusOr<std::shared_ptr<SourceGraphFolder>> SourceGraphFolder::Load(
    const std::string& folder, const std::string& known_name, std::shared_ptr<DiskSpace> store) {
  auto definition = ReadDefinition(folder);
  // A graph whose name cannot be read now must not lose it to another one.
  if (!definition.ok() && !absl::IsDataLoss(definition.status()) &&
      !absl::IsNotFound(definition.status())) {
    return definition.status();
  }
  absl::Status damage = definition.status();
  if (!definition.ok()) {
    definition.emplace();
    const auto manifest = ReadManifest(folder);
    const bool is_named = manifest.ok() && !manifest->name.empty();
    definition->name = is_named ? manifest->name : known_name;
  }
  auto graph = std::shared_ptr<SourceGraphFolder>(
      new SourceGraphFolder(folder, *std::move(definition), std::move(store)));
  if (damage.ok()) damage = graph->LoadState();
  if (IsNoDamage(damage)) return damage;
  if (!damage.ok()) {
    absl::MutexLock lock(&graph->mutex_);
    graph->state_ = SourceGraphState::kDamaged;
    // A missing file is damage, too.
    if (absl::IsNotFound(damage) || absl::IsDataLoss(damage)) {
      damage = absl::DataLossError(absl::StrCat("source graph ", Quoted(graph->definition_.name),
                                                " is damaged: ", damage.message()));
    }
    graph->damage_ = std::move(damage);
  }
  return graph;
}

absl::Status SourceGraphFolder::LoadState() {
  const std::string rows = absl::StrCat(folder_, "/", kRowsFile);
  // Of a seal whose disk took nothing any more, not even the removal.
  RemoveAll(absl::StrCat(folder_, "/", kManifestFile, ".unfinished")).IgnoreError();
  auto manifest = ReadManifest(folder_);
  absl::MutexLock lock(&mutex_);
  if (absl::IsNotFound(manifest.status())) {
    if (HasLostManifest(folder_)) {
      return absl::DataLossError(
          absl::StrCat(folder_, "/", kManifestFile, ": is missing; the graph's arrays are there"));
    }
    std::error_code error;
    if (!definition_.has_log && !std::filesystem::exists(rows, error)) {
      PH_RETURN_IF_ERROR(names_.Put(kRowsFile, BeginningOfRowLog(definition_.id)));
    }
    PH_ASSIGN_OR_RETURN(log_, RowLog::Open(rows, &definition_, space_.get()));
    // Of a seal that did not come to its end.
    RemoveAll(absl::StrCat(folder_, "/", kArraysFolder)).IgnoreError();
    return absl::OkStatus();
  }
  if (!manifest.ok()) return manifest.status();
  if (manifest->id != definition_.id ||
      manifest->num_nodes.size() != definition_.schema->node_sets().size() ||
      manifest->num_edges.size() != definition_.schema->edge_sets().size()) {
    return absl::DataLossError(
        absl::StrCat(folder_, "/", kManifestFile, ": is that of another graph"));
  }
  std::error_code error;
  if (std::filesystem::exists(rows, error)) {
    // The seal's last sync may have failed: its name must be on the disk before the rows go.
    PH_RETURN_IF_ERROR(names_.Sync());
    RemoveAll(rows).IgnoreError();
  }
  space_->TakeStored(BytesOf(*manifest));
  BecomeSealed(ToBeSealed(*std::move(manifest)));
  return absl::OkStatus();
}

SourceGraphFolder::Sealed SourceGraphFolder::ToBeSealed(GraphManifest manifest) const {
  Sealed sealed;
  sealed.checks = std::make_shared<SealedChecks>(definition_.name, manifest);
  sealed.manifest = std::make_shared<const GraphManifest>(std::move(manifest));
  return sealed;
}

void SourceGraphFolder::BecomeSealed(Sealed sealed) {
  state_ = SourceGraphState::kSealed;
  log_ = nullptr;
  checks_ = std::move(sealed.checks);
  manifest_ = std::move(sealed.manifest);
}

absl::Status SourceGraphFolder::Damage() const {
  PH_RETURN_IF_ERROR(damage_);
  return checks_ == nullptr ? absl::OkStatus() : checks_->graph.damage();
}

absl::Status SourceGraphFolder::Usable() const {
  PH_RETURN_IF_ERROR(Damage());
  return names_.Settle();
}

absl::Status SourceGraphFolder::NotFound() const {
  return absl::NotFoundError(
      absl::StrCat("source graph ", Quoted(definition_.name), ": was deleted"));
}

SourceGraphInfo SourceGraphFolder::Info() const {
  SourceGraphInfo info;
  info.name = definition_.name;
  info.schema = definition_.schema;
  info.options = definition_.options;
  info.state = state_;
  info.id = definition_.id;
  info.num_bytes = space_->used();
  if (manifest_ != nullptr) {
    info.num_nodes = manifest_->num_nodes;
    info.num_edges = manifest_->num_edges;
    info.version = manifest_->version;
    return info;
  }
  RowCounts counts = log_->counts();
  info.num_nodes = std::move(counts.num_nodes);
  info.num_edges = std::move(counts.num_edges);
  for (size_t e = 0; e < info.num_edges.size(); ++e) {
    if (const auto& of = definition_.schema->edge_sets()[e].reverse_of) {
      info.num_edges[e] = info.num_edges[*of];
    }
  }
  return info;
}

absl::StatusOr<SourceGraphInfo> SourceGraphFolder::Get() const {
  absl::MutexLock lock(&mutex_);
  PH_RETURN_IF_ERROR(Usable());
  return Info();
}

SourceGraphInfo SourceGraphFolder::Listed() const {
  absl::MutexLock lock(&mutex_);
  if (Damage().ok()) {
    SourceGraphInfo info = Info();
    if (!names_.Settle().ok()) info.state = SourceGraphState::kSealing;
    return info;
  }
  SourceGraphInfo info;
  info.name = definition_.name;
  info.state = SourceGraphState::kDamaged;
  return info;
}

absl::Status SourceGraphFolder::CheckId(uint64_t id) const {
  if (id == 0 || id == definition_.id) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("source graph ", Quoted(definition_.name), ": its id is ",
                                          definition_.id, ", asked for is ", id,
                                          ", which was deleted, or never was"));
}

absl::StatusOr<ProducerHistory> SourceGraphFolder::GetProducer(absl::string_view producer) const {
  absl::MutexLock lock(&mutex_);
  PH_RETURN_IF_ERROR(damage_);
  if (is_forgotten_) return NotFound();
  if (log_ != nullptr) return log_->GetProducer(producer);
  const auto found = manifest_->producers.find(producer);
  return found == manifest_->producers.end() ? ProducerHistory() : found->second;
}

absl::StatusOr<SourceAppendResult> SourceGraphFolder::Append(
    uint64_t id, const SourceGraphChunk& chunk, const std::optional<ProducerSequence>& producer) {
  PH_RETURN_IF_ERROR(CheckId(id));
  std::shared_ptr<RowLog> log;
  {
    absl::MutexLock lock(&mutex_);
    PH_RETURN_IF_ERROR(Usable());
    if (is_forgotten_) return NotFound();
    log = log_;
    if (log == nullptr) {
      if (producer) {
        const auto found = manifest_->producers.find(producer->producer);
        bool repeats = false;
        if (found != manifest_->producers.end()) {
          PH_ASSIGN_OR_RETURN(repeats, RepeatsRows(definition_.name, definition_.id, chunk,
                                                   *producer, found->second));
        }
        if (repeats) {
          SourceAppendResult result;
          result.is_repetition = true;
          for (const uint64_t nodes : manifest_->num_nodes) result.total_nodes += nodes;
          for (const uint64_t edges : manifest_->num_edges) result.total_edges += edges;
          return result;
        }
      }
      return absl::FailedPreconditionError(
          absl::StrCat("source graph ", Quoted(definition_.name), " is sealed"));
    }
  }
  PH_RETURN_IF_ERROR(CheckSourceGraphChunk(*definition_.schema, definition_.options, chunk));
  return log->Append(chunk, producer);
}

absl::StatusOr<bool> SourceGraphFolder::BeginSeal() {
  absl::MutexLock lock(&mutex_);
  PH_RETURN_IF_ERROR(Usable());
  if (is_forgotten_) return NotFound();
  if (state_ == SourceGraphState::kSealed) {
    // They are there if an earlier call could not say that the graph is sealed.
    RemoveAll(absl::StrCat(folder_, "/", kRowsFile)).IgnoreError();
    return false;
  }
  if (state_ == SourceGraphState::kSealing) {
    return absl::UnavailableError(absl::StrCat("source graph ", Quoted(definition_.name),
                                               " is being sealed by another call"));
  }
  state_ = SourceGraphState::kSealing;
  return true;
}

absl::StatusOr<GraphManifest> SourceGraphFolder::MakeManifest(const SealOptions& options,
                                                              SealWork::Progress progress) {
  std::shared_ptr<RowLog> log;
  {
    absl::MutexLock lock(&mutex_);
    log = log_;
  }
  PH_RETURN_IF_ERROR(log->Stop());
  PH_ASSIGN_OR_RETURN(GraphManifest manifest, SealGraph(definition_, folder_, space_.get(), options,
                                                        [&](const SourceGraphProgress& now) {
                                                          return !is_forgotten() && progress(now);
                                                        }));
  // Also if an allocation fails.
  absl::Cleanup undo = [&] {
    RunWithinMemory([&] { RemoveAll(absl::StrCat(folder_, "/", kArraysFolder)).IgnoreError(); });
    space_->Give(BytesOf(manifest));
  };
  manifest.producers = log->producers();
  absl::Status made = MakeFolder(absl::StrCat(folder_, "/", kCompanionFolder));
  if (made.ok()) made = SyncFolder(folder_);
  // Whatever is known of the folder: without a manifest the graph is not sealed.
  if (!made.ok()) return absl::Status(made.code(), made.message());
  std::move(undo).Cancel();
  return manifest;
}

absl::StatusOr<SourceGraphInfo> SourceGraphFolder::Seal(const SealOptions& options,
                                                        SealWork::Progress progress) {
  PH_ASSIGN_OR_RETURN(const bool has_begun, BeginSeal());
  if (!has_begun) return Get();
  // The graph must be open again also if there is no memory.
  absl::StatusOr<GraphManifest> manifest = OutOfMemory();
  absl::Status sealed = OutOfMemory();
  Sealed to_be;
  RunWithinMemory([&] {
    manifest = MakeManifest(options, progress);
    if (!manifest.ok()) {
      sealed = manifest.status();
      return;
    }
    // Once the manifest is written, nothing may be missing for want of memory.
    to_be = ToBeSealed(*manifest);
    // From here on the graph is sealed.
    sealed = names_.Put(kManifestFile, EncodeManifest(*manifest));
  });
  absl::MutexLock lock(&mutex_);
  if (!manifest.ok() || (!sealed.ok() && !DiskOutcomeIsUnknown(sealed))) {
    if (manifest.ok()) {
      RunWithinMemory([&] { RemoveAll(absl::StrCat(folder_, "/", kArraysFolder)).IgnoreError(); });
      space_->Give(BytesOf(*manifest));
    }
    state_ = SourceGraphState::kOpen;
    log_->Resume();
    return is_forgotten_ ? NotFound() : sealed;
  }
  space_->Give(log_->bytes());
  BecomeSealed(std::move(to_be));
  // The rows stay until it is known that they are not needed.
  PH_RETURN_IF_ERROR(sealed);
  RunWithinMemory([&] { RemoveAll(absl::StrCat(folder_, "/", kRowsFile)).IgnoreError(); });
  return Info();
}

absl::StatusOr<SourceGraphVerifyReport> SourceGraphFolder::Verify(
    SealWork::Progress progress) const {
  std::shared_ptr<const GraphManifest> manifest;
  SourceGraphInfo info;
  {
    absl::MutexLock lock(&mutex_);
    if (!damage_.ok()) {
      SourceGraphVerifyReport report;
      report.num_damaged = 1;
      report.damaged.push_back(damage_);
      return report;
    }
    PH_RETURN_IF_ERROR(names_.Settle());
    manifest = manifest_;
    info = Info();
  }
  auto report = manifest == nullptr
                    ? VerifyRows(absl::StrCat(folder_, "/", kRowsFile), definition_, progress)
                    : VerifyArrays(folder_, *manifest, std::move(info), space_, progress);
  // Files of a deleted graph are missing.
  return is_forgotten() ? NotFound() : std::move(report);
}

absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> SourceGraphFolder::Open() const {
  absl::MutexLock lock(&mutex_);
  return Map();
}

absl::StatusOr<SealedSourceGraph> SourceGraphFolder::OpenSealed() const {
  absl::MutexLock lock(&mutex_);
  PH_ASSIGN_OR_RETURN(auto mapped, Map());
  return SealedSourceGraph{definition_, manifest_, std::move(mapped)};
}

absl::StatusOr<std::shared_ptr<const MappedSourceGraph>> SourceGraphFolder::Map() const {
  PH_RETURN_IF_ERROR(Usable());
  if (is_forgotten_) return NotFound();
  if (manifest_ == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("source graph ", Quoted(definition_.name), " is not sealed"));
  }
  if (auto mapped = mapped_.lock()) return mapped;
  PH_ASSIGN_OR_RETURN(auto mapped,
                      MappedSourceGraph::Open(folder_, *manifest_, Info(), space_, checks_));
  mapped_ = mapped;
  return mapped;
}

absl::Status SourceGraphFolder::Link(LinkedGraphs& linked) const {
  const std::string name = folder_.substr(folder_.rfind('/') + 1);
  // A seal ends, and the log is removed, under this lock.
  absl::MutexLock lock(&mutex_);
  if (is_forgotten_) return absl::OkStatus();
  if (!damage_.ok()) return linked.LinkFolder(folder_, name);
  PH_RETURN_IF_ERROR(names_.Settle());
  PH_RETURN_IF_ERROR(linked.LinkFile(folder_, name, kDefinitionFile));
  if (log_ != nullptr) {
    return linked.LinkFile(folder_, name, kRowsFile, log_->durable_bytes());
  }
  PH_RETURN_IF_ERROR(linked.LinkFile(folder_, name, kManifestFile));
  for (const ArrayInfo& array : manifest_->arrays) {
    PH_RETURN_IF_ERROR(
        linked.LinkFile(folder_, name, absl::StrCat(kArraysFolder, "/", array.name)));
  }
  return linked.LinkFolder(absl::StrCat(folder_, "/", kCompanionFolder),
                           absl::StrCat(name, "/", kCompanionFolder));
}

void SourceGraphFolder::Forget() {
  absl::MutexLock lock(&mutex_);
  is_forgotten_ = true;
}

bool SourceGraphFolder::is_forgotten() const {
  absl::MutexLock lock(&mutex_);
  return is_forgotten_;
}

}  // namespace packhouse
