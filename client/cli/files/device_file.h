// Files that describe a device: `packhouse pack --device FILE`.
#ifndef PACKHOUSE_CLIENT_CLI_FILES_DEVICE_FILE_H_
#define PACKHOUSE_CLIENT_CLI_FILES_DEVICE_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "packhouse/v1/planning.pb.h"

namespace packhouse::client {

// Reads JSON with the fields of a packhouse.v1.DeviceProfile, by their names in the .proto file.
// What the values mean together is left to the server.
//
// Errors: NOT_FOUND if there is no such file, UNAVAILABLE if it cannot be read; INVALID_ARGUMENT,
// naming the file, if it has something else, an unknown field for example.
absl::StatusOr<v1::DeviceProfile> ReadDeviceFile(const std::string& path);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_FILES_DEVICE_FILE_H_
