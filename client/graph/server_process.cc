#include "client/graph/server_process.h"

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
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace packhouse::client {
namespace {

constexpr absl::Duration kReadyTimeout = absl::Seconds(20);
// The end of the log that is shown when the server does not start.
constexpr off_t kLastWordsBytes = 2000;

absl::Status SystemError(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, ": ", std::strerror(errno)));
}

// A member of a JSON object that is a text; "" if there is none.
std::string TextIn(const std::string& object, const std::string& name) {
  const auto parsed = nlohmann::json::parse(object, /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return "";
  const auto found = parsed.find(name);
  return found != parsed.end() && found->is_string() ? found->get<std::string>() : "";
}

// Runs in the child: becomes the program, or ends with a message in the log. Allocates nothing.
[[noreturn]] void Become(char* const* arguments, pid_t parent, int output, int log) {
  if (log >= 0) dup2(log, STDERR_FILENO);
  dup2(output, STDOUT_FILENO);
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null >= 0) dup2(null, STDIN_FILENO);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have gone before the line above.
  if (getppid() == parent) execv(arguments[0], arguments);
  constexpr absl::string_view kMessage = "cannot be executed\n";
  if (log >= 0) (void)!write(STDERR_FILENO, kMessage.data(), kMessage.size());
  _exit(127);
}

std::string LastWords(int log) {
  const off_t size = lseek(log, 0, SEEK_END);
  const off_t start = std::max<off_t>(0, size - kLastWordsBytes);
  std::string text(static_cast<std::size_t>(std::max<off_t>(0, size - start)), '\0');
  const ssize_t read = pread(log, text.data(), text.size(), start);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, read)));
  return std::string(absl::StripTrailingAsciiWhitespace(text));
}

}  // namespace

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void FileDescriptor::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

ServerProcess::ServerProcess(std::string program, pid_t pid, FileDescriptor output,
                             FileDescriptor log)
    : program_(std::move(program)), pid_(pid), output_(std::move(output)), log_(std::move(log)) {}

absl::StatusOr<std::unique_ptr<ServerProcess>> ServerProcess::Start(
    std::vector<std::string> command, Log log) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return SystemError("make a pipe");
  FileDescriptor output(ends[0]);
  const FileDescriptor child_output(ends[1]);
  FileDescriptor kept;
  if (log == Log::kKeep) {
    kept = FileDescriptor(memfd_create("server-log", MFD_CLOEXEC));
    if (kept.get() < 0) return SystemError("make a file in memory");
  }
  // Everything that allocates comes before the fork.
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) Become(arguments.data(), parent, child_output.get(), kept.get());
  if (child < 0) return SystemError("fork");
  return std::unique_ptr<ServerProcess>(
      new ServerProcess(std::move(command.front()), child, std::move(output), std::move(kept)));
}

ServerProcess::~ServerProcess() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

absl::Status ServerProcess::Unready(absl::string_view why) const {
  std::string message = absl::StrCat(program_, " ", why);
  if (log_.get() >= 0) absl::StrAppend(&message, ": ", LastWords(log_.get()));
  return absl::UnavailableError(message);
}

absl::Status ServerProcess::WaitUntilReady() {
  const absl::Time deadline = absl::Now() + kReadyTimeout;
  while (!absl::StrContains(line_, "\n")) {
    pollfd readable{.fd = output_.get(), .events = POLLIN, .revents = 0};
    const int64_t left = absl::ToInt64Milliseconds(deadline - absl::Now());
    if (left <= 0) {
      return Unready(absl::StrCat("is not ready after ", absl::FormatDuration(kReadyTimeout)));
    }
    if (poll(&readable, 1, static_cast<int>(left)) <= 0) continue;
    std::array<char, 256> bytes;
    const ssize_t count = read(output_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Unready("ended before it was ready");
    line_.append(bytes.data(), static_cast<std::size_t>(count));
  }
  line_.resize(line_.find('\n'));
  if (TextIn(line_, "event") == "listening") return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(program_, " said '", line_, "' instead of where it listens"));
}

std::string ServerProcess::Listening(absl::string_view name) const {
  return TextIn(line_, std::string(name));
}

}  // namespace packhouse::client
