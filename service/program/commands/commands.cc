#include "service/program/commands/commands.h"

#include <CLI/CLI.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/command_line/command_line.h"
#include "service/program/commands/subcommands.h"

namespace packhouse {
namespace {

void AddCommands(CLI::App& app, const CommandParts& parts, ExitCode& code) {
  AddStoreCommand(app, parts, code);
  AddPolicyCommand(app, code);
  AddAdminCommand(app, code);
}

// A flag with its value in one word.
bool IsWholeFlag(const char* word) {
  return absl::StartsWith(word, "--") && absl::StrContains(word, "=");
}

}  // namespace

bool IsCommand(const std::string& word) {
  return word == "store" || word == "policy" || word == "admin";
}

std::optional<int> RunCommand(int argc, char** argv, const CommandParts& parts) {
  int first = 1;
  while (first < argc && IsWholeFlag(argv[first])) ++first;
  if (first >= argc || !IsCommand(argv[first])) return std::nullopt;
  CLI::App app("Commands for what a server keeps on the disk, and for a server that runs.",
               "packhoused");
  app.require_subcommand(1);
  ExitCode code = kExitOk;
  AddCommands(app, parts, code);
  // The word before the command stands where the program's name would.
  return RunCommandLine(app, argc - first + 1, argv + first - 1, code);
}

std::string CommandsHelp() {
  CLI::App app;
  ExitCode code = kExitOk;
  AddCommands(app, CommandParts(), code);
  std::string lines = "Commands, in place of serving; `packhoused COMMAND --help` tells the rest:";
  for (const CLI::App* const command : app.get_subcommands({})) {
    absl::StrAppend(&lines, "\n  ", command->get_name(),
                    std::string(10 - command->get_name().size(), ' '), command->get_description());
  }
  return lines;
}

}  // namespace packhouse
