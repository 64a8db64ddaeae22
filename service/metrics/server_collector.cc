#include "service/metrics/server_collector.h"

#include <string>

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
                     "When the server's certificate in use expires.", MetricType::Gauge);
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
    }
  }
  for (MetricFamily* const family : {&broken, &reloads, &failures, &expires}) {
    if (!family->metric.empty()) families.push_back(std::move(*family));
  }
}

// Without a folder for data, no family.
void AddSourceGraphs(const std::optional<SourceGraphReading>& graphs,
                     std::vector<MetricFamily>& families) {
  if (!graphs) return;
  const auto add = [&families](const char* name, const char* help, MetricType type,
                               uint64_t value) {
    MetricFamily family = ServerFamilyOf(name, help, type);
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) =
        static_cast<double>(value);
    families.push_back(std::move(family));
  };
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
  MetricFamily connections = ServerFamilyOf(
      "packhouse_connections", "Connections of clients that are open.", MetricType::Gauge);
  connections.metric.emplace_back().gauge.value = static_cast<double>(now.num_connections);
  MetricFamily most_connections = ServerFamilyOf(
      "packhouse_connections_bound", "Connections of clients that may be open.", MetricType::Gauge);
  most_connections.metric.emplace_back().gauge.value = static_cast<double>(now.max_connections);
  MetricFamily out_of_memory =
      ServerFamilyOf("packhouse_out_of_memory_total",
                     "Times that something was left undone, or was put off, for "
                     "want of memory.",
                     MetricType::Counter);
  out_of_memory.metric.emplace_back().counter.value = static_cast<double>(now.num_out_of_memory);
  std::vector<MetricFamily> families;
  for (MetricFamily* const family :
       {&held, &most, &connections, &most_connections, &out_of_memory}) {
    families.push_back(std::move(*family));
  }
  AddFiles(now.files, families);
  AddSourceGraphs(now.source_graphs, families);
  return families;
}

}  // namespace packhouse::metrics
