#include "client/cli/source_graphs/stored_graphs_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/confirm.h"
#include "client/cli/device_arguments.h"
#include "client/cli/source_graphs/source_graph_report.h"
#include "client/cpp/source_graph_client.h"

namespace packhouse::client {
namespace {

struct StoredGraphsArguments {
  std::string server;
  std::string name;
  std::string duplicates = "refuse";
  bool json = false;
  bool yes = false;
};

// On a terminal, one line on stderr that is written again.
class StoredGraphDisplay {
 public:
  StoredGraphDisplay() : on_terminal_(isatty(STDERR_FILENO) != 0) {}
  StoredGraphDisplay(const StoredGraphDisplay&) = delete;
  StoredGraphDisplay& operator=(const StoredGraphDisplay&) = delete;
  ~StoredGraphDisplay() { Show(""); }

  void Show(const std::string& line) const {
    if (on_terminal_) std::cerr << "\r\x1b[K" << line << std::flush;
  }

 private:
  const bool on_terminal_;
};

ExitCode RunGraphList(const StoredGraphsArguments& arguments, const SourceGraphClient& client) {
  const absl::StatusOr<std::vector<v1::SourceGraph>> graphs = client.List();
  if (!graphs.ok()) return Fail(graphs.status());
  if (!arguments.json) {
    std::cout << SourceGraphTable(*graphs);
    return kExitOk;
  }
  Json objects = Json::array();
  for (const v1::SourceGraph& graph : *graphs) objects.push_back(SourceGraphJson(graph));
  std::cout << JsonText(objects);
  return kExitOk;
}

ExitCode RunGraphShow(const StoredGraphsArguments& arguments, const SourceGraphClient& client) {
  const absl::StatusOr<v1::SourceGraph> graph = client.Get(arguments.name);
  if (!graph.ok()) return Fail(graph.status());
  std::cout << (arguments.json ? JsonText(SourceGraphJson(*graph)) : SourceGraphText(*graph));
  return kExitOk;
}

ExitCode RunGraphSeal(const StoredGraphsArguments& arguments, const SourceGraphClient& client) {
  v1::SealSourceGraphRequest request;
  request.set_name(arguments.name);
  request.set_duplicates(arguments.duplicates == "first"  ? v1::DUPLICATE_NODES_FIRST
                         : arguments.duplicates == "last" ? v1::DUPLICATE_NODES_LAST
                                                          : v1::DUPLICATE_NODES_REFUSE);
  absl::StatusOr<v1::SourceGraph> graph;
  {
    const StoredGraphDisplay display;
    graph = client.Seal(request, [&](uint64_t done, uint64_t total) {
      if (total == 0) return;
      const double share = static_cast<double>(done) / static_cast<double>(total);
      display.Show(absl::StrFormat("sealing, %.0f %%", 100 * share));
    });
  }
  if (!graph.ok()) return Fail(graph.status());
  std::cout << (arguments.json ? JsonText(SourceGraphJson(*graph)) : SourceGraphLine(*graph));
  return kExitOk;
}

ExitCode RunGraphDelete(const StoredGraphsArguments& arguments, const SourceGraphClient& client) {
  const std::optional<ExitCode> refusal =
      RefusalToDo(arguments.yes, [&]() -> absl::StatusOr<std::string> {
        const absl::StatusOr<v1::SourceGraph> graph = client.Get(arguments.name);
        if (absl::IsNotFound(graph.status())) return graph.status();
        // A damaged graph can be deleted, although only its name is known.
        if (!graph.ok()) return absl::StrCat("delete source graph '", arguments.name, "'");
        return absl::StrCat("delete source graph '", arguments.name, "' with ",
                            SourceGraphSizeText(*graph));
      });
  if (refusal.has_value()) return *refusal;
  if (absl::Status status = client.Delete(arguments.name); !status.ok()) return Fail(status);
  std::cout << arguments.name << ": deleted\n";
  return kExitOk;
}

ExitCode RunGraphVerify(const StoredGraphsArguments& arguments, const SourceGraphClient& client) {
  absl::StatusOr<v1::VerifySourceGraphResponse> result;
  {
    const StoredGraphDisplay display;
    result = client.Verify(arguments.name, [&](uint64_t done, uint64_t total) {
      display.Show(absl::StrCat(BytesText(done), " of ", BytesText(total)));
    });
  }
  if (!result.ok()) return Fail(result.status());
  std::cout << (arguments.json ? JsonText(SourceGraphVerifyJson(arguments.name, *result))
                               : SourceGraphVerifyText(arguments.name, *result));
  return result->num_damaged() == 0 ? kExitOk : kExitFailure;
}

CLI::App* AddGraphAction(CLI::App& graph, const std::shared_ptr<StoredGraphsArguments>& arguments,
                         ExitCode& code, const std::string& name, const std::string& description,
                         ExitCode (*run)(const StoredGraphsArguments&, const SourceGraphClient&)) {
  CLI::App* const action = graph.add_subcommand(name, description);
  AddServerOption(arguments->server, *action);
  action->get_option("--server")->required()->description("HOST:PORT or unix:PATH");
  action->callback([arguments, &code, run] {
    const absl::StatusOr<ServerConnection> connection = ConnectToServer(arguments->server);
    // A server that goes away is an error; the command does not wait until it is back.
    SourceGraphClientOptions options;
    options.retry.patience = absl::ZeroDuration();
    code = connection.ok() ? run(*arguments, SourceGraphClient(connection->channel, options))
                           : Fail(connection.status());
  });
  return action;
}

void AddGraphName(const std::shared_ptr<StoredGraphsArguments>& arguments, CLI::App& action) {
  action.add_option("name", arguments->name, "The source graph")->required()->type_name("NAME");
}

void AddGraphJson(const std::shared_ptr<StoredGraphsArguments>& arguments, CLI::App& action) {
  action.add_flag("--json", arguments->json, "Print JSON");
}

}  // namespace

void AddStoredGraphsCommands(CLI::App& graph, ExitCode& code) {
  auto arguments = std::make_shared<StoredGraphsArguments>();

  CLI::App* const list =
      AddGraphAction(graph, arguments, code, "list", "All source graphs of a server", RunGraphList);
  AddGraphJson(arguments, *list);

  CLI::App* const show = AddGraphAction(graph, arguments, code, "show",
                                        "Sets, columns, bounds and sizes of a graph", RunGraphShow);
  AddGraphName(arguments, *show);
  AddGraphJson(arguments, *show);

  CLI::App* const seal = AddGraphAction(
      graph, arguments, code, "seal",
      "Take no more rows, and build what is sampled from. If this command is interrupted, the "
      "server goes on; the same command joins it",
      RunGraphSeal);
  AddGraphName(arguments, *seal);
  seal->add_option("--duplicates", arguments->duplicates,
                   "What becomes of a node that is there twice with different rows")
      ->check(CLI::IsMember({"refuse", "first", "last"}))
      ->capture_default_str();
  AddGraphJson(arguments, *seal);

  CLI::App* const remove = AddGraphAction(graph, arguments, code, "delete",
                                          "Delete a graph and all its rows", RunGraphDelete);
  AddGraphName(arguments, *remove);
  remove->add_flag("--yes", arguments->yes, "Do not ask; needed where stdin is no terminal");

  CLI::App* const verify = AddGraphAction(
      graph, arguments, code, "verify",
      "Read all of a graph: checksums, and the ends of its edges; exit status 1 if it is damaged",
      RunGraphVerify);
  verify->alias("fsck");
  AddGraphName(arguments, *verify);
  AddGraphJson(arguments, *verify);
}

}  // namespace packhouse::client
