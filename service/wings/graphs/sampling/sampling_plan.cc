#include "service/wings/graphs/sampling/sampling_plan.h"

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/sampling/column_numbers.h"

namespace packhouse {
namespace {

using tfgnn::SamplingStrategy;

constexpr uint32_t kHalvedAbove = 4096;

template <typename... Parts>
absl::Status InvalidOp(absl::string_view op, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("sampling spec: op ", Quoted(op), ": ", parts...));
}

template <typename... Parts>
absl::Status InvalidOption(absl::string_view option, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("sampling options: ", option, ": ", parts...));
}

std::optional<size_t> ColumnIndex(const std::vector<SourceColumnSpec>& columns,
                                  absl::string_view name) {
  for (size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].name == name) return c;
  }
  return std::nullopt;
}

// A reversed set has the columns of the other.
const std::vector<SourceColumnSpec>& ColumnsOf(const SourceGraphSchema& schema, size_t edge_set) {
  const SourceEdgeSetSpec& set = schema.edge_sets()[edge_set];
  return set.reverse_of ? schema.edge_sets()[*set.reverse_of].columns : set.columns;
}

bool IsTime(const SourceColumnSpec& column) {
  return IsOneNumber(column) && IsInteger(column.dtype) && column.dtype != DType::kUint64;
}

uint32_t Smaller(uint32_t sample_size) {
  if (sample_size > kHalvedAbove) return sample_size / 2;
  return std::max(uint32_t{1}, sample_size / 4 * 3 + sample_size % 4 * 3 / 4);
}

// What Create() puts together.
class SpecReading {
 public:
  SpecReading(const SourceGraphSchema& schema, const tfgnn::SamplingSpec& spec,
              const SamplingOptions& options)
      : schema_(schema), spec_(spec), options_(options) {}

  absl::Status Read();

  // Edge sets are numbers of the schema.
  std::vector<PlannedOp> ops;
  std::array<size_t, 2> seed_node_sets = {};  // The same twice, unless links join two sets.
  std::set<size_t> induced;
  struct Excluded {
    size_t edge_set;
    bool reversed;
  };
  std::vector<Excluded> excluded;

 private:
  absl::StatusOr<std::array<size_t, 2>> LinkNodeSets() const;
  absl::Status ReadExcluded();
  absl::Status ReadOp(size_t number);
  absl::Status ReadInputs(size_t number, const SourceEdgeSetSpec& edges, PlannedOp& op) const;
  absl::StatusOr<size_t> WeightColumn(const tfgnn::SamplingOp& from, size_t edge_set) const;
  absl::Status ReadInduced();
  absl::Status CheckTimes() const;
  // Every set that edges are drawn from, or lead to, has times, or is named as one without.
  absl::Status CheckUntimed(absl::string_view option, absl::string_view column) const;
  bool HasTimes(size_t set, bool of_nodes, absl::string_view column) const;

  const SourceGraphSchema& schema_;
  const tfgnn::SamplingSpec& spec_;
  const SamplingOptions& options_;
  absl::flat_hash_map<absl::string_view, size_t> numbers_;
};

absl::StatusOr<std::array<size_t, 2>> SpecReading::LinkNodeSets() const {
  if (!options_.link_edge_set.empty()) {
    if (!options_.link_node_set.empty()) {
      return InvalidOption("link_edge_set", "given, and link_node_set too");
    }
    const auto found = schema_.EdgeSetIndex(options_.link_edge_set);
    if (!found) {
      return InvalidOption("link_edge_set",
                           absl::StrCat("there is no edge set ", Quoted(options_.link_edge_set)));
    }
    const SourceEdgeSetSpec& edges = schema_.edge_sets()[*found];
    return std::array<size_t, 2>{edges.source, edges.target};
  }
  if (!options_.link_node_set.empty()) {
    const auto set = schema_.NodeSetIndex(options_.link_node_set);
    if (set) return std::array<size_t, 2>{*set, *set};
    return InvalidOption("link_node_set",
                         absl::StrCat("there is no node set ", Quoted(options_.link_node_set)));
  }
  std::array<size_t, 2> sets = {};
  for (size_t end = 0; end < sets.size(); ++end) {
    const absl::string_view name = end == 0 ? "_readout/source" : "_readout/target";
    const auto found = schema_.EdgeSetIndex(name);
    if (!found) {
      return InvalidOp(spec_.seed_op, "the schema has no edge set ", Quoted(name),
                       ", and neither link_node_set nor link_edge_set is given");
    }
    const SourceEdgeSetSpec& edges = schema_.edge_sets()[*found];
    if (schema_.node_sets()[edges.target].name != "_readout") {
      return InvalidOp(spec_.seed_op, "the edge set ", Quoted(name), " leads to ",
                       Quoted(schema_.node_sets()[edges.target].name), ", not to '_readout'");
    }
    sets[end] = edges.source;
  }
  return sets;
}

absl::Status SpecReading::ReadExcluded() {
  const bool has_sets = !options_.reverse_edge_sets.empty();
  if (options_.exclude != ExcludeLinks::kReverseTypes && has_sets) {
    return InvalidOption("reverse_edge_sets", "given, but `exclude` is not by reverse types");
  }
  if (options_.exclude == ExcludeLinks::kNone) return absl::OkStatus();
  const size_t links = *schema_.EdgeSetIndex(options_.link_edge_set);
  excluded.push_back({links, false});
  if (options_.exclude == ExcludeLinks::kSelf) return absl::OkStatus();
  const size_t stored = schema_.edge_sets()[links].reverse_of.value_or(links);
  for (size_t set = 0; set < schema_.edge_sets().size(); ++set) {
    const size_t of = schema_.edge_sets()[set].reverse_of.value_or(set);
    // The edges of one stored set are walked the other way if just one of the two is a reverse.
    if (of != stored || (of == set) == (stored == links)) continue;
    excluded.push_back({set, true});
  }
  for (const std::string& name : options_.reverse_edge_sets) {
    const auto set = schema_.EdgeSetIndex(name);
    if (!set) {
      return InvalidOption("reverse_edge_sets",
                           absl::StrCat("there is no edge set ", Quoted(name)));
    }
    const SourceEdgeSetSpec& edges = schema_.edge_sets()[*set];
    if (edges.source != seed_node_sets[1] || edges.target != seed_node_sets[0]) {
      return InvalidOption(
          "reverse_edge_sets",
          absl::StrCat(Quoted(name), " does not lead from ",
                       Quoted(schema_.node_sets()[seed_node_sets[1]].name), " to ",
                       Quoted(schema_.node_sets()[seed_node_sets[0]].name),
                       ", as what is the reverse of ", Quoted(options_.link_edge_set), " does"));
    }
    excluded.push_back({*set, true});
  }
  return absl::OkStatus();
}

absl::Status SpecReading::ReadInputs(size_t number, const SourceEdgeSetSpec& edges,
                                     PlannedOp& op) const {
  const tfgnn::SamplingOp& from = spec_.ops[number];
  if (from.inputs.empty()) return InvalidOp(from.name, "input_op_names: it has no input");
  for (const std::string& name : from.inputs) {
    size_t input = PlannedOp::kSeeds;
    // What begins at either end of links takes that end.
    size_t given = seed_node_sets[edges.source == seed_node_sets[1] ? 1 : 0];
    if (name != spec_.seed_op) {
      const auto found = numbers_.find(name);
      if (found == numbers_.end()) {
        const bool is_later =
            std::any_of(spec_.ops.begin(), spec_.ops.end(),
                        [&](const tfgnn::SamplingOp& other) { return other.name == name; });
        return InvalidOp(from.name, "input_op_names: ", Quoted(name),
                         is_later ? " is used before it is defined: an op stands after its inputs"
                                  : " is no op");
      }
      input = found->second;
      given = schema_.edge_sets()[ops[input].edge_set].target;
    }
    if (given != edges.source) {
      return InvalidOp(from.name, "the edges of ", Quoted(edges.name), " leave nodes of ",
                       Quoted(schema_.node_sets()[edges.source].name), ", but the input ",
                       Quoted(name), " gives nodes of ", Quoted(schema_.node_sets()[given].name));
    }
    if (std::find(op.inputs.begin(), op.inputs.end(), input) == op.inputs.end()) {
      op.inputs.push_back(input);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> SpecReading::WeightColumn(const tfgnn::SamplingOp& from,
                                                 size_t edge_set) const {
  const std::vector<SourceColumnSpec>& columns = ColumnsOf(schema_, edge_set);
  std::string name = options_.weight_column;
  if (name.empty()) name = ColumnIndex(columns, "#weight") ? "#weight" : "weight";
  const auto column = ColumnIndex(columns, name);
  if (!column) {
    return InvalidOp(from.name, "strategy: ", tfgnn::SamplingStrategyName(from.strategy),
                     " needs a column of weights, and the edge set ", Quoted(from.edge_set),
                     " has no column ", Quoted(name),
                     options_.weight_column.empty() ? " or '#weight'" : "");
  }
  if (!IsOneNumber(columns[*column])) {
    return InvalidOp(from.name, "strategy: the column ", Quoted(name), " of the edge set ",
                     Quoted(from.edge_set), " is not one integer, float32 or float64 an edge");
  }
  return *column;
}

absl::Status SpecReading::ReadOp(size_t number) {
  const tfgnn::SamplingOp& from = spec_.ops[number];
  if (from.name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("sampling spec: op number ", number, ": it has no op_name"));
  }
  if (from.name == spec_.seed_op || numbers_.count(from.name) != 0) {
    return InvalidOp(from.name, "op_name: two ops have this name");
  }
  const auto edge_set = schema_.EdgeSetIndex(from.edge_set);
  if (!edge_set) {
    return InvalidOp(from.name, "edge_set_name: there is no edge set ", Quoted(from.edge_set));
  }
  PlannedOp op;
  op.edge_set = *edge_set;
  PH_RETURN_IF_ERROR(ReadInputs(number, schema_.edge_sets()[*edge_set], op));
  if (from.sample_size <= 0) {
    return InvalidOp(from.name, "sample_size: ", from.sample_size, ", must be at least 1");
  }
  op.sample_size = static_cast<uint32_t>(from.sample_size);
  op.strategy = from.strategy;
  switch (from.strategy) {
    case SamplingStrategy::kRandomUniform:
      break;
    case SamplingStrategy::kTopK:
    case SamplingStrategy::kRandomWeighted: {
      PH_ASSIGN_OR_RETURN(op.weight_column, WeightColumn(from, *edge_set));
      break;
    }
    case SamplingStrategy::kLatestK:
      return InvalidOp(from.name,
                       "strategy: LATEST_K is not there; give a time column and say `latest`");
  }
  numbers_.emplace(from.name, number);
  ops.push_back(std::move(op));
  return absl::OkStatus();
}

absl::Status SpecReading::ReadInduced() {
  if (!options_.induced) {
    if (options_.induced_edge_sets.empty()) return absl::OkStatus();
    return InvalidOption("induced_edge_sets", "given, but `induced` is not");
  }
  for (const std::string& name : options_.induced_edge_sets) {
    const auto set = schema_.EdgeSetIndex(name);
    if (!set) {
      return InvalidOption("induced_edge_sets",
                           absl::StrCat("there is no edge set ", Quoted(name)));
    }
    induced.insert(*set);
  }
  if (induced.empty()) {
    for (const PlannedOp& op : ops) induced.insert(op.edge_set);
  }
  return absl::OkStatus();
}

absl::Status SpecReading::CheckUntimed(absl::string_view option, absl::string_view column) const {
  const bool of_nodes = !options_.node_time_column.empty();
  const absl::string_view kind = of_nodes ? "node" : "edge";
  std::set<size_t> untimed;
  for (const std::string& name : options_.untimed_sets) {
    const auto set = of_nodes ? schema_.NodeSetIndex(name) : schema_.EdgeSetIndex(name);
    if (!set) {
      return InvalidOption("untimed_sets",
                           absl::StrCat("there is no ", kind, " set ", Quoted(name)));
    }
    if (HasTimes(*set, of_nodes, column)) {
      return InvalidOption("untimed_sets", absl::StrCat("the ", kind, " set ", Quoted(name),
                                                        " has the column ", Quoted(column)));
    }
    untimed.insert(*set);
  }
  const auto check = [&](size_t edge_set, absl::string_view what) {
    const size_t set = of_nodes ? schema_.edge_sets()[edge_set].target : edge_set;
    if (untimed.count(set) != 0 || HasTimes(set, of_nodes, column)) return absl::OkStatus();
    const std::string& name =
        of_nodes ? schema_.node_sets()[set].name : schema_.edge_sets()[set].name;
    return InvalidOption(
        option,
        absl::StrCat(what, ": the ", kind, " set ", Quoted(name), " has no column ", Quoted(column),
                     ", so its edges would never be late; if that is meant, name "
                     "it in untimed_sets"));
  };
  for (size_t number = 0; number < ops.size(); ++number) {
    PH_RETURN_IF_ERROR(
        check(ops[number].edge_set, absl::StrCat("op ", Quoted(spec_.ops[number].name))));
  }
  for (const size_t edge_set : induced) {
    PH_RETURN_IF_ERROR(check(
        edge_set, absl::StrCat("induced edge set ", Quoted(schema_.edge_sets()[edge_set].name))));
  }
  return absl::OkStatus();
}

bool SpecReading::HasTimes(size_t set, bool of_nodes, absl::string_view column) const {
  const std::vector<SourceColumnSpec>& columns =
      of_nodes ? schema_.node_sets()[set].columns : ColumnsOf(schema_, set);
  return ColumnIndex(columns, column).has_value();
}

absl::Status SpecReading::CheckTimes() const {
  const std::string& node_time = options_.node_time_column;
  const std::string& edge_time = options_.edge_time_column;
  if (node_time.empty() && edge_time.empty()) {
    if (options_.latest) return InvalidOption("latest", "there is no time column");
    if (options_.time_window != 0) {
      return InvalidOption("time_window", "given, but there is no time column");
    }
    if (!options_.untimed_sets.empty()) {
      return InvalidOption("untimed_sets", "given, but there is no time column");
    }
    return absl::OkStatus();
  }
  if (!node_time.empty() && !edge_time.empty()) {
    return InvalidOption("edge_time_column", "given, and node_time_column too");
  }
  const absl::string_view option = node_time.empty() ? "edge_time_column" : "node_time_column";
  const std::string& name = node_time.empty() ? edge_time : node_time;
  bool found = false;
  const auto check = [&](absl::string_view set, const std::vector<SourceColumnSpec>& columns) {
    const auto column = ColumnIndex(columns, name);
    if (!column) return absl::OkStatus();
    found = true;
    if (IsTime(columns[*column])) return absl::OkStatus();
    return InvalidOption(option, "the column ", Quoted(name), " of ", Quoted(set),
                         " is not one integer (not uint64) a row");
  };
  if (!node_time.empty()) {
    for (const SourceNodeSetSpec& set : schema_.node_sets()) {
      PH_RETURN_IF_ERROR(check(set.name, set.columns));
    }
  } else {
    for (const SourceEdgeSetSpec& set : schema_.edge_sets()) {
      PH_RETURN_IF_ERROR(check(set.name, set.columns));
    }
  }
  if (found) return CheckUntimed(option, name);
  return InvalidOption(option, "no ", node_time.empty() ? "edge" : "node", " set has a column ",
                       Quoted(name));
}

absl::Status SpecReading::Read() {
  if (spec_.seed_op.empty()) {
    return absl::InvalidArgumentError("sampling spec: the seed op has no op_name");
  }
  if (spec_.ops.size() > SamplingPlan::kMaxOps) {
    return absl::InvalidArgumentError(
        absl::StrCat("sampling spec: ", spec_.ops.size(), " ops, at most ", SamplingPlan::kMaxOps));
  }
  if (options_.exclude != ExcludeLinks::kNone && options_.link_edge_set.empty()) {
    return InvalidOption("exclude", "which edges the links are is not known: give link_edge_set");
  }
  if (spec_.link_seeds) {
    PH_ASSIGN_OR_RETURN(seed_node_sets, LinkNodeSets());
  } else {
    if (!options_.link_node_set.empty()) {
      return InvalidOption("link_node_set", "the seeds are no links");
    }
    if (!options_.link_edge_set.empty()) {
      return InvalidOption("link_edge_set", "the seeds are no links");
    }
    const auto set = schema_.NodeSetIndex(spec_.seed_node_set);
    if (!set) {
      return InvalidOp(spec_.seed_op, "node_set_name: there is no node set ",
                       Quoted(spec_.seed_node_set));
    }
    seed_node_sets = {*set, *set};
  }
  for (size_t number = 0; number < spec_.ops.size(); ++number) PH_RETURN_IF_ERROR(ReadOp(number));
  PH_RETURN_IF_ERROR(ReadInduced());
  PH_RETURN_IF_ERROR(ReadExcluded());
  return CheckTimes();
}

absl::Status CheckReadout(const SourceGraphSchema& schema, const tfgnn::SamplingSpec& spec,
                          SamplingOptions& options) {
  const bool has_readout = spec.link_seeds || options.readout;
  if (!has_readout && !options.readout_columns.empty()) {
    return InvalidOption("readout_columns", "given, but sub-graphs have no `_readout`");
  }
  if (spec.link_seeds && options.readout_columns.empty()) {
    if (const auto set = schema.NodeSetIndex("_readout")) {
      options.readout_columns = schema.node_sets()[*set].columns;
    }
  }
  for (const SourceColumnSpec& column : options.readout_columns) {
    if (column.ragged) {
      return InvalidOption("readout_columns", "the column ", Quoted(column.name), " is ragged");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SamplingPlan> SamplingPlan::Create(const SourceGraphSchema& schema,
                                                  const tfgnn::SamplingSpec& spec,
                                                  const SamplingOptions& options) {
  SamplingPlan plan;
  plan.spec_ = spec;
  plan.options_ = options;
  SpecReading reading(schema, spec, options);
  PH_RETURN_IF_ERROR(reading.Read());
  PH_RETURN_IF_ERROR(CheckReadout(schema, spec, plan.options_));

  std::set<size_t> edge_sets = reading.induced;
  for (const PlannedOp& op : reading.ops) edge_sets.insert(op.edge_set);
  std::set<size_t> node_sets(reading.seed_node_sets.begin(), reading.seed_node_sets.end());
  for (const size_t e : edge_sets) {
    node_sets.insert({schema.edge_sets()[e].source, schema.edge_sets()[e].target});
  }
  plan.node_sets_.assign(node_sets.begin(), node_sets.end());
  std::sort(plan.node_sets_.begin(), plan.node_sets_.end(), [&](size_t a, size_t b) {
    return schema.node_sets()[a].name < schema.node_sets()[b].name;
  });
  const auto position = [&](size_t node_set) -> size_t {
    return std::find(plan.node_sets_.begin(), plan.node_sets_.end(), node_set) -
           plan.node_sets_.begin();
  };
  std::vector<size_t> ordered(edge_sets.begin(), edge_sets.end());
  std::sort(ordered.begin(), ordered.end(), [&](size_t a, size_t b) {
    return schema.edge_sets()[a].name < schema.edge_sets()[b].name;
  });
  absl::flat_hash_map<size_t, size_t> edge_position;
  for (const size_t e : ordered) {
    edge_position.emplace(e, plan.edge_sets_.size());
    PlannedEdgeSet set;
    set.edge_set = e;
    set.source = position(schema.edge_sets()[e].source);
    set.target = position(schema.edge_sets()[e].target);
    set.induced = reading.induced.count(e) != 0;
    plan.edge_sets_.push_back(set);
  }
  plan.ops_ = std::move(reading.ops);
  for (PlannedOp& op : plan.ops_) {
    op.edge_set = edge_position.at(op.edge_set);
    ++plan.edge_sets_[op.edge_set].num_ops;
  }
  for (size_t end = 0; end < plan.seed_sets_.size(); ++end) {
    plan.seed_sets_[end] = position(reading.seed_node_sets[end]);
  }
  for (const auto& [edge_set, reversed] : reading.excluded) {
    const auto found = edge_position.find(edge_set);
    if (found != edge_position.end()) plan.excluded_.push_back({found->second, reversed});
  }
  return plan;
}

uint32_t SamplingPlan::num_levels() const {
  uint32_t largest = 1;
  for (const PlannedOp& op : ops_) largest = std::max(largest, op.sample_size);
  uint32_t levels = 1 + static_cast<uint32_t>(ops_.size());
  for (; largest > 1; largest = Smaller(largest)) ++levels;
  return levels;
}

uint32_t SamplingPlan::SampleSize(size_t op, uint32_t level) const {
  const uint32_t left_out_from = num_levels() - static_cast<uint32_t>(ops_.size());
  if (level >= left_out_from && op + (level - left_out_from) + 1 >= ops_.size()) return 0;
  uint32_t sample_size = ops_[op].sample_size;
  for (uint32_t l = 0; l < level && sample_size > 1; ++l) sample_size = Smaller(sample_size);
  return sample_size;
}

}  // namespace packhouse
