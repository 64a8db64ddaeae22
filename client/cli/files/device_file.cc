#include "client/cli/files/device_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/util/json_util.h"

namespace packhouse::client {

absl::StatusOr<v1::DeviceProfile> ReadDeviceFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file) {
    const int error = errno;
    const std::string what = absl::StrCat(path, ": cannot read: ", std::strerror(error));
    return error == ENOENT ? absl::NotFoundError(what) : absl::UnavailableError(what);
  }
  v1::DeviceProfile device;
  const auto parsed = google::protobuf::util::JsonStringToMessage(text.str(), &device);
  if (!parsed.ok()) {
    const auto message = parsed.message();
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": no device profile: ", absl::string_view(message.data(), message.size())));
  }
  return device;
}

}  // namespace packhouse::client
