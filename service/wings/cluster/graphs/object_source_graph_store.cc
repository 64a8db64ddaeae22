#include "service/wings/cluster/graphs/object_source_graph_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/cluster/datasets/object_manifest.h"
#include "service/wings/cluster/datasets/object_values.h"
#include "service/wings/graphs/stored/source_graph_names.h"

namespace packhouse {
namespace {

std::string WhatIs(absl::string_view name) { return absl::StrCat("source graph ", Quoted(name)); }

absl::Status NoSuchGraph(absl::string_view name) {
  return absl::NotFoundError(absl::StrCat(WhatIs(name), ": there is none"));
}

absl::Status AlreadyThere(absl::string_view name) {
  return absl::AlreadyExistsError(absl::StrCat(WhatIs(name), ": there is one already"));
}

// As the rows of a log have them; repetitions have none.
SourceAppendResult RepetitionIn(const SharedGraph& graph) {
  SourceAppendResult result;
  result.is_repetition = true;
  for (const uint64_t nodes : graph.num_nodes) result.total_nodes += nodes;
  for (const uint64_t edges : graph.num_edges) result.total_edges += edges;
  return result;
}

// As SourceGraphStore::Target; NOT_FOUND.
absl::Status CheckIs(const SharedGraph& graph, uint64_t id) {
  if (id == 0 || id == graph.definition.id) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(WhatIs(graph.definition.name), ": its id is ",
                                          graph.definition.id, ", asked for is ", id,
                                          ", which was deleted, or never was"));
}

}  // namespace

absl::StatusOr<ObjectSourceGraphStore::Found> ObjectSourceGraphStore::Find(
    absl::string_view name) const {
  if (!CheckSourceGraphName(name).ok()) return NoSuchGraph(name);
  PH_ASSIGN_OR_RETURN(const auto read,
                      ReadRanges(engines_, {KeyRange::Of(SourceGraphNameKey(name))}));
  if (read[0].values.empty()) return NoSuchGraph(name);
  Found found;
  PH_ASSIGN_OR_RETURN(found.graph, DecodeSharedGraph(name, read[0].values[0].value));
  found.revision = read[0].values[0].mod_revision;
  return found;
}

absl::Status ObjectSourceGraphStore::CheckIsBuiltHere(const SharedGraph& graph) const {
  if (options_.building != nullptr && graph.server == options_.server) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(WhatIs(graph.definition.name), " is built by the server ", graph.server,
                   ", which alone has its rows until it is sealed: ask that server"));
}

SourceGraphInfo ObjectSourceGraphStore::InfoOf(const SharedGraph& graph) const {
  SourceGraphInfo info = InfoOfGraph(graph);
  if (graph.is_sealed() || options_.building == nullptr || graph.server != options_.server) {
    return info;
  }
  auto built = options_.building->Get(graph.definition.name);
  if (!built.ok() || built->id != graph.definition.id) return info;
  // It is being put into the store.
  if (built->state == SourceGraphState::kSealed) built->state = SourceGraphState::kSealing;
  built->version = 0;
  return *std::move(built);
}

absl::Status ObjectSourceGraphStore::Explained(const SharedGraph& graph,
                                               const absl::Status& status) const {
  if (!absl::IsNotFound(status) && !absl::IsDataLoss(status)) return status;
  const auto now = Find(graph.definition.name);
  // Not known as long as nobody can say whether the graph is there.
  if (!now.ok() && !absl::IsNotFound(now.status())) return now.status();
  if (!now.ok() || now->graph.object.objects != graph.object.objects)
    return NoSuchGraph(graph.definition.name);
  return absl::DataLossError(absl::StrCat(WhatIs(graph.definition.name), ": ", status.message()));
}

absl::StatusOr<SourceGraphInfo> ObjectSourceGraphStore::Create(absl::string_view name,
                                                               const SourceGraphSchema& schema,
                                                               const SourceGraphOptions& options) {
  PH_RETURN_IF_ERROR(CheckSourceGraphName(name));
  if (options_.building == nullptr) {
    return absl::UnimplementedError("this store takes source graphs that are sealed, and no rows");
  }
  absl::MutexLock lock(&creating_);
  if (const auto there = Find(name); !absl::IsNotFound(there.status())) {
    return there.ok() ? AlreadyThere(name) : there.status();
  }
  // What an earlier one with that name has left.
  if (absl::Status deleted = options_.building->Delete(name);
      !deleted.ok() && !absl::IsNotFound(deleted)) {
    return deleted;
  }
  PH_ASSIGN_OR_RETURN(SourceGraphInfo info, options_.building->Create(name, schema, options));
  SharedGraph graph;
  graph.definition = {info.name, info.id, info.schema, info.options};
  graph.server = options_.server;
  const auto next = [&](bool /*may_be_done*/) -> absl::StatusOr<std::optional<Transaction>> {
    const auto there = Find(name);
    // It is this call's own, whose answer was lost.
    if (there.ok() && there->graph.definition.id == info.id) return std::nullopt;
    if (there.ok()) {
      options_.building->Delete({name, info.id}).IgnoreError();
      return AlreadyThere(name);
    }
    if (!absl::IsNotFound(there.status())) return there.status();
    return Transaction{{Compare::Absent(SourceGraphNameKey(name))},
                       {Operation::Put(SourceGraphNameKey(name), EncodeSharedGraph(graph))},
                       {}};
  };
  // After an error it may still happen: what is left goes with RemoveAllBuilt().
  PH_RETURN_IF_ERROR(engines_.Change(WhatIs(name), next));
  return info;
}

absl::StatusOr<SourceAppendResult> ObjectSourceGraphStore::Append(
    const Target& target, const SourceGraphChunk& chunk,
    const std::optional<ProducerSequence>& producer) {
  PH_ASSIGN_OR_RETURN(const Found found, Find(target.name));
  const SharedGraph& graph = found.graph;
  PH_RETURN_IF_ERROR(CheckIs(graph, target.id));
  if (graph.is_sealed()) {
    if (producer) {
      PH_ASSIGN_OR_RETURN(const SharedGraphManifest manifest, ReadManifestOf(graph));
      const ProducerHistories& known = manifest.manifest.producers;
      const auto history = known.find(producer->producer);
      if (history != known.end()) {
        PH_ASSIGN_OR_RETURN(const bool repeats, RepeatsRows(target.name, graph.definition.id, chunk,
                                                            *producer, history->second));
        if (repeats) return RepetitionIn(graph);
      }
    }
    return absl::FailedPreconditionError(absl::StrCat(WhatIs(target.name), " is sealed"));
  }
  PH_RETURN_IF_ERROR(CheckIsBuiltHere(graph));
  auto appended = options_.building->Append({target.name, graph.definition.id}, chunk, producer);
  if (!absl::IsNotFound(appended.status())) return appended;
  return ExplainedHere(graph);
}

absl::StatusOr<ProducerHistory> ObjectSourceGraphStore::GetProducer(
    const Target& target, absl::string_view producer) const {
  PH_ASSIGN_OR_RETURN(const Found found, Find(target.name));
  PH_RETURN_IF_ERROR(CheckIs(found.graph, target.id));
  if (found.graph.is_sealed()) {
    PH_ASSIGN_OR_RETURN(const SharedGraphManifest manifest, ReadManifestOf(found.graph));
    const ProducerHistories& known = manifest.manifest.producers;
    const auto history = known.find(producer);
    return history == known.end() ? ProducerHistory() : history->second;
  }
  PH_RETURN_IF_ERROR(CheckIsBuiltHere(found.graph));
  return options_.building->GetProducer({target.name, found.graph.definition.id}, producer);
}

absl::Status ObjectSourceGraphStore::ExplainedHere(const SharedGraph& graph) const {
  const std::string& name = graph.definition.name;
  const auto now = Find(name);
  if (!now.ok() && !absl::IsNotFound(now.status())) return now.status();
  if (!now.ok() || now->graph.definition.id != graph.definition.id) return NoSuchGraph(name);
  return absl::DataLossError(
      absl::StrCat(WhatIs(name), ": its rows were in the cache's folder of this server (",
                   graph.server, "), and are not there any more: delete the graph"));
}

void ObjectSourceGraphStore::RemoveBuilt(const SharedGraph& graph) {
  const std::string& name = graph.definition.name;
  absl::MutexLock lock(&creating_);
  const auto built = options_.building->Get(name);
  if (built.ok() && built->id != graph.definition.id) return;
  // What cannot be removed now is when all that is left is.
  options_.building->Delete({name, graph.definition.id}).IgnoreError();
}

absl::StatusOr<SourceGraphInfo> ObjectSourceGraphStore::Seal(
    const Target& target, const SealOptions& options,
    absl::FunctionRef<bool(const SourceGraphProgress&)> progress) {
  const absl::string_view name = target.name;
  PH_ASSIGN_OR_RETURN(const Found found, Find(name));
  PH_RETURN_IF_ERROR(CheckIs(found.graph, target.id));
  const Target built_here = {name, found.graph.definition.id};
  if (found.graph.is_sealed()) return InfoOf(found.graph);
  PH_RETURN_IF_ERROR(CheckIsBuiltHere(found.graph));
  // The first half of the work, then the second one.
  const auto sealed =
      options_.building->Seal(built_here, options, [&](const SourceGraphProgress& now) {
        return progress({now.done, 2 * now.total});
      });
  if (absl::IsNotFound(sealed.status())) return ExplainedHere(found.graph);
  if (!sealed.ok()) return sealed.status();
  PH_ASSIGN_OR_RETURN(const SealedSourceGraph built, options_.building->OpenSealed(name));
  if (built.definition.id != found.graph.definition.id) return ExplainedHere(found.graph);
  GraphUpload upload(engines_, options_.upload, built, options_.server);
  PH_RETURN_IF_ERROR(upload
                         .Run([&](const SourceGraphProgress& now) {
                           return progress({now.total + now.done, 2 * now.total});
                         })
                         .status());
  RemoveBuilt(found.graph);
  return Get(name);
}

absl::StatusOr<SourceGraphInfo> ObjectSourceGraphStore::Get(absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(const Found found, Find(name));
  return InfoOf(found.graph);
}

absl::StatusOr<SourceGraphList> ObjectSourceGraphStore::List(size_t page_size,
                                                             absl::string_view page_token) const {
  if (!page_token.empty() && !CheckSourceGraphName(page_token).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("page token ", Quoted(page_token), ": is that of no page"));
  }
  const size_t bound = page_size == 0 ? kDefaultPageSize : std::min(page_size, kMaxPageSize);
  SourceGraphList list;
  KeyRange rest = KeyRange::Prefix(kSourceGraphNames);
  if (!page_token.empty()) rest.begin = SourceGraphNameKey(page_token) + '\0';
  while (true) {
    PH_ASSIGN_OR_RETURN(const auto read, ReadRanges(engines_, {rest}));
    for (const KeyValue& value : read[0].values) {
      if (list.graphs.size() == bound) {
        list.next_page_token = list.graphs.back().name;
        return list;
      }
      SourceGraphInfo& info = list.graphs.emplace_back();
      info.name = value.key.substr(kSourceGraphNames.size());
      info.state = SourceGraphState::kDamaged;
      const auto graph = DecodeSharedGraph(info.name, value.value);
      if (graph.ok()) info = InfoOf(*graph);
    }
    if (!read[0].has_more) return list;
    rest.begin = read[0].values.back().key + '\0';
  }
}

absl::Status ObjectSourceGraphStore::DeleteIf(const Target& target, StillUnused unused) {
  const absl::string_view name = target.name;
  // The one that had the name when this began: not one that has taken it since.
  uint64_t id = target.id;
  SharedGraph graph;
  bool is_deleted = false;
  const auto next = [&](bool may_be_done) -> absl::StatusOr<std::optional<Transaction>> {
    const auto found = Find(name);
    if (may_be_done &&
        (absl::IsNotFound(found.status()) || (found.ok() && found->graph.definition.id != id))) {
      return std::nullopt;
    }
    PH_RETURN_IF_ERROR(found.status());
    graph = found->graph;
    PH_RETURN_IF_ERROR(CheckIs(graph, id));
    id = graph.definition.id;
    Transaction transaction;
    PH_ASSIGN_OR_RETURN(transaction.compares, unused());
    transaction.compares.push_back(Compare::ModRevision(SourceGraphNameKey(name), found->revision));
    transaction.then.push_back(Operation::Delete(KeyRange::Of(SourceGraphNameKey(name))));
    if (graph.is_sealed()) {
      PH_RETURN_IF_ERROR(ReleasePieces(engines_, options_.upload, graph.object.objects, name,
                                       graph.num_bytes, transaction));
    }
    return transaction;
  };
  PH_RETURN_IF_ERROR(engines_.Change(
      WhatIs(name), next, [&](const TransactionResult& /*done*/) { is_deleted = true; }));
  if (is_deleted && CheckIsBuiltHere(graph).ok()) RemoveBuilt(graph);
  return absl::OkStatus();
}

absl::StatusOr<SharedGraphManifest> ObjectSourceGraphStore::ReadManifestOf(
    const SharedGraph& graph) const {
  const auto read = [&]() -> absl::StatusOr<SharedGraphManifest> {
    PH_ASSIGN_OR_RETURN(const std::string bytes, pieces_.ReadManifest(graph.object));
    PH_ASSIGN_OR_RETURN(SharedGraphManifest manifest,
                        DecodeSharedManifest(graph.definition.name, bytes));
    const GraphManifest& of = manifest.manifest;
    if (of.version != graph.version || of.num_nodes != graph.num_nodes ||
        of.num_edges != graph.num_edges || manifest.pieces.num_bytes != graph.num_bytes) {
      return absl::DataLossError("its manifest is that of another graph");
    }
    manifest.pieces.objects = graph.object.objects;
    return manifest;
  };
  auto manifest = read();
  if (!manifest.ok()) return Explained(graph, manifest.status());
  return manifest;
}

absl::StatusOr<std::shared_ptr<const MappedSourceGraph>> ObjectSourceGraphStore::Map(
    const SharedGraph& graph, const SharedGraphManifest& manifest) const {
  const std::string& name = graph.definition.name;
  PH_RETURN_IF_ERROR(pieces_.CheckFits(WhatIs(name), graph.num_bytes));
  const auto read = pieces_.Join(manifest.pieces, 0, graph.num_bytes);
  if (absl::IsNotFound(read.status()) || absl::IsDataLoss(read.status())) {
    return Explained(graph, read.status());
  }
  if (!read.ok()) {
    return absl::Status(read.status().code(), absl::StrCat(WhatIs(name), " of ", graph.num_bytes,
                                                           " bytes: ", read.status().message()));
  }
  const auto& joined = *read;
  const ArrayPlaces places = PlacesOf(manifest.manifest.arrays);
  MappedSourceGraph::Arrays arrays;
  for (size_t a = 0; a < places.offsets.size(); ++a) {
    const ArrayInfo& array = manifest.manifest.arrays[a];
    arrays.emplace(array.name, joined->bytes().substr(places.offsets[a], array.bytes));
  }
  return MappedSourceGraph::OfArrays(std::move(arrays), joined, InfoOfGraph(graph),
                                     std::make_shared<SealedChecks>(name, manifest.manifest));
}

std::optional<SealedSourceGraph> ObjectSourceGraphStore::FindOpened(
    const SharedGraph& graph) const {
  absl::MutexLock lock(&mutex_);
  const auto found = opened_.find(graph.object.objects);
  if (found == opened_.end()) return std::nullopt;
  auto mapped = found->second.graph.lock();
  if (mapped == nullptr) return std::nullopt;
  return SealedSourceGraph{graph.definition, found->second.manifest, std::move(mapped)};
}

absl::StatusOr<SealedSourceGraph> ObjectSourceGraphStore::OpenFound(
    const SharedGraph& graph) const {
  if (!graph.is_sealed()) {
    return absl::FailedPreconditionError(
        absl::StrCat(WhatIs(graph.definition.name), " is not sealed"));
  }
  if (auto opened = FindOpened(graph)) return *std::move(opened);
  PH_ASSIGN_OR_RETURN(const SharedGraphManifest manifest, ReadManifestOf(graph));
  PH_ASSIGN_OR_RETURN(auto mapped, Map(graph, manifest));
  auto shown = std::make_shared<const GraphManifest>(manifest.manifest);
  absl::MutexLock lock(&mutex_);
  std::erase_if(opened_, [](const auto& each) { return each.second.graph.expired(); });
  // Of several that came at once, all get the first one.
  Opened& opened = opened_[graph.object.objects];
  if (auto first = opened.graph.lock()) return SealedSourceGraph{graph.definition, shown, first};
  opened = {mapped, shown};
  return SealedSourceGraph{graph.definition, std::move(shown), std::move(mapped)};
}

absl::StatusOr<SealedSourceGraph> ObjectSourceGraphStore::OpenSealed(absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(const Found found, Find(name));
  return OpenFound(found.graph);
}

absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> ObjectSourceGraphStore::Open(
    absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(SealedSourceGraph opened, OpenSealed(name));
  return std::move(opened.graph);
}

absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> ObjectSourceGraphStore::OpenIfHere(
    absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(const Found found, Find(name));
  auto opened = FindOpened(found.graph);
  if (opened) return std::move(opened->graph);
  // This one knows its errors without fetching anything.
  if (!found.graph.is_sealed()) return OpenFound(found.graph).status();
  return absl::CancelledError(absl::StrCat(WhatIs(name), " is not open on this server"));
}

absl::StatusOr<SourceGraphCopy> ObjectSourceGraphStore::CopyIn(
    const SealedSourceGraph& from, absl::FunctionRef<bool(const SourceGraphProgress&)> progress) {
  PH_RETURN_IF_ERROR(CheckSourceGraphName(from.definition.name));
  return GraphUpload(engines_, options_.upload, from, /*server=*/"").Run(progress);
}

absl::StatusOr<SourceGraphVerifyReport> ObjectSourceGraphStore::Verify(
    absl::string_view name, absl::FunctionRef<bool(const SourceGraphProgress&)> progress) const {
  PH_ASSIGN_OR_RETURN(const Found found, Find(name));
  const SharedGraph& graph = found.graph;
  if (!graph.is_sealed()) {
    PH_RETURN_IF_ERROR(CheckIsBuiltHere(graph));
    return options_.building->Verify(name, progress);
  }
  PH_RETURN_IF_ERROR(pieces_.CheckFits(WhatIs(name), graph.num_bytes));
  SourceGraphVerifyReport report;
  const auto add = [&report](const absl::Status& damage) {
    ++report.num_damaged;
    if (report.damaged.size() < SourceGraphVerifyReport::kMaxListed) {
      report.damaged.push_back(damage);
    }
  };
  const auto manifest = ReadManifestOf(graph);
  if (absl::IsDataLoss(manifest.status())) {
    add(manifest.status());
    return report;
  }
  if (!manifest.ok()) return manifest.status();
  SourceGraphProgress now = {0, graph.num_bytes};
  for (size_t i = 0; i < manifest->pieces.crcs.size(); ++i) {
    const auto piece = pieces_.Fetch(manifest->pieces, i, /*cached=*/false);
    if (!piece.ok()) {
      const absl::Status why = Explained(graph, piece.status());
      if (!absl::IsDataLoss(why)) return why;
      add(why);
    }
    report.num_bytes += pieces_.BytesOf(manifest->pieces, i);
    now.done += pieces_.BytesOf(manifest->pieces, i);
    if (!progress(now)) return absl::CancelledError("given up");
  }
  if (report.num_damaged != 0) return report;
  PH_ASSIGN_OR_RETURN(const SealedSourceGraph opened, OpenFound(graph));
  const absl::Status structure = opened.graph->CheckStructure([&] { return progress(now); });
  if (absl::IsCancelled(structure)) return structure;
  if (!structure.ok()) add(structure);
  return report;
}

absl::Status ObjectSourceGraphStore::RemoveAllBuilt() {
  if (options_.building == nullptr) return absl::OkStatus();
  absl::MutexLock lock(&creating_);
  absl::Status first_failure;
  std::string token;
  do {
    PH_ASSIGN_OR_RETURN(const SourceGraphList list, options_.building->List(kMaxPageSize, token));
    for (const SourceGraphInfo& built : list.graphs) {
      const bool is_damaged = built.state == SourceGraphState::kDamaged;
      // Nobody knows its graph.
      if (is_damaged && IsSourceGraphFolderName(built.name)) continue;
      const auto found = Find(built.name);
      // The others would fail, too.
      if (absl::IsUnavailable(found.status()) || absl::IsCancelled(found.status())) {
        return found.status();
      }
      if (!found.ok() && !absl::IsNotFound(found.status())) {
        first_failure.Update(found.status());
        continue;
      }
      // Also if this server was known by another address. Nobody knows the id of a damaged one.
      const bool is_needed = found.ok() && !found->graph.is_sealed() &&
                             (is_damaged || found->graph.definition.id == built.id);
      if (!is_needed) first_failure.Update(options_.building->Delete({built.name, built.id}));
    }
    token = list.next_page_token;
  } while (!token.empty());
  return first_failure;
}

}  // namespace packhouse
