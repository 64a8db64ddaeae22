// A server as a child process: starts it, waits until it listens, and kills it.
#ifndef PACKHOUSE_CLIENT_GRAPH_SERVER_PROCESS_H_
#define PACKHOUSE_CLIENT_GRAPH_SERVER_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse::client {

// An open file, closed with this object.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor() { Close(); }
  int get() const { return fd_; }
  void Close();

 private:
  int fd_;
};

// The process is killed with this object, and by the kernel when the thread that started it ends.
// Its stdin is empty. Not thread-safe.
class ServerProcess {
 public:
  // What happens to the process's stderr.
  enum class Log {
    // It goes to the same place as this process's stderr.
    kPassOn,
    // It is kept in memory. The error of a server that does not start has its end.
    kKeep,
  };

  // Runs `command`, whose first word is the path of a program. Other threads may run meanwhile:
  // between fork and exec nothing is allocated or locked.
  //
  // Errors: UNAVAILABLE if there are no files or processes left. WaitUntilReady reports a program
  // that cannot be executed.
  static absl::StatusOr<std::unique_ptr<ServerProcess>> Start(std::vector<std::string> command,
                                                              Log log);

  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess();

  // Waits for the line {"event":"listening","NAME":"VALUE",...} on the process's stdout. packhoused
  // prints it when it takes calls.
  //
  // Errors: UNAVAILABLE if the process ends, prints something else first, or is silent for twenty
  // seconds.
  absl::Status WaitUntilReady();

  pid_t pid() const { return pid_; }

  // The VALUE of NAME; empty if there was none. Requires WaitUntilReady.
  std::string Listening(absl::string_view name) const;

 private:
  ServerProcess(std::string program, pid_t pid, FileDescriptor output, FileDescriptor log);
  absl::Status Unready(absl::string_view why) const;

  const std::string program_;
  const pid_t pid_;
  const FileDescriptor output_;
  const FileDescriptor log_;
  std::string line_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_SERVER_PROCESS_H_
