#include "service/program/wing.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/command_line/command_line.h"
#include "service/base/status_macros.h"

namespace packhouse {

std::string AbsentWing::WhyNot() const {
  return absl::StrCat("this packhoused was built without the wing ", name);
}

std::vector<std::shared_ptr<Wing>> MakeWings() {
  std::vector<std::shared_ptr<Wing>> wings;
  for (const BuiltWing& wing : WingsOfProgram().built) {
    if (wing.make != nullptr) wings.push_back(wing.make());
  }
  return wings;
}

void AddAbsentFlags(CLI::App& app) {
  for (const AbsentWing& wing : WingsOfProgram().absent) {
    for (const absl::string_view flag : wing.flags) app.add_option(std::string(flag))->group("");
  }
}

absl::Status RefuseAbsentFlags(absl::Span<const std::string> arguments) {
  for (const std::string& each : arguments) {
    for (const AbsentWing& wing : WingsOfProgram().absent) {
      for (const absl::string_view flag : wing.flags) {
        if (each.substr(0, each.find('=')) != flag) continue;
        return absl::InvalidArgumentError(absl::StrCat(flag, ": ", wing.WhyNot()));
      }
    }
  }
  return absl::OkStatus();
}

const AbsentWing* AbsentWingOfStore(absl::string_view uri) {
  for (const AbsentWing& wing : WingsOfProgram().absent) {
    for (const absl::string_view begin : wing.stores) {
      if (absl::StartsWith(uri, begin)) return &wing;
    }
  }
  return nullptr;
}

namespace {

// The wing that is absent and would have `name` among its `names`; empty if none is.
std::string WhyNo(std::vector<absl::string_view> AbsentWing::*names, absl::string_view name) {
  for (const AbsentWing& wing : WingsOfProgram().absent) {
    if (absl::c_linear_search(wing.*names, name)) return wing.WhyNot();
  }
  return "";
}

absl::Status CheckIsFolder(const std::string& store) {
  if (!absl::StrContains(store, "://")) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(store, " is no folder"));
}
// The address of a store that no built wing knows.
absl::Status CheckIsHere(const std::string& store) {
  const AbsentWing* const absent = AbsentWingOfStore(store);
  if (absent == nullptr) return CheckIsFolder(store);
  return absl::UnimplementedError(absl::StrCat(store, ": ", absent->WhyNot()));
}

std::string WhyNoGraphs() { return WhyNo(&AbsentWing::folders, "source_graphs"); }

}  // namespace

OpenedGraphs OpenedGraphsOf(const std::vector<std::shared_ptr<Wing>>& wings) {
  for (const auto& wing : wings) {
    if (auto graphs = wing->opened_graphs()) return *std::move(graphs);
  }
  return {.why_not = WhyNoGraphs()};
}

CommandParts PartsOfCommands() {
  CommandParts parts;
  CompanionChecks companions;
  parts.graphs.why_not = WhyNoGraphs();
  for (const BuiltWing& wing : WingsOfProgram().built) {
    if (wing.companions.check != nullptr) companions = wing.companions;
  }
  for (const BuiltWing& wing : WingsOfProgram().built) {
    if (wing.graphs != nullptr) parts.graphs = wing.graphs(companions);
  }
  parts.add_to_check = [](CLI::App& check) -> SharedCheck {
    for (const BuiltWing& wing : WingsOfProgram().built) {
      if (wing.add_to_check != nullptr) return wing.add_to_check(check);
    }
    return [](const std::string& store, DamageVisitor /*found*/, StoredCounts& /*counts*/) {
      return CheckIsHere(store);
    };
  };
  parts.add_to_repair = [](CLI::App& repair) -> SharedRepair {
    for (const BuiltWing& wing : WingsOfProgram().built) {
      if (wing.add_to_repair != nullptr) return wing.add_to_repair(repair);
    }
    return [](const std::string& store, const RepairOptions& /*options*/,
              RepairReport& /*report*/) { return CheckIsHere(store); };
  };
  const auto snapshots = [](SharedSnapshot (*BuiltWing::*add)(CLI::App & command)) {
    return [add](CLI::App& command) -> SharedSnapshot {
      for (const BuiltWing& wing : WingsOfProgram().built) {
        if (wing.*add != nullptr) return (wing.*add)(command);
      }
      return [](const std::string& store, const std::string& /*snapshot*/,
                SnapshotProgress /*progress*/) -> absl::StatusOr<std::optional<SnapshotReport>> {
        PH_RETURN_IF_ERROR(CheckIsHere(store));
        return std::nullopt;
      };
    };
  };
  parts.add_to_snapshot = snapshots(&BuiltWing::add_to_snapshot);
  parts.add_to_restore = snapshots(&BuiltWing::add_to_restore);
  parts.add_to_store = [](CLI::App& store, ExitCode& code) {
    for (const BuiltWing& wing : WingsOfProgram().built) {
      if (wing.add_to_store != nullptr) wing.add_to_store(store, code);
    }
    for (const AbsentWing& wing : WingsOfProgram().absent) {
      for (const absl::string_view name : wing.commands) {
        CLI::App* const command = store.add_subcommand(std::string(name))->group("");
        command->allow_extras();
        command->callback([&code, name, why_not = wing.WhyNot()] {
          code = Misuse(absl::UnimplementedError(absl::StrCat("store ", name, ": ", why_not)));
        });
      }
    }
  };
  return parts;
}

std::vector<rpc::AbsentServices> AbsentServicesOfWings() {
  std::vector<rpc::AbsentServices> absent;
  for (const AbsentWing& wing : WingsOfProgram().absent) {
    if (wing.services.empty()) continue;
    absent.push_back({{wing.services.begin(), wing.services.end()}, wing.WhyNot()});
  }
  return absent;
}

std::vector<std::pair<std::string, std::string>> AbsentKindsOfWings() {
  std::vector<std::pair<std::string, std::string>> absent;
  for (const AbsentWing& wing : WingsOfProgram().absent) {
    for (const absl::string_view item : wing.items) absent.emplace_back(item, wing.WhyNot());
  }
  return absent;
}

std::string WhyNoExamples() { return WhyNo(&AbsentWing::formats, "examples"); }

std::vector<http::Route> RoutesOfAbsentWings() {
  std::vector<http::Route> routes;
  for (const AbsentWing& wing : WingsOfProgram().absent) {
    for (const absl::string_view path : wing.paths) {
      http::Route& route = routes.emplace_back();
      route.path = std::string(path);
      route.render = [why_not = absl::StrCat(wing.WhyNot(), "\n")] {
        http::Page page;
        page.status = 404;
        page.body = why_not;
        return page;
      };
      route.is_free = true;
    }
  }
  return routes;
}

}  // namespace packhouse
