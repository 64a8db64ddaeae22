// Source graphs that are deleted when nobody has used them for long.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_RETAINED_SOURCE_GRAPHS_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_RETAINED_SOURCE_GRAPHS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/stores/keys/uses.h"
#include "service/stores/limits/retention.h"
#include "service/wings/graphs/source_graphs/source_graphs_over.h"

namespace packhouse {

// The other store, with source graphs that Sweep() deletes.
//
// Used is a source graph that is created, appended to or opened, and one that is being sealed or
// that somebody has open: a call that samples or partitions it, or an epoch of its sub-graphs that
// is loaded, or was since the last sweep (EpochCatalog::ForgetIdleThings()). To list, show or
// verify it is no use. As of RetainedDatasets, an error may be that of writing a use. Thread-safe.
class RetainedSourceGraphs final : public SourceGraphsOver {
 public:
  // As of RetainedDatasets.
  RetainedSourceGraphs(SourceGraphStore* store, const MakeUses& make_uses);
  RetainedSourceGraphs(SourceGraphStore* store, std::string path, Retention retention,
                       std::function<absl::Time()> now)
      : RetainedSourceGraphs(store,
                             UsesInFile(std::move(path), std::move(retention), std::move(now))) {}

  // As RetainedDatasets::Sweep() and Save().
  absl::Status Sweep(std::vector<Expired>& expired);
  absl::Status Save() { return uses_.Save(); }
  uint64_t num_expired() const { return uses_.num_expired(); }

  absl::StatusOr<SourceGraphInfo> Create(absl::string_view name, const SourceGraphSchema& schema,
                                         const SourceGraphOptions& options) override;
  absl::StatusOr<SourceAppendResult> Append(
      const Target& target, const SourceGraphChunk& chunk,
      const std::optional<ProducerSequence>& producer) override;
  absl::StatusOr<SourceGraphInfo> Seal(
      const Target& target, const SealOptions& options,
      absl::FunctionRef<bool(const SourceGraphProgress&)> progress) override;
  absl::Status Delete(const Target& target) override;
  absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> Open(
      absl::string_view name) const override;
  absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> OpenIfHere(
      absl::string_view name) const override;

 private:
  absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> Opened(
      absl::string_view name,
      absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> opened) const;
  // Of graphs that somebody has open, or seals.
  void CountOpen(absl::FunctionRef<void(const std::string&)> used) const;

  // Its lock is taken before `mutex_`.
  mutable Uses uses_;
  mutable absl::Mutex mutex_;
  // By name; readers share one map, and a seal has a mark. Another graph may have the name of one
  // that was deleted and is still open.
  mutable std::multimap<std::string, std::weak_ptr<const void>> open_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_RETAINED_SOURCE_GRAPHS_H_
