#include "client/cli/local_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace packhouse::client {
namespace {

constexpr absl::Duration kReadyTimeout = absl::Seconds(20);
// Of the server's log, shown when it fails.
constexpr off_t kLastWordsBytes = 2000;
constexpr absl::string_view kSocketName = "/socket";
// What the kernel takes for the path of a Unix socket, its end included.
constexpr std::size_t kMaxSocketPath = 108;

// The one server of this process, where a signal handler can read it: nothing here allocates.
struct Running {
  volatile pid_t child = -1;
  std::array<char, kMaxSocketPath> directory{};
  std::array<char, kMaxSocketPath> socket{};
};
Running running;

// Only async-signal-safe calls.
void EndServer() {
  if (running.child > 0) {
    kill(running.child, SIGKILL);
    running.child = -1;
  }
  if (running.directory[0] != '\0') {
    unlink(running.socket.data());
    rmdir(running.directory.data());
    running.directory[0] = '\0';
  }
}

void OnSignal(int signal) {
  EndServer();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() { Close(); }
  int get() const { return fd_; }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

absl::Status SystemError(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, ": ", std::strerror(errno)));
}

bool IsExecutable(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

// Makes the directory and fills in the paths of `running`.
absl::Status MakeDirectory() {
  const char* const base = std::getenv("TMPDIR");
  std::string pattern = absl::StrCat(base != nullptr ? base : "/tmp", "/packhouse-XXXXXX");
  if (pattern.size() + kSocketName.size() >= kMaxSocketPath) pattern = "/tmp/packhouse-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) return SystemError(absl::StrCat("create ", pattern));
  const std::string socket = absl::StrCat(pattern, kSocketName);
  std::memcpy(running.socket.data(), socket.c_str(), socket.size() + 1);
  std::memcpy(running.directory.data(), pattern.c_str(), pattern.size() + 1);
  return absl::OkStatus();
}

std::string LastWords(int log) {
  const off_t size = lseek(log, 0, SEEK_END);
  const off_t start = std::max<off_t>(0, size - kLastWordsBytes);
  std::string text(static_cast<std::size_t>(std::max<off_t>(0, size - start)), '\0');
  const ssize_t read = pread(log, text.data(), text.size(), start);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, read)));
  return std::string(absl::StripTrailingAsciiWhitespace(text));
}

// Runs in the child: becomes the server, or ends with a message in the log.
[[noreturn]] void RunServer(const std::string& program, char* const* arguments, pid_t parent,
                            int output, int log) {
  dup2(log, STDERR_FILENO);
  dup2(output, STDOUT_FILENO);
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null >= 0) dup2(null, STDIN_FILENO);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have gone before the line above.
  if (getppid() == parent) execv(program.c_str(), arguments);
  constexpr absl::string_view kMessage = "cannot be executed\n";
  (void)!write(STDERR_FILENO, kMessage.data(), kMessage.size());
  _exit(127);
}

absl::Status WaitUntilReady(int output, int log) {
  const absl::Time deadline = absl::Now() + kReadyTimeout;
  std::string line;
  while (!absl::StrContains(line, "\n")) {
    pollfd readable{.fd = output, .events = POLLIN, .revents = 0};
    const int64_t left = absl::ToInt64Milliseconds(deadline - absl::Now());
    if (left <= 0) {
      return absl::UnavailableError(absl::StrCat("packhoused is not ready after ",
                                                 absl::FormatDuration(kReadyTimeout), ": ",
                                                 LastWords(log)));
    }
    if (poll(&readable, 1, static_cast<int>(left)) <= 0) continue;
    std::array<char, 256> bytes;
    const ssize_t count = read(output, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      return absl::UnavailableError(
          absl::StrCat("packhoused ended before it was ready: ", LastWords(log)));
    }
    line.append(bytes.data(), static_cast<std::size_t>(count));
  }
  if (!absl::StartsWith(line, "listening ")) {
    return absl::UnavailableError(absl::StrCat("packhoused said '",
                                               absl::StripTrailingAsciiWhitespace(line),
                                               "' instead of `listening ...`"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> FindServerProgram() {
  if (const char* const named = std::getenv("PACKHOUSED"); named != nullptr && *named != '\0') {
    if (IsExecutable(named)) return named;
    return absl::NotFoundError(absl::StrCat("$PACKHOUSED is '", named, "', which is no program"));
  }
  std::vector<std::filesystem::path> places;
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    places.push_back(self.parent_path() / "packhoused");
    places.push_back((self.parent_path() / "../../service/packhoused").lexically_normal());
  }
  if (const char* const path = std::getenv("PATH"); path != nullptr) {
    for (const absl::string_view directory : absl::StrSplit(path, ':', absl::SkipEmpty())) {
      places.push_back(std::filesystem::path(std::string(directory)) / "packhoused");
    }
  }
  for (const std::filesystem::path& place : places) {
    if (IsExecutable(place)) return place.string();
  }
  return absl::NotFoundError(
      absl::StrCat("no packhoused to start (looked for ",
                   absl::StrJoin(places, ", ",
                                 [](std::string* text, const std::filesystem::path& place) {
                                   absl::StrAppend(text, place.string());
                                 }),
                   "); name a running one with --server, or the program in $PACKHOUSED"));
}

LocalServer::LocalServer() = default;

LocalServer::~LocalServer() {
  const pid_t child = running.child;
  EndServer();
  if (child > 0) waitpid(child, nullptr, 0);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
}

std::string LocalServer::address() const { return absl::StrCat("unix:", running.socket.data()); }

absl::StatusOr<std::unique_ptr<LocalServer>> LocalServer::Start() {
  if (running.directory[0] != '\0') {
    return absl::FailedPreconditionError("this process has a local server already");
  }
  const absl::StatusOr<std::string> program = FindServerProgram();
  if (!program.ok()) return program.status();

  std::array<int, 2> pipe_ends{};
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) return SystemError("make a pipe");
  const FileDescriptor output(pipe_ends[0]);
  FileDescriptor child_output(pipe_ends[1]);
  const FileDescriptor log(memfd_create("packhoused-log", MFD_CLOEXEC));
  if (log.get() < 0) return SystemError("make a file in memory");

  // From here on its destructor cleans up.
  std::unique_ptr<LocalServer> server(new LocalServer());
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, OnSignal);
  if (absl::Status status = MakeDirectory(); !status.ok()) return status;

  // Everything that allocates comes before the fork.
  std::vector<std::string> words = {*program, "--listen", server->address(), "--http-listen", ""};
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return SystemError("fork");
  if (child == 0) RunServer(*program, arguments.data(), parent, child_output.get(), log.get());
  running.child = child;
  child_output.Close();
  if (absl::Status status = WaitUntilReady(output.get(), log.get()); !status.ok()) return status;
  return server;
}

}  // namespace packhouse::client
