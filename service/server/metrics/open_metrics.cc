#include "service/server/metrics/open_metrics.h"

#include <charconv>
#include <cmath>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "prometheus/metric_type.h"

namespace packhouse::metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr absl::string_view kTotal = "_total";

// The shortest text that is read as this number.
std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[32];
  const std::to_chars_result end = std::to_chars(text, text + sizeof(text), value);
  return {text, end.ptr};
}

// Bounds are labels, so their text counts: "1.0".
std::string BoundText(double value) {
  std::string text = NumberText(value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\n", "\\n"}, {"\"", "\\\""}});
}

// Of a family, "counter".
const char* TypeText(const MetricFamily& family) {
  switch (family.type) {
    case MetricType::Counter:
      return absl::EndsWith(family.name, kTotal) ? "counter" : "unknown";
    case MetricType::Gauge:
      return "gauge";
    case MetricType::Histogram:
      return "histogram";
    case MetricType::Summary:
      return "summary";
    default:
      return "unknown";
  }
}

class Writer {
 public:
  void Head(const MetricFamily& family) {
    const absl::string_view name =
        family.type == MetricType::Counter ? absl::StripSuffix(family.name, kTotal) : family.name;
    absl::StrAppend(&text_, "# TYPE ", name, " ", TypeText(family), "\n");
    if (!family.help.empty()) {
      absl::StrAppend(&text_, "# HELP ", name, " ", Escaped(family.help), "\n");
    }
  }

  // `extra`: one label more, as it is written.
  void Sample(absl::string_view name, const ClientMetric& metric, absl::string_view extra,
              double value, const std::optional<Exemplar>& exemplar = std::nullopt) {
    absl::StrAppend(&text_, name);
    char before = '{';
    for (const ClientMetric::Label& label : metric.label) {
      text_.push_back(before);
      absl::StrAppend(&text_, label.name, "=\"", Escaped(label.value), "\"");
      before = ',';
    }
    if (!extra.empty()) {
      text_.push_back(before);
      absl::StrAppend(&text_, extra);
      before = ',';
    }
    if (before == ',') text_.push_back('}');
    absl::StrAppend(&text_, " ", NumberText(value));
    if (exemplar) {
      absl::StrAppend(
          &text_, " # {trace_id=\"", exemplar->trace_id, "\"} ", NumberText(exemplar->value), " ",
          absl::StrFormat("%.3f", absl::ToDoubleSeconds(exemplar->time - absl::UnixEpoch())));
    }
    text_.push_back('\n');
  }

  void Histogram(const std::string& name, const ClientMetric& metric,
                 const std::vector<std::optional<Exemplar>>& exemplars) {
    const auto& buckets = metric.histogram.bucket;
    for (size_t i = 0; i < buckets.size(); ++i) {
      Sample(absl::StrCat(name, "_bucket"), metric,
             absl::StrCat("le=\"", BoundText(buckets[i].upper_bound), "\""),
             static_cast<double>(buckets[i].cumulative_count),
             i < exemplars.size() ? exemplars[i] : std::nullopt);
    }
    Sample(absl::StrCat(name, "_count"), metric, "",
           static_cast<double>(metric.histogram.sample_count));
    Sample(absl::StrCat(name, "_sum"), metric, "", metric.histogram.sample_sum);
  }

  void Summary(const std::string& name, const ClientMetric& metric) {
    for (const ClientMetric::Quantile& each : metric.summary.quantile) {
      Sample(name, metric, absl::StrCat("quantile=\"", BoundText(each.quantile), "\""), each.value);
    }
    Sample(absl::StrCat(name, "_count"), metric, "",
           static_cast<double>(metric.summary.sample_count));
    Sample(absl::StrCat(name, "_sum"), metric, "", metric.summary.sample_sum);
  }

  std::string Finish() { return absl::StrCat(text_, "# EOF\n"); }

 private:
  std::string text_;
};

}  // namespace

std::string OpenMetricsText(const std::vector<MetricFamily>& families,
                            const ExemplarsOf& exemplars_of) {
  Writer writer;
  for (const MetricFamily& family : families) {
    if (family.metric.empty()) continue;
    writer.Head(family);
    for (const ClientMetric& metric : family.metric) {
      switch (family.type) {
        case MetricType::Counter:
          writer.Sample(family.name, metric, "", metric.counter.value);
          break;
        case MetricType::Gauge:
          writer.Sample(family.name, metric, "", metric.gauge.value);
          break;
        case MetricType::Histogram:
          writer.Histogram(family.name, metric, exemplars_of(family.name, metric));
          break;
        case MetricType::Summary:
          writer.Summary(family.name, metric);
          break;
        default:
          writer.Sample(family.name, metric, "", metric.untyped.value);
      }
    }
  }
  return writer.Finish();
}

}  // namespace packhouse::metrics
