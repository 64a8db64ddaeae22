#include "client/cli/commands/jobs_command.h"

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/confirm.h"
#include "client/cli/reports/job_report.h"
#include "client/cpp/job_client.h"
#include "service/command_line/table.h"

namespace packhouse::client {
namespace {

struct JobsArguments {
  std::string server;
  std::string job;
  bool json = false;
  bool yes = false;
};

ExitCode RunList(const JobsArguments& arguments, const JobClient& client) {
  const absl::StatusOr<std::vector<v1::Job>> jobs = client.List();
  if (!jobs.ok()) return Fail(jobs.status());
  if (!arguments.json) {
    std::cout << JobTable(*jobs);
    return kExitOk;
  }
  Json objects = Json::array();
  for (const v1::Job& job : *jobs) objects.push_back(JobJson(job));
  std::cout << JsonText(objects);
  return kExitOk;
}

ExitCode RunShow(const JobsArguments& arguments, const JobClient& client) {
  const absl::StatusOr<v1::Job> job = client.Get(arguments.job);
  if (!job.ok()) return Fail(job.status());
  std::cout << (arguments.json ? JsonText(JobJson(*job)) : JobText(*job));
  return kExitOk;
}

ExitCode RunDelete(const JobsArguments& arguments, const JobClient& client) {
  const std::optional<ExitCode> refusal =
      RefusalToDo(arguments.yes, [&]() -> absl::StatusOr<std::string> {
        const absl::StatusOr<v1::Job> job = client.Get(arguments.job);
        if (absl::IsNotFound(job.status())) return job.status();
        if (!job.ok()) return absl::StrCat("delete job '", arguments.job, "'");
        return absl::StrCat("delete job '", arguments.job, "' with ", Grouped(job->num_epochs()),
                            " epochs, which ", Grouped(job->num_sessions()), " streams load");
      });
  if (refusal.has_value()) return *refusal;
  if (absl::Status status = client.Delete(arguments.job); !status.ok()) return Fail(status);
  std::cout << arguments.job << ": deleted\n";
  return kExitOk;
}

// Adds one of the subcommands; those for one job take its name.
CLI::App* AddAction(CLI::App& command, const std::shared_ptr<JobsArguments>& arguments,
                    ExitCode& code, const std::string& name, const std::string& description,
                    ExitCode (*run)(const JobsArguments&, const JobClient&)) {
  CLI::App* const action = command.add_subcommand(name, description);
  AddServerOption(arguments->server, *action);
  action->get_option("--server")->required()->description("HOST:PORT or unix:PATH");
  action->callback([arguments, &code, run] {
    const absl::StatusOr<ServerConnection> connection = ConnectToServer(arguments->server);
    code = connection.ok() ? run(*arguments, JobClient(connection->servers))
                           : Fail(connection.status());
  });
  return action;
}

void AddName(const std::shared_ptr<JobsArguments>& arguments, CLI::App& action) {
  action.add_option("job", arguments->job, "The job")->required()->type_name("JOB");
}

void AddJson(const std::shared_ptr<JobsArguments>& arguments, CLI::App& action) {
  action.add_flag("--json", arguments->json, "Print JSON");
}

}  // namespace

void AddJobsCommand(CLI::App& app, ExitCode& code) {
  auto arguments = std::make_shared<JobsArguments>();
  CLI::App* const command =
      app.add_subcommand("jobs", "List, show or delete what a server keeps of jobs");
  command->require_subcommand(1);

  CLI::App* const list =
      AddAction(*command, arguments, code, "list", "All jobs that have epochs", RunList);
  AddJson(arguments, *list);

  CLI::App* const show = AddAction(*command, arguments, code, "show",
                                   "The epochs of a job, their progress and their loads", RunShow);
  AddName(arguments, *show);
  AddJson(arguments, *show);

  CLI::App* const remove =
      AddAction(*command, arguments, code, "delete",
                "Forget the epochs of a job and their progress. Its loads end", RunDelete);
  AddName(arguments, *remove);
  remove->add_flag("--yes", arguments->yes, "Do not ask; needed where stdin is no terminal");
}

}  // namespace packhouse::client
