#include "service/wings/cluster/s3/s3_credentials.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace packhouse {
namespace {

absl::Status CheckComplete(const S3Credentials& credentials) {
  for (const auto& [name, value] :
       {std::pair<absl::string_view, absl::string_view>("access key", credentials.access_key),
        {"secret key", credentials.secret_key}}) {
    if (value.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("S3 credentials: there is no ", name));
    }
  }
  // It is a part of what libcurl signs with, before the first ':'.
  if (absl::StrContains(credentials.access_key, ':')) {
    return absl::InvalidArgumentError("S3 credentials: the access key has a ':'");
  }
  return absl::OkStatus();
}

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

absl::StatusOr<S3Credentials> ParseS3Credentials(absl::string_view text) {
  S3Credentials credentials;
  bool is_default = false;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      is_default = line == "[default]";
      continue;
    }
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    if (!is_default) continue;
    const absl::string_view name = absl::StripAsciiWhitespace(field.first);
    const std::string value(absl::StripAsciiWhitespace(field.second));
    if (name == "aws_access_key_id") credentials.access_key = value;
    if (name == "aws_secret_access_key") credentials.secret_key = value;
    if (name == "aws_session_token") credentials.session_token = value;
  }
  const absl::Status complete = CheckComplete(credentials);
  if (!complete.ok()) return complete;
  return credentials;
}

absl::StatusOr<S3Credentials> ReadS3Credentials(const std::string& file) {
  if (file.empty()) {
    S3Credentials credentials = {Environment("AWS_ACCESS_KEY_ID"),
                                 Environment("AWS_SECRET_ACCESS_KEY"),
                                 Environment("AWS_SESSION_TOKEN")};
    if (credentials.access_key.empty() || credentials.secret_key.empty()) {
      return absl::NotFoundError(
          "S3 credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not both in the "
          "environment, and no file is named");
    }
    const absl::Status complete = CheckComplete(credentials);
    if (!complete.ok()) return complete;
    return credentials;
  }
  // Of a folder the iterator would throw.
  std::error_code error;
  std::ifstream in(file, std::ios::binary);
  if (!in || std::filesystem::is_directory(file, error)) {
    return absl::NotFoundError(absl::StrCat("S3 credentials: cannot read '", file, "'"));
  }
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  auto credentials = ParseS3Credentials(text);
  if (credentials.ok()) return credentials;
  return absl::Status(credentials.status().code(),
                      absl::StrCat(credentials.status().message(), " in '", file, "'"));
}

}  // namespace packhouse
