// What the rpc room tells those who watch it.
#ifndef PACKHOUSE_SERVICE_RPC_RPC_OBSERVER_H_
#define PACKHOUSE_SERVICE_RPC_RPC_OBSERVER_H_

#include <array>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace packhouse::rpc {

enum class Method {
  kPack,
  kObserve,
  kGetHistogram,
  kMergeHistogram,
  kDeleteHistogram,
  kPlan,
  kTune,
  kCreateDataset,
  kAppend,
  kSealDataset,
  kGetDataset,
  kListDatasets,
  kDeleteDataset,
  kVerifyDataset,
  kLoad,
  kAcknowledge,
  kGetEpoch,
  kReportStep,
  kDeleteJob
};

// In the order of Method.
inline constexpr std::array<absl::string_view, 19> kMethodNames = {
    "Pack",        "Observe",      "GetHistogram",  "MergeHistogram", "DeleteHistogram",
    "Plan",        "Tune",         "CreateDataset", "Append",         "SealDataset",
    "GetDataset",  "ListDatasets", "DeleteDataset", "VerifyDataset",  "Load",
    "Acknowledge", "GetEpoch",     "ReportStep",    "DeleteJob"};
static_assert(static_cast<size_t>(Method::kDeleteJob) + 1 == kMethodNames.size());

// Thread-safe; must be quick.
class RpcObserver {
 public:
  virtual ~RpcObserver() = default;

  virtual void OnStarted(Method method) = 0;
  // Paired with OnStarted; `elapsed` since then.
  virtual void OnFinished(Method method, absl::StatusCode code, absl::Duration elapsed) = 0;
  // A plan was made; `gap` of the best one, as in PlanQuality.
  virtual void OnPlanned(absl::Duration elapsed, double gap) = 0;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_RPC_OBSERVER_H_
