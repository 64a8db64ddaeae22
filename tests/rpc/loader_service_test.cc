// LoaderService over the real server, store and ledger.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "packhouse/v1/dataset.grpc.pb.h"
#include "packhouse/v1/loader.grpc.pb.h"
#include "packhouse/v1/receipts.grpc.pb.h"
#include "service/access/text_signer.h"
#include "service/server/calls/wire_graphs.h"
#include "tests/rpc/server_fixture.h"
#include "tests/support/random_graphs.h"

namespace packhouse::rpc {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kFirstId = 1000;

GraphSchema LoadedSchema() {
  return GraphSchema::Create(
             SizeSchema::NodesAndEdges(),
             {{"x", DType::kFloat32, {3}, 0, {}, {}}, {"edge_index", DType::kInt32, {2}, 1, 0, {}}})
      .value();
}

// A Load stream with all it needs. Reads without waiting for more than the server owes.
class LoadCall {
 public:
  LoadCall(v1::LoaderService::Stub& stub, const v1::LoadRequest& request)
      : request_(request), stream_(stub.Load(&context_, request)) {}
  ~LoadCall() {
    if (stream_ == nullptr) return;
    context_.TryCancel();
    (void)End();
  }

  // The next response, or nothing: the stream has ended.
  std::optional<v1::LoadResponse> Read() {
    v1::LoadResponse response;
    if (!stream_->Read(&response)) return std::nullopt;
    if (response.has_opened()) opened_ = response.opened();
    return response;
  }
  // Reads `opened`, or says how the stream ended instead.
  absl::Status Open() {
    if (!Read()) return End();
    return opened_.generation() == 0 ? absl::UnknownError("not opened") : absl::OkStatus();
  }
  v1::LoadedBatch ReadBatch() {
    const auto response = Read();
    EXPECT_TRUE(response && response->has_batch());
    return response ? response->batch() : v1::LoadedBatch();
  }
  absl::Status End() {
    v1::LoadResponse response;
    while (stream_->Read(&response)) {
    }
    absl::Status status = ToAbsl(stream_->Finish());
    stream_ = nullptr;
    return status;
  }
  const v1::LoadOpened& opened() const { return opened_; }
  const v1::LoadRequest& request() const { return request_; }

 private:
  const v1::LoadRequest request_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::LoadResponse>> stream_;
  v1::LoadOpened opened_;
};

std::vector<uint64_t> IdsOf(const v1::LoadedBatch& batch) {
  return Uint64sFromWire(batch.batch().graph_ids());
}

class LoaderServiceTest : public ServerTest {
 protected:
  // A sealed data set "graphs" behind a started server.
  void Start(size_t num_graphs = 60, ServerOptions options = {}) {
    options_ = options;
    num_graphs_ = num_graphs;
    OpenDatasets();
    const GraphSchema schema = LoadedSchema();
    Random random(5);
    ASSERT_THAT(datasets_->Create("graphs", schema, DatasetOptions()), IsOk());
    for (size_t i = 0; i < num_graphs; i += 10) {
      const GraphChunk chunk =
          RandomChunk(random, &schema, std::min<size_t>(10, num_graphs - i), 9, kFirstId + i);
      ASSERT_THAT(datasets_->Append("graphs", chunk, {}, std::nullopt), IsOk());
    }
    ASSERT_THAT(datasets_->Seal("graphs"), IsOk());
    Serve();
  }
  void Serve() {
    StartServer(options_);
    stub_ = v1::LoaderService::NewStub(channel_);
  }
  // As a crash: the store and the ledger are what is left.
  void Restart() {
    stub_ = nullptr;
    channel_ = nullptr;
    server_ = nullptr;
    datasets_ = nullptr;
    ledger_ = nullptr;
    OpenDatasets();
    Serve();
  }

  static v1::EpochSpec Spec() {
    v1::EpochSpec spec;
    spec.set_dataset("graphs");
    spec.set_job("job");
    spec.set_epoch(2);
    spec.set_seed(7);
    v1::Limits& limits = *spec.add_rank_groups()->add_shapes();
    for (const auto& [component, rows] :
         std::map<std::string, uint64_t>{{"nodes", 24}, {"edges", 30}, {"graphs", 6}}) {
      v1::Capacity& capacity = *limits.add_capacities();
      capacity.set_component(component);
      capacity.set_rows(rows);
    }
    spec.set_padding(v1::PADDING_MASKED);
    return spec;
  }
  static v1::LoadRequest Rank(uint32_t rank, uint32_t num_ranks, uint32_t max_in_flight = 4) {
    v1::LoadRequest request;
    *request.mutable_epoch() = Spec();
    request.mutable_ranked()->set_rank(rank);
    request.mutable_ranked()->set_num_ranks(num_ranks);
    request.set_max_in_flight(max_in_flight);
    return request;
  }
  static v1::LoadRequest Dynamic(const std::string& worker, uint32_t max_in_flight = 4) {
    v1::LoadRequest request;
    *request.mutable_epoch() = Spec();
    request.mutable_dynamic()->set_worker(worker);
    request.set_max_in_flight(max_in_flight);
    return request;
  }

  absl::StatusOr<v1::AcknowledgeResponse> Acknowledge(const LoadCall& call,
                                                      const std::vector<uint64_t>& batches) {
    v1::AcknowledgeRequest request;
    request.set_job(call.request().epoch().job());
    request.set_epoch(call.request().epoch().epoch());
    request.set_generation(call.opened().generation());
    request.set_session(call.opened().session());
    request.mutable_batches()->Add(batches.begin(), batches.end());
    grpc::ClientContext context;
    v1::AcknowledgeResponse response;
    const absl::Status status = ToAbsl(stub_->Acknowledge(&context, request, &response));
    if (!status.ok()) return status;
    return response;
  }
  absl::StatusOr<v1::Epoch> GetEpoch(const v1::EpochSpec& spec) {
    v1::GetEpochRequest request;
    *request.mutable_epoch() = spec;
    return GetEpoch(request);
  }
  // With the share of the worker that would load so.
  absl::StatusOr<v1::Epoch> GetEpoch(const v1::LoadRequest& load) {
    v1::GetEpochRequest request;
    *request.mutable_epoch() = load.epoch();
    if (load.has_ranked()) *request.mutable_ranked() = load.ranked();
    if (load.has_dynamic()) *request.mutable_dynamic() = load.dynamic();
    if (load.has_evaluation()) *request.mutable_evaluation() = load.evaluation();
    request.set_attempt(load.attempt());
    request.set_cursor(load.cursor());
    if (load.has_generation()) request.set_generation(load.generation());
    return GetEpoch(request);
  }
  absl::StatusOr<v1::Epoch> GetEpoch(const v1::GetEpochRequest& request) {
    grpc::ClientContext context;
    v1::Epoch response;
    const absl::Status status = ToAbsl(stub_->GetEpoch(&context, request, &response));
    if (!status.ok()) return status;
    return response;
  }
  absl::StatusOr<std::string> ReportStep(const LoadCall& call, uint64_t steps) {
    v1::ReportStepRequest request;
    request.set_job("job");
    request.set_epoch(2);
    request.set_generation(call.opened().generation());
    request.set_steps(steps);
    grpc::ClientContext context;
    v1::ReportStepResponse response;
    const absl::Status status = ToAbsl(stub_->ReportStep(&context, request, &response));
    if (!status.ok()) return status;
    return response.cursor();
  }
  v1::Histogram GetHistogram(const std::string& dataset) {
    v1::GetDatasetRequest request;
    request.set_name(dataset);
    request.set_include_histogram(true);
    grpc::ClientContext context;
    v1::GetDatasetResponse response;
    EXPECT_THAT(
        ToAbsl(v1::DatasetService::NewStub(channel_)->GetDataset(&context, request, &response)),
        IsOk());
    return response.histogram();
  }
  absl::Status DeleteJob(const std::string& job) {
    v1::DeleteJobRequest request;
    request.set_job(job);
    grpc::ClientContext context;
    v1::DeleteJobResponse response;
    return ToAbsl(stub_->DeleteJob(&context, request, &response));
  }

  // Reads and acknowledges to the end of the epoch; the ids.
  std::vector<uint64_t> TakeAll(LoadCall& call) {
    std::vector<uint64_t> all;
    while (const auto response = call.Read()) {
      if (!response->has_batch()) continue;
      const std::vector<uint64_t> ids = IdsOf(response->batch());
      all.insert(all.end(), ids.begin(), ids.end());
      EXPECT_THAT(Acknowledge(call, {response->batch().batch().id()}), IsOk());
    }
    EXPECT_THAT(call.End(), IsOk());
    return all;
  }
  void ExpectAllOnce(std::vector<uint64_t> ids) {
    std::sort(ids.begin(), ids.end());
    ASSERT_EQ(ids.size(), num_graphs_);
    for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(ids[i], kFirstId + i);
  }
  absl::Status StatusOfLoad(const v1::LoadRequest& request) {
    LoadCall call(*stub_, request);
    const absl::Status opened = call.Open();
    return opened.ok() ? absl::OkStatus() : opened;
  }

  std::unique_ptr<v1::LoaderService::Stub> stub_;

 private:
  ServerOptions options_;
  size_t num_graphs_ = 0;
};

INSTANTIATE_TEST_SUITE_P(, LoaderServiceTest,
                         ::testing::Values(Transport::kInProcess, Transport::kTcp), TransportName);

TEST_P(LoaderServiceTest, TellsTheShareOfWhoWouldLoad) {
  Start();
  EXPECT_FALSE(GetEpoch(Spec())->has_share());
  const auto steps_of = [&](const v1::LoadRequest& request) -> std::vector<uint64_t> {
    const absl::StatusOr<v1::Epoch> epoch = GetEpoch(request);
    EXPECT_THAT(epoch, IsOk());
    if (!epoch.ok()) return {};
    const v1::EpochShare& share = epoch->share();
    return {share.num_steps(), share.num_steps_done(), share.num_batches_before()};
  };
  const uint64_t batches = GetEpoch(Spec())->num_batches();
  const uint64_t half = (batches + 1) / 2;
  EXPECT_THAT(steps_of(Rank(1, 2)), ElementsAre(half, 0, 0));
  LoadCall call(*stub_, Rank(1, 2));
  ASSERT_THAT(call.Open(), IsOk());
  std::string cursor;
  for (int i = 0; i < 3; ++i) {
    const uint64_t batch = call.Read()->batch().batch().id();
    PH_ASSERT_OK_AND_ASSIGN(const v1::AcknowledgeResponse done, Acknowledge(call, {batch}));
    EXPECT_EQ(done.num_new(), 1U);
    cursor = done.cursor();
    EXPECT_EQ(Acknowledge(call, {batch})->num_new(), 0U);
  }
  EXPECT_THAT(steps_of(Rank(1, 2)), ElementsAre(half, 3, 0));
  EXPECT_THAT(steps_of(Rank(0, 2)), ElementsAre(half, 0, 0));
  EXPECT_THAT(steps_of(Dynamic("worker")), ElementsAre(batches - 3, 0, 3));
  v1::LoadRequest request = Rank(1, 2);
  request.set_generation(call.opened().generation());
  EXPECT_THAT(steps_of(request), ElementsAre(half, 3, 0));
  request.set_generation(call.opened().generation() + 1);
  EXPECT_THAT(GetEpoch(request), StatusIs(absl::StatusCode::kFailedPrecondition, _));
  request = Rank(0, 3);
  request.set_attempt("second");
  request.set_cursor(cursor);
  EXPECT_THAT(steps_of(request), ElementsAre((batches - 3 + 2) / 3, 0, 3));
  EXPECT_EQ(GetEpoch(Spec())->generation(), call.opened().generation());
  // What is said when it loads is the same.
  LoadCall again(*stub_, request);
  ASSERT_THAT(again.Open(), IsOk());
  EXPECT_EQ(again.opened().epoch().share().DebugString(), GetEpoch(request)->share().DebugString());
  EXPECT_EQ(again.opened().epoch().share().num_steps(), again.opened().num_steps());

  v1::LoadRequest evaluation;
  *evaluation.mutable_epoch() = Spec();
  evaluation.mutable_epoch()->clear_job();
  evaluation.mutable_evaluation()->set_first_step(2);
  EXPECT_THAT(steps_of(evaluation), ElementsAre(batches, 2, 0));
  LoadCall pass(*stub_, evaluation);
  ASSERT_TRUE(pass.Read());  // It has no generation.
  EXPECT_EQ(pass.opened().epoch().share().num_steps(), batches);

  const auto refused = [](const char* why) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why));
  };
  EXPECT_THAT(GetEpoch(Rank(2, 2)), refused("rank 2 of 2"));
  evaluation.set_attempt("1");
  EXPECT_THAT(GetEpoch(evaluation), refused("attempt: must be unset for an evaluation"));
  request.clear_ranked();
  EXPECT_THAT(GetEpoch(request), refused("neither 'ranked' nor 'dynamic'"));
  request = Rank(0, 1);
  request.set_cursor("invented");
  EXPECT_THAT(GetEpoch(request), refused("cursor"));
}

TEST_P(LoaderServiceTest, ThePlanOfALoadedEpochIsFoundByItsReceipt) {
  Start();
  LoadCall call(*stub_, Rank(0, 1));
  ASSERT_THAT(call.Open(), IsOk());
  const v1::Epoch& epoch = call.opened().epoch();
  v1::ReplanRequest request;
  request.set_receipt(epoch.receipt());
  const auto replan = [&] {
    grpc::ClientContext context;
    v1::ReplanResponse response;
    EXPECT_THAT(ToAbsl(v1::ReceiptService::NewStub(channel_)->Replan(&context, request, &response)),
                IsOk());
    return response;
  };
  const v1::ReplanResponse found = replan();
  EXPECT_EQ(found.job(), "job");
  EXPECT_EQ(found.epoch(), 2U);
  EXPECT_EQ(found.dataset(), "graphs");
  ASSERT_EQ(found.plan().summaries_size(), 1);
  const v1::PlanSummary& best = found.plan().best();
  EXPECT_EQ(found.plan().summaries(0).SerializeAsString(), best.SerializeAsString());
  EXPECT_EQ(best.packs(), epoch.num_batches());
  EXPECT_EQ(best.lower_bound(), epoch.lower_bound());
  EXPECT_EQ(best.optimal(), epoch.num_batches() == epoch.lower_bound());
  EXPECT_TRUE(best.keeps_limits());
  EXPECT_EQ(best.receipt(), epoch.receipt());
  EXPECT_EQ(best.num_patterns(), static_cast<uint64_t>(found.plan().plan().patterns_size()));
  std::vector<std::string> components;
  for (const v1::ComponentEfficiency& each : best.components()) {
    components.push_back(each.component());
  }
  EXPECT_THAT(components, ElementsAre("nodes", "edges", "graphs"));
  request.set_summaries_only(true);
  v1::ReplanResponse summaries = replan();
  EXPECT_FALSE(summaries.plan().has_plan());
  *summaries.mutable_plan()->mutable_plan() = found.plan().plan();
  EXPECT_EQ(summaries.SerializeAsString(), found.SerializeAsString());
}

// Its signatures are the purposes.
class PurposeSigner final : public TextSigner {
 public:
  std::string Sign(absl::string_view purpose, absl::string_view text) const override {
    return absl::StrCat(purpose, "|", text);
  }
  absl::StatusOr<std::string> Verify(absl::string_view purpose,
                                     absl::string_view signed_text) const override {
    if (absl::ConsumePrefix(&signed_text, absl::StrCat(purpose, "|"))) {
      return std::string(signed_text);
    }
    return absl::InvalidArgumentError(absl::StrCat(purpose, ": is not signed"));
  }
};

TEST_P(LoaderServiceTest, CursorsAndPageTokensAreSigned) {
  const PurposeSigner signer;
  ServerOptions options;
  options.signer = &signer;
  Start(60, options);
  const auto is_signed = ::testing::StartsWith("cursor|");
  const auto is_not_signed =
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(": is not signed"));
  EXPECT_THAT(GetEpoch(Spec())->start_cursor(), is_signed);
  LoadCall call(*stub_, Rank(0, 1));
  ASSERT_THAT(call.Open(), IsOk());
  EXPECT_THAT(call.opened().cursor(), is_signed);
  EXPECT_THAT(call.opened().epoch().start_cursor(), is_signed);
  PH_ASSERT_OK_AND_ASSIGN(const v1::AcknowledgeResponse done,
                          Acknowledge(call, {call.ReadBatch().batch().id()}));
  EXPECT_THAT(done.cursor(), is_signed);
  EXPECT_THAT(ReportStep(call, 1).value(), is_signed);
  v1::LoadRequest again = Rank(0, 1);
  again.set_cursor(done.cursor().substr(done.cursor().find('|') + 1));
  EXPECT_THAT(StatusOfLoad(again), is_not_signed);
  EXPECT_THAT(GetEpoch(again), is_not_signed);
  again.set_cursor(done.cursor());
  again.set_attempt("2");
  EXPECT_EQ(GetEpoch(again)->share().num_batches_before(), 1U);
  EXPECT_THAT(StatusOfLoad(again), IsOk());
  v1::LoadRequest evaluation;
  *evaluation.mutable_epoch() = Spec();
  evaluation.mutable_epoch()->clear_job();
  evaluation.mutable_evaluation();
  LoadCall pass(*stub_, evaluation);
  ASSERT_TRUE(pass.Read());
  EXPECT_THAT(pass.opened().epoch().start_cursor(), is_signed);

  evaluation = Rank(0, 1);
  evaluation.mutable_epoch()->set_job("another");
  ASSERT_THAT(StatusOfLoad(evaluation), IsOk());
  v1::ListJobsRequest jobs;
  jobs.set_page_size(1);
  v1::ListJobsResponse listed;
  const auto list = [&] {
    grpc::ClientContext context;
    return ToAbsl(stub_->ListJobs(&context, jobs, &listed));
  };
  ASSERT_THAT(list(), IsOk());
  EXPECT_EQ(listed.next_page_token(), "page_token of ListJobs|another");
  jobs.set_page_token(listed.next_page_token());
  ASSERT_THAT(list(), IsOk());
  EXPECT_EQ(listed.jobs(0).job(), "job");
  jobs.set_page_token("another");
  EXPECT_THAT(list(), is_not_signed);
  jobs.set_page_token("page_token of ListJobs|a b");
  EXPECT_THAT(list(), StatusIs(absl::StatusCode::kInvalidArgument,
                               "page_token: is not one that ListJobs has given"));

  ASSERT_THAT(datasets_->Create("other", LoadedSchema(), DatasetOptions()), IsOk());
  v1::ListDatasetsRequest datasets;
  datasets.set_page_size(1);
  v1::ListDatasetsResponse page;
  const auto list_datasets = [&] {
    grpc::ClientContext context;
    return ToAbsl(v1::DatasetService::NewStub(channel_)->ListDatasets(&context, datasets, &page));
  };
  ASSERT_THAT(list_datasets(), IsOk());
  EXPECT_EQ(page.next_page_token(), "page_token of ListDatasets|graphs");
  datasets.set_page_token(page.next_page_token());
  ASSERT_THAT(list_datasets(), IsOk());
  EXPECT_EQ(page.datasets(0).name(), "other");
  EXPECT_EQ(page.next_page_token(), "");
  datasets.set_page_token("graphs");
  EXPECT_THAT(list_datasets(), is_not_signed);
}

// Graphs that exceed the limits are in no batch, and so not in the plan.
TEST_P(LoaderServiceTest, AnEpochIsPlannedAgainFromItsDataSet) {
  Start();
  v1::LoadRequest load = Rank(0, 1);
  load.mutable_epoch()->mutable_rank_groups(0)->mutable_shapes(0)->mutable_capacities(2)->set_rows(
      7);
  PH_ASSERT_OK_AND_ASSIGN(const v1::Epoch epoch, GetEpoch(load.epoch()));
  ASSERT_GT(epoch.num_rejected(), 0U);
  const auto stub = v1::ReceiptService::NewStub(channel_);
  v1::ReplanRequest request;
  const auto replan = [&](v1::ReplanResponse& response) {
    grpc::ClientContext context;
    return ToAbsl(stub->Replan(&context, request, &response));
  };
  v1::ReplanResponse response;
  EXPECT_THAT(replan(response), StatusIs(absl::StatusCode::kInvalidArgument, "receipt: is empty"));
  request.set_receipt(epoch.receipt());
  // Nobody has loaded it yet.
  EXPECT_THAT(replan(response), StatusIs(absl::StatusCode::kNotFound, HasSubstr("receipt")));
  request.set_dataset("graphs");
  ASSERT_THAT(replan(response), IsOk());
  const v1::PlanSummary& best = response.plan().best();
  EXPECT_EQ(best.packs(), epoch.num_batches());
  EXPECT_EQ(best.receipt(), epoch.receipt());
  EXPECT_EQ(response.plan().summaries_size(), 1);
  EXPECT_EQ(response.plan().summaries(0).SerializeAsString(), best.SerializeAsString());
  EXPECT_EQ(response.job(), "");
  request.set_dataset("none");
  EXPECT_THAT(replan(response), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'none'")));
  request.set_histogram_name("none");
  EXPECT_THAT(replan(response), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'none'")));
  request.mutable_histogram()->add_components("atoms");
  EXPECT_THAT(replan(response),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       absl::StrCat("receipt '", epoch.receipt(),
                                    "': is for sizes of 2 components, these have 1")));
  request.mutable_histogram()->set_counts("123");
  EXPECT_THAT(replan(response),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("histogram.counts: 3 bytes")));
  *request.mutable_histogram() = GetHistogram("graphs");
  request.mutable_warm_start()->set_tuples("123");
  EXPECT_THAT(replan(response), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("warm_start.tuples: 3 bytes")));
}

TEST_P(LoaderServiceTest, BatchesAreMadeAgainOrItIsSaidWhyNot) {
  Start();
  const auto stub = v1::ReceiptService::NewStub(channel_);
  const auto rebuild = [&](const v1::RebuildBatchesRequest& request,
                           std::vector<v1::RebuildBatchesResponse>* told = nullptr) {
    grpc::ClientContext context;
    const auto stream = stub->RebuildBatches(&context, request);
    v1::RebuildBatchesResponse response;
    while (stream->Read(&response)) {
      if (told != nullptr) told->push_back(response);
    }
    return ToAbsl(stream->Finish());
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  v1::RebuildBatchesRequest request;
  request.set_job("a job");
  EXPECT_THAT(rebuild(request), StatusIs(kInvalid, HasSubstr("job: 'a job'")));
  request.set_job("job");
  request.set_epoch(2);
  EXPECT_THAT(rebuild(request), StatusIs(absl::StatusCode::kNotFound, "job 'job': has no epochs"));
  std::vector<v1::LoadedBatch> batches;
  {
    LoadCall call(*stub_, Rank(0, 1, 1000));
    ASSERT_THAT(call.Open(), IsOk());
    for (uint64_t i = 0; i < call.opened().num_steps(); ++i) batches.push_back(call.ReadBatch());
  }
  EXPECT_THAT(rebuild(request), StatusIs(kInvalid, "numbers: 0 batches, must be 1 to 1024"));
  for (int i = 0; i < 1025; ++i) request.add_numbers(0);
  EXPECT_THAT(rebuild(request), StatusIs(kInvalid, "numbers: 1025 batches, must be 1 to 1024"));
  request.clear_numbers();
  request.add_numbers(1);
  request.add_numbers(batches.size());
  EXPECT_THAT(
      rebuild(request),
      StatusIs(absl::StatusCode::kOutOfRange,
               absl::StrCat("numbers: batch ", batches.size(), ": epoch 2 has ", batches.size(),
                            " batches, numbered from 0; batches of padding alone come "
                            "after them, and are not made again")));
  request.set_numbers(1, 0);
  for (const bool has_job : {true, false}) {
    v1::RebuildBatchesRequest named = request;
    *named.mutable_words() = Spec();
    if (has_job) {
      named.mutable_words()->clear_epoch();
    } else {
      named.mutable_words()->clear_job();
    }
    EXPECT_THAT(rebuild(named),
                StatusIs(kInvalid, "words: have no job and no epoch, the request has them"));
  }
  std::vector<v1::RebuildBatchesResponse> told;
  ASSERT_THAT(rebuild(request, &told), IsOk());
  ASSERT_EQ(told.size(), 3U);
  EXPECT_EQ(told[0].opened().epoch().dataset(), "graphs");
  EXPECT_EQ(told[0].opened().schema().tensors_size(), 2);
  EXPECT_FALSE(told[0].has_words_of_epoch());
  for (const size_t i : {0, 1}) {
    batches[i].mutable_batch()->clear_step();  // Of workers.
    EXPECT_EQ(told[2 - i].batch().batch().SerializeAsString(),
              batches[i].batch().SerializeAsString());
  }
  // Of an epoch that nobody has loaded, by the words of the one beside it, or by its own.
  request.set_epoch(3);
  told.clear();
  ASSERT_THAT(rebuild(request, &told), IsOk());
  EXPECT_EQ(told.at(0).words_of_epoch(), 2U);
  EXPECT_EQ(told.at(1).batch().batch().epoch(), 3U);
  const std::string third = told.at(1).batch().SerializeAsString();
  *request.mutable_words() = Spec();
  request.mutable_words()->clear_job();
  request.mutable_words()->clear_epoch();
  told.clear();
  ASSERT_THAT(rebuild(request, &told), IsOk());
  EXPECT_FALSE(told.at(0).has_words_of_epoch());
  EXPECT_EQ(told.at(1).batch().SerializeAsString(), third);
}

TEST_P(LoaderServiceTest, LongWordsAreNotKept) {
  Start();
  v1::LoadRequest large = Rank(0, 1);
  for (uint64_t i = 0; i < 20'000; ++i) {
    v1::GraphIdRange& range = *large.mutable_epoch()->mutable_subset()->add_ranges();
    range.set_first(i < 30 ? kFirstId + i : 1'000'000 + 2 * i);
    range.set_count(1);
  }
  ASSERT_THAT(StatusOfLoad(large), IsOk());
  v1::RebuildBatchesRequest request;
  request.set_job("job");
  request.set_epoch(3);
  request.add_numbers(0);
  grpc::ClientContext context;
  const auto stream = v1::ReceiptService::NewStub(channel_)->RebuildBatches(&context, request);
  v1::RebuildBatchesResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_THAT(ToAbsl(stream->Finish()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "epoch 2 of job 'job': its words are not kept (they take more than 65536 "
                       "bytes): give them"));
}

TEST_P(LoaderServiceTest, RanksLoadAnEpochSideBySide) {
  Start();
  constexpr uint32_t kRanks = 3;
  std::vector<std::vector<uint64_t>> ids(kRanks);
  std::vector<std::thread> ranks;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      LoadCall call(*stub_, Rank(rank, kRanks));
      ASSERT_THAT(call.Open(), IsOk());
      ids[rank] = TakeAll(call);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  std::vector<uint64_t> all;
  for (const auto& own : ids) all.insert(all.end(), own.begin(), own.end());
  ExpectAllOnce(all);
  EXPECT_EQ(GetEpoch(Spec())->num_done(), GetEpoch(Spec())->num_batches());
  // Streams leave a moment after their clients have the end.
  server_->Drain(absl::InfiniteDuration());
  EXPECT_EQ(observer_.finished(Method::kLoad, absl::StatusCode::kOk), kRanks);
  EXPECT_EQ(server_->delivery().sessions().num_sessions, 0);
}

TEST_P(LoaderServiceTest, ListsJobs) {
  Start();
  LoadCall call(*stub_, Rank(0, 1));
  ASSERT_THAT(call.Open(), IsOk());
  EXPECT_THAT(Acknowledge(call, {call.ReadBatch().batch().id()}), IsOk());
  v1::LoadRequest other = Rank(0, 1);
  other.mutable_epoch()->set_job("another");
  EXPECT_THAT(StatusOfLoad(other), IsOk());

  const auto list = [&](uint32_t page_size, const std::string& token) {
    v1::ListJobsRequest request;
    request.set_page_size(page_size);
    request.set_page_token(token);
    grpc::ClientContext context;
    v1::ListJobsResponse response;
    const absl::Status status = ToAbsl(stub_->ListJobs(&context, request, &response));
    return std::pair(status, response);
  };
  const auto [status, first] = list(1, "");
  ASSERT_THAT(status, IsOk());
  ASSERT_EQ(first.jobs_size(), 1);
  EXPECT_EQ(first.jobs(0).job(), "another");
  const auto [rest_status, rest] = list(0, first.next_page_token());
  ASSERT_THAT(rest_status, IsOk());
  ASSERT_EQ(rest.jobs_size(), 1);
  EXPECT_EQ(rest.next_page_token(), "");
  const v1::Job& job = rest.jobs(0);
  EXPECT_EQ(job.job(), "job");
  EXPECT_EQ(job.num_epochs(), 1);
  EXPECT_EQ(job.num_sessions(), 1);
  ASSERT_EQ(job.epochs_size(), 1);
  EXPECT_EQ(job.epochs(0).epoch(), 2);
  EXPECT_EQ(job.epochs(0).num_done(), 1);
  EXPECT_EQ(job.epochs(0).num_batches(), call.opened().epoch().num_batches());
  EXPECT_EQ(job.epochs(0).generation(), call.opened().generation());
  EXPECT_EQ(job.epochs(0).dataset(), "graphs");
  EXPECT_EQ(job.epochs(0).client(), GetParam() == Transport::kTcp ? "127.0.0.1" : "in-process");
  EXPECT_EQ(job.epochs(0).last_used().seconds(), absl::ToUnixSeconds(clock_.Now()));
  EXPECT_THAT(list(0, "no token").first,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_token")));

  v1::GetJobRequest get;
  get.set_job("job");
  {
    grpc::ClientContext context;
    v1::Job response;
    EXPECT_THAT(ToAbsl(stub_->GetJob(&context, get, &response)), IsOk());
    EXPECT_EQ(response.SerializeAsString(), job.SerializeAsString());
  }
  EXPECT_THAT(DeleteJob("job"), IsOk());
  grpc::ClientContext context;
  v1::Job response;
  const auto is_gone = StatusIs(absl::StatusCode::kNotFound, HasSubstr("'job'"));
  EXPECT_THAT(ToAbsl(stub_->GetJob(&context, get, &response)), is_gone);
  EXPECT_THAT(DeleteJob("job"), is_gone);
}

// Forgotten by the server itself, without any call.
TEST_P(LoaderServiceTest, ForgetsEpochsThatNobodyUses) {
  ServerOptions options;
  options.jobs.epoch_retention = absl::Hours(24);
  Start(60, options);
  std::string cursor;
  {
    LoadCall call(*stub_, Rank(0, 1));
    ASSERT_THAT(call.Open(), IsOk());
    cursor = call.opened().cursor();
  }
  // Streams leave a moment after their clients.
  observer_.AwaitFinished(Method::kLoad, absl::StatusCode::kCancelled);
  clock_.AwaitTimer();
  // Only once. The server forgets after as long again that it has forgotten the epoch.
  clock_.Advance(absl::Hours(25));
  while (server_->delivery().num_epochs != 0) std::this_thread::yield();
  v1::LoadRequest request = Rank(0, 1);
  request.set_cursor(cursor);
  request.set_attempt("2");
  EXPECT_THAT(StatusOfLoad(request),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--epoch-retention")));
}

// Whoever has deleted it.
TEST_P(LoaderServiceTest, WhatIsOfADataSetThatIsGoneIsLetGo) {
  Start();
  const uint64_t idle = server_->working_bytes();
  v1::EpochSpec spec = Spec();
  spec.clear_job();
  ASSERT_THAT(GetEpoch(spec).status(), IsOk());
  server_->ForgetGone();
  EXPECT_GT(server_->working_bytes(), idle);
  ASSERT_THAT(datasets_->Delete("graphs"), IsOk());
  server_->ForgetGone();
  // The call lets go a moment after its answer.
  while (server_->working_bytes() != idle) std::this_thread::yield();
}

// An evaluation is one pass of which nothing is kept, and the same bytes as often as it is asked
// for.
TEST_P(LoaderServiceTest, EvaluatesWithoutALedger) {
  Start();
  v1::LoadRequest request;
  *request.mutable_epoch() = Spec();
  request.mutable_epoch()->clear_job();
  request.mutable_evaluation();
  PH_ASSERT_OK_AND_ASSIGN(const v1::Epoch epoch, GetEpoch(request.epoch()));
  std::vector<std::string> first;
  for (int pass = 0; pass < 2; ++pass) {
    LoadCall call(*stub_, request);
    ASSERT_TRUE(call.Read());
    EXPECT_EQ(call.opened().generation(), 0);
    EXPECT_EQ(call.opened().cursor(), "");
    EXPECT_EQ(call.opened().num_steps(), epoch.num_batches());
    std::vector<uint64_t> ids;
    std::vector<std::string> batches;
    bool ended = false;
    while (const auto response = call.Read()) {
      if (response->has_end_of_epoch()) {
        ended = true;
        EXPECT_EQ(response->end_of_epoch().num_steps(), epoch.num_batches());
        continue;
      }
      const std::vector<uint64_t> own = IdsOf(response->batch());
      ids.insert(ids.end(), own.begin(), own.end());
      batches.push_back(response->batch().SerializeAsString());
    }
    EXPECT_TRUE(ended);
    EXPECT_THAT(call.End(), IsOk());
    ExpectAllOnce(ids);
    if (pass == 0) first = batches;
    EXPECT_EQ(batches, first);
  }
  // What is left of it, as after a lost stream.
  request.mutable_evaluation()->set_first_step(epoch.num_batches() - 1);
  {
    LoadCall call(*stub_, request);
    ASSERT_TRUE(call.Read());
    EXPECT_EQ(call.opened().num_steps_done(), epoch.num_batches() - 1);
    EXPECT_EQ(call.ReadBatch().SerializeAsString(), first.back());
    EXPECT_TRUE(call.Read()->has_end_of_epoch());
  }
  EXPECT_EQ(server_->delivery().num_epochs, 0);
  EXPECT_EQ(server_->delivery().totals.leased, 0);
}

TEST_P(LoaderServiceTest, TheEndSaysHowManyAcknowledgementsAreToCome) {
  Start();
  v1::LoadRequest request = Dynamic("a", 1000);
  request.mutable_dynamic()->set_end_when_all_leased(true);
  LoadCall call(*stub_, request);
  std::optional<uint64_t> num_pending;
  uint64_t num_batches = 0;
  while (const auto response = call.Read()) {
    num_batches += response->has_batch() ? 1 : 0;
    if (response->has_end_of_epoch()) num_pending = response->end_of_epoch().num_pending();
  }
  EXPECT_GT(num_batches, 0);
  EXPECT_EQ(num_pending, num_batches);
}

TEST_P(LoaderServiceTest, EvaluationsTakeNothingThatIsKept) {
  Start();
  v1::LoadRequest request;
  *request.mutable_epoch() = Spec();
  request.mutable_evaluation();
  EXPECT_THAT(StatusOfLoad(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("epoch.job: must be unset")));
  request.mutable_epoch()->clear_job();
  v1::LoadRequest bad = request;
  bad.set_cursor("abc");
  EXPECT_THAT(StatusOfLoad(bad),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("cursor: must be unset")));
  bad = request;
  bad.set_max_in_flight(3);
  EXPECT_THAT(StatusOfLoad(bad),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("max_in_flight")));
  bad = request;
  bad.mutable_evaluation()->mutable_ranked()->set_rank(2);
  bad.mutable_evaluation()->mutable_ranked()->set_num_ranks(2);
  EXPECT_THAT(StatusOfLoad(bad),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rank 2 of 2")));
  bad = request;
  bad.mutable_evaluation()->set_first_step(1000);
  EXPECT_THAT(StatusOfLoad(bad),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("first_step: 1000")));
  // A job without a name is no evaluation.
  bad = request;
  bad.mutable_ranked()->set_num_ranks(1);
  EXPECT_THAT(StatusOfLoad(bad),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("job: ''")));
}

TEST_P(LoaderServiceTest, OpenedAndBatchesSayWhatTheyAre) {
  Start();
  PH_ASSERT_OK_AND_ASSIGN(const v1::Epoch epoch, GetEpoch(Spec()));
  EXPECT_EQ(epoch.num_graphs(), 60);
  EXPECT_EQ(epoch.generation(), 0);
  EXPECT_EQ(epoch.rank_groups(0).shapes(0).limits().capacities(2).rows(), 6);
  EXPECT_GT(epoch.rank_groups(0).shapes(0).batch_bytes(), 0);
  LoadCall call(*stub_, Rank(0, 1, 1000));
  ASSERT_THAT(call.Open(), IsOk());
  EXPECT_EQ(call.opened().num_steps(), epoch.num_batches());
  EXPECT_EQ(call.opened().schema().tensors_size(), 2);
  uint64_t efficiency_rows = 0;
  for (uint64_t step = 0; step < epoch.num_batches(); ++step) {
    const v1::LoadedBatch batch = call.ReadBatch();
    EXPECT_EQ(batch.batch().epoch(), 2);
    EXPECT_EQ(batch.batch().step(), step);
    EXPECT_EQ(batch.graphs_of_step(), IdsOf(batch).size());
    EXPECT_EQ(batch.batch().rows(0), 24);
    EXPECT_EQ(batch.batch().tensors(0).data().size(), 24 * 12);
    EXPECT_FALSE(batch.is_padding());
    EXPECT_FALSE(batch.is_redelivered());
    efficiency_rows += batch.batch().real_rows(0);
  }
  EXPECT_DOUBLE_EQ(epoch.rank_groups(0).shapes(0).components(0).efficiency(),
                   static_cast<double>(efficiency_rows) / (24.0 * epoch.num_batches()));
}

TEST_P(LoaderServiceTest, SendsNoMoreThanMayBeInFlight) {
  Start();
  LoadCall call(*stub_, Rank(0, 1, 2));
  ASSERT_THAT(call.Open(), IsOk());
  const uint64_t first = call.ReadBatch().batch().id();
  call.ReadBatch();
  EXPECT_EQ(server_->delivery().sessions().num_in_flight, 2);
  EXPECT_THAT(Acknowledge(call, {first}), IsOk());
  call.ReadBatch();
  EXPECT_EQ(server_->delivery().totals.leased, 3);
}

TEST_P(LoaderServiceTest, ABrokenStreamGivesItsBatchesBack) {
  Start();
  std::set<uint64_t> lost;
  {
    LoadCall gone(*stub_, Dynamic("gone", 5));
    ASSERT_THAT(gone.Open(), IsOk());
    for (int i = 0; i < 5; ++i) lost.insert(gone.ReadBatch().batch().id());
  }
  LoadCall worker(*stub_, Dynamic("worker"));
  ASSERT_THAT(worker.Open(), IsOk());
  ExpectAllOnce(TakeAll(worker));
  EXPECT_EQ(server_->delivery().totals.redelivered, lost.size());
}

TEST_P(LoaderServiceTest, ASilentWorkersLeasesExpire) {
  ServerOptions options;
  options.jobs.lease_duration = absl::Seconds(30);
  Start(60, options);
  LoadCall silent(*stub_, Dynamic("silent", 1000));
  ASSERT_THAT(silent.Open(), IsOk());
  const uint64_t num_batches = silent.opened().num_steps();
  for (uint64_t i = 0; i < num_batches; ++i) silent.ReadBatch();
  LoadCall worker(*stub_, Dynamic("worker"));
  ASSERT_THAT(worker.Open(), IsOk());
  clock_.Advance(absl::Seconds(30));
  ExpectAllOnce(TakeAll(worker));
  EXPECT_EQ(server_->delivery().totals.expired, num_batches);
}

TEST_P(LoaderServiceTest, AJobIsDeletedUnderItsWorkers) {
  Start();
  EXPECT_THAT(DeleteJob("job"), StatusIs(absl::StatusCode::kNotFound, _));
  LoadCall call(*stub_, Rank(0, 1, 1));
  ASSERT_THAT(call.Open(), IsOk());
  call.ReadBatch();
  EXPECT_THAT(DeleteJob("job"), IsOk());
  EXPECT_THAT(call.End(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'job'")));
  EXPECT_EQ(GetEpoch(Spec())->generation(), 0);
}

// Workers go on elsewhere or when the server is back, while others may finish here; what was sent
// can be acknowledged as long as connections are taken.
TEST_P(LoaderServiceTest, ADrainEndsLoadsWhereTheyAre) {
  Start();
  // Keeps the drain waiting.
  const auto pack = StartPack();
  ASSERT_TRUE(pack->stream->Write(OpenSizes(10)));
  v1::PackResponse opened;
  ASSERT_TRUE(pack->stream->Read(&opened));

  LoadCall call(*stub_, Rank(0, 1, 2));
  ASSERT_THAT(call.Open(), IsOk());
  const uint64_t first = call.ReadBatch().batch().id();
  std::thread drain(
      [&] { server_->Drain({.lame_duck = absl::Seconds(1), .timeout = absl::Hours(1)}); });
  while (!server_->is_draining()) std::this_thread::yield();
  EXPECT_THAT(Acknowledge(call, {first}), IsOk());
  // The second batch was on its way, the third has room now: the worker gets what was made for it.
  call.ReadBatch();
  call.ReadBatch();
  std::atomic<bool> ended = false;
  std::thread clock([&] {
    while (!ended) {
      clock_.Advance(absl::Seconds(1));
      std::this_thread::yield();
    }
  });
  EXPECT_THAT(call.End(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("load again")));
  ended = true;
  clock.join();
  // Others are not hurried.
  ASSERT_TRUE(pack->stream->Write(SizesOf({3, 4}, 0)));
  pack->stream->WritesDone();
  EXPECT_THAT(Finish(*pack->stream), IsOk());
  drain.join();

  Restart();
  LoadCall again(*stub_, Rank(0, 1));
  ASSERT_THAT(again.Open(), IsOk());
  EXPECT_EQ(again.opened().num_steps_done(), 1U);
}

TEST_P(LoaderServiceTest, DrainingEndsWhoWaits) {
  Start();
  LoadCall call(*stub_, Rank(0, 1, 1));
  ASSERT_THAT(call.Open(), IsOk());
  call.ReadBatch();
  server_->Drain(absl::ZeroDuration());
  EXPECT_THAT(call.End(), StatusIs(absl::StatusCode::kUnavailable, _));
}

TEST_P(LoaderServiceTest, SaysWhatIsWrong) {
  Start();
  ASSERT_THAT(datasets_->Create("open", LoadedSchema(), DatasetOptions()), IsOk());
  const auto refused = [this](const v1::LoadRequest& request, absl::StatusCode code,
                              const std::string& why) {
    EXPECT_THAT(StatusOfLoad(request), StatusIs(code, HasSubstr(why)));
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  v1::LoadRequest request = Rank(0, 1);
  request.mutable_epoch()->set_dataset("nothing");
  refused(request, absl::StatusCode::kNotFound, "nothing");
  request.mutable_epoch()->set_dataset("open");
  refused(request, absl::StatusCode::kFailedPrecondition, "not sealed");
  request = Rank(2, 2);
  refused(request, kInvalid, "rank 2 of 2");
  request.clear_sharing();
  refused(request, kInvalid, "neither 'ranked' nor 'dynamic'");
  request = Rank(0, 1, 5000);
  refused(request, kInvalid, "max_in_flight: 5000");
  request = Rank(0, 1);
  request.set_cursor("no cursor");
  refused(request, kInvalid, "cursor");
  request = Rank(0, 1);
  request.mutable_epoch()->set_job("a job");
  refused(request, kInvalid, "job: 'a job'");
  request = Rank(0, 1);
  request.mutable_epoch()->clear_rank_groups();
  refused(request, kInvalid, "rank_groups: 0");
  request = Rank(0, 1);
  request.mutable_epoch()
      ->mutable_rank_groups(0)
      ->mutable_shapes(0)
      ->mutable_capacities(0)
      ->set_component("atoms");
  refused(request, kInvalid, "'atoms'");
  request = Rank(0, 1);
  request.mutable_epoch()->mutable_subset()->set_graph_ids("12345");
  refused(request, kInvalid, "subset.graph_ids: 5 bytes");
  request = Rank(0, 1);
  request.mutable_epoch()->mutable_draw()->set_weights("12345");
  refused(request, kInvalid, "draw.weights: 5 bytes");
  request = Rank(0, 1);
  request.mutable_epoch()->set_look_ahead(5);
  refused(request, kInvalid, "only with in_order");
  request = Rank(0, 1);
  request.set_attempt(std::string(200, 'a'));
  refused(request, kInvalid, "attempt: 200 bytes");
  request = Rank(0, 1);
  request.set_generation(12);
  refused(request, absl::StatusCode::kFailedPrecondition, "nobody has loaded it");
  request = Rank(0, 1);
  request.mutable_epoch()
      ->mutable_rank_groups(0)
      ->mutable_shapes(0)
      ->mutable_capacities(2)
      ->set_rows(3);
  request.mutable_epoch()->set_oversize_policy(v1::OVERSIZE_POLICY_ERROR);
  refused(request, absl::StatusCode::kOutOfRange, "graph 1");
  EXPECT_THAT(GetEpoch(request.epoch()), StatusIs(absl::StatusCode::kOutOfRange, _));

  LoadCall call(*stub_, Rank(0, 1));
  ASSERT_THAT(call.Open(), IsOk());
  EXPECT_THAT(Acknowledge(call, {99999}), StatusIs(kInvalid, HasSubstr("99999")));
  EXPECT_THAT(ReportStep(call, 99999), StatusIs(absl::StatusCode::kOutOfRange, _));
  request = Rank(0, 1);
  request.mutable_epoch()->set_seed(8);
  refused(request, absl::StatusCode::kFailedPrecondition, "seed 8");
}

// Another call has the only turn to plan, and keeps it: no time passes, so its slice is never over.
TEST_P(LoaderServiceTest, WhatIsReadyNeverWaitsForWhoPlans) {
  ServerOptions options;
  options.plan_threads = 1;
  Start(60, options);
  ASSERT_THAT(GetEpoch(Spec()), IsOk());
  Random random(1);
  SizeHistogram histogram(2);
  for (int i = 0; i < 2000; ++i) {
    const auto nodes = static_cast<uint32_t>(random.Between(1, 2000));
    ASSERT_THAT(histogram.Add({nodes, static_cast<uint32_t>(random.Between(1, 4000))}, 7), IsOk());
  }
  v1::TuneRequest endless;
  HistogramToWire(histogram, SizeSchema::NodesAndEdges(), *endless.mutable_histogram());
  endless.set_budget_steps(100'000'000'000);
  for (const char* const name : {"nodes", "edges"}) {
    v1::DeviceProfile::Component& component = *endless.mutable_profile()->add_components();
    component.set_component(name);
    component.set_min_rows(4000);
    component.set_max_rows(65536);
  }
  grpc::ClientContext tune_context;
  const auto tune = v1::PlanningService::NewStub(channel_)->Tune(&tune_context, endless);
  v1::TuneResponse progress;
  ASSERT_TRUE(tune->Read(&progress));

  EXPECT_THAT(GetEpoch(Spec()), IsOk());
  LoadCall load(*stub_, Dynamic("worker"));
  EXPECT_THAT(load.Open(), IsOk());
  load.ReadBatch();
  grpc::ClientContext context;
  v1::DeleteHistogramRequest request;
  request.set_histogram("none");
  v1::DeleteHistogramResponse response;
  EXPECT_EQ(v1::HistogramService::NewStub(channel_)
                ->DeleteHistogram(&context, request, &response)
                .error_code(),
            grpc::StatusCode::NOT_FOUND);
  tune_context.TryCancel();
  while (tune->Read(&progress)) {
  }
  EXPECT_THAT(ToAbsl(tune->Finish()), StatusIs(absl::StatusCode::kCancelled, _));
}

TEST_P(LoaderServiceTest, WithoutAFolderForDataThereAreNoEpochs) {
  Serve();
  EXPECT_THAT(StatusOfLoad(Rank(0, 1)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("data")));
  EXPECT_THAT(GetEpoch(Spec()), StatusIs(absl::StatusCode::kFailedPrecondition, _));
  EXPECT_THAT(DeleteJob("job"), StatusIs(absl::StatusCode::kFailedPrecondition, _));
}

// A request of some 56 bytes that would take 17 GB.
TEST_P(LoaderServiceTest, ADrawThatDoesNotFitIntoMemoryIsRefused) {
  Start();
  v1::EpochSpec spec = Spec();
  spec.mutable_draw()->set_with_replacement(true);
  spec.mutable_draw()->set_num_graphs(UINT32_MAX);
  const auto refused = StatusIs(
      absl::StatusCode::kResourceExhausted,
      testing::AllOf(HasSubstr("--memory-budget: draw: num_graphs 4294967295 of 17179869180"),
                     HasSubstr(absl::StrCat("at most ", server_->max_working_bytes()))));
  EXPECT_THAT(GetEpoch(spec), refused);
  v1::LoadRequest request = Dynamic("worker");
  *request.mutable_epoch() = spec;
  EXPECT_THAT(LoadCall(*stub_, request).Open(), refused);
  EXPECT_LE(server_->working_bytes(), server_->max_working_bytes() / 8);
  EXPECT_THAT(GetEpoch(Spec()), IsOk());
}

// It draws the epoch's neighbour: not on the way to the first batch.
TEST_P(LoaderServiceTest, CompanyIsMeasuredForThoseWhoAsk) {
  Start(60);
  v1::GetEpochRequest request;
  *request.mutable_epoch() = Spec();
  PH_ASSERT_OK_AND_ASSIGN(const v1::Epoch without, GetEpoch(request));
  EXPECT_FALSE(without.has_company());
  LoadCall load(*stub_, Dynamic("worker"));
  ASSERT_THAT(load.Open(), IsOk());
  EXPECT_FALSE(load.opened().epoch().has_company());
  request.set_company(true);
  PH_ASSERT_OK_AND_ASSIGN(const v1::Epoch with, GetEpoch(request));
  EXPECT_GT(with.company().of_shuffle(), 0);
  // Of draws there is none.
  request.mutable_epoch()->mutable_draw()->set_num_graphs(20);
  request.mutable_epoch()->set_job("draws");
  PH_ASSERT_OK_AND_ASSIGN(const v1::Epoch drawn, GetEpoch(request));
  EXPECT_FALSE(drawn.has_company());
}

// Planning an epoch ends at the deadline of the call that asks for it.
TEST_P(LoaderServiceTest, AnEpochThatNobodyWaitsForIsGivenUp) {
  ServerOptions options;
  options.memory_budget = uint64_t{64} << 30;
  Start(60, options);
  v1::GetEpochRequest request;
  *request.mutable_epoch() = Spec();
  request.mutable_epoch()->mutable_draw()->set_with_replacement(true);
  // Minutes of work.
  request.mutable_epoch()->mutable_draw()->set_num_graphs(uint64_t{1} << 30);
  // A call that the server has not seen before its deadline is made again.
  for (int milliseconds = 50; !observer_.HasSeen(Method::kGetEpoch); milliseconds *= 2) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(milliseconds));
    v1::Epoch response;
    EXPECT_THAT(ToAbsl(stub_->GetEpoch(&context, request, &response)),
                StatusIs(absl::StatusCode::kDeadlineExceeded, _));
  }
  observer_.AwaitFinished(Method::kGetEpoch, absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace packhouse::rpc
