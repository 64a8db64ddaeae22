// A TCP connection to a server on this machine, as a browser or a hostile client would make it.
#ifndef PACKHOUSE_TESTS_HTTP_HTTP_CONNECTION_H_
#define PACKHOUSE_TESTS_HTTP_HTTP_CONNECTION_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace packhouse::http {

class HttpConnection {
 public:
  // To the port of `address` ("127.0.0.1:80", "[::1]:80"), from `host`.
  explicit HttpConnection(const std::string& address, const std::string& host = "127.0.0.1") {
    const auto port =
        htons(static_cast<uint16_t>(std::atoi(address.substr(address.rfind(':') + 1).c_str())));
    if (address.front() == '[') {
      fd_ = ::socket(AF_INET6, SOCK_STREAM, 0);
      sockaddr_in6 to = {};
      to.sin6_family = AF_INET6;
      to.sin6_port = port;
      to.sin6_addr = in6addr_loopback;
      EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
      return;
    }
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in from = {};
    from.sin_family = AF_INET;
    EXPECT_EQ(::inet_pton(AF_INET, host.c_str(), &from.sin_addr), 1);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&from), sizeof(from)), 0);
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = port;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }
  HttpConnection(HttpConnection&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  HttpConnection& operator=(HttpConnection&&) = delete;
  ~HttpConnection() {
    if (fd_ >= 0) ::close(fd_);
  }

  // False if the server is gone.
  bool Send(const std::string& bytes) const {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }

  // Until `end` has come, or the server has closed; what it sent.
  std::string ReadUntil(const std::string& end) const {
    std::string read;
    char byte = 0;
    while (!read.ends_with(end) && ::recv(fd_, &byte, 1, 0) == 1) read.push_back(byte);
    return read;
  }
  // Waits for the server to close; what it sent before.
  std::string ReadAll() const {
    std::string read;
    char buffer[4096];
    for (ssize_t n = 0; (n = ::recv(fd_, buffer, sizeof(buffer), 0)) > 0;) read.append(buffer, n);
    return read;
  }
  // An answer that ends with `end`.
  std::string Ask(const std::string& path, const std::string& end,
                  const std::string& method = "GET") const {
    EXPECT_TRUE(Send(absl::StrCat(method, " ", path, " HTTP/1.1\r\nHost: here\r\n\r\n")));
    return ReadUntil(end);
  }

  // Whether the server has closed it, now or within so many milliseconds.
  bool IsClosed(int milliseconds = 0) const {
    pollfd polled = {fd_, POLLIN, 0};
    char byte = 0;
    return ::poll(&polled, 1, milliseconds) == 1 && ::recv(fd_, &byte, 1, MSG_PEEK) <= 0;
  }

 private:
  int fd_ = -1;
};

}  // namespace packhouse::http

#endif  // PACKHOUSE_TESTS_HTTP_HTTP_CONNECTION_H_
