#include "service/server/metrics/process_collector.h"

#include <dirent.h>
#include <sys/resource.h>
#include <time.h>

#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "service/server/metrics/families.h"

namespace packhouse::metrics {
namespace {

uint64_t NumOpenFiles() {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  uint64_t entries = 0;
  while (readdir(folder) != nullptr) ++entries;
  closedir(folder);
  // Without "." and "..", and the folder itself.
  return entries - 3;
}

}  // namespace

ProcessReading ReadThisProcess() {
  ProcessReading reading;
  // "VmRSS:     1234 kB", "Threads:  5".
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(": \t"), absl::SkipEmpty());
    uint64_t value = 0;
    if (words.size() < 2 || !absl::SimpleAtoi(words[1], &value)) continue;
    if (words[0] == "VmSize") reading.virtual_bytes = value << 10;
    if (words[0] == "VmRSS") reading.resident_bytes = value << 10;
    if (words[0] == "RssAnon") reading.anonymous_bytes = value << 10;
    if (words[0] == "Threads") reading.num_threads = value;
  }
  timespec worked = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &worked);
  reading.cpu_time = absl::DurationFromTimespec(worked);
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  reading.max_files = files.rlim_cur;
  reading.num_files = NumOpenFiles();
  return reading;
}

ProcessCollector::ProcessCollector() : started_(absl::Now()) {}

std::vector<prometheus::MetricFamily> ProcessCollector::Collect() const {
  const ProcessReading now = ReadThisProcess();
  const auto gauge = [](const char* name, const char* help, uint64_t value) {
    return GaugeFamily(name, help, static_cast<double>(value));
  };
  return {
      CounterFamily("process_cpu_seconds_total", "Processor time of the process, all threads.",
                    absl::ToDoubleSeconds(now.cpu_time)),
      gauge("process_resident_memory_bytes",
            "Memory of the process in RAM, mapped pages of the stores among it.",
            now.resident_bytes),
      gauge("packhouse_anonymous_memory_bytes",
            "Memory of the process in RAM without pages of files, which the kernel can drop.",
            now.anonymous_bytes),
      gauge("process_virtual_memory_bytes", "Addresses of the process, mapped stores among them.",
            now.virtual_bytes),
      gauge("process_threads", "Threads of the process.", now.num_threads),
      gauge("process_open_fds", "Files and connections that the process has open.", now.num_files),
      gauge("process_max_fds", "Files and connections that the process may have open.",
            now.max_files),
      GaugeFamily("process_start_time_seconds", "When the process began, since the Unix epoch.",
                  absl::ToDoubleSeconds(started_ - absl::UnixEpoch())),
  };
}

}  // namespace packhouse::metrics
