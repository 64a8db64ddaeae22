#include "client/cli/commands/feedback_command.h"

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/confirm.h"
#include "client/cpp/feedback_client.h"
#include "service/command_line/json.h"
#include "service/command_line/table.h"

namespace packhouse::client {
namespace {

struct FeedbackArguments {
  std::string server;
  std::string model;
  bool json = false;
  bool yes = false;
};

// "MODEL/DEVICE" at the last slash.
struct ModelName {
  std::string model;
  std::string device;
};

std::optional<ModelName> NameOf(const std::string& text) {
  const std::size_t slash = text.rfind('/');
  if (slash == std::string::npos) return std::nullopt;
  return ModelName{text.substr(0, slash), text.substr(slash + 1)};
}

ExitCode Misnamed(const std::string& text) {
  return Misuse(absl::InvalidArgumentError(absl::StrCat("'", text, "' is not MODEL/DEVICE")));
}

std::string LimitsText(const v1::Limits& capacities) {
  return absl::StrJoin(capacities.capacities(), ", ",
                       [](std::string* out, const v1::Capacity& capacity) {
                         absl::StrAppend(out, capacity.component(), " ", Grouped(capacity.rows()));
                       });
}

Json ModelJson(const v1::DeviceModel& model) {
  Json components = Json::array();
  for (const v1::DeviceModel::Component& component : model.components()) {
    components.push_back({{"component", component.component()},
                          {"seconds_per_row", component.seconds_per_row()},
                          {"bytes_per_row", component.bytes_per_row()}});
  }
  Json shapes = Json::array();
  for (const v1::DeviceModel::Shape& shape : model.shapes()) {
    Json capacities = Json::object();
    for (const v1::Capacity& capacity : shape.capacities().capacities()) {
      capacities[capacity.component()] = capacity.rows();
    }
    shapes.push_back({{"capacities", capacities},
                      {"num_batches", shape.num_batches()},
                      {"seconds", shape.seconds()},
                      {"expected_seconds", shape.expected_seconds()},
                      {"peak_bytes", shape.peak_bytes()},
                      {"num_out_of_memory", shape.num_out_of_memory()}});
  }
  return {{"model", model.model()},
          {"device", model.device()},
          {"num_reports", model.num_reports()},
          {"num_out_of_memory", model.num_out_of_memory()},
          {"last_report_seconds", model.last_report().seconds()},
          {"fixed_seconds", model.fixed_seconds()},
          {"least_seconds", model.least_seconds()},
          {"spread", model.spread()},
          {"fixed_bytes", model.fixed_bytes()},
          {"most_bytes", model.most_bytes()},
          {"components", components},
          {"shapes", shapes}};
}

std::string ModelText(const v1::DeviceModel& model) {
  std::string text = absl::StrFormat("%s/%s: %s reports, %s batches out of memory\n\n",
                                     model.model(), model.device(), Grouped(model.num_reports()),
                                     Grouped(model.num_out_of_memory()));
  absl::StrAppend(&text, absl::StrFormat("each batch: %.4g s and %.0f bytes\n",
                                         model.fixed_seconds(), model.fixed_bytes()));
  for (const v1::DeviceModel::Component& component : model.components()) {
    absl::StrAppend(
        &text, absl::StrFormat("each row of %s: %.4g s and %.1f bytes\n", component.component(),
                               component.seconds_per_row(), component.bytes_per_row()));
  }
  if (model.least_seconds() > 0) {
    absl::StrAppend(&text, absl::StrFormat("at least %.4g s\n", model.least_seconds()));
  }
  if (model.most_bytes() > 0) {
    absl::StrAppend(&text, "no more than ", Grouped(model.most_bytes()),
                    " bytes, since batches did not fit\n");
  }
  absl::StrAppend(
      &text, absl::StrFormat("half of the shapes are within %.2g %% of the expected seconds\n\n",
                             100 * model.spread()));
  for (const v1::DeviceModel::Shape& shape : model.shapes()) {
    absl::StrAppend(&text, LimitsText(shape.capacities()), ": ");
    if (shape.num_out_of_memory() > 0) {
      absl::StrAppend(&text, Grouped(shape.num_out_of_memory()), " out of memory\n");
      continue;
    }
    absl::StrAppend(&text, Grouped(shape.num_batches()),
                    absl::StrFormat(" batches, %.4g s (expected %.4g), %s bytes\n", shape.seconds(),
                                    shape.expected_seconds(), Grouped(shape.peak_bytes())));
  }
  return text;
}

ExitCode RunList(const FeedbackArguments& arguments, const FeedbackClient& client) {
  const absl::StatusOr<std::vector<v1::DeviceModel>> models = client.List();
  if (!models.ok()) return Fail(models.status());
  Json objects = Json::array();
  for (const v1::DeviceModel& model : *models) {
    if (arguments.json) {
      objects.push_back(ModelJson(model));
      continue;
    }
    std::cout << absl::StrFormat("%s/%s: %s reports, %s batches out of memory, %.4g s a batch",
                                 model.model(), model.device(), Grouped(model.num_reports()),
                                 Grouped(model.num_out_of_memory()), model.fixed_seconds());
    for (const v1::DeviceModel::Component& component : model.components()) {
      std::cout << absl::StrFormat(", %.3g s a row of %s", component.seconds_per_row(),
                                   component.component());
    }
    std::cout << "\n";
  }
  if (arguments.json) std::cout << JsonText(objects);
  return kExitOk;
}

ExitCode RunShow(const FeedbackArguments& arguments, const FeedbackClient& client) {
  const std::optional<ModelName> name = NameOf(arguments.model);
  if (!name.has_value()) return Misnamed(arguments.model);
  const absl::StatusOr<v1::DeviceModel> model = client.Get(name->model, name->device);
  if (!model.ok()) return Fail(model.status());
  std::cout << (arguments.json ? JsonText(ModelJson(*model)) : ModelText(*model));
  return kExitOk;
}

ExitCode RunDelete(const FeedbackArguments& arguments, const FeedbackClient& client) {
  const std::optional<ModelName> name = NameOf(arguments.model);
  if (!name.has_value()) return Misnamed(arguments.model);
  const std::optional<ExitCode> refusal =
      RefusalToDo(arguments.yes, [&]() -> absl::StatusOr<std::string> {
        const absl::StatusOr<v1::DeviceModel> model = client.Get(name->model, name->device);
        if (!model.ok()) return model.status();
        return absl::StrCat("forget ", Grouped(model->num_reports()), " reports of '",
                            arguments.model, "'");
      });
  if (refusal.has_value()) return *refusal;
  if (absl::Status status = client.Delete(name->model, name->device); !status.ok()) {
    return Fail(status);
  }
  std::cout << arguments.model << ": deleted\n";
  return kExitOk;
}

CLI::App* AddFeedbackAction(CLI::App& command, const std::shared_ptr<FeedbackArguments>& arguments,
                            ExitCode& code, const std::string& name, const std::string& description,
                            ExitCode (*run)(const FeedbackArguments&, const FeedbackClient&)) {
  CLI::App* const action = command.add_subcommand(name, description);
  AddServerOption(arguments->server, *action);
  action->get_option("--server")->required()->description("HOST:PORT or unix:PATH");
  action->callback([arguments, &code, run] {
    const absl::StatusOr<ServerConnection> connection = ConnectToServer(arguments->server);
    code = connection.ok() ? run(*arguments, FeedbackClient(connection->channel))
                           : Fail(connection.status());
  });
  return action;
}

}  // namespace

void AddFeedbackCommand(CLI::App& app, ExitCode& code) {
  auto arguments = std::make_shared<FeedbackArguments>();
  CLI::App* const command = app.add_subcommand(
      "feedback", "List, show or delete what batches cost on devices, as trainers measured it");
  command->require_subcommand(1);
  const auto add_name = [&arguments](CLI::App& action) {
    action.add_option("model", arguments->model, "The model and the device")
        ->required()
        ->type_name("MODEL/DEVICE");
  };

  CLI::App* const list =
      AddFeedbackAction(*command, arguments, code, "list", "All models and devices", RunList);
  list->add_flag("--json", arguments->json, "Print JSON");

  CLI::App* const show =
      AddFeedbackAction(*command, arguments, code, "show",
                        "What a batch and a row cost, and the shapes that were seen", RunShow);
  add_name(*show);
  show->add_flag("--json", arguments->json, "Print JSON");

  CLI::App* const remove =
      AddFeedbackAction(*command, arguments, code, "delete", "Forget what was measured", RunDelete);
  add_name(*remove);
  remove->add_flag("--yes", arguments->yes, "Do not ask; needed where stdin is no terminal");
}

}  // namespace packhouse::client
