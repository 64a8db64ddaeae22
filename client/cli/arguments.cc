#include "client/cli/arguments.h"

#include <algorithm>
#include <charconv>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "client/cpp/channel.h"

namespace packhouse::client {
namespace {

constexpr absl::Duration kConnectTimeout = absl::Seconds(10);
constexpr std::chrono::minutes kCallTimeout{10};

}  // namespace

ExitCode Fail(const absl::Status& status) {
  std::cerr << "packhouse: " << status.message() << " [" << absl::StatusCodeToString(status.code())
            << "]\n";
  return kExitFailure;
}

ExitCode Misuse(const absl::Status& status) {
  std::cerr << "packhouse: " << status.message() << "\nRun with --help for the options.\n";
  return kExitUsage;
}

absl::StatusOr<ServerConnection> ConnectToServer(const std::string& address) {
  ServerConnection connection;
  if (address.empty()) {
    absl::StatusOr<std::unique_ptr<LocalServer>> local = LocalServer::Start();
    if (!local.ok()) return local.status();
    connection.local = *std::move(local);
  }
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel =
      Connect(address.empty() ? connection.local->address() : address, kConnectTimeout);
  if (!channel.ok()) return channel.status();
  connection.channel = *std::move(channel);
  return connection;
}

std::chrono::system_clock::time_point CallDeadline() {
  return std::chrono::system_clock::now() + kCallTimeout;
}

void AddSizesOption(std::string& path, CLI::App& command) {
  command
      .add_option("--sizes", path,
                  "CSV of graph sizes (num_nodes,num_edges,...), one graph a row or with a column "
                  "`count`; .gz is fine")
      ->required()
      ->type_name("FILE");
}

void AddServerOption(std::string& address, CLI::App& command) {
  command.add_option("--server", address,
                     "HOST:PORT or unix:PATH of a packhoused; without it one is started for this "
                     "command alone");
}

void AddLimitOption(std::vector<std::string>& limits, CLI::App& command) {
  command
      .add_option("--limit", limits,
                  "Most rows of a component in a batch, as in nodes=222; repeat it per component, "
                  "`graphs` is one")
      ->type_name("COMPONENT=ROWS")
      ->allow_extra_args(false);
}

absl::StatusOr<v1::Limits> ParseLimits(const std::vector<std::string>& limits,
                                       const std::vector<std::string>& components) {
  v1::Limits parsed;
  for (const std::string& limit : limits) {
    const std::size_t equals = limit.find('=');
    const std::string component = limit.substr(0, equals);
    const char* const begin = limit.data() + std::min(equals, limit.size() - 1) + 1;
    const char* const end = limit.data() + limit.size();
    uint64_t rows = 0;
    const auto [stop, error] = std::from_chars(begin, end, rows);
    if (equals == std::string::npos || error != std::errc() || stop != end || rows == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--limit '", limit, "': must be COMPONENT=ROWS with a whole number of at least 1"));
    }
    if (component != "graphs" &&
        std::find(components.begin(), components.end(), component) == components.end()) {
      return absl::InvalidArgumentError(absl::StrCat("--limit '", limit, "': the components are ",
                                                     absl::StrJoin(components, ", "),
                                                     " and graphs"));
    }
    for (const v1::Capacity& capacity : parsed.capacities()) {
      if (capacity.component() == component) {
        return absl::InvalidArgumentError(
            absl::StrCat("--limit '", limit, "': '", component, "' has a limit already"));
      }
    }
    v1::Capacity* const capacity = parsed.add_capacities();
    capacity->set_component(component);
    capacity->set_rows(rows);
  }
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

std::string NameOfFile(const std::string& path) {
  absl::string_view name = path;
  if (const std::size_t slash = name.rfind('/'); slash != absl::string_view::npos) {
    name.remove_prefix(slash + 1);
  }
  return std::string(absl::StripSuffix(absl::StripSuffix(name, ".gz"), ".csv"));
}

}  // namespace packhouse::client
