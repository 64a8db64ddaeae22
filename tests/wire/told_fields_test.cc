// What is converted into messages tells every field: what is converted has distinct values, and
// the fields are listed by reflection. A new field without its place fails here.
#include "tests/wire/told_fields.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/engine/epochs/prepared_epoch.h"
#include "service/server/calls/wire_graphs.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/services/stream_tuning.h"
#include "service/server/services/wire_admin.h"
#include "service/server/wire/wire_datasets.h"
#include "service/server/wire/wire_feedback.h"
#include "service/server/wire/wire_loader.h"
#include "service/server/wire/wire_planning.h"
#include "service/server/wire/wire_tuning.h"
#include "service/wings/graphs/services/wire_sampling.h"
#include "service/wings/graphs/services/wire_source_graphs.h"
#include "service/wings/partition/services/wire_partitions.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

TEST(ToldFieldsTest, NamesWhatIsNotTold) {
  v1::ListClientsResponse message;
  v1::LoadingWorker& worker = *message.add_workers();
  worker.set_client("a");
  worker.set_job("a");
  worker.set_queue(3);
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
  info.plan.forms.coo = false;
  info.plan.forms.csc = true;
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
  OpenCallInfo by_lane = call;
  by_lane.uses_lane = std::make_shared<std::atomic<bool>>(true);
  OpenCallInfo unary = call;
  unary.method = Method::kTune;
  unary.is_stream = false;
  const SessionSummary session = {{"job", 2}, 3, "client", 4, "worker", 5};
  v1::ListClientsResponse wire;
  // Four streams, three of them by lanes, two unary calls, one session with five leases: distinct
  // numbers.
  ClientsToWire({call, by_lane, by_lane, by_lane, unary, unary}, {session}, wire);
  EXPECT_THAT(UntoldFields(wire), IsEmpty());
  EXPECT_EQ(wire.clients(0).num_lane_streams(), 3U);
  for (const v1::OpenCall& told : wire.calls()) {
    EXPECT_EQ(told.transport() == v1::TRANSPORT_LANE, told.is_stream() && &told != &wire.calls(0));
  }
  EXPECT_EQ(wire.clients(0).ShortDebugString(),
            "client: \"client\" is_principal: true peers: \"ipv4:10.0.0.1:1\" num_streams: 4 "
            "num_calls: 2 num_sessions: 1 num_leases: 5 num_lane_streams: 3");
  EXPECT_EQ(wire.calls(1).ShortDebugString(),
            "client: \"client\" peer: \"ipv4:10.0.0.1:1\" method: \"Load\" is_stream: true "
            "resource: \"resource\" request_id: \"request\" trace: \"trace\" started { seconds: 5 "
            "nanos: 250000000 } transport: TRANSPORT_LANE");
  EXPECT_EQ(wire.workers(0).ShortDebugString(),
            "client: \"client\" job: \"job\" epoch: 2 queue: 4 worker: \"worker\" session: 3 "
            "num_leases: 5");
  // Each of them apart, in the order of their names.
  OpenCallInfo earlier = unary;
  earlier.client = "a";
  earlier.peer = "ipv4:10.0.0.2:2";
  OpenCallInfo again = earlier;
  again.peer = "ipv4:10.0.0.2:1";
  wire.Clear();
  ClientsToWire({call, earlier, again, again}, {{{"job", 2}, 3, "b", 4, "worker", 5}}, wire);
  std::vector<std::string> clients;
  for (const v1::ConnectedClient& client : wire.clients()) {
    clients.push_back(client.ShortDebugString());
  }
  EXPECT_THAT(
      clients,
      ElementsAre(
          "client: \"a\" is_principal: true peers: \"ipv4:10.0.0.2:1\" peers: \"ipv4:10.0.0.2:2\" "
          "num_calls: 3",
          "client: \"b\" num_sessions: 1 num_leases: 5",
          "client: \"client\" is_principal: true peers: \"ipv4:10.0.0.1:1\" num_streams: 1"));
}

TEST(ToldFieldsTest, OfFilesAndQuotas) {
  v1::ServerFile file;
  FileToWire({"name", "failure", absl::FromUnixMillis(5250), 7}, file);
  EXPECT_THAT(UntoldFields(file), IsEmpty());
  v1::QuotaUse quota;
  QuotaToWire({"namespace", "quota", 2, 3}, quota);
  EXPECT_THAT(UntoldFields(quota), IsEmpty());
  EXPECT_EQ(
      file.ShortDebugString(),
      "name: \"name\" failure: \"failure\" expires { seconds: 5 nanos: 250000000 } num_reloads: 7");
  EXPECT_EQ(quota.ShortDebugString(), R"(namespace: "namespace" quota: "quota" used: 2 limit: 3)");
  FileToWire({"name", "", absl::InfiniteFuture(), 0}, file);
  EXPECT_EQ(file.num_reloads(), 0U);
  v1::ServerFile endless;
  FileToWire({"name", "", absl::InfiniteFuture(), 0}, endless);
  EXPECT_EQ(endless.ShortDebugString(), "name: \"name\"");
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
  EXPECT_EQ(verified.ShortDebugString(),
            "num_records: 28 num_records_total: 29 num_bytes: 30 num_bytes_total: 31 finished: "
            "true num_damaged: 24 damaged { record: 25 first_graph: 26 num_graphs: 27 message: "
            "\"damaged\" } disagreements: \"disagreement\"");
  EXPECT_EQ(
      wire.datasets(0).ShortDebugString(),
      "name: \"name\" schema { components: \"nodes\" components: \"edges\" tensors { name: "
      "\"index\" dtype: DATA_TYPE_INT32 row_shape: 2 component: \"edges\" index_into: \"nodes\" "
      "layout: LAYOUT_ROWS_LAST } tensors { name: \"padded\" dtype: DATA_TYPE_FLOAT32 component: "
      "\"nodes\" padding_value: \"\\000\\000\\200?\" } } state: DATASET_STATE_SEALED version: 7 "
      "num_graphs: 4 num_records: 5 num_bytes: 6 max_bytes: 1 max_rows { component: \"nodes\" "
      "rows: 2 } max_rows { component: \"edges\" rows: 3 } grouped: true id: 8");
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
  EXPECT_EQ(wire.ShortDebugString(),
            "job: \"job\" epochs { epoch: 1 generation: 2 num_done: 30 num_batches: 40 dataset: "
            "\"dataset\" num_sessions: 6 client: \"client\" last_used { seconds: 7 } num_segments: "
            "5 segmentation_loss: 0.60000000000000009 } num_epochs: 8 num_sessions: 9 last_used { "
            "seconds: 10 }");
  epoch.used_seconds = 0;
  epoch.progress.segments = {};
  wire.Clear();
  JobToWire({"job", {epoch}, 8, 9, 0}, wire);
  EXPECT_FALSE(wire.has_last_used());
  EXPECT_FALSE(wire.epochs(0).has_last_used());
  EXPECT_EQ(wire.epochs(0).segmentation_loss(), 0);
}

TEST(ToldFieldsTest, OfASourceGraph) {
  SourceColumnSpec matrix;
  matrix.name = "matrix";
  matrix.dtype = DType::kInt16;
  matrix.row_shape = {2, 3};
  matrix.ragged = true;
  SourceColumnSpec text;
  text.name = "text";
  text.dtype = DType::kUint8;
  text.ragged = true;
  text.text = true;
  SourceGraphInfo info;
  info.name = "name";
  info.schema = std::make_shared<const SourceGraphSchema>(
      SourceGraphSchema::Create(
          {{"papers", {matrix, text}}, {"authors", {}}},
          {{"writes", 1, 0, {matrix, text}, std::nullopt}, {"written", 0, 1, {}, 0}})
          .value());
  info.options = {7, {{true, true}, {false, false}}, {{true, false}, {true, true}}};
  info.state = SourceGraphState::kSealed;
  info.num_nodes = {1, 2};
  info.num_edges = {3, 3};
  info.num_bytes = 4;
  info.version = 5;
  info.id = 6;
  v1::ListSourceGraphsResponse wire;
  SourceGraphListToWire({{info}, "next"}, wire);
  EXPECT_THAT(UntoldFields(wire), IsEmpty());

  v1::AppendSourceGraphRequest request;
  request.mutable_producer_sequence()->set_producer("producer");
  request.mutable_producer_sequence()->set_sequence(11);
  request.mutable_producer_sequence()->mutable_forget_after()->set_seconds(12);
  request.mutable_producer_sequence()->mutable_forget_after()->set_nanos(13);
  v1::AppendSourceGraphResponse appended;
  SourceAppendResultToWire({21, 22, true, 23, 24}, request, appended);
  // The state of a producer is told to who asks for it alone.
  EXPECT_THAT(UntoldFields(appended), ElementsAre("producer_state"));

  SourceGraphVerifyReport report;
  report.num_bytes = 31;
  report.num_damaged = 32;
  report.damaged = {absl::DataLossError("damaged")};
  v1::VerifySourceGraphResponse verified;
  SourceGraphReportToWire(report, verified);
  EXPECT_THAT(UntoldFields(verified), ElementsAre("num_bytes_total: 31, as num_bytes"));
}

ComponentEfficiency EfficiencyOf(uint64_t number) {
  const auto share = static_cast<double>(number);
  return {number, 1 / (share + 1), number + 1, 1 / (share + 2)};
}

TEST(ToldFieldsTest, OfAPlan) {
  const SizeSchema schema = SizeSchema::NodesAndEdges();
  PlanOutcome outcome;
  outcome.heuristic = {PlanAlgorithm::kTuplePacking,
                       {PriorityKind::kComponent, 1, {2, 3}},
                       PlacementRule::kFirstFit,
                       OpeningRule::kFill};
  outcome.finished = true;
  outcome.keeps_limits = true;
  outcome.quality = {11, 12, 0, 0.5, {EfficiencyOf(20), EfficiencyOf(30), EfficiencyOf(40)}};
  outcome.num_patterns = 13;
  outcome.bound = {14, LowerBoundKind::kLinearProgram, 0};
  outcome.optimal = true;
  outcome.winner = PlanMethod::kMixing;
  outcome.steps = 15;
  outcome.receipt = "receipt";
  v1::PlanSummary wire;
  SummaryToWire(outcome, schema, absl::Seconds(16) + absl::Nanoseconds(17), wire);
  EXPECT_THAT(UntoldFields(wire), ElementsAre("unfinished"));
  EXPECT_EQ(
      wire.ShortDebugString(),
      "name: \"filling first-fit edges\" heuristic { algorithm: PLAN_ALGORITHM_TUPLE_PACKING "
      "priority { kind: PRIORITY_KIND_COMPONENT component: \"edges\" weights: 2 weights: 3 } "
      "placement: PLACEMENT_RULE_FIRST_FIT opening: OPENING_RULE_FILL } packs: 11 lower_bound: 14 "
      "lower_bound_name: \"linear program\" gap: 0.5 components { component: \"nodes\" capacity: "
      "20 efficiency: 0.047619047619047616 fullest_pack: 21 efficiency_of_fullest: "
      "0.045454545454545456 } components { component: \"edges\" capacity: 30 efficiency: "
      "0.032258064516129031 fullest_pack: 31 efficiency_of_fullest: 0.03125 } components { "
      "component: \"graphs\" capacity: 40 efficiency: 0.024390243902439025 fullest_pack: 41 "
      "efficiency_of_fullest: 0.023809523809523808 } keeps_limits: true num_patterns: 13 elapsed { "
      "seconds: 16 nanos: 17 } lower_bound_kind: LOWER_BOUND_KIND_LINEAR_PROGRAM optimal: true "
      "winner: \"mixing\" steps: 15 receipt: \"receipt\"");
  outcome.finished = false;
  v1::PlanSummary unfinished;
  SummaryToWire(outcome, schema, absl::ZeroDuration(), unfinished);
  EXPECT_TRUE(unfinished.unfinished());
  EXPECT_THAT(UntoldFields({&wire, &unfinished}), IsEmpty());

  PackingPlan plan;
  plan.num_components = 2;
  plan.tuples = {1, 2, 3, 4};
  Pattern pattern;
  pattern.repeats = 5;
  pattern.entries.push_back({1, 6});
  plan.patterns.push_back(pattern);
  v1::PackingPlan told;
  PlanToWire(plan, told);
  EXPECT_THAT(UntoldFields(told), IsEmpty());
  EXPECT_THAT(PlanFromWire(told, 2, "plan"), IsOk());
  EXPECT_THAT(UnreadFields(told,
                           [](const v1::PackingPlan& changed) {
                             const auto read = PlanFromWire(changed, 2, "plan");
                             if (!read.ok()) return read.status().ToString();
                             v1::PackingPlan again;
                             PlanToWire(*read, again);
                             return again.DebugString();
                           }),
              IsEmpty());
}

TEST(ToldFieldsTest, OfATuning) {
  const SizeSchema schema = SizeSchema::NodesAndEdges();
  const TunedShape shape = {
      {51, 52, 53}, 54, 55, 56.5, 0.57, {EfficiencyOf(20), EfficiencyOf(30), EfficiencyOf(40)}, 58};
  v1::TuneProgress progress;
  TuneProgressToWire({61, 62, 63, &shape}, schema, progress);
  EXPECT_THAT(UntoldFields(progress), IsEmpty());
  EXPECT_EQ(progress.ShortDebugString(),
            "candidates: 61 planned: 62 excluded: 63 incumbent { limits { capacities { component: "
            "\"nodes\" rows: 51 } capacities { component: \"edges\" rows: 52 } capacities { "
            "component: \"graphs\" rows: 53 } } packs: 54 lower_bound: 55 epoch_cost: 56.5 "
            "harmonic_mean: 0.57 components { component: \"nodes\" capacity: 20 efficiency: "
            "0.047619047619047616 fullest_pack: 21 efficiency_of_fullest: 0.045454545454545456 } "
            "components { component: \"edges\" capacity: 30 efficiency: 0.032258064516129031 "
            "fullest_pack: 31 efficiency_of_fullest: 0.03125 } components { component: \"graphs\" "
            "capacity: 40 efficiency: 0.024390243902439025 fullest_pack: 41 efficiency_of_fullest: "
            "0.023809523809523808 } batch_bytes: 58 }");
  OversizeGraphs oversize;
  oversize.num_graphs = 71;
  oversize.num_apart = 72;
  oversize.largest = {73, 74};
  oversize.needed_rows = {75, 76, 77};
  oversize.needed_bytes = 78;
  v1::Oversize told;
  OversizeToWire(oversize, told);
  EXPECT_THAT(UntoldFields(told), IsEmpty());

  v1::DeviceProfile profile;
  uint64_t number = 10;
  for (const std::string component : {"nodes", "edges", "graphs"}) {
    v1::DeviceProfile::Component& wire = *profile.add_components();
    wire.set_component(component);
    wire.set_min_rows(number);
    wire.set_max_rows(100 * number);
    wire.set_multiple_of(number / 2);
    wire.set_bytes_per_row(number + 3);
    wire.set_relative_cost(static_cast<double>(number) + 0.5);
    number += 10;
  }
  profile.set_memory_bytes(uint64_t{1} << 40);
  profile.set_fixed_bytes(81);
  profile.set_max_distinct_shapes(3);
  profile.set_measured_as("model/device");
  profile.set_fixed_cost(82.5);
  EXPECT_THAT(UnsetFields(profile), IsEmpty());
  const auto describe = [&](const v1::DeviceProfile& changed) {
    const auto read = DeviceProfileFromWire(changed, schema);
    if (!read.ok()) return read.status().ToString();
    std::string all =
        absl::StrCat(read->memory_bytes, " ", read->fixed_bytes, " ", read->max_distinct_shapes,
                     " ", read->measured_as, " ", read->fixed_cost);
    for (const ComponentProfile& each : read->components) {
      absl::StrAppend(&all, "; ", each.min_rows, " ", each.max_rows, " ", each.multiple_of, " ",
                      each.bytes_per_row, " ", each.relative_cost);
    }
    return all;
  };
  EXPECT_THAT(DeviceProfileFromWire(profile, schema), IsOk());
  EXPECT_THAT(UnreadFields(profile, describe), IsEmpty());
}

TEST(ToldFieldsTest, OfAStreamsTunedShapes) {
  const GraphSchema schema =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt64, {}, 0, {}, {}}})
          .value();
  BatchShapeOptions options;
  options.padding = Padding::kTfgnn;
  FoundShapes found;
  found.num_graphs = 91;
  StreamShapes& shapes = found.shapes;
  PH_ASSERT_OK_AND_ASSIGN(BatchShape shape, BatchShape::Resolve(schema, {51, 52, 53}, options));
  shapes.shapes.push_back({std::move(shape), {51, 52, 53}, 54});
  shapes.shares = {0.55};
  shapes.memory_bytes = {56};
  shapes.efficiencies = {0.57, 0.58, 0.59};
  shapes.terms = {CapacityTerm::kMaxRows, CapacityTerm::kMemory, CapacityTerm::kServer};
  shapes.overhead = 0.625;
  OversizeGraphs& oversize = shapes.oversize.emplace();
  oversize.num_graphs = 71;
  oversize.num_apart = 72;
  oversize.num_shapes = 73;
  oversize.largest = {74, 75};
  oversize.needed_rows = {76, 77, 78};
  oversize.needed_bytes = 79;
  shapes.reasons = {"reason"};
  v1::PackTuned wire;
  TunedToWire(found, schema.sizes(), wire);
  // Bytes of batches are told by streams of whole graphs.
  EXPECT_THAT(UntoldFields(wire), ElementsAre("shapes.batch_bytes"));
  EXPECT_EQ(wire.ShortDebugString(),
            "shapes { capacities { component: \"nodes\" rows: 51 usable_rows: 51 } capacities { "
            "component: \"edges\" rows: 52 usable_rows: 52 } capacities { component: \"graphs\" "
            "rows: 53 usable_rows: 52 } memory_bytes: 56 expected_share: 0.55 } components { "
            "component: \"nodes\" expected_efficiency: 0.57 term: CAPACITY_TERM_MAX_ROWS } "
            "components { component: \"edges\" expected_efficiency: 0.58 term: "
            "CAPACITY_TERM_MEMORY_BYTES } components { component: \"graphs\" expected_efficiency: "
            "0.59 term: CAPACITY_TERM_SERVER } expected_overhead: 0.625 num_graphs: 91 oversize { "
            "num_graphs: 71 largest: 74 largest: 75 needed_rows: 76 needed_rows: 77 needed_rows: "
            "78 num_apart: 72 needed_bytes: 79 num_shapes: 73 } reasons: \"reason\"");
  EXPECT_EQ(wire.shapes(0).capacities(2).rows(), 53);
  EXPECT_EQ(wire.shapes(0).capacities(2).usable_rows(), 52);
  EXPECT_EQ(wire.components(1).term(), v1::CAPACITY_TERM_MEMORY_BYTES);
}

TEST(ToldFieldsTest, OfAPlannedEpoch) {
  DatasetWorld world(61);
  world.Seal();
  const auto reader = world.store().OpenReader("graphs").value();
  EpochProgress progress;
  progress.generation = 17;
  progress.num_done = 5;
  progress.share = {3331, 6, true, 3341, 3351};
  for (const bool cuts : {false, true}) {
    EpochRequest request = DatasetWorld::Request({8, 12, 3}, /*epoch=*/1007);
    request.cuts_oversize = cuts;
    PH_ASSERT_OK_AND_ASSIGN(const auto plan, EpochPlan::Make(reader, request, EpochBounds()));
    PH_ASSERT_OK_AND_ASSIGN(const auto epoch, PreparedEpoch::Prepare(plan, request, EpochBounds()));
    v1::Epoch wire;
    EpochToWire(*epoch, progress, wire);
    // Of company, see EpochWordsTest.TheCompanyOfAnEpochIsTold. Of other kinds of epochs; and
    // either graphs are left out or they are cut. This plan is as good as its bound.
    const std::string bound =
        absl::StrCat("lower_bound: ", plan->lower_bound(), ", as num_batches");
    std::vector<std::string> untold = {bound,     "samples", "joined_parts", "segments",
                                       "company", "steps",   "mixture"};
    for (const char* const each : {"num_rejected", "rejections"}) {
      if (cuts) untold.push_back(each);
    }
    for (const char* const each : {"rejections.message", "num_cut_graphs", "num_pieces"}) {
      if (!cuts) untold.push_back(each);
    }
    EXPECT_THAT(UntoldFields(wire), UnorderedElementsAreArray(untold));
    EXPECT_EQ(wire.job(), "job");
    EXPECT_EQ(wire.epoch(), 1007);
    EXPECT_EQ(wire.dataset(), "graphs");
    EXPECT_EQ(wire.generation(), 17);
    EXPECT_EQ(wire.num_done(), 5);
    EXPECT_EQ(wire.num_graphs(), plan->num_graphs());
    EXPECT_EQ(wire.num_cut_graphs(), plan->num_cut_graphs());
    EXPECT_EQ(wire.num_pieces(), plan->num_pieces());
    EXPECT_EQ(wire.receipt(), plan->receipt());
    EXPECT_EQ(wire.share().num_steps(), 3331U);
    EXPECT_EQ(wire.share().num_steps_done(), 6U);
    EXPECT_TRUE(wire.share().num_steps_is_estimate());
    EXPECT_EQ(wire.share().num_batches_before(), 3341U);
    EXPECT_EQ(wire.share().num_steps_of_epoch(), 3351U);
  }
}

TEST(ToldFieldsTest, OfAHistogramAndItsProducers) {
  SizeHistogram histogram(2);
  ASSERT_THAT(histogram.Add({3, 5}, 7), IsOk());
  ASSERT_THAT(histogram.Add({11, 13}, 17), IsOk());
  v1::Histogram wire;
  // Without names, these are nodes and edges.
  const SizeSchema schema = SizeSchema::Create({"atoms", "bonds"}).value();
  HistogramToWire(histogram, schema, wire);
  EXPECT_THAT(UntoldFields(wire), IsEmpty());
  PH_ASSERT_OK_AND_ASSIGN(const NamedHistogram back, HistogramFromWire(wire));
  EXPECT_TRUE(back.histogram == histogram);
  const auto describe = [](const v1::Histogram& changed) {
    const auto read = HistogramFromWire(changed);
    if (!read.ok()) return read.status().ToString();
    v1::Histogram again;
    HistogramToWire(read->histogram, read->schema, again);
    return again.DebugString();
  };
  // These follow from the others.
  EXPECT_THAT(UnreadFields(wire, describe),
              ElementsAre("num_graphs", "component_totals", "component_maxima"));

  v1::ProducerSequence sequence;
  sequence.set_producer("producer");
  sequence.set_sequence(2);
  sequence.mutable_forget_after()->set_seconds(3);
  sequence.mutable_forget_after()->set_nanos(4);
  EXPECT_THAT(UnsetFields(sequence), IsEmpty());
  EXPECT_THAT(UnreadFields(sequence,
                           [](const v1::ProducerSequence& changed) {
                             const auto read = ProducerFromWire(true, changed, absl::UnixEpoch());
                             if (!read) return std::string("none");
                             return absl::StrCat(read->producer, " ", read->sequence, " ",
                                                 absl::FormatDuration(read->forget_after));
                           }),
              IsEmpty());
}

TEST(ToldFieldsTest, OfABatch) {
  LoadEvent event;
  event.number = 2;
  event.place.position = 3;
  event.is_padding = true;
  event.is_redelivered = true;
  event.graphs_of_step = 4;
  event.built.shape = 5;
  event.built.drawn_smaller = {{6, 7}};
  event.built.batch.graph_ids = {8, 9};
  event.built.batch.sizes = {10, 11};
  event.built.batch.real_rows = {12, 13};
  event.built.batch.rows = {14, 15};
  v1::LoadedBatch wire;
  LoadedBatchToWire(event, /*epoch=*/1, wire);
  // Tensors are sent beside the message (server/calls/batch_reply.h).
  EXPECT_THAT(UntoldFields(wire), ElementsAre("batch.tensors"));
  EXPECT_EQ(wire.ShortDebugString(),
            "batch { id: 2 epoch: 1 step: 3 graph_ids: "
            "\"\\010\\000\\000\\000\\000\\000\\000\\000\\t\\000\\000\\000\\000\\000\\000\\000\" "
            "sizes: \"\\n\\000\\000\\000\\013\\000\\000\\000\" real_rows: 12 real_rows: 13 rows: "
            "14 rows: 15 } is_padding: true is_redelivered: true graphs_of_step: 4 shape: 5 "
            "drawn_smaller { graph_id: 6 level: 7 }");
}

TEST(ToldFieldsTest, OfADeviceModel) {
  const KeptFeedback kept = {
      {"nodes", "edges", "graphs"},
      MeasuredShapes::Restore({{{21, 22, 23}, 24, 25, 26, 27, {28.5}}}, 29, 30),
      31};
  MeasuredModel model;
  model.components = kept.components;
  model.seconds = {41.5, {42.5, 43.5, 44.5}, 45.5, 46.5};
  model.bytes = {51.5, {52.5, 53.5, 54.5}, 0, 0};
  model.bounds.most_bytes = 61;
  v1::DeviceModel wire;
  DeviceModelToWire({"model", "device"}, kept, model, /*with_shapes=*/true, wire);
  EXPECT_THAT(UntoldFields(wire), ElementsAre("last_report.nanos"));
  EXPECT_EQ(
      wire.ShortDebugString(),
      "model: \"model\" device: \"device\" components { component: \"nodes\" seconds_per_row: 42.5 "
      "bytes_per_row: 52.5 } components { component: \"edges\" seconds_per_row: 43.5 "
      "bytes_per_row: 53.5 } components { component: \"graphs\" seconds_per_row: 44.5 "
      "bytes_per_row: 54.5 } fixed_seconds: 41.5 least_seconds: 45.5 spread: 46.5 fixed_bytes: "
      "51.5 most_bytes: 61 num_reports: 29 num_out_of_memory: 30 last_report { seconds: 31 } "
      "shapes { capacities { capacities { component: \"nodes\" rows: 21 } capacities { component: "
      "\"edges\" rows: 22 } capacities { component: \"graphs\" rows: 23 } } num_batches: 24 "
      "seconds: 28.5 expected_seconds: 2914.5 peak_bytes: 26 num_out_of_memory: 25 }");
  // Of a list: all but the shapes.
  v1::DeviceModel listed;
  DeviceModelToWire({"model", "device"}, kept, model, /*with_shapes=*/false, listed);
  wire.clear_shapes();
  EXPECT_EQ(listed.ShortDebugString(), wire.ShortDebugString());
  // Nothing is fitted yet.
  wire.Clear();
  DeviceModelToWire({"model", "device"}, kept, MeasuredModel(), /*with_shapes=*/true, wire);
  EXPECT_EQ(wire.ShortDebugString(),
            "model: \"model\" device: \"device\" components { component: \"nodes\" } components { "
            "component: \"edges\" } components { component: \"graphs\" } num_reports: 29 "
            "num_out_of_memory: 30 last_report { seconds: 31 } shapes { capacities { capacities { "
            "component: \"nodes\" rows: 21 } capacities { component: \"edges\" rows: 22 } "
            "capacities { component: \"graphs\" rows: 23 } } num_batches: 24 seconds: 28.5 "
            "peak_bytes: 26 num_out_of_memory: 25 }");
}

TEST(ToldFieldsTest, OfRejections) {
  v1::Epoch wire;
  RejectionsToWire(7,
                   {{.id = 1, .component = OversizeItem::kBytes, .value = 2, .bound = 3},
                    {.id = 4, .component = 1, .value = 5, .bound = 6},
                    {.id = 8, .component = 2, .value = 9, .bound = 10, .is_too_small = true}},
                   SizeSchema::NodesAndEdges(), wire);
  EXPECT_EQ(wire.ShortDebugString(),
            "num_rejected: 7 rejections { graph_id: 1 reason: REJECTION_REASON_TOO_MANY_BYTES "
            "value: 2 bound: 3 } rejections { graph_id: 4 reason: REJECTION_REASON_TOO_LARGE "
            "component: \"edges\" value: 5 bound: 6 } rejections { graph_id: 8 reason: "
            "REJECTION_REASON_TOO_SMALL component: \"graphs\" value: 9 bound: 10 }");
}

TEST(ToldFieldsTest, NamesOfSnapshotsAreThoseOfFolders) {
  for (const std::string& name : {std::string("a"), std::string(63, 'z'), std::string("A-b_c.9")}) {
    EXPECT_THAT(CheckSnapshotName(name), IsOk()) << name;
  }
  for (const std::string& name : {std::string(), std::string(64, 'z'), std::string(".a"),
                                  std::string("a/b"), std::string("a b")}) {
    EXPECT_THAT(CheckSnapshotName(name),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         absl::StrCat("name: '", name,
                                      "' is not 1 to 63 characters of [A-Za-z0-9_.-], without a "
                                      "dot at the beginning")));
  }
}

std::string PlanOfPartition(const v1::PartitionRequest& request) {
  const auto plan = PartitionPlanFromWire(request);
  if (!plan.ok()) return plan.status().ToString();
  PartitionJobInfo info;
  info.plan = *plan;
  v1::PartitionJob told;
  PartitionJobToWire(info, told);
  return told.request().DebugString();
}

TEST(ReadFieldsTest, OfAPartition) {
  v1::PartitionJob told;
  PartitionJobToWire(DonePartition(), told);
  EXPECT_THAT(UnsetFields(told.request()), IsEmpty());
  // These exclude each other.
  v1::PartitionRequest with_files = told.request();
  with_files.clear_without_files();
  v1::PartitionRequest without_files = told.request();
  without_files.clear_mapping();
  for (const v1::PartitionRequest* const request : {&with_files, &without_files}) {
    EXPECT_THAT(PartitionPlanFromWire(*request), IsOk());
    // Whose partition it is, the caller looks up.
    EXPECT_THAT(UnreadFields(*request, PlanOfPartition), ElementsAre("graph"));
  }
}

TEST(ReadFieldsTest, OfSubGraphs) {
  v1::SubGraphs wire;
  wire.set_graph("graph");
  wire.set_text("seed_op { op_name: 'seed' node_set_name: 'n' }");
  wire.set_seeds_per_graph(3);
  wire.set_induced(true);
  wire.add_induced_edge_sets("induced");
  wire.set_node_time_column("node time");
  wire.set_edge_time_column("edge time");
  wire.set_latest(true);
  wire.set_weight_column("weight");
  wire.set_link_node_set("link nodes");
  wire.set_readout(true);
  wire.set_without_features(true);
  wire.set_numbers(true);
  wire.set_rows(true);
  wire.set_ids(true);
  v1::SourceColumn& column = *wire.add_readout_columns();
  column.set_name("label");
  column.set_dtype(v1::DATA_TYPE_INT64);
  column.add_row_shape(2);
  wire.set_merge_parallel(true);
  wire.add_untimed_sets("untimed");
  wire.set_time_window(7);
  wire.set_link_edge_set("link edges");
  wire.set_exclude(v1::EXCLUDE_LINKS_SELF);
  wire.add_reverse_edge_sets("reverse");
  // Columns of `_readout` have rows of one length.
  EXPECT_THAT(UnsetFields(wire), ElementsAre("readout_columns.ragged", "readout_columns.text"));
  const auto describe = [](const v1::SubGraphs& changed) {
    const auto read = SubGraphsFromWire(changed);
    return read.ok() ? absl::StrCat(read->graph, ": ", read->Words()) : read.status().ToString();
  };
  EXPECT_THAT(SubGraphsFromWire(wire), IsOk());
  EXPECT_THAT(UnreadFields(wire, describe), IsEmpty());
}

TEST(ReadFieldsTest, OfAnEpoch) {
  const GraphSchema schema =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt64, {}, 0, {}, {}},
                                                        {"score", DType::kInt64, {}, 2, {}, {}}})
          .value();
  const auto describe = [&](const v1::EpochSpec& changed) {
    const auto read = EpochRequestFromWire(changed, schema);
    if (!read.ok()) return read.status().ToString();
    std::string all = absl::StrCat(read->dataset, " ", read->key.job, " ", read->key.epoch, " ",
                                   read->seed, " ", read->Words(), " ", read->oversize_is_error,
                                   " ", read->mixing.most_company.value_or(0));
    for (const RankGroupRequest& group : read->rank_groups) {
      absl::StrAppend(&all, " ", group.num_ranks);
    }
    return all;
  };
  v1::EpochSpec one;
  one.set_dataset("dataset");
  one.set_job("job");
  one.set_epoch(2);
  one.set_seed(3);
  v1::RankGroup& group = *one.add_rank_groups();
  group.set_num_ranks(4);
  uint64_t rows = 100;
  for (const std::string component : {"nodes", "edges"}) {
    v1::Capacity& capacity = *group.add_shapes()->add_capacities();
    capacity.set_component(component);
    capacity.set_rows(++rows);
    v1::Capacity& least = *one.add_min_rows();
    least.set_component(component);
    least.set_rows(++rows);
  }
  one.set_padding(v1::PADDING_TFGNN);
  one.add_derived(v1::DERIVED_TENSOR_GRAPH_INDEX);
  one.set_payload(v1::PAYLOAD_GRAPHS);
  one.set_oversize_policy(v1::OVERSIZE_POLICY_PARTITION);
  one.set_in_order(true);
  one.set_look_ahead(5);
  one.set_grouped(true);
  one.set_adaptive(true);
  one.mutable_segments()->set_graphs(6);
  one.mutable_segments()->set_tracks(7);
  one.mutable_subset()->set_graph_ids(Uint64sToWire({8, 9}));
  one.mutable_subset()->add_ranges()->set_first(10);
  one.mutable_subset()->mutable_ranges(0)->set_count(11);
  one.mutable_draw()->set_num_graphs(12);
  one.mutable_draw()->set_with_replacement(true);
  one.mutable_draw()->set_weights(std::string(16, '\x3f'));
  one.set_integer_width(v1::INTEGER_WIDTH_COMPACT);
  one.mutable_mixing()->set_most_company(13);
  v1::CostTerm& term = *one.mutable_order()->mutable_cost_balanced()->add_terms();
  term.set_form(v1::COST_FORM_SUM_OF_SQUARES);
  term.set_component("nodes");
  term.set_weight(14);
  one.mutable_order()->mutable_cost_balanced()->set_num_ranks(15);
  EXPECT_THAT(EpochRequestFromWire(one, schema), IsOk());
  // The profile of a device is read as in ToldFieldsTest.OfATuning; samples by
  // SamplesKind::Open(), joined parts where the epoch's source is chosen; `off` excludes
  // `most_company` (EpochWordsTest.MixingIsReadOrRefusedByName).
  EXPECT_THAT(UnsetFields(one),
              ElementsAre("rank_groups.device_profile", "samples", "join_parts", "mixing.off"));
  // As of any data set with tensors; and the order says for how many ranks it is.
  EXPECT_THAT(UnreadFields(one, describe), ElementsAre("rank_groups.num_ranks", "payload"));
  one.set_payload(v1::PAYLOAD_SIZES);
  one.clear_derived();
  one.clear_integer_width();
  v1::ByScore& by_score = *one.mutable_order()->mutable_by_score();
  by_score.set_descending(true);
  by_score.set_num_buckets(16);
  for (const bool of_tensor : {true, false}) {
    if (of_tensor) {
      by_score.set_tensor("score");
    } else {
      by_score.set_component("edges");
    }
    EXPECT_THAT(EpochRequestFromWire(one, schema), IsOk());
    EXPECT_THAT(UnreadFields(one, describe), IsEmpty());
  }
}

}  // namespace
}  // namespace packhouse
