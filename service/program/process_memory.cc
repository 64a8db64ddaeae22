#include "service/program/process_memory.h"

#include <malloc.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/base/memory_return.h"
#include "service/base/out_of_memory.h"
#include "service/base/steady_waits.h"

namespace packhouse {
namespace {

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

}  // namespace

void TuneAllocator() {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TOP_PAD, 16 << 20);
}

void StartMemoryReturn(const rpc::Server* server, EventLog* log) {
  auto memory = std::make_unique<MemoryReturn>([server] { return ReadProcess(*server); },
                                               [] { malloc_trim(0); });
  memory->Tick(SteadyTime());
  std::thread([memory = std::move(memory), log] {
    for (;;) {
      absl::SleepFor(MemoryReturn::kInterval);
      const absl::Time start = SteadyTime();
      HasMemoryFor([&] {
        if (const auto bytes = memory->Tick(start)) {
          log->Log(LogLevel::kDebug, "memory given back",
                   {{"bytes", *bytes}, {"ms", SteadyTime() - start}});
        }
      });
    }
  }).detach();
}

}  // namespace packhouse
