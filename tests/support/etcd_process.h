// A real etcd of one node, on loopback.
#ifndef PACKHOUSE_TESTS_SUPPORT_ETCD_PROCESS_H_
#define PACKHOUSE_TESTS_SUPPORT_ETCD_PROCESS_H_

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {

// Ends with the object. Thread-compatible.
class EtcdProcess {
 public:
  // The program, of Debian's package etcd-server; empty: there is none.
  static std::string Program() {
    for (const char* path : {"/usr/bin/etcd", "/usr/local/bin/etcd"}) {
      if (::access(path, X_OK) == 0) return path;
    }
    return "";
  }

  // Starts it; it answers a little later, or ends, if another process has taken its ports since.
  EtcdProcess() {
    const int client = FreePort();
    const int peer = FreePort();
    address_ = absl::StrCat("127.0.0.1:", client);
    const std::string client_url = absl::StrCat("http://", address_);
    const std::string peer_url = absl::StrCat("http://127.0.0.1:", peer);
    std::vector<std::string> words = {Program(),
                                      "--name=one",
                                      absl::StrCat("--data-dir=", folder_.path(), "/etcd"),
                                      absl::StrCat("--listen-client-urls=", client_url),
                                      absl::StrCat("--advertise-client-urls=", client_url),
                                      absl::StrCat("--listen-peer-urls=", peer_url),
                                      absl::StrCat("--initial-advertise-peer-urls=", peer_url),
                                      absl::StrCat("--initial-cluster=one=", peer_url)};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    const int nothing = ::open("/dev/null", O_RDWR);
    ::dup2(nothing, 1);
    ::dup2(nothing, 2);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  ~EtcdProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  EtcdProcess(const EtcdProcess&) = delete;
  EtcdProcess& operator=(const EtcdProcess&) = delete;

  const std::string& address() const { return address_; }

  // While it is stopped, it takes requests and answers none.
  void Stop() const { ::kill(pid_, SIGSTOP); }
  void Continue() const { ::kill(pid_, SIGCONT); }

 private:
  static int FreePort() {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    socklen_t size = sizeof(address);
    ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
    ::close(socket);
    return ntohs(address.sin_port);
  }

  TemporaryFolder folder_{TemporaryFolder::InMemory()};
  std::string address_;
  pid_t pid_ = -1;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_ETCD_PROCESS_H_
