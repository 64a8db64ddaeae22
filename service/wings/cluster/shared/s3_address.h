// Where an S3 store is, and who asks.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_SHARED_S3_ADDRESS_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_SHARED_S3_ADDRESS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "service/access/security/reloader.h"
#include "service/wings/cluster/s3/s3_credentials.h"

namespace packhouse {

struct S3Address {
  std::string bucket;
  std::string prefix;  // May be empty.
};

// "s3://BUCKET" or "s3://BUCKET/PREFIX". INVALID_ARGUMENT; a URI with '@' is refused without a word
// of it, since it may have a password.
absl::StatusOr<S3Address> ParseS3Uri(absl::string_view uri);

// `endpoint` if it is not empty; otherwise that of the environment, AWS_ENDPOINT_URL_S3 or
// AWS_ENDPOINT_URL; otherwise Amazon's for the region.
std::string S3EndpointOr(const std::string& endpoint, const std::string& region);
// INVALID_ARGUMENT if others may read what is sent there, unless that is allowed.
absl::Status CheckS3Endpoint(const std::string& endpoint, bool allows_plain_text);
// `region` if it is not empty; otherwise AWS_REGION or AWS_DEFAULT_REGION; otherwise "us-east-1".
std::string S3RegionOr(const std::string& region);

// A file of credentials (s3_credentials.h), read again while the server runs: those with a session
// token are good for hours only. Without a file, those of the environment, for ever. Thread-safe.
class S3CredentialsFile final : public security::Reloadable {
 public:
  explicit S3CredentialsFile(std::string path) : path_(std::move(path)) {}

  // The first call must give OK before current() is called.
  absl::StatusOr<bool> Reload() override;
  S3Credentials current() const;

 private:
  const std::string path_;

  mutable absl::Mutex mutex_;
  S3Credentials current_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_SHARED_S3_ADDRESS_H_
