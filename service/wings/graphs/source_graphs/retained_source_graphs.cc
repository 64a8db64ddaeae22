#include "service/wings/graphs/source_graphs/retained_source_graphs.h"

#include <utility>

#include "service/base/status_macros.h"

namespace packhouse {

RetainedSourceGraphs::RetainedSourceGraphs(SourceGraphStore* store, std::string path,
                                           Retention retention, std::function<absl::Time()> now)
    : SourceGraphsOver(store),
      uses_(std::move(path), std::move(retention), std::move(now),
            [this](absl::FunctionRef<void(const std::string&)> used) { CountOpen(used); }) {
  // Sweep() asks again.
  ForAllListed(*store_, &SourceGraphList::graphs, [this](const SourceGraphInfo& info) {
    uses_.Know(info.name);
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
  if (created.ok()) uses_.Add(std::string(name));
  return created;
}

absl::StatusOr<SourceAppendResult> RetainedSourceGraphs::Append(
    const Target& target, const SourceGraphChunk& chunk,
    const std::optional<ProducerSequence>& producer) {
  // Before, so that it is not deleted meanwhile.
  uses_.Use(target.name);
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
  uses_.Use(target.name);
  auto sealed = store_->Seal(target, options, progress);
  uses_.Use(target.name);
  return sealed;
}

absl::Status RetainedSourceGraphs::Delete(const Target& target) {
  PH_RETURN_IF_ERROR(store_->Delete(target));
  uses_.Forget(target.name);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> RetainedSourceGraphs::Open(
    absl::string_view name) const {
  uses_.Use(name);
  PH_ASSIGN_OR_RETURN(std::shared_ptr<const StoredSourceGraph> graph, store_->Open(name));
  absl::MutexLock lock(&mutex_);
  const auto [first, last] = open_.equal_range(std::string(name));
  for (auto each = first; each != last; ++each) {
    if (each->second.lock() == graph) return graph;
  }
  open_.emplace(std::string(name), graph);
  return graph;
}

}  // namespace packhouse
