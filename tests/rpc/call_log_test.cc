#include "service/server/calls/call_log.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "packhouse/v1/dataset.grpc.pb.h"
#include "packhouse/v1/feedback.grpc.pb.h"
#include "packhouse/v1/histogram.grpc.pb.h"
#include "packhouse/v1/loader.grpc.pb.h"
#include "service/server/listen/library_logs.h"
#include "tests/rpc/server_fixture.h"
#include "tests/support/recorded_log.h"

namespace packhouse::rpc {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST(CallLogTest, ALineSaysWhoFailedAtWhat) {
  RecordedLog lines;
  LimitedLog limited(&lines, [] { return absl::UnixEpoch(); });
  const CallLog log = {&limited, &limited};
  LogCall(log, "10.0.0.1", Method::kPlan, absl::OkStatus(), absl::Seconds(1));
  EXPECT_THAT(lines.lines(), IsEmpty());
  LogCall(log, "10.0.0.1", Method::kPlan, absl::NotFoundError("no \"x\"\n"), absl::Seconds(1));
  LogCall(log, "10.0.0.1", Method::kLoad, absl::DataLossError("a record"), absl::Milliseconds(2));
  LogCall(log, "::1", Method::kPack, absl::ResourceExhaustedError("full"), absl::ZeroDuration());
  LogDeletion(log, "::1", "job", std::string(1000, 'j'));
  LogDamage(log, "graphs", 3, absl::DataLossError("record 7"));
  EXPECT_THAT(
      lines.lines(),
      ElementsAre(R"(info "event":"call failed","client":"10.0.0.1","method":"Plan",)"
                  R"("code":"NOT_FOUND","message":"no \"x\"\u000a","ms":1000)",
                  R"(error "event":"call failed","client":"10.0.0.1","method":"Load",)"
                  R"("code":"DATA_LOSS","message":"a record","ms":2)",
                  R"(warning "event":"call failed","client":"::1","method":"Pack",)"
                  R"("code":"RESOURCE_EXHAUSTED","message":"full","ms":0)",
                  absl::StrCat(R"(info "event":"deleted","client":"::1","kind":"job","name":")",
                               std::string(128, 'j'), "... (1000 bytes)\""),
                  R"(error "event":"damage found","data_set":"graphs","damaged_records":3,)"
                  R"("message":"record 7")"));
}

TEST(CallLogTest, NoLogIsToldNothing) {
  LogCall({}, "10.0.0.1", Method::kPlan, absl::NotFoundError("x"), absl::Seconds(1));
  LogDeletion({}, "10.0.0.1", "job", "x");
  LogDamage({}, "graphs", 1, absl::DataLossError("x"));
}

// A server whose calls are logged.
class LoggedCallsTest : public ServerTest {
 protected:
  void SetUp() override {
    OpenDatasets();
    ServerOptions options;
    options.log = {&failures_, &deletions_};
    StartServer(options);
  }
  // It uses the log until it has ended.
  void TearDown() override { server_.reset(); }

  RecordedLog lines_;
  LimitedLog failures_{&lines_, [this] { return clock_.Now(); }};
  LimitedLog deletions_{&lines_, [this] { return clock_.Now(); }, BoundsOfDeletions()};
};

INSTANTIATE_TEST_SUITE_P(Transports, LoggedCallsTest,
                         ::testing::Values(Transport::kInProcess, Transport::kTcp), TransportName);

TEST_P(LoggedCallsTest, ReportsAreCountedAndWhatDidNotFitIsLogged) {
  v1::ReportRequest request;
  request.set_model("m");
  request.set_device("d");
  request.set_job("job");
  request.set_rank_group(2);
  for (const bool out_of_memory : {false, true}) {
    v1::BatchFeedback& batch = *request.add_batches();
    for (const auto& [component, rows] :
         {std::pair("nodes", 11), std::pair("edges", 12), std::pair("graphs", 13)}) {
      v1::Capacity& capacity = *batch.mutable_capacities()->add_capacities();
      capacity.set_component(component);
      capacity.set_rows(static_cast<uint64_t>(rows));
    }
    batch.set_num_batches(out_of_memory ? 3 : 14);
    if (!out_of_memory) batch.set_seconds(1.5);
    batch.set_out_of_memory(out_of_memory);
  }
  // Each has two.
  for (const uint64_t num_reports : {2, 4}) {
    grpc::ClientContext context;
    v1::ReportResponse response;
    ASSERT_THAT(
        ToAbsl(v1::FeedbackService::NewStub(channel_)->Report(&context, request, &response)),
        IsOk());
    EXPECT_EQ(response.num_reports(), num_reports);
  }
  grpc::ClientContext listing;
  v1::ListModelsResponse listed;
  ASSERT_THAT(ToAbsl(v1::FeedbackService::NewStub(channel_)->ListModels(&listing, {}, &listed)),
              IsOk());
  ASSERT_EQ(listed.models_size(), 1);
  EXPECT_EQ(listed.models(0).num_reports(), 4U);
  EXPECT_THAT(lines_.lines(),
              Contains(AllOf(HasSubstr(R"(warning "event":"device out of memory")"),
                             HasSubstr(R"("model":"m","device":"d","job":"job","rank_group":2,)"),
                             HasSubstr(R"("shape":"edges 12, nodes 11, graphs 13","batches":3)"))));
}

TEST_P(LoggedCallsTest, AModelIsToldWithItsShapesUntilItIsDeleted) {
  const auto stub = v1::FeedbackService::NewStub(channel_);
  v1::ReportRequest report;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(model: "m"
           device: "d"
           batches {
             capacities {
               capacities { component: "nodes" rows: 11 }
               capacities { component: "graphs" rows: 13 }
             }
             num_batches: 14
             seconds: 1.5
             peak_bytes: 16
           })pb",
      &report));
  v1::ReportResponse reported;
  grpc::ClientContext reporting;
  ASSERT_THAT(ToAbsl(stub->Report(&reporting, report, &reported)), IsOk());
  v1::GetModelRequest get;
  get.set_model("m");
  const auto got = [&](v1::DeviceModel& model) {
    grpc::ClientContext context;
    return ToAbsl(stub->GetModel(&context, get, &model));
  };
  v1::DeviceModel model;
  EXPECT_THAT(got(model),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("device: '' must be")));
  get.set_device("d");
  ASSERT_THAT(got(model), IsOk());
  ASSERT_EQ(model.shapes_size(), 1);
  v1::DeviceModel::Shape shape;
  *shape.mutable_capacities() = report.batches(0).capacities();
  shape.set_num_batches(14);
  shape.set_seconds(1.5);
  shape.set_expected_seconds(model.shapes(0).expected_seconds());
  shape.set_peak_bytes(16);
  EXPECT_EQ(model.shapes(0).DebugString(), shape.DebugString());
  grpc::ClientContext listing;
  v1::ListModelsResponse listed;
  ASSERT_THAT(ToAbsl(stub->ListModels(&listing, {}, &listed)), IsOk());
  ASSERT_EQ(listed.models_size(), 1);
  model.clear_shapes();
  EXPECT_EQ(listed.models(0).DebugString(), model.DebugString());
  // Batches that fit are not logged.
  EXPECT_THAT(lines_.lines(), Not(Contains(HasSubstr("out of memory"))));

  v1::DeleteModelRequest erase;
  erase.set_model("m");
  const auto erased = [&] {
    grpc::ClientContext context;
    v1::DeleteModelResponse response;
    return ToAbsl(stub->DeleteModel(&context, erase, &response));
  };
  EXPECT_THAT(erased(),
              StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("device: '' must be")));
  erase.set_device("d");
  EXPECT_THAT(erased(), IsOk());
  EXPECT_THAT(lines_.lines(), Contains(HasSubstr(R"("kind":"measured model","name":"m/d")")));
  EXPECT_THAT(erased(), StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_THAT(got(model), StatusIs(absl::StatusCode::kNotFound, _));
}

TEST_P(LoggedCallsTest, CallsAndStreamsThatFailAndWhoDeletes) {
  const auto histograms = v1::HistogramService::NewStub(channel_);
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    v1::GetHistogramRequest request;
    request.set_histogram("missing");
    v1::GetHistogramResponse response;
    EXPECT_EQ(histograms->GetHistogram(&context, request, &response).error_code(),
              grpc::StatusCode::NOT_FOUND);
  }
  // The log is told before the client: what comes next is behind it.
  EXPECT_THAT(lines_.lines(),
              AllOf(SizeIs(5),
                    Each(AllOf(StartsWith("info "), HasSubstr("\"client\":\""),
                               HasSubstr("\"method\":\"GetHistogram\""), HasSubstr("missing")))));
  {
    const auto call = StartPack();
    ASSERT_TRUE(call->stream->Write(v1::PackRequest()));
    EXPECT_THAT(Finish(*call->stream), StatusIs(absl::StatusCode::kFailedPrecondition, _));
  }
  lines_.Await("\"method\":\"Pack\",\"code\":\"FAILED_PRECONDITION\"");

  ASSERT_THAT(
      datasets_->Create("graphs", GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value(), {}),
      IsOk());
  const auto datasets = v1::DatasetService::NewStub(channel_);
  grpc::ClientContext context;
  v1::DeleteDatasetRequest request;
  request.set_name("graphs");
  v1::DeleteDatasetResponse response;
  EXPECT_TRUE(datasets->DeleteDataset(&context, request, &response).ok());
  EXPECT_THAT(lines_.lines().back(),
              AllOf(HasSubstr("\"event\":\"deleted\""), HasSubstr("\"client\":\""),
                    HasSubstr("\"kind\":\"data set\",\"name\":\"graphs\"")));
}

// Strings that are not UTF-8 make protobuf complain, once for each.
TEST_P(LoggedCallsTest, LinesOfLibrariesAreEventsAndFew) {
  RouteLibraryLogs(&failures_);
  const auto histograms = v1::HistogramService::NewStub(channel_);
  for (int i = 0; i < 100; ++i) {
    grpc::ClientContext context;
    v1::DeleteHistogramRequest request;
    request.set_histogram("\xFF\xFE");
    v1::DeleteHistogramResponse response;
    EXPECT_EQ(histograms->DeleteHistogram(&context, request, &response).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
  RouteLibraryLogs(nullptr);
  EXPECT_THAT(lines_.lines(), Contains(AllOf(StartsWith("warning \"event\":\"protobuf\""),
                                             HasSubstr("UTF-8"), HasSubstr("\"where\":\""))));
  EXPECT_LE(lines_.lines().size(), 5 * 4);
}

// A message about something that a client named is short and printable, whatever the name is.
TEST_P(LoggedCallsTest, NamesInMessagesAreEscapedAndCut) {
  const std::string name = "\n\x1b" + std::string(1 << 20, 'x');
  const auto check = [](const grpc::Status& status) {
    EXPECT_THAT(status.error_code(),
                AnyOf(grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::NOT_FOUND));
    EXPECT_LT(status.error_message().size(), 1000);
    EXPECT_THAT(status.error_message(), Each(AllOf(Ge(' '), Le('~'))));
  };
  const auto call = [&](auto& stub, auto method, auto request, auto response) {
    grpc::ClientContext context;
    check((stub.*method)(&context, request, &response));
  };
  const auto histograms = v1::HistogramService::NewStub(channel_);
  v1::GetHistogramRequest get_histogram;
  get_histogram.set_histogram(name);
  call(*histograms, &v1::HistogramService::Stub::GetHistogram, get_histogram,
       v1::GetHistogramResponse());
  v1::DeleteHistogramRequest delete_histogram;
  delete_histogram.set_histogram(name);
  call(*histograms, &v1::HistogramService::Stub::DeleteHistogram, delete_histogram,
       v1::DeleteHistogramResponse());
  v1::MergeHistogramRequest merge;
  merge.set_histogram(name);
  call(*histograms, &v1::HistogramService::Stub::MergeHistogram, merge,
       v1::MergeHistogramResponse());

  const auto datasets = v1::DatasetService::NewStub(channel_);
  v1::GetDatasetRequest get;
  get.set_name(name);
  call(*datasets, &v1::DatasetService::Stub::GetDataset, get, v1::GetDatasetResponse());
  v1::DeleteDatasetRequest erase;
  erase.set_name(name);
  call(*datasets, &v1::DatasetService::Stub::DeleteDataset, erase, v1::DeleteDatasetResponse());
  v1::CreateDatasetRequest create;
  create.set_name(name);
  call(*datasets, &v1::DatasetService::Stub::CreateDataset, create, v1::Dataset());
  v1::SealDatasetRequest seal;
  seal.set_name(name);
  call(*datasets, &v1::DatasetService::Stub::SealDataset, seal, v1::Dataset());

  const auto loader = v1::LoaderService::NewStub(channel_);
  v1::DeleteJobRequest delete_job;
  delete_job.set_job(name);
  call(*loader, &v1::LoaderService::Stub::DeleteJob, delete_job, v1::DeleteJobResponse());
  v1::AcknowledgeRequest acknowledge;
  acknowledge.set_job(name);
  call(*loader, &v1::LoaderService::Stub::Acknowledge, acknowledge, v1::AcknowledgeResponse());
  v1::ReportStepRequest report;
  report.set_job(name);
  call(*loader, &v1::LoaderService::Stub::ReportStep, report, v1::ReportStepResponse());
  v1::GetEpochRequest epoch;
  epoch.mutable_epoch()->set_dataset(name);
  epoch.mutable_epoch()->set_job(name);
  call(*loader, &v1::LoaderService::Stub::GetEpoch, epoch, v1::Epoch());
}

}  // namespace
}  // namespace packhouse::rpc
