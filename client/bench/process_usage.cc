#include "client/bench/process_usage.h"

#include <time.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace packhouse::client {
namespace {

absl::Duration TimeOf(clockid_t clock) {
  timespec time{};
  return clock_gettime(clock, &time) == 0 ? absl::DurationFromTimespec(time) : absl::ZeroDuration();
}

}  // namespace

absl::Duration OwnCpuTime() { return TimeOf(CLOCK_PROCESS_CPUTIME_ID); }

absl::Duration CpuTimeOf(pid_t process) {
  // Finer than the clock ticks of /proc/PID/stat.
  clockid_t clock{};
  return clock_getcpuclockid(process, &clock) == 0 ? TimeOf(clock) : absl::ZeroDuration();
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

uint64_t PeakMemoryOf(pid_t process) {
  std::ifstream file(absl::StrCat("/proc/", process, "/status"));
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

void ResetPeakMemory(pid_t process) {
  std::ofstream(absl::StrCat("/proc/", process, "/clear_refs")) << "5\n";
}

}  // namespace packhouse::client
