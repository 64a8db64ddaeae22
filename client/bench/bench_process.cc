#include "client/bench/bench_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

namespace packhouse::client {
namespace {

constexpr absl::Duration kReadyTimeout = absl::Seconds(20);

}  // namespace

absl::Duration OwnCpuTime() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

absl::Duration MachineCpuTime() {
  // cpu USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ ...
  std::ifstream file("/proc/stat");
  std::string name;
  std::array<int64_t, 7> ticks{};
  file >> name;
  for (int64_t& value : ticks) file >> value;
  const int64_t busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6];
  return absl::Seconds(1) * busy / sysconf(_SC_CLK_TCK);
}

absl::StatusOr<std::unique_ptr<BenchProcess>> BenchProcess::Start(
    std::vector<std::string> command) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot make a pipe: ", std::strerror(errno)));
  }
  // Everything that allocates comes before the fork.
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // The parent may have gone before the line above.
    if (getppid() == parent) execv(arguments.front(), arguments.data());
    _exit(127);
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return absl::UnavailableError(absl::StrCat("cannot fork: ", std::strerror(errno)));
  }
  std::unique_ptr<BenchProcess> process(new BenchProcess(child, ends[0]));

  const absl::Time deadline = absl::Now() + kReadyTimeout;
  while (!absl::StrContains(process->line_, "\n")) {
    pollfd readable{.fd = process->output_, .events = POLLIN, .revents = 0};
    const int64_t left = absl::ToInt64Milliseconds(deadline - absl::Now());
    if (left <= 0) {
      return absl::UnavailableError(absl::StrCat(command.front(), " is not ready after ",
                                                 absl::FormatDuration(kReadyTimeout)));
    }
    if (poll(&readable, 1, static_cast<int>(left)) <= 0) continue;
    std::array<char, 256> bytes;
    const ssize_t count = read(process->output_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      return absl::UnavailableError(absl::StrCat(command.front(), " ended before it was ready"));
    }
    process->line_.append(bytes.data(), static_cast<std::size_t>(count));
  }
  process->line_.resize(process->line_.find('\n'));
  return process;
}

BenchProcess::~BenchProcess() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  close(output_);
}

std::string BenchProcess::Listening(absl::string_view name) const {
  for (absl::string_view word : absl::StrSplit(line_, ' ')) {
    if (absl::ConsumePrefix(&word, name) && absl::ConsumePrefix(&word, "=")) {
      return std::string(word);
    }
  }
  return "";
}

absl::Duration BenchProcess::CpuTime() const {
  // Finer than the clock ticks of /proc/PID/stat.
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &time) != 0) {
    return absl::ZeroDuration();
  }
  return absl::DurationFromTimespec(time);
}

uint64_t BenchProcess::PeakMemoryBytes() const {
  std::ifstream file(absl::StrCat("/proc/", pid_, "/status"));
  for (std::string line; std::getline(file, line);) {
    absl::string_view text = line;
    uint64_t kilobytes = 0;
    if (absl::ConsumePrefix(&text, "VmHWM:") && absl::ConsumeSuffix(&text, "kB") &&
        absl::SimpleAtoi(text, &kilobytes)) {
      return kilobytes << 10;
    }
  }
  return 0;
}

void BenchProcess::ResetPeakMemory() const {
  std::ofstream(absl::StrCat("/proc/", pid_, "/clear_refs")) << "5\n";
}

}  // namespace packhouse::client
