#include "service/server/metrics/served_reading.h"

#include <algorithm>
#include <string_view>

namespace packhouse::metrics {
namespace {

uint64_t ValueOf(prometheus::MetricType type, const prometheus::ClientMetric& metric) {
  return static_cast<uint64_t>(type == prometheus::MetricType::Counter ? metric.counter.value
                                                                       : metric.gauge.value);
}

std::string LabelOf(const prometheus::ClientMetric& metric, std::string_view name) {
  for (const auto& label : metric.label) {
    if (label.name == name) return label.value;
  }
  return "";
}

template <typename Row>
Row& RowOf(std::vector<Row>& rows, std::string Row::*key, const std::string& name) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.*key == name; });
  if (found != rows.end()) return *found;
  rows.emplace_back().*key = name;
  return rows.back();
}

}  // namespace

ServedReading ServedFrom(const std::vector<prometheus::MetricFamily>& families) {
  ServedReading read;
  for (const prometheus::MetricFamily& family : families) {
    const std::string_view name = family.name;
    for (const prometheus::ClientMetric& metric : family.metric) {
      const uint64_t value = ValueOf(family.type, metric);
      const auto component = [&]() -> ServedReading::Rows& {
        return RowOf(read.components, &ServedReading::Rows::component,
                     LabelOf(metric, "component"));
      };
      const auto stream = [&]() -> ServedReading::Streams& {
        return RowOf(read.streams, &ServedReading::Streams::method, LabelOf(metric, "method"));
      };
      const auto store = [&]() -> ServedReading::Store& {
        return RowOf(read.stores, &ServedReading::Store::name, LabelOf(metric, "store"));
      };
      if (name == "packhouse_batches_total") read.batches += value;
      if (name == "packhouse_graphs_total") read.graphs += value;
      if (name == "packhouse_batch_bytes_total") read.batch_bytes += value;
      if (name == "packhouse_pending_graphs") read.pending_graphs += value;
      if (name == "packhouse_real_rows_total") component().real += value;
      if (name == "packhouse_padding_rows_total") component().padding += value;
      if (name == "packhouse_open_streams") stream().open += value;
      if (name == "packhouse_unsent_responses") stream().unsent_responses += value;
      if (name == "packhouse_store_bytes") store().num_bytes += value;
      if (name == "packhouse_store_max_bytes") store().max_bytes += value;
    }
  }
  return read;
}

}  // namespace packhouse::metrics
