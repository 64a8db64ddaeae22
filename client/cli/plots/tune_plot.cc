#include "client/cli/plots/tune_plot.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "client/cli/plots/gnuplot.h"
#include "client/cli/reports/tune_report.h"
#include "service/command_line/table.h"

namespace packhouse::client {
namespace {

// Cells along an axis of a grid that would have too many cells. They are planned for the picture
// alone.
constexpr uint64_t kCoarseSide = 64;
// The axis of the frontier is logarithmic if its end is this many times its beginning.
constexpr double kWideRange = 20;
// A cell reaches under its neighbours by this share; otherwise the background would shine through.

constexpr double kOverlap = 0.1;
// The place of an epoch without padding, relative to the least padding above 0.
constexpr double kNoPadding = 0.5;

// The capacity of `component` in `shape`; 0 if there is none.
uint64_t CapacityOf(const v1::TunedShape& shape, const std::string& component) {
  for (const v1::ComponentEfficiency& efficiency : shape.components()) {
    if (efficiency.component() == component) return efficiency.capacity();
  }
  return 0;
}

// The best single shape, also if only one shape was recommended.
const v1::TunedShape& SingleShape(const TuneOutcome& outcome) {
  const v1::TuneRecommendation& recommendation = outcome.recommendation;
  return recommendation.has_single_shape() ? recommendation.single_shape()
                                           : recommendation.shapes(0);
}

// The largest count in each component of the graphs that fit the profile's largest limits. Other
// graphs are left out of every plan.
std::vector<uint64_t> LargestFitting(const v1::DeviceProfile& profile,
                                     const GraphSizes& histogram) {
  std::vector<uint64_t> bounds(histogram.components.size(), std::numeric_limits<uint64_t>::max());
  for (const v1::DeviceProfile::Component& component : profile.components()) {
    for (std::size_t k = 0; k < bounds.size(); ++k) {
      if (histogram.components[k] != component.component()) continue;
      const uint64_t step = std::max<uint64_t>(1, component.multiple_of());
      bounds[k] = component.max_rows() / step * step;
    }
  }
  std::vector<uint64_t> largest(bounds.size());
  for (std::size_t row = 0; row < histogram.num_rows; ++row) {
    const absl::Span<const uint32_t> tuple = histogram.Row(row);
    bool fits = histogram.counts[row] > 0;
    for (std::size_t k = 0; k < tuple.size(); ++k) fits = fits && tuple[k] <= bounds[k];
    for (std::size_t k = 0; k < tuple.size() && fits; ++k) {
      largest[k] = std::max<uint64_t>(largest[k], tuple[k]);
    }
  }
  return largest;
}

// The edges of the cells around ascending values: half-way to their neighbours.

std::map<uint64_t, std::pair<double, double>> CellEdges(const std::vector<uint64_t>& values) {
  std::map<uint64_t, std::pair<double, double>> edges;
  const auto half_way = [&](std::size_t i) {
    return (static_cast<double>(values[i]) + static_cast<double>(values[i + 1])) / 2;
  };
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<double>(values[i]);
    const double low = i == 0 ? 2 * at - half_way(0) : half_way(i - 1);
    const double high = i + 1 == values.size() ? 2 * at - half_way(i - 1) : half_way(i);
    edges[values[i]] = {low, high};
  }
  return edges;
}

std::string GridAxis(absl::string_view letter, const std::string& component, double low,
                     double high) {
  return absl::StrFormat("set %srange [%g:%g]\nset %slabel %s\nset %stics %s\n", letter, low, high,
                         letter, GnuplotQuoted(absl::StrCat("limit of ", component)), letter,
                         LinearTics(low, high));
}

// The gnuplot style of a mark, with its title in a key.
std::string MarkStyle(absl::string_view title) {
  return absl::StrFormat(
      "with points pointtype 6 pointsize 2 linewidth 2.5 linecolor rgb '%s' title %s", kMarkColour,
      GnuplotQuoted(title));
}

}  // namespace

uint64_t CountCapacities(const v1::DeviceProfile::Component& component) {
  const uint64_t step = std::max<uint64_t>(1, component.multiple_of());
  const uint64_t first = (std::max<uint64_t>(1, component.min_rows()) - 1) / step;
  const uint64_t last = component.max_rows() / step;
  return last > first ? last - first : 0;
}

std::optional<v1::TuneRequest> GridRequest(const v1::TuneRequest& request,
                                           const GraphSizes& histogram,
                                           const std::vector<std::string>& axes,
                                           const v1::TunedShape& shape) {
  if (axes.size() != 2) return std::nullopt;
  const std::vector<uint64_t> largest = LargestFitting(request.profile(), histogram);
  v1::TuneRequest grid = request;
  grid.set_include_grid(true);
  grid.mutable_profile()->set_max_distinct_shapes(1);
  std::vector<v1::DeviceProfile::Component*> along;
  for (v1::DeviceProfile::Component& component : *grid.mutable_profile()->mutable_components()) {
    if (std::find(axes.begin(), axes.end(), component.component()) != axes.end()) {
      for (std::size_t k = 0; k < largest.size(); ++k) {
        if (histogram.components[k] != component.component()) continue;
        component.set_min_rows(std::max(component.min_rows(), largest[k]));
      }
      if (CountCapacities(component) < 2) return std::nullopt;
      along.push_back(&component);
      continue;
    }
    const uint64_t capacity = CapacityOf(shape, component.component());
    component.set_min_rows(capacity);
    component.set_max_rows(capacity);
    component.set_multiple_of(capacity == 0 ? 0 : 1);
  }
  if (along.size() != 2) return std::nullopt;
  const auto count = [&](std::size_t i) { return CountCapacities(*along[i]); };
  if (count(0) <= kMaxDrawnCells / count(1)) return grid;
  // A short axis may leave the longer axis more than half of the cells.
  if (count(0) > count(1)) std::swap(along[0], along[1]);
  uint64_t room = kCoarseSide;
  for (const std::size_t i : {0, 1}) {
    const uint64_t step = std::max<uint64_t>(1, along[i]->multiple_of());
    if (count(i) > room) along[i]->set_multiple_of(step * ((count(i) + room - 1) / room));
    room = kCoarseSide * kCoarseSide / std::max<uint64_t>(1, count(i));
  }
  return grid;
}

std::string GridPanel(const std::vector<v1::TuneCell>& cells,
                      const std::vector<std::string>& components,
                      const std::vector<std::string>& axes, const v1::TunedShape& recommended,
                      const Frame& frame) {
  if (axes.size() != 2) return "";

  std::vector<std::size_t> columns(2);
  for (std::size_t i = 0; i < 2; ++i) {
    columns[i] = static_cast<std::size_t>(std::find(components.begin(), components.end(), axes[i]) -
                                          components.begin());
  }

  std::map<std::pair<uint64_t, uint64_t>, const v1::TuneCell*> best;
  std::vector<std::vector<uint64_t>> values(2);
  double least = 1;
  for (const v1::TuneCell& cell : cells) {
    const auto at = [&](std::size_t i) {
      return columns[i] < static_cast<std::size_t>(cell.capacities_size())
                 ? cell.capacities(static_cast<int>(columns[i]))
                 : 0;
    };
    const v1::TuneCell*& known = best[{at(0), at(1)}];
    // A plan says more than a bound.
    if (known == nullptr || std::pair(cell.planned(), cell.harmonic_mean()) >
                                std::pair(known->planned(), known->harmonic_mean())) {
      known = &cell;
    }
    for (std::size_t i = 0; i < 2; ++i) values[i].push_back(at(i));
    least = std::min(least, cell.harmonic_mean());
  }
  for (std::vector<uint64_t>& along : values) {
    std::sort(along.begin(), along.end());
    along.erase(std::unique(along.begin(), along.end()), along.end());
    if (along.size() < 2) return "";
  }
  const auto x = CellEdges(values[0]);
  const auto y = CellEdges(values[1]);

  std::string boxes;
  std::string outline;
  double most = 0;
  // A piece of the line around planned cells, unless the neighbour beyond it was planned too or
  // there is none.
  const auto add_side = [&](const std::vector<uint64_t>& along, uint64_t value, int step,
                            auto place_of, const std::string& side) {
    const auto i = std::lower_bound(along.begin(), along.end(), value) - along.begin() + step;
    if (i < 0 || i >= static_cast<std::ptrdiff_t>(along.size())) return;
    const auto found = best.find(place_of(along[static_cast<std::size_t>(i)]));
    if (found == best.end() || !found->second->planned()) outline += side;
  };
  for (const auto& [place, cell] : best) {
    const auto& [x_at, y_at] = place;
    const auto& [x_low, x_high] = x.at(x_at);
    const auto& [y_low, y_high] = y.at(y_at);
    absl::StrAppendFormat(&boxes, "%d.0 %d.0 %g %g %g %g %.6g\n", x_at, y_at, x_low,
                          x_high + kOverlap * (x_high - x_low), y_low,
                          y_high + kOverlap * (y_high - y_low), 100 * cell->harmonic_mean());
    most = std::max(most, cell->harmonic_mean());
    if (!cell->planned()) continue;
    const auto in_row = [y = y_at](uint64_t value) { return std::pair(value, y); };
    const auto in_column = [x = x_at](uint64_t value) { return std::pair(x, value); };
    const std::string up = absl::StrFormat(" 0 %g\n", y_high - y_low);
    const std::string right = absl::StrFormat(" %g 0\n", x_high - x_low);
    add_side(values[0], x_at, -1, in_row, absl::StrFormat("%g %g", x_low, y_low) + up);
    add_side(values[0], x_at, +1, in_row, absl::StrFormat("%g %g", x_high, y_low) + up);
    add_side(values[1], y_at, -1, in_column, absl::StrFormat("%g %g", x_low, y_low) + right);
    add_side(values[1], y_at, +1, in_column, absl::StrFormat("%g %g", x_low, y_high) + right);
  }
  // The scale spans at least a percent, since equal ends make no scale.
  const double top = std::min(100.0, std::ceil(100 * most));
  std::string script =
      absl::StrCat(BeginPanel(frame, "efficiency of one shape over the grid of limits"),
                   GridAxis("x", axes[0], x.begin()->second.first, x.rbegin()->second.second),
                   GridAxis("y", axes[1], y.begin()->second.first, y.rbegin()->second.second),
                   ColourBar(frame, "harmonic mean of efficiencies, %"));
  absl::StrAppendFormat(&script,
                        "set cbrange [%g:%g]\n"
                        "set key at graph 0, graph 1.01 left bottom Left reverse samplen 1\n"
                        "$grid << EOD\n%sEOD\n",
                        std::min(top - 1, std::floor(100 * least)), top, boxes);
  std::string plot =
      "plot $grid using 1:2:3:4:5:6:7 with boxxyerror fillstyle solid noborder linecolor palette "
      "notitle";
  if (!outline.empty()) {
    absl::StrAppend(&script, "$outline << EOD\n", outline, "EOD\n");
    absl::StrAppend(&plot,
                    ", $outline with vectors nohead linewidth 1.5 linecolor rgb '#000000' notitle, "
                    "NaN with lines linewidth 1.5 linecolor rgb '#000000' "
                    "title 'around what was planned; the rest are upper bounds'");
  }
  absl::StrAppendFormat(&script, "$chosen << EOD\n%d.0 %d.0\nEOD\n",
                        CapacityOf(recommended, axes[0]), CapacityOf(recommended, axes[1]));
  return absl::StrCat(script, plot, ", $chosen ", MarkStyle(ShapeText(recommended)), "\n");
}

std::string FrontierPanel(const TuneOutcome& outcome, absl::string_view batch_cost,
                          const Frame& frame) {
  const v1::TuneRecommendation& recommendation = outcome.recommendation;
  struct Point {
    double size;
    double overhead;
  };
  const auto point_of = [&](const v1::TunedShape& shape) {
    return Point{
        .size = shape.packs() == 0 ? 0 : shape.epoch_cost() / static_cast<double>(shape.packs()),
        .overhead = 100 * PaddingOverhead(shape.epoch_cost(), recommendation.least_cost())};
  };
  std::vector<Point> points;
  for (const v1::TunedShape& shape : outcome.frontier) points.push_back(point_of(shape));
  const v1::TunedShape& single = SingleShape(outcome);

  const Point chosen = point_of(single);
  const double together =
      100 * PaddingOverhead(recommendation.epoch_cost(), recommendation.least_cost());

  // Ranges over all points. Points without padding need a place on a logarithmic axis.
  std::vector<Point> all = points;
  all.push_back(chosen);
  all.push_back({.size = chosen.size, .overhead = together});
  double left = chosen.size;
  double right = chosen.size;
  double least = 100;
  double most = 0;
  for (const Point& point : all) {
    left = std::min(left, point.size);
    right = std::max(right, point.size);
    most = std::max(most, point.overhead);
    if (point.overhead > 0) least = std::min(least, point.overhead);
  }
  const double floor = least * kNoPadding;
  const auto shown = [&](const Point& point) {
    return absl::StrFormat("%.10g %.6g\n", point.size, std::max(point.overhead, floor));
  };

  std::string script = BeginPanel(frame, "frontier: padding against the size of a batch");
  const bool wide = right > kWideRange * left && left > 0;

  const double margin = 0.05 * (right > left ? right - left : right);
  const double low = wide ? left / 1.3 : std::max(0.0, left - margin);
  const double high = wide ? right * 1.3 : right + margin;

  const double bottom = floor / 1.5;
  // Room for the key above the first point.
  const double top =
      std::max(most, least * 10) * 1.5 * std::pow(std::max(most / bottom, 10.0), 0.2);
  absl::StrAppendFormat(
      &script,
      "%sset xrange [%g:%g]\nset xtics %s\nset xlabel %s\nset logscale y\nset yrange [%g:%g]\n"
      "set ytics %s\nset ylabel 'padding / real rows by cost, %%'\nset key top right Left reverse "
      "samplen 2\n$frontier << EOD\n",
      wide ? "set logscale x\n" : "", low, high,
      wide ? LogarithmicTics(low, high) : LinearTics(low, high),
      GnuplotQuoted(absl::StrCat("cost of a batch: ", batch_cost)), bottom, top,
      LogarithmicTics(bottom, top));
  for (const Point& point : points) script += shown(point);
  absl::StrAppend(&script, "EOD\n$chosen << EOD\n", shown(chosen), "EOD\n");
  std::vector<std::string> plots;
  if (!points.empty()) {
    plots.push_back(absl::StrFormat(
        "$frontier with steps linewidth 1.5 linecolor rgb '%s' notitle, $frontier with points "
        "pointtype 7 pointsize 0.7 linecolor rgb '%s' title 'the best of its size or smaller'",
        kPlainColour, kPlainColour));
  }
  const bool several = recommendation.shapes_size() > 1;
  plots.push_back(absl::StrCat(
      "$chosen ", MarkStyle(absl::StrCat(
                      several ? "the best single shape: " : "recommended: ", ShapeText(single),
                      ", padding ", SmallPercent(chosen.overhead / 100)))));
  if (several) {
    absl::StrAppendFormat(&script, "$together << EOD\n%.10g %.6g\n%.10g %.6g\nEOD\n", low,
                          std::max(together, floor), high, std::max(together, floor));
    plots.push_back(absl::StrFormat(
        "$together with lines dashtype (8,5) linewidth 2.5 linecolor rgb '%s' title %s",
        kMarkColour,
        GnuplotQuoted(absl::StrCat("recommended: ", recommendation.shapes_size(),
                                   " shapes together, padding ", SmallPercent(together / 100)))));
  }
  return absl::StrCat(script, "plot ", absl::StrJoin(plots, ", "), "\n");
}

std::string BatchCostText(const v1::DeviceProfile& profile) {
  std::vector<std::string> terms;
  for (const v1::DeviceProfile::Component& component : profile.components()) {
    const double cost = component.has_relative_cost()       ? component.relative_cost()
                        : component.component() == "graphs" ? 0
                                                            : 1;
    if (cost == 0) continue;
    terms.push_back(cost == 1 ? component.component()
                              : absl::StrFormat("%.6g %s", cost, component.component()));
  }
  return absl::StrJoin(terms, " + ");
}

absl::StatusOr<std::string> TunePicture(absl::string_view path, absl::string_view title,
                                        const HistogramView& view, const GraphSizes& histogram,
                                        const v1::DeviceProfile& profile,
                                        const TuneOutcome& outcome,
                                        const std::vector<v1::TuneCell>& cells) {
  constexpr Frame kGrid = {.left = 0.59, .right = 0.9, .bottom = 0.56, .top = 0.87, .title = 0.925};
  const std::string grid =
      GridPanel(cells, histogram.components, view.components, SingleShape(outcome), kGrid);
  const bool two_rows = !grid.empty();
  const absl::StatusOr<std::string> head = BeginPicture({.path = std::string(path),
                                                         .title = std::string(title),
                                                         .width = 1500,
                                                         .height = two_rows ? 1250 : 680});
  if (!head.ok()) return head.status();
  const absl::StatusOr<std::string> sizes = HistogramPanel(
      view, histogram,
      two_rows ? Frame{.left = 0.08, .right = 0.4, .bottom = 0.56, .top = 0.87, .title = 0.925}
               : Frame{.left = 0.07, .right = 0.42, .bottom = 0.12, .top = 0.8, .title = 0.88},
      view.shapes.size() == 1 ? "sizes, and the recommended limits"
                              : "sizes, and the recommended shapes");
  if (!sizes.ok()) return sizes.status();
  return absl::StrCat(
      *head, *sizes, grid,
      FrontierPanel(
          outcome, BatchCostText(profile),
          two_rows ? Frame{.left = 0.08, .right = 0.9, .bottom = 0.07, .top = 0.42, .title = 0.455}
                   : Frame{.left = 0.6, .right = 0.97, .bottom = 0.12, .top = 0.8, .title = 0.88}));
}

}  // namespace packhouse::client
