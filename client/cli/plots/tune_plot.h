// Draws the result of Tune: the histogram with the recommended limits, the efficiency over the grid
// of limits, and the frontier.
#ifndef PACKHOUSE_CLIENT_CLI_PLOTS_TUNE_PLOT_H_
#define PACKHOUSE_CLIENT_CLI_PLOTS_TUNE_PLOT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/plots/histogram_plot.h"
#include "client/cli/tune_stream.h"
#include "client/graph/files/sizes_file.h"
#include "packhouse/v1/planning.pb.h"

namespace packhouse::client {

// More cells than this are too small to see, and make a large file.
inline constexpr uint64_t kMaxDrawnCells = 10'000;

// How many capacities the profile allows in this component: multiples of multiple_of within
// [min_rows, max_rows].
uint64_t CountCapacities(const v1::DeviceProfile::Component& component);

// The request whose cells GridPanel draws for the two `axes`. All other components stay at the
// capacities of `shape`. The axes have every capacity that the profile of `request` allows and that
// takes the graphs; if these were more than kMaxDrawnCells cells, every n-th capacity, for about
// 4,000 cells. nullopt if an axis is not in the profile or has only one capacity.
std::optional<v1::TuneRequest> GridRequest(const v1::TuneRequest& request,
                                           const GraphSizes& histogram,
                                           const std::vector<std::string>& axes,
                                           const v1::TunedShape& shape);

// Efficiency over the grid of limits, as in Figure 5 of Krell et al. 2022, with the recommendation
// marked. A line surrounds the cells that were planned; the others are upper bounds. If several
// cells lie on one point of the two axes, the best is drawn.
//
// `axes` are two of `components`, the histogram's. Empty if there are no two capacities along both
// axes.
std::string GridPanel(const std::vector<v1::TuneCell>& cells,
                      const std::vector<std::string>& components,
                      const std::vector<std::string>& axes, const v1::TunedShape& recommended,
                      const Frame& frame);

// The cost that padding adds to an epoch, against the cost of one batch. `batch_cost` names the
// latter cost, as in "nodes + 0.5 edges".
std::string FrontierPanel(const TuneOutcome& outcome, absl::string_view batch_cost,
                          const Frame& frame);

// The sum of cost times component that the profile charges a batch.
std::string BatchCostText(const v1::DeviceProfile& profile);

// The script of the whole picture, with the grid's panel if `cells` make one. `view` has the
// recommended shapes.
//
// Errors: as HistogramPanel and BeginPicture.
absl::StatusOr<std::string> TunePicture(absl::string_view path, absl::string_view title,
                                        const HistogramView& view, const GraphSizes& histogram,
                                        const v1::DeviceProfile& profile,
                                        const TuneOutcome& outcome,
                                        const std::vector<v1::TuneCell>& cells);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_PLOTS_TUNE_PLOT_H_
