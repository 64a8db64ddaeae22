// What an import asks a server, what it makes of the answers, and which of them end it.
#include "client/graph/source_graphs/graph_import.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/channel.h"
#include "client/cpp/little_endian.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scripted_server.h"
#include "tests/support/status_matchers.h"

namespace packhouse::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Answer = ScriptedServer::Answer;

// Rows from 0 on, three at once; then an error.
class Rows final : public TableReader {
 public:
  Rows(size_t set, bool is_edges, uint64_t count, absl::Status end)
      : set_(set), is_edges_(is_edges), left_(count), end_(std::move(end)) {}

  absl::StatusOr<bool> Read(size_t max_bytes, graph_files::SourceRows* rows) override {
    EXPECT_EQ(max_bytes, 777);
    *rows = {};
    rows->set = set_;
    rows->is_edges = is_edges_;
    for (; left_ > 0 && rows->count < 3; --left_, ++rows->count) {
      for (graph_files::IdRows* const ids : {&rows->ids, &rows->sources, &rows->targets}) {
        if ((ids == &rows->ids) != is_edges_) ids->numbers.push_back(0);
      }
    }
    if (rows->count == 0 && !end_.ok()) return end_;
    return rows->count != 0;
  }

 private:
  const size_t set_;
  const bool is_edges_;
  uint64_t left_;
  const absl::Status end_;
};

// A server of one graph, with node sets p and q and edges e from p to q, of which q has no table.
class GraphImportTest : public testing::Test {
 protected:
  GraphImportTest() {
    options_.graph = "g";
    options_.producer = "me";
    options_.chunk_bytes = 777;
    options_.retry.patience = absl::ZeroDuration();
    options_.on_progress = [this](const GraphImportTotals& totals, double sealed) {
      EXPECT_LE(totals.bytes, 1000);
      progress_.push_back(
          absl::StrCat(totals.nodes, " ", totals.edges, " ", totals.rows_present, " ", sealed));
    };
    graph_.set_name("g");
    graph_.set_id(77);
    graph_.set_state(v1::SOURCE_GRAPH_STATE_OPEN);
    *graph_.mutable_schema() = WireSchema();
  }

  static SourceTables Tables(uint64_t nodes, uint64_t edges,
                             const absl::Status& end = absl::OkStatus()) {
    SourceTables tables = {
        SourceGraphSchema::Create({{"p", {}}, {"q", {}}}, {{"e", 0, 1, {}, {}}}).value(),
        false,
        {},
        "fingerprint"};
    const auto add = [&tables](bool is_edges, uint64_t count, const absl::Status& of_end) {
      tables.tables.emplace_back([=]() -> absl::StatusOr<std::unique_ptr<TableReader>> {
        return std::make_unique<Rows>(0, is_edges, count, of_end);
      });
    };
    add(false, nodes, end);
    add(true, edges, absl::OkStatus());
    return tables;
  }
  static v1::SourceGraphSchema WireSchema() {
    v1::SourceGraphSchema schema;
    for (const char* const name : {"p", "q"}) {
      v1::SourceNodeSet& set = *schema.add_node_sets();
      set.set_name(name);
      set.set_id_kind(v1::NODE_ID_KIND_INTEGER);
    }
    v1::SourceEdgeSet& set = *schema.add_edge_sets();
    set.set_name("e");
    set.set_source("p");
    set.set_target("q");
    return schema;
  }
  template <typename Message>
  static Answer One(const Message& message) {
    return {{message.SerializeAsString()}, {}};
  }

  // As the server does that has not the graph yet, but for the request of this number.
  Answer Answered(const ScriptedServer::Asked& asked) {
    methods_.push_back(asked.method.substr(asked.method.find('/') + 1));
    if (methods_.size() - 1 == refused_) return {{}, {grpc::StatusCode::DATA_LOSS, "not so"}};
    const std::string& method = methods_.back();
    if (method == "GetSourceGraph") {
      if (!is_there_) return {{}, {grpc::StatusCode::NOT_FOUND, "none"}};
      return One(graph_);
    }
    if (method == "CreateSourceGraph") {
      EXPECT_TRUE(created_.ParseFromString(asked.request));
      is_there_ = true;
      return One(graph_);
    }
    if (method == "AppendSourceGraph") return Appended(asked);
    if (method == "SealSourceGraph") {
      v1::SealSourceGraphResponse first;
      v1::SealSourceGraphResponse second;
      second.set_work_done(1);
      second.set_work_total(4);
      v1::SealSourceGraphResponse last = second;
      last.set_work_done(4);
      *last.mutable_graph() = graph_;
      last.mutable_graph()->clear_num_nodes();
      for (const uint64_t nodes : {num_nodes_, uint64_t{9}}) {
        last.mutable_graph()->add_num_nodes(nodes);
      }
      return {{first.SerializeAsString(), second.SerializeAsString(), last.SerializeAsString()},
              {}};
    }
    EXPECT_EQ(method, "LookupNodes");
    v1::LookupNodesRequest request;
    EXPECT_TRUE(request.ParseFromString(asked.request));
    EXPECT_EQ(absl::StrCat(request.graph(), " ", request.node_set()), "g p");
    const uint64_t row = LittleEndianView<uint64_t>(request.rows())[0];
    EXPECT_GE(row, graph_.num_nodes(0));
    if (row >= graph_.num_nodes(0) + num_without_) {
      return {{}, {grpc::StatusCode::OUT_OF_RANGE, "no row"}};
    }
    return One(v1::LookupNodesResponse());
  }
  Answer Appended(const ScriptedServer::Asked& asked) {
    v1::AppendSourceGraphRequest request;
    EXPECT_TRUE(request.ParseFromString(asked.request));
    EXPECT_EQ(request.graph_id(), 77);
    EXPECT_EQ(request.producer_sequence().producer(), "me");
    v1::AppendSourceGraphResponse response;
    *response.mutable_producer_sequence() = request.producer_sequence();
    response.mutable_producer_state()->set_first_remembered_sequence(1);
    response.set_is_repetition(is_repetition_ && request.producer_sequence().sequence() != 0);
    for (const auto& nodes : request.nodes()) {
      response.set_num_nodes(nodes.ids().integers().size() / 8);
      graph_.set_num_nodes(0, graph_.num_nodes(0) + response.num_nodes());
    }
    for (const auto& edges : request.edges()) {
      response.set_num_edges(edges.sources().integers().size() / 8);
      graph_.set_num_edges(0, graph_.num_edges(0) + response.num_edges());
    }
    Answer answer = One(response);
    answer.goes_on = true;
    return answer;
  }

  // A new run. `refused`: the number of the request that fails.
  absl::StatusOr<GraphImportResult> Import(const SourceTables& tables, size_t refused = SIZE_MAX) {
    methods_.clear();
    progress_.clear();
    refused_ = refused;
    graph_.clear_num_nodes();
    graph_.clear_num_edges();
    for (int i = 0; i < 2; ++i) graph_.add_num_nodes(0);
    graph_.add_num_edges(0);
    server_.Plays([this](const ScriptedServer::Asked& asked) { return Answered(asked); });
    ChannelOptions channel;
    channel.retries = false;
    channel.secured_by = Credentials();
    return ImportGraph(options_, Servers(MakeChannel(server_.address(), channel)), tables);
  }

  GraphImportOptions options_;
  ScriptedServer server_;
  v1::SourceGraph graph_;
  v1::CreateSourceGraphRequest created_;
  bool is_there_ = false;
  bool is_repetition_ = false;
  size_t refused_ = 0;
  // Of the sealed graph's p: all, and those that only edges name.
  uint64_t num_nodes_ = 0;
  uint64_t num_without_ = 0;
  std::vector<std::string> methods_;
  std::vector<std::string> progress_;
};

TEST_F(GraphImportTest, WhateverIsRefusedIsTheCallers) {
  options_.seal = true;
  num_nodes_ = 5;
  const size_t num_requests = 10;
  for (size_t refused = 0; refused <= num_requests; ++refused) {
    SCOPED_TRACE(refused);
    is_there_ = false;
    const auto result = Import(Tables(5, 2), refused);
    const std::vector<std::string> all = {
        "GetSourceGraph",    "CreateSourceGraph", "AppendSourceGraph",
        "AppendSourceGraph", "AppendSourceGraph", "AppendSourceGraph",
        "GetSourceGraph",    "SealSourceGraph",   "LookupNodes"};
    if (refused >= 8) {
      // Who may not look nodes up is told less.
      ASSERT_THAT(result, IsOk());
      EXPECT_EQ(methods_, all);
      EXPECT_THAT(result->notes, IsEmpty());
      EXPECT_THAT(progress_,
                  ElementsAre("3 0 0 -1", "5 0 0 -1", "5 2 0 -1", "5 2 0 0.25", "5 2 0 1"));
      EXPECT_GT(result->totals.bytes, 0);
      EXPECT_EQ(result->graph.num_nodes(1), 9);
      continue;
    }
    EXPECT_EQ(result.status(), absl::DataLossError("not so"));
    EXPECT_EQ(methods_, std::vector<std::string>(all.begin(), all.begin() + refused + 1));
  }
  // As it was asked for.
  v1::CreateSourceGraphRequest wanted;
  wanted.set_name("g");
  *wanted.mutable_schema() = WireSchema();
  EXPECT_EQ(created_.SerializeAsString(), wanted.SerializeAsString());
}

TEST_F(GraphImportTest, RowsThatWereThereCountAsSuch) {
  is_repetition_ = true;
  options_.max_bytes = 99;
  options_.appended_only = true;
  const auto result = Import(Tables(4, 1));
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(progress_, ElementsAre("3 0 3 -1", "4 0 4 -1", "4 1 5 -1"));
  EXPECT_EQ(methods_.back(), "GetSourceGraph");
  EXPECT_EQ(result->graph.num_nodes(0), 4);
  EXPECT_EQ(created_.max_bytes(), 99);
  EXPECT_TRUE(created_.schema().node_sets(0).appended_only());
  EXPECT_TRUE(created_.schema().node_sets(1).appended_only());
  options_.on_progress = nullptr;
  options_.appended_only = false;
  EXPECT_THAT(Import(Tables(4, 1)), IsOk());
}

TEST_F(GraphImportTest, AGraphThatTakesNoSuchRowsGetsNone) {
  is_there_ = true;
  const auto refused = [&] {
    const absl::Status status = Import(Tables(4, 1)).status();
    EXPECT_THAT(methods_, ElementsAre("GetSourceGraph"));
    return status;
  };
  graph_.set_state(v1::SOURCE_GRAPH_STATE_SEALED);
  EXPECT_EQ(refused(),
            absl::FailedPreconditionError("source graph 'g' is sealed: it takes no more rows"));
  graph_.set_state(v1::SOURCE_GRAPH_STATE_OPEN);
  options_.appended_only = true;
  for (const bool of_first : {false, true}) {
    graph_.mutable_schema()->mutable_node_sets(0)->set_appended_only(of_first);
    EXPECT_EQ(refused(), absl::FailedPreconditionError(
                             "source graph 'g' was created without --appended-only; delete it, or "
                             "import without"));
  }
  graph_.mutable_schema()->mutable_node_sets(1)->set_appended_only(true);
  EXPECT_THAT(Import(Tables(4, 1)), IsOk());
  options_.appended_only = false;
  EXPECT_THAT(Import(Tables(4, 1)), IsOk());
  graph_.mutable_schema()->mutable_edge_sets(0)->set_source("q");
  EXPECT_EQ(refused(), absl::FailedPreconditionError(
                           "source graph 'g' has the edge set e from q to q with columns (), the "
                           "source has e from p to q with columns ()"));
}

TEST_F(GraphImportTest, OfFilesThatAreRefusedItIsToldWhatTheyLeave) {
  is_there_ = true;
  const absl::Status bad = absl::InvalidArgumentError("f: line 5");
  EXPECT_EQ(Import(Tables(0, 0, bad)).status(), bad);
  EXPECT_EQ(Import(Tables(4, 0, bad)).status(),
            absl::InvalidArgumentError(
                "f: line 5; source graph 'g' has 4 nodes and 0 edges by now: if they are of these "
                "files, delete it (packhouse graph delete g) before corrected ones are imported"));
  // What is there is asked for last; who is not told it says only why.
  EXPECT_EQ(methods_.back(), "GetSourceGraph");
  EXPECT_EQ(Import(Tables(4, 0, bad), methods_.size() - 1).status(), bad);
}

// However many nodes are there twice, and however many only edges name; in few questions.
TEST_F(GraphImportTest, NodesWithoutRowsAreCounted) {
  is_there_ = true;
  options_.seal = true;
  constexpr uint64_t kRows = 4;
  for (const uint64_t distinct : {uint64_t{1}, kRows}) {
    for (const uint64_t without_rows : {0, 1, 2, 3, 4, 5, 8, 17}) {
      num_without_ = without_rows;
      num_nodes_ = distinct + num_without_;
      for (const bool may_look : {true, false}) {
        const size_t first_lookup = 6;
        const auto result = Import(Tables(kRows, 0), may_look ? SIZE_MAX : first_lookup);
        ASSERT_THAT(result, IsOk());
        const uint64_t least = num_nodes_ > kRows ? num_nodes_ - kRows : 0;
        const uint64_t without = may_look ? num_without_ : least;
        std::vector<std::string> notes;
        if (without > 0) {
          notes = {absl::StrCat(
              "node set 'p': of its ", num_nodes_, " nodes ", may_look ? "" : "at least ", without,
              " have no row: edges end at ids that its table does not have, and their columns are "
              "zeros; --appended-only refuses such edges, and names one")};
        }
        EXPECT_EQ(result->notes, notes);
        EXPECT_LE(methods_.size(), first_lookup + 10);
      }
    }
  }
}

}  // namespace
}  // namespace packhouse::client
