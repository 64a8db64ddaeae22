#include "service/server/metrics/store_collector.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "service/access/policy.h"
#include "service/server/metrics/families.h"

namespace packhouse::metrics {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr char kOtherDatasets[] = "other";

struct DatasetSums {
  uint64_t num_graphs = 0;
  uint64_t num_bytes = 0;
};

struct DatasetCounts {
  uint64_t num_open = 0;
  uint64_t num_sealed = 0;
};

// By namespace and name, both bounded; and how many there are by namespace.
struct LabelledDatasets {
  std::map<std::pair<std::string, std::string>, DatasetSums> sums;
  std::map<std::string, DatasetCounts> counts;
};

LabelledDatasets Label(std::vector<StoreReading::Dataset> datasets) {
  std::set<std::string> names;
  for (const StoreReading::Dataset& dataset : datasets) {
    names.emplace(NamespaceOf(dataset.name));
  }
  // One place is kept for "other".
  const auto end = names.size() <= kMaxNamespaceLabels
                       ? names.end()
                       : std::next(names.begin(), kMaxNamespaceLabels - 1);
  const std::set<std::string> labels(names.begin(), end);
  std::sort(datasets.begin(), datasets.end(), [](const auto& a, const auto& b) {
    return std::tie(b.num_bytes, a.name) < std::tie(a.num_bytes, b.name);
  });
  LabelledDatasets labelled;
  for (size_t i = 0; i < datasets.size(); ++i) {
    const StoreReading::Dataset& dataset = datasets[i];
    std::string where(NamespaceOf(dataset.name));
    if (!labels.contains(where)) where = kOtherDatasets;
    DatasetCounts& counts = labelled.counts[where];
    ++(dataset.is_sealed ? counts.num_sealed : counts.num_open);
    DatasetSums& sums =
        labelled.sums[{where, i < kMaxDatasetLabels ? dataset.name : kOtherDatasets}];
    sums.num_graphs += dataset.num_graphs;
    sums.num_bytes += dataset.num_bytes;
  }
  return labelled;
}

}  // namespace

std::vector<MetricFamily> StoreCollector::Collect() const {
  StoreReading now = read_();
  std::vector<MetricFamily> families;
  if (now.disk) {
    families.push_back(GaugeFamily("packhouse_disk_free_bytes",
                                   "Bytes that are free on the disk of --data-dir.",
                                   static_cast<double>(now.disk->free_bytes)));
    families.push_back(GaugeFamily("packhouse_disk_size_bytes", "Bytes of the disk of --data-dir.",
                                   static_cast<double>(now.disk->all_bytes)));
  }
  const LabelledDatasets labelled = Label(std::move(now.datasets));
  MetricFamily number =
      FamilyOf("packhouse_datasets", "Data sets, by namespace and state.", MetricType::Gauge);
  MetricFamily graphs =
      FamilyOf("packhouse_dataset_graphs", "Graphs in data sets, by namespace and data set.",
               MetricType::Gauge);
  MetricFamily bytes =
      FamilyOf("packhouse_dataset_bytes",
               "Bytes of the records of data sets, by namespace and data set.", MetricType::Gauge);
  const auto add = [](MetricFamily& family, std::vector<prometheus::ClientMetric::Label> labels,
                      uint64_t value) {
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    metric.label = std::move(labels);
    metric.gauge.value = static_cast<double>(value);
  };
  for (const auto& [where, counts] : labelled.counts) {
    add(number, {{"namespace", where}, {"state", "open"}}, counts.num_open);
    add(number, {{"namespace", where}, {"state", "sealed"}}, counts.num_sealed);
  }
  for (const auto& [labels, sums] : labelled.sums) {
    const auto& [where, name] = labels;
    add(graphs, {{"namespace", where}, {"dataset", name}}, sums.num_graphs);
    add(bytes, {{"namespace", where}, {"dataset", name}}, sums.num_bytes);
  }
  for (MetricFamily* const family : {&number, &graphs, &bytes}) {
    if (!family->metric.empty()) families.push_back(std::move(*family));
  }
  return families;
}

}  // namespace packhouse::metrics
