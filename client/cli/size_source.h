// Where the sizes of graphs come from: a file, or what a server keeps.
#ifndef PACKHOUSE_CLIENT_CLI_SIZE_SOURCE_H_
#define PACKHOUSE_CLIENT_CLI_SIZE_SOURCE_H_

#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/graph/files/sizes_file.h"
#include "grpcpp/channel.h"
#include "packhouse/v1/histogram.pb.h"

namespace packhouse::client {

// The one that is not empty.
struct SizeSource {
  std::string file;
  std::string dataset;
  std::string histogram;
};

// Adds `--sizes FILE`, `--dataset NAME` and `--histogram NAME` to a subcommand; none is required.
void AddSizeSourceOptions(SizeSource& source, CLI::App& command);

// INVALID_ARGUMENT unless there is one source, and a server if it has the sizes.
absl::Status CheckSizeSource(const SizeSource& source, const std::string& server);

// What messages call it: `molhiv_train`, `data set molhiv` or `histogram sizes`.
std::string NameOfSizes(const SizeSource& source);

// Requires that CheckSizeSource() has passed. Errors of ReadSizesFile(), of the connection and of
// the server: NOT_FOUND if it has nothing of this name.
absl::StatusOr<GraphSizes> ReadSizes(const SizeSource& source, const std::string& server);

// Sizes that a server keeps: those of `dataset`, or if it is empty of the histogram.
absl::StatusOr<v1::Histogram> StoredSizes(const std::shared_ptr<grpc::Channel>& channel,
                                          const std::string& dataset, const std::string& histogram);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_SIZE_SOURCE_H_
