// One program that is started, watched and, if need be, killed.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_ENGINES_CHILD_PROCESS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_ENGINES_CHILD_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace packhouse {

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

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_ENGINES_CHILD_PROCESS_H_
