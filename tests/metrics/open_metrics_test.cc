#include "service/server/metrics/open_metrics.h"

#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/metrics/families.h"
#include "service/server/metrics/metrics.h"

namespace packhouse::metrics {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kTrace[] = "0af7651916cd43dd8448eb211c80319c";

std::string ParentOf(const std::string& trace, const std::string& flags) {
  return absl::StrCat("00-", trace, "-b7ad6b7169203331-", flags);
}

TEST(SampledTraceTest, IsThatOfATraceThatSomebodyRecords) {
  EXPECT_EQ(SampledTrace(ParentOf(kTrace, "01")), kTrace);
  EXPECT_EQ(SampledTrace(ParentOf(kTrace, "03")), kTrace);
  // A later version has more behind it.
  EXPECT_EQ(SampledTrace(absl::StrCat("01", ParentOf(kTrace, "0b").substr(2), "-more")), kTrace);
  EXPECT_EQ(SampledTrace(ParentOf(kTrace, "00")), "");
  EXPECT_EQ(SampledTrace(ParentOf(kTrace, "02")), "");
  EXPECT_EQ(SampledTrace(ParentOf(std::string(32, '0'), "01")), "");
  EXPECT_EQ(SampledTrace(ParentOf(std::string(32, 'F'), "01")), "");
  EXPECT_EQ(SampledTrace(ParentOf(std::string(31, 'a') + "\"", "01")), "");
  EXPECT_EQ(SampledTrace(ParentOf(std::string(31, 'a') + "g", "01")), "");
  for (const char* const flags : {"0F", "g1", "-1"}) {
    EXPECT_EQ(SampledTrace(ParentOf(kTrace, flags)), "") << flags;
  }
  EXPECT_EQ(SampledTrace(ParentOf(std::string(32, 'f'), "ff")), std::string(32, 'f'));
  const std::string whole = ParentOf(kTrace, "01");
  for (const size_t separator : {2, 35, 52}) {
    EXPECT_EQ(SampledTrace(std::string(whole).replace(separator, 1, "_")), "");
  }
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(SampledTrace(whole.substr(0, size)), "");
  }
}

TEST(OpenMetricsTextTest, HasEveryKindOfFamily) {
  std::vector<prometheus::MetricFamily> families = {
      CounterFamily("a_total", "All \"a\".\nAnd \\.", 3), GaugeFamily("b", "", 1e6 + 0.5),
      FamilyOf("empty", "", prometheus::MetricType::Gauge),
      FamilyOf("c_seconds", "Times.", prometheus::MetricType::Histogram)};
  prometheus::ClientMetric& histogram = families.back().metric.emplace_back();
  histogram.label = {{"method", "a\"b"}};
  histogram.histogram = {
      3, 11.25, {{1, 1}, {2, 2.5}, {3, std::numeric_limits<double>::infinity()}}};
  families.push_back(FamilyOf("d_seconds", "", prometheus::MetricType::Summary));
  families.back().metric.emplace_back().summary = {4, 10, {{0.5, 2.5}}};
  families.push_back(CounterFamily("e", "", -std::numeric_limits<double>::infinity()));
  families.push_back(FamilyOf("f", "", prometheus::MetricType::Untyped));
  families.back().metric.emplace_back().untyped.value = std::nan("");
  const std::string text =
      OpenMetricsText(families, [](const std::string& family, const prometheus::ClientMetric&) {
        EXPECT_EQ(family, "c_seconds");
        return std::vector<std::optional<Exemplar>>{
            std::nullopt, Exemplar{kTrace, 2.25, absl::FromUnixMillis(1'700'000'000'125)}};
      });
  EXPECT_EQ(text, absl::StrCat(R"(# TYPE a counter
# HELP a All \"a\".\nAnd \\.
a_total 3
# TYPE b gauge
b 1000000.5
# TYPE c_seconds histogram
# HELP c_seconds Times.
c_seconds_bucket{method="a\"b",le="1.0"} 1
c_seconds_bucket{method="a\"b",le="2.5"} 2 # {trace_id=")",
                               kTrace, R"("} 2.25 1700000000.125
c_seconds_bucket{method="a\"b",le="+Inf"} 3
c_seconds_count{method="a\"b"} 3
c_seconds_sum{method="a\"b"} 11.25
# TYPE d_seconds summary
d_seconds{quantile="0.5"} 2.5
d_seconds_count 4
d_seconds_sum 10
# TYPE e unknown
e -Inf
# TYPE f unknown
f NaN
# EOF
)"));
}

// In the bucket that the call counts in, and the last one of each.
TEST(OpenMetricsTextTest, SlowCallsHaveTheirTraces) {
  Metrics metrics("");
  CallJournal* const journal = metrics.CountCalls(nullptr);
  const auto end = [&](Method method, char digit, absl::Duration elapsed) {
    CallRecord record;
    record.trace = ParentOf(std::string(32, digit), "01");
    const absl::Status status;
    journal->OnEnded({record, method, status, elapsed});
  };
  end(Method::kPlan, 'a', absl::Milliseconds(3));
  end(Method::kPlan, 'b', absl::Milliseconds(4));
  end(Method::kPlan, 'c', absl::Hours(1));
  // A bound belongs to its bucket.
  end(Method::kLoad, 'd', absl::Seconds(60));
  const std::string page = metrics.OpenMetrics();
  const auto traced = [](const char* method, const char* bound, char digit, const char* value) {
    return HasSubstr(absl::StrCat("packhouse_rpc_duration_seconds_bucket{method=\"", method,
                                  "\",le=\"", bound, "\"} 0 # {trace_id=\"", std::string(32, digit),
                                  "\"} ", value, " "));
  };
  EXPECT_THAT(page, AllOf(traced("Plan", "0.005", 'b', "0.004"),
                          traced("Plan", "+Inf", 'c', "3600"), traced("Load", "60.0", 'd', "60")));
  EXPECT_THAT(page, Not(HasSubstr(std::string(32, 'a'))));
  // The text format has none.
  EXPECT_THAT(metrics.Exposition(), Not(HasSubstr("trace_id")));
}

}  // namespace
}  // namespace packhouse::metrics
