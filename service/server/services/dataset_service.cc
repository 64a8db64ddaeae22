#include "service/server/services/dataset_service.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "packhouse/v1/dataset.grpc.pb.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/making.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/services/append_handler.h"
#include "service/server/wire/wire_cursor.h"
#include "service/server/wire/wire_datasets.h"
#include "service/server/wire/wire_memory.h"

namespace packhouse::rpc {
namespace {

// Bytes that are verified between two reports of progress: several reports a second from a slow
// disk.
constexpr uint64_t kProgressBytes = uint64_t{16} << 20;
constexpr uint64_t kProgressRecords = 4096;

absl::StatusOr<v1::Dataset> Create(const v1::CreateDatasetRequest& request, DatasetStore& datasets,
                                   const ExampleFormat& format) {
  PH_ASSIGN_OR_RETURN(const NewDataset created, NewDatasetFromWire(request, format));
  PH_ASSIGN_OR_RETURN(const DatasetInfo info,
                      datasets.Create(created.name, created.schema, created.options));
  v1::Dataset response;
  DatasetToWire(info, response);
  return response;
}

absl::StatusOr<v1::Dataset> Seal(const v1::SealDatasetRequest& request, DatasetStore& datasets,
                                 DatasetDrifts& drifts) {
  PH_ASSIGN_OR_RETURN(const DatasetInfo info, datasets.Seal(request.name()));
  drifts.EndWatch(info.id);
  v1::Dataset response;
  DatasetToWire(info, response);
  return response;
}

// Reserves the memory of the histogram before it is read, and of the answer, as `answer`, before it
// is made: both may be large.
absl::Status AddHistogram(const DatasetInfo& info, const DatasetStore& datasets,
                          const Making& making, MemoryHold& answer,
                          v1::GetDatasetResponse& response) {
  constexpr absl::string_view kWhat = "the histogram of the data set";
  PH_ASSIGN_OR_RETURN(MemoryHold memory, making.Hold(kWhat, 0));
  PH_ASSIGN_OR_RETURN(const SizeHistogram histogram,
                      datasets.GetReservedHistogram(info.name, [&](uint64_t bytes) {
                        return making.Grow(kWhat, bytes, memory);
                      }));
  memory.ShrinkTo(histogram.bytes());
  response.clear_histogram();
  answer.Reset();
  PH_ASSIGN_OR_RETURN(
      answer, making.Hold("the histogram as it is sent",
                          BytesToWire(histogram.num_distinct(), histogram.num_components())));
  HistogramToWire(histogram, info.schema->sizes(), *response.mutable_histogram());
  return absl::OkStatus();
}

// The histogram may have to come from another machine: a trial goes without it.
absl::StatusOr<v1::GetDatasetResponse> Get(const v1::GetDatasetRequest& request,
                                           const DatasetStore& datasets,
                                           const DatasetDrifts& drifts, RequestCall& call) {
  if (call.is_trial() && request.include_histogram()) return absl::CancelledError("not at once");
  const Making making(call.context().working, nullptr);
  PH_ASSIGN_OR_RETURN(DatasetInfo info, datasets.Get(request.name()));
  v1::GetDatasetResponse response;
  // Tries again if the data set was sealed, or deleted and created anew, meanwhile.
  for (uint64_t version = 0; request.include_histogram() && info.version != version;) {
    version = info.version;
    PH_RETURN_IF_ERROR(AddHistogram(info, datasets, making, call.answer_memory(), response));
    PH_ASSIGN_OR_RETURN(info, datasets.Get(request.name()));
  }
  DatasetToWire(info, *response.mutable_dataset());
  v1::DatasetDrift drift;
  if (drifts.ToWire(info.id, info.schema->sizes(), drift)) {
    *response.mutable_drift() = std::move(drift);
  }
  return response;
}

// A schema may have 70 KB. A page ends at this many bytes of schemas, so that there are not a
// thousand of them in memory three times.
constexpr size_t kMaxListedBytes = size_t{2} << 20;
constexpr size_t kListedAtOnce = 16;

constexpr absl::string_view kList = "ListDatasets";

// Shows what the caller may see. The token names something that it may see, too.
absl::StatusOr<v1::ListDatasetsResponse> List(const v1::ListDatasetsRequest& request,
                                              const CallContext& context,
                                              const DatasetStore& datasets) {
  const size_t asked_for =
      request.page_size() == 0 ? DatasetStore::kDefaultPageSize : request.page_size();
  const size_t page_size = std::min(asked_for, DatasetStore::kMaxPageSize);
  v1::ListDatasetsResponse response;
  PH_ASSIGN_OR_RETURN(std::string after, PageTokenFromClient(context, kList, request.page_token()));
  size_t bytes = 0;
  size_t listed = 0;
  do {
    PH_ASSIGN_OR_RETURN(DatasetList list,
                        datasets.List(std::min(page_size - listed, kListedAtOnce), after));
    after = list.next_page_token;
    if (context.authorizer != nullptr) {
      std::erase_if(list.datasets, [&](const DatasetInfo& info) {
        return !context.authorizer->MaySee(context.principal(), info.name);
      });
    }
    if (list.datasets.empty()) continue;
    v1::ListDatasetsResponse part;
    DatasetListToWire(list, part);
    bytes += part.ByteSizeLong();
    listed += list.datasets.size();
    response.MergeFrom(part);
    response.set_next_page_token(list.datasets.back().name);
  } while (!after.empty() && listed < page_size && bytes < kMaxListedBytes);
  response.set_next_page_token(
      after.empty() ? "" : PageTokenToClient(context, kList, response.next_page_token()));
  return response;
}

absl::StatusOr<v1::VerifyDatasetResponse> Verify(const v1::VerifyDatasetRequest& request,
                                                 const DatasetStore& datasets, const CallLog& log,
                                                 ProgressSink<v1::VerifyDatasetResponse>& sink) {
  VerifyProgress last;
  VerifyProgress reported;
  const auto progress = [&](const VerifyProgress& now) {
    last = now;
    if (now.num_bytes - reported.num_bytes >= kProgressBytes ||
        now.num_records - reported.num_records >= kProgressRecords) {
      reported = now;
      v1::VerifyDatasetResponse response;
      VerifyProgressToWire(now, response);
      sink.Report(response);
    }
    return !sink.YieldTurn();
  };
  PH_ASSIGN_OR_RETURN(const VerifyReport report, datasets.Verify(request.name(), progress));
  if (!report.ok()) {
    LogDamage(
        log, request.name(), report.num_damaged,
        report.damaged.empty() ? report.disagreements.front() : report.damaged.front().status);
  }
  v1::VerifyDatasetResponse response;
  VerifyReportToWire(report, last, response);
  return response;
}

absl::StatusOr<v1::DeleteDatasetResponse> Delete(const v1::DeleteDatasetRequest& request,
                                                 DatasetStore& datasets, DatasetDrifts& drifts,
                                                 EpochCatalog* catalog,
                                                 const CallContext& context) {
  const absl::StatusOr<DatasetInfo> info = datasets.Get(request.name());
  PH_RETURN_IF_ERROR(datasets.Delete(request.name()));
  if (info.ok()) drifts.Forget(info->id);
  LogDeletion(context.log, context.client, "data set", request.name());
  if (catalog != nullptr) catalog->Forget(request.name());
  return v1::DeleteDatasetResponse();
}

}  // namespace

DatasetService::DatasetService(const CallContext& context, DatasetStore* datasets,
                               EpochCatalog* catalog, bool is_remote, const ExampleFormat& format)
    : EarlyService(v1::DatasetService::service_full_name(), context), drifts_(context.working) {
  const absl::Status lacks = datasets == nullptr ? NoDataFolder() : absl::OkStatus();
  const Waits changes = is_remote ? Waits::kTurns : Waits::kStore;
  MethodRow get =
      Row(Method::kGetDataset, is_remote ? Waits::kPlansUnlessReady : Waits::kTurns, lacks,
          [this, datasets](const v1::GetDatasetRequest& request, RequestCall& call) {
            return Get(request, *datasets, drifts_, call);
          });
  // Few of them plan.
  get.counts_as = Gate::CallKind::kQuick;
  Serve({
      std::move(get),
      Row(Method::kCreateDataset, changes, lacks,
          [datasets, &format](const v1::CreateDatasetRequest& request, RequestCall& /*call*/) {
            return Create(request, *datasets, format);
          }),
      StreamRow<v1::AppendRequest, v1::AppendResponse>(
          Method::kAppend, Waits::kStore, lacks,
          [this, datasets, &format](const StreamOpening& stream) {
            return std::make_unique<AppendHandler>(datasets, stream.context.working,
                                                   stream.context.observer, &drifts_,
                                                   stream.context.clock, format);
          }),
      Row(Method::kSealDataset, changes, lacks,
          [this, datasets](const v1::SealDatasetRequest& request, RequestCall& /*call*/) {
            return Seal(request, *datasets, drifts_);
          }),
      Row(Method::kListDatasets, Waits::kTurns, lacks,
          [datasets](const v1::ListDatasetsRequest& request, RequestCall& call) {
            return List(request, call.context(), *datasets);
          }),
      Row(Method::kDeleteDataset, changes, lacks,
          [this, datasets, catalog](const v1::DeleteDatasetRequest& request, RequestCall& call) {
            return Delete(request, *datasets, drifts_, catalog, call.context());
          }),
      Row(Method::kVerifyDataset, Waits::kPlans, lacks,
          [this, datasets](const v1::VerifyDatasetRequest& request,
                           ProgressSink<v1::VerifyDatasetResponse>& sink) {
            return Verify(request, *datasets, context_.log, sink);
          }),
      Row(Method::kExportDataset, Waits::kPlans, lacks,
          [this, datasets, &format](const v1::ExportDatasetRequest& request,
                                    ProgressSink<v1::ExportDatasetResponse>& /*sink*/) {
            return format.ExportDataset(request, *datasets, context_.max_response_bytes,
                                        context_.working);
          }),
  });
}

}  // namespace packhouse::rpc
