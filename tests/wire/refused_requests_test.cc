// Each field that a request has wrong is refused by its whole message, and the value beside it is
// taken.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "service/engine/jobs/cursor.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls/wire_graphs.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/wire/example_format.h"
#include "service/server/wire/wire_cursor.h"
#include "service/server/wire/wire_datasets.h"
#include "service/server/wire/wire_feedback.h"
#include "service/server/wire/wire_loader.h"
#include "service/server/wire/wire_memory.h"
#include "service/server/wire/wire_planning.h"
#include "service/server/wire/wire_tuning.h"
#include "tests/datasets/memory_dataset_store.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

template <typename Message>
Message Parsed(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

// Requests in text format, with what is said of each.
using Refusals = std::vector<std::pair<std::string, std::string>>;

template <typename Read>
void ExpectRefusals(const Refusals& refusals, const Read& read) {
  for (const auto& [text, message] : refusals) {
    EXPECT_THAT(read(text), StatusIs(absl::StatusCode::kInvalidArgument, message)) << text;
  }
}

GraphSchema SchemaWithFeatures() {
  return GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt8, {}, 0, {}, {}}})
      .value();
}

absl::StatusOr<EpochRequest> EpochOf(const std::string& text) {
  return EpochRequestFromWire(Parsed<v1::EpochSpec>(text), SchemaWithFeatures());
}

std::string Times(int n, const std::string& text) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

TEST(RefusedRequestsTest, OfEpochs) {
  const std::string long_job(128, 'j');
  ExpectRefusals(
      {{"job: 'a b'", "job: 'a b' must be 1 to 128 characters of [A-Za-z0-9_./-]"},
       {absl::StrCat("job: '", long_job, "j'"),
        absl::StrCat("job: '", long_job,
                     "... (129 bytes)' must be 1 to 128 characters of [A-Za-z0-9_./-]")},
       {Times(17, "rank_groups {} "), "rank_groups: 17, must be 1 to 16"},
       {"rank_groups { shapes { capacities { component: 'q' } } }",
        "limits: unknown component 'q'"},
       {"rank_groups { device_profile { components { component: 'q' } } }",
        "profile: unknown component 'q'"},
       {"padding: 99", "padding: unknown value 99"},
       {"derived: 99", "derived: unknown value 99"},
       {"payload: 99", "payload: unknown value 99"},
       {"integer_width: 99", "integer_width: unknown value 99"},
       {"oversize_policy: 99", "oversize_policy: unknown value 99"},
       {"look_ahead: 16385", "look_ahead: 16385, at most 16384"},
       {"mixing { off: true most_company: 2 }",
        "mixing.most_company: 2, must be unset with mixing.off"},
       {"mixing { most_company: 0.5 }",
        "mixing.most_company: 0.5, must be a finite number of at least 1, the company of a "
        "shuffle; or say mixing.off"},
       {"min_rows { component: 'q' }", "min_rows: unknown component 'q'"},
       {"subset { graph_ids: '123456789' }", "subset.graph_ids: 9 bytes, must be a multiple of 8"},
       {"draw { weights: '123456789' }", "draw.weights: 9 bytes, must be a multiple of 8"}},
      EpochOf);
  for (const std::string& text :
       {std::string(), absl::StrCat("job: '", long_job, "'"), std::string("job: 'aZ09_./-'"),
        Times(16, "rank_groups {} "), std::string("look_ahead: 16384")}) {
    EXPECT_THAT(EpochOf(text), IsOk()) << text;
  }
}

// What is said differs from what holds when nothing is said.
TEST(RefusedRequestsTest, WhatAnEpochSaysIsKnown) {
  PH_ASSERT_OK_AND_ASSIGN(const EpochRequest unsaid, EpochOf("order {}"));
  EXPECT_FALSE(unsaid.said.look_ahead);
  EXPECT_FALSE(unsaid.said.oversize);
  EXPECT_FALSE(unsaid.said.shuffled);
  EXPECT_FALSE(unsaid.segments || unsaid.subset || unsaid.draw || unsaid.by_score);
  EXPECT_FALSE(unsaid.oversize_is_error || unsaid.cuts_oversize);
  EXPECT_TRUE(unsaid.whole_graphs);
  PH_ASSERT_OK_AND_ASSIGN(
      const EpochRequest said,
      EpochOf(absl::StrCat(
          "look_ahead: 3 oversize_policy: OVERSIZE_POLICY_REJECT order { shuffled {} } segments "
          "{} subset { graph_ids: '",
          absl::CHexEscape(Uint64sToWire({8, 9})),
          "' ranges { first: 10 count: 11 } } draw { num_graphs: 12 weights: '",
          absl::CHexEscape(std::string("\0\0\0\0\0\0\xe0\x3f\0\0\0\0\0\0\x10\x40", 16)), "' }")));
  EXPECT_TRUE(said.said.look_ahead);
  EXPECT_TRUE(said.said.oversize);
  EXPECT_TRUE(said.said.shuffled);
  EXPECT_EQ(said.look_ahead, 3U);
  ASSERT_TRUE(said.segments && said.subset && said.draw);
  EXPECT_EQ(said.segments->graphs, SegmentsRequest().graphs);
  EXPECT_EQ(said.segments->tracks, SegmentsRequest().tracks);
  EXPECT_THAT(said.subset->ids, ElementsAre(8, 9));
  EXPECT_THAT(said.subset->ranges, ElementsAre(Pair(10, 11)));
  EXPECT_THAT(said.draw->weights, ElementsAre(0.5, 4));
  EXPECT_EQ(said.draw->num_graphs, 12U);
  EXPECT_FALSE(said.draw->with_replacement);
  EXPECT_FALSE(said.oversize_is_error || said.cuts_oversize);
  EXPECT_TRUE(EpochOf("oversize_policy: OVERSIZE_POLICY_ERROR")->oversize_is_error);
  EXPECT_TRUE(EpochOf("oversize_policy: OVERSIZE_POLICY_PARTITION")->cuts_oversize);
}

constexpr char kTwoGroups[] = "rank_groups { num_ranks: 2 } rank_groups { num_ranks: 3 } ";

absl::StatusOr<JoinRequest> JoinOf(const std::string& epoch, const std::string& load,
                                   const std::string& cursor = "") {
  PH_ASSIGN_OR_RETURN(const EpochRequest request, EpochOf("job: 'job' " + epoch));
  return JoinRequestFromWire(Parsed<v1::LoadRequest>(load), request, cursor);
}

TEST(RefusedRequestsTest, OfLoads) {
  const std::string long_name(128, 'w');
  ExpectRefusals(
      {{"ranked {}", "ranked: rank 0 of 0, must be below it, and it at most 65536"},
       {"ranked { num_ranks: 65537 }",
        "ranked: rank 0 of 65537, must be below it, and it at most 65536"},
       {"ranked { rank: 2 num_ranks: 2 }",
        "ranked: rank 2 of 2, must be below it, and it at most 65536"},
       {"ranked { num_ranks: 1 num_readers: 1025 }",
        "ranked: reader 0 of 1025, must be below it, and it at most 1024"},
       {"ranked { num_ranks: 1 reader: 1 }",
        "ranked: reader 1 of 0, must be below it, and it at most 1024"},
       {"ranked { num_ranks: 1 reader: 2 num_readers: 2 }",
        "ranked: reader 2 of 2, must be below it, and it at most 1024"},
       {absl::StrCat("dynamic { worker: '", long_name, "w' }"),
        "dynamic.worker: 129 bytes, at most 128"},
       {absl::StrCat("dynamic {} attempt: '", long_name, "w'"), "attempt: 129 bytes, at most 128"},
       {"", "the request carries neither 'ranked' nor 'dynamic'"},
       {"evaluation {}", "the request carries neither 'ranked' nor 'dynamic'"}},
      [](const std::string& text) { return JoinOf("", text); });
  for (const std::string& text :
       {std::string("ranked { rank: 65535 num_ranks: 65536 reader: 1023 num_readers: 1024 }"),
        absl::StrCat("dynamic { worker: '", long_name, "' } attempt: '", long_name, "'")}) {
    EXPECT_THAT(JoinOf("", text), IsOk()) << text;
  }
  EXPECT_THAT(
      JoinOf(kTwoGroups, "ranked { num_ranks: 4 }"),
      StatusIs(absl::StatusCode::kInvalidArgument, "ranked: 4 ranks, the rank groups have 5"));
  PH_ASSERT_OK_AND_ASSIGN(const JoinRequest of_groups,
                          JoinOf(kTwoGroups, "ranked { rank: 4 num_ranks: 5 drop_last: true }"));
  EXPECT_THAT(of_groups.sharing.rank_group_of_rank, ElementsAre(0, 0, 1, 1, 1));
  EXPECT_EQ(of_groups.sharing.last_steps, LastSteps::kDropped);
  EXPECT_EQ(of_groups.queue, 4U);
  EXPECT_FALSE(of_groups.generation || of_groups.cursor);
  EXPECT_THAT(JoinOf("", "dynamic {}", "invented"),
              StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("cursor")));
  EXPECT_THAT(JoinRequestFromWire(Parsed<v1::LoadRequest>("dynamic {}"), EpochRequest(), ""),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "job: '' must be 1 to 128 characters of [A-Za-z0-9_./-]"));
  EXPECT_THAT(MaxInFlightFromWire(0), IsOkAndHolds(16U));
  EXPECT_THAT(MaxInFlightFromWire(1024), IsOkAndHolds(1024U));
  EXPECT_THAT(MaxInFlightFromWire(1025),
              StatusIs(absl::StatusCode::kInvalidArgument, "max_in_flight: 1025, at most 1024"));
}

TEST(RefusedRequestsTest, OfEvaluations) {
  EpochRequest epoch = *EpochOf("rank_groups {}");
  const auto read = [&](const std::string& text) {
    return EvaluationFromWire(Parsed<v1::LoadRequest>(text), epoch);
  };
  const std::string unset = ": must be unset for an evaluation, of which nothing is kept";
  ExpectRefusals(
      {{"max_in_flight: 1", "max_in_flight" + unset},
       {"attempt: 'a'", "attempt" + unset},
       {"generation: 0", "generation" + unset},
       {"cursor: 'c'", "cursor" + unset},
       {"evaluation { ranked { num_ranks: 1 num_readers: 1 } }",
        "evaluation.ranked.num_readers" + unset},
       {"evaluation { ranked { num_ranks: 1 reader: 1 } }",
        "evaluation.ranked.num_readers" + unset},
       {"evaluation { ranked {} }", "ranked: rank 0 of 0, must be below it, and it at most 65536"}},
      read);
  PH_ASSERT_OK_AND_ASSIGN(const EvaluationRequest whole, read("evaluation { first_step: 3 }"));
  EXPECT_EQ(whole.sharing.rank_group_of_rank.size(), 1U);
  EXPECT_EQ(whole.rank, 0U);
  EXPECT_EQ(whole.first_step, 3U);
  EXPECT_FALSE(whole.is_of_all_ranks);
  PH_ASSERT_OK_AND_ASSIGN(Sharing all, AllRanksOf(epoch));
  EXPECT_THAT(all.rank_group_of_rank, ElementsAre(0));
  EXPECT_EQ(all.last_steps, LastSteps::kPadded);
  PH_ASSERT_OK_AND_ASSIGN(all, AllRanksOf(*EpochOf(kTwoGroups)));
  EXPECT_THAT(all.rank_group_of_rank, ElementsAre(0, 0, 1, 1, 1));
  EXPECT_THAT(AllRanksOf(*EpochOf("rank_groups { num_ranks: 4294967295 } rank_groups { num_ranks: "
                                  "4294967295 }")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "ranked: rank 0 of 4294967295, must be below it, and it at most 65536"));
  epoch.key.job = "job";
  ExpectRefusals({{"", "epoch.job" + unset}}, read);
}

absl::StatusOr<FeedbackReport> ReportOf(const std::string& batches) {
  return FeedbackReportFromWire(Parsed<v1::ReportRequest>("model: 'm' device: 'd' " + batches));
}

std::string BatchText(const std::string& capacities, const std::string& rest = "seconds: 1") {
  std::string all;
  for (const std::string& each : std::vector<std::string>(absl::StrSplit(capacities, ' '))) {
    const std::vector<std::string> parts = absl::StrSplit(each, ':');
    absl::StrAppend(&all, "capacities { component: '", parts[0], "' rows: ", parts[1], " } ");
  }
  return absl::StrCat("batches { capacities { ", all, "} ", rest, " } ");
}

TEST(RefusedRequestsTest, OfReports) {
  const std::string sound = "n:1 graphs:2";
  std::string most = "graphs:2";
  for (size_t i = 0; i < kMaxComponents; ++i) absl::StrAppend(&most, " c", i, ":1");
  const auto with = [&](const std::string& rest) { return BatchText(sound, rest); };
  const std::string components =
      absl::StrCat("batches[0]: capacities: must have `graphs` and at most ", kMaxComponents,
                   " other components");
  ExpectRefusals(
      {{"", "batches: 0, must be 1 to 1024"},
       {Times(1025, BatchText(sound)), "batches: 1025, must be 1 to 1024"},
       {BatchText("a;:1 graphs:2"), "batches[0]: component 'a;' is no name"},
       {BatchText("n:1 n:1 graphs:2"), "batches[0]: capacities: a component is listed twice"},
       {BatchText("n:1"), components},
       {"batches { seconds: 1 }", components},
       {BatchText(most + " d:1"), components},
       {BatchText(sound) + BatchText("q:1 graphs:2"),
        "batches[1]: component 'q' is none of the first batch's"},
       {BatchText(sound) + BatchText("a:1 graphs:2"),
        "batches[1]: component 'a' is none of the first batch's"},
       {BatchText(sound) + BatchText("n:1 n:1 graphs:2"),
        "batches[1]: component 'n' is listed twice"},
       {BatchText("n:281474976710657 graphs:2"),
        "batches[0]: component 'n': 281474976710657 rows, at most 281474976710656"},
       {BatchText(sound) + BatchText("graphs:2"), "batches[1]: component 'n' is missing"},
       {with("seconds: 1 num_batches: 1099511627777"),
        "batches[0]: num_batches 1099511627777, at most 1099511627776"},
       {with("seconds: -0.5"), "batches[0]: seconds -0.5, must be in [0, 1e+06]"},
       {with("seconds: 1000000.5"), "batches[0]: seconds 1e+06, must be in [0, 1e+06]"},
       {with("seconds: nan"), "batches[0]: seconds nan, must be in [0, 1e+06]"},
       {with("peak_bytes: 1125899906842625"),
        "batches[0]: peak_bytes 1125899906842625, at most 1125899906842624"},
       {with("out_of_memory: true seconds: 1"),
        "batches[0]: out_of_memory with seconds or peak_bytes"},
       {with("out_of_memory: true peak_bytes: 1"),
        "batches[0]: out_of_memory with seconds or peak_bytes"},
       {with(""), "batches[0]: tells nothing: seconds, peak_bytes and out_of_memory are unset"}},
      ReportOf);
  for (const std::string& text :
       {Times(1024, BatchText(sound)), BatchText(most), BatchText("n:281474976710656 graphs:2"),
        with("seconds: 1000000 num_batches: 1099511627776 peak_bytes: 1125899906842624"),
        with("peak_bytes: 1"), with("out_of_memory: true")}) {
    EXPECT_THAT(ReportOf(text), IsOk()) << text.substr(0, 1000);
  }
  PH_ASSERT_OK_AND_ASSIGN(const FeedbackReport report, ReportOf(BatchText("graphs:2 zz:3 a:1")));
  EXPECT_THAT(report.components, ElementsAre("a", "zz", "graphs"));
  EXPECT_THAT(report.observations[0].capacities, ElementsAre(1, 3, 2));
  EXPECT_EQ(report.observations[0].num_batches, 1U);
  EXPECT_THAT(
      FeedbackReportFromWire(Parsed<v1::ReportRequest>("device: 'd' " + BatchText(sound))),
      StatusIs(absl::StatusCode::kInvalidArgument, testing::StartsWith("model: '' must be 1 to ")));
}

TEST(RefusedRequestsTest, OfTargetsAndRaggedComponents) {
  const auto read = [](const std::string& text) {
    const auto request = Parsed<v1::PlanRequest>(text);
    return SchemaOfTargets(SizeSchema::NodesAndEdges(), request.index_targets(),
                           request.ragged_components());
  };
  ExpectRefusals(
      {{"index_targets: 'q'", "index_targets: 'q' is no component of the graphs"},
       {"index_targets: 'graphs'", "index_targets: 'graphs' is no component of the graphs"},
       {"index_targets: 'nodes' index_targets: 'nodes'", "index_targets: 'nodes' is listed twice"},
       {"ragged_components: 'q'", "ragged_components: 'q' is no component of the graphs"},
       {"ragged_components: 'graphs'", "ragged_components: 'graphs' is no component of the graphs"},
       {"ragged_components: 'edges' ragged_components: 'edges'",
        "ragged_components: 'edges' is listed twice"},
       {"ragged_components: 'edges' index_targets: 'nodes' index_targets: 'edges'",
        "ragged_components: 'edges' is in index_targets, so it is no feature"}},
      read);
  PH_ASSERT_OK_AND_ASSIGN(const GraphSchema schema,
                          read("index_targets: 'nodes' ragged_components: 'edges'"));
  v1::GraphSchema wire;
  GraphSchemaToWire(schema, wire);
  EXPECT_EQ(wire.ShortDebugString(),
            "components: \"nodes\" components: \"edges\" tensors { name: \"edges\" dtype: "
            "DATA_TYPE_UINT8 component: \"edges\" } tensors { name: \"into/0\" dtype: "
            "DATA_TYPE_INT64 component: \"nodes\" index_into: \"nodes\" }");
  PH_ASSERT_OK_AND_ASSIGN(const GraphSchema ragged,
                          read("ragged_components: 'edges' ragged_components: 'nodes'"));
  v1::GraphSchema of_both;
  GraphSchemaToWire(ragged, of_both);
  EXPECT_EQ(of_both.ShortDebugString(),
            "components: \"nodes\" components: \"edges\" tensors { name: \"edges\" dtype: "
            "DATA_TYPE_UINT8 component: \"edges\" } tensors { name: \"nodes\" dtype: "
            "DATA_TYPE_UINT8 component: \"nodes\" }");
}

TEST(RefusedRequestsTest, OfDatasets) {
  const auto read = [](const std::string& text) {
    return NewDatasetFromWire(Parsed<v1::CreateDatasetRequest>("name: 'd' " + text));
  };
  const std::string cut = "oversize_policy: OVERSIZE_POLICY_PARTITION ";
  const std::string bound = "max_rows { component: 'nodes' rows: 3 } ";
  ExpectRefusals(
      {{"oversize_policy: 9", "oversize_policy: unknown value 9"},
       {"schema {} tfgnn_schema {}", "tfgnn_schema: there is a schema beside it"},
       {cut, "oversize_policy: OVERSIZE_POLICY_PARTITION needs max_rows"},
       {cut + bound + "grouped: true",
        "oversize_policy: OVERSIZE_POLICY_PARTITION is not for grouped graphs"},
       {"oversize_policy: OVERSIZE_POLICY_REJECT",
        "oversize_policy: OVERSIZE_POLICY_REJECT is not for data sets: appends are taken whole"}},
      read);
  const std::string tensors =
      "schema { components: 'nodes' components: 'edges' tensors { name: 'x' dtype: DATA_TYPE_INT8 "
      "component: 'nodes' } tensors { name: 'ends' dtype: DATA_TYPE_INT32 row_shape: 2 component: "
      "'edges' index_into: 'nodes' } } ";
  ExpectRefusals({{cut + bound +
                       "schema { components: 'nodes' tensors { name: 'g' dtype: DATA_TYPE_INT32 "
                       "component: 'graphs' index_into: 'nodes' } }",
                   "oversize_policy: graphs of this schema cannot be cut: the index tensor 'g' is "
                   "about graphs"}},
                 read);
  PH_ASSERT_OK_AND_ASSIGN(const NewDataset made, read(cut + bound + tensors));
  EXPECT_GT(made.schema.tensors().size(), 2U);
  v1::CreateDatasetRequest again;
  GraphSchemaToWire(made.schema, *again.mutable_schema());
  ExpectRefusals({{again.ShortDebugString() + " " + bound,
                   "max_rows: a schema with tensors of pieces and bounds needs "
                   "OVERSIZE_POLICY_PARTITION, and then the schema of whole graphs"}},
                 read);
  EXPECT_THAT(read(again.ShortDebugString()), IsOk());
  EXPECT_THAT(NoDataFolder(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "the server was started without a folder for data (--data-dir), or shares "
                       "its jobs with others (--ledger) and keeps nothing else"));
}

TEST(RefusedRequestsTest, OfPlansAndSearches) {
  ExpectRefusals(
      {{"padding: 99", "padding: unknown value 99"},
       {"padding: PADDING_TFGNN index_targets: 'q'",
        "index_targets: 'q' is no component of the graphs"},
       {"heuristics { algorithm: PLAN_ALGORITHM_SINGLE_COMPONENT priority { component: 'graphs' } "
        "}",
        "heuristic: priority.component: unknown component 'graphs'"},
       {"heuristics { priority { kind: PRIORITY_KIND_COMPONENT component: 'graphs' } }",
        "heuristic: priority.component: unknown component 'graphs'"},
       {"warm_start { tuples: 'abc' }",
        "warm_start.tuples: 3 bytes, a tuple of 2 components takes 8"}},
      [](const std::string& text) {
        return PlanTaskFromWire(
            Parsed<v1::PlanRequest>(
                "limits { capacities { component: 'nodes' rows: 9 } capacities { component: "
                "'edges' rows: 9 } capacities { component: 'graphs' rows: 9 } } " +
                text),
            {SizeSchema::NodesAndEdges(), SizeHistogram(2)}, 65536);
      });
  const std::string profile = "profile { components { component: 'nodes' max_rows: 9 } } ";
  ExpectRefusals(
      {{profile + "padding: 99", "padding: unknown value 99"},
       {profile + "index_targets: 'q'", "index_targets: 'q' is no component of the graphs"},
       {"profile { components { component: 'q' } }", "profile: unknown component 'q'"}},
      [](const std::string& text) {
        return PaddedProfileFromWire(Parsed<v1::TuneRequest>(text), SizeSchema::NodesAndEdges(),
                                     1000);
      });
}

TEST(RefusedRequestsTest, WithoutAFormatOfExamples) {
  const NoExampleFormat own("left out");
  for (const NoExampleFormat* const none : {&NoExampleFormat::Default(), &own}) {
    const auto refused = [none, &own](absl::string_view what) {
      return StatusIs(
          absl::StatusCode::kUnimplemented,
          absl::StrCat(what, ": ", none == &own ? "left out" : "this server has no such format"));
    };
    EXPECT_THAT(none->Schema({}), refused("tfgnn_schema"));
    EXPECT_THAT(none->Open(nullptr, nullptr, {}).status(), refused("examples"));
    MemoryDatasetStore datasets(1 << 20);
    EXPECT_THAT(none->ExportDataset({}, datasets, 0, nullptr).status(), refused("ExportDataset"));
    EXPECT_THAT(none->ExportEpoch({}, nullptr, 0).status(), refused("ExportEpoch"));
  }
}

// What is reserved for a request or an answer, to the byte.
TEST(RefusedRequestsTest, TakeTheMemoryThatTheyName) {
  const uint64_t block = 16 + 3 * sizeof(void*);
  v1::PackingPlan wire;
  wire.set_tuples(Uint32sToWire({1, 2, 3, 4}));
  wire.add_patterns()->add_entries();
  for (int i = 0; i < 2; ++i) wire.add_patterns();
  wire.mutable_patterns(1)->add_entries();
  wire.mutable_patterns(1)->add_entries();
  EXPECT_EQ(BytesOfPlan(wire),
            3U * 16 + 8 + 4096 + 3 * (3 * sizeof(Pattern) + block) + 3 * 2 * sizeof(PatternEntry));
  PackingPlan plan;
  plan.tuples = {1, 2, 3, 4};
  plan.patterns.resize(2);
  plan.patterns[0].entries.resize(1);
  plan.patterns[1].entries.resize(2);
  EXPECT_EQ(BytesToWire(plan), 4U * 4 * 4 + 2 * (sizeof(v1::Pattern) + block + 2 * 23) +
                                   3 * (sizeof(v1::PatternEntry) + block + 2 * 14));
  EXPECT_EQ(BytesToWire(10, 3), 4U * 10 * (8 + 4 * 3) + 4096);
  const auto spec = Parsed<v1::EpochSpec>(
      "draw { weights: '12345678' } subset { graph_ids: '1234567' ranges {} ranges {} }");
  EXPECT_EQ(BytesOfRequest(spec), 8U + 7 + 3 * 16 * 2);
  v1::Histogram histogram;
  histogram.set_counts(std::string(5 * 8, 'c'));
  histogram.set_tuples(std::string(3 * 8, 't'));
  EXPECT_EQ(BytesOfHistogram(histogram), SizeHistogram::BytesFor(5, 2) + 40 + 24);
  histogram.set_tuples(std::string(7 * 8, 't'));
  EXPECT_EQ(BytesOfHistogram(histogram), SizeHistogram::BytesFor(7, 2) + 40 + 56);
  histogram.add_components("n");
  EXPECT_EQ(BytesOfHistogram(histogram), SizeHistogram::BytesFor(14, 1) + 40 + 56);
}

TEST(RefusedRequestsTest, WhoIsForgottenAfterAWhile) {
  const auto read = [](const std::string& text) {
    return ProducerFromWire(true, Parsed<v1::ProducerSequence>(text), absl::FromUnixSeconds(7));
  };
  EXPECT_FALSE(read("").has_value());
  EXPECT_FALSE(ProducerFromWire(false, Parsed<v1::ProducerSequence>("producer: 'p' sequence: 1"),
                                absl::UnixEpoch()));
  EXPECT_EQ(read("sequence: 1")->producer, "");
  EXPECT_EQ(read("producer: 'p'")->sequence, 0U);
  const auto made = read("producer: 'p' sequence: 2 forget_after { seconds: 3 nanos: 4 }");
  EXPECT_EQ(made->now, absl::FromUnixSeconds(7));
  EXPECT_EQ(made->forget_after, absl::Seconds(3) + absl::Nanoseconds(4));
  EXPECT_EQ(read("producer: 'p' sequence: 2")->forget_after, ProducerSequence().forget_after);
  EXPECT_EQ(read("sequence: 2 forget_after { seconds: 315576000000 }")->forget_after,
            2 * ProducerSequence::kMaxForgetAfter);
  for (const auto& [text, asks] :
       {std::pair("", false), std::pair("producer: 'p'", true), std::pair("sequence: 1", false),
        std::pair("producer: 'p' sequence: 1", false)}) {
    EXPECT_EQ(AsksForProducer(true, Parsed<v1::ProducerSequence>(text)), asks) << text;
    EXPECT_FALSE(AsksForProducer(false, Parsed<v1::ProducerSequence>(text))) << text;
  }
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

TEST(SignedTextsTest, AreThoseThatTheServerHasGiven) {
  const PurposeSigner signer;
  CallContext with;
  with.signer = &signer;
  const CallContext without;
  EXPECT_EQ(SignedCursor(&signer, "c"), "cursor|c");
  EXPECT_EQ(SignedCursor(&signer, ""), "");
  EXPECT_EQ(SignedCursor(nullptr, "c"), "c");
  for (const bool has_epoch : {true, false}) {
    v1::LoadOpened opened;
    opened.set_cursor("c");
    if (has_epoch) opened.mutable_epoch()->set_start_cursor("s");
    SignCursors(&signer, opened);
    EXPECT_EQ(opened.cursor(), "cursor|c");
    EXPECT_EQ(opened.epoch().start_cursor(), has_epoch ? "cursor|s" : "");
    EXPECT_EQ(opened.has_epoch(), has_epoch);
  }
  EXPECT_THAT(CursorFromClient(with, "cursor|c"), IsOkAndHolds("c"));
  EXPECT_THAT(CursorFromClient(with, "c"),
              StatusIs(absl::StatusCode::kInvalidArgument, "cursor: is not signed"));
  EXPECT_THAT(CursorFromClient(with, ""), IsOkAndHolds(""));
  EXPECT_THAT(CursorFromClient(without, "c"), IsOkAndHolds("c"));
  // By its length it is none, and refused as such by who reads it.
  const std::string longest(kMaxCursorLength + 64, 'c');
  EXPECT_THAT(CursorFromClient(with, longest),
              StatusIs(absl::StatusCode::kInvalidArgument, "cursor: is not signed"));
  EXPECT_THAT(CursorFromClient(with, longest + "c"), IsOkAndHolds(longest + "c"));
  EXPECT_EQ(PageTokenToClient(with, "List", "a"), "page_token of List|a");
  EXPECT_EQ(PageTokenToClient(with, "List", ""), "");
  EXPECT_EQ(PageTokenToClient(without, "List", "a"), "a");
  EXPECT_THAT(PageTokenFromClient(with, "List", "page_token of List|a"), IsOkAndHolds("a"));
  EXPECT_THAT(PageTokenFromClient(with, "Other", "page_token of List|a"),
              StatusIs(absl::StatusCode::kInvalidArgument, "page_token of Other: is not signed"));
  EXPECT_THAT(PageTokenFromClient(with, "List", ""), IsOkAndHolds(""));
  EXPECT_THAT(PageTokenFromClient(without, "List", "a"), IsOkAndHolds("a"));
}

}  // namespace
}  // namespace packhouse
