#include "service/wings/page/heat_map.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

namespace packhouse::page {
namespace {

size_t BinOf(const std::vector<uint64_t>& edges, uint64_t value) {
  const auto after = std::upper_bound(edges.begin(), edges.end(), value);
  return static_cast<size_t>(after - edges.begin()) - 1;
}

Json AxisJson(const SizeSchema& schema, size_t component, const std::vector<uint64_t>& edges,
              const std::vector<uint64_t>& counts) {
  return {{"component", std::string(schema.name(component))}, {"edges", edges}, {"counts", counts}};
}

}  // namespace

std::vector<uint64_t> BinEdges(uint64_t maximum, size_t most, bool is_log) {
  const uint64_t values = maximum + 1;
  std::vector<uint64_t> edges = {0};
  if (!is_log) {
    const uint64_t width = (values + most - 1) / most;
    while (edges.back() < values) edges.push_back(edges.back() + width);
    return edges;
  }
  // Rounding to whole numbers makes small bins wider than the factor says, so that there are no
  // more than `most`.
  const double step = std::log(static_cast<double>(values)) / static_cast<double>(most);
  for (size_t i = 1; i <= most && edges.back() < values; ++i) {
    const auto edge = static_cast<uint64_t>(std::llround(std::exp(step * static_cast<double>(i))));
    edges.push_back(i == most ? values : std::min(values, std::max(edges.back() + 1, edge)));
  }
  return edges;
}

Json HeatMapJson(const SizeHistogram& histogram, const SizeSchema& schema,
                 const HeatMapOptions& options) {
  const size_t num_components = schema.num_components();
  Json totals = Json::array();
  Json maxima = Json::array();
  for (size_t k = 0; k < num_components; ++k) {
    totals.push_back(histogram.total(k));
    maxima.push_back(histogram.maximum(k));
  }
  const std::vector<uint64_t> x_edges =
      BinEdges(histogram.maximum(options.x), options.num_bins, options.is_log);
  const std::vector<uint64_t> y_edges =
      options.y ? BinEdges(histogram.maximum(*options.y), options.num_bins, options.is_log)
                : std::vector<uint64_t>{0, 1};
  const size_t num_x = x_edges.size() - 1;
  const size_t num_y = y_edges.size() - 1;
  std::vector<uint64_t> of_x(num_x, 0);
  std::vector<uint64_t> of_y(num_y, 0);
  std::vector<uint64_t> of_cell(num_x * num_y, 0);
  for (size_t row = 0; row < histogram.num_distinct(); ++row) {
    const auto tuple = histogram.tuple(row);
    const size_t i = BinOf(x_edges, tuple[options.x]);
    const size_t j = options.y ? BinOf(y_edges, tuple[*options.y]) : 0;
    of_x[i] += histogram.count(row);
    of_y[j] += histogram.count(row);
    of_cell[i * num_y + j] += histogram.count(row);
  }
  Json cells = Json::array();
  for (size_t cell = 0; options.y && cell < of_cell.size(); ++cell) {
    if (of_cell[cell] != 0) cells.push_back({cell / num_y, cell % num_y, of_cell[cell]});
  }
  return {{"components", schema.components()},
          {"num_graphs", histogram.num_graphs()},
          {"num_sizes", histogram.num_distinct()},
          {"totals", std::move(totals)},
          {"maxima", std::move(maxima)},
          {"x", AxisJson(schema, options.x, x_edges, of_x)},
          {"y", options.y ? AxisJson(schema, *options.y, y_edges, of_y) : Json()},
          {"cells", std::move(cells)}};
}

}  // namespace packhouse::page
