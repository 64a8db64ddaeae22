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

// All methods, by their names in the contract: for metrics, logs and lists of open calls. Channelz
// is each of grpc.channelz.v1; the last three are of gRPC, too.
// clang-format off
#define PACKHOUSE_METHODS(ROW) \
  ROW(Pack) ROW(Observe) ROW(GetHistogram) ROW(MergeHistogram) ROW(DeleteHistogram) ROW(Plan) \
  ROW(Tune) ROW(CreateDataset) ROW(Append) ROW(SealDataset) ROW(GetDataset) ROW(ListDatasets) \
  ROW(DeleteDataset) ROW(VerifyDataset) ROW(ExportDataset) ROW(Load) ROW(Acknowledge) \
  ROW(GetEpoch) ROW(ReportStep) ROW(DeleteJob) ROW(ListJobs) ROW(GetJob) ROW(ExportEpoch) \
  ROW(CreateSourceGraph) ROW(AppendSourceGraph) ROW(SealSourceGraph) ROW(GetSourceGraph) \
  ROW(ListSourceGraphs) ROW(DeleteSourceGraph) ROW(VerifySourceGraph) ROW(LookupNodes) \
  ROW(ReadEdges) ROW(Sample) ROW(EstimateSizes) ROW(SampleDataset) ROW(Partition) \
  ROW(GetPartition) ROW(ListPartitions) ROW(CancelPartition) ROW(DeletePartition) \
  ROW(ReadPartitionFile) ROW(PartitionDataset) ROW(Report) ROW(GetModel) ROW(ListModels) \
  ROW(DeleteModel) ROW(GetServer) ROW(ListClients) ROW(SetLogLevel) ROW(Reload) ROW(Drain) \
  ROW(MoveJob) ROW(TakeSnapshot) ROW(Channelz) ROW(ServerReflectionInfo) ROW(Check) ROW(Watch)
// clang-format on

enum class Method {
#define PACKHOUSE_METHOD(name) k##name,
  PACKHOUSE_METHODS(PACKHOUSE_METHOD)
#undef PACKHOUSE_METHOD
};

// In the order of Method.
inline constexpr std::array kMethodNames = {
#define PACKHOUSE_METHOD(name) absl::string_view(#name),
    PACKHOUSE_METHODS(PACKHOUSE_METHOD)
#undef PACKHOUSE_METHOD
};
#undef PACKHOUSE_METHODS

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
