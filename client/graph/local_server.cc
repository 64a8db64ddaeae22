#include "client/graph/local_server.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace packhouse::client {
namespace {

constexpr absl::string_view kSocketName = "/socket";
// The kernel's bound for the path of a Unix socket, with its final zero.
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

bool IsExecutable(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

// Makes the directory and fills in the paths of `running`.
absl::Status MakeDirectory() {
  const char* const base = std::getenv("TMPDIR");
  std::string pattern = absl::StrCat(base != nullptr ? base : "/tmp", "/packhouse-XXXXXX");
  if (pattern.size() + kSocketName.size() >= kMaxSocketPath) pattern = "/tmp/packhouse-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot create ", pattern, ": ", std::strerror(errno)));
  }
  const std::string socket = absl::StrCat(pattern, kSocketName);
  std::memcpy(running.socket.data(), socket.c_str(), socket.size() + 1);
  std::memcpy(running.directory.data(), pattern.c_str(), pattern.size() + 1);
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
  EndServer();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
}

std::string LocalServer::address() const { return absl::StrCat("unix:", running.socket.data()); }

absl::StatusOr<std::unique_ptr<LocalServer>> LocalServer::Start() {
  if (running.directory[0] != '\0') {
    return absl::FailedPreconditionError("this process has a local server already");
  }
  const absl::StatusOr<std::string> program = FindServerProgram();
  if (!program.ok()) return program.status();

  // From here on its destructor cleans up.
  std::unique_ptr<LocalServer> server(new LocalServer());
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, OnSignal);
  if (absl::Status status = MakeDirectory(); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<ServerProcess>> process = ServerProcess::Start(
      {*program, "--listen", server->address(), "--http-listen", ""}, ServerProcess::Log::kKeep);
  if (!process.ok()) return process.status();
  server->process_ = *std::move(process);
  running.child = server->process_->pid();
  if (absl::Status status = server->process_->WaitUntilReady(); !status.ok()) return status;
  return server;
}

}  // namespace packhouse::client
