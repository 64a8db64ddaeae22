// Draws size histograms with gnuplot: bars for one component, a heat map for two, with limits.
#ifndef PACKHOUSE_CLIENT_CLI_PLOTS_HISTOGRAM_PLOT_H_
#define PACKHOUSE_CLIENT_CLI_PLOTS_HISTOGRAM_PLOT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/plots/gnuplot.h"
#include "client/graph/files/sizes_file.h"

namespace packhouse::client {

struct HistogramView {
  // One of the histogram's components (bars), or two (a heat map, horizontal then vertical).
  std::vector<std::string> components;
  // Capacities in the order of `components`, 0 where there is none. A single shape is drawn as
  // lines across the panel; several shapes are drawn as corners.
  std::vector<std::vector<uint64_t>> shapes;
  // Listed in the panel, by number, if there are several shapes; may be empty.
  std::vector<std::string> shape_names;
};

// The script of one panel (see gnuplot.h) that draws `histogram`, projected onto the view's
// components.
//
// Wide ranges are binned. Axes are logarithmic if nearly all graphs would otherwise crowd into a
// corner, because of a few huge graphs or of limits far above all graphs. Errors: INVALID_ARGUMENT
// for an unknown component, a wrong number of them, or no graphs.
absl::StatusOr<std::string> HistogramPanel(const HistogramView& view, const GraphSizes& histogram,
                                           const Frame& frame, absl::string_view title);

// The script of a picture with only this panel.
//
// Errors: as HistogramPanel and BeginPicture.
absl::StatusOr<std::string> HistogramPicture(absl::string_view path, absl::string_view title,
                                             const HistogramView& view,
                                             const GraphSizes& histogram);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_PLOTS_HISTOGRAM_PLOT_H_
