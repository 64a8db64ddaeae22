#include "service/wings/page/page_answers.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "packhouse/v1/dataset.pb.h"
#include "packhouse/v1/feedback.pb.h"
#include "packhouse/v1/histogram.pb.h"
#include "packhouse/v1/loader.pb.h"
#include "packhouse/v1/planning.pb.h"
#include "packhouse/v1/source_graph.pb.h"
#include "service/algorithms/planning/limits.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/wire/wire_planning.h"
#include "service/wings/page/heat_map.h"
#include "service/wings/page/next_fit.h"
#include "service/wings/page/page_json.h"

namespace packhouse::page {
namespace {

constexpr char kListDatasets[] = "/packhouse.v1.DatasetService/ListDatasets";
constexpr char kGetDataset[] = "/packhouse.v1.DatasetService/GetDataset";
constexpr char kGetHistogram[] = "/packhouse.v1.HistogramService/GetHistogram";
constexpr char kListHistograms[] = "/packhouse.v1.HistogramService/ListHistograms";
constexpr char kListSourceGraphs[] = "/packhouse.v1.SourceGraphService/ListSourceGraphs";
constexpr char kListModels[] = "/packhouse.v1.FeedbackService/ListModels";
constexpr char kListJobs[] = "/packhouse.v1.LoaderService/ListJobs";
constexpr char kGetJob[] = "/packhouse.v1.LoaderService/GetJob";
constexpr char kPlan[] = "/packhouse.v1.PlanningService/Plan";
constexpr char kTune[] = "/packhouse.v1.PlanningService/Tune";

// Of lists whose things may be large, so that one response is not; and of jobs.
constexpr uint32_t kListedAtATime = 16;
constexpr uint32_t kPageSize = 100;
// Epochs of a job, in the list and by itself.
constexpr size_t kFewEpochs = 3;
constexpr size_t kManyEpochs = 100;
// For the order of next-fit.
constexpr uint64_t kNextFitSeed = 1;

const google::protobuf::RepeatedPtrField<v1::Dataset>& DatasetsOf(
    const v1::ListDatasetsResponse& response) {
  return response.datasets();
}

template <typename Add>
absl::Status ForEachNamed(const PageQuery& query, absl::string_view key, const Add& add) {
  PH_ASSIGN_OR_RETURN(const auto values, query.Named(key));
  for (const auto& [component, value] : values) add(component, value);
  return absl::OkStatus();
}

}  // namespace

struct PageAnswers::Source {
  v1::Histogram histogram;
  std::optional<v1::Dataset> dataset;
  // Of a stream: the graphs that have come.
  std::optional<uint64_t> sample_of;
};

bool PageAnswers::MaySee(const LiveStreams::Stream& stream) const {
  if (authorizer_ == nullptr) return true;
  if (!stream.principal.empty() && stream.principal == viewer_.principal) return true;
  if (!stream.name.empty() && authorizer_->MaySee(viewer_.principal, stream.name)) return true;
  return authorizer_->Check(viewer_.principal, {Right::kAdminister, Demand::Where::kServer, "", ""})
      .ok();
}

absl::StatusOr<LiveStreams::Sizes> PageAnswers::FindStream(absl::string_view text) const {
  uint64_t number = 0;
  if (!absl::SimpleAtoi(text, &number)) {
    return absl::InvalidArgumentError(
        absl::StrCat("source: the number of a stream is none: ", Quoted(text)));
  }
  if (streams_ == nullptr) return LiveStreams::NoSuchStream(number);
  PH_ASSIGN_OR_RETURN(LiveStreams::Sizes sizes, streams_->Find(number));
  if (!MaySee(sizes.stream)) return LiveStreams::NoSuchStream(number);
  return sizes;
}

absl::Status PageAnswers::Call(const char* method, const google::protobuf::Message& request,
                               google::protobuf::Message& response) const {
  return calls_->Call(method, viewer_, request, response, *stop_);
}

// True if there were no more than those that were taken.
template <typename Request, typename Response, typename Items, typename Take>
absl::StatusOr<bool> PageAnswers::ForEachListed(const char* method, const Items& items,
                                                const Take& take) const {
  Request request;
  request.set_page_size(kListedAtATime);
  size_t listed = 0;
  uint64_t bytes = 0;
  do {
    Response response;
    PH_RETURN_IF_ERROR(Call(method, request, response));
    for (const auto& item : items(response)) {
      bytes += item.ByteSizeLong();
      // The first is always listed.
      if (listed == kMostListed || (listed != 0 && bytes > kMostListedBytes)) return false;
      take(item);
      ++listed;
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return true;
}

absl::StatusOr<PageAnswers::Source> PageAnswers::Find(const PageQuery& query) const {
  const std::string& text = query.Text("source");
  absl::string_view name = text;
  Source source;
  if (absl::ConsumePrefix(&name, "dataset/")) {
    v1::GetDatasetRequest request;
    request.set_name(std::string(name));
    request.set_include_histogram(true);
    v1::GetDatasetResponse response;
    PH_RETURN_IF_ERROR(Call(kGetDataset, request, response));
    source.histogram = std::move(*response.mutable_histogram());
    source.dataset = std::move(*response.mutable_dataset());
    return source;
  }
  if (absl::ConsumePrefix(&name, "histogram/")) {
    v1::GetHistogramRequest request;
    request.set_histogram(std::string(name));
    v1::GetHistogramResponse response;
    PH_RETURN_IF_ERROR(Call(kGetHistogram, request, response));
    source.histogram = std::move(*response.mutable_histogram());
    return source;
  }
  if (absl::ConsumePrefix(&name, "stream/")) {
    PH_ASSIGN_OR_RETURN(const LiveStreams::Sizes sizes, FindStream(name));
    HistogramToWire(sizes.sample, sizes.schema, source.histogram);
    source.sample_of = sizes.stream.num_graphs;
    return source;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "source: ", Quoted(text), " is none of dataset/NAME, histogram/NAME, stream/NUMBER"));
}

absl::StatusOr<Json> PageAnswers::Sources() const {
  Json datasets = Json::array();
  const auto all = ForEachListed<v1::ListDatasetsRequest, v1::ListDatasetsResponse>(
      kListDatasets, DatasetsOf, [&](const v1::Dataset& dataset) {
        const auto& components = dataset.schema().components();
        datasets.push_back(
            {{"name", dataset.name()},
             {"graphs", dataset.num_graphs()},
             {"components", std::vector<std::string>(components.begin(), components.end())}});
      });
  // Without a folder for data there are none.
  if (!all.ok() && !absl::IsFailedPrecondition(all.status())) return all.status();
  v1::ListHistogramsResponse histograms;
  PH_RETURN_IF_ERROR(Call(kListHistograms, v1::ListHistogramsRequest(), histograms));
  Json named = Json::array();
  for (const std::string& name : histograms.histograms()) {
    if (named.size() == kMostListed) break;
    named.push_back({{"name", name}});
  }
  Json open = Json::array();
  if (streams_ != nullptr) {
    for (const LiveStreams::Stream& stream : streams_->List()) {
      if (open.size() == kMostListed) break;
      if (!MaySee(stream)) continue;
      open.push_back({{"number", std::to_string(stream.number)},
                      {"client", stream.client},
                      {"name", stream.name},
                      {"graphs", stream.num_graphs}});
    }
  }
  return Json{{"datasets", std::move(datasets)},
              {"histograms", std::move(named)},
              {"streams", std::move(open)}};
}

absl::StatusOr<Json> PageAnswers::Sizes(const PageQuery& query) const {
  HeatMapOptions options;
  PH_ASSIGN_OR_RETURN(options.num_bins, query.Number("bins", kMostBins, 1, kMostBins));
  options.is_log = query.Text("scale") == "log";
  PH_ASSIGN_OR_RETURN(const Source source, Find(query));
  PH_ASSIGN_OR_RETURN(const NamedHistogram named, HistogramFromWire(source.histogram));
  const size_t num_components = named.schema.num_components();
  if (num_components == 0) {
    return absl::FailedPreconditionError("there is no component to draw: every graph has size ()");
  }
  const auto component = [&](const char* key, size_t otherwise) -> absl::StatusOr<size_t> {
    if (!query.Has(key)) return otherwise;
    const auto found = named.schema.IndexOf(query.Text(key));
    if (found && *found < num_components) return *found;
    return absl::InvalidArgumentError(
        absl::StrCat(key, ": there is no component ", Quoted(query.Text(key))));
  };
  PH_ASSIGN_OR_RETURN(options.x, component("x", 0));
  if (num_components > 1) {
    PH_ASSIGN_OR_RETURN(options.y, component("y", options.x == 1 ? 0 : 1));
  }
  Json json = HeatMapJson(named.histogram, named.schema, options);
  if (source.dataset) json["bytes_per_row"] = BytesPerRowJson(source.dataset->schema());
  if (source.sample_of.value_or(0) > named.histogram.num_graphs()) {
    json["sample_of"] = *source.sample_of;
  }
  return json;
}

absl::StatusOr<Json> PageAnswers::Plan(const PageQuery& query) const {
  PH_ASSIGN_OR_RETURN(Source source, Find(query));
  v1::PlanRequest request;
  PH_RETURN_IF_ERROR(ForEachNamed(query, "limit", [&](const std::string& name, uint64_t rows) {
    v1::Capacity& capacity = *request.mutable_limits()->add_capacities();
    capacity.set_component(name);
    capacity.set_rows(rows);
  }));
  PH_ASSIGN_OR_RETURN(const uint64_t steps, query.Number("steps", 0, 0, kMaxBudgetSteps));
  PH_ASSIGN_OR_RETURN(const uint64_t seed, query.Number("seed", 0, 0, UINT64_MAX));
  PH_ASSIGN_OR_RETURN(const uint64_t patterns, query.Number("patterns", 0, 0, kMostPatterns));
  const bool compare = query.Text("compare") == "1";
  request.set_budget_steps(steps);
  request.set_seed(seed);
  request.set_summaries_only(patterns == 0);
  request.set_include_tuple_packing(compare);
  request.set_include_baselines(compare);
  *request.mutable_histogram() = std::move(source.histogram);
  v1::PlanResponse response;
  PH_RETURN_IF_ERROR(Call(kPlan, request, response));

  Json json = {{"best", PlanSummaryJson(response.best())}};
  if (patterns != 0) json["plan"] = PatternsJson(response, patterns);
  if (!compare) return json;
  json["others"] = Json::array();
  for (const v1::PlanSummary& each : response.summaries()) {
    json["others"].push_back(PlanSummaryJson(each));
  }
  PH_ASSIGN_OR_RETURN(const NamedHistogram named, HistogramFromWire(request.histogram()));
  std::vector<uint64_t> capacities;
  for (const v1::ComponentEfficiency& each : response.best().components()) {
    capacities.push_back(each.capacity() == 0 ? kUnlimited : each.capacity());
  }
  const NextFitEstimate next_fit = NextFitPacks(named.histogram, capacities, kNextFitSeed);
  json["next_fit"] = {{"packs", next_fit.packs}, {"is_exact", next_fit.is_exact}};
  return json;
}

absl::StatusOr<Json> PageAnswers::Tune(const PageQuery& query) const {
  PH_ASSIGN_OR_RETURN(Source source, Find(query));
  v1::TuneRequest request;
  v1::DeviceProfile& profile = *request.mutable_profile();
  const auto component = [&](const std::string& name) -> v1::DeviceProfile::Component& {
    auto& all = *profile.mutable_components();
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const auto& each) { return each.component() == name; });
    if (found != all.end()) return *found;
    v1::DeviceProfile::Component& added = *all.Add();
    added.set_component(name);
    return added;
  };
  PH_RETURN_IF_ERROR(ForEachNamed(query, "max", [&](const std::string& name, uint64_t rows) {
    component(name).set_max_rows(rows);
  }));
  PH_RETURN_IF_ERROR(ForEachNamed(query, "multiple", [&](const std::string& name, uint64_t rows) {
    component(name).set_multiple_of(rows);
  }));
  PH_RETURN_IF_ERROR(ForEachNamed(query, "bytes", [&](const std::string& name, uint64_t bytes) {
    component(name).set_bytes_per_row(bytes);
  }));
  PH_ASSIGN_OR_RETURN(const uint64_t memory, query.Number("memory", 0, 0, UINT64_MAX));
  profile.set_memory_bytes(memory);
  PH_ASSIGN_OR_RETURN(const uint64_t steps, query.Number("steps", 0, 0, kMaxBudgetSteps));
  request.set_budget_steps(steps);
  *request.mutable_histogram() = std::move(source.histogram);

  Json frontier = Json::array();
  v1::TuneRecommendation recommendation;
  PH_RETURN_IF_ERROR(calls_->CallStreaming(
      kTune, viewer_, request,
      [&](const std::string& bytes) {
        v1::TuneResponse response;
        if (!response.ParseFromString(bytes)) return absl::InternalError("Tune: a bad response");
        if (response.has_frontier()) frontier.push_back(TunedShapeJson(response.frontier()));
        if (response.has_recommendation()) {
          recommendation = std::move(*response.mutable_recommendation());
        }
        return absl::OkStatus();
      },
      *stop_));
  const auto& reasons = recommendation.reasons();
  return Json{{"shape", TunedShapeJson(recommendation.single_shape())},
              {"frontier", std::move(frontier)},
              {"exact", recommendation.exact()},
              {"least_cost", recommendation.least_cost()},
              {"oversize", recommendation.oversize().num_graphs()},
              {"reasons", std::vector<std::string>(reasons.begin(), reasons.end())}};
}

absl::StatusOr<Json> PageAnswers::Jobs(const PageQuery& query) const {
  v1::ListJobsRequest request;
  request.set_page_size(kPageSize);
  request.set_page_token(query.Text("page"));
  v1::ListJobsResponse response;
  const absl::Status status = Call(kListJobs, request, response);
  // Without a folder for data there are none.
  if (!status.ok() && !absl::IsFailedPrecondition(status)) return status;
  Json jobs = Json::array();
  for (const v1::Job& job : response.jobs()) jobs.push_back(JobJson(job, kFewEpochs));
  return Json{{"jobs", std::move(jobs)}, {"next", response.next_page_token()}};
}

absl::StatusOr<Json> PageAnswers::Job(const PageQuery& query, const WatchJob& watch,
                                      const History& history, absl::Time now) const {
  v1::GetJobRequest request;
  request.set_job(query.Text("name"));
  v1::Job job;
  // Who may see the job may see who works on it.
  PH_RETURN_IF_ERROR(Call(kGetJob, request, job));
  Json json = JobJson(job, kManyEpochs);
  json["loading"] = Json::array();
  for (const EpochWatch& epoch : watch(request.job())) {
    json["loading"].push_back(
        EpochWatchJson(epoch, history.BatchesPerSecond(epoch.progress.key), now));
  }
  return json;
}

absl::StatusOr<bool> PageAnswers::AddModels(Json& models) const {
  v1::ListModelsResponse response;
  PH_RETURN_IF_ERROR(Call(kListModels, v1::ListModelsRequest(), response));
  uint64_t bytes = 0;
  for (const v1::DeviceModel& model : response.models()) {
    bytes += model.ByteSizeLong();
    if (models.size() == kMostListed || (!models.empty() && bytes > kMostListedBytes)) return false;
    models.push_back(MeasuredModelJson(model));
  }
  return true;
}

absl::Status PageAnswers::AddDrifts(Json& datasets) const {
  for (size_t i = 0; i < std::min(datasets.size(), kMostDrifts); ++i) {
    v1::GetDatasetRequest request;
    request.set_name(datasets[i]["name"].get<std::string>());
    v1::GetDatasetResponse response;
    const absl::Status status = Call(kGetDataset, request, response);
    // Deleted since it was listed, or damaged.
    if (absl::IsNotFound(status) || absl::IsDataLoss(status)) continue;
    PH_RETURN_IF_ERROR(status);
    if (response.has_drift()) datasets[i]["drift"] = DriftJson(response.drift());
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> PageAnswers::Data(const std::vector<QuotaReading>& quotas) const {
  Json datasets = Json::array();
  auto all_datasets = ForEachListed<v1::ListDatasetsRequest, v1::ListDatasetsResponse>(
      kListDatasets, DatasetsOf,
      [&](const v1::Dataset& dataset) { datasets.push_back(DatasetJson(dataset)); });
  const bool has_data = !absl::IsFailedPrecondition(all_datasets.status());
  if (!has_data) all_datasets = true;
  PH_RETURN_IF_ERROR(all_datasets.status());
  PH_RETURN_IF_ERROR(AddDrifts(datasets));
  Json graphs = Json::array();
  const auto all_graphs = ForEachListed<v1::ListSourceGraphsRequest, v1::ListSourceGraphsResponse>(
      kListSourceGraphs,
      [](const v1::ListSourceGraphsResponse& response) -> const auto& { return response.graphs(); },
      [&](const v1::SourceGraph& graph) { graphs.push_back(SourceGraphJson(graph)); });
  if (!all_graphs.ok() && !absl::IsFailedPrecondition(all_graphs.status())) {
    return all_graphs.status();
  }
  Json models = Json::array();
  PH_ASSIGN_OR_RETURN(const bool all_models, AddModels(models));
  return Json{{"has_data", has_data},
              {"datasets", std::move(datasets)},
              {"source_graphs", std::move(graphs)},
              {"models", std::move(models)},
              {"more", !*all_datasets || !all_graphs.value_or(true) || !all_models},
              {"quotas", QuotasJson(quotas, [this](const std::string& where) {
                 return authorizer_ == nullptr ||
                        authorizer_->policy()->Allows(viewer_.principal, Right::kView, where);
               })}};
}

}  // namespace packhouse::page
