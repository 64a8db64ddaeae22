// packhouse tfgnn stats: sizes and features of TFRecord files, and a histogram of sizes for
// `packhouse plan` and `packhouse tune`.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/graph/files/graph_sizes.h"
#include "client/graph/tfgnn/tfgnn_commands.h"
#include "service/algorithms/graphs/index_values.h"
#include "service/base/command_line/table.h"
#include "service/wings/tfgnn/number_lists.h"

namespace packhouse::client {
namespace {

struct StatsArguments {
  TfgnnArguments common;
  std::string sizes;
  bool all_components = false;
};

// Least, largest and mean of some numbers.
class Spread {
 public:
  void Add(double value) {
    ++count_;
    // NaN is counted, and changes nothing else.
    if (std::isnan(value)) return;
    least_ = std::min(least_, value);
    largest_ = std::max(largest_, value);
    sum_ += value;
  }
  uint64_t count() const { return count_; }
  double sum() const { return sum_; }
  // Three cells: least, mean, largest.
  std::vector<std::string> Cells() const {
    if (count_ == 0) return {"-", "-", "-"};
    return {absl::StrFormat("%.6g", least_),
            absl::StrFormat("%.6g", sum_ / static_cast<double>(count_)),
            absl::StrFormat("%.6g", largest_)};
  }

 private:
  uint64_t count_ = 0;
  double least_ = std::numeric_limits<double>::infinity();
  double largest_ = -std::numeric_limits<double>::infinity();
  double sum_ = 0;
};

// The numbers of a feature; of strings, their lengths.
void AddValues(const tfgnn::Feature& feature, const GraphChunk& graph, Spread& spread) {
  const std::size_t t = feature.is_text ? feature.ragged.back().lengths : feature.values;
  const DType dtype = graph.schema().tensors()[t].dtype;
  const absl::string_view rows = graph.rows(0, t);
  const std::size_t count = rows.size() / ElementBytes(dtype);
  for (std::size_t at = 0; at < count; ++at) {
    const char* const element = rows.data() + at * ElementBytes(dtype);
    const auto load = [element](auto value) {
      std::memcpy(&value, element, sizeof(value));
      return value;
    };
    switch (dtype) {
      case DType::kBool:
        spread.Add(*element != 0 ? 1 : 0);
        break;
      case DType::kFloat16:
        spread.Add(tfgnn::FloatOfFloat16(load(uint16_t{})));
        break;
      case DType::kBfloat16:
        spread.Add(tfgnn::FloatOfBfloat16(load(uint16_t{})));
        break;
      case DType::kFloat32:
        spread.Add(load(float{}));
        break;
      case DType::kFloat64:
        spread.Add(load(double{}));
        break;
      default:
        spread.Add(
            WithIndexType(dtype, [&](auto zero) { return static_cast<double>(load(zero)); }));
    }
  }
}

class Stats {
 public:
  Stats(const tfgnn::GraphSets& sets, bool all_components) : sets_(sets) {
    for (const tfgnn::RowSet& set : sets.node_sets()) components_.push_back(set.component);
    for (const tfgnn::EdgeSet& set : sets.edge_sets()) components_.push_back(set.component);
    for (std::size_t k = 0; all_components && k < sets.schema().num_components(); ++k) {
      if (std::find(components_.begin(), components_.end(), k) == components_.end()) {
        components_.push_back(k);
      }
    }
    sizes_.resize(components_.size());
  }

  void Add(const GraphChunk& graph, std::size_t record_bytes) {
    record_bytes_.Add(static_cast<double>(record_bytes));
    std::vector<uint32_t> tuple;
    for (std::size_t k = 0; k < components_.size(); ++k) {
      tuple.push_back(static_cast<uint32_t>(graph.count(0, components_[k])));
      sizes_[k].Add(tuple.back());
    }
    ++histogram_[std::move(tuple)];
    const auto add = [&](const tfgnn::RowSet& set) {
      for (const tfgnn::Feature& feature : set.features) {
        AddValues(feature, graph, values_[feature.values]);
      }
    };
    add(sets_.context());
    for (const tfgnn::RowSet& set : sets_.node_sets()) add(set);
    for (const tfgnn::EdgeSet& set : sets_.edge_sets()) add(set);
  }

  std::string Text() const {
    TextTable sizes({{"per graph", ""}, {"least", ""}, {"mean", ""}, {"most", ""}, {"total", ""}});
    const auto add_row = [&sizes](std::string name, const Spread& spread) {
      std::vector<std::string> cells = {std::move(name)};
      for (std::string& cell : spread.Cells()) cells.push_back(std::move(cell));
      cells.push_back(absl::StrFormat("%.0f", spread.sum()));
      sizes.AddRow(std::move(cells));
    };
    add_row("bytes of the record", record_bytes_);
    for (std::size_t k = 0; k < components_.size(); ++k) {
      add_row(std::string(sets_.schema().sizes().name(components_[k])), sizes_[k]);
    }
    TextTable features(
        {{"feature", ""}, {"type", ""}, {"values", ""}, {"least", ""}, {"mean", ""}, {"most", ""}});
    const auto add = [&](const tfgnn::RowSet& set) {
      for (const tfgnn::Feature& feature : set.features) {
        const auto found = values_.find(feature.values);
        const Spread spread = found == values_.end() ? Spread() : found->second;
        std::vector<std::string> cells = {set.name.empty()
                                              ? absl::StrCat("context: ", feature.name)
                                              : absl::StrCat(set.name, ": ", feature.name),
                                          TypeText(feature), absl::StrCat(spread.count())};
        for (std::string& cell : spread.Cells()) cells.push_back(std::move(cell));
        features.AddRow(std::move(cells));
      }
    };
    add(sets_.context());
    for (const tfgnn::RowSet& set : sets_.node_sets()) add(set);
    for (const tfgnn::EdgeSet& set : sets_.edge_sets()) add(set);
    return absl::StrCat(Grouped(record_bytes_.count()), " graphs of ", Grouped(histogram_.size()),
                        " distinct sizes\n\n", sizes.Render(), "\n", features.Render(),
                        "(of strings: their lengths in bytes)\n");
  }

  GraphSizes Histogram() const {
    GraphSizes sizes;
    for (const std::size_t k : components_) {
      sizes.components.emplace_back(sets_.schema().sizes().name(k));
    }
    for (const auto& [tuple, count] : histogram_) {
      sizes.values.insert(sizes.values.end(), tuple.begin(), tuple.end());
      sizes.counts.push_back(count);
    }
    sizes.num_rows = histogram_.size();
    return sizes;
  }

 private:
  const tfgnn::GraphSets& sets_;
  std::vector<std::size_t> components_;
  Spread record_bytes_;
  std::vector<Spread> sizes_;
  std::map<std::vector<uint32_t>, uint64_t> histogram_;
  // By tensor of values.
  std::map<std::size_t, Spread> values_;
};

ExitCode RunStats(const StatsArguments& arguments) {
  const absl::StatusOr<tfgnn::GraphSets> sets = ReadGraphSets(arguments.common.graph_schema);
  if (!sets.ok()) return Fail(sets.status());
  Stats stats(*sets, arguments.all_components);
  absl::Status status = ForEachExample(*sets, arguments.common.examples,
                                       [&](const GraphChunk& graph, absl::string_view record) {
                                         stats.Add(graph, record.size());
                                         return absl::OkStatus();
                                       });
  if (!status.ok()) return Fail(status);
  std::cout << stats.Text();
  if (!arguments.sizes.empty()) {
    status = WriteHistogramFile(arguments.sizes, stats.Histogram());
    if (!status.ok()) return Fail(status);
    std::cout << "sizes: " << arguments.sizes << '\n';
  }
  return kExitOk;
}

}  // namespace

void AddTfgnnStats(CLI::App& tfgnn, ExitCode& code) {
  auto arguments = std::make_shared<StatsArguments>();
  CLI::App* const command =
      tfgnn.add_subcommand("stats", "Show sizes and features of TFRecord files");
  AddExamplesOptions(arguments->common, *command);
  command
      ->add_option("--sizes", arguments->sizes,
                   "Also write the histogram of sizes, for packhouse plan and tune")
      ->type_name("FILE.csv");
  command->add_flag("--all-components", arguments->all_components,
                    "Sizes of ragged features too, not of sets alone");
  command->callback([arguments, &code] { code = RunStats(*arguments); });
}

}  // namespace packhouse::client
