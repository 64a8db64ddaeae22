// Draws a plan: the histogram with the limits, and how full the packs are.
#ifndef PACKHOUSE_CLIENT_CLI_PLOTS_PLAN_PLOT_H_
#define PACKHOUSE_CLIENT_CLI_PLOTS_PLAN_PLOT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/plots/histogram_plot.h"
#include "client/graph/files/sizes_file.h"
#include "packhouse/v1/planning.pb.h"

namespace packhouse::client {

// How full the packs of a plan are in one component.
struct FillCurve {
  struct Step {
    // Rows of each of these packs.
    uint64_t rows = 0;
    uint64_t packs = 0;
  };
  std::string component;
  uint64_t capacity = 0;
  double efficiency = 0;
  // Ascending and distinct in rows. The packs add up to the packs of the plan.
  std::vector<Step> steps;
};

// One curve for each component that has a limit, in the order of `response.best().components()`.
// `components` must be all of these except `graphs`.
//
// Errors: INTERNAL if a pattern names a tuple that the plan does not have. Cost: O(entries of
// patterns * components + packs' distinct rows).
absl::StatusOr<std::vector<FillCurve>> FillCurves(const v1::PlanResponse& response,
                                                  const std::vector<std::string>& components);

// The script of a panel with all curves. A curve has only so many steps that each is visible. Packs
// keep their place to within one such step, and rows to within 0.1 % of the capacity.
std::string FillPanel(const std::vector<FillCurve>& curves, const Frame& frame);

// The script of the whole picture. `response` must have the plan, not only summaries.
//
// Errors: as HistogramPanel, FillCurves and BeginPicture.
absl::StatusOr<std::string> PlanPicture(absl::string_view path, absl::string_view title,
                                        const HistogramView& view, const GraphSizes& histogram,
                                        const v1::PlanResponse& response);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_PLOTS_PLAN_PLOT_H_
