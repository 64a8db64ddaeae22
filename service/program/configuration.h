// The flags of packhoused from a file and from the environment.
#ifndef PACKHOUSE_SERVICE_PROGRAM_CONFIGURATION_H_
#define PACKHOUSE_SERVICE_PROGRAM_CONFIGURATION_H_

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// The command line's arguments, after those of the file and then those of the environment. Of a
// flag that is given several times the last counts.
//
// The file is TOML, without tables: keys are flags without their dashes, `max-streams = 64`. It is
// named by --config, or by PACKHOUSED_CONFIG. In the environment, PACKHOUSED_MAX_STREAMS is
// --max-streams; what Kubernetes sets for a Service called packhoused or packhoused-*, such as
// PACKHOUSED_SERVICE_HOST and PACKHOUSED_PORT, is passed over. `arguments` are without the
// program's name; `environment` has NAME=VALUE.
//
// INVALID_ARGUMENT naming the file and the line, or the variable, if it is no flag of `app` or has
// no single value.
absl::StatusOr<std::vector<std::string>> WithConfiguration(
    const CLI::App& app, const std::vector<std::string>& arguments,
    const std::vector<std::string>& environment);

// " (did you mean --max-streams?)" if a flag of `app` is called nearly like `name`, which has no
// dashes before it; else "".
std::string SuggestionFor(const CLI::App& app, absl::string_view name);

// Every flag of `app` with its value, as a file for --config. After `app` has parsed.
std::string ConfigurationOf(const CLI::App& app);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_CONFIGURATION_H_
