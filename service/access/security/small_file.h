// Files that are read whole: certificates, tokens, policies.
#ifndef PACKHOUSE_SERVICE_ACCESS_SECURITY_SMALL_FILE_H_
#define PACKHOUSE_SERVICE_ACCESS_SECURITY_SMALL_FILE_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse::security {

inline constexpr size_t kMostFileBytes = size_t{4} << 20;

// The file's bytes, without a byte order mark of UTF-8. NOT_FOUND, PERMISSION_DENIED or UNAVAILABLE
// with the system's reason, or INVALID_ARGUMENT if there are more than kMostFileBytes; names the
// path.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

// INVALID_ARGUMENT, naming the line, if the text of a file is not UTF-8, such as Latin-1 or UTF-16.
absl::Status CheckUtf8(absl::string_view text);

// Tells when a file that somebody may just be writing in place has come to rest.
class RestingFile {
 public:
  // Whether the file had the same text when it was looked at last.
  bool IsAtRest(const std::string& text) {
    is_at_rest_ = last_ == text;
    if (!is_at_rest_) last_ = text;
    return is_at_rest_;
  }
  // As it was said last.
  bool is_at_rest() const { return is_at_rest_; }

 private:
  bool is_at_rest_ = true;
  std::optional<std::string> last_;
};

}  // namespace packhouse::security

#endif  // PACKHOUSE_SERVICE_ACCESS_SECURITY_SMALL_FILE_H_
