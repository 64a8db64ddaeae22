#include "client/cpp/partition_client.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpcpp/client_context.h"

namespace packhouse::client {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(500);
constexpr uint64_t kPieceBytes = uint64_t{4} << 20;

template <typename Request>
Request Named(const std::string& graph, const std::string& name) {
  Request request;
  request.set_graph(graph);
  request.set_name(name);
  return request;
}

bool IsBelow(const std::string& path) {
  const std::filesystem::path parsed(path);
  if (path.empty() || parsed.is_absolute()) return false;
  for (const std::filesystem::path& part : parsed) {
    if (part == "..") return false;
  }
  return true;
}

}  // namespace

PartitionClient::PartitionClient(Servers servers, PartitionClientOptions options)
    : anywhere_(WithRetry(servers, options.retry, "PartitioningService", options.call_timeout)),
      at_home_(
          WithRetry(servers.current(), options.retry, "PartitioningService", options.call_timeout)),
      slowly_(WithRetry(servers, options.retry, "PartitioningService", options.long_timeout)) {}

absl::StatusOr<v1::PartitionJob> PartitionClient::Partition(
    const v1::PartitionRequest& request) const {
  return Call(anywhere_, &Stub::Partition, request);
}

absl::StatusOr<v1::PartitionJob> PartitionClient::Get(const std::string& graph,
                                                      const std::string& name) const {
  return Call(anywhere_, &Stub::GetPartition, Named<v1::GetPartitionRequest>(graph, name));
}

absl::StatusOr<std::vector<v1::PartitionJob>> PartitionClient::List(
    const std::string& graph) const {
  v1::ListPartitionsRequest request;
  request.set_graph(graph);
  auto response = Call(anywhere_, &Stub::ListPartitions, request);
  if (!response.ok()) return response.status();
  return std::vector<v1::PartitionJob>(
      std::make_move_iterator(response->mutable_partitions()->begin()),
      std::make_move_iterator(response->mutable_partitions()->end()));
}

absl::StatusOr<v1::PartitionJob> PartitionClient::Cancel(const std::string& graph,
                                                         const std::string& name) const {
  return Call(anywhere_, &Stub::CancelPartition, Named<v1::CancelPartitionRequest>(graph, name));
}

absl::Status PartitionClient::Delete(const std::string& graph, const std::string& name) const {
  return CallToDelete(at_home_, &Stub::DeletePartition,
                      Named<v1::DeletePartitionRequest>(graph, name));
}

absl::StatusOr<v1::PartitionJob> PartitionClient::Wait(
    const std::string& graph, const std::string& name,
    absl::FunctionRef<bool(const v1::PartitionJob&)> progress) const {
  for (;; absl::SleepFor(kPoll)) {
    absl::StatusOr<v1::PartitionJob> job = Get(graph, name);
    if (!job.ok()) return job.status();
    if (!progress(*job)) return absl::AbortedError("the wait for the partition was ended");
    if (job->state() == v1::PARTITION_STATE_DONE) return job;
    if (job->state() == v1::PARTITION_STATE_FAILED) {
      return absl::Status(static_cast<absl::StatusCode>(job->error_code()), job->error_message());
    }
    if (job->state() == v1::PARTITION_STATE_CANCELLED) {
      return absl::CancelledError(
          absl::StrCat("partition '", name, "' of '", graph, "' was cancelled"));
    }
  }
}

absl::StatusOr<v1::Dataset> PartitionClient::MakeDataset(
    const v1::PartitionDatasetRequest& request,
    absl::FunctionRef<void(const v1::PartitionDatasetResponse&)> progress) const {
  v1::PartitionDatasetResponse last;
  const absl::Status status = slowly_(
      [&](const auto& channel, grpc::ClientContext& context) {
        const auto responses = Stub(channel).PartitionDataset(&context, request);
        while (responses->Read(&last)) progress(last);
        return responses->Finish();
      },
      nullptr);
  if (!status.ok()) return status;
  if (!last.has_dataset()) {
    return absl::InternalError("the server did not say what it has made");
  }
  return last.dataset();
}

absl::Status PartitionClient::Download(
    const v1::PartitionJob& job, const std::string& folder,
    const std::function<absl::Status(const std::string& partial)>& finish) const {
  std::error_code error;
  if (std::filesystem::exists(folder, error)) {
    return absl::AlreadyExistsError(absl::StrCat(folder, " is there already"));
  }
  const std::string partial = folder + ".partial";
  std::filesystem::remove_all(partial, error);
  for (const v1::PartitionFile& file : job.files()) {
    if (!IsBelow(file.path())) {
      return absl::InternalError(
          absl::StrCat("the server has a file '", file.path(), "' outside the folder"));
    }
    const std::string path = absl::StrCat(partial, "/", file.path());
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
    if (error) return absl::UnavailableError(absl::StrCat(path, ": ", error.message()));
    absl::Status written = DownloadFile(job, file, path);
    if (!written.ok()) return written;
  }
  if (finish) {
    absl::Status finished = finish(partial);
    if (!finished.ok()) return finished;
  }
  std::filesystem::rename(partial, folder, error);
  if (error) return absl::UnavailableError(absl::StrCat(folder, ": ", error.message()));
  return absl::OkStatus();
}

absl::Status PartitionClient::DownloadFile(const v1::PartitionJob& job,
                                           const v1::PartitionFile& file,
                                           const std::string& path) const {
  std::ofstream output(path, std::ios::binary | std::ios::trunc);
  auto request = Named<v1::ReadPartitionFileRequest>(job.request().graph(), job.request().name());
  request.set_path(file.path());
  request.set_max_bytes(kPieceBytes);
  while (request.offset() < file.num_bytes()) {
    const auto piece = Call(anywhere_, &Stub::ReadPartitionFile, request);
    if (!piece.ok()) return piece.status();
    if (piece->data().empty() || piece->num_bytes() != file.num_bytes()) {
      return absl::DataLossError(absl::StrCat("'", file.path(), "' has ", piece->num_bytes(),
                                              " bytes now, and had ", file.num_bytes()));
    }
    output << piece->data();
    request.set_offset(request.offset() + piece->data().size());
  }
  output.close();
  if (!output) return absl::UnavailableError(absl::StrCat(path, ": cannot be written"));
  return absl::OkStatus();
}

}  // namespace packhouse::client
