// An S3 store of a test's own process.
#ifndef PACKHOUSE_TESTS_OBJECTS_SMALL_S3_H_
#define PACKHOUSE_TESTS_OBJECTS_SMALL_S3_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/objects/fake_object_store.h"
#include "tests/support/status_matchers.h"

namespace packhouse {

// Serves the bucket "b" over HTTP, one request a connection. All objects are of 2001.
class SmallS3 {
 public:
  SmallS3() {
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
  ~SmallS3() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  std::string endpoint() const { return absl::StrCat("http://127.0.0.1:", port_); }
  std::vector<std::string> Keys() {
    std::vector<std::string> keys;
    const auto list = objects.List("", "", 0, absl::InfiniteFuture());
    for (const ObjectInfo& object : list->objects) keys.push_back(object.key);
    return keys;
  }

  FakeObjectStore objects;
  std::atomic<bool> refuses = false;
  std::atomic<int> num_requests = 0;

 private:
  void Serve() {
    while (true) {
      const int connection = ::accept(listener_, nullptr, nullptr);
      if (connection < 0) return;
      ++num_requests;
      std::string request;
      size_t whole = std::string::npos;
      char buffer[4096];
      while (request.size() < whole) {
        const ssize_t read = ::read(connection, buffer, sizeof(buffer));
        if (read <= 0) break;
        request.append(buffer, static_cast<size_t>(read));
        const size_t head = request.find("\r\n\r\n");
        if (head == std::string::npos) continue;
        const size_t length = request.find("Content-Length: ");
        whole = head + 4;
        if (length < head) whole += std::strtoul(request.c_str() + length + 16, nullptr, 10);
      }
      const auto [status, body] = Answer(request);
      const std::string answer =
          absl::StrCat("HTTP/1.1 ", status,
                       "\r\nConnection: close\r\nContent-Length: ", body.size(), "\r\n\r\n", body);
      EXPECT_EQ(::write(connection, answer.data(), answer.size()),
                static_cast<ssize_t>(answer.size()));
      ::close(connection);
    }
  }
  std::pair<std::string, std::string> Answer(const std::string& request) {
    if (refuses) return {"403 Forbidden", ""};
    const std::vector<std::string> words =
        absl::StrSplit(request.substr(0, request.find("\r\n")), ' ');
    const std::string key = words[1].substr(std::min(words[1].size(), size_t{3}));
    const absl::Time never = absl::InfiniteFuture();
    if (absl::StartsWith(words[1], "/b?")) return {"200 OK", List(words[1].substr(3))};
    if (words[0] == "PUT") {
      EXPECT_THAT(objects.Put(key, request.substr(request.find("\r\n\r\n") + 4), never), IsOk());
      return {"200 OK", ""};
    }
    if (words[0] == "DELETE") {
      EXPECT_THAT(objects.Delete(key, never), IsOk());
      return {"204 No Content", ""};
    }
    ByteRange range;
    const size_t at = request.find("Range: bytes=");
    if (at != std::string::npos) {
      range.begin = std::strtoull(request.c_str() + at + 13, nullptr, 10);
      const std::string rest = request.substr(request.find('-', at) + 1);
      if (absl::ascii_isdigit(static_cast<unsigned char>(rest[0]))) {
        range.end = std::strtoull(rest.c_str(), nullptr, 10) + 1;
      }
    }
    auto bytes = ReadObject(objects, key, range, uint64_t{1} << 30, never);
    if (!bytes.ok()) return {"404 Not Found", ""};
    return {at == std::string::npos ? "200 OK" : "206 Partial Content", *std::move(bytes)};
  }
  std::string List(const std::string& query) {
    std::string prefix;
    std::string after;
    for (const absl::string_view field : absl::StrSplit(query, '&')) {
      const std::pair<std::string, std::string> words = absl::StrSplit(field, '=');
      const std::string value = absl::StrReplaceAll(words.second, {{"%2F", "/"}});
      if (words.first == "prefix") prefix = value;
      if (words.first == "start-after") after = value;
    }
    const auto list = objects.List(prefix, after, 0, absl::InfiniteFuture());
    EXPECT_FALSE(list->has_more);
    std::string xml = "<ListBucketResult><IsTruncated>false</IsTruncated>";
    for (const ObjectInfo& object : list->objects) {
      absl::StrAppend(&xml, "<Contents><Key>", object.key, "</Key><Size>", object.num_bytes,
                      "</Size><LastModified>2001-01-01T00:00:00Z</LastModified></Contents>");
    }
    return xml + "</ListBucketResult>";
  }

  int listener_ = -1;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_OBJECTS_SMALL_S3_H_
