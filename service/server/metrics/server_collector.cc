#include "service/server/metrics/server_collector.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

#include "prometheus/client_metric.h"
#include "prometheus/metric_type.h"

namespace packhouse::metrics {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily ServerFamilyOf(std::string name, std::string help, MetricType type) {
  MetricFamily family;
  family.name = std::move(name);
  family.help = std::move(help);
  family.type = type;
  return family;
}

// Adds families of one number each.
auto NumbersTo(std::vector<MetricFamily>& families) {
  return [&families](const char* name, const char* help, MetricType type, uint64_t value) {
    MetricFamily family = ServerFamilyOf(name, help, type);
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) =
        static_cast<double>(value);
    families.push_back(std::move(family));
  };
}

void AddReadiness(const ServerReading& now, std::vector<MetricFamily>& families) {
  MetricFamily ready =
      ServerFamilyOf("packhouse_ready",
                     "1, or 0 while this reason keeps the server from taking work. The server is "
                     "ready, at /readyz and in gRPC health, if all are 1.",
                     MetricType::Gauge);
  for (const ReadyReading& each : now.ready) {
    prometheus::ClientMetric& metric = ready.metric.emplace_back();
    metric.label = {{"reason", each.reason}};
    metric.gauge.value = each.is_ready ? 1 : 0;
  }
  if (!ready.metric.empty()) families.push_back(std::move(ready));
  NumbersTo(families)("packhouse_draining", "1 once the server drains: it ends soon.",
                      MetricType::Gauge, now.is_draining ? 1 : 0);
}

// Without a file, no family.
void AddFiles(const std::vector<FileReading>& files, std::vector<MetricFamily>& families) {
  if (files.empty()) return;
  MetricFamily broken = ServerFamilyOf(
      "packhouse_file_broken",
      "1 if what a file has now could not be used, and what it had before is in use.",
      MetricType::Gauge);
  MetricFamily reloads =
      ServerFamilyOf("packhouse_file_reloads_total",
                     "Times that a file's new content came into use.", MetricType::Counter);
  MetricFamily failures =
      ServerFamilyOf("packhouse_file_reload_failures_total",
                     "Times that a file's new content could not be used.", MetricType::Counter);
  MetricFamily expires =
      ServerFamilyOf("packhouse_certificate_expiry_timestamp_seconds",
                     "When the first of the server's certificate in use, and those between it and "
                     "its CA, expires.",
                     MetricType::Gauge);
  MetricFamily begins = ServerFamilyOf("packhouse_certificate_start_timestamp_seconds",
                                       "From when that certificate is valid.", MetricType::Gauge);
  for (const FileReading& file : files) {
    const auto add = [&file](MetricFamily& family) -> prometheus::ClientMetric& {
      prometheus::ClientMetric& metric = family.metric.emplace_back();
      metric.label = {{"file", file.name}};
      return metric;
    };
    add(broken).gauge.value = file.is_broken ? 1 : 0;
    add(reloads).counter.value = static_cast<double>(file.num_reloads);
    add(failures).counter.value = static_cast<double>(file.num_failures);
    if (file.expires != absl::InfiniteFuture()) {
      expires.metric.emplace_back().gauge.value =
          absl::ToDoubleSeconds(file.expires - absl::UnixEpoch());
      begins.metric.emplace_back().gauge.value =
          absl::ToDoubleSeconds(file.begins - absl::UnixEpoch());
    }
  }
  for (MetricFamily* const family : {&broken, &reloads, &failures, &expires, &begins}) {
    if (!family->metric.empty()) families.push_back(std::move(*family));
  }
}

// Without a folder for data, no family.
void AddSourceGraphs(const std::optional<SourceGraphReading>& graphs,
                     std::vector<MetricFamily>& families) {
  if (!graphs) return;
  const auto add = NumbersTo(families);
  add("packhouse_source_graphs", "Source graphs, open and sealed.", MetricType::Gauge,
      graphs->num_graphs);
  add("packhouse_source_graph_bytes",
      "Bytes of all source graphs on the disk, with deleted ones that are still read.",
      MetricType::Gauge, graphs->num_bytes);
  add("packhouse_source_graph_max_bytes", "Bytes that source graphs may take on the disk.",
      MetricType::Gauge, graphs->max_bytes);
  add("packhouse_source_graph_nodes_appended_total",
      "Rows of nodes that were appended to source graphs.", MetricType::Counter,
      graphs->appended_nodes);
  add("packhouse_source_graph_edges_appended_total",
      "Rows of edges that were appended to source graphs.", MetricType::Counter,
      graphs->appended_edges);
}

// Without data sets in S3, no family.
void AddSharedDatasets(const std::optional<SharedDatasetsReading>& shared,
                       std::vector<MetricFamily>& families) {
  if (!shared) return;
  const auto add = NumbersTo(families);
  add("packhouse_object_cache_bytes", "Bytes of objects in --cache-dir.", MetricType::Gauge,
      shared->cached_bytes);
  add("packhouse_object_cache_in_use_bytes",
      "Bytes of objects in --cache-dir that open data sets keep there.", MetricType::Gauge,
      shared->in_use_bytes);
  add("packhouse_object_cache_bound_bytes",
      "Bytes that objects in --cache-dir may take (--cache-bytes).", MetricType::Gauge,
      shared->max_cached_bytes);
  add("packhouse_object_cache_hits_total", "Times that an object was found in --cache-dir.",
      MetricType::Counter, shared->hits);
  add("packhouse_object_cache_misses_total", "Objects that were fetched into --cache-dir.",
      MetricType::Counter, shared->misses);
  add("packhouse_object_cache_evictions_total",
      "Objects that were removed from --cache-dir to make room for others.", MetricType::Counter,
      shared->evictions);
  add("packhouse_s3_retries_total", "Requests to S3 that failed and were made again.",
      MetricType::Counter, shared->num_retries);
  add("packhouse_swept_objects_total", "Objects in S3 that no data set had, and that were deleted.",
      MetricType::Counter, shared->swept_objects);
  add("packhouse_swept_bytes_total",
      "Bytes of objects in S3 that no data set had, and that were deleted.", MetricType::Counter,
      shared->swept_bytes);
  add("packhouse_orphaned_objects_total",
      "Objects in S3 that appends which did not end had left, and that were deleted.",
      MetricType::Counter, shared->orphaned_objects);
  add("packhouse_sweep_failures_total", "Failed searches for objects in S3 that no data set has.",
      MetricType::Counter, shared->failed_sweeps);
}

// Adds a family of one number for each value of a label.
void AddByLabel(MetricFamily family, const char* label,
                std::initializer_list<std::pair<const char*, uint64_t>> values,
                std::vector<MetricFamily>& families) {
  for (const auto& [of, value] : values) {
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    metric.label = {{label, of}};
    (family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) =
        static_cast<double>(value);
  }
  families.push_back(std::move(family));
}

// Without --lane, no family.
void AddLanes(const std::optional<LaneReading>& lanes, std::vector<MetricFamily>& families) {
  if (!lanes) return;
  const auto add = NumbersTo(families);
  AddByLabel(ServerFamilyOf("packhouse_lane_streams",
                            "Streams that were offered a lane, by where their batches go: through "
                            "shared memory (lane), or over gRPC.",
                            MetricType::Gauge),
             "transport", {{"lane", lanes->num_open}, {"grpc", lanes->num_not_open}}, families);
  add("packhouse_lane_slots_in_use", "Slots of lanes that clients have.", MetricType::Gauge,
      lanes->num_slots);
  add("packhouse_lane_batches_total", "Batches that went through lanes.", MetricType::Counter,
      lanes->num_batches);
  add("packhouse_lane_chunks_total", "Chunks of graphs that came through lanes.",
      MetricType::Counter, lanes->num_chunks);
  AddByLabel(ServerFamilyOf("packhouse_lane_fallbacks_total",
                            "Batches that went over gRPC though their lane was open, since they "
                            "fit no slot (too_large) or found none free for long (no_slot); and "
                            "streams that got no lane, for lack of memory (no_memory).",
                            MetricType::Counter),
             "reason",
             {{"too_large", lanes->num_too_large},
              {"no_slot", lanes->num_without_slot},
              {"no_memory", lanes->num_refused}},
             families);
}

// Without quotas, no family.
void AddQuotas(const std::vector<QuotaUseReading>& quotas, std::vector<MetricFamily>& families) {
  if (quotas.empty()) return;
  MetricFamily used =
      ServerFamilyOf("packhouse_namespace_quota_used",
                     "What a namespace that the policy names uses of a quota.", MetricType::Gauge);
  MetricFamily limit = ServerFamilyOf("packhouse_namespace_quota_limit",
                                      "The bound of a quota of a namespace that the policy names.",
                                      MetricType::Gauge);
  for (const QuotaUseReading& each : quotas) {
    for (const auto& [family, value] :
         {std::pair(&used, each.used), std::pair(&limit, each.limit)}) {
      prometheus::ClientMetric& metric = family->metric.emplace_back();
      metric.label = {{"namespace", each.where}, {"quota", each.quota}};
      metric.gauge.value = value;
    }
  }
  families.push_back(std::move(used));
  families.push_back(std::move(limit));
}

// Clients name models. Of more than this many, the last ones by name are not shown.
constexpr size_t kMaxModelLabels = 100;

// Without measured models, no family.
void AddFeedback(const std::vector<FeedbackReading>& models, std::vector<MetricFamily>& families) {
  if (models.empty()) return;
  MetricFamily reports =
      ServerFamilyOf("packhouse_feedback_reports_total",
                     "Reports of what batches of a model cost on a device.", MetricType::Counter);
  MetricFamily too_large =
      ServerFamilyOf("packhouse_feedback_out_of_memory_total",
                     "Batches of a model that did not fit a device's memory.", MetricType::Counter);
  MetricFamily fixed_seconds =
      ServerFamilyOf("packhouse_feedback_fixed_seconds",
                     "What each batch takes, whatever its rows, as fitted.", MetricType::Gauge);
  MetricFamily fixed_bytes = ServerFamilyOf(
      "packhouse_feedback_fixed_bytes",
      "Bytes that each batch takes, whatever its rows, as fitted.", MetricType::Gauge);
  MetricFamily seconds =
      ServerFamilyOf("packhouse_feedback_row_seconds",
                     "What a row of a component takes, as fitted.", MetricType::Gauge);
  MetricFamily bytes =
      ServerFamilyOf("packhouse_feedback_row_bytes",
                     "Bytes that a row of a component takes, as fitted.", MetricType::Gauge);
  MetricFamily spread = ServerFamilyOf(
      "packhouse_feedback_spread_ratio",
      "Median share by which batches' seconds differ from what is fitted.", MetricType::Gauge);
  for (size_t i = 0; i < std::min(models.size(), kMaxModelLabels); ++i) {
    const FeedbackReading& model = models[i];
    const auto add = [&model](MetricFamily& family) -> prometheus::ClientMetric& {
      prometheus::ClientMetric& metric = family.metric.emplace_back();
      metric.label = {{"model", model.model}, {"device", model.device}};
      return metric;
    };
    add(reports).counter.value = static_cast<double>(model.num_reports);
    add(too_large).counter.value = static_cast<double>(model.num_out_of_memory);
    add(fixed_seconds).gauge.value = model.fixed_seconds;
    add(fixed_bytes).gauge.value = model.fixed_bytes;
    add(spread).gauge.value = model.spread;
    for (const FeedbackReading::Component& component : model.components) {
      for (const auto& [family, value] : {std::pair(&seconds, component.seconds_per_row),
                                          std::pair(&bytes, component.bytes_per_row)}) {
        prometheus::ClientMetric& metric = add(*family);
        metric.label.push_back({"component", component.name});
        metric.gauge.value = value;
      }
    }
  }
  for (MetricFamily* const family :
       {&reports, &too_large, &fixed_seconds, &fixed_bytes, &seconds, &bytes, &spread}) {
    families.push_back(std::move(*family));
  }
}

void AddCluster(const std::optional<ClusterReading>& cluster, std::vector<MetricFamily>& families) {
  if (!cluster) return;
  const auto add = NumbersTo(families);
  add("packhouse_cluster_members", "Servers that share the jobs, as far as this one knows.",
      MetricType::Gauge, cluster->num_members);
  add("packhouse_cluster_has_lease", "1 while this server may own jobs: etcd answers.",
      MetricType::Gauge, cluster->has_lease ? 1 : 0);
  add("packhouse_cluster_jobs", "Jobs that this server owns.", MetricType::Gauge,
      cluster->num_jobs);
  add("packhouse_cluster_jobs_opened_total", "Times that this server became the owner of a job.",
      MetricType::Counter, cluster->num_opened);
  add("packhouse_cluster_takeovers_total",
      "Times that this server became the owner of a job that was begun before.",
      MetricType::Counter, cluster->num_taken_over);
  add("packhouse_cluster_commit_failures_total", "Commits of jobs' ledgers to etcd that failed.",
      MetricType::Counter, cluster->num_failed_commits);
  MetricFamily commits =
      ServerFamilyOf("packhouse_cluster_commit_seconds",
                     "Time of commits of jobs' ledgers to etcd, with waiting for the one before.",
                     MetricType::Summary);
  prometheus::ClientMetric& metric = commits.metric.emplace_back();
  metric.summary.sample_count = cluster->num_commits + cluster->num_failed_commits;
  metric.summary.sample_sum = absl::ToDoubleSeconds(cluster->commit_time);
  families.push_back(std::move(commits));
}

}  // namespace

std::vector<MetricFamily> ServerCollector::Collect() const {
  const ServerReading now = read_();
  MetricFamily held =
      ServerFamilyOf("packhouse_memory_held_bytes",
                     "Bytes of --memory-budget that are held, by share: graphs that wait "
                     "(pending), responses that are made and not sent (unsent), what is "
                     "worked with (working).",
                     MetricType::Gauge);
  MetricFamily most =
      ServerFamilyOf("packhouse_memory_bound_bytes",
                     "Bytes of --memory-budget that may be held, by share.", MetricType::Gauge);
  for (const auto& [name, share] :
       {std::pair("pending", now.pending), std::pair("unsent", now.unsent),
        std::pair("working", now.working)}) {
    for (const auto& [family, bytes] :
         {std::pair(&held, share.held_bytes), std::pair(&most, share.most_bytes)}) {
      prometheus::ClientMetric& metric = family->metric.emplace_back();
      metric.label = {{"share", name}};
      metric.gauge.value = static_cast<double>(bytes);
    }
  }
  std::vector<MetricFamily> families;
  families.push_back(std::move(held));
  families.push_back(std::move(most));
  AddReadiness(now, families);
  const auto add = NumbersTo(families);
  add("packhouse_connections", "Connections of clients that are open.", MetricType::Gauge,
      now.num_connections);
  add("packhouse_connections_bound", "Connections of clients that may be open.", MetricType::Gauge,
      now.max_connections);
  add("packhouse_out_of_memory_total",
      "Times that something was left undone, or was put off, for want of memory.",
      MetricType::Counter, now.num_out_of_memory);
  add("packhouse_datasets_expired_total",
      "Data sets that were deleted since nobody had used them for as long as --dataset-retention "
      "says.",
      MetricType::Counter, now.num_expired_datasets);
  add("packhouse_source_graphs_expired_total",
      "Source graphs that were deleted since nobody had used them for as long as "
      "--source-graph-retention says.",
      MetricType::Counter, now.num_expired_source_graphs);
  add("packhouse_histograms_expired_total",
      "Named histograms that were deleted since nobody had used them for as long as "
      "--histogram-retention says.",
      MetricType::Counter, now.num_expired_histograms);
  add("packhouse_measured_models_expired_total",
      "Measured models that were deleted since nobody had used them for as long as "
      "--model-retention says.",
      MetricType::Counter, now.num_expired_models);
  AddFiles(now.files, families);
  AddSourceGraphs(now.source_graphs, families);
  AddSharedDatasets(now.shared_datasets, families);
  AddLanes(now.lanes, families);
  AddQuotas(now.quotas, families);
  AddFeedback(now.feedback, families);
  AddCluster(now.cluster, families);
  return families;
}

}  // namespace packhouse::metrics
