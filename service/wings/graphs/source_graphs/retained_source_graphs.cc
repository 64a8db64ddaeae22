#include "service/wings/graphs/source_graphs/retained_source_graphs.h"

#include <utility>

#include "service/base/status_macros.h"

namespace packhouse {

RetainedSourceGraphs::RetainedSourceGraphs(SourceGraphStore* store, const MakeUses& make_uses)
    : SourceGraphsOver(store),
      uses_(make_uses(
          [this](absl::FunctionRef<void(const std::string&)> used) { CountOpen(used); })) {
  LastUses* const alone = uses_.alone();
  if (alone == nullptr) return;
  // Sweep() asks again.
  ForAllListed(*store_, &SourceGraphList::graphs, [alone](const SourceGraphInfo& info) {
    alone->Know(info.name);
  }).IgnoreError();
}

void RetainedSourceGraphs::CountOpen(absl::FunctionRef<void(const std::string&)> used) const {
  absl::MutexLock lock(&mutex_);
  for (auto each = open_.begin(); each != open_.end();) {
    if (each->second.expired()) {
      each = open_.erase(each);
    } else {
      used(each->first);
      ++each;
    }
  }
}

absl::Status RetainedSourceGraphs::Sweep(std::vector<Expired>& expired) {
  return DeleteUnused(*store_, &SourceGraphList::graphs, uses_, expired);
}

absl::StatusOr<SourceGraphInfo> RetainedSourceGraphs::Create(absl::string_view name,
                                                             const SourceGraphSchema& schema,
                                                             const SourceGraphOptions& options) {
  auto created = store_->Create(name, schema, options);
  if (created.ok()) uses_.Add(std::string(name), created->id);
  return created;
}

absl::StatusOr<SourceAppendResult> RetainedSourceGraphs::Append(
    const Target& target, const SourceGraphChunk& chunk,
    const std::optional<ProducerSequence>& producer) {
  // Before, so that it is not deleted meanwhile.
  PH_RETURN_IF_ERROR(uses_.Use(target.name));
  return store_->Append(target, chunk, producer);
}

absl::StatusOr<SourceGraphInfo> RetainedSourceGraphs::Seal(
    const Target& target, const SealOptions& options,
    absl::FunctionRef<bool(const SourceGraphProgress&)> progress) {
  const auto sealing = std::make_shared<const char>();
  {
    absl::MutexLock lock(&mutex_);
    open_.emplace(std::string(target.name), sealing);
  }
  PH_RETURN_IF_ERROR(uses_.Use(target.name));
  auto sealed = store_->Seal(target, options, progress);
  // A sweep sees what is sealed for longer.
  uses_.Use(target.name).IgnoreError();
  return sealed;
}

absl::Status RetainedSourceGraphs::Delete(const Target& target) {
  PH_RETURN_IF_ERROR(store_->Delete(target));
  uses_.Forget(target.name);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> RetainedSourceGraphs::Open(
    absl::string_view name) const {
  PH_RETURN_IF_ERROR(uses_.Use(name));
  return Opened(name, store_->Open(name));
}

absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> RetainedSourceGraphs::OpenIfHere(
    absl::string_view name) const {
  PH_RETURN_IF_ERROR(uses_.Use(name));
  return Opened(name, store_->OpenIfHere(name));
}

absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> RetainedSourceGraphs::Opened(
    absl::string_view name, absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> opened) const {
  PH_ASSIGN_OR_RETURN(std::shared_ptr<const StoredSourceGraph> graph, std::move(opened));
  absl::MutexLock lock(&mutex_);
  const auto [first, last] = open_.equal_range(std::string(name));
  for (auto each = first; each != last; ++each) {
    if (each->second.lock() == graph) return graph;
  }
  open_.emplace(std::string(name), graph);
  return graph;
}

}  // namespace packhouse
