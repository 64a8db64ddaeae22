#include "service/program/configuration.h"

#include <toml++/toml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <regex>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr absl::string_view kPrefix = "PACKHOUSED_";
// Of the command line alone: what they do is over before, or instead of, serving.
constexpr absl::string_view kNotConfigured[] = {"config", "print-config", "help", "version"};

const CLI::Option* FlagNamed(const CLI::App& app, const std::string& name) {
  if (std::find(std::begin(kNotConfigured), std::end(kNotConfigured), name) !=
      std::end(kNotConfigured)) {
    return nullptr;
  }
  for (const CLI::Option* const option : app.get_options()) {
    if (option->get_single_name() == name) return option;
  }
  return nullptr;
}

// The value in a word of its own.
void Append(const CLI::Option& flag, const std::string& value, std::vector<std::string>& all) {
  const std::string name = absl::StrCat("--", flag.get_single_name());
  if (flag.get_items_expected_max() == 0) {
    all.push_back(absl::StrCat(name, "=", value.empty() ? "false" : value));
  } else {
    all.insert(all.end(), {name, value});
  }
}

// "" if there is none.
std::string PathIn(const std::vector<std::string>& arguments,
                   const std::vector<std::string>& environment) {
  std::string path;
  for (absl::string_view each : environment) {
    if (absl::ConsumePrefix(&each, "PACKHOUSED_CONFIG=")) path = std::string(each);
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view each = arguments[i];
    if (absl::ConsumePrefix(&each, "--config=")) {
      path = std::string(each);
    } else if (each == "--config" && i + 1 < arguments.size()) {
      path = arguments[i + 1];
    }
  }
  return path;
}

// What kubelet sets in each container for a Service: NAME_SERVICE_HOST, NAME_SERVICE_PORT[_PORT],
// NAME_PORT and NAME_PORT_1_TCP[_ADDR]; here without PACKHOUSED_.
bool IsOfKubernetes(const std::string& variable) {
  static const std::regex& pattern = *new std::regex(
      "([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)"
      "(_(PROTO|PORT|ADDR))?)?)");
  return std::regex_match(variable, pattern);
}

absl::Status AppendFile(const CLI::App& app, const std::string& path,
                        std::vector<std::string>& all) {
  toml::table table;
  try {
    table = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    return absl::InvalidArgumentError(absl::StrCat("--config ", path, ": line ",
                                                   error.source().begin.line, ": ",
                                                   std::string(error.description())));
  }
  for (const auto& [key, value] : table) {
    const std::string name(key.str());
    const auto wrong = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--config ", path, ": line ", key.source().begin.line, ": '", name, "' ", what));
    };
    if (FlagNamed(app, name) == nullptr) {
      if (app.get_option_no_throw(absl::StrCat("--", name)) != nullptr) {
        return wrong("is for the command line alone");
      }
      return wrong(absl::StrCat("is no flag of packhoused", SuggestionFor(app, name)));
    }
    std::string text;
    if (const auto* const string = value.as_string()) {
      text = string->get();
    } else if (const auto* const integer = value.as_integer()) {
      text = absl::StrCat(integer->get());
    } else if (const auto* const truth = value.as_boolean()) {
      text = truth->get() ? "true" : "false";
    } else if (const auto* const real = value.as_floating_point()) {
      text = absl::StrCat(real->get());
    } else {
      return wrong("is neither a text nor a number nor a truth value");
    }
    Append(*FlagNamed(app, name), text, all);
  }
  return absl::OkStatus();
}

absl::Status AppendEnvironment(const CLI::App& app, const std::vector<std::string>& environment,
                               std::vector<std::string>& all) {
  for (absl::string_view each : environment) {
    if (!absl::ConsumePrefix(&each, kPrefix)) continue;
    const size_t equals = each.find('=');
    const std::string variable(each.substr(0, equals));
    const std::string name = absl::StrReplaceAll(absl::AsciiStrToLower(variable), {{"_", "-"}});
    if (name == "config") continue;
    const CLI::Option* const flag = FlagNamed(app, name);
    if (flag == nullptr) {
      if (IsOfKubernetes(variable)) continue;
      return absl::InvalidArgumentError(absl::StrCat(kPrefix, variable, ": there is no flag --",
                                                     name, " of packhoused",
                                                     SuggestionFor(app, name)));
    }
    Append(*flag, std::string(each.substr(equals + 1)), all);
  }
  return absl::OkStatus();
}

// Characters to change, add or leave out: Levenshtein's distance.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t before = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = before + (a[i] == b[j] ? 0 : 1);
      before = row[j + 1];
      row[j + 1] = std::min({changed, before + 1, row[j] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string SuggestionFor(const CLI::App& app, absl::string_view name) {
  name = name.substr(0, std::min<size_t>(name.find('='), 100));
  std::string nearest;
  size_t least = std::max<size_t>(2, name.size() / 4) + 1;
  for (const CLI::Option* const option : app.get_options()) {
    const std::string& flag = option->get_single_name();
    const size_t distance = Distance(name, flag);
    if (distance >= least) continue;
    least = distance;
    nearest = flag;
  }
  return nearest.empty() ? "" : absl::StrCat(" (did you mean --", nearest, "?)");
}

absl::StatusOr<std::vector<std::string>> WithConfiguration(
    const CLI::App& app, const std::vector<std::string>& arguments,
    const std::vector<std::string>& environment) {
  std::vector<std::string> all;
  if (const std::string path = PathIn(arguments, environment); !path.empty()) {
    PH_RETURN_IF_ERROR(AppendFile(app, path, all));
  }
  PH_RETURN_IF_ERROR(AppendEnvironment(app, environment, all));
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

std::string ConfigurationOf(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* const option : app.get_options()) {
    const std::string name = option->get_single_name();
    // Flags of wings that were left out are in no list.
    if (FlagNamed(app, name) == nullptr || option->get_group().empty()) continue;
    std::string value =
        option->count() == 0 ? option->get_default_str() : option->reduced_results().back();
    // CLI11 shows defaults in quotes or brackets, or not at all.
    const bool is_flag = option->get_items_expected_max() == 0;
    if (is_flag && value.empty()) value = "false";
    double number = 0;
    const bool is_bare = is_flag || (absl::SimpleAtod(value, &number) && !value.empty());
    if (!is_bare && value.empty() && option->get_type_name().find("TEXT") == std::string::npos) {
      continue;  // A number that follows from others if it is not given.
    }
    absl::StrAppend(
        &text, name, " = ",
        is_bare ? value
                : absl::StrCat("\"", absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"\"", "\\\""}}),
                               "\""),
        "\n");
  }
  return text;
}

}  // namespace packhouse
