// What calls tell observers.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_RPC_OBSERVER_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_RPC_OBSERVER_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace packhouse {

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
  kExportDataset,
  kLoad,
  kAcknowledge,
  kGetEpoch,
  kReportStep,
  kDeleteJob,
  kListJobs,
  kGetJob,
  kExportEpoch,
  kCreateSourceGraph,
  kAppendSourceGraph,
  kSealSourceGraph,
  kGetSourceGraph,
  kListSourceGraphs,
  kDeleteSourceGraph,
  kVerifySourceGraph,
  kLookupNodes,
  kReadEdges,
  kSample,
  kEstimateSizes,
  kSampleDataset,
  kPartition,
  kGetPartition,
  kListPartitions,
  kCancelPartition,
  kDeletePartition,
  kReadPartitionFile,
  kPartitionDataset,
  kReportFeedback,
  kGetModel,
  kListModels,
  kDeleteModel,
  kGetServer,
  kListClients,
  kSetLogLevel,
  kReload,
  kDrain,
  kMoveJob,
  kTakeSnapshot,
  kChannelz,  // Each of grpc.channelz.v1.
  kServerReflectionInfo,
  kCheck,
  kWatch
};

// In the order of Method.
inline constexpr std::array<absl::string_view, 57> kMethodNames = {"Pack",
                                                                   "Observe",
                                                                   "GetHistogram",
                                                                   "MergeHistogram",
                                                                   "DeleteHistogram",
                                                                   "Plan",
                                                                   "Tune",
                                                                   "CreateDataset",
                                                                   "Append",
                                                                   "SealDataset",
                                                                   "GetDataset",
                                                                   "ListDatasets",
                                                                   "DeleteDataset",
                                                                   "VerifyDataset",
                                                                   "ExportDataset",
                                                                   "Load",
                                                                   "Acknowledge",
                                                                   "GetEpoch",
                                                                   "ReportStep",
                                                                   "DeleteJob",
                                                                   "ListJobs",
                                                                   "GetJob",
                                                                   "ExportEpoch",
                                                                   "CreateSourceGraph",
                                                                   "AppendSourceGraph",
                                                                   "SealSourceGraph",
                                                                   "GetSourceGraph",
                                                                   "ListSourceGraphs",
                                                                   "DeleteSourceGraph",
                                                                   "VerifySourceGraph",
                                                                   "LookupNodes",
                                                                   "ReadEdges",
                                                                   "Sample",
                                                                   "EstimateSizes",
                                                                   "SampleDataset",
                                                                   "Partition",
                                                                   "GetPartition",
                                                                   "ListPartitions",
                                                                   "CancelPartition",
                                                                   "DeletePartition",
                                                                   "ReadPartitionFile",
                                                                   "PartitionDataset",
                                                                   "Report",
                                                                   "GetModel",
                                                                   "ListModels",
                                                                   "DeleteModel",
                                                                   "GetServer",
                                                                   "ListClients",
                                                                   "SetLogLevel",
                                                                   "Reload",
                                                                   "Drain",
                                                                   "MoveJob",
                                                                   "TakeSnapshot",
                                                                   "Channelz",
                                                                   "ServerReflectionInfo",
                                                                   "Check",
                                                                   "Watch"};
static_assert(static_cast<size_t>(Method::kWatch) + 1 == kMethodNames.size());

// Thread-safe; must be quick.
class RpcObserver {
 public:
  virtual ~RpcObserver() = default;

  virtual void OnStarted(Method method) = 0;
  // Paired with OnStarted; `elapsed` since then.
  virtual void OnFinished(Method method, absl::StatusCode code, absl::Duration elapsed) = 0;
  // A plan was made; `gap` of the best one, as in PlanQuality.
  virtual void OnPlanned(absl::Duration elapsed, double gap) = 0;
  // Malformed tf.Examples of a message: `skipped` were left out, or the message was `refused` for
  // one.
  virtual void OnMalformedExamples(Method /*method*/, uint64_t /*skipped*/, uint64_t /*refused*/) {}
  // The change of a call's responses that are made and not yet taken by the connection. The changes
  // of a call add up to 0, 0 before its OnFinished(). Called under the call's lock.
  virtual void OnUnsent(Method /*method*/, int64_t /*responses*/, int64_t /*bytes*/) {}
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_RPC_OBSERVER_H_
