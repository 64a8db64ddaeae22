#include "service/server/metrics/store_collector.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/metrics/metrics.h"

namespace packhouse::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(StoreCollectorTest, TellsEveryNumber) {
  Metrics metrics("");
  EXPECT_THAT(metrics.Exposition(), Not(HasSubstr("packhouse_disk")));
  metrics.SetStores([] {
    return StoreReading{.disk = StoreReading::Disk{11, 22},
                        .datasets = {{"a", true, 33, 44}, {"team/b", false, 55, 66}}};
  });
  const std::string page = metrics.Exposition();
  for (const char* line : {"packhouse_disk_free_bytes 11\n", "packhouse_disk_size_bytes 22\n",
                           R"(packhouse_datasets{namespace="default",state="open"} 0)",
                           R"(packhouse_datasets{namespace="default",state="sealed"} 1)",
                           R"(packhouse_datasets{namespace="team",state="open"} 1)",
                           R"(packhouse_dataset_graphs{namespace="default",dataset="a"} 33)",
                           R"(packhouse_dataset_bytes{namespace="default",dataset="a"} 44)",
                           R"(packhouse_dataset_graphs{namespace="team",dataset="team/b"} 55)",
                           R"(packhouse_dataset_bytes{namespace="team",dataset="team/b"} 66)"}) {
    EXPECT_THAT(page, HasSubstr(line));
  }
}

// Clients choose the names; the page stays bounded, its sums are right, and the largest are named.
TEST(StoreCollectorTest, LabelsAreBounded) {
  constexpr size_t kDatasets = 3000;
  StoreReading reading;
  double all = 0;
  for (size_t i = 0; i < kDatasets; ++i) {
    reading.datasets.push_back({absl::StrFormat("n%03d/d%04d", i % 150, i), true, 1, i});
    all += static_cast<double>(i);
  }
  const StoreCollector collector([&] { return reading; });
  for (const prometheus::MetricFamily& family : collector.Collect()) {
    double sum = 0;
    std::map<std::string, size_t> namespaces;
    bool has_largest = false;
    for (const prometheus::ClientMetric& metric : family.metric) {
      sum += metric.gauge.value;
      ++namespaces[metric.label.at(0).value];
      has_largest |= metric.label.at(1).value == "n149/d2999";
    }
    EXPECT_EQ(namespaces.size(), kMaxNamespaceLabels) << family.name;
    EXPECT_TRUE(namespaces.contains("other"));
    EXPECT_EQ(sum, family.name == "packhouse_dataset_bytes" ? all : double{kDatasets});
    const bool is_of_datasets = family.name != "packhouse_datasets";
    EXPECT_EQ(family.metric.size(),
              kMaxNamespaceLabels + (is_of_datasets ? kMaxDatasetLabels : kMaxNamespaceLabels));
    EXPECT_EQ(has_largest, is_of_datasets);
  }
}

TEST(StoreCollectorTest, AsManyNamespacesAsThereMayBeAreAllNamed) {
  StoreReading reading;
  for (size_t i = 0; i < kMaxNamespaceLabels; ++i) {
    reading.datasets.push_back({absl::StrFormat("n%03d/d", i)});
  }
  const StoreCollector collector([&] { return reading; });
  for (const prometheus::MetricFamily& family : collector.Collect()) {
    for (const prometheus::ClientMetric& metric : family.metric) {
      EXPECT_NE(metric.label.at(0).value, "other");
    }
  }
}

}  // namespace
}  // namespace packhouse::metrics
