// The options that describe a device: `--max nodes=512 --bytes-per nodes=400 --memory 16GiB`, ...
#ifndef PACKHOUSE_CLIENT_CLI_DEVICE_ARGUMENTS_H_
#define PACKHOUSE_CLIENT_CLI_DEVICE_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/graph/byte_words.h"
#include "packhouse/v1/planning.pb.h"

namespace packhouse::client {

// The values as they stand on the command line.
struct DeviceArguments {
  std::vector<std::string> max = {};
  std::vector<std::string> min = {};
  std::vector<std::string> multiple_of = {};
  std::vector<std::string> cost = {};
  double fixed_cost = 0;
  std::vector<std::string> bytes_per = {};
  std::string memory = {};
  std::string fixed_bytes = {};
  uint32_t shapes = 1;
};

void AddDeviceOptions(DeviceArguments& arguments, CLI::App& command);

// The profile. Its components are in the order of `components`, then `graphs`, without those that
// have no `--max`.
//
// Errors: INVALID_ARGUMENT naming option and value if a value is malformed, or if it is for a
// component without `--max`. Other checks are left to the server.
absl::StatusOr<v1::DeviceProfile> ParseDevice(const DeviceArguments& arguments,
                                              const std::vector<std::string>& components);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_DEVICE_ARGUMENTS_H_
