// The epochs of all data sets of a store, each made once.
#ifndef PACKHOUSE_SERVICE_EPOCHS_EPOCH_CATALOG_H_
#define PACKHOUSE_SERVICE_EPOCHS_EPOCH_CATALOG_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/admission/memory_budget.h"
#include "service/datasets/dataset_store.h"
#include "service/epochs/epoch_plan.h"
#include "service/epochs/epoch_request.h"
#include "service/epochs/given_up.h"
#include "service/epochs/planner_result.h"
#include "service/epochs/prepared_epoch.h"
#include "service/epochs/shared_cache.h"

namespace packhouse {

// Readers are shared by all loads of a data set's version, plans by all epochs that are asked for
// in the same words, prepared epochs by the workers of a job. All are bytes of the memory's budget:
// reserved before they are allocated, and as long as they are there. Those that were used last stay
// when nobody uses them, up to an eighth of the budget, and go where others need their room.
// Thread-safe; the store and the memory must outlive it and all that it gave.
class EpochCatalog {
 public:
  // `memory` null: without a bound. Else the catalog is whom it asks for room.
  EpochCatalog(const DatasetStore* store, const EpochBounds& bounds,
               MemoryBudget* memory = nullptr);
  ~EpochCatalog();

  EpochCatalog(const EpochCatalog&) = delete;
  EpochCatalog& operator=(const EpochCatalog&) = delete;

  // Errors as EpochPlan and PreparedEpoch; NOT_FOUND for a data set that is not there;
  // RESOURCE_EXHAUSTED naming --memory-budget, what does not fit, its bytes and the bound;
  // CANCELLED if `given_up` says that nobody waits: it is asked before anything is made, every
  // millisecond or so, and while another makes what is asked for. So what is ready is given in any
  // case, and quickly; else it may take seconds for the first epoch of a plan.
  //
  // `kept`, if there, is what a planner has found for this request before: the epoch is made of it,
  // whatever the planner would find now (EpochPlan::Make()). It is ignored if it was found for
  // another version of the data set, and read only if the catalog has not made the same plan
  // itself.
  absl::StatusOr<std::shared_ptr<const PreparedEpoch>> Prepare(
      const EpochRequest& request, const GivenUp& given_up = {},
      const std::optional<KeptPlannerResult>& kept = std::nullopt);

  // To be called when a data set was deleted: its space comes back when the last load has ended,
  // and what is being made of it meanwhile is not kept.
  void Forget(absl::string_view dataset);

  const EpochBounds& bounds() const { return bounds_; }

 private:
  struct OpenedReader {
    MemoryHold memory;
    uint64_t bytes = 0;
    std::shared_ptr<const DatasetReader> reader;
  };

  // Whether there is the same plan, made here.
  bool HasMade(const std::string& plan_key, const KeptPlannerResult& kept);
  // Lets go of what nobody uses.
  void Reclaim(uint64_t bytes);

  const DatasetStore* const store_;
  const EpochBounds bounds_;
  MemoryBudget* const memory_;
  SharedCache<OpenedReader> readers_;
  SharedCache<EpochPlan> plans_;
  SharedCache<PreparedEpoch> epochs_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_EPOCHS_EPOCH_CATALOG_H_
