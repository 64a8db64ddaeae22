#include "service/program/process.h"

#include <malloc.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/base/execution.h"
#include "service/base/memory_return.h"
#include "service/base/steady_waits.h"
#include "service/program/options.h"
#include "service/program/spdlog_log.h"

namespace packhouse {
namespace {

// Stores, sockets and event loops take some 40; the others are for clients.
constexpr rlim_t kLeastFiles = 64;

// What the kernel reports of this process.
MemoryReturn::Reading ReadProcess(const rpc::Server& server) {
  MemoryReturn::Reading reading;
  uint64_t pages = 0;
  uint64_t of_files = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages >> of_files;
  reading.resident_bytes = (pages - of_files) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  reading.held_bytes = server.held_bytes();
  timespec worked = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &worked);
  reading.cpu_time = absl::DurationFromTimespec(worked);
  return reading;
}

// The library's, once it is replaced.
std::terminate_handler usual_end = nullptr;

[[noreturn]] void EndForWantOfAThread() {
  const std::exception_ptr error = std::current_exception();
  try {
    if (error != nullptr) std::rethrow_exception(error);
  } catch (const std::system_error& refused) {
    if (refused.code() == std::errc::resource_unavailable_try_again) {
      SpdlogLog::LogAtOnce(
          LogLevel::kError, "ended",
          {LogField::Message(absl::StrCat(
              "the system gives no more threads (", refused.code().message(),
              "): see the limits of processes (ulimit -u, and pids.max of a container) and of a "
              "thread's stack (ulimit -s)"))});
      std::_Exit(1);
    }
  } catch (...) {
  }
  // Anything else is a bug: as ever, with the library's words and a core.
  usual_end();
  std::abort();
}

}  // namespace

void ExplainWantOfThreads() { usual_end = std::set_terminate(EndForWantOfAThread); }

absl::Status RaiseFileLimit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return absl::UnavailableError(
        absl::StrCat("the limit of open files cannot be read: ", std::strerror(errno)));
  }
  limit.rlim_cur = limit.rlim_max;
  // More than the kernel allows is refused: then it stays as it was.
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= kLeastFiles) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("at most ", limit.rlim_cur, " files may be open (ulimit -n), at least ",
                   kLeastFiles, " are needed; a connection takes one"));
}

void TuneAllocator() {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TOP_PAD, 16 << 20);
}

void StartMemoryReturn(const rpc::Server* server, EventLog* log) {
  const auto memory = std::make_shared<MemoryReturn>([server] { return ReadProcess(*server); },
                                                     [] { malloc_trim(0); });
  memory->Tick(SteadyTime());
  Repeating::ForEver(MemoryReturn::kInterval, [memory, log] {
    const absl::Time start = SteadyTime();
    if (const auto bytes = memory->Tick(start)) {
      log->Log(LogLevel::kDebug, "memory given back",
               {{"bytes", *bytes}, {"ms", SteadyTime() - start}});
    }
  });
}

void WarnOfMemoryLimit(uint64_t budget, std::optional<uint64_t> limit, EventLog& log) {
  const uint64_t needed = budget / 100 * 115 + kBytesBesideBudget;
  if (!limit || needed <= *limit) return;
  log.Log(LogLevel::kWarning, "memory limit",
          {{"limit_bytes", *limit},
           {"budget_bytes", budget},
           {"needed_bytes", needed},
           LogField::Message("the container's limit is too low for --memory-budget: the process "
                             "may be killed")});
}

void TellServiceManager(const std::string& state) {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr) return;
  const absl::string_view name = path;
  sockaddr_un manager = {};
  manager.sun_family = AF_UNIX;
  if (name.size() < 2 || name.size() >= sizeof(manager.sun_path)) return;
  name.copy(manager.sun_path, name.size());
  // A name that is no file.
  if (name[0] == '@') manager.sun_path[0] = '\0';
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) return;
  (void)!::sendto(socket, state.data(), state.size(), MSG_NOSIGNAL,
                  reinterpret_cast<const sockaddr*>(&manager),
                  static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size()));
  ::close(socket);
}

}  // namespace packhouse
