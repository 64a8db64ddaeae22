// Every value of each enum: what it becomes, and back where both ways exist; what is none of the
// values is refused. So a branch of a switch that is lost, or another's, is seen.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/calls/wire_graphs.h"
#include "service/server/services/stream_tuning.h"
#include "service/server/services/wire_admin.h"
#include "service/server/wire/wire_datasets.h"
#include "service/server/wire/wire_heuristics.h"
#include "service/server/wire/wire_planning.h"
#include "service/server/wire/wire_tuning.h"
#include "service/wings/graphs/services/wire_sampling.h"
#include "service/wings/graphs/services/wire_source_graphs.h"
#include "service/wings/partition/services/wire_partitions.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::HasSubstr;

// No value of any enum.
constexpr int kNone = 99;

template <typename Wire, typename Value, typename Read>
void ExpectValues(const std::vector<std::pair<Wire, Value>>& values, Read read) {
  for (const auto& [wire, value] : values) {
    EXPECT_THAT(read(wire), IsOkAndHolds(value)) << static_cast<int>(wire);
  }
  EXPECT_THAT(read(static_cast<Wire>(kNone)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(absl::StrCat(kNone))));
}

TEST(WireEnumsTest, OfGraphs) {
  for (int i = 0; i <= static_cast<int>(DType::kFloat64); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(DTypeFromWire(DTypeToWire(dtype)), dtype) << DTypeName(dtype);
  }
  EXPECT_EQ(DTypeToWire(DType::kBool), v1::DATA_TYPE_BOOL);
  EXPECT_EQ(DTypeToWire(DType::kBfloat16), v1::DATA_TYPE_BFLOAT16);
  EXPECT_EQ(DTypeToWire(DType::kFloat64), v1::DATA_TYPE_FLOAT64);
  EXPECT_EQ(DTypeFromWire(v1::DATA_TYPE_UNSPECIFIED), std::nullopt);
  EXPECT_EQ(DTypeFromWire(static_cast<v1::DataType>(v1::DATA_TYPE_FLOAT64 + 1)), std::nullopt);

  ExpectValues<v1::Padding, Padding>({{v1::PADDING_UNSPECIFIED, Padding::kNone},
                                      {v1::PADDING_NONE, Padding::kNone},
                                      {v1::PADDING_MASKED, Padding::kMasked},
                                      {v1::PADDING_GRAPH, Padding::kGraph},
                                      {v1::PADDING_TFGNN, Padding::kTfgnn}},
                                     PaddingFromWire);
  for (const Padding padding :
       {Padding::kNone, Padding::kMasked, Padding::kGraph, Padding::kTfgnn}) {
    EXPECT_THAT(PaddingFromWire(PaddingToWire(padding)), IsOkAndHolds(padding));
    EXPECT_NE(PaddingToWire(padding), v1::PADDING_UNSPECIFIED);
  }
  ExpectValues<v1::IntegerWidth, IntegerWidth>(
      {{v1::INTEGER_WIDTH_UNSPECIFIED, IntegerWidth::kDeclared},
       {v1::INTEGER_WIDTH_DECLARED, IntegerWidth::kDeclared},
       {v1::INTEGER_WIDTH_COMPACT, IntegerWidth::kCompact}},
      [](v1::IntegerWidth wire) { return IntegerWidthFromWire(wire, /*whole_graphs=*/true); });
  EXPECT_THAT(IntegerWidthFromWire(v1::INTEGER_WIDTH_DECLARED, false), IsOk());
  EXPECT_THAT(IntegerWidthFromWire(v1::INTEGER_WIDTH_COMPACT, false),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("only for whole graphs")));
  ExpectValues<v1::OversizePolicy, OversizeRule>(
      {{v1::OVERSIZE_POLICY_UNSPECIFIED, OversizeRule::kReject},
       {v1::OVERSIZE_POLICY_REJECT, OversizeRule::kReject},
       {v1::OVERSIZE_POLICY_ERROR, OversizeRule::kError},
       {v1::OVERSIZE_POLICY_PARTITION, OversizeRule::kCut}},
      OversizeRuleFromWire);
  const GraphSchema sizes = GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value();
  const GraphSchema graphs =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt8, {}, 0, {}, {}}})
          .value();
  for (const bool has_tensors : {false, true}) {
    ExpectValues<v1::Payload, bool>(
        {{v1::PAYLOAD_UNSPECIFIED, has_tensors},
         {v1::PAYLOAD_GRAPHS, true},
         {v1::PAYLOAD_SIZES, false}},
        [&](v1::Payload wire) { return CarriesGraphs(wire, has_tensors ? graphs : sizes); });
  }
}

TEST(WireEnumsTest, OfDerivedTensors) {
  const auto read = [](const std::vector<int>& values) {
    return DerivedFromWire({values.begin(), values.end()});
  };
  const auto words = [&](int value) {
    const DerivedTensors derived = read({value}).value();
    return absl::StrCat(derived.row_counts, derived.graph_index, derived.row_offsets,
                        derived.masks);
  };
  EXPECT_EQ(words(v1::DERIVED_TENSOR_ROW_COUNTS), "1000");
  EXPECT_EQ(words(v1::DERIVED_TENSOR_GRAPH_INDEX), "0100");
  EXPECT_EQ(words(v1::DERIVED_TENSOR_ROW_OFFSETS), "0010");
  EXPECT_EQ(words(v1::DERIVED_TENSOR_MASKS), "0001");
  EXPECT_THAT(read({v1::DERIVED_TENSOR_MASKS, kNone}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unknown value 99")));
}

TEST(WireEnumsTest, OfPlans) {
  const SizeSchema schema = SizeSchema::NodesAndEdges();
  const Limits limits = Limits::Create({100, 100, 9}).value();
  const auto read = [&](const v1::PlanHeuristic& wire) -> absl::StatusOr<PlanHeuristic> {
    v1::PlanRequest request;
    *request.add_heuristics() = wire;
    PH_ASSIGN_OR_RETURN(const auto heuristics, HeuristicsFromWire(request, limits, schema));
    return heuristics.at(0);
  };
  std::vector<PlanHeuristic> all = {
      {PlanAlgorithm::kNoPacking, {}},
      {PlanAlgorithm::kOptimized, {}},
      {PlanAlgorithm::kFirstFitDecreasing, {}},
      {PlanAlgorithm::kSingleComponent, {PriorityKind::kComponent, 1, {}}}};
  for (const PriorityKind kind : {PriorityKind::kProduct, PriorityKind::kSum, PriorityKind::kMax,
                                  PriorityKind::kMin, PriorityKind::kComponent}) {
    Priority priority = {kind, kind == PriorityKind::kComponent ? size_t{1} : size_t{0}, {}};
    if (kind == PriorityKind::kSum) priority.weights = {2, 3};
    all.push_back({PlanAlgorithm::kNotebook, priority});
    for (const PlacementRule placement : {PlacementRule::kBestFit, PlacementRule::kFirstFit}) {
      for (const OpeningRule opening : {OpeningRule::kOneGraph, OpeningRule::kFill}) {
        all.push_back({PlanAlgorithm::kTuplePacking, priority, placement, opening});
      }
    }
  }
  for (const PlanHeuristic& heuristic : all) {
    v1::PlanHeuristic wire;
    HeuristicToWire(heuristic, schema, wire);
    EXPECT_THAT(read(wire), IsOkAndHolds(heuristic)) << wire.ShortDebugString();
  }
  v1::PlanHeuristic sound;
  HeuristicToWire(all.back(), schema, sound);
  for (const auto& change : std::vector<void (*)(v1::PlanHeuristic&)>{
           [](v1::PlanHeuristic& each) {
             each.set_algorithm(static_cast<v1::PlanAlgorithm>(kNone));
           },
           [](v1::PlanHeuristic& each) {
             each.set_placement(static_cast<v1::PlacementRule>(kNone));
           },
           [](v1::PlanHeuristic& each) { each.set_opening(static_cast<v1::OpeningRule>(kNone)); },
           [](v1::PlanHeuristic& each) {
             each.mutable_priority()->set_kind(static_cast<v1::PriorityKind>(kNone));
           }}) {
    v1::PlanHeuristic changed = sound;
    change(changed);
    EXPECT_THAT(read(changed).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unknown value 99")));
  }
  for (const auto& [kind, expected] : std::vector<std::pair<LowerBoundKind, v1::LowerBoundKind>>{
           {LowerBoundKind::kVolume, v1::LOWER_BOUND_KIND_VOLUME},
           {LowerBoundKind::kLiftedVolume, v1::LOWER_BOUND_KIND_LIFTED_VOLUME},
           {LowerBoundKind::kLinearProgram, v1::LOWER_BOUND_KIND_LINEAR_PROGRAM}}) {
    PlanOutcome outcome;
    outcome.finished = true;
    outcome.bound = {10, kind, 1};
    v1::PlanSummary wire;
    SummaryToWire(outcome, schema, absl::ZeroDuration(), wire);
    EXPECT_EQ(wire.lower_bound_kind(), expected);
  }
  ExpectValues<v1::TuneObjective, TuneObjective>(
      {{v1::TUNE_OBJECTIVE_UNSPECIFIED, TuneObjective::kEpochCost},
       {v1::TUNE_OBJECTIVE_EPOCH_COST, TuneObjective::kEpochCost},
       {v1::TUNE_OBJECTIVE_HARMONIC_MEAN, TuneObjective::kHarmonicMean}},
      [](v1::TuneObjective wire) -> absl::StatusOr<TuneObjective> {
        v1::TuneRequest request;
        request.set_objective(wire);
        PH_ASSIGN_OR_RETURN(const TuneOptions options, TuneOptionsFromWire(request));
        return options.objective;
      });
}

TEST(WireEnumsTest, OfCapacities) {
  FoundShapes found;
  found.shapes.terms = {CapacityTerm::kNone, CapacityTerm::kMaxRows, CapacityTerm::kMemory,
                        CapacityTerm::kServer, CapacityTerm::kSizes};
  found.shapes.efficiencies = {0, 0, 0, 0, 0};
  v1::PackTuned wire;
  TunedToWire(found, SizeSchema::Create({"a", "b", "c", "d"}).value(), wire);
  std::vector<int> terms;
  for (const auto& component : wire.components()) terms.push_back(component.term());
  EXPECT_THAT(terms, testing::ElementsAre(v1::CAPACITY_TERM_UNSPECIFIED, v1::CAPACITY_TERM_MAX_ROWS,
                                          v1::CAPACITY_TERM_MEMORY_BYTES, v1::CAPACITY_TERM_SERVER,
                                          v1::CAPACITY_TERM_SIZES));
}

TEST(WireEnumsTest, OfStates) {
  DatasetInfo dataset;
  dataset.schema = std::make_shared<const GraphSchema>(
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value());
  for (const auto& [state, expected] : std::vector<std::pair<DatasetState, v1::DatasetState>>{
           {DatasetState::kOpen, v1::DATASET_STATE_OPEN},
           {DatasetState::kSealed, v1::DATASET_STATE_SEALED},
           {DatasetState::kDamaged, v1::DATASET_STATE_DAMAGED}}) {
    dataset.state = state;
    v1::Dataset wire;
    DatasetToWire(dataset, wire);
    EXPECT_EQ(wire.state(), expected);
  }
  SourceGraphInfo graph;
  graph.schema =
      std::make_shared<const SourceGraphSchema>(SourceGraphSchema::Create({{"n", {}}}, {}).value());
  graph.options.node_sets.resize(1);
  graph.num_nodes = {0};
  for (const auto& [state, expected] :
       std::vector<std::pair<SourceGraphState, v1::SourceGraphState>>{
           {SourceGraphState::kOpen, v1::SOURCE_GRAPH_STATE_OPEN},
           {SourceGraphState::kSealing, v1::SOURCE_GRAPH_STATE_SEALING},
           {SourceGraphState::kSealed, v1::SOURCE_GRAPH_STATE_SEALED},
           {SourceGraphState::kDamaged, v1::SOURCE_GRAPH_STATE_DAMAGED}}) {
    graph.state = state;
    v1::SourceGraph wire;
    SourceGraphToWire(graph, wire);
    EXPECT_EQ(wire.state(), expected);
  }
  int level = 0;
  for (const std::string name : {"trace", "debug", "info", "warning", "error", "off"}) {
    EXPECT_EQ(LogLevelToWire(name), static_cast<v1::LogLevel>(++level));
    EXPECT_THAT(LogLevelFromWire(static_cast<v1::LogLevel>(level)), IsOkAndHolds(name));
  }
  EXPECT_EQ(level, v1::LOG_LEVEL_OFF);
  EXPECT_EQ(LogLevelToWire("loud"), v1::LOG_LEVEL_UNSPECIFIED);
  for (const int none : {0, level + 1}) {
    EXPECT_THAT(LogLevelFromWire(static_cast<v1::LogLevel>(none)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(absl::StrCat(none))));
  }
}

TEST(WireEnumsTest, OfSourceGraphs) {
  const auto made = [](v1::NodeIdKind id_kind, v1::EdgeLookup lookup) {
    v1::CreateSourceGraphRequest wire;
    wire.set_name("g");
    v1::SourceNodeSet& nodes = *wire.mutable_schema()->add_node_sets();
    nodes.set_name("n");
    nodes.set_id_kind(id_kind);
    v1::SourceEdgeSet& edges = *wire.mutable_schema()->add_edge_sets();
    edges.set_name("e");
    edges.set_source("n");
    edges.set_target("n");
    edges.set_lookup(lookup);
    return NewSourceGraphFromWire(wire);
  };
  ExpectValues<v1::NodeIdKind, bool>({{v1::NODE_ID_KIND_UNSPECIFIED, true},
                                      {v1::NODE_ID_KIND_INTEGER, true},
                                      {v1::NODE_ID_KIND_TEXT, false}},
                                     [&](v1::NodeIdKind wire) -> absl::StatusOr<bool> {
                                       PH_ASSIGN_OR_RETURN(const NewSourceGraph read,
                                                           made(wire, v1::EDGE_LOOKUP_BOTH));
                                       return read.options.node_sets[0].integer_ids;
                                     });
  using BySourceByTarget = std::pair<bool, bool>;
  ExpectValues<v1::EdgeLookup, BySourceByTarget>(
      {{v1::EDGE_LOOKUP_UNSPECIFIED, {true, true}},
       {v1::EDGE_LOOKUP_BOTH, {true, true}},
       {v1::EDGE_LOOKUP_BY_SOURCE, {true, false}},
       {v1::EDGE_LOOKUP_BY_TARGET, {false, true}}},
      [&](v1::EdgeLookup wire) -> absl::StatusOr<BySourceByTarget> {
        PH_ASSIGN_OR_RETURN(const NewSourceGraph read, made(v1::NODE_ID_KIND_INTEGER, wire));
        SourceGraphInfo info;
        info.schema = std::make_shared<const SourceGraphSchema>(read.schema);
        info.options = read.options;
        info.num_nodes = {0};
        info.num_edges = {0};
        v1::SourceGraph told;
        SourceGraphToWire(info, told);
        EXPECT_EQ(told.schema().edge_sets(0).lookup(),
                  wire == v1::EDGE_LOOKUP_UNSPECIFIED ? v1::EDGE_LOOKUP_BOTH : wire);
        const SourceEdgeSetOptions& options = read.options.edge_sets[0];
        return std::pair(options.by_source, options.by_target);
      });
  ExpectValues<v1::DuplicateNodes, DuplicateNodes>(
      {{v1::DUPLICATE_NODES_UNSPECIFIED, DuplicateNodes::kRefuse},
       {v1::DUPLICATE_NODES_REFUSE, DuplicateNodes::kRefuse},
       {v1::DUPLICATE_NODES_FIRST, DuplicateNodes::kFirst},
       {v1::DUPLICATE_NODES_LAST, DuplicateNodes::kLast}},
      DuplicateNodesFromWire);
  ExpectValues<v1::BeyondLimits, bool>({{v1::BEYOND_LIMITS_UNSPECIFIED, true},
                                        {v1::BEYOND_LIMITS_DRAW_SMALLER, true},
                                        {v1::BEYOND_LIMITS_REFUSE, false}},
                                       DrawsSmaller);
  ExpectValues<v1::ExcludeLinks, ExcludeLinks>(
      {{v1::EXCLUDE_LINKS_UNSPECIFIED, ExcludeLinks::kNone},
       {v1::EXCLUDE_LINKS_NONE, ExcludeLinks::kNone},
       {v1::EXCLUDE_LINKS_SELF, ExcludeLinks::kSelf},
       {v1::EXCLUDE_LINKS_REVERSE_TYPES, ExcludeLinks::kReverseTypes}},
      [](v1::ExcludeLinks wire) -> absl::StatusOr<ExcludeLinks> {
        v1::SubGraphs sub_graphs;
        sub_graphs.set_graph("g");
        sub_graphs.set_text("seed_op { op_name: 'seed' node_set_name: 'n' }");
        sub_graphs.set_link_edge_set("e");
        sub_graphs.set_exclude(wire);
        PH_ASSIGN_OR_RETURN(const SubGraphsRequest read, SubGraphsFromWire(sub_graphs));
        return read.options.exclude;
      });
}

// A partition's request, which must be as it is told again.
absl::StatusOr<PartitionPlan> PlanOf(const v1::PartitionRequest& wire) {
  PH_ASSIGN_OR_RETURN(PartitionPlan plan, PartitionPlanFromWire(wire));
  PartitionJobInfo info;
  info.plan = plan;
  v1::PartitionJob told;
  PartitionJobToWire(info, told);
  PH_ASSIGN_OR_RETURN(const PartitionPlan again, PartitionPlanFromWire(told.request()));
  EXPECT_EQ(PlanText(again), PlanText(plan));
  return plan;
}

TEST(WireEnumsTest, OfPartitions) {
  v1::PartitionRequest request;
  request.set_name("name");
  request.set_num_parts(3);
  ExpectValues<v1::PartitionMethod, PartMethod>(
      {{v1::PARTITION_METHOD_UNSPECIFIED, PartMethod::kAutomatic},
       {v1::PARTITION_METHOD_AUTOMATIC, PartMethod::kAutomatic},
       {v1::PARTITION_METHOD_METIS, PartMethod::kMetis},
       {v1::PARTITION_METHOD_RANDOM, PartMethod::kRandom},
       {v1::PARTITION_METHOD_STREAMING, PartMethod::kStreaming}},
      [request](v1::PartitionMethod wire) mutable -> absl::StatusOr<PartMethod> {
        request.set_method(wire);
        PH_ASSIGN_OR_RETURN(const PartitionPlan plan, PlanOf(request));
        return plan.options.method;
      });
  ExpectValues<v1::PartitionObjective, PartObjective>(
      {{v1::PARTITION_OBJECTIVE_UNSPECIFIED, PartObjective::kCut},
       {v1::PARTITION_OBJECTIVE_CUT, PartObjective::kCut},
       {v1::PARTITION_OBJECTIVE_VOLUME, PartObjective::kVolume}},
      [request](v1::PartitionObjective wire) mutable -> absl::StatusOr<PartObjective> {
        request.set_objective(wire);
        PH_ASSIGN_OR_RETURN(const PartitionPlan plan, PlanOf(request));
        return plan.options.objective;
      });
  ExpectValues<v1::PartitionHalo, HaloKind>(
      {{v1::PARTITION_HALO_UNSPECIFIED, HaloKind::kPartitionGraph},
       {v1::PARTITION_HALO_ALL, HaloKind::kPartitionGraph},
       {v1::PARTITION_HALO_IN_EDGES, HaloKind::kInEdges}},
      [request](v1::PartitionHalo wire) mutable -> absl::StatusOr<HaloKind> {
        request.set_halo(wire);
        PH_ASSIGN_OR_RETURN(const PartitionPlan plan, PlanOf(request));
        return plan.options.halo;
      });
  using NpySafetensors = std::pair<bool, bool>;
  ExpectValues<v1::PartitionFormat, NpySafetensors>(
      {{v1::PARTITION_FORMAT_UNSPECIFIED, {false, false}},
       {v1::PARTITION_FORMAT_DGL, {false, false}},
       {v1::PARTITION_FORMAT_NPY, {true, false}},
       {v1::PARTITION_FORMAT_SAFETENSORS, {false, true}}},
      [request](v1::PartitionFormat wire) mutable -> absl::StatusOr<NpySafetensors> {
        request.clear_formats();
        request.add_formats(wire);
        PH_ASSIGN_OR_RETURN(const PartitionPlan plan, PlanOf(request));
        return std::pair(plan.npy, plan.safetensors);
      });
  for (const auto& [form, words] : std::vector<std::pair<std::string, std::string>>{
           {"coo", "100"}, {"csr", "010"}, {"csc", "001"}}) {
    request.clear_graph_forms();
    request.add_graph_forms(form);
    PH_ASSERT_OK_AND_ASSIGN(const PartitionPlan plan, PlanOf(request));
    EXPECT_EQ(absl::StrCat(plan.forms.coo, plan.forms.csr, plan.forms.csc), words);
  }
  // What is not said, and what is too much.
  PH_ASSERT_OK_AND_ASSIGN(const PartitionPlan least, PlanOf(request));
  EXPECT_EQ(least.options.num_hops, 1U);
  EXPECT_EQ(least.options.trainers_per_machine, 1U);
  EXPECT_EQ(least.options.seed, 1U);
  EXPECT_EQ(least.options.imbalance, 1.03);
  request.set_trainers_per_machine(65'536 / 3);
  EXPECT_THAT(PlanOf(request), IsOk());
  request.set_num_parts(2);
  request.set_trainers_per_machine(32'768);
  EXPECT_THAT(PlanOf(request), IsOk());
  request.set_trainers_per_machine(32'769);
  EXPECT_EQ(PlanOf(request).status(),
            absl::InvalidArgumentError("trainers_per_machine: 2 parts of 32769 trainers are 65538, "
                                       "must be at most 65536"));
  request.add_graph_forms("csb");
  EXPECT_EQ(PlanOf(request).status(),
            absl::InvalidArgumentError("graph_forms: 'csb' is none of coo, csr and csc"));
}

TEST(WireEnumsTest, OfPartitionsThatRun) {
  PartitionJobInfo info;
  v1::PartitionJob wire;
  for (const auto& [state, expected] :
       std::vector<std::pair<PartitionJobState, v1::PartitionState>>{
           {PartitionJobState::kWaiting, v1::PARTITION_STATE_WAITING},
           {PartitionJobState::kRunning, v1::PARTITION_STATE_RUNNING},
           {PartitionJobState::kDone, v1::PARTITION_STATE_DONE},
           {PartitionJobState::kFailed, v1::PARTITION_STATE_FAILED},
           {PartitionJobState::kCancelled, v1::PARTITION_STATE_CANCELLED}}) {
    info.state = state;
    PartitionJobToWire(info, wire);
    EXPECT_EQ(wire.state(), expected);
  }
  info.state = PartitionJobState::kRunning;
  for (const auto& [phase, expected] : std::vector<std::pair<RunPhase, v1::PartitionPhase>>{
           {RunPhase::kReading, v1::PARTITION_PHASE_READING},
           {RunPhase::kAssigning, v1::PARTITION_PHASE_ASSIGNING},
           {RunPhase::kRefining, v1::PARTITION_PHASE_REFINING},
           {RunPhase::kNumbering, v1::PARTITION_PHASE_NUMBERING},
           {RunPhase::kWriting, v1::PARTITION_PHASE_WRITING}}) {
    info.phase = phase;
    PartitionJobToWire(info, wire);
    EXPECT_EQ(wire.phase(), expected);
  }
}

// Bytes of a file in one answer, by what is asked for and the largest message.
TEST(WireBoundsTest, OfPartitionFiles) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  EXPECT_EQ(PartitionFileBytes(0, 64 * kMiB), kMiB);
  EXPECT_EQ(PartitionFileBytes(7, 64 * kMiB), 7U);
  EXPECT_EQ(PartitionFileBytes(4 * kMiB, 64 * kMiB), 4 * kMiB);
  EXPECT_EQ(PartitionFileBytes(5 * kMiB, 64 * kMiB), 4 * kMiB);
  EXPECT_EQ(PartitionFileBytes(5 * kMiB, 3 * kMiB), 3 * kMiB - 1024);
  EXPECT_EQ(PartitionFileBytes(5 * kMiB, 1), 1024U);
}

}  // namespace
}  // namespace packhouse
