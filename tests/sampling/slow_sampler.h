// A sampler that is slow and plain: lists, maps and sets, one edge after another. Draws from the
// same sequences of random numbers as the one it is compared with.
#ifndef PACKHOUSE_TESTS_SAMPLING_SLOW_SAMPLER_H_
#define PACKHOUSE_TESTS_SAMPLING_SLOW_SAMPLER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "service/wings/graphs/sampling/column_numbers.h"
#include "service/wings/graphs/sampling/draw_random.h"
#include "service/wings/graphs/sampling/sampler.h"

namespace packhouse {

// Edges by the numbers of their ends in the source graph.
struct SlowEdge {
  uint32_t source;
  uint32_t target;
  uint64_t number;

  friend bool operator==(const SlowEdge&, const SlowEdge&) = default;
};

struct SlowGraph {
  // By the source graph's numbers of sets.
  std::map<size_t, std::vector<uint32_t>> nodes;
  std::map<size_t, std::vector<SlowEdge>> edges;
};

class SlowSampler {
 public:
  SlowSampler(const SourceGraph& graph, const tfgnn::SamplingSpec& spec,
              const SamplingOptions& options)
      : graph_(graph), schema_(graph.schema()), spec_(spec), options_(options) {
    for (size_t e = 0; e < schema_.edge_sets().size(); ++e) {
      const Adjacency rows = *graph.BySource(e);
      for (uint32_t row = 0; row < rows.num_rows(); ++row) {
        for (uint64_t place = rows.offsets[row]; place < rows.offsets[row + 1]; ++place) {
          tables_[e].push_back({row, rows.neighbours[place], rows.edge(place)});
        }
      }
    }
  }

  SlowGraph Draw(uint64_t seed_number, uint64_t epoch, const std::vector<uint32_t>& seeds,
                 absl::Span<const uint32_t> occurrences, std::optional<int64_t> time) const {
    const size_t seed_set = *schema_.NodeSetIndex(spec_.seed_node_set);
    SlowGraph result;
    for (const uint32_t seed : seeds) AddNode(result.nodes[seed_set], seed);
    if (!time && !seeds.empty()) {
      for (const uint32_t seed : seeds) {
        const auto of_seed =
            Number(schema_.node_sets()[seed_set].columns, options_.node_time_column, seed,
                   [&](size_t c) { return graph_.NodeColumn(seed_set, c); });
        if (of_seed) time = std::min(time.value_or(INT64_MAX), of_seed->Integer(seed));
      }
    }
    const uint64_t key = DrawKey(seed_number, epoch, seeds, occurrences);
    std::map<std::string, std::vector<uint32_t>> given = {{spec_.seed_op, seeds}};
    for (size_t number = 0; number < spec_.ops.size(); ++number) {
      const tfgnn::SamplingOp& op = spec_.ops[number];
      const size_t edge_set = *schema_.EdgeSetIndex(op.edge_set);
      std::vector<uint32_t> inputs;
      std::set<std::string> seen;
      for (const std::string& input : op.inputs) {
        if (!seen.insert(input).second) continue;
        for (const uint32_t node : given[input]) AddNode(inputs, node);
      }
      for (const uint32_t node : inputs) {
        for (const SlowEdge& edge :
             Chosen(op, edge_set, node, RowRandom(OpKey(key, number), node), time)) {
          AddNode(result.nodes[schema_.edge_sets()[edge_set].target], edge.target);
          given[op.name].push_back(edge.target);
          AddEdge(result.edges[edge_set], edge);
        }
      }
    }
    if (options_.induced) TakeInduced(result, time);
    return result;
  }

 private:
  static void AddNode(std::vector<uint32_t>& nodes, uint32_t node) {
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  }
  void AddEdge(std::vector<SlowEdge>& edges, const SlowEdge& edge) const {
    for (SlowEdge& other : edges) {
      if (!options_.merge_parallel && other.number != edge.number) continue;
      if (other.source != edge.source || other.target != edge.target) continue;
      other.number = std::min(other.number, edge.number);
      return;
    }
    edges.push_back(edge);
  }
  template <typename ColumnAt>
  static std::optional<NumberColumn> Number(const std::vector<SourceColumnSpec>& columns,
                                            const std::string& name, uint64_t /*row*/,
                                            const ColumnAt& column_at) {
    for (size_t c = 0; c < columns.size(); ++c) {
      if (columns[c].name == name) return NumberColumn(column_at(c), columns[c].dtype);
    }
    return std::nullopt;
  }
  std::optional<NumberColumn> EdgeNumber(size_t edge_set, const std::string& name) const {
    const size_t stored = schema_.edge_sets()[edge_set].reverse_of.value_or(edge_set);
    return Number(schema_.edge_sets()[stored].columns, name, 0,
                  [&](size_t c) { return graph_.EdgeColumn(edge_set, c); });
  }
  bool IsInTime(int64_t when, int64_t time) const {
    if (when > time) return false;
    return options_.time_window == 0 || when >= time - static_cast<int64_t>(options_.time_window);
  }
  // When the edge is; nothing if it is never late.
  std::optional<int64_t> TimeOf(size_t edge_set, const SlowEdge& edge) const {
    const size_t target = schema_.edge_sets()[edge_set].target;
    const auto of_node = Number(schema_.node_sets()[target].columns, options_.node_time_column, 0,
                                [&](size_t c) { return graph_.NodeColumn(target, c); });
    if (of_node) return of_node->Integer(edge.target);
    const auto of_edge = EdgeNumber(edge_set, options_.edge_time_column);
    if (of_edge) return of_edge->Integer(edge.number);
    return std::nullopt;
  }

  std::vector<SlowEdge> Chosen(const tfgnn::SamplingOp& op, size_t edge_set, uint32_t node,
                               SeededRandom random, std::optional<int64_t> time) const {
    const size_t k = static_cast<size_t>(op.sample_size);
    std::vector<SlowEdge> row;
    bool has_times = false;
    for (const SlowEdge& edge :
         tables_.count(edge_set) ? tables_.at(edge_set) : std::vector<SlowEdge>()) {
      if (edge.source != node) continue;
      const auto when = TimeOf(edge_set, edge);
      has_times |= when.has_value();
      if (!when || IsInTime(*when, *time)) row.push_back(edge);
    }
    if (op.strategy == tfgnn::SamplingStrategy::kRandomWeighted) {
      const NumberColumn weights = *EdgeNumber(edge_set, "weight");
      std::vector<std::pair<double, SlowEdge>> clocks;
      for (const SlowEdge& edge : row) {
        const double weight = weights.Double(edge.number);
        if (weight > 0) clocks.emplace_back(Exponential(random) / weight, edge);
      }
      row.clear();
      if (clocks.size() > k) {
        std::stable_sort(clocks.begin(), clocks.end(),
                         [](const auto& a, const auto& b) { return a.first < b.first; });
        clocks.resize(k);
      }
      for (const auto& [clock, edge] : clocks) row.push_back(edge);
      return row;
    }
    if (row.size() <= k) return row;
    if (op.strategy == tfgnn::SamplingStrategy::kTopK) {
      const NumberColumn weights = *EdgeNumber(edge_set, "weight");
      std::stable_sort(row.begin(), row.end(), [&](const SlowEdge& a, const SlowEdge& b) {
        return weights.Double(a.number) > weights.Double(b.number);
      });
      row.resize(k);
      return row;
    }
    if (has_times && options_.latest) {
      std::stable_sort(row.begin(), row.end(), [&](const SlowEdge& a, const SlowEdge& b) {
        return *TimeOf(edge_set, a) > *TimeOf(edge_set, b);
      });
      row.resize(k);
      return row;
    }
    std::vector<SlowEdge> chosen;
    if (has_times) {
      for (size_t i = 0; i < row.size(); ++i) {
        if (i < k) {
          chosen.push_back(row[i]);
        } else if (const uint64_t at = random.Below(i + 1); at < k) {
          chosen[at] = row[i];
        }
      }
      return chosen;
    }
    for (size_t i = row.size() - k; i < row.size(); ++i) {
      const SlowEdge& edge = row[random.Below(i + 1)];
      const bool is_chosen = std::find(chosen.begin(), chosen.end(), edge) != chosen.end();
      chosen.push_back(is_chosen ? row[i] : edge);
    }
    return chosen;
  }

  void TakeInduced(SlowGraph& result, std::optional<int64_t> time) const {
    std::set<size_t> sets;
    for (const std::string& name : options_.induced_edge_sets) {
      sets.insert(*schema_.EdgeSetIndex(name));
    }
    if (sets.empty()) {
      for (const tfgnn::SamplingOp& op : spec_.ops) sets.insert(*schema_.EdgeSetIndex(op.edge_set));
    }
    for (const size_t e : sets) {
      result.edges[e].clear();
      const std::vector<uint32_t>& targets = result.nodes[schema_.edge_sets()[e].target];
      for (const uint32_t source : result.nodes[schema_.edge_sets()[e].source]) {
        for (const SlowEdge& edge : tables_.count(e) ? tables_.at(e) : std::vector<SlowEdge>()) {
          if (edge.source != source) continue;
          if (std::find(targets.begin(), targets.end(), edge.target) == targets.end()) continue;
          const auto when = TimeOf(e, edge);
          if (!when || IsInTime(*when, *time)) AddEdge(result.edges[e], edge);
        }
      }
    }
  }

  const SourceGraph& graph_;
  const SourceGraphSchema& schema_;
  const tfgnn::SamplingSpec spec_;
  const SamplingOptions options_;
  std::map<size_t, std::vector<SlowEdge>> tables_;
};

// What was drawn, by the source graph's numbers. Sets without rows are left out.
inline SlowGraph ByNumbers(const SamplingPlan& plan, const SampledGraph& sampled) {
  SlowGraph result;
  for (size_t n = 0; n < plan.node_sets().size(); ++n) {
    result.nodes[plan.node_sets()[n]] = sampled.node_sets[n].numbers;
  }
  for (size_t e = 0; e < plan.edge_sets().size(); ++e) {
    const PlannedEdgeSet& set = plan.edge_sets()[e];
    const SampledEdges& edges = sampled.edge_sets[e];
    for (size_t i = 0; i < edges.sources.size(); ++i) {
      result.edges[set.edge_set].push_back(
          {sampled.node_sets[set.source].numbers.at(edges.sources[i]),
           sampled.node_sets[set.target].numbers.at(edges.targets[i]),
           edges.numbers.empty() ? 0 : edges.numbers[i]});
    }
  }
  return result;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SAMPLING_SLOW_SAMPLER_H_
