// Draws size histograms with gnuplot.
#ifndef PACKHOUSE_CLIENT_CLI_PLOT_H_
#define PACKHOUSE_CLIENT_CLI_PLOT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/sizes_file.h"

namespace packhouse::client {

struct PlotRequest {
  // `.svg` or `.png` by its end.
  std::string path;
  std::string title;
  // One of the histogram's components (bars), or two (a heat map, horizontal then vertical).
  std::vector<std::string> components;
  // Drawn as lines; in the order of `components`, 0 where there is none.
  std::vector<uint64_t> limits;
};

// A gnuplot script with its data that draws `histogram`, projected on the request's components.
//
// Wide ranges are binned. Axes are logarithmic where nearly all graphs would otherwise crowd into
// a corner, be it for a few huge graphs or for limits far above all of them.
// Errors: INVALID_ARGUMENT for an unknown component or file type.
absl::StatusOr<std::string> PlotScript(const PlotRequest& request, const GraphSizes& histogram);

// Draws into request.path. Runs gnuplot as a child with the script on its stdin.
//
// Errors: as PlotScript; NOT_FOUND if there is no gnuplot; UNAVAILABLE if the file cannot be
// written; INTERNAL, with gnuplot's words, if it fails.
absl::Status Plot(const PlotRequest& request, const GraphSizes& histogram);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_PLOT_H_
