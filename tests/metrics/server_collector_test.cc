#include "service/server/metrics/server_collector.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/metrics/metrics.h"

namespace packhouse::metrics {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// Every number has a name of its own: none is taken for another.
TEST(ServerCollectorTest, TellsEveryNumber) {
  Metrics metrics("");
  EXPECT_THAT(metrics.Exposition(), Not(HasSubstr("packhouse_memory_held_bytes")));
  metrics.SetServer([] {
    return ServerReading{
        .pending = {11, 111},
        .unsent = {22, 222},
        .working = {33, 333},
        .ready = {{"draining", true}, {"datasets", false}},
        .is_draining = true,
        .num_connections = 44,
        .max_connections = 444,
        .num_out_of_memory = 55,
        .num_expired_datasets = 66,
        .num_expired_source_graphs = 67,
        .num_expired_histograms = 68,
        .num_expired_models = 69,
        .files = {{.name = "policy", .is_broken = true, .num_failures = 7},
                  {.name = "certificate",
                   .num_reloads = 6,
                   .begins = absl::FromUnixSeconds(77),
                   .expires = absl::FromUnixSeconds(88)}},
        .source_graphs = {{1001, 1002, 1003, 1004, 1005}},
        .cluster = {{4001, true, 4002, 4003, 4004, 4005, 4006, absl::Seconds(4007)}},
        .lanes = {{5001, 5002, 5003, 5004, 5005, 5006, 5007, 5008}},
        .quotas = {{"team", "disk_bytes", 2001, 2002}},
        .feedback = {{.model = "gcn",
                      .device = "a100",
                      .num_reports = 3001,
                      .num_out_of_memory = 3002,
                      .fixed_seconds = 3003,
                      .fixed_bytes = 3004,
                      .spread = 3005,
                      .components = {{"nodes", 3006, 3007}}}}};
  });
  const std::string page = metrics.Exposition();
  for (const char* line :
       {"packhouse_memory_held_bytes{share=\"pending\"} 11\n",
        "packhouse_memory_held_bytes{share=\"unsent\"} 22\n",
        "packhouse_memory_held_bytes{share=\"working\"} 33\n",
        "packhouse_memory_bound_bytes{share=\"pending\"} 111\n",
        "packhouse_memory_bound_bytes{share=\"unsent\"} 222\n",
        "packhouse_memory_bound_bytes{share=\"working\"} 333\n",
        "packhouse_ready{reason=\"draining\"} 1\n",
        "packhouse_ready{reason=\"datasets\"} 0\n",
        "packhouse_draining 1\n",
        "packhouse_connections 44\n",
        "packhouse_connections_bound 444\n",
        "packhouse_out_of_memory_total 55\n",
        "packhouse_file_broken{file=\"policy\"} 1\n",
        "packhouse_file_broken{file=\"certificate\"} 0\n",
        "packhouse_file_reload_failures_total{file=\"policy\"} 7\n",
        "packhouse_file_reloads_total{file=\"certificate\"} 6\n",
        "packhouse_certificate_expiry_timestamp_seconds 88\n",
        "packhouse_certificate_start_timestamp_seconds 77\n",
        "packhouse_datasets_expired_total 66\n",
        "packhouse_source_graphs_expired_total 67\n",
        "packhouse_histograms_expired_total 68\n",
        "packhouse_measured_models_expired_total 69\n",
        "packhouse_source_graphs 1001\n",
        "packhouse_cluster_members 4001\n",
        "packhouse_cluster_has_lease 1\n",
        "packhouse_cluster_jobs 4002\n",
        "packhouse_cluster_jobs_opened_total 4003\n",
        "packhouse_cluster_takeovers_total 4004\n",
        "packhouse_cluster_commit_failures_total 4006\n",
        "packhouse_cluster_commit_seconds_count 8011\n",
        "packhouse_cluster_commit_seconds_sum 4007\n",
        "packhouse_lane_streams{transport=\"lane\"} 5001\n",
        "packhouse_lane_streams{transport=\"grpc\"} 5002\n",
        "packhouse_lane_slots_in_use 5003\n",
        "packhouse_lane_batches_total 5004\n",
        "packhouse_lane_chunks_total 5008\n",
        "packhouse_lane_fallbacks_total{reason=\"no_memory\"} 5005\n",
        "packhouse_lane_fallbacks_total{reason=\"too_large\"} 5006\n",
        "packhouse_lane_fallbacks_total{reason=\"no_slot\"} 5007\n",
        "packhouse_source_graph_bytes 1002\n",
        "packhouse_source_graph_max_bytes 1003\n",
        "packhouse_source_graph_nodes_appended_total 1004\n",
        "packhouse_source_graph_edges_appended_total 1005\n",
        "packhouse_namespace_quota_used{namespace=\"team\",quota=\"disk_bytes\"} 2001\n",
        "packhouse_namespace_quota_limit{namespace=\"team\",quota=\"disk_bytes\"} 2002\n",
        "packhouse_feedback_reports_total{model=\"gcn\",device=\"a100\"} 3001\n",
        "packhouse_feedback_out_of_memory_total{model=\"gcn\",device=\"a100\"} 3002\n",
        "packhouse_feedback_fixed_seconds{model=\"gcn\",device=\"a100\"} 3003\n",
        "packhouse_feedback_fixed_bytes{model=\"gcn\",device=\"a100\"} 3004\n",
        "packhouse_feedback_spread_ratio{model=\"gcn\",device=\"a100\"} 3005\n",
        "packhouse_feedback_row_seconds{model=\"gcn\",device=\"a100\",component=\"nodes\"} 3006\n",
        "packhouse_feedback_row_bytes{model=\"gcn\",device=\"a100\",component=\"nodes\"} 3007\n"}) {
    EXPECT_THAT(page, HasSubstr(line));
  }
}

TEST(ServerCollectorTest, TellsEveryNumberOfDataSetsThatServersShare) {
  Metrics metrics("");
  ServerReading reading;
  reading.shared_datasets = {{6001, 6002, 6003, 6004, 6005, 6006, 6007, 6008, 6009, 6010, 6011}};
  metrics.SetServer([&] { return reading; });
  const std::string page = metrics.Exposition();
  for (const char* sample : {
           "packhouse_object_cache_bytes 6001\n",
           "packhouse_object_cache_in_use_bytes 6002\n",
           "packhouse_object_cache_bound_bytes 6003\n",
           "packhouse_object_cache_hits_total 6004\n",
           "packhouse_object_cache_misses_total 6005\n",
           "packhouse_object_cache_evictions_total 6006\n",
           "packhouse_s3_retries_total 6007\n",
           "packhouse_swept_objects_total 6008\n",
           "packhouse_swept_bytes_total 6009\n",
           "packhouse_orphaned_objects_total 6010\n",
           "packhouse_sweep_failures_total 6011\n",
       }) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat("\n", sample)));
  }
}

TEST(ServerCollectorTest, NothingIsToldOfWhatAServerDoesNotHave) {
  const ServerCollector collector([] { return ServerReading(); });
  std::vector<std::string> names;
  for (const prometheus::MetricFamily& family : collector.Collect()) names.push_back(family.name);
  EXPECT_THAT(
      names,
      ElementsAre("packhouse_memory_held_bytes", "packhouse_memory_bound_bytes",
                  "packhouse_draining", "packhouse_connections", "packhouse_connections_bound",
                  "packhouse_out_of_memory_total", "packhouse_datasets_expired_total",
                  "packhouse_source_graphs_expired_total", "packhouse_histograms_expired_total",
                  "packhouse_measured_models_expired_total"));
}

// Clients name models.
TEST(ServerCollectorTest, AHundredModelsAreShown) {
  ServerReading reading;
  reading.feedback.resize(150);
  const ServerCollector collector([&] { return reading; });
  const std::vector<prometheus::MetricFamily> families = collector.Collect();
  EXPECT_THAT(
      families,
      Contains(AllOf(Field(&prometheus::MetricFamily::name, "packhouse_feedback_reports_total"),
                     Field(&prometheus::MetricFamily::metric, SizeIs(100)))));
}

}  // namespace
}  // namespace packhouse::metrics
