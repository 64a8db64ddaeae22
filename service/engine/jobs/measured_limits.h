// Limits by measurements. A device that is measured (DeviceProfile::measured_as) has other limits
// after each report, but all workers of an epoch must have the same, and an epoch that is open
// keeps its own.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_MEASURED_LIMITS_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_MEASURED_LIMITS_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "service/base/limited_log.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/epoch_identity.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/engine/epochs/loadable_epoch.h"
#include "service/engine/jobs/job.h"

namespace packhouse {

// Whether the request has a device that is measured.
bool HasMeasuredDevice(const EpochRequest& request);

// Devices that are measured get the limits of an epoch, whatever is measured now. `plan` is that of
// the epoch; without it (null) it is known of their largest shape alone.
void KeepLimits(const EpochIdentity& identity, const PlannerResult* plan, EpochRequest& request);

// Says why the limits of an adaptive job moved, or stayed. `log` may be null.
void LogLimits(LimitedLog* log, const EpochRequest& request, const LoadableEpoch& epoch);

// What epochs that are being opened were asked for with. Thread-safe.
class MeasuredLimits {
 public:
  using Measured = std::vector<RankGroupRequest>;

  // Gives measured devices the shapes of the epoch, or of the job's latest one; and for an epoch
  // that nobody has opened yet, the measurements with which it was first asked for. These stay as
  // long as somebody has the result, which is null if the request has nothing to fix: whoever opens
  // the epoch keeps it until the epoch is in the ledger. `job` is null if there is none; plans are
  // read into `memory`, which may be null.
  std::shared_ptr<const Measured> Fix(const Job* job, MemoryBudget* memory, EpochRequest& request);

 private:
  absl::Mutex mutex_;
  // By epochs that are being opened, and the data set and the words with which: who asks with
  // others has no say in it.
  std::map<std::pair<EpochKey, std::string>, std::weak_ptr<const Measured>> opening_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_MEASURED_LIMITS_H_
