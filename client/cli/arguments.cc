#include "client/cli/arguments.h"

// Includes all of CLI11 here, since its virtual tables are emitted in every file that does.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace packhouse::client {
void AddSizesOption(std::string& path, CLI::App& command) {
  command
      .add_option("--sizes", path,
                  "CSV of graph sizes (num_nodes,num_edges,...), one graph a row or with a column "
                  "`count`; .gz is fine")
      ->required()
      ->type_name("FILE");
}

void AddLimitOption(std::vector<std::string>& limits, CLI::App& command) {
  command
      .add_option("--limit", limits,
                  "Most rows of a component in a batch, as in nodes=222; repeat it per component, "
                  "`graphs` is one")
      ->type_name("COMPONENT=ROWS")
      ->allow_extra_args(false);
}

void AddBudgetOptions(uint64_t& steps, uint64_t& seed, const std::string& budget_help,
                      CLI::App& command) {
  command.add_option("--budget-steps", steps, budget_help)->type_name("N");
  command
      .add_option("--seed", seed,
                  "Seed of the search. It changes the result only if the budget ends before the "
                  "best is proved")
      ->type_name("N");
}

void AddPaddingOptions(PaddingArguments& arguments, CLI::App& command) {
  const std::map<std::string, v1::Padding> paddings = {{"none", v1::PADDING_NONE},
                                                       {"masked", v1::PADDING_MASKED},
                                                       {"graph", v1::PADDING_GRAPH},
                                                       {"tfgnn", v1::PADDING_TFGNN}};
  command
      .add_option(
          "--padding", arguments.padding,
          "The padding that batches will be loaded with: none, masked, graph or tfgnn (which keep "
          "one graph, and one row of what indices point into, free); limits are then those "
          "that a load takes")
      ->type_name("NAME")
      ->transform(CLI::CheckedTransformer(paddings).description(""));
  command
      .add_option("--index-into", arguments.index_targets,
                  "For --padding graph or tfgnn: a component that index tensors point into; may be "
                  "repeated; else the first component, or with tfgnn none")
      ->type_name("COMPONENT")
      ->allow_extra_args(false);
  command
      .add_option("--ragged", arguments.ragged_components,
                  "For --padding tfgnn: the component of a ragged feature, which needs no limit; "
                  "may be repeated")
      ->type_name("COMPONENT")
      ->allow_extra_args(false);
}

absl::Status CheckPadding(const PaddingArguments& arguments,
                          const std::vector<std::string>& components) {
  const auto check = [&](absl::string_view option, const std::vector<std::string>& values) {
    for (const std::string& value : values) {
      if (std::find(components.begin(), components.end(), value) != components.end()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(option, " '", value, "': there is only ", absl::StrJoin(components, ", ")));
    }
    return absl::OkStatus();
  };
  if (!arguments.index_targets.empty() && arguments.padding != v1::PADDING_GRAPH &&
      arguments.padding != v1::PADDING_TFGNN) {
    return absl::InvalidArgumentError(
        "--index-into says what padding keeps free: it needs "
        "--padding graph or tfgnn");
  }
  if (!arguments.ragged_components.empty() && arguments.padding != v1::PADDING_TFGNN) {
    return absl::InvalidArgumentError(
        "--ragged says what padding leaves as it is: it needs --padding tfgnn");
  }
  if (absl::Status status = check("--index-into", arguments.index_targets); !status.ok()) {
    return status;
  }
  return check("--ragged", arguments.ragged_components);
}

std::string Describe(const PaddingArguments& arguments) {
  switch (arguments.padding) {
    case v1::PADDING_NONE:
      return ", padding none";
    case v1::PADDING_MASKED:
      return ", padding masked";
    case v1::PADDING_GRAPH:
      return ", padding graph";
    case v1::PADDING_TFGNN:
      return ", padding tfgnn";
    default:
      return "";
  }
}

void AddAxesOption(std::vector<std::string>& axes, const std::string& otherwise,
                   CLI::App& command) {
  command
      .add_option("--axes", axes,
                  "The one or two components to draw, as in nodes,edges; " + otherwise)
      ->delimiter(',')
      ->type_name("A[,B]");
}

absl::Status ForEachComponent(
    absl::string_view option, absl::string_view form, const std::vector<std::string>& values,
    const std::vector<std::string>& components,
    absl::FunctionRef<bool(const std::string& component, absl::string_view value)> take) {
  std::vector<std::string> seen;
  for (const std::string& text : values) {
    // A component's name may have one too.
    const std::size_t equals = text.rfind('=');
    const std::string component = text.substr(0, equals);
    const bool known = component == "graphs" || std::find(components.begin(), components.end(),
                                                          component) != components.end();
    const bool again = std::find(seen.begin(), seen.end(), component) != seen.end();
    const absl::string_view value = equals == std::string::npos
                                        ? absl::string_view()
                                        : absl::string_view(text).substr(equals + 1);
    // A malformed value is reported before the component is checked: it may be a component without
    // a value.
    if (equals == std::string::npos || !take(component, value)) {
      return absl::InvalidArgumentError(absl::StrCat(option, " '", text, "': must be ", form));
    }
    if (!known) {
      return absl::InvalidArgumentError(absl::StrCat(option, " '", text, "': the components are ",
                                                     absl::StrJoin(components, ", "),
                                                     " and graphs"));
    }
    if (again) {
      return absl::InvalidArgumentError(
          absl::StrCat(option, " '", text, "': '", component, "' has a value already"));
    }
    seen.push_back(component);
  }
  return absl::OkStatus();
}

bool ParseRows(absl::string_view text, uint64_t& rows) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, rows);
  return error == std::errc() && stop == end && rows > 0;
}

absl::StatusOr<v1::Limits> ParseLimits(const std::vector<std::string>& limits,
                                       const std::vector<std::string>& components,
                                       const std::string& option) {
  v1::Limits parsed;
  const absl::Status status =
      ForEachComponent(option, "COMPONENT=ROWS with a whole number of at least 1", limits,
                       components, [&](const std::string& component, absl::string_view value) {
                         uint64_t rows = 0;
                         if (!ParseRows(value, rows)) return false;
                         v1::Capacity* const capacity = parsed.add_capacities();
                         capacity->set_component(component);
                         capacity->set_rows(rows);
                         return true;
                       });
  if (!status.ok()) return status;
  return parsed;
}

std::vector<uint64_t> CapacitiesOf(const v1::Limits& limits,
                                   const std::vector<std::string>& components) {
  std::vector<uint64_t> capacities(components.size() + 1);
  for (const v1::Capacity& capacity : limits.capacities()) {
    const auto found = std::find(components.begin(), components.end(), capacity.component());
    if (found != components.end() || capacity.component() == "graphs") {
      capacities[static_cast<std::size_t>(found - components.begin())] = capacity.rows();
    }
  }
  return capacities;
}

std::vector<uint64_t> CapacitiesAlong(const std::vector<std::string>& axes,
                                      const v1::Limits& limits) {
  std::vector<uint64_t> capacities = CapacitiesOf(limits, axes);
  // The last is that of `graphs`. It is never an axis, since every graph has 1.
  capacities.pop_back();
  return capacities;
}

std::string Describe(const v1::Limits& limits) {
  return absl::StrJoin(limits.capacities(), ", ",
                       [](std::string* text, const v1::Capacity& capacity) {
                         absl::StrAppend(text, capacity.component(), "=");
                         if (capacity.rows() == 0) {
                           absl::StrAppend(text, "unlimited");
                         } else {
                           absl::StrAppend(text, capacity.rows());
                         }
                       });
}

std::string WithoutLimit(const std::vector<std::string>& components,
                         const std::vector<std::string>& limited) {
  std::vector<std::string> free;
  for (const std::string& component : components) {
    if (std::find(limited.begin(), limited.end(), component) == limited.end()) {
      free.push_back(component);
    }
  }
  return free.empty() ? "" : absl::StrCat("; ", absl::StrJoin(free, ", "), " without a limit");
}

std::string NameOfFile(const std::string& path) {
  absl::string_view name = path;
  if (const std::size_t slash = name.rfind('/'); slash != absl::string_view::npos) {
    name.remove_prefix(slash + 1);
  }
  return std::string(absl::StripSuffix(absl::StripSuffix(name, ".gz"), ".csv"));
}

}  // namespace packhouse::client
