#include "client/cli/device_arguments.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/arguments.h"

namespace packhouse::client {
namespace {

constexpr absl::string_view kRowsForm = "COMPONENT=ROWS with a whole number of at least 1";
constexpr absl::string_view kBytesForm = "a whole number of bytes, as in 400, 64KiB or 16GiB";

// Takes the values of one option; only components with a `--max` may have a value.
using Profiles = std::map<std::string, v1::DeviceProfile::Component>;
absl::Status TakeOption(
    absl::string_view option, absl::string_view form, const std::vector<std::string>& values,
    const std::vector<std::string>& components, Profiles& profiles,
    absl::FunctionRef<bool(absl::string_view value, v1::DeviceProfile::Component& profile)> take) {
  std::string unlimited;

  absl::Status status = ForEachComponent(
      option, form, values, components, [&](const std::string& component, absl::string_view value) {
        const auto found = profiles.find(component);
        v1::DeviceProfile::Component ignored;
        if (!take(value, found == profiles.end() ? ignored : found->second)) return false;
        if (found == profiles.end() && unlimited.empty()) unlimited = component;
        return true;
      });
  if (!status.ok() || unlimited.empty()) return status;
  return absl::InvalidArgumentError(
      absl::StrCat(option, " of '", unlimited, "': it has no --max, and so no capacity to choose"));
}

}  // namespace

void AddDeviceOptions(DeviceArguments& arguments, CLI::App& command) {
  const auto add = [&](const char* name, std::vector<std::string>& values, const char* type,
                       const char* help) {
    return command.add_option(name, values, help)->type_name(type)->allow_extra_args(false);
  };
  add("--max", arguments.max, "COMPONENT=ROWS",
      "Most rows of a component that a batch may have, as in nodes=512; repeat it per component, "
      "`graphs` is one")
      ->required();
  add("--min", arguments.min, "COMPONENT=ROWS", "Fewest rows to consider; 1 by default");
  add("--multiple-of", arguments.multiple_of, "COMPONENT=ROWS",
      "Consider only multiples of this number, which the hardware prefers; 1 by default");
  add("--cost", arguments.cost, "COMPONENT=COST",
      "Cost of a row, padding included, in any unit; 1 by default, and 0 for graphs");
  command
      .add_option("--fixed-cost", arguments.fixed_cost,
                  "Cost of a batch besides its rows, in the unit of --cost: what a step costs the "
                  "device however small its batch is; 0 by default. docs/devices has figures")
      ->type_name("COST")
      ->check(CLI::Range(0.0, 1e200));
  add("--bytes-per", arguments.bytes_per, "COMPONENT=BYTES",
      "Memory of a row of a batch, as in nodes=400 or edges=2KiB");
  command.add_option("--memory", arguments.memory, "Most memory of a batch, as in 16GiB")
      ->type_name("BYTES");
  command
      .add_option("--fixed-bytes", arguments.fixed_bytes,
                  "The part of --memory that is used with any batch")
      ->type_name("BYTES");
  command
      .add_option(
          "--shapes", arguments.shapes,
          "Most shapes that the client compiles for. What is left over may use a smaller one")
      ->type_name("N");
}

absl::StatusOr<v1::DeviceProfile> ParseDevice(const DeviceArguments& arguments,
                                              const std::vector<std::string>& components) {
  Profiles profiles;
  absl::Status status =
      ForEachComponent("--max", kRowsForm, arguments.max, components,
                       [&](const std::string& component, absl::string_view value) {
                         uint64_t rows = 0;
                         if (!ParseRows(value, rows)) return false;
                         profiles[component].set_component(component);
                         profiles[component].set_max_rows(rows);
                         return true;
                       });
  if (!status.ok()) return status;

  using Profile = v1::DeviceProfile::Component;
  const absl::Status taken[] = {
      TakeOption("--min", kRowsForm, arguments.min, components, profiles,
                 [](absl::string_view value, Profile& profile) {
                   uint64_t rows = 0;
                   if (!ParseRows(value, rows)) return false;
                   profile.set_min_rows(rows);
                   return true;
                 }),
      TakeOption("--multiple-of", kRowsForm, arguments.multiple_of, components, profiles,
                 [](absl::string_view value, Profile& profile) {
                   uint64_t rows = 0;
                   if (!ParseRows(value, rows)) return false;
                   profile.set_multiple_of(rows);
                   return true;
                 }),
      TakeOption("--cost", "COMPONENT=COST with a number of at least 0", arguments.cost, components,
                 profiles,
                 [](absl::string_view value, Profile& profile) {
                   double cost = 0;
                   if (!absl::SimpleAtod(value, &cost) || !std::isfinite(cost) || cost < 0) {
                     return false;
                   }
                   profile.set_relative_cost(cost);
                   return true;
                 }),
      TakeOption("--bytes-per", absl::StrCat("COMPONENT=BYTES with ", kBytesForm),
                 arguments.bytes_per, components, profiles,
                 [](absl::string_view value, Profile& profile) {
                   uint64_t bytes = 0;
                   if (!ParseBytes(value, bytes)) return false;
                   profile.set_bytes_per_row(bytes);
                   return true;
                 }),
  };
  for (const absl::Status& outcome : taken) {
    if (!outcome.ok()) return outcome;
  }

  v1::DeviceProfile device;
  for (const std::string& component : components) {
    if (const auto found = profiles.find(component); found != profiles.end()) {
      *device.add_components() = found->second;
    }
  }
  if (const auto found = profiles.find("graphs"); found != profiles.end()) {
    *device.add_components() = found->second;
  }
  for (const auto& [option, text, set] :
       {std::tuple("--memory", &arguments.memory, &v1::DeviceProfile::set_memory_bytes),
        std::tuple("--fixed-bytes", &arguments.fixed_bytes, &v1::DeviceProfile::set_fixed_bytes)}) {
    if (text->empty()) continue;
    uint64_t bytes = 0;
    if (!ParseBytes(*text, bytes)) {
      return absl::InvalidArgumentError(
          absl::StrCat(option, " '", *text, "': must be ", kBytesForm));
    }
    (device.*set)(bytes);
  }
  if (!arguments.memory.empty() && device.memory_bytes() == 0) {
    return absl::InvalidArgumentError("--memory '0': no batch fits into it");
  }
  device.set_fixed_cost(arguments.fixed_cost);
  device.set_max_distinct_shapes(arguments.shapes);
  return device;
}

}  // namespace packhouse::client
