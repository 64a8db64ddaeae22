// The epochs of all data sets of a store, each made once.
#ifndef PACKHOUSE_SERVICE_DELIVERY_EPOCH_CATALOG_H_
#define PACKHOUSE_SERVICE_DELIVERY_EPOCH_CATALOG_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/datasets/dataset_store.h"
#include "service/delivery/epoch_plan.h"
#include "service/delivery/epoch_request.h"
#include "service/delivery/shared_cache.h"

namespace packhouse {

// Readers are shared by all loads of a data set's version, plans by all epochs that are asked for
// in the same words, prepared epochs by the workers of a job. The latest few stay in memory when
// nobody uses them. Thread-safe; the store must outlive it and all that it gave.
class EpochCatalog {
 public:
  EpochCatalog(const DatasetStore* store, const EpochBounds& bounds)
      : store_(store), bounds_(bounds), readers_(kKept), plans_(kKept), epochs_(kKept) {}

  // Errors as EpochPlan and PreparedEpoch; NOT_FOUND for a data set that is not there. May take
  // seconds for the first epoch of a plan.
  absl::StatusOr<std::shared_ptr<const PreparedEpoch>> Prepare(const EpochRequest& request);

  // To be called when a data set was deleted: its space comes back when the last load has ended,
  // and so have the calls of Prepare() that were under way.
  void Forget(absl::string_view dataset);

  const EpochBounds& bounds() const { return bounds_; }

 private:
  static constexpr size_t kKept = 16;

  const DatasetStore* const store_;
  const EpochBounds bounds_;
  SharedCache<DatasetReader> readers_;
  SharedCache<EpochPlan> plans_;
  SharedCache<PreparedEpoch> epochs_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DELIVERY_EPOCH_CATALOG_H_
