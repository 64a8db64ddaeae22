#include "service/server/metrics/event_metrics.h"

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"
#include "tests/support/random.h"

namespace packhouse::metrics {
namespace {

using ::testing::HasSubstr;

std::string Page(const prometheus::Collectable& metrics) {
  return prometheus::TextSerializer().Serialize(metrics.Collect());
}

// prometheus-cpp's own metrics are the oracle: the same events give the same page.
TEST(EventMetricsTest, ThePageIsThatOfPrometheusCpp) {
  const std::vector<double> bounds = {0.5, 1, 2.5, 10};
  EventMetrics metrics;
  EventMetrics::Counter counter = metrics.AddCounter("c_total", "A counter.", {{"b", "x"}});
  EventMetrics::Gauge gauge = metrics.AddGauge("g", "A gauge.");
  EventMetrics::Histogram histogram =
      metrics.AddHistogram("h", "A histogram.", bounds, {{"le2", "\"quoted\""}, {"a", "\n"}});

  prometheus::Registry oracle;
  auto& oracle_counter = prometheus::BuildCounter()
                             .Name("c_total")
                             .Help("A counter.")
                             .Register(oracle)
                             .Add({{"b", "x"}});
  auto& oracle_gauge = prometheus::BuildGauge().Name("g").Help("A gauge.").Register(oracle).Add({});
  auto& oracle_histogram = prometheus::BuildHistogram()
                               .Name("h")
                               .Help("A histogram.")
                               .Register(oracle)
                               .Add({{"le2", "\"quoted\""}, {"a", "\n"}}, bounds);
  EXPECT_EQ(Page(metrics), Page(oracle));

  Random random(0);
  int64_t level = 0;
  for (int i = 0; i < 200; ++i) {
    const uint64_t amount = random.Below(1000);
    counter.Increment(amount);
    oracle_counter.Increment(static_cast<double>(amount));
    const int64_t change = static_cast<int64_t>(random.Below(100)) - std::min<int64_t>(level, 50);
    level += change;
    gauge.Change(change);
    oracle_gauge.Increment(static_cast<double>(change));
    // On bounds, between them, below the first and above the last; sums of quarters are exact.
    const double value = static_cast<double>(random.Below(60)) / 4 - 1;
    histogram.Observe(value);
    oracle_histogram.Observe(value);
  }
  EXPECT_EQ(Page(metrics), Page(oracle));
}

TEST(EventMetricsTest, ValuesThatAreNoNumbersHaveTheBucketsOfPrometheusCpp) {
  const std::vector<double> bounds = {0, 1};
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity()}) {
    EventMetrics metrics;
    metrics.AddHistogram("h", "", bounds).Observe(value);
    prometheus::Registry oracle;
    prometheus::BuildHistogram().Name("h").Help("").Register(oracle).Add({}, bounds).Observe(value);
    EXPECT_EQ(Page(metrics), Page(oracle)) << value;
  }
}

// More metrics than fit one ThreadCells: each keeps its own value.
TEST(EventMetricsTest, ManyMetricsAreKeptApart) {
  const std::vector<double> bounds = {1, 2, 3};
  EventMetrics metrics;
  std::vector<EventMetrics::Counter> counters;
  std::vector<EventMetrics::Histogram> histograms;
  for (int i = 0; i < 500; ++i) {
    const prometheus::Labels labels = {{"i", absl::StrCat(i)}};
    counters.push_back(metrics.AddCounter("c_total", "", labels));
    histograms.push_back(metrics.AddHistogram("h", "", bounds, labels));
  }
  for (int i = 0; i < 500; ++i) {
    counters[i].Increment(i + 1);
    histograms[i].Observe(i);
  }
  const std::string page = Page(metrics);
  for (int i = 0; i < 500; ++i) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat("c_total{i=\"", i, "\"} ", i + 1, "\n")));
    EXPECT_THAT(page, HasSubstr(absl::StrCat("h_count{i=\"", i, "\"} 1\n")));
    EXPECT_THAT(page, HasSubstr(absl::StrCat("h_sum{i=\"", i, "\"} ", i, "\n")));
  }
}

TEST(EventMetricsTest, AGaugeIsNeverSeenNegative) {
  EventMetrics metrics;
  EventMetrics::Gauge gauge = metrics.AddGauge("g", "");
  gauge.Change(-3);
  EXPECT_THAT(Page(metrics), HasSubstr("g 0\n"));
  gauge.Change(5);
  EXPECT_THAT(Page(metrics), HasSubstr("g 2\n"));
}

}  // namespace
}  // namespace packhouse::metrics
