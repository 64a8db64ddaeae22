#include "client/cli/reports/tune_report.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/device_arguments.h"
#include "client/cli/reports/plan_report.h"
#include "service/command_line/table.h"

namespace packhouse::client {
namespace {

// Rows of the frontier's table.
constexpr std::size_t kMaxSteps = 12;

// A cost in any unit; a large one without decimals.
std::string CostText(double cost) {
  return cost >= 1000 && cost < 1e18 ? Grouped(static_cast<uint64_t>(std::llround(cost)))
                                     : absl::StrFormat("%.6g", cost);
}

// Columns that any table of shapes has. `model` has the components that have a capacity.
std::vector<TextTable::Column> ShapeColumns(std::string first, const v1::TunedShape& model,
                                            std::string last) {
  std::vector<TextTable::Column> columns = {{std::move(first), ""}};
  for (const char* const group : {"limit", "efficiency %"}) {
    for (const v1::ComponentEfficiency& component : model.components()) {
      if (component.capacity() != 0) columns.push_back({component.component(), group});
    }
  }
  columns.push_back({"packs", ""});
  columns.push_back({"lower bound", ""});
  // Without a memory model there is no such column.
  if (model.batch_bytes() != 0) columns.push_back({"memory", ""});
  columns.push_back({std::move(last), ""});
  return columns;
}

std::vector<std::string> ShapeCells(std::string first, const v1::TunedShape& shape,
                                    std::string last) {
  std::vector<std::string> cells = {std::move(first)};
  for (const v1::ComponentEfficiency& component : shape.components()) {
    if (component.capacity() != 0) cells.push_back(absl::StrCat(component.capacity()));
  }
  for (const v1::ComponentEfficiency& component : shape.components()) {
    if (component.capacity() != 0) cells.push_back(Percent(component.efficiency(), 3));
  }
  cells.push_back(absl::StrCat(shape.packs()));
  cells.push_back(absl::StrCat(shape.lower_bound()));
  if (shape.batch_bytes() != 0) cells.push_back(BytesText(shape.batch_bytes()));
  cells.push_back(std::move(last));
  return cells;
}

// What the profile lacks, as options; empty if they could not say it.
std::string OptionsForAll(const v1::Oversize& oversize, const v1::DeviceProfile& profile,
                          const std::vector<std::string>& components) {
  std::vector<std::string> needed;
  for (const v1::DeviceProfile::Component& component : profile.components()) {
    const auto found = std::find(components.begin(), components.end(), component.component());
    const auto k = static_cast<int>(found - components.begin());
    if (component.max_rows() == 0 || k >= oversize.needed_rows_size() ||
        oversize.needed_rows(k) <= component.max_rows()) {
      continue;
    }
    needed.push_back(absl::StrCat("--max ", component.component(), "=", oversize.needed_rows(k)));
  }
  if (oversize.needed_bytes() != 0) {
    needed.push_back(absl::StrCat("--memory ", oversize.needed_bytes()));
  }
  return absl::StrJoin(needed, " ");
}

std::string OversizeText(const v1::Oversize& oversize, const v1::DeviceProfile& profile,
                         const std::vector<std::string>& components) {
  std::vector<std::string> largest;
  for (int k = 0; k < oversize.largest_size(); ++k) {
    if (static_cast<std::size_t>(k) < components.size()) {
      largest.push_back(
          absl::StrCat(components[static_cast<std::size_t>(k)], "=", oversize.largest(k)));
    }
  }
  const auto graphs = [](uint64_t number, absl::string_view one, absl::string_view many) {
    return absl::StrCat(Grouped(number), number == 1 ? one : many);
  };
  std::vector<std::string> kinds;
  const uint64_t alone = oversize.num_graphs() - oversize.num_apart();
  if (alone != 0) {
    kinds.push_back(
        absl::StrCat(graphs(alone, " graph", " graphs"), " that no allowed limits take"));
  }
  if (oversize.num_apart() != 0) {
    kinds.push_back(absl::StrCat(
        graphs(oversize.num_apart(), " graph that does not fit ", " graphs that do not fit "),
        oversize.num_shapes() <= 1 ? "one shape" : absl::StrCat(oversize.num_shapes(), " shapes"),
        " together with the others"));
  }
  std::string text = absl::StrCat(absl::StrJoin(kinds, " and "), ", left out; the largest has ",
                                  absl::StrJoin(largest, ", "));
  if (const std::string needed = OptionsForAll(oversize, profile, components); !needed.empty()) {
    absl::StrAppend(&text, "; to take all: ", needed);
  }
  return text;
}

std::string SearchText(const TuneOutcome& outcome) {
  std::string text;
  const uint64_t candidates = outcome.progress.candidates();
  if (outcome.recommendation.exact()) {
    text = outcome.recommendation.has_cheapest_shape() &&
                   outcome.recommendation.cheapest_shape().packs() !=
                       outcome.recommendation.single_shape().packs()
               ? absl::StrCat("exact: no allowed limits cost less than ",
                              ShapeText(outcome.recommendation.cheapest_shape()))
               : "exact: no other allowed limits are better";
  } else if (outcome.recommendation.shapes_size() > 1 ||
             (candidates > 0 &&
              outcome.progress.planned() + outcome.progress.excluded() == candidates)) {
    text = "the best set of shapes found; not every set was tried";
  } else {
    text = "the best found; the budget ended before all others were excluded";
  }
  if (candidates > 0) {
    absl::StrAppend(
        &text, " (",
        candidates == std::numeric_limits<uint64_t>::max() ? "more than 2^64" : Grouped(candidates),
        " candidates: ", Grouped(outcome.progress.planned()), " planned, ",
        Grouped(outcome.progress.excluded()), " excluded by their bounds)");
  }
  return text;
}

Json ShapeJson(const v1::TunedShape& shape) {
  Json capacities = Json::object();
  for (const v1::ComponentEfficiency& component : shape.components()) {
    if (component.capacity() != 0) capacities[component.component()] = component.capacity();
  }
  return {{"capacities", std::move(capacities)},
          {"packs", shape.packs()},
          {"lower_bound", shape.lower_bound()},
          {"epoch_cost", shape.epoch_cost()},
          {"harmonic_mean", shape.harmonic_mean()},
          {"batch_bytes", shape.batch_bytes()},
          {"components", EfficienciesJson(shape.components())}};
}

Json OversizeJson(const v1::Oversize& oversize, const std::vector<std::string>& components) {
  Json largest = Json::object();
  Json needed = Json::object();
  for (int k = 0; k < static_cast<int>(components.size()); ++k) {
    const std::string& component = components[static_cast<std::size_t>(k)];
    if (k < oversize.largest_size()) largest[component] = oversize.largest(k);
    if (k < oversize.needed_rows_size() && oversize.needed_rows(k) != 0) {
      needed[component] = oversize.needed_rows(k);
    }
  }
  return {{"num_graphs", oversize.num_graphs()},     {"largest", std::move(largest)},
          {"num_apart", oversize.num_apart()},       {"needed_rows", std::move(needed)},
          {"needed_bytes", oversize.needed_bytes()}, {"num_shapes", oversize.num_shapes()}};
}

}  // namespace

std::string ShapeText(const v1::TunedShape& shape) {
  std::vector<std::string> capacities;
  for (const v1::ComponentEfficiency& component : shape.components()) {
    if (component.capacity() != 0) {
      capacities.push_back(absl::StrCat(component.component(), "=", component.capacity()));
    }
  }
  return absl::StrJoin(capacities, ", ");
}

double PaddingOverhead(double epoch_cost, double least_cost) {
  return least_cost > 0 ? epoch_cost / least_cost - 1 : 0;
}

std::string ProgressLine(const v1::TuneProgress& progress) {
  std::string line = absl::StrCat("planned ", Grouped(progress.planned()), ", excluded ",
                                  Grouped(progress.excluded()), " of ",
                                  progress.candidates() == std::numeric_limits<uint64_t>::max()
                                      ? "more than 2^64"
                                      : Grouped(progress.candidates()));
  if (progress.has_incumbent()) {
    absl::StrAppend(&line, "; best so far ", ShapeText(progress.incumbent()), ", ",
                    Percent(progress.incumbent().harmonic_mean(), 3), " %");
  }
  return line;
}

std::string RecommendationText(const TuneOutcome& outcome, const v1::DeviceProfile& profile,
                               const std::vector<std::string>& components) {
  const v1::TuneRecommendation& recommendation = outcome.recommendation;
  const int shapes = recommendation.shapes_size();
  uint64_t packs = 0;
  for (const v1::TunedShape& shape : recommendation.shapes()) packs += shape.packs();
  const double overhead = PaddingOverhead(recommendation.epoch_cost(), recommendation.least_cost());

  std::string text = absl::StrCat(
      "recommended  ",
      shapes == 1 ? ShapeText(recommendation.shapes(0)) : absl::StrCat(shapes, " shapes"), ": ",
      Grouped(packs), " packs, harmonic mean of efficiencies ",
      Percent(recommendation.harmonic_mean(), 3), " %\ncost         ",
      CostText(recommendation.epoch_cost()), " an epoch; ",
      recommendation.least_cost() > 0
          ? absl::StrCat(
                profile.fixed_cost() > 0 ? "padding and the cost of a step add " : "padding adds ",
                SmallPercent(overhead), " to the ", CostText(recommendation.least_cost()),
                " of real rows")
          : "the real rows cost nothing",
      "\nsearch       ", SearchText(outcome), "\n");
  if (recommendation.has_cheapest_shape() &&
      recommendation.cheapest_shape().packs() != recommendation.single_shape().packs()) {
    const v1::TunedShape& cheapest = recommendation.cheapest_shape();
    absl::StrAppend(&text, "cheapest     ", ShapeText(cheapest), ": ", Grouped(cheapest.packs()),
                    " packs, ", CostText(cheapest.epoch_cost()),
                    " an epoch; the recommended limits cost hardly more in fewer steps\n");
  }
  if (recommendation.group_graphs_size() > 1) {
    std::vector<std::string> groups;
    for (const uint64_t graphs : recommendation.group_graphs()) groups.push_back(Grouped(graphs));
    absl::StrAppend(&text, "groups       no one shape takes all graphs: ", groups.size(),
                    " groups, of ", absl::StrJoin(groups, ", "),
                    " graphs, have shapes of their own\n");
  } else if (shapes > 1 && recommendation.has_single_shape()) {
    const v1::TunedShape& single = recommendation.single_shape();
    absl::StrAppend(&text, "gain         ",
                    SmallPercent(1 - recommendation.epoch_cost() / single.epoch_cost()),
                    " of the cost of the best single shape: ", ShapeText(single), " with ",
                    Grouped(single.packs()), " packs costs ", CostText(single.epoch_cost()), "\n");
  }
  if (recommendation.has_oversize() && recommendation.oversize().num_graphs() > 0) {
    absl::StrAppend(&text, "too large    ",
                    OversizeText(recommendation.oversize(), profile, components), "\n");
  }

  TextTable table(ShapeColumns("shape", recommendation.shapes(0), "of the cost %"));
  for (int i = 0; i < shapes; ++i) {
    const v1::TunedShape& shape = recommendation.shapes(i);
    table.AddRow(ShapeCells(absl::StrCat(i + 1), shape,
                            recommendation.epoch_cost() > 0
                                ? Percent(shape.epoch_cost() / recommendation.epoch_cost())
                                : "-"));
  }
  absl::StrAppend(&text, "\n", table.Render());
  if (!recommendation.reasons().empty()) {
    absl::StrAppend(&text, "\nwhy\n");
    for (const std::string& reason : recommendation.reasons()) {
      absl::StrAppend(&text, "- ", reason, "\n");
    }
  }
  return text;
}

std::vector<v1::TunedShape> FrontierSteps(const std::vector<v1::TunedShape>& frontier,
                                          double least_cost) {
  const auto overhead = [&](const v1::TunedShape& shape) {
    return PaddingOverhead(shape.epoch_cost(), least_cost);
  };
  std::vector<v1::TunedShape> steps = frontier;
  for (const double factor : {1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 100.0}) {
    if (steps.size() <= kMaxSteps) break;
    steps.clear();
    for (std::size_t i = 0; i < frontier.size(); ++i) {
      if (steps.empty() || i + 1 == frontier.size() ||
          factor * overhead(frontier[i]) <= overhead(steps.back())) {
        steps.push_back(frontier[i]);
      }
    }
  }
  return steps;
}

std::string FrontierTable(const TuneOutcome& outcome) {
  if (outcome.frontier.empty()) return "";
  const double least_cost = outcome.recommendation.least_cost();
  TextTable table(ShapeColumns("padding", outcome.frontier.front(), "cost of a batch"));
  const std::vector<v1::TunedShape> steps = FrontierSteps(outcome.frontier, least_cost);
  for (const v1::TunedShape& shape : steps) {
    const double batch_cost =
        shape.packs() == 0 ? 0 : shape.epoch_cost() / static_cast<double>(shape.packs());
    table.AddRow(ShapeCells(SmallPercent(PaddingOverhead(shape.epoch_cost(), least_cost)), shape,
                            absl::StrFormat("%.10g", batch_cost)));
  }
  return absl::StrCat(
      "frontier: the smallest limits for so much padding",
      steps.size() == outcome.frontier.size()
          ? ""
          : absl::StrCat(" (", steps.size(), " of ", Grouped(outcome.frontier.size()), " points)"),
      "\n", table.Render());
}

Json TuneJson(const TuneOutcome& outcome, const std::vector<std::string>& components) {
  const v1::TuneRecommendation& recommendation = outcome.recommendation;
  Json shapes = Json::array();
  for (const v1::TunedShape& shape : recommendation.shapes()) shapes.push_back(ShapeJson(shape));
  Json reasons = Json::array();
  for (const std::string& reason : recommendation.reasons()) reasons.push_back(reason);
  Json frontier = Json::array();
  for (const v1::TunedShape& shape : outcome.frontier) frontier.push_back(ShapeJson(shape));

  Json json = {{"shapes", std::move(shapes)},
               {"epoch_cost", recommendation.epoch_cost()},
               {"least_cost", recommendation.least_cost()},
               {"harmonic_mean", recommendation.harmonic_mean()},
               {"exact", recommendation.exact()},
               {"candidates", outcome.progress.candidates()},
               {"planned", outcome.progress.planned()},
               {"excluded", outcome.progress.excluded()},
               {"reasons", std::move(reasons)},
               {"group_graphs", Json::array()}};
  for (const uint64_t graphs : recommendation.group_graphs())
    json["group_graphs"].push_back(graphs);
  if (recommendation.has_single_shape()) {
    json["single_shape"] = ShapeJson(recommendation.single_shape());
  }
  if (recommendation.has_cheapest_shape()) {
    json["cheapest_shape"] = ShapeJson(recommendation.cheapest_shape());
  }
  if (recommendation.has_oversize()) {
    json["oversize"] = OversizeJson(recommendation.oversize(), components);
  }
  json["frontier"] = std::move(frontier);
  return json;
}

}  // namespace packhouse::client
