// Data sets that are deleted when nobody has used them for long.
#ifndef PACKHOUSE_SERVICE_STORES_DATASETS_RETAINED_DATASETS_H_
#define PACKHOUSE_SERVICE_STORES_DATASETS_RETAINED_DATASETS_H_

#include <cstdint>
#include <functional>
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
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/datasets/forwarding_dataset_store.h"
#include "service/stores/keys/uses.h"
#include "service/stores/limits/retention.h"

namespace packhouse {

// The other store, with data sets that Sweep() deletes.
//
// Used is a data set that is created, appended to or sealed, or of which a reader is opened or
// reads a graph, or chunks are opened or give sizes: so each load and each plan of an epoch uses
// it. To list, show or verify it is no use. A data set that is used is not deleted, however long
// its use goes on. A reader of a deleted data set, such as one of an epoch that nobody loads now,
// keeps its bytes as always.
//
// LastUses says how times are kept, and what a use costs; where servers share the data sets,
// SharedUses does. A use that SharedUses cannot write is none: its error is returned.
//
// Thread-safe. A graph that is read costs one atomic read.
class RetainedDatasets final : public ForwardingDatasetStore {
 public:
  // The store must outlive this.
  RetainedDatasets(DatasetStore* store, const MakeUses& make_uses);
  // `path`: the file.
  RetainedDatasets(DatasetStore* store, std::string path, Retention retention,
                   std::function<absl::Time()> now)
      : RetainedDatasets(store, UsesInFile(std::move(path), std::move(retention), std::move(now))) {
  }

  // As DeleteUnused().
  absl::Status Sweep(std::vector<Expired>& expired);
  // Writes what is not written yet. To be called when the server ends.
  absl::Status Save() { return uses_.Save(); }

  uint64_t num_expired() const { return uses_.num_expired(); }

  absl::StatusOr<DatasetInfo> Create(absl::string_view name, const GraphSchema& schema,
                                     const DatasetOptions& options) override;
  absl::StatusOr<AppendResult> AppendTo(const Target& target, const GraphChunk& chunk,
                                        absl::Span<const uint64_t> group_ids,
                                        const std::optional<ProducerSequence>& producer) override;
  absl::StatusOr<DatasetInfo> Seal(const Target& target) override;
  absl::Status Delete(const Target& target) override;
  absl::StatusOr<std::shared_ptr<const DatasetReader>> OpenReader(
      absl::string_view name) const override;
  absl::StatusOr<std::shared_ptr<const DatasetChunks>> OpenChunks(
      absl::string_view name) const override;

 private:
  class Chunks;
  class Reader;
  struct Reads;

  std::shared_ptr<Reads> NewReads(std::string dataset) const;
  // The reader, which says whether graphs were read of it.
  std::shared_ptr<const DatasetReader> Retain(std::shared_ptr<const DatasetReader> reader) const;

  // Of readers that have read since the last time.
  void CountReads(absl::FunctionRef<void(const std::string&)> used) const;

  // Its lock is taken before `mutex_`.
  mutable Uses uses_;
  mutable absl::Mutex mutex_;
  // Of all readers and chunks.
  mutable std::vector<std::shared_ptr<Reads>> reads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_DATASETS_RETAINED_DATASETS_H_
