// Requests are read with every field: each test says in words what is made of a request, and the
// request without one field after the other must make something else. told_messages_test.cc says
// which fields no test of this program has tried.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "service/server/calls/wire_graphs.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/services/append_handler.h"
#include "service/server/services/observe_handler.h"
#include "service/server/services/pack_handler.h"
#include "service/server/services/stream_drift.h"
#include "service/server/wire/epoch_words.h"
#include "service/server/wire/wire_datasets.h"
#include "service/server/wire/wire_feedback.h"
#include "service/server/wire/wire_heuristics.h"
#include "service/server/wire/wire_loader.h"
#include "service/server/wire/wire_planning.h"
#include "service/server/wire/wire_tuning.h"
#include "service/wings/graphs/epochs/samples_request.h"
#include "service/wings/graphs/services/sample_handler.h"
#include "service/wings/graphs/services/samples_kind.h"
#include "service/wings/graphs/services/source_graph_append_handler.h"
#include "service/wings/graphs/services/wire_sampling.h"
#include "service/wings/graphs/services/wire_source_graphs.h"
#include "service/wings/partition/epochs/joined_parts.h"
#include "service/wings/partition/services/joined_kind.h"
#include "service/wings/tfgnn/tfgnn_format.h"
#include "tests/datasets/memory_dataset_store.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/epochs/epoch_worlds.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/source_graph_world.h"
#include "tests/support/status_matchers.h"
#include "tests/support/unwatched_streams.h"
#include "tests/wire/told_fields.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

template <typename Message>
Message Request(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

template <typename Describe>
auto OrError(const Describe& describe) {
  return [&describe](const auto& message) {
    const absl::StatusOr<std::string> said = describe(message);
    return said.ok() ? *said : said.status().ToString();
  };
}

// `request` is sound, and all of it is read but the fields `not_read`. What is made of it, in
// words.
template <typename Message, typename Describe>
std::string ExpectRead(const Message& request, const Describe& describe,
                       const std::vector<std::string>& not_read = {}) {
  const absl::StatusOr<std::string> said = describe(request);
  EXPECT_THAT(said.status(), IsOk()) << request.DebugString();
  EXPECT_THAT(UnreadFields(request, OrError(describe)), ::testing::ElementsAreArray(not_read));
  return said.ok() ? *said : "";
}

template <typename Numbers>
std::string Words(const Numbers& numbers) {
  return absl::StrJoin(numbers, ",");
}

std::string SchemaWords(const GraphSchema& schema) {
  v1::GraphSchema wire;
  GraphSchemaToWire(schema, wire);
  return wire.ShortDebugString();
}

constexpr char kSchemaText[] = R"(schema {
  components: 'atoms' components: 'bonds'
  tensors { name: 'x' dtype: DATA_TYPE_INT16 row_shape: 3 component: 'atoms' padding_value: '\1\2' }
  tensors { name: 'ends' dtype: DATA_TYPE_INT32 row_shape: 2 component: 'bonds' index_into: 'atoms'
            layout: LAYOUT_ROWS_LAST } })";

TEST(ReadRequestsTest, CreateADataset) {
  const auto describe = [](const v1::CreateDatasetRequest& request) -> absl::StatusOr<std::string> {
    PH_ASSIGN_OR_RETURN(const NewDataset made, NewDatasetFromWire(request, TfgnnFormat()));
    return absl::StrCat(made.name, " ", made.options.max_bytes, " ", Words(made.options.max_counts),
                        made.options.grouped ? " grouped " : " ", SchemaWords(made.schema));
  };
  EXPECT_THAT(ExpectRead(Request<v1::CreateDatasetRequest>(absl::StrCat(
                             "name: 'set' max_bytes: 11 grouped: true max_rows { component: "
                             "'atoms' rows: 12 } max_rows { component: 'bonds' rows: 13 } ",
                             kSchemaText)),
                         describe),
              StartsWith("set 11 12,13 grouped components"));
  ExpectRead(Request<v1::CreateDatasetRequest>(absl::StrCat(
                 "name: 'set' oversize_policy: OVERSIZE_POLICY_PARTITION max_rows { component: "
                 "'atoms' rows: 12 } ",
                 kSchemaText)),
             describe);
  const std::string text = "node_sets { key: 'n' value { } }";
  const std::string binary("\x12\x05\x0a\x01n\x12\x00", 7);
  for (const bool is_binary : {false, true}) {
    v1::CreateDatasetRequest request;
    request.set_name("set");
    if (is_binary) {
      request.mutable_tfgnn_schema()->set_binary(binary);
    } else {
      request.mutable_tfgnn_schema()->set_text(text);
    }
    ExpectRead(request, describe);
  }
}

std::string ColumnsWords(const std::vector<SourceColumnSpec>& columns) {
  std::string words;
  for (const SourceColumnSpec& column : columns) {
    absl::StrAppend(&words, " ", column.name, ":", static_cast<int>(column.dtype), ":",
                    Words(column.row_shape), column.ragged ? ":ragged" : "",
                    column.text ? ":text" : "");
  }
  return words;
}

TEST(ReadRequestsTest, CreateASourceGraph) {
  const auto describe =
      [](const v1::CreateSourceGraphRequest& request) -> absl::StatusOr<std::string> {
    PH_ASSIGN_OR_RETURN(const NewSourceGraph made, NewSourceGraphFromWire(request));
    SourceGraphInfo info;
    info.name = made.name;
    info.options = made.options;
    info.num_nodes.resize(made.schema.node_sets().size());
    info.num_edges.resize(made.schema.edge_sets().size());
    std::string words;
    for (const auto& set : made.schema.node_sets()) {
      absl::StrAppend(&words, "; ", set.name, ColumnsWords(set.columns));
    }
    for (const auto& set : made.schema.edge_sets()) {
      absl::StrAppend(&words, "; ", set.name, " ", set.source, "-", set.target,
                      set.reverse_of ? " reversed" : "", ColumnsWords(set.columns));
    }
    info.schema = std::make_shared<const SourceGraphSchema>(made.schema);
    v1::SourceGraph wire;
    SourceGraphToWire(info, wire);
    return absl::StrCat(made.name, " ", made.options.max_bytes, words, "; ",
                        wire.ShortDebugString());
  };
  EXPECT_THAT(ExpectRead(Request<v1::CreateSourceGraphRequest>(R"(
    name: 'graph' max_bytes: 7 schema {
      node_sets { name: 'papers' id_kind: NODE_ID_KIND_TEXT appended_only: true
                  columns { name: 'm' dtype: DATA_TYPE_INT16 row_shape: 2 ragged: true }
                  columns { name: 't' dtype: DATA_TYPE_UINT8 ragged: true text: true } }
      node_sets { name: 'authors' }
      edge_sets { name: 'writes' source: 'authors' target: 'papers' lookup: EDGE_LOOKUP_BY_SOURCE
                  columns { name: 'w' dtype: DATA_TYPE_INT8 row_shape: 3 } }
      edge_sets { name: 'written' source: 'papers' target: 'authors' reverse_of: 'writes' } })"),
                         describe),
              StartsWith("graph 7; papers m:"));
}

TEST(ReadRequestsTest, AReportOfBatches) {
  const auto describe = [](const v1::ReportRequest& request) -> absl::StatusOr<std::string> {
    PH_ASSIGN_OR_RETURN(const FeedbackReport read, FeedbackReportFromWire(request));
    std::string words =
        absl::StrCat(read.key.model, " ", read.key.device, " ", Words(read.components));
    for (const BatchObservation& each : read.observations) {
      absl::StrAppend(&words, "; ", Words(each.capacities), " ", each.num_batches, " ",
                      each.seconds, " ", each.peak_bytes, " ", each.out_of_memory);
    }
    return words;
  };
  // Of whom it is, only the log tells.
  EXPECT_EQ(ExpectRead(Request<v1::ReportRequest>(R"(
    model: 'm' device: 'd' job: 'j' rank_group: 2
    batches { capacities { capacities { component: 'nodes' rows: 11 }
                           capacities { component: 'edges' rows: 12 }
                           capacities { component: 'graphs' rows: 13 } }
              num_batches: 14 seconds: 15.5 peak_bytes: 16 }
    batches { capacities { capacities { component: 'nodes' rows: 21 }
                           capacities { component: 'edges' rows: 22 }
                           capacities { component: 'graphs' rows: 23 } }
              num_batches: 24 out_of_memory: true })"),
                       describe, {"job", "rank_group"}),
            "m d edges,nodes,graphs; 12,11,13 14 15.5 16 0; 22,21,23 24 0 0 1");
}

// Of two numbers for one component it is not known which one holds.
TEST(ReadRequestsTest, ABatchOfAReportNamesEachComponentOnce) {
  const std::string sound =
      "capacities { component: 'nodes' rows: 1 } capacities { component: 'graphs' rows: 2 } ";
  const std::string twice = sound + "capacities { component: 'nodes' rows: 3 } ";
  for (const bool is_first : {true, false}) {
    const auto request = Request<v1::ReportRequest>(
        absl::StrCat("model: 'm' device: 'd' batches { capacities { ", is_first ? twice : sound,
                     "} num_batches: 1 seconds: 1 } batches { capacities { ",
                     is_first ? sound : twice, "} num_batches: 1 seconds: 1 }"));
    EXPECT_THAT(FeedbackReportFromWire(request).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is listed twice")));
  }
}

constexpr char kEpochText[] =
    "epoch { dataset: 'graphs' rank_groups { num_ranks: 3 shapes { capacities { component: "
    "'nodes' rows: 24 } } } ";

std::string GroupsWords(const EpochRequest& epoch) {
  std::string words;
  for (const RankGroupRequest& group : epoch.rank_groups) {
    absl::StrAppend(&words, "; ", group.num_ranks);
    for (const auto& shape : group.shapes) absl::StrAppend(&words, " ", Words(shape));
  }
  return words;
}

TEST(ReadRequestsTest, ALoad) {
  DatasetWorld world(20);
  world.Seal();
  const auto spec_of = [&](const v1::LoadRequest& request) {
    return EpochRequestFromWire(request.epoch(), world.schema());
  };
  const auto describe = [&](const v1::LoadRequest& request) -> absl::StatusOr<std::string> {
    PH_ASSIGN_OR_RETURN(const EpochRequest epoch, spec_of(request));
    PH_ASSIGN_OR_RETURN(const JoinRequest read,
                        JoinRequestFromWire(request, epoch, request.cursor()));
    PH_ASSIGN_OR_RETURN(const size_t in_flight, MaxInFlightFromWire(request.max_in_flight()));
    return absl::StrCat(epoch.dataset, " ", epoch.key.job, " queue ", read.queue, " reader ",
                        read.reader.number, "/", read.reader.count, " worker ", read.worker, " of ",
                        Words(read.sharing.rank_group_of_rank), " last ",
                        static_cast<int>(read.sharing.last_steps), " ends ",
                        read.ends_when_all_leased, " attempt ", read.attempt, " generation ",
                        read.generation.value_or(0), " cursor ",
                        read.cursor.has_value() ? read.cursor->generation : 0, " in flight ",
                        in_flight, GroupsWords(epoch));
  };
  const std::string common =
      absl::StrCat(kEpochText, "job: 'job' } attempt: 'a' max_in_flight: 5 ");
  v1::LoadRequest ranked = Request<v1::LoadRequest>(absl::StrCat(
      common, "ranked { rank: 1 num_ranks: 3 reader: 4 num_readers: 6 drop_last: true }"));
  ranked.set_cursor(EncodeCursor({IdentityOf({6}), 17, {}, {}}));
  EXPECT_THAT(ExpectRead(ranked, describe),
              StartsWith("graphs job queue 1 reader 4/6 worker  of 0,0,0 last 1 ends 0 attempt a "
                         "generation 0 cursor 17 in flight 5"));
  EXPECT_THAT(
      ExpectRead(
          Request<v1::LoadRequest>(absl::StrCat(common,
                                                "generation: 8 dynamic { rank_group: 1 worker: 'w' "
                                                "end_when_all_leased: true }")),
          describe),
      StartsWith("graphs job queue 1 reader 0/1 worker w of  last 0 ends 1 attempt a generation 8 "
                 "cursor 0 in flight 5"));

  const auto evaluation = [&](const v1::LoadRequest& request) -> absl::StatusOr<std::string> {
    PH_ASSIGN_OR_RETURN(const EpochRequest epoch, spec_of(request));
    PH_ASSIGN_OR_RETURN(const EvaluationRequest read, EvaluationFromWire(request, epoch));
    return absl::StrCat("rank ", read.rank, " of ", read.sharing.rank_group_of_rank.size(),
                        " last ", static_cast<int>(read.sharing.last_steps), " from ",
                        read.first_step, " ", epoch.dataset, GroupsWords(epoch));
  };
  EXPECT_THAT(ExpectRead(Request<v1::LoadRequest>(
                             absl::StrCat(kEpochText,
                                          "} evaluation { first_step: 9 ranked { rank: 1 "
                                          "num_ranks: 3 drop_last: true } }")),
                         evaluation),
              StartsWith("rank 1 of 3 last 1 from 9 graphs"));
}

TEST(ReadRequestsTest, AnEpochOfSubGraphsOrOfParts) {
  DatasetWorld world(20);
  world.Seal();
  OneGraphStore graphs{SmallSourceGraph(60)};
  const SamplesKind samples_kind(&graphs);
  const JoinedKind joined_kind;
  const EpochKinds kinds = {{&samples_kind, &joined_kind}, {}};
  const auto describe = [&](const v1::EpochSpec& spec) -> absl::StatusOr<std::string> {
    MemoryHold memory;
    PH_ASSIGN_OR_RETURN(const EpochRequest read,
                        OpenEpochRequest(spec, world.store(), &kinds, nullptr, memory));
    std::string words = absl::StrCat(read.key.job, " ", read.Words(), GroupsWords(read), " ",
                                     read.Find<JoinedParts>() != nullptr);
    if (const auto* const samples = read.Find<SamplesRequest>()) {
      EXPECT_EQ(samples->teller, &samples_kind);
      const SeedList& seeds = samples->seeds;
      absl::StrAppend(&words, " window ", samples->window, " exact ", samples->exact_steps,
                      " smaller ", samples->draws_smaller, " of ",
                      SchemaWords(samples->source->schema()), " nodes ",
                      seeds.nodes == nullptr ? "all" : Words(*seeds.nodes), " occurrences ",
                      Words(seeds.occurrences), " times ", Words(seeds.times), " readout ",
                      seeds.readout == nullptr ? "" : absl::CHexEscape(Words(*seeds.readout)));
    }
    return words;
  };
  const std::string common = absl::StrCat(
      "job: 'job' rank_groups { shapes { capacities { component: 'n' rows: 60 } "
      "capacities { component: 'e' rows: 80 } } } samples { window: 20 exact_steps: "
      "true beyond_limits: BEYOND_LIMITS_REFUSE sub_graphs { graph: 'g' text: \"",
      TwoHopSpec(3, 2),
      "\" readout: true readout_columns { name: 'label' dtype: DATA_TYPE_INT8 } }");
  const std::string readout = "readout { name: 'label' data: '\\7\\10\\11' }";
  const std::string label = absl::CHexEscape("\7\10\11");
  // A capacity that is not set is unlimited, and then the words are the same.
  for (const auto& [nodes, words] : std::vector<std::pair<std::string, std::string>>{
           {"numbers: '\\3\\0\\0\\0\\1\\0\\0\\0\\4\\0\\0\\0' occurrences: "
            "'\\1\\0\\0\\0\\2\\0\\0\\0\\3\\0\\0\\0' ",
            " nodes 3,1,4 occurrences 1,2,3"},
           {absl::StrCat("ids { integers: '", absl::CHexEscape(Uint64sToWire({3, 1, 4})), "' } "),
            " nodes 3,1,4 occurrences "},
           {absl::StrCat("rows: '", absl::CHexEscape(Uint64sToWire({5, 9, 5})), "' "),
            " nodes 5,9,5 occurrences 0,0,1"}}) {
    const std::string read = ExpectRead(
        Request<v1::EpochSpec>(absl::StrCat(common, " seeds { ", nodes, readout, "} }")), describe);
    EXPECT_THAT(read, HasSubstr(" window 20 exact 1 smaller 0 of "));
    EXPECT_THAT(read, ::testing::EndsWith(absl::StrCat(words, " times  readout ", label)));
  }
  EXPECT_EQ(samples_kind.VersionOf("g").value(), 42U);
  EXPECT_THAT(samples_kind.VersionOf("h").status(),
              StatusIs(absl::StatusCode::kNotFound, "source graph 'h'"));
  EXPECT_THAT(SamplesKind(nullptr).VersionOf("g").status(),
              StatusIs(absl::StatusCode::kNotFound, "there are no source graphs"));
  EXPECT_THAT(
      describe(Request<v1::EpochSpec>(
          absl::StrCat("job: 'job' samples { beyond_limits: 9 sub_graphs { graph: 'g' text: \"",
                       TwoHopSpec(3, 2), "\" } }"))),
      StatusIs(absl::StatusCode::kInvalidArgument, "beyond_limits: 9 is not one of BeyondLimits"));
  // All nodes, in windows as they are by default.
  const absl::StatusOr<std::string> plain = describe(Request<v1::EpochSpec>(absl::StrCat(
      "job: 'job' samples { sub_graphs { graph: 'g' text: \"", TwoHopSpec(3, 2), "\" } }")));
  ASSERT_THAT(plain, IsOk());
  EXPECT_THAT(*plain, HasSubstr(" window 4096 exact 0 smaller 1 of "));
  EXPECT_THAT(*plain, ::testing::EndsWith(" nodes all occurrences  times  readout "));
}

TEST(ReadRequestsTest, APlan) {
  const SizeSchema schema = SizeSchema::NodesAndEdges();
  SizeHistogram histogram(2);
  ASSERT_THAT(histogram.Add({3, 5}, 7), IsOk());
  const NamedHistogram source{schema, std::move(histogram)};
  const auto describe = [&](const v1::PlanRequest& request) -> absl::StatusOr<std::string> {
    PH_ASSIGN_OR_RETURN(const PlanTask task, PlanTaskFromWire(request, source, 1000));
    std::string words =
        absl::StrCat(Words(task.limits.capacities()), " of ", Words(task.capacities), " steps ",
                     task.budget_steps, " seed ", task.seed);
    for (const PlanHeuristic& heuristic : task.heuristics) {
      v1::PlanHeuristic wire;
      HeuristicToWire(heuristic, schema, wire);
      absl::StrAppend(&words, "; ", wire.ShortDebugString());
    }
    if (task.warm_start) {
      v1::PackingPlan wire;
      PlanToWire(*task.warm_start, wire);
      absl::StrAppend(&words, "; ", wire.ShortDebugString());
    }
    return words;
  };
  const std::string common = absl::StrCat(
      "limits { capacities { component: 'nodes' rows: 30 } capacities { component: 'edges' rows: "
      "40 } capacities { component: 'graphs' rows: 5 } } budget_steps: 11 seed: 12 warm_start { "
      "tuples: '",
      absl::CHexEscape(Uint32sToWire({3, 5})),
      "' patterns { repeats: 2 entries { copies: 3 } } } ");
  ExpectRead(
      Request<v1::PlanRequest>(absl::StrCat(
          common,
          "heuristics { algorithm: PLAN_ALGORITHM_TUPLE_PACKING opening: OPENING_RULE_FILL "
          "placement: "
          "PLACEMENT_RULE_FIRST_FIT priority { kind: PRIORITY_KIND_SUM weights: 2 weights: 3 } "
          "} heuristics { algorithm: PLAN_ALGORITHM_TUPLE_PACKING priority { kind: "
          "PRIORITY_KIND_COMPONENT component: 'edges' } } heuristics { algorithm: "
          "PLAN_ALGORITHM_NO_PACKING } ")),
      // Where an algorithm has parameters, it is clear.
      describe, {"heuristics.algorithm", "heuristics.algorithm"});
  ExpectRead(
      Request<v1::PlanRequest>(absl::StrCat(common,
                                            "include_baselines: true include_notebook: true "
                                            "include_tuple_packing: true padding: PADDING_TFGNN "
                                            "index_targets: 'nodes' ")),
      describe);
  // Rows of ragged features need no limit.
  ExpectRead(Request<v1::PlanRequest>(
                 "limits { capacities { component: 'nodes' rows: 30 } capacities { component: "
                 "'graphs' rows: 5 } } padding: PADDING_TFGNN ragged_components: 'edges'"),
             describe);
}

TEST(ReadRequestsTest, ATuning) {
  const SizeSchema schema = SizeSchema::NodesAndEdges();
  const auto describe = [&](const v1::TuneRequest& request) -> absl::StatusOr<std::string> {
    PH_ASSIGN_OR_RETURN(const DeviceProfile profile, PaddedProfileFromWire(request, schema, 1000));
    PH_ASSIGN_OR_RETURN(const TuneOptions options, TuneOptionsFromWire(request));
    std::string words =
        absl::StrCat(static_cast<int>(options.objective), " steps ", options.steps, " seed ",
                     options.seed, " grid ", options.include_grid, " memory ", profile.memory_bytes,
                     " fixed ", profile.fixed_bytes, " ", profile.fixed_cost, " shapes ",
                     profile.max_distinct_shapes, " ", profile.measured_as);
    for (const ComponentProfile& each : profile.components) {
      absl::StrAppend(&words, "; ", each.min_rows, " ", each.max_rows, " ", each.multiple_of, " ",
                      each.bytes_per_row, " ", each.relative_cost, " ", each.reserved_rows);
    }
    return words;
  };
  ExpectRead(Request<v1::TuneRequest>(R"(
    profile { components { component: 'nodes' max_rows: 100 multiple_of: 2 bytes_per_row: 3 }
              components { component: 'edges' max_rows: 200 }
              memory_bytes: 1000000 fixed_bytes: 7 fixed_cost: 8.5 measured_as: 'm/d' }
    objective: TUNE_OBJECTIVE_HARMONIC_MEAN budget_steps: 11 seed: 12 include_grid: true
    padding: PADDING_TFGNN index_targets: 'nodes')"),
             describe);
  // Rows of ragged features need no limit.
  ExpectRead(Request<v1::TuneRequest>(R"(
    profile { components { component: 'nodes' max_rows: 100 }
              components { component: 'graphs' max_rows: 20 } }
    padding: PADDING_TFGNN ragged_components: 'edges')"),
             describe);
}

// Answers of a stream to requests.
template <typename Reply>
std::string ReplyWords(const BatchReply<Reply>& reply) {
  return ToMessage(reply).ShortDebugString();
}
inline std::string ReplyWords(const google::protobuf::Message& reply) {
  return reply.ShortDebugString();
}
template <typename Handler, typename Message>
absl::StatusOr<std::string> Answers(Handler& handler, const std::vector<Message>& requests) {
  std::string words;
  for (const Message& request : requests) {
    PH_RETURN_IF_ERROR(handler.Accept(std::make_unique<Message>(request)));
    for (;;) {
      PH_ASSIGN_OR_RETURN(const auto next, handler.Next());
      if (!next && handler.IsBusy()) continue;
      if (!next) break;
      absl::StrAppend(&words, ReplyWords(*next), "\n");
    }
  }
  return words;
}

class ReadStreamsTest : public testing::Test {
 protected:
  // What a Pack stream of these graphs answers, and what it counts.
  absl::StatusOr<std::string> Pack(const v1::PackOpen& open, const v1::PackRequest& graphs) {
    HistogramStore histograms{{}};
    PackHandler handler(&clock_, {}, &histograms, &observers_, nullptr, nullptr, nullptr,
                        TfgnnFormat());
    SizeHistogram known(2);
    PH_RETURN_IF_ERROR(known.Add({2, 3}, 50));
    PH_RETURN_IF_ERROR(
        histograms.Merge({"known", SizeSchema::NodesAndEdges()}, known, {}, clock_.Now()).status());
    std::vector<v1::PackRequest> requests(2);
    *requests[0].mutable_open() = open;
    requests[1] = graphs;
    PH_ASSIGN_OR_RETURN(std::string words, Answers(handler, requests));
    absl::StrAppend(&words, absl::FormatDuration(handler.NextDeadline() - clock_.Now()), "\n");
    v1::PackRequest flush;
    flush.mutable_flush()->set_token(5);
    PH_ASSIGN_OR_RETURN(const std::string rest, Answers(handler, std::vector{flush}));
    absl::StrAppend(&words, rest);
    const auto counted = histograms.Get("sizes", clock_.Now());
    if (counted.ok()) absl::StrAppend(&words, counted->histogram.num_graphs());

    return words;
  }

  static v1::PackRequest SizesOf(const std::vector<uint32_t>& counts) {
    v1::PackRequest request;
    request.mutable_sizes()->set_num_graphs(counts.size() / 2);
    request.mutable_sizes()->set_counts(Uint32sToWire(counts));
    return request;
  }

  SimulatedClock clock_;
  UnwatchedStreams observers_;
};

constexpr char kStreamSchema[] =
    "schema { components: 'nodes' components: 'edges' "
    "tensors { name: 'x' dtype: DATA_TYPE_INT16 component: 'nodes' } "
    "tensors { name: 'ends' dtype: DATA_TYPE_INT32 row_shape: 2 component: 'edges' index_into: "
    "'nodes' } } ";
constexpr char kLimitsOfStream[] =
    "limits { capacities { component: 'nodes' rows: 12 } capacities { component: 'edges' rows: 14 "
    "} capacities { component: 'graphs' rows: 4 } } ";

// Of 2 and 1 nodes, 1 and 2 edges; or in the words of a chunk's message.
std::string ChunkText(absl::string_view ids) {
  return absl::StrCat(
      "sizes { num_graphs: 2 counts: '", absl::CHexEscape(Uint32sToWire({2, 1, 1, 2})), "' ", ids,
      " } tensors { name: 'x' data: '\\1\\2\\3\\4\\5\\6' } ", "tensors { name: 'ends' data: '",
      absl::CHexEscape(Uint32sToWire({0, 1, 0, 0, 0, 0})), "' } ");
}

TEST_F(ReadStreamsTest, ThePackStream) {
  const v1::PackRequest sizes = SizesOf({3, 4, 5, 2, 3, 1, 4, 4});
  // Of sizes without tensors, the payload is clear.
  ExpectRead(
      Request<v1::PackOpen>(absl::StrCat(kLimitsOfStream,
                                         "look_ahead: 2 max_age: 3 payload: PAYLOAD_SIZES "
                                         "histogram: 'sizes' padding: PADDING_TFGNN min_rows "
                                         "{ component: 'nodes' rows: 2 }")),
      [&](const v1::PackOpen& open) { return Pack(open, sizes); }, {"payload"});
  const v1::PackRequest graphs =
      Request<v1::PackRequest>(absl::StrCat("graphs { ", ChunkText("first_id: 40"), " }"));
  const auto of_graphs = [&](const v1::PackOpen& open) { return Pack(open, graphs); };
  ExpectRead(Request<v1::PackOpen>(absl::StrCat(
                 kStreamSchema, kLimitsOfStream,
                 "padding: PADDING_MASKED derived: DERIVED_TENSOR_MASKS integer_width: "
                 "INTEGER_WIDTH_COMPACT max_delay { seconds: 7 nanos: 8 }")),
             of_graphs);
  ExpectRead(Request<v1::PackOpen>(absl::StrCat(kStreamSchema, kLimitsOfStream,
                                                "oversize_policy: OVERSIZE_POLICY_PARTITION")),
             of_graphs);
  v1::PackOpen examples;
  examples.mutable_tfgnn_schema()->set_text(
      "node_sets { key: 'n' value { features { key: 'x' value { dtype: DT_INT32 } } } }");
  *examples.mutable_limits() = Request<v1::Limits>("capacities { component: 'n' rows: 12 }");
  const v1::PackRequest none = Request<v1::PackRequest>("examples { examples: '' first_id: 3 }");
  ExpectRead(examples, [&](const v1::PackOpen& open) { return Pack(open, none); });
  ExpectRead(none, [&](const v1::PackRequest& request) { return Pack(examples, request); });
  // As it is without, but without tensors.
  examples.set_payload(v1::PAYLOAD_SIZES);
  const v1::PackRequest size =
      Request<v1::PackRequest>("sizes { num_graphs: 1 counts: '\\1\\0\\0\\0' first_id: 3 }");
  ExpectRead(size, [&](const v1::PackRequest& request) { return Pack(examples, request); });
  ExpectRead(examples, [&](const v1::PackOpen& open) { return Pack(open, size); });

  const v1::PackOpen open = Request<v1::PackOpen>(absl::StrCat(kStreamSchema, kLimitsOfStream));
  const auto of_request = [&](const v1::PackRequest& request) { return Pack(open, request); };
  ExpectRead(graphs, of_request);
  ExpectRead(
      Request<v1::PackRequest>(absl::StrCat(
          "graphs { ",
          ChunkText(absl::StrCat("graph_ids: '", absl::CHexEscape(Uint64sToWire({7, 9})), "'")),
          " }")),
      of_request);
  v1::PackRequest flush;
  flush.mutable_flush()->set_token(6);
  ExpectRead(flush, of_request);
}

TEST_F(ReadStreamsTest, APackStreamForADevice) {
  v1::PackRequest sizes = SizesOf({3, 4, 5, 2, 3, 1, 4, 4});
  const auto describe = [&](const v1::PackOpen& open) { return Pack(open, sizes); };
  // What `graphs` may cost is not tried.
  ExpectRead(Request<v1::PackOpen>(
                 "device_profile { components { component: 'nodes' max_rows: 40 } components { "
                 "component: 'edges' max_rows: 40 } components { component: 'graphs' max_rows: 9 } "
                 "memory_bytes: 100000 } calibration { num_graphs: 3 }"),
             describe, {"device_profile.memory_bytes"});
  ExpectRead(Request<v1::PackOpen>(
                 "device_profile { components { component: 'nodes' max_rows: 40 } components { "
                 "component: 'edges' max_rows: 40 } components { component: 'graphs' max_rows: 9 } "
                 "} calibration { num_graphs: 3 histogram: 'known' }"),
             describe);
}

TEST_F(ReadStreamsTest, AWatchOfSizes) {
  ExpectRead(Request<v1::PackOpen>("drift { num_graphs: 700 min_loss: 0.25 }"),
             [](const v1::PackOpen& open) -> absl::StatusOr<std::string> {
               PH_ASSIGN_OR_RETURN(const auto options, StreamDrift::OptionsFromWire(open));
               if (!options) return std::string("none");
               return absl::StrCat(options->num_graphs, " ", options->min_loss);
             });
}

TEST_F(ReadStreamsTest, AStreamOfSubGraphs) {
  OneGraphStore graphs{SmallSourceGraph(60)};
  v1::SampleRequest opening;
  v1::SampleRequest seeds;
  v1::SampleRequest flush = Request<v1::SampleRequest>("flush { token: 5 }");
  const auto describe = [&](const v1::SampleRequest&) -> absl::StatusOr<std::string> {
    HistogramStore histograms{{}};
    SampleHandler handler(
        &graphs,
        std::make_unique<PackHandler>(&clock_, StreamBounds(), &histograms, &observers_, nullptr),
        nullptr, nullptr);
    return Answers(handler, std::vector<v1::SampleRequest>{opening, seeds, flush});
  };
  const auto of_flush = [&](const v1::SampleRequest& request) {
    flush = request;
    return describe(request);
  };
  const auto of_opening = [&](const v1::SampleRequest& request) {
    opening = request;
    return describe(request);
  };
  const auto of_seeds = [&](const v1::SampleRequest& request) {
    seeds = request;
    return describe(request);
  };
  seeds = Request<v1::SampleRequest>(absl::StrCat("seeds { first_id: 30 seeds { numbers: '",
                                                  absl::CHexEscape(Uint32sToWire({12, 25, 38})),
                                                  "' } }"));
  const std::string sub_graphs =
      absl::StrCat("sub_graphs { graph: 'g' text: \"", TwoHopSpec(3, 2), "\" } ");
  ExpectRead(Request<v1::SampleRequest>(absl::StrCat(
                 "open { seed: 3 epoch: 4 ", sub_graphs,
                 "pack { limits { capacities { component: 'n' rows: 5 } capacities { component: "
                 "'e' rows: 40 } capacities { component: 'graphs' rows: 9 } } } beyond_limits: "
                 "BEYOND_LIMITS_REFUSE }")),
             of_opening);
  ExpectRead(flush, of_flush);
  flush.mutable_flush()->set_token(5);
  v1::SampleRequest binary = Request<v1::SampleRequest>(absl::StrCat("open { ", sub_graphs, " }"));
  binary.mutable_open()->mutable_sub_graphs()->set_binary(
      tfgnn::SamplingSpecBytes(tfgnn::ParseSamplingSpec(TwoHopSpec(3, 2)).value()));
  ExpectRead(binary, of_opening);
  opening = binary;
  ExpectRead(v1::SampleRequest(seeds), of_seeds);
  ExpectRead(Request<v1::SampleRequest>(absl::StrCat(
                 "seeds { ids: '", absl::CHexEscape(Uint64sToWire({7, 9})), "' seeds { rows: '",
                 absl::CHexEscape(Uint64sToWire({40, 41})), "' } }")),
             of_seeds);
}

TEST_F(ReadStreamsTest, AppendsToADataset) {
  const auto describe = [&](const v1::AppendRequest& request) -> absl::StatusOr<std::string> {
    MemoryDatasetStore store(1 << 20);
    const GraphSchema schema =
        GraphSchemaFromWire(true, Request<v1::PackOpen>(kStreamSchema).schema()).value();
    DatasetOptions options;
    options.grouped = !request.group_ids().empty();
    PH_RETURN_IF_ERROR(store.Create("set", schema, options).status());
    AppendHandler handler(&store, nullptr, nullptr, nullptr, &clock_);
    PH_ASSIGN_OR_RETURN(std::string words, Answers(handler, std::vector{request}));
    PH_ASSIGN_OR_RETURN(const auto reader, store.OpenReader("set"));
    absl::StrAppend(&words, Words(reader->graph_ids()), " ", Words(reader->group_ids()));
    return words;
  };
  ExpectRead(Request<v1::AppendRequest>(absl::StrCat("dataset: 'set' graphs { ",
                                                     ChunkText("first_id: 40"), " } group_ids: '",
                                                     absl::CHexEscape(Uint64sToWire({7, 9})), "'")),
             describe);
  ExpectRead(Request<v1::AppendRequest>(
                 absl::StrCat("dataset: 'set' producer_sequence { producer: 'p' sequence: 3 } "
                              "graphs { ",
                              ChunkText("first_id: 40"), " }")),
             describe);
}

TEST_F(ReadStreamsTest, Examples) {
  v1::AppendRequest request;
  request.set_dataset("set");
  request.mutable_examples()->set_first_id(40);
  request.mutable_examples()->set_skip_malformed(true);
  // The second is none: its first field says that it is longer.
  request.mutable_examples()->add_examples("");
  request.mutable_examples()->add_examples("\x0a\x7f");
  const auto describe = [&](const v1::AppendRequest& each) -> absl::StatusOr<std::string> {
    v1::CreateDatasetRequest made;
    made.set_name("set");
    made.mutable_tfgnn_schema()->set_text(
        "node_sets { key: 'n' value { features { key: 'x' value { dtype: DT_INT32 } } } }");
    PH_ASSIGN_OR_RETURN(const NewDataset dataset, NewDatasetFromWire(made, TfgnnFormat()));
    MemoryDatasetStore store(1 << 20);
    PH_RETURN_IF_ERROR(store.Create("set", dataset.schema, dataset.options).status());
    AppendHandler handler(&store, nullptr, nullptr, nullptr, &clock_, TfgnnFormat());
    PH_ASSIGN_OR_RETURN(const std::string words, Answers(handler, std::vector{each}));
    PH_ASSIGN_OR_RETURN(const auto reader, store.OpenReader("set"));
    return absl::StrCat(words, Words(reader->graph_ids()));
  };
  ExpectRead(request, describe);
  request.mutable_examples()->set_graph_ids(Uint64sToWire({7, 9}));
  ExpectRead(request, describe);
  // A data set of the name that was deleted.
  request.set_dataset_id(18);
  EXPECT_THAT(describe(request), StatusIs(absl::StatusCode::kNotFound, HasSubstr("18")));
  EXPECT_THAT(UnreadFields(request, OrError(describe)), Not(::testing::Contains("dataset_id")));
}

TEST_F(ReadStreamsTest, Observations) {
  const auto describe = [&](const v1::ObserveRequest& request) -> absl::StatusOr<std::string> {
    HistogramStore histograms{{}};
    ObserveHandler handler(&clock_, &histograms);
    // It is answered once there are as many requests.
    PH_ASSIGN_OR_RETURN(std::string words, Answers(handler, std::vector{request}));
    v1::ObserveRequest again;
    *again.mutable_sizes() = request.sizes();
    PH_ASSIGN_OR_RETURN(const std::string more, Answers(handler, std::vector{again}));
    PH_ASSIGN_OR_RETURN(const HistogramSnapshot counted, histograms.Get("h", clock_.Now()));
    return absl::StrCat(words, more, counted.schema.name(0), counted.schema.name(1),
                        absl::FormatDuration(counted.half_life), " ",
                        counted.histogram.num_graphs());
  };
  ExpectRead(Request<v1::ObserveRequest>(absl::StrCat(
                 "histogram: 'h' components: 'atoms' components: 'bonds' half_life { seconds: 7 "
                 "nanos: 8 } requests_per_response: 2 sizes { num_graphs: 2 counts: '",
                 absl::CHexEscape(Uint32sToWire({3, 4, 5, 6})), "' }")),
             describe);
  ExpectRead(Request<v1::ObserveRequest>(absl::StrCat(
                 "histogram: 'h' components: 'atoms' components: 'bonds' producer_sequence { "
                 "producer: 'p' sequence: 3 } sizes { num_graphs: 2 counts: '",
                 absl::CHexEscape(Uint32sToWire({3, 4, 5, 6})), "' }")),
             [&](const v1::ObserveRequest& request) -> absl::StatusOr<std::string> {
               HistogramStore histograms{{}};
               ObserveHandler handler(&clock_, &histograms);
               return Answers(handler, std::vector{request});
             },
             // The histogram is not looked at.
             {"components"});
}

TEST(ReadRequestsTest, RowsThatAreLookedUp) {
  const auto graph = SmallSourceGraph(60);
  const auto nodes = [&](const v1::LookupNodesRequest& request) -> absl::StatusOr<std::string> {
    MemoryHold hold;
    PH_ASSIGN_OR_RETURN(const v1::LookupNodesResponse answer,
                        LookUpNodes(request, *graph, 1 << 20, nullptr, hold));
    return answer.DebugString();
  };
  for (const std::string& which :
       {std::string("ids { integers: '") + absl::CHexEscape(Uint64sToWire({3, 1, 4})) + "' } ",
        std::string("rows: '") + absl::CHexEscape(Uint64sToWire({3, 1, 4})) + "' with_rows: true ",
        std::string("numbers: '") + absl::CHexEscape(Uint32sToWire({3, 1, 4})) + "' "}) {
    // The graph is found by its name before.
    ExpectRead(Request<v1::LookupNodesRequest>(
                   absl::StrCat("graph: 'g' node_set: 'n' columns: 'x' ", which)),
               nodes, {"graph"});
    ExpectRead(Request<v1::LookupNodesRequest>(
                   absl::StrCat("graph: 'g' node_set: 'n' all_columns: true ", which)),
               nodes, {"graph"});
  }
}

TEST(ReadRequestsTest, EdgesThatAreRead) {
  const v1::CreateSourceGraphRequest made = Request<v1::CreateSourceGraphRequest>(R"(
    name: 'graph' schema { node_sets { name: 'n' } edge_sets { name: 'e' source: 'n' target: 'n'
                           columns { name: 'w' dtype: DATA_TYPE_INT8 } } })");
  MemoryNodeSet node_set;
  node_set.num_nodes = 9;
  MemoryEdgeSet edge_set;
  edge_set.sources = {1, 2, 3, 4};
  edge_set.targets = {5, 6, 7, 8};
  edge_set.columns.push_back({"abcd", {}});
  std::vector<MemoryNodeSet> node_sets;
  node_sets.push_back(std::move(node_set));
  std::vector<MemoryEdgeSet> edge_sets;
  edge_sets.push_back(std::move(edge_set));
  const auto graph = MakeMemorySourceGraph(NewSourceGraphFromWire(made)->schema, /*version=*/42,
                                           std::move(node_sets), std::move(edge_sets))
                         .value();
  const auto edges = [&](const v1::ReadEdgesRequest& request) -> absl::StatusOr<std::string> {
    MemoryHold hold;
    PH_ASSIGN_OR_RETURN(const v1::ReadEdgesResponse answer,
                        ReadEdges(request, *graph, 1 << 20, nullptr, hold));
    return answer.DebugString();
  };
  for (const char* const columns : {"columns: 'w'", "all_columns: true"}) {
    // The graph is found by its name before.
    ExpectRead(
        Request<v1::ReadEdgesRequest>(absl::StrCat(
            "graph: 'g' edge_set: 'e' first_edge: 1 num_edges: 2 with_rows: true ", columns)),
        edges, {"graph"});
  }
}

// Says what is appended.
class SayingStore final : public OneGraphStore {
 public:
  explicit SayingStore(SourceGraphSchema schema)
      : OneGraphStore(SmallSourceGraph(3)),
        schema_(std::make_shared<const SourceGraphSchema>(std::move(schema))) {}

  absl::StatusOr<SourceGraphInfo> Get(absl::string_view name) const override {
    SourceGraphInfo info;
    info.name = std::string(name);
    info.id = 17;
    info.schema = schema_;
    return info;
  }
  absl::StatusOr<SourceAppendResult> Append(
      const Target& target, const SourceGraphChunk& chunk,
      const std::optional<ProducerSequence>& producer) override {
    said = absl::StrCat(target.name, " ", target.id, " ");
    if (producer) absl::StrAppend(&said, producer->producer, producer->sequence, " ");
    for (const SourceNodeRows& rows : chunk.nodes) {
      absl::StrAppend(&said, "nodes ", rows.node_set, " ", rows.num_rows, IdWords(rows.ids),
                      ColumnRowsWords(rows.columns));
    }
    for (const SourceEdgeRows& rows : chunk.edges) {
      absl::StrAppend(&said, "edges ", rows.edge_set, " ", rows.num_rows, IdWords(rows.sources),
                      IdWords(rows.targets), ColumnRowsWords(rows.columns));
    }
    return SourceAppendResult{};
  }
  std::string said;

 private:
  static std::string IdWords(const SourceIdRows& ids) {
    return absl::CHexEscape(absl::StrCat(" ", ids.integers, "/", ids.data, "/", ids.lengths));
  }
  static std::string ColumnRowsWords(const std::vector<SourceColumnRows>& columns) {
    std::string words;
    for (const SourceColumnRows& each : columns) {
      absl::StrAppend(&words, " ", absl::CHexEscape(each.data), ":",
                      absl::CHexEscape(each.lengths));
    }
    return words;
  }
  const std::shared_ptr<const SourceGraphSchema> schema_;
};

TEST(ReadRequestsTest, AppendsToASourceGraph) {
  const v1::CreateSourceGraphRequest made = Request<v1::CreateSourceGraphRequest>(R"(
    name: 'graph' schema {
      node_sets { name: 'a' id_kind: NODE_ID_KIND_TEXT columns { name: 'x' dtype: DATA_TYPE_INT8 ragged: true } }
      node_sets { name: 'b' }
      edge_sets { name: 'e' source: 'b' target: 'a' columns { name: 'w' dtype: DATA_TYPE_INT8 } } })");
  SayingStore store(NewSourceGraphFromWire(made)->schema);
  const auto describe =
      [&](const v1::AppendSourceGraphRequest& request) -> absl::StatusOr<std::string> {
    SourceGraphAppendHandler handler(&store);
    store.said.clear();
    PH_ASSIGN_OR_RETURN(const std::string answers, Answers(handler, std::vector{request}));
    return absl::StrCat(store.said, answers);
  };
  const std::string lengths = absl::CHexEscape(Uint32sToWire({1, 2}));
  const std::string text = absl::StrCat("text { data: 'pqr' lengths: '", lengths, "' } ");
  ExpectRead(
      Request<v1::AppendSourceGraphRequest>(absl::StrCat(
          "graph: 'graph' graph_id: 17 producer_sequence { producer: 'p' sequence: 3 } nodes { "
          "node_set: 'a' ids { ",
          text, "} columns { name: 'x' data: '\\1\\2\\3' lengths: '", lengths,
          "' } } edges { edge_set: 'e' sources { integers: '",
          absl::CHexEscape(Uint64sToWire({21, 22})), "' } targets { ", text,
          "} columns { name: 'w' data: '\\4\\5' } }")),
      describe, {"graph_id"});
  // One after the other may name the graph again, and no other.
  SourceGraphAppendHandler handler(&store);
  const auto accept = [&](const std::string& again) {
    return handler
        .Accept(std::make_unique<v1::AppendSourceGraphRequest>(
            Request<v1::AppendSourceGraphRequest>(again)))
        .ToString();
  };
  EXPECT_EQ(accept("graph_id: 17"), "INVALID_ARGUMENT: graph: must be named in the first request");
  EXPECT_EQ(accept("graph: 'graph'"), "OK");
  EXPECT_EQ(accept("graph: 'graph' graph_id: 17"), "OK");
  EXPECT_EQ(accept(""), "OK");
  EXPECT_EQ(accept("graph: 'other'"),
            "INVALID_ARGUMENT: graph: 'other', the stream appends to 'graph'");
  EXPECT_EQ(accept("graph_id: 18"), "INVALID_ARGUMENT: graph_id: 18, the stream appends to 17");
  EXPECT_EQ(accept("nodes { node_set: 'c' }"),
            "INVALID_ARGUMENT: node_set: there is no node set 'c'");
  EXPECT_EQ(accept("edges { edge_set: 'c' }"),
            "INVALID_ARGUMENT: edge_set: there is no edge set 'c'");
  EXPECT_EQ(accept("nodes { node_set: 'a' }"), "INVALID_ARGUMENT: rows of 'a': ids are unset");
  EXPECT_EQ(accept("nodes { node_set: 'b' ids { integers: '' } columns { name: 'x' } }"),
            "INVALID_ARGUMENT: rows of 'b': column 'x' is none of the set's");
  EXPECT_EQ(accept("nodes { node_set: 'a' ids { text {} } columns { name: 'x' } columns { name: "
                   "'x' } }"),
            "INVALID_ARGUMENT: rows of 'a': column 'x' is there twice");
  EXPECT_EQ(accept("nodes { node_set: 'a' ids { text {} } }"),
            "INVALID_ARGUMENT: rows of 'a': column 'x' is missing");
  // Another graph of the name.
  const auto other = Request<v1::AppendSourceGraphRequest>("graph: 'graph' graph_id: 18");
  EXPECT_THAT(describe(other), StatusIs(absl::StatusCode::kNotFound, HasSubstr("asked for is 18")));
  EXPECT_THAT(UnreadFields(other, OrError(describe)), IsEmpty());
}

}  // namespace
}  // namespace packhouse
