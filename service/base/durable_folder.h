// The names in a folder of a store that goes on from what is on the disk.
#ifndef PACKHOUSE_SERVICE_BASE_DURABLE_FOLDER_H_
#define PACKHOUSE_SERVICE_BASE_DURABLE_FOLDER_H_

#include <atomic>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace packhouse {

// Changes names, with the three outcomes of disk_file.h. After one that is unknown nothing goes on
// until it is known: every later change, and Settle(), first sync the folder. Once that succeeds,
// what can be seen is durable, so the change is done. (Local file systems write their journal in
// order and give up at its first error, so a sync that succeeds covers what was before.) So a store
// takes the change as made when its outcome is unknown, answers with the error, and calls Settle()
// before it answers anything that depends on it.
//
// Names are those in the folder, without a slash. Thread-safe; changes wait for each other.
class DurableFolder {
 public:
  explicit DurableFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string PathOf(absl::string_view name) const;

  // OK if every change is known to be durable; costs nothing then. Otherwise syncs the folder;
  // UNAVAILABLE if that fails. Not DiskOutcomeIsUnknown(): the caller has not begun.
  absl::Status Settle();
  // Makes sure that what can be seen is durable, whoever has changed it: for a store that was
  // opened anew, perhaps after one whose sync had failed.
  absl::Status Sync();

  // The three outcomes; as Settle(), and nothing was tried, while an earlier one is unknown.
  absl::Status Put(absl::string_view name, absl::string_view bytes);
  absl::Status Rename(absl::string_view from, absl::string_view to);
  absl::Status Remove(absl::string_view name);

 private:
  absl::Status Change(absl::FunctionRef<absl::Status()> change);
  absl::Status SettleLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(changing_);

  const std::string path_;
  absl::Mutex changing_;
  std::atomic<bool> is_known_ = true;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_DURABLE_FOLDER_H_
