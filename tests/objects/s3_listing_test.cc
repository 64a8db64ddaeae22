// What an S3 store's texts say, and what is said to it.
#include "service/wings/cluster/s3/s3_listing.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/wings/cluster/s3/s3_credentials.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::HasSubstr;

constexpr absl::string_view kListing =
    "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://x/\"><Name>b</Name>"
    "<IsTruncated>true</IsTruncated><Contents><Key>p/a&amp;b</Key>"
    "<LastModified>2026-01-02T03:04:05.000Z</LastModified><Size>17</Size></Contents>"
    "<Contents><Key>p/c</Key><LastModified>2026-01-02T03:04:06Z</LastModified><Size>0</Size>"
    "</Contents></ListBucketResult>";

TEST(S3ListingTest, AListingIsRead) {
  PH_ASSERT_OK_AND_ASSIGN(const ObjectList list, ParseListing(kListing));
  EXPECT_TRUE(list.has_more);
  ASSERT_EQ(list.objects.size(), 2U);
  EXPECT_EQ(list.objects[0].key, "p/a&b");
  EXPECT_EQ(list.objects[0].num_bytes, 17U);
  EXPECT_EQ(list.objects[1].modified - list.objects[0].modified, absl::Seconds(1));
}

TEST(S3ListingTest, WhatAnObjectLacksIsSaid) {
  const auto without = [](const std::string& what, const std::string& now = "") {
    return ParseListing(absl::StrReplaceAll(kListing, {{what, now}}));
  };
  PH_ASSERT_OK_AND_ASSIGN(const ObjectList last, without("<IsTruncated>true</IsTruncated>",
                                                         "<IsTruncated>false</IsTruncated>"));
  EXPECT_FALSE(last.has_more);
  PH_ASSERT_OK_AND_ASSIGN(const ObjectList escaped,
                          without("p/a&amp;b", "&lt;&gt;&quot;&apos;&#34;&#39;&amp;lt;"));
  EXPECT_EQ(escaped.objects[0].key, "<>\"'\"'&lt;");
  const auto refused = [](const std::string& why) {
    return StatusIs(absl::StatusCode::kInternal, HasSubstr(why));
  };
  EXPECT_THAT(without("<IsTruncated>true</IsTruncated>"), refused("or IsTruncated"));
  EXPECT_THAT(without("<ListBucketResult", "<List"), refused("without ListBucketResult"));
  // Also of the second one.
  for (const std::string element :
       {"<Key>p/c</Key>", "<Size>0</Size>", "<LastModified>2026-01-02T03:04:06Z</LastModified>"}) {
    EXPECT_THAT(without(element), refused("without key, size or time")) << element;
  }
  EXPECT_THAT(without("<Size>0</Size>", "<Size>-1</Size>"), refused("of size '-1'"));
  EXPECT_THAT(without("2026-01-02T03:04:06Z", "yesterday"), refused("time 'yesterday'"));
}

// Who asks for the rest of it would ask for ever.
TEST(S3ListingTest, AListingThatGoesOnHasObjects) {
  const auto listing = [](absl::string_view truncated) {
    return ParseListing(absl::StrCat("<ListBucketResult><IsTruncated>", truncated,
                                     "</IsTruncated></ListBucketResult>"));
  };
  EXPECT_THAT(listing("true"), StatusIs(absl::StatusCode::kInternal, HasSubstr("goes on")));
  EXPECT_THAT(listing("false"), IsOk());
}

// Any text is read: it is a listing, or refused.
TEST(S3ListingTest, AnyTextMayBeRead) {
  EXPECT_THAT(ParseListing(""), StatusIs(absl::StatusCode::kInternal, _));
  EXPECT_THAT(ParseListing("<html>busy</html>"), StatusIs(absl::StatusCode::kInternal, _));
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string text(kListing.substr(0, random.Below(kListing.size() + 1)));
    for (int change = 0; change < 3 && !text.empty(); ++change) {
      text[random.Below(text.size())] = static_cast<char>(random.Next());
    }
    ParseListing(text).IgnoreError();
    EXPECT_LE(ParseS3Error(text).size(), 2400U);
  }
}

TEST(S3ListingTest, AnErrorIsNamed) {
  EXPECT_EQ(ParseS3Error("<Error><Code>NoSuchKey</Code><Message>It is not.</Message></Error>"),
            "NoSuchKey: It is not.");
  EXPECT_EQ(ParseS3Error("gateway"), "");
  EXPECT_EQ(ParseS3Error("<Error><Code>PermanentRedirect</Code><Message>Elsewhere.</Message>"
                         "<Bucket>b</Bucket><Endpoint>b.s3-eu-west-1.example</Endpoint></Error>"),
            "PermanentRedirect: Elsewhere.; it names b.s3-eu-west-1.example (--s3-endpoint)");
  EXPECT_EQ(ParseS3Error("<Error><Code>AuthorizationHeaderMalformed</Code><Message>Wrong.</Message>"
                         "<Region>eu-west-1</Region></Error>"),
            "AuthorizationHeaderMalformed: Wrong.; it names eu-west-1 (--s3-region)");
}

TEST(S3ListingTest, AQueryIsSortedAndEncoded) {
  EXPECT_EQ(SortedQuery({{"prefix", "a/b c"}, {"list-type", "2"}}), "list-type=2&prefix=a%2Fb%20c");
  EXPECT_EQ(UriEncoded("a/b~c+d", true), "a/b~c%2Bd");
  // What RFC 3986 reserves nothing for is kept, and nothing else.
  std::string all;
  for (int c = 0; c < 256; ++c) all.push_back(static_cast<char>(c));
  const std::string encoded = UriEncoded(all, false);
  EXPECT_EQ(encoded.size(), 66U + 3 * (256 - 66));
  for (const char c : std::string("azAZ09-_.~"))
    EXPECT_EQ(UriEncoded({&c, 1}, false), std::string(1, c));
  EXPECT_EQ(UriEncoded("/\xff", false), "%2F%FF");
  EXPECT_EQ(SortedQuery({{"a", "2"}, {"b", ""}, {"a", "1"}}), "a=1&a=2&b=");
}

TEST(S3CredentialsTest, TheFileOfTheTools) {
  PH_ASSERT_OK_AND_ASSIGN(
      const S3Credentials credentials,
      ParseS3Credentials(
          "# mine\naws_session_token = no\n[other]\naws_access_key_id = no\n[default]\n"
          "aws_access_key_id = AK\r\naws_secret_access_key=s/k+=\n"));
  EXPECT_EQ(credentials.access_key, "AK");
  EXPECT_EQ(credentials.secret_key, "s/k+=");
  EXPECT_EQ(credentials.session_token, "");
  // Those of the section alone.
  PH_ASSERT_OK_AND_ASSIGN(
      const S3Credentials temporary,
      ParseS3Credentials("aws_access_key_id = before\n[default]\n;aws_access_key_id = no\n"
                         "aws_access_key_id = AK\n aws_secret_access_key = s \n"
                         "aws_session_token = t=\n[other]\naws_session_token = no\n"));
  EXPECT_EQ(temporary.access_key, "AK");
  EXPECT_EQ(temporary.secret_key, "s");
  EXPECT_EQ(temporary.session_token, "t=");
  EXPECT_THAT(ParseS3Credentials("[default]\naws_access_key_id = AK\n"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no secret key")));
  EXPECT_THAT(ParseS3Credentials("[default]\naws_access_key_id = A:K\n"
                                 "aws_secret_access_key = s\n"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has a ':'")));
  EXPECT_THAT(ReadS3Credentials("/"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'/'")));
  EXPECT_THAT(ParseS3Credentials("[default]\naws_secret_access_key = hidden\n"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::AllOf(HasSubstr("no access key"), Not(HasSubstr("hidden")))));
  EXPECT_THAT(ReadS3Credentials("/nowhere/credentials"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/credentials")));
}

}  // namespace
}  // namespace packhouse
