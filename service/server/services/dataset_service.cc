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
#include "service/server/calls_grpc/planning_call.h"
#include "service/server/calls_grpc/server_streaming_call.h"
#include "service/server/calls_grpc/stream_reactor.h"
#include "service/server/calls_grpc/unary_call.h"
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

absl::StatusOr<v1::GetDatasetResponse> Get(const v1::GetDatasetRequest& request,
                                           const DatasetStore& datasets,
                                           const DatasetDrifts& drifts, const Making& making,
                                           MemoryHold& answer) {
  PH_ASSIGN_OR_RETURN(DatasetInfo info, datasets.Get(request.name()));
  v1::GetDatasetResponse response;
  // Tries again if the data set was sealed, or deleted and created anew, meanwhile.
  for (uint64_t version = 0; request.include_histogram() && info.version != version;) {
    version = info.version;
    PH_RETURN_IF_ERROR(AddHistogram(info, datasets, making, answer, response));
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

class VerifyAnswer final : public ResponseSource<v1::VerifyDatasetResponse> {
 public:
  explicit VerifyAnswer(v1::VerifyDatasetResponse response) : response_(std::move(response)) {}

  absl::StatusOr<std::optional<v1::VerifyDatasetResponse>> Next() override {
    return std::exchange(response_, std::nullopt);
  }

 private:
  std::optional<v1::VerifyDatasetResponse> response_;
};

absl::StatusOr<std::unique_ptr<ResponseSource<v1::VerifyDatasetResponse>>> Verify(
    const v1::VerifyDatasetRequest& request, const DatasetStore& datasets, const CallLog& log,
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
    return !sink.given_up();
  };
  PH_ASSIGN_OR_RETURN(const VerifyReport report, datasets.Verify(request.name(), progress));
  if (!report.ok()) {
    LogDamage(
        log, request.name(), report.num_damaged,
        report.damaged.empty() ? report.disagreements.front() : report.damaged.front().status);
  }
  v1::VerifyDatasetResponse response;
  VerifyReportToWire(report, last, response);
  return std::make_unique<VerifyAnswer>(std::move(response));
}

}  // namespace

DatasetService::DatasetService(const CallContext& context, DatasetStore* datasets,
                               EpochCatalog* catalog, bool is_remote, const ExampleFormat& format)
    : EarlyService(v1::DatasetService::service_full_name()),
      context_(context),
      append_context_(context.OnAppendPool()),
      change_context_(is_remote ? context : append_context_),
      is_remote_(is_remote),
      datasets_(datasets),
      catalog_(catalog),
      format_(format),
      drifts_(append_context_.working) {
  Serve("CreateDataset", &DatasetService::CreateDataset);
  Serve("Append", &DatasetService::Append);
  Serve("SealDataset", &DatasetService::SealDataset);
  Serve("GetDataset", &DatasetService::GetDataset);
  Serve("ListDatasets", &DatasetService::ListDatasets);
  Serve("DeleteDataset", &DatasetService::DeleteDataset);
  Serve("VerifyDataset", &DatasetService::VerifyDataset);
  Serve("ExportDataset", &DatasetService::ExportDataset);
}

CallReactor* DatasetService::CreateDataset(grpc::CallbackServerContext* call) {
  return RunUnary<v1::CreateDatasetRequest>(
      change_context_, Method::kCreateDataset, call,
      [this](const v1::CreateDatasetRequest& parsed) -> absl::StatusOr<v1::Dataset> {
        if (datasets_ == nullptr) return NoDataFolder();
        return Create(parsed, *datasets_, format_);
      });
}

CallReactor* DatasetService::Append(grpc::CallbackServerContext* call) {
  return StreamReactor<v1::AppendRequest, v1::AppendResponse>::Start(
      append_context_, *call, Method::kAppend,
      std::make_unique<AppendHandler>(datasets_, append_context_.working, append_context_.observer,
                                      &drifts_, append_context_.clock, format_));
}

CallReactor* DatasetService::SealDataset(grpc::CallbackServerContext* call) {
  return RunUnary<v1::SealDatasetRequest>(
      change_context_, Method::kSealDataset, call,
      [this](const v1::SealDatasetRequest& parsed) -> absl::StatusOr<v1::Dataset> {
        if (datasets_ == nullptr) return NoDataFolder();
        return Seal(parsed, *datasets_, drifts_);
      });
}

CallReactor* DatasetService::GetDataset(grpc::CallbackServerContext* call) {
  // Until the answer is written.
  auto answer = std::make_shared<MemoryHold>();
  const auto get =
      [this,
       answer](const v1::GetDatasetRequest& parsed) -> absl::StatusOr<v1::GetDatasetResponse> {
    if (datasets_ == nullptr) return NoDataFolder();
    return Get(parsed, *datasets_, drifts_, Making(context_.working, nullptr), *answer);
  };
  if (!is_remote_) {
    return RunUnary<v1::GetDatasetRequest>(context_, Method::kGetDataset, call, get);
  }
  return PlanningCall<v1::GetDatasetRequest, v1::GetDatasetResponse>::Start(
      context_, *call, Method::kGetDataset,
      [get](const v1::GetDatasetRequest& parsed, PlanningTurn& /*turn*/) { return get(parsed); },
      [get](const v1::GetDatasetRequest& parsed)
          -> absl::StatusOr<std::optional<v1::GetDatasetResponse>> {
        if (parsed.include_histogram()) return std::nullopt;
        return get(parsed);
      },
      Gate::CallKind::kQuick);
}

CallReactor* DatasetService::ListDatasets(grpc::CallbackServerContext* call) {
  return RunUnary<v1::ListDatasetsRequest>(
      context_, Method::kListDatasets, call,
      [this](const v1::ListDatasetsRequest& parsed,
             const CallContext& context) -> absl::StatusOr<v1::ListDatasetsResponse> {
        if (datasets_ == nullptr) return NoDataFolder();
        return List(parsed, context, *datasets_);
      });
}

CallReactor* DatasetService::DeleteDataset(grpc::CallbackServerContext* call) {
  return RunUnary<v1::DeleteDatasetRequest>(
      change_context_, Method::kDeleteDataset, call,
      [this](const v1::DeleteDatasetRequest& parsed,
             const CallContext& context) -> absl::StatusOr<v1::DeleteDatasetResponse> {
        if (datasets_ == nullptr) return NoDataFolder();
        const absl::StatusOr<DatasetInfo> info = datasets_->Get(parsed.name());
        PH_RETURN_IF_ERROR(datasets_->Delete(parsed.name()));
        if (info.ok()) drifts_.Forget(info->id);
        LogDeletion(context.log, context.client, "data set", parsed.name());
        if (catalog_ != nullptr) catalog_->Forget(parsed.name());
        return v1::DeleteDatasetResponse();
      });
}

CallReactor* DatasetService::VerifyDataset(grpc::CallbackServerContext* call) {
  using Call = ServerStreamingCall<v1::VerifyDatasetRequest, v1::VerifyDatasetResponse>;
  return Call::Start(
      context_, *call, Method::kVerifyDataset,
      [this](const v1::VerifyDatasetRequest& parsed, ProgressSink<v1::VerifyDatasetResponse>& sink)
          -> absl::StatusOr<std::unique_ptr<Call::Source>> {
        if (datasets_ == nullptr) return NoDataFolder();
        return Verify(parsed, *datasets_, context_.log, sink);
      });
}

CallReactor* DatasetService::ExportDataset(grpc::CallbackServerContext* call) {
  using Call = ServerStreamingCall<v1::ExportDatasetRequest, v1::ExportDatasetResponse>;
  return Call::Start(context_, *call, Method::kExportDataset,
                     [this](const v1::ExportDatasetRequest& parsed,
                            ProgressSink<v1::ExportDatasetResponse>& /*sink*/)
                         -> absl::StatusOr<std::unique_ptr<Call::Source>> {
                       if (datasets_ == nullptr) return NoDataFolder();
                       return format_.ExportDataset(parsed, *datasets_, context_.max_response_bytes,
                                                    context_.working);
                     });
}

}  // namespace packhouse::rpc
