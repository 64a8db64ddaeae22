#include "client/cli/plots/plan_plot.h"

#include <algorithm>
#include <map>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/plots/gnuplot.h"
#include "client/cpp/little_endian.h"
#include "service/command_line/table.h"

namespace packhouse::client {
namespace {

// Columns of the key, the height of an entry, and the length of a name that fits. The key stands
// above the panel, where there are no curves.
constexpr std::size_t kKeyColumns = 2;
constexpr double kKeyLine = 0.032;
constexpr std::size_t kKeyName = 18;
// Smaller differences in fill cannot be seen.
constexpr uint64_t kVisibleShares = 1000;
// With more packs than this, the few that are not full are visible only on a logarithmic axis.
constexpr uint64_t kManyPacks = 50;

std::size_t KeyRows(std::size_t curves) { return (curves + kKeyColumns - 1) / kKeyColumns; }

// One entry of the key. gnuplot's own key cannot have columns as wide as their panel.
std::string KeyEntry(const FillCurve& curve, std::size_t i, std::size_t rows, const Frame& frame) {
  const std::size_t column = i / rows;
  const double x = frame.left + static_cast<double>(column) * (frame.right - frame.left) /
                                    static_cast<double>(kKeyColumns);
  const double y = frame.top + kKeyLine * (static_cast<double>(rows - i % rows) - 0.2);
  std::string name = curve.component;
  if (name.size() > kKeyName) name = name.substr(0, kKeyName - 1) + "~";
  return absl::StrFormat(
      "set arrow from screen %g, screen %g rto screen 0.015, 0 nohead linewidth 3 linecolor rgb "
      "'%s'\nset label %s at screen %g, screen %g\n",
      x, y, LineColour(i),
      GnuplotQuoted(absl::StrFormat("%s of %s: %s %%", name, Grouped(curve.capacity),
                                    Percent(curve.efficiency, 3))),
      x + 0.02, y);
}

}  // namespace

absl::StatusOr<std::vector<FillCurve>> FillCurves(const v1::PlanResponse& response,
                                                  const std::vector<std::string>& components) {
  const std::size_t width = components.size();
  const LittleEndianView<uint32_t> values(response.plan().tuples());
  // For each component, then `graphs`: packs by rows.
  std::vector<std::map<uint64_t, uint64_t>> packs(width + 1);
  for (const v1::Pattern& pattern : response.plan().patterns()) {
    std::vector<uint64_t> rows(width + 1);
    for (const v1::PatternEntry& entry : pattern.entries()) {
      if ((uint64_t{entry.tuple()} + 1) * width > values.size()) {
        return absl::InternalError(absl::StrCat("the server's plan has no tuple ", entry.tuple(),
                                                ", only ", width == 0 ? 0 : values.size() / width));
      }
      for (std::size_t k = 0; k < width; ++k) {
        rows[k] += uint64_t{entry.copies()} * values[entry.tuple() * width + k];
      }
      rows[width] += entry.copies();
    }
    for (std::size_t k = 0; k <= width; ++k) packs[k][rows[k]] += pattern.repeats();
  }

  std::vector<FillCurve> curves;
  for (const v1::ComponentEfficiency& component : response.best().components()) {
    const auto found = std::find(components.begin(), components.end(), component.component());
    if (component.capacity() == 0 ||
        (found == components.end() && component.component() != "graphs")) {
      continue;
    }
    FillCurve curve{.component = component.component(),
                    .capacity = component.capacity(),
                    .efficiency = component.efficiency(),
                    .steps = {}};
    for (const auto& [rows, count] : packs[static_cast<std::size_t>(found - components.begin())]) {
      curve.steps.push_back({.rows = rows, .packs = count});
    }
    curves.push_back(std::move(curve));
  }
  return curves;
}

std::string FillPanel(const std::vector<FillCurve>& curves, const Frame& frame) {
  std::string script = BeginPanel(frame, "fill of the packs, each component sorted by itself");
  uint64_t packs = 0;
  std::vector<std::string> plots;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const FillCurve& curve = curves[i];
    absl::StrAppendFormat(&script, "$fill%d << EOD\n", i);
    const auto capacity = static_cast<double>(curve.capacity);
    const double visible = capacity / static_cast<double>(kVisibleShares);
    uint64_t before = 0;
    // A step is drawn from half a pack before its first pack to half a pack after its last one.
    for (std::size_t first = 0; first < curve.steps.size();) {
      uint64_t together = 0;
      std::size_t last = first;
      for (; last < curve.steps.size() &&
             static_cast<double>(curve.steps[last].rows - curve.steps[first].rows) <= visible;
           ++last) {
        together += curve.steps[last].packs;
      }
      const double fill = 100 * static_cast<double>(curve.steps[first].rows) / capacity;
      absl::StrAppendFormat(&script, "%.1f %.6g\n%.1f %.6g\n", static_cast<double>(before) + 0.5,
                            fill, static_cast<double>(before + together) + 0.5, fill);
      before += together;
      first = last;
    }
    absl::StrAppend(&script, "EOD\n");
    packs = std::max(packs, before);
    script += KeyEntry(curve, i, KeyRows(curves.size()), frame);
    // Where curves coincide, the lower one stays visible.
    const double width = std::max(1.5, 5 - 1.25 * static_cast<double>(i));
    plots.push_back(absl::StrFormat("$fill%d with lines linewidth %g linecolor rgb '%s' notitle", i,
                                    width, LineColour(i)));
  }
  const double end = static_cast<double>(packs) + 0.5;
  if (packs > kManyPacks) {
    absl::StrAppendFormat(&script, "set logscale x\nset xtics %s\n", LogarithmicTics(1, end));
  } else {
    absl::StrAppendFormat(&script, "set xtics %s\n", LinearTics(0, end));
  }
  absl::StrAppendFormat(&script,
                        "set xrange [0.5:%.1f]\nset xlabel 'packs, the emptiest first'\n"
                        "set yrange [0:104]\nset ytics 20\nset ylabel 'rows / capacity, %%'\n",
                        end);
  return absl::StrCat(script, "plot ", absl::StrJoin(plots, ", "), "\n");
}

absl::StatusOr<std::string> PlanPicture(absl::string_view path, absl::string_view title,
                                        const HistogramView& view, const GraphSizes& histogram,
                                        const v1::PlanResponse& response) {
  const absl::StatusOr<std::string> head = BeginPicture(
      {.path = std::string(path), .title = std::string(title), .width = 1500, .height = 680});
  if (!head.ok()) return head.status();
  const absl::StatusOr<std::vector<FillCurve>> curves = FillCurves(response, histogram.components);
  if (!curves.ok()) return curves.status();
  const double top = 0.84 - kKeyLine * static_cast<double>(KeyRows(curves->size()));
  const absl::StatusOr<std::string> left = HistogramPanel(
      view, histogram, {.left = 0.08, .right = 0.43, .bottom = 0.12, .top = top, .title = 0.89},
      "sizes");
  if (!left.ok()) return left.status();
  return absl::StrCat(
      *head, *left,
      FillPanel(*curves, {.left = 0.59, .right = 0.97, .bottom = 0.12, .top = top, .title = 0.89}));
}

}  // namespace packhouse::client
