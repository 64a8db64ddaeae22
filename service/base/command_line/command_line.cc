#include "service/base/command_line/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <limits>
#include <set>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "service/base/command_words.h"
#include "service/base/standard_files.h"

namespace packhouse {
namespace {

// The least number of letters to change, add, remove, or swap with the next, to turn `a` into `b`.
// O(a * b).
std::size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<std::vector<std::size_t>> distance(a.size() + 1,
                                                 std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        distance[i][j] = i + j;
        continue;
      }
      distance[i][j] = std::min({distance[i - 1][j] + 1, distance[i][j - 1] + 1,
                                 distance[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        distance[i][j] = std::min(distance[i][j], distance[i - 2][j - 2] + 1);
      }
    }
  }
  return distance[a.size()][b.size()];
}

// The name that was probably meant; empty if none is near.
std::string Nearest(absl::string_view word, const std::vector<std::string>& names) {
  std::string nearest;
  std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& name : names) {
    // A prefix of a name counts as the name, however long the rest is.
    const std::size_t distance =
        word.size() > 1 && absl::StartsWith(name, word) ? 1 : Distance(word, name);
    if (distance >= least) continue;
    least = distance;
    nearest = name;
  }
  return nearest;
}

std::vector<std::string> CommandsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* const command : app.get_subcommands({})) {
    // A hidden command has no group.
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> OptionsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(absl::StrCat("--", name));
  }
  return names;
}

// The option parser takes -1 for the largest number, and numbers that are too large for it, too.
std::string NumberError(const std::string& text) {
  const std::size_t sign = absl::StartsWith(text, "-") ? 1 : 0;
  const absl::string_view digits = absl::string_view(text).substr(sign);
  uint64_t number = 0;
  // Other words are left to the parser.
  if (digits.empty() || !absl::c_all_of(digits, absl::ascii_isdigit)) return "";
  if (sign == 0 && absl::SimpleAtoi(digits, &number)) return "";
  return absl::StrCat("'", text, "' must be a whole number from 0 to ",
                      std::numeric_limits<uint64_t>::max());
}

// A failure, and a message, if stdout did not take all that was printed, as on a full disk.
ExitCode IfWritten(ExitCode code) {
  const absl::Status written = FlushStandardOutput();
  if (written.ok()) return code;
  std::cerr << written.message() << '\n';
  return code == kExitOk ? kExitFailure : code;
}

ExitCode ParseAndRun(CLI::App& app, int argc, char** argv, const ExitCode& code) {
  CheckNumbers(app);
  CheckRequired(app);
  try {
    ParseWords(app, {argv + 1, argv + argc});
  } catch (const CLI::ParseError& error) {
    // CLI11 has an exit code for each kind of misuse, and throws for --help and --version too.
    if (error.get_exit_code() == 0) {
      app.exit(error);
      return kExitOk;
    }
    const std::string mistyped = MistypedName(app);
    if (!mistyped.empty()) return Misuse(absl::InvalidArgumentError(mistyped));
    app.exit(error);
    return kExitUsage;
  }
  return code;
}

}  // namespace

std::string MistypedName(const CLI::App& app) {
  // `datasets lst`: the part that was recognised, and where the rest is searched.
  std::string taken;
  const CLI::App* at = &app;
  for (auto commands = at->get_subcommands(); !commands.empty(); commands = at->get_subcommands()) {
    at = commands.back();
    absl::StrAppend(&taken, at->get_name(), " ");
  }
  for (const std::string& word : at->remaining()) {
    if (absl::StartsWith(word, "--")) {
      const std::string name = word.substr(0, word.find('='));
      const std::string nearest = Nearest(name, OptionsOf(*at));
      if (nearest.empty()) continue;
      return absl::StrCat("there is no option '", name, "'; did you mean '", nearest, "'?");
    }
    const std::vector<std::string> commands = CommandsOf(*at);
    if (commands.empty()) continue;
    const std::string nearest = Nearest(word, commands);
    return absl::StrCat("there is no command '", taken, word, "'; ",
                        nearest.empty() ? absl::StrCat("there are ", absl::StrJoin(commands, ", "))
                                        : absl::StrCat("did you mean '", taken, nearest, "'?"));
  }
  return "";
}

void CheckNumbers(CLI::App& app) {
  // What options of whole numbers that are never negative are called.
  static const std::set<std::string> kTypes = {"COUNT", "N", "NUMBER", "SEED", "UINT"};
  for (CLI::Option* const option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (kTypes.contains(type.substr(0, type.find(':')))) option->check(NumberError);
  }
  for (CLI::App* const command : app.get_subcommands(nullptr)) CheckNumbers(*command);
}

void CheckRequired(CLI::App& app) {
  for (CLI::Option* const option : app.get_options()) {
    if (!option->get_required()) continue;
    option->check([](const std::string& text) {
      return text.empty() ? std::string("must not be empty") : std::string();
    });
  }
  for (CLI::App* const command : app.get_subcommands(nullptr)) CheckRequired(*command);
}

ExitCode RunCommandLine(CLI::App& app, int argc, char** argv, const ExitCode& code) {
  OpenStandardFiles();
  return IfWritten(ParseAndRun(app, argc, argv, code));
}

}  // namespace packhouse
