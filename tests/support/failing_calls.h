// System calls on files that fail when a test says so, and a disk that loses what was not synced.
// Replaces functions of the C library for the whole program, those that libraries call too: link
// failing_calls.cc into a program of its own.
//
// It counts the steps of whatever runs, so that none is left out when code changes:
//
//   ForEachStep([&](uint64_t step) {
//     World world = ...;                       // anew for each step
//     FailingCalls failing(world.folder(), {step, EIO});
//     ... what is tried ...
//     failing.Stop();
//     ... the laws ...
//     return failing.has_failed();             // false: there is no such step
//   });
#ifndef PACKHOUSE_TESTS_SUPPORT_FAILING_CALLS_H_
#define PACKHOUSE_TESTS_SUPPORT_FAILING_CALLS_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "tests/support/files_below.h"

namespace packhouse {

// Calls that concern files in a folder, or below it, are steps, whichever thread makes them: to
// open, make, write, read, sync, cut off, rename, link and remove. Others are left alone. A step
// counts only where its error can come: EMFILE where something is opened, ENOSPC where something
// grows or is synced, EINTR where a call may be interrupted.
//
// One lives at a time. Thread-safe.
class FailingCalls {
 public:
  static constexpr uint64_t kNoStep = std::numeric_limits<uint64_t>::max();
  struct Failure {
    uint64_t step = 0;  // The first is 0. kNoStep: they are counted, and of what kind each is.
    int error = 0;
    // From this step on all fail, as on a disk that has died; otherwise this step alone.
    bool lasts = false;
    // From this step on all fail, too.
    uint64_t dies = kNoStep;
  };
  // Without a failure: counts, and remembers what was not synced.
  explicit FailingCalls(std::string folder, std::optional<Failure> failure = std::nullopt);
  ~FailingCalls();
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;

  // From now on nothing fails, nor counts.
  void Stop();
  bool has_failed() const;
  // What failed first: such as "fsync /tmp/x/y".
  std::string what() const;
  uint64_t num_steps() const;
  // Of each step that was counted: those of one kind are one call on files of one name.
  const std::vector<std::string>& kinds() const { return kinds_; }

  // The machine loses its power: names that were changed, and whose folder was not synced since,
  // are as before, and new files that were never synced are empty. Nobody may have the files open.
  // After Stop().
  void LosePower();

  // Of the functions that take the place of the C library's.
  enum class Kind { kOpen, kMake, kRead, kWrite, kGrow, kSync, kName, kCut };
  // 0, or the error that the call ends with.
  static int ErrorOf(Kind kind, const char* function, const std::string& path);
  static int ErrorOf(Kind kind, const char* function, int fd);
  // What was done. Each gives what undoes it before it is done.
  static void BeforeRename(const std::string& from, const std::string& to);
  static void BeforeUnlink(const std::string& path);
  static void AfterMake(const std::string& path, bool is_folder);
  static void AfterSync(int fd);
  // The last BeforeRename() or BeforeUnlink() of this thread did not happen.
  static void DidNotHappen();

 private:
  struct Undo {
    std::string folder;  // Until it is synced.
    std::function<void()> undo;
    uint64_t number = 0;
  };
  bool Concerns(const std::string& path) const;
  static std::string KindOf(const char* function, const std::string& path);
  int Count(Kind kind, const char* function, const std::string& path);
  void Remember(const std::string& changed, std::function<void()> undo);
  std::string Keep(const std::string& path);

  const std::string folder_;
  const std::string kept_;  // What was removed, beside the folder.
  const std::optional<Failure> failure_;
  mutable std::mutex mutex_;
  bool is_stopped_ = false;
  uint64_t num_steps_ = 0;
  uint64_t num_kept_ = 0;
  uint64_t num_undos_ = 0;
  std::string what_;
  std::vector<std::string> kinds_;
  std::vector<Undo> undos_;
  std::set<std::string> never_synced_;  // New files.
};

// Calls `attempt` with 0, 1, 2 ... until it says that there is no such step. It must be a bug if
// there are a million.
void ForEachStep(absl::FunctionRef<bool(uint64_t step)> attempt);

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_FAILING_CALLS_H_
