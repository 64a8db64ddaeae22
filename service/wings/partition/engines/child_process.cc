#include "service/wings/partition/engines/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace packhouse {

ChildProcess::~ChildProcess() {
  if (pid_ > 0) {
    Kill();
    Wait();
  }
}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this != &other) {
    if (pid_ > 0) {
      Kill();
      Wait();
    }
    pid_ = std::exchange(other.pid_, -1);
    end_file_ = std::exchange(other.end_file_, -1);
  }
  return *this;
}

absl::StatusOr<ChildProcess> ChildProcess::Start(const std::string& program, int output,
                                                 absl::Span<const int> files) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  int next = STDERR_FILENO + 1;
  for (const int file : files) posix_spawn_file_actions_adddup2(&actions, file, next++);
  posix_spawn_file_actions_addclosefrom_np(&actions, next);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);

  char* const arguments[] = {const_cast<char*>(program.c_str()), nullptr};
  char* const environment[] = {nullptr};
  ChildProcess child;
  const int error =
      posix_spawn(&child.pid_, program.c_str(), &actions, &attributes, arguments, environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    child.pid_ = -1;
    return absl::InternalError(absl::StrCat("cannot start ", program, ": ", std::strerror(error)));
  }
  // glibc 2.36 declares pidfd_open() for C only.
  child.end_file_ = static_cast<int>(syscall(SYS_pidfd_open, child.pid_, 0));
  if (child.end_file_ < 0) {
    return absl::InternalError(absl::StrCat("cannot watch ", program, ": ", std::strerror(errno)));
  }
  return child;
}

void ChildProcess::Kill() {
  if (pid_ > 0) kill(pid_, SIGKILL);
}

int ChildProcess::Wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (end_file_ >= 0) close(end_file_);
  end_file_ = -1;
  return status;
}

}  // namespace packhouse
