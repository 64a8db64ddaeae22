#include "client/cli/plot.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/cli/table.h"

namespace packhouse::client {
namespace {

// More cells than this along an axis are too small to see.
constexpr uint64_t kMaxBins = 110;
// An axis is logarithmic if it is this many times as long as the part that holds 99.9 % of the
// graphs.
constexpr double kCrowding = 5;
constexpr double kCrowdedShare = 0.999;
// Where a size of 0 is drawn on a logarithmic axis, and where that axis begins.
constexpr double kZeroLow = 0.36;
constexpr double kZeroHigh = 0.5;

constexpr absl::string_view kLimitColour = "#d1345b";
// Viridis (van der Walt and Smith, 2015) at nine points: legible in grey and to the colour-blind.
constexpr absl::string_view kPalette =
    "set palette defined (0 '#440154', 1 '#472d7b', 2 '#3b528b', 3 '#2c728e', 4 '#21918c', "
    "5 '#28ae80', 6 '#5ec962', 7 '#addc30', 8 '#fde725')\n";

// A string in gnuplot's single quotes, within which only the quote itself is special.
std::string Quoted(absl::string_view text) {
  std::string quoted(text);
  std::replace_if(
      quoted.begin(), quoted.end(), [](unsigned char c) { return c < 0x20; }, ' ');
  return absl::StrCat("'", absl::StrReplaceAll(quoted, {{"'", "''"}}), "'");
}

// One component as a range of the picture.
struct Axis {
  std::string name;
  uint64_t limit = 0;
  bool logarithmic = false;
  uint32_t min = 0;
  uint32_t max = 0;
  // All values are min plus a multiple of it. Bins are whole strides, or data of even numbers,
  // such as directed edges, would show stripes.
  uint64_t stride = 1;
  // Bin b holds the values in [edges[b], edges[b + 1]).
  std::vector<uint64_t> edges;

  std::size_t BinOf(uint32_t value) const {
    return static_cast<std::size_t>(std::upper_bound(edges.begin(), edges.end(), value) -
                                    edges.begin()) -
           1;
  }
  // Where the picture shows a bin's edge: values are in the middle of their strides.
  double Place(std::size_t edge) const {
    const double place = static_cast<double>(edges[edge]) - static_cast<double>(stride) / 2;
    if (!logarithmic || place >= kZeroHigh) return place;
    return edges[edge] == 0 ? kZeroLow : kZeroHigh;
  }
  double RangeLow() const {
    if (logarithmic) return min == 0 ? kZeroLow * 0.85 : std::max(kZeroHigh, 0.8 * Place(0));
    return min * 3 < max ? std::min(0.0, Place(0)) : Place(0) - 0.03 * (max - min + 1);
  }
  double RangeHigh() const {
    const double high = std::max(Place(edges.size() - 1), static_cast<double>(limit));
    if (logarithmic) return high * 1.3;
    return high + 0.06 * (high - RangeLow());
  }
};

// The largest value of the `share` of graphs that is smallest in this component.
uint32_t Quantile(const std::map<uint32_t, uint64_t>& counts, double share) {
  double total = 0;
  for (const auto& [value, count] : counts) total += static_cast<double>(count);
  double below = 0;
  for (const auto& [value, count] : counts) {
    below += static_cast<double>(count);
    if (below >= share * total) return value;
  }
  return counts.rbegin()->first;
}

void MakeBins(Axis& axis) {
  const uint64_t strides = (axis.max - axis.min) / axis.stride + 1;
  const auto edge_after = [&](uint64_t stride) { return axis.min + stride * axis.stride; };
  axis.edges = {axis.min};
  if (!axis.logarithmic || strides <= kMaxBins / 4) {
    // Of the axis, not of the data, which may be a small part of it.
    const uint64_t length = std::max<uint64_t>(strides, axis.limit / axis.stride);
    const uint64_t width = (length + kMaxBins - 1) / kMaxBins;
    for (uint64_t at = width; at < strides + width; at += width)
      axis.edges.push_back(edge_after(at));
    return;
  }
  const double low = std::max<double>(axis.min, 1);
  const double ratio = std::pow((axis.max + 1.0) / low, 1.0 / kMaxBins);
  for (double at = low * ratio; axis.edges.back() <= axis.max; at *= ratio) {
    const double next = std::ceil((at - axis.min) / static_cast<double>(axis.stride));
    const uint64_t edge = edge_after(static_cast<uint64_t>(std::max(1.0, next)));
    if (edge > axis.edges.back()) axis.edges.push_back(edge);
  }
}

absl::StatusOr<std::vector<Axis>> MakeAxes(const PlotRequest& request,
                                           const std::vector<std::size_t>& columns,
                                           const GraphSizes& histogram) {
  std::vector<Axis> axes;
  bool logarithmic = false;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    std::map<uint32_t, uint64_t> counts;
    for (std::size_t row = 0; row < histogram.num_rows; ++row) {
      if (histogram.counts[row] > 0)
        counts[histogram.Row(row)[columns[i]]] += histogram.counts[row];
    }
    if (counts.empty()) return absl::InvalidArgumentError("the histogram has no graphs to draw");
    Axis axis;
    axis.name = request.components[i];
    axis.limit = request.limits[i];
    axis.min = counts.begin()->first;
    axis.max = counts.rbegin()->first;
    uint64_t stride = 0;
    for (const auto& [value, count] : counts) stride = std::gcd(stride, value - axis.min);
    axis.stride = std::max<uint64_t>(1, stride);
    const double length = static_cast<double>(std::max<uint64_t>(axis.max, axis.limit));
    logarithmic = logarithmic ||
                  length > kCrowding * std::max(1.0, double{Quantile(counts, kCrowdedShare) * 1.0});
    axes.push_back(std::move(axis));
  }
  // Both or none: a bent cloud would mislead.
  for (Axis& axis : axes) {
    axis.logarithmic = logarithmic;
    MakeBins(axis);
  }
  return axes;
}

// Tics of a logarithmic axis, written out: powers of ten, with 2 and 5 between them if those alone
// would be few.
std::string LogarithmicTics(double low, double high) {
  constexpr double kFewDecades = 3;
  const bool dense = std::log10(high / low) < kFewDecades;
  std::vector<std::string> tics;
  for (uint64_t decade = 1;
       decade <= 1'000'000'000'000'000'000 && static_cast<double>(decade) <= high; decade *= 10) {
    for (const uint64_t factor : {1, 2, 5}) {
      const double at = static_cast<double>(decade) * static_cast<double>(factor);
      if ((factor > 1 && !dense) || at < low || at > high) continue;
      tics.push_back(absl::StrFormat("'%s' %.0f", Grouped(decade * factor), at));
    }
  }
  return absl::StrCat("(", absl::StrJoin(tics, ", "), ")");
}

// The same for a linear axis: about six, at steps of 1, 2 or 5 times a power of ten.
std::string LinearTics(double low, double high) {
  constexpr double kMostTics = 7;
  uint64_t step = 1;
  for (uint64_t decade = 1; (high - low) / static_cast<double>(step) > kMostTics; decade *= 10) {
    for (const uint64_t factor : {1, 2, 5}) {
      step = decade * factor;
      if ((high - low) / static_cast<double>(step) <= kMostTics) break;
    }
  }
  std::vector<std::string> tics;
  for (auto i = static_cast<uint64_t>(std::ceil(std::max(0.0, low) / static_cast<double>(step)));;
       ++i) {
    if (static_cast<double>(i) * static_cast<double>(step) > high) break;
    tics.push_back(absl::StrCat("'", Grouped(i * step), "' ", i * step, ".0"));
  }
  return absl::StrCat("(", absl::StrJoin(tics, ", "), ")");
}

std::string AxisCommands(const Axis& axis, absl::string_view letter) {
  std::string script =
      absl::StrFormat("set %srange [%g:%g]\nset %slabel %s\n", letter, axis.RangeLow(),
                      axis.RangeHigh(), letter, Quoted(absl::StrCat(axis.name, " per graph")));
  const double low = axis.RangeLow();
  const double high = axis.RangeHigh();
  absl::StrAppendFormat(&script, "set %stics %s\n", letter,
                        axis.logarithmic ? LogarithmicTics(low, high) : LinearTics(low, high));
  if (axis.logarithmic) {
    absl::StrAppendFormat(&script, "set logscale %s\n", letter);
    if (axis.min == 0) {
      absl::StrAppendFormat(&script, "set %stics add ('0' %g)\n", letter,
                            std::sqrt(kZeroLow * kZeroHigh));
    }
  }
  return script;
}

std::string LimitCommands(const Axis& axis, bool horizontal_axis) {
  if (axis.limit == 0) return "";
  // Not a whole number: gnuplot's are of 63 bits.
  const auto at = static_cast<double>(axis.limit);
  const std::string line =
      absl::StrFormat("nohead front dashtype (8,5) linewidth 2 linecolor rgb '%s'", kLimitColour);
  const std::string text = absl::StrFormat("%s front textcolor rgb '%s'",
                                           Quoted("limit " + Grouped(axis.limit)), kLimitColour);
  if (horizontal_axis) {
    return absl::StrFormat(
        "set arrow from first %.1f, graph 0 to first %.1f, graph 1 %s\n"
        "set label %s at first %.1f, graph 1 center offset 0,0.7\n",
        at, at, line, text, at);
  }
  return absl::StrFormat(
      "set arrow from graph 0, first %.1f to graph 1, first %.1f %s\n"
      "set label %s at graph 0, first %.1f left offset 1,0.7\n",
      at, at, line, text, at);
}

std::string BarCommands(const Axis& axis, const std::vector<uint64_t>& bins) {
  const uint64_t highest = *std::max_element(bins.begin(), bins.end());
  const double top = static_cast<double>(highest) * 1.06;
  std::string script = absl::StrFormat(
      "set yrange [0:%g]\nset ylabel 'graphs'\nset ytics %s\nset rmargin 7\n$bars << EOD\n", top,
      LinearTics(0, top));
  for (std::size_t i = 0; i < bins.size(); ++i) {
    if (bins[i] == 0) continue;
    const double low = axis.Place(i);
    const double high = axis.Place(i + 1);
    absl::StrAppendFormat(&script, "%g %d %g %g 0 %d\n", (low + high) / 2, bins[i], low, high,
                          bins[i]);
  }
  absl::StrAppend(&script,
                  "EOD\nplot $bars using 1:2:3:4:5:6 with boxxyerror fillstyle solid noborder "
                  "fillcolor rgb '#2c728e' notitle\n");
  return script;
}

std::string HeatCommands(const Axis& x, const Axis& y,
                         const std::map<std::pair<std::size_t, std::size_t>, uint64_t>& cells) {
  // The scale spans a decade at least, for one of equal ends is none.
  uint64_t highest = 10;
  for (const auto& [bins, count] : cells) highest = std::max(highest, count);
  std::string script = absl::StrFormat(
      "%sset logscale cb\nset cbrange [1:%d]\nset cbtics %s\nset cblabel 'graphs per cell'\n"
      "set rmargin at screen 0.84\n$cells << EOD\n",
      kPalette, highest, LogarithmicTics(1, static_cast<double>(highest)));
  for (const auto& [bins, count] : cells) {
    const double x_low = x.Place(bins.first);
    const double x_high = x.Place(bins.first + 1);
    const double y_low = y.Place(bins.second);
    const double y_high = y.Place(bins.second + 1);
    absl::StrAppendFormat(&script, "%g %g %g %g %g %g %d\n", (x_low + x_high) / 2,
                          (y_low + y_high) / 2, x_low, x_high, y_low, y_high, count);
  }
  absl::StrAppend(&script,
                  "EOD\nplot $cells using 1:2:3:4:5:6:7 with boxxyerror fillstyle solid noborder "
                  "linecolor palette notitle\n");
  return script;
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  const int fd_;
};

std::string ReadAll(int fd) {
  std::string text;
  std::array<char, 4096> bytes;
  ssize_t count = 0;
  while ((count = pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(text.size()))) > 0) {
    text.append(bytes.data(), static_cast<std::size_t>(count));
  }
  return text;
}

bool WriteAll(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(fd, text.data(), text.size());
    if (count < 0 && errno != EINTR) return false;
    if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
  }
  return lseek(fd, 0, SEEK_SET) == 0;
}

}  // namespace

absl::StatusOr<std::string> PlotScript(const PlotRequest& request, const GraphSizes& histogram) {
  absl::string_view terminal;
  if (absl::EndsWith(request.path, ".svg")) {
    terminal = "svg size 1000,760 dynamic background '#ffffff' font 'sans,15' noenhanced";
  } else if (absl::EndsWith(request.path, ".png")) {
    terminal = "pngcairo size 1200,900 background '#ffffff' font 'sans,15' noenhanced";
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("'", request.path, "': a picture's name ends in .svg or .png"));
  }
  if (request.components.empty() || request.components.size() > 2) {
    return absl::InvalidArgumentError(absl::StrCat("a picture shows one component or two, not ",
                                                   request.components.size(), " (",
                                                   absl::StrJoin(request.components, ", "), ")"));
  }
  std::vector<std::size_t> columns;
  for (const std::string& component : request.components) {
    const auto found =
        std::find(histogram.components.begin(), histogram.components.end(), component);
    if (found == histogram.components.end()) {
      return absl::InvalidArgumentError(absl::StrCat("the histogram has no component '", component,
                                                     "', it has ",
                                                     absl::StrJoin(histogram.components, ", ")));
    }
    columns.push_back(static_cast<std::size_t>(found - histogram.components.begin()));
  }
  const absl::StatusOr<std::vector<Axis>> axes = MakeAxes(request, columns, histogram);
  if (!axes.ok()) return axes.status();

  std::string script =
      absl::StrCat("set terminal ", terminal, "\nset title ", Quoted(request.title),
                   " font ',18'"
                   " offset 0,1\n",
                   "set tics out nomirror\nset border 3 linecolor rgb '#555555'\n",
                   "set grid linecolor rgb '#e4e4e4' linetype 1\nset grid back\nset tmargin 4.5\n",
                   AxisCommands(axes->front(), "x"), LimitCommands(axes->front(), true));
  if (axes->size() == 1) {
    std::vector<uint64_t> bins(axes->front().edges.size() - 1);
    for (std::size_t row = 0; row < histogram.num_rows; ++row) {
      if (histogram.counts[row] == 0) continue;
      bins[axes->front().BinOf(histogram.Row(row)[columns[0]])] += histogram.counts[row];
    }
    return script + BarCommands(axes->front(), bins);
  }
  const Axis& x = (*axes)[0];
  const Axis& y = (*axes)[1];
  std::map<std::pair<std::size_t, std::size_t>, uint64_t> cells;
  for (std::size_t row = 0; row < histogram.num_rows; ++row) {
    if (histogram.counts[row] == 0) continue;
    const absl::Span<const uint32_t> tuple = histogram.Row(row);
    cells[{x.BinOf(tuple[columns[0]]), y.BinOf(tuple[columns[1]])}] += histogram.counts[row];
  }
  return script + AxisCommands(y, "y") + LimitCommands(y, false) + HeatCommands(x, y, cells);
}

absl::Status Plot(const PlotRequest& request, const GraphSizes& histogram) {
  const absl::StatusOr<std::string> script = PlotScript(request, histogram);
  if (!script.ok()) return script.status();

  // Files in memory rather than pipes: neither side can block the other.
  const FileDescriptor input(memfd_create("gnuplot-script", MFD_CLOEXEC));
  const FileDescriptor errors(memfd_create("gnuplot-errors", MFD_CLOEXEC));
  if (input.get() < 0 || errors.get() < 0 || !WriteAll(input.get(), *script)) {
    return absl::UnavailableError(
        absl::StrCat("cannot make a file in memory: ", std::strerror(errno)));
  }
  const FileDescriptor output(
      open(request.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (output.get() < 0) {
    return absl::UnavailableError(
        absl::StrCat(request.path, ": cannot write: ", std::strerror(errno)));
  }

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors.get(), STDERR_FILENO);
  std::string program = "gnuplot";
  std::array<char*, 2> arguments = {program.data(), nullptr};
  pid_t child = -1;
  const int error =
      posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    unlink(request.path.c_str());
    return absl::NotFoundError(absl::StrCat("cannot run gnuplot (Debian: gnuplot-nox) to draw '",
                                            request.path, "': ", std::strerror(error)));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || lseek(output.get(), 0, SEEK_END) == 0) {
    unlink(request.path.c_str());
    return absl::InternalError(
        absl::StrCat("gnuplot failed: ", absl::StripAsciiWhitespace(ReadAll(errors.get()))));
  }
  return absl::OkStatus();
}

}  // namespace packhouse::client
