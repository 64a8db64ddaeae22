// The commands of packhoused besides serving: those that work on the disk, without a server
// (`packhoused store check DIR`), and those for a server that runs (`packhoused admin status`).
#ifndef PACKHOUSE_SERVICE_PROGRAM_COMMANDS_COMMANDS_H_
#define PACKHOUSE_SERVICE_PROGRAM_COMMANDS_COMMANDS_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/base/command_line/exit_code.h"
#include "service/base/stored_damage.h"
#include "service/program/data_folder/graph_folder.h"
#include "service/stores/datasets/store_check.h"
#include "service/stores/limits/snapshot_report.h"

namespace CLI {
class App;
}

namespace packhouse {

// Checks what servers share, if `store`, or a flag, names it: adds what was read to `counts`.
// Nothing otherwise. INVALID_ARGUMENT or UNIMPLEMENTED for an address that is not understood.
using SharedCheck = std::function<absl::Status(const std::string& store, DamageVisitor found,
                                               StoredCounts& counts)>;

// Repairs it in the same way, and adds to `report` what was done. Errors as SharedCheck, and of the
// work.
using SharedRepair = std::function<absl::Status(
    const std::string& store, const RepairOptions& options, RepairReport& report)>;

// Takes a snapshot of what servers share, or restores one, if `store` names it; nullopt if that is
// a folder. Errors as SharedCheck, and of the work.
using SharedSnapshot = std::function<absl::StatusOr<std::optional<SnapshotReport>>(
    const std::string& store, const std::string& snapshot, SnapshotProgress progress)>;

// What the commands have of wings.
struct CommandParts {
  // Adds commands to `packhoused store`. `code` gets the result of one when it has been run; both
  // must outlive the parsing. May be null.
  std::function<void(CLI::App& store, ExitCode& code)> add_to_store = nullptr;
  GraphFolder graphs;
  // Adds flags to `packhoused store check`, which must outlive the result. May be null.
  std::function<SharedCheck(CLI::App& check)> add_to_check = nullptr;
  // The same of `packhoused store repair`, `snapshot` and `restore`.
  std::function<SharedRepair(CLI::App& repair)> add_to_repair = nullptr;
  std::function<SharedSnapshot(CLI::App& snapshot)> add_to_snapshot = nullptr;
  std::function<SharedSnapshot(CLI::App& restore)> add_to_restore = nullptr;
};

// Runs the command that the first word of `argv` names, and returns the exit code of the process;
// nullopt if it names none: the words are a server's flags. Words of the form --NAME=VALUE before
// the command are passed over, since an image or a script may put a server's flags there. A
// server's environment variables have no part in it. To be called first.
std::optional<int> RunCommand(int argc, char** argv, const CommandParts& parts);

// A line for each command, for `packhoused --help`.
std::string CommandsHelp();

// Whether `word` names one.
bool IsCommand(const std::string& word);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_COMMANDS_COMMANDS_H_
