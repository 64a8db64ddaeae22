#include "service/wings/cluster/shared/s3_address.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Variables = std::vector<std::pair<const char*, const char*>>;

// Without any variable that these read; those that are given are set while it lasts.
class Environment {
 public:
  explicit Environment(const Variables& variables) {
    Clear();
    for (const auto& [name, value] : variables) ::setenv(name, value, 1);
  }
  ~Environment() { Clear(); }

 private:
  static void Clear() {
    for (const char* const name :
         {"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL",
          "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}) {
      ::unsetenv(name);
    }
  }
};

TEST(ParseS3UriTest, ABucketAndAPrefix) {
  const auto words = [](const std::string& uri) {
    const absl::StatusOr<S3Address> address = ParseS3Uri(uri);
    return address.ok() ? address->bucket + " " + address->prefix : "refused";
  };
  EXPECT_EQ(words("s3://b"), "b ");
  EXPECT_EQ(words("s3://b/"), "b ");
  EXPECT_EQ(words("s3://b/p"), "b p");
  EXPECT_EQ(words("s3://b.1/p/q_-./"), "b.1 p/q_-.");
  for (const std::string uri : {"", "b/p", "s3:/b", "s3://", "s3:///p", "s3://b//p", "s3://b/p//",
                                "s3://b c", "s3://b/p q", "http://b/p"}) {
    EXPECT_EQ(words(uri), "refused") << uri;
    EXPECT_EQ(ParseS3Uri(uri).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(ParseS3Uri("s3://key:secret@b/p"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::AllOf(HasSubstr("'@'"), Not(HasSubstr("secret")))));
}

TEST(S3EndpointOrTest, WhatIsGivenThenTheEnvironmentThenAmazons) {
  {
    const Environment empty(Variables{});
    EXPECT_EQ(S3RegionOr(""), "us-east-1");
    EXPECT_EQ(S3RegionOr("r"), "r");
    EXPECT_EQ(S3EndpointOr("", ""), "https://s3.us-east-1.amazonaws.com");
    EXPECT_EQ(S3EndpointOr("", "r"), "https://s3.r.amazonaws.com");
    EXPECT_EQ(S3EndpointOr("e", "r"), "e");
  }
  {
    const Environment both(Variables{{"AWS_REGION", "first"},
                                     {"AWS_DEFAULT_REGION", "second"},
                                     {"AWS_ENDPOINT_URL_S3", "of-s3"},
                                     {"AWS_ENDPOINT_URL", "of-all"}});
    EXPECT_EQ(S3RegionOr(""), "first");
    EXPECT_EQ(S3RegionOr("r"), "r");
    EXPECT_EQ(S3EndpointOr("", ""), "of-s3");
    EXPECT_EQ(S3EndpointOr("e", ""), "e");
  }
  // An empty one is none.
  const Environment second(Variables{{"AWS_REGION", ""},
                                     {"AWS_DEFAULT_REGION", "second"},
                                     {"AWS_ENDPOINT_URL_S3", ""},
                                     {"AWS_ENDPOINT_URL", "of-all"}});
  EXPECT_EQ(S3RegionOr(""), "second");
  EXPECT_EQ(S3EndpointOr("", ""), "of-all");
}

TEST(CheckS3EndpointTest, PlainTextStaysOnThisMachineUnlessItIsAllowed) {
  EXPECT_THAT(CheckS3Endpoint("https://s3.example.org", false), IsOk());
  EXPECT_THAT(CheckS3Endpoint("http://127.0.0.1:9000", false), IsOk());
  EXPECT_THAT(CheckS3Endpoint("http://s3.example.org", true), IsOk());
  EXPECT_THAT(CheckS3Endpoint("http://s3.example.org", false),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--insecure")));
  for (const bool allows_plain_text : {false, true}) {
    EXPECT_THAT(CheckS3Endpoint("http://key:secret@127.0.0.1", allows_plain_text),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         testing::AllOf(HasSubstr("'@'"), Not(HasSubstr("secret")))));
  }
}

TEST(S3CredentialsFileTest, IsReadAgain) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/credentials";
  const auto write = [&](const std::string& access, const std::string& secret,
                         const std::string& token) {
    std::ofstream(path) << "[default]\naws_access_key_id = " << access
                        << "\naws_secret_access_key = " << secret
                        << "\naws_session_token = " << token << "\n";
  };
  S3CredentialsFile file(path);
  EXPECT_THAT(file.Reload(), StatusIs(absl::StatusCode::kNotFound, HasSubstr(path)));
  write("a", "s", "t");
  EXPECT_THAT(file.Reload(), IsOkAndHolds(true));
  EXPECT_THAT(file.Reload(), IsOkAndHolds(false));
  // Whichever of them changes.
  write("b", "s", "t");
  EXPECT_THAT(file.Reload(), IsOkAndHolds(true));
  write("b", "u", "t");
  EXPECT_THAT(file.Reload(), IsOkAndHolds(true));
  write("b", "u", "v");
  EXPECT_THAT(file.Reload(), IsOkAndHolds(true));
  // A broken one changes nothing.
  write("", "w", "x");
  EXPECT_THAT(file.Reload(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no access key in '" + path)));
  const S3Credentials current = file.current();
  EXPECT_EQ(current.access_key, "b");
  EXPECT_EQ(current.secret_key, "u");
  EXPECT_EQ(current.session_token, "v");
}

TEST(S3CredentialsFileTest, WithoutAFileTheEnvironmentHasThem) {
  S3CredentialsFile file("");
  {
    const Environment half(Variables{{"AWS_ACCESS_KEY_ID", "a"}});
    EXPECT_THAT(file.Reload(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("not both")));
  }
  {
    const Environment half(Variables{{"AWS_SECRET_ACCESS_KEY", "s"}});
    EXPECT_THAT(file.Reload(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("not both")));
  }
  {
    const Environment bad(Variables{{"AWS_ACCESS_KEY_ID", "a:b"}, {"AWS_SECRET_ACCESS_KEY", "s"}});
    EXPECT_THAT(file.Reload(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has a ':'")));
  }
  const Environment whole(Variables{
      {"AWS_ACCESS_KEY_ID", "a"}, {"AWS_SECRET_ACCESS_KEY", "s"}, {"AWS_SESSION_TOKEN", "t"}});
  EXPECT_THAT(file.Reload(), IsOkAndHolds(true));
  EXPECT_EQ(file.current().access_key, "a");
  EXPECT_EQ(file.current().secret_key, "s");
  EXPECT_EQ(file.current().session_token, "t");
}

}  // namespace
}  // namespace packhouse
