#include "service/server/metrics/metrics.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/limits.h"
#include "service/server/metrics/store_collector.h"

namespace packhouse::metrics {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Batch BatchOf(std::vector<uint64_t> real_rows, std::vector<uint64_t> rows) {
  Batch batch;
  batch.real_rows = std::move(real_rows);
  batch.rows = std::move(rows);
  return batch;
}

TEST(MetricsTest, BatchesAddUpPerComponent) {
  Metrics metrics("1.2.3", "abc");
  const auto first = metrics.ForStream(SizeSchema::NodesAndEdges(), {});
  const auto second = metrics.ForStream(SizeSchema::NodesAndEdges(), {});
  first->OnBatch(BatchOf({90, 150, 3}, {100, 200, 4}), {100, 200, 4});
  second->OnBatch(BatchOf({100, 200, 5}, {100, 200, 5}), {100, kUnlimited, kUnlimited});
  const std::string page = metrics.Exposition();
  EXPECT_THAT(page, HasSubstr("packhouse_batches_total{namespace=\"default\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_graphs_total{namespace=\"default\"} 8\n"));
  EXPECT_THAT(
      page,
      HasSubstr("packhouse_real_rows_total{component=\"nodes\",namespace=\"default\"} 190\n"));
  EXPECT_THAT(
      page,
      HasSubstr("packhouse_padding_rows_total{component=\"nodes\",namespace=\"default\"} 10\n"));
  EXPECT_THAT(
      page,
      HasSubstr("packhouse_padding_rows_total{component=\"edges\",namespace=\"default\"} 50\n"));
  EXPECT_THAT(
      page,
      HasSubstr("packhouse_padding_rows_total{component=\"graphs\",namespace=\"default\"} 1\n"));
  // 0.9 is in the bucket up to 0.9, 1 in none but the last.
  EXPECT_THAT(
      page,
      HasSubstr("packhouse_batch_efficiency_ratio_bucket{component=\"nodes\",namespace=\"default\","
                "le=\"0.9\"} 1\n"));
  EXPECT_THAT(
      page,
      HasSubstr("packhouse_batch_efficiency_ratio_bucket{component=\"nodes\",namespace=\"default\","
                "le=\"0.999\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_build_info{commit=\"abc\",version=\"1.2.3\"} 1\n"));
}

TEST(MetricsTest, BytesOfBatchesAndGraphsThatAreInNoneAreCounted) {
  Metrics metrics("");
  const auto stream = metrics.ForStream(SizeSchema::NodesAndEdges(), {});
  Batch of_sizes = BatchOf({3, 0, 1}, {3, 0, 1});
  of_sizes.sizes = {3, 0};
  stream->OnBatch(of_sizes, {kUnlimited, kUnlimited, kUnlimited});
  Batch of_graphs = BatchOf({3, 1, 1}, {3, 1, 1});
  of_graphs.sizes = {3, 1};
  of_graphs.framed = "ten bytes!";
  stream->OnBatch(of_graphs, {kUnlimited, kUnlimited, kUnlimited});
  stream->OnRejectedTooLarge(4);
  const std::string page = metrics.Exposition();
  EXPECT_THAT(page, HasSubstr("packhouse_batch_bytes_total{namespace=\"default\"} 18\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_rejected_graphs_total{namespace=\"default\",reason=\"too_"
                              "large\"} 4\n"));
  // Without rows there is no share of them.
  EXPECT_THAT(page, HasSubstr("packhouse_batch_efficiency_ratio_count{component=\"edges\","
                              "namespace=\"default\"} 1\n"));
}

TEST(MetricsTest, WhatIsDrawnIsCounted) {
  Metrics metrics("");
  metrics.OnDrawn(2, 30, 400, 0);
  metrics.OnDrawn(1, 10, 100, 3);
  const std::string page = metrics.Exposition();
  for (const char* line :
       {"packhouse_sampled_seeds_total 3\n", "packhouse_sampled_nodes_total 40\n",
        "packhouse_sampled_edges_total 500\n", "packhouse_sampled_smaller_total 1\n"}) {
    EXPECT_THAT(page, HasSubstr(line));
  }
}

// Whoever keeps what a page says compares them over years.
TEST(MetricsTest, HistogramsHaveTheirBuckets) {
  Metrics metrics("");
  metrics.AddStore("s", 1);
  const auto stream = metrics.ForStream(SizeSchema::NodesAndEdges(), {});
  const std::string page = metrics.Exposition();
  const auto expect = [&page](const std::string& series, const std::string& bounds) {
    std::vector<std::string> found;
    for (absl::string_view line : absl::StrSplit(page, '\n')) {
      if (!absl::ConsumePrefix(&line, absl::StrCat("packhouse_", series, "le=\""))) continue;
      found.emplace_back(line.substr(0, line.find('"')));
    }
    EXPECT_EQ(absl::StrJoin(found, " "), bounds) << series;
  };
  const std::string of_calls = "0.0001 0.0005 0.001 0.005 0.01 0.05 0.1 0.5 1 5 10 +Inf";
  expect("rpc_duration_seconds_bucket{method=\"Plan\",", of_calls);
  expect("rpc_duration_seconds_bucket{method=\"Load\",", "0.01 0.1 1 10 60 600 3600 36000 +Inf");
  expect("plan_duration_seconds_bucket{", of_calls);
  expect("plan_gap_ratio_bucket{", "0 0.0001 0.0005 0.001 0.005 0.01 0.02 0.05 0.1 0.2 0.5 1 +Inf");
  expect("commit_duration_seconds_bucket{store=\"s\",",
         "0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 +Inf");
  expect("commit_changes_bucket{store=\"s\",", "1 2 4 8 16 32 64 128 256 +Inf");
  expect("batch_efficiency_ratio_bucket{component=\"nodes\",namespace=\"default\",",
         "0.5 0.7 0.8 0.9 0.95 0.97 0.98 0.99 0.995 0.999 +Inf");
}

TEST(MetricsTest, PendingIsSummedOverStreamsAndReturnsToZero) {
  Metrics metrics("");
  const auto first = metrics.ForStream(SizeSchema::NodesAndEdges(), {});
  const auto second = metrics.ForStream(SizeSchema::NodesAndEdges(), {});
  first->OnPending(3, 300);
  second->OnPending(4, 400);
  first->OnPending(1, 100);
  EXPECT_THAT(metrics.Exposition(),
              HasSubstr("packhouse_pending_graphs{namespace=\"default\"} 5\n"));
  EXPECT_THAT(metrics.Exposition(),
              HasSubstr("packhouse_pending_bytes{namespace=\"default\"} 500\n"));
  first->OnPending(0, 0);
  second->OnPending(0, 0);
  EXPECT_THAT(metrics.Exposition(),
              HasSubstr("packhouse_pending_bytes{namespace=\"default\"} 0\n"));
}

TEST(MetricsTest, ChangesOfSizesAreCountedAndTheStreamsThatLose) {
  Metrics metrics("");
  auto first = metrics.ForStream(SizeSchema::NodesAndEdges(), {});
  auto second = metrics.ForStream(SizeSchema::NodesAndEdges(), {});
  EXPECT_THAT(
      metrics.Exposition(),
      HasSubstr("packhouse_drift_changes_total{namespace=\"default\",result=\"loses\"} 0\n"));
  first->OnSizeChange(0.1, true);
  first->OnSizeChange(0.2, true);
  second->OnSizeChange(0.2, true);
  second->OnSizeChange(PackObserver::kNotJudged, false);
  const std::string page = metrics.Exposition();
  EXPECT_THAT(
      page, HasSubstr("packhouse_drift_changes_total{namespace=\"default\",result=\"loses\"} 3\n"));
  EXPECT_THAT(
      page,
      HasSubstr("packhouse_drift_changes_total{namespace=\"default\",result=\"not_judged\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_drift_streams{namespace=\"default\"} 2\n"));
  first->OnSizeChange(0.01, false);
  EXPECT_THAT(
      metrics.Exposition(),
      HasSubstr("packhouse_drift_changes_total{namespace=\"default\",result=\"harmless\"} 1\n"));
  EXPECT_THAT(metrics.Exposition(),
              HasSubstr("packhouse_drift_streams{namespace=\"default\"} 1\n"));
  second.reset();
  EXPECT_THAT(metrics.Exposition(),
              HasSubstr("packhouse_drift_streams{namespace=\"default\"} 0\n"));
}

TEST(MetricsTest, MalformedExamplesAreCountedByMethodAndResult) {
  Metrics metrics("");
  metrics.OnMalformedExamples(Method::kAppend, 3, 0);
  metrics.OnMalformedExamples(Method::kAppend, 2, 1);
  metrics.OnMalformedExamples(Method::kPlan, 1, 1);
  const std::string page = metrics.Exposition();
  const std::string name = "packhouse_malformed_examples_total";
  EXPECT_THAT(page, HasSubstr(name + "{method=\"Append\",result=\"skipped\"} 5\n"));
  EXPECT_THAT(page, HasSubstr(name + "{method=\"Append\",result=\"refused\"} 1\n"));
  EXPECT_THAT(page, HasSubstr(name + "{method=\"Pack\",result=\"skipped\"} 0\n"));
  EXPECT_THAT(page, Not(HasSubstr(name + "{method=\"Plan\"")));
}

TEST(MetricsTest, CallsAreCountedByMethodAndCode) {
  Metrics metrics("");
  metrics.OnStarted(Method::kPack);
  metrics.OnStarted(Method::kPack);
  metrics.OnFinished(Method::kPack, absl::StatusCode::kInvalidArgument, absl::Seconds(2));
  metrics.OnStarted(Method::kPlan);
  metrics.OnFinished(Method::kPlan, absl::StatusCode::kOk, absl::Milliseconds(3));
  metrics.OnPlanned(absl::Milliseconds(3), 0.004);
  for (const Method stream :
       {Method::kTune, Method::kAppend, Method::kVerifyDataset, Method::kLoad}) {
    metrics.OnStarted(stream);
  }
  const std::string page = metrics.Exposition();
  EXPECT_THAT(page, HasSubstr("packhouse_open_streams{method=\"Pack\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_open_streams{method=\"Tune\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_open_streams{method=\"Append\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_open_streams{method=\"VerifyDataset\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_open_streams{method=\"Load\"} 1\n"));
  EXPECT_THAT(page, Not(HasSubstr("packhouse_open_streams{method=\"Plan\"}")));
  EXPECT_THAT(page, Not(HasSubstr("packhouse_open_streams{method=\"Acknowledge\"}")));
  EXPECT_THAT(page,
              HasSubstr("packhouse_rpcs_total{code=\"INVALID_ARGUMENT\",method=\"Pack\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_rpcs_total{code=\"OK\",method=\"Plan\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_rpc_duration_seconds_sum{method=\"Pack\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_plan_gap_ratio_bucket{le=\"0.001\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_plan_gap_ratio_bucket{le=\"0.005\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_plan_duration_seconds_sum 0.003\n"));
  // Of each method, all codes of gRPC.
  size_t num_codes = 0;
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    num_codes += absl::StartsWith(line, "packhouse_rpcs_total{") ? 1 : 0;
  }
  EXPECT_EQ(num_codes, 17 * kMethodNames.size());
}

TEST(MetricsTest, CommitsAreCountedByStoreAndResult) {
  Metrics metrics("");
  EXPECT_THAT(metrics.Exposition(), Not(HasSubstr("packhouse_commits_total{")));
  CommitObserver* const datasets = metrics.AddStore("datasets", 10000);
  CommitObserver* const delivery = metrics.AddStore("delivery", 600);
  datasets->OnStoreBytes(5000);
  // One store's commit may lie within another's.
  datasets->OnCommitBegin();
  delivery->OnCommitBegin();
  delivery->OnCommitEnd({1, 30, true});
  datasets->OnCommitEnd({3, 700, true});
  datasets->OnCommitBegin();
  datasets->OnCommitEnd({1, 50, false});
  datasets->OnStoreBytes(9000);
  delivery->OnStoreBytes(30);
  const std::string page = metrics.Exposition();
  const auto expect = [&](const std::string& name, const std::string& labels, int value) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat("packhouse_", name, "{", labels, "} ", value, "\n")));
  };
  expect("commits_total", "result=\"durable\",store=\"datasets\"", 1);
  expect("commits_total", "result=\"failed\",store=\"datasets\"", 1);
  expect("commits_total", "result=\"durable\",store=\"delivery\"", 1);
  expect("commits_total", "result=\"failed\",store=\"delivery\"", 0);
  expect("commit_duration_seconds_count", "store=\"datasets\"", 2);
  expect("commit_duration_seconds_bucket", "store=\"datasets\",le=\"10\"", 2);
  expect("commit_duration_seconds_count", "store=\"delivery\"", 1);
  expect("commit_changes_bucket", "store=\"datasets\",le=\"2\"", 1);
  expect("commit_changes_sum", "store=\"datasets\"", 4);
  expect("committed_bytes_total", "store=\"datasets\"", 750);
  expect("committed_bytes_total", "store=\"delivery\"", 30);
  expect("store_bytes", "store=\"datasets\"", 9000);
  expect("store_max_bytes", "store=\"datasets\"", 10000);
  expect("store_bytes", "store=\"delivery\"", 30);
  expect("store_max_bytes", "store=\"delivery\"", 600);
}

TEST(MetricsTest, UnsentResponsesAreSummedOverTheStreamsOfAMethod) {
  Metrics metrics("");
  metrics.OnUnsent(Method::kLoad, 1, 500);
  metrics.OnUnsent(Method::kLoad, 1, 300);
  metrics.OnUnsent(Method::kLoad, -1, -500);
  metrics.OnUnsent(Method::kTune, 1, 20);
  // This is no stream, so nothing waits.
  metrics.OnUnsent(Method::kPlan, 1, 20);
  const std::string page = metrics.Exposition();
  EXPECT_THAT(page, HasSubstr("packhouse_unsent_responses{method=\"Load\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_unsent_bytes{method=\"Load\"} 300\n"));
  EXPECT_THAT(page, HasSubstr("packhouse_unsent_bytes{method=\"Tune\"} 20\n"));
  EXPECT_THAT(page, Not(HasSubstr("packhouse_unsent_responses{method=\"Plan\"}")));
}

TEST(MetricsTest, StreamsAreToldByNamespaceAndDataSet) {
  Metrics metrics("");
  const auto of_a = metrics.ForStream(SizeSchema::NodesAndEdges(), {"team", "team/a"});
  const auto of_b = metrics.ForStream(SizeSchema::NodesAndEdges(), {"team", "team/b"});
  const auto sent = metrics.ForStream(SizeSchema::NodesAndEdges(), {"team", ""});
  of_a->OnBatch(BatchOf({90, 150, 3}, {100, 200, 4}), {100, 200, 4});
  of_b->OnBatch(BatchOf({80, 150, 2}, {100, 200, 4}), {100, 200, 4});
  sent->OnBatch(BatchOf({70, 150, 1}, {100, 200, 4}), {100, 200, 4});
  const std::string page = metrics.Exposition();
  const auto expect = [&](const std::string& sample) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat("packhouse_", sample, "\n")));
  };
  expect("batches_total{dataset=\"team/a\",namespace=\"team\"} 1");
  expect("graphs_total{dataset=\"team/b\",namespace=\"team\"} 2");
  expect("graphs_total{namespace=\"team\"} 1");
  expect("graphs_total{namespace=\"default\"} 0");
  expect("real_rows_total{component=\"nodes\",dataset=\"team/a\",namespace=\"team\"} 90");
  expect("padding_rows_total{component=\"nodes\",dataset=\"team/b\",namespace=\"team\"} 20");
  expect("real_rows_total{component=\"nodes\",namespace=\"team\"} 70");
  // The page of people has the sums.
  metrics.AddStore("datasets", 600)->OnStoreBytes(500);
  of_a->OnPending(5, 50);
  metrics.OnStarted(Method::kPack);
  metrics.OnUnsent(Method::kPack, 2, 20);
  const ServedReading read = metrics.Served();
  EXPECT_EQ(read.batches, 3U);
  EXPECT_EQ(read.graphs, 6U);
  EXPECT_EQ(read.batch_bytes, 0U);
  EXPECT_EQ(read.pending_graphs, 5U);
  std::vector<std::string> told;
  for (const auto& [component, real, padding] : read.components) {
    told.push_back(absl::StrCat(component, " ", real, " ", padding));
  }
  for (const auto& [method, open, unsent] : read.streams) {
    if (open + unsent != 0) told.push_back(absl::StrCat(method, " ", open, " ", unsent));
  }
  for (const auto& [name, bytes, most] : read.stores) {
    told.push_back(absl::StrCat(name, " ", bytes, " ", most));
  }
  EXPECT_THAT(told, ElementsAre("nodes 240 60", "edges 450 150", "graphs 6 6", "Pack 1 2",
                                "datasets 500 600"));
}

// Clients choose component names; they must not make the page grow without bound.
TEST(MetricsTest, ComponentLabelsAreBounded) {
  Metrics metrics("");
  for (int i = 0; i < 1000; ++i) {
    const auto stream =
        metrics.ForStream(SizeSchema::Create({absl::StrCat("component", i)}).value(), {});
    stream->OnBatch(BatchOf({1, 1}, {1, 1}), {1, 1});
  }
  std::set<std::string> labels;
  const std::string page = metrics.Exposition();
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    if (line.find("packhouse_real_rows_total{") == 0) labels.insert(std::string(line));
  }
  EXPECT_EQ(labels.size(), kMaxComponentLabels);
  EXPECT_THAT(page,
              HasSubstr("packhouse_real_rows_total{component=\"other\",namespace=\"default\"}"));
}

// As many as there may be, whoever chooses them, and nothing goes missing in the sums.
TEST(MetricsTest, LabelsOfStreamsAreBounded) {
  Metrics metrics("");
  for (int i = 0; i < 3000; ++i) {
    const std::string where = absl::StrCat("n", i / 3);
    const std::string dataset = i % 3 == 0 ? "" : absl::StrCat(where, "/d", i);
    const auto stream = metrics.ForStream(SizeSchema::Create({absl::StrCat("c", i % 70)}).value(),
                                          {where, dataset});
    stream->OnBatch(BatchOf({1, 1}, {1, 1}), {1, 1});
  }
  size_t num_rows = 0;
  size_t num_sources = 0;
  const std::string page = metrics.Exposition();
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    num_rows += absl::StartsWith(line, "packhouse_real_rows_total{") ? 1 : 0;
    num_sources += absl::StartsWith(line, "packhouse_batches_total{") ? 1 : 0;
  }
  EXPECT_EQ(num_rows, kMaxRowLabels);
  // Each of the namespaces; each of the data sets, which are of 50 namespaces; and other data sets
  // of 50.
  EXPECT_EQ(num_sources, kMaxNamespaceLabels + (kMaxDatasetLabels - 1) + 50);
  EXPECT_THAT(page, HasSubstr("packhouse_real_rows_total{component=\"other\",dataset=\"other\","
                              "namespace=\"other\"}"));
  EXPECT_EQ(metrics.Served().batches, 3000U);
  uint64_t real = 0;
  for (const auto& rows : metrics.Served().components) real += rows.real;
  EXPECT_EQ(real, 6000U);
}

}  // namespace
}  // namespace packhouse::metrics
