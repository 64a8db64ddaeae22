#include "service/program/commands/disk_commands.h"

#include <CLI/CLI.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/command_line/command_line.h"
#include "service/program/commands/policy_command.h"
#include "service/program/commands/store_command.h"

namespace packhouse {
namespace {

void AddDiskCommands(CLI::App& app, ExitCode& code) {
  AddStoreCommand(app, code);
  AddPolicyCommand(app, code);
}

// A flag with its value in one word.
bool IsWholeFlag(const char* word) {
  return absl::StartsWith(word, "--") && absl::StrContains(word, "=");
}

}  // namespace

bool IsDiskCommand(const std::string& word) { return word == "store" || word == "policy"; }

std::optional<int> RunDiskCommand(int argc, char** argv) {
  int first = 1;
  while (first < argc && IsWholeFlag(argv[first])) ++first;
  if (first >= argc || !IsDiskCommand(argv[first])) return std::nullopt;
  CLI::App app("Commands that work on the disk, without a server.", "packhoused");
  app.require_subcommand(1);
  ExitCode code = kExitOk;
  AddDiskCommands(app, code);
  // The word before the command stands where the program's name would.
  return RunCommandLine(app, argc - first + 1, argv + first - 1, code);
}

std::string DiskCommandsHelp() {
  CLI::App app;
  ExitCode code = kExitOk;
  AddDiskCommands(app, code);
  std::string lines = "Commands, which need no server; `packhoused COMMAND --help` tells the rest:";
  for (const CLI::App* const command : app.get_subcommands({})) {
    absl::StrAppend(&lines, "\n  ", command->get_name(),
                    std::string(10 - command->get_name().size(), ' '), command->get_description());
  }
  return lines;
}

}  // namespace packhouse
