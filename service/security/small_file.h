// Files that are read whole: certificates, tokens, policies.
#ifndef PACKHOUSE_SERVICE_SECURITY_SMALL_FILE_H_
#define PACKHOUSE_SERVICE_SECURITY_SMALL_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace packhouse::security {

inline constexpr size_t kMostFileBytes = size_t{4} << 20;

// The file's bytes. NOT_FOUND, PERMISSION_DENIED or UNAVAILABLE with the system's reason, or
// INVALID_ARGUMENT if there are more than kMostFileBytes; names the path.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

}  // namespace packhouse::security

#endif  // PACKHOUSE_SERVICE_SECURITY_SMALL_FILE_H_
