#include "client/cli/commands/batch_command.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/little_endian.h"
#include "client/cpp/receipt_client.h"
#include "service/command_line/json.h"
#include "service/command_line/table.h"

namespace packhouse::client {
namespace {

struct BatchArguments {
  std::string server;
  std::string job;
  uint64_t epoch = 0;
  std::vector<uint64_t> numbers;
  std::string save;
  bool json = false;
};

std::string TypeName(v1::DataType type) {
  const std::string& name = v1::DataType_Name(type);
  const std::string prefix = "DATA_TYPE_";
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

// With the type in which it travels, if that is narrower.
std::string TypeText(const v1::Tensor& tensor) {
  if (tensor.declared_dtype() == v1::DATA_TYPE_UNSPECIFIED) return TypeName(tensor.dtype());
  return absl::StrCat(TypeName(tensor.declared_dtype()), " as ", TypeName(tensor.dtype()));
}

// The graphs' ids, what they fill, and the tensors with their types and shapes.
std::string BatchText(const v1::LoadedBatch& loaded, const v1::LoadOpened& opened) {
  const v1::Batch& batch = loaded.batch();
  std::vector<std::string> components;
  for (const std::string& name : opened.schema().components()) components.push_back(name);
  components.emplace_back("graphs");
  std::vector<std::string> rows;
  for (int k = 0; k < batch.rows_size() && k < static_cast<int>(components.size()); ++k) {
    rows.push_back(absl::StrCat(components[static_cast<std::size_t>(k)], " ",
                                Grouped(batch.real_rows(k)), " of ", Grouped(batch.rows(k))));
  }
  const LittleEndianView<uint64_t> ids(batch.graph_ids());
  std::vector<uint64_t> listed;
  for (std::size_t i = 0; i < ids.size(); ++i) listed.push_back(ids[i]);
  std::string text = absl::StrCat("batch ", batch.id(), ": ", Grouped(ids.size()),
                                  " graphs; rows: ", absl::StrJoin(rows, ", "), "\ngraphs  ",
                                  absl::StrJoin(listed, " "), "\n");
  if (!loaded.drawn_smaller().empty()) {
    absl::StrAppend(&text, loaded.drawn_smaller_size(), " graphs were drawn smaller\n");
  }
  if (batch.tensors().empty()) return text;
  TextTable table({{"tensor", ""}, {"type", ""}, {"shape", ""}, {"bytes", ""}});
  for (const v1::Tensor& tensor : batch.tensors()) {
    table.AddRow({tensor.name(), TypeText(tensor), absl::StrJoin(tensor.shape(), " x "),
                  absl::StrCat(tensor.data().size())});
  }
  return absl::StrCat(text, table.Render());
}

Json BatchJson(const v1::LoadedBatch& loaded) {
  const v1::Batch& batch = loaded.batch();
  Json tensors = Json::array();
  for (const v1::Tensor& tensor : batch.tensors()) {
    tensors.push_back(
        {{"name", tensor.name()},
         {"dtype", TypeName(tensor.dtype())},
         {"shape", std::vector<uint64_t>(tensor.shape().begin(), tensor.shape().end())},
         {"bytes", tensor.data().size()}});
    if (tensor.declared_dtype() != v1::DATA_TYPE_UNSPECIFIED) {
      tensors.back()["declared_dtype"] = TypeName(tensor.declared_dtype());
    }
  }
  const LittleEndianView<uint64_t> ids(batch.graph_ids());
  Json graphs = Json::array();
  for (std::size_t i = 0; i < ids.size(); ++i) graphs.push_back(ids[i]);
  return {{"number", batch.id()},
          {"graph_ids", std::move(graphs)},
          {"real_rows", std::vector<uint64_t>(batch.real_rows().begin(), batch.real_rows().end())},
          {"rows", std::vector<uint64_t>(batch.rows().begin(), batch.rows().end())},
          {"shape", loaded.shape()},
          {"tensors", std::move(tensors)}};
}

absl::Status Save(const std::string& path, const v1::Batch& batch) {
  std::ofstream file(path, std::ios::binary);
  if (!batch.SerializeToOstream(&file) || !file.flush()) {
    return absl::UnavailableError(absl::StrCat(path, ": cannot be written"));
  }
  return absl::OkStatus();
}

ExitCode RunBatch(const BatchArguments& arguments) {
  const absl::StatusOr<ServerConnection> connection = ConnectToServer(arguments.server);
  if (!connection.ok()) return Fail(connection.status());
  v1::RebuildBatchesRequest request;
  request.set_job(arguments.job);
  request.set_epoch(arguments.epoch);
  for (const uint64_t number : arguments.numbers) request.add_numbers(number);
  if (!arguments.save.empty()) {
    std::error_code error;
    std::filesystem::create_directories(arguments.save, error);
    if (error) {
      return Fail(absl::FailedPreconditionError(
          absl::StrCat("--save ", arguments.save, ": ", error.message())));
    }
  }
  v1::LoadOpened opened;
  Json batches = Json::array();
  Json head;
  const absl::Status status =
      ReceiptClient(connection->servers)
          .RebuildBatches(request, [&](const v1::RebuildBatchesResponse& response) {
            if (response.has_opened()) {
              opened = response.opened();
              const v1::Epoch& epoch = opened.epoch();
              head = {{"job", arguments.job},
                      {"epoch", arguments.epoch},
                      {"dataset", epoch.dataset()},
                      {"dataset_version", epoch.dataset_version()},
                      {"receipt", epoch.receipt()}};
              if (response.has_words_of_epoch()) {
                head["words_of_epoch"] = response.words_of_epoch();
              }
              if (arguments.json) return absl::OkStatus();
              std::cout << "epoch " << arguments.epoch << " of job " << arguments.job << ", of "
                        << epoch.dataset() << ", plan " << epoch.receipt() << "\n";
              if (response.has_words_of_epoch()) {
                std::cout
                    << "the server does not remember this epoch; made with the words of epoch "
                    << response.words_of_epoch() << "\n";
              }
              return absl::OkStatus();
            }
            const v1::LoadedBatch& loaded = response.batch();
            if (arguments.json) {
              batches.push_back(BatchJson(loaded));
            } else {
              std::cout << "\n" << BatchText(loaded, opened) << std::flush;
            }
            if (arguments.save.empty()) return absl::OkStatus();
            return Save(absl::StrCat(arguments.save, "/batch-", loaded.batch().id(), ".pb"),
                        loaded.batch());
          });
  if (!status.ok()) return Fail(status);
  if (arguments.json) {
    head["batches"] = std::move(batches);
    std::cout << JsonText(head);
  }
  return kExitOk;
}

}  // namespace

void AddBatchCommand(CLI::App& app, ExitCode& code) {
  auto arguments = std::make_shared<BatchArguments>();
  CLI::App* const command = app.add_subcommand(
      "batch", "Make batches of an epoch again, with the bytes that its trainer got");
  command->add_option("--job", arguments->job, "The job")->required()->type_name("JOB");
  command->add_option("--epoch", arguments->epoch, "The epoch's number")
      ->required()
      ->type_name("N");
  command
      ->add_option("--number", arguments->numbers,
                   "The batch's number in the epoch (Batch.id); may be repeated")
      ->required()
      ->type_name("N");
  command
      ->add_option(
          "--save", arguments->save,
          "Write each batch to FOLDER/batch-NUMBER.pb (a serialized packhouse.v1.Batch); the "
          "folder is made if it is not there")
      ->type_name("FOLDER");
  command->add_flag("--json", arguments->json, "Print JSON, without the tensors' data");
  AddServerOption(arguments->server, *command);
  command->get_option("--server")->required()->description("HOST:PORT or unix:PATH");
  command->callback([arguments, &code] { code = RunBatch(*arguments); });
}

}  // namespace packhouse::client
