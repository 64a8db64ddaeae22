// Checks whether the file of an open environment is still unchanged and in its place.
//
// The file may be removed, replaced or cut off while it is open, and a page may turn out to be
// unreadable. None of this ends the process (MapGuard), and nothing is reported as durable in a
// file that is gone. From then on the file counts as broken, permanently, and every check gives
// DATA_LOSS naming the file.
//
// A commit may make a file as long again that was cut off while it wrote; the hole that is left
// shows the cut. Not detected are cuts of no more than the commit wrote, cuts of a part of a page,
// and all such cuts on a file system that does not report holes at once, such as ZFS.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_DATA_FILE_WATCH_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_DATA_FILE_WATCH_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "service/stores/lmdb/map_guard.h"
#include "service/stores/lmdb/store_folder.h"

namespace packhouse {

// Thread-safe once it has started, except that only the one thread that commits may call
// BeforeCommit() and AfterCommit().
class DataFileWatch {
 public:
  DataFileWatch() = default;
  ~DataFileWatch();
  DataFileWatch(const DataFileWatch&) = delete;
  DataFileWatch& operator=(const DataFileWatch&) = delete;

  // To be called before LMDB maps the files of `folder`. `folder` must outlive this.
  void BeforeOpening(const StoreFolder* folder);
  // To be called after that; `data_fd` is LMDB's own. UNAVAILABLE if the maps are not found.
  absl::Status Start(int data_fd);
  // To be called when LMDB's page size is known. UNAVAILABLE if the file cannot be read.
  absl::Status SetPageBytes(size_t page_bytes);

  // DATA_LOSS naming the file if it was removed, replaced or cut off, or some of it could not be
  // read. UNAVAILABLE if that cannot be determined. Two system calls.
  absl::Status Check() const;
  // DATA_LOSS once any call, or reading, has noticed the above; no system call.
  absl::Status failure() const;
  bool is_broken() const { return is_broken_.load(std::memory_order_acquire); }
  // Whether a page could not be read. Once true, it stays true.
  bool has_unreadable() const { return data_guard_.has_failed() || table_guard_.has_failed(); }
  // Marks the file as broken, since a function of LMDB could not be finished; returns the reason.
  absl::Status BreakUnreadable() const;

  // Called around a commit. They check that nobody else has written to the meta pages (a commit
  // leaves one of them as it was), and that the file has no new hole. `committed`: the result of
  // the commit, which is returned if it is an error. UNAVAILABLE before a commit that cannot be
  // checked: nothing has happened then.
  absl::Status BeforeCommit() const;
  absl::Status AfterCommit(absl::Status committed) const;

  // StopGuarding: to be called before LMDB's maps are removed. The other is for a broken file: its
  // maps stay, and are guarded until the process ends.
  void StopGuarding();
  void GuardForEver();

 private:
  // All that LMDB writes of a meta page.
  static constexpr size_t kMetaBytes = 160;
  // In place: what is read after a commit, which is durable by then, may not fail for want of
  // memory.
  using MetaPages = std::array<std::array<char, kMetaBytes>, 2>;

  // The first caller gives the reason; all others get the same status.
  absl::Status Break(absl::string_view why) const;
  // UNAVAILABLE if the disk does not give them.
  absl::StatusOr<MetaPages> ReadMetaPages() const;
  // After a commit that failed. If the disk does not take a meta page, LMDB writes the number of
  // the old commit over the trees of the new one, which look as if a number had been damaged.
  void PutMetaPagesBack(const MetaPages& written) const;
  // The first hole in the searched part of the file; the end of that part if there is none.
  uint64_t FirstHole() const;

  // Constant after Start().
  const StoreFolder* folder_ = nullptr;
  std::string data_path_;  // Of the folder.
  std::vector<const void*> maps_before_;
  int data_fd_ = -1;
  int holes_fd_ = -1;  // Ours, if the file system reports holes.
  size_t page_bytes_ = 0;
  // If one file system lies over another, the file with the name may seem to be another file.
  bool names_tell_files_ = true;
  MapGuard data_guard_;
  MapGuard table_guard_;

  // The greatest length that the file had.
  mutable std::atomic<uint64_t> file_bytes_ = 0;
  // Used by the one thread that commits.
  mutable MetaPages meta_pages_ = {};
  // Set by that thread before a commit. Holes are searched in the last part of the file as it was
  // then: every cut includes that part.
  mutable std::atomic<uint64_t> looked_from_ = 0;
  mutable std::atomic<uint64_t> looked_to_ = 0;
  mutable std::atomic<uint64_t> first_hole_ = 0;
  // True until the file has been checked again.
  mutable std::atomic<bool> is_committing_ = false;

  mutable std::atomic<bool> is_broken_ = false;
  mutable absl::Mutex mutex_;
  mutable absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_DATA_FILE_WATCH_H_
