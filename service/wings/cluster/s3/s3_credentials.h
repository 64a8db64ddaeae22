// The keys with which requests to an S3 store are signed.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_S3_S3_CREDENTIALS_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_S3_S3_CREDENTIALS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse {

struct S3Credentials {
  std::string access_key;
  std::string secret_key;
  // Of temporary credentials; otherwise empty.
  std::string session_token;
};

// The file's section [default], as the tools of S3 have it:
//   [default]
//   aws_access_key_id = ...
//   aws_secret_access_key = ...
//   aws_session_token = ...
// INVALID_ARGUMENT naming what is missing; never a value.
absl::StatusOr<S3Credentials> ParseS3Credentials(absl::string_view text);

// From `file`, or if it is empty from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
// AWS_SESSION_TOKEN in the environment. NOT_FOUND naming the file or the variables;
// INVALID_ARGUMENT as ParseS3Credentials(), naming the file.
absl::StatusOr<S3Credentials> ReadS3Credentials(const std::string& file);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_S3_S3_CREDENTIALS_H_
