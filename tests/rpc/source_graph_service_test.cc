// SourceGraphService over the real server and a real store.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "packhouse/v1/source_graph.grpc.pb.h"
#include "service/wings/graphs/stored/file_source_graph_store.h"
#include "tests/rpc/server_fixture.h"
#include "tests/support/recorded_log.h"
#include "tests/support/source_graph_world.h"

namespace packhouse::rpc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::string Dense(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

void SetText(const std::vector<std::string>& texts, v1::TextIds& wire) {
  for (const std::string& text : texts) {
    *wire.mutable_data() += text;
    *wire.mutable_lengths() += Dense<uint32_t>({static_cast<uint32_t>(text.size())});
  }
}

// Papers by integers with `x`, float32 [2]; authors by text, without columns; `writes` with `when`,
// int64; `written`, its reverse.
v1::CreateSourceGraphRequest NewGraph(const std::string& name) {
  v1::CreateSourceGraphRequest request;
  request.set_name(name);
  v1::SourceNodeSet& papers = *request.mutable_schema()->add_node_sets();
  papers.set_name("paper");
  v1::SourceColumn& x = *papers.add_columns();
  x.set_name("x");
  x.set_dtype(v1::DATA_TYPE_FLOAT32);
  x.add_row_shape(2);
  v1::SourceNodeSet& authors = *request.mutable_schema()->add_node_sets();
  authors.set_name("author");
  authors.set_id_kind(v1::NODE_ID_KIND_TEXT);
  v1::SourceEdgeSet& writes = *request.mutable_schema()->add_edge_sets();
  writes.set_name("writes");
  writes.set_source("author");
  writes.set_target("paper");
  v1::SourceColumn& when = *writes.add_columns();
  when.set_name("when");
  when.set_dtype(v1::DATA_TYPE_INT64);
  v1::SourceEdgeSet& written = *request.mutable_schema()->add_edge_sets();
  written.set_name("written");
  written.set_source("paper");
  written.set_target("author");
  written.set_reverse_of("writes");
  return request;
}

v1::AppendSourceGraphRequest Rows(const std::string& graph, uint64_t sequence) {
  v1::AppendSourceGraphRequest request;
  request.set_graph(graph);
  request.mutable_producer_sequence()->set_producer("p");
  request.mutable_producer_sequence()->set_sequence(sequence);
  v1::SourceNodeRows& papers = *request.add_nodes();
  papers.set_node_set("paper");
  papers.mutable_ids()->set_integers(Dense<int64_t>({70, -5}));
  v1::SourceColumnRows& x = *papers.add_columns();
  x.set_name("x");
  x.set_data(Dense<float>({1, 2, 3, 4}));
  v1::SourceEdgeRows& writes = *request.add_edges();
  writes.set_edge_set("writes");
  SetText({"bob", "alice", "bob"}, *writes.mutable_sources()->mutable_text());
  writes.mutable_targets()->set_integers(Dense<int64_t>({70, 6, -5}));
  v1::SourceColumnRows& when = *writes.add_columns();
  when.set_name("when");
  when.set_data(Dense<int64_t>({100, 200, 300}));
  return request;
}

class SourceGraphServiceTest : public ServerTest {
 protected:
  // The server ends before its store.
  ~SourceGraphServiceTest() override {
    stub_.reset();
    channel_.reset();
    server_.reset();
  }

  void Start(bool with_store = true, ServerOptions options = {}) {
    if (with_store) {
      FileSourceGraphStore::Options store;
      store.folder = folder_.path() + "/source_graphs";
      store.min_free_bytes = 0;
      PH_ASSERT_OK_AND_ASSIGN(graphs_, FileSourceGraphStore::Open(store));
      source_graphs_ = graphs_.get();
    }
    StartServer(options);
    stub_ = v1::SourceGraphService::NewStub(channel_);
  }

  absl::StatusOr<v1::SourceGraph> Create(const v1::CreateSourceGraphRequest& request) {
    grpc::ClientContext context;
    v1::SourceGraph graph;
    const absl::Status status = ToAbsl(stub_->CreateSourceGraph(&context, request, &graph));
    if (!status.ok()) return status;
    return graph;
  }
  // The answers, and how the stream ended.
  absl::Status Append(const std::vector<v1::AppendSourceGraphRequest>& requests,
                      std::vector<v1::AppendSourceGraphResponse>* answers = nullptr) {
    grpc::ClientContext context;
    const auto stream = stub_->AppendSourceGraph(&context);
    v1::AppendSourceGraphResponse answer;
    for (const auto& request : requests) {
      if (!stream->Write(request) || !stream->Read(&answer)) return ToAbsl(stream->Finish());
      if (answers != nullptr) answers->push_back(answer);
    }
    stream->WritesDone();
    EXPECT_FALSE(stream->Read(&answer));
    return ToAbsl(stream->Finish());
  }
  absl::StatusOr<v1::SourceGraph> Seal(
      const std::string& name, v1::DuplicateNodes duplicates = v1::DUPLICATE_NODES_UNSPECIFIED) {
    grpc::ClientContext context;
    v1::SealSourceGraphRequest request;
    request.set_name(name);
    request.set_duplicates(duplicates);
    const auto stream = stub_->SealSourceGraph(&context, request);
    v1::SealSourceGraphResponse response;
    v1::SourceGraph graph;
    while (stream->Read(&response)) {
      EXPECT_LE(response.work_done(), response.work_total());
      graph = response.graph();
    }
    const absl::Status status = ToAbsl(stream->Finish());
    if (!status.ok()) return status;
    return graph;
  }
  absl::StatusOr<v1::VerifySourceGraphResponse> Verify(const std::string& name) {
    grpc::ClientContext context;
    v1::VerifySourceGraphRequest request;
    request.set_name(name);
    const auto stream = stub_->VerifySourceGraph(&context, request);
    v1::VerifySourceGraphResponse response;
    while (stream->Read(&response)) {
    }
    const absl::Status status = ToAbsl(stream->Finish());
    if (!status.ok()) return status;
    return response;
  }
  absl::StatusOr<v1::LookupNodesResponse> Lookup(const v1::LookupNodesRequest& request) {
    grpc::ClientContext context;
    v1::LookupNodesResponse response;
    const absl::Status status = ToAbsl(stub_->LookupNodes(&context, request, &response));
    if (!status.ok()) return status;
    return response;
  }
  absl::StatusOr<v1::ReadEdgesResponse> Edges(const v1::ReadEdgesRequest& request) {
    grpc::ClientContext context;
    v1::ReadEdgesResponse response;
    const absl::Status status = ToAbsl(stub_->ReadEdges(&context, request, &response));
    if (!status.ok()) return status;
    return response;
  }
  absl::Status Delete(const std::string& name) {
    grpc::ClientContext context;
    v1::DeleteSourceGraphRequest request;
    request.set_name(name);
    v1::DeleteSourceGraphResponse response;
    return ToAbsl(stub_->DeleteSourceGraph(&context, request, &response));
  }

  std::unique_ptr<FileSourceGraphStore> graphs_;
  std::unique_ptr<v1::SourceGraphService::Stub> stub_;
};
INSTANTIATE_TEST_SUITE_P(Transports, SourceGraphServiceTest,
                         ::testing::Values(Transport::kInProcess, Transport::kTcp), TransportName);

TEST_P(SourceGraphServiceTest, FromRowsToNumbersAndBack) {
  Start();
  PH_ASSERT_OK_AND_ASSIGN(const v1::SourceGraph created, Create(NewGraph("g")));
  EXPECT_EQ(created.state(), v1::SOURCE_GRAPH_STATE_OPEN);
  EXPECT_NE(created.id(), 0U);
  v1::AppendSourceGraphRequest first = Rows("g", 1);
  first.set_graph_id(created.id());
  v1::AppendSourceGraphRequest probe;
  probe.set_graph("g");
  std::vector<v1::AppendSourceGraphResponse> answers;
  ASSERT_TRUE(Append({probe, first, Rows("", 1)}, &answers).ok());
  EXPECT_EQ(answers[0].total_nodes(), 0U);
  EXPECT_EQ(answers[1].num_nodes(), 2U);
  EXPECT_EQ(answers[1].num_edges(), 3U);
  EXPECT_TRUE(answers[2].is_repetition());
  EXPECT_EQ(answers[2].producer_sequence().producer(), "p");
  EXPECT_EQ(answers[2].total_edges(), 3U);

  PH_ASSERT_OK_AND_ASSIGN(const v1::SourceGraph sealed, Seal("g"));
  EXPECT_EQ(sealed.state(), v1::SOURCE_GRAPH_STATE_SEALED);
  EXPECT_NE(sealed.version(), 0U);
  EXPECT_THAT(sealed.num_nodes(), ElementsAre(3, 2));
  EXPECT_THAT(sealed.num_edges(), ElementsAre(3, 3));
  EXPECT_EQ(sealed.schema().edge_sets(1).reverse_of(), "writes");
  EXPECT_EQ(sealed.id(), created.id());

  v1::LookupNodesRequest by_id;
  by_id.set_graph("g");
  by_id.set_node_set("paper");
  by_id.mutable_ids()->set_integers(Dense<int64_t>({70, 7, -5, 6}));
  by_id.add_columns("x");
  by_id.set_with_rows(true);
  PH_ASSERT_OK_AND_ASSIGN(const v1::LookupNodesResponse papers, Lookup(by_id));
  // What only an edge names comes behind the rows.
  EXPECT_EQ(papers.rows(), Dense<int64_t>({0, -1, 1, 2}));
  v1::LookupNodesRequest by_row;
  by_row.set_graph("g");
  by_row.set_node_set("paper");
  by_row.set_rows(Dense<uint64_t>({1, 0}));
  by_row.set_all_columns(true);
  PH_ASSERT_OK_AND_ASSIGN(const v1::LookupNodesResponse of_rows, Lookup(by_row));
  EXPECT_EQ(of_rows.numbers(), Dense<uint32_t>({0, 2}));
  EXPECT_EQ(of_rows.ids().integers(), Dense<int64_t>({-5, 70}));
  EXPECT_EQ(of_rows.columns(0).data(), Dense<float>({3, 4, 1, 2}));
  EXPECT_TRUE(of_rows.rows().empty());
  EXPECT_EQ(papers.numbers(), Dense<uint32_t>({2, 0xffffffff, 0, 1}));
  EXPECT_EQ(papers.columns(0).data(), Dense<float>({1, 2, 0, 0, 3, 4, 0, 0}));
  EXPECT_EQ(papers.version(), sealed.version());
  EXPECT_FALSE(papers.has_ids());

  v1::LookupNodesRequest by_number;
  by_number.set_graph("g");
  by_number.set_node_set("author");
  by_number.set_numbers(Dense<uint32_t>({1, 0}));
  PH_ASSERT_OK_AND_ASSIGN(const v1::LookupNodesResponse authors, Lookup(by_number));
  EXPECT_EQ(authors.ids().text().data(), "bobalice");
  EXPECT_EQ(authors.ids().text().lengths(), Dense<uint32_t>({3, 5}));
  by_number.clear_numbers();
  SetText({"alice", "carol"}, *by_number.mutable_ids()->mutable_text());
  EXPECT_EQ(Lookup(by_number)->numbers(), Dense<uint32_t>({0, 0xffffffff}));

  v1::ReadEdgesRequest edges;
  edges.set_graph("g");
  edges.set_edge_set("writes");
  edges.set_num_edges(10);
  edges.set_all_columns(true);
  edges.set_with_rows(true);
  PH_ASSERT_OK_AND_ASSIGN(v1::ReadEdgesResponse all, Edges(edges));
  EXPECT_EQ(all.rows(), Dense<int64_t>({1, 2, 0}));
  EXPECT_EQ(all.sources(), Dense<uint32_t>({0, 1, 1}));
  EXPECT_EQ(all.targets(), Dense<uint32_t>({1, 0, 2}));
  EXPECT_EQ(all.columns(0).data(), Dense<int64_t>({200, 300, 100}));
  edges.set_edge_set("written");
  edges.set_first_edge(2);
  PH_ASSERT_OK_AND_ASSIGN(all, Edges(edges));
  EXPECT_EQ(all.sources(), Dense<uint32_t>({2}));
  EXPECT_EQ(all.targets(), Dense<uint32_t>({1}));
  EXPECT_EQ(all.columns(0).data(), Dense<int64_t>({100}));
  EXPECT_EQ(all.rows(), Dense<int64_t>({0}));

  PH_ASSERT_OK_AND_ASSIGN(const v1::VerifySourceGraphResponse verified, Verify("g"));
  EXPECT_TRUE(verified.finished());
  EXPECT_EQ(verified.num_damaged(), 0U);
  EXPECT_GT(verified.num_bytes(), 0U);
  EXPECT_TRUE(Delete("g").ok());
  EXPECT_EQ(Delete("g").code(), absl::StatusCode::kNotFound);
}

// The rows of a file that nodes and edges were; without them the same call works.
TEST_P(SourceGraphServiceTest, DamagedRowsAreNotAnswered) {
  RecordedLog lines;
  LimitedLog failures(&lines, [this] { return clock_.Now(); });
  ServerOptions options;
  options.log = {&failures, &failures};
  Start(/*with_store=*/true, options);
  const auto damaged = [&](const std::string& graph, const std::string& array) {
    ASSERT_TRUE(Create(NewGraph(graph)).ok());
    ASSERT_TRUE(Append({Rows(graph, 1)}).ok());
    ASSERT_TRUE(Seal(graph).ok());
    int num_damaged = 0;
    for (const auto& each : std::filesystem::recursive_directory_iterator(folder_.path())) {
      if (each.path().filename() != array) continue;
      std::fstream file(each.path(), std::ios::in | std::ios::out | std::ios::binary);
      const int first = file.get();
      file.seekp(0);
      file.put(static_cast<char>(first ^ 1));
      ++num_damaged;
    }
    ASSERT_GT(num_damaged, 0);
  };
  damaged("of_nodes", "node0.rows");
  v1::LookupNodesRequest nodes;
  nodes.set_graph("of_nodes");
  nodes.set_node_set("paper");
  nodes.mutable_ids()->set_integers(Dense<int64_t>({70, -5}));
  EXPECT_TRUE(Lookup(nodes).ok());
  nodes.set_with_rows(true);
  EXPECT_THAT(Lookup(nodes), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("node0.rows")));
  damaged("of_edges", "edge0.rows");
  v1::ReadEdgesRequest edges;
  edges.set_graph("of_edges");
  edges.set_edge_set("writes");
  edges.set_num_edges(3);
  EXPECT_TRUE(Edges(edges).ok());
  edges.set_with_rows(true);
  EXPECT_THAT(Edges(edges), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("edge0.rows")));
  PH_ASSERT_OK_AND_ASSIGN(const v1::VerifySourceGraphResponse verified, Verify("of_edges"));
  EXPECT_EQ(verified.num_damaged(), 1U);
  EXPECT_THAT(lines.lines(),
              ::testing::Contains(::testing::AllOf(HasSubstr("edge0.rows"), HasSubstr("damage"))));
  server_.reset();  // It uses the log until it has ended.
}

TEST_P(SourceGraphServiceTest, NoMoreNodesAreLookedUpThanAChunkHas) {
  ServerOptions options;
  options.max_message_bytes = 80 << 20;
  Start(/*with_store=*/true, options);
  ASSERT_TRUE(Create(NewGraph("g")).ok());
  ASSERT_TRUE(Append({Rows("g", 1)}).ok());
  ASSERT_TRUE(Seal("g").ok());
  v1::LookupNodesRequest request;
  request.set_graph("g");
  request.set_node_set("paper");
  request.set_numbers(std::string((SourceGraphStore::kMaxChunkRows + 1) * sizeof(uint32_t), '\0'));
  EXPECT_THAT(Lookup(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("16777217 rows")));
}

TEST_P(SourceGraphServiceTest, StatusCodesNameTheField) {
  Start();
  const auto refused = [&](const absl::Status& status, absl::StatusCode code,
                           const std::string& text) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  v1::CreateSourceGraphRequest bad = NewGraph("g");
  bad.mutable_schema()->mutable_edge_sets(0)->set_source("nobody");
  refused(Create(bad).status(), absl::StatusCode::kInvalidArgument, "'nobody'");
  bad = NewGraph("g");
  bad.mutable_schema()->mutable_node_sets(0)->mutable_columns(0)->clear_dtype();
  refused(Create(bad).status(), absl::StatusCode::kInvalidArgument, "column 'x' of 'paper': dtype");
  refused(Create(NewGraph("a b")).status(), absl::StatusCode::kInvalidArgument, "'a b'");
  ASSERT_TRUE(Create(NewGraph("g")).ok());
  refused(Create(NewGraph("g")).status(), absl::StatusCode::kAlreadyExists, "'g'");
  refused(Append({Rows("", 1)}), absl::StatusCode::kInvalidArgument, "graph: must be named");
  refused(Append({Rows("h", 1)}), absl::StatusCode::kNotFound, "'h'");
  v1::AppendSourceGraphRequest rows = Rows("g", 1);
  rows.set_graph_id(1);
  refused(Append({rows}), absl::StatusCode::kNotFound, "its id is");
  rows = Rows("g", 1);
  rows.mutable_edges(0)->mutable_targets()->mutable_text();
  refused(Append({rows}), absl::StatusCode::kInvalidArgument, "ids are text");
  rows = Rows("g", 1);
  rows.mutable_nodes(0)->mutable_columns(0)->set_name("y");
  refused(Append({rows}), absl::StatusCode::kInvalidArgument, "column 'y' is none of the set's");
  rows = Rows("g", 1);
  rows.mutable_nodes(0)->clear_columns();
  refused(Append({rows}), absl::StatusCode::kInvalidArgument, "column 'x' is missing");
  v1::LookupNodesRequest lookup;
  lookup.set_graph("g");
  lookup.set_node_set("paper");
  lookup.set_numbers(Dense<uint32_t>({0}));
  refused(Lookup(lookup).status(), absl::StatusCode::kFailedPrecondition, "not sealed");
  ASSERT_TRUE(Append({Rows("g", 1)}).ok());
  ASSERT_TRUE(Seal("g").ok());
  refused(Append({Rows("g", 2)}), absl::StatusCode::kFailedPrecondition, "is sealed");
  lookup.set_numbers(Dense<uint32_t>({3}));
  refused(Lookup(lookup).status(), absl::StatusCode::kOutOfRange, "row 0 is 3");
  lookup.set_numbers("abc");
  refused(Lookup(lookup).status(), absl::StatusCode::kInvalidArgument, "3 bytes");
  lookup.set_node_set("papers");
  refused(Lookup(lookup).status(), absl::StatusCode::kInvalidArgument, "'papers'");
  v1::ReadEdgesRequest edges;
  edges.set_graph("g");
  edges.set_edge_set("writes");
  edges.set_first_edge(4);
  refused(Edges(edges).status(), absl::StatusCode::kOutOfRange, "first_edge: 4");
  refused(Seal("h").status(), absl::StatusCode::kNotFound, "'h'");
  refused(Verify("h").status(), absl::StatusCode::kNotFound, "'h'");
}

TEST_P(SourceGraphServiceTest, WhatCannotBeReadIsNamed) {
  Start();
  const auto refused = [&](const absl::Status& status, absl::StatusCode code,
                           const std::string& text) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  ASSERT_TRUE(Create(NewGraph("g")).ok());
  ASSERT_TRUE(Append({Rows("g", 1)}).ok());
  ASSERT_TRUE(Seal("g").ok());
  v1::ReadEdgesRequest edges;
  edges.set_graph("g");
  edges.set_edge_set("writes");
  edges.set_first_edge(3);
  EXPECT_TRUE(Edges(edges).ok()) << "of none";
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  edges.set_num_edges((1 << 24) + 1);
  refused(Edges(edges).status(), kInvalid, "16777217 rows, beyond 16777216");
  edges.add_columns("then");
  edges.set_num_edges(1);
  refused(Edges(edges).status(), kInvalid, "columns: 'writes' has no column 'then'");
  edges.set_all_columns(true);
  refused(Edges(edges).status(), kInvalid, "columns: there are some beside all_columns");
  const auto look_up = [&](auto change, absl::StatusCode code, const std::string& text) {
    v1::LookupNodesRequest request;
    request.set_graph("g");
    request.set_node_set("author");
    change(request);
    refused(Lookup(request).status(), code, text);
  };
  using Asked = v1::LookupNodesRequest;
  const auto text_ids = [](Asked& r, const std::string& data, const std::string& lengths) {
    r.mutable_ids()->mutable_text()->set_data(data);
    r.mutable_ids()->mutable_text()->set_lengths(lengths);
  };
  const std::string three = Dense<uint32_t>({3});
  look_up([](Asked& r) { r.mutable_ids()->set_integers(""); }, kInvalid,
          "ids: node set 'author' has text");
  look_up([](Asked& r) { r.mutable_ids(); }, kInvalid, "ids: node set 'author' has text");
  look_up([&](Asked& r) { text_ids(r, "bob", three + "ab"); }, kInvalid,
          "ids: lengths have 6 bytes");
  look_up([&](Asked& r) { text_ids(r, "bo", three); }, kInvalid,
          "ids: the lengths go beyond the 2 bytes in row 0");
  look_up([&](Asked& r) { text_ids(r, "bobby", three); }, kInvalid,
          "ids: 2 bytes more than the lengths say");
  look_up(
      [&](Asked& r) {
        text_ids(r, "bob", three);
        r.set_numbers(three);
      },
      kInvalid, "numbers: there are some beside ids");
  look_up(
      [&](Asked& r) {
        text_ids(r, "bob", three);
        r.set_rows("12345678");
      },
      kInvalid, "rows: there are some beside ids or numbers");
  look_up(
      [&](Asked& r) {
        r.set_numbers(three);
        r.set_rows("12345678");
      },
      kInvalid, "rows: there are some beside ids or numbers");
  look_up([](Asked& r) { r.set_rows("abc"); }, kInvalid, "rows: 3 bytes, a row has 8");
  look_up([](Asked& r) { r.set_rows(Dense<uint64_t>({2})); }, absl::StatusCode::kOutOfRange,
          "rows: row 2 at position 0, node set 'author' has 2 rows");
  look_up(
      [](Asked& r) {
        r.set_node_set("paper");
        r.mutable_ids()->set_integers("abc");
      },
      kInvalid, "ids: 3 bytes, an id has 8");
}

TEST_P(SourceGraphServiceTest, ASealGoesOnWhenItsClientHasGone) {
  HeldSealStore store;
  source_graphs_ = &store;
  Start(/*with_store=*/false);
  {
    grpc::ClientContext context;
    v1::SealSourceGraphRequest request;
    request.set_name("g");
    const auto stream = stub_->SealSourceGraph(&context, request);
    store.AwaitSealing();
    context.TryCancel();
    v1::SealSourceGraphResponse response;
    while (stream->Read(&response)) continue;
    EXPECT_EQ(ToAbsl(stream->Finish()).code(), absl::StatusCode::kCancelled);
  }
  observer_.AwaitFinished(Method::kSealSourceGraph, absl::StatusCode::kCancelled);
  PH_ASSERT_OK_AND_ASSIGN(const SourceGraphInfo info, store.Get("g"));
  EXPECT_EQ(info.state, SourceGraphState::kSealing);
  store.Release();
  PH_ASSERT_OK_AND_ASSIGN(const v1::SourceGraph sealed, Seal("g"));
  EXPECT_EQ(sealed.state(), v1::SOURCE_GRAPH_STATE_SEALED);
  EXPECT_EQ(store.num_seals(), 1);
  // The server ends before the store.
  stub_.reset();
  channel_.reset();
  server_.reset();
}

TEST_P(SourceGraphServiceTest, WithoutAFolderEveryCallSaysSo) {
  Start(/*with_store=*/false);
  const auto code = absl::StatusCode::kFailedPrecondition;
  EXPECT_EQ(Create(NewGraph("g")).status().code(), code);
  EXPECT_EQ(Append({Rows("g", 1)}).code(), code);
  EXPECT_EQ(Seal("g").status().code(), code);
  EXPECT_EQ(Verify("g").status().code(), code);
  EXPECT_EQ(Lookup({}).status().code(), code);
  EXPECT_EQ(Edges({}).status().code(), code);
  EXPECT_EQ(Delete("g").code(), code);
}

TEST_P(SourceGraphServiceTest, AListComesInPages) {
  Start();
  // More than are read at once.
  constexpr int kGraphs = 20;
  for (int i = 0; i < kGraphs; ++i) {
    ASSERT_TRUE(Create(NewGraph(absl::StrCat("g", 10 + i))).ok());
  }
  for (const uint32_t page_size : {1U, 3U, 17U, 0U}) {
    SCOPED_TRACE(page_size);
    std::vector<std::string> names;
    v1::ListSourceGraphsRequest request;
    request.set_page_size(page_size);
    do {
      grpc::ClientContext context;
      v1::ListSourceGraphsResponse page;
      ASSERT_THAT(ToAbsl(stub_->ListSourceGraphs(&context, request, &page)), IsOk());
      const int expected = page_size == 0 ? kGraphs : static_cast<int>(page_size);
      EXPECT_EQ(page.graphs_size(), std::min(expected, kGraphs - static_cast<int>(names.size())));
      for (const v1::SourceGraph& graph : page.graphs()) names.push_back(graph.name());
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty() && names.size() <= kGraphs);
    ASSERT_EQ(names.size(), kGraphs);
    for (int i = 0; i < kGraphs; ++i) EXPECT_EQ(names[i], absl::StrCat("g", 10 + i));
  }
}

// Whoever appends again learns first where to go on.
TEST_P(SourceGraphServiceTest, TellsWhatItRemembersOfAProducer) {
  Start();
  ASSERT_TRUE(Create(NewGraph("g")).ok());
  v1::AppendSourceGraphRequest ask;
  ask.set_graph("g");
  ask.mutable_producer_sequence()->set_producer("p");
  std::vector<v1::AppendSourceGraphResponse> answers;
  ASSERT_THAT(Append({ask, Rows("g", 7), ask, Rows("g", 8)}, &answers), IsOk());
  EXPECT_EQ(answers[0].producer_state().next_sequence(), 1U);
  EXPECT_FALSE(answers[1].has_producer_state());
  EXPECT_EQ(answers[2].producer_state().next_sequence(), 8U);
  EXPECT_EQ(answers[2].producer_state().first_remembered_sequence(), 7U);
  EXPECT_EQ(answers[2].total_nodes(), 2U);
  EXPECT_FALSE(answers[3].is_repetition());
}

TEST_P(SourceGraphServiceTest, OfANodeThatIsThereTwiceTheRequestTellsWhichRowCounts) {
  Start();
  for (const v1::DuplicateNodes rule :
       {v1::DUPLICATE_NODES_FIRST, v1::DUPLICATE_NODES_LAST, v1::DUPLICATE_NODES_UNSPECIFIED}) {
    const std::string name = v1::DuplicateNodes_Name(rule);
    ASSERT_TRUE(Create(NewGraph(name)).ok());
    v1::AppendSourceGraphRequest rows = Rows(name, 1);
    rows.mutable_nodes(0)->mutable_ids()->set_integers(Dense<int64_t>({70, 70}));
    ASSERT_THAT(Append({rows}), IsOk());
    const absl::Status sealed = Seal(name, rule).status();
    v1::LookupNodesRequest lookup;
    lookup.set_graph(name);
    lookup.set_node_set("paper");
    lookup.mutable_ids()->set_integers(Dense<int64_t>({70}));
    lookup.add_columns("x");
    if (rule == v1::DUPLICATE_NODES_UNSPECIFIED) {
      EXPECT_THAT(sealed, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("70")));
    } else {
      ASSERT_THAT(sealed, IsOk());
      EXPECT_EQ(Lookup(lookup)->columns(0).data(),
                rule == v1::DUPLICATE_NODES_FIRST ? Dense<float>({1, 2}) : Dense<float>({3, 4}));
    }
  }
}

// Rows that do not fit into a message are refused before they are made.
TEST_P(SourceGraphServiceTest, AnAnswerIsNoLargerThanAMessage) {
  ServerOptions options;
  options.max_message_bytes = 4 << 20;
  Start(true, options);
  ASSERT_TRUE(Create(NewGraph("g")).ok());
  ASSERT_TRUE(Append({Rows("g", 1)}).ok());
  ASSERT_TRUE(Seal("g").ok());
  v1::LookupNodesRequest lookup;
  lookup.set_graph("g");
  lookup.set_node_set("paper");
  lookup.set_numbers(std::string(2'000'000, '\0'));
  EXPECT_EQ(Lookup(lookup).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace packhouse::rpc
