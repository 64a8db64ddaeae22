#include "service/wings/partition/jobs/partition_plan.h"

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/cutting/node_classes.h"
#include "service/wings/partition/files/json_fields.h"
#include "service/wings/partition/files/partition_json.h"
#include "service/wings/partition/jobs/graph_folders.h"

namespace packhouse {
namespace {

constexpr double kBillion = 1e9;
constexpr double kMaxImbalance = 1e6;

// The numbers of a column of whole numbers of 64 bits.
absl::StatusOr<std::vector<uint64_t>> NumbersOfColumn(const SourceColumn& column, uint64_t rows) {
  PH_RETURN_IF_ERROR(column.CheckAll());
  std::vector<uint64_t> numbers(rows * column.row_bytes / sizeof(uint64_t));
  if (!numbers.empty()) std::memcpy(numbers.data(), column.data, numbers.size() * sizeof(uint64_t));
  return numbers;
}

// Of a graph that ReadMetisFile made: one node set, one edge set.
absl::StatusOr<GraphWeights> MetisWeightsOf(const SourceGraph& graph) {
  GraphWeights weights;
  const std::vector<SourceColumnSpec>& of_nodes = graph.schema().node_sets()[0].columns;
  for (size_t c = 0; c < of_nodes.size(); ++c) {
    PH_ASSIGN_OR_RETURN(std::vector<uint64_t> numbers,
                        NumbersOfColumn(graph.NodeColumn(0, c), graph.num_nodes(0)));
    if (of_nodes[c].name == kMetisSize) {
      weights.sizes = std::move(numbers);
      continue;
    }
    const size_t constraints = of_nodes[c].row_shape[0];
    for (size_t i = 0; i < constraints; ++i) {
      NodeWeights column;
      column.name = constraints == 1 ? "vertex weight" : absl::StrCat("vertex weight ", i + 1);
      for (size_t at = i; at < numbers.size(); at += constraints) {
        column.of_node.push_back(numbers[at]);
      }
      weights.nodes.push_back(std::move(column));
    }
  }
  if (!graph.schema().edge_sets()[0].columns.empty()) {
    PH_ASSIGN_OR_RETURN(std::vector<uint64_t> numbers,
                        NumbersOfColumn(graph.EdgeColumn(0, 0), graph.num_edges(0)));
    weights.edges.push_back(std::move(numbers));
  }
  return weights;
}

}  // namespace

bool IsPartitionName(absl::string_view name) {
  for (const char c : name) {
    if (!absl::ascii_isalpha(static_cast<unsigned char>(c)) && c != '_') return false;
  }
  return !name.empty() && name.size() <= PartitionPlan::kMaxNameLength;
}

absl::Status CheckPartitionPlan(const PartitionPlan& plan) {
  if (!IsPartitionName(plan.name)) {
    return absl::InvalidArgumentError(absl::StrCat("the name ", Quoted(plan.name), " must be 1 to ",
                                                   PartitionPlan::kMaxNameLength,
                                                   " letters and underscores"));
  }
  const PartitionOptions& options = plan.options;
  if (options.num_parts == 0 || options.num_parts > kMaxPartsOfDirectory) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_parts is ", options.num_parts, ", must be 1 to ", kMaxPartsOfDirectory));
  }
  if (!(options.imbalance >= 1 && options.imbalance <= kMaxImbalance)) {
    return absl::InvalidArgumentError(
        absl::StrCat("imbalance is ", options.imbalance, ", must be 1 to ", kMaxImbalance));
  }
  if (!plan.forms.coo && !plan.forms.csr && !plan.forms.csc) {
    return absl::InvalidArgumentError("graph_forms must have one of coo, csr and csc");
  }
  if (plan.without_files && plan.mapping) {
    return absl::InvalidArgumentError("mapping: not without files");
  }
  if (plan.without_files && plan.original_ids) {
    return absl::InvalidArgumentError("original_ids: not without files");
  }
  return absl::OkStatus();
}

std::string PlanText(const PartitionPlan& plan) {
  const PartitionOptions& options = plan.options;
  OrderedJson classes = OrderedJson::array();
  for (const PlannedClasses& given : plan.classes) {
    classes.push_back({{"node_set", given.node_set}, {"columns", given.columns}});
  }
  OrderedJson json = {{"name", plan.name},
                      {"num_parts", options.num_parts},
                      {"method", static_cast<int>(options.method)},
                      {"scheme", static_cast<int>(options.scheme)},
                      {"objective", static_cast<int>(options.objective)},
                      {"quality", static_cast<int>(options.quality)},
                      {"trainers_per_machine", options.trainers_per_machine},
                      {"num_hops", options.num_hops},
                      {"halo", static_cast<int>(options.halo)},
                      {"balance_edges", options.balance_edges ? 1 : 0},
                      // In whole billionths, so that the text has one form for one number.
                      {"imbalance", absl::StrCat(std::llround(options.imbalance * kBillion))},
                      {"seed", options.seed},
                      {"classes", std::move(classes)},
                      {"coo", plan.forms.coo ? 1 : 0},
                      {"csr", plan.forms.csr ? 1 : 0},
                      {"csc", plan.forms.csc ? 1 : 0},
                      {"npy", plan.npy ? 1 : 0},
                      {"safetensors", plan.safetensors ? 1 : 0},
                      {"mapping", plan.mapping ? 1 : 0},
                      {"assignment", plan.assignment ? 1 : 0}};
  // Only where they are set.
  if (plan.without_files) json["without_files"] = 1;
  if (plan.original_ids) json["original_ids"] = 1;
  if (plan.metis_weights) json["metis_weights"] = 1;
  // Names are checked to be UTF-8 by the contract and by nothing else: others become U+FFFD.
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

absl::StatusOr<PartitionPlan> PlanOfText(absl::string_view text) {
  PH_ASSIGN_OR_RETURN(const ReadJson json, ParseJsonObject(text));
  PartitionPlan plan;
  PartitionOptions& options = plan.options;
  const auto number = [&json](const char* key, auto& to, uint64_t max) -> absl::Status {
    PH_ASSIGN_OR_RETURN(const uint64_t value, NumberField(json, key));
    if (value > max) return absl::InvalidArgumentError(absl::StrCat(key, " is ", value));
    to = static_cast<std::remove_reference_t<decltype(to)>>(value);
    return absl::OkStatus();
  };
  PH_ASSIGN_OR_RETURN(plan.name, StringField(json, "name"));
  PH_RETURN_IF_ERROR(number("num_parts", options.num_parts, kMaxPartsOfDirectory));
  PH_RETURN_IF_ERROR(
      number("method", options.method, static_cast<uint64_t>(PartMethod::kStreaming)));
  PH_RETURN_IF_ERROR(
      number("scheme", options.scheme, static_cast<uint64_t>(PartScheme::kRecursive)));
  PH_RETURN_IF_ERROR(
      number("objective", options.objective, static_cast<uint64_t>(PartObjective::kVolume)));
  PH_RETURN_IF_ERROR(number("quality", options.quality, static_cast<uint64_t>(PartQuality::kBest)));
  PH_RETURN_IF_ERROR(
      number("trainers_per_machine", options.trainers_per_machine, PartitionOptions::kMaxParts));
  PH_RETURN_IF_ERROR(number("num_hops", options.num_hops, PartitionOptions::kMaxHops));
  PH_RETURN_IF_ERROR(number("halo", options.halo, static_cast<uint64_t>(HaloKind::kInEdges)));
  PH_RETURN_IF_ERROR(number("seed", options.seed, UINT64_MAX));
  PH_ASSIGN_OR_RETURN(const std::string imbalance, StringField(json, "imbalance"));
  uint64_t billionths = 0;
  if (!absl::SimpleAtoi(imbalance, &billionths)) {
    return absl::InvalidArgumentError("imbalance is no number");
  }
  options.imbalance = static_cast<double>(billionths) / kBillion;
  PH_RETURN_IF_ERROR(number("balance_edges", options.balance_edges, 1));
  PH_RETURN_IF_ERROR(number("coo", plan.forms.coo, 1));
  PH_RETURN_IF_ERROR(number("csr", plan.forms.csr, 1));
  PH_RETURN_IF_ERROR(number("csc", plan.forms.csc, 1));
  PH_RETURN_IF_ERROR(number("npy", plan.npy, 1));
  PH_RETURN_IF_ERROR(number("safetensors", plan.safetensors, 1));
  PH_RETURN_IF_ERROR(number("mapping", plan.mapping, 1));
  PH_RETURN_IF_ERROR(number("assignment", plan.assignment, 1));
  if (json.contains("without_files")) {
    PH_RETURN_IF_ERROR(number("without_files", plan.without_files, 1));
  }
  if (json.contains("original_ids")) {
    PH_RETURN_IF_ERROR(number("original_ids", plan.original_ids, 1));
  }
  if (json.contains("metis_weights")) {
    PH_RETURN_IF_ERROR(number("metis_weights", plan.metis_weights, 1));
  }
  const auto classes = json.find("classes");
  if (classes == json.end() || !classes->is_array()) {
    return absl::InvalidArgumentError("classes must be a list");
  }
  for (const ReadJson& given : *classes) {
    PlannedClasses of_set;
    PH_ASSIGN_OR_RETURN(of_set.node_set, StringField(given, "node_set"));
    PH_ASSIGN_OR_RETURN(of_set.columns, StringsField(given, "columns"));
    plan.classes.push_back(std::move(of_set));
  }
  return plan;
}

absl::StatusOr<PartitionOptions> OptionsFor(const SourceGraph& graph, const PartitionPlan& plan) {
  PartitionOptions options = plan.options;
  for (const PlannedClasses& given : plan.classes) {
    const std::optional<size_t> set = graph.schema().NodeSetIndex(given.node_set);
    if (!set) {
      return absl::NotFoundError(
          absl::StrCat("balance_node_sets: there is no node set ", Quoted(given.node_set)));
    }
    if (given.columns.size() == 1) {
      PH_ASSIGN_OR_RETURN(NodeClasses classes, ClassesFromColumn(graph, *set, given.columns[0]));
      options.classes.push_back(std::move(classes));
      continue;
    }
    const std::vector<absl::string_view> masks(given.columns.begin(), given.columns.end());
    PH_ASSIGN_OR_RETURN(NodeClasses classes, ClassesFromMasks(graph, *set, masks));
    options.classes.push_back(std::move(classes));
  }
  if (plan.metis_weights) {
    PH_ASSIGN_OR_RETURN(options.weights, MetisWeightsOf(graph));
  }
  return options;
}

}  // namespace packhouse
