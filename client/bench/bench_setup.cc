#include "client/bench/bench_setup.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/bench/bench_ceiling.h"
#include "client/bench/bench_window.h"
#include "client/cpp/dataset_appender.h"
#include "client/cpp/dataset_client.h"
#include "client/graph/local_server.h"
#include "service/base/status_macros.h"

namespace packhouse::client {
namespace {

// Bytes of the data set if a run lasts a second; fewer if it is shorter.
constexpr double kDatasetBytes = 256 << 20;
// Of the chunks in which it is stored.
constexpr uint64_t kStoredChunkBytes = uint64_t{1} << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<BenchSetup>> BenchSetup::Create(const BenchSettings& settings) {
  std::unique_ptr<BenchSetup> setup(new BenchSetup(settings));
  setup->server_program_ = settings.packhoused;
  if (setup->server_program_.empty()) {
    absl::StatusOr<std::string> found = FindServerProgram();
    if (!found.ok()) return found.status();
    setup->server_program_ = *std::move(found);
  }
  absl::StatusOr<BenchGraphs> graphs = ReadBenchGraphs(settings.data);
  if (!graphs.ok()) return graphs.status();
  setup->graphs_ = *std::move(graphs);
  const char* const base = std::getenv("TMPDIR");
  std::string pattern = absl::StrCat(base != nullptr ? base : "/tmp", "/packhouse-bench-XXXXXX");
  if (mkdtemp(pattern.data()) == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot create ", pattern, ": ", std::strerror(errno)));
  }
  setup->folder_ = pattern;
  if (absl::Status status = setup->FillDataset(); !status.ok()) return status;
  return setup;
}

BenchSetup::~BenchSetup() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

absl::StatusOr<std::unique_ptr<BenchServer>> BenchSetup::StartPackhoused(
    std::size_t num_channels) const {
  std::vector<std::string> command = {server_program_,
                                      "--listen",
                                      "127.0.0.1:0",
                                      "--http-listen",
                                      "",
                                      "--data-dir",
                                      folder_,
                                      "--log-level",
                                      "error",
                                      "--lane",
                                      absl::StrCat("unix:", folder_, "/lane")};
  if (!settings_.congestion.empty()) {
    command.insert(command.end(), {"--tcp-congestion", settings_.congestion});
  }
  return BenchServer::Start(std::move(command), num_channels, settings_.congestion);
}

absl::StatusOr<std::unique_ptr<BenchServer>> BenchSetup::StartCeiling(
    std::size_t num_channels) const {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return absl::UnavailableError("cannot find this program");
  return BenchServer::Start(
      {self.string(), kCeilingCommand, "--tcp-congestion", settings_.congestion}, num_channels,
      settings_.congestion);
}

absl::Status BenchSetup::AddRun(Runs& runs,
                                absl::FunctionRef<absl::StatusOr<RunSample>()> run) const {
  absl::StatusOr<RunSample> sample =
      RunQuietly(settings_.max_others, settings_.patience / settings_.runs, run);
  if (!sample.ok()) return sample.status();
  runs.push_back(*std::move(sample));
  return absl::OkStatus();
}

absl::Status BenchSetup::FillDataset() {
  const absl::StatusOr<std::unique_ptr<BenchServer>> server = StartPackhoused(1);
  if (!server.ok()) return server.status();
  const double wanted = kDatasetBytes * std::min(1.0, absl::ToDoubleSeconds(settings_.seconds));
  const int copies =
      std::max(1, static_cast<int>(std::lround(wanted / static_cast<double>(graphs_.num_bytes))));
  const DatasetClient client((*server)->channel(0));
  v1::CreateDatasetRequest request;
  request.set_name(kDataset);
  *request.mutable_schema() = graphs_.schema;
  PH_RETURN_IF_ERROR(client.Create(request).status());
  DatasetAppenderOptions options;
  options.dataset = kDataset;
  options.producer = "bench";
  DatasetAppender appender((*server)->channel(0), options);
  uint64_t sequence = 0;
  for (int copy = 0; copy < copies; ++copy) {
    PH_ASSIGN_OR_RETURN(const std::unique_ptr<GraphSource> source, OpenBenchGraphs(settings_.data));
    for (uint64_t begin = 0; begin < source->num_graphs();) {
      const uint64_t end = EndOfChunk(*source, begin, kStoredChunkBytes);
      PH_ASSIGN_OR_RETURN(SourceChunk chunk, source->Next(end - begin));
      PH_RETURN_IF_ERROR(appender.Append(++sequence, std::move(chunk.graphs)));
      begin = end;
    }
  }
  PH_RETURN_IF_ERROR(appender.Finish());
  PH_ASSIGN_OR_RETURN(const v1::Dataset sealed, client.Seal(kDataset));
  dataset_graphs_ = sealed.num_graphs();
  return absl::OkStatus();
}

}  // namespace packhouse::client
