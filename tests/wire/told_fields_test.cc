// What is converted into messages tells every field: what is converted has distinct values, and
// the fields are listed by reflection. A new field without its place fails here.
#include "tests/wire/told_fields.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/wire/wire_admin.h"
#include "service/wire/wire_datasets.h"
#include "service/wire/wire_loader.h"
#include "service/wire/wire_partitions.h"
#include "service/wire/wire_source_graphs.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ToldFieldsTest, NamesWhatIsNotTold) {
  v1::ListClientsResponse message;
  v1::LoadingWorker& worker = *message.add_workers();
  worker.set_client("a");
  worker.set_job("a");
  worker.set_lane(3);
  EXPECT_THAT(UntoldFields(message),
              ElementsAre("clients", "calls", "workers.job: \"a\", as client", "workers.epoch",
                          "workers.worker", "workers.session", "workers.num_leases"));
}

PartitionJobInfo DonePartition() {
  PartitionJobInfo info;
  info.graph = "graph";
  info.plan.name = "name";
  PartitionOptions& options = info.plan.options;
  options.num_parts = 3;
  options.method = PartMethod::kMetis;
  options.scheme = PartScheme::kRecursive;
  options.objective = PartObjective::kVolume;
  options.quality = PartQuality::kBest;
  options.trainers_per_machine = 5;
  options.num_hops = 2;
  options.halo = HaloKind::kInEdges;
  options.balance_edges = true;
  options.imbalance = 1.25;
  options.seed = 11;
  info.plan.classes = {{"paper", {"train"}}};
  info.plan.npy = true;
  info.plan.mapping = true;
  info.plan.assignment = true;
  info.plan.without_files = true;
  info.graph_version = 77;
  info.state = PartitionJobState::kDone;
  PartitionReport& report = info.report.emplace();
  report.num_nodes = 100;
  report.num_edges = 200;
  Assignment& assignment = report.assignment;
  assignment.reason = "reason";
  assignment.notes = {"note"};
  assignment.cut_edges = 21;
  assignment.volume = 22;
  assignment.balance = {{"nodes", 31, 32, 1.5, 1.75, true, "dropped"}};
  report.parts = {{41, 42, 43, 44, 45, 46}};
  info.files = {{"path", 51}};
  return info;
}

TEST(ToldFieldsTest, OfAPartition) {
  PartitionJobInfo info = DonePartition();
  v1::PartitionJob wire;
  PartitionJobToWire(info, wire);
  EXPECT_THAT(UntoldFields(wire),
              ElementsAre("phase", "estimated_seconds_left", "error_code", "error_message"));
  info.state = PartitionJobState::kRunning;
  info.phase = RunPhase::kWriting;
  info.share_done = 0.5;
  info.rest = absl::Seconds(9);
  PartitionJobToWire(info, wire);
  EXPECT_THAT(UntoldFields(wire), ElementsAre("error_code", "error_message"));
  EXPECT_EQ(wire.share_done(), 0.5);
  info.state = PartitionJobState::kFailed;
  info.error = absl::DataLossError("error");
  PartitionJobToWire(info, wire);
  EXPECT_THAT(UntoldFields(wire), ElementsAre("phase", "share_done", "estimated_seconds_left"));
}

TEST(ToldFieldsTest, OfClients) {
  OpenCallInfo call;
  call.method = Method::kLoad;
  call.is_stream = true;
  call.client = "client";
  call.is_principal = true;
  call.peer = "ipv4:10.0.0.1:1";
  call.request_id = "request";
  call.trace = "trace";
  call.started = absl::FromUnixMillis(5250);
  call.resource = "resource";
  OpenCallInfo unary = call;
  unary.method = Method::kTune;
  unary.is_stream = false;
  const SessionSummary session = {{"job", 2}, 3, "client", 4, "worker", 5};
  v1::ListClientsResponse wire;
  // Three streams, two unary calls, one session with five leases: distinct numbers.
  ClientsToWire({call, call, call, unary, unary}, {session}, wire);
  EXPECT_THAT(UntoldFields(wire), IsEmpty());
}

TEST(ToldFieldsTest, OfFilesAndQuotas) {
  v1::ServerFile file;
  FileToWire({"name", "failure", absl::FromUnixMillis(5250), 7}, file);
  EXPECT_THAT(UntoldFields(file), IsEmpty());
  v1::QuotaUse quota;
  QuotaToWire({"namespace", "quota", 2, 3}, quota);
  EXPECT_THAT(UntoldFields(quota), IsEmpty());
}

std::shared_ptr<const GraphSchema> FullSchema() {
  TensorSpec index;
  index.name = "index";
  index.dtype = DType::kInt32;
  index.row_shape = {2};
  index.component = 1;
  index.index_into = 0;
  index.layout = Layout::kRowsLast;
  TensorSpec padded;
  padded.name = "padded";
  padded.padding_value = std::string("\0\0\x80\x3f", 4);
  return std::make_shared<const GraphSchema>(
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {index, padded}).value());
}

TEST(ToldFieldsTest, OfADatasetAndItsVerification) {
  DatasetInfo info;
  info.name = "name";
  info.schema = FullSchema();
  info.options = {1, {2, 3}, true};
  info.state = DatasetState::kSealed;
  info.num_graphs = 4;
  info.num_records = 5;
  info.num_bytes = 6;
  info.version = 7;
  info.id = 8;
  v1::ListDatasetsResponse wire;
  DatasetListToWire({{info}, "next"}, wire);
  EXPECT_THAT(UntoldFields(wire), IsEmpty());

  VerifyReport report;
  report.num_records = 21;
  report.num_graphs = 22;
  report.num_bytes = 23;
  report.num_damaged = 24;
  report.damaged = {{25, 26, 27, absl::DataLossError("damaged")}};
  report.disagreements = {absl::DataLossError("disagreement")};
  const VerifyProgress progress = {28, 29, 30, 31};
  v1::VerifyDatasetResponse verified;
  VerifyReportToWire(report, progress, verified);
  v1::VerifyDatasetResponse told;
  VerifyProgressToWire(progress, told);
  EXPECT_THAT(UntoldFields({&verified, &told}), IsEmpty());
}

TEST(ToldFieldsTest, OfAJob) {
  EpochSummary epoch;
  epoch.progress = {{"job", 1}, 2, 30, 40, "dataset", {5, 25}};
  epoch.dataset = "dataset";
  epoch.num_sessions = 6;
  epoch.client = "client";
  epoch.used_seconds = 7;
  v1::Job wire;
  JobToWire({"job", {epoch}, 8, 9, 10}, wire);
  EXPECT_THAT(UntoldFields(wire),
              ElementsAre("epochs.last_used.nanos", "last_used.nanos", "owner"));
}

}  // namespace
}  // namespace packhouse
