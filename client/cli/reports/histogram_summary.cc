#include "client/cli/reports/histogram_summary.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "service/command_line/table.h"

namespace packhouse::client {

absl::StatusOr<std::string> HistogramSummary(const v1::Histogram& histogram) {
  const int components = histogram.components_size();
  if (histogram.component_totals_size() != components ||
      histogram.component_maxima_size() != components) {
    return absl::InternalError("the server's histogram lacks totals or maxima");
  }
  TextTable table({{"component", ""}, {"total", ""}, {"mean", ""}, {"max", ""}});
  for (int k = 0; k < components; ++k) {
    table.AddRow({histogram.components(k), absl::StrCat(histogram.component_totals(k)),
                  histogram.num_graphs() == 0
                      ? "-"
                      : absl::StrFormat("%.2f", static_cast<double>(histogram.component_totals(k)) /
                                                    static_cast<double>(histogram.num_graphs())),
                  absl::StrCat(histogram.component_maxima(k))});
  }
  return table.Render();
}

}  // namespace packhouse::client
