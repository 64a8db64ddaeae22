// The S3 client beside servers that refuse, hang, break off or say nonsense, and over TLS.
#include "service/wings/cluster/s3/s3_object_store.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/clock.h"
#include "service/stores/objects/retrying_object_store.h"
#include "tests/objects/s3_server.h"
#include "tests/support/leaving_caller.h"
#include "tests/support/openssl_command.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::HasSubstr;

constexpr char kBreaksOff[] = "-";

// Answers each request with the next text of a list, one a connection, unless the answer says
// "keep-alive"; an empty text is no answer until the server ends, and kBreaksOff none at all.
class ScriptedServer {
 public:
  explicit ScriptedServer(std::vector<std::string> answers) : answers_(std::move(answers)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 16), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~ScriptedServer() { Stop(); }

  std::string endpoint() const { return absl::StrCat("http://127.0.0.1:", port_); }
  // The requests. Ends the server.
  const std::vector<std::string>& Requests() {
    Stop();
    return requests_;
  }

 private:
  void Stop() {
    if (!thread_.joinable()) return;
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    for (const int connection : open_) ::close(connection);
    ::close(listener_);
  }

  void Serve() {
    int connection = -1;
    for (const std::string& answer : answers_) {
      if (connection < 0) connection = ::accept(listener_, nullptr, nullptr);
      if (connection < 0) return;
      std::string request;
      char buffer[4096];
      while (!absl::StrContains(request, "\r\n\r\n")) {
        const ssize_t read = ::read(connection, buffer, sizeof(buffer));
        if (read <= 0) break;
        request.append(buffer, static_cast<size_t>(read));
      }
      const size_t head = request.find("\r\n\r\n") + 4;
      const size_t length = request.find("Content-Length: ");
      const size_t body =
          length < head ? std::strtoul(request.c_str() + length + 16, nullptr, 10) : 0;
      while (request.size() < head + body) {
        const ssize_t read = ::read(connection, buffer, sizeof(buffer));
        if (read <= 0) break;
        request.append(buffer, static_cast<size_t>(read));
      }
      requests_.push_back(std::move(request));
      if (answer.empty()) {
        open_.push_back(std::exchange(connection, -1));
        continue;
      }
      if (answer != kBreaksOff) {
        EXPECT_EQ(::write(connection, answer.data(), answer.size()),
                  static_cast<ssize_t>(answer.size()));
      }
      if (!absl::StrContains(answer, "keep-alive")) ::close(std::exchange(connection, -1));
    }
    if (connection >= 0) ::close(connection);
  }

  const std::vector<std::string> answers_;
  std::vector<std::string> requests_;
  std::vector<int> open_;
  int listener_ = -1;
  int port_ = 0;
  std::thread thread_;
};

std::string Answer(absl::string_view status, absl::string_view body, size_t length) {
  return absl::StrCat("HTTP/1.1 ", status, "\r\nConnection: close\r\nContent-Length: ", length,
                      "\r\n\r\n", body);
}
std::string Answer(absl::string_view status, absl::string_view body) {
  return Answer(status, body, body.size());
}

class S3ObjectStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<S3ObjectStore> Store(const std::string& endpoint) {
    S3ObjectStore::Options options;
    options.endpoint = endpoint;
    options.bucket = "bucket";
    options.prefix = "pre/fix";
    options.region = "eu-north-7";
    options.credentials = {"AK", "SK", "TOKEN"};
    options.clock = &clock_;
    return S3ObjectStore::Create(options).value();
  }
  absl::Time Soon() const { return clock_.Now() + absl::Seconds(20); }
  absl::StatusOr<std::string> Read(ObjectStore& store, const ByteRange& range = {}) {
    return ReadObject(store, "key", range, 1000, Soon());
  }

  SystemClock clock_;
};

// Who asks is signed for; keys are below the prefix, in the path.
TEST_F(S3ObjectStoreTest, RequestsAreSigned) {
  ScriptedServer server({Answer("200 OK", "value")});
  EXPECT_EQ(Read(*Store(server.endpoint() + "/")).value(), "value");
  ASSERT_EQ(server.Requests().size(), 1U);
  const std::string request = server.Requests()[0];
  EXPECT_THAT(request, testing::StartsWith("GET /bucket/pre/fix/key HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr("Credential=AK/"));
  EXPECT_THAT(request, HasSubstr("/eu-north-7/s3/aws4_request"));
  EXPECT_THAT(request, HasSubstr("x-amz-security-token: TOKEN\r\n"));
  EXPECT_THAT(request, HasSubstr("x-amz-content-sha256"));
  EXPECT_THAT(request, testing::Not(HasSubstr("SK")));
}

// Credentials may change while the store is used.
TEST_F(S3ObjectStoreTest, EachRequestHasTheCredentialsOfThen) {
  ScriptedServer server({Answer("200 OK", "value"), Answer("200 OK", "value")});
  S3ObjectStore::Options options;
  options.endpoint = server.endpoint();
  options.bucket = "bucket";
  options.current_credentials = [calls = 0]() mutable {
    return ++calls == 1 ? S3Credentials{"FIRST", "SK", "OLD"}
                        : S3Credentials{"SECOND", "SK", "NEW"};
  };
  options.clock = &clock_;
  const auto store = S3ObjectStore::Create(options).value();
  EXPECT_EQ(Read(*store).value(), "value");
  EXPECT_EQ(Read(*store).value(), "value");
  ASSERT_EQ(server.Requests().size(), 2U);
  EXPECT_THAT(server.Requests()[0], HasSubstr("Credential=FIRST/"));
  EXPECT_THAT(server.Requests()[1], HasSubstr("Credential=SECOND/"));
  EXPECT_THAT(server.Requests()[1], HasSubstr("x-amz-security-token: NEW\r\n"));
}

TEST_F(S3ObjectStoreTest, AnswersHaveTheirCodes) {
  const std::vector<std::pair<std::string, absl::StatusCode>> codes = {
      {"404 Not Found", absl::StatusCode::kNotFound},
      {"403 Forbidden", absl::StatusCode::kPermissionDenied},
      {"500 Internal Server Error", absl::StatusCode::kUnavailable},
      {"401 Unauthorized", absl::StatusCode::kPermissionDenied},
      {"408 Request Timeout", absl::StatusCode::kUnavailable},
      {"502 Bad Gateway", absl::StatusCode::kUnavailable},
      {"503 Slow Down", absl::StatusCode::kUnavailable},
      {"504 Gateway Timeout", absl::StatusCode::kUnavailable},
      {"429 Too Many Requests", absl::StatusCode::kUnavailable},
      {"301 Moved Permanently", absl::StatusCode::kInternal},
      {"400 Bad Request", absl::StatusCode::kInternal},
  };
  for (const auto& [status, code] : codes) {
    ScriptedServer server({Answer(status, "<Error><Code>Why</Code></Error>")});
    EXPECT_THAT(Read(*Store(server.endpoint())), StatusIs(code, HasSubstr("Why"))) << status;
  }
  EXPECT_THAT(Read(*Store("http://127.0.0.1:1")), StatusIs(absl::StatusCode::kUnavailable, _));
}

TEST_F(S3ObjectStoreTest, AServerThatHangsIsGivenUp) {
  ScriptedServer server({""});
  const auto store = Store(server.endpoint());
  EXPECT_THAT(ReadObject(*store, "key", {}, 10, clock_.Now() + absl::Milliseconds(100)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("key")));
}

// Long before the time of the call is over.
TEST_F(S3ObjectStoreTest, AnAnswerThatStallsIsGivenUp) {
  ScriptedServer server(
      {"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 10\r\n\r\n01", ""});
  S3ObjectStore::Options options;
  options.endpoint = server.endpoint();
  options.bucket = "bucket";
  options.credentials = {"AK", "SK", ""};
  options.longest_stall = absl::Seconds(1);
  options.clock = &clock_;
  const auto store = S3ObjectStore::Create(options).value();
  EXPECT_THAT(ReadObject(*store, "key", {}, 10, clock_.Now() + absl::Hours(1)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("key")));
}

// Nobody waits for the answer any more.
TEST_F(S3ObjectStoreTest, ARequestOfWhoIsGoneEnds) {
  ScriptedServer server({""});
  const auto store = Store(server.endpoint());
  LeavingCaller caller;
  caller.Leave();
  const CallerScope scope(&caller);
  EXPECT_THAT(ReadObject(*store, "key", {}, 10, clock_.Now() + absl::Hours(1)),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("key")));
}

// A part is not the whole, and a listing is not any text.
TEST_F(S3ObjectStoreTest, AnswersThatMakeNoSenseAreRefused) {
  ScriptedServer server(
      {Answer("200 OK", "0123456789"), Answer("200 OK", "<html></html>"),
       Answer("200 OK",
              "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>other/x</Key>"
              "<Size>1</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>"
              "</ListBucketResult>")});
  const auto store = Store(server.endpoint());
  EXPECT_THAT(Read(*store, {3, 5}), StatusIs(absl::StatusCode::kInternal, HasSubstr("206")));
  EXPECT_THAT(store->List("", "", 0, Soon()), StatusIs(absl::StatusCode::kInternal, _));
  EXPECT_THAT(store->List("", "", 0, Soon()), StatusIs(absl::StatusCode::kInternal, _));
}

// A store that does not look at where a listing goes on would be asked for ever.
TEST_F(S3ObjectStoreTest, AListingThatBeginsAnewIsRefused) {
  const std::string listing =
      Answer("200 OK",
             "<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>pre/fix/a</Key>"
             "<Size>1</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>"
             "</ListBucketResult>");
  ScriptedServer server({listing, listing, listing});
  const auto store = Store(server.endpoint());
  EXPECT_THAT(store->List("", "", 0, Soon()), IsOk());
  EXPECT_THAT(store->List("", "a", 0, Soon()),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("do not come after")));
  EXPECT_THAT(store->List("b", "", 0, Soon()),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("do not begin as asked for")));
}

// Nothing is sent: there is no server.
TEST_F(S3ObjectStoreTest, WhatCannotBeAskedIsRefused) {
  const auto store = Store("http://127.0.0.1:1");
  const auto sink = [](absl::string_view) { return absl::OkStatus(); };
  const auto expect = [&](absl::StatusCode code, absl::string_view key, absl::Time deadline) {
    EXPECT_THAT(store->Put(key, "value", deadline), StatusIs(code, _));
    EXPECT_THAT(store->Get(key, {}, sink, deadline), StatusIs(code, _));
    EXPECT_THAT(store->Delete(key, deadline), StatusIs(code, _));
    EXPECT_THAT(store->List(key, "", 0, deadline), StatusIs(code, _));
    EXPECT_THAT(store->List("", key, 0, deadline), StatusIs(code, _));
  };
  expect(absl::StatusCode::kUnavailable, "a", Soon());
  expect(absl::StatusCode::kInvalidArgument, "a b", Soon());
  expect(absl::StatusCode::kDeadlineExceeded, "a", clock_.Now());
}

// On a connection that the store closes before it answers; on another one it comes whole.
TEST_F(S3ObjectStoreTest, ABodyIsSentAgain) {
  const std::string kept = "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n";
  ScriptedServer server({kept, kBreaksOff, Answer("200 OK", "")});
  const auto store = Store(server.endpoint());
  const std::string body(3000, 'b');
  EXPECT_THAT(store->Put("first", "1", Soon()), IsOk());
  EXPECT_THAT(store->Put("second", body, Soon()), IsOk());
  ASSERT_EQ(server.Requests().size(), 3U);
  for (const size_t i : {1, 2}) {
    EXPECT_THAT(server.Requests()[i], testing::StartsWith("PUT /bucket/pre/fix/second"));
    EXPECT_THAT(server.Requests()[i], testing::EndsWith("\r\n\r\n" + body));
  }
}

// However long; and nothing of it once it is longer than any listing.
TEST_F(S3ObjectStoreTest, AListingHasABound) {
  std::string listing = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
  listing.resize(8 << 20, ' ');
  ScriptedServer server({Answer("200 OK", listing), Answer("200 OK", listing + " ")});
  const auto store = Store(server.endpoint());
  EXPECT_THAT(store->List("", "", 0, Soon()), IsOk());
  EXPECT_THAT(store->List("", "", 0, Soon()),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("8388608 bytes")));
}

// What a sink throws for lack of memory ends the call, not the program.
TEST_F(S3ObjectStoreTest, ASinkWithoutMemoryEndsTheCall) {
  ScriptedServer server({Answer("200 OK", "value"), Answer("200 OK", "value")});
  const auto store = Store(server.endpoint());
  const auto sink = [](absl::string_view) -> absl::Status { throw std::bad_alloc(); };
  EXPECT_THAT(store->Get("key", {}, sink, Soon()),
              StatusIs(absl::StatusCode::kResourceExhausted, _));
  EXPECT_EQ(Read(*store).value(), "value");
}

// The first line of each request, and what is given of the answer.
TEST_F(S3ObjectStoreTest, EachCallIsOneRequest) {
  const std::string none =
      Answer("200 OK", "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>");
  const std::string ten = Answer("206 Partial Content", "0123456789");
  ScriptedServer server({ten, ten, ten, Answer("200 OK", "0123456789"), Answer("200 OK", "0"),
                         Answer("416 Range Not Satisfiable", "<Error></Error>"),
                         Answer("200 OK", ""), Answer("204 No Content", ""),
                         Answer("404 Not Found", ""), Answer("403 Forbidden", ""), none, none,
                         none});
  const auto store = Store(server.endpoint());
  EXPECT_THAT(Read(*store, {3, 5}), IsOkAndHolds(std::string("01")));
  EXPECT_THAT(Read(*store, {3}), IsOkAndHolds(std::string("0123456789")));
  EXPECT_THAT(Read(*store, {3, 3}), IsOkAndHolds(std::string()));
  EXPECT_THAT(Read(*store, {0, 4}), IsOkAndHolds(std::string("0123")));
  EXPECT_THAT(Read(*store), IsOkAndHolds(std::string("0")));
  EXPECT_THAT(Read(*store, {7, 8}), IsOkAndHolds(std::string()));
  EXPECT_THAT(store->Put("k", "value", Soon()), IsOk());
  EXPECT_THAT(store->Delete("k", Soon()), IsOk());
  EXPECT_THAT(store->Delete("k", Soon()), IsOk());
  EXPECT_THAT(store->Delete("k", Soon()), StatusIs(absl::StatusCode::kPermissionDenied, _));
  EXPECT_THAT(store->List("", "", 0, Soon()), IsOk());
  EXPECT_THAT(store->List("p", "p/a", 7, Soon()), IsOk());
  EXPECT_THAT(store->List("p", "", 1001, Soon()), IsOk());
  std::vector<std::string> lines;
  for (const std::string& request : server.Requests()) {
    std::string line = request.substr(0, request.find(" HTTP/1.1\r\n"));
    if (const size_t at = request.find("\r\nRange: "); at != std::string::npos) {
      line += request.substr(at + 2, request.find("\r\n", at + 2) - at - 2);
    }
    lines.push_back(line);
  }
  const std::string list = "GET /bucket?list-type=2&max-keys=";
  EXPECT_THAT(
      lines,
      testing::ElementsAre(
          "GET /bucket/pre/fix/keyRange: bytes=3-4", "GET /bucket/pre/fix/keyRange: bytes=3-",
          "GET /bucket/pre/fix/keyRange: bytes=3-3", "GET /bucket/pre/fix/keyRange: bytes=0-3",
          "GET /bucket/pre/fix/key", "GET /bucket/pre/fix/keyRange: bytes=7-7",
          "PUT /bucket/pre/fix/k", "DELETE /bucket/pre/fix/k", "DELETE /bucket/pre/fix/k",
          "DELETE /bucket/pre/fix/k", list + "1000&prefix=pre%2Ffix%2F",
          list + "7&prefix=pre%2Ffix%2Fp&start-after=pre%2Ffix%2Fp%2Fa",
          list + "1000&prefix=pre%2Ffix%2Fp"));
  const std::string put = server.Requests()[6];
  EXPECT_THAT(put, testing::EndsWith("\r\n\r\nvalue"));
  // SHA-256 of "value".
  EXPECT_THAT(put,
              HasSubstr("x-amz-content-sha256: "
                        "cd42404d52ad55ccfa9aca4adc828aa5800ad9d385a0671fbcbf724118320619\r\n"));
  EXPECT_THAT(put, testing::Not(HasSubstr("Expect:")));
  EXPECT_THAT(put, testing::Not(HasSubstr("Content-Type:")));
  // Refused before anything is sent.
  const absl::string_view large("", ObjectStore::kMaxObjectBytes + 1);
  EXPECT_THAT(store->Put("k", large, Soon()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "object 'k': 5368709121 bytes, at most 5368709120"));
}

// After an answer that broke off, only the rest is asked for.
TEST_F(S3ObjectStoreTest, TriesGoOnWhereAnAnswerBrokeOff) {
  ScriptedServer server({Answer("503 Slow Down", ""), Answer("200 OK", "01234", 10),
                         Answer("206 Partial Content", "56789")});
  const auto store = Store(server.endpoint());
  RetryingObjectStore retrying(store.get(), &clock_, [](absl::Duration) {}, {});
  EXPECT_EQ(Read(retrying).value(), "0123456789");
  ASSERT_EQ(server.Requests().size(), 3U);
  EXPECT_THAT(server.Requests()[2], HasSubstr("Range: bytes=5-\r\n"));
}

TEST_F(S3ObjectStoreTest, WrongCredentialsAreRefused) {
  S3Server& server = S3Server::Shared();
  if (!server.is_running()) GTEST_SKIP() << server.why_not();
  S3ObjectStore::Options options = server.StoreOptions(server.NewBucket());
  options.credentials.secret_key = "another";
  const auto store = S3ObjectStore::Create(options).value();
  EXPECT_THAT(store->Put("key", "value", Soon()),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("SignatureDoesNotMatch")));
}

TEST_F(S3ObjectStoreTest, TlsTrustsTheGivenAuthorityOnly) {
  if (!S3Server::Shared().is_running()) GTEST_SKIP() << S3Server::Shared().why_not();
  const TemporaryFolder folder;
  MakeCertificate(folder.path(), "localhost");
  const std::string certificate = folder.path() + "/localhost.crt";
  S3Server server(certificate, folder.path() + "/localhost.key");
  ASSERT_TRUE(server.is_running()) << server.why_not();
  S3ObjectStore::Options options = server.StoreOptions(server.NewBucket());
  options.ca_file = certificate;
  const auto trusting = S3ObjectStore::Create(options).value();
  ASSERT_THAT(trusting->Put("key", "value", Soon()), IsOk());
  EXPECT_EQ(Read(*trusting).value(), "value");
  options.ca_file = "";
  const auto other = S3ObjectStore::Create(options).value();
  EXPECT_THAT(Read(*other), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("certificate")));
}

// Sets a variable of the environment until its end.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* const name_;
};

TEST_F(S3ObjectStoreTest, AProxyIsForOtherMachines) {
  ::unsetenv("no_proxy");
  ::unsetenv("NO_PROXY");
  EXPECT_TRUE(IsOnThisMachine("http://localhost:1"));
  EXPECT_TRUE(IsOnThisMachine("https://127.8.9.1/x"));
  EXPECT_TRUE(IsOnThisMachine("http://[::1]:9000"));
  EXPECT_TRUE(IsOnThisMachine("http://[::1]"));
  EXPECT_TRUE(IsOnThisMachine("localhost/path"));
  EXPECT_FALSE(IsOnThisMachine("http://localhost.example.org"));
  EXPECT_FALSE(IsOnThisMachine("http://[::2]:9000"));
  EXPECT_FALSE(IsOnThisMachine("http://127.0.0"));
  EXPECT_FALSE(IsOnThisMachine("https://128.0.0.1"));
  {
    const Variable nowhere("http_proxy", "http://127.0.0.1:1");
    ScriptedServer server({Answer("200 OK", "value")});
    EXPECT_EQ(Read(*Store(server.endpoint())).value(), "value");
    EXPECT_THAT(Read(*Store("http://s3.example.org")),
                StatusIs(absl::StatusCode::kUnavailable,
                         HasSubstr("by the HTTP proxy of the variable http_proxy")));
  }
  ScriptedServer proxy({Answer("200 OK", "value")});
  const Variable there("http_proxy", proxy.endpoint());
  EXPECT_EQ(Read(*Store("http://s3.example.org")).value(), "value");
  EXPECT_THAT(proxy.Requests(), testing::ElementsAre(testing::StartsWith(
                                    "GET http://s3.example.org/bucket/pre/fix/key HTTP/1.1\r\n")));
}

TEST_F(S3ObjectStoreTest, OptionsAreCheckedByName) {
  S3ObjectStore::Options good;
  good.endpoint = "http://x";
  good.bucket = "bucket";
  good.credentials = {"a", "b", ""};
  good.clock = &clock_;
  ASSERT_THAT(S3ObjectStore::Create(good), IsOk());
  const auto refuse = [&](auto change, absl::string_view what) {
    S3ObjectStore::Options bad = good;
    change(bad);
    EXPECT_THAT(S3ObjectStore::Create(bad),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(std::string(what))));
  };
  refuse([](auto& o) { o.endpoint = "x:1"; }, "'x:1'");
  refuse([](auto& o) { o.bucket = "a/b"; }, "'a/b'");
  refuse([](auto& o) { o.bucket = ""; }, "''");
  refuse([](auto& o) { o.bucket = "a b"; }, "'a b'");
  refuse([](auto& o) { o.prefix = "a//b"; }, "a//b");
  refuse([](auto& o) { o.region = ""; }, "region");
  refuse([](auto& o) { o.region = "a b"; }, "region 'a b'");
  refuse([](auto& o) { o.credentials.access_key = ""; }, "credentials");
  refuse([](auto& o) { o.clock = nullptr; }, "no clock");
  refuse([](auto& o) { o.credentials.secret_key = ""; }, "credentials");
}

}  // namespace
}  // namespace packhouse
