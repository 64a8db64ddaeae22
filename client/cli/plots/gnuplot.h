// The common part of all pictures: running gnuplot, and the commands that set up a panel.
//
// A picture is a script: BeginPicture, then for each panel BeginPanel and what the panel shows.
// Every panel fixes the place of its axes, so that labels and colour bars do not shift them.
#ifndef PACKHOUSE_CLIENT_CLI_PLOTS_GNUPLOT_H_
#define PACKHOUSE_CLIENT_CLI_PLOTS_GNUPLOT_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse::client {

// For what the reader looks for, such as limits and the recommendation.
inline constexpr absl::string_view kMarkColour = "#d1345b";
// For bars and single lines; from the palette below.
inline constexpr absl::string_view kPlainColour = "#2c728e";

// The colour of the n-th line. The colours differ for the colour-blind too (Okabe and Ito 2008),
// and repeat after seven.
absl::string_view LineColour(std::size_t n);

// Commands that set the palette of heat maps: viridis (van der Walt and Smith 2015), legible in
// grey and to the colour-blind.
absl::string_view PaletteCommands();

// A string in gnuplot's single quotes, within which only the quote itself is special; control
// characters become spaces.
std::string GnuplotQuoted(absl::string_view text);

struct Picture {
  // `.svg` or `.png` by its end.
  std::string path;
  std::string title;
  // In points. A PNG has 1.5 pixels for each point, so that both formats look the same.
  int width = 0;
  int height = 0;
};

// The rectangle of the axes, as shares of the picture from its lower left corner.
struct Frame {
  double left = 0;
  double right = 1;
  double bottom = 0;
  double top = 1;
  // The height of the panel's title, so that titles of neighbouring panels are level.
  double title = 1;
};

// Sets up the terminal, writes the title and opens the picture for any number of panels.
//
// Errors: INVALID_ARGUMENT naming the path if its end is neither `.svg` nor `.png`.
absl::StatusOr<std::string> BeginPicture(const Picture& picture);

// Ends the previous panel, and sets up frame, border, grid, and the title, if any.
std::string BeginPanel(const Frame& frame, absl::string_view title);

// A bar for the palette to the right of the frame.
std::string ColourBar(const Frame& frame, absl::string_view label);

// Tics for `set xtics` and its like, in groups of three digits. Linear: about six whole numbers, at
// steps of 1, 2 or 5 times a power of ten. Logarithmic: powers of ten, also below 1; with 2 and 5
// between them if the powers alone would be few. Require 0 <= low < high, and 0 < low for
// LogarithmicTics.
std::string LinearTics(double low, double high);
std::string LogarithmicTics(double low, double high);

// Runs gnuplot as a child with the script on its stdin and its output in the file `path`. Its
// messages on success, for example about missing fonts, go to stderr.
//
// Errors: NOT_FOUND if there is no gnuplot; UNAVAILABLE if the file cannot be written; INTERNAL,
// with gnuplot's words, if it fails; then there is no file.
absl::Status DrawWithGnuplot(absl::string_view script, const std::string& path);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_PLOTS_GNUPLOT_H_
