// What the subcommands have in common: exit codes, the server to talk to, sizes and limits.
#ifndef PACKHOUSE_CLIENT_CLI_ARGUMENTS_H_
#define PACKHOUSE_CLIENT_CLI_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/graph/server_connection.h"
#include "packhouse/v1/batch.pb.h"
#include "service/command_line/exit_code.h"

namespace packhouse::client {

// Adds `--sizes FILE`, required, to a subcommand.
void AddSizesOption(std::string& path, CLI::App& command);

// Adds `--limit COMPONENT=ROWS`, which may be repeated.
void AddLimitOption(std::vector<std::string>& limits, CLI::App& command);

// Adds `--budget-steps N` and `--seed N`; `budget_help` says what the steps are for.
void AddBudgetOptions(uint64_t& steps, uint64_t& seed, const std::string& budget_help,
                      CLI::App& command);

// How the batches will be padded; by default this is left open.
struct PaddingArguments {
  v1::Padding padding = v1::PADDING_UNSPECIFIED;
  std::vector<std::string> index_targets = {};
  std::vector<std::string> ragged_components = {};
};

// Adds `--padding none|masked|graph|tfgnn`, and `--index-into COMPONENT` and `--ragged COMPONENT`,
// which may be repeated.
void AddPaddingOptions(PaddingArguments& arguments, CLI::App& command);

// Every component of `--index-into` and `--ragged` must be one of `components`, and come with
// `--padding`. Other
// checks are left to the server. INVALID_ARGUMENT naming the value.
absl::Status CheckPadding(const PaddingArguments& arguments,
                          const std::vector<std::string>& components);

// Fills in a PlanRequest or a TuneRequest.
template <typename Request>
void SetPadding(const PaddingArguments& arguments, Request& request) {
  request.set_padding(arguments.padding);
  for (const std::string& target : arguments.index_targets) request.add_index_targets(target);
  for (const std::string& ragged : arguments.ragged_components) {
    request.add_ragged_components(ragged);
  }
}

// `, padding graph`; empty if padding is left open.
std::string Describe(const PaddingArguments& arguments);

// Adds `--axes A[,B]`, the components of a picture; `otherwise` says what is drawn without it.
void AddAxesOption(std::vector<std::string>& axes, const std::string& otherwise, CLI::App& command);

// Splits each of `values` of `option`, as in `--limit nodes=222`, and calls `take` with its
// component and the text after the `=`; `take` returns whether the text is valid. Every component
// must be one of `components` or `graphs`, and come at most once.
//
// Errors: INVALID_ARGUMENT naming option and value; `form` says what a value must be.
absl::Status ForEachComponent(
    absl::string_view option, absl::string_view form, const std::vector<std::string>& values,
    const std::vector<std::string>& components,
    absl::FunctionRef<bool(const std::string& component, absl::string_view value)> take);

// A whole number of at least 1, without sign, exponent or spaces.
bool ParseRows(absl::string_view text, uint64_t& rows);

// Parses the values of `--limit`, or of another option. Every component must be one of `components`
// or `graphs`.
//
// Errors: INVALID_ARGUMENT naming the value.
absl::StatusOr<v1::Limits> ParseLimits(const std::vector<std::string>& limits,
                                       const std::vector<std::string>& components,
                                       const std::string& option = "--limit");

// Capacity per component in the order of `components`, then of `graphs`; 0 where there is none.
std::vector<uint64_t> CapacitiesOf(const v1::Limits& limits,
                                   const std::vector<std::string>& components);

// The same in the order of `axes`, which may leave components out.
std::vector<uint64_t> CapacitiesAlong(const std::vector<std::string>& axes,
                                      const v1::Limits& limits);

// `nodes=222, edges=502`.
std::string Describe(const v1::Limits& limits);

// `; edges without a limit`: components that are not among those with one, which a batch may have
// any number of. Empty if all have a limit. `graphs` need none.
std::string WithoutLimit(const std::vector<std::string>& components,
                         const std::vector<std::string>& limited);

// The last part of a path without `.csv` and `.gz`.
std::string NameOfFile(const std::string& path);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_ARGUMENTS_H_
