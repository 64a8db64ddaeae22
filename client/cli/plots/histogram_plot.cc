#include "client/cli/plots/histogram_plot.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "service/command_line/table.h"

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

// One component as a range of the picture.
struct Axis {
  std::string name;
  // The largest of the shapes'; 0: none.
  uint64_t limit = 0;
  bool logarithmic = false;
  uint32_t min = 0;
  uint32_t max = 0;
  // All values are min plus a multiple of it. Bins are whole strides. Otherwise even numbers, such
  // as counts of directed edges, would show stripes.
  uint64_t stride = 1;
  // Bin b holds the values in [edges[b], edges[b + 1]).
  std::vector<uint64_t> edges;

  std::size_t BinOf(uint32_t value) const {
    return static_cast<std::size_t>(std::upper_bound(edges.begin(), edges.end(), value) -
                                    edges.begin()) -
           1;
  }
  // The place of a bin's edge in the picture. Values are in the middle of their strides.
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

// The largest value among the smallest `share` of the graphs in this component.
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
    // The length of the axis; the data may be a small part of it.
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

absl::StatusOr<std::vector<Axis>> MakeAxes(const HistogramView& view,
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
    axis.name = view.components[i];
    for (const std::vector<uint64_t>& shape : view.shapes) {
      axis.limit = std::max(axis.limit, shape[i]);
    }
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
  // Both axes or neither: a distorted cloud would mislead.
  for (Axis& axis : axes) {
    axis.logarithmic = logarithmic;
    MakeBins(axis);
  }
  return axes;
}

std::string AxisCommands(const Axis& axis, absl::string_view letter) {
  std::string script = absl::StrFormat("set %srange [%g:%g]\nset %slabel %s\n", letter,
                                       axis.RangeLow(), axis.RangeHigh(), letter,
                                       GnuplotQuoted(absl::StrCat(axis.name, " per graph")));
  const double low = axis.RangeLow();
  const double high = axis.RangeHigh();
  absl::StrAppendFormat(
      &script, "set %stics %s\n", letter,
      axis.logarithmic ? LogarithmicTics(std::max(1.0, low), high) : LinearTics(low, high));
  if (axis.logarithmic) {
    absl::StrAppendFormat(&script, "set logscale %s\n", letter);
    if (axis.min == 0) {
      absl::StrAppendFormat(&script, "set %stics add ('0' %g)\n", letter,
                            std::sqrt(kZeroLow * kZeroHigh));
    }
  }
  return script;
}

std::string LimitLine() {
  return absl::StrFormat("nohead front dashtype (8,5) linewidth 2 linecolor rgb '%s'", kMarkColour);
}

// A line across the panel at one limit.
std::string LimitCommands(uint64_t limit, bool horizontal_axis) {
  if (limit == 0) return "";
  // Not a whole number, since gnuplot's whole numbers have 63 bits.
  const auto at = static_cast<double>(limit);
  const std::string text = absl::StrFormat("%s front textcolor rgb '%s'",
                                           GnuplotQuoted("limit " + Grouped(limit)), kMarkColour);
  if (horizontal_axis) {
    return absl::StrFormat(
        "set arrow from first %.1f, graph 0 to first %.1f, graph 1 %s\n"
        "set label %s at first %.1f, graph 1 center offset 0,0.7\n",
        at, at, LimitLine(), text, at);
  }
  return absl::StrFormat(
      "set arrow from graph 0, first %.1f to graph 1, first %.1f %s\n"
      "set label %s at graph 0, first %.1f left offset 1,0.7\n",
      at, at, LimitLine(), text, at);
}

// The corner that a shape cuts out of the panel, up to the panel's end where it has no limit. Its
// number stands where data is sparse: at the foot of the corner, or at its left end.
std::string CornerCommands(const std::vector<uint64_t>& shape, std::size_t number) {
  const auto place = [](uint64_t limit) {
    return limit == 0 ? std::string("graph 1")
                      : absl::StrFormat("first %.1f", static_cast<double>(limit));
  };
  const std::string x = place(shape[0]);
  const std::string y = shape.size() == 2 ? place(shape[1]) : "graph 1";
  const auto label = [&](const std::string& at) {
    return absl::StrFormat("set label '%d' at %s front textcolor rgb '%s'\n", number, at,
                           kMarkColour);
  };
  std::string script;
  if (shape[0] != 0) {
    absl::StrAppendFormat(&script, "set arrow from %s, graph 0 to %s, %s %s\n", x, x, y,
                          LimitLine());
    script += label(absl::StrCat(x, ", graph 0.03 left offset 0.4,0"));
  }
  if (shape.size() == 2 && shape[1] != 0) {
    absl::StrAppendFormat(&script, "set arrow from graph 0, %s to %s, %s %s\n", y, x, y,
                          LimitLine());
    if (shape[0] == 0) script += label(absl::StrCat("graph 0.02, ", y, " left offset 0,0.6"));
  }
  return script;
}

std::string ShapeCommands(const HistogramView& view) {
  std::string script;
  if (view.shapes.size() == 1) {
    for (std::size_t i = 0; i < view.shapes[0].size(); ++i) {
      script += LimitCommands(view.shapes[0][i], i == 0);
    }
    return script;
  }
  for (std::size_t i = 0; i < view.shapes.size(); ++i) {
    script += CornerCommands(view.shapes[i], i + 1);
    if (i >= view.shape_names.size()) continue;
    absl::StrAppendFormat(
        &script, "set label %s at graph 0.03, graph %g front textcolor rgb '%s' font ',12'\n",
        GnuplotQuoted(absl::StrCat(i + 1, ": ", view.shape_names[i])),
        0.88 - 0.05 * static_cast<double>(i), kMarkColour);
  }
  return script;
}

std::string BarCommands(const Axis& axis, const std::vector<uint64_t>& bins) {
  const uint64_t highest = *std::max_element(bins.begin(), bins.end());
  const double top = static_cast<double>(highest) * 1.06;
  std::string script =
      absl::StrFormat("set yrange [0:%g]\nset ylabel 'graphs'\nset ytics %s\n$bars << EOD\n", top,
                      LinearTics(0, top));
  for (std::size_t i = 0; i < bins.size(); ++i) {
    if (bins[i] == 0) continue;
    const double low = axis.Place(i);
    const double high = axis.Place(i + 1);
    absl::StrAppendFormat(&script, "%g %d %g %g 0 %d\n", (low + high) / 2, bins[i], low, high,
                          bins[i]);
  }
  absl::StrAppend(
      &script, absl::StrFormat("EOD\nplot $bars using 1:2:3:4:5:6 with boxxyerror fillstyle solid "
                               "noborder fillcolor rgb '%s' notitle\n",
                               kPlainColour));
  return script;
}

std::string HeatCommands(const Frame& frame, const Axis& x, const Axis& y,
                         const std::map<std::pair<std::size_t, std::size_t>, uint64_t>& cells) {
  // The scale spans at least a decade, since equal ends make no scale.
  uint64_t highest = 10;
  for (const auto& [bins, count] : cells) highest = std::max(highest, count);
  std::string script =
      absl::StrFormat("%sset logscale cb\nset cbrange [1:%d]\nset cbtics %s\n$cells << EOD\n",
                      ColourBar(frame, "graphs per cell"), highest,
                      LogarithmicTics(1, static_cast<double>(highest)));
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

}  // namespace

absl::StatusOr<std::string> HistogramPanel(const HistogramView& view, const GraphSizes& histogram,
                                           const Frame& frame, absl::string_view title) {
  if (view.components.empty() || view.components.size() > 2) {
    return absl::InvalidArgumentError(absl::StrCat("a picture shows one component or two, not ",
                                                   view.components.size(), " (",
                                                   absl::StrJoin(view.components, ", "), ")"));
  }
  std::vector<std::size_t> columns;
  for (const std::string& component : view.components) {
    const auto found =
        std::find(histogram.components.begin(), histogram.components.end(), component);
    if (found == histogram.components.end()) {
      return absl::InvalidArgumentError(absl::StrCat("the histogram has no component '", component,
                                                     "', it has ",
                                                     absl::StrJoin(histogram.components, ", ")));
    }
    columns.push_back(static_cast<std::size_t>(found - histogram.components.begin()));
  }
  const absl::StatusOr<std::vector<Axis>> axes = MakeAxes(view, columns, histogram);
  if (!axes.ok()) return axes.status();

  std::string script =
      absl::StrCat(BeginPanel(frame, title), AxisCommands(axes->front(), "x"), ShapeCommands(view));
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
  return script + AxisCommands(y, "y") + HeatCommands(frame, x, y, cells);
}

absl::StatusOr<std::string> HistogramPicture(absl::string_view path, absl::string_view title,
                                             const HistogramView& view,
                                             const GraphSizes& histogram) {
  const absl::StatusOr<std::string> head = BeginPicture(
      {.path = std::string(path), .title = std::string(title), .width = 1000, .height = 760});
  if (!head.ok()) return head.status();
  const double right = view.components.size() == 2 ? 0.84 : 0.95;
  const absl::StatusOr<std::string> panel = HistogramPanel(
      view, histogram, {.left = 0.11, .right = right, .bottom = 0.1, .top = 0.88}, "");
  if (!panel.ok()) return panel.status();
  return *head + *panel;
}

}  // namespace packhouse::client
