// Answers tell every field: those of streams, of the kinds of epochs, and of sessions. See
// told_fields_test.cc, and told_messages_test.cc for what no test of this program has seen told.
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/batch_cost.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "service/engine/epochs/segmented_epoch.h"
#include "service/engine/jobs/evaluation.h"
#include "service/server/calls/wire_graphs.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/services/append_handler.h"
#include "service/server/services/observe_handler.h"
#include "service/server/services/pack_handler.h"
#include "service/server/wire/wire_loader.h"
#include "service/server/wire/wire_tuning.h"
#include "service/wings/graphs/epochs/sampled_epoch.h"
#include "service/wings/graphs/epochs/samples_request.h"
#include "service/wings/graphs/services/sample_handler.h"
#include "service/wings/graphs/services/samples_kind.h"
#include "service/wings/graphs/services/wire_sampling.h"
#include "service/wings/graphs/services/wire_source_graphs.h"
#include "service/wings/graphs/source_graphs/memory_source_graph.h"
#include "service/wings/partition/services/joined_kind.h"
#include "service/wings/tfgnn/tfgnn_format.h"
#include "tests/datasets/memory_dataset_store.h"
#include "tests/delivery/all_jobs.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/epochs/parts_worlds.h"
#include "tests/ledger/ledger_logs.h"
#include "tests/support/random.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/source_graph_world.h"
#include "tests/support/status_matchers.h"
#include "tests/support/unreadable_graph.h"
#include "tests/support/unwatched_streams.h"
#include "tests/wire/told_fields.h"

namespace packhouse {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

template <typename Message>
std::vector<std::string> UntoldOf(const std::deque<Message>& answers) {
  std::vector<const google::protobuf::Message*> all;
  for (const Message& each : answers) all.push_back(&each);
  EXPECT_FALSE(all.empty());
  return all.empty() ? std::vector<std::string>() : UntoldFields(all);
}

// Accepts a request in text format, and adds all answers.
template <typename Request, typename Handler, typename Answer>
void Accept(Handler& handler, const std::string& text, std::deque<Answer>& answers) {
  auto request = std::make_unique<Request>();
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, request.get())) << text;
  ASSERT_THAT(handler.Accept(std::move(request)), IsOk());
  for (;;) {
    auto next = handler.Next();
    ASSERT_THAT(next.status(), IsOk());
    if (!*next && handler.IsBusy()) continue;
    if (!*next) return;
    if constexpr (std::is_same_v<std::decay_t<decltype(**next)>, Answer>) {
      answers.push_back(**std::move(next));
    } else {
      answers.push_back(ToMessage(**next));
    }
  }
}

std::string SizesText(const std::vector<uint32_t>& counts) {
  return absl::StrCat("sizes { num_graphs: ", counts.size() / 2, " counts: '",
                      absl::CHexEscape(Uint32sToWire(counts)), "' }");
}

constexpr char kLimitsOfAnswers[] =
    "limits { capacities { component: 'nodes' rows: 512 } capacities { component: 'edges' rows: "
    "1024 } capacities { component: 'graphs' rows: 64 } } padding: PADDING_MASKED ";
constexpr char kDeviceOfAnswers[] =
    "device_profile { components { component: 'nodes' max_rows: 512 multiple_of: 8 } components { "
    "component: 'edges' max_rows: 1024 multiple_of: 8 } } padding: PADDING_MASKED calibration { "
    "num_graphs: 1000 } ";

TEST(ToldAnswersTest, OfAPackStream) {
  SimulatedClock clock;
  HistogramStore histograms{{}};
  UnwatchedStreams observers;
  std::deque<v1::PackResponse> answers;
  for (const std::string shape : {kLimitsOfAnswers, kDeviceOfAnswers}) {
    PackHandler handler(&clock, {}, &histograms, &observers);
    Accept<v1::PackRequest>(handler, absl::StrCat("open { ", shape, "drift { num_graphs: 1000 } }"),
                            answers);
    Random random(1);
    for (int request = 0; request < 12; ++request) {
      std::vector<uint32_t> counts;
      for (int i = 0; i < 500; ++i) {
        const auto nodes = static_cast<uint32_t>(random.Between(10, 30));
        counts.push_back(request < 6 ? nodes : nodes + 20);
        counts.push_back(2 * nodes);
      }
      Accept<v1::PackRequest>(handler, SizesText(counts), answers);
    }
    Accept<v1::PackRequest>(handler, SizesText({600, 1}), answers);
    Accept<v1::PackRequest>(handler, "flush { token: 5 }", answers);
  }
  std::deque<v1::PackResponse> graphs;
  PackHandler handler(&clock, {}, &histograms, &observers);
  Accept<v1::PackRequest>(
      handler,
      absl::StrCat("open { schema { components: 'nodes' components: 'edges' tensors { name: 'x' "
                   "dtype: DATA_TYPE_INT64 component: 'nodes' } } integer_width: "
                   "INTEGER_WIDTH_COMPACT ",
                   kLimitsOfAnswers, " }"),
      answers);
  Accept<v1::PackRequest>(
      handler,
      "graphs { sizes { num_graphs: 1 counts: '\\1\\0\\0\\0\\0\\0\\0\\0' first_id: 7 } tensors { "
      "name: 'x' data: '\\1\\2\\3\\4\\0\\0\\0\\0' } } ",
      answers);
  Accept<v1::PackRequest>(handler, "flush { token: 5 }", answers);
  // With the bytes of batches.
  PackHandler device(&clock, {}, &histograms, &observers);
  Accept<v1::PackRequest>(
      device,
      "open { schema { components: 'nodes' components: 'edges' tensors { name: 'x' dtype: "
      "DATA_TYPE_INT64 component: 'nodes' padding_value: '\\1\\0\\0\\0\\0\\0\\0\\0' } tensors { "
      "name: 'ends' dtype: DATA_TYPE_INT32 row_shape: 2 component: 'edges' index_into: 'nodes' "
      "layout: LAYOUT_ROWS_LAST } } padding: PADDING_MASKED device_profile { components { "
      "component: 'nodes' max_rows: 90 bytes_per_row: 10 } components { component: 'edges' "
      "max_rows: 90 bytes_per_row: 10 } components { component: 'graphs' max_rows: 9 } "
      "memory_bytes: 1000 max_distinct_shapes: 3 } calibration { num_graphs: 3 } }",
      answers);
  Accept<v1::PackRequest>(
      device,
      absl::StrCat("graphs { ", SizesText({85, 0, 1, 85, 1, 0}), " tensors { name: 'x' data: '",
                   std::string(87 * 8, 'a'), "' } tensors { name: 'ends' data: '",
                   absl::CHexEscape(std::string(85 * 8, '\0')), "' } }"),
      answers);
  // These streams have no epoch, and no malformed examples.
  EXPECT_THAT(
      UntoldOf(answers),
      UnorderedElementsAre("batch.epoch", "batch.tensors.gap", "rejected.rejections.message",
                           "tuned.oversize", "drifted.offered.shapes.batch_bytes",
                           "drifted.offered.shapes.memory_bytes", "drifted.offered.oversize"));
}

TEST(ToldAnswersTest, OfAnAppend) {
  SimulatedClock clock;
  MemoryDatasetStore store(1 << 20);
  ASSERT_THAT(store.Create("set", GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value(), {}),
              IsOk());
  std::deque<v1::AppendResponse> answers;
  AppendHandler handler(&store, nullptr, nullptr, nullptr, &clock);
  const std::string graphs = absl::StrCat("graphs { ", SizesText({1, 2, 3, 4}), " }");
  const std::string append = absl::StrCat(
      "dataset: 'set' producer_sequence { producer: 'p' sequence: 3 "
      "forget_after { seconds: 4 nanos: 5 } } ",
      graphs);
  Accept<v1::AppendRequest>(handler, append, answers);
  Accept<v1::AppendRequest>(handler, append, answers);
  EXPECT_TRUE(answers.back().is_repetition());
  // A first request may ask what is known of a producer.
  AppendHandler other(&store, nullptr, nullptr, nullptr, &clock);
  Accept<v1::AppendRequest>(other, "dataset: 'set' producer_sequence { producer: 'p' }", answers);
  // The second example is none: its first field says that it is longer.
  ASSERT_THAT(store.Create("examples",
                           GraphSchema::Create(SizeSchema::Create({"n"}).value(), {}).value(), {}),
              IsOk());
  AppendHandler examples(&store, nullptr, nullptr, nullptr, &clock, TfgnnFormat());
  Accept<v1::AppendRequest>(examples,
                            "dataset: 'examples' examples { first_id: 40 skip_malformed: true "
                            "examples: '' examples: '\\x0a\\x7f' }",
                            answers);
  EXPECT_THAT(UntoldOf(answers), UnorderedElementsAre());
}

TEST(ToldAnswersTest, OfObservations) {
  SimulatedClock clock;
  HistogramStore histograms{{}};
  std::deque<v1::ObserveResponse> answers;
  ObserveHandler handler(&clock, &histograms);
  Accept<v1::ObserveRequest>(
      handler,
      absl::StrCat("histogram: 'h' producer_sequence { producer: 'p' sequence: 3 forget_after { "
                   "seconds: 4 nanos: 5 } } ",
                   SizesText({1, 2, 3, 4})),
      answers);
  Accept<v1::ObserveRequest>(handler, "producer_sequence { producer: 'p' }", answers);
  EXPECT_THAT(UntoldOf(answers), UnorderedElementsAre());
}

TEST(ToldAnswersTest, OfSubGraphs) {
  SimulatedClock clock;
  HistogramStore histograms{{}};
  UnwatchedStreams observers;
  OneGraphStore graphs{SmallSourceGraph(60)};
  std::deque<v1::SampleResponse> answers;
  const std::string sub_graphs =
      absl::StrCat("sub_graphs { graph: 'g' text: \"", TwoHopSpec(3, 2), "\" } seed: 5 ");
  for (const std::string pack :
       {"",
        "pack { limits { capacities { component: 'n' rows: 9 } capacities { component: 'e' "
        "rows: 9 } capacities { component: 'graphs' rows: 4 } } }",
        "beyond_limits: BEYOND_LIMITS_REFUSE pack { limits { capacities { component: 'n' rows: 5 } "
        "} }"}) {
    SampleHandler handler(
        &graphs,
        std::make_unique<PackHandler>(&clock, StreamBounds(), &histograms, &observers, nullptr),
        nullptr, nullptr);
    Accept<v1::SampleRequest>(handler, absl::StrCat("open { ", sub_graphs, pack, " }"), answers);
    Accept<v1::SampleRequest>(handler,
                              absl::StrCat("seeds { first_id: 40 seeds { numbers: '",
                                           absl::CHexEscape(Uint32sToWire({12, 25, 38})), "' } }"),
                              answers);
    if (!pack.empty()) Accept<v1::SampleRequest>(handler, "flush { token: 5 }", answers);
  }
  EXPECT_THAT(
      UntoldOf(answers),
      UnorderedElementsAre("opened.schema.tensors.padding_value", "opened.schema.tensors.layout",
                           "opened.batch_bytes", "batch.epoch", "batch.tensors.declared_dtype",
                           "batch.tensors.gap", "rejected.rejections.message"));
}

TEST(ToldAnswersTest, OfRowsThatAreLookedUp) {
  const auto graph = SmallSourceGraph(60);
  MemoryHold hold;
  v1::LookupNodesRequest nodes;
  nodes.set_node_set("n");
  nodes.set_numbers(Uint32sToWire({3, 1, 4}));
  nodes.set_with_rows(true);
  nodes.set_all_columns(true);
  PH_ASSERT_OK_AND_ASSIGN(const v1::LookupNodesResponse found,
                          LookUpNodes(nodes, *graph, 1 << 20, nullptr, hold));
  EXPECT_THAT(UntoldFields(found), UnorderedElementsAre("columns.lengths"));
  v1::ReadEdgesRequest edges;
  edges.set_edge_set("e");
  edges.set_num_edges(9);
  edges.set_with_rows(true);
  PH_ASSERT_OK_AND_ASSIGN(const v1::ReadEdgesResponse read,
                          ReadEdges(edges, *graph, 1 << 20, nullptr, hold));
  EXPECT_THAT(UntoldFields(read), UnorderedElementsAre("columns"));
}

TEST(ToldAnswersTest, OfRowsOfAnyLength) {
  SourceColumnSpec ragged;
  ragged.name = "r";
  ragged.dtype = DType::kInt8;
  ragged.ragged = true;
  MemoryNodeSet node_set;
  node_set.num_nodes = 3;
  node_set.text_ids = {"p", "", "rst"};
  node_set.columns.push_back({"abcd", {0, 1, 1, 4}});
  std::vector<MemoryNodeSet> node_sets;
  node_sets.push_back(std::move(node_set));
  const auto graph = MakeMemorySourceGraph(SourceGraphSchema::Create({{"n", {ragged}}}, {}).value(),
                                           /*version=*/42, std::move(node_sets), {})
                         .value();
  MemoryHold hold;
  v1::LookupNodesRequest nodes;
  nodes.set_node_set("n");
  nodes.set_numbers(Uint32sToWire({2, 1, 0}));
  nodes.set_all_columns(true);
  PH_ASSERT_OK_AND_ASSIGN(const v1::LookupNodesResponse found,
                          LookUpNodes(nodes, *graph, 1 << 20, nullptr, hold));
  EXPECT_THAT(UntoldFields(found), UnorderedElementsAre("rows"));
  EXPECT_EQ(found.ids().text().data(), "rstp");
  EXPECT_EQ(found.ids().text().lengths(), Uint32sToWire({3, 0, 1}));
  EXPECT_EQ(found.columns(0).data(), "bcda");
  EXPECT_EQ(found.columns(0).lengths(), Uint32sToWire({3, 0, 1}));
}

// As many bytes as there may be, and three times as many are held; one less is refused.
TEST(ToldAnswersTest, RowsAreNoMoreThanAMessageMayHave) {
  SourceColumnSpec ragged;
  ragged.name = "r";
  ragged.dtype = DType::kInt16;
  ragged.ragged = true;
  SourceColumnSpec wide;
  wide.name = "w";
  wide.dtype = DType::kInt8;
  wide.row_shape = {3};
  MemoryNodeSet node_set;
  node_set.num_nodes = 3;
  node_set.text_ids = {"", "p", "rst"};
  node_set.columns = {{"aabbccdd", {0, 0, 1, 4}}, {"123456789", {}}};
  MemoryEdgeSet edge_set;
  edge_set.sources = {0, 0, 2, 1};
  edge_set.targets = {1, 2, 0, 2};
  edge_set.columns.push_back({"xxxyyyzzzuuu", {}});
  std::vector<MemoryNodeSet> node_sets;
  node_sets.push_back(std::move(node_set));
  std::vector<MemoryEdgeSet> edge_sets;
  edge_sets.push_back(std::move(edge_set));
  const auto graph =
      MakeMemorySourceGraph(
          SourceGraphSchema::Create({{"n", {ragged, wide}}}, {{"e", 0, 0, {wide}, std::nullopt}})
              .value(),
          /*version=*/42, std::move(node_sets), std::move(edge_sets))
          .value();
  const auto expect_bytes = [](const auto& answer, uint64_t bytes) {
    MemoryBudget memory(3 * bytes);
    MemoryHold hold;
    EXPECT_THAT(answer(bytes, &memory, hold).status(), IsOk());
    EXPECT_EQ(hold.bytes(), 3 * bytes);
    EXPECT_THAT(answer(bytes - 1, &memory, hold).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         absl::StrCat("the rows take more than the ", bytes - 1,
                                      " bytes that a message may have: ask for fewer")));
    hold.Reset();
    MemoryBudget less(3 * bytes - 1);
    EXPECT_THAT(
        answer(bytes, &less, hold).status(),
        StatusIs(absl::StatusCode::kResourceExhausted,
                 HasSubstr(absl::StrCat(" rows of a source graph of ", 3 * bytes, " bytes "))));
  };
  for (int way = 0; way < 8; ++way) {
    const bool by_id = (way & 1) != 0;
    const bool with_rows = (way & 2) != 0;
    const bool has_columns = (way & 4) != 0;
    v1::LookupNodesRequest nodes;
    nodes.set_node_set("n");
    nodes.set_all_columns(has_columns);
    nodes.set_with_rows(with_rows);
    if (by_id) {
      nodes.mutable_ids()->mutable_text()->set_data("rstqp");
      nodes.mutable_ids()->mutable_text()->set_lengths(Uint32sToWire({3, 1, 1}));
    } else {
      nodes.set_numbers(Uint32sToWire({2, 1, 0}));
    }
    // A number of each; ids, if they were not given; a length, and 2 for each of its numbers; 3.
    const uint64_t ids = by_id ? 0 : 3 * 4 + 4;
    const uint64_t columns = has_columns ? (3 * 4 + 4 * 2) + 3 * 3 : 0;
    expect_bytes([&](size_t most, MemoryBudget* memory,
                     MemoryHold& hold) { return LookUpNodes(nodes, *graph, most, memory, hold); },
                 1024 + 3 * 4 + ids + columns + (with_rows ? 3 * 8 : 0));
    v1::ReadEdgesRequest edges;
    edges.set_edge_set("e");
    edges.set_first_edge(1);
    edges.set_num_edges(3);
    edges.set_all_columns(has_columns);
    edges.set_with_rows(with_rows);
    expect_bytes([&](size_t most, MemoryBudget* memory,
                     MemoryHold& hold) { return ReadEdges(edges, *graph, most, memory, hold); },
                 1024 + 3 * 8 + (has_columns ? 3 * 3 : 0) + (with_rows ? 3 * 8 : 0));
  }
  // What is not there has no rows: zeros, or none at all.
  v1::LookupNodesRequest nodes;
  nodes.set_node_set("n");
  nodes.set_all_columns(true);
  nodes.set_with_rows(true);
  nodes.mutable_ids()->mutable_text()->set_data("rstqp");
  nodes.mutable_ids()->mutable_text()->set_lengths(Uint32sToWire({3, 1, 1}));
  MemoryHold hold;
  PH_ASSERT_OK_AND_ASSIGN(const v1::LookupNodesResponse found,
                          LookUpNodes(nodes, *graph, 1 << 20, nullptr, hold));
  EXPECT_EQ(hold.bytes(), 0U);
  EXPECT_EQ(found.version(), 42U);
  EXPECT_EQ(found.numbers(), Uint32sToWire({2, 0xffffffff, 1}));
  EXPECT_EQ(found.rows(), Uint64sToWire({2, ~uint64_t{0}, 1}));
  EXPECT_EQ(found.columns(0).data(), "bbccddaa");
  EXPECT_EQ(found.columns(0).lengths(), Uint32sToWire({3, 0, 1}));
  EXPECT_EQ(found.columns(1).data(), std::string("789\0\0\0"
                                                 "456",
                                                 9));
  EXPECT_EQ(found.columns(1).lengths(), "");
}

// Nothing of what is damaged is told; edges need one order of the two.
TEST(ToldAnswersTest, RowsThatCannotBeReadAreNotTold) {
  using Graph = UnreadableGraph;
  const auto graph_with = [](const auto& change) {
    SourceColumnSpec column;
    column.name = "x";
    column.dtype = DType::kInt8;
    MemoryNodeSet nodes;
    nodes.num_nodes = 3;
    nodes.text_ids = {"p", "q", "rst"};
    nodes.columns = {{"abc", {}}};
    MemoryEdgeSet edges;
    edges.sources = {0, 0, 2, 1};
    edges.targets = {1, 2, 0, 2};
    edges.columns = {{"ghij", {}}};
    auto schema =
        SourceGraphSchema::Create({{"n", {column}}}, {{"e", 0, 0, {column}, std::nullopt}});
    auto graph = std::make_unique<Graph>(
        MakeMemorySourceGraph(*std::move(schema), /*version=*/42, {nodes}, {edges}).value());
    change(*graph);
    return graph;
  };
  const auto nodes = [&](bool by_id, const auto& change) {
    v1::LookupNodesRequest request;
    request.set_node_set("n");
    request.set_all_columns(true);
    request.set_with_rows(true);
    request.set_numbers(Uint32sToWire({0, 1, 2}));
    if (by_id) {
      request.clear_numbers();
      request.mutable_ids()->mutable_text()->set_data("rst");
      request.mutable_ids()->mutable_text()->set_lengths(Uint32sToWire({3}));
    }
    MemoryHold hold;
    return LookUpNodes(request, *graph_with(change), 1 << 20, nullptr, hold).status().ToString();
  };
  const auto edges = [&](const auto& change) {
    v1::ReadEdgesRequest request;
    request.set_edge_set("e");
    request.set_num_edges(4);
    request.set_all_columns(true);
    request.set_with_rows(true);
    MemoryHold hold;
    const auto read = ReadEdges(request, *graph_with(change), 1 << 20, nullptr, hold);
    if (!read.ok()) return read.status().ToString();
    std::multiset<std::pair<uint32_t, uint32_t>> ends;
    const std::vector<uint32_t> sources = Uint32sFromWire(read->sources());
    for (size_t i = 0; i < sources.size(); ++i) {
      ends.emplace(sources[i], Uint32sFromWire(read->targets())[i]);
    }
    const std::multiset<std::pair<uint32_t, uint32_t>> expected = {{0, 1}, {0, 2}, {1, 2}, {2, 0}};
    EXPECT_EQ(ends, expected);
    return std::string("OK");
  };
  const auto damage = [](absl::string_view array, uint64_t bytes) {
    return "DATA_LOSS: " + Graph::DamageOf(array, bytes);
  };
  for (const bool by_id : {false, true}) {
    EXPECT_EQ(nodes(by_id, [](Graph&) {}), "OK");
    EXPECT_EQ(nodes(by_id, [](Graph& g) { g.DamageIds(0); }), damage("ids 0", 5));
    EXPECT_EQ(nodes(by_id, [](Graph& g) { g.DamageNodeColumn(0, 0); }), damage("node 0 0", 3));
    EXPECT_EQ(nodes(by_id, [](Graph& g) { g.DamageNodeRows(0); }), damage("node rows 0", 24));
  }
  const absl::Status none = absl::FailedPreconditionError("no such order");
  const absl::Status lost = absl::DataLossError("rows are lost");
  EXPECT_EQ(edges([](Graph&) {}), "OK");
  EXPECT_EQ(edges([](Graph& g) { g.DamageEdgeColumn(0, 0); }), damage("edge 0 0", 4));
  EXPECT_EQ(edges([](Graph& g) { g.DamageEdgeRows(0); }), damage("edge rows 0", 32));
  EXPECT_EQ(edges([&](Graph& g) { g.RefuseBySource(0, none); }), "OK");
  EXPECT_EQ(edges([&](Graph& g) { g.RefuseBySource(0, lost); }), lost.ToString());
  EXPECT_EQ(edges([&](Graph& g) { g.RefuseByTarget(0, lost); }), lost.ToString());
  EXPECT_EQ(edges([&](Graph& g) { g.RefuseByTarget(0, none); }), none.ToString());
}

// Each way to name nodes says what is wrong with it.
TEST(ToldAnswersTest, RowsThatCannotBeLookedUpAreNamed) {
  const auto graph = SmallSourceGraph(60);
  const auto nodes = [&](auto change) {
    v1::LookupNodesRequest request;
    request.set_node_set("n");
    change(request);
    MemoryHold hold;
    return LookUpNodes(request, *graph, size_t{1} << 30, nullptr, hold).status().ToString();
  };
  const auto edges = [&](auto change) {
    v1::ReadEdgesRequest request;
    request.set_edge_set("e");
    change(request);
    MemoryHold hold;
    return ReadEdges(request, *graph, size_t{1} << 30, nullptr, hold).status().ToString();
  };
  using Nodes = v1::LookupNodesRequest;
  using Edges = v1::ReadEdgesRequest;
  EXPECT_EQ(nodes([](Nodes& r) { r.set_node_set("m"); }),
            "INVALID_ARGUMENT: node_set: there is no node set 'm'");
  EXPECT_EQ(nodes([](Nodes& r) { r.add_columns("y"); }),
            "INVALID_ARGUMENT: columns: 'n' has no column 'y'");
  EXPECT_EQ(nodes([](Nodes& r) { r.set_numbers("abc"); }),
            "INVALID_ARGUMENT: numbers: 3 bytes, a number has 4");
  EXPECT_EQ(nodes([](Nodes& r) {
              r.set_numbers(Uint32sToWire({59, 60}));
            }),
            "OUT_OF_RANGE: numbers: row 1 is 60, 'n' has 60 nodes");
  EXPECT_EQ(edges([](Edges& r) { r.set_edge_set("d"); }),
            "INVALID_ARGUMENT: edge_set: there is no edge set 'd'");
  const uint64_t all = graph->num_edges(0);
  EXPECT_EQ(edges([&](Edges& r) { r.set_first_edge(all); }), "OK");
  EXPECT_EQ(edges([&](Edges& r) { r.set_first_edge(all + 1); }),
            absl::StrCat("OUT_OF_RANGE: first_edge: ", all + 1, ", 'e' has ", all, " edges"));
  EXPECT_EQ(edges([](Edges& r) { r.set_num_edges(1 << 24); }), "OK");
  EXPECT_EQ(edges([](Edges& r) { r.set_num_edges((1 << 24) + 1); }),
            "INVALID_ARGUMENT: 16777217 rows, beyond 16777216");
}

TunedShape ShapeOf(uint64_t number) {
  TunedShape shape;
  shape.capacities = {number + 1, number + 2, number + 3};
  shape.packs = number + 4;
  shape.lower_bound = number + 5;
  shape.epoch_cost = static_cast<double>(number) + 6.5;
  shape.harmonic_mean = 1 / static_cast<double>(number + 7);
  shape.components = {{number + 10, 0.5, number + 11, 0.25},
                      {number + 12, 0.125, number + 13, 0.75},
                      {number + 14, 0.375, number + 15, 0.625}};
  shape.batch_bytes = number + 8;
  return shape;
}

TEST(ToldAnswersTest, OfASearchForLimits) {
  TuneResult result;
  result.shapes = {ShapeOf(100)};
  result.single_shape = ShapeOf(200);
  result.cheapest_shape = ShapeOf(300);
  result.epoch_cost = 11.5;
  result.least_cost = 12.5;
  result.harmonic_mean = 0.625;
  result.exact = true;
  result.reasons = {"reason"};
  OversizeGraphs& oversize = result.oversize.emplace();
  oversize.num_graphs = 71;
  oversize.num_apart = 72;
  oversize.num_shapes = 73;
  oversize.largest = {74, 75};
  oversize.needed_rows = {76, 77, 78};
  oversize.needed_bytes = 79;
  result.group_graphs = {81};
  result.frontier = {ShapeOf(400)};
  result.cells = {{{91, 92, 93}, 0.875, 94.5, true}};
  ByteQuota quota(1 << 20);
  PH_ASSERT_OK_AND_ASSIGN(
      const auto answers,
      TuneAnswers::Create(std::move(result), SizeSchema::NodesAndEdges(), &quota));
  std::deque<v1::TuneResponse> all;
  for (;;) {
    PH_ASSERT_OK_AND_ASSIGN(auto next, answers->Next());
    if (!next) break;
    all.push_back(*std::move(next));
  }
  ASSERT_EQ(all.size(), 3U);
  EXPECT_THAT(UntoldOf(all), UnorderedElementsAre());
  EXPECT_EQ(all[0].cell().capacities(2), 93U);
  EXPECT_EQ(all[1].frontier().packs(), 404U);
  const v1::TuneRecommendation& told = all[2].recommendation();
  EXPECT_EQ(told.shapes(0).packs(), 104U);
  EXPECT_EQ(told.single_shape().packs(), 204U);
  EXPECT_EQ(told.cheapest_shape().packs(), 304U);
  EXPECT_EQ(told.least_cost(), 12.5);
  EXPECT_EQ(all[0].cell().ShortDebugString(),
            "capacities: 91 capacities: 92 capacities: 93 harmonic_mean: 0.875 epoch_cost: 94.5 "
            "planned: true");
  EXPECT_EQ(
      all[1].frontier().ShortDebugString(),
      "limits { capacities { component: \"nodes\" rows: 401 } capacities { component: \"edges\" "
      "rows: 402 } capacities { component: \"graphs\" rows: 403 } } packs: 404 lower_bound: 405 "
      "epoch_cost: 406.5 harmonic_mean: 0.0024570024570024569 components { component: \"nodes\" "
      "capacity: 410 efficiency: 0.5 fullest_pack: 411 efficiency_of_fullest: 0.25 } components { "
      "component: \"edges\" capacity: 412 efficiency: 0.125 fullest_pack: 413 "
      "efficiency_of_fullest: 0.75 } components { component: \"graphs\" capacity: 414 efficiency: "
      "0.375 fullest_pack: 415 efficiency_of_fullest: 0.625 } batch_bytes: 408");
  v1::TuneRecommendation rest = told;
  rest.clear_shapes();
  rest.clear_single_shape();
  rest.clear_cheapest_shape();
  EXPECT_EQ(
      rest.ShortDebugString(),
      "epoch_cost: 11.5 least_cost: 12.5 harmonic_mean: 0.625 exact: true reasons: \"reason\" "
      "oversize { num_graphs: 71 largest: 74 largest: 75 needed_rows: 76 needed_rows: 77 "
      "needed_rows: 78 num_apart: 72 needed_bytes: 79 num_shapes: 73 } group_graphs: 81");
}

EpochProgress SomeProgress() {
  EpochProgress progress;
  progress.generation = 17;
  progress.num_done = 5;
  progress.share = {31, 6, true, 41, 51};
  return progress;
}

TEST(ToldAnswersTest, OfAnEpochOfSubGraphs) {
  OneGraphStore graphs{SmallSourceGraph(60)};
  SubGraphsRequest sub_graphs;
  sub_graphs.graph = "g";
  sub_graphs.spec = tfgnn::ParseSamplingSpec(TwoHopSpec(3, 2)).value();
  EpochRequest request;
  request.key = {"job", 1007};
  request.rank_groups.push_back({{{60, 80, 8}}, std::nullopt, 1});
  request.padding = Padding::kMasked;
  const SamplesKind kind(nullptr);
  const auto samples = std::make_shared<SamplesRequest>();
  samples->source = SubGraphSource::Create(graphs.Open("g").value(), sub_graphs).value();
  samples->window = 25;
  samples->teller = &kind;
  request.kinds.push_back(samples);
  PH_ASSERT_OK_AND_ASSIGN(
      const auto epoch,
      SampledEpoch::Prepare(samples->source, request, EpochBounds(), Making(), nullptr, nullptr));
  v1::Epoch wire;
  EpochToWire(*epoch, SomeProgress(), wire);
  EXPECT_THAT(UntoldFields(wire),
              UnorderedElementsAre("num_rejected", "rejections", "rank_groups.shapes.components",
                                   "lower_bound", "receipt", "joined_parts", "num_cut_graphs",
                                   "num_pieces", "segments", "company", "steps", "mixture"));
  EXPECT_EQ(wire.samples().num_seeds(), 60U);
  EXPECT_EQ(wire.samples().num_windows(), 3U);
}

TEST(ToldAnswersTest, OfAnEpochOfJoinedParts) {
  const JoinedKind kind;
  // One whose parts have edges within, between, and again in a batch.
  std::unique_ptr<PartsWorld> world;
  std::shared_ptr<const JoinedEpoch> epoch;
  for (uint64_t seed = 0;
       epoch == nullptr || epoch->edges().restored == 0 || epoch->edges().inner == 0 ||
       epoch->edges().restored == epoch->edges().cut;
       ++seed) {
    ASSERT_LT(seed, 100U);
    world = std::make_unique<PartsWorld>(seed);
    if (!world->has_edge_sets()) continue;
    EpochRequest request = world->Request(world->HalfOfAll(), 1007);
    request.kinds = {std::make_shared<JoinedParts>(&kind)};
    PH_ASSERT_OK_AND_ASSIGN(epoch, world->Prepare(request));
  }
  v1::Epoch wire;
  EpochToWire(*epoch, SomeProgress(), wire);
  EXPECT_THAT(
      UntoldFields(wire),
      UnorderedElementsAre("num_batches: 2, as dataset_version", "num_rejected", "rejections",
                           "rank_groups.shapes.components", "rank_groups.shapes.batch_bytes",
                           "lower_bound", "receipt", "samples", "num_cut_graphs", "num_pieces",
                           "segments", "company", "steps", "mixture"));
  EXPECT_EQ(wire.joined_parts().num_inner_edges(), epoch->edges().inner);
  EXPECT_EQ(wire.joined_parts().num_cut_edges(), epoch->edges().cut);
  EXPECT_EQ(wire.joined_parts().num_restored_edges(), epoch->edges().restored);
}

TEST(ToldAnswersTest, OfAnEpochInSegmentsAndItsEvaluation) {
  DatasetWorld world(600);
  world.Seal();
  EpochBounds bounds;
  bounds.planner_steps = 1000;
  EpochCatalog catalog(&world.store(), bounds);
  EpochRequest request = DatasetWorld::Request({24, 30, 6}, 1007);
  request.key.job.clear();
  request.segments = SegmentsRequest{300, 1};
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.PrepareSegmented(request));
  v1::Epoch wire;
  EpochToWire(*epoch, SomeProgress(), wire);
  EXPECT_THAT(UntoldFields(wire),
              UnorderedElementsAre("job", "num_rejected", "rejections", "samples", "joined_parts",
                                   "num_cut_graphs", "num_pieces", "company", "steps", "mixture"));
  EXPECT_EQ(wire.segments().num_segments(), epoch->plan().layout().num_segments());
  EXPECT_EQ(wire.segments().num_tracks(), 1U);
  EXPECT_EQ(wire.segments().max_graphs(), epoch->plan().layout().max_graphs());

  // Steps of like cost, once the first segment is there.
  EpochRequest by_cost = request;
  by_cost.cost_balanced.emplace().cost = BatchCost::Create({{CostForm::kRows, 1, 1}}, 2).value();
  by_cost.rank_groups[0].num_ranks = 2;
  PH_ASSERT_OK_AND_ASSIGN(const auto balanced, catalog.PrepareSegmented(by_cost));
  wire.Clear();
  EpochToWire(*balanced, SomeProgress(), wire);
  EXPECT_FALSE(wire.has_steps());
  ASSERT_TRUE(balanced->MeasureCompany(Making()).value().has_value());
  EpochToWire(*balanced, SomeProgress(), wire);
  EXPECT_EQ(wire.steps().efficiency(), balanced->steps()->efficiency);
  EXPECT_THAT(UntoldFields(wire), Each(Not(HasSubstr("steps"))));

  EvaluationRequest asked;
  asked.sharing = Sharing::Ranked(3);
  asked.rank = 1;
  asked.first_step = 2;
  PH_ASSERT_OK_AND_ASSIGN(
      const auto evaluation,
      Evaluation::Open(
          epoch, asked, nullptr, [](uint32_t, SegmentMakings::Waiter) {}, [] {}));
  v1::LoadOpened opened;
  EvaluationOpenedToWire(*evaluation, opened);
  EXPECT_THAT(
      UntoldFields(opened),
      UnorderedElementsAre(
          "epoch.job", "epoch.num_rejected", "epoch.rejections", "epoch.num_done",
          "epoch.generation", "epoch.samples", "epoch.joined_parts", "epoch.num_cut_graphs",
          "epoch.num_pieces", "epoch.company", "epoch.share.num_steps_is_estimate",
          "epoch.share.num_batches_before",
          absl::StrCat("epoch.share.num_steps_of_epoch: ", opened.num_steps(), ", as num_steps"),
          "epoch.steps", "epoch.mixture", "schema.tensors.padding_value", "schema.tensors.layout",
          "generation", "session", "cursor", "num_steps_is_estimate", "lane"));
  EXPECT_EQ(opened.num_steps_done(), 2U);
}

TEST(ToldAnswersTest, OfASession) {
  DatasetWorld world(60);
  world.Seal();
  EpochCatalog catalog(&world.store(), {});
  FailingLog log;
  LogsOfJobs logs(&log);
  PH_ASSERT_OK_AND_ASSIGN(const auto loader, AllJobs::Open(&catalog, &logs, {}));
  JoinRequest join;
  join.sharing = Sharing::Ranked(2);
  join.queue = 1;
  PH_ASSERT_OK_AND_ASSIGN(const auto first,
                          loader->Load(DatasetWorld::Request({24, 30, 6}, 1007), join, 4, [] {}));
  const LoadStart& start = first->start();
  for (int i = 0; i < 3; ++i) {
    PH_ASSERT_OK_AND_ASSIGN(const LoadEvent batch, first->Next(absl::UnixEpoch()));
    ASSERT_THAT(
        loader->Acknowledge(first->epoch().identity().key, start.session, start.join.generation,
                            std::vector{batch.number}, absl::UnixEpoch()),
        IsOk());
  }
  join.generation = start.join.generation;
  PH_ASSERT_OK_AND_ASSIGN(const auto second,
                          loader->Load(DatasetWorld::Request({24, 30, 6}, 1007), join, 4, [] {}));
  v1::LoadOpened wire;
  LoadOpenedToWire(*second, wire);
  EXPECT_THAT(
      UntoldFields(wire),
      UnorderedElementsAre(
          "epoch.num_rejected", "epoch.rejections",
          absl::StrCat("epoch.lower_bound: ", wire.epoch().num_batches(), ", as num_batches"),
          "epoch.samples", "epoch.joined_parts", "epoch.num_cut_graphs", "epoch.num_pieces",
          "epoch.company", "epoch.segments", "epoch.share.num_steps_is_estimate",
          "epoch.share.num_batches_before",
          absl::StrCat("epoch.share.num_steps_of_epoch: ", wire.num_steps(), ", as num_steps"),
          "epoch.steps", "epoch.mixture", "schema.tensors.padding_value", "schema.tensors.layout",
          "num_steps_is_estimate", "lane"));
  EXPECT_EQ(wire.session(), second->start().session);
  EXPECT_EQ(wire.generation(), start.join.generation);
  EXPECT_EQ(wire.num_steps(), second->start().num_steps);
  EXPECT_EQ(wire.num_steps_done(), 3U);
  EXPECT_EQ(wire.cursor(), second->start().join.cursor);
}

}  // namespace
}  // namespace packhouse
