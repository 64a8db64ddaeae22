#include "client/cli/files/device_file.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/graph/files/input_file.h"
#include "google/protobuf/util/json_util.h"

namespace packhouse::client {

absl::StatusOr<v1::DeviceProfile> ReadDeviceFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadInputFile(path);
  if (!text.ok()) return text.status();
  v1::DeviceProfile device;
  const auto parsed = google::protobuf::util::JsonStringToMessage(*text, &device);
  if (!parsed.ok()) {
    const auto message = parsed.message();
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": no device profile: ", absl::string_view(message.data(), message.size())));
  }
  return device;
}

}  // namespace packhouse::client
