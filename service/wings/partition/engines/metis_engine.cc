#include "service/wings/partition/engines/metis_engine.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/base/quoted.h"
#include "service/base/shared_memory.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/engines/metis_exchange.h"

namespace packhouse {
namespace {

// Movable; thread-compatible. The thread that starts a child must live until it has ended, since
// children may have asked to be killed with it (PR_SET_PDEATHSIG).
class ChildProcess {
 public:
  ChildProcess() = default;
  // Kills the child if it runs, and waits for its end.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept { *this = std::move(other); }
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Starts `program` without arguments, in a process group of its own, with signals as they are by
  // default. It has nothing to read, writes what it prints to `output`, and has `files` (numbers of
  // 16 or more) from 3 on; no other file is open in it. INTERNAL naming the program and the
  // system's reason.
  static absl::StatusOr<ChildProcess> Start(const std::string& program, int output,
                                            absl::Span<const int> files);

  // Readable when the child has ended.
  int end_file() const { return end_file_; }
  // Kills it, if it has not ended.
  void Kill();
  // Waits for its end. The result is as waitpid() gives it.
  int Wait();

 private:
  pid_t pid_ = -1;
  int end_file_ = -1;
};

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

using SteadyClock = std::chrono::steady_clock;

// Numbers below this are given to the child's own files.
constexpr SharedMemory::Options kForChild = {.least_file = 16};

class SharedArray final : public EngineArray {
 public:
  absl::Status Reserve(uint64_t capacity) override {
    PH_ASSIGN_OR_RETURN(SharedMemory grown,
                        SharedMemory::Create(capacity * sizeof(uint32_t), kForChild));
    if (memory_.data() != nullptr) {
      std::memcpy(grown.data(), memory_.data(), std::min(grown.size(), memory_.size()));
    }
    memory_ = std::move(grown);
    return absl::OkStatus();
  }
  uint32_t* data() override { return reinterpret_cast<uint32_t*>(memory_.data()); }
  int file() const { return memory_.file(); }

 private:
  SharedMemory memory_;
};

// What the child printed: METIS's reason. The file has a byte 0 before anything is.
std::string Printed(int output) {
  char text[512];
  const ssize_t bytes = pread(output, text, sizeof(text), 0);
  if (bytes <= 0) return "";
  absl::string_view printed(text, static_cast<size_t>(bytes));
  printed = absl::StripAsciiWhitespace(printed.substr(0, printed.find('\0')));
  return printed.empty() ? "" : absl::StrCat("; it printed ", Quoted(printed));
}

// One call.
class MetisChild {
 public:
  absl::Status Start(const std::string& program, const EngineProblem& problem,
                     const EngineAttempt& attempt, const EngineLimits& limits) {
    memory_bytes_ = limits.memory_bytes;
    PH_RETURN_IF_ERROR(Prepare(problem, attempt));
    PH_ASSIGN_OR_RETURN(output_, SharedMemory::Create(1, kForChild));
    std::vector<int> files = {call_.file(),
                              static_cast<const SharedArray*>(problem.neighbours)->file()};
    if (problem.weights != nullptr) {
      files.push_back(static_cast<const SharedArray*>(problem.weights)->file());
    }
    PH_ASSIGN_OR_RETURN(child_, ChildProcess::Start(program, output_.file(), files));
    running_ = true;
    if (limits.time_limit < absl::Hours(24 * 365)) {
      deadline_ = SteadyClock::now() + absl::ToChronoNanoseconds(limits.time_limit);
    }
    time_limit_ = limits.time_limit;
    return absl::OkStatus();
  }

  bool running() const { return running_; }
  int end_file() const { return child_.end_file(); }
  bool TimeIsUp(SteadyClock::time_point now) const {
    return deadline_.has_value() && now >= *deadline_;
  }

  absl::Status Stop(absl::Status why) {
    child_.Kill();
    child_.Wait();
    running_ = false;
    return why;
  }
  absl::Status TimeError() const {
    return absl::DeadlineExceededError(
        absl::StrCat("METIS did not end within ", absl::FormatDuration(time_limit_)));
  }

  absl::StatusOr<std::vector<uint32_t>> End(uint32_t num_parts) {
    const int status = child_.Wait();
    running_ = false;
    const MetisCall& call = head();
    if (WIFSIGNALED(status)) {
      return absl::InternalError(absl::StrCat("METIS's process was ended by signal ",
                                              WTERMSIG(status), " (", strsignal(WTERMSIG(status)),
                                              ")", Printed(output_.file())));
    }
    if (WEXITSTATUS(status) != 0 || call.ended != 1) {
      return absl::InternalError(absl::StrCat("METIS's process ended with status ",
                                              WEXITSTATUS(status), " and no result",
                                              Printed(output_.file())));
    }
    constexpr int kOk = 1;  // METIS_OK, METIS_ERROR_MEMORY: metis.h is the program's alone.
    constexpr int kOutOfMemory = -3;
    if (call.status == kOutOfMemory) {
      return absl::ResourceExhaustedError(
          absl::StrCat("METIS ran out of memory, of ", memory_bytes_, " bytes"));
    }
    if (call.status != kOk) {
      return absl::InternalError(
          absl::StrCat("METIS failed with status ", call.status, Printed(output_.file())));
    }
    const auto* part = reinterpret_cast<const uint32_t*>(call_.data() + call.part_at());
    std::vector<uint32_t> parts(part, part + call.num_nodes);
    const auto wrong = std::find_if(parts.begin(), parts.end(),
                                    [num_parts](uint32_t p) { return p >= num_parts; });
    if (wrong != parts.end()) {
      return absl::InternalError(absl::StrCat("METIS gave node ", wrong - parts.begin(), " part ",
                                              *wrong, " of ", num_parts));
    }
    return parts;
  }

 private:
  MetisCall& head() { return *reinterpret_cast<MetisCall*>(call_.data()); }

  absl::Status Prepare(const EngineProblem& problem, const EngineAttempt& attempt) {
    MetisCall call;
    call.num_entries = problem.offsets.back();
    call.parent = getpid();
    call.num_nodes = static_cast<int32_t>(problem.num_nodes);
    call.num_constraints = static_cast<int32_t>(problem.num_constraints);
    call.num_parts = static_cast<int32_t>(problem.num_parts);
    call.recursive = attempt.scheme == PartScheme::kRecursive ? 1 : 0;
    call.volume = attempt.objective == PartObjective::kVolume ? 1 : 0;
    // METIS takes -1 as the absence of a seed.
    call.seed = static_cast<int32_t>(std::min(attempt.seed, EngineAttempt::kMostSeed));
    call.has_edge_weights = problem.weights != nullptr ? 1 : 0;
    call.has_sizes = problem.node_sizes.empty() ? 0 : 1;
    call.file_bytes = call.bytes();
    const uint64_t shared = call.bytes() + call.num_entries * (problem.weights != nullptr ? 8 : 4);
    if (memory_bytes_ != 0) {
      if (memory_bytes_ <= shared) {
        return absl::ResourceExhaustedError(absl::StrCat("the arrays for METIS take ", shared,
                                                         " bytes, and its memory is bounded to ",
                                                         memory_bytes_));
      }
      call.heap_bytes = memory_bytes_ - shared;
    }
    PH_ASSIGN_OR_RETURN(call_, SharedMemory::Create(call.bytes(), kForChild));
    std::memcpy(call_.data(), &call, sizeof(call));
    auto* imbalance = reinterpret_cast<float*>(call_.data() + call.imbalance_at());
    for (const double value : problem.imbalance) {
      *imbalance++ = static_cast<float>(ToleranceFor(problem, attempt, value));
    }
    auto* offsets = reinterpret_cast<uint32_t*>(call_.data() + call.offsets_at());
    for (const uint64_t offset : problem.offsets) *offsets++ = static_cast<uint32_t>(offset);
    std::memcpy(call_.data() + call.node_weights_at(), problem.node_weights.data(),
                problem.node_weights.size() * sizeof(uint32_t));
    if (!problem.node_sizes.empty()) {
      std::memcpy(call_.data() + call.sizes_at(), problem.node_sizes.data(),
                  problem.node_sizes.size() * sizeof(uint32_t));
    }
    return absl::OkStatus();
  }

  // Bisections multiply what each leaves uneven: they get METIS's own defaults unless less is
  // asked.
  static double ToleranceFor(const EngineProblem& problem, const EngineAttempt& attempt,
                             double asked) {
    if (attempt.scheme == PartScheme::kKWay) return asked;
    return std::min(asked, problem.num_constraints == 1 ? 1.001 : 1.01);
  }

  uint64_t memory_bytes_ = 0;
  absl::Duration time_limit_;
  std::optional<SteadyClock::time_point> deadline_;
  SharedMemory call_;
  SharedMemory output_;
  ChildProcess child_;
  bool running_ = false;
};

class MetisEngine final : public AssignmentEngine {
 public:
  explicit MetisEngine(std::string program) : program_(std::move(program)) {}

  absl::StatusOr<std::unique_ptr<EngineArray>> NewArray() override {
    return std::make_unique<SharedArray>();
  }

  std::vector<absl::StatusOr<std::vector<uint32_t>>> Run(
      const EngineProblem& problem, absl::Span<const EngineAttempt> attempts,
      const EngineLimits& limits, const std::function<bool()>& cancelled) override {
    std::vector<absl::StatusOr<std::vector<uint32_t>>> results(
        attempts.size(), absl::CancelledError("partitioning was cancelled"));
    std::vector<MetisChild> children(attempts.size());
    size_t next = 0;
    size_t running = 0;
    while (next < attempts.size() || running > 0) {
      if (cancelled && cancelled()) break;  // Children are killed where they are destroyed.
      while (next < attempts.size() && running < std::max<uint32_t>(limits.parallel, 1)) {
        absl::Status started = children[next].Start(program_, problem, attempts[next], limits);
        if (started.ok()) {
          ++running;
        } else {
          results[next] = std::move(started);
        }
        ++next;
      }
      WaitForAny(children);
      for (size_t i = 0; i < next; ++i) {
        if (!children[i].running()) continue;
        pollfd end{children[i].end_file(), POLLIN, 0};
        if (poll(&end, 1, 0) > 0) {
          results[i] = children[i].End(problem.num_parts);
          --running;
        } else if (children[i].TimeIsUp(SteadyClock::now())) {
          results[i] = children[i].Stop(children[i].TimeError());
          --running;
        }
      }
    }
    return results;
  }

 private:
  static void WaitForAny(const std::vector<MetisChild>& children) {
    constexpr int kMilliseconds = 50;
    std::vector<pollfd> ends;
    for (const MetisChild& child : children) {
      if (child.running()) ends.push_back({child.end_file(), POLLIN, 0});
    }
    if (!ends.empty()) poll(ends.data(), ends.size(), kMilliseconds);
  }

  const std::string program_;
};

}  // namespace

std::string MetisProgramHere() {
  std::error_code error;
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe", error);
  return (here.parent_path() / "packhouse-metis").string();
}

absl::StatusOr<std::unique_ptr<AssignmentEngine>> MakeMetisEngine(std::string program) {
  if (access(program.c_str(), X_OK) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("METIS's program ", program, " cannot be executed"));
  }
  return std::make_unique<MetisEngine>(std::move(program));
}

}  // namespace packhouse
