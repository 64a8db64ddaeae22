#include "service/wings/cluster/shared/s3_address.h"

#include <cstdlib>
#include <initializer_list>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/stores/objects/object_store.h"
#include "service/wings/cluster/s3/s3_object_store.h"

namespace packhouse {
namespace {

// The first of the variables that is set and not empty.
std::string FirstOf(std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

}  // namespace

absl::StatusOr<S3Address> ParseS3Uri(absl::string_view uri) {
  if (absl::StrContains(uri, '@')) {
    return absl::InvalidArgumentError(
        "an s3:// address has an '@': it names a bucket and a prefix, never a key");
  }
  absl::string_view rest = uri;
  if (!absl::ConsumePrefix(&rest, "s3://")) {
    return absl::InvalidArgumentError(absl::StrCat(Quoted(uri), " does not begin with s3://"));
  }
  const std::pair<absl::string_view, absl::string_view> words =
      absl::StrSplit(absl::StripSuffix(rest, "/"), absl::MaxSplits('/', 1));
  S3Address address = {std::string(words.first), std::string(words.second)};
  if (!CheckObjectKey(address.bucket).ok()) {
    return absl::InvalidArgumentError(absl::StrCat(Quoted(uri), " has no bucket"));
  }
  if (!CheckObjectPrefix(address.prefix).ok() || absl::EndsWith(address.prefix, "/")) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(uri), ": the prefix is not words of [A-Za-z0-9_.-] with '/' between them"));
  }
  return address;
}

std::string S3RegionOr(const std::string& region) {
  if (!region.empty()) return region;
  const std::string given = FirstOf({"AWS_REGION", "AWS_DEFAULT_REGION"});
  return given.empty() ? "us-east-1" : given;
}

std::string S3EndpointOr(const std::string& endpoint, const std::string& region) {
  if (!endpoint.empty()) return endpoint;
  const std::string given = FirstOf({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  return given.empty() ? absl::StrCat("https://s3.", S3RegionOr(region), ".amazonaws.com") : given;
}

absl::Status CheckS3Endpoint(const std::string& endpoint, bool allows_plain_text) {
  if (absl::StrContains(endpoint, '@')) {
    return absl::InvalidArgumentError(
        "--s3-endpoint (or AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL): it has an '@': it names a host "
        "and a port, never a key");
  }
  absl::string_view host = endpoint;
  if (!absl::ConsumePrefix(&host, "http://") || allows_plain_text || IsOnThisMachine(endpoint)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("--s3-endpoint ", endpoint,
                                                 ": others may read what is sent; needs https://, "
                                                 "or --insecure for plain text"));
}

absl::StatusOr<bool> S3CredentialsFile::Reload() {
  PH_ASSIGN_OR_RETURN(S3Credentials read, ReadS3Credentials(path_));
  absl::MutexLock lock(&mutex_);
  if (read.access_key == current_.access_key && read.secret_key == current_.secret_key &&
      read.session_token == current_.session_token) {
    return false;
  }
  current_ = std::move(read);
  return true;
}

S3Credentials S3CredentialsFile::current() const {
  absl::MutexLock lock(&mutex_);
  return current_;
}

}  // namespace packhouse
