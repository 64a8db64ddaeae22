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
  return {std::move(held), std::move(most), std::move(connections), std::move(most_connections),
          std::move(out_of_memory)};
}

}  // namespace packhouse::metrics
